//! `StoredSet`: a seen set of any kind, given by the path of its file.
//!
//! `kind` finds the kind from the files, never from the caller's word; `note` records the
//! canonicaliser of the set's URLs: with URLs of two, a set would call new what it has.
//!
//! Files of a set `NAME`: `NAME` itself; `NAME.canon`, the note; `NAME.lock`; `NAME.meta` of a
//! bitmap; `NAME.known` of a Bloom filter with known false positives; runs and log of a set on
//! disk, `NAME.000001.run` and so on; `NAME.room` of a trie or growing filter (`room`);
//! `NAME.000001.requests` and so on of a set that is served (`journal`).
//!
//! Invariants: no file is overwritten by a new set; a read-only set changes no file and takes no
//! lock; a trie, which is in memory, is in its file after [`SeenSet::sync`] like all others.

mod keys;
mod kind;
mod merge;
mod note;
mod room;

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use filemap_io::{Access, Dir, Latch, Lock, guard};

use crate::bitmap::{HashBitmap, Md5Bitmap, SlotHash};
use crate::bloom::BloomFilter;
use crate::bloom::growing::GrowingFilter;
use crate::canonical::Canonicalizer;
use crate::disk::{DiskOptions, DiskUrlSet};
use crate::error::{Error, Result};
use crate::files::{self, beside, by_path, place};
use crate::journal;
use crate::seen::{SeenSet, SeenStats, Verdict};
use crate::trie::UrlTrie;

pub(crate) use keys::{KeySet, Keys};
pub use kind::{NewSet, SetKind};
pub use merge::Merged;

/// A set by its kind, for what only that kind offers.
///
/// ```
/// use urlindex::{SeenSet, Whatwg, stored::{AnySet, NewSet, StoredSet}};
///
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("seen");
/// let set = StoredSet::create(&path, NewSet::Trie, &Whatwg).unwrap();
/// set.insert(b"http://example.com/").unwrap();
/// if let AnySet::Trie(trie) = set.any() {
///     assert_eq!(trie.iter().count(), 1);
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum AnySet {
    /// The MD5 bitmap.
    Md5Bitmap(Md5Bitmap),
    /// The filter of classic hash functions.
    HashBitmap(HashBitmap),
    /// A Bloom filter.
    Bloom(BloomFilter),
    /// The growing filter.
    Growing(GrowingFilter),
    /// The exact set of texts.
    Trie(UrlTrie),
    /// The exact set of fingerprints, on disk.
    Disk(Box<DiskUrlSet>),
}

/// A seen set in files, of any kind.
///
/// ```
/// use urlindex::{SeenSet, Verdict, Whatwg, stored::{NewSet, StoredSet}};
///
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("seen.trie");
/// let set = StoredSet::create(&path, NewSet::Trie, &Whatwg).unwrap();
/// set.insert(b"http://example.com/").unwrap();
/// set.close().unwrap();
///
/// let set = StoredSet::open_read_only(&path).unwrap();
/// assert_eq!(set.contains(b"http://example.com/").unwrap(), Verdict::Seen);
/// assert_eq!(set.canonicalizer().unwrap().unwrap().name(), "whatwg");
/// ```
#[derive(Debug)]
pub struct StoredSet {
    dir: Arc<dyn Dir>,
    name: String,
    set: AnySet,
    is_read_only: bool,
    /// Of a trie: changes already in its file.
    saved: AtomicU64,
    saving: Mutex<()>,
    poison: Latch,
    room: Option<room::Room>,
    /// Name and version of the canonicaliser of its URLs, once read.
    rules: Mutex<Option<Vec<u8>>>,
    /// Of a read-only set: answered keys that its files lack.
    waiting: Option<Box<KeySet>>,
    /// Of a trie; other kinds hold theirs.
    _lock: Option<Box<dyn Lock>>,
}

