//! Opens a verb's store: to read, to change, or to fill.
//!
//! Verbs that read and write pages get a [`PageRead`] or [`PageWrite`]. Only this module decides
//! whether a location is a folder, several, a server or a bucket. Upkeep needs a local store or
//! its engine.
//!
//! Invariant: only filling creates a store. Reading takes no lock, so it works while a crawler
//! writes. Changing a missing store is an error.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use filemap::archives::Archives;
use filemap::sharded::ShardedStore;
use filemap::{Options, PageRead, PageStore, PageWrite};
use filemap_core::recovery::RecoveryReport;
use filemap_core::{Event, Store};
use filemap_http::{AnyArchives, Client};
use fm_cli::{Failure, sizes, words};
use urlindex::{Canonicalizer, Exact, Whatwg};

use crate::flags::Shared;
use crate::stores::bucket::{self, For};
use crate::stores::{absence, remote, shards};

/// A store to read, while another process may write it.
pub fn to_read(path: &Path, shared: &Shared) -> Result<Box<dyn PageRead>, Failure> {
    refuse_loss(path, shared)?;
    if let Some(store) = bucket::open(path, For::Reading)? {
        return Ok(store);
    }
    if let Some(store) = shards_to_read(path, shared)? {
        return Ok(Box::new(store));
    }
    Ok(match remote::open(path)? {
        Some(client) => Box::new(client),
        None => Box::new(local_to_read(path, shared)?),
    })
}

/// A store to change, which must exist.
pub fn to_change(path: &Path, shared: &Shared) -> Result<Box<dyn PageWrite>, Failure> {
    refuse_loss(path, shared)?;
    if let Some(store) = bucket::open(path, For::Changing)? {
        return Ok(store);
    }
    if let Some(store) = shards_to_change(path, shared)? {
        return Ok(Box::new(store));
    }
    Ok(match remote::open(path)? {
        Some(_) if shared.accept_loss => return Err(accepts_loss()),
        Some(client) => Box::new(client),
        None => Box::new(local_to_change(path, shared)?),
    })
}

/// A store to fill. A missing local store is made; a server's store must exist.
pub fn to_fill(path: &Path, new: &NewStore, shared: &Shared) -> Result<Box<dyn PageWrite>, Failure> {
    refuse_loss(path, shared)?;
    if new.min_free.is_some() && bucket::is_bucket(path) {
        return Err(Failure::Usage("--min-free needs a local store".to_owned()));
    }
    let filling = if new.must_exist { For::Changing } else { For::Filling(new.canonicalizer()) };
    if let Some(store) = bucket::open(path, filling)? {
        return Ok(store);
    }
    if let Some(store) = shards_to_fill_by(path, new, shared)? {
        return Ok(Box::new(store));
    }
    Ok(match server_to_fill(path, new, shared)? {
        Some(client) => Box::new(client),
        None => Box::new(local_to_fill(path, new, shared)?),
    })
}

/// The store of a server to fill; `None` if the path is not a server's address.
pub fn server_to_fill(path: &Path, new: &NewStore, shared: &Shared) -> Result<Option<Client>, Failure> {
    let Some(client) = remote::open(path)? else { return Ok(None) };
    if shared.accept_loss {
        return Err(accepts_loss());
    }
    if new.exact_urls || new.min_free.is_some() {
        let words = "--exact-urls and --min-free need a local store: the server has its own";
        return Err(Failure::Usage(words.to_owned()));
    }
    Ok(Some(client))
}

/// Refuses `--accept-loss` for a bucket, which has no local files.
pub fn refuse_loss(path: &Path, shared: &Shared) -> Result<(), Failure> {
    if shared.accept_loss && bucket::is_bucket(path) { Err(accepts_loss()) } else { Ok(()) }
}

/// The failure for `--accept-loss` with a store that is not local.
pub fn accepts_loss() -> Failure {
    Failure::Usage("--accept-loss needs a local store".to_owned())
}

