//! A replica: a store that is kept equal to another store by applying its changes.
//!
//! It gets each version and each removal of the other store, in their order, so it is equal once
//! it has applied all of them. Only the sequences differ. After a list of all versions in the
//! other store, keys that were not listed are removed: so a replica that has lost its place starts
//! over, and keeps the versions that it has.

mod place;
mod removed;

use std::collections::HashSet;
use std::io::Read;
use std::ops::ControlFlow;

use filemap_core::erase::Rule;
use filemap_core::list::{Direction, KeyRange, KeysInOrder};
use filemap_core::{Head, Version};
use xxhash_rust::xxh3::Xxh3;

use crate::date;
use crate::error::{Error, Result};
use crate::page::{Page, key, meta, order};
use crate::store::{Beside, BodyForm, ChangesPlace, Loader, PageStore};

pub use place::{forget_place, is_replica, note_place, noted_place};

/// Maximum bytes of bodies of one key in memory, held until it is known whether the replica's
/// versions of the key were all listed.
const HELD_BYTES: usize = 64 << 20;

/// A change of the other store.
///
/// ```
/// use filemap::replica::Told;
///
/// // True if pages that were not listed are missing.
/// let clears = |told: &Told| matches!(told, Told::Listed { is_whole: true });
/// assert!(clears(&Told::Listed { is_whole: true }) && !clears(&Told::Damaged(None)));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Told {
    /// A version was put, or is listed.
    Put {
        /// The page as stored there: a revisit without its original's body. It has no body if the
        /// body is fetched separately.
        page: Box<Page>,
        /// The form in which its body is stored there.
        form: BodyForm,
        /// Its time and sequence there.
        version: Version,
        /// Length and digest, as stored, of a body that is fetched separately.
        elsewhere: Option<(u64, [u8; 16])>,
    },
    /// All earlier versions were removed, as in [`crate::store::PageChange::Removed`].
    Removed {
        /// The page, variant or records beside it.
        of: Beside,
        /// Time of the removal, in ms since 1970.
        time_ms: i64,
    },
    /// A version was removed, as in [`crate::store::PageChange::RemovedVersion`].
    RemovedVersion {
        /// The page, variant or records beside it.
        of: Beside,
        /// Time of the removal, in ms since 1970.
        time_ms: i64,
        /// The time of the version, in ms since 1970.
        version_time_ms: i64,
        /// Digest of its stored bytes and hash of its description, if known.
        print: Option<([u8; 16], u64)>,
    },
    /// The end of the list. If it is complete, keys that were not listed do not exist there.
    Listed {
        /// True if no file of the other store is missing.
        is_whole: bool,
    },
    /// Something is damaged there: the replica keeps its versions of it. `None` if it is unknown
    /// what.
    Damaged(Option<Beside>),
    /// The rules of erasures.
    Rules(Vec<Rule>),
}

/// Fetches the body of this page and version, for a body that is too long to be sent with the
/// change; `None` if it was removed.
pub type Fetch<'a> = dyn FnMut(&Page, Version) -> Result<Option<Box<dyn Read + Send>>> + 'a;

/// Counts of the changes that a replica has applied.
///
/// ```
/// let counts = filemap::replica::Counts::default();
/// assert_eq!(counts.put + counts.removed + counts.refused + counts.damaged, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Number of versions put.
    pub put: u64,
    /// Number of versions that were present already.
    pub present: u64,
    /// Number of keys removed: of pages, variants and records beside them.
    pub removed: u64,
    /// Number of single versions removed.
    pub removed_versions: u64,
    /// Number of versions that the replica refused, by one of its rules or a limit.
    pub refused: u64,
    /// Number of versions and keys that are damaged in the other store.
    pub damaged: u64,
}

/// A replica being updated. Applied changes are durable after a `sync` of the store.
///
/// ```
/// # use filemap::{Options, Page, PageStore, Version};
/// use filemap::replica::{Replica, Told};
/// use filemap::store::BodyForm;
///
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// let mut replica = Replica::new(store, None)?;
/// let page = Box::new(Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"));
/// let version = Version { time_ms: page.fetched_at_ms, sequence: 1 };
/// let put = Told::Put { page, form: BodyForm::Whole, version, elsewhere: None };
/// for told in [put, Told::Listed { is_whole: true }] {
///     replica.apply(told, &mut |_, _| Ok(None))?;
/// }
/// assert_eq!(replica.counts().put, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Replica {
    store: PageStore,
    loader: Loader,
    /// `Some` while the versions of the other store are being listed.
    list: Option<List>,
    counts: Counts,
    /// Messages for the operator.
    notes: Vec<String>,
}

