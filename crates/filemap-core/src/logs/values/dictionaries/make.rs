//! Makes dictionaries from sample pages, and tries them on held-out ones. docs/DICTIONARIES.md has
//! the measurements behind the constants.
//!
//! Invariant: the same samples give the same dictionary.

use zstd::dict::CDict;
use zstd::zstd_safe::{self, CCtx, compress_bound};

use crate::format::dictionary::MAX_BYTES;

/// First bytes of a dictionary trained by zstd; the next four are its id.
const MAGIC: [u8; 4] = [0x37, 0xa4, 0x30, 0xec];
/// One sample in this many is held out for trials.
const HELD_OUT: usize = 8;
/// A trained dictionary is tried if the samples are at least this many times its length; with less
/// it hardly ever wins.
const TRAINED_ON: usize = 24;
/// One part in this many of a dictionary of whole pages is trained: for entropy tables and common
/// content of pages.
const TRAINED_PART: usize = 2;
/// The trained part needs only this many times its length, since whole pages make up for its gaps.
const PART_TRAINED_ON: usize = 8;
/// Most bytes of one page in a dictionary of whole pages: many pages beat long ones.
const PAGE_BYTES: usize = 48 << 10;
/// Shorter dictionaries are not worth a file.
const LEAST_BYTES: usize = 256;

/// Samples for a dictionary: bodies, or metas. One in eight is held out for trials.
///
/// ```
/// use filemap_core::dictionaries::Samples;
/// let mut samples = Samples::default();
/// for nth in 0..400 {
///     let boilerplate = "navigation of the site, the same on every page ".repeat(8);
///     samples.add(format!("<html><head><title>{nth}</title></head><body>{boilerplate}{nth}").into_bytes());
/// }
/// let made = samples.dictionary(16 << 10, 3).expect("enough samples");
/// assert!(made.compressed_bytes < samples.tried(b"", 3).expect("they compress"));
/// ```
#[derive(Debug, Default)]
pub struct Samples {
    pages: Vec<Vec<u8>>,
    held_out: Vec<Vec<u8>>,
    raw_bytes: usize,
}

/// A dictionary, and the compressed size of the held-out samples with it.
///
/// ```
/// use filemap_core::dictionaries::Samples;
/// assert!(Samples::default().dictionary(16 << 10, 3).is_none(), "no samples");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Candidate {
    /// The dictionary as zstd takes it.
    pub content: Vec<u8>,
    /// Bytes of the held-out samples, compressed with it.
    pub compressed_bytes: u64,
}

impl Samples {
    /// Adds a sample, unless it is empty.
    pub fn add(&mut self, sample: Vec<u8>) {
        if sample.is_empty() {
            return;
        }
        self.raw_bytes += sample.len();
        let is_held_out = (self.pages.len() + self.held_out.len()) % HELD_OUT == HELD_OUT / 2;
        if is_held_out { &mut self.held_out } else { &mut self.pages }.push(sample);
    }

    /// Total bytes of all samples.
    pub fn raw_bytes(&self) -> usize {
        self.raw_bytes
    }

    /// Total bytes of the held-out samples.
    pub fn held_out_bytes(&self) -> u64 {
        self.held_out.iter().map(|s| s.len() as u64).sum()
    }

    /// Returns the best dictionary of at most `bytes` bytes at a level; `None` if there are too
    /// few samples.
    pub fn dictionary(&self, bytes: usize, level: i32) -> Option<Candidate> {
        let bytes = bytes.min(MAX_BYTES);
        let candidates = [self.of_pages(bytes), self.trained(bytes, TRAINED_ON)];
        let tried = candidates.into_iter().flatten().filter(|c| c.len() >= LEAST_BYTES).filter_map(|content| {
            let compressed_bytes = self.tried(&content, level)?;
            Some(Candidate { content, compressed_bytes })
        });
        tried.min_by_key(|c| c.compressed_bytes)
    }

