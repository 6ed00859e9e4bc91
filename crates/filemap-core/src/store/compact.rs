//! Compaction and recompression on demand, and the compaction plan.

use std::ops::ControlFlow;

use filemap_io::Progress;

use crate::error::{Error, Result};
use crate::event::{Compacted, Reason};
use crate::logs::segments::{FIRST_RECORD, Segment};
use crate::store::Store;
use crate::upkeep::compact::{self, Goal};

/// Amount of garbage that a compaction frees.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// # use std::ops::ControlFlow;
/// use filemap_core::compact::CompactionGoal;
/// store.compact_with(CompactionGoal::Bound, &mut |_| ControlFlow::Continue(()))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionGoal {
    /// All dead bytes.
    NoGarbage,
    /// As much as the bound on space amplification requires.
    Bound,
}

impl From<CompactionGoal> for Goal {
    fn from(goal: CompactionGoal) -> Goal {
        match goal {
            CompactionGoal::NoGarbage => Goal::NoGarbage,
            CompactionGoal::Bound => Goal::Bound,
        }
    }
}

/// The plan of a compaction that began now; see [`Store::compaction_plan`].
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// use filemap_core::compact::CompactionGoal;
/// let plan = store.compaction_plan(CompactionGoal::NoGarbage)?;
/// assert_eq!(plan.freed_bytes, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CompactionPlan {
    /// Numbers of the segments to empty.
    pub segments: Vec<u16>,
    /// The reason for this choice, or for none.
    pub reason: Reason,
    /// Bytes to copy.
    pub copied_bytes: u64,
    /// Bytes to be freed.
    pub freed_bytes: u64,
}

/// One segment of the value log; see [`Store::segments`].
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// for segment in store.segments() {
///     println!("{}: {} live bytes", segment.id, segment.live_bytes);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Number in the file name.
    pub id: u16,
    /// Length of the file.
    pub bytes: u64,
    /// Time at which it was begun, in ms since 1970.
    pub begun_ms: i64,
    /// Position in the order in which segments were begun.
    pub ordinal: u64,
    /// Written by compaction.
    pub is_compacted: bool,
    /// Live bytes as of the last checkpoint.
    pub live_bytes: u64,
    /// Bytes of tombstones.
    pub tombstone_bytes: u64,
    /// Dead bytes.
    pub dead_bytes: u64,
    /// Bytes that no checkpoint has indexed yet.
    pub unindexed_bytes: u64,
}

impl Store {
    /// Frees all bytes of the value log that are dead at the call. Reads and puts continue
    /// meanwhile. Live records beside dead bytes are copied, which takes free space of about one
    /// segment.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed) if the handle is closed meanwhile; those of reading
    /// and writing. No error loses data.
    pub fn compact(&self) -> Result<Compacted> {
        self.compact_with(CompactionGoal::NoGarbage, &mut |_| ControlFlow::Continue(()))
    }

    /// [`Store::compact`] with a goal and a progress callback, called at every quarter of a
    /// megabyte read. If it cancels, the current run is abandoned, the results of earlier runs
    /// stay, and [`Reason::Cancelled`] is returned.
    ///
    /// # Errors
    /// As [`Store::compact`].
    pub fn compact_with(&self, goal: CompactionGoal, progress: &mut Progress<'_, Compacted>) -> Result<Compacted> {
        self.unless_closed(self.give_back(goal.into(), progress))
    }

    /// Recompresses all pages in the store at the call, at a level and with the best current
    /// dictionaries, as upkeep does with old ones in the background. Segments already compressed
    /// at this level or a higher one are skipped. Takes as long as compressing all pages on one
    /// core.
    ///
    /// # Errors
    /// As [`Store::compact`]; `InvalidOption` for a level outside 1 to 19.
    pub fn recompress(&self, level: i32) -> Result<Compacted> {
        self.recompress_with(level, &mut |_| ControlFlow::Continue(()))
    }

