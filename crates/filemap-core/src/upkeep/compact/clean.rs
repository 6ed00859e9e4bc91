//! The rewriting part of an erasure: empties every segment of either log that may hold bytes of
//! erased versions, and removes its file.
//!
//! A value segment may hold erased bytes if anything in it is dead, if a record names a retired
//! dictionary, or if a tombstone names an erased key. A key segment may if anything in it is dead;
//! the last one may beyond its end. Live bytes are known not to be erased.
//!
//! Invariant: tombstones of erased keys are dropped only in a second pass, when none of the
//! versions that they hide is left, so a repair in between brings nothing back.

use std::collections::BTreeSet;
use std::sync::Arc;

use filemap_io::Progress;

use crate::error::Result;
use crate::event::{Compacted, Reason};
use crate::failpoint::{Fault, planted};
use crate::format::names;
use crate::format::value::{self, Kind};
use crate::handle::retention::KeyFilter;
use crate::logs::scan::Item;
use crate::logs::segments::{FIRST_RECORD, Segment};
use crate::sync::{Ranked, lock};
use crate::upkeep::Upkeep;
use crate::upkeep::compact::Goal;
use crate::upkeep::compact::keys;
use crate::upkeep::compact::plan::{Candidate, Plan};
use crate::upkeep::state::{Cleaning, Compactor};

/// Rounds without gain after which cleaning a log is given up: damage may keep a segment, and
/// concurrent puts make new garbage.
const ROUNDS: u32 = 6;

/// Counts consecutive rounds without gain.
struct Gain {
    live: u64,
    idle: u32,
}

impl Gain {
    fn new() -> Gain {
        Gain { live: u64::MAX, idle: 0 }
    }

    /// Returns true to continue, given the live bytes in segments still to be emptied. A run that
    /// ends within a segment is a gain too.
    fn goes_on(&mut self, live: u64) -> bool {
        self.idle = if live < self.live { 0 } else { self.idle + 1 };
        self.live = live;
        self.idle < ROUNDS
    }

    /// Notes that files were removed.
    fn removed(&mut self) {
        self.live = u64::MAX;
    }
}

/// Ends the cleaning of a handle on drop.
struct Ended<'a>(&'a Upkeep);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        lock(&self.0.compactor).cleaning = None;
    }
}

/// The value segments to clean.
#[derive(Clone, Copy)]
struct Limit {
    /// Greatest ordinal.
    last: u64,
    /// Segments of the log proper from this ordinal on are excluded.
    tail: u64,
}

impl Upkeep {
    /// Empties every value segment that may hold erased bytes. Returns the names of files that
    /// could not be emptied, and of dictionaries still needed by records that cannot be
    /// recompressed.
    ///
    /// # Errors
    /// `Cancelled`; those of compaction.
    pub(crate) fn clean_values(
        &self,
        retired: &BTreeSet<u32>,
        is_erased: &KeyFilter,
        done: &mut Compacted,
        progress: &mut Progress<'_, Compacted>,
    ) -> Result<Vec<String>> {
        let below = lock(self.writing.log()).next_sequence;
        // Segments that got stuck before, perhaps because of concurrent puts, are tried again.
        {
            let mut compactor = lock(&self.compactor);
            compactor.stuck.clear();
            compactor.cut.clear();
        }
        self.roll_garbage(Goal::Level(0, 0))?;
        // Later puts are not erased.
        let tail = self.reading.log_end().0.ordinal;
        let _ended = Ended(self);
        let tombstones = Some((Arc::clone(is_erased), below));
        let first = tombstones.clone().filter(|_| planted(Fault::TombstonesErasedAtOnce));
        for tombstones in [first, tombstones] {
            let last = self.reading.values().segments.all().last().map_or(0, |s| s.ordinal);
            let needed = Ranked::default();
            let cleaning = Arc::new(Cleaning { retired: retired.clone(), tombstones, needed });
            let mut left = self.clean_with(&cleaning, Limit { last, tail }, done, progress)?;
            left.extend(lock(&cleaning.needed).iter().map(|id| names::dictionary(*id)));
            if !left.is_empty() {
                return Ok(left);
            }
        }
        Ok(Vec::new())
    }

