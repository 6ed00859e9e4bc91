//! Bloom filters: sets with false positives at a chosen rate, in a few bits a URL.
//!
//! * [`BloomFilter`]: for a known number of URLs; standard, or blocked (one cache miss a test).
//! * [`GrowingFilter`](growing::GrowingFilter): for any number.
//!
//! `shape` has the arithmetic, `hash` the functions, `words` the bits, `file` the file, `known`
//! the list of known false positives, `merge` the union of two filters.
//!
//! Invariants: bits are only ever set, first in memory, then in the file by `sync`; a URL with
//! only some of its bits in the file is not seen after a crash, unless other URLs set the rest. Of
//! concurrent inserts of one URL exactly one sets its bits: they take turns on a lock chosen by
//! its hash.

mod file;
pub(crate) mod growing;

pub(crate) mod hash;
mod known;
mod merge;
mod options;
pub(crate) mod shape;
mod words;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use filemap_io::{Dir, Latch, Lock, guard};

use crate::error::Result;
use crate::files::{self, by_path};
use crate::seen::{SeenSet, SeenStats, Verdict};
use file::BloomFile;
use hash::HashFamily;
use known::Known;
use options::Design;
use shape::{LINE_BITS, Layout, Shape};
use words::{Probes, Words};

pub use options::BloomOptions;

/// Locks for concurrent inserts.
const TURNS: usize = 1024;

/// A Bloom filter, in memory or with a file.
///
/// With a file, an insert is durable after [`SeenSet::sync`], which writes the changed parts of
/// the file in place; until then a killed process forgets it.
///
/// ```
/// use urlindex::{BloomFilter, BloomOptions, SeenSet};
///
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("seen");
/// let filter = BloomFilter::create(&path, BloomOptions::new(1_000_000, 1e-4)).unwrap();
/// assert!(filter.insert(b"http://example.com/").unwrap());
/// filter.sync().unwrap();
/// drop(filter);
/// assert!(!BloomFilter::open(&path).unwrap().insert(b"http://example.com/").unwrap());
/// ```
#[derive(Debug)]
pub struct BloomFilter {
    design: Design,
    words: Words,
    turns: Vec<Mutex<()>>,
    urls: AtomicU64,
    /// URLs at the opening.
    urls_before: u64,
    known: Known,
    poison: Latch,
    store: Option<Store>,
}

/// The files of a filter.
#[derive(Debug)]
struct Store {
    dir: Arc<dyn Dir>,
    file: BloomFile,
    syncing: Mutex<()>,
    _lock: Box<dyn Lock>,
}

impl BloomFilter {
    /// An empty filter without a file.
    ///
    /// # Errors
    /// [`crate::StorageError::InvalidOption`].
    pub fn in_memory(options: BloomOptions) -> Result<BloomFilter> {
        let design = options.design()?;
        let words = Words::new(design.shape.bits, file::PART_WORDS);
        Ok(BloomFilter::with(design, words, 0, Known::default(), None))
    }

    by_path! {
        /// Creates an empty filter in a new file of full size.
        ///
        /// # Errors
        /// [`crate::StorageError::InvalidOption`]; [`crate::StorageError::Locked`];
        /// [`crate::StorageError::Io`], with [`std::io::ErrorKind::AlreadyExists`] if the file
        /// exists.
        fn create, create_in(dir, name, options: BloomOptions) -> Result<BloomFilter> {
            let design = options.design()?;
            let lock = files::lock(&*dir, name)?;
            files::check_absent(&*dir, name)?;
            files::check_space(&*dir, name, design.shape.bits / 8)?;
            let words = Words::new(design.shape.bits, file::PART_WORDS);
            let file = BloomFile::create(&*dir, name, &design, &words)?;
            let store = Store { dir, file, syncing: Mutex::new(()), _lock: lock };
            Ok(BloomFilter::with(design, words, 0, Known::default(), Some(store)))
        }
    }

    by_path! {
        /// Opens a filter: reads and checks all of it.
        ///
        /// # Errors
        /// [`crate::StorageError::Corrupt`] with the first bad sector's offset;
        /// [`crate::StorageError::NewerFormat`]; [`crate::StorageError::Locked`];
        /// [`crate::StorageError::Io`].
        fn open, open_in(dir, name) -> Result<BloomFilter> {
            let lock = files::lock(&*dir, name)?;
            let (file, design, urls, words) = BloomFile::open(&*dir, name)?;
            let known = Known::read(&*dir, name, file.id())?;
            let store = Store { dir, file, syncing: Mutex::new(()), _lock: lock };
            Ok(BloomFilter::with(design, words, urls, known, Some(store)))
        }
    }

    by_path! {
        /// Loads a filter as its last sync left it into memory, without a lock: another process
        /// may be inserting. Inserts into the copy stay in memory.
        ///
        /// # Errors
        /// As [`BloomFilter::open`], but never [`crate::StorageError::Locked`].
        fn load, load_in(dir, name) -> Result<BloomFilter> {
            let (file, design, urls, words) = BloomFile::open_read_only(&*dir, name)?;
            let known = Known::read(&*dir, name, file.id())?;
            Ok(BloomFilter::with(design, words, urls, known, None))
        }
    }

