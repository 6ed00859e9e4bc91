//! The store: opens and closes it, and holds its parts. Its operations are in the sibling files.
//!
//! Callers: users of the crate, and its modules `sim` and `fuzzing`; no folder of the engine.

mod ages;
mod assemble;
mod backup;
mod changes;
mod compact;
mod compression;
mod copy;
mod erase;
mod heads;
mod history;
mod iterate;
mod many;
mod order;
mod pages;
mod prune;
mod ranks;
mod read;
mod remove;
mod repair;
mod rules;
mod search;
mod since;
mod splits;
mod stream;
#[cfg(test)]
mod tests;
mod train;
mod witness;
mod write;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use filemap_io::{Access, Dir, Lock, OsDir, Progress, files};

use crate::error::{Error, Result};
use crate::event::Event;
use crate::format::names;
use crate::handle::log::Log;
use crate::handle::log::Pins;
use crate::handle::reading::Reading;
use crate::handle::reading::follow;
use crate::handle::recover;
use crate::handle::recover::Absent;
use crate::handle::recover::check_canonicalizer;
use crate::handle::writing::Writing;
use crate::index::memtable::{Grouping, Memtable};
use crate::index::superblock::SuperblockFile;
use crate::logs::values::append::Appender;
use crate::options::{Canonicalizer, Options};
use crate::stats::Stats;
use crate::sync::gate::{Gate, Guarded};
use crate::sync::lock;
use crate::sync::primitive::Ordering;
use crate::sync::{Ranked, gate, rank};
use crate::upkeep::Upkeep;
use crate::upkeep::check::{self, Crew, VerifyOptions, VerifyProgress, VerifyReport};
use crate::upkeep::checkpoint::Task;
use crate::upkeep::worker;
use assemble::{Files, Parts, Roster};

pub use backup::BackupOptions;
pub use changes::{Change, ChangeCursor, Changes};
pub use compact::{CompactionGoal, CompactionPlan, SegmentInfo};
pub use compression::{BodiesStored, CompressionSample};
pub use copy::{Copied, CopyEvent, CopyOptions};
pub use erase::{Erased, Erasure, ErasureStep, VersionFilter};
pub use heads::{Heads, Listed};
pub use history::History;
pub use iterate::Keys;
pub use many::GetAhead;
pub use order::KeysInOrder;
pub use pages::Pages;
pub use prune::{PruneRule, Pruned};
#[cfg(feature = "sim")]
pub(crate) use repair::repair_in;
pub use search::{FoundText, Search, Searched};
pub use splits::Split;
pub use stream::Writer;

/// An open store. Cheap to clone; all clones are one handle. Any number of threads may use it at
/// once, and readers never wait for a writer, a checkpoint or growth.
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
    pub(crate) reading: Arc<Reading>,
    /// State that only the writer has.
    upkeep: Option<Arc<Upkeep>>,
    /// Closes the store when the last clone is dropped.
    workers: Arc<Workers>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("path", &self.path()).field("read_only", &self.is_read_only()).finish()
    }
}

/// Tells whether a handle has its own background threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Threads {
    Started,
    /// The caller does the background work.
    #[cfg_attr(not(feature = "sim"), allow(dead_code, reason = "only the simulation does without"))]
    None,
}

struct Workers {
    reading: Arc<Reading>,
    upkeep: Option<Arc<Upkeep>>,
    threads: Ranked<{ rank::THREADS }, Vec<worker::JoinHandle>>,
    /// Result of closing, once closed.
    ended: Ranked<{ rank::CLOSE }, Option<Result<()>>>,
    /// Long operations may start helper threads.
    may_help: bool,
}

impl Drop for Workers {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

impl Workers {
    /// Workers of a follower.
    fn none(reading: &Arc<Reading>, may_help: bool) -> Workers {
        let (reading, upkeep) = (Arc::clone(reading), None);
        Workers { reading, upkeep, threads: Ranked::default(), ended: Ranked::default(), may_help }
    }

    fn new(upkeep: &Arc<Upkeep>, threads: Vec<worker::JoinHandle>, may_help: bool) -> Workers {
        let (reading, upkeep) = (Arc::clone(upkeep.reading()), Some(Arc::clone(upkeep)));
        Workers { reading, upkeep, threads: Ranked::new(threads), ended: Ranked::default(), may_help }
    }

