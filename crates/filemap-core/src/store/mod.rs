//! The store: opens and closes it, and holds the parts together. What it does stands in the files beside this one.

mod draft;
mod follow;
mod iterate;
mod many;
pub(crate) mod read;
mod stream;
mod write;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use arc_swap::ArcSwap;
use filemap_io::{Access, Dir, Lock, Locking, OsDir};

use crate::checkpoint::Checkpointer;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::format::names;
use crate::format::superblock::Superblock;
use crate::index::{Index, Owner, load};
use crate::keys::{KeyAppender, KeyLog};
use crate::options::{Canonicalizer, Durability, Options};
use crate::recent::Recent;
use crate::stats::{Counters, Stats};
use crate::superblock::SuperblockFile;
use crate::sync::{Bell, GroupSync, Poison, lock};
use crate::values::append::Appender;
use crate::values::segments::Segments;
use crate::{recover, worker};

pub(crate) use draft::digest;
pub use iterate::{Keys, Pages};
pub use stream::Writer;

use follow::Follower;

/// The tables that a read looks into before the index, newest first.
#[derive(Debug)]
pub(crate) struct Tables {
    /// Takes new entries.
    pub(crate) active: Arc<Recent>,
    /// Being merged by a checkpoint.
    pub(crate) frozen: Option<Arc<Recent>>,
}

/// The end of the log, behind the append lock.
pub(crate) struct Log {
    pub(crate) appender: Appender,
    pub(crate) next_sequence: u64,
    /// Position of the appender when the last checkpoint froze its table.
    pub(crate) frozen_at: u64,
}

/// What only the writer has.
pub(crate) struct WriteSide {
    pub(crate) log: Mutex<Log>,
    pub(crate) checkpointer: Mutex<Checkpointer>,
    pub(crate) group: GroupSync,
    pub(crate) poison: Poison,
    pub(crate) sync_bell: Bell,
    pub(crate) checkpoint_bell: Bell,
    pub(crate) checkpoint_due: AtomicBool,
    /// Raised by each freeze: a put that waited while it changed was held up by a checkpoint.
    pub(crate) freezes: AtomicU64,
    pub(crate) free_space: FreeSpace,
    /// Given up by `close`, whichever clones live on.
    held: Mutex<Option<Box<dyn Lock>>>,
}

/// What the file system has left, measured now and then.
#[derive(Debug, Default)]
pub(crate) struct FreeSpace {
    pub(crate) bytes: AtomicU64,
    pub(crate) measured_at: AtomicU64,
}

/// Everything that threads share.
pub(crate) struct Inner {
    pub(crate) dir: Arc<dyn Dir>,
    pub(crate) options: Options,
    /// What was fixed when the store was created.
    pub(crate) birth: Superblock,
    pub(crate) segments: Arc<Segments>,
    pub(crate) keys: Arc<KeyLog>,
    pub(crate) index: Arc<Index>,
    pub(crate) superblock: SuperblockFile,
    /// The last superblock that was written or read.
    pub(crate) latest: ArcSwap<Superblock>,
    pub(crate) tables: ArcSwap<Tables>,
    /// No version in the index has a greater time than this.
    pub(crate) indexed_time_ms: AtomicI64,
    pub(crate) counters: Counters,
    pub(crate) writer: Option<WriteSide>,
    pub(crate) follower: Option<Follower>,
    pub(crate) closed: AtomicBool,
}

/// An open store. Cheap to clone; all clones are one handle. Any number of threads may use it at once, and readers never
/// wait for a writer, a checkpoint or growth.
///
/// ```
/// use filemap_core::{Options, Record, Store};
/// # fn main() -> filemap_core::Result<()> {
/// let dir = tempfile::tempdir().unwrap();
/// let store = Store::create(dir.path().join("pages.fm"), Options::new())?;
/// store.put(&Record::new(b"http://example.com/", b"<html>hello</html>"))?;
/// let page = store.get(b"http://example.com/")?.expect("just put");
/// assert_eq!(page.body, b"<html>hello</html>");
/// store.close()
/// # }
/// ```
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
    /// The last clone to go closes the store.
    workers: Arc<Workers>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("path", &self.path()).field("read_only", &self.is_read_only()).finish()
    }
}

