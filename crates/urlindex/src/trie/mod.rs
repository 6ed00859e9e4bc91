//! `UrlTrie`: an exact set of URL texts in memory, with shared prefixes and in order.
//!
//! A trie with path compression, cut into [leaves](leaf) of a kilobyte or two. A leaf stores each
//! URL as the edge by which it leaves the paths of earlier ones, appended at the end, so an insert
//! moves nothing. Blocks lie in an [`arena`], and a [`tree`] of [inner] blocks leads to a URL's
//! leaf. Edges are encoded in the [`code`]s of a table of [`symbols`], in about half of their
//! bytes; the table is trained ([`training`]) on the trie's own edges, and again at each growth by
//! eight; that insert and all others wait for it.
//!
//! The cost of a test is memory outside the caches: some lines of inner blocks and those of one
//! leaf, all fetched at once; in batches, those of eight URLs.
//!
//! A prefix of an inserted URL is not itself in the set.
//!
//! The set is in memory only: [`UrlTrie::save`] writes a [`file`](mod@file), [`UrlTrie::load`]
//! reads one.

mod arena;
mod code;
mod file;
mod inner;
mod iter;
mod key;
mod leaf;
mod order;
mod symbols;
mod training;
mod tree;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use filemap_io::Dir;

use crate::error::{Error, Result};
use crate::files::{by_path, in_any_dir, place};
use crate::seen::{SeenSet, SeenStats, Verdict};
use tree::{KEY_BYTES_MAX, Tree};

pub use iter::UrlTrieIter;

/// URLs of a batch tested under one lock.
const BATCH: usize = 256;

/// An exact set of URLs in memory, in order.
///
/// ```
/// use urlindex::{SeenSet, UrlTrie, Verdict};
///
/// let set = UrlTrie::new();
/// assert_eq!(set.check_and_insert(b"http://example.com/a/b").unwrap(), Verdict::New);
/// assert_eq!(set.contains(b"http://example.com/a").unwrap(), Verdict::New);
/// set.insert(b"http://example.com/a").unwrap();
/// let urls: Vec<Vec<u8>> = set.prefix(b"http://example.com/").collect();
/// assert_eq!(urls, [&b"http://example.com/a"[..], b"http://example.com/a/b"]);
/// ```
#[derive(Debug, Default)]
pub struct UrlTrie {
    tree: RwLock<Tree>,
    inserted: AtomicU64,
    /// URLs inserted or removed since it was created or loaded.
    changes: AtomicU64,
}

impl UrlTrie {
    /// An empty set.
    pub fn new() -> UrlTrie {
        UrlTrie::default()
    }