    /// [`Store::recompress`] with a progress callback, as in [`Store::compact_with`].
    ///
    /// # Errors
    /// As [`Store::recompress`].
    pub fn recompress_with(&self, level: i32, progress: &mut Progress<'_, Compacted>) -> Result<Compacted> {
        let level = u8::try_from(level).ok().filter(|l| (1..=19).contains(l));
        let level = level.ok_or_else(|| Error::option("level", "must be 1 to 19"))?;
        self.unless_closed(self.give_back(Goal::Level(level, i64::MAX), progress))
    }

    /// Replaces any error by `Closed` if the handle was closed meanwhile: another writer may have
    /// removed the files being read.
    fn unless_closed<T>(&self, done: Result<T>) -> Result<T> {
        match done {
            Err(e) => Err(self.reading.check_open().err().unwrap_or(e)),
            done => done,
        }
    }

    fn give_back(&self, goal: Goal, progress: &mut Progress<'_, Compacted>) -> Result<Compacted> {
        self.reading.check_open()?;
        self.upkeep()?.checkpoint()?;
        self.upkeep()?.roll_garbage(goal)?;
        // Records that die from now on are left to the next call, or this loop might never end.
        let newest = || self.reading.values().segments.all().last().map_or(0, |s| s.ordinal);
        let (mut last, mut again) = (newest(), 2);
        let mut all: Option<Compacted> = None;
        loop {
            let before = all;
            let mut told = |run: Compacted| {
                let mut sum = before.unwrap_or(run);
                if before.is_some() {
                    sum.add(&run);
                }
                progress(sum)
            };
            let run = match self.upkeep()?.compact_once(goal, last, &mut told) {
                Err(Error::Cancelled) => {
                    let done = all.unwrap_or_else(|| Compacted::nothing(Reason::Cancelled));
                    return Ok(Compacted { reason: Reason::Cancelled, ..done });
                }
                run => run?,
            };
            let is_done = run.removed_segments == 0 && run.copied_bytes == 0;
            match &mut all {
                None => all = Some(run),
                Some(all) => all.add(&run),
            }
            let space = self.reading.space();
            if is_done && again > 0 && space.tombstone_bytes > 0 && space.live_bytes == 0 {
                // Tombstones that were copied because older versions of their keys still existed.
                (last, again) = (newest(), again - 1);
                continue;
            }
            if is_done {
                let nothing = || Compacted::nothing(Reason::AllLive);
                return Ok(all.unwrap_or_else(nothing));
            }
        }
    }

    /// The plan of [`Store::compact_with`], as known at the last checkpoint. Changes nothing; any
    /// handle can return it.
    ///
    /// # Errors
    /// `Io` if a segment cannot be measured.
    pub fn compaction_plan(&self, goal: CompactionGoal) -> Result<CompactionPlan> {
        self.reading.check_open()?;
        let (view, plan) = compact::planned(&self.reading, self.upkeep.as_deref(), goal.into())?;
        let chosen = || view.segments.iter().filter(|s| plan.victims.contains(&s.id));
        Ok(CompactionPlan {
            copied_bytes: chosen().map(|s| s.live_bytes + s.tombstone_bytes).sum(),
            freed_bytes: chosen().map(|s| s.dead_bytes()).sum(),
            segments: plan.victims.clone(),
            reason: plan.reason,
        })
    }

    /// The segments of the value log, in the order in which they were begun.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        let all = self.reading.values().segments.all();
        let info = |s: &std::sync::Arc<Segment>| {
            let space = self.reading.space_of(s)?;
            Some(SegmentInfo {
                id: s.id,
                bytes: FIRST_RECORD
                    + space.live_bytes
                    + space.tombstone_bytes
                    + space.dead_bytes
                    + space.unindexed_bytes,
                begun_ms: s.created_ms,
                ordinal: s.ordinal,
                is_compacted: s.is_output,
                live_bytes: space.live_bytes,
                tombstone_bytes: space.tombstone_bytes,
                dead_bytes: space.dead_bytes,
                unindexed_bytes: space.unindexed_bytes,
            })
        };
        all.iter().filter_map(info).collect()
    }
}
