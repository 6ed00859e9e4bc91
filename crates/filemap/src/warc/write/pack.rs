//! One compressed member a record: gzip (WARC 1.1, annex D), zstd (Zstandard Compression for WARC
//! Files 1.0), or plain.
//!
//! A zstd file begins with its dictionary in a skippable frame. Each frame has its content size, a
//! checksum and the dictionary's id, as that specification requires. The bytes depend only on the
//! records and the level, not on the time.

use std::borrow::Cow;
use std::io::{self, Write};
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;

use flate2::write::GzEncoder;
use zstd::dict::EncoderDictionary;
use zstd::stream::Encoder;

/// Compression of the records of a file.
///
/// ```
/// use filemap::dump::{DumpOptions, Format};
/// use filemap::warc::Compression;
/// let options = DumpOptions::new("crawl", &[Format::Warc]).compression(Compression::Zstd);
/// assert_eq!(Compression::Zstd.extension(), "warc.zst");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// gzip, which every WARC reader supports (`.warc.gz`).
    #[default]
    Gzip,
    /// zstd with a dictionary trained on the first records: smaller, supported by fewer programs
    /// (`.warc.zst`).
    Zstd,
    /// Uncompressed (`.warc`).
    Plain,
}

impl Compression {
    /// The file name extension.
    pub fn extension(self) -> &'static str {
        match self {
            Compression::Gzip => "warc.gz",
            Compression::Zstd => "warc.zst",
            Compression::Plain => "warc",
        }
    }
}

const GZIP_LEVEL: u32 = 6;
const ZSTD_LEVEL: i32 = 9;
/// The highest level without windows over 8 MiB, which readers need not support.
const DICTIONARY_LEVEL: i32 = 19;
const DICTIONARY_MAGIC: [u8; 4] = [0x5d, 0x2a, 0x4d, 0x18];
/// The default of the zstd command line.
const MAX_DICTIONARY_BYTES: usize = 112_640;
/// Bytes of each record used for training: records share heads and beginnings of bodies.
const MAX_SAMPLE_BYTES: usize = 64 << 10;
/// With fewer samples, the dictionary in every file would cost more than it saves.
const MIN_SAMPLES: usize = 32;
const MIN_SAMPLE_BYTES: usize = 1 << 20;

/// Members made by one thread, each with the number of its record.
type Done = Vec<(usize, Vec<u8>)>;

/// Compresses records.
pub(crate) struct Packer {
    compression: Compression,
    dictionary: Option<(Vec<u8>, EncoderDictionary<'static>)>,
}

impl Packer {
    pub(crate) fn new(compression: Compression) -> Packer {
        Packer { compression, dictionary: None }
    }

    pub(crate) fn compression(&self) -> Compression {
        self.compression
    }

    /// Trains a dictionary for all later members on these records, if there are enough.
    pub(crate) fn train<'a>(&mut self, records: impl Iterator<Item = &'a [u8]>) {
        let samples: Vec<&[u8]> = records.map(|record| &record[..record.len().min(MAX_SAMPLE_BYTES)]).collect();
        let bytes: usize = samples.iter().map(|sample| sample.len()).sum();
        if self.compression != Compression::Zstd || samples.len() < MIN_SAMPLES || bytes < MIN_SAMPLE_BYTES {
            return;
        }
        // Training fails on samples without common text, which need no dictionary.
        let max_bytes = MAX_DICTIONARY_BYTES.min(bytes / 16);
        self.dictionary = zstd::dict::from_samples(&samples, max_bytes).ok().map(|dictionary| {
            let prepared = EncoderDictionary::copy(&dictionary, ZSTD_LEVEL);
            (dictionary, prepared)
        });
    }

    /// The bytes before the first record of a file.
    pub(crate) fn begin(&self) -> io::Result<Vec<u8>> {
        let Some((dictionary, _)) = &self.dictionary else { return Ok(Vec::new()) };
        let packed = zstd_frame(Encoder::new(Vec::new(), DICTIONARY_LEVEL)?, dictionary)?;
        Ok([&DICTIONARY_MAGIC[..], &(packed.len() as u32).to_le_bytes(), &packed].concat())
    }