/// Advice for a store that does not open.
const REMEDY: &str = "`fm-tool repair` makes a store of what the value segments hold, and names all that is lost";

const REMEDY_TO_CHANGE: &str = "`fm-tool repair` makes a store of what the value segments hold, and names all that is \
                                lost; `--accept-loss` continues without the missing files";

/// Adds the remedy to the failure of a store that does not open because of damage.
fn opened<T>(path: &Path, store: Result<T, impl Into<Failure>>) -> Result<T, Failure> {
    store.map_err(|error| error.into().at(path, REMEDY))
}

/// As [`opened`], for a store to change.
fn opened_to_change<T>(path: &Path, store: Result<T, impl Into<Failure>>) -> Result<T, Failure> {
    store.map_err(|error| error.into().at(path, REMEDY_TO_CHANGE))
}

/// A store over several folders to read; `None` if the path names none.
pub fn shards_to_read(path: &Path, shared: &Shared) -> Result<Option<ShardedStore>, Failure> {
    let Some(members) = shards::members(path)? else { return Ok(None) };
    let store = ShardedStore::open_read_only(&members, options(shared));
    opened_over(store, absence::of_read, REMEDY).map(Some)
}

/// As [`shards_to_read`], for a dry run.
pub fn shards_to_plan(path: &Path, shared: &Shared) -> Result<Option<ShardedStore>, Failure> {
    let Some(members) = shards::members(path)? else { return Ok(None) };
    let store = ShardedStore::open_read_only(&members, options(shared));
    opened_over(store, absence::of_plan, REMEDY).map(Some)
}

/// A store over several folders to change; `None` if the path names none.
pub fn shards_to_change(path: &Path, shared: &Shared) -> Result<Option<ShardedStore>, Failure> {
    let Some(members) = shards::members(path)? else { return Ok(None) };
    let store = ShardedStore::open(&members, options(shared));
    opened_over(store, absence::of_written, REMEDY_TO_CHANGE).map(Some)
}

/// A store over several folders to fill, made with this canonicaliser if missing; `None` if the
/// path names none.
pub fn shards_to_fill(
    path: &Path,
    canonicalizer: &Arc<dyn Canonicalizer>,
    min_free: Option<u64>,
    shared: &Shared,
) -> Result<Option<ShardedStore>, Failure> {
    let Some(members) = shards::members(path)? else { return Ok(None) };
    let options = min_free.into_iter().fold(options(shared), Options::free_space_floor);
    let is_new = is_missing(&members);
    let store = ShardedStore::open_or_create(&members, Arc::clone(canonicalizer), options);
    let store = opened_over(store, absence::of_written, REMEDY_TO_CHANGE)?;
    if is_new {
        say_new(&members, shared);
    }
    Ok(Some(store))
}

/// Returns whether there is a store in none of these folders.
fn is_missing(members: &[PathBuf]) -> bool {
    members.iter().all(|member| !member.join("SUPERBLOCK").exists())
}

/// Says that a store was made: it was not meant to be where disks are not mounted.
fn say_new(members: &[PathBuf], shared: &Shared) {
    if shared.flags.says() {
        let (folders, first) = (words::count(members.len() as u64, "folder"), members.first());
        let first = first.map(|first| first.display().to_string()).unwrap_or_default();
        words::say(format_args!("a new store over {folders} was made, {first} and those after it"));
    }
}

/// A store over several folders to fill, by the options of a verb; `None` if the path names none.
pub fn shards_to_fill_by(path: &Path, new: &NewStore, shared: &Shared) -> Result<Option<ShardedStore>, Failure> {
    if new.must_exist
        && let Some(members) = shards::members(path)?
    {
        let options = new.min_free.into_iter().fold(options(shared), Options::free_space_floor);
        let store = ShardedStore::open(&members, options);
        return opened_over(store, absence::of_written, REMEDY_TO_CHANGE).map(Some);
    }
    let store = shards_to_fill(path, &new.canonicalizer(), new.min_free, shared)?;
    store.iter().try_for_each(|store| new.check_keys(&**store.canonicalizer()))?;
    Ok(store)
}

