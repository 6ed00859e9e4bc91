//! A checkpoint merges the memtable into the index and makes it durable, in the background, while puts go on into a
//! second table.
//!
//! The order is what makes it safe: freeze table, tail and next sequence in one step; sync the value log; then, leaf by leaf
//! in hash order, append key records and write new leaves to free pages. A stage ends with the key log synced, then address.idx
//! synced, then the superblock written and synced. Until then nothing that the last superblock names is touched. The last
//! stage's superblock has the new tail; those before it keep the old one, so that after a crash what they entered is merely
//! early.

mod chain;
mod merge;
mod names;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::event::Event;
use crate::failpoint::{Fault, planted, step};
use crate::format::leaf::{Slot, kept_bits};
use crate::format::location::UNIT_BYTES;
use crate::format::superblock::Tail;
use crate::handle::retention::Dropped;
use crate::handle::retention::Retention;
use crate::index::address::Index;
use crate::index::memtable::{Found, Memtable};
use crate::stats::Counters;
use crate::sync::{Poison, lock, make_way};
use crate::upkeep::Upkeep;
use crate::upkeep::state::Checkpointer;
use merge::Merge;

pub(crate) use work::{Op, Task};

/// A freeze that holds the append lock for this long counts as holding up the puts that wait for it.
const SLOW_FREEZE: Duration = Duration::from_micros(500);
/// Leaves that are read ahead of the one being merged.
const LEAVES_AHEAD: usize = 64;
/// So many keys are gathered and sorted in about a tenth of a millisecond.
const SOME_KEYS: usize = 1024;

/// The state of the log at the moment of freezing.
pub(crate) struct Frozen {
    pub(crate) table: Arc<Memtable>,
    tail: Tail,
    next_sequence: u64,
    position: u64,
    /// Units of the removals in the log up to there, by segment, that are not accounted for yet.
    tombstones: BTreeMap<u16, u64>,
}

