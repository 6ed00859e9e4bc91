//! Credit and vouchers waiting for delivery: what visited pages give to pages whose rows may be on
//! disk.
//!
//! A share of credit is a few bytes; the block of rows that it belongs to is 4096 bytes, on disk.
//! So shares wait in memory as *parcels*, and a *round* delivers them. A round goes through the
//! pages in order, so it reads and writes each block once. It advances a stretch of pages with
//! each event, so no call takes long. A round begins once the links recorded reach a fraction of
//! the known pages, and ends after half as many more.
//!
//! A round also examines fetched pages for virtual visits, and pays rent. A refund takes two
//! rounds: the first collects a pot that belongs to nobody until the second pays it out, so that
//! seeds and links from other crawls get none of it.
//!
//! Invariant: parcels and the progress of a round follow from records and known pages alone; a
//! snapshot has both, so a replay does the same at the same records.

use crate::credit::Refund;
use crate::grow::push;
use crate::links::Place;
use crate::trust::Word;

/// A round begins after as many links as this fraction of the known pages.
const LINKS_PART: u64 = if cfg!(test) { 16 } else { 64 };
/// Pages that a round advances with each link.
const PAGES_A_LINK: u64 = 2 * LINKS_PART;
/// Maximum lists of links examined for each virtual visit.
pub(crate) const LOOKS_MAX: u8 = 8;

/// The gift of a visited page to each of its links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gift {
    pub(crate) share: u64,
    pub(crate) word: Option<Word>,
}

/// Gifts and the pages that they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parcels {
    pub(crate) gifts: Vec<Gift>,
    /// Each has the page in the high half, the index of its gift in the low one.
    pub(crate) parcels: Vec<u64>,
}

/// The waiting parcels, and the current round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// Links recorded since the last round began, plus one for each page that had them.
    pub(crate) links: u64,
    /// Fetches recorded since the last round began.
    pub(crate) fetches: u64,
    /// Lists of links examined for each virtual visit.
    pub(crate) looks: u8,
    /// Parcels for the next round.
    pub(crate) waiting: Parcels,
    /// Credit collected by the last round for a refund, which the next one pays.
    pub(crate) pot: Option<u64>,
    pub(crate) round: Option<Round>,
}

/// The task of a round besides delivering parcels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Errand {
    #[default]
    None,
    /// Each member gets `share`, while the pot lasts.
    Rent { share: u64 },
    /// Fetched pages give half of their credit to the pot of a refund.
    Collect,
    /// Pages that wait for their first fetch are paid from the pot.
    Pay(Refund),
}

/// The current round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Round {
    /// The next page, and the end of the range of pages.
    pub(crate) next: u32,
    pub(crate) end: u32,
    /// Sorted by page.
    pub(crate) parcels: Parcels,
    /// Page of a list of links in the high half, index of the list in the low one; sorted by page.
    pub(crate) looks: Vec<u64>,
    /// Numbers of parcels and of looks that are done.
    pub(crate) done: [usize; 2],
    /// Place of the first list in the file of links, number of lists, and the visits wanted.
    pub(crate) place: Place,
    pub(crate) lists: u64,
    pub(crate) wanted: u64,
    pub(crate) taken: Vec<Taken>,
    pub(crate) errand: Errand,
    /// Credit left of the rent or the refund, or collected for one.
    pub(crate) pot: u64,
}

/// A fetched page whose credit was taken, and the index of its list among those examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) list: u32,
    pub(crate) credit: u64,
    pub(crate) word: Option<Word>,
}

/// The page of a parcel or a look.
pub(crate) fn page_of(one: u64) -> u32 {
    (one >> 32) as u32
}

impl Default for Delivery {
    fn default() -> Delivery {
        let (waiting, round) = (Parcels::default(), None);
        Delivery { links: 0, fetches: 0, looks: 2, waiting, pot: None, round }
    }
}

impl Delivery {
    /// Counts an event; returns the number of pages by which the round advances.
    pub(crate) fn told(&mut self, links: usize, is_fetch: bool) -> u32 {
        self.links = self.links.saturating_add(1 + links as u64);
        self.fetches = self.fetches.saturating_add(u64::from(is_fetch));
        u32::try_from(PAGES_A_LINK.saturating_mul(1 + links as u64)).unwrap_or(u32::MAX)
    }

    /// Returns whether a round must begin, given the number of known pages.
    pub(crate) fn is_due(&self, pages: u32) -> bool {
        self.round.is_none() && self.links >= u64::from(pages) / LINKS_PART
    }

    /// Adds a parcel of a gift for each of these pages.
    pub(crate) fn put(&mut self, gift: Gift, pages: &[u32]) {
        if pages.is_empty() {
            return;
        }
        let number = self.waiting.gifts.len() as u64;
        debug_assert!(number <= u64::from(u32::MAX), "a gift's number has 32 bits");
        push(&mut self.waiting.gifts, gift);
        pages.iter().for_each(|page| push(&mut self.waiting.parcels, u64::from(*page) << 32 | number));
    }

    /// Takes the waiting parcels for a round, sorted by page.
    pub(crate) fn collect(&mut self) -> Parcels {
        (self.links, self.fetches) = (0, 0);
        let mut parcels = std::mem::take(&mut self.waiting);
        parcels.parcels.sort_unstable();
        parcels
    }