    /// Stops the threads, runs the last checkpoint and shuts the gate, which releases the lock.
    /// Later calls wait for the first and return its result.
    fn close(&self) -> Result<()> {
        let mut ended = lock(&self.ended);
        if let Some(result) = &*ended {
            return result.clone();
        }
        self.reading.closed().store(true, Ordering::Release);
        self.upkeep.iter().for_each(|upkeep| upkeep.stop());
        for thread in lock(&self.threads).drain(..) {
            let _ = thread.join();
        }
        let result = self.upkeep.as_ref().map_or(Ok(()), |upkeep| upkeep.end());
        *ended = Some(result.clone());
        result
    }
}

impl Store {
    /// Creates a store in a new or empty directory, and opens it for writing.
    ///
    /// # Errors
    /// [`Error::NotEmpty`] if the directory holds anything; `Locked` if another process is
    /// creating it; `InvalidOption`; `Io`.
    pub fn create(path: impl AsRef<Path>, options: Options) -> Result<Store> {
        let path = path.as_ref();
        options.validate()?;
        filemap_io::system::create_dir(path).map_err(|e| match e.kind() {
            std::io::ErrorKind::AlreadyExists => Error::NotEmpty { path: path.to_owned() },
            _ => Error::io("create", path.display())(e),
        })?;
        Store::create_in(open_dir(path)?, options, Threads::Started)
    }

    pub(crate) fn create_in(dir: Arc<dyn Dir>, options: Options, threads: Threads) -> Result<Store> {
        recover::check_vacant(&*dir)?;
        let (dir, gate) = enter(dir)?;
        recover::create(&*dir, &options)?;
        Store::open_locked(dir, gate, options, threads)
    }

    /// Opens a store for writing. The time of a recovery depends on what was written since the
    /// last checkpoint, not on the size of the store.
    ///
    /// # Errors
    /// [`Error::NotAStore`], with nothing changed; `Locked` at once if another handle
    /// writes it; `NewerFormat`; [`Error::Canonicalizer`]; `Corrupt` if a file
    /// needed for opening is damaged; `InvalidOption`; `Io`.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Store> {
        options.validate()?;
        Store::open_in(open_store_dir(path.as_ref())?, options, Threads::Started)
    }

    pub(crate) fn open_in(dir: Arc<dyn Dir>, options: Options, threads: Threads) -> Result<Store> {
        // Check before locking: a directory that may not be written must get no lock file.
        if let Some(found) = SuperblockFile::open(&*dir, Access::Read)?.look(&*dir, Access::Write)? {
            check_canonicalizer(&found, &options)?;
        }
        let (dir, gate) = enter(dir)?;
        Store::open_locked(dir, gate, options, threads)
    }

    /// Opens a store for writing, or creates it if the directory is missing or empty.
    ///
    /// # Errors
    /// Those of [`Store::open`] and [`Store::create`].
    pub fn open_or_create(path: impl AsRef<Path>, options: Options) -> Result<Store> {
        match Store::create(path.as_ref(), options.clone()) {
            Err(Error::NotEmpty { .. }) => Store::open(path, options),
            created => created,
        }
    }

    /// Opens a follower: a handle that only reads, in any process, while another may write the
    /// store. It follows the writer at least every half second while in use, and on
    /// [`Store::refresh`]. It writes nothing and takes no lock.
    ///
    /// # Errors
    /// As [`Store::open`], without `Locked`.
    pub fn open_read_only(path: impl AsRef<Path>, options: Options) -> Result<Store> {
        options.validate()?;
        Store::open_read_only_in(open_store_dir(path.as_ref())?, options, Threads::Started)
    }

    pub(crate) fn open_read_only_in(dir: Arc<dyn Dir>, options: Options, threads: Threads) -> Result<Store> {
        let reading = Arc::new(follow::open(dir, options)?);
        let workers = Arc::new(Workers::none(&reading, threads == Threads::Started));
        let store = Store { reading, upkeep: None, workers };
        store.refresh()?;
        Ok(store)
    }

