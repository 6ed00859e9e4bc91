//! The file of a growing filter: a header and a part for each shard, each under its own checksum.
//! It is only ever replaced as a whole.

use filemap_io::header::{crc32, seal};
use filemap_io::{Access, Dir, File, guard};

use super::layer::Layer;
use super::{Design, FINGERPRINT_BITS_MAX, GrowingFilter, SHARDS, bucket};
use crate::error::{Error, Result};
use crate::files;
use crate::format::{GROWING, GrowingHeader, GrowingPart};

const HEADER_BYTES: usize = GrowingHeader::BYTES;
const PART_HEADER_BYTES: usize = GrowingPart::BYTES;

/// Writes the filter; returns the file's length.
pub(super) fn write(dir: &dyn Dir, name: &str, set: &GrowingFilter) -> Result<u64> {
    let mut at = 0;
    files::replace(dir, name, |file, new| {
        let mut append = |bytes: &[u8]| {
            file.write_at(bytes, at).map_err(Error::io("write", new))?;
            at += bytes.len() as u64;
            Ok(())
        };
        append(&header(&set.design))?;
        set.shards.iter().enumerate().try_for_each(|(number, shard)| append(&part(number, &guard(shard))))
    })?;
    Ok(at)
}

/// A filter as read.
pub(super) struct Stored {
    pub(super) design: Design,
    /// Layers of each shard.
    pub(super) shards: Vec<Vec<Layer>>,
    /// Length of the file.
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
        shards.push(layers.ok_or_else(|| Error::corrupt(name, at, "not layers of fingerprints"))?);
        at += (PART_HEADER_BYTES + 8 * words.len()) as u64;
    }
    if at != len {
        return Err(Error::corrupt(name, at, "bytes follow the last part"));
    }
    Ok(Stored { design, shards, len })
}

fn part(number: usize, layers: &[Layer]) -> Vec<u8> {
    let mut words = Vec::new();
    for layer in layers {
        words.extend([u64::from(layer.bits()), layer.buckets().len() as u64]);
        for bucket in layer.buckets() {
            words.extend_from_slice(if bucket.is_empty() { &[0] } else { bucket });
        }
    }
    let mut bytes = vec![0; PART_HEADER_BYTES];
    GrowingPart::WORDS.put(&mut bytes, words.len() as u64);
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    let crc = part_crc(number, words.len() as u64, &bytes[PART_HEADER_BYTES..]);
    GrowingPart::CRC.put(&mut bytes, crc);
    bytes
}

fn read_part(file: &dyn File, name: &str, at: u64, len: u64, number: usize) -> Result<Vec<u64>> {
    let mut start = [0; PART_HEADER_BYTES];
    files::read_exact(file, name, &mut start, at)?;
    let words = GrowingPart::WORDS.get(&start);
    let rest = len - at - PART_HEADER_BYTES as u64;
    if words > rest / 8 {
        return Err(Error::corrupt(name, at, "the part reaches past the end of the file"));
    }
    let mut bytes = vec![0; words as usize * 8];
    files::read_exact(file, name, &mut bytes, at + PART_HEADER_BYTES as u64)?;
    if GrowingPart::CRC.get(&start) != part_crc(number, words, &bytes) {
        return Err(Error::corrupt(name, at, "part checksum mismatch"));
    }
    Ok(bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

/// Decodes the layers; `None` if the words are not layers of this design.
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
    crc32(&[&(number as u64).to_le_bytes(), &words.to_le_bytes(), bytes])
}

fn header(design: &Design) -> [u8; GrowingHeader::BYTES] {
    let mut bytes = [0; GrowingHeader::BYTES];
    GROWING.begin(&mut bytes);
    GrowingHeader::RATE.put(&mut bytes, design.rate);
    GrowingHeader::SEED.put(&mut bytes, design.seed);
    seal(&mut bytes);
    bytes
}

fn decode_header(bytes: &[u8; GrowingHeader::BYTES], name: &str) -> Result<Design> {
    GROWING.check(name, bytes)?;
    let design = Design::new(GrowingHeader::RATE.get(bytes), GrowingHeader::SEED.get(bytes));
    design.map_err(|_| Error::corrupt(name, 16, "impossible rate"))
}
