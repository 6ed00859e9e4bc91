//! Opens the parts of a crawl: its store, its frontier and its other state.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use filemap::{Options, PageStore};
use filemap_http::AnyArchives;
use filemap_io::OsDir;
use frontier::{Frontier, FrontierOptions, Recrawl};
use urlindex::{Canonicalizer, CrawlRules};

use super::observe::{Event, Nobody, Observer};
use crate::error::Error;
use crate::files::depot::Depot;
use crate::files::{self, sequence};
use crate::pages::Pages;
use crate::settings::{Folder, Settings};

/// Memory of the store's memtable.
const RECENT_BYTES: usize = 32 << 20;
/// The pause and the number of attempts while `status` or `why` has the frontier open.
const ASKED_FOR: Duration = Duration::from_millis(100);
const ASKED_WITHIN: u32 = 50;
/// Bytes that the store leaves free on its disk.
pub const FREE_BYTES: u64 = 256 << 20;
/// Memory of the store's dictionaries.
const DICTIONARY_BYTES: usize = 48 << 20;

/// The settings of the crawl into a store, which must exist.
///
/// # Errors
/// I/O errors, damage, and an error if there is no crawl.
pub fn settings(store: &Path) -> Result<(Folder, Settings), Error> {
    let folder = Folder::of(store);
    let settings = folder.settings()?;
    let absent =
        || Error::Broken(format!("{}: there is no crawl; start one with fm-crawl run", folder.path().display()));
    let settings = settings.ok_or_else(absent)?;
    Ok((folder, settings))
}

fn options(observer: &Arc<dyn Observer>) -> Options {
    let observer = Arc::clone(observer);
    let memory = Options::new().memtable_bytes(RECENT_BYTES).dictionary_memory_bytes(DICTIONARY_BYTES);
    memory.free_space_floor(FREE_BYTES).on_event(move |event| {
        if matches!(event, filemap::store::Event::Poisoned { .. }) {
            drop(observer.event(&Event::Poisoned { why: event.to_string() }));
        }
    })
}

/// The run in which a crawl was begun.
///
/// ```
/// use crawl::run::opening::{Begun, settings};
/// # let place = tempfile::tempdir()?;
/// let store = place.path().join("pages.fm");
/// let begun = if settings(&store).is_ok() { Begun::Before } else { Begun::Now };
/// assert!(begun == Begun::Now);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// In an earlier run, which made the store.
    Before,
    /// In this run.
    Now,
}

/// The store to crawl into. Makes a missing one with these rules if the crawl has not begun.
fn store_to_fill(
    path: &Path,
    folder: &Folder,
    begun: Begun,
    wanted: Option<Arc<dyn Canonicalizer>>,
    observer: &Arc<dyn Observer>,
) -> Result<PageStore, Error> {
    let store = match PageStore::open(path, options(observer)) {
        Err(filemap::Error::Engine(filemap_core::Error::NotAStore { .. })) if begun == Begun::Before => {
            return Err(Error::Broken(format!(
                "{} is not a store, but the crawl in {} has filled one: bring the store back, or remove that folder to start over",
                path.display(),
                folder.path().display()
            )));
        }
        Err(filemap::Error::Engine(filemap_core::Error::NotAStore { .. })) => {
            let rules = wanted.clone().unwrap_or_else(|| Arc::new(CrawlRules::crawl()));
            PageStore::create_with(path, rules, options(observer))?
        }
        opened => opened?,
    };
    check_rules(path, &**store.canonicalizer(), wanted)?;
    Ok(store.with_archives(Arc::new(AnyArchives::new())))
}

/// The folder of a crawl, through the I/O seam.
pub fn dir(folder: &Folder) -> Result<OsDir, Error> {
    OsDir::open(folder.path()).map_err(|error| Error::io("open", folder.path(), error))
}

/// The noted sequence of the store, if any, from a crawl's folder.
pub fn noted_sequence(folder: &Folder) -> Result<Option<u64>, Error> {
    if folder.path().exists() { sequence::noted(&dir(folder)?) } else { Ok(None) }
}

/// Refuses operations that a crawl with its pages in object storage does not support: each run
/// restores its local folder anew.
///
/// # Errors
/// `Usage`, with what to do instead.
pub fn not_in_bucket(settings: &Settings, what: &str, instead: &str) -> Result<(), Error> {
    let Some(bucket) = &settings.bucket else { return Ok(()) };
    Err(Error::Usage(format!(
        "the pages and the state of this crawl are in {}: {what} does not reach them; {instead}",
        bucket.location
    )))
}

/// Changes the frontier of a crawl whose files are kept in a shard, and commits it there.
///
/// # Errors
/// Errors of `change`, the frontier and the shard, also if another owner takes it meanwhile; then
/// nothing is changed.
pub fn change_kept<T>(
    store: &Path,
    mut depot: Depot,
    change: impl FnOnce(&mut Frontier) -> Result<T, Error>,
) -> Result<T, Error> {
    let (folder, settings) = settings(store)?;
    let mut frontier = frontier_to_ask(&folder, &settings)?;
    let changed = change(&mut frontier)?;
    frontier.close()?;
    depot.commit()?;
    depot.shard().pages().close()?;
    Ok(changed)
}

