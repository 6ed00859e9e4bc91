//! The dictionaries of a store: which exist, which one compresses new records of a group, and
//! their digests in bounded memory. The files beside this one make them.
//!
//! Invariants:
//! - a dictionary is durable, in content and name, and named by a superblock before anything is
//!   compressed with it; it never changes;
//! - its file is read once per digest; a digest in memory is found without a lock;
//! - digests take no more than their bound in bytes, except those that reads need at the moment.

mod digests;
pub(crate) mod make;
mod named;
mod retire;
pub(crate) mod tally;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use filemap_io::files::{self, Replacement};
use filemap_io::{Access, Dir, File};
use zstd::dict::{CDict, DDict};

use crate::error::{Error, Result, StorageError};
use crate::failpoint::{Fault, planted};
use crate::files::check_versions;
use crate::format::dictionary::{self, CONTENT_AT, Facts, LONGEST_FILE, MAX_ID, Making};
use crate::format::names;
use crate::sync::{Ranked, lock, rank};

use digests::{Dictionary, Digests};
pub(crate) use digests::{Digest, Part};
use named::Standing;

/// Advice in the error of an unreadable dictionary.
const CURE: &str = "restore the file from a copy of the store, or fetch the pages again that need it";
/// Maximum number of dictionaries in a store.
const MOST: usize = 4096;

/// The dictionaries of a store.
#[derive(Debug)]
pub(crate) struct Registry {
    dir: Arc<dyn Dir>,
    store_id: [u8; 16],
    access: Access,
    /// Dictionaries by id.
    list: ArcSwap<Vec<Arc<Dictionary>>>,
    /// The newest usable dictionary of each group; the global one has an empty name.
    current: ArcSwap<BTreeMap<Vec<u8>, u32>>,
    digests: Digests,
    /// Held while the list or the files change.
    changing: Ranked<{ rank::DICTIONARIES }, ()>,
    file_bytes: AtomicU64,
    /// Highest id ever assigned. An id is not reused: records may name a dictionary whose file is
    /// missing.
    last_id: AtomicU32,
    standing: ArcSwap<Standing>,
}

/// A dictionary as [`Store::dictionaries`](crate::Store::dictionaries) lists it.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// for facts in store.dictionaries() {
///     println!("{}: made of {} pages", facts.id, facts.pages);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct DictionaryFacts {
    /// Its id, which records name; the file is `dictN.zdict`.
    pub id: u32,
    /// The group of keys that it was made for; empty for all keys.
    pub group: Vec<u8>,
    /// Creation time, in ms since 1970.
    pub created_ms: i64,
    /// Number of pages sampled for it.
    pub pages: u32,
    /// Length of the dictionary for bodies in bytes, 0 if there is none.
    pub body_bytes: u32,
    /// Length of the dictionary for metas in bytes, 0 if there is none.
    pub meta_bytes: u32,
    /// Hold-out compression ratio of bodies when it was made: compressed to uncompressed bytes.
    pub body_ratio: f64,
    /// The same for metas.
    pub meta_ratio: f64,
    /// True if it compresses new records of its group.
    pub is_current: bool,
    /// The error that makes it unusable; all fields but the id are then empty.
    pub problem: Option<Error>,
}

/// Result of reading a dictionary's file.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub(crate) bytes: u64,
    /// Offset and description of each flaw.
    pub(crate) problems: Vec<(u64, String)>,
}

