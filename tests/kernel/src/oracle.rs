//! Permitted content of a store of the workload, given the progress of the work: the operations
//! follow from their seed and numbers, so the process that did them is never asked.

use std::collections::HashSet;

use filemap_core::Store;
use filemap_oracle::{Bounds, Numbered};

use crate::ops::{Change, Key, Op, body, meta};
use crate::random::Random;

/// The operations of one workload, by key.
#[derive(Clone, Debug)]
pub struct Oracle {
    seed: u64,
    next: u64,
    changes: Numbered<Key, Op>,
}

/// Number of the keys put once that one check reads.
const BULK_SAMPLE: usize = 300;

impl Oracle {
    /// That of a store that nothing was put into; the workload begins at a number.
    pub fn new(seed: u64, first: u64) -> Oracle {
        Oracle { seed, next: first, changes: Numbered::default() }
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
        for Change { number, key, is_put } in op.changes() {
            self.changes.add(key, filemap_oracle::Change { number, is_put, of: op });
        }
    }

    /// Learns all operations that begin below a number.
    pub fn learn_below(&mut self, number: u64) {
        while self.next < number {
            self.learn();
        }
    }

    /// The changes of what was learnt.
    pub fn changes(&self) -> &Numbered<Key, Op> {
        &self.changes
    }

    /// Judges the meta and the body of a version.
    ///
    /// # Errors
    /// When they are others than were put.
    pub fn judge_content(&self, key: Key, number: u64, own_meta: &[u8], own_body: Option<&[u8]>) -> Result<(), String> {
        let op = self.changes.put(key, number)?.of;
        if own_meta != meta(number) {
            return Err(format!("{key:?}: the meta of version {number} is that of another"));
        }
        match own_body {
            Some(own) if own != body(&op, &Change { number, key, is_put: true }) => {
                Err(format!("{key:?}: the body of version {number} is wrong"))
            }
            _ => Ok(()),
        }
    }

    /// Checks a store: every key, its history, its body, and the list of keys; of the keys that
    /// were put once a sample that `random` draws.
    ///
    /// # Errors
    /// The first violation, in words.
    pub fn check(&self, store: &Store, bounds: Bounds, random: &mut Random) -> Result<(), String> {
        let bulk: Vec<Key> = self.changes.keys().filter(|k| matches!(k, Key::Bulk(_))).collect();
        let sample: HashSet<Key> = match bulk.len() {
            0 => HashSet::new(),
            n => (0..BULK_SAMPLE).map(|_| bulk[random.below(n as u64) as usize]).collect(),
        };
        let mut listed = HashSet::new();
        for key in store.keys() {
            let key = key.map_err(|e| format!("a list of keys: {e}"))?;
            let known = Key::parse(&key).filter(|k| self.changes.has(*k));
            let key = known.ok_or_else(|| format!("{:?} was never put", String::from_utf8_lossy(&key)))?;
            if !listed.insert(key) {
                return Err(format!("{key:?} is listed twice"));
            }
        }
        for key in self.changes.keys() {
            let numbers = if matches!(key, Key::Named(_)) || sample.contains(&key) {
                self.check_key(store, key, bounds)?
            } else if listed.contains(&key) {
                vec![self.changes.of(key)[0].number]
            } else {
                Vec::new()
            };
            self.changes.judge(key, &numbers, bounds).map_err(|what| format!("{key:?}: {what}; {bounds:?}"))?;
            if listed.contains(&key) == numbers.is_empty() {
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
            // The bodies of old versions are read now and then: they cost the most.
            let value = match &newest {
                Some(value) if nth == 0 => Some(value.body.clone()),
                _ if number % 8 == 0 => {
                    let value = store.get_version(&bytes, head.version).map_err(|e| failed("an old version", e))?;
                    Some(value.ok_or_else(|| format!("{key:?}: version {number} cannot be had"))?.body)
                }
                _ => None,
            };
            self.judge_content(key, *number, &head.meta, value.as_deref())
                .map_err(|what| format!("{what}; {bounds:?}"))?;
        }
        Ok(numbers)
    }

    /// Takes what a store holds as what was done: nothing before it is uncertain any more.
    ///
    /// # Errors
    /// What reading returned.
    pub fn settle(&mut self, store: &Store, bounds: Bounds) -> Result<(), String> {
        let unsure = |key: &Key| self.changes.of(*key).last().is_some_and(|c| c.number >= bounds.certain);
        let keys: Vec<Key> = self.changes.keys().filter(unsure).collect();
        for key in keys {
            let history = store.history(&key.bytes()).map_err(|e| format!("history of {key:?}: {e}"))?;
            let there: Vec<u64> = history.iter().map(|h| h.version.time_ms.cast_unsigned()).collect();
            self.changes.settle(key, &there);
        }
        Ok(())
    }
}

/// Reads every byte of a store.
///
/// # Errors
/// What is damaged.
pub fn verify(store: &Store) -> Result<(), String> {
    let report = store.verify().map_err(|e| format!("verify: {e}"))?;
    match report.problems.first() {
        None => Ok(()),
        Some(first) => Err(format!("verify found {} problems: {first:?}", report.problems.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let is_there = |key: &Key| matches!(key, Key::Named(_)) && oracle.changes.of(*key).last().unwrap().is_put;
        let key = oracle.changes.keys().find(is_there).unwrap();
        let number = store.head(&key.bytes()).unwrap().unwrap().version.time_ms;
        let twin = filemap_core::Record { key: &key.bytes(), meta: &meta(number as u64), body: b"x", time_ms: number };
        store.put(&twin).unwrap();
        assert!(oracle.check(&store, all, &mut random).is_err(), "a body is another");
    }
}
