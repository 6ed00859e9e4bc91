//! The ledger of credit: who holds how much, what a visit does, and the estimate of importance.
//!
//! *Adaptive on-line page importance computation* (Abiteboul, Preda, Cobena, WWW 2003). Credit is
//! a whole number of units, [`TOTAL`] in all. A visit takes a page's credit, gives the tax and the
//! remainder of the division to the *virtual page*, and shares the rest among the page's links. A
//! page without links gives all to the virtual page.
//!
//! Importance is (H + C) / (G + 1): the credit that a page has handed on and holds, by that of all
//! pages. History has a window W: a unit counts for a half once all credit was handed on W more
//! times. That takes one number a page, since weights grow instead of fading: what is added now
//! counts 2^(G/W) times as much as at first, and all is scaled down before it gets too large.
//!
//! Invariant: the credit of all pages and the virtual page sums to [`TOTAL`]. Weights are computed
//! by additions and multiplications only, so a replay on any machine gives the same bits.

use crate::grow::push;

/// All credit. Sums fit 64 bits with room to spare.
pub(crate) const TOTAL: u64 = 1 << 62;
/// The virtual page is visited when it holds this part of all credit.
const RENT_PART: u64 = 64;
/// Visits between two visits of the virtual page: at least this part of the pages.
const SWEEP_PART: u64 = 64;
/// Visits before a refund: at least this part of the pages.
const REFUND_SWEEP_PART: u64 = 512;
/// Weights are scaled down from here on: 2^64.
pub(crate) const WEIGHT_MAX: f64 = 18_446_744_073_709_551_616.0;

/// Classes of credit in each doubling, as a power of two.
const STEPS_LOG2: u32 = 3;
/// Classes of credit.
pub(crate) const CLASSES: usize = 64 << STEPS_LOG2;

/// The class of an amount: its logarithm in eighths of a doubling. Queues order pages by it.
#[inline]
pub(crate) fn class(credit: u64) -> u16 {
    let exponent = (credit | 1).ilog2();
    let mantissa = credit << (63 - exponent) >> (63 - STEPS_LOG2) & ((1 << STEPS_LOG2) - 1);
    (exponent << STEPS_LOG2) as u16 | mantissa as u16
}

/// Who holds how much.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    credit: Vec<u64>,
    history: Vec<f32>,
    pub(crate) totals: Totals,
}

/// Totals of the ledger.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Totals {
    /// Credit of the virtual page.
    pub(crate) virtual_credit: u64,
    /// The tax, in parts of 2^32.
    pub(crate) tax: u32,
    /// Growth of the weight when all credit is handed on once: ln 2 by the window.
    pub(crate) growth: f64,
    /// Weight of a unit handed on now.
    pub(crate) weight: f64,
    /// Sum of all history.
    pub(crate) weighted_turns: f64,
    /// How often all credit was handed on.
    pub(crate) turns: f64,
    /// Visits since the last sweep over all pages.
    pub(crate) visits_since_sweep: u64,
}

impl Totals {
    /// All credit is the virtual page's.
    pub(crate) fn new(tax: f64, window: f64) -> Totals {
        Totals {
            virtual_credit: TOTAL,
            tax: (tax * 4_294_967_296.0) as u32,
            growth: std::f64::consts::LN_2 / window,
            weight: 1.0,
            weighted_turns: 0.0,
            turns: 0.0,
            visits_since_sweep: 0,
        }
    }
}

impl Ledger {
    pub(crate) fn new(totals: Totals) -> Ledger {
        Ledger { credit: Vec::new(), history: Vec::new(), totals }
    }

    /// Adds a page with this credit and history: zero, or those of a snapshot.
    pub(crate) fn add(&mut self, credit: u64, history: f32) {
        push(&mut self.credit, credit);
        push(&mut self.history, history);
    }

    pub(crate) fn len(&self) -> usize {
        self.credit.len()
    }

    #[inline]
    pub(crate) fn credit(&self, page: u32) -> u64 {
        self.credit[page as usize]
    }

    pub(crate) fn history(&self, page: u32) -> f32 {
        self.history[page as usize]
    }