    /// Sets the number of lists examined per visit in the next round: more if fewer visits were
    /// found than wanted, fewer if a quarter more were.
    pub(crate) fn adapt(&mut self, found: u64, wanted: u64) {
        match found {
            _ if found < wanted => self.looks = (self.looks + 1).min(LOOKS_MAX),
            _ if found > wanted + wanted / 4 => self.looks = (self.looks - 1).max(1),
            _ => {}
        }
    }

    /// The credit in parcels and pots. O(parcels).
    pub(crate) fn credit(&self) -> u128 {
        let of_round = self.round.as_ref().map_or(0, |round| {
            let taken: u128 = round.taken.iter().map(|taken| u128::from(taken.credit)).sum();
            round.parcels.credit(round.done[0]) + taken + u128::from(round.pot)
        });
        self.waiting.credit(0) + u128::from(self.pot.unwrap_or(0)) + of_round
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.waiting.memory_bytes() + self.round.as_ref().map_or(0, Round::memory_bytes)
    }
}

impl Parcels {
    /// The credit in parcels from index `from` on.
    fn credit(&self, from: usize) -> u128 {
        let left = self.parcels.iter().skip(from);
        left.filter_map(|parcel| self.gifts.get(*parcel as u32 as usize)).map(|gift| u128::from(gift.share)).sum()
    }

    fn memory_bytes(&self) -> u64 {
        (self.gifts.capacity() * size_of::<Gift>() + self.parcels.capacity() * size_of::<u64>()) as u64
    }
}

impl Round {
    /// The next page below `to` with a parcel or a look; every page if the round has an errand.
    pub(crate) fn next_page(&self, to: u32) -> Option<u32> {
        let next = match self.errand {
            Errand::None => {
                let [parcel, look] = [self.parcels.parcels.get(self.done[0]), self.looks.get(self.done[1])];
                parcel.into_iter().chain(look).map(|one| page_of(*one)).min()
            }
            _ => Some(self.next),
        };
        next.filter(|page| *page < to)
    }

    /// Returns whether the round has yet to pay a refund to a page.
    pub(crate) fn pays_later(&self, page: u32) -> bool {
        matches!(self.errand, Errand::Pay(_)) && (self.next..self.end).contains(&page)
    }

    /// Removes and returns the gifts for a page.
    pub(crate) fn gifts_of(&mut self, page: u32) -> impl Iterator<Item = Gift> + Clone {
        let from = self.done[0];
        self.done[0] = end_of(&self.parcels.parcels, from, page);
        let gifts = &self.parcels.gifts;
        self.parcels.parcels[from..self.done[0]].iter().map(|parcel| gifts[*parcel as u32 as usize])
    }

    /// Removes and returns the looks at a page.
    pub(crate) fn looks_of(&mut self, page: u32) -> std::ops::Range<usize> {
        let from = self.done[1];
        self.done[1] = end_of(&self.looks, from, page);
        from..self.done[1]
    }

    fn memory_bytes(&self) -> u64 {
        let lists = self.looks.capacity() * size_of::<u64>() + self.taken.capacity() * size_of::<Taken>();
        self.parcels.memory_bytes() + lists as u64
    }
}

/// The end of the entries of a page that begin at index `from`.
fn end_of(list: &[u64], from: usize, page: u32) -> usize {
    from + list[from..].iter().take_while(|one| page_of(**one) == page).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parcels_come_by_page_with_their_gifts_and_only_once() {
        let mut delivery = Delivery::default();
        let gift = |share| Gift { share, word: None };
        delivery.put(gift(7), &[3, 900, 5]);
        delivery.put(gift(1), &[5]);
        assert_eq!((delivery.credit(), delivery.waiting.parcels.len()), (22, 4));
        let mut round = Round { parcels: delivery.collect(), looks: vec![4 << 32, 5 << 32 | 7], ..Round::default() };
        assert_eq!(delivery.credit(), 0);
        let mut given = Vec::new();
        while let Some(page) = round.next_page(900) {
            let shares: Vec<u64> = round.gifts_of(page).map(|gift| gift.share).collect();
            given.push((page, shares, round.looks_of(page).len()));
        }
        assert_eq!(given, [(3, vec![7], 0), (4, vec![], 1), (5, vec![7, 1], 1)]);
        assert_eq!((round.parcels.credit(round.done[0]), round.next_page(901)), (7, Some(900)));
        delivery.round = Some(round);
        assert_eq!(delivery.credit(), 7);
    }

    #[test]
    fn a_round_begins_at_once_in_a_small_crawl_and_after_a_part_of_a_large_one() {
        let mut delivery = Delivery::default();
        delivery.told(0, false);
        assert!(delivery.is_due(31) && !delivery.is_due(32) && delivery.fetches == 0);
        delivery.collect();
        let fetches = (1..).find(|_| delivery.told(10, true) > 0 && delivery.is_due(1_000_000)).expect("in the end");
        assert_eq!((fetches, delivery.fetches), (1_000_000 / LINKS_PART / 11 + 1, fetches));
        delivery.round = Some(Round::default());
        assert!(!delivery.is_due(1_000_000), "one at a time");
    }

    #[test]
    fn as_many_lists_are_examined_as_give_the_visits_that_are_wanted() {
        let mut delivery = Delivery::default();
        (0..20).for_each(|_| delivery.adapt(7, 8));
        assert_eq!(delivery.looks, LOOKS_MAX);
        delivery.adapt(10, 8);
        assert_eq!(delivery.looks, LOOKS_MAX);
        (0..20).for_each(|_| delivery.adapt(11, 8));
        assert_eq!(delivery.looks, 1);
    }
}