impl Upkeep {
    /// Runs a checkpoint now; waits for one that is running.
    ///
    /// # Errors
    /// The first failure, which stops all further writes.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.checkpoint_with(Task::default()).map(|_| ())
    }

    /// As `checkpoint`, and does a task with it; what its retention has dropped. What the task leads to is synced. When the handle is
    /// closed meanwhile, what is left of the task is left undone, and the error is `Closed`.
    pub(crate) fn checkpoint_with(&self, task: Task) -> Result<Dropped> {
        let mut c = lock(&self.checkpointer);
        if !planted(Fault::GateNotShut) {
            self.reading.check_open()?;
        }
        self.checkpoint_held(&mut c, task)
    }

    /// The last checkpoint of a handle that is being closed, if nothing has poisoned it. Under the same lock the gate is shut, so that
    /// no other one is in the middle of writing then.
    ///
    /// # Errors
    /// As [`Upkeep::checkpoint`]. The gate is shut and the lock given up in any case.
    pub(crate) fn end(&self) -> Result<()> {
        let mut c = lock(&self.checkpointer);
        if self.writing.gate().is_shut() {
            return Ok(());
        }
        let result = self.checkpoint_held(&mut c, Task::default());
        self.writing.gate().shut();
        result.map(|_| ())
    }

    /// Has a superblock name the dictionaries that there are now: from then on they are used, and missed when they go. Enters nothing
    /// in the index; costs a superblock and the segment table, unless nothing has changed.
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
        let _guard = PoisonOnUnwind(self.writing.poisoned());
        self.commit(&mut c).inspect_err(|e| self.writing.poison(e))
    }

    /// Removes the files of dictionaries that no record names any more, durably, after a superblock that does not name them; does nothing
    /// while a backup holds on to an older one. Whether they went.
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

    fn checkpoint_held(&self, c: &mut Checkpointer, mut task: Task) -> Result<Dropped> {
        self.writing.poisoned().check()?;
        let _guard = PoisonOnUnwind(self.writing.poisoned());
        let first = c.current.next_sequence;
        let own = Retention::of(self.reading.options());
        // Of more versions than are kept readers are not shown the rest, unless what hides it is dropped at the same time.
        let drops_more = !task.retention.keeps_all() || !task.erased.is_empty();
        c.retention = own.entering(first, own.versions.is_none() || drops_more);
        task.retention = task.retention.entering(first, true);
        // What this checkpoint enters stays, with what it refers to: until the last stage is durable, a crash has the log replayed
        // from before it.
        task.erased.retain(|sequence| *sequence < first || planted(Fault::ErasedWhileEntered));
        (c.dropped, c.told_versions, c.is_cut) = (Dropped::default(), 0, false);
        // Before the table is frozen: a put that comes later must see it.
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
        // From here on the index may hold versions as late as this: reads of recent entries must look there too.
        self.reading.will_index(frozen.table.max_time_ms());
        if planted(Fault::TailWithTheFirstStage) {
            c.current.tail = frozen.tail;
        }
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
        self.commit(c)?;
        c.index.punch();
        step();
        // Counted before the frozen table goes: a put that has looked at it must notice.
        Counters::add(&self.reading.counters().checkpoints, 1);
        self.reading.merged();
        lock(self.writing.log()).pins.merged();
        self.writing.bells().compact.ring();
        let elapsed = start.elapsed();
        let (index_pages, key_bytes) = (c.index.written_pages() - pages, c.keys.appended_bytes() - key_bytes);
        let counters = &self.reading.counters();
        Counters::add(&counters.checkpoint_us, elapsed.as_micros() as u64);
        Counters::add(&counters.index_pages_written, index_pages);
        Counters::add(&counters.key_bytes_written, key_bytes);
        self.reading.emit(&Event::CheckpointFinished { elapsed, index_pages, key_bytes });
        Ok(())
    }

    /// Puts a fresh table in place of the active one, and notes where the log stands, in one step. `None` when nothing was
    /// logged since the last checkpoint, and there is nothing else to do.
    pub(crate) fn freeze(&self, c: &Checkpointer, task: &Task) -> Result<Option<Frozen>> {
        let fresh = Arc::new(Memtable::new(self.reading.options().memtable_bytes, 0));
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

    /// Enters all keys of a table in the index and does a task's work there, in hash order, committing a stage whenever one is
    /// full.
    pub(crate) fn apply(&self, c: &mut Checkpointer, table: &Memtable, mut task: Task) -> Result<()> {
        let mut keys: Vec<(u64, Found)> = Vec::new();
        for key in table.keys() {
            if keys.len().is_multiple_of(SOME_KEYS) {
                make_way();
            }
            keys.push(key);
        }
        sort(&mut keys);
        task.sort();
        c.index.expect(keys.len() as u64);
        let hashes = task.hashes(keys.iter().map(|k| k.0));
        let (mut rest, mut mine) = (&hashes[..], &keys[..]);
        let mut ahead = ReadAhead { hashes: &hashes, covered: 0, leaves: 0 };
        while let Some(first) = rest.first() {
            ahead.go(self.reading.index());
            let old = c.index.leaf(*first)?;
            let (touched, others) = rest.split_at(rest.partition_point(|h| old.covers(*h)));
            let (these, later) = mine.split_at(mine.partition_point(|k| old.covers(k.0)));
            let mut slots = old.slots.clone();
            self.merge_leaf(c, &mut slots, table, these, touched, &task)?;
            if slots != old.slots {
                c.index.replace(&old, &slots)?;
            }
            if c.index.wants_flush() || c.keys.wants_flush() {
                // Readers may be led to a key record only when it is in the file.
                c.keys.flush()?;
                c.index.flush()?;
                c.keys.publish();
            }
            step();
            make_way();
            if c.index.stage_is_full() {
                merge_leaves(c, others.first())?;
                self.commit(c)?;
            }
            (rest, mine) = (others, later);
        }
        merge_leaves(c, None)
    }

    /// What becomes of the slots of one leaf: the table's keys first, then the task for all that were touched.
    fn merge_leaf(
        &self,
        c: &mut Checkpointer,
        slots: &mut Vec<Slot>,
        table: &Memtable,
        keys: &[(u64, Found)],
        touched: &[u64],
        task: &Task,
    ) -> Result<()> {
        let mut merge = Merge {
            keys: &mut c.keys,
            values: self.reading.values(),
            segment_table: &mut c.segment_table,
            retention: c.retention,
            dropped: &mut c.dropped,
            replayed_below: c.replayed_below,
            chain_count: self.reading.options().limits.chain_count,
            closed: self.reading.closed(),
            is_cut: &mut c.is_cut,
        };
        merge.read_ahead(slots, touched.iter().map(|h| kept_bits(*h)));
        for (hash, found) in keys {
            let key = table.key_of(found);
            let versions = table.versions(found);
            c.current.versions += versions.len() as u64;
            merge.key(slots, kept_bits(*hash), &key, found, versions)?;
        }
        let mut last = None;
        for hash in touched.iter().filter(|h| task.touches(**h)) {
            // Keys whose hashes share the bits that slots keep are looked at together.
            if last != Some(kept_bits(*hash)) && !merge.stops_task() {
                merge.restate(slots, kept_bits(*hash), task.ops_near(*hash), task)?;
            }
            last = Some(kept_bits(*hash));
        }
        Ok(())
    }

    /// Ends a stage: what was entered so far is durable when this returns.
    fn commit(&self, c: &mut Checkpointer) -> Result<()> {
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
        debug_assert!(c.segment_table.has_room_for_its_counts(), "a segment with more live than it holds");
        c.current.index = c.index.commit(&c.segment_table.encode())?;
        c.keys.publish();
        c.current.epoch = c.index.epoch();
        c.current.key_tail = self.reading.keys().end();
        if c.dropped.versions > c.told_versions {
            // Readers may have followed what is gone. If this superblock is lost, and a reader has seen it, the recovery's is another.
            c.current.dropped_epoch = c.current.epoch;
            c.told_versions = c.dropped.versions;
        }
        c.current.last_dictionary = self.reading.values().dictionaries.last_id();
        c.current.max_time_ms = self.reading.indexed_time_ms();
        if planted(Fault::KeysRemovedEarly) {
            self.remove_dead_keys(c)?;
        }
        self.reading.superblock().write(&c.current)?;
        self.reading.publish(&c.current, &c.segment_table);
        c.index.committed(c.holds > 0);
        self.reading.values().dictionaries.named(dictionaries);
        // From here on nothing durable leads to what is dead in them.
        self.remove_dead_keys(c)
    }

    /// Sees to it that the segment table has every value segment on which the superblock counts, live or not.
    fn name_segments(&self, c: &mut Checkpointer) {
        for segment in self.reading.values().segments.all().iter() {
            let (id, ordinal) = (segment.id, segment.ordinal);
            let is_named = c.segment_table.names(id, ordinal);
            if !is_named && (segment.is_output || ordinal > c.current.tail.ordinal) {
                continue;
            }
            let is_sealed = segment.is_output || ordinal < c.current.tail.ordinal;
            // That of one which cannot be measured now is not known before the next checkpoint.
            let measure = || self.reading.values().segments.sealed_bytes(segment).ok().map(|bytes| bytes / UNIT_BYTES);
            let is_open = is_sealed && !c.segment_table.has_end(id) && !c.segment_table.is_lost(id);
            let end_units = if is_open { measure() } else { None };
            c.segment_table.name(id, ordinal, segment.is_output, end_units);
        }
    }

    /// Removes the segments of the key log to which no durable superblock leads, unless a backup holds on to an older one.
    pub(crate) fn remove_dead_keys(&self, c: &Checkpointer) -> Result<()> {
        if c.holds > 0 && !planted(Fault::BackupNotHeld) {
            return Ok(());
        }
        self.reading.keys().remove_dead(c.current.key_tail, |ordinal| c.segment_table.live_key_bytes(ordinal))
    }
}