    /// Compresses these records to members, in order, on one thread per core.
    pub(crate) fn members<'a>(&self, records: Vec<&'a [u8]>) -> io::Result<Vec<Cow<'a, [u8]>>> {
        if self.compression == Compression::Plain {
            return Ok(records.into_iter().map(Cow::Borrowed).collect());
        }
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let threads = cores.min(records.len());
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(record) = records.get(at) else { return Ok(done) };
                done.push((at, self.member(record)?));
            }
        };
        let done: io::Result<Vec<Done>> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let own = work();
            let join = |thread: ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            std::iter::once(own).chain(others.into_iter().map(join)).collect()
        });
        let mut members: Done = done?.into_iter().flatten().collect();
        members.sort_unstable_by_key(|(at, _)| *at);
        Ok(members.into_iter().map(|(_, member)| Cow::Owned(member)).collect())
    }

    /// Compresses one record to a member.
    fn member(&self, record: &[u8]) -> io::Result<Vec<u8>> {
        let out = Vec::with_capacity(record.len() / 3);
        match (self.compression, &self.dictionary) {
            (Compression::Plain, _) => Ok(record.to_vec()),
            (Compression::Gzip, _) => {
                let mut encoder = GzEncoder::new(out, flate2::Compression::new(GZIP_LEVEL));
                encoder.write_all(record)?;
                encoder.finish()
            }
            (Compression::Zstd, None) => zstd_frame(Encoder::new(out, ZSTD_LEVEL)?, record),
            (Compression::Zstd, Some((_, dictionary))) => {
                zstd_frame(Encoder::with_prepared_dictionary(out, dictionary)?, record)
            }
        }
    }
}

/// Compresses `content` to a frame with the fields that the specification requires.
fn zstd_frame(mut encoder: Encoder<'_, Vec<u8>>, content: &[u8]) -> io::Result<Vec<u8>> {
    encoder.set_pledged_src_size(Some(content.len() as u64))?;
    encoder.include_contentsize(true)?;
    encoder.include_checksum(true)?;
    encoder.include_dictid(true)?;
    encoder.write_all(content)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Vec<Vec<u8>> {
        let words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"];
        let text = |seed: usize| -> String {
            (0..6000).map(|at: usize| format!("{} {} ", words[(at * at + seed * 7) % 8], (at * seed) % 97)).collect()
        };
        (1..60).map(|seed| text(seed).into_bytes()).collect()
    }

    fn trained() -> Packer {
        let mut packer = Packer::new(Compression::Zstd);
        packer.train(records().iter().map(Vec::as_slice));
        packer
    }

    #[test]
    fn frames_have_size_checksum_and_dictionary_id() {
        let packer = trained();
        let (dictionary, _) = packer.dictionary.as_ref().expect("trained");
        let out = packer.members(vec![b"some text"]).expect("memory").remove(0);
        // RFC 8878, 3.1.1: magic number, descriptor (bits 0-1: an id of 4 bytes, bit 2: a
        // checksum, bit 5: one segment with a content size of one byte), id, content size.
        assert_eq!(out[..4], [0x28, 0xb5, 0x2f, 0xfd]);
        assert_eq!(out[4] & 0b0010_0111, 0b0010_0111);
        assert_eq!(out[5..9], dictionary[4..8]);
        assert_eq!(out[9], 9);
        let mut decoder = zstd::stream::Decoder::with_dictionary(&out[..], dictionary).expect("memory");
        let mut text = Vec::new();
        io::Read::read_to_end(&mut decoder, &mut text).expect("whole");
        assert_eq!(text, b"some text");
    }

    #[test]
    fn a_file_begins_with_its_dictionary_in_a_frame_of_its_own() {
        let packer = trained();
        let out = packer.begin().expect("memory");
        assert_eq!(out[..4], DICTIONARY_MAGIC);
        assert_eq!(u32::from_le_bytes(out[4..8].try_into().unwrap()) as usize, out.len() - 8);
        let dictionary = zstd::decode_all(&out[8..]).expect("a frame");
        assert_eq!(dictionary[..4], [0x37, 0xa4, 0x30, 0xec], "a dictionary in zstd's own format");
        assert_eq!(Some(&dictionary), packer.dictionary.as_ref().map(|(dictionary, _)| dictionary));
        let again = trained().begin().expect("memory");
        assert!(out == again, "the same records give the same dictionary");
    }

    #[test]
    fn members_come_in_the_order_of_their_records() {
        let records = records();
        for packer in [trained(), Packer::new(Compression::Gzip), Packer::new(Compression::Plain)] {
            let members = packer.members(records.iter().map(Vec::as_slice).collect()).expect("memory");
            assert_eq!(members.len(), records.len());
            for (member, record) in members.iter().zip(&records) {
                assert!(*member == packer.member(record).expect("memory"));
            }
        }
    }

    #[test]
    fn few_records_and_other_compressions_have_no_dictionary() {
        for compression in [Compression::Gzip, Compression::Plain] {
            let mut packer = Packer::new(compression);
            packer.train(records().iter().map(Vec::as_slice));
            assert!(packer.dictionary.is_none());
        }
        let mut packer = Packer::new(Compression::Zstd);
        packer.train(std::iter::repeat_n(&b"x"[..], 100));
        assert_eq!(packer.begin().expect("memory"), b"");
    }
}