impl Registry {
    /// Finds the dictionaries of a directory. Damaged ones are listed too: only records that need
    /// them fail. A writer removes leftovers of an interrupted creation.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn open(dir: Arc<dyn Dir>, store_id: [u8; 16], access: Access) -> Result<Registry> {
        let this = Registry {
            dir,
            store_id,
            access,
            list: ArcSwap::from_pointee(Vec::new()),
            current: ArcSwap::from_pointee(BTreeMap::new()),
            digests: Digests::default(),
            changing: Ranked::new(()),
            file_bytes: AtomicU64::new(0),
            last_id: AtomicU32::new(0),
            standing: ArcSwap::from_pointee(Standing::default()),
        };
        if access == Access::Write {
            for name in this.names()?.iter().filter(|n| names::parse_new_dictionary(n).is_some()) {
                this.dir.remove(name).map_err(Error::io("remove", name))?;
            }
        }
        this.look()?;
        Ok(this)
    }

    /// Sets the bound on the memory of digests.
    pub(crate) fn set_memory(&self, bytes: usize) {
        self.digests.set_bound(bytes);
    }

    /// Excludes ids up to `id` from use.
    pub(crate) fn pass_over(&self, id: u32) {
        self.last_id.fetch_max(id, Ordering::Relaxed);
    }

    /// The highest id ever assigned; 0 for none.
    pub(crate) fn last_id(&self) -> u32 {
        self.last_id.load(Ordering::Relaxed)
    }

    fn names(&self) -> Result<Vec<String>> {
        self.dir.list().map_err(Error::io("list", self.dir.path().display()))
    }

    /// Finds dictionaries that another process has added, and retries those that could not be
    /// read.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn look(&self) -> Result<()> {
        let _held = lock(&self.changing);
        let known = self.list.load_full();
        let mut list = Vec::clone(&known);
        let names = self.names()?;
        // A damaged dictionary without a file was removed. A whole one may still be needed by a
        // reader that has seen its id.
        list.retain(|d| d.facts.is_ok() || names.contains(&names::dictionary(d.id)));
        // A dictionary that could not be read before may have been restored.
        let whole: BTreeSet<u32> = known.iter().filter(|d| d.facts.is_ok()).map(|d| d.id).collect();
        let found = names.iter().filter_map(|n| names::parse_dictionary(n));
        let unread: Vec<u32> = found.filter(|id| !whole.contains(id)).collect();
        self.dir.will_open(&unread.iter().map(|id| names::dictionary(*id)).collect::<Vec<_>>());
        for id in unread {
            if let Some(facts) = self.read_facts(id) {
                list.retain(|d| d.id != id);
                list.push(Dictionary::new(id, facts));
            }
        }
        self.replace(list);
        Ok(())
    }

    fn replace(&self, mut list: Vec<Arc<Dictionary>>) {
        list.sort_by_key(|d| d.id);
        self.pass_over(list.last().map_or(0, |d| d.id));
        let whole = list.iter().filter_map(|d| d.facts.as_ref().ok());
        let bytes = whole.clone().map(|f| 2 * f.copy_bytes() as u64).sum();
        self.file_bytes.store(bytes, Ordering::Relaxed);
        let standing = self.standing.load();
        let current = whole.filter(|f| standing.is_used(f.id));
        self.current.store(Arc::new(current.map(|f| (f.group.clone(), f.id)).collect()));
        self.list.store(Arc::new(list));
    }

    /// Reads the metadata of a dictionary's file from the first whole copy; `None` if the file is
    /// missing.
    fn read_facts(&self, id: u32) -> Option<Result<Facts>> {
        let name = names::dictionary(id);
        let file = match self.dir.open(&name, Access::Read) {
            Err(e) if e.kind() == ErrorKind::NotFound => return None,
            Err(e) => return Some(Err(unopened(&name, e))),
            Ok(file) => file,
        };
        Some(self.first_facts(id, &name, &*file))
    }

    fn first_facts(&self, id: u32, name: &str, file: &dyn File) -> Result<Facts> {
        let len = file.len().map_err(Error::io("measure", name))?;
        let mut flaw = None;
        for offset in [0, len / 2] {
            match self.judge(id, name, &files::read(file, name, offset, CONTENT_AT)?) {
                Err(e @ Error::Storage(StorageError::NewerFormat { .. })) => return Err(e),
                Err(e) => flaw = flaw.or(Some(e)),
                Ok(facts) if facts.copy_bytes() as u64 > len - offset => {
                    flaw = flaw.or_else(|| Some(damaged(name, "it is cut short")));
                }
                Ok(facts) => return Ok(facts),
            }
        }
        Err(flaw.unwrap_or_else(|| damaged(name, "it is empty")))
    }

    fn judge(&self, id: u32, name: &str, copy: &[u8]) -> Result<Facts> {
        let (header, facts) = dictionary::decode_facts(copy, &self.store_id).map_err(|what| damaged(name, what))?;
        check_versions(name, header.read_version, header.write_version, self.access)?;
        if facts.id != id {
            return Err(damaged(name, "its header is that of another dictionary"));
        }
        Ok(facts)
    }

    /// Reads both copies of a dictionary's file, as far as they exist, with their offsets.
    fn copies(&self, id: u32) -> Result<Vec<(u64, Vec<u8>)>> {
        let name = names::dictionary(id);
        let file = self.dir.open(&name, Access::Read).map_err(|e| unopened(&name, e))?;
        let len = file.len().map_err(Error::io("measure", &name))?;
        if len > LONGEST_FILE {
            return Err(damaged(&name, "the file is longer than a dictionary may be"));
        }
        let mut all = files::read(&*file, &name, 0, len as usize)?;
        let n = all.len();
        // The first copy states its length, even if the file's end is lost.
        let told = self.judge(id, &name, &all[..n.min(CONTENT_AT)]).map(|facts| facts.copy_bytes());
        let half = told.unwrap_or(n / 2).min(n);
        let second = all.split_off(half);
        Ok(vec![(0, all), (half as u64, second)])
    }

    /// Reads the content of a dictionary, for bodies and for metas, from the first whole copy.
    fn content(&self, id: u32) -> Result<(Vec<u8>, Vec<u8>)> {
        let name = names::dictionary(id);
        let mut flaw = None;
        for (_, copy) in self.copies(id)? {
            let whole = self.judge(id, &name, &copy).and_then(|facts| {
                let content = dictionary::decode_content(&facts, &copy).map_err(|what| damaged(&name, what))?;
                Ok((content.0.to_vec(), content.1.to_vec()))
            });
            match whole {
                Ok(content) => return Ok(content),
                Err(e) => flaw = flaw.or(Some(e)),
            }
        }
        Err(flaw.unwrap_or_else(|| damaged(&name, "it is empty")))
    }

    /// Reads one of a file's two dictionaries.
    ///
    /// # Errors
    /// Those of [`Registry::expander`].
    pub(crate) fn part(&self, id: u32, part: Part) -> Result<Vec<u8>> {
        self.content(id).map(|content| part.of(content))
    }

    /// Verifies both copies of a dictionary.
    ///
    /// # Errors
    /// `Corrupt` if the file is missing or far too long; `NewerFormat`; `Io`.
    pub(crate) fn check(&self, id: u32) -> Result<Checked> {
        let name = names::dictionary(id);
        let mut checked = Checked::default();
        for (offset, copy) in self.copies(id)? {
            checked.bytes += copy.len() as u64;
            let whole = self.judge(id, &name, &copy).and_then(|facts| {
                dictionary::decode_content(&facts, &copy).map(|_| ()).map_err(|what| damaged(&name, what))
            });
            match whole {
                Err(Error::Storage(StorageError::Corrupt { what, .. })) => checked.problems.push((offset, what)),
                Err(e) => return Err(e),
                Ok(()) => {}
            }
        }
        Ok(checked)
    }

    /// Ids of all listed dictionaries, damaged ones included.
    pub(crate) fn ids(&self) -> Vec<u32> {
        self.list.load().iter().map(|d| d.id).collect()
    }

    /// Number of whole dictionaries, and the bytes of their files.
    pub(crate) fn size(&self) -> (u64, u64) {
        let whole = self.list.load().iter().filter(|d| d.facts.is_ok()).count();
        (whole as u64, self.file_bytes.load(Ordering::Relaxed))
    }

    /// Returns true if one more dictionary may be made.
    pub(crate) fn has_room(&self) -> bool {
        self.list.load().len() < MOST
    }

    /// Memory of the digests, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.digests.bytes()
    }

    /// The dictionary for new records of a group: its own, else the global one; 0 for none.
    pub(crate) fn choose(&self, group: &[u8]) -> u32 {
        let current = self.current.load();
        current.get(group).or_else(|| current.get(&b""[..])).copied().unwrap_or(0)
    }

    /// The current dictionary of the group itself, not the global one.
    pub(crate) fn own(&self, group: &[u8]) -> Option<Facts> {
        let id = *self.current.load().get(group)?;
        self.find(id)?.facts.as_ref().ok().cloned()
    }

    /// Number of groups with their own dictionary.
    pub(crate) fn groups(&self) -> usize {
        self.current.load().keys().filter(|name| !name.is_empty()).count()
    }

    /// Describes every dictionary.
    pub(crate) fn facts(&self) -> Vec<DictionaryFacts> {
        let current = self.current.load();
        let list = self.list.load();
        list.iter().map(|d| facts_of(d, |f| current.get(&f.group) == Some(&f.id))).collect()
    }

    fn find(&self, id: u32) -> Option<Arc<Dictionary>> {
        let list = self.list.load();
        let at = list.binary_search_by_key(&id, |d| d.id).ok()?;
        Some(Arc::clone(&list[at]))
    }

    /// Returns the digest that expands bodies or metas of records that name a dictionary.
    ///
    /// # Errors
    /// `Corrupt` if it is missing or both of its copies are damaged; `NewerFormat`; `Io`.
    pub(crate) fn expander(&self, id: u32, part: Part) -> Result<Arc<Digest<DDict<'static>>>> {
        let name = || names::dictionary(id);
        let found = match self.find(id) {
            Some(found) if found.facts.is_ok() => found,
            // Another process may have made it meanwhile, or a user may have restored it.
            _ => {
                self.look()?;
                self.find(id).ok_or_else(|| damaged(&name(), "the dictionary is missing"))?
            }
        };
        if let Some(digest) = self.digests.expander(&found, part) {
            return Ok(digest);
        }
        if let Err(e) = &found.facts {
            return Err(e.clone());
        }
        let content = part.of(self.content(id)?);
        if content.is_empty() {
            return Err(damaged(&name(), "a record names it, but it has no dictionary for this part of a record"));
        }
        let digest = DDict::try_create(&content).ok_or_else(|| damaged(&name(), "zstd rejects it"))?;
        Ok(self.digests.add_expander(&self.list.load(), &found, part, digest, content.len()))
    }

    /// Returns the digest that compresses bodies or metas at a level. `None` if the dictionary has
    /// none for that part or cannot be read, or memory is full of digests in use.
    pub(crate) fn compressor(&self, id: u32, part: Part, level: i32) -> Option<Arc<Digest<CDict<'static>>>> {
        let found = self.find(id)?;
        if let Some(digest) = self.digests.compressor(&found, part, level) {
            return Some(digest);
        }
        let facts = found.facts.as_ref().ok()?;
        if part.of((facts.body_bytes, facts.meta_bytes)) == 0 || !self.digests.may_add(&self.list.load()) {
            return None;
        }
        let content = part.of(self.content(id).ok()?);
        let digest = CDict::try_create(&content, level)?;
        Some(self.digests.add_compressor(&self.list.load(), &found, part, level, digest, content.len()))
    }

    /// Writes a new dictionary, durable on return. It is used once a superblock [names
    /// it](Registry::named).
    ///
    /// # Errors
    /// `Io`: then at most an unused file is left; `Full` if the store has the maximum number of
    /// dictionaries.
    pub(crate) fn create(&self, making: &Making, body: &mut [u8], meta: &mut [u8]) -> Result<DictionaryFacts> {
        let _held = lock(&self.changing);
        let id = self.last_id().saturating_add(1);
        if id > MAX_ID || self.list.load().len() >= MOST {
            return Err(Error::full(&names::dictionary(id), "the store has the maximum number of dictionaries"));
        }
        // Frames then name it too, and zstd refuses any other.
        make::name(body, id);
        make::name(meta, id);
        let bytes = dictionary::encode(self.store_id, id, making, body, meta);
        Ok(facts_of(&*self.keep(id, &bytes)?, |_| true))
    }

    /// Writes the file of a new dictionary, and adds it to the list.
    fn keep(&self, id: u32, bytes: &[u8]) -> Result<Arc<Dictionary>> {
        self.write(id, bytes)?;
        let (_, facts) = dictionary::decode_facts(bytes, &self.store_id).map_err(|what| damaged("", what))?;
        let made = Dictionary::new(id, Ok(facts));
        let mut list = Vec::clone(&self.list.load());
        list.push(Arc::clone(&made));
        self.replace(list);
        Ok(made)
    }

    /// Returns the ids under which this store and another have equal dictionaries. If this one has
    /// no others, it first copies, durably, those that it lacks, except ids that it has assigned
    /// itself: records may name them. Damaged ones are skipped.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn adopt(&self, other: &Registry) -> Result<BTreeSet<u32>> {
        let _held = lock(&self.changing);
        let own = self.ids();
        let is_same = |id: &u32| self.content(*id).is_ok_and(|own| other.content(*id).is_ok_and(|c| c == own));
        let mut same: BTreeSet<u32> = own.iter().copied().filter(is_same).collect();
        if same.len() < own.len() {
            return Ok(same);
        }
        let given = self.last_id();
        for theirs in other.list.load().iter().filter(|theirs| theirs.id > given) {
            let (Ok(facts), Ok((body, meta))) = (&theirs.facts, other.content(theirs.id)) else { continue };
            self.keep(theirs.id, &dictionary::encode(self.store_id, theirs.id, &facts.making(), &body, &meta))?;
            same.insert(theirs.id);
        }
        Ok(same)
    }

    fn write(&self, id: u32, bytes: &[u8]) -> Result<()> {
        let (new, name) = (names::new_dictionary(id), names::dictionary(id));
        files::remove(&*self.dir, &new)?;
        let replacement = Replacement::begin(&*self.dir, &name, &new)?;
        files::write(replacement.file(), &new, bytes, 0)?;
        if !planted(Fault::DictionaryNotSynced) {
            replacement.sync()?;
        }
        match planted(Fault::DictionaryNameNotSynced) {
            true => Ok(replacement.rename()?),
            false => Ok(replacement.commit()?),
        }
    }
}

