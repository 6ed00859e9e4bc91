//! Maps of files and of memory as atomic words. The crate's `unsafe` code is in this file alone:
//! mapping needs it.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;

use memmap2::{Advice, MmapOptions, MmapRaw};

#[cfg(not(filemap_loom))]
use crate::memory;
use crate::{Map, Word};

/// A mapping as atomic words: of a file, shared and read-only unless [`OsMap::writable`] made it;
/// or of anonymous memory.
#[derive(Debug)]
#[cfg_attr(filemap_loom, expect(dead_code, reason = "no map of a real file is read in a model"))]
pub(crate) struct OsMap {
    raw: MmapRaw,
    words: usize,
}

impl OsMap {
    /// Maps `len` bytes, a multiple of 8, at `offset`, a multiple of the page size.
    pub(crate) fn new(file: &File, offset: u64, len: usize) -> io::Result<OsMap> {
        let raw = MmapOptions::new().offset(offset).len(len).map_raw_read_only(file)?;
        // Index pages are read at random: disable fault-around.
        let _ = raw.advise(Advice::Random);
        Ok(OsMap { raw, words: len / 8 })
    }

    /// The same, also for stores, which are in the file at once and durable after a sync of it.
    pub(crate) fn writable(file: &File, offset: u64, len: usize) -> io::Result<OsMap> {
        let raw = MmapOptions::new().offset(offset).len(len).map_raw(file)?;
        let _ = raw.advise(Advice::Random);
        Ok(OsMap { raw, words: len / 8 })
    }
}

/// Under loom: words that the checker sees; they cannot be mapped from a file.
#[cfg(filemap_loom)]
impl Map for OsMap {
    fn words(&self) -> &[Word] {
        &[]
    }
}

#[cfg(not(filemap_loom))]
impl Map for OsMap {
    #[inline]
    fn words(&self) -> &[Word] {
        // SAFETY: the mapping is `words * 8` bytes long, starts at a page boundary (so it is
        // aligned for u64) and lives as long as `self`, to which the slice is bound. The bytes may
        // change under us, by this process's pwrite or by another process; all access goes through
        // AtomicU64, which allows that, and every bit pattern is a valid u64. Through a read-only
        // mapping nobody stores (`File::map` says so; a store would fault); atomic loads of 8
        // bytes from read-only memory are allowed on the targets that std's atomics document
        // (x86-64 and AArch64 among them). Through a writable one stores are as good as any to
        // shared memory. Reading past the end of the file would raise SIGBUS: that is an end of
        // the process, not undefined behaviour, and callers keep to pages that the durable
        // directory names.
        unsafe { std::slice::from_raw_parts(self.raw.as_ptr().cast::<Word>(), self.words) }
    }
}

/// Zeroed words, read at random by many threads, in huge pages if available.
///
/// ```
/// use std::sync::atomic::Ordering;
/// let words = filemap_io::LargeWords::zeroed(1024)?;
/// words[7].store(1, Ordering::Relaxed);
/// assert_eq!((words.len(), words[7].load(Ordering::Relaxed)), (1024, 1));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct LargeWords(Words);

#[cfg(not(filemap_loom))]
type Words = OsMap;
#[cfg(filemap_loom)]
type Words = Vec<Word>;

impl LargeWords {
    /// Maps `words` zero words. Memory is allocated on first store.
    ///
    /// # Errors
    /// If that much memory cannot be mapped.
    #[cfg(not(filemap_loom))]
    pub fn zeroed(words: usize) -> io::Result<LargeWords> {
        let bytes = words.checked_mul(8).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(LargeWords(OsMap { raw: memory::mapped(bytes)?.into(), words }))
    }

    /// Under loom: words that the checker sees.
    ///
    /// # Errors
    /// None.
    #[cfg(filemap_loom)]
    pub fn zeroed(words: usize) -> io::Result<LargeWords> {
        Ok(LargeWords((0..words).map(|_| Word::new(0)).collect()))
    }
}

impl std::ops::Deref for LargeWords {
    type Target = [Word];

    #[inline]
    fn deref(&self) -> &[Word] {
        #[cfg(not(filemap_loom))]
        return self.0.words();
        #[cfg(filemap_loom)]
        &self.0
    }
}
