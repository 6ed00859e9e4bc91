//! The order in which pages wait: by credit, and those that nobody vouches for behind all others.
//!
//! A trap can be worth more credit than most of the web, as when a hub leads to it, but no page of
//! good standing leads to what lies deeper in it than the second level ([`crate::trust`]). So
//! pages without a word for them wait until no other is left: they come last, and in the end they
//! come.

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
