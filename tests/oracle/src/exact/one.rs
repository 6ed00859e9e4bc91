//! Removals of single versions. Versions that share the body of one that is removed are put again,
//! with another sequence: what is right is that one of the two is there.

use filemap_core::Version;

use super::{Oracle, Pruning, Shown, Step, What, matches};

impl Oracle {
    /// The removal of a version of a key begins: from now on it may be gone, and versions with its
    /// body may have been put again. Returns false if no such version is known.
    pub fn remove_one(&mut self, key: &[u8], version: Version) -> bool {
        let Some(steps) = self.keys.get_mut(key) else { return false };
        // One that was dropped may show, as it holds the body of another.
        let dropped = self.dropped.get_mut(key).into_iter().flatten();
        let Some(target) = steps.iter_mut().chain(dropped).find(|s| s.is_of(version)) else { return false };
        target.may_be_gone = true;
        let (number, body) = (target.number, target.body().unwrap_or_default().to_vec());
        self.removing = Some((key.to_vec(), body.clone()));
        let sharing = |s: &&mut Step| s.number != number && s.body() == Some(&body);
        let mut copies = Vec::new();
        for step in steps.iter_mut().filter(sharing) {
            // Another that is the same may stand for it, too: then this one is not put.
            step.instead = Some(self.next);
            copies.push(Step { number: self.next, acknowledged: false, may_be_gone: false, ..step.copy() });
            self.next += 1;
        }
        steps.extend(copies);
        true
    }

    /// Returns whether retention may have dropped a version: not everything that hid it need be
    /// present after the removal.
    pub(super) fn outranked_meanwhile(&self, key: &[u8], step: &Step, steps: &[Step]) -> bool {
        let outranked = Pruning { keep: self.keep, since_ms: None };
        let is_of_key = self.removing.as_ref().is_some_and(|(removing, _)| removing == key);
        is_of_key && self.keep.is_some() && outranked.may_drop(step, steps)
    }

    /// A put has begun: if it shares the body of the version that is being removed, it may be put
    /// again, too.
    pub(super) fn may_share(&mut self, key: &[u8]) {
        let Some((_, body)) = self.removing.as_ref().filter(|(removing, _)| removing == key) else { return };
        let Some(steps) = self.keys.get_mut(key) else { return };
        let Some(put) = steps.last_mut().filter(|put| put.body() == Some(body)) else { return };
        put.instead = Some(self.next);
        let copy = Step { number: self.next, instead: None, ..put.copy() };
        self.next += 1;
        steps.push(copy);
    }

    /// The removal has returned, and this is what the key shows: the version is removed
    /// permanently.
    pub fn removed_one(&mut self, key: &[u8], version: Version, shown: &[Shown]) {
        let mut all = self.keys.get(key).cloned().unwrap_or_default();
        for step in &mut all {
            step.may_be_gone |= self.outranked_meanwhile(key, step, &self.keys[key]);
        }
        self.removing = None;
        let steps = self.keys.entry(key.to_vec()).or_default();
        *steps = all;
        steps.retain(|s| !s.is_of(version));
        let dropped = self.dropped.entry(key.to_vec()).or_default();
        dropped.retain(|s| !s.is_of(version));
        // One that was kept for the body of the removed one only.
        let known = |one: &Shown, steps: &[Step]| steps.iter().any(|s| s.is_of(one.version));
        let shows_again = |s: &mut Step| shown.iter().any(|one| s.is_of(one.version) && !known(one, steps));
        let again: Vec<Step> = dropped.extract_if(.., shows_again).collect();
        steps.extend(again);
        let mut known: Vec<u64> = steps.iter().filter_map(Step::sequence).collect();
        let replaced: Vec<(u64, u64)> = steps.iter().filter_map(|s| Some((s.number, s.instead?))).collect();
        for (number, copy) in replaced {
            let Some(at) = steps.iter().position(|s| s.number == number) else { continue };
            let is_shown = shown.iter().any(|one| steps[at].is_of(one.version));
            let Some(instead) = steps.iter_mut().find(|s| s.number == copy) else { continue };
            let is_it = |one: &&Shown| matches(instead, one) && !known.contains(&one.version.sequence);
            let found = shown.iter().find(is_it).map(|one| one.version.sequence);
            if let (What::Put { sequence: sequence @ None, .. }, Some(found)) = (&mut instead.what, found) {
                *sequence = Some(found);
                known.push(found);
                instead.acknowledged = true;
            }
            let is_put = instead.acknowledged;
            if is_shown {
                // Something else took the version before those that share its body were dropped.
                steps[at].instead = None;
                steps.retain(|s| s.number != copy || is_put || self.keep.is_some());
            } else if is_put {
                steps.remove(at);
            } else {
                // Another stands for it, or it was removed meanwhile, or is hidden by newer ones.
                steps[at].may_be_gone = true;
                steps.retain(|s| s.number != copy || self.keep.is_some());
            }
        }
    }
}

impl Step {
    fn sequence(&self) -> Option<u64> {
        if let What::Put { sequence, .. } = &self.what { *sequence } else { None }
    }

    fn is_of(&self, version: Version) -> bool {
        let What::Put { time_ms, sequence, .. } = &self.what else { return false };
        *time_ms == version.time_ms && *sequence == Some(version.sequence)
    }

    /// Returns whether this is another one's version, put again later.
    fn is_again(&self, other: &Step) -> bool {
        let same = match (&self.what, &other.what) {
            (What::Put { time_ms: t, body: b, meta: m, .. }, What::Put { time_ms, body, meta, .. }) => {
                (t, b, m) == (time_ms, body, meta)
            }
            _ => false,
        };
        same && self.is_newer_than(other)
    }

    /// Returns whether another stands for this: the version put again, or one that was the same
    /// before.
    pub(super) fn is_replaced<'s>(&self, mut present: impl Iterator<Item = &'s Step>) -> bool {
        self.instead.is_some_and(|number| present.any(|s| s.number == number || s.is_again(self)))
    }

    /// A put of the same, whose sequence is not known.
    fn copy(&self) -> Step {
        let mut copy = self.clone();
        if let What::Put { sequence, .. } = &mut copy.what {
            *sequence = None;
        }
        copy
    }
}