/// Writes the notes of these folders again that are lost or wrong; returns the folders.
pub fn notes_restored(members: &[PathBuf], shared: &Shared) -> Result<Vec<PathBuf>, Failure> {
    Ok(ShardedStore::restore_notes(members, options(shared))?)
}

/// The stores of a path to read: one, or the members of a store over several folders.
pub fn members_to_read(path: &Path, shared: &Shared) -> Result<Vec<PageStore>, Failure> {
    Ok(match shards_to_read(path, shared)? {
        Some(store) => store.members().to_vec(),
        None => vec![local_to_read(path, shared)?],
    })
}

/// An open store over several folders, with what opens archives; damage gets the remedy.
fn opened_over(
    store: filemap::Result<ShardedStore>,
    of_absent: fn(&Store),
    remedy: &str,
) -> Result<ShardedStore, Failure> {
    let store = store.map_err(|error| match Failure::from(error) {
        Failure::Damage(words) => Failure::Damage(format!("{words}. {remedy}")),
        failure => failure,
    })?;
    store.members().iter().for_each(|member| of_absent(member.engine()));
    let archives: Arc<dyn Archives> = Arc::new(AnyArchives::new());
    Ok(store.with_archives(&archives))
}

/// The engine of a store, for verbs that do not deal with pages.
pub fn engine_to_read(path: &Path, shared: &Shared) -> Result<Store, Failure> {
    remote::refuse(path)?;
    let store = opened(path, Store::open_read_only(path, options(shared)))?;
    absence::of_read(&store);
    Ok(store)
}

/// A local store to read, while another process may write it.
pub fn local_to_read(path: &Path, shared: &Shared) -> Result<PageStore, Failure> {
    remote::refuse(path)?;
    let store = opened(path, PageStore::open_read_only(path, options(shared)))?;
    absence::of_read(store.engine());
    Ok(with_archives(store))
}

/// Sets the opener of files that hold pages in place, local or remote.
pub fn with_archives(store: PageStore) -> PageStore {
    store.with_archives(Arc::new(AnyArchives::new()))
}

/// The engine of a store to read for a dry run.
pub fn engine_to_plan(path: &Path, shared: &Shared) -> Result<Store, Failure> {
    remote::refuse(path)?;
    let store = opened(path, Store::open_read_only(path, options(shared)))?;
    absence::of_plan(&store);
    Ok(store)
}

/// A local store to read for a dry run.
pub fn local_to_plan(path: &Path, shared: &Shared) -> Result<PageStore, Failure> {
    remote::refuse(path)?;
    let store = opened(path, PageStore::open_read_only(path, options(shared)))?;
    absence::of_plan(store.engine());
    Ok(with_archives(store))
}

/// A local store to change, which must exist.
pub fn local_to_change(path: &Path, shared: &Shared) -> Result<PageStore, Failure> {
    remote::refuse(path)?;
    let store = opened_to_change(path, PageStore::open(path, options(shared)))?;
    absence::of_written(store.engine());
    Ok(with_archives(store))
}

/// The engine of a store to change, which must exist; `with` sets further options.
pub fn engine_to_change(path: &Path, shared: &Shared, with: impl FnOnce(Options) -> Options) -> Result<Store, Failure> {
    remote::refuse(path)?;
    let store = opened_to_change(path, Store::open(path, with(options(shared))))?;
    absence::of_written(&store);
    Ok(store)
}

/// Options with the canonicaliser of another store.
pub fn options_like(store: &Store, shared: &Shared) -> Options {
    let made_with = store.canonicalizer();
    options(shared).canonicalizer(&made_with.name, made_with.version)
}

/// Options for making a missing store, and the space that filling leaves free.
#[derive(clap::Args, Clone, Debug)]
pub struct NewStore {
    /// Make a new store that takes URLs as they are written, byte for byte
    #[arg(long)]
    exact_urls: bool,
    /// Stop when the file system has less than this free; removing and compacting need some space
    /// [default: 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    min_free: Option<u64>,
    /// Fail if the store is missing, instead of making it: its disks may not be mounted
    #[arg(long, conflicts_with = "exact_urls")]
    must_exist: bool,
}

