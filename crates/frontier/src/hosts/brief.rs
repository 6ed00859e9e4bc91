//! The record of a host that is not active: 28 bytes. It may have queued pages.

use crate::window::{entry_place, page_of};

/// A number of 48 bits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Six([u8; 6]);

impl Six {
    pub(super) fn get(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
    }

    /// `None` if the number takes more than 48 bits.
    pub(super) fn of(number: u64) -> Option<Six> {
        match number.to_le_bytes() {
            [a, b, c, d, e, f, 0, 0] => Some(Six([a, b, c, d, e, f])),
            _ => None,
        }
    }
}

/// A host.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Record {
    /// Its known pages.
    pub(super) pages: u32,
    /// Number of its queued pages, all of one kind.
    pub(super) ready: u32,
    /// 0, or 1 + when the last known fetch started.
    pub(super) began: Six,
    /// The best entry of the queue, or 0; of an active host, its index.
    pub(super) head: Six,
    /// The best entry that was left out, or 0.
    pub(super) left_out: Six,
    pub(super) flags: u8,
}

impl Record {
    /// It is the record of an active host.
    pub(super) const ACTIVE: u8 = 1;
    /// It is among the open hosts by its best entry.
    pub(super) const OFFERED: u8 = 2;
    /// It is among the sleeping hosts by its delay.
    pub(super) const SLEEPS: u8 = 4;
    /// The queue is that of refreshes.
    pub(super) const REFRESHES: u8 = 8;

    pub(super) fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn set(&mut self, flag: u8, is_set: bool) {
        self.flags = if is_set { self.flags | flag } else { self.flags & !flag };
    }

    pub(super) fn active(&self) -> Option<usize> {
        self.is(Record::ACTIVE).then_some(self.head.get() as usize)
    }

    pub(super) fn kind(&self) -> usize {
        usize::from(self.is(Record::REFRESHES))
    }

    pub(super) fn began_ms(&self) -> Option<i64> {
        self.began.get().checked_sub(1).map(|began| began as i64)
    }

    /// Packs the start of a fetch; `None` if it does not fit.
    pub(super) fn packed(began_ms: Option<i64>) -> Option<Six> {
        began_ms.map_or(Some(0), |began| u64::try_from(began).ok()?.checked_add(1)).and_then(Six::of)
    }

    pub(super) fn head_place(&self) -> Option<u16> {
        Some(self.head.get()).filter(|head| *head > 0).map(entry_place)
    }

    /// Replaces the best entry.
    pub(super) fn set_head(&mut self, head: u64) {
        let before = self.head_place();
        self.head = Six::of(head).unwrap_or_default();
        self.set(Record::OFFERED, self.is(Record::OFFERED) && self.head_place() == before);
    }

    /// Empties the queue.
    pub(super) fn clear(&mut self) {
        (self.ready, self.head, self.left_out) = (0, Six::default(), Six::default());
        self.set(Record::OFFERED | Record::REFRESHES, false);
    }

    /// Queues a page; returns whether it has an entry, or `None` if the host must become active.
    pub(super) fn put(&mut self, kind: usize, entry: u64) -> Option<bool> {
        if self.ready == 0 {
            // Old entries are outdated.
            self.left_out = Six::default();
            self.set(Record::OFFERED, self.is(Record::OFFERED) && self.kind() == kind);
            self.set(Record::REFRESHES, kind == 1);
            self.set_head(entry);
        } else if self.kind() != kind || self.head.get() > 0 && entry > self.left_out.get() {
            return None;
        } else if entry > self.left_out.get() {
            self.set_head(entry);
        } else {
            self.ready += 1;
            return Some(false);
        }
        self.ready += 1;
        Some(true)
    }

    /// Adds another entry for a queued page, as `put` does. The highest entry of a page counts.
    pub(super) fn put_again(&mut self, kind: usize, entry: u64) -> Option<bool> {
        let head = self.head.get();
        if self.kind() != kind {
            return None;
        }
        if head > 0 && page_of(head) == page_of(entry) {
            self.set_head(head.max(entry));
            return Some(true);
        }
        match entry > self.left_out.get() {
            true => None,
            false => Some(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_takes_28_bytes() {
        assert_eq!(size_of::<Record>(), 28);
        assert_eq!(Six::of((1 << 48) - 1).map(Six::get), Some((1 << 48) - 1));
        assert!(Six::of(1 << 48).is_none());
    }
}