/// Merges leaves that have lost slots, up to the next hash that is to be entered.
fn merge_leaves(c: &mut Checkpointer, next: Option<&u64>) -> Result<()> {
    if !c.index.has_smaller_leaves() {
        return Ok(());
    }
    c.keys.flush()?;
    c.index.merge(next.copied())?;
    c.keys.publish();
    Ok(())
}

/// A panic in a checkpoint (in the caller's event sink, say) must not let another one begin: it would take the place of the
/// frozen table, which is not merged.
struct PoisonOnUnwind<'a>(&'a Poison);

impl Drop for PoisonOnUnwind<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let thread = std::thread::current();
            self.0.set_cause(format!("a checkpoint panicked in the thread {}", thread.name().unwrap_or_default()));
        }
    }
}

/// Asks for leaves some way ahead of the merge, so that an index larger than memory is read with many requests under way.
struct ReadAhead<'a> {
    hashes: &'a [u64],
    /// Keys whose leaves were asked for.
    covered: usize,
    /// Leaves that were asked for.
    leaves: usize,
}

/// Sorts keys by their hashes, some at a time.
fn sort(keys: &mut [(u64, Found)]) {
    make_way();
    if keys.len() <= SOME_KEYS {
        return keys.sort_unstable_by_key(|k| k.0);
    }
    let (less, _, greater) = keys.select_nth_unstable_by_key(keys.len() / 2, |k| k.0);
    sort(less);
    sort(greater);
}

impl ReadAhead<'_> {
    /// One leaf on; at the first call, as many as there should be under way.
    fn go(&mut self, index: &Index) {
        let goal = self.leaves.max(LEAVES_AHEAD) + 1;
        while self.leaves < goal && self.covered < self.hashes.len() {
            let end = index.will_need(self.hashes[self.covered]);
            self.covered += self.hashes[self.covered..].partition_point(|h| *h <= end);
            self.leaves += 1;
        }
    }
}
