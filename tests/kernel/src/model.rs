//! The model of a differential run: which versions a key has after each operation of the workload.
//!
//! One thread works, and nothing is killed, so whoever reads meets the state after some operation between the last that
//! had returned when it began to read and the last that had begun when it ended: nothing else is right.

use std::collections::BTreeMap;

use crate::ops::{Change, Event, Key, Op, body, meta};

/// The operations between which a reading took place.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Changes with numbers below this had returned before the reading began.
    pub from: u64,
    /// Changes with numbers from here on had not begun when it ended.
    pub until: u64,
}

/// The operations of one workload, by key.
#[derive(Clone, Debug)]
pub struct Model {
    seed: u64,
    next: u64,
    events: BTreeMap<Key, Vec<Event>>,
}

impl Model {
    /// That of a store without a change; the workload begins at number 1.
    pub fn new(seed: u64) -> Model {
        Model { seed, next: 1, events: BTreeMap::new() }
    }

    /// Learns all operations that begin below a number.
    pub fn learn_below(&mut self, number: u64) {
        while self.next < number {
            let op = Op::at(self.seed, self.next);
            self.next = op.end();
            for Change { number, key, is_put } in op.changes() {
                self.events.entry(key).or_default().push(Event { number, is_put, op });
            }
        }
    }

    /// Keys that had a change before a number, in order.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.events.keys().copied()
    }

    /// Judges the versions that a history named, newest first.
    ///
    /// # Errors
    /// When the key had them at no moment of the window.
    pub fn judge_history(&self, key: Key, seen: &[u64], window: Window) -> Result<(), String> {
        let right = self.moments(key, window).any(|end| self.versions(key, end).eq(seen.iter().copied()));
        if right {
            return Ok(());
        }
        let states: Vec<Vec<u64>> = self.moments(key, window).map(|end| self.versions(key, end).collect()).collect();
        Err(format!("{key:?} has versions {seen:?}, which are those of no moment of {window:?}: {states:?}"))
    }

    /// Judges what a get, a head or `contains` gave: the number of the newest version.
    ///
    /// # Errors
    /// When another was the newest at every moment of the window.
    pub fn judge_newest(&self, key: Key, seen: Option<u64>, window: Window) -> Result<(), String> {
        let right = self.moments(key, window).any(|end| self.versions(key, end).next() == seen);
        if right { Ok(()) } else { Err(format!("{key:?} has the newest version {seen:?}, at no moment of {window:?}")) }
    }

    /// Judges whether a key is there, as a list had it.
    ///
    /// # Errors
    /// When it was not so at any moment of the window.
    pub fn judge_listed(&self, key: Key, listed: bool, window: Window) -> Result<(), String> {
        let right = self.moments(key, window).any(|end| self.versions(key, end).next().is_some() == listed);
        let said = if listed { "is listed and was not there" } else { "is not listed and was there" };
        if right { Ok(()) } else { Err(format!("{key:?} {said} in all of {window:?}")) }
    }

    /// Judges the meta and the body of a version.
    ///
    /// # Errors
    /// When they are others than were put.
    pub fn judge_content(&self, key: Key, number: u64, own_meta: &[u8], own_body: Option<&[u8]>) -> Result<(), String> {
        let events = self.events.get(&key).map_or(&[][..], Vec::as_slice);
        let event = events.iter().find(|e| e.number == number && e.is_put);
        let event = event.ok_or_else(|| format!("{key:?} has version {number}, which nobody put"))?;
        if own_meta != meta(number) {
            return Err(format!("{key:?}: the meta of version {number} is that of another"));
        }
        let change = Change { number, key, is_put: true };
        match own_body {
            Some(own) if own != body(&event.op, &change) => Err(format!("{key:?}: the body of {number} is wrong")),
            _ => Ok(()),
        }
    }

    /// Judges that a version could not be had.
    ///
    /// # Errors
    /// When it was there at every moment of the window.
    pub fn judge_gone(&self, key: Key, number: u64, window: Window) -> Result<(), String> {
        let right = self.moments(key, window).any(|end| self.versions(key, end).all(|n| n != number));
        if right { Ok(()) } else { Err(format!("{key:?}: version {number} cannot be had in {window:?}")) }
    }

    /// The ends of the window's states, as numbers below which changes are done: one state for each change of the key.
    fn moments(&self, key: Key, window: Window) -> impl Iterator<Item = u64> {
        let events = self.events.get(&key).map_or(&[][..], Vec::as_slice);
        let first = events.partition_point(|e| e.number < window.from);
        let within = events[first..].iter().take_while(move |e| e.number < window.until);
        std::iter::once(window.from).chain(within.map(|e| e.number + 1))
    }

    /// The versions of a key when all changes below a number are done, newest first.
    fn versions(&self, key: Key, end: u64) -> impl Iterator<Item = u64> {
        let events = self.events.get(&key).map_or(&[][..], Vec::as_slice);
        let done = &events[..events.partition_point(|e| e.number < end)];
        done.iter().rev().take_while(|e| e.is_put).map(|e| e.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::What;

    fn model(of: &[(u64, bool)]) -> Model {
        let op = Op { seed: 0, first: 0, what: What::Put };
        let events = of.iter().map(|&(number, is_put)| Event { number, is_put, op }).collect();
        Model { seed: 0, next: 10, events: BTreeMap::from([(Key::Named(1), events)]) }
    }

    #[test]
    fn a_state_of_the_window_is_right_and_any_other_is_told() {
        let model = model(&[(1, true), (3, true), (5, false), (7, true)]);
        let key = Key::Named(1);
        let window = Window { from: 4, until: 8 };
        for right in [&[3, 1][..], &[], &[7]] {
            assert_eq!(model.judge_history(key, right, window), Ok(()));
            assert_eq!(model.judge_newest(key, right.first().copied(), window), Ok(()));
        }
        for wrong in [&[1][..], &[3], &[7, 3, 1], &[1, 3], &[3, 3, 1]] {
            assert!(model.judge_history(key, wrong, window).is_err(), "{wrong:?}");
        }
        assert!(model.judge_newest(key, Some(1), window).is_err(), "an older version");
        assert!(model.judge_listed(key, false, window).is_ok() && model.judge_listed(key, true, window).is_ok());
        let still = Window { from: 4, until: 5 };
        assert!(model.judge_listed(key, false, still).is_err() && model.judge_history(key, &[], still).is_err());
        let never = Window { from: 4, until: 8 };
        assert!(model.judge_listed(Key::Named(2), true, never).is_err());
    }
}