    fn open_locked(dir: Arc<dyn Dir>, gate: Arc<Gate>, options: Options, threads: Threads) -> Result<Store> {
        let superblock = SuperblockFile::open(&*dir, Access::Write)?;
        let seen = superblock.newest_whole(&*dir)?.epoch;
        superblock.drop_cache();
        let mut current = superblock.read(&*dir, Access::Write)?;
        check_canonicalizer(&current, &options)?;
        let rules = crate::handle::rules::read(&*dir, &current.store_id, current.rules, Access::Write)?;
        let files = Files::open(&dir, &current, &options)?;
        let values = &files.values;
        let Roster { mut segment_table, mut absent, is_news, unseen } =
            files.roster(&*dir, &superblock, &current, &options)?;
        let first_run = recover::first_run(current.epoch);
        let mut is_due = recover::order(&mut segment_table, &options, current.index.keys, first_run)? || is_news;
        absent.iter_mut().for_each(|a| a.is_accepted = true);
        // An entry takes less memory than its record takes in the log.
        let room = recover::bytes_after(&values.segments, current.tail)?;
        let grouping = Grouping::of(&options, current.hash_seed).filter(|_| segment_table.order.is_some());
        let active = Arc::new(Memtable::new(options.memtable_bytes, room, grouping));
        let has_tail = !absent.iter().any(|a| a.ordinal == Some(current.tail.ordinal) && a.is_value());
        let base = recover::Base { file: &superblock, current: &current, seen };
        let replay = recover::replay(&*dir, values, base, &active, &segment_table, (has_tail, unseen))?;
        let is_lost = base.is_lost();
        let mut lost_order = absent.iter().any(Absent::is_key_run).then_some("a run is missing, and that was accepted");
        if !replay.has_order {
            (segment_table.order, is_due) = (None, true);
            lost_order = Some("after a crash in a checkpoint, part of the log that it entered is damaged");
        }
        // A recovery that reported dropped changes may have been cut short. A rule may have been
        // lifted just before.
        let is_lifted = rules.generation > current.rules;
        let was_telling = current.dropped_epoch == current.epoch;
        let mut next_epoch = replay.next_epoch;
        if is_lost || is_news || was_telling || replay.has_dropped || current.life == 0 || is_lifted {
            // A tombstone may have been in the lost part.
            current.removals_from = current.removals_from.max(if is_news { replay.next_sequence } else { 0 });
            // Followers may have read what is now dropped.
            (current.epoch, current.dropped_epoch) = (next_epoch, next_epoch);
            current.life = recover::next_life(&*dir, current.life)?;
            superblock.write(&current)?;
            next_epoch += 1;
        }
        let (segments, bytes) = (Arc::clone(&values.segments), u64::from(current.segment_bytes));
        let appender = Appender::new(segments, replay.segment, replay.offset, bytes)?;
        let log = Log::new(appender, replay.next_sequence, replay.tombstones, Pins::of(replay.pinned));
        let parts = Parts {
            dir,
            gate,
            superblock,
            current,
            next_epoch,
            files,
            segment_table,
            absent,
            active,
            log,
            replayed_below: replay.next_sequence,
            rules,
        };
        let upkeep = Arc::new(parts.assemble(options)?);
        note_opening(&upkeep, is_due)?;
        upkeep.end_removals(&replay.removed)?;
        upkeep.reading().emit(&Event::Recovered(replay.report));
        lost_order.into_iter().for_each(|why| upkeep.reading().order_ended(why));
        upkeep.tell_unfinished();
        let may_help = threads == Threads::Started;
        let threads = if may_help { worker::start(&upkeep)? } else { Vec::new() };
        let workers = Arc::new(Workers::new(&upkeep, threads, may_help));
        Ok(Store { reading: Arc::clone(upkeep.reading()), upkeep: Some(upkeep), workers })
    }

    /// # Errors
    /// `ReadOnly` on a follower; `Closed` if closed.
    pub(crate) fn upkeep(&self) -> Result<&Upkeep> {
        match &self.upkeep {
            Some(upkeep) => Ok(upkeep),
            None => Err(self.reading.check_open().err().unwrap_or(Error::ReadOnly)),
        }
    }

    /// # Errors
    /// As [`Store::upkeep`].
    pub(crate) fn writing(&self) -> Result<&Writing> {
        self.upkeep().map(|upkeep| &**upkeep.writing())
    }

    /// Makes everything durable, merges the memtable into the index and closes the store, so that
    /// the next opening replays nothing. Other clones return [`Error::Closed`] from then on and
    /// write nothing: a running compaction, prune or backup is abandoned at its next call that
    /// would change a file; a running checkpoint is waited for. A second call waits for the first
    /// and returns the same result. Dropping the last clone also closes the store, but loses any
    /// error.
    ///
    /// # Errors
    /// `Io` or `Poisoned`: everything acknowledged is in the log, and recovery finds it.
    pub fn close(self) -> Result<()> {
        self.workers.close()
    }

    /// Makes everything durable that was put before the call.
    ///
    /// # Errors
    /// `Io` if the sync failed, which stops all further writes; `Poisoned` after
    /// any failed write or sync; [`Error::ReadOnly`].
    pub fn sync(&self) -> Result<()> {
        self.reading.check_open()?;
        let writing = self.writing()?;
        // Even with nothing to sync: a caller that missed the error of a put gets it here.
        writing.poisoned().check()?;
        let position = lock(writing.log()).appender.position();
        writing.sync_to(position)
    }

    /// Merges everything put before the call into the index, durably.
    ///
    /// # Errors
    /// As [`Store::sync`].
    pub fn checkpoint(&self) -> Result<()> {
        self.reading.check_open()?;
        self.upkeep()?.checkpoint()
    }

