//! Estimates how bodies are compressed (with a dictionary, without one, or not) from a sample of
//! the value log.
//!
//! No counter follows this as records come and go, so a part of some segments is read. The bytes
//! read are bounded, whatever the store's size. Dead records that are not compacted yet count too.

use std::sync::Arc;

use crate::error::Result;
use crate::format::value::{self, Codec, Kind};
use crate::logs::scan::Item;
use crate::logs::segments::{FIRST_RECORD, Segment};
use crate::store::Store;
use crate::store::pages::is_named;

/// Greatest number of segments read, evenly spread over the log.
const SEGMENTS: usize = 16;

/// Bodies stored in one way; large ones count by their chunks.
///
/// ```
/// let none = filemap_core::dictionaries::BodiesStored::default();
/// assert_eq!((none.bodies, none.bytes, none.stored_bytes), (0, 0, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BodiesStored {
    /// Number of bodies.
    pub bodies: u64,
    /// Their bytes, uncompressed.
    pub bytes: u64,
    /// Their bytes in the value log, without keys and metas.
    pub stored_bytes: u64,
}

/// A sample of how bodies are compressed; see [`Store::sample_compression`].
///
/// ```
/// let none = filemap_core::dictionaries::CompressionSample::default();
/// assert_eq!(none.raw, none.with_dictionary);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompressionSample {
    /// Bodies compressed with a dictionary.
    pub with_dictionary: BodiesStored,
    /// Bodies compressed without one.
    pub without_dictionary: BodiesStored,
    /// Bodies stored uncompressed.
    pub raw: BodiesStored,
    /// Bytes of the value log that were read.
    pub read_bytes: u64,
    /// Length of the value log in bytes.
    pub log_bytes: u64,
    /// Damaged places, and chosen segments that could not be read: not in the sample.
    pub missed: u64,
}

impl Store {
    /// Estimates how bodies are compressed. Reads about `most_bytes` of the value log, in up to 16
    /// segments, bypassing the page cache where possible; all of a log that is shorter.
    ///
    /// ```
    /// # let temp = tempfile::tempdir()?;
    /// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
    /// store.put(&filemap_core::Record::new(b"http://a.example/", &[b'a'; 4096]).time(7))?;
    /// let sample = store.sample_compression(16 << 20)?;
    /// assert_eq!((sample.without_dictionary.bodies, sample.without_dictionary.bytes), (1, 4096));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// I/O errors. Damage is counted, not returned.
    pub fn sample_compression(&self, most_bytes: u64) -> Result<CompressionSample> {
        let (reading, mut sample) = (&self.reading, CompressionSample::default());
        let (end, _) = reading.log_end();
        let all = reading.values().segments.all();
        let is_part = |s: &&Arc<Segment>| if s.is_output { is_named(reading, s) } else { s.ordinal <= end.ordinal };
        let all: Vec<&Arc<Segment>> = all.iter().filter(is_part).collect();
        let chosen = all.len().min(SEGMENTS);
        let part = most_bytes / chosen.max(1) as u64;
        sample.log_bytes = self.segments().iter().map(|segment| segment.bytes).sum();
        for nth in 0..chosen {
            // The first, the last, and the rest evenly between them.
            let segment = all[nth * (all.len() - 1) / (chosen - 1).max(1)];
            let file = match reading.values().segments.file(segment) {
                // Missing, or removed by compaction just now.
                Err(error) if error.is_corrupt() => {
                    sample.missed += 1;
                    continue;
                }
                file => file?,
            };
            let is_last = !segment.is_output && segment.ordinal == end.ordinal;
            let cut = FIRST_RECORD.saturating_add(part);
            let range = FIRST_RECORD..if is_last { end.offset } else { u64::MAX };
            let mut scan = reading.values().scan_part(segment, &*file, range, None)?.once();
            // Ends with the last record that begins within the part: a record may be as long as
            // the part.
            while scan.offset() < cut
                && let Some(item) = scan.next()?
            {
                match item {
                    Item::Record { bytes, .. } => sample.note(bytes),
                    Item::Gap { .. } => sample.missed += 1,
                    Item::Filler { .. } => {}
                }
            }
            sample.read_bytes += scan.offset() - FIRST_RECORD;
        }
        Ok(sample)
    }
}

impl CompressionSample {
    fn note(&mut self, record: &[u8]) {
        let Ok(header) = value::peek(record) else { return };
        if !matches!(header.kind, Kind::Page | Kind::Chunk) || header.raw_bytes == 0 {
            return;
        }
        let of = match header.codec {
            Codec::Raw => &mut self.raw,
            Codec::Zstd => &mut self.without_dictionary,
            Codec::Dictionary => &mut self.with_dictionary,
        };
        of.bodies += 1;
        of.bytes += header.raw_bytes;
        of.stored_bytes += u64::from(header.payload_bytes);
    }
}
