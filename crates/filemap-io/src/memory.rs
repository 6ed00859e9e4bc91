//! Large random-access tables overflow the TLB with 4 KiB pages; ask for 2 MiB huge pages.
//!
//! A processor knows the places of some thousand pages; of memory that is many times that, a read
//! finds in no table where its page is and looks that up in memory first. Pages of two megabytes
//! are so few that it knows them all. The system gives them to those who ask, and to these only
//! while it has some; without them all is as it was.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// Bytes, all zero at first, for good.
pub struct LargeMemory(Bytes);

enum Bytes {
    Mapped(MmapMut),
    /// Where nothing can be mapped.
    Allocated(Box<[u8]>),
}

impl LargeMemory {
    /// So many bytes; a multiple of two megabytes can have large pages.
    pub fn zeroed(len: usize) -> LargeMemory {
        LargeMemory(match mapped(len) {
            Ok(mapped) => Bytes::Mapped(mapped),
            Err(_) => Bytes::Allocated(vec![0; len].into_boxed_slice()),
        })
    }
}

/// So many bytes of the process's own, in large pages where there are any.
pub(crate) fn mapped(len: usize) -> io::Result<MmapMut> {
    let mapped = MmapMut::map_anon(len)?;
    // A wish: a system that knows no such pages says so.
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
