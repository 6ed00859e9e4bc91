//! The oracle that knows everything: every put and removal in order, what of it was
//! acknowledged, and up to where it is durable. It judges what a store shows of a key.
//!
//! After a power loss all that was durable must be there; of the rest any part may be, each record
//! by itself. After a kill all that was acknowledged must be there.

mod one;

use std::collections::BTreeMap;
use std::sync::Arc;

use filemap_core::Version;

use crate::floor;

/// No two bodies have these first bytes in common.
const TEXT_BYTES: usize = 8;

/// The event before the check of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Through the handle that wrote, or one that follows it, or after the process was killed: all
    /// that was acknowledged is there.
    Kill,
    /// After a power loss, or after a failed sync: all that is durable is there.
    PowerLoss,
}

/// One put or remove of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its place among all operations.
    pub number: u64,
    /// True if it returned without an error.
    pub acknowledged: bool,
    /// True if a prune may have dropped it, or only something that may yet be lost hides it.
    pub may_be_gone: bool,
    /// The number of the put that may be there instead.
    pub instead: Option<u64>,
    /// The effect.
    pub what: What,
}

/// See [`Step`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A version was put.
    Put {
        /// Its time.
        time_ms: i64,
        /// Its sequence, once it is known.
        sequence: Option<u64>,
        /// Its body.
        body: Arc<[u8]>,
        /// Its meta.
        meta: Arc<[u8]>,
    },
    /// All earlier versions were removed.
    Remove,
}

/// A version that a store shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Time and sequence.
    pub version: Version,
    /// Its body.
    pub body: Vec<u8>,
    /// Its meta.
    pub meta: Vec<u8>,
}

/// The oracle of a store that knows every operation.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    keys: BTreeMap<Vec<u8>, Vec<Step>>,
    next: u64,
    durable_below: u64,
    /// Least number of versions that a store keeps, if not all.
    pub keep: Option<u32>,
    /// The prune that was begun, and whose end is not settled.
    pruning: Option<Pruning>,
    /// The key that this is about, if it is an erasure and not of all keys.
    only: Option<Vec<u8>>,
    /// Number of erasure rules that were made, durably.
    pub rules: usize,
    /// Versions dropped before, though not removed: no record says so, and as long as they are in
    /// the value log a repair brings them back.
    dropped: BTreeMap<Vec<u8>, Vec<Step>>,
    /// The key and body of a removal of one version that was begun, and whose end is not settled.
    removing: Option<(Vec<u8>, Vec<u8>)>,
}

/// Versions that a prune keeps: those that either rule keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pruning {
    /// Keep this number of the newest versions.
    pub keep: Option<u32>,
    /// Keep versions of this time or a later one.
    pub since_ms: Option<i64>,
}

impl Oracle {
    /// Of an empty store.
    pub fn new(keep: Option<u32>) -> Oracle {
        Oracle { keep, ..Oracle::default() }
    }

    /// Every key that was ever named.
    pub fn keys(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.keys.keys()
    }

    /// The number that the next operation gets: what was begun before has lower ones.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Notes an operation that begins; its number.
    pub fn begin(&mut self, key: &[u8], what: What) -> u64 {
        let number = self.next;
        self.next += 1;
        self.keys.entry(key.to_vec()).or_default().push(Step {
            number,
            acknowledged: false,
            may_be_gone: false,
            instead: None,
            what,
        });
        self.may_share(key);
        number
    }

    /// The operation returned without an error; for a put, with this version.
    pub fn acknowledge(&mut self, key: &[u8], number: u64, version: Option<Version>) {
        let Some(step) = self.keys.get_mut(key).and_then(|s| s.iter_mut().find(|s| s.number == number)) else { return };
        step.acknowledged = true;
        if let (What::Put { sequence, .. }, Some(version)) = (&mut step.what, version) {
            *sequence = Some(version.sequence);
        }
    }

    /// The operation did nothing after all.
    pub fn forget(&mut self, key: &[u8], number: u64) {
        if let Some(steps) = self.keys.get_mut(key) {
            steps.retain(|s| s.number != number);
        }
    }

    /// Everything that was acknowledged and has a lower number is durable.
    pub fn durable(&mut self, below: u64) {
        self.durable_below = self.durable_below.max(below);
    }

