//! Opening and making of a set.
//!
//! All members are opened before anything is made, so each lock is held or none is, and what is
//! refused is left as it was, but for a recovery of its log. A set is made in three steps, each
//! durable before the next: stores, empty; in each a note that the set is being made; in each that
//! it is made. Until one says that it is made, no member has a page, and the next opening that may
//! make a set begins anew, whatever a crash left. From then on all are there, and each must be.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use filemap_core::{Error as EngineError, Options};
use urlindex::Canonicalizer;

use super::note::{self, Note};
use super::{ShardedStore, location, named};
use crate::error::{Error, Result};
use crate::page::key;
use crate::store::PageStore;

/// Result of a look at the path of a member.
struct Found {
    path: PathBuf,
    here: Here,
}

enum Here {
    /// No store, and why.
    Absent(EngineError),
    Store(PageStore, Option<Note>),
}

impl ShardedStore {
    /// Opens a store over these folders for writing, or makes it: all members must be there, or
    /// none may have a page. A new one has keys by `canonicalizer`; one that is there keeps its
    /// own.
    ///
    /// # Errors
    ///
    /// As [`ShardedStore::open`]; those of [`PageStore::create_with`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::Arc;
    /// use filemap::canonical::Whatwg;
    /// use filemap::{Options, PageWrite, sharded::ShardedStore};
    ///
    /// let dir = tempfile::tempdir()?;
    /// let disks = [dir.path().join("a.fm"), dir.path().join("b.fm")];
    /// ShardedStore::open_or_create(&disks, Arc::new(Whatwg), Options::new())?.close()?;
    /// let (swapped, alone) = ([&disks[1], &disks[0]], [&disks[0]]);
    /// assert!(ShardedStore::open_or_create(&swapped, Arc::new(Whatwg), Options::new()).is_err());
    /// assert!(ShardedStore::open_or_create(&alone, Arc::new(Whatwg), Options::new()).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_or_create<P: AsRef<Path>>(
        paths: &[P],
        canonicalizer: Arc<dyn Canonicalizer>,
        options: Options,
    ) -> Result<ShardedStore> {
        let found = look(paths, |path| PageStore::open(path, options.clone()))?;
        if made(&found)?.is_some() {
            return opened(found);
        }
        let create = |Found { path, here }: Found| match here {
            Here::Absent(_) => {
                let store = PageStore::create_with(&path, Arc::clone(&canonicalizer), options.clone());
                store.map_err(|error| error.of_member(&path))
            }
            Here::Store(store, _) => check_keys(&store, &*canonicalizer).map(|()| store),
        };
        make(found.into_iter().map(create).collect::<Result<_>>()?)
    }

    /// Opens a store over these folders for writing.
    ///
    /// # Errors
    ///
    /// [`Error::NotMembers`] if they are not the members of one store, all of them and in their
    /// order; [`Error::Engine`] with `NotAStore` if there is no store at any; those of
    /// [`PageStore::open`], with the path of the member.
    ///
    /// ```
    /// use filemap::{Options, sharded::ShardedStore};
    /// assert!(ShardedStore::open(&["no/such/a.fm", "no/such/b.fm"], Options::new()).is_err());
    /// ```
    pub fn open<P: AsRef<Path>>(paths: &[P], options: Options) -> Result<ShardedStore> {
        opened(look(paths, |path| PageStore::open(path, options.clone()))?)
    }

    /// Opens a store over these folders for reading, while another process may write it: it
    /// follows that one.
    ///
    /// # Errors
    ///
    /// As [`ShardedStore::open`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::sync::Arc;
    /// # use filemap::access::PutRule;
    /// # use filemap::canonical::Whatwg;
    /// # use filemap::{Options, Page, PageRead, PageWrite, sharded::ShardedStore};
    /// # let dir = tempfile::tempdir()?;
    /// # let disks = [dir.path().join("a.fm"), dir.path().join("b.fm")];
    /// let writer = ShardedStore::open_or_create(&disks, Arc::new(Whatwg), Options::new())?;
    /// let reader = ShardedStore::open_read_only(&disks, Options::new())?;
    /// let page = Page::new("http://example.com/", 1_700_000_000_000, 200, "hello");
    /// writer.put(&page, PutRule::Always)?;
    /// reader.members().iter().try_for_each(|member| member.engine().refresh())?;
    /// assert!(reader.contains(&"http://example.com/".into())?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_read_only<P: AsRef<Path>>(paths: &[P], options: Options) -> Result<ShardedStore> {
        opened(look(paths, |path| PageStore::open_read_only(path, options.clone()))?)
    }

    /// A store over members that are open already, all in the same way.
    ///
    /// # Errors
    ///
    /// [`Error::NotMembers`], as [`ShardedStore::open`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use filemap::{Options, PageStore, sharded::ShardedStore};
    ///
    /// let dir = tempfile::tempdir()?;
    /// let alone = PageStore::create(dir.path().join("a.fm"), Options::new())?;
    /// assert!(ShardedStore::over(vec![alone]).is_err(), "it is not a member of a set");
    /// # Ok(())
    /// # }
    /// ```
    pub fn over(members: Vec<PageStore>) -> Result<ShardedStore> {
        opened(members.into_iter().map(Found::store).collect::<Result<_>>()?)
    }

    /// As [`ShardedStore::over`], of members open for writing; makes the set if none was made of
    /// them and none has a page.
    ///
    /// # Errors
    ///
    /// As [`ShardedStore::over`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use filemap::{Options, PageStore, sharded::ShardedStore};
    ///
    /// let dir = tempfile::tempdir()?;
    /// let members = ["a.fm", "b.fm"].map(|name| PageStore::create(dir.path().join(name), Options::new()));
    /// let members = members.into_iter().collect::<Result<Vec<_>, _>>()?;
    /// assert_eq!(ShardedStore::make_over(members)?.members().len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn make_over(members: Vec<PageStore>) -> Result<ShardedStore> {
        let found = members.into_iter().map(Found::store).collect::<Result<Vec<_>>>()?;
        match made(&found)? {
            Some(_) => opened(found),
            None => make(found.into_iter().map(Found::opened).collect::<Result<_>>()?),
        }
    }
}