    /// Credit of all pages and the virtual page: [`TOTAL`].
    pub(crate) fn sum(&self) -> u128 {
        self.credit.iter().map(|credit| u128::from(*credit)).sum::<u128>() + u128::from(self.totals.virtual_credit)
    }

    /// Visits a page: shares its credit among its links, each listed once, and `lost` more that
    /// are not kept. Calls `gained` with each page that gains, and its credit before and after.
    #[inline]
    pub(crate) fn visit(&mut self, page: u32, links: &[u32], lost: u64, mut gained: impl FnMut(u32, u64, u64)) {
        let credit = std::mem::take(&mut self.credit[page as usize]);
        self.handed_on(page, credit);
        self.totals.visits_since_sweep += 1;
        if self.totals.weight >= WEIGHT_MAX {
            self.scale_down();
        }
        let tax = ((u128::from(credit) * u128::from(self.totals.tax)) >> 32) as u64;
        let share = (credit - tax).checked_div(links.len() as u64 + lost).unwrap_or(0);
        self.totals.virtual_credit += credit - share * links.len() as u64;
        if share == 0 {
            return;
        }
        for &link in links {
            let before = self.credit[link as usize];
            self.credit[link as usize] = before + share;
            gained(link, before, before + share);
        }
    }

    /// Adds credit that a page hands on to its history.
    #[inline]
    fn handed_on(&mut self, page: u32, credit: u64) {
        let part = credit as f64 * (1.0 / TOTAL as f64);
        let totals = &mut self.totals;
        let weighted = part * totals.weight;
        self.history[page as usize] += weighted as f32;
        totals.weighted_turns += weighted;
        totals.turns += part;
        totals.weight += weighted * totals.growth;
    }

    fn scale_down(&mut self) {
        let by = 1.0 / WEIGHT_MAX;
        self.history.iter_mut().for_each(|history| *history *= by as f32);
        self.totals.weight *= by;
        self.totals.weighted_turns *= by;
    }

    /// Moves all credit of a page to the virtual page, as from a page without links.
    pub(crate) fn forfeit(&mut self, page: u32) {
        self.visit(page, &[], 0, |_, _, _| ());
    }

    /// Whether to visit the virtual page: when it holds 1/64 of all credit. Comparing it with the
    /// richest page, as the textbook does, would bring the same credit in ever smaller parts, each
    /// at the price of a sweep.
    pub(crate) fn is_rent_due(&self) -> bool {
        let may_sweep = self.totals.visits_since_sweep >= self.len() as u64 / SWEEP_PART;
        self.totals.virtual_credit >= TOTAL / RENT_PART && may_sweep
    }

    /// Whether visits since the last sweep pay for a refund.
    pub(crate) fn may_refund(&self) -> bool {
        self.totals.visits_since_sweep >= self.len() as u64 / REFUND_SWEEP_PART
    }

    /// Visits the virtual page: shares its credit among the members, each listed once. Calls
    /// `gained` as [`Ledger::visit`] does.
    pub(crate) fn share_virtual(
        &mut self,
        members: impl Iterator<Item = u32> + Clone,
        mut gained: impl FnMut(u32, u64, u64),
    ) {
        self.totals.visits_since_sweep = 0;
        let count = members.clone().count() as u64;
        let share = self.totals.virtual_credit.checked_div(count).unwrap_or(0);
        if share == 0 {
            return;
        }
        self.totals.virtual_credit -= share * count;
        for member in members {
            let before = self.credit[member as usize];
            self.credit[member as usize] = before + share;
            gained(member, before, before + share);
        }
    }