    /// A prune begins: from now on what it drops may be gone.
    pub fn prune(&mut self, pruning: Pruning) {
        self.unsettle();
        self.pruning = Some(pruning);
    }

    /// The prune or erasure that was begun last failed: what it drops may be lost permanently.
    fn unsettle(&mut self) {
        let (Some(pruning), only) = (self.pruning.take(), self.only.take()) else { return };
        for (_, steps) in self.keys.iter_mut().filter(|(key, _)| only.as_ref().is_none_or(|only| only == *key)) {
            let all = steps.clone();
            steps.iter_mut().filter(|s| pruning.may_drop(s, &all)).for_each(|s| s.may_be_gone = true);
        }
    }

    /// An erasure of a key begins, whose rule is durable: from now on any version of it may be
    /// gone.
    pub fn erase(&mut self, key: &[u8]) {
        self.unsettle();
        (self.pruning, self.only) = (Some(Pruning { keep: None, since_ms: Some(i64::MAX) }), Some(key.to_vec()));
        self.rules += 1;
    }

    /// The key whose erasure was begun and did not end.
    pub fn erasing(&self) -> Option<&Vec<u8>> {
        self.only.as_ref()
    }

    /// The erasure that began before an operation is complete: nothing comes back, by no repair
    /// either. Texts that should be nowhere now.
    pub fn erased(&mut self, key: &[u8], begun: u64, shown: &BTreeMap<Vec<u8>, Vec<Shown>>) -> Vec<Vec<u8>> {
        (self.pruning, self.only) = (None, None);
        let shown = shown.get(key).map_or(&[][..], |list| list);
        let steps = self.keys.entry(key.to_vec()).or_default();
        let mut gone: Vec<Step> = steps.extract_if(.., |s| s.number < begun).collect();
        gone.extend(self.dropped.remove(key).unwrap_or_default());
        // What was put meanwhile may have gone with the rest.
        steps.iter_mut().filter(|s| !shown.iter().any(|one| matches(s, one))).for_each(|s| s.may_be_gone = true);
        let stays = |text: &[u8]| steps.iter().any(|s| s.body().is_some_and(|body| body.starts_with(text)));
        let texts = gone.iter().filter_map(|s| s.body()?.get(..TEXT_BYTES));
        texts.filter(|text| !stays(text)).map(<[u8]>::to_vec).collect()
    }

    /// Returns whether a put of an equal body need not refer to the version before, which may be
    /// dropped soon.
    pub fn may_put_anew(&self) -> bool {
        self.only.is_some() || self.removing.is_some()
    }

    /// The prune of a key that was begun, and whose end is not settled.
    fn pruning_of(&self, key: &[u8]) -> Option<Pruning> {
        self.pruning.filter(|_| self.only.as_ref().is_none_or(|only| only == key))
    }

    /// The prune that began before an operation has returned, and what this store shows is what it
    /// has left, for ever.
    pub fn pruned(&mut self, begun: u64, shown: &BTreeMap<Vec<u8>, Vec<Shown>>) {
        let (Some(pruning), only) = (self.pruning.take(), self.only.take()) else { return };
        for (key, steps) in self.keys.iter_mut().filter(|(key, _)| only.as_ref().is_none_or(|only| only == *key)) {
            let shown = shown.get(key).map_or(&[][..], |list| list);
            let all = steps.clone();
            // What was put or removed meanwhile may be what hides it, and may be lost.
            let is_hidden = all.iter().any(|s| s.number >= begun);
            for step in steps.iter_mut().filter(|s| is_hidden && pruning.may_drop(s, &all)) {
                step.may_be_gone = true;
            }
            let is_dropped = |s: &mut Step| {
                s.acknowledged && !is_hidden && pruning.may_drop(s, &all) && !shown.iter().any(|one| matches(s, one))
            };
            self.dropped.entry(key.clone()).or_default().extend(steps.extract_if(.., is_dropped));
        }
    }

    /// As of a repair that had nothing but the value log.
    pub fn repaired(&self) -> Oracle {
        let mut next = self.clone();
        for (key, dropped) in std::mem::take(&mut next.dropped) {
            let steps = next.keys.entry(key).or_default();
            steps.extend(dropped.into_iter().map(|s| Step { may_be_gone: true, ..s }));
            steps.sort_by_key(|s| s.number);
        }
        next
    }

