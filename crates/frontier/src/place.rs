//! The order of queued pages: by credit; pages without a voucher behind all others, and among
//! themselves by their families' levels first.
//!
//! A trap can hold more credit than most of the web, e.g. when a hub links to it, but no page of
//! good standing links to anything below its second level ([`crate::trust`]). So pages without a
//! voucher come last, when no other page is left, and then in fair shares ([`crate::shares`]).

use crate::credit::{CLASSES, class};
use crate::shares::LEVELS;
use crate::trust::Standing;

/// Of a page with a voucher.
pub(crate) const VOUCHED: u16 = LEVELS * CLASSES as u16;

/// The place of a page in a queue; the highest comes first. `level` is that of its family, and
/// asked for only if it has no voucher.
#[inline]
pub(crate) fn place(credit: u64, standing: Standing, level: impl FnOnce() -> u16) -> u16 {
    match standing {
        Standing::None => (LEVELS - 1 - level()) * CLASSES as u16 + class(credit),
        _ => VOUCHED + class(credit),
    }
}

/// What an entry of a page is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// The page may be taken by it.
    Current,
    /// The page is not queued, or has another entry.
    Outdated,
    /// The page has sunk: the entry belongs further down.
    Sunk,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credit::TOTAL;

    #[test]
    fn a_word_counts_for_more_than_any_level_a_level_for_more_than_any_credit() {
        let at = |credit, standing, level| place(credit, standing, || level);
        assert!(at(0, Standing::Named, LEVELS - 1) > at(TOTAL, Standing::None, 0));
        assert!(at(0, Standing::None, 3) > at(TOTAL, Standing::None, 4));
        assert_eq!(at(1 << 20, Standing::Named, 0), at(1 << 20, Standing::Endorsed, 9));
        for standing in [Standing::None, Standing::Near] {
            assert!(at(1 << 21, standing, 0) > at(1 << 20, standing, 0));
        }
        assert_eq!(usize::from(at(0, Standing::None, LEVELS - 1)), 0);
    }
}
