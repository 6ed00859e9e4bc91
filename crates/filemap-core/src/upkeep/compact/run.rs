//! One run of compaction, from the plan to the removal of the victims; and the delay of puts when
//! compaction cannot keep up.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use filemap_io::Progress;

use crate::error::{Result, unless_cancelled};
use crate::event::{Compacted, Event, Reason};
use crate::failpoint::{Fault, planted, step};
use crate::format::superblock::Tail;
use crate::handle::reading::Reading;
use crate::handle::writing::late_bytes;
use crate::index::segment_table::SegmentTable;
use crate::logs::segments::Segment;
use crate::stats::Counters;
use crate::sync::primitive::{Ordering, sleep};
use crate::sync::{lock, make_way};
use crate::upkeep::Upkeep;
use crate::upkeep::checkpoint::Task;
use crate::upkeep::compact::copy::{Copier, stopped};
use crate::upkeep::compact::output::Output;
use crate::upkeep::compact::plan::{self, Candidate, Plan, View};
use crate::upkeep::state::{Compactor, Cut};

/// Moves reported to the value cache in less than a tenth of a millisecond.
const MAKE_WAY_MOVES: usize = 256;

/// The goal of a compaction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Goal {
    /// The bound on space amplification.
    Bound,
    /// No garbage.
    NoGarbage,
    /// All pages of segments begun before a time compressed at least at this level.
    Level(u8, i64),
}

impl Upkeep {
    /// Returns true if the bound may be exceeded, assuming that all bytes beyond the last
    /// checkpoint replaced others.
    fn may_be_over(&self, view: &View, goal: Goal) -> bool {
        match (goal, self.reading.options().space_bound) {
            (Goal::Bound, Some(bound)) => {
                view.total_bytes() > view.target_bytes(bound).saturating_add(view.slack_bytes)
            }
            (Goal::NoGarbage, _) => true,
            _ => false,
        }
    }

    /// Compacts the worst segments in one run, if the goal requires it; copies about one segment
    /// at most. Takes only ordinals up to `last`. Without such a limit (`u64::MAX`) the log is
    /// rolled if the dead bytes lie at its end. `progress` is called repeatedly and may cancel.
    ///
    /// # Errors
    /// `Closed` when the handle is being closed or the run makes way; `Cancelled` when it was
    /// cancelled; those of reading and writing. No error loses data. Only a failed checkpoint or a
    /// failed sync of the directory stops further writes.
    pub(crate) fn compact_once(
        &self,
        goal: Goal,
        last: u64,
        progress: &mut Progress<'_, Compacted>,
    ) -> Result<Compacted> {
        let turn = self.turn_to_compact()?;
        let mut compactor = turn.known();
        let segment_table = Arc::clone(&self.reading.segment_table());
        let lives = |ordinal: u64| {
            segment_table.values.get(&(ordinal as u16)).is_some_and(|a| a.ordinal == ordinal && a.live_units > 0)
        };
        compactor.stuck.retain(|ordinal, _| lives(*ordinal));
        // Without a live byte the segment may still have tombstones to copy.
        let is_named = |ordinal: u64| segment_table.names(ordinal as u16, ordinal);
        compactor.cut.retain(|ordinal, _| is_named(*ordinal));
        let done = self.compact_in_turn(&mut compactor, (goal, last), progress);
        let stuck_segments = compactor.stuck.values().filter(|is_damaged| **is_damaged).count() as u64;
        turn.learn(compactor);
        done.map(|done| Compacted { stuck_segments, ..done })
    }

