//! A ledger in memory: the credit and history of each page of a graph. The frontier has rows on
//! disk; the sums are the same.

use crate::credit::{Account, Totals};
use crate::grow::push;

/// Accounts of all pages, and their totals.
#[derive(Clone, Debug)]
pub struct Ledger {
    credit: Vec<u64>,
    history: Vec<f32>,
    pub(crate) totals: Totals,
}

impl Ledger {
    pub(crate) fn new(totals: Totals) -> Ledger {
        Ledger { credit: Vec::new(), history: Vec::new(), totals }
    }

    /// Adds a page without credit.
    pub fn add(&mut self) {
        push(&mut self.credit, 0);
        push(&mut self.history, 0.0);
    }

    pub fn len(&self) -> usize {
        self.credit.len()
    }

    #[inline]
    pub fn credit(&self, page: u32) -> u64 {
        self.credit[page as usize]
    }

    #[inline]
    pub(crate) fn account(&self, page: u32) -> Account {
        Account { credit: self.credit[page as usize], history: self.history[page as usize] }
    }

    #[inline]
    fn change<T>(&mut self, page: u32, act: impl FnOnce(&mut Totals, &mut Account) -> T) -> T {
        let mut account = self.account(page);
        let done = act(&mut self.totals, &mut account);
        (self.credit[page as usize], self.history[page as usize]) = (account.credit, account.history);
        done
    }

    /// Credit of all pages and the virtual page.
    pub fn sum(&self) -> u128 {
        self.credit.iter().map(|credit| u128::from(*credit)).sum::<u128>() + u128::from(self.totals.virtual_credit)
    }

    /// Visits a page. Calls `gained` with each page that gains, and its credit before and after.
    #[inline]
    pub fn visit(&mut self, page: u32, links: &[u32], lost: u64, gained: impl FnMut(u32, u64, u64)) {
        let share = self.change(page, |totals, account| totals.visit(account, links.len(), lost));
        if self.totals.is_heavy() {
            (0..self.len() as u32).for_each(|page| self.change(page, |_, account| account.scale_down()));
            self.totals.scale_down();
        }
        self.give(links.iter().copied(), share, gained);
    }

    /// Visits the virtual page.
    pub fn share_virtual(&mut self, members: impl Iterator<Item = u32> + Clone, gained: impl FnMut(u32, u64, u64)) {
        let share = self.totals.pay_rent(members.clone().count() as u64);
        self.give(members, share, gained);
    }

    #[inline]
    fn give(&mut self, pages: impl Iterator<Item = u32>, share: u64, mut gained: impl FnMut(u32, u64, u64)) {
        for page in pages.filter(|_| share > 0) {
            let before = self.credit[page as usize];
            self.credit[page as usize] = before + share;
            gained(page, before, before + share);
        }
    }

