//! The memory of a memtable's arena, in chunks. It goes back to the system when the table is
//! dropped: an allocator would keep it for the thread that filled the table, while the threads
//! that fill the next one take new memory.

use std::ops::Deref;

use crate::sync::primitive::{AtomicU64, LargeWords};

/// Words of the arena, zero at first.
#[derive(Debug)]
pub(super) enum Chunk {
    /// A map of its own.
    Mapped(LargeWords),
    /// Fallback if nothing can be mapped.
    Allocated(Box<[AtomicU64]>),
}

impl Chunk {
    pub(super) fn zeroed(words: usize) -> Chunk {
        LargeWords::zeroed(words).map_or_else(|_| Chunk::allocated(words), Chunk::Mapped)
    }

    fn allocated(words: usize) -> Chunk {
        Chunk::Allocated((0..words).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Deref for Chunk {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        match self {
            Chunk::Mapped(words) => words,
            Chunk::Allocated(words) => words,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::primitive::Ordering;

    #[test]
    fn a_chunk_is_zero_at_first_and_keeps_what_is_stored() {
        for chunk in [Chunk::zeroed(1 << 16), Chunk::zeroed(1), Chunk::allocated(9)] {
            assert!(chunk.iter().all(|word| word.load(Ordering::Relaxed) == 0));
            let last = chunk.len() - 1;
            chunk[last].store(7, Ordering::Relaxed);
            assert_eq!(chunk[last].load(Ordering::Relaxed), 7);
        }
    }
}
