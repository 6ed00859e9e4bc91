//! A checkpoint merges the memtable into the index and makes it durable, in the background, while
//! puts continue into a second memtable.
//!
//! The order makes it safe: freeze table, tail and next sequence in one step; sync the value log;
//! then, in hash order, append key records and write new leaves, or runs, to free pages. A stage
//! ends by syncing the key log, then address.idx, then writing and syncing the superblock. Until
//! then nothing that the last superblock names is touched. The last stage's superblock has the new
//! tail, and names a run of the keys that came and went. Earlier stages keep the old tail, so
//! after a crash their entries are replayed a second time, without harm.

mod apply;
mod chain;
mod merge;
mod names;
mod order;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::event::Event;
use crate::failpoint::{Fault, planted, step};
use crate::format::key_runs::Behind;
use crate::format::location::UNIT_BYTES;
use crate::format::superblock::Tail;
use crate::handle::retention::Dropped;
use crate::handle::retention::Retention;
use crate::index::memtable::Memtable;
use crate::stats::Counters;
use crate::sync::{Poison, lock};
use crate::upkeep::Upkeep;
use crate::upkeep::state::Checkpointer;

pub(crate) use work::{Op, Task};

/// A freeze that holds the append lock this long counts as delaying puts.
const SLOW_FREEZE: Duration = Duration::from_micros(500);

/// State of the log at the moment of freezing.
pub(crate) struct Frozen {
    pub(crate) table: Arc<Memtable>,
    tail: Tail,
    next_sequence: u64,
    position: u64,
    /// Units of tombstones in the log up to the tail, by segment, not yet in the segment table.
    tombstones: BTreeMap<u16, u64>,
}

