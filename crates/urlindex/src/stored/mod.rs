//! `StoredSet`: a seen set by the path of its file, whatever its kind: made, opened, asked,
//! merged, closed.
//!
//! For programs that are given a path and do not know what lies there. [`kind`] tells that by the
//! files, never by a word of the caller's; [`note`] remembers by which rule the URLs in the set
//! were made canonical, since two rules in one set would make it call URLs new that it has.
//!
//! The files of a set `NAME`: `NAME` itself; `NAME.canon`, the note; `NAME.lock`; of a bitmap
//! `NAME.meta`; of a Bloom filter `NAME.known`, if it has such a list; of a set on disk its runs
//! and its log, `NAME.000001.run` and so on; of a trie and a growing filter `NAME.room`
//! ([`room`]).
//!
//! Invariants: nothing is made where something is; a set that is open to be read changes no file
//! and takes no lock; a trie, which is in memory, is in its file after [`SeenSet::sync`] as the
//! others are.

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
use crate::files::{self, beside, place};
use crate::seen::{SeenSet, SeenStats, Verdict};
use crate::trie::UrlTrie;

pub use kind::{NewSet, SetKind};
pub use merge::Merged;

/// A set of one of the kinds, for what only that kind can tell.
///
/// ```
/// use urlindex::{AnySet, NewSet, SeenSet, StoredSet, Whatwg};
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
    /// The filter of functions of old.
    HashBitmap(HashBitmap),
    /// A Bloom filter.
    Bloom(BloomFilter),
    /// A filter that grows.
    Growing(GrowingFilter),
    /// The exact set of texts.
    Trie(UrlTrie),
    /// The exact set of fingerprints, on disk.
    Disk(Box<DiskUrlSet>),
}

/// A seen set in files. See the module.
///
/// ```
/// use urlindex::{NewSet, SeenSet, StoredSet, Verdict, Whatwg};
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
    /// Of a trie: its changes that its file has.
    saved: AtomicU64,
    saving: Mutex<()>,
    poison: Latch,
    room: Option<room::Room>,
    /// Of a trie: the others hold their own.
    _lock: Option<Box<dyn Lock>>,
}

impl StoredSet {
    /// Makes an empty set of URLs that `canonicalizer` made canonical, in new files beside each
    /// other.
    ///
    /// # Errors
    /// [`crate::StorageError::Io`] with [`std::io::ErrorKind::AlreadyExists`] if any of its files
    /// is there; [`crate::StorageError::InvalidOption`]; [`crate::StorageError::Locked`];
    /// [`crate::StorageError::Io`].
    pub fn create(path: impl AsRef<Path>, new: NewSet, canonicalizer: &dyn Canonicalizer) -> Result<StoredSet> {
        let (dir, name) = place(path.as_ref())?;
        StoredSet::create_in(dir, &name, new, canonicalizer)
    }

    fn create_in(dir: Arc<dyn Dir>, name: &str, new: NewSet, canonicalizer: &dyn Canonicalizer) -> Result<StoredSet> {
        note::check(canonicalizer)?;
        for file in files_of(name) {
            check_absent(&*dir, &file)?;
        }
        let (set, lock) = match new {
            NewSet::Md5Bitmap { bits } => {
                (AnySet::Md5Bitmap(Md5Bitmap::create_in(Arc::clone(&dir), name, bits)?), None)
            }
            NewSet::HashBitmap { hashes, slots } => {
                (AnySet::HashBitmap(HashBitmap::create_in(Arc::clone(&dir), name, &hashes, slots)?), None)
            }
            NewSet::Bloom(options) => (AnySet::Bloom(BloomFilter::create_in(Arc::clone(&dir), name, options)?), None),
            NewSet::Growing { rate, seed } => {
                (AnySet::Growing(GrowingFilter::create_in(Arc::clone(&dir), name, rate, seed)?), None)
            }
            NewSet::Trie => {
                let lock = files::lock(&*dir, name)?;
                check_absent(&*dir, name)?;
                let trie = UrlTrie::new();
                trie.save_in(&*dir, name)?;
                (AnySet::Trie(trie), Some(lock))
            }
            NewSet::Disk(options) => (on_disk(DiskUrlSet::create_in(Arc::clone(&dir), name, options)?), None),
        };
        let set = StoredSet::with(dir, name, set, lock, false);
        if let Err(error) = set.take_room() {
            [name.to_owned(), beside::room(name)].iter().for_each(|file| drop(set.dir.remove(file)));
            return Err(error);
        }
        set.note_canonicalizer(canonicalizer)?;
        Ok(set)
    }