/// The error of a file that cannot be opened. Anything but a regular file with read permission
/// counts as missing.
fn unopened(name: &str, error: io::Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound => damaged(name, "the dictionary is missing"),
        ErrorKind::InvalidInput | ErrorKind::IsADirectory | ErrorKind::PermissionDenied => {
            damaged(name, &format!("the dictionary cannot be opened: {error}"))
        }
        _ => Error::io("open", name)(error),
    }
}

fn damaged(name: &str, what: &str) -> Error {
    Error::corrupt(name, 0, format!("{what}; {CURE}"))
}

fn facts_of(dictionary: &Dictionary, is_current: impl Fn(&Facts) -> bool) -> DictionaryFacts {
    let id = dictionary.id;
    match &dictionary.facts {
        Err(e) => DictionaryFacts { id, problem: Some(e.clone()), ..DictionaryFacts::default() },
        Ok(f) => DictionaryFacts {
            id,
            group: f.group.clone(),
            created_ms: f.created_ms,
            pages: f.pages,
            body_bytes: f.body_bytes,
            meta_bytes: f.meta_bytes,
            body_ratio: dictionary::ratio(f.body_ppm),
            meta_ratio: dictionary::ratio(f.meta_ppm),
            is_current: is_current(f),
            problem: None,
        },
    }
}
