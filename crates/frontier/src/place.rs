//! The order of queued pages: by credit, pages without a voucher behind all others.
//!
//! A trap can hold more credit than most of the web, e.g. when a hub links to it, but no page of
//! good standing links to anything below its second level ([`crate::trust`]). So pages without a
//! voucher come last, when no other page is left.

use crate::credit::{CLASSES, class};
use crate::trust::Standing;

/// The place of a page in a queue; the highest comes first.
#[inline]
pub(crate) fn place(credit: u64, standing: Standing) -> u16 {
    match standing {
        Standing::None => class(credit),
        _ => CLASSES as u16 + class(credit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credit::TOTAL;

    #[test]
    fn a_word_counts_for_more_than_any_credit_and_credit_decides_among_equals() {
        assert!(place(0, Standing::Named) > place(TOTAL, Standing::None));
        assert_eq!(place(1 << 20, Standing::Named), place(1 << 20, Standing::Endorsed));
        for standing in [Standing::None, Standing::Near] {
            assert!(place(1 << 21, standing) > place(1 << 20, standing));
        }
        assert!(usize::from(place(TOTAL, Standing::Endorsed)) < 2 * CLASSES);
    }
}
