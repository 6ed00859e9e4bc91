//! The in-memory index of a run: which block may hold a key.
//!
//! Two levels, so that a search touches a few cache lines: the first 64 bits of each block's first
//! key, and every 64th of these again.

use filemap_io::StorageError;
use filemap_io::header::crc32;

/// Blocks covered by an entry of the upper level.
const FANOUT: usize = 64;

/// First 64 bits of each block's first key, in order.
#[derive(Debug)]
pub(crate) struct Index {
    heads: Vec<u64>,
    /// Every 64th head.
    tops: Vec<u64>,
}

impl Index {
    /// Decodes the index; `at` is its offset in the file.
    pub(crate) fn decode(bytes: &[u8], crc: u32, name: &str, at: u64) -> Result<Index, StorageError> {
        if crc32(&[bytes]) != crc {
            return Err(StorageError::corrupt(name, at, "index checksum mismatch"));
        }
        let heads: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        if !heads.is_sorted() {
            return Err(StorageError::corrupt(name, at, "the index is not in order"));
        }
        let tops = heads.iter().step_by(FANOUT).copied().collect();
        Ok(Index { heads, tops })
    }

    pub(crate) fn heads(&self) -> &[u64] {
        &self.heads
    }

    /// Number of blocks whose first 64 bits are not above `head`.
    #[inline]
    pub(crate) fn up_to(&self, head: u64) -> usize {
        let first = self.tops.partition_point(|top| *top <= head).saturating_sub(1) * FANOUT;
        let end = (first + FANOUT).min(self.heads.len());
        first + self.heads[first..end].partition_point(|first| *first <= head)
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        ((self.heads.len() + self.tops.len()) * 8) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_finds_what_a_search_of_all_finds() {
        let mut rng = fastrand::Rng::with_seed(3);
        for len in [1, 2, 63, 64, 65, 128, 129, 1000] {
            // Small numbers, so that several blocks have equal heads.
            let mut heads: Vec<u64> = (0..len).map(|_| rng.u64(5..len / 2 + 10)).collect();
            heads.sort_unstable();
            let bytes: Vec<u8> = heads.iter().flat_map(|head| head.to_le_bytes()).collect();
            let index = Index::decode(&bytes, crc32(&[&bytes]), "run", 0).expect("an index");
            for head in 0..len + 20 {
                assert_eq!(index.up_to(head), heads.partition_point(|first| *first <= head), "{head} of {len}");
            }
        }
    }
}
