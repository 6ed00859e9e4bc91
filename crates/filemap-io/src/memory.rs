//! Large random-access tables overflow the TLB with 4 KiB pages; ask for 2 MiB huge pages.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// An owned, zero-initialised buffer.
///
/// ```
/// let mut memory = filemap_io::LargeMemory::zeroed(2 << 20);
/// memory[7] = 1;
/// assert_eq!(memory[6..9], [0, 1, 0]);
/// ```
pub struct LargeMemory(Bytes);

enum Bytes {
    Mapped(MmapMut),
    /// Fallback if nothing can be mapped.
    Allocated(Box<[u8]>),
}

impl LargeMemory {
    /// `len` zero bytes; huge pages need a multiple of 2 MiB.
    pub fn zeroed(len: usize) -> LargeMemory {
        LargeMemory(match mapped(len) {
            Ok(mapped) => Bytes::Mapped(mapped),
            Err(_) => Bytes::Allocated(vec![0; len].into_boxed_slice()),
        })
    }
}

/// An anonymous map, in huge pages if available.
pub(crate) fn mapped(len: usize) -> io::Result<MmapMut> {
    let mapped = MmapMut::map_anon(len)?;
    // Only a hint: systems without huge pages refuse it.
    #[cfg(target_os = "linux")]
    let _ = mapped.advise(memmap2::Advice::HugePage);
    Ok(mapped)
}

impl Deref for LargeMemory {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Mapped(mapped) => mapped,
            Bytes::Allocated(bytes) => bytes,
        }
    }
}

impl DerefMut for LargeMemory {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Bytes::Mapped(mapped) => mapped,
            Bytes::Allocated(bytes) => bytes,
        }
    }
}

impl fmt::Debug for LargeMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LargeMemory({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_at_first_and_keeps_what_is_written() {
        for len in [1, 4096, 2 << 20] {
            let mut memory = LargeMemory::zeroed(len);
            assert!(memory.len() == len && memory.iter().all(|byte| *byte == 0));
            memory[len - 1] = 7;
            assert_eq!(memory[len - 1], 7);
        }
    }
}