/// The crawl's store, open for writing, and not older than the crawl.
///
/// # Errors
/// Errors of the store; an error if it is older, or has other rules than requested.
pub(super) fn pages(
    path: &Path,
    folder: &Folder,
    (begun, wanted): (Begun, Option<Arc<dyn Canonicalizer>>),
    depot: Option<&Depot>,
    observer: &Arc<dyn Observer>,
) -> Result<Pages, Error> {
    if let Some(depot) = depot {
        let pages = Pages::Shard(Arc::clone(depot.shard()));
        check_rules(path, &**pages.canonicalizer(), wanted)?;
        return Ok(pages);
    }
    let noted = noted_sequence(folder)?;
    let pages = store_to_fill(path, folder, begun, wanted, observer)?;
    sequence::check(noted, &pages, folder.path())?;
    Ok(Pages::Local(pages))
}

/// Refuses a store with other rules than requested.
fn check_rules(path: &Path, ours: &dyn Canonicalizer, wanted: Option<Arc<dyn Canonicalizer>>) -> Result<(), Error> {
    match wanted.filter(|wanted| (wanted.name(), wanted.version()) != (ours.name(), ours.version())) {
        Some(wanted) => {
            let named = |rules: &dyn Canonicalizer| (rules.name().to_owned(), rules.version());
            Err(Error::Rules { store: path.to_owned(), has: named(ours), wanted: named(&*wanted) })
        }
        None => Ok(()),
    }
}

/// The store for reading beside a running crawl, and whether it is as new as that crawl.
pub fn store_to_read(path: &Path, folder: &Folder) -> Result<(PageStore, Result<(), Error>), Error> {
    if let Some(settings) = folder.settings()? {
        not_in_bucket(&settings, "this verb", "`fm-tool get`, `head`, `ls` and `copy` read its pages")?;
    }
    let noted = noted_sequence(folder);
    let nobody: Arc<dyn Observer> = Arc::new(Nobody);
    let store = PageStore::open_read_only(path, options(&nobody))?.with_archives(Arc::new(AnyArchives::new()));
    let checked = noted.and_then(|noted| sequence::check(noted, &store, folder.path()));
    Ok((store, checked))
}

/// The frontier of a crawl whose store we have locked; made if missing. `status` or `why` may have
/// it open for a moment.
pub fn frontier(folder: &Folder, settings: &Settings) -> Result<Frontier, Error> {
    let path = folder.join(files::FRONTIER);
    for _ in 0..ASKED_WITHIN {
        let is_absent = match Frontier::open(&path, frontier_options(settings)) {
            Err(frontier::Error::Storage(frontier::StorageError::Locked { .. })) => {
                std::thread::sleep(ASKED_FOR);
                continue;
            }
            Err(frontier::Error::Missing { .. }) => true,
            Err(frontier::Error::Storage(error)) if error.is_absent() => true,
            opened => return opened.map_err(|error| lost(folder, error.into())),
        };
        // The seen set is made after the frontier: if only the set exists, the frontier was lost.
        if is_absent && folder.join(files::SEEN).exists() {
            return Err(lost(folder, Error::Damage("the frontier is missing".to_owned())));
        }
        return Frontier::create(&path, frontier_options(settings)).map_err(Error::from);
    }
    frontier_to_ask(folder, settings)
}

/// The frontier of an existing crawl, for reading.
///
/// # Errors
/// Errors of the frontier; `Usage` if the crawls of several shards have a folder each.
pub fn frontier_to_ask(folder: &Folder, settings: &Settings) -> Result<Frontier, Error> {
    if settings.is_several() && !folder.join(files::FRONTIER).exists() {
        return Err(Error::Usage(format!(
            "{}: the crawl of each shard has a folder of its own: name it with the shard's number, such as STORE-0",
            folder.path().display()
        )));
    }
    let opened = Frontier::open(folder.join(files::FRONTIER), frontier_options(settings));
    opened.map_err(|error| lost(folder, error.into()))
}

/// An error of the frontier, which cannot be rebuilt.
fn lost(folder: &Folder, error: Error) -> Error {
    let remedy = format!(
        "Without a copy of it, remove {} and run with --seed again: stored pages are requested with their ETag or date",
        folder.path().display()
    );
    error.at(&folder.join(files::FRONTIER), &remedy)
}

fn frontier_options(settings: &Settings) -> FrontierOptions {
    let ms = |duration: Duration| duration.as_millis() as u64;
    let recrawl =
        settings.recrawl.map(|age| Recrawl::new().first_ms(ms(age)).min_ms(ms(age) / 16).max_ms(ms(age) * 16));
    FrontierOptions::new()
        .delay_ms(settings.delay_ms())
        .connections(settings.host_connections)
        .depth_max(settings.frontier_depth())
        .pages_per_host_max(settings.host_pages.unwrap_or(u32::MAX))
        .attempts_max(settings.attempts)
        .backoff_ms(ms(settings.retry), 24 * 3_600_000)
        .host_failures_max(settings.host_failures)
        .host_down_ms(ms(settings.host_down))
        .recrawl(recrawl)
}
