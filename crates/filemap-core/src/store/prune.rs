//! Pruning on demand: by number, by age, by size; and what it would drop.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::error::{Error, Result};
use crate::state::{Dropped, Retention, Spot};
use crate::store::Store;
use crate::values::read::Want;

/// What [`Store::prune`] keeps.
///
/// `keep_versions` and `since_ms`: a version goes only if each of those that are given lets it go, so what either keeps is
/// kept. With `since_ms` alone a key all of whose versions are older goes altogether. `max_live_bytes` comes after that, and
/// drops the oldest of what is left, whichever keys' they are, until what lives fits. Whatever a kept version refers to for
/// its body is kept with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneRule {
    /// Keeps so many of the newest versions of each key.
    pub keep_versions: Option<u32>,
    /// Keeps versions of this time (ms since 1970) and later.
    pub since_ms: Option<i64>,
    /// Bytes that records of live versions may take in the value log.
    pub max_live_bytes: Option<u64>,
}

/// How far a prune is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PruneProgress {
    /// Done of the present pass, in a unit of its own.
    pub done: u64,
    /// All of the present pass.
    pub total: u64,
}

/// What a prune has dropped, or would drop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pruned {
    /// Keys of which nothing is left.
    pub keys: u64,
    /// Versions, of those keys and of others.
    pub versions: u64,
    /// Bytes that they took in the value log; compaction gives them back.
    pub bytes: u64,
    /// Bytes that live after it.
    pub live_bytes: u64,
    /// Whether it was told to stop before it was through.
    pub is_stopped: bool,
}

type Watch<'a> = &'a mut dyn FnMut(PruneProgress) -> ControlFlow<()>;

/// By size is tried so often: what is put meanwhile may take what was gained.
const TRIES: u32 = 4;
/// So many keys are looked at between two looks at whether to go on.
const KEYS_AT_ONCE: u64 = 1024;

impl Store {
    /// Drops versions that the rule does not keep. Reads and puts go on meanwhile; what is put meanwhile is kept, unless it is
    /// older than all that is. Takes a sequential pass over the key log, reads the key records of the keys that may lose a
    /// version, and writes the chains that do; `max_live_bytes` takes a pass over all keys besides. Memory is bounded.
    ///
    /// The space is given back by [`Store::compact`], or in the background when the bound asks for it. Until then a rebuild of
    /// the index from the value log would bring the versions back. `watch` is told how far it is, and may break it off: what was
    /// dropped stays so. A read-only handle of another process may show a dropped version until it next follows the writer.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] when the rule keeps everything, or no version at all; [`Error::ReadOnly`]; those of
    /// [`Store::checkpoint`].
    pub fn prune(&self, rule: PruneRule, watch: Watch<'_>) -> Result<Pruned> {
        rule.check()?;
        self.shared.check_open()?;
        self.shared.write_side()?;
        let mut dropped = Dropped::default();
        let ended = self.prune_into(rule, watch, &mut dropped);
        let is_stopped = matches!(ended, Err(Error::Stopped));
        if !is_stopped {
            ended?;
        }
        let live_bytes = self.shared.space().live_bytes;
        Ok(Pruned { keys: dropped.keys, versions: dropped.versions, bytes: dropped.bytes, live_bytes, is_stopped })
    }

    fn prune_into(&self, rule: PruneRule, watch: Watch<'_>, dropped: &mut Dropped) -> Result<()> {
        if let Some(retention) = rule.retention() {
            self.shared.prune(retention, &mut |done, total| watch(PruneProgress { done, total }), dropped)?;
        }
        let Some(max_bytes) = rule.max_live_bytes else { return Ok(()) };
        self.shared.checkpoint()?;
        for _ in 0..TRIES {
            let live_bytes = self.shared.space().live_bytes;
            if live_bytes <= max_bytes {
                return Ok(());
            }
            let survey = self.survey(None, watch)?;
            let cut_ms = survey.ages.cut_ms(live_bytes - max_bytes);
            let before = *dropped;
            let mut watch = |done, total| watch(PruneProgress { done, total });
            self.shared.prune(Retention::since(cut_ms), &mut watch, dropped)?;
            if *dropped == before {
                return Ok(());
            }
        }
        Ok(())
    }

