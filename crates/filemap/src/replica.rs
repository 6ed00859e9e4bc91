//! A replica: a store that is made equal to another one by what that tells of its changes.
//!
//! It has each version and each removal of the other store, in their order, so it is equal as soon
//! as it has heard of all. Only the sequences are its own. After a list of all that the other has,
//! what was not listed is removed: so a replica that has lost the thread begins anew, and keeps
//! what it has.

use std::collections::HashSet;
use std::io::Read;
use std::ops::ControlFlow;

use filemap_core::erase::Rule;
use filemap_core::list::{Direction, KeyRange, KeysInOrder};
use filemap_core::{Head, StorageError, Version};
use filemap_io::{Access, Dir, File, OsDir, files};
use xxhash_rust::xxh3::Xxh3;

use crate::date;
use crate::error::{Error, Result};
use crate::page::{Page, key, meta, order};
use crate::store::{Beside, BodyForm, ChangesPlace, Loader, PageStore};

/// Bytes of bodies of one key in memory, while it is not known whether what the replica has of it
/// is among them.
const HELD_BYTES: usize = 64 << 20;

/// The longest place: that of a key in a list.
const MAX_PLACE_BYTES: u64 = 256 << 10;

/// A change of the other store.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Told {
    /// A version is there.
    Put {
        /// The page as it is stored there: a revisit without its original's body. Without any body
        /// if that is fetched by itself.
        page: Box<Page>,
        /// How its body is stored there.
        form: BodyForm,
        /// Which version it is there.
        version: Version,
        /// Length, and digest as it is stored, of a body that is to be fetched.
        elsewhere: Option<(u64, [u8; 16])>,
    },
    /// All versions put before were removed, as [`crate::store::PageChange::Removed`] says.
    Removed {
        /// Of what.
        of: Beside,
        /// When, in ms since 1970.
        time_ms: i64,
    },
    /// All is listed; what was not is not there, if the list is whole.
    Listed {
        /// Nothing of the other store is absent.
        is_whole: bool,
    },
    /// Something is damaged there: what the replica has of it stays. `None`: it is not known of
    /// what.
    Damaged(Option<Beside>),
    /// The rules of erasures.
    Rules(Vec<Rule>),
}

/// How a body is fetched that is too long to be told: of this page and version; `None` if it is
/// gone.
pub type Fetch<'a> = dyn FnMut(&Page, Version) -> Result<Option<Box<dyn Read + Send>>> + 'a;

/// What a replica has done.
///
/// ```
/// let counts = filemap::replica::Counts::default();
/// assert_eq!(counts.put + counts.removed + counts.refused + counts.damaged, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Versions put.
    pub put: u64,
    /// Versions told of that were there.
    pub present: u64,
    /// Keys removed: of pages, variants and records beside them.
    pub removed: u64,
    /// Versions that the replica does not take: a rule of its own refuses them, or a limit.
    pub refused: u64,
    /// Versions and keys that are damaged in the other store.
    pub damaged: u64,
}

/// A replica in the making. What was applied is durable after a `sync` of the store.
pub struct Replica {
    store: PageStore,
    loader: Loader,
    /// While all is listed.
    list: Option<List>,
    counts: Counts,
    /// What the operator should know.
    notes: Vec<String>,
}

impl std::fmt::Debug for Replica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replica").field("counts", &self.counts).finish_non_exhaustive()
    }
}

/// The state of a list of all that the other store has.
struct List {
    /// The replica's own keys from there on, and the next of them.
    own: KeysInOrder,
    next: Option<(Vec<u8>, Vec<u8>)>,
    /// The key listed last.
    key: Vec<u8>,
    held: Vec<Held>,
    bytes: usize,
    /// What the replica had of this key is settled: versions are put as they come.
    is_settled: bool,
}

/// A version that was listed.
struct Held {
    page: Page,
    form: BodyForm,
    version: Version,
    elsewhere: Option<(u64, [u8; 16])>,
}

/// What tells versions of one key apart: time, digest of what is stored, description.
type Print = (i64, [u8; 16], Vec<u8>);