impl Found {
    /// Turns the opening of a member into a finding.
    fn at(path: &Path, opened: Result<PageStore>) -> Result<Found> {
        let here = match opened {
            Ok(store) => return Found::store(store),
            Err(Error::Engine(error @ EngineError::NotAStore { .. })) => Here::Absent(error),
            Err(error) => return Err(error.of_member(path)),
        };
        Ok(Found { path: path.to_owned(), here })
    }

    /// An open store.
    fn store(store: PageStore) -> Result<Found> {
        let note = named(&store, note::read(&store))?;
        Ok(Found { path: store.engine().path().to_owned(), here: Here::Store(store, note) })
    }

    /// The open store.
    fn opened(self) -> Result<PageStore> {
        match self.here {
            Here::Store(store, _) => Ok(store),
            Here::Absent(error) => Err(error.into()),
        }
    }

    fn note(&self) -> Option<&Note> {
        match &self.here {
            Here::Store(_, note) => note.as_ref(),
            Here::Absent(_) => None,
        }
    }

    fn refused(&self, what: impl Into<String>) -> Error {
        Error::NotMembers { path: self.path.clone(), what: what.into() }
    }
}

/// Opens what is at these paths.
fn look<P: AsRef<Path>>(paths: &[P], open: impl Fn(&Path) -> Result<PageStore>) -> Result<Vec<Found>> {
    paths.iter().map(|path| Found::at(path.as_ref(), open(path.as_ref()))).collect()
}

/// The set of these folders, if one was made; `None` if none was, and no store has a page.
///
/// # Errors
///
/// [`Error::NotMembers`] if the folders are anything else.
fn made(found: &[Found]) -> Result<Option<Note>> {
    if let Some(what) = location::too_many(found.len()) {
        let path = found.first().map(|first| first.path.clone()).unwrap_or_default();
        return Err(Error::NotMembers { path, what });
    }
    let of_made = found.iter().find_map(|member| Some((member, *member.note().filter(|note| note.is_made)?)));
    if let Some((member, set)) = of_made {
        check(found, member, &set)?;
        return Ok(Some(set));
    }
    for member in found {
        if let Here::Store(store, _) = &member.here
            && named(store, has_pages(store))?
        {
            return Err(member.refused(
                "it has pages, and is not a member of a store over several folders: give new or empty folders, and \
                 `fm-tool copy` brings its pages there",
            ));
        }
    }
    Ok(None)
}

