//! Entries of the index on disk: fingerprint and page; about 400 fit a block of a run.

use std::cmp::Ordering;

use filemap_io::header::Kind;
use filemap_io::layout;
use filemap_io::layout::{Wire as _, Zeros, get};
use filemap_runs::{BLOCK_BYTES, Format, Found, fixed};

layout! {
    /// `frontier.N.run`: each block.
    pub(crate) struct PairsBlock {
        0 CRC: u32 = "CRC-32 of the frontier's id, the run's number, the block's number (8 bytes each) and the bytes that follow";
        4 COUNT: u16 = "n, the number of pairs";
        6 WIDTH: u8 = "w, the bytes of a difference: 1 to 8";
        7 RESERVED: Zeros<1> = "reserved, zero";
        8 BASE: u64 = "the first fingerprint";
        16 PAIRS: [u8; 4080] = "n times: w bytes of the difference between a fingerprint and the first one, page (4)";
    }
}

const PAIRS_BYTES: usize = BLOCK_BYTES - PairsBlock::PAIRS.at;
const PAGE_BYTES: usize = 4;

/// The format of runs of (fingerprint, page) pairs, sorted by fingerprint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pairs;

/// A block whose numbers are valid.
struct Block<'a> {
    base: u64,
    width: usize,
    pairs: &'a [u8],
}

impl<'a> Block<'a> {
    fn of(block: &'a [u8]) -> Option<Block<'a>> {
        let count = usize::from(PairsBlock::COUNT.get(block));
        let width = usize::from(PairsBlock::WIDTH.get(block));
        let is_possible = count > 0 && (1..=8).contains(&width) && count * (width + PAGE_BYTES) <= PAIRS_BYTES;
        let pairs = is_possible.then(|| &block[PairsBlock::PAIRS.at..][..count * (width + PAGE_BYTES)])?;
        Some(Block { base: PairsBlock::BASE.get(block), width, pairs })
    }

    fn count(&self) -> usize {
        self.pairs.len() / (self.width + PAGE_BYTES)
    }

    fn difference(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes[..self.width].copy_from_slice(&self.pairs[at * (self.width + PAGE_BYTES)..][..self.width]);
        u64::from_le_bytes(bytes)
    }

    fn page(&self, at: usize) -> u32 {
        get(self.pairs, at * (self.width + PAGE_BYTES) + self.width)
    }

    fn find(&self, difference: u64) -> Option<u32> {
        let (mut from, mut to) = (0, self.count());
        while from < to {
            let middle = from.midpoint(to);
            match self.difference(middle).cmp(&difference) {
                Ordering::Less => from = middle + 1,
                Ordering::Equal => return Some(self.page(middle)),
                Ordering::Greater => to = middle,
            }
        }
        None
    }
}

/// Number of leading entries that fit a block if a difference has `width` bytes.
fn fits(entries: &[(u64, u32)], width: usize) -> usize {
    let most = entries.len().min(PAIRS_BYTES / (width + PAGE_BYTES));
    entries[..most].partition_point(|(fingerprint, _)| width == 8 || (fingerprint - entries[0].0) >> (8 * width) == 0)
}

impl Format for Pairs {
    type Entry = (u64, u32);
    type Key<'a> = u64;

    const KIND: Kind = Kind { magic: *b"FMFRUN01", version: 2, what: "run of a frontier" };
    /// Differences of less than four bytes are not worth the effort.
    const ENTRIES_MAX: usize = PAIRS_BYTES / (4 + PAGE_BYTES);

    fn parameter(&self) -> u32 {
        u64::BITS
    }

    #[inline]
    fn key(&self, entry: &(u64, u32)) -> u64 {
        entry.0
    }

    #[inline]
    fn compare(&self, entry: &(u64, u32), key: u64) -> Ordering {
        entry.0.cmp(&key)
    }

    fn is_tombstone(&self, _: &(u64, u32)) -> bool {
        false
    }

    #[inline]
    fn head(&self, key: u64) -> u64 {
        key
    }

    #[inline]
    fn hash(&self, key: u64) -> u64 {
        // Keys of a block share their first bits.
        fixed::mixed(u128::from(key) << 64)
    }

    fn encode(&self, entries: &[(u64, u32)], block: &mut [u8]) -> usize {
        let shapes = (1..=8).map(|width| (fits(entries, width), width));
        let (count, width) = shapes.max_by_key(|(count, width)| (*count, 8 - width)).unwrap_or_default();
        block.fill(0);
        PairsBlock::COUNT.put(block, count as u16);
        PairsBlock::WIDTH.put(block, width as u8);
        PairsBlock::BASE.put(block, entries[0].0);
        let pairs = block[PairsBlock::PAIRS.at..].chunks_exact_mut(width + PAGE_BYTES);
        for (pair, (fingerprint, page)) in pairs.zip(&entries[..count]) {
            pair[..width].copy_from_slice(&(fingerprint - entries[0].0).to_le_bytes()[..width]);
            page.write(&mut pair[width..]);
        }
        count
    }

    fn decode(&self, block: &[u8], entries: &mut Vec<(u64, u32)>) -> bool {
        let Some(block) = Block::of(block) else { return false };
        for at in 0..block.count() {
            let Some(fingerprint) = block.base.checked_add(block.difference(at)) else { return false };
            entries.push((fingerprint, block.page(at)));
        }
        true
    }

    fn find(&self, block: &[u8], key: u64) -> Option<Found<(u64, u32)>> {
        let block = Block::of(block)?;
        Some(match key.checked_sub(block.base) {
            None => Found::Before,
            Some(difference) => block.find(difference).map_or(Found::Absent, |page| Found::Entry((key, page))),
        })
    }
}

#[cfg(test)]
mod tests {
    use filemap_runs::PADDING_BYTES;

    use super::*;

    #[test]
    fn a_block_has_what_was_put_and_dense_fingerprints_take_less() {
        let mut rng = fastrand::Rng::with_seed(1);
        for (gap, least) in [(1, 500), (1 << 36, 400), (1 << 44, 370), (1 << 60, 15)] {
            let mut next = rng.u64(..1 << 20);
            let mut entries = Vec::new();
            while entries.len() < Pairs::ENTRIES_MAX && u64::MAX - next > 2 * gap {
                next += rng.u64(1..=gap);
                entries.push((next, rng.u32(..)));
            }
            let mut block = [0; BLOCK_BYTES + PADDING_BYTES];
            let count = Pairs.encode(&entries, &mut block[..BLOCK_BYTES]);
            assert!(count >= least.min(entries.len()), "{gap}: {count}");
            let mut decoded = Vec::new();
            assert!(Pairs.decode(&block, &mut decoded) && decoded == entries[..count]);
            for entry in &entries[..count] {
                assert_eq!(Pairs.find(&block, entry.0), Some(Found::Entry(*entry)));
            }
            assert_eq!(Pairs.find(&block, entries[0].0 - 1), Some(Found::Before));
            assert_eq!(Pairs.find(&block, entries[count - 1].0 + 1), Some(Found::Absent));
        }
    }

    #[test]
    fn no_bytes_make_a_block_panic() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..5_000 {
            let mut block = [0; BLOCK_BYTES + PADDING_BYTES];
            rng.fill(&mut block[..32]);
            block[5] &= 1;
            block[6] &= 15;
            let _ = Pairs.find(&block, rng.u64(..));
            let _ = Pairs.decode(&block, &mut Vec::new());
        }
    }
}