    fn compact_in_turn(
        &self,
        compactor: &mut Compactor,
        (goal, last): (Goal, u64),
        progress: &mut Progress<'_, Compacted>,
    ) -> Result<Compacted> {
        let mut freed = Compacted::nothing(Reason::Garbage);
        self.remove_emptied(compactor, &mut freed)?;
        let mut view = self.view(compactor, last)?;
        let mut plan = plan::plan(&view, want(&self.reading, goal));
        if view.unindexed_bytes > view.live_bytes() / 32 && self.may_be_over(&view, goal) {
            // The segment table is as of the last checkpoint: find what has died since.
            self.checkpoint()?;
            view = self.view(compactor, last)?;
            plan = plan::plan(&view, want(&self.reading, goal));
        }
        if plan.reason == Reason::NotYet && last == u64::MAX && self.roll_garbage(goal)? {
            view = self.view(compactor, last)?;
            plan = plan::plan(&view, want(&self.reading, goal));
        }
        if plan.reason == Reason::Tombstones && !compactor.emptied.is_empty() {
            // A backup holds emptied segments, so the versions that the tombstones hide still
            // exist.
            plan = Plan { victims: Vec::new(), reason: Reason::NotYet };
        }
        // Within the bound too: this thread may be busy (for example recompressing) when the bound
        // is exceeded.
        let sets_limit = !matches!(goal, Goal::Level(..));
        if sets_limit {
            self.hold_back(&view, !plan.victims.is_empty() || plan.reason == Reason::WithinBound);
        }
        if plan.victims.is_empty() {
            return Ok(Compacted { reason: plan.reason, ..freed });
        }
        let mut done = self.run(compactor, &plan, goal, last == u64::MAX, progress)?;
        done.add(&freed);
        if sets_limit {
            self.hold_back(&self.view(compactor, last)?, true);
        }
        Counters::add(&self.reading.counters().compactions, 1);
        Counters::add(&self.reading.counters().compaction_copied_bytes, done.copied_bytes);
        Counters::add(
            &self.reading.counters().compaction_freed_bytes,
            done.removed_bytes.saturating_sub(done.copied_bytes),
        );
        self.reading.emit(&Event::Compacted(done));
        Ok(done)
    }

    /// The level at which moved records are recompressed, 0 for none. Unless the goal is a level,
    /// only if all victims are old: recompressing pages that will soon be replaced does not pay.
    fn level(&self, plan: &Plan, goal: Goal) -> u8 {
        if let Goal::Level(level, _) = goal {
            return level;
        }
        let Some(level) = self.reading.options().recompression_level else { return 0 };
        let before_ms = self.reading.options().recompresses_before();
        let all = self.reading.values().segments.all();
        let is_old = |id: &u16| all.iter().any(|s| s.id == *id && s.created_ms < before_ms);
        if plan.victims.iter().all(is_old) { level } else { 0 }
    }

    /// Returns all segments as the plan sees them.
    pub(super) fn view(&self, compactor: &Compactor, last: u64) -> Result<View> {
        let (tail, segment_table) = {
            let c = lock(&self.checkpointer);
            (c.current.tail, c.segment_table.clone())
        };
        let pinned = lock(self.writing.log()).pins.least();
        let pinned = if planted(Fault::StreamsNotPinned) { u64::MAX } else { pinned };
        view(&self.reading, (tail, &segment_table, pinned), compactor, last)
    }

    /// Rolls the log if much of its last segment is dead bytes or tombstones; always for a
    /// recompression. Returns true if it did.
    pub(crate) fn roll_garbage(&self, goal: Goal) -> Result<bool> {
        let view = self.view(&Compactor::default(), u64::MAX)?;
        let (current, floor) = {
            let log = lock(self.writing.log());
            (log.appender.tail().ordinal as u16, log.next_sequence)
        };
        let Some(last) = view.segments.iter().find(|s| s.id == current) else { return Ok(false) };
        let is_worth_it = match goal {
            Goal::Bound => last.dead_bytes() > 0 && last.dead_bytes() >= view.slack_bytes / 2,
            // Tombstones can be dropped once nothing older is left, but not in the segment being
            // written.
            Goal::NoGarbage => {
                let bearable = plan::bearable_tombstones(plan::Want::NoGarbage, view.live_bytes());
                last.dead_bytes() > 0 || last.tombstone_bytes > bearable
            }
            // Covers all existing pages.
            Goal::Level(..) => true,
        };
        if !is_worth_it {
            return Ok(false);
        }
        self.reading.values().segments.prepare(floor)?;
        {
            let mut log = lock(self.writing.log());
            let sequence = log.next_sequence;
            log.appender.roll_if_used(sequence).inspect_err(|e| self.writing.roll_failed(e))?;
        }
        self.checkpoint()?;
        Ok(true)
    }

