//! The file of a growing filter: a header and a part for each shard, each under its own checksum.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 8 | magic `FMGROWF2` |
//! | 8 | 2, 2 | the version that a reader, and a writer, must know |
//! | 12 | 4 | 0 |
//! | 16 | 8, 8 | the rate (a double's bits); the hash's seed |
//! | 32 | 8 | the number that its last save was given, or 0 ([`crate::TwoTierSet`]) |
//! | 40 | 4 | CRC-32 of the 40 bytes before |
//! | 44 | | 64 parts |
//!
//! A part is its length in words (8 bytes), the CRC-32 of its number (8 bytes), of that length and of its words, and its words: for
//! each layer, from the oldest on, the bits of its fingerprints, the number of its buckets, and the buckets' words one after the other
//! (an empty bucket is a word of 0). All numbers are little-endian. The file is only ever replaced as a whole.

use crc32fast::Hasher;
use filemap_io::{Access, Dir, File};

use super::layer::Layer;
use super::{Design, FINGERPRINT_BITS_MAX, GrowingFilter, SHARDS, bucket};
use crate::error::{Error, Result};
use crate::files::{self, guard};

pub(crate) const MAGIC: [u8; 8] = *b"FMGROWF2";
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 44;
const SAVE_AT: usize = 32;
const CRC_AT: usize = 40;
const PART_HEADER_BYTES: usize = 12;

/// Writes the filter, with the number of this save; the file's length.
pub(super) fn write(dir: &dyn Dir, name: &str, set: &GrowingFilter, save: u64) -> Result<u64> {
    let mut at = 0;
    files::replace(dir, name, |file, new| {
        let mut append = |bytes: &[u8]| {
            file.write_at(bytes, at).map_err(Error::io("write", new))?;
            at += bytes.len() as u64;
            Ok(())
        };
        append(&header(&set.design, save))?;
        set.shards.iter().enumerate().try_for_each(|(number, shard)| append(&part(number, &guard(shard))))
    })?;
    Ok(at)
}

/// A filter as it was read.
pub(super) struct Stored {
    pub(super) design: Design,
    /// The layers of each shard.
    pub(super) shards: Vec<Vec<Layer>>,
    /// The number of the last save.
    pub(super) save: u64,
    /// The file's length in bytes.
    pub(super) len: u64,
}

/// Reads a filter.
pub(super) fn read(dir: &dyn Dir, name: &str) -> Result<Stored> {
    let file = dir.open(name, Access::Read).map_err(Error::io("open", name))?;
    let len = file.len().map_err(Error::io("length", name))?;
    let mut bytes = [0; HEADER_BYTES];
    files::read_exact(&*file, name, &mut bytes, 0)?;
    let design = decode_header(&bytes, name)?;
    let mut at = HEADER_BYTES as u64;
    let mut shards = Vec::with_capacity(SHARDS);
    for number in 0..SHARDS {
        let words = read_part(&*file, name, at, len, number)?;
        let layers = layers(&words, &design);
        shards.push(layers.ok_or_else(|| Error::corrupt(name, at, "the part holds no layers of fingerprints"))?);
        at += (PART_HEADER_BYTES + 8 * words.len()) as u64;
    }
    if at != len {
        return Err(Error::corrupt(name, at, "bytes follow the last part"));
    }
    Ok(Stored { design, shards, save: u64::from_le_bytes(files::array(&bytes, SAVE_AT)), len })
}

fn part(number: usize, layers: &[Layer]) -> Vec<u8> {
    let mut words = Vec::new();
    for layer in layers {
        words.extend([u64::from(layer.bits()), layer.buckets().len() as u64]);
        for bucket in layer.buckets() {
            words.extend_from_slice(if bucket.is_empty() { &[0] } else { bucket });
        }
    }
    let mut bytes = (words.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    let crc = part_crc(number, words.len() as u64, &bytes[PART_HEADER_BYTES..]);
    bytes[8..PART_HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn read_part(file: &dyn File, name: &str, at: u64, len: u64, number: usize) -> Result<Vec<u64>> {
    let mut start = [0; PART_HEADER_BYTES];
    files::read_exact(file, name, &mut start, at)?;
    let words = u64::from_le_bytes(files::array(&start, 0));
    let rest = len - at - PART_HEADER_BYTES as u64;
    if words > rest / 8 {
        return Err(Error::corrupt(name, at, "the part reaches past the end of the file"));
    }
    let mut bytes = vec![0; words as usize * 8];
    files::read_exact(file, name, &mut bytes, at + PART_HEADER_BYTES as u64)?;
    if u32::from_le_bytes(files::array(&start, 8)) != part_crc(number, words, &bytes) {
        return Err(Error::corrupt(name, at, "the part's checksum is another"));
    }
    Ok(bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

/// `None` if the words are no layers of such a filter.
fn layers(words: &[u64], design: &Design) -> Option<Vec<Layer>> {
    let (mut layers, mut rest): (Vec<Layer>, _) = (Vec::new(), words);
    while let Some((&[bits, count], after)) = rest.split_first_chunk::<2>() {
        let bits = u32::try_from(bits).ok().filter(|bits| *bits <= FINGERPRINT_BITS_MAX)?;
        let is_next = layers.last().is_none_or(|last| last.bits() < bits);
        if !is_next || bits != design.layer(layers.len() as u32).1 || count == 0 || count > after.len() as u64 {
            return None;
        }
        rest = after;
        let level = count.ilog2();
        let split = count - (1 << level);
        let mut buckets: Vec<Box<[u64]>> = Vec::with_capacity(count as usize);
        for number in 0..count {
            let depth = level + u32::from(number < split || number >= 1 << level);
            let width = bits.checked_sub(depth)?;
            let first = *rest.first()?;
            let len = if first == 0 { 1 } else { bucket::words(first, width) };
            let (words, after) = rest.split_at_checked(len)?;
            buckets.push(if first == 0 { Box::default() } else { words.into() });
            rest = after;
        }
        layers.push(Layer::of_buckets(bits, buckets)?);
    }
    rest.is_empty().then_some(layers)
}

fn part_crc(number: usize, words: u64, bytes: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&(number as u64).to_le_bytes());
    hasher.update(&words.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

fn header(design: &Design, save: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    bytes[10..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[16..24].copy_from_slice(&design.rate.to_bits().to_le_bytes());
    bytes[24..32].copy_from_slice(&design.seed.to_le_bytes());
    bytes[SAVE_AT..CRC_AT].copy_from_slice(&save.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..CRC_AT]);
    bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn decode_header(bytes: &[u8; HEADER_BYTES], name: &str) -> Result<Design> {
    if bytes[..8] != MAGIC {
        return Err(Error::corrupt(name, 0, "this is no growing filter"));
    }
    if u32::from_le_bytes(files::array(bytes, CRC_AT)) != crc32fast::hash(&bytes[..CRC_AT]) {
        return Err(Error::corrupt(name, CRC_AT as u64, "the header's checksum is another"));
    }
    files::check_version(name, bytes, VERSION)?;
    let rate = f64::from_bits(u64::from_le_bytes(files::array(bytes, 16)));
    let design = Design::new(rate, u64::from_le_bytes(files::array(bytes, 24)));
    design.map_err(|_| Error::corrupt(name, 16, "no filter has this rate"))
}