struct Workers {
    inner: Arc<Inner>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Drop for Workers {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

impl Workers {
    /// Checkpoints, stops the threads, gives up the lock. Only the first call does anything.
    fn close(&self) -> Result<()> {
        if self.inner.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let Some(writer) = &self.inner.writer else { return Ok(()) };
        writer.checkpoint_bell.stop();
        writer.sync_bell.stop();
        for thread in lock(&self.threads).drain(..) {
            let _ = thread.join();
        }
        let result = writer.poison.check().and_then(|()| self.inner.checkpoint());
        *lock(&writer.held) = None;
        result
    }
}

impl Store {
    /// Creates a store in a new or empty directory, and opens it for writing.
    ///
    /// # Errors
    /// [`Error::NotEmpty`] when the directory holds anything; [`Error::Locked`] when another process is creating it;
    /// [`Error::InvalidOption`]; [`Error::Io`].
    pub fn create(path: impl AsRef<Path>, options: Options) -> Result<Store> {
        let path = path.as_ref();
        options.validate()?;
        filemap_io::create_dir(path).map_err(|e| Error::io("create", path.display().to_string(), e))?;
        let dir = open_dir(path)?;
        let names = dir.list().map_err(|e| Error::io("list", path.display().to_string(), e))?;
        if !names.is_empty() {
            return Err(Error::NotEmpty { path: path.to_owned() });
        }
        let held = take_lock(&*dir)?;
        recover::create(&*dir, &options)?;
        Store::open_locked(dir, held, options)
    }

    /// Opens a store for writing. Recovery, if it is needed, takes time by what was written since the last checkpoint,
    /// not by the size of the store.
    ///
    /// # Errors
    /// [`Error::NotAStore`], with nothing changed; [`Error::Locked`] at once when another handle writes it;
    /// [`Error::NewerFormat`]; [`Error::Canonicalizer`]; [`Error::Corrupt`] when a file that opening needs is damaged;
    /// [`Error::InvalidOption`]; [`Error::Io`].
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Store> {
        options.validate()?;
        let dir = open_store_dir(path.as_ref())?;
        // Look before locking: the lock file is not to be left in a directory that is no store.
        SuperblockFile::open(&*dir, Access::Read)?.read(&*dir)?;
        let held = take_lock(&*dir)?;
        Store::open_locked(dir, held, options)
    }

    /// Opens a store for writing, or creates it when the directory is absent or empty.
    ///
    /// # Errors
    /// Those of [`Store::open`] and [`Store::create`].
    pub fn open_or_create(path: impl AsRef<Path>, options: Options) -> Result<Store> {
        let path = path.as_ref();
        let is_new = !filemap_io::is_dir(path)
            || open_dir(path)?.list().is_ok_and(|names| names.is_empty() || names == [names::LOCK]);
        if is_new { Store::create(path, options) } else { Store::open(path, options) }
    }

    /// Opens a store for reading, in any process, while another may write it. The handle follows the writer: at least
    /// every second when it is used, or on [`Store::refresh`]. It writes nothing and takes no lock.
    ///
    /// # Errors
    /// As [`Store::open`], without `Locked`.
    pub fn open_read_only(path: impl AsRef<Path>, options: Options) -> Result<Store> {
        options.validate()?;
        let dir = open_store_dir(path.as_ref())?;
        let inner = Arc::new(follow::open(dir, options)?);
        let workers = Arc::new(Workers { inner: Arc::clone(&inner), threads: Mutex::new(Vec::new()) });
        let store = Store { inner, workers };
        store.refresh()?;
        Ok(store)
    }

    fn open_locked(dir: Arc<dyn Dir>, held: Box<dyn Lock>, options: Options) -> Result<Store> {
        let superblock = SuperblockFile::open(&*dir, Access::Write)?;
        superblock.drop_cache();
        let current = superblock.read(&*dir)?;
        check_canonicalizer(&current, &options)?;
        let access = Access::Write;
        let segments = Arc::new(Segments::open(Arc::clone(&dir), current.store_id, access, options.max_open_files)?);
        let keys = KeyLog::open(&*dir, access, current.store_id)?;
        let file = recover::open_index(&*dir, access, &current)?;
        let seed = recover::index_seed(&current);
        let (index, index_writer) = load(file, seed, Owner::Us, current.index, current.epoch)?;
        let active = Arc::new(Recent::new(options.recent_bytes));
        let replay = recover::replay(&*dir, &segments, &superblock, &current, &active)?;
        let appender =
            Appender::new(Arc::clone(&segments), replay.segment, replay.offset, u64::from(current.segment_bytes))?;
        let checkpointer = Checkpointer {
            index: index_writer,
            keys: KeyAppender::new(Arc::clone(&keys)),
            current: current.clone(),
            replayed_below: replay.next_sequence,
        };
        let inner = Arc::new(Inner {
            dir,
            segments,
            keys,
            index,
            superblock,
            latest: ArcSwap::from_pointee(current.clone()),
            tables: ArcSwap::from_pointee(Tables { active, frozen: None }),
            indexed_time_ms: AtomicI64::new(current.max_time_ms),
            counters: Counters::default(),
            writer: Some(WriteSide {
                log: Mutex::new(Log { appender, next_sequence: replay.next_sequence, frozen_at: 0 }),
                checkpointer: Mutex::new(checkpointer),
                group: GroupSync::default(),
                poison: Poison::default(),
                sync_bell: Bell::default(),
                checkpoint_bell: Bell::default(),
                checkpoint_due: AtomicBool::new(false),
                freezes: AtomicU64::new(0),
                free_space: FreeSpace::default(),
                held: Mutex::new(Some(held)),
            }),
            follower: None,
            closed: AtomicBool::new(false),
            birth: current,
            options,
        });
        inner.measure_free_space();
        inner.emit(&Event::Recovered(replay.report));
        let threads = Mutex::new(worker::start(&inner));
        let workers = Arc::new(Workers { inner: Arc::clone(&inner), threads });
        Ok(Store { inner, workers })
    }

    /// Makes everything durable, merges the recent table into the index and closes the store, so that opening it again
    /// replays nothing. Other clones of the handle return [`Error::Closed`] from then on. Dropping the last clone does the
    /// same, but an error is lost.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Poisoned`]: what was acknowledged is in the log, and recovery finds it.
    pub fn close(self) -> Result<()> {
        self.workers.close()
    }

    /// Makes everything durable that was put before the call.
    ///
    /// # Errors
    /// [`Error::Io`] when the sync failed, which stops all further writes; [`Error::ReadOnly`].
    pub fn sync(&self) -> Result<()> {
        self.inner.check_open()?;
        let writer = self.inner.write_side()?;
        let position = lock(&writer.log).appender.position();
        self.inner.sync_to(position)
    }

    /// Merges everything that was put before the call into the index now, and makes it durable.
    ///
    /// # Errors
    /// As [`Store::sync`].
    pub fn checkpoint(&self) -> Result<()> {
        self.inner.check_open()?;
        self.inner.checkpoint()
    }

    /// The store's directory.
    pub fn path(&self) -> &Path {
        self.inner.dir.path()
    }

    /// Whether the handle was opened read-only.
    pub fn is_read_only(&self) -> bool {
        self.inner.writer.is_none()
    }

    /// The rule by which the store's keys were made.
    pub fn canonicalizer(&self) -> Canonicalizer {
        self.inner.birth.canonicalizer.clone()
    }

    /// Counters and sizes now. Measures the files: some system calls for each segment.
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }
}

impl Inner {
    /// # Errors
    /// `Closed` after `close`.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    /// # Errors
    /// `ReadOnly` for a handle that was opened so.
    pub(crate) fn write_side(&self) -> Result<&WriteSide> {
        self.writer.as_ref().ok_or(Error::ReadOnly)
    }

