//! Erasure, the part that rewrites: every segment of either log that may hold bytes of what was erased is emptied, and its file
//! removed.
//!
//! A segment of values may hold some if anything in it is dead, if a record names a retired dictionary, or if a removal names a
//! key that is erased. A segment of keys may if anything in it is dead; the last one may behind its end. What is all live has
//! been found to be something else.
//!
//! Invariant: removals of erased keys go in a second pass only, when nothing is dead any more that they hide: a repair in between
//! brings nothing back.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::buggify::{Fault, planted};
use crate::compact::Goal;
use crate::compact::keys;
use crate::compact::plan::{Candidate, Plan};
use crate::compact::run::Watch;
use crate::error::Result;
use crate::event::{Compacted, Reason};
use crate::format::names;
use crate::format::value::{self, Kind};
use crate::log::scan::Item;
use crate::primitive::Mutex;
use crate::segments::{FIRST_RECORD, Segment};
use crate::state::{Cleaning, Compactor, KeyFilter, Shared, WriteSide};
use crate::sync::lock;

/// A log is looked through so often at most with nothing gained: damage may keep a segment, and what others put meanwhile makes new
/// garbage.
const ROUNDS: u32 = 6;

/// Counts the rounds that have gained nothing.
struct Gain {
    live: u64,
    idle: u32,
}

impl Gain {
    fn new() -> Gain {
        Gain { live: u64::MAX, idle: 0 }
    }

    /// Whether to go on, when so much lives in what is still to be emptied. A run that ends before a segment does has gained
    /// something, too.
    fn goes_on(&mut self, live: u64) -> bool {
        self.idle = if live < self.live { 0 } else { self.idle + 1 };
        self.live = live;
        self.idle < ROUNDS
    }

    /// Files are gone.
    fn removed(&mut self) {
        self.live = u64::MAX;
    }
}

/// Ends the cleaning of a handle, however it ends.
struct Ended<'a>(&'a WriteSide);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        lock(&self.0.compactor).cleaning = None;
    }
}

/// Which segments of values are looked at.
#[derive(Clone, Copy)]
struct Limit {
    /// The last ordinal.
    last: u64,
    /// The log's segments from this one on are not.
    tail: u64,
}

impl Shared {
    /// Empties every segment of values that may hold something of what was erased. Names of the files that could not be, and of the
    /// dictionaries that records need which cannot be compressed anew.
    ///
    /// # Errors
    /// `Stopped`; those of compaction.
    pub(crate) fn clean_values(
        &self,
        retired: &BTreeSet<u32>,
        is_erased: &KeyFilter,
        done: &mut Compacted,
        watch: Watch<'_>,
    ) -> Result<Vec<String>> {
        let writer = self.write_side()?;
        let below = lock(&writer.log).next_sequence;
        // What could not be emptied before, for puts that came between perhaps, is tried again.
        lock(&writer.compactor).stuck.clear();
        self.roll_garbage(Goal::Level(0, 0))?;
        // What is put from here on is none of it.
        let tail = self.log_end().0.ordinal;
        let _ended = Ended(writer);
        let removals = Some((Arc::clone(is_erased), below));
        let first = removals.clone().filter(|_| planted(Fault::RemovalsErasedAtOnce));
        for removals in [first, removals] {
            let last = self.segments.all().last().map_or(0, |s| s.ordinal);
            let needed = Mutex::default();
            let cleaning = Arc::new(Cleaning { retired: retired.clone(), removals, needed });
            let mut left = self.clean_with(writer, &cleaning, Limit { last, tail }, done, watch)?;
            left.extend(lock(&cleaning.needed).iter().map(|id| names::dictionary(*id)));
            if !left.is_empty() {
                return Ok(left);
            }
        }
        Ok(Vec::new())
    }