    /// Takes up a file of bare words of an MD5 bitmap that another program made, or whose sidecar
    /// is lost, whose URLs were made canonical as `canonicalizer` does it: it gets its sidecar and
    /// its note.
    ///
    /// # Errors
    /// [`Error::NotASet`] if its length is no power of two between 8 KiB and 8 GiB;
    /// [`crate::StorageError::Io`], with [`std::io::ErrorKind::AlreadyExists`] if it has a
    /// sidecar; [`crate::StorageError::Locked`]; [`Error::Unsupported`] if it begins as a set of
    /// another kind; [`crate::StorageError::InvalidOption`] if it has a note of another rule, or
    /// no program could find the rule again by its name. Nothing was changed then.
    pub fn adopt(path: impl AsRef<Path>, canonicalizer: &dyn Canonicalizer) -> Result<StoredSet> {
        StoredSet::take_up(path, canonicalizer, |dir, name| Ok(AnySet::Md5Bitmap(Md5Bitmap::adopt_in(dir, name)?)))
    }

    /// As [`StoredSet::adopt`], of a file of bits that another program made with some functions of
    /// old.
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
            let why = format!("it begins as a set of the kind {} does: open it as that", kind.name());
            return Err(Error::Unsupported { file: name, op: "be taken up as a bitmap", why });
        }
        if let Some(noted) = note::read(&*dir, &name)?
            && (noted.name(), noted.version()) != (canonicalizer.name(), canonicalizer.version())
        {
            let (rule, version) = (noted.name(), noted.version());
            return Err(Error::option(
                "canonicalizer",
                format!("the URLs of {name} were made canonical by `{rule}` version {version}: take it up with that"),
            ));
        }
        let set = adopt(Arc::clone(&dir), &name)?;
        let set = StoredSet::with(dir, &name, set, None, false);
        set.note_canonicalizer(canonicalizer)?;
        Ok(set)
    }

    /// Opens a set to change it.
    ///
    /// # Errors
    /// [`crate::StorageError::Io`], with [`std::io::ErrorKind::NotFound`] if it is absent: nothing
    /// is made then; [`Error::NotASet`]; [`crate::StorageError::Locked`];
    /// [`crate::StorageError::Corrupt`]; [`crate::StorageError::NewerFormat`].
    pub fn open(path: impl AsRef<Path>) -> Result<StoredSet> {
        StoredSet::open_with(path, DiskOptions::new())
    }

    /// As [`StoredSet::open`]; a set on disk gets the memory and the clock of these options. Other
    /// kinds take what they take.
    ///
    /// # Errors
    /// As [`StoredSet::open`]; [`crate::StorageError::InvalidOption`].
    pub fn open_with(path: impl AsRef<Path>, options: DiskOptions) -> Result<StoredSet> {
        let (dir, name) = place(path.as_ref())?;
        StoredSet::open_in(dir, &name, options)
    }

    fn open_in(dir: Arc<dyn Dir>, name: &str, options: DiskOptions) -> Result<StoredSet> {
        let (set, lock) = match SetKind::of_files(&*dir, name)? {
            SetKind::Md5Bitmap => (AnySet::Md5Bitmap(Md5Bitmap::open_in(Arc::clone(&dir), name)?), None),
            SetKind::HashBitmap => (AnySet::HashBitmap(HashBitmap::open_in(Arc::clone(&dir), name)?), None),
            SetKind::Bloom => (AnySet::Bloom(BloomFilter::open_in(Arc::clone(&dir), name)?), None),
            SetKind::Growing => (AnySet::Growing(GrowingFilter::open_in(Arc::clone(&dir), name)?), None),
            SetKind::Trie => {
                let lock = files::lock(&*dir, name)?;
                (AnySet::Trie(UrlTrie::load_in(&*dir, name)?), Some(lock))
            }
            SetKind::Disk => (on_disk(DiskUrlSet::open_in(Arc::clone(&dir), name, options)?), None),
        };
        Ok(StoredSet::with(dir, name, set, lock, false))
    }

    /// Opens a set to be read, without a lock: while another process has it open for writing, this
    /// has what was last synced (a bitmap: what was inserted).
    ///
    /// # Errors
    /// As [`StoredSet::open`], but never [`crate::StorageError::Locked`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<StoredSet> {
        StoredSet::open_read_only_with(path, DiskOptions::new())
    }

    /// As [`StoredSet::open_read_only`]; a set on disk gets the memory and the clock of these
    /// options.
    ///
    /// # Errors
    /// As [`StoredSet::open_read_only`]; [`crate::StorageError::InvalidOption`].
    pub fn open_read_only_with(path: impl AsRef<Path>, options: DiskOptions) -> Result<StoredSet> {
        let (dir, name) = place(path.as_ref())?;
        StoredSet::read_in(dir, &name, options)
    }

    fn read_in(dir: Arc<dyn Dir>, name: &str, options: DiskOptions) -> Result<StoredSet> {
        let set = match SetKind::of_files(&*dir, name)? {
            SetKind::Md5Bitmap => AnySet::Md5Bitmap(Md5Bitmap::open_read_only_in(Arc::clone(&dir), name)?),
            SetKind::HashBitmap => AnySet::HashBitmap(HashBitmap::open_read_only_in(Arc::clone(&dir), name)?),
            SetKind::Bloom => AnySet::Bloom(BloomFilter::load_in(&*dir, name)?),
            SetKind::Growing => AnySet::Growing(GrowingFilter::load_in(&*dir, name)?),
            SetKind::Trie => AnySet::Trie(UrlTrie::load_in(&*dir, name)?),
            SetKind::Disk => on_disk(DiskUrlSet::open_read_only_in(Arc::clone(&dir), name, options)?),
        };
        Ok(StoredSet::with(dir, name, set, None, true))
    }

    fn with(dir: Arc<dyn Dir>, name: &str, set: AnySet, lock: Option<Box<dyn Lock>>, is_read_only: bool) -> StoredSet {
        let saved = AtomicU64::new(0);
        let (name, saving, poison) = (name.to_owned(), Mutex::new(()), Latch::default());
        let room = room::Room::of(&set, &*dir, &name).filter(|_| !is_read_only);
        StoredSet { dir, name, set, is_read_only, saved, saving, poison, room, _lock: lock }
    }

    /// Which kind of set this is.
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

    /// The set as what it is. Insert through the [`StoredSet`] only, which knows whether it is
    /// open to be read.
    pub fn any(&self) -> &AnySet {
        &self.set
    }

    /// By which rule the URLs in the set were made canonical; `None` if there is no note of it.
    ///
    /// # Errors
    /// [`Error::UnknownCanonicalizer`]; [`crate::StorageError::Corrupt`];
    /// [`crate::StorageError::Io`].
    pub fn canonicalizer(&self) -> Result<Option<Arc<dyn Canonicalizer>>> {
        note::read(&*self.dir, &self.name)
    }

    /// Notes, durably, by which rule the URLs in the set were made canonical.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`crate::StorageError::Io`]; [`crate::StorageError::InvalidOption`] if
    /// no program could find the rule again by its name.
    pub fn note_canonicalizer(&self, canonicalizer: &dyn Canonicalizer) -> Result<()> {
        self.check_writable()?;
        note::write(&*self.dir, &self.name, canonicalizer)
    }

    /// Takes URLs back, in order: they are new from now on, until they are inserted. Of each,
    /// whether it was seen before; of one that comes twice only the first can have been. A trie
    /// drops their texts, which builds it anew ([`UrlTrie::retain`]); a Bloom filter puts them on
    /// its list of known false positives, which has at most 65,536 URLs; a set on disk remembers
    /// that they are gone until they reach its oldest run. Durable after [`SeenSet::sync`].
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
                "a URL's bit may be that of others too, which would be forgotten with it"
            }
            AnySet::Growing(_) => "a URL's fingerprint may be that of others too, which would be forgotten with it",
        };
        let why = format!("{why}. A trie, a Bloom filter and a set on disk can; or fill a new set");
        Err(Error::Unsupported { file: self.name.clone(), op: "forget a URL", why })
    }

    /// Syncs, and closes the set so that damage to it is found when it is opened again.
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
        // Inserts that come meanwhile may be in the file or not: then there are more changes, and
        // it is written again.
        self.poison.guard(|| self.write_into_room(|| trie.save_in(&*self.dir, &self.name).map(drop)))?;
        self.saved.store(changes, Ordering::SeqCst);
        Ok(())
    }
}

