//! Pruning on demand by number, age or size, and its plan.

use std::collections::{HashMap, HashSet};

use filemap_io::Progress;

use crate::error::{Error, Result, StorageError, unless_cancelled};
use crate::handle::recover::Absent;
use crate::handle::retention::{Dropped, Needed, Retention, Spared};
use crate::handle::spot::{Spot, is_readable};
use crate::logs::values::read::Want;
use crate::record::Version;
use crate::store::Store;
use crate::store::ages::{Ages, Step};
use crate::upkeep::prune::PruneProgress;

/// Rule of [`Store::prune`]: the versions to keep.
///
/// `keep_versions` and `since_ms`: a version is kept if either rule keeps it. With `since_ms`
/// alone a key is removed if all its versions are older. `max_live_bytes` is applied after that:
/// it drops the oldest versions of any key until the live bytes fit; of equal times, those put
/// first. A version whose body a kept one refers to is kept with it. An unreadable version does
/// not count towards `keep_versions`: it stays, in addition to that number of readable ones. To
/// tell which is which, the kept versions of a key that loses something are read. Dependencies
/// that only the caller knows are given to [`Store::prune_with`].
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// # use std::ops::ControlFlow;
/// use filemap_core::prune::PruneRule;
/// let rule = PruneRule { keep_versions: Some(3), ..PruneRule::default() };
/// let pruned = store.prune(rule, &mut |_| ControlFlow::Continue(()))?;
/// assert_eq!(pruned.versions, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneRule {
    /// Number of newest versions to keep of each key.
    pub keep_versions: Option<u32>,
    /// Keeps versions of this time (ms since 1970) and later.
    pub since_ms: Option<i64>,
    /// Greatest number of bytes of live records in the value log.
    pub max_live_bytes: Option<u64>,
}

/// Totals of a prune or of its plan.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// # use std::ops::ControlFlow;
/// # let rule = filemap_core::prune::PruneRule { keep_versions: Some(3), ..Default::default() };
/// let pruned = store.prune_plan(rule, &mut |_| ControlFlow::Continue(()))?;
/// println!("{} versions in {} bytes", pruned.versions, pruned.bytes);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pruned {
    /// Keys with no version left.
    pub keys: u64,
    /// Versions, including those of the removed keys.
    pub versions: u64,
    /// Their bytes in the value log, freed by compaction.
    pub bytes: u64,
    /// Live bytes afterwards.
    pub live_bytes: u64,
    /// Keys with versions hidden by damage, and places where damage hides keys: these were left
    /// unchanged. A key may be counted more than once.
    pub hidden: u64,
    /// The prune was cancelled.
    pub is_cancelled: bool,
}

/// Passes of a prune by size: puts may use up the freed bytes meanwhile.
const TRIES: u32 = 4;
/// Keys scanned between two cancellation checks.
const KEYS_AT_ONCE: u64 = 1024;

impl Store {
    /// Drops versions that the rule does not keep. Reads and puts continue meanwhile; new versions
    /// are kept, unless older than everything kept. Takes a sequential pass over the key log,
    /// reads the key records of keys that may lose a version, and rewrites the chains that do.
    /// `max_live_bytes` takes another pass over all keys. Memory is bounded.
    ///
    /// The space is freed by [`Store::compact`], or in the background under the space bound. Until
    /// then a rebuild of the index from the value log would bring the versions back. `progress`
    /// may cancel; what was dropped stays dropped. A follower may return a dropped version until
    /// it next follows the writer.
    ///
    /// # Errors
    /// `InvalidOption` if the rule keeps everything, or no version;
    /// [`Error::ReadOnly`]; those of [`Store::checkpoint`].
    pub fn prune(&self, rule: PruneRule, progress: &mut Progress<'_, PruneProgress>) -> Result<Pruned> {
        self.prune_with(rule, &Spared::default(), progress)
    }

    /// [`Store::prune`] that spares more: keys that are not selected, and versions that others
    /// need, for as long as the youngest version that needs them is kept. Pass only needs of
    /// versions that are [`Store::kept_by`] the rule, or of keys that are not selected.
    ///
    /// # Errors
    /// As [`Store::prune`]; `InvalidOption` for `max_live_bytes` with a selection of keys.
    pub fn prune_with(
        &self,
        rule: PruneRule,
        spared: &Spared,
        progress: &mut Progress<'_, PruneProgress>,
    ) -> Result<Pruned> {
        spared.check(&rule)?;
        self.reading.check_open()?;
        self.upkeep()?;
        let mut dropped = Dropped::default();
        let ended = self.prune_into(rule, spared, progress, &mut dropped);
        let is_cancelled = matches!(ended, Err(Error::Cancelled));
        if !is_cancelled {
            ended?;
        }
        let live_bytes = self.reading.space().live_bytes;
        Ok(Pruned { live_bytes, is_cancelled, ..Pruned::from(dropped) })
    }