impl NewStore {
    /// Returns whether a missing store is an error.
    pub fn must_exist(&self) -> bool {
        self.must_exist
    }

    /// The canonicaliser of a new store.
    pub fn canonicalizer(&self) -> Arc<dyn Canonicalizer> {
        if self.exact_urls { Arc::new(Exact) } else { Arc::new(Whatwg) }
    }

    /// Refuses a store that is there and takes no URLs as they are written, if such was asked for.
    fn check_keys(&self, own: &dyn Canonicalizer) -> filemap::Result<()> {
        let named = |canonicalizer: &dyn Canonicalizer| format!("{} {}", canonicalizer.name(), canonicalizer.version());
        let (stored, wanted) = (named(own), named(&Exact));
        if !self.exact_urls || stored == wanted {
            return Ok(());
        }
        Err(filemap_core::Error::Canonicalizer { stored, wanted }.into())
    }
}

/// A local store to fill; a missing one is made.
pub fn local_to_fill(path: &Path, new: &NewStore, shared: &Shared) -> Result<PageStore, Failure> {
    let store = opened_to_change(path, fill(path, new, shared))?;
    absence::of_written(store.engine());
    Ok(with_archives(store))
}

/// A local store to fill; a missing one is made with this canonicaliser.
pub fn local_to_fill_like(
    path: &Path,
    canonicalizer: &Arc<dyn Canonicalizer>,
    shared: &Shared,
) -> Result<PageStore, Failure> {
    let store = match PageStore::open(path, options(shared)) {
        Err(filemap::Error::Engine(filemap_core::Error::NotAStore { .. })) => {
            PageStore::create_with(path, Arc::clone(canonicalizer), options(shared))
        }
        opened => opened,
    };
    let store = opened_to_change(path, store)?;
    absence::of_written(store.engine());
    Ok(with_archives(store))
}

/// As [`local_to_fill`], for a path where nothing is.
pub fn fill(path: &Path, new: &NewStore, shared: &Shared) -> filemap::Result<PageStore> {
    let options = || new.min_free.into_iter().fold(options(shared), Options::free_space_floor);
    if new.must_exist {
        return PageStore::open(path, options());
    }
    if !new.exact_urls {
        return PageStore::open_or_create(path, options());
    }
    match PageStore::open_with(path, new.canonicalizer(), options()) {
        Err(filemap::Error::Engine(filemap_core::Error::NotAStore { .. })) => {
            PageStore::create_with(path, new.canonicalizer(), options())
        }
        opened => opened,
    }
}

/// As [`shards_to_fill_by`], for folders with nothing in them.
pub fn fill_shards(folders: &[PathBuf], new: &NewStore, shared: &Shared) -> filemap::Result<ShardedStore> {
    let options = new.min_free.into_iter().fold(options(shared), Options::free_space_floor);
    let is_new = is_missing(folders);
    let store = ShardedStore::open_or_create(folders, new.canonicalizer(), options)?;
    if is_new {
        say_new(folders, shared);
    }
    new.check_keys(&**store.canonicalizer())?;
    Ok(store)
}

fn options(shared: &Shared) -> Options {
    let quiet = shared.flags.quiet;
    let options = filemap::store::page_options(Options::new());
    let options = if shared.accept_loss { options.accept_loss() } else { options };
    options.on_event(move |event| match event {
        Event::Recovered(report) if !quiet && has_recovered(report) => words::say(event),
        Event::Poisoned { .. } | Event::ErasureUnfinished { .. } => words::complain(event),
        _ => {}
    })
}

/// Returns whether opening found work that the last writer left unfinished.
fn has_recovered(report: &RecoveryReport) -> bool {
    report.replayed_records + report.skipped_bytes + report.truncated_bytes > 0
}