    /// One pass: runs of compaction until no segment is left to empty.
    fn clean_with(
        &self,
        cleaning: &Arc<Cleaning>,
        limit: Limit,
        done: &mut Compacted,
        progress: &mut Progress<'_, Compacted>,
    ) -> Result<Vec<String>> {
        let (mut clean, mut gain) = (BTreeSet::new(), Gain::new());
        loop {
            let turn = self.turn_to_compact()?;
            let mut compactor = turn.known();
            let removed = self.remove_emptied(&mut compactor, done);
            turn.learn(compactor.clone());
            removed?;
            compactor.cleaning = Some(Arc::clone(cleaning));
            lock(&self.compactor).cleaning.clone_from(&compactor.cleaning);
            let tainted = self.tainted(&compactor, cleaning, limit, &mut clean)?;
            let (mut plan, mut copied) = (Plan { victims: Vec::new(), reason: Reason::Garbage }, 0);
            let level = tainted.iter().find(|c| c.is_eligible).map_or(0, |c| c.level);
            for candidate in tainted.iter().filter(|c| c.is_eligible && c.level == level) {
                let bytes = candidate.live_bytes + candidate.tombstone_bytes;
                if plan.victims.is_empty() || copied + bytes <= u64::from(self.reading.birth().segment_bytes) {
                    copied += bytes;
                    plan.victims.push(candidate.id);
                }
            }
            let goes_on = gain.goes_on(tainted.iter().map(|c| c.live_bytes).sum());
            if plan.victims.is_empty() || !goes_on {
                let name = |c: &Candidate| self.reading.values().segments.get(c.id).ok().map(|s| s.name());
                let mut left: Vec<String> = tainted.iter().filter_map(name).collect();
                left.extend(compactor.emptied.iter().map(|s| s.name()));
                return Ok(left);
            }
            let run = self.run(&mut compactor, &plan, Goal::Level(level, 0), false, progress);
            turn.learn(compactor);
            let run = run?;
            if run.removed_segments > 0 {
                gain.removed();
            }
            done.add(&run);
        }
    }

    /// Returns the segments to empty. `clean` collects those examined and found clean.
    fn tainted(
        &self,
        compactor: &Compactor,
        cleaning: &Cleaning,
        limit: Limit,
        clean: &mut BTreeSet<u64>,
    ) -> Result<Vec<Candidate>> {
        let mut tainted = Vec::new();
        for candidate in self.view(compactor, u64::MAX)?.segments {
            let Ok(segment) = self.reading.values().segments.get(candidate.id) else { continue };
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

    /// Returns true if a segment has a record to recompress or to drop.
    fn names_erased(&self, segment: &Arc<Segment>, cleaning: &Cleaning) -> Result<bool> {
        let file = self.reading.values().segments.file(segment)?;
        let mut scan = self.reading.values().scan(segment, &*file, FIRST_RECORD, u64::MAX)?.once();
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

    /// Empties every key-log segment that may hold an erased key. Returns the names of files that
    /// could not be emptied.
    ///
    /// # Errors
    /// As of a checkpoint.
    pub(crate) fn clean_keys(&self) -> Result<Vec<String>> {
        let (until, mut gain) = (self.reading.keys().end().ordinal, Gain::new());
        loop {
            let tainted: Vec<(u64, String)> = keys::tainted(self, until)?;
            let segment_table = Arc::clone(&self.reading.segment_table());
            let goes_on = gain.goes_on(tainted.iter().map(|(ordinal, _)| segment_table.live_key_bytes(*ordinal)).sum());
            if tainted.is_empty() || !goes_on {
                return Ok(tainted.into_iter().map(|(_, name)| name).collect());
            }
            for (ordinal, _) in &tainted {
                self.reading.check_open()?;
                keys::empty_one(self, *ordinal)?;
            }
        }
    }
}