    pub fn memory_bytes(&self) -> u64 {
        (self.credit.capacity() * 8 + self.history.capacity() * 4) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credit::{Refund, TOTAL, WEIGHT_MAX};
    use proptest::prelude::*;

    impl Ledger {
        fn forfeit(&mut self, page: u32) {
            self.change(page, Totals::forfeit);
        }

        /// The effect of the frontier's two rounds of a refund.
        fn refund(&mut self, is_queued: impl Fn(u32) -> bool) {
            let (queued, others): (Vec<u32>, Vec<u32>) = (0..self.len() as u32).partition(|page| is_queued(*page));
            let halves: u64 = others.iter().map(|page| self.change(*page, Totals::take_half)).sum();
            let mut pot = halves + self.totals.empty_virtual();
            let held = queued.iter().map(|page| self.credit(*page)).sum();
            let refund = Refund::of(pot, held, queued.len() as u64);
            for page in queued {
                let gain = refund.gain(self.credit(page), pot);
                pot -= gain;
                self.change(page, |_, account| account.credit += gain);
            }
            self.totals.virtual_credit += pot;
        }
    }

    fn ledger(pages: u32) -> Ledger {
        let mut ledger = Ledger::new(Totals::new(0.1, 4.0));
        (0..pages).for_each(|_| ledger.add());
        ledger.share_virtual(0..pages, |_, _, _| ());
        ledger
    }

    #[test]
    fn a_visit_taxes_shares_and_leaves_the_odd_units_to_the_virtual_page() {
        let mut ledger = ledger(4);
        assert_eq!((ledger.credit(0), ledger.totals.virtual_credit), (TOTAL / 4, 0));
        let mut told = Vec::new();
        ledger.visit(0, &[1, 2], 1, |page, before, after| told.push((page, before, after)));
        let tax = ((u128::from(TOTAL / 4) * u128::from(ledger.totals.tax)) >> 32) as u64;
        let share = (TOTAL / 4 - tax) / 3;
        assert_eq!(told, [(1, TOTAL / 4, TOTAL / 4 + share), (2, TOTAL / 4, TOTAL / 4 + share)]);
        assert_eq!((ledger.credit(0), ledger.credit(3)), (0, TOTAL / 4));
        assert_eq!(ledger.totals.virtual_credit, TOTAL / 4 - 2 * share);
        assert!((f64::from(ledger.account(0).history) - 0.25).abs() < 1e-7);
        ledger.forfeit(3);
        assert_eq!((ledger.credit(3), ledger.sum()), (0, u128::from(TOTAL)));
    }

    #[test]
    fn weights_are_scaled_down_before_they_overflow_and_importance_stays() {
        let mut ledger = Ledger::new(Totals::new(0.1, 0.1));
        (0..3).for_each(|_| ledger.add());
        ledger.share_virtual(0..3, |_, _, _| ());
        for _ in 0..1_000 {
            (0..3).for_each(|page| ledger.visit(page, &[(page + 1) % 3], 0, |_, _, _| ()));
            ledger.share_virtual(0..3, |_, _, _| ());
        }
        assert!(ledger.totals.weight < 2.0 * WEIGHT_MAX && ledger.totals.turns > 900.0, "{:?}", ledger.totals);
        let importance: f64 = (0..3).map(|page| ledger.totals.importance(&ledger.account(page))).sum();
        assert!((importance - 1.0).abs() < 1e-5, "{importance}");
    }

    #[test]
    fn a_refund_keeps_the_order_of_those_that_wait() {
        let mut ledger = ledger(100);
        // Two wait with little credit, the others keep all of theirs.
        (0..98).for_each(|page| ledger.visit(page, &[(page + 1) % 98], 0, |_, _, _| ()));
        for page in [98, 99] {
            ledger.forfeit(page);
        }
        ledger.share_virtual(0..98, |_, _, _| ());
        ledger.visit(0, &[98, 1, 2, 3], 0, |_, _, _| ());
        ledger.visit(1, &[98, 99], 400_000, |_, _, _| ());
        let (more, less) = (ledger.credit(98), ledger.credit(99));
        assert!(more > less && less > 0);
        ledger.refund(|page| page >= 98);
        let times = ledger.credit(99) / less;
        assert!(times > 2 && ledger.credit(98) == more * times && ledger.credit(99) == less * times);
        assert!(ledger.credit(98) + ledger.credit(99) > TOTAL / 4);
        assert_eq!(ledger.sum(), u128::from(TOTAL));
        // If none has any credit, they get equal parts.
        ledger.forfeit(98);
        ledger.forfeit(99);
        ledger.refund(|page| page >= 98);
        assert!(ledger.credit(98) == ledger.credit(99) && ledger.credit(99) > TOTAL / 16);
    }

    proptest! {
        #[test]
        fn credit_is_conserved_to_the_unit_whatever_is_visited(
            pages in 1u32..40,
            tax in 0.01f64..0.99,
            acts in proptest::collection::vec((0u8..10, any::<u32>(), proptest::collection::btree_set(0u32..40, 0..20), 0u64..5), 1..200),
        ) {
            let mut ledger = Ledger::new(Totals::new(tax, 1.0));
            (0..pages).for_each(|_| ledger.add());
            ledger.share_virtual(0..pages, |_, _, _| ());
            for (kind, page, links, lost) in acts {
                let page = page % pages;
                let links: Vec<u32> = links.into_iter().filter(|link| *link < pages).collect();
                match kind {
                    0 => ledger.share_virtual(links.iter().copied(), |_, _, _| ()),
                    1 => ledger.forfeit(page),
                    2 => ledger.refund(|page| links.contains(&page)),
                    _ => ledger.visit(page, &links, lost, |_, before, after| assert!(before < after)),
                }
                prop_assert_eq!(ledger.sum(), u128::from(TOTAL));
                let importance: f64 = (0..pages).map(|page| ledger.totals.importance(&ledger.account(page))).sum();
                prop_assert!(importance == 0.0 || (importance - 1.0).abs() < 1e-3, "{}", importance);
            }
        }
    }
}