    /// What [`Store::prune`] would drop. Changes nothing; any handle can tell. Looks at every key and the chain of its versions.
    ///
    /// # Errors
    /// [`Error::InvalidOption`]; [`Error::Stopped`]; those of reading. Damaged keys are passed over.
    pub fn prune_plan(&self, rule: PruneRule, watch: Watch<'_>) -> Result<Pruned> {
        rule.check()?;
        self.shared.check_open()?;
        let survey = self.survey(rule.retention(), watch)?;
        let mut gone = survey.dropped;
        let live_bytes = survey.ages.all().bytes;
        let mut left_bytes = live_bytes;
        if let Some(max_bytes) = rule.max_live_bytes.filter(|max| live_bytes > *max) {
            let older = survey.ages.before(survey.ages.cut_ms(live_bytes - max_bytes));
            left_bytes -= older.bytes;
            gone.add(older);
        }
        let Dropped { keys, versions, bytes } = gone;
        Ok(Pruned { keys, versions, bytes, live_bytes: left_bytes, is_stopped: false })
    }

    /// Looks at all versions of all keys: what a rule would drop, and how old the rest is.
    fn survey(&self, rule: Option<Retention>, watch: Watch<'_>) -> Result<Survey> {
        let mut survey = Survey { dropped: Dropped::default(), ages: Ages::new(MOST_STEPS) };
        let total = self.shared.latest.load().index.keys;
        for (done, key) in (0u64..).zip(self.keys()) {
            if done % KEYS_AT_ONCE == 0 && watch(PruneProgress { done, total: total.max(done) }).is_break() {
                return Err(Error::Stopped);
            }
            let looked = key.and_then(|key| {
                let all = self.shared.looking_again(|| self.shared.all_spots(&key, self.shared.hash(&key)))?;
                self.add(&mut survey, rule.unwrap_or_default(), &key, all)
            });
            match looked {
                Err(e) if !e.is_corrupt() => return Err(e),
                _ => {}
            }
        }
        Ok(survey)
    }

    fn add(&self, survey: &mut Survey, rule: Retention, key: &[u8], all: Vec<Spot>) -> Result<()> {
        let kept = rule.kept(all.clone());
        for spot in all.iter().filter(|s| !kept.contains(s)) {
            survey.dropped.versions += 1;
            survey.dropped.bytes += self.stored_bytes(key, spot)?;
        }
        survey.dropped.keys += u64::from(kept.is_empty() && !all.is_empty());
        let mut youngest_ms = i64::MIN;
        for spot in &kept {
            // A version is as young as the youngest that refers to it: it goes with that.
            let users = kept.iter().filter(|s| s.refers_to == spot.version.sequence).map(|s| s.version.time_ms);
            let age_ms = users.chain([spot.version.time_ms]).max().unwrap_or(i64::MIN);
            youngest_ms = youngest_ms.max(age_ms);
            survey.ages.add(age_ms, Dropped { keys: 0, versions: 1, bytes: self.stored_bytes(key, spot)? });
        }
        if !kept.is_empty() {
            survey.ages.add(youngest_ms, Dropped { keys: 1, versions: 0, bytes: 0 });
        }
        Ok(())
    }

    /// What a version takes in the value log, its chunks included.
    fn stored_bytes(&self, key: &[u8], spot: &Spot) -> Result<u64> {
        if !spot.chunked {
            return Ok(spot.extent.bytes());
        }
        self.shared.with_spot(key, spot, Want::Head, |raw| raw.head().map(|h| h.stored_bytes))
    }
}