/// Checks that all folders are the members of a set that was made, in their order; `of` is one.
fn check(found: &[Found], of: &Found, set: &Note) -> Result<()> {
    let (members, given) = (set.of, found.len());
    if members as usize != given {
        return Err(of.refused(format!(
            "it is member {} of a store over {members} folders, and {given} were given: give all of them, in their order",
            set.number + 1
        )));
    }
    for (number, member) in found.iter().enumerate() {
        let wanted = format!("member {} of {members}", number + 1);
        let what = match (&member.here, member.note()) {
            (Here::Absent(error), _) => format!(
                "{wanted} was here, and is not ({error}): mount its disk, give the path that it has now, or restore a \
                 backup of it there"
            ),
            (_, None) => format!(
                "it is not a member of the store that {} is one of: give the path of {wanted}, or restore a backup of it \
                 here",
                of.path.display()
            ),
            (_, Some(note)) if (note.set, note.of) != (set.set, set.of) => {
                format!("it is a member of another store than {}: give the path of {wanted}", of.path.display())
            }
            (_, Some(note)) if note.number as usize != number => format!(
                "it is member {} of {members}, and was given as member {}: give the paths in their order",
                note.number + 1,
                number + 1
            ),
            _ => continue,
        };
        return Err(member.refused(what));
    }
    Ok(())
}

/// The store of these folders, if a set was made of them. A writer ends what a crash left of its
/// making.
fn opened(found: Vec<Found>) -> Result<ShardedStore> {
    let Some(set) = made(&found)? else { return Err(not_made(found)) };
    let mut members: Vec<PageStore> = Vec::new();
    for (number, member) in found.into_iter().enumerate() {
        let is_made = member.note().is_some_and(|note| note.is_made);
        let store = member.opened()?;
        if !is_made && !store.engine().is_read_only() {
            named(&store, note::write(&store, &Note { number: number as u32, ..set }))?;
        }
        members.push(store);
    }
    checked(members)
}

/// The error of folders from which no set was made.
fn not_made(found: Vec<Found>) -> Error {
    let what = "no store over these folders was made yet, or its making was cut short, before any page was put: open \
                them to fill it, as `fm-tool put` and `fm-tool copy` do";
    let there = found.iter().find(|member| matches!(member.here, Here::Store(..)));
    let refused = there.map(|member| member.refused(what));
    let absent = || found.into_iter().next().and_then(|first| first.opened().err());
    refused.or_else(absent).unwrap_or_else(|| Error::NotMembers { path: PathBuf::new(), what: what.to_owned() })
}

/// Makes a set of stores without pages.
fn make(members: Vec<PageStore>) -> Result<ShardedStore> {
    let made = checked(members)?;
    let members = made.members();
    let random = made.first().engine().random_bytes(size_of::<u128>())?;
    let set = random.iter().fold(0, |id: u128, &byte| id << 8 | u128::from(byte));
    let of = members.len() as u32;
    for is_made in [false, true] {
        for (number, member) in members.iter().enumerate() {
            named(member, note::write(member, &Note { set, number: number as u32, of, is_made }))?;
        }
    }
    Ok(made)
}

/// The store over these members, whose keys must be made in one way.
fn checked(members: Vec<PageStore>) -> Result<ShardedStore> {
    let Some(first) = members.first() else {
        return Err(Error::NotMembers { path: PathBuf::new(), what: "no folder was given".to_owned() });
    };
    members.iter().try_for_each(|member| check_keys(member, &**first.canonicalizer()))?;
    Ok(ShardedStore::joining(&members))
}

/// Checks that a member's keys are made by this canonicaliser.
fn check_keys(member: &PageStore, canonicalizer: &dyn Canonicalizer) -> Result<()> {
    let named = |canonicalizer: &dyn Canonicalizer| format!("{} {}", canonicalizer.name(), canonicalizer.version());
    let (own, wanted) = (named(&**member.canonicalizer()), named(canonicalizer));
    if own == wanted {
        return Ok(());
    }
    let what = format!("its keys are made by the canonicaliser {own}, and all members must have {wanted}");
    Err(Error::NotMembers { path: member.engine().path().to_owned(), what })
}

/// Returns whether a store has a page, or anything but its internal keys.
fn has_pages(store: &PageStore) -> Result<bool> {
    let found = store.engine().keys_where(|key| !key::is_own(key)).next();
    Ok(found.transpose()?.is_some())
}