    /// Copies live records, has a checkpoint point the index to the copies, and removes the
    /// emptied victims.
    pub(super) fn run(
        &self,
        compactor: &mut Compactor,
        plan: &Plan,
        goal: Goal,
        in_background: bool,
        progress: &mut Progress<'_, Compacted>,
    ) -> Result<Compacted> {
        let level = self.level(plan, goal);
        let (progress, start) = (RefCell::new(progress), Instant::now());
        let all = self.reading.values().segments.all();
        let victims: Vec<Arc<Segment>> = all.iter().filter(|s| plan.victims.contains(&s.id)).map(Arc::clone).collect();
        let mut done = Compacted::nothing(plan.reason);
        let pace = Pace { upkeep: self, reason: plan.reason, in_background, progress, start, read: Cell::new(0) };
        let pause = |read: u64| pace.pause(read);
        let kept = |id: u16| {
            let segment_table = self.reading.segment_table();
            segment_table.values.get(&id).is_some_and(|a| a.live_units + a.tombstone_units > 0)
        };
        // Victims not copied to their ends.
        let mut cut = HashMap::new();
        let mut damaged = HashSet::new();
        let full: Vec<&Arc<Segment>> = victims.iter().filter(|s| kept(s.id)).collect();
        if !full.is_empty() {
            // Before the first lookup: everything removed with a lower sequence is known to be
            // dead.
            let floor = lock(self.writing.log()).next_sequence;
            step();
            let mut copier = Copier::new(&self.reading, &victims, floor, level, &pause);
            copier.cleaning.clone_from(&compactor.cleaning);
            for victim in full {
                // Earlier offsets were processed by an earlier run.
                let from = compactor.cut.get(&victim.ordinal).copied().unwrap_or_default();
                copier.met_damage = from.met_damage;
                if let Some(offset) = copier.segment(victim, from.offset)? {
                    cut.insert(victim.ordinal, Cut { offset, met_damage: copier.met_damage, ..from });
                }
                if copier.met_damage {
                    damaged.insert(victim.ordinal);
                }
                step();
            }
            (done.copied_bytes, done.unexpanded_records) = (copier.output.bytes(), copier.unexpanded);
            done.read_bytes = pace.read.get();
            copier.output.complete()?;
            let mut task = Task { removals_from: copier.removals_from, ..std::mem::take(&mut copier.task) };
            step();
            if planted(Fault::VictimsRemovedEarly) {
                self.remove(compactor, &victims, &mut done, &|_, _| true)?;
            }
            task.leaving = victims.iter().map(|s| s.ordinal).filter(|o| !cut.contains_key(o)).collect();
            let result = self.lead_to(Some(&mut copier.output), task);
            if result.is_err() {
                // The superblock that names the output may or may not exist: the next recovery
                // determines which.
                return result.map(|()| done);
            }
            for moves in copier.unchanged.chunks(MAKE_WAY_MOVES) {
                self.reading.values().follow(moves);
                make_way();
            }
        } else {
            let leaving = victims.iter().map(|s| s.ordinal).collect();
            self.lead_to(None, Task { leaving, ..Task::default() })?;
        }
        self.remove_victims(compactor, &victims, (cut, &damaged), &mut done)?;
        done.elapsed = start.elapsed();
        Ok(done)
    }

    /// Removes the victims that a run has emptied. Notes where to continue with those cut short,
    /// and which cannot be emptied.
    fn remove_victims(
        &self,
        compactor: &mut Compactor,
        victims: &[Arc<Segment>],
        (cut, damaged): (HashMap<u64, Cut>, &HashSet<u64>),
        done: &mut Compacted,
    ) -> Result<()> {
        let is_empty = |s: &Segment, live_units: u64| live_units == 0 && !cut.contains_key(&s.ordinal);
        let left = self.remove(compactor, victims, done, &is_empty)?;
        let mut again = HashMap::new();
        for ordinal in left.into_iter().filter(|ordinal| !cut.contains_key(ordinal)) {
            // A segment that took several runs is processed once more, as a whole.
            let was_cut = compactor.cut.get(&ordinal).is_some_and(|from| !from.is_second);
            if was_cut {
                again.insert(ordinal, Cut { is_second: true, ..Cut::default() });
            } else {
                compactor.stuck.insert(ordinal, damaged.contains(&ordinal));
            }
        }
        compactor.cut.retain(|ordinal, _| victims.iter().all(|v| v.ordinal != *ordinal));
        compactor.cut.extend(cut.into_iter().chain(again));
        Ok(())
    }

