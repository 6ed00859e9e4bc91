//! Claims: pages requested, under an id, from a set that other crawls share. A claim is open until
//! all its pages are fetched or have failed. After a restart an open claim is requested again,
//! with the same id and the same pages, and gets the same answer.
//!
//! Invariant: a page is in at most one open claim.

use std::collections::{BTreeMap, HashMap};

use crate::record::Record;

/// The open claims; the journal has a record of each.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    /// All pages of each claim, in order.
    open: BTreeMap<u128, Vec<u32>>,
    /// The claim of each unsettled page.
    of_page: HashMap<u32, u128>,
}

impl Claims {
    /// Opens a claim; `done` are its settled pages. If all are settled, ends the open claim of
    /// this id.
    ///
    /// # Errors
    /// The reason why the claim is invalid.
    pub(crate) fn open(&mut self, id: u128, pages: &[u32], done: &[u32]) -> Result<(), String> {
        if let Some(open) = self.open.get(&id) {
            if open != pages || open != done {
                return Err("a claim is opened twice".into());
            }
            self.open.remove(&id);
            self.of_page.retain(|_, claim| *claim != id);
            return Ok(());
        }
        if done.iter().any(|page| pages.binary_search(page).is_err()) {
            return Err("a settled page was not claimed".into());
        }
        let left = || pages.iter().filter(|page| done.binary_search(page).is_err());
        if left().any(|page| self.of_page.contains_key(page)) {
            return Err("a page is claimed twice".into());
        }
        let before = self.of_page.len();
        self.of_page.extend(left().map(|page| (*page, id)));
        if self.of_page.len() > before {
            self.open.insert(id, pages.to_vec());
        }
        Ok(())
    }

    /// Returns whether a page is in an open claim and not settled.
    pub(crate) fn has(&self, page: u32) -> bool {
        self.of_page.contains_key(&page)
    }

    /// Settles a page.
    pub(crate) fn settle(&mut self, page: u32) {
        let Some(id) = self.of_page.remove(&page) else { return };
        if self.open.get(&id).is_some_and(|pages| pages.iter().all(|page| self.of_page.get(page) != Some(&id))) {
            self.open.remove(&id);
        }
    }

    /// Ids and pages of all open claims.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u128, &[u32])> {
        self.open.iter().map(|(id, pages)| (*id, &pages[..]))
    }

    /// A record of each open claim, for a new journal.
    pub(crate) fn records(&self) -> impl Iterator<Item = Record<'static>> + '_ {
        self.iter().map(|(id, pages)| {
            let done = pages.iter().copied().filter(|page| self.of_page.get(page) != Some(&id)).collect();
            Record::Claimed { id, pages: pages.to_vec(), done }
        })
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        let pages: usize = self.open.values().map(|pages| pages.capacity() * size_of::<u32>()).sum();
        (pages + self.of_page.capacity() * size_of::<(u32, u128)>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_open_until_its_last_page_is_settled_and_is_carried_on_as_it_is() {
        let mut claims = Claims::default();
        claims.open(7, &[1, 3, 9], &[]).expect("opened");
        claims.open(8, &[2], &[]).expect("opened");
        for (id, pages, done) in [(7, &[5][..], &[][..]), (9, &[3], &[]), (9, &[5], &[6])] {
            assert!(claims.open(id, pages, done).is_err(), "{id} {pages:?} {done:?}");
        }
        claims.settle(3);
        claims.settle(4);
        claims.settle(2);
        let records: Vec<Record<'_>> = claims.records().collect();
        assert_eq!(records, [Record::Claimed { id: 7, pages: vec![1, 3, 9], done: vec![3] }]);
        let mut carried = Claims::default();
        carried.open(7, &[1, 3, 9], &[3]).expect("opened");
        assert!(carried.has(1) && !carried.has(3));
        [1, 9].iter().for_each(|page| carried.settle(*page));
        assert_eq!((carried.iter().count(), carried.memory_bytes() > 0), (0, true));
        carried.open(7, &[1], &[1]).expect("nothing is left of it");
        assert_eq!(carried.iter().count(), 0);
        carried.open(7, &[1, 2], &[]).expect("opened");
        assert!(carried.open(7, &[1, 2], &[2]).is_err() && carried.has(1));
        carried.open(7, &[1, 2], &[1, 2]).expect("ended");
        assert!(!carried.has(1) && carried.iter().count() == 0);
    }
}
