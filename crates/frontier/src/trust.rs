//! Endorsement: which pages two others vouch for. Only those get rent, so a trap that feeds on
//! itself gets none.
//!
//! A page is *endorsed* if it is a seed or two pages of good standing link to it. A page is of
//! good standing if it is endorsed or an endorsed page links to it (it is *near*). A page vouches
//! once, at its first visit in good standing; the targets of an endorsed page become near at its
//! visits.
//!
//! So nothing that hangs on one page of the rest is ever endorsed, however densely linked: its
//! root is near, the root's targets have one voucher, and theirs have none.
//!
//! Invariant: half a byte a page; standing only rises.

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

/// The standing of all pages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trust {
    /// Two pages a byte: standing (2 bits), and whether the page has vouched.
    bits: Vec<u8>,
    len: u32,
}

const STANDING: u8 = 3;
const HAS_SPOKEN: u8 = 4;

impl Trust {
    /// Adds a page without a voucher.
    pub(crate) fn add(&mut self) {
        if self.len.is_multiple_of(2) {
            crate::grow::push(&mut self.bits, 0);
        }
        self.len += 1;
    }

    /// A page's bits as on disk.
    #[inline]
    pub(crate) fn mark(&self, page: u32) -> u8 {
        self.bits[page as usize / 2] >> (page % 2 * 4) & (STANDING | HAS_SPOKEN)
    }

    /// Sets a page's bits from disk; `false` if they are impossible.
    pub(crate) fn set_mark(&mut self, page: u32, mark: u8) -> bool {
        let (byte, shift) = (&mut self.bits[page as usize / 2], page % 2 * 4);
        *byte = *byte & !(7 << shift) | (mark & 7) << shift;
        mark < 8
    }

    #[inline]
    pub(crate) fn get(&self, page: u32) -> Standing {
        Standing::ALL[usize::from(self.mark(page) & STANDING)]
    }

    pub(crate) fn set(&mut self, page: u32, standing: Standing) {
        self.set_mark(page, self.mark(page) & HAS_SPOKEN | standing as u8);
    }

    /// Lets a visited page vouch for its links, if it may. Calls `risen` for each whose standing
    /// rises, with the standing before and after.
    #[inline]
    pub(crate) fn told(&mut self, page: u32, links: &[u32], mut risen: impl FnMut(u32, Standing, Standing)) {
        let (mark, referrer) = (self.mark(page), self.get(page));
        let speaks = referrer >= Standing::Near && mark & HAS_SPOKEN == 0;
        if speaks {
            self.set_mark(page, mark | HAS_SPOKEN);
        } else if referrer != Standing::Endorsed {
            return;
        }
        for &link in links.iter().filter(|link| **link != page) {
            let before = self.get(link);
            let after = if speaks { before.after(referrer) } else { before.max(Standing::Near) };
            if before != after {
                self.set(link, after);
                risen(link, before, after);
            }
        }
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.bits.capacity() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_pages_of_good_standing_endorse_a_third_and_nothing_hung_on_one_page_is_ever_endorsed() {
        let mut trust = Trust::default();
        (0..12).for_each(|_| trust.add());
        trust.set(0, Standing::Endorsed);
        // The seed leads to 1, 2 and 3; 1 leads to 2, and 3 is the gate of a trap whose pages 4 to
        // 11 all lead to each other.
        trust.told(0, &[0, 1, 2, 3], |_, _, _| ());
        assert_eq!([1, 2, 3].map(|page| trust.get(page)), [Standing::Near; 3]);
        trust.told(1, &[2], |_, _, _| ());
        assert_eq!(trust.get(2), Standing::Endorsed);
        trust.told(2, &[1, 3], |_, _, _| ());
        assert_eq!([1, 3].map(|page| trust.get(page)), [Standing::Endorsed; 2]);
        let all: Vec<u32> = (4..12).collect();
        for _ in 0..3 {
            trust.told(3, &[4], |_, _, _| ());
            all.iter().for_each(|page| trust.told(*page, &all, |_, _, _| ()));
        }
        assert_eq!(trust.get(4), Standing::Near);
        assert!((5..12).all(|page| trust.get(page) == Standing::Named));
        assert!(trust.set_mark(3, 7) && !trust.set_mark(3, 8));
    }
}