    /// The hash of a key: XXH3-64 with the store's own seed, so that crawled URLs cannot be chosen to collide.
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        xxhash_rust::xxh3::xxh3_64_with_seed(key, self.birth.hash_seed)
    }

    pub(crate) fn emit(&self, event: &Event) {
        if let Some(sink) = &self.options.on_event {
            sink(event);
        }
    }

    /// After a failed write or sync: no more writes through this handle.
    pub(crate) fn poison(&self, error: &Error) {
        self.counters.failed(error);
        if let Some(writer) = &self.writer
            && writer.poison.set(error)
        {
            self.emit(&Event::Poisoned { cause: error.to_string() });
        }
    }

    /// Returns when the log is durable up to a position of the appender. Threads that wait together share a sync.
    pub(crate) fn sync_to(&self, position: u64) -> Result<()> {
        let writer = self.write_side()?;
        writer.group.wait_for(position, || {
            writer.poison.check()?;
            let (files, to) = lock(&writer.log).appender.to_sync();
            for (segment, file) in &files {
                if let Err(e) = file.sync() {
                    let error = Error::io("sync", segment.name(), e);
                    self.poison(&error);
                    return Err(error);
                }
            }
            lock(&writer.log).appender.synced(&files);
            Counters::add(&self.counters.syncs, 1);
            Ok(to)
        })
    }