    /// Has a checkpoint name the output, with its tombstones, and point the index there. If the
    /// handle was closed before, the output is removed here or by the next writer.
    fn lead_to(&self, output: Option<&mut Output<'_>>, task: Task) -> Result<()> {
        let mut checkpointer = lock(&self.checkpointer);
        if !planted(Fault::GateNotShut) {
            self.reading.check_open()?;
        }
        let written = output.map(Output::give).unwrap_or_default();
        for w in &written {
            checkpointer.segment_table.add_tombstones(w.segment.id, Some(w.segment.ordinal), w.tombstone_units);
        }
        let removals_from = &mut checkpointer.current.removals_from;
        *removals_from = task.removals_from.max(*removals_from);
        let is_due = !written.is_empty() || !task.leaving.is_empty();
        self.checkpoint_held(&mut checkpointer, Task { is_due, ..task }).map(|_| ())
    }

    /// Removes the victims of earlier runs that a backup held, unless one still does.
    pub(super) fn remove_emptied(&self, compactor: &mut Compactor, done: &mut Compacted) -> Result<()> {
        let emptied = std::mem::take(&mut compactor.emptied);
        if emptied.is_empty() {
            return Ok(());
        }
        self.remove(compactor, &emptied, done, &|_, live_units| live_units == 0).map(|_| ())
    }

    /// Removes the victims that `is_empty` accepts, given their live units. Returns the ordinals
    /// of the others.
    fn remove(
        &self,
        compactor: &mut Compactor,
        victims: &[Arc<Segment>],
        done: &mut Compacted,
        is_empty: &dyn Fn(&Segment, u64) -> bool,
    ) -> Result<Vec<u64>> {
        // Held while unlinking, so that users of the last checkpoint find all files.
        let mut checkpointer = lock(&self.checkpointer);
        let live = |id: u16| checkpointer.segment_table.values.get(&id).map_or(0, |a| a.live_units);
        // Without the mark in a durable superblock a missing file would count as lost.
        let unmarked = [Fault::EmptiedNotMarked, Fault::VictimsRemovedEarly].into_iter().any(planted);
        let may_go = |id: u16| unmarked || checkpointer.segment_table.values.get(&id).is_none_or(|a| a.is_leaving);
        let (gone, left): (Vec<_>, Vec<_>) =
            victims.iter().map(Arc::clone).partition(|s| may_go(s.id) && is_empty(s, live(s.id)));
        let left = left.iter().map(|s| s.ordinal).collect();
        if checkpointer.holds > 0 {
            // A backup still needs the files; they are removed after it.
            compactor.emptied.extend(gone);
            return Ok(left);
        }
        for segment in &gone {
            done.removed_bytes += self.reading.values().segments.sealed_bytes(segment).unwrap_or(0);
            done.removed_segments += 1;
            checkpointer.segment_table.values.remove(&segment.id);
        }
        // A failed sync of the directory must not be retried as if nothing had happened.
        self.reading.values().segments.remove(&gone).inspect_err(|e| self.writing.poison(e))?;
        self.reading.publish_table(&checkpointer.segment_table);
        Ok(left)
    }

    /// Lets puts run at full speed up to half way between the start of compaction and the bound,
    /// and more slowly beyond: a run's copies add to the total until its victims are removed. Set
    /// only after compaction has planned again, or puts would wait in vain.
    fn hold_back(&self, view: &View, can_help: bool) {
        let limit = match self.reading.options().space_bound {
            Some(bound) if can_help => {
                let most = (view.live_bytes() as f64 * bound) as u64;
                let late = late_bytes(u64::from(self.reading.birth().segment_bytes));
                let allowed = most.midpoint(view.target_bytes(bound)) + view.slack_bytes + late;
                lock(self.writing.log()).appender.position() + allowed.saturating_sub(view.total_bytes())
            }
            _ => u64::MAX,
        };
        self.writing.limit_space(limit);
    }
}

/// Returns the plan of all successive runs with this goal, as seen by any handle.
///
/// # Errors
/// `Io` when a segment cannot be measured.
pub(crate) fn planned(reading: &Reading, upkeep: Option<&Upkeep>, goal: Goal) -> Result<(View, Plan)> {
    let mut view = match upkeep {
        Some(upkeep) => {
            let compactor = Compactor::clone(&lock(&upkeep.compactor));
            upkeep.view(&compactor, u64::MAX)?
        }
        None => {
            let (tail, segment_table) = (reading.latest().tail, SegmentTable::clone(&reading.segment_table()));
            view(reading, (tail, &segment_table, u64::MAX), &Compactor::default(), u64::MAX)?
        }
    };
    let last = reading.log_end().0.ordinal as u16;
    // The log is rolled for dead bytes at its end.
    if let Some(last) = view.segments.iter_mut().find(|s| s.id == last) {
        last.is_eligible |= goal == Goal::NoGarbage || last.dead_bytes() >= view.slack_bytes / 2;
    }
    let plan = plan::whole(&view, want(reading, goal));
    Ok((view, plan))
}