    /// One pass: runs of compaction until nothing is to be emptied any more.
    fn clean_with(
        &self,
        writer: &WriteSide,
        cleaning: &Arc<Cleaning>,
        limit: Limit,
        done: &mut Compacted,
        watch: Watch<'_>,
    ) -> Result<Vec<String>> {
        let (mut clean, mut gain) = (BTreeSet::new(), Gain::new());
        loop {
            let turn = self.compacts_alone(writer)?;
            let mut compactor = turn.known();
            let removed = self.remove_emptied(writer, &mut compactor, done);
            turn.learn(compactor.clone());
            removed?;
            compactor.cleaning = Some(Arc::clone(cleaning));
            lock(&writer.compactor).cleaning.clone_from(&compactor.cleaning);
            let tainted = self.tainted(&compactor, cleaning, limit, &mut clean)?;
            let (mut plan, mut copied) = (Plan { victims: Vec::new(), reason: Reason::Garbage }, 0);
            let level = tainted.iter().find(|c| c.is_eligible).map_or(0, |c| c.level);
            for candidate in tainted.iter().filter(|c| c.is_eligible && c.level == level) {
                let bytes = candidate.live_bytes + candidate.tombstone_bytes;
                if plan.victims.is_empty() || copied + bytes <= u64::from(self.birth.segment_bytes) {
                    copied += bytes;
                    plan.victims.push(candidate.id);
                }
            }
            let goes_on = gain.goes_on(tainted.iter().map(|c| c.live_bytes).sum());
            if plan.victims.is_empty() || !goes_on {
                let name = |c: &Candidate| self.segments.get(c.id).ok().map(|s| s.name());
                let mut left: Vec<String> = tainted.iter().filter_map(name).collect();
                left.extend(compactor.emptied.iter().map(|s| s.name()));
                return Ok(left);
            }
            let run = self.run(writer, &mut compactor, &plan, Goal::Level(level, 0), false, watch);
            turn.learn(compactor);
            let run = run?;
            if run.removed_segments > 0 {
                gain.removed();
            }
            done.add(&run);
        }
    }

    /// The segments that are to be emptied. `clean` has those that were looked through.
    fn tainted(
        &self,
        compactor: &Compactor,
        cleaning: &Cleaning,
        limit: Limit,
        clean: &mut BTreeSet<u64>,
    ) -> Result<Vec<Candidate>> {
        let mut tainted = Vec::new();
        for candidate in self.view(compactor, u64::MAX)?.segments {
            let Ok(segment) = self.segments.get(candidate.id) else { continue };
            if segment.ordinal > limit.last || (!segment.is_output && segment.ordinal >= limit.tail) {
                continue;
            }
            if candidate.dead_bytes() == 0 {
                if clean.contains(&segment.ordinal) {
                    continue;
                }
                if !self.names_erased(&segment, cleaning)? {
                    clean.insert(segment.ordinal);
                    continue;
                }
            }
            tainted.push(candidate);
        }
        Ok(tainted)
    }

