//! The oracle: what a store may hold, given how far the work was durable and how far it can have come.
//!
//! It knows the operations from their seed and numbers, and never asks the process that did them. Of each key the
//! operations up to [`Bounds::certain`] are done; each of those after it, up to [`Bounds::possible`], may be done or not,
//! in any combination, since unsynced writes reach the disk in any order.

use std::collections::{BTreeMap, HashSet};

use filemap_core::Store;

use crate::ops::{Event, Key, Op, body, meta};
use crate::random::Random;

/// How far the work has come, in numbers of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// All changes with numbers below this are there.
    pub certain: u64,
    /// No change with a number from here on was begun.
    pub possible: u64,
}

/// The operations of one workload, by key.
#[derive(Clone, Debug)]
pub struct Oracle {
    seed: u64,
    next: u64,
    events: BTreeMap<Key, Vec<Event>>,
}

/// How many of the keys that were put once are looked at in one check.
const BULK_SAMPLE: usize = 300;

impl Oracle {
    /// That of a store that nothing was put into; the workload begins at a number.
    pub fn new(seed: u64, first: u64) -> Oracle {
        Oracle { seed, next: first, events: BTreeMap::new() }
    }

    /// The number at which the next operation begins.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Learns the next operation of the workload.
    pub fn learn(&mut self) -> Op {
        let op = Op::at(self.seed, self.next);
        self.learn_op(op);
        op
    }

    /// Learns an operation that is not drawn from the workload.
    pub fn learn_op(&mut self, op: Op) {
        self.next = op.end();
        for c in op.changes() {
            self.events.entry(c.key).or_default().push(Event { number: c.number, is_put: c.is_put, op });
        }
    }

    /// Learns all operations that begin below a number.
    pub fn learn_below(&mut self, number: u64) {
        while self.next < number {
            self.learn();
        }
    }

    /// Checks a store: every key, its history, its body, and the list of keys; of the keys that were put once a sample
    /// that `random` draws.
    ///
    /// # Errors
    /// The first violation, in words.
    pub fn check(&self, store: &Store, bounds: Bounds, random: &mut Random) -> Result<(), String> {
        let bulk: Vec<Key> = self.events.keys().copied().filter(|k| matches!(k, Key::Bulk(_))).collect();
        let sample: HashSet<Key> = match bulk.len() {
            0 => HashSet::new(),
            n => (0..BULK_SAMPLE).map(|_| bulk[random.below(n as u64) as usize]).collect(),
        };
        let mut listed = HashSet::new();
        for key in store.keys() {
            let key = key.map_err(|e| format!("a list of keys: {e}"))?;
            let known = Key::parse(&key).filter(|k| self.events.contains_key(k));
            let key = known.ok_or_else(|| format!("{:?} was never put", String::from_utf8_lossy(&key)))?;
            if !listed.insert(key) {
                return Err(format!("{key:?} is listed twice"));
            }
        }
        for (key, events) in &self.events {
            let numbers = if matches!(key, Key::Named(_)) || sample.contains(key) {
                self.check_key(store, *key, bounds)?
            } else if listed.contains(key) {
                vec![events[0].number]
            } else {
                Vec::new()
            };
            judge(events, &numbers, bounds).map_err(|what| format!("{key:?}: {what}; {bounds:?}"))?;
            if listed.contains(key) == numbers.is_empty() {
                return Err(format!("{key:?} has the versions {numbers:?}, but the list of keys says otherwise"));
            }
        }
        Ok(())
    }

    /// Reads a key in all ways; the numbers of its versions, newest first.
    fn check_key(&self, store: &Store, key: Key, bounds: Bounds) -> Result<Vec<u64>, String> {
        let bytes = key.bytes();
        let failed = |what: &str, e: filemap_core::Error| format!("{what} of {key:?}: {e}; {bounds:?}");
        let history = store.history(&bytes).map_err(|e| failed("history", e))?;
        let numbers: Vec<u64> = history.iter().map(|h| h.version.time_ms.cast_unsigned()).collect();
        let newest = store.get(&bytes).map_err(|e| failed("get", e))?;
        if newest.as_ref().map(|v| v.head.version.time_ms.cast_unsigned()) != numbers.first().copied() {
            return Err(format!("{key:?}: get and history {numbers:?} disagree"));
        }
        for (nth, (head, number)) in history.iter().zip(&numbers).enumerate() {
            let event = self.events[&key].iter().find(|e| e.number == *number && e.is_put);
            let event = event.ok_or_else(|| format!("{key:?} has version {number}, which nobody put; {bounds:?}"))?;
            if head.meta != meta(*number) {
                return Err(format!("{key:?}: the meta of version {number} is that of another"));
            }
            // The bodies of old versions are read now and then: they cost the most.
            let value = match &newest {
                Some(value) if nth == 0 => Some(value.body.clone()),
                _ if number % 8 == 0 => {
                    let value = store.get_version(&bytes, head.version).map_err(|e| failed("an old version", e))?;
                    Some(value.ok_or_else(|| format!("{key:?}: version {number} cannot be had"))?.body)
                }
                _ => None,
            };
            let change = crate::ops::Change { number: *number, key, is_put: true };
            if value.is_some_and(|v| v != body(&event.op, &change)) {
                return Err(format!("{key:?}: the body of version {number} is wrong; {bounds:?}"));
            }
        }
        Ok(numbers)
    }