impl Replica {
    /// Goes on from a place in the other store's history; `None`: from its beginning. Whoever asks
    /// for the changes since that place gives them to [`Replica::apply`].
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if a list is to come and the store keeps its keys in no order;
    /// those of [`filemap_core::Store::keys_in`].
    pub fn new(store: PageStore, place: Option<&ChangesPlace>) -> Result<Replica> {
        let after = place.map_or(Some(&[][..]), ChangesPlace::listed);
        let list = after.map(|after| List::new(&store, after)).transpose()?;
        let (loader, counts) = (Loader::default(), Counts::default());
        let mut replica = Replica { store, loader, list, counts, notes: Vec::new() };
        // A kill may have cut an erasure off.
        replica.end_erasures()?;
        Ok(replica)
    }

    /// What the operator should know, since the last call: what was refused, and erasures that are
    /// not complete.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// What was done so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Does what the other store has done. May be done again.
    ///
    /// # Errors
    ///
    /// Those of `fetch`, and of puts, removals and erasures; the replica may then be opened anew,
    /// and go on from where it was last in sync.
    pub fn apply(&mut self, told: Told, fetch: &mut Fetch<'_>) -> Result<()> {
        match self.apply_one(told, fetch) {
            // A URL that is none for this store, say.
            Err(error) if error.concerns_one_page() => {
                self.counts.refused += 1;
                self.notes.push(format!("not taken over: {error}"));
                Ok(())
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
            Told::Damaged(of) => {
                self.counts.damaged += 1;
                match (self.list.take(), of) {
                    (Some(mut list), Some(of)) => {
                        let done = self.keep(&mut list, &of, fetch);
                        self.list = Some(list);
                        done
                    }
                    (list, _) => {
                        self.list = list;
                        Ok(())
                    }
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

    /// Carries out what rules say that is not done yet.
    fn end_erasures(&mut self) -> Result<()> {
        if let Some(erasing) = self.store.resume_erasures(&mut |_| ControlFlow::Continue(()))? {
            self.loader = Loader::default();
            if !erasing.is_complete() {
                let rules = &erasing.rules;
                self.notes.push(format!("the erasure by the rules {rules:?} is not complete here: `erase --resume`"));
            }
        }
        Ok(())
    }

    /// Keeps what the replica has of a key that is damaged there.
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

    /// Ends the key before, and removes what the replica has up to this one.
    fn begin_key(&mut self, list: &mut List, key: Vec<u8>, fetch: &mut Fetch<'_>) -> Result<()> {
        self.settle(list, fetch)?;
        let mut form = Vec::new();
        order::ordered(&key, &mut form);
        self.remove_up_to(list, Some(&form))?;
        (list.key, list.is_settled) = (key, false);
        Ok(())
    }

    /// Takes a version that is listed.
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
            // Which of its versions would come is not known.
            let key = list.key.clone();
            self.remove(&key)?;
            list.is_settled = true;
            self.put_held(list, fetch)?;
        }
        Ok(())
    }

    /// Puts what was held of the key listed last. If the replica has a version of it that was not
    /// listed, all of them are put anew.
    fn settle(&mut self, list: &mut List, fetch: &mut Fetch<'_>) -> Result<()> {
        if list.is_settled || list.held.is_empty() {
            return Ok(());
        }
        let listed: HashSet<Print> = list.held.iter().map(|held| print(&list.key, held)).collect::<Result<_>>()?;
        let own = self.store.engine().history(&list.key);
        let own = match own {
            // What cannot be read is no version that was listed.
            Err(error) if error.is_corrupt() => None,
            own => Some(own?),
        };
        let is_listed = |head: &Head| listed.contains(&print_of(head));
        if own.is_none_or(|own| !own.iter().all(is_listed)) {
            let key = list.key.clone();
            self.remove(&key)?;
        }
        self.put_held(list, fetch)
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
            Err(error) if error.refused_by().is_some() || error.concerns_one_page() => {
                self.counts.refused += 1;
                let (url, time_ms) = (String::from_utf8_lossy(&held.page.url), held.page.fetched_at_ms);
                self.notes.push(format!("not taken over: {url} of {}: {error}", date::format(time_ms)));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Puts a version whose body is to be fetched, unless it is there.
    fn put_elsewhere(&mut self, held: &Held, fetch: &mut Fetch<'_>) -> Result<bool> {
        let key = self.store.key_of_page(&held.page)?;
        let print = print(&key, held)?;
        if self.store.engine().history(&key).is_ok_and(|own| own.iter().any(|head| print_of(head) == print)) {
            return Ok(false);
        }
        match fetch(&held.page, held.version)? {
            // Its removal is told of next.
            None => Ok(false),
            Some(mut body) => self.store.put_page_reader(&held.page, &mut *body).map(|_| true),
        }
    }

    fn remove(&mut self, key: &[u8]) -> Result<()> {
        if self.store.engine().remove(key)? {
            self.counts.removed += 1;
            // It takes what it has put for there.
            self.loader = Loader::default();
        }
        Ok(())
    }

    /// Removes the replica's own keys before a form of the list, or all that are left.
    fn remove_up_to(&mut self, list: &mut List, form: Option<&[u8]>) -> Result<()> {
        loop {
            if list.next.is_none() {
                list.next = list.own.next().transpose()?.map(|key| (list.own.form().to_vec(), key));
            }
            match &list.next {
                Some((own, key)) if form.is_none_or(|form| own.as_slice() < form) => {
                    if !key::is_hidden(key) {
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

/// The file in a replica's folder with the place that it has come to.
const PLACE_FILE: &str = "FOLLOWS";

/// The place in the other store's history that a replica has noted; `None` if it has not begun, or
/// has lost something since (a repair, an older copy put in its place), so that it must begin
/// anew.
///
/// # Errors
///
/// [`Error::Cursor`] if it is none; `Io`.
pub fn noted_place(store: &PageStore) -> Result<Option<ChangesPlace>> {
    let dir = folder(store)?;
    let read = |file: &dyn File| {
        let bytes = file.len().map_err(StorageError::io("measure", PLACE_FILE))?;
        files::read(file, PLACE_FILE, 0, usize::try_from(bytes.min(MAX_PLACE_BYTES)).unwrap_or_default())
    };
    let text = match dir.open(PLACE_FILE, Access::Read) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(StorageError::io("open", PLACE_FILE)).and_then(|file| read(&*file)),
    };
    let text = text.map_err(|error| Error::Engine(error.into()))?;
    let text = String::from_utf8_lossy(&text);
    let (own, place) = text.trim().split_once('\n').ok_or(Error::Cursor { what: "the file FOLLOWS holds none" })?;
    let has_all = store.engine().has_come_from(own.parse()?)?;
    let place = place.parse()?;
    Ok(has_all.then_some(place))
}

/// Whether a store has once noted a place, of whatever store.
///
/// # Errors
///
/// `Io`.
pub fn is_replica(store: &PageStore) -> Result<bool> {
    files::exists(&folder(store)?, PLACE_FILE).map_err(|error| Error::Engine(error.into()))
}

/// Notes the place that a replica has come to, durably. What was applied must be: sync before.
///
/// # Errors
///
/// `Io`.
pub fn note_place(store: &PageStore, place: &ChangesPlace) -> Result<()> {
    let (dir, new) = (folder(store)?, format!("{PLACE_FILE}.new"));
    let text = format!("{}\n{place}\n", store.engine().changes_end()?);
    // A killed process may have left one.
    files::remove(&dir, &new).map_err(|error| Error::Engine(error.into()))?;
    files::replace(&dir, PLACE_FILE, &new, |file| files::write(file, &new, text.as_bytes(), 0))
        .map_err(|error: StorageError| Error::Engine(error.into()))
}

fn folder(store: &PageStore) -> Result<OsDir> {
    let path = store.engine().path();
    let shown = path.display().to_string();
    OsDir::open(path).map_err(StorageError::io("open", &shown)).map_err(|error| Error::Engine(error.into()))
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
            return Err(Error::Unsupported { what: "order of keys, which a replica needs: a repair makes one" });
        }
        let range = if after.is_empty() { KeyRange::all() } else { KeyRange::all().after(after) };
        let own = store.engine().keys_in(range, Direction::Forward)?;
        Ok(List { own, next: None, key: Vec::new(), held: Vec::new(), bytes: 0, is_settled: true })
    }
}