impl StoredSet {
    by_path! {
        /// Creates an empty set of URLs of `canonicalizer`, in new files.
        ///
        /// # Errors
        /// [`crate::StorageError::Io`] with [`std::io::ErrorKind::AlreadyExists`] if any of its
        /// files exists; [`crate::StorageError::InvalidOption`];
        /// [`crate::StorageError::Locked`]; [`crate::StorageError::Io`].
        fn create, create_in(dir, name, new: NewSet, canonicalizer: &dyn Canonicalizer) -> Result<StoredSet> {
            note::check(canonicalizer)?;
            for file in files_of(name).into_iter().chain(journal::files_of(&*dir, name)?) {
                files::check_absent(&*dir, &file)?;
            }
            let (to, mut lock) = (Arc::clone(&dir), None);
            let set = match new {
                NewSet::Md5Bitmap { bits } => AnySet::Md5Bitmap(Md5Bitmap::create_in(to, name, bits)?),
                NewSet::HashBitmap { hashes, slots } => {
                    AnySet::HashBitmap(HashBitmap::create_in(to, name, &hashes, slots)?)
                }
                NewSet::Bloom(options) => AnySet::Bloom(BloomFilter::create_in(to, name, options)?),
                NewSet::Growing { rate, seed } => AnySet::Growing(GrowingFilter::create_in(to, name, rate, seed)?),
                NewSet::Trie => {
                    lock = Some(files::lock(&*dir, name)?);
                    files::check_absent(&*dir, name)?;
                    let trie = UrlTrie::new();
                    trie.save_in(&*dir, name)?;
                    AnySet::Trie(trie)
                }
                NewSet::Disk(options) => AnySet::Disk(Box::new(DiskUrlSet::create_in(to, name, options)?)),
            };
            let set = StoredSet::with(dir, name, set, lock, false);
            if let Err(error) = set.take_room().and_then(|()| set.note_canonicalizer(canonicalizer)) {
                files_of(name).iter().chain([&beside::room(name)]).for_each(|file| drop(set.dir.remove(file)));
                return Err(error);
            }
            Ok(set)
        }
    }

    /// Adopts a file of bare words of an MD5 bitmap that another program made, or whose sidecar is
    /// missing; its URLs are those of `canonicalizer`. Writes its sidecar and its note.
    ///
    /// # Errors
    /// [`Error::NotASet`] if its length is not a power of two from 8 KiB to 8 GiB;
    /// [`crate::StorageError::Io`], with [`std::io::ErrorKind::AlreadyExists`] if it has a
    /// sidecar; [`crate::StorageError::Locked`]; [`Error::Unsupported`] if it begins as a set of
    /// another kind; [`crate::StorageError::InvalidOption`] if it has the note of another
    /// canonicaliser, or this one cannot be found by its name. Nothing was changed then.
    pub fn adopt(path: impl AsRef<Path>, canonicalizer: &dyn Canonicalizer) -> Result<StoredSet> {
        StoredSet::take_up(path, canonicalizer, |dir, name| Ok(AnySet::Md5Bitmap(Md5Bitmap::adopt_in(dir, name)?)))
    }

    /// [`StoredSet::adopt`] of a file of bits that another program made with classic hash
    /// functions.
    ///
    /// # Errors
    /// As [`StoredSet::adopt`], and [`crate::StorageError::InvalidOption`] if its length does not
    /// fit the functions or the slots.
    pub fn adopt_hashed(
        path: impl AsRef<Path>,
        hashes: &[SlotHash],
        slots: Option<u64>,
        canonicalizer: &dyn Canonicalizer,
    ) -> Result<StoredSet> {
        let adopt = |dir, name: &str| Ok(AnySet::HashBitmap(HashBitmap::adopt_in(dir, name, hashes, slots)?));
        StoredSet::take_up(path, canonicalizer, adopt)
    }

    fn take_up(
        path: impl AsRef<Path>,
        canonicalizer: &dyn Canonicalizer,
        adopt: impl FnOnce(Arc<dyn Dir>, &str) -> Result<AnySet>,
    ) -> Result<StoredSet> {
        note::check(canonicalizer)?;
        let (dir, name) = place(path.as_ref())?;
        if let Some(kind) = SetKind::of_magic(&*dir, &name)? {
            let why = format!("it begins like a set of the kind {}: open it as that", kind.name());
            return Err(Error::Unsupported { file: name, op: "be adopted as a bitmap", why });
        }
        if let Some(noted) = note::read(&*dir, &name)?
            && (noted.name(), noted.version()) != (canonicalizer.name(), canonicalizer.version())
        {
            let (rule, version) = (noted.name(), noted.version());
            return Err(Error::option(
                "canonicalizer",
                format!("the URLs of {name} were made canonical by `{rule}` version {version}: adopt it with that"),
            ));
        }
        let set = adopt(Arc::clone(&dir), &name)?;
        let set = StoredSet::with(dir, &name, set, None, false);
        set.note_canonicalizer(canonicalizer)?;
        Ok(set)
    }