    fn with(design: Design, words: Words, urls: u64, known: Known, store: Option<Store>) -> BloomFilter {
        BloomFilter {
            design,
            words,
            turns: (0..TURNS).map(|_| Mutex::new(())).collect(),
            urls: AtomicU64::new(urls),
            urls_before: urls,
            known,
            poison: Latch::default(),
            store,
        }
    }

    /// Number of URLs that the filter is made for. It takes more, at a higher rate.
    pub fn capacity(&self) -> u64 {
        self.design.capacity
    }

    /// Bits and probes.
    pub fn shape(&self) -> (u64, u32) {
        (self.design.shape.bits, self.design.shape.probes)
    }

    /// Placement of a URL's probes.
    pub fn layout(&self) -> Layout {
        self.design.shape.layout
    }

    /// Hash functions and seed.
    pub fn hashing(&self) -> (HashFamily, u64) {
        (self.design.family, self.design.seed)
    }

    /// URLs on the list of known false positives.
    pub fn known_false_positives(&self) -> u64 {
        self.known.len()
    }

    /// The theoretical rate with `urls` URLs.
    pub fn theoretical_rate(&self, urls: u64) -> f64 {
        self.design.shape.rate(urls as f64)
    }

    /// Returns whether a filter of this capacity and layout that is made for `rate` has the size
    /// of this one. It may differ by a line of bits: by how platforms round.
    pub fn is_made_for(&self, rate: f64) -> bool {
        let own = self.design.shape;
        let wanted = Shape::for_rate(own.layout, self.capacity(), rate);
        wanted.is_ok_and(|shape| shape.probes == own.probes && shape.bits.abs_diff(own.bits) <= LINE_BITS)
    }

    /// Lists `url` as a known false positive: it is new until it is inserted. The list is exact,
    /// in a file beside the filter's, and has room for 65,536 URLs.
    ///
    /// Returns false, and lists nothing, if the filter calls the URL new. Give only URLs that were
    /// never inserted: an inserted one would be forgotten.
    ///
    /// # Errors
    /// [`crate::StorageError::Full`]; [`crate::Error::UrlLength`] over 65,535 bytes;
    /// [`crate::StorageError::Poisoned`].
    pub fn note_false_positive(&self, url: impl AsRef<[u8]>) -> Result<bool> {
        let url = url.as_ref();
        self.poison.check()?;
        if !self.words.has::<false>(&self.probes(self.hash(url))) {
            return Ok(false);
        }
        self.known.note(url)?;
        Ok(true)
    }

    #[inline]
    fn hash(&self, url: &[u8]) -> u64 {
        self.design.family.hash(url, self.design.seed)
    }

    #[inline]
    fn probes(&self, hash: u64) -> Probes {
        match self.design.family {
            HashFamily::Xxh3 => Probes::of_hash(&self.design.shape, hash),
            _ => Probes::of_pair(&self.design.shape, hash),
        }
    }

    fn count_new(&self) -> Verdict {
        self.urls.fetch_add(1, Ordering::Relaxed);
        Verdict::New
    }
}

impl SeenSet for BloomFilter {
    fn check_and_insert(&self, url: &[u8]) -> Result<Verdict> {
        self.poison.check()?;
        let hash = self.hash(url);
        let probes = self.probes(hash);
        if !self.words.has::<true>(&probes) {
            let _turn = guard(&self.turns[hash as usize % TURNS]);
            if self.words.insert(&probes) {
                return Ok(self.count_new());
            }
        }
        // All its bits are set: it was inserted, or is a false positive.
        Ok(if self.known.take(url) { self.count_new() } else { Verdict::ProbablySeen })
    }

    fn contains(&self, url: &[u8]) -> Result<Verdict> {
        let is_there = self.words.has::<false>(&self.probes(self.hash(url))) && !self.known.has(url);
        Ok(if is_there { Verdict::ProbablySeen } else { Verdict::New })
    }

    fn len(&self) -> u64 {
        self.urls.load(Ordering::Relaxed)
    }

    fn memory_bytes(&self) -> u64 {
        self.words.memory_bytes() + (TURNS * size_of::<Mutex<()>>()) as u64 + self.known.memory_bytes()
    }

    fn disk_bytes(&self) -> u64 {
        self.store.as_ref().map_or(0, |store| store.file.len() + self.known.disk_bytes())
    }

    /// Computed from the bits, not from theory, so a poor hash shows. Reads the whole filter.
    fn false_positive_rate(&self) -> f64 {
        self.words.rate(&self.design.shape)
    }

    fn expected_loss(&self) -> f64 {
        self.design.shape.loss(self.len() as f64)
    }

    /// After a crash the count of URLs, like the URLs, may miss inserts since the last sync.
    fn sync(&self) -> Result<()> {
        let Some(store) = &self.store else { return Ok(()) };
        let _turn = guard(&store.syncing);
        self.poison.guard(|| {
            store.file.sync(&self.design, self.len(), &self.words)?;
            self.known.write(&*store.dir, &store.file)
        })
    }

    fn stats(&self) -> SeenStats {
        SeenStats::of(self, self.len() - self.urls_before)
    }
}

#[cfg(test)]
mod tests;