    pub(crate) fn measure_free_space(&self) {
        if let Some(writer) = &self.writer
            && let Ok(bytes) = self.dir.free_bytes()
        {
            writer.free_space.bytes.store(bytes, Ordering::Relaxed);
        }
    }

    fn stats(&self) -> Stats {
        let c = &self.counters;
        let tables = self.tables.load();
        let both = || [Some(&tables.active), tables.frozen.as_ref()].into_iter().flatten();
        let (value_bytes, value_disk) = self.segments.bytes();
        let measured = self.dir.open(names::INDEX, Access::Read);
        let (index_bytes, index_disk) =
            measured.map_or((0, 0), |f| (f.len().unwrap_or(0), f.allocated_bytes().unwrap_or(0)));
        let current = self.latest.load();
        let small = [names::SUPERBLOCK, names::LOCK].iter().filter_map(|n| self.dir.open(n, Access::Read).ok());
        let get = Counters::get;
        Stats {
            indexed_keys: current.index.keys,
            indexed_versions: current.versions,
            recent_entries: both().map(|t| t.entries()).sum(),
            recent_bytes: both().map(|t| t.bytes() as u64).sum(),
            directory_bytes: self.index.directory_bytes(),
            segments: self.segments.all().len() as u64,
            value_bytes,
            key_bytes: self.keys.bytes(),
            index_bytes,
            disk_bytes: value_disk
                + index_disk
                + self.keys.allocated_bytes()
                + small.map(|f| f.allocated_bytes().unwrap_or(0)).sum::<u64>(),
            index_leaves: current.index.leaves,
            puts: get(&c.puts),
            unchanged_puts: get(&c.unchanged_puts),
            removes: get(&c.removes),
            gets: get(&c.gets),
            hits: get(&c.hits),
            raw_bytes: get(&c.raw_bytes),
            appended_bytes: get(&c.appended_bytes),
            syncs: get(&c.syncs),
            checkpoints: get(&c.checkpoints),
            checkpoint_us: get(&c.checkpoint_us),
            index_pages_written: get(&c.index_pages_written),
            key_bytes_written: get(&c.key_bytes_written),
            slow_downs: get(&c.slow_downs),
            slow_down_us: get(&c.slow_down_us),
            puts_over_1ms: get(&c.puts_over_1ms),
            puts_over_1ms_by_checkpoint: get(&c.puts_over_1ms_by_checkpoint),
            puts_over_1ms_by_write: get(&c.puts_over_1ms_by_write),
            longest_put_us: get(&c.longest_put_us),
            refreshes: get(&c.refreshes),
            durability: self.options.durability.to_string(),
            last_error: lock(&c.last_error).clone(),
        }
    }

    /// Whether every put must be on the device before it returns.
    pub(crate) fn is_sync(&self) -> bool {
        self.options.durability == Durability::Sync
    }
}

fn open_dir(path: &Path) -> Result<Arc<dyn Dir>> {
    let dir = OsDir::open(path).map_err(|e| Error::io("open", path.display().to_string(), e))?;
    Ok(Arc::new(dir))
}

/// As `open_dir`, for a directory that should hold a store.
fn open_store_dir(path: &Path) -> Result<Arc<dyn Dir>> {
    OsDir::open(path).map(|d| Arc::new(d) as Arc<dyn Dir>).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            Error::NotAStore { path: path.to_owned(), why: "there is no such directory".into() }
        }
        std::io::ErrorKind::NotADirectory => {
            Error::NotAStore { path: path.to_owned(), why: "it is not a directory".into() }
        }
        _ => Error::io("open", path.display().to_string(), e),
    })
}

fn take_lock(dir: &dyn Dir) -> Result<Box<dyn Lock>> {
    match dir.lock(names::LOCK).map_err(|e| Error::io("lock", names::LOCK, e))? {
        Locking::Acquired(held) => Ok(held),
        Locking::HeldBy(pid) => Err(Error::Locked { path: dir.path().to_owned(), pid }),
    }
}

/// # Errors
/// `Canonicalizer` when another rule is wanted than the store's.
pub(crate) fn check_canonicalizer(current: &Superblock, options: &Options) -> Result<()> {
    match &options.canonicalizer {
        Some(wanted) if *wanted != current.canonicalizer => {
            Err(Error::Canonicalizer { stored: current.canonicalizer.to_string(), wanted: wanted.to_string() })
        }
        _ => Ok(()),
    }
}