    /// All URLs in the order of their bytes. Beside concurrent inserts, URLs present throughout
    /// come once.
    pub fn iter(&self) -> UrlTrieIter<'_> {
        UrlTrieIter::new(self, Vec::new())
    }

    /// URLs that begin with `prefix`, in order.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> UrlTrieIter<'_> {
        UrlTrieIter::new(self, prefix.as_ref().to_vec())
    }

    /// The `http` and `https` URLs of a host, with any port; URLs with a user are not found. For
    /// canonical URLs give the canonical host ([`crate::canonical::canonical_host`]).
    pub fn host<H: AsRef<[u8]>>(&self, host: H) -> impl Iterator<Item = Vec<u8>> + use<'_, H> {
        let wanted = host.as_ref().to_vec();
        let of_scheme = |scheme: &[u8]| self.prefix([scheme, &wanted].concat());
        let candidates = of_scheme(b"http://").chain(of_scheme(b"https://"));
        candidates.filter(move |url| crate::canonical::host(url) == Some(wanted.as_slice()))
    }

    /// Writes the set to a file, atomically. Returns the number of URLs.
    ///
    /// # Errors
    /// [`crate::StorageError::Io`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<u64> {
        let (dir, name) = place(path.as_ref())?;
        self.save_in(&*dir, &name)
    }

    in_any_dir! {
        /// [`UrlTrie::save`] in any directory.
        ///
        /// # Errors
        /// As there.
        fn save_in(&self, dir: &dyn Dir, name: &str) -> Result<u64> {
            let learnt = self.read().learnt();
            file::save(dir, name, &learnt, self.iter())
        }
    }

    by_path! {
        /// Loads a saved set.
        ///
        /// # Errors
        /// [`crate::StorageError::Corrupt`] with the offset of the bad frame;
        /// [`crate::StorageError::NewerFormat`]; [`crate::StorageError::Io`].
        fn load, load_in(dir, name) -> Result<UrlTrie> {
            let tree = file::load(&*dir, name, Tree::new, Tree::insert)?;
            Ok(UrlTrie { tree: RwLock::new(tree), ..UrlTrie::default() })
        }
    }

    /// Keeps only the URLs for which `keep` returns true; returns how many were dropped. Rebuilds
    /// the trie, which takes a pass over it and the memory of both; inserts wait.
    pub fn retain(&self, mut keep: impl FnMut(&[u8]) -> bool) -> u64 {
        let mut tree = self.write();
        let (mut kept, mut some, mut last) = (Tree::new(&tree.learnt()), Vec::new(), Vec::new());
        let mut is_first = true;
        loop {
            tree.some_after(&last, is_first, &mut some);
            is_first = false;
            let Some(end) = some.last() else { break };
            last.clone_from(end);
            for url in some.drain(..).filter(|url| keep(url)) {
                kept.insert(&url);
            }
        }
        let dropped = tree.len() - kept.len();
        *tree = kept;
        self.changes.fetch_add(dropped, Ordering::SeqCst);
        dropped
    }

    /// URLs inserted or removed since it was created or loaded.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Tree> {
        self.tree.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, Tree> {
        self.tree.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_length(url: &[u8]) -> Result<()> {
        match url.len() {
            1..=KEY_BYTES_MAX => Ok(()),
            len => Err(Error::UrlLength { len, max: KEY_BYTES_MAX }),
        }
    }
}

impl SeenSet for UrlTrie {
    fn check_and_insert(&self, url: &[u8]) -> Result<Verdict> {
        UrlTrie::check_length(url)?;
        if !self.write().insert(url) {
            return Ok(Verdict::Seen);
        }
        self.inserted.fetch_add(1, Ordering::Relaxed);
        self.changes.fetch_add(1, Ordering::SeqCst);
        Ok(Verdict::New)
    }

    fn contains(&self, url: &[u8]) -> Result<Verdict> {
        Ok(if self.read().contains(url) { Verdict::Seen } else { Verdict::New })
    }

    /// Holds the lock for 256 URLs at once, and fetches the memory of several together.
    fn check_and_insert_batch(&self, urls: &[&[u8]], verdicts: &mut Vec<Verdict>) -> Result<()> {
        verdicts.clear();
        verdicts.reserve(urls.len());
        let bad = urls.iter().position(|url| UrlTrie::check_length(url).is_err());
        for part in urls[..bad.unwrap_or(urls.len())].chunks(BATCH) {
            let mut new = 0;
            self.write().insert_all(part, |is_new| {
                new += u64::from(is_new);
                verdicts.push(if is_new { Verdict::New } else { Verdict::Seen });
            });
            self.inserted.fetch_add(new, Ordering::Relaxed);
            self.changes.fetch_add(new, Ordering::SeqCst);
        }
        bad.map_or(Ok(()), |bad| UrlTrie::check_length(urls[bad]))
    }

    /// Fetches the memory of several URLs together.
    fn contains_batch(&self, urls: &[&[u8]], verdicts: &mut Vec<Verdict>) -> Result<()> {
        verdicts.clear();
        verdicts.reserve(urls.len());
        for part in urls.chunks(BATCH) {
            self.read().contain(part, |is_there| verdicts.push(if is_there { Verdict::Seen } else { Verdict::New }));
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.read().len()
    }

    fn memory_bytes(&self) -> u64 {
        self.read().memory_bytes()
    }

    fn disk_bytes(&self) -> u64 {
        0
    }

    fn false_positive_rate(&self) -> f64 {
        0.0
    }

    fn expected_loss(&self) -> f64 {
        0.0
    }

    /// Does nothing: the set is in memory. [`UrlTrie::save`] writes it.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> SeenStats {
        SeenStats::of(self, self.inserted.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests;