    fn prune_into(
        &self,
        rule: PruneRule,
        spared: &Spared,
        progress: &mut Progress<'_, PruneProgress>,
        dropped: &mut Dropped,
    ) -> Result<()> {
        if let Some(retention) = rule.retention() {
            self.upkeep()?.prune(retention, spared, progress, dropped)?;
        }
        let Some(max_bytes) = rule.max_live_bytes else { return Ok(()) };
        self.upkeep()?.checkpoint()?;
        let mut hidden = 0;
        for _ in 0..TRIES {
            let live_bytes = self.reading.space().live_bytes;
            if live_bytes <= max_bytes {
                break;
            }
            let survey = self.survey(None, spared, Ages::new(), progress)?;
            hidden = survey.dropped.hidden;
            let (_, step) = self.cut(survey.ages, None, spared, live_bytes - max_bytes, progress)?;
            let cut = step.map_or(Version { time_ms: i64::MAX, sequence: u64::MAX }, |step| step.cut());
            let so_far = dropped.versions;
            self.upkeep()?.prune(Retention::since(cut), spared, progress, dropped)?;
            if dropped.versions == so_far {
                break;
            }
        }
        dropped.hidden += hidden;
        Ok(())
    }

    /// Counts what [`Store::prune`] would drop. Changes nothing; any handle can do it. Scans every
    /// key and its chain.
    ///
    /// # Errors
    /// `InvalidOption`; [`Error::Cancelled`]; those of reading. Damaged keys are skipped and
    /// counted.
    pub fn prune_plan(&self, rule: PruneRule, progress: &mut Progress<'_, PruneProgress>) -> Result<Pruned> {
        self.prune_plan_with(rule, &Spared::default(), progress)
    }

    /// Counts what [`Store::prune_with`] would drop.
    ///
    /// # Errors
    /// As [`Store::prune_plan`].
    pub fn prune_plan_with(
        &self,
        rule: PruneRule,
        spared: &Spared,
        progress: &mut Progress<'_, PruneProgress>,
    ) -> Result<Pruned> {
        spared.check(&rule)?;
        self.reading.check_open()?;
        let survey = self.survey(rule.retention(), spared, Ages::new(), progress)?;
        let mut gone = survey.dropped;
        let live_bytes = survey.ages.all().bytes;
        let mut left_bytes = live_bytes;
        if let Some(max_bytes) = rule.max_live_bytes.filter(|max| live_bytes > *max) {
            let (ages, step) = self.cut(survey.ages, rule.retention(), spared, live_bytes - max_bytes, progress)?;
            let older = step.map_or(ages.all(), |step| ages.until(&step));
            left_bytes = left_bytes.saturating_sub(older.bytes);
            gone.add(older);
        }
        Ok(Pruned { live_bytes: left_bytes, ..Pruned::from(gone) })
    }

    /// The versions of a key that a rule keeps by number and age, newest first, including those
    /// that hold the bodies of others. Reads the key's records in the key log.
    ///
    /// # Errors
    /// Those of [`Store::versions_of`].
    pub fn kept_by(&self, rule: PruneRule, key: &[u8]) -> Result<Vec<Version>> {
        let all = self.reading.all_spots(key, self.reading.hash(key))?;
        Ok(rule.retention().unwrap_or_default().kept(all).iter().map(|spot| spot.version).collect())
    }

    /// The narrowest step of age in which the sum reaches `bytes`, and the counts for it; `None`
    /// if the total is less. Scans all versions again while the step is coarse.
    fn cut(
        &self,
        ages: Ages,
        rule: Option<Retention>,
        spared: &Spared,
        bytes: u64,
        progress: &mut Progress<'_, PruneProgress>,
    ) -> Result<(Ages, Option<Step>)> {
        let mut ages = ages;
        loop {
            match ages.step(bytes) {
                Some(step) if step.is_coarse => ages = self.survey(rule, spared, Ages::within(&step), progress)?.ages,
                step => return Ok((ages, step)),
            }
        }
    }

    /// Scans all versions of all keys: counts what a rule would drop, and the ages of the rest.
    fn survey(
        &self,
        rule: Option<Retention>,
        spared: &Spared,
        ages: Ages,
        progress: &mut Progress<'_, PruneProgress>,
    ) -> Result<Survey> {
        let mut survey = Survey { dropped: Dropped::default(), ages };
        let total = self.reading.latest().index.keys;
        let no_keys: HashSet<String> = self.absent().into_iter().filter(Absent::is_value).map(|a| a.file).collect();
        for (done, key) in (0u64..).zip(self.keys()) {
            if done % KEYS_AT_ONCE == 0 {
                unless_cancelled(progress(PruneProgress { done, total: total.max(done) }))?;
            }
            // A missing value segment hides no key: the key log still has it.
            if matches!(&key, Err(Error::Storage(StorageError::Corrupt { file, .. })) if no_keys.contains(file)) {
                continue;
            }
            let looked = key.and_then(|key| {
                let rule = if spared.covers(&key) { rule } else { None };
                let (all, kept) = self.kept_now(&key, rule.unwrap_or_default(), &spared.needed, &mut survey)?;
                self.add(&mut survey, &spared.needed, &key, &all, &kept)
            });
            match looked {
                Err(e) if e.is_corrupt() => survey.dropped.hidden += 1,
                looked => looked?,
            }
        }
        Ok(survey)
    }