impl std::fmt::Debug for Replica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replica").field("counts", &self.counts).finish_non_exhaustive()
    }
}

/// The state of a list of all versions in the other store.
struct List {
    /// The replica's own keys from the place of the list on, and the next of them.
    own: KeysInOrder,
    next: Option<(Vec<u8>, Vec<u8>)>,
    /// The key listed last.
    key: Vec<u8>,
    held: Vec<Held>,
    bytes: usize,
    /// The replica's versions of this key are settled: further ones are put as they come.
    is_settled: bool,
    /// Nothing is removed, since the list may lack keys.
    keeps_all: bool,
}

/// A version from the list.
struct Held {
    page: Page,
    form: BodyForm,
    version: Version,
    elsewhere: Option<(u64, [u8; 16])>,
}

/// Identifies a version of a key: time, digest of the stored bytes, description.
type Print = (i64, [u8; 16], Vec<u8>);

impl Replica {
    /// Continues from a place in the other store's history; `None`: from its beginning. The caller
    /// requests the changes since that place and passes them to [`Replica::apply`].
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if a list follows and the store has no key order; those of
    /// [`filemap_core::Store::keys_in`].
    pub fn new(store: PageStore, place: Option<&ChangesPlace>) -> Result<Replica> {
        let after = place.map_or(Some(&[][..]), ChangesPlace::listed);
        let list = after.map(|after| List::new(&store, after)).transpose()?;
        let (loader, counts) = (Loader::default(), Counts::default());
        let mut replica = Replica { store, loader, list, counts, notes: Vec::new() };
        // A kill may have interrupted an erasure.
        replica.end_erasures()?;
        Ok(replica)
    }

    /// Takes the messages for the operator since the last call: refused versions, and incomplete
    /// erasures.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Counts of the changes applied so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Applies a change of the other store. Applying it again does no harm.
    ///
    /// # Errors
    ///
    /// Those of `fetch`, and of puts, removals and erasures. The replica may then be opened again,
    /// and continue from its last sync.
    pub fn apply(&mut self, told: Told, fetch: &mut Fetch<'_>) -> Result<()> {
        match self.apply_one(told, &mut *fetch) {
            // For example a URL that is invalid for this store.
            Err(error) if error.concerns_one_page() => {
                self.counts.refused += 1;
                self.notes.push(format!("not replicated: {error}"));
                self.settle_held(fetch)
            }
            applied => applied,
        }
    }

    fn apply_one(&mut self, told: Told, fetch: &mut Fetch<'_>) -> Result<()> {
        match told {
            Told::Put { page, form, version, elsewhere } => {
                let held = Held { page: *page, form, version, elsewhere };
                match self.list.take() {
                    Some(mut list) => {
                        let done = self.hold(&mut list, held, fetch);
                        self.list = Some(list);
                        done
                    }
                    None => self.put(&held, fetch),
                }
            }
            Told::Removed { of, .. } => {
                let key = self.key_of(&of)?;
                self.remove(&key)
            }
            Told::RemovedVersion { of, version_time_ms, print, .. } => {
                let key = self.key_of(&of)?;
                self.remove_version(&key, version_time_ms, print)
            }
            Told::Damaged(of) => {
                self.counts.damaged += 1;
                match (self.list.take(), of) {
                    (Some(mut list), Some(of)) => {
                        let done = self.keep(&mut list, &of, fetch);
                        self.list = Some(list);
                        done
                    }
                    (Some(mut list), None) => {
                        // Without it the list may lack any key.
                        list.keeps_all = true;
                        self.list = Some(list);
                        self.settle_held(fetch)
                    }
                    (None, _) => Ok(()),
                }
            }
            Told::Listed { is_whole } => match self.list.take() {
                Some(mut list) => {
                    self.settle(&mut list, fetch)?;
                    if is_whole { self.remove_up_to(&mut list, None) } else { Ok(()) }
                }
                None => Ok(()),
            },
            Told::Rules(rules) => {
                self.store.adopt(&rules)?;
                self.end_erasures()
            }
        }
    }