    /// As of a moment: what was acknowledged before it must be there, and of the rest any part may
    /// be.
    pub fn as_of(&self, number: u64) -> Oracle {
        Oracle { durable_below: number, ..self.clone() }
    }

    /// Returns whether a version may be missing: nothing says that it was dropped, nor that it was
    /// not.
    pub fn may_lack(&self, key: &[u8], wanted: u64) -> bool {
        let is_it = |s: &&Step| matches!(s.what, What::Put { sequence: Some(sequence), .. } if sequence == wanted);
        self.keys.get(key).and_then(|steps| steps.iter().find(is_it)).is_some_and(|s| s.may_be_gone)
    }

    /// The newest body that a live handle shows of a key.
    pub fn newest(&self, key: &[u8]) -> Option<Arc<[u8]>> {
        let puts = self.live(key).filter_map(|step| match &step.what {
            What::Put { time_ms, sequence, body, .. } => Some((*time_ms, *sequence, body)),
            What::Remove => None,
        });
        puts.max_by_key(|put| (put.0, put.1)).map(|put| Arc::clone(put.2))
    }

    /// All versions that a live handle shows of a key when nothing of it is uncertain, newest
    /// first.
    pub fn versions(&self, key: &[u8]) -> Vec<Shown> {
        let shown = self.live(key).filter_map(|step| match &step.what {
            What::Put { time_ms, sequence: Some(sequence), body, meta } => {
                let version = Version { time_ms: *time_ms, sequence: *sequence };
                Some(Shown { version, body: body.to_vec(), meta: meta.to_vec() })
            }
            _ => None,
        });
        let mut shown: Vec<Shown> = shown.collect();
        shown.sort_by_key(|one| std::cmp::Reverse(one.version));
        shown.truncate(self.keep.map_or(usize::MAX, |keep| keep as usize));
        shown
    }

    /// The acknowledged puts of a key behind its last removal.
    fn live(&self, key: &[u8]) -> impl Iterator<Item = &Step> {
        let steps = self.keys.get(key).map_or(&[][..], |steps| steps);
        let from = steps.iter().rposition(|s| s.what == What::Remove).map_or(0, |at| at + 1);
        steps[from..].iter().filter(|step| step.acknowledged)
    }

    /// Returns whether everything begun for a key has returned without an error, so that one
    /// answer only is right.
    pub fn is_certain(&self, key: &[u8]) -> bool {
        self.pruning_of(key).is_none()
            && self.keys.get(key).is_none_or(|steps| steps.iter().all(|s| s.acknowledged && !s.may_be_gone))
    }

    /// Returns whether a removal of a key was begun after the given number of operations.
    pub fn was_removed_since(&self, key: &[u8], begun: u64) -> bool {
        let is_removal = |s: &Step| s.what == What::Remove && s.number >= begun;
        self.keys.get(key).is_some_and(|steps| steps.iter().any(is_removal))
    }

    fn must(&self, step: &Step, after: After) -> bool {
        step.acknowledged && (after == After::Kill || step.number < self.durable_below)
    }