    /// All versions of a key, and those that a rule keeps; counts the key as hidden if some of
    /// them are damaged.
    fn kept_now(
        &self,
        key: &[u8],
        rule: Retention,
        needed: &Needed,
        survey: &mut Survey,
    ) -> Result<(Vec<Spot>, Vec<Spot>)> {
        let mut is_again = false;
        loop {
            let all = self.reading.all_spots(key, self.reading.hash(key))?;
            let values = self.reading.values();
            let (kept, is_damaged) = rule.kept_readable(&all, needed, |s| is_readable(values, key, s, &all))?;
            // Compaction may have moved a record since its location was read.
            if is_damaged && !std::mem::replace(&mut is_again, true) {
                self.reading.catch_up()?;
                continue;
            }
            survey.dropped.hidden += u64::from(is_damaged);
            return Ok((all, kept));
        }
    }

    fn add(&self, survey: &mut Survey, needed: &Needed, key: &[u8], all: &[Spot], kept: &[Spot]) -> Result<()> {
        let is_kept = |s: &Spot| kept.binary_search_by(|k| s.version.cmp(&k.version)).is_ok();
        for spot in all.iter().filter(|s| !is_kept(s)) {
            survey.dropped.versions += 1;
            survey.dropped.bytes += self.stored_bytes(key, spot)?;
        }
        survey.dropped.keys += u64::from(kept.is_empty() && !all.is_empty());
        // A version is as young as the youngest that needs it or refers to it: both go together.
        let with = |spot: &Spot, user: Option<&Version>| user.map_or(spot.version, |user| spot.version.max(*user));
        let own_age = |spot: &Spot| with(spot, needed.get(&spot.version.sequence));
        let mut users: HashMap<u64, Version> = HashMap::new();
        for spot in kept.iter().filter(|s| s.refers_to != 0) {
            let youngest = users.entry(spot.refers_to).or_insert(spot.version);
            *youngest = own_age(spot).max(*youngest);
        }
        let mut youngest = None;
        for spot in kept {
            let age = own_age(spot).max(with(spot, users.get(&spot.version.sequence)));
            youngest = youngest.max(Some(age));
            survey.ages.add(age, Dropped { versions: 1, bytes: self.stored_bytes(key, spot)?, ..Dropped::default() });
        }
        if let Some(youngest) = youngest {
            survey.ages.add(youngest, Dropped { keys: 1, ..Dropped::default() });
        }
        Ok(())
    }

    /// Bytes of a version in the value log, chunks included.
    fn stored_bytes(&self, key: &[u8], spot: &Spot) -> Result<u64> {
        if !spot.chunked {
            return Ok(spot.extent.bytes());
        }
        match self.reading.with_spot(key, spot, Want::Head, |raw| raw.head().map(|h| h.stored_bytes)) {
            // Its chunks are no longer known.
            Err(e) if e.is_corrupt() => Ok(spot.extent.bytes()),
            bytes => bytes,
        }
    }
}

impl From<Dropped> for Pruned {
    fn from(dropped: Dropped) -> Pruned {
        let Dropped { keys, versions, bytes, hidden } = dropped;
        Pruned { keys, versions, bytes, hidden, ..Pruned::default() }
    }
}

impl Spared {
    /// Checks the rule, and that it can be applied to some keys only.
    ///
    /// # Errors
    /// `InvalidOption`.
    pub fn check(&self, rule: &PruneRule) -> Result<()> {
        rule.check()?;
        if self.keys.is_some() && rule.max_live_bytes.is_some() {
            let why = "a bound on live bytes applies to the whole store; prune selected keys by number or age";
            return Err(Error::option("prune", why));
        }
        Ok(())
    }
}

impl PruneRule {
    fn retention(&self) -> Option<Retention> {
        let retention = Retention::new(self.keep_versions, self.since_ms);
        (!retention.keeps_all()).then_some(retention)
    }

    /// Checks that the rule is given and keeps something.
    ///
    /// # Errors
    /// `InvalidOption`.
    pub fn check(&self) -> Result<()> {
        let fail = |why: &str| Err(Error::option("prune", why));
        if self.retention().is_none() && self.max_live_bytes.is_none() {
            return fail("this rule keeps everything: set a number of versions, an age or a size");
        }
        if self.keep_versions == Some(0) {
            return fail("keep_versions is 0: keep at least 1 version of each page, or remove the pages");
        }
        Ok(())
    }
}

struct Survey {
    dropped: Dropped,
    ages: Ages,
}