    fn key_of(&self, of: &Beside) -> Result<Vec<u8>> {
        self.store.key_of(&of.url, of.kind, of.variant.as_ref())
    }

    /// Finishes the unfinished erasures.
    fn end_erasures(&mut self) -> Result<()> {
        if let Some(erasing) = self.store.resume_erasures(&mut |_| ControlFlow::Continue(()))? {
            self.loader = Loader::default();
            if !erasing.is_complete() {
                let rules = &erasing.rules;
                self.notes.push(format!("the erasure by the rules {rules:?} is incomplete here: run `erase --resume`"));
            }
        }
        Ok(())
    }

    /// Puts the held versions of the key listed last: the next change may save a place after them.
    fn settle_held(&mut self, fetch: &mut Fetch<'_>) -> Result<()> {
        let Some(mut list) = self.list.take() else { return Ok(()) };
        let done = self.settle(&mut list, fetch);
        list.is_settled = true;
        self.list = Some(list);
        done
    }

    /// Keeps the replica's versions of a key that is damaged there.
    fn keep(&mut self, list: &mut List, of: &Beside, fetch: &mut Fetch<'_>) -> Result<()> {
        let key = self.key_of(of)?;
        if key == list.key {
            self.put_held(list, fetch)?;
        } else {
            self.begin_key(list, key, fetch)?;
        }
        list.is_settled = true;
        Ok(())
    }

    /// Ends the previous key, and removes the replica's keys before this one.
    fn begin_key(&mut self, list: &mut List, key: Vec<u8>, fetch: &mut Fetch<'_>) -> Result<()> {
        self.settle(list, fetch)?;
        let mut form = Vec::new();
        order::ordered(&key, &mut form);
        self.remove_up_to(list, Some(&form))?;
        (list.key, list.is_settled) = (key, false);
        Ok(())
    }

    /// Adds a version from the list.
    fn hold(&mut self, list: &mut List, held: Held, fetch: &mut Fetch<'_>) -> Result<()> {
        let key = self.store.key_of_page(&held.page)?;
        if key != list.key {
            self.begin_key(list, key, fetch)?;
        }
        if list.is_settled {
            return self.put(&held, fetch);
        }
        let headers: usize = held.page.headers.iter().map(|h| h.name.len() + h.value.len()).sum();
        list.bytes += held.page.body.len() + 2 * headers + 1024;
        list.held.push(held);
        if list.bytes > HELD_BYTES {
            // It is unknown which of the replica's versions would still be listed.
            let key = list.key.clone();
            self.remove(&key)?;
            list.is_settled = true;
            self.put_held(list, fetch)?;
        }
        Ok(())
    }

    /// Puts the held versions of the key listed last. If the replica has a version of it that was
    /// not listed, all of them are removed and put again.
    fn settle(&mut self, list: &mut List, fetch: &mut Fetch<'_>) -> Result<()> {
        if list.is_settled || list.held.is_empty() {
            return Ok(());
        }
        let listed: HashSet<Print> = list.held.iter().map(|held| print(&list.key, held)).collect::<Result<_>>()?;
        let own = self.store.engine().history(&list.key);
        let own = match own {
            // An unreadable version does not equal any listed one.
            Err(error) if error.is_corrupt() => None,
            own => Some(own?),
        };
        let is_listed = |head: &Head| listed.contains(&print_of(head));
        if own.is_none_or(|own| !own.iter().all(is_listed)) && self.bodies_come(list, fetch)? {
            let key = list.key.clone();
            self.remove(&key)?;
        }
        self.put_held(list, fetch)
    }

