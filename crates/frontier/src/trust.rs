//! Endorsement: pages that two others vouch for. Only those get rent, so a trap that feeds on
//! itself gets none.
//!
//! A page is *endorsed* if it is a seed or two pages of good standing link to it. A page is of
//! good standing if it is endorsed or an endorsed page links to it (it is *near*). A page vouches
//! once, at its first visit in good standing; the targets of an endorsed page become near at its
//! visits.
//!
//! So nothing behind a single page is ever endorsed, however densely linked: its root is near, the
//! root's targets have one voucher, and theirs have none.
//!
//! Invariants: three bits a page; standing only rises.

/// Standing, in rising order. The numbers are on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Standing {
    /// No voucher.
    #[default]
    None = 0,
    /// A near page links to it.
    Named = 1,
    /// An endorsed page links to it.
    Near = 2,
    /// Two pages of good standing link to it, or it is a seed.
    Endorsed = 3,
}

impl Standing {
    const ALL: [Standing; 4] = [Standing::None, Standing::Named, Standing::Near, Standing::Endorsed];

    /// The standing after a page with standing `referrer` has vouched.
    fn after(self, referrer: Standing) -> Standing {
        match (referrer, self) {
            (Standing::None | Standing::Named, own) => own,
            (Standing::Endorsed, Standing::None) => Standing::Near,
            (Standing::Near, Standing::None) => Standing::Named,
            _ => Standing::Endorsed,
        }
    }
}

/// A page's standing (2 bits), and whether it has vouched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trust(pub(crate) u8);

const STANDING: u8 = 3;
const HAS_SPOKEN: u8 = 4;

/// A word: the statement of a visited page about its links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    referrer: Standing,
    /// True if it vouches for them, which a page does once.
    vouches: bool,
}

impl Word {
    /// Encodes a word in a byte: 0 for none; else the referrer's standing, plus 4 if it vouches.
    pub(crate) fn code(word: Option<Word>) -> u8 {
        word.map_or(0, |word| word.referrer as u8 | if word.vouches { HAS_SPOKEN } else { 0 })
    }

    /// Decodes a word from disk; `None` if invalid.
    pub(crate) fn of_code(code: u8) -> Option<Option<Word>> {
        let referrer = Trust::checked(code)?.standing();
        match code {
            0 => Some(None),
            _ if referrer < Standing::Near => None,
            _ => Some(Some(Word { referrer, vouches: code & HAS_SPOKEN != 0 })),
        }
    }
}

impl Trust {
    /// Trust from disk; `None` if invalid.
    pub(crate) fn checked(bits: u8) -> Option<Trust> {
        (bits <= STANDING | HAS_SPOKEN).then_some(Trust(bits))
    }

    #[inline]
    pub(crate) fn standing(self) -> Standing {
        Standing::ALL[usize::from(self.0 & STANDING)]
    }

    pub(crate) fn set(&mut self, standing: Standing) {
        self.0 = self.0 & HAS_SPOKEN | standing as u8;
    }

    /// The word of a page at a visit, if its standing allows one.
    #[inline]
    pub(crate) fn speak(&mut self) -> Option<Word> {
        let referrer = self.standing();
        let vouches = referrer >= Standing::Near && self.0 & HAS_SPOKEN == 0;
        if vouches {
            self.0 |= HAS_SPOKEN;
        }
        (vouches || referrer == Standing::Endorsed).then_some(Word { referrer, vouches })
    }

    /// Applies a word of another page; returns the standing before and after, if it has risen.
    #[inline]
    pub(crate) fn hear(&mut self, word: Word) -> Option<(Standing, Standing)> {
        let before = self.standing();
        let after = if word.vouches { before.after(word.referrer) } else { before.max(Standing::Near) };
        self.set(after);
        (before != after).then_some((before, after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(pages: &mut [Trust], page: usize, links: &[usize]) {
        if let Some(word) = pages[page].speak() {
            links.iter().filter(|link| **link != page).for_each(|link| {
                pages[*link].hear(word);
            });
        }
    }

    #[test]
    fn two_pages_of_good_standing_endorse_a_third_and_nothing_hung_on_one_page_is_ever_endorsed() {
        let mut pages = [Trust::default(); 12];
        pages[0].set(Standing::Endorsed);
        // The seed leads to 1, 2 and 3; 1 leads to 2, and 3 is the gate of a trap whose pages 4 to
        // 11 all lead to each other.
        visit(&mut pages, 0, &[0, 1, 2, 3]);
        assert_eq!([1, 2, 3].map(|page| pages[page].standing()), [Standing::Near; 3]);
        visit(&mut pages, 1, &[2]);
        assert_eq!(pages[2].standing(), Standing::Endorsed);
        visit(&mut pages, 2, &[1, 3]);
        assert_eq!([1, 3].map(|page| pages[page].standing()), [Standing::Endorsed; 2]);
        let all: Vec<usize> = (4..12).collect();
        for _ in 0..3 {
            visit(&mut pages, 3, &[4]);
            all.iter().for_each(|page| visit(&mut pages, *page, &all));
        }
        assert_eq!(pages[4].standing(), Standing::Near);
        assert!((5..12).all(|page| pages[page].standing() == Standing::Named));
    }
}