    /// Opens a set for writing. If it was served, inserts what was answered before a crash.
    ///
    /// # Errors
    /// [`crate::StorageError::Io`], with [`std::io::ErrorKind::NotFound`] if it is missing:
    /// nothing is created then; [`Error::NotASet`]; [`crate::StorageError::Locked`];
    /// [`crate::StorageError::Corrupt`]; [`crate::StorageError::NewerFormat`].
    pub fn open(path: impl AsRef<Path>) -> Result<StoredSet> {
        StoredSet::open_with(path, DiskOptions::new())
    }

    by_path! {
        /// [`StoredSet::open`] with memory and clock for a set on disk. Other kinds ignore the
        /// options.
        ///
        /// # Errors
        /// As [`StoredSet::open`]; [`crate::StorageError::InvalidOption`].
        fn open_with, open_in(dir, name, options: DiskOptions) -> Result<StoredSet> {
            let (from, mut lock) = (Arc::clone(&dir), None);
            let set = match SetKind::of_files(&*dir, name)? {
                SetKind::Md5Bitmap => AnySet::Md5Bitmap(Md5Bitmap::open_in(from, name)?),
                SetKind::HashBitmap => AnySet::HashBitmap(HashBitmap::open_in(from, name)?),
                SetKind::Bloom => AnySet::Bloom(BloomFilter::open_in(from, name)?),
                SetKind::Growing => AnySet::Growing(GrowingFilter::open_in(from, name)?),
                SetKind::Trie => {
                    lock = Some(files::lock(&*dir, name)?);
                    AnySet::Trie(UrlTrie::load_in(from, name)?)
                }
                SetKind::Disk => AnySet::Disk(Box::new(DiskUrlSet::open_in(from, name, options)?)),
            };
            let set = StoredSet::with(dir, name, set, lock, false);
            set.take_answered()?;
            Ok(set)
        }
    }

