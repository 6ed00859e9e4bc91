//! A replica: a store that is made equal to another one by what that tells of its changes.
//!
//! It has each version and each removal of the other store, in their order, so it is equal as soon
//! as it has heard of all. Only the sequences are its own. After a list of all that the other has,
//! what was not listed is removed: so a replica that has lost the thread begins anew, and keeps
//! what it has.

use std::collections::HashSet;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;

use filemap_core::erase::Rule;
use filemap_core::list::{Direction, KeyRange, KeysInOrder};
use filemap_core::{StorageError, Version};
use filemap_io::{Access, Dir, File, OsDir, files};
use xxhash_rust::xxh3::xxh3_128;

use crate::error::{Error, Result};
use crate::page::variant::Variant;
use crate::page::{Page, RecordKind, key, meta, order};
use crate::store::{BodyForm, ChangesPlace, Loader, PageStore};

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
        /// The length of a body that is to be fetched.
        elsewhere: Option<u64>,
    },
    /// All versions put before were removed, as [`crate::store::PageChange::Removed`] says.
    Removed {
        /// The canonical URL.
        url: Vec<u8>,
        /// The variant, if it was one.
        variant: Option<Variant>,
        /// The kind of the records.
        kind: RecordKind,
    },
    /// All is listed.
    Listed,
    /// The rules of erasures.
    Rules(Vec<Rule>),
}

/// How a body is fetched that is too long to be told: of this page and version.
pub type Fetch<'a> = dyn FnMut(&Page, Version) -> Result<Box<dyn Read + Send>> + 'a;

/// What a replica has done.
///
/// ```
/// let counts = filemap::replica::Counts::default();
/// assert_eq!(counts.put + counts.removed + counts.refused, 0);
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
    /// Versions that the replica does not take: a rule of its own refuses them.
    pub refused: u64,
}

/// A replica in the making. What was applied is durable after a `sync` of the store.
pub struct Replica {
    store: PageStore,
    loader: Loader,
    /// While all is listed.
    list: Option<List>,
    counts: Counts,
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
    elsewhere: Option<u64>,
}

/// What tells versions of one key apart: time, length and hash of the stored body, description. No
/// hash if the body is elsewhere.
type Print = (i64, u64, Option<u128>, Vec<u8>);

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
        Ok(Replica { store, loader: Loader::default(), list, counts: Counts::default() })
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
            Told::Removed { url, variant, kind } => {
                let key = self.store.key_of(&url, kind, variant.as_ref())?;
                self.remove(&key)
            }
            Told::Listed => match self.list.take() {
                Some(mut list) => {
                    self.settle(&mut list, fetch)?;
                    self.remove_up_to(&mut list, None)
                }
                None => Ok(()),
            },
            Told::Rules(rules) => {
                if self.store.adopt(&rules)? > 0 {
                    self.store.resume_erasures(&mut |_| ControlFlow::Continue(()))?;
                    self.loader = Loader::default();
                }
                Ok(())
            }
        }
    }

    /// Takes a version that is listed.
    fn hold(&mut self, list: &mut List, held: Held, fetch: &mut Fetch<'_>) -> Result<()> {
        let key = self.store.key_of_page(&held.page)?;
        if key != list.key {
            self.settle(list, fetch)?;
            let mut form = Vec::new();
            order::ordered(&key, &mut form);
            self.remove_up_to(list, Some(&form))?;
            (list.key, list.is_settled) = (key, false);
        }
        if list.is_settled {
            return self.put(&held, fetch);
        }
        list.bytes += held.page.body.len();
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
        let is_listed = |head: &filemap_core::Head| {
            let (time_ms, bytes) = (head.version.time_ms, head.body_bytes);
            let digest = u128::from_be_bytes(head.digest);
            [Some(digest), None].into_iter().any(|d| listed.contains(&(time_ms, bytes, d, head.meta.clone())))
        };
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
            Err(error) if error.refused_by().is_some() => self.counts.refused += 1,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Puts a version whose body is to be fetched, unless it is there.
    fn put_elsewhere(&mut self, held: &Held, fetch: &mut Fetch<'_>) -> Result<bool> {
        let key = self.store.key_of_page(&held.page)?;
        let print = print(&key, held)?;
        let is_it =
            |head: &filemap_core::Head| print == (head.version.time_ms, head.body_bytes, None, head.meta.clone());
        if self.store.engine().history(&key).is_ok_and(|own| own.iter().any(is_it)) {
            return Ok(false);
        }
        let mut body = fetch(&held.page, held.version)?;
        self.store.put_page_reader(&held.page, &mut *body)?;
        Ok(true)
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

/// The file beside a replica with the place that it has come to.
fn place_file(store: &PageStore) -> Result<(OsDir, String)> {
    let path = store.engine().path();
    let name = path.file_name().map_or_else(|| "store".into(), |name| name.to_string_lossy().into_owned());
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let shown = parent.display().to_string();
    let dir = OsDir::open(parent).map_err(StorageError::io("open", &shown));
    let dir = dir.map_err(|error| Error::Engine(error.into()))?;
    Ok((dir, format!("{name}.follows")))
}

/// The place in the other store's history that a replica has noted; `None` if it has not begun.
///
/// # Errors
///
/// [`Error::Cursor`] if it is none; `Io`.
pub fn noted_place(store: &PageStore) -> Result<Option<ChangesPlace>> {
    let (dir, name) = place_file(store)?;
    let read = |file: &dyn File| {
        let bytes = file.len().map_err(StorageError::io("measure", &name))?;
        files::read(file, &name, 0, usize::try_from(bytes.min(MAX_PLACE_BYTES)).unwrap_or_default())
    };
    let text = match dir.open(&name, Access::Read) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(StorageError::io("open", &name)).and_then(|file| read(&*file)),
    };
    let text = text.map_err(|error| Error::Engine(error.into()))?;
    String::from_utf8_lossy(&text).trim().parse().map(Some)
}

/// Notes the place that a replica has come to, durably. What was applied must be: sync before.
///
/// # Errors
///
/// `Io`.
pub fn note_place(store: &PageStore, place: &ChangesPlace) -> Result<()> {
    let (dir, name) = place_file(store)?;
    let new = format!("{name}.new");
    let text = format!("{place}\n");
    // A killed process may have left one.
    files::remove(&dir, &new).map_err(|error| Error::Engine(error.into()))?;
    files::replace(&dir, &name, &new, |file| files::write(file, &new, text.as_bytes(), 0))
        .map_err(|error: StorageError| Error::Engine(error.into()))
}

fn print(key: &[u8], held: &Held) -> Result<Print> {
    let encoded = meta::encode(&held.page, key::url(key))?;
    let mut body = encoded.spill;
    body.extend_from_slice(&held.page.body);
    let bytes = body.len() as u64 + held.elsewhere.unwrap_or(0);
    let hash = held.elsewhere.is_none().then(|| xxh3_128(&body));
    Ok((held.page.fetched_at_ms, bytes, hash, encoded.meta))
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
