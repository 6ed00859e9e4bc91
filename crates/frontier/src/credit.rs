//! Credit: what a page holds, the effect of a visit, and the estimate of importance.
//!
//! *Adaptive on-line page importance computation* (Abiteboul, Preda, Cobena, WWW 2003). Credit is
//! a whole number of units, [`TOTAL`] in all. A visit takes a page's credit, gives the tax and the
//! remainder of the division to the *virtual page*, and shares the rest among the page's links. A
//! page without links gives all to the virtual page.
//!
//! Importance is (H + C) / (G + 1): the credit that a page has handed on and holds, divided by
//! that of all pages. The window W is the half-life of history: a unit counts half once all credit
//! was handed on W more times. One number a page is enough, since weights grow instead of fading:
//! new history counts 2^(G/W) times as much as at first, and is scaled down in time.
//!
//! Invariant: the credit of all pages, the virtual page and the undelivered shares sum to
//! [`TOTAL`]. Weights use additions and multiplications only, so a replay on any machine gives the
//! same bits.

/// Total credit. Sums fit 64 bits with room to spare.
pub(crate) const TOTAL: u64 = 1 << 62;
/// The virtual page is visited when it holds this fraction (1/64) of all credit.
const RENT_PART: u64 = 64;
/// Bound on any history, of a page and in sum; 32-bit floats can hold more.
pub(crate) const HISTORY_MAX: f64 = 1e36;
/// Minimum visits between two visits of the virtual page: this fraction of the pages.
const SWEEP_PART: u64 = 64;
/// Minimum visits before a refund: this fraction of the pages.
const REFUND_SWEEP_PART: u64 = 512;
/// Weights are scaled down when they reach this: 2^64.
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

/// The credit that a page holds, and its history of credit handed on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Account {
    pub(crate) credit: u64,
    pub(crate) history: f32,
}

impl Account {
    /// Scales its history down with all others ([`Totals::is_heavy`]).
    pub(crate) fn scale_down(&mut self) {
        self.history *= (1.0 / WEIGHT_MAX) as f32;
    }
}

/// Totals of all accounts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Totals {
    /// Credit of the virtual page.
    pub(crate) virtual_credit: u64,
    /// Credit in shares that wait for the next delivery.
    pub(crate) waiting: u64,
    /// The tax, in parts of 2^32.
    pub(crate) tax: u32,
    /// Growth of the weight when all credit is handed on once: ln 2 / window.
    pub(crate) growth: f64,
    /// Weight of a unit that is handed on now.
    pub(crate) weight: f64,
    /// Sum of all history.
    pub(crate) weighted_turns: f64,
    /// Number of times that all credit was handed on.
    pub(crate) turns: f64,
    /// Visits since the last sweep over all pages.
    pub(crate) visits_since_sweep: u64,
}

impl Totals {
    /// The initial totals: the virtual page holds all credit.
    pub(crate) fn new(tax: f64, window: f64) -> Totals {
        Totals {
            virtual_credit: TOTAL,
            waiting: 0,
            tax: (tax * 4_294_967_296.0) as u32,
            growth: std::f64::consts::LN_2 / window,
            weight: 1.0,
            weighted_turns: 0.0,
            turns: 0.0,
            visits_since_sweep: 0,
        }
    }

    /// Visits a page with `links` links, and `lost` more that are not kept: takes its credit, and
    /// returns the share of each link. The remainder goes to the virtual page.
    #[inline]
    pub(crate) fn visit(&mut self, account: &mut Account, links: usize, lost: u64) -> u64 {
        let credit = self.take(account);
        self.share_out(credit, links, lost)
    }

    /// Takes the credit of a visited page, to be passed to [`Totals::share_out`].
    #[inline]
    pub(crate) fn take(&mut self, account: &mut Account) -> u64 {
        let credit = std::mem::take(&mut account.credit);
        self.hand_on(account, credit);
        self.visits_since_sweep += 1;
        credit
    }

    /// The share of each link of a visited page. The remainder goes to the virtual page.
    #[inline]
    pub(crate) fn share_out(&mut self, credit: u64, links: usize, lost: u64) -> u64 {
        let tax = ((u128::from(credit) * u128::from(self.tax)) >> 32) as u64;
        let share = (credit - tax).checked_div(links as u64 + lost).unwrap_or(0);
        self.virtual_credit += credit - share * links as u64;
        share
    }