    /// Judges all versions that a store shows of a key, newest first.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn judge(&self, key: &[u8], shown: &[Shown], after: After) -> Result<(), String> {
        let none = Vec::new();
        let steps = self.keys.get(key).unwrap_or(&none);
        if shown.windows(2).any(|w| w[0].version <= w[1].version) {
            return Err(format!("versions are not in order: {:?}", versions(shown)));
        }
        if self.keep.is_some_and(|keep| shown.len() > keep as usize) {
            return Err(format!("{} versions are shown of a store that keeps {:?}", shown.len(), self.keep));
        }
        let mut present = Vec::new();
        for one in shown {
            let fits = |s: &&Step| matches(s, one) && !present.contains(&s.number);
            // The one that is known by its sequence comes before one that was begun and may be it.
            let known = steps.iter().find(|s| fits(s) && matches!(s.what, What::Put { sequence: Some(_), .. }));
            let Some(step) = known.or_else(|| steps.iter().find(fits)).or_else(|| self.holder(key, one, shown)) else {
                return Err(format!(
                    "a version that was never put, or was gone: {:?}, {} bytes; known are {}",
                    one.version,
                    one.body.len(),
                    tell(steps)
                ));
            };
            present.push(step.number);
        }
        // What lies below the last removal that counted is gone, and all that is sure above it is
        // there.
        let removes = steps.iter().filter(|s| s.what == What::Remove).map(|s| (s.number, self.must(s, after)));
        floor::fits_some(removes, |floor| self.fits(key, &present, floor, after))
            .map_err(|why| format!("{why}; shown are {:?}; known are {}", versions(shown), tell(steps)))
    }

    /// The dropped version that this is, if it holds the body of one put later that is shown or
    /// that it outranks: then it is kept with that, and shows again once fewer versions are left
    /// than the store keeps.
    fn holder(&self, key: &[u8], one: &Shown, shown: &[Shown]) -> Option<&Step> {
        let holds = |step: &Step| match &step.what {
            What::Put { time_ms, sequence, body, .. } => {
                *time_ms < one.version.time_ms
                    && sequence.is_none_or(|s| s > one.version.sequence)
                    && **body == *one.body
            }
            What::Remove => false,
        };
        // Of one that is being removed, too.
        let is_of_removed = self.removing.as_ref().is_some_and(|(removing, body)| removing == key && *body == one.body);
        let is_shared = is_of_removed
            || shown.iter().any(|s| s.version.sequence > one.version.sequence && s.body == one.body)
            || (self.keep.is_some() && self.keys.get(key).is_some_and(|steps| steps.iter().any(holds)));
        self.dropped.get(key)?.iter().find(|step| is_shared && matches(step, one))
    }

    fn fits(&self, key: &[u8], present: &[u64], floor: u64, after: After) -> Result<(), String> {
        let steps = self.keys.get(key).map_or(&[][..], |steps| steps);
        let dropped = self.dropped.get(key).map_or(&[][..], |steps| steps);
        if let Some(number) = present.iter().find(|&&n| n < floor) {
            return Err(format!("operation {number} shows although it was removed"));
        }
        let keep = self.keep.map_or(usize::MAX, |k| k as usize);
        for step in steps.iter().filter(|s| s.number >= floor && self.must(s, after)) {
            if step.what == What::Remove {
                continue;
            }
            let may_be_gone = step.may_be_gone
                || self.outranked_meanwhile(key, step, steps)
                || self.pruning_of(key).is_some_and(|p| p.may_drop(step, steps));
            let is_replaced = step.is_replaced(steps.iter().filter(|s| present.contains(&s.number)));
            if present.contains(&step.number) || is_replaced || may_be_gone {
                continue;
            }
            let newer = |s: &&Step| present.contains(&s.number) && s.is_newer_than(step);
            // What holds another's body and shows again counts, too.
            if steps.iter().chain(dropped).filter(newer).count() < keep {
                return Err(format!("operation {} is lost", step.number));
            }
        }
        Ok(())
    }

    /// The oracle of a store that shows this and whose recovery has returned: that is what there
    /// is, and all of it is durable.
    pub fn rebased(&self, shown: &BTreeMap<Vec<u8>, Vec<Shown>>) -> Oracle {
        let mut next = Oracle { rules: self.rules, ..Oracle::new(self.keep) };
        for (key, steps) in &self.keys {
            next.dropped.insert(key.clone(), self.hidden(key, steps, shown));
        }
        // They come before all that is there now.
        for step in next.dropped.values_mut().flatten() {
            (step.number, next.next) = (next.next, next.next + 1);
        }
        let mut all: Vec<(&Vec<u8>, &Shown)> =
            shown.iter().flat_map(|(k, list)| list.iter().map(move |s| (k, s))).collect();
        all.sort_by_key(|(_, s)| s.version.sequence);
        for (key, one) in all {
            let what = What::Put {
                time_ms: one.version.time_ms,
                sequence: None,
                body: one.body.clone().into(),
                meta: one.meta.clone().into(),
            };
            let number = next.begin(key, what);
            next.acknowledge(key, number, Some(one.version));
        }
        for key in self.keys() {
            next.keys.entry(key.clone()).or_default();
        }
        next.durable(next.next);
        next
    }
}