impl Upkeep {
    /// Runs a checkpoint now; waits for a running one first.
    ///
    /// # Errors
    /// The first failure, which stops all further writes; `Poisoned`; `Closed`.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.checkpoint_with(Task::default()).map(|_| ())
    }

    /// As `checkpoint`, with a task. Returns what the task's retention dropped. The targets of its
    /// moves must be synced. If the handle is closed meanwhile, the rest of the task is left
    /// undone and the error is `Closed`.
    pub(crate) fn checkpoint_with(&self, task: Task) -> Result<Dropped> {
        let mut c = lock(&self.checkpointer);
        if !planted(Fault::GateNotShut) {
            self.reading.check_open()?;
        }
        self.checkpoint_held(&mut c, task)
    }

    /// Runs the last checkpoint of a handle that is being closed, unless it is poisoned. Shuts the
    /// gate under the same lock, so that no other checkpoint is in the middle of writing.
    ///
    /// # Errors
    /// As [`Upkeep::checkpoint`]. The gate is shut and the lock file released in any case.
    pub(crate) fn end(&self) -> Result<()> {
        let mut c = lock(&self.checkpointer);
        if self.writing.gate().is_shut() {
            return Ok(());
        }
        let result = self.checkpoint_held(&mut c, Task::default());
        self.writing.gate().shut();
        result.map(|_| ())
    }

    /// Writes a superblock that names the present dictionaries: from then on they are used, and
    /// their loss is noticed. Changes nothing in the index. Costs a superblock and the segment
    /// table, unless nothing has changed.
    ///
    /// # Errors
    /// As [`Upkeep::checkpoint`].
    pub(crate) fn name_dictionaries(&self) -> Result<()> {
        let mut c = lock(&self.checkpointer);
        self.reading.check_open()?;
        self.writing.poisoned().check()?;
        if self.reading.values().dictionaries.are_named() || planted(Fault::DictionaryUsedUnnamed) {
            return Ok(());
        }
        self.commit_alone(&mut c)
    }

    /// Writes a superblock for a change outside any checkpoint.
    pub(super) fn commit_alone(&self, c: &mut Checkpointer) -> Result<()> {
        let _guard = PoisonOnUnwind(self.writing.poisoned());
        self.commit(c).inspect_err(|e| self.writing.poison(e))
    }

    /// Removes the files of dictionaries that no record names, durably, after writing a superblock
    /// that does not name them. Returns false, and does nothing, while a backup holds an older
    /// superblock.
    ///
    /// # Errors
    /// As [`Upkeep::checkpoint`].
    pub(crate) fn remove_dictionaries(&self, ids: &BTreeSet<u32>) -> Result<bool> {
        if ids.is_empty() {
            return Ok(true);
        }
        let mut c = lock(&self.checkpointer);
        self.reading.check_open()?;
        self.writing.poisoned().check()?;
        if c.holds > 0 {
            return Ok(false);
        }
        let _guard = PoisonOnUnwind(self.writing.poisoned());
        let registry = &self.reading.values().dictionaries;
        let mut run = || {
            if !planted(Fault::DictionaryRemovedNamed) {
                registry.let_go(ids);
                self.commit(&mut c)?;
            }
            registry.remove(ids)
        };
        run().inspect_err(|e| self.writing.poison(e)).map(|()| true)
    }

    pub(super) fn checkpoint_held(&self, c: &mut Checkpointer, mut task: Task) -> Result<Dropped> {
        self.writing.poisoned().check()?;
        let _guard = PoisonOnUnwind(self.writing.poisoned());
        let first = c.current.next_sequence;
        let own = Retention::of(self.reading.options());
        // Readers are not shown more versions than are kept, unless versions that hide the surplus
        // are dropped at the same time.
        let drops_more = !task.retention.keeps_all() || !task.erased.is_empty();
        c.retention = own.entering(first, own.versions.is_none() || drops_more);
        task.retention = task.retention.entering(first, true);
        // Versions entered by this checkpoint stay, with those they refer to: until the last stage
        // is durable, a crash replays the log from before it.
        task.erased.retain(|sequence, parted_below| {
            *parted_below = first.min(*parted_below);
            *sequence < first || planted(Fault::ErasedWhileEntered)
        });
        (c.dropped, c.told_versions, c.is_cut) = (Dropped::default(), 0, false);
        // Before the table is frozen: later puts must see it.
        let horizon = c.retention.horizon_ms().max(task.retention.horizon_ms());
        let horizon = if task.erased.is_empty() { horizon } else { i64::MAX };
        self.reading.expire_before(horizon);
        let result = self.checkpoint_locked(c, task);
        self.reading.expire_before(i64::MIN);
        self.writing.checkpoint_done();
        result.inspect_err(|e| self.writing.poison(e))?;
        if c.is_cut { Err(Error::Closed) } else { Ok(c.dropped) }
    }

    fn checkpoint_locked(&self, c: &mut Checkpointer, mut task: Task) -> Result<()> {
        let start = Instant::now();
        self.check_names(c)?;
        let Some(frozen) = self.freeze(c, &task)? else { return Ok(()) };
        self.reading.emit(&Event::CheckpointStarted { entries: frozen.table.entries() });
        let (pages, key_bytes) = (c.index.written_pages(), c.keys.appended_bytes());
        step();
        if !planted(Fault::LogNotSyncedBeforeCheckpoint) {
            self.writing.sync_to(frozen.position)?;
        }
        step();
        // From here on the index may hold versions up to this time: reads of recent entries must
        // consult it too.
        self.reading.will_index(frozen.table.max_time_ms());
        if planted(Fault::TailWithTheFirstStage) {
            c.current.tail = frozen.tail;
        }
        let entries = frozen.table.entries();
        // A repair assigns sequences at its end.
        c.behind = Some(Behind { entries, before: frozen.next_sequence.max(entries) });
        if let Some(segment) = task.evacuated {
            c.keys.leave(segment)?;
        }
        let (sweeps, leaving) = (task.sweep, std::mem::take(&mut task.leaving));
        self.apply(c, &frozen.table, task)?;
        if sweeps {
            self.commit(c)?;
            c.index.sweep()?;
        }
        c.current.tail = if planted(Fault::TailTakenAtTheEnd) { self.reading.log_end().0 } else { frozen.tail };
        c.current.next_sequence = frozen.next_sequence;
        for (segment, units) in frozen.tombstones {
            let ordinal = self.reading.values().segments.get(segment).ok().map(|s| s.ordinal);
            c.segment_table.add_tombstones(segment, ordinal, units);
        }
        if !planted(Fault::EmptiedNotMarked) {
            c.segment_table.let_go(&leaving);
        }
        self.write_gathered(c)?;
        (c.settles_order, c.behind) = (false, None);
        self.commit(c)?;
        c.index.punch();
        step();
        // Counted before the frozen table goes, so that a put that has read it notices.
        Counters::add(&self.reading.counters().checkpoints, 1);
        self.reading.merged();
        lock(self.writing.log()).pins.merged();
        self.writing.bells().compact.ring();
        self.writing.bells().join.ring();
        let elapsed = start.elapsed();
        let (index_pages, key_bytes) = (c.index.written_pages() - pages, c.keys.appended_bytes() - key_bytes);
        let counters = &self.reading.counters();
        Counters::add(&counters.checkpoint_us, elapsed.as_micros() as u64);
        Counters::add(&counters.index_pages_written, index_pages);
        Counters::add(&counters.key_bytes_written, key_bytes);
        self.reading.emit(&Event::CheckpointFinished { elapsed, index_pages, key_bytes });
        Ok(())
    }

    /// Replaces the active table with an empty one and notes the log's state, in one step. `None`
    /// if nothing was logged since the last checkpoint and the task is empty.
    pub(crate) fn freeze(&self, c: &Checkpointer, task: &Task) -> Result<Option<Frozen>> {
        let bytes = self.reading.options().memtable_bytes;
        let fresh = Arc::new(Memtable::new(bytes, 0, self.reading.grouping()));
        let mut log = lock(self.writing.log());
        let start = Instant::now();
        let tail = log.appender.tail();
        if task.is_empty() && tail == c.current.tail && self.reading.tables().active.entries() == 0 {
            return Ok(None);
        }
        let table = self.reading.freeze(fresh);
        let is_rebuilt = c.replayed_below == u64::MAX;
        debug_assert!(is_rebuilt || table.least_sequence() >= c.current.next_sequence, "an entry of an earlier table");
        let position = log.appender.position();
        log.frozen_at = position;
        let tombstones = std::mem::take(&mut log.tombstones);
        log.pins.freeze();
        if start.elapsed() >= SLOW_FREEZE {
            self.writing.note_slow_freeze();
        }
        Ok(Some(Frozen { table, tail, next_sequence: log.next_sequence, position, tombstones }))
    }

    /// Ends a stage: on return everything entered so far is durable.
    pub(super) fn commit(&self, c: &mut Checkpointer) -> Result<()> {
        c.keys.flush()?;
        c.keys.sync()?;
        if planted(Fault::SuperblockBeforeIndex) {
            c.current.index = c.index.root();
            c.current.epoch = c.index.epoch();
            self.reading.superblock().write(&c.current)?;
        }
        c.segment_table.forget_dead_keys();
        self.name_segments(c);
        c.segment_table.seal_keys(|ordinal| c.keys.end_of(ordinal));
        let dictionaries = self.reading.values().dictionaries.to_name();
        c.segment_table.name_dictionaries(&dictionaries, &self.reading.values().dictionaries.leaving());
        self.name_runs(c)?;
        c.current.index = c.index.commit(&c.segment_table.encode())?;
        c.keys.publish();
        c.current.epoch = c.index.epoch();
        c.current.key_tail = self.reading.keys().end();
        if c.dropped.versions > c.told_versions {
            // Followers may have read what is dropped. If this superblock is lost after a follower
            // has seen it, recovery writes another epoch.
            c.current.dropped_epoch = c.current.epoch;
            c.told_versions = c.dropped.versions;
        }
        c.current.last_dictionary = self.reading.values().dictionaries.last_id();
        c.current.max_time_ms = self.reading.indexed_time_ms();
        if planted(Fault::KeysRemovedEarly) {
            self.remove_dead_keys(c)?;
        }
        if planted(Fault::KeyRunsRemovedEarly) {
            self.remove_left_runs(c)?;
        }
        self.reading.superblock().write(&c.current)?;
        self.reading.publish(&c.current, &c.segment_table);
        c.index.committed(c.holds > 0);
        self.reading.values().dictionaries.named(dictionaries);
        // From here on nothing durable leads to dead key segments, nor to runs that were joined.
        self.remove_left_runs(c)?;
        self.remove_dead_keys(c)
    }

    /// Lists every value segment on which the superblock relies in the segment table, live or
    /// dead.
    fn name_segments(&self, c: &mut Checkpointer) {
        for segment in self.reading.values().segments.all().iter() {
            let (id, ordinal) = (segment.id, segment.ordinal);
            let is_named = c.segment_table.names(id, ordinal);
            if !is_named && (segment.is_output || ordinal > c.current.tail.ordinal) {
                continue;
            }
            let is_sealed = segment.is_output || ordinal < c.current.tail.ordinal;
            // If it cannot be measured now, its length stays unknown until the next checkpoint.
            let measure = || self.reading.values().segments.sealed_bytes(segment).ok().map(|bytes| bytes / UNIT_BYTES);
            let is_open = is_sealed && !c.segment_table.has_end(id) && !c.segment_table.is_lost(id);
            let end_units = if is_open { measure() } else { None };
            c.segment_table.name(id, ordinal, segment.is_output, end_units);
        }
    }

    /// Removes the key-log segments that no durable superblock leads to, unless a backup holds an
    /// older superblock.
    pub(crate) fn remove_dead_keys(&self, c: &Checkpointer) -> Result<()> {
        if c.holds > 0 && !planted(Fault::BackupNotHeld) {
            return Ok(());
        }
        self.reading.keys().remove_dead(c.current.key_tail, |ordinal| c.segment_table.live_key_bytes(ordinal))
    }
}

/// Poisons the handle if a checkpoint panics (for example in the caller's event sink): another
/// checkpoint would replace the frozen table, which is not merged.
struct PoisonOnUnwind<'a>(&'a Poison);

impl Drop for PoisonOnUnwind<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let thread = std::thread::current();
            self.0.set_cause(format!("a checkpoint panicked in the thread {}", thread.name().unwrap_or_default()));
        }
    }
}
