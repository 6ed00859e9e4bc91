//! The order of queued pages: by credit. Pages without a voucher come after all others, ordered
//! first by their families' levels.
//!
//! A trap can hold more credit than most of the web, e.g. when a hub links to it, but no page of
//! good standing links to anything below its second level ([`crate::trust`]). So pages without a
//! voucher come last, when no other page is left, and then in fair shares ([`crate::shares`]).

use crate::credit::{CLASSES, class};
use crate::shares::LEVELS;
use crate::trust::Standing;

/// The lowest place of a page with a voucher.
pub(crate) const VOUCHED: u16 = LEVELS * CLASSES as u16;

/// The place of a page in a queue; the highest comes first. `level` returns its family's level; it
/// is called only for a page without a voucher.
#[inline]
pub(crate) fn place(credit: u64, standing: Standing, level: impl FnOnce() -> u16) -> u16 {
    match standing {
        Standing::None => (LEVELS - 1 - level()) * CLASSES as u16 + class(credit),
        _ => VOUCHED + class(credit),
    }
}

/// The validity of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// The page may be taken from it.
    Current,
    /// The page is not queued, or has another entry.
    Outdated,
    /// The page has sunk: the entry belongs further back.
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