    /// Whether a record of a segment is to be compressed anew, or to go.
    fn names_erased(&self, segment: &Arc<Segment>, cleaning: &Cleaning) -> Result<bool> {
        let file = self.segments.file(segment)?;
        let mut scan = self.segments.scan(segment, &*file, FIRST_RECORD, u64::MAX)?.once();
        while let Some(item) = scan.next()? {
            let Item::Record { bytes, .. } = item else { continue };
            let Ok(header) = value::peek(bytes) else { continue };
            let key = &bytes[header.key_at()..header.meta_at()];
            let is_removal = header.kind == Kind::Tombstone && cleaning.drops(key, header.sequence);
            if is_removal || cleaning.retired.contains(&header.dictionary) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Empties every segment of the key log that may hold an erased key. Names of the files that could not be.
    ///
    /// # Errors
    /// As of a checkpoint.
    pub(crate) fn clean_keys(&self) -> Result<Vec<String>> {
        let writer = self.write_side()?;
        let (until, mut gain) = (self.keys.end().ordinal, Gain::new());
        loop {
            let tainted: Vec<(u64, String)> = keys::tainted(self, until)?;
            let accounts = self.accounts.load_full();
            let goes_on = gain.goes_on(tainted.iter().map(|(ordinal, _)| accounts.live_key_bytes(*ordinal)).sum());
            if tainted.is_empty() || !goes_on {
                return Ok(tainted.into_iter().map(|(_, name)| name).collect());
            }
            for (ordinal, _) in &tainted {
                self.check_open()?;
                keys::empty_one(self, writer, *ordinal)?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::{Erasure, Options, Record, Store};

    #[test]
    fn a_segment_with_more_than_a_run_moves_is_emptied_in_many() {
        let temp = tempfile::tempdir().unwrap();
        let mut options = Options::new().free_space_floor(0).space_bound(None);
        // A run moves one version, a checkpoint the chain of one key.
        (options.limits.compact_ops, options.limits.key_round) = (0, 1);
        let store = Store::create(temp.path().join("a"), options).unwrap();
        for i in 0..40u8 {
            store.put(&Record::new(&[i], &[i; 100])).unwrap();
        }
        let what =
            Erasure { keys: Arc::new(|key| key == [7]), versions: Arc::new(|_, _| true), groups: Arc::new(|_| true) };
        let erased = store.erase(&what, &mut |_| ControlFlow::Continue(())).unwrap();
        assert!(erased.is_complete() && erased.versions == 1, "{erased:?}");
        assert_eq!(store.verify(&mut |_| {}).unwrap().problems, []);
        assert_eq!(store.keys().map(Result::unwrap).count(), 39);
    }

    #[test]
    fn what_a_backup_has_kept_goes_when_that_is_done() {
        let temp = tempfile::tempdir().unwrap();
        let store = Store::create(temp.path().join("a"), Options::new().free_space_floor(0).space_bound(None)).unwrap();
        store.put(&Record::new(b"a", &[1; 100])).unwrap();
        store.put(&Record::new(b"b", &[2; 100])).unwrap();
        store.remove(b"a").unwrap();
        let hold = |holds| lock(&store.shared.write_side().unwrap().checkpointer).holds = holds;
        hold(1);
        store.compact(false).unwrap();
        hold(0);
        assert!(store.path().join("value0.dat").exists(), "as this test takes for granted");
        let what =
            Erasure { keys: Arc::new(|key| key == b"a"), versions: Arc::new(|_, _| true), groups: Arc::new(|_| true) };
        let erased = store.erase(&what, &mut |_| ControlFlow::Continue(())).unwrap();
        assert!(erased.is_complete(), "{erased:?}");
        assert!(!store.path().join("value0.dat").exists());
        assert_eq!(store.verify(&mut |_| {}).unwrap().problems, []);
    }

    #[test]
    fn a_key_segment_is_emptied_though_puts_wait_for_the_value_log() {
        let temp = tempfile::tempdir().unwrap();
        let mut options = Options::new().free_space_floor(0).space_bound(None);
        options.limits.key_segment_bytes = 256;
        let store = Store::create(temp.path().join("a"), options).unwrap();
        // One key's head lies in another segment than the rest of its chain.
        for i in 0..8u8 {
            store.put(&Record::new(&[i % 4], &[i; 100]).time(i64::from(i))).unwrap();
            store.checkpoint().unwrap();
        }
        store.shared.write_side().unwrap().space_limit.store(0, crate::primitive::Ordering::Relaxed);
        let what =
            Erasure { keys: Arc::new(|key| key == [1]), versions: Arc::new(|_, _| true), groups: Arc::new(|_| true) };
        let erased = store.erase(&what, &mut |_| ControlFlow::Continue(())).unwrap();
        assert!(erased.is_complete() && erased.versions == 2, "{erased:?}");
        assert_eq!(store.verify(&mut |_| {}).unwrap().problems, []);
    }
}