    /// Adds credit that a page hands on to its history.
    #[inline]
    fn hand_on(&mut self, account: &mut Account, credit: u64) {
        let part = credit as f64 * (1.0 / TOTAL as f64);
        let weighted = part * self.weight;
        account.history += weighted as f32;
        self.weighted_turns += weighted;
        self.turns += part;
        self.weight += weighted * self.growth;
    }

    /// Returns whether all history must be scaled down by a call of [`Totals::scale_down`].
    pub(crate) fn is_heavy(&self) -> bool {
        self.weight >= WEIGHT_MAX
    }

    pub(crate) fn scale_down(&mut self) {
        self.weight *= 1.0 / WEIGHT_MAX;
        self.weighted_turns *= 1.0 / WEIGHT_MAX;
    }

    /// Moves all credit of a page to the virtual page, as from a page without links.
    pub(crate) fn forfeit(&mut self, account: &mut Account) {
        self.visit(account, 0, 0);
    }

    /// Returns whether to visit the virtual page: it holds 1/64 of all credit. The textbook
    /// compares it with the richest page instead; that would hand out the same credit in ever
    /// smaller parts, each at the price of a sweep.
    pub(crate) fn is_rent_due(&self, pages: u32) -> bool {
        self.virtual_credit >= TOTAL / RENT_PART && self.visits_since_sweep >= u64::from(pages) / SWEEP_PART
    }

    /// Returns whether there were enough visits since the last sweep for a refund.
    pub(crate) fn may_refund(&self, pages: u32) -> bool {
        self.visits_since_sweep >= u64::from(pages) / REFUND_SWEEP_PART
    }

    /// Visits the virtual page in a sweep: see [`Totals::share_virtual`].
    pub(crate) fn pay_rent(&mut self, members: u64) -> u64 {
        self.visits_since_sweep = 0;
        self.share_virtual(members)
    }

    /// Takes the virtual page's credit, except for the remainder of the division, and returns the
    /// share of each of `members` pages.
    pub(crate) fn share_virtual(&mut self, members: u64) -> u64 {
        let share = self.virtual_credit.checked_div(members).unwrap_or(0);
        self.virtual_credit -= share * members;
        share
    }

    /// For a refund: takes half of a fetched page's credit, and adds it to its history.
    pub(crate) fn take_half(&mut self, account: &mut Account) -> u64 {
        let half = account.credit / 2;
        account.credit -= half;
        self.hand_on(account, half);
        half
    }

    /// For a refund: takes all credit of the virtual page.
    pub(crate) fn empty_virtual(&mut self) -> u64 {
        self.visits_since_sweep = 0;
        std::mem::take(&mut self.virtual_credit)
    }

    /// The importance of a page, (H + C) / (G + 1). All pages sum to 1, once any had credit.
    pub(crate) fn importance(&self, account: &Account) -> f64 {
        self.estimate(account, 1.0)
    }

    /// The estimate, with held credit multiplied by `part`.
    pub(crate) fn estimate(&self, account: &Account, part: f64) -> f64 {
        let unit = part * self.weight / TOTAL as f64;
        let all = self.weighted_turns + (TOTAL - self.virtual_credit - self.waiting) as f64 * unit;
        let own = f64::from(account.history) + account.credit as f64 * unit;
        if all > 0.0 { own / all } else { 0.0 }
    }
}

/// The refund of each page that waits for its first fetch: a multiple of its credit, and a fixed
/// part. Fetched pages that are not refetched soon keep nearly all credit, and divisions would
/// leave nothing for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refund {
    pub(crate) times: u64,
    pub(crate) part: u64,
}

impl Refund {
    /// Divides a pot among `waiting` pages that hold `held` in all: in proportion to their credit,
    /// so their order stays, or equally if none has any.
    pub(crate) fn of(pot: u64, held: u64, waiting: u64) -> Refund {
        match held {
            0 => Refund { times: 0, part: pot.checked_div(waiting).unwrap_or(0) },
            held => Refund { times: pot / held, part: 0 },
        }
    }

    /// The gain of a page that holds `credit`, limited by what is left of the pot.
    pub(crate) fn gain(self, credit: u64, pot: u64) -> u64 {
        credit.saturating_mul(self.times).saturating_add(self.part).min(pot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