    /// Opens a set read-only, without a lock: beside a writer it has what was last synced (a
    /// bitmap: what was inserted), and what a server of it has answered ([`StoredSet::waiting`]).
    ///
    /// # Errors
    /// As [`StoredSet::open`], but never [`crate::StorageError::Locked`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<StoredSet> {
        StoredSet::open_read_only_with(path, DiskOptions::new())
    }

    by_path! {
        /// [`StoredSet::open_read_only`] with memory and clock for a set on disk.
        ///
        /// # Errors
        /// As [`StoredSet::open_read_only`]; [`crate::StorageError::InvalidOption`].
        fn open_read_only_with, read_in(dir, name, options: DiskOptions) -> Result<StoredSet> {
            let from = Arc::clone(&dir);
            let waiting = journal::waiting(&dir, name)?;
            let set = match SetKind::of_files(&*dir, name)? {
                SetKind::Md5Bitmap => AnySet::Md5Bitmap(Md5Bitmap::open_read_only_in(from, name)?),
                SetKind::HashBitmap => AnySet::HashBitmap(HashBitmap::open_read_only_in(from, name)?),
                SetKind::Bloom => AnySet::Bloom(BloomFilter::load_in(from, name)?),
                SetKind::Growing => AnySet::Growing(GrowingFilter::load_in(from, name)?),
                SetKind::Trie => AnySet::Trie(UrlTrie::load_in(from, name)?),
                SetKind::Disk => AnySet::Disk(Box::new(DiskUrlSet::open_read_only_in(from, name, options)?)),
            };
            let mut set = StoredSet::with(dir, name, set, None, true);
            set.look_at(&waiting)?;
            Ok(set)
        }
    }

    fn with(dir: Arc<dyn Dir>, name: &str, set: AnySet, lock: Option<Box<dyn Lock>>, is_read_only: bool) -> StoredSet {
        let saved = AtomicU64::new(0);
        let (name, saving, poison) = (name.to_owned(), Mutex::new(()), Latch::default());
        let room = room::Room::of(&set, &*dir, &name).filter(|_| !is_read_only);
        let (rules, waiting) = (Mutex::new(None), None);
        StoredSet { dir, name, set, is_read_only, saved, saving, poison, room, rules, waiting, _lock: lock }
    }

    /// The kind of this set.
    pub fn kind(&self) -> SetKind {
        match &self.set {
            AnySet::Md5Bitmap(_) => SetKind::Md5Bitmap,
            AnySet::HashBitmap(_) => SetKind::HashBitmap,
            AnySet::Bloom(_) => SetKind::Bloom,
            AnySet::Growing(_) => SetKind::Growing,
            AnySet::Trie(_) => SetKind::Trie,
            AnySet::Disk(_) => SetKind::Disk,
        }
    }

    /// The set by its kind. Insert through the [`StoredSet`] only, which refuses if it is
    /// read-only.
    pub fn any(&self) -> &AnySet {
        &self.set
    }

    /// Number of URLs that a server of this set has answered but its files lack, for a set that is
    /// open read-only, beside its server or after a crash. Look-ups find them; [`StoredSet::any`],
    /// counts and merges do not. Opening the set for writing inserts them.
    pub fn waiting(&self) -> u64 {
        self.waiting.as_ref().map_or(0, |waiting| waiting.len() as u64)
    }

    /// Refuses `op` on a set if it would leave out [`StoredSet::waiting`] URLs.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn check_whole(&self, op: &'static str) -> Result<()> {
        match self.waiting() {
            0 => Ok(()),
            waiting => Err(Error::Unsupported {
                file: self.name.clone(),
                op,
                why: format!(
                    "{waiting} URLs that its server has answered are not in it yet: stop the server; if that was \
                     killed, open the set for writing once, such as by `fm-tool seen add` of an empty list"
                ),
            }),
        }
    }

    /// The canonicaliser of the set's URLs; `None` without a note.
    ///
    /// # Errors
    /// [`Error::UnknownCanonicalizer`]; [`crate::StorageError::Corrupt`];
    /// [`crate::StorageError::Io`].
    pub fn canonicalizer(&self) -> Result<Option<Arc<dyn Canonicalizer>>> {
        note::read(&*self.dir, &self.name)
    }

    /// Records the canonicaliser of the set's URLs, durably.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`crate::StorageError::Io`]; [`crate::StorageError::InvalidOption`] if
    /// it cannot be found by its name.
    pub fn note_canonicalizer(&self, canonicalizer: &dyn Canonicalizer) -> Result<()> {
        self.check_writable()?;
        *guard(&self.rules) = None;
        note::write(&*self.dir, &self.name, canonicalizer)
    }

    /// Forgets URLs, in order: they are new until inserted again. Returns for each whether it was
    /// seen; of a repeated URL only the first can have been. A trie is rebuilt without them
    /// ([`UrlTrie::retain`]); a Bloom filter lists them as known false positives, at most 65,536;
    /// a set on disk keeps tombstones until they reach its oldest run. Durable after
    /// [`SeenSet::sync`].
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the kind cannot; [`crate::StorageError::Full`];
    /// [`Error::ReadOnly`]; [`crate::StorageError::Poisoned`].
    pub fn forget(&self, urls: &[impl AsRef<[u8]>]) -> Result<Vec<bool>> {
        self.check_writable()?;
        let texts = urls.iter().map(AsRef::as_ref);
        let why = match &self.set {
            AnySet::Trie(trie) => {
                let mut gone: HashSet<&[u8]> = HashSet::new();
                let were_seen: Result<Vec<bool>> =
                    texts.map(|url: &[u8]| Ok(!trie.contains(url)?.is_new() && gone.insert(url))).collect();
                if !gone.is_empty() {
                    trie.retain(|url| !gone.contains(url));
                }
                return were_seen;
            }
            AnySet::Bloom(filter) => {
                let forget = |url: &[u8]| Ok(!filter.contains(url)?.is_new() && filter.note_false_positive(url)?);
                return texts.map(forget).collect();
            }
            AnySet::Disk(set) => return set.forget_all(urls),
            AnySet::Md5Bitmap(_) | AnySet::HashBitmap(_) => {
                "other URLs may share a URL's bits, and would be forgotten with it"
            }
            AnySet::Growing(_) => "other URLs may share a URL's fingerprint, and would be forgotten with it",
        };
        let why = format!("{why}. A trie, a Bloom filter and a set on disk can; or fill a new set");
        Err(Error::Unsupported { file: self.name.clone(), op: "forget a URL", why })
    }

    /// Syncs and closes the set, so that damage to it is found at the next opening.
    ///
    /// # Errors
    /// [`crate::StorageError::Io`]; [`crate::StorageError::Poisoned`].
    pub fn close(self) -> Result<()> {
        self.sync()?;
        match self.set {
            AnySet::Md5Bitmap(set) => set.close(),
            AnySet::HashBitmap(set) => set.close(),
            _ => Ok(()),
        }
    }

    fn check_writable(&self) -> Result<()> {
        if self.is_read_only {
            return Err(Error::ReadOnly { file: self.name.clone() });
        }
        Ok(self.poison.check()?)
    }

    fn save(&self, trie: &UrlTrie) -> Result<()> {
        let _turn = guard(&self.saving);
        let changes = trie.changes();
        if self.saved.load(Ordering::SeqCst) == changes {
            return Ok(());
        }
        // The file may lack concurrent inserts: then there are further changes, and it is written
        // again.
        self.poison.guard(|| self.write_into_room(|| trie.save_in(&*self.dir, &self.name).map(drop)))?;
        self.saved.store(changes, Ordering::SeqCst);
        Ok(())
    }
}