impl AnySet {
    /// The set by its trait.
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
        self.set.seen().contains(url)
    }

    fn check_and_insert_batch(&self, urls: &[&[u8]], verdicts: &mut Vec<Verdict>) -> Result<()> {
        self.check_writable()?;
        verdicts.clear();
        self.make_room(urls)?;
        self.set.seen().check_and_insert_batch(urls, verdicts)
    }

    fn contains_batch(&self, urls: &[&[u8]], verdicts: &mut Vec<Verdict>) -> Result<()> {
        self.set.seen().contains_batch(urls, verdicts)
    }

    fn len(&self) -> u64 {
        self.set.seen().len()
    }

    fn memory_bytes(&self) -> u64 {
        self.set.seen().memory_bytes()
    }

    /// The lengths of all its files; those that cannot be looked at are left out.
    fn disk_bytes(&self) -> u64 {
        let files = files_of(&self.name);
        let len = |file: &String| self.dir.open(file, Access::Read).and_then(|file| file.len());
        let found: u64 = files.iter().chain([&beside::room(&self.name)]).filter_map(|file| len(file).ok()).sum();
        match &self.set {
            // Its manifest is among both.
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

    /// A trie is written anew as a whole, if it has changed.
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

fn on_disk(set: DiskUrlSet) -> AnySet {
    AnySet::Disk(Box::new(set))
}

/// All files that a set of this name may have, but its lock.
fn files_of(name: &str) -> [String; 4] {
    [name.to_owned(), beside::meta(name), beside::known(name), beside::canon(name)]
}

fn check_absent(dir: &dyn Dir, file: &str) -> Result<()> {
    if files::exists(dir, file)? {
        return Err(Error::io("create", file)(std::io::ErrorKind::AlreadyExists.into()));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