    /// Takes what a store holds as what was done: nothing before it is uncertain any more.
    ///
    /// # Errors
    /// What reading returned.
    pub fn settle(&mut self, store: &Store, bounds: Bounds) -> Result<(), String> {
        for (key, events) in &mut self.events {
            if events.last().is_none_or(|e| e.number < bounds.certain) {
                continue;
            }
            let history = store.history(&key.bytes()).map_err(|e| format!("history of {key:?}: {e}"))?;
            let there: HashSet<u64> = history.iter().map(|h| h.version.time_ms.cast_unsigned()).collect();
            events.retain(|e| there.contains(&e.number));
        }
        self.events.retain(|_, events| !events.is_empty());
        Ok(())
    }
}

/// Reads every byte of a store.
///
/// # Errors
/// What is damaged.
pub fn verify(store: &Store) -> Result<(), String> {
    let report = store.verify(&mut |_| {}).map_err(|e| format!("verify: {e}"))?;
    match report.problems.first() {
        None => Ok(()),
        Some(first) => Err(format!("verify found {} problems: {first:?}", report.problems.len())),
    }
}

/// Whether a key whose life was `events` may have just the versions `seen`.
fn judge(events: &[Event], seen: &[u64], bounds: Bounds) -> Result<(), String> {
    let removed = events.iter().filter(|e| !e.is_put && e.number < bounds.certain).map(|e| e.number).max().unwrap_or(0);
    let is_put = |n: u64| events.iter().any(|e| e.is_put && e.number == n);
    for &n in seen {
        if !is_put(n) || n >= bounds.possible {
            return Err(format!("version {n} was never put"));
        }
        if n < removed {
            return Err(format!("version {n} is back after the removal {removed}"));
        }
    }
    let lost = events
        .iter()
        .find(|e| e.is_put && e.number > removed && e.number < bounds.certain && !seen.contains(&e.number));
    let Some(lost) = lost else { return Ok(()) };
    let oldest = seen.iter().min().copied().unwrap_or(u64::MAX);
    let by_removal = events.iter().any(|e| {
        !e.is_put
            && e.number >= bounds.certain
            && e.number < bounds.possible
            && e.number > lost.number
            && oldest > e.number
    });
    if by_removal { Ok(()) } else { Err(format!("version {} is lost, {seen:?} are there", lost.number)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::What;

    fn life(of: &[(u64, bool)]) -> Vec<Event> {
        let op = Op { seed: 0, first: 0, what: What::Put };
        of.iter().map(|&(number, is_put)| Event { number, is_put, op }).collect()
    }

    #[test]
    fn every_combination_of_what_is_uncertain_is_legal_and_nothing_else() {
        let events = life(&[(1, true), (2, false), (3, true), (5, true), (6, false), (7, true), (9, true)]);
        let bounds = Bounds { certain: 4, possible: 9 };
        for legal in [&[3][..], &[5, 3], &[7, 5, 3], &[7, 3], &[7], &[]] {
            assert_eq!(judge(&events, legal, bounds), Ok(()), "{legal:?}");
        }
        for (bad, why) in [
            (&[5][..], "3 is lost"),
            (&[7, 5], "3 is lost"),
            (&[3, 1], "1 is back"),
            (&[9, 3], "9 was never put"),
            (&[4, 3], "4 was never put"),
            (&[6, 3], "6 was never put"),
        ] {
            let verdict = judge(&events, bad, bounds);
            assert!(verdict.as_ref().is_err_and(|e| e.contains(why)), "{bad:?}: {verdict:?}");
        }
    }

    #[test]
    fn with_nothing_uncertain_one_set_of_versions_is_legal() {
        let events = life(&[(1, true), (2, false), (3, true), (5, true)]);
        let bounds = Bounds { certain: 6, possible: 6 };
        assert_eq!(judge(&events, &[5, 3], bounds), Ok(()));
        for bad in [&[5][..], &[3], &[], &[5, 3, 1]] {
            assert!(judge(&events, bad, bounds).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_oracle_finds_lost_strange_and_changed_pages_in_a_store() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a");
        let options = crate::ops::options(2);
        let mut store = Store::create(&path, options.clone()).unwrap();
        let mut oracle = Oracle::new(2, 1);
        while oracle.next() < 3000 {
            store = oracle.learn().run(store, &path, &options).unwrap();
        }
        let all = Bounds { certain: oracle.next(), possible: oracle.next() };
        let mut random = Random::new(1, 1);
        assert_eq!(oracle.check(&store, all, &mut random), Ok(()));
        let before = Bounds { certain: 2000, possible: 2000 };
        assert!(oracle.check(&store, before, &mut random).is_err(), "it holds what cannot have been put");
        let behind = {
            let mut longer = oracle.clone();
            longer.learn_below(4000);
            longer
        };
        let later = Bounds { certain: 4000, possible: 4000 };
        assert!(behind.check(&store, later, &mut random).is_err(), "it has lost what was put");
        let key = oracle.events.iter().find(|(k, e)| matches!(k, Key::Named(_)) && e.last().unwrap().is_put).unwrap().0;
        let number = store.head(&key.bytes()).unwrap().unwrap().version.time_ms;
        let twin = filemap_core::Record { key: &key.bytes(), meta: &meta(number as u64), body: b"x", time_ms: number };
        store.put(&twin).unwrap();
        assert!(oracle.check(&store, all, &mut random).is_err(), "a body is another");
    }
}
