//! Where the blocks of a trie lie: slabs of memory, given out in units of a cache line.
//!
//! A block is named by its address, the number of its first unit over all slabs, so that who knows the address needs no table on the
//! way to the bytes; who moves a block tells the one block that leads to it. Places that were left are used again by blocks of the same
//! size, and blocks of all sizes are always growing, so that few stay empty.
//!
//! Invariant: a block begins with the number of its units (2 bytes), which is the arena's; the rest is its owner's.

/// A cache line.
pub(super) const UNIT_BYTES: usize = 64;
const SLAB_UNITS: usize = 1 << 14;
const SLAB_BYTES: usize = SLAB_UNITS * UNIT_BYTES;
const _: () = assert!(SLAB_UNITS <= u16::MAX as usize);

/// The longest block, in bytes.
pub(super) const BLOCK_BYTES_MAX: usize = SLAB_BYTES;
/// So many of a block's first bytes are the arena's.
pub(super) const UNITS_BYTES: usize = 2;

/// The number of a block's first unit.
pub(super) type Address = u32;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Arena {
    slabs: Vec<Slab>,
    /// Units given out of the last slab.
    used: usize,
    /// Left places, by their units.
    free: Vec<Vec<Address>>,
}

/// A little longer than its units, which begin where a cache line does.
#[derive(Debug)]
struct Slab {
    bytes: Box<[u8]>,
    start: usize,
}

impl Slab {
    fn new() -> Slab {
        let bytes = vec![0; SLAB_BYTES + UNIT_BYTES].into_boxed_slice();
        // It may decline to say, which costs time only.
        let start = bytes.as_ptr().align_offset(UNIT_BYTES).min(UNIT_BYTES);
        Slab { bytes, start }
    }
}

impl Arena {
    /// A new block of at least so many bytes, which are those that some other one has left.
    pub(super) fn add(&mut self, bytes: usize) -> Address {
        let units = units(bytes);
        let at = self.allocate(units);
        let (slab, offset) = split(at);
        let slab = &mut self.slabs[slab];
        slab.bytes[slab.start + offset..][..UNITS_BYTES].copy_from_slice(&(units as u16).to_le_bytes());
        at
    }

    /// Gives a block back.
    pub(super) fn remove(&mut self, at: Address) {
        let units = self.bytes(at).len() / UNIT_BYTES;
        self.release(at, units);
    }

    #[inline]
    pub(super) fn bytes(&self, at: Address) -> &[u8] {
        let (slab, offset) = split(at);
        let slab = &self.slabs[slab];
        let rest = &slab.bytes[slab.start + offset..];
        &rest[..usize::from(u16::from_le_bytes([rest[0], rest[1]])) * UNIT_BYTES]
    }

    #[inline]
    pub(super) fn bytes_mut(&mut self, at: Address) -> &mut [u8] {
        let (slab, offset) = split(at);
        let slab = &mut self.slabs[slab];
        let rest = &mut slab.bytes[slab.start + offset..];
        let units = usize::from(u16::from_le_bytes([rest[0], rest[1]]));
        &mut rest[..units * UNIT_BYTES]
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let free: usize = self.free.iter().map(|places| places.capacity() * 4 + size_of::<Vec<u32>>()).sum();
        (self.slabs.len() * (SLAB_BYTES + UNIT_BYTES) + self.slabs.capacity() * size_of::<Slab>() + free) as u64
    }

    fn allocate(&mut self, units: usize) -> Address {
        if let Some(at) = self.free.get_mut(units).and_then(Vec::pop) {
            return at;
        }
        if self.slabs.is_empty() || self.used + units > SLAB_UNITS {
            if !self.slabs.is_empty() && self.used < SLAB_UNITS {
                let rest = SLAB_UNITS - self.used;
                self.release(((self.slabs.len() - 1) * SLAB_UNITS + self.used) as Address, rest);
            }
            self.slabs.push(Slab::new());
            self.used = 0;
        }
        let at = (self.slabs.len() - 1) * SLAB_UNITS + self.used;
        self.used += units;
        at as Address
    }

    fn release(&mut self, at: Address, units: usize) {
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
fn split(at: Address) -> (usize, usize) {
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
            let at = arena.add(UNITS_BYTES + bytes.len());
            assert_eq!(arena.bytes(at).len(), (UNITS_BYTES + bytes.len()).div_ceil(UNIT_BYTES) * UNIT_BYTES);
            arena.bytes_mut(at)[UNITS_BYTES..][..bytes.len()].copy_from_slice(&bytes);
            expected.push((at, bytes));
            if expected.len() > 60 {
                let (at, _) = expected.swap_remove(0);
                arena.remove(at);
            }
        }
        for (at, bytes) in &expected {
            assert_eq!(&arena.bytes(*at)[UNITS_BYTES..][..bytes.len()], bytes);
        }
        assert!(arena.memory_bytes() >= expected.iter().map(|(_, bytes)| bytes.len() as u64).sum());
        assert!(arena.memory_bytes() < 4 << 20, "places are used again");
    }
}