fn want(reading: &Reading, goal: Goal) -> plan::Want {
    match (goal, reading.options().space_bound) {
        (Goal::Bound, Some(bound)) => plan::Want::Bound(bound),
        // Without a bound only completely dead segments are freed.
        (Goal::Bound, None) => plan::Want::Bound(f64::MAX),
        (Goal::NoGarbage, _) => plan::Want::NoGarbage,
        (Goal::Level(level, before_ms), _) => plan::Want::Level(level, before_ms),
    }
}

/// Returns all segments as of a tail and a segment table. Those of the log proper are eligible
/// only below the ordinal `pinned`.
fn view(
    reading: &Reading,
    (tail, segment_table, pinned): (Tail, &SegmentTable, u64),
    compactor: &Compactor,
    last: u64,
) -> Result<View> {
    let end = reading.log_end().0;
    let mut view = View {
        segments: Vec::new(),
        unindexed_bytes: 0,
        slack_bytes: reading.options().limits.slack_bytes.min(u64::from(reading.birth().segment_bytes) / 8),
        run_bytes: u64::from(reading.birth().segment_bytes),
    };
    for segment in reading.values().segments.all().iter() {
        let Some(space) = reading.space_in(segment, tail, segment_table, end)? else { continue };
        view.unindexed_bytes += space.unindexed_bytes;
        let is_below = segment.is_output || segment.ordinal < tail.ordinal.min(pinned);
        let is_below = is_below && segment.ordinal <= last;
        if compactor.emptied.iter().any(|e| e.ordinal == segment.ordinal) {
            continue;
        }
        view.segments.push(Candidate {
            id: segment.id,
            floor: segment.floor,
            bytes: space.live_bytes + space.tombstone_bytes + space.dead_bytes,
            live_bytes: space.live_bytes,
            tombstone_bytes: space.tombstone_bytes,
            level: segment.level,
            created_ms: segment.created_ms,
            keeps_removals: segment.created_ms >= reading.options().keeps_removals_since(),
            is_eligible: is_below && !compactor.stuck.contains_key(&segment.ordinal),
        });
    }
    Ok(view)
}

/// Keeps a run to the read rate, and stops it.
struct Pace<'a> {
    upkeep: &'a Upkeep,
    reason: Reason,
    in_background: bool,
    progress: RefCell<&'a mut Progress<'a, Compacted>>,
    start: Instant,
    read: Cell<u64>,
}

impl Pace<'_> {
    /// Counts bytes as read, and sleeps to keep to the rate.
    ///
    /// # Errors
    /// `Closed` when the handle is closed or poisoned, or when the run must make way; `Cancelled`
    /// when `progress` cancels.
    fn pause(&self, read: u64) -> Result<()> {
        let is_closed = || self.upkeep.reading.closed().load(Ordering::Acquire);
        if is_closed() || self.upkeep.writing.poisoned().cause().is_some() || self.makes_way() {
            return Err(stopped());
        }
        self.read.set(self.read.get() + read);
        while !self.wait().is_zero() && !is_closed() {
            // In short sleeps: the handle may be closed.
            sleep(self.wait().min(Duration::from_millis(100)));
        }
        let so_far = Compacted { read_bytes: self.read.get(), ..Compacted::nothing(self.reason) };
        unless_cancelled((self.progress.borrow_mut())(so_far))
    }

    /// Returns true if background recompression must make way for compaction that puts wait for.
    fn makes_way(&self) -> bool {
        self.in_background && self.reason == Reason::Recompression && self.upkeep.writing.is_over_space()
    }

    /// Time to wait before reading more.
    fn wait(&self) -> Duration {
        let due = |rate| Duration::from_secs_f64(self.read.get() as f64 / rate as f64);
        self.upkeep.reading.options().compaction_rate.map_or(Duration::ZERO, due).saturating_sub(self.start.elapsed())
    }
}
