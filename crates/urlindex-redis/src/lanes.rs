//! Lanes: connections, each with its own owner id, that send one request at a time.
//!
//! A request whose answer never came is in *doubt*: its URLs may have been added, with no caller
//! told that they are new. The lane sends it again, with its id, before its next request; URLs
//! that it added are *owed*: the next caller that asks for one gets the answer "new".

use std::collections::HashSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::batch::Batch;
use crate::link::Link;

/// A connection and its requests.
pub struct Lane {
    pub owner: u128,
    pub link: Option<Link>,
    pub doubt: Option<Batch>,
}

/// All lanes of a handle.
pub struct Lanes {
    state: Mutex<State>,
    is_free: Condvar,
    most: usize,
}

struct State {
    free: Vec<Lane>,
    made: usize,
    /// Hashes of new URLs that no caller has got as new.
    owed: HashSet<u64>,
}

impl Lanes {
    pub fn new(most: usize) -> Lanes {
        let state = State { free: Vec::new(), made: 0, owed: HashSet::new() };
        Lanes { state: Mutex::new(state), is_free: Condvar::new(), most }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a lane for one call; [`Lanes::give_back`] returns it. Waits while all are taken.
    /// Lanes in doubt come first.
    pub fn take(&self) -> Lane {
        let mut state = self.state();
        loop {
            if let Some(at) = state.free.iter().position(|lane| lane.doubt.is_some()) {
                return state.free.swap_remove(at);
            }
            if let Some(lane) = state.free.pop() {
                return lane;
            }
            if state.made < self.most {
                state.made += 1;
                return Lane { owner: fastrand::u128(..), link: None, doubt: None };
            }
            state = self.is_free.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub fn give_back(&self, lane: Lane) {
        self.state().free.push(lane);
        self.is_free.notify_one();
    }

    /// Records the URLs that a doubtful request has added.
    pub fn owe(&self, hashes: impl Iterator<Item = u64>) {
        self.state().owed.extend(hashes);
    }

    /// Returns whether a URL is owed; true for one caller only.
    pub fn pay(&self, hash: u64) -> bool {
        let mut state = self.state();
        !state.owed.is_empty() && state.owed.remove(&hash)
    }

    /// Returns whether no caller has got this URL as new yet.
    pub fn is_owed(&self, hash: u64) -> bool {
        self.state().owed.contains(&hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_owed_is_paid_once_and_a_lane_in_doubt_comes_first() {
        let lanes = Lanes::new(2);
        lanes.owe([3, 4].into_iter());
        assert!(lanes.is_owed(3) && lanes.pay(3) && !lanes.pay(3) && !lanes.pay(5));
        let (mut one, two) = (lanes.take(), lanes.take());
        let owner = one.owner;
        assert_ne!(owner, two.owner);
        let note = crate::layout::Note::new(crate::kind::NewRedisSet::Bitmap { bits: 16 }, "exact", 1);
        let names = crate::layout::Names::new("a", 1);
        one.doubt = Some(Batch::new((&note, &names), (owner, urlindex::idempotent::RequestId::now()), (0, 1), &[]));
        lanes.give_back(one);
        lanes.give_back(two);
        assert_eq!(lanes.take().owner, owner);
    }

    #[test]
    fn who_finds_no_lane_waits_for_one() {
        let lanes = Lanes::new(1);
        let lane = lanes.take();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| lanes.take().owner);
            let owner = lane.owner;
            lanes.give_back(lane);
            assert_eq!(waits.join().expect("it came"), owner);
        });
    }
}
