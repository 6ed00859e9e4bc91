//! The in-memory index of a run: which block may hold a key.
//!
//! It has the first 64 bits of each block's first key and, for each value of their highest bits,
//! the number of heads before it. Keys are spread evenly enough that two to four heads agree in
//! these bits, so a search touches two cache lines; among the heads of a large host it halves.

use filemap_io::StorageError;
use filemap_io::header::crc32;

/// First 64 bits of each block's first key, in order.
#[derive(Debug)]
pub(crate) struct Index {
    heads: Vec<u64>,
    /// For each value of a head's highest bits the number of heads with lower ones.
    starts: Vec<u32>,
    /// Number of these bits.
    bits: u32,
}

/// Number of bits for which there are two to four heads a value; 0 for so many heads that 32 bits
/// do not count them.
fn bits_for(heads: usize) -> u32 {
    match u32::try_from(heads) {
        Ok(heads) => heads.checked_ilog2().unwrap_or(0).saturating_sub(1),
        Err(_) => 0,
    }
}

/// The highest `bits` bits of a head, fewer than 64.
#[inline]
fn highest(head: u64, bits: u32) -> usize {
    (head >> 1 >> (63 - bits)) as usize
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
        let bits = bits_for(heads.len());
        let mut starts = Vec::with_capacity(1 << bits);
        for (nth, head) in heads.iter().enumerate() {
            // For the bits of this head, and for lower ones that no head has.
            while starts.len() <= highest(*head, bits) {
                starts.push(nth as u32);
            }
        }
        starts.resize(1 << bits, heads.len() as u32);
        Ok(Index { heads, starts, bits })
    }

    pub(crate) fn heads(&self) -> &[u64] {
        &self.heads
    }

    /// Number of blocks whose first 64 bits are not above `head`.
    #[inline]
    pub(crate) fn up_to(&self, head: u64) -> usize {
        let highest = highest(head, self.bits);
        let first = self.starts[highest] as usize;
        let end = self.starts.get(highest + 1).map_or(self.heads.len(), |start| *start as usize);
        first + self.heads[first..end].partition_point(|first| *first <= head)
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.heads.len() * 8 + self.starts.len() * 4) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_finds_what_a_search_of_all_finds() {
        let mut rng = fastrand::Rng::with_seed(3);
        // Heads that agree in the highest bits, and heads that differ there.
        for shift in [0, 30, 54] {
            for len in [1, 2, 63, 64, 65, 128, 129, 1000] {
                // Small numbers, so that several blocks have equal heads.
                let mut heads: Vec<u64> = (0..len).map(|_| rng.u64(5..len / 2 + 10) << shift).collect();
                heads.sort_unstable();
                let bytes: Vec<u8> = heads.iter().flat_map(|head| head.to_le_bytes()).collect();
                let index = Index::decode(&bytes, crc32(&[&bytes]), "run", 0).expect("an index");
                let near = |head: u64| [head.saturating_sub(1), head, head + 1];
                for head in (0..len + 20).flat_map(|head| near(head << shift)).chain([u64::MAX]) {
                    let expected = heads.partition_point(|first| *first <= head);
                    assert_eq!(index.up_to(head), expected, "{head} of {len}, {shift}");
                }
            }
        }
    }

    #[test]
    fn the_index_takes_ten_bytes_a_block_at_most() {
        for len in [1usize, 7, 1000, 1 << 16] {
            let bytes: Vec<u8> = (0..len as u64).flat_map(|head| (head << 48).to_le_bytes()).collect();
            let index = Index::decode(&bytes, crc32(&[&bytes]), "run", 0).expect("an index");
            assert!(index.memory_bytes() <= 10 * len as u64 + 4, "{len}");
        }
        assert_eq!([bits_for(0), bits_for(3), bits_for(4), bits_for(1 << 33)], [0, 0, 1, 0]);
    }
}
