//! Memory of a trie's blocks: slabs, allocated in units of a cache line.
//!
//! A block's address is its start and its length, so no table translates addresses, and all lines
//! can be fetched at once; one other block holds the address, and is updated when a block moves.
//! Freed places are reused by blocks of the same size, and blocks of all sizes keep growing, so
//! few stay free.

use std::hint::black_box;

use filemap_io::LargeMemory;

/// A cache line.
const UNIT_BYTES: usize = 64;
/// Two megabytes: a large page.
const SLAB_UNITS: usize = 1 << 15;
const SLAB_BYTES: usize = SLAB_UNITS * UNIT_BYTES;

/// The longest block, in bytes.
pub(super) const BLOCK_BYTES_MAX: usize = SLAB_BYTES;

/// Address of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Address {
    /// Number of its first unit over all slabs.
    at: u32,
    units: u32,
}

impl Address {
    pub(super) const BYTES: usize = 8;

    #[inline]
    pub(super) fn of(bytes: [u8; Address::BYTES]) -> Address {
        let both = u64::from_le_bytes(bytes);
        Address { at: both as u32, units: (both >> 32) as u32 }
    }

    pub(super) fn to_bytes(self) -> [u8; Address::BYTES] {
        (u64::from(self.at) | u64::from(self.units) << 32).to_le_bytes()
    }
}

/// Maximum lines prefetched of a block: about as many as can be in flight.
const LINES_MAX: usize = 48;

/// The slabs and their free places.
#[derive(Debug, Default)]
pub(super) struct Arena {
    slabs: Vec<LargeMemory>,
    /// Units used in the last slab.
    used: usize,
    /// Free places by size in units.
    free: Vec<Vec<u32>>,
}

impl Arena {
    /// Allocates a block of at least this many bytes, with arbitrary contents.
    pub(super) fn add(&mut self, bytes: usize) -> Address {
        let units = units(bytes);
        Address { at: self.allocate(units), units: units as u32 }
    }

    /// Frees a block.
    pub(super) fn remove(&mut self, Address { at, units }: Address) {
        self.release(at, units as usize);
    }

    #[inline]
    pub(super) fn bytes(&self, Address { at, units }: Address) -> &[u8] {
        let (slab, offset) = split(at);
        &self.slabs[slab][offset..][..units as usize * UNIT_BYTES]
    }

    #[inline]
    pub(super) fn bytes_mut(&mut self, Address { at, units }: Address) -> &mut [u8] {
        let (slab, offset) = split(at);
        &mut self.slabs[slab][offset..][..units as usize * UNIT_BYTES]
    }

    /// Reads a byte of each cache line, all at once, in the time of one cache miss. Does not wait
    /// for the values.
    #[inline]
    pub(super) fn touch(&self, address: Address) {
        let lines = self.bytes(address).as_chunks::<UNIT_BYTES>().0.iter().take(LINES_MAX);
        black_box(lines.fold(0, |all, line| all ^ line[0]));
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let free: usize = self.free.iter().map(|places| places.capacity() * 4 + size_of::<Vec<u32>>()).sum();
        (self.slabs.len() * SLAB_BYTES + self.slabs.capacity() * size_of::<LargeMemory>() + free) as u64
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
            self.slabs.push(LargeMemory::zeroed(SLAB_BYTES));
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

#[inline]
fn split(at: u32) -> (usize, usize) {
    (at as usize / SLAB_UNITS, at as usize % SLAB_UNITS * UNIT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_keep_their_bytes_while_others_come_and_go() {
        let mut rng = fastrand::Rng::with_seed(1);
        let (mut arena, mut expected) = (Arena::default(), Vec::<(Address, Vec<u8>)>::new());
        for _ in 0..20_000 {
            if expected.len() > 50 && rng.bool() {
                let (at, _) = expected.swap_remove(rng.usize(..expected.len()));
                arena.remove(at);
            }
            let bytes = vec![rng.u8(..); rng.usize(..600)];
            let at = arena.add(bytes.len());
            assert_eq!(arena.bytes(at).len(), units(bytes.len()) * UNIT_BYTES);
            arena.bytes_mut(at)[..bytes.len()].copy_from_slice(&bytes);
            expected.push((at, bytes));
            if expected.len() > 60 {
                let (at, _) = expected.swap_remove(0);
                arena.remove(at);
            }
        }
        for (at, bytes) in &expected {
            assert_eq!(&arena.bytes(*at)[..bytes.len()], bytes);
        }
        assert!(arena.memory_bytes() >= expected.iter().map(|(_, bytes)| bytes.len() as u64).sum());
        assert!(arena.memory_bytes() < 4 << 20, "places are used again");
    }
}