    /// Compressed size of the held-out samples with a dictionary (empty for none). `None` if zstd
    /// refuses it.
    pub fn tried(&self, dictionary: &[u8], level: i32) -> Option<u64> {
        let digest = CDict::try_create(dictionary, level)?;
        let mut context = CCtx::try_create()?;
        let mut frame = Vec::new();
        let mut sum = 0;
        for sample in &self.held_out {
            frame.clear();
            frame.reserve(compress_bound(sample.len()));
            let n = context.compress_using_cdict(&mut frame, sample, &digest).ok()?;
            sum += n.min(sample.len()) as u64;
        }
        Some(sum)
    }

    /// A dictionary from zstd's trainer (fast cover), if there are `on` times `bytes` bytes of
    /// samples.
    fn trained(&self, bytes: usize, on: usize) -> Option<Vec<u8>> {
        let mut lengths: Vec<usize> = Vec::new();
        let mut samples: Vec<u8> = Vec::new();
        for page in &self.pages {
            // More hardly improves it, and takes longer.
            if samples.len() >= on * bytes + on * bytes / 3 {
                break;
            }
            samples.extend_from_slice(page);
            lengths.push(page.len());
        }
        if samples.len() < on * bytes || lengths.len() < HELD_OUT {
            return None;
        }
        let mut out = Vec::with_capacity(bytes);
        zstd_safe::train_from_buffer(&mut out, &samples, &lengths).ok()?;
        Some(out)
    }

    /// A trained part, if possible, then whole pages.
    fn of_pages(&self, bytes: usize) -> Option<Vec<u8>> {
        let mut out = self.trained(bytes / TRAINED_PART, PART_TRAINED_ON).unwrap_or_default();
        for page in &self.pages {
            let room = bytes - out.len();
            out.extend_from_slice(&page[..page.len().min(PAGE_BYTES).min(room)]);
            if out.len() == bytes {
                break;
            }
        }
        Some(out)
    }
}

/// Writes the dictionary's id into the field that frames copy it from, if the dictionary has that
/// field.
pub(crate) fn name(dictionary: &mut [u8], id: u32) {
    if dictionary.starts_with(&MAGIC) && dictionary.len() >= 8 {
        dictionary[4..8].copy_from_slice(&id.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(i: usize) -> Vec<u8> {
        let words = ["river", "stone", "window", "market", "winter", "copper", "letter", "garden"];
        let text: String = (0..60).map(|j| words[(i * 7 + j * j) % 8].to_owned() + " ").collect();
        format!("<html><head><title>Page {i}</title><link href=/site.css></head><body><nav>{i}</nav><p>{text}").into()
    }

    #[test]
    fn a_dictionary_of_a_site_makes_its_other_pages_smaller() {
        let mut samples = Samples::default();
        (0..200).for_each(|i| samples.add(page(i)));
        let none = samples.tried(&[], 3).unwrap();
        for bytes in [2048, 8192] {
            let made = samples.dictionary(bytes, 3).unwrap();
            assert!(made.content.len() <= bytes);
            assert!(2 * made.compressed_bytes < none, "{} of {none}", made.compressed_bytes);
            assert_eq!(samples.dictionary(bytes, 3).unwrap().content, made.content, "the same again");
        }
    }

    #[test]
    fn too_few_samples_or_hostile_ones_give_no_dictionary_that_zstd_refuses() {
        assert!(Samples::default().dictionary(4096, 3).is_none());
        let mut samples = Samples::default();
        (0..10).for_each(|_| samples.add([&MAGIC[..], &[0xff; 600]].concat()));
        assert!(samples.dictionary(4096, 3).is_none(), "it begins like a trained one, but is not one");
    }

    #[test]
    fn frames_name_a_trained_dictionary_by_its_number() {
        let mut samples = Samples::default();
        (0..400).for_each(|i| samples.add(page(i)));
        let mut content = samples.trained(4096, PART_TRAINED_ON).unwrap();
        name(&mut content, 77);
        assert_eq!(zstd_safe::get_dict_id(&content).map(u32::from), Some(77));
        let mut raw = b"<html>".to_vec();
        name(&mut raw, 77);
        assert_eq!(raw, b"<html>");
    }
}