    /// Refunds credit to pages waiting for their first fetch (`is_queued`), in proportion to what
    /// each has. Fetched pages that are not refetched soon keep nearly all credit, and divisions
    /// would leave nothing for the others. Takes half of what fetched pages hold, which counts in
    /// their history, and all of the virtual page's.
    pub(crate) fn refund(&mut self, is_queued: impl Fn(u32) -> bool) {
        self.totals.visits_since_sweep = 0;
        let (mut held, mut queued) = (0, 0);
        for page in 0..self.len() as u32 {
            if is_queued(page) {
                held += self.credit(page);
                queued += 1;
                continue;
            }
            let half = self.credit(page) / 2;
            self.credit[page as usize] -= half;
            self.handed_on(page, half);
            self.totals.virtual_credit += half;
        }
        if self.totals.weight >= WEIGHT_MAX {
            self.scale_down();
        }
        let purse = self.totals.virtual_credit;
        let (times, each) = match held {
            0 => (0, purse.checked_div(queued).unwrap_or(0)),
            held => (purse / held, 0),
        };
        for page in (0..self.len() as u32).filter(|page| is_queued(*page)) {
            let gain = self.credit(page) * times + each;
            self.credit[page as usize] += gain;
            self.totals.virtual_credit -= gain;
        }
    }

    /// The importance of a page, (H + C) / (G + 1): all pages sum to 1, once any page had credit.
    pub(crate) fn importance(&self, page: u32) -> f64 {
        self.estimate(page, 1.0)
    }

    /// The estimate with held credit counted by this part.
    pub(crate) fn estimate(&self, page: u32, part: f64) -> f64 {
        let totals = &self.totals;
        let unit = part * totals.weight / TOTAL as f64;
        let all = totals.weighted_turns + (TOTAL - totals.virtual_credit) as f64 * unit;
        let own = f64::from(self.history(page)) + self.credit(page) as f64 * unit;
        if all > 0.0 { own / all } else { 0.0 }
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.credit.capacity() * 8 + self.history.capacity() * 4) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ledger(pages: u32) -> Ledger {
        let mut ledger = Ledger::new(Totals::new(0.1, 4.0));
        (0..pages).for_each(|_| ledger.add(0, 0.0));
        ledger.share_virtual(0..pages, |_, _, _| ());
        ledger
    }

    #[test]
    fn classes_rise_with_credit_by_eighths_of_a_doubling() {
        let mut last = class(0);
        for credit in (0..60).flat_map(|bit| (0..16u64).map(move |part| (1 << bit) + ((part << bit) >> 4))) {
            assert!(class(credit) >= last && usize::from(class(credit)) < CLASSES, "{credit}");
            last = class(credit);
        }
        assert_eq!(class(1 << 20) + 8, class(1 << 21));
        assert_eq!(class(9 << 20), class((10 << 20) - 1));
        assert!(class(10 << 20) > class(9 << 20) && class(TOTAL) > class(TOTAL - 1));
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
        assert!((f64::from(ledger.history(0)) - 0.25).abs() < 1e-7);
        ledger.forfeit(3);
        assert_eq!((ledger.credit(3), ledger.sum()), (0, u128::from(TOTAL)));
    }

    #[test]
    fn weights_are_scaled_down_before_they_overflow_and_importance_stays() {
        let mut ledger = Ledger::new(Totals::new(0.1, 0.1));
        (0..3).for_each(|_| ledger.add(0, 0.0));
        ledger.share_virtual(0..3, |_, _, _| ());
        for _ in 0..1_000 {
            (0..3).for_each(|page| ledger.visit(page, &[(page + 1) % 3], 0, |_, _, _| ()));
            ledger.share_virtual(0..3, |_, _, _| ());
        }
        assert!(ledger.totals.weight < 2.0 * WEIGHT_MAX && ledger.totals.turns > 900.0, "{:?}", ledger.totals);
        let importance: f64 = (0..3).map(|page| ledger.importance(page)).sum();
        assert!((importance - 1.0).abs() < 1e-5, "{importance}");
    }

    #[test]
    fn a_refund_keeps_the_order_of_those_that_wait() {
        let mut ledger = ledger(100);
        // Two wait with little, the others keep all.
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
        // With nothing at all they get equal parts.
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
            (0..pages).for_each(|_| ledger.add(0, 0.0));
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
                let importance: f64 = (0..pages).map(|page| ledger.importance(page)).sum();
                prop_assert!(importance == 0.0 || (importance - 1.0).abs() < 1e-3, "{}", importance);
            }
        }
    }
}