    /// Follows the writer now: later reads see what it put before the call. Does nothing on a
    /// writer. Costs reading the superblock and the new bytes of the log.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub fn refresh(&self) -> Result<()> {
        self.reading.check_open()?;
        self.reading.follow_writer()
    }

    /// Files of the store that are missing or cut short, according to superblock, index and file
    /// names: as of opening, or when a follower last followed its writer. Reads that need them
    /// return `Corrupt`; lists end with an error for each missed one. Costs nothing.
    pub fn absent(&self) -> Vec<Absent> {
        Vec::clone(&self.reading.absent())
    }

    /// The store's directory.
    pub fn path(&self) -> &Path {
        self.reading.dir().path()
    }

    /// Returns true if the handle was opened read-only.
    pub fn is_read_only(&self) -> bool {
        self.upkeep.is_none()
    }

    /// The canonicaliser that made the store's keys.
    pub fn canonicalizer(&self) -> Canonicalizer {
        self.reading.birth().canonicalizer.clone()
    }

    /// Full verification: reads all files, checks every record and every link between them, and
    /// reports all damage: bytes that belong to no record, records with a checksum mismatch or
    /// decompressed length, bad index pages, slots that lead nowhere. Takes 4 bytes of memory a
    /// record, up to 2 MiB for each GiB of values, and uses all processors. Other threads may read
    /// and write meanwhile.
    ///
    /// # Errors
    /// `Io` if a file cannot be read. Damage is in the report and stops nothing.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.verify_with(&VerifyOptions::new(), &mut |_| ControlFlow::Continue(()))
    }

    /// [`Store::verify`] with options: quick, slow or resumable. `progress` may cancel it.
    ///
    /// # Errors
    /// As there. A cancelled pass is not an error: see [`VerifyReport::is_complete`].
    pub fn verify_with(
        &self,
        options: &VerifyOptions,
        progress: &mut Progress<'_, VerifyProgress>,
    ) -> Result<VerifyReport> {
        let crew = Crew::new(&self.reading.values().dictionaries);
        let mut work = || check::verify(&self.reading, self.upkeep.as_deref(), options, &crew, progress);
        match self.workers.may_help {
            true => worker::with_help(&|| crew.help(), &|| crew.end(), work),
            false => work(),
        }
    }

    /// Returns whether puts drop versions by number or age.
    pub fn has_retention(&self) -> bool {
        let options = self.reading.options();
        options.keep_versions.is_some() || options.keep_age.is_some()
    }

    /// Free bytes of the store's file system that any user may fill.
    ///
    /// # Errors
    /// `Io`.
    pub fn free_bytes(&self) -> Result<u64> {
        self.reading.dir().free_bytes().map_err(Error::io("measure", "the file system"))
    }

    /// Current counters and sizes. Measures the files: some system calls for each segment.
    pub fn stats(&self) -> Stats {
        self.reading.stats()
    }
}

/// Notes in the store what opening it has found or changed; runs a checkpoint if one is due.
fn note_opening(upkeep: &Upkeep, is_due: bool) -> Result<()> {
    if is_due {
        // From here on the superblock holds its losses, its returned files and its order.
        upkeep.checkpoint_with(Task { is_due: true, ..Task::default() })?;
    } else {
        // The last writer may have ended between making a dictionary and naming it.
        upkeep.name_dictionaries()?;
    }
    // Runs that no durable superblock names, or only the previous one.
    upkeep.remove_unnamed_runs()?;
    upkeep.writing().measure_free_space();
    Ok(())
}

fn open_dir(path: &Path) -> Result<Arc<dyn Dir>> {
    let dir = OsDir::open(path).map_err(Error::io("open", path.display()))?;
    Ok(Arc::new(dir))
}

/// [`open_dir`] for a directory that should hold a store.
fn open_store_dir(path: &Path) -> Result<Arc<dyn Dir>> {
    OsDir::open(path).map(|d| Arc::new(d) as Arc<dyn Dir>).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            Error::NotAStore { path: path.to_owned(), why: "there is no such directory".into() }
        }
        std::io::ErrorKind::NotADirectory => {
            Error::NotAStore { path: path.to_owned(), why: "it is not a directory".into() }
        }
        _ => Error::io("open", path.display())(e),
    })
}

/// Takes a store's lock and puts its directory behind a gate.
fn enter(dir: Arc<dyn Dir>) -> Result<Guarded> {
    let held = take_lock(&*dir)?;
    Ok(gate::guard(dir, held))
}

fn take_lock(dir: &dyn Dir) -> Result<Box<dyn Lock>> {
    Ok(files::lock(dir, names::LOCK, &dir.path().display().to_string())?)
}
