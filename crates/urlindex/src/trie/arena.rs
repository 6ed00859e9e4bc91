//! Where the blocks of a trie lie: slabs of memory, given out in units of a cache line.
//!
//! A block is named by its number, which it keeps however often it is moved to a longer place. Places that were left are used
//! again by blocks of the same size, and blocks of all sizes are always growing, so that few stay empty.

/// A cache line.
const UNIT_BYTES: usize = 64;
const SLAB_UNITS: usize = 1 << 14;
const SLAB_BYTES: usize = SLAB_UNITS * UNIT_BYTES;

/// The longest block, in bytes.
pub(super) const BLOCK_BYTES_MAX: usize = SLAB_BYTES;

/// The number of a block.
pub(super) type BlockId = u32;

#[derive(Clone, Copy, Debug)]
struct Place {
    /// In units, over all slabs.
    at: u32,
    bytes: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Arena {
    slabs: Vec<Box<[u8]>>,
    /// Units given out of the last slab.
    used: usize,
    /// Left places, by their units.
    free: Vec<Vec<u32>>,
    places: Vec<Place>,
}

impl Arena {
    /// How many blocks there are; they are numbered from 0 on.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// A new block with these bytes.
    pub(super) fn add(&mut self, bytes: &[u8]) -> BlockId {
        let id = self.places.len() as BlockId;
        let at = self.allocate(units(bytes.len()));
        self.places.push(Place { at, bytes: bytes.len() as u32 });
        self.at_mut(at, bytes.len()).copy_from_slice(bytes);
        id
    }

    #[inline]
    pub(super) fn bytes(&self, id: BlockId) -> &[u8] {
        let Place { at, bytes } = self.places[id as usize];
        let (slab, offset) = split(at);
        &self.slabs[slab][offset..offset + bytes as usize]
    }

    /// Gives a block other bytes.
    pub(super) fn replace(&mut self, id: BlockId, with: &[u8]) {
        let Place { mut at, bytes } = self.places[id as usize];
        if units(with.len()) != units(bytes as usize) {
            self.release(at, units(bytes as usize));
            at = self.allocate(units(with.len()));
            self.places[id as usize].at = at;
        }
        self.places[id as usize].bytes = with.len() as u32;
        self.at_mut(at, with.len()).copy_from_slice(with);
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let free: usize = self.free.iter().map(|places| places.capacity() * 4 + size_of::<Vec<u32>>()).sum();
        (self.slabs.len() * SLAB_BYTES + self.places.capacity() * size_of::<Place>() + free) as u64
    }

    fn at_mut(&mut self, at: u32, bytes: usize) -> &mut [u8] {
        let (slab, offset) = split(at);
        &mut self.slabs[slab][offset..offset + bytes]
    }

    fn allocate(&mut self, units: usize) -> u32 {
        if let Some(at) = self.free.get_mut(units).and_then(Vec::pop) {
            return at;
        }
        if self.slabs.is_empty() || self.used + units > SLAB_UNITS {
            if !self.slabs.is_empty() && self.used < SLAB_UNITS {
                let rest = SLAB_UNITS - self.used;
                self.release(((self.slabs.len() - 1) * SLAB_UNITS + self.used) as u32, rest);
            }
            self.slabs.push(vec![0; SLAB_BYTES].into_boxed_slice());
            self.used = 0;
        }
        let at = (self.slabs.len() - 1) * SLAB_UNITS + self.used;
        self.used += units;
        at as u32
    }

    fn release(&mut self, at: u32, units: usize) {
        if self.free.len() <= units {
            self.free.resize_with(units + 1, Vec::new);
        }
        self.free[units].push(at);
    }
}

fn units(bytes: usize) -> usize {
    bytes.div_ceil(UNIT_BYTES).max(1)
}

fn split(at: u32) -> (usize, usize) {
    (at as usize / SLAB_UNITS, at as usize % SLAB_UNITS * UNIT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_keep_their_bytes_while_they_grow_shrink_and_move() {
        let mut rng = fastrand::Rng::with_seed(1);
        let (mut arena, mut expected) = (Arena::default(), Vec::<Vec<u8>>::new());
        for _ in 0..20_000 {
            if expected.len() < 50 || rng.u8(..100) == 0 {
                let bytes = vec![rng.u8(..); rng.usize(..300)];
                assert_eq!(arena.add(&bytes) as usize, expected.len());
                expected.push(bytes);
                continue;
            }
            let id = rng.usize(..expected.len());
            expected[id] = vec![rng.u8(..); rng.usize(..600)];
            arena.replace(id as BlockId, &expected[id]);
        }
        for (id, bytes) in expected.iter().enumerate() {
            assert_eq!(arena.bytes(id as BlockId), bytes);
        }
        assert!(arena.memory_bytes() >= expected.iter().map(|bytes| bytes.len() as u64).sum());
    }
}