impl PruneRule {
    fn retention(&self) -> Option<Retention> {
        let retention = Retention::new(self.keep_versions, self.since_ms);
        (!retention.keeps_all()).then_some(retention)
    }

    fn check(&self) -> Result<()> {
        let fail = |why: &str| Err(Error::InvalidOption { name: "prune", why: why.into() });
        if self.retention().is_none() && self.max_live_bytes.is_none() {
            return fail("without a rule everything is kept; give a number of versions, an age or a size");
        }
        if self.keep_versions == Some(0) {
            return fail("it must keep at least 1 version; to remove pages, remove them");
        }
        Ok(())
    }
}

struct Survey {
    dropped: Dropped,
    ages: Ages,
}

/// Times are told apart in at most so many steps.
const MOST_STEPS: usize = 1 << 18;

/// How much lives by its time: in steps of one millisecond, and of twice as many whenever there are too many steps.
struct Ages {
    step_ms: i64,
    most_steps: usize,
    steps: BTreeMap<i64, Dropped>,
}

impl Ages {
    fn new(most_steps: usize) -> Ages {
        Ages { step_ms: 1, most_steps, steps: BTreeMap::new() }
    }

    fn add(&mut self, time_ms: i64, what: Dropped) {
        self.steps.entry(time_ms.div_euclid(self.step_ms)).or_default().add(what);
        while self.steps.len() > self.most_steps && self.step_ms < i64::MAX / 2 {
            self.step_ms *= 2;
            let finer = std::mem::take(&mut self.steps);
            for (step, what) in finer {
                self.steps.entry(step.div_euclid(2)).or_default().add(what);
            }
        }
    }

    /// The least time before which so many bytes lie; all times if there are not so many.
    fn cut_ms(&self, bytes: u64) -> i64 {
        let mut sum = 0;
        for (step, what) in &self.steps {
            sum += what.bytes;
            if sum >= bytes {
                return step.saturating_add(1).saturating_mul(self.step_ms);
            }
        }
        i64::MAX
    }

    /// What lies before a time that `cut_ms` gave.
    fn before(&self, cut_ms: i64) -> Dropped {
        let mut sum = Dropped::default();
        self.steps.iter().filter(|(step, _)| step.saturating_mul(self.step_ms) < cut_ms).for_each(|(_, d)| sum.add(*d));
        sum
    }

    fn all(&self) -> Dropped {
        let mut sum = Dropped::default();
        self.steps.values().for_each(|d| sum.add(*d));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(bytes: u64) -> Dropped {
        Dropped { keys: 0, versions: 1, bytes }
    }

    #[test]
    fn a_cut_leaves_no_more_than_is_wanted_and_no_less_than_a_step_before_it() {
        let mut ages = Ages::new(100);
        [(-5, 10), (0, 20), (7, 30), (8, 40)].iter().for_each(|&(time, b)| ages.add(time, bytes(b)));
        let cuts = [(1, -4), (10, -4), (11, 1), (30, 1), (31, 8), (61, 9), (100, 9), (101, i64::MAX)];
        for (wanted, cut_ms) in cuts {
            assert_eq!(ages.cut_ms(wanted), cut_ms, "{wanted}");
        }
        assert_eq!(ages.before(8), Dropped { keys: 0, versions: 3, bytes: 60 });
        assert_eq!(ages.all().bytes, 100);
    }

    #[test]
    fn too_many_steps_become_longer_ones_and_nothing_is_lost() {
        let mut ages = Ages::new(10);
        for time in -1000..1000 {
            ages.add(time * 977, bytes(1));
        }
        ages.add(i64::MIN, bytes(1));
        ages.add(i64::MAX, bytes(1));
        assert!(ages.steps.len() <= 10);
        assert_eq!(ages.all(), Dropped { keys: 0, versions: 2002, bytes: 2002 });
        let cut_ms = ages.cut_ms(500);
        assert!(ages.before(cut_ms).bytes >= 500);
        assert_eq!(ages.cut_ms(3000), i64::MAX);
    }
}