impl Oracle {
    /// Versions of a key that were dropped or may have been, by prunes or by retention, given
    /// those that are left: unless a remove hides them, a repair may bring them back.
    fn hidden(&self, key: &[u8], steps: &[Step], shown: &BTreeMap<Vec<u8>, Vec<Shown>>) -> Vec<Step> {
        let shown = shown.get(key).map_or(&[][..], |list| list);
        let is_sure = |s: &&Step| s.what == What::Remove && self.must(s, After::PowerLoss);
        let removed = steps.iter().rfind(is_sure).map_or(0, |s| s.number);
        let outranked = Pruning { keep: self.keep, since_ms: None };
        let may_be_gone = |s: &&Step| {
            let drops = |p: Pruning| p.may_drop(s, steps);
            s.may_be_gone || self.pruning_of(key).is_some_and(drops) || self.keep.is_some_and(|_| drops(outranked))
        };
        // A removal that is not sure hides nothing.
        let lately = steps.iter().filter(|s| s.what != What::Remove).filter(may_be_gone);
        let all = self.dropped.get(key).into_iter().flatten().chain(lately);
        all.filter(|s| s.number >= removed && !shown.iter().any(|one| matches(s, one))).cloned().collect()
    }
}

impl Step {
    fn body(&self) -> Option<&[u8]> {
        if let What::Put { body, .. } = &self.what { Some(body) } else { None }
    }

    /// Returns whether both are puts and this one's version is newer.
    fn is_newer_than(&self, other: &Step) -> bool {
        match (&self.what, &other.what) {
            (What::Put { time_ms: a, sequence: x, .. }, What::Put { time_ms: b, sequence: y, .. }) => {
                // What comes back after a recovery has another number than it had.
                let is_later = x.zip(*y).map_or(self.number > other.number, |(x, y)| x > y);
                a > b || (a == b && is_later)
            }
            _ => false,
        }
    }
}

impl Pruning {
    /// Returns whether a version may be dropped, given everything ever done to its key.
    fn may_drop(&self, step: &Step, steps: &[Step]) -> bool {
        let What::Put { time_ms, .. } = step.what else { return false };
        let newer = steps.iter().filter(|s| s.is_newer_than(step)).count();
        self.since_ms.is_none_or(|since_ms| time_ms < since_ms) && self.keep.is_none_or(|keep| newer >= keep as usize)
    }
}

fn matches(step: &Step, shown: &Shown) -> bool {
    match &step.what {
        What::Put { time_ms, sequence, body, meta } => {
            *time_ms == shown.version.time_ms
                && sequence.is_none_or(|s| s == shown.version.sequence)
                && **body == *shown.body
                && **meta == *shown.meta
        }
        What::Remove => false,
    }
}

fn versions(shown: &[Shown]) -> Vec<(i64, u64)> {
    shown.iter().map(|s| (s.version.time_ms, s.version.sequence)).collect()
}

