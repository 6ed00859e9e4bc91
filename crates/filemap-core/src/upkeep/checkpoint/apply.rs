//! Enters a memtable and a task in the index, in hash order. Leaves are changed in place or, in a
//! larger index, changes are gathered for runs; then waiting changes settle.

use super::merge::Merge;
use super::work::{Keeping, Ordered, Task, told};
use crate::error::Result;
use crate::failpoint::step;
use crate::format::leaf::{Slot, kept_bits};
use crate::index::address::Index;
use crate::index::memtable::Memtable;
use crate::sync::make_way;
use crate::sync::primitive::Ordering;
use crate::upkeep::Upkeep;
use crate::upkeep::state::Checkpointer;

/// Leaves read ahead of the one being merged.
const LEAVES_AHEAD: usize = 64;
/// Keys whose index pages and key records are read ahead, when runs are written.
const KEYS_AHEAD: usize = 256;
/// Approximate size of a key record, in bytes.
const KEY_RECORD_BYTES: u64 = 112;
/// Bytes charged for an examined chain, which may write no record: one leaf for every eight
/// chains.
const EXAMINED_BYTES: u64 = 2048;
/// Leaves rewritten by a checkpoint that lets all changes settle.
const SETTLED_AT_ONCE: u64 = 1 << 16;

impl Upkeep {
    /// Enters all keys of a table in the index and applies the task, in hash order, committing
    /// each stage once it is full.
    pub(crate) fn apply(&self, c: &mut Checkpointer, table: &Memtable, mut task: Task) -> Result<()> {
        let (keys, entered_bytes) = table.newest(&make_way);
        task.sort();
        c.index.expect(keys.len() as u64);
        let hashes = task.hashes(keys.iter().map(|k| k.0));
        let work = Work { hashes, table, keys: &keys, entered_bytes, task: &task };
        let log_bytes = work.log_bytes();
        if task.settles {
            c.index.pay_leaves(SETTLED_AT_ONCE);
        } else {
            c.index.pay(log_bytes);
        }
        self.settle(c)?;
        if c.index.writes_runs(work.hashes.len() as u64, log_bytes) {
            self.apply_to_runs(c, &work)?;
        } else {
            self.apply_to_leaves(c, &work)?;
        }
        merge_leaves(c, None)
    }

    /// Lets waiting changes settle from runs into leaves, as far as that is paid for. If none is
    /// left waiting, leaves may be changed in place again.
    fn settle(&self, c: &mut Checkpointer) -> Result<()> {
        while c.index.settle()? {
            if c.index.wants_flush() {
                c.index.flush()?;
            }
            step();
            make_way();
            if c.index.stage_is_full() {
                merge_leaves(c, None)?;
                self.commit(c)?;
            }
        }
        merge_leaves(c, None)?;
        if c.index.has_settled_all() { self.commit(c) } else { Ok(()) }
    }

    /// Changes leaves in place.
    fn apply_to_leaves(&self, c: &mut Checkpointer, work: &Work<'_>) -> Result<()> {
        let (mut rest, mut mine, mut task) = (&work.hashes[..], work.keys, Ordered::new(work.task));
        let mut ahead = ReadAhead { hashes: &work.hashes, covered: 0, leaves: 0 };
        while let Some(first) = rest.first() {
            ahead.go(self.reading.index());
            let old = c.index.leaf(*first)?;
            let (touched, others) = split(rest, |h| old.covers(*h));
            let (these, later) = split(mine, |k| old.covers(k.0));
            work.table.touch(these);
            let mut slots = old.slots.clone();
            c.keys.read_ahead(slots_of(&slots, touched).map(|slot| slot.key));
            let counted = self.merge_slots(c, &mut slots, work, (these, touched), &mut task)?;
            if slots != old.slots {
                c.index.replace(&old, &slots)?;
                c.index.count(&old, counted);
            }
            if c.index.wants_flush() || c.keys.wants_flush() {
                // Readers may be led to a key record only once it is in the file.
                c.keys.flush()?;
                c.index.flush()?;
                c.keys.publish();
            }
            step();
            make_way();
            self.write_gathered_if_many(c)?;
            if c.index.stage_is_full() {
                merge_leaves(c, others.first())?;
                self.commit(c)?;
            }
            (rest, mine) = (others, later);
        }
        Ok(())
    }

    /// Gathers changes of slots, to be written as runs. Index pages and key records of some
    /// hundred keys are requested before the first of them is merged.
    fn apply_to_runs(&self, c: &mut Checkpointer, work: &Work<'_>) -> Result<()> {
        let (mut rest, mut mine, mut task) = (&work.hashes[..], work.keys, Ordered::new(work.task));
        while !rest.is_empty() {
            let end = match rest.get(KEYS_AHEAD) {
                Some(next) => rest.partition_point(|h| told(*h) < told(*next)).max(1),
                None => rest.len(),
            };
            let end = rest.partition_point(|h| told(*h) <= told(rest[end - 1]));
            let (window, others) = rest.split_at(end);
            self.reading.index().will_look(window.iter().copied());
            let mut slots = Vec::with_capacity(window.len());
            for same in window.chunk_by(|a, b| told(*a) == told(*b)) {
                slots.push(c.index.slots_of(same[0])?);
            }
            c.keys.read_ahead(slots.iter().flatten().map(|slot| slot.key));
            work.table.touch(&mine[..mine.len().min(window.len())]);
            for (touched, old) in window.chunk_by(|a, b| told(*a) == told(*b)).zip(slots) {
                let (these, later) = split(mine, |k| told(k.0) <= told(touched[0]));
                let mut slots = old.clone();
                let counted = self.merge_slots(c, &mut slots, work, (these, touched), &mut task)?;
                if slots != old {
                    c.index.enter(touched[0], &old, &slots, counted);
                }
                mine = later;
            }
            if c.keys.wants_flush() {
                c.keys.flush()?;
            }
            step();
            make_way();
            self.write_gathered_if_many(c)?;
            if c.index.stage_is_full() {
                self.commit(c)?;
            }
            rest = others;
        }
        Ok(())
    }

