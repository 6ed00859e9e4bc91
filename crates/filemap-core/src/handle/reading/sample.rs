//! Samples of the log: stretches spread evenly over it, so that the cost is bounded for any size
//! of store. Used to make dictionaries on demand and to estimate recompression.

use crate::error::Result;
use crate::format::location::{Location, SizeClass};
use crate::format::value::{self, Header, Kind};
use crate::handle::reading::Reading;
use crate::logs::scan::Item;
use crate::logs::segments::FIRST_RECORD;

const STRETCH_BYTES: u64 = 4 << 20;
/// Greatest number of sampled stretches.
const STRETCHES: u64 = 256;

/// Estimated result of recompression: see
/// [`Store::try_recompression`](crate::Store::try_recompression).
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// let estimate = store.try_recompression(9)?;
/// println!("{} of {} records would get shorter", estimate.shorter_records, estimate.records);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecompressionEstimate {
    /// Records tried: pages and chunks.
    pub records: u64,
    /// Records that would get shorter.
    pub shorter_records: u64,
    /// Bytes of their bodies, uncompressed.
    pub body_bytes: u64,
    /// Bytes of their bodies as stored.
    pub payload_bytes: u64,
    /// The same after recompression.
    pub recompressed_payload_bytes: u64,
    /// Bytes of the whole records as stored.
    pub stored_bytes: u64,
    /// The same after recompression.
    pub recompressed_stored_bytes: u64,
}

/// A whole record in the sample.
pub(crate) struct Met<'a> {
    pub(crate) location: Location,
    pub(crate) size: SizeClass,
    pub(crate) header: Header,
    pub(crate) bytes: &'a [u8],
}

impl Met<'_> {
    pub(crate) fn key(&self) -> &[u8] {
        &self.bytes[self.header.key_at()..self.header.meta_at()]
    }
}

impl Reading {
    /// Passes whole records to `f`: all of a small log, else those of evenly spread stretches.
    /// Returns the length of the log divided by the length sampled.
    ///
    /// # Errors
    /// Those of `f`; `Io`, `Corrupt` if a segment cannot be read.
    pub(crate) fn sample_log(&self, f: &mut dyn FnMut(&Met<'_>) -> Result<()>) -> Result<f64> {
        let (total, _) = self.values.segments.bytes();
        let stretches = total.div_ceil(STRETCH_BYTES);
        let every = stretches.div_ceil(STRETCHES).max(1);
        let (mut number, mut seen) = (0, 0);
        for segment in self.values.segments.all().iter() {
            let file = match self.values.segments.file(segment) {
                // Removed by compaction meanwhile.
                Err(e) if e.is_corrupt() && self.values.segments.get(segment.id).is_err() => continue,
                file => file?,
            };
            let len = file.len().map_err(|e| crate::Error::io("measure", segment.name())(e))?;
            for start in (0..len).step_by(STRETCH_BYTES as usize) {
                number += 1;
                if (number - 1) % every != 0 {
                    continue;
                }
                // A record cut off at the end is a gap in the next stretch.
                let end = (start + STRETCH_BYTES).min(len);
                seen += end - start;
                let mut scan = self.values.scan(segment, &*file, start.max(FIRST_RECORD), end)?;
                while let Some(item) = scan.next()? {
                    let Item::Record { offset, bytes } = item else { continue };
                    let Ok(header) = value::peek(bytes) else { continue };
                    let (location, size) = (Location::new(segment.id, offset), SizeClass::of(bytes.len() as u64));
                    f(&Met { location, size, header, bytes })?;
                }
            }
        }
        Ok(total as f64 / seen.max(1) as f64)
    }

    /// See [`Store::try_recompression`](crate::Store::try_recompression).
    pub(crate) fn try_recompression(&self, level: i32) -> Result<RecompressionEstimate> {
        self.check_open()?;
        let mut sum = RecompressionEstimate::default();
        self.sample_log(&mut |met| {
            let (h, bytes) = (&met.header, met.bytes);
            if !matches!(h.kind, Kind::Page | Kind::Chunk) {
                return Ok(());
            }
            let payload = &bytes[h.payload_at()..][..h.payload_bytes as usize];
            let meta = &bytes[h.meta_at()..h.payload_at()];
            let new = self.recompress(met.location, met.key(), h, (meta, payload), level)?;
            sum.records += 1;
            sum.body_bytes += h.raw_bytes;
            sum.payload_bytes += u64::from(h.payload_bytes);
            sum.stored_bytes += h.total_bytes();
            sum.shorter_records += u64::from(new.is_some());
            let after = new.as_ref().map_or(h, |n| &n.header);
            sum.recompressed_payload_bytes += u64::from(after.payload_bytes);
            sum.recompressed_stored_bytes += after.total_bytes();
            Ok(())
        })?;
        Ok(sum)
    }
}