fn tell(steps: &[Step]) -> String {
    let one = |s: &Step| match &s.what {
        What::Put { time_ms, sequence, body, .. } => {
            format!(
                "{}:put(t{time_ms} s{sequence:?} {} B{})",
                s.number,
                body.len(),
                if s.acknowledged { "" } else { " ?" }
            )
        }
        What::Remove => format!("{}:remove{}", s.number, if s.acknowledged { "" } else { "?" }),
    };
    steps.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(oracle: &mut Oracle, body: &[u8], time_ms: i64) -> Shown {
        let what = What::Put { time_ms, sequence: None, body: body.into(), meta: [][..].into() };
        let number = oracle.begin(b"k", what);
        let version = Version { time_ms, sequence: number + 1 };
        oracle.acknowledge(b"k", number, Some(version));
        Shown { version, body: body.to_vec(), meta: Vec::new() }
    }

    fn remove(oracle: &mut Oracle) {
        let number = oracle.begin(b"k", What::Remove);
        oracle.acknowledge(b"k", number, None);
    }

    fn is_legal(oracle: &Oracle, shown: &[&Shown], after: After) -> bool {
        let shown: Vec<Shown> = shown.iter().map(|s| (*s).clone()).collect();
        oracle.judge(b"k", &shown, after).is_ok()
    }

    #[test]
    fn what_is_durable_must_show_and_of_the_rest_any_part_may() {
        let mut o = Oracle::new(None);
        let a = put(&mut o, b"a", 1);
        o.durable(o.next());
        let b = put(&mut o, b"b", 2);
        let c = put(&mut o, b"c", 3);
        for legal in [&[&a][..], &[&b, &a], &[&c, &a], &[&c, &b, &a]] {
            assert!(is_legal(&o, legal, After::PowerLoss), "{legal:?}");
        }
        for illegal in [&[][..], &[&b], &[&a, &b]] {
            assert!(!is_legal(&o, illegal, After::PowerLoss), "{illegal:?}");
        }
        assert!(is_legal(&o, &[&c, &b, &a], After::Kill));
        assert!(!is_legal(&o, &[&c, &a], After::Kill));
        let wrong = Shown { body: b"x".to_vec(), ..a.clone() };
        assert!(!is_legal(&o, &[&wrong], After::PowerLoss), "a mixture");
    }

    #[test]
    fn a_remove_hides_all_or_nothing_of_what_was_before_it() {
        let mut o = Oracle::new(None);
        let a = put(&mut o, b"a", 1);
        let b = put(&mut o, b"b", 2);
        o.durable(o.next());
        remove(&mut o);
        let c = put(&mut o, b"c", 3);
        for legal in [&[][..], &[&b, &a], &[&c, &b, &a], &[&c]] {
            assert!(is_legal(&o, legal, After::PowerLoss), "{legal:?}");
        }
        assert!(!is_legal(&o, &[&c, &a], After::PowerLoss), "half a removal");
        assert!(!is_legal(&o, &[&b], After::PowerLoss));
        o.durable(o.next());
        assert!(is_legal(&o, &[&c], After::PowerLoss));
        assert!(!is_legal(&o, &[&c, &b, &a], After::PowerLoss), "a removed page came back");
        assert!(!is_legal(&o, &[], After::PowerLoss));
    }

    #[test]
    fn only_as_many_versions_must_show_as_are_kept() {
        let mut o = Oracle::new(Some(1));
        let a = put(&mut o, b"a", 1);
        let b = put(&mut o, b"b", 2);
        o.durable(o.next());
        assert!(is_legal(&o, &[&b], After::PowerLoss));
        assert!(!is_legal(&o, &[&a], After::PowerLoss));
        assert!(!is_legal(&o, &[&b, &a], After::PowerLoss));
    }

    #[test]
    fn what_a_prune_drops_may_be_gone_and_once_it_is_it_stays_so() {
        let mut o = Oracle::new(None);
        let a = put(&mut o, b"a", 1);
        let b = put(&mut o, b"b", 2);
        o.durable(o.next());
        o.prune(Pruning { keep: Some(2), since_ms: Some(2) });
        assert!(!is_legal(&o, &[&b], After::Kill), "two are kept, however old");
        o.prune(Pruning { keep: Some(1), since_ms: Some(2) });
        assert!(is_legal(&o, &[&b], After::Kill) && is_legal(&o, &[&b, &a], After::Kill));
        assert!(!is_legal(&o, &[&a], After::Kill) && !is_legal(&o, &[], After::Kill));
        o.prune(Pruning { keep: None, since_ms: Some(3) });
        assert!(is_legal(&o, &[], After::Kill) && is_legal(&o, &[&a], After::Kill));
        o.pruned(o.next(), &BTreeMap::from([(b"k".to_vec(), vec![b.clone()])]));
        assert!(is_legal(&o, &[&b], After::Kill));
        assert!(!is_legal(&o, &[&b, &a], After::Kill) && !is_legal(&o, &[], After::Kill));
    }

    #[test]
    fn what_was_gone_after_a_recovery_may_not_come_back() {
        let mut o = Oracle::new(None);
        let a = put(&mut o, b"a", 1);
        let b = put(&mut o, b"b", 2);
        assert!(is_legal(&o, &[&b, &a], After::PowerLoss));
        let o = o.rebased(&BTreeMap::from([(b"k".to_vec(), vec![a.clone()])]));
        assert!(is_legal(&o, &[&a], After::PowerLoss));
        assert!(!is_legal(&o, &[&b, &a], After::PowerLoss));
        assert!(!is_legal(&o, &[], After::PowerLoss), "recovery has synced what it trusted");
    }
}