    /// Returns whether all bodies to be fetched can be read; otherwise the replica keeps its
    /// versions.
    fn bodies_come(&mut self, list: &List, fetch: &mut Fetch<'_>) -> Result<bool> {
        for held in list.held.iter().filter(|held| held.elsewhere.is_some()) {
            let read = match fetch(&held.page, held.version) {
                Ok(Some(mut body)) => std::io::copy(&mut body, &mut std::io::sink()).is_ok(),
                Ok(None) => true,
                Err(error) if is_of_the_body(&error) => false,
                Err(error) => return Err(error),
            };
            if !read {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn put_held(&mut self, list: &mut List, fetch: &mut Fetch<'_>) -> Result<()> {
        list.bytes = 0;
        for held in std::mem::take(&mut list.held) {
            self.put(&held, fetch)?;
        }
        Ok(())
    }

    fn put(&mut self, held: &Held, fetch: &mut Fetch<'_>) -> Result<()> {
        let put = match held.elsewhere {
            None => self.loader.put_stored_if_new(&self.store, &held.page, held.form).map(|put| put.is_some()),
            Some(_) => self.put_elsewhere(held, fetch),
        };
        match put {
            Ok(true) => self.counts.put += 1,
            Ok(false) => self.counts.present += 1,
            Err(error) if held.elsewhere.is_some() && is_of_the_body(&error) => {
                self.counts.damaged += 1;
                let url = String::from_utf8_lossy(&held.page.url);
                self.notes.push(format!("not replicated, its body could not be fetched: {url}: {error}"));
            }
            Err(error) if error.refused_by().is_some() || error.concerns_one_page() => {
                self.counts.refused += 1;
                let (url, time_ms) = (String::from_utf8_lossy(&held.page.url), held.page.fetched_at_ms);
                self.notes.push(format!("not replicated: {url} of {}: {error}", date::format(time_ms)));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Puts a version whose body is fetched separately, unless the replica has it.
    fn put_elsewhere(&mut self, held: &Held, fetch: &mut Fetch<'_>) -> Result<bool> {
        let key = self.store.key_of_page(&held.page)?;
        let print = print(&key, held)?;
        if self.store.engine().history(&key).is_ok_and(|own| own.iter().any(|head| print_of(head) == print)) {
            return Ok(false);
        }
        match fetch(&held.page, held.version)? {
            // Its removal is the next change.
            None => Ok(false),
            Some(mut body) => self.store.put_page_reader(&held.page, &mut *body).map(|_| true),
        }
    }

    fn remove(&mut self, key: &[u8]) -> Result<()> {
        if self.store.engine().remove(key)? {
            self.counts.removed += 1;
            // The loader would count its earlier puts as present.
            self.loader = Loader::default();
        }
        Ok(())
    }

    /// Removes the replica's own keys before a form of the list, or all remaining ones.
    fn remove_up_to(&mut self, list: &mut List, form: Option<&[u8]>) -> Result<()> {
        loop {
            if list.next.is_none() {
                let next = match list.own.next() {
                    // A file of the replica is missing: its keys are unknown.
                    Some(Err(_)) if list.own.has_given_all() => None,
                    next => next.transpose()?,
                };
                list.next = next.map(|key| (list.own.form().to_vec(), key));
            }
            match &list.next {
                Some((own, key)) if form.is_none_or(|form| own.as_slice() < form) => {
                    if !key::is_hidden(key) && !list.keeps_all {
                        self.remove(&key.clone())?;
                    }
                    list.next = None;
                }
                Some((own, _)) if form == Some(own.as_slice()) => {
                    list.next = None;
                    return Ok(());
                }
                _ => return Ok(()),
            }
        }
    }
}

/// Returns whether the other store cannot provide a body.
fn is_of_the_body(error: &Error) -> bool {
    matches!(error, Error::Remote { is_damage, is_of_one_page, .. } if *is_damage || *is_of_one_page)
}

fn print(key: &[u8], held: &Held) -> Result<Print> {
    let encoded = meta::encode(&held.page, key::url(key))?;
    let digest = held.elsewhere.map_or_else(
        || {
            let mut hasher = Xxh3::new();
            hasher.update(&encoded.spill);
            hasher.update(&held.page.body);
            hasher.digest128().to_be_bytes()
        },
        |(_, digest)| digest,
    );
    Ok((held.page.fetched_at_ms, digest, encoded.meta))
}

fn print_of(head: &Head) -> Print {
    (head.version.time_ms, head.digest, head.meta.clone())
}

impl List {
    fn new(store: &PageStore, after: &[u8]) -> Result<List> {
        if !store.engine().has_key_order() {
            return Err(Error::Unsupported { what: "key order, which a replica needs: a repair makes one" });
        }
        let range = if after.is_empty() { KeyRange::all() } else { KeyRange::all().after(after) };
        let own = store.engine().keys_in(range, Direction::Forward)?;
        Ok(List { own, next: None, key: Vec::new(), held: Vec::new(), bytes: 0, is_settled: true, keeps_all: false })
    }
}