    /// Merges into slots, those of a leaf or of one hash: first the table's keys, then the task
    /// for all touched hashes. Returns the change in the number of counted keys, if known.
    fn merge_slots(
        &self,
        c: &mut Checkpointer,
        slots: &mut Vec<Slot>,
        work: &Work<'_>,
        (keys, touched): (&[(u64, u32)], &[u64]),
        task: &mut Ordered<'_>,
    ) -> Result<Option<i64>> {
        let table = work.table;
        let mut merge = Merge {
            keys: &mut c.keys,
            values: self.reading.values(),
            segment_table: &mut c.segment_table,
            retention: Keeping { own: c.retention, parting: self.parting.load(Ordering::Acquire) },
            dropped: &mut c.dropped,
            replayed_below: c.replayed_below,
            chain_count: self.reading.options().limits.chain_count,
            closed: (!work.task.must_end).then(|| self.reading.closed()),
            is_cut: &mut c.is_cut,
            counts: self.reading.options().counted,
            counted: Some(0),
            gathered: c.gathered.as_mut(),
            settles_order: c.settles_order,
            came: 0,
        };
        for (hash, address) in keys {
            let found = table.found(*address);
            let key = table.key(*address);
            let versions = table.versions(&found);
            c.current.versions += versions.len() as u64;
            merge.key(slots, kept_bits(*hash), &key, &found, versions)?;
        }
        // Keys whose hashes share the bits in slots are handled together.
        for same in touched.chunk_by(|a, b| told(*a) == told(*b)) {
            if let Some(ops) = task.take(same[0])
                && !merge.stops_task()
            {
                merge.restate(slots, kept_bits(same[0]), ops, work.task)?;
            }
        }
        Ok(merge.counted)
    }
}

/// Merges leaves that have lost slots, up to the next hash to enter.
fn merge_leaves(c: &mut Checkpointer, next: Option<&u64>) -> Result<()> {
    if !c.index.has_smaller_leaves() {
        return Ok(());
    }
    c.keys.flush()?;
    c.index.merge(next.copied())?;
    c.keys.publish();
    Ok(())
}

/// The slots of a leaf whose hash bits match one of these hashes.
fn slots_of<'s>(slots: &'s [Slot], hashes: &[u64]) -> impl Iterator<Item = &'s Slot> {
    hashes.iter().map(|hash| kept_bits(*hash)).flat_map(|kept| {
        let first = slots.partition_point(|slot| slot.hash < kept);
        slots[first..].iter().take_while(move |slot| slot.hash == kept)
    })
}

/// Splits off the matching items at the front. They are few, so a scan touches less than a binary
/// search would.
fn split<T>(items: &[T], matches: impl Fn(&T) -> bool) -> (&[T], &[T]) {
    items.split_at(items.iter().take_while(|item| matches(item)).count())
}

/// Work of a checkpoint on the index.
struct Work<'a> {
    /// All touched hashes, sorted, each once.
    hashes: Vec<u64>,
    table: &'a Memtable,
    /// The newest entry of each key of the table, by hash.
    keys: &'a [(u64, u32)],
    /// Bytes of the records of all the table's entries in the value log.
    entered_bytes: u64,
    task: &'a Task,
}

impl Work<'_> {
    /// Estimated bytes of both logs that the work covers: those of the table, moved records, and a
    /// key record for each hash; more for chains that are examined.
    fn log_bytes(&self) -> u64 {
        let moved = self.task.ops.iter().map(|op| op.to.bytes()).sum::<u64>();
        let examined = self.task.chains.len() as u64 * EXAMINED_BYTES;
        self.entered_bytes + moved + examined + self.hashes.len() as u64 * KEY_RECORD_BYTES
    }
}

/// Prefetches leaves ahead of the merge, so that an index larger than memory is read with many
/// requests in flight.
struct ReadAhead<'a> {
    hashes: &'a [u64],
    /// Keys whose leaves were prefetched.
    covered: usize,
    /// Leaves prefetched.
    leaves: usize,
}

impl ReadAhead<'_> {
    /// Prefetches one more leaf; on the first call, the full read-ahead.
    fn go(&mut self, index: &Index) {
        let goal = self.leaves.max(LEAVES_AHEAD) + 1;
        while self.leaves < goal && self.covered < self.hashes.len() {
            let end = index.will_need(self.hashes[self.covered]);
            self.covered += self.hashes[self.covered..].partition_point(|h| *h <= end);
            self.leaves += 1;
        }
    }
}