impl AnySet {
    /// The set as a [`SeenSet`].
    pub fn seen(&self) -> &dyn SeenSet {
        match self {
            AnySet::Md5Bitmap(set) => set,
            AnySet::HashBitmap(set) => set,
            AnySet::Bloom(set) => set,
            AnySet::Growing(set) => set,
            AnySet::Trie(set) => set,
            AnySet::Disk(set) => &**set,
        }
    }
}

impl SeenSet for StoredSet {
    fn check_and_insert(&self, url: &[u8]) -> Result<Verdict> {
        self.check_writable()?;
        self.make_room(&[url])?;
        self.set.seen().check_and_insert(url)
    }

    fn contains(&self, url: &[u8]) -> Result<Verdict> {
        let verdict = self.set.seen().contains(url)?;
        Ok(if verdict.is_new() && self.is_waiting(url) { Verdict::Seen } else { verdict })
    }

    fn check_and_insert_batch(&self, urls: &[&[u8]], verdicts: &mut Vec<Verdict>) -> Result<()> {
        self.check_writable()?;
        verdicts.clear();
        self.make_room(urls)?;
        self.set.seen().check_and_insert_batch(urls, verdicts)
    }

    fn contains_batch(&self, urls: &[&[u8]], verdicts: &mut Vec<Verdict>) -> Result<()> {
        self.set.seen().contains_batch(urls, verdicts)?;
        if self.waiting.is_some() {
            let new = urls.iter().zip(verdicts).filter(|(url, verdict)| verdict.is_new() && self.is_waiting(url));
            new.for_each(|(_, verdict)| *verdict = Verdict::Seen);
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.set.seen().len()
    }

    fn memory_bytes(&self) -> u64 {
        self.set.seen().memory_bytes()
    }

    /// Lengths of all its files; unreadable ones are left out.
    fn disk_bytes(&self) -> u64 {
        let files = files_of(&self.name);
        let len = |file: &String| self.dir.open(file, Access::Read).and_then(|file| file.len());
        let journal = journal::files_of(&*self.dir, &self.name).unwrap_or_default();
        let room = beside::room(&self.name);
        let files = files.iter().chain([&room]).chain(&journal);
        let found: u64 = files.filter_map(|file| len(file).ok()).sum();
        match &self.set {
            // Both sums count the manifest.
            AnySet::Disk(set) => (found + set.disk_bytes()).saturating_sub(len(&self.name).unwrap_or(0)),
            _ => found,
        }
    }

    fn false_positive_rate(&self) -> f64 {
        self.set.seen().false_positive_rate()
    }

    fn expected_loss(&self) -> f64 {
        self.set.seen().expected_loss()
    }

    /// Rewrites a trie as a whole, if it has changed.
    fn sync(&self) -> Result<()> {
        match &self.set {
            _ if self.is_read_only => Ok(()),
            AnySet::Trie(trie) => self.save(trie),
            AnySet::Growing(set) if set.is_changed() => self.write_into_room(|| set.sync()),
            set => set.seen().sync(),
        }
    }

    fn stats(&self) -> SeenStats {
        SeenStats { disk_bytes: self.disk_bytes(), ..self.set.seen().stats() }
    }
}

/// All files that a set may have, except its lock.
fn files_of(name: &str) -> [String; 4] {
    [name.to_owned(), beside::meta(name), beside::known(name), beside::canon(name)]
}

#[cfg(test)]
mod tests;
