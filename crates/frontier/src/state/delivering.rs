//! Rounds: one pass over the rows delivers parcels, makes virtual visits, and pays rent and
//! refunds ([`crate::delivery`]).

use super::State;
use crate::credit::{Refund, TOTAL};
use crate::delivery::{Errand, Gift, Round, Taken};
use crate::error::Result;
use crate::links::Links;
use crate::marks::Status;
use crate::record::ALL_LOST;

/// A refund is due when pages never fetched hold less than this fraction of all credit.
const REFUND_PART: u64 = 1024;
/// Marks a list to be examined as that of a barren page.
const BARREN: u64 = 1 << 31;
/// Maximum lists that a round examines; their indexes are below.
const LISTS_MAX: u64 = BARREN - 1;

impl State {
    /// Counts an event with `links` links; begins a round if one is due, and advances it.
    pub(super) fn deliver(&mut self, links: usize, is_fetch: bool) -> Result<()> {
        let pages = self.delivery.told(links, is_fetch);
        if self.delivery.is_due(self.table.len()) {
            self.begin_round()?;
        }
        let Some(mut round) = self.delivery.round.take() else { return Ok(()) };
        let to = round.next.saturating_add(pages).min(round.end);
        while let Some(page) = round.next_page(to) {
            self.serve(page, &mut round)?;
            round.next = page + 1;
        }
        round.next = to;
        self.scale_down_if_heavy()?;
        if to < round.end {
            self.delivery.round = Some(round);
            return Ok(());
        }
        self.end_round(round)
    }

    /// Collects the waiting parcels, and the pages of the next lists of links.
    fn begin_round(&mut self) -> Result<()> {
        let wanted = self.delivery.fetches.saturating_mul(u64::from(self.virtual_visits));
        let place = self.links.as_ref().map(Links::place).unwrap_or_default();
        let lists = wanted.saturating_mul(u64::from(self.delivery.looks)).min(place.lists).min(LISTS_MAX);
        let mut looks = Vec::with_capacity(lists as usize);
        if let Some(links) = &mut self.links {
            links.walk(lists, place.bytes, self.table.len(), |nth, list| {
                let barren = if list.lost == ALL_LOST { BARREN } else { 0 };
                looks.push(u64::from(list.page) << 32 | barren | u64::from(nth));
            })?;
        }
        looks.sort_unstable();
        let parcels = self.delivery.collect();
        let end = self.table.len();
        let mut round = Round { end, parcels, looks, place, lists, wanted, ..Round::default() };
        self.choose_errand(&mut round);
        self.delivery.round = Some(round);
        Ok(())
    }

    /// Pays what the last round collected; otherwise begins a refund or visits the virtual page,
    /// if due. A refund comes first: it needs fewer visits, and rent may be due at every round.
    fn choose_errand(&mut self, round: &mut Round) {
        let (pages, waiting) = (self.table.len(), self.table.count(Status::is_new));
        let is_poor = self.queued_credit < TOTAL / REFUND_PART && waiting > 0;
        if let Some(collected) = self.delivery.pot.take() {
            let emptied = self.totals.empty_virtual();
            self.totals.waiting += emptied;
            round.pot = collected + emptied;
            if waiting > 0 {
                round.errand = Errand::Pay(Refund::of(round.pot, self.queued_credit, u64::from(waiting)));
            }
        } else if is_poor && self.totals.may_refund(pages) {
            round.errand = Errand::Collect;
        } else if self.totals.is_rent_due(pages) && self.table.members > 0 {
            let members = u64::from(self.table.members);
            let share = self.totals.pay_rent(members);
            round.pot = share * members;
            self.totals.waiting += round.pot;
            round.errand = Errand::Rent { share };
        }
    }

    /// Delivers all that the round has for a page.
    fn serve(&mut self, page: u32, round: &mut Round) -> Result<()> {
        match round.errand {
            Errand::None => {}
            Errand::Rent { share } if share <= round.pot => {
                let row = self.table.get(page)?;
                if row.is_member(self.table.rent) {
                    round.pot -= share;
                    self.totals.waiting -= share;
                    self.give(page, [Gift { share, word: None }])?;
                }
            }
            Errand::Rent { .. } => {}
            Errand::Collect => self.collect(page, round)?,
            Errand::Pay(refund) => self.pay(page, refund, round)?,
        }
        self.hand_over(page, round)?;
        for look in round.looks_of(page) {
            let taken = self.take(page, round.looks[look])?;
            round.taken.extend(taken);
        }
        Ok(())
    }

    /// Gives a page its waiting gifts.
    fn hand_over(&mut self, page: u32, round: &mut Round) -> Result<()> {
        let gifts = round.gifts_of(page);
        if gifts.clone().next().is_some() {
            self.totals.waiting -= gifts.clone().map(|gift| gift.share).sum::<u64>();
            self.give(page, gifts)?;
        }
        Ok(())
    }

    /// For a refund: takes half of the credit of a page that does not wait for its first fetch.
    fn collect(&mut self, page: u32, round: &mut Round) -> Result<()> {
        let row = self.table.get(page)?;
        if !row.status().is_new() && row.credit > 0 {
            let half = self.table.update(page)?.change(|account| self.totals.take_half(account));
            self.totals.waiting += half;
            round.pot += half;
        }
        Ok(())
    }

    /// Pays a refund to a page that waits for its first fetch.
    fn pay(&mut self, page: u32, refund: Refund, round: &mut Round) -> Result<()> {
        let row = self.table.get(page)?;
        let share = if row.status().is_new() { refund.gain(row.credit, round.pot) } else { 0 };
        if share > 0 {
            round.pot -= share;
            self.totals.waiting -= share;
            self.give(page, [Gift { share, word: None }])?;
        }
        Ok(())
    }

    /// Takes the credit of a fetched page, if it is at least 0.3 of an equal share of all credit
    /// among fetched pages.
    fn take(&mut self, page: u32, look: u64) -> Result<Option<Taken>> {
        let least = TOTAL / 10 * 3 / u64::from(self.table.count(Status::is_fetched).max(1));
        let row = self.table.get(page)?;
        if row.credit < least || !row.status().is_fetched() {
            return Ok(None);
        }
        let row = self.table.update(page)?;
        let credit = row.change(|account| self.totals.take(account));
        let word = if look & BARREN > 0 { None } else { row.trust.speak() };
        self.totals.waiting += credit;
        Ok(Some(Taken { list: (look & (BARREN - 1)) as u32, credit, word }))
    }

    /// Ends a round: credit taken and collected waits for the next one.
    fn end_round(&mut self, mut round: Round) -> Result<()> {
        if round.errand == Errand::Collect {
            self.delivery.pot = Some(round.pot);
        } else {
            self.totals.waiting -= round.pot;
            self.totals.virtual_credit += round.pot;
        }
        if self.links.is_none() {
            return Ok(());
        }
        self.delivery.adapt(round.taken.len() as u64, round.wanted);
        round.taken.sort_unstable_by_key(|one| one.list);
        self.share_out(&round)
    }

    /// Shares the credit taken among the links of the examined lists. These are read again, since
    /// in memory they would be most of a round.
    fn share_out(&mut self, round: &Round) -> Result<()> {
        let State { links: Some(links), totals, delivery, table, .. } = self else { return Ok(()) };
        let (now, mut taken) = (links.place(), round.taken.iter().peekable());
        links.back_to(round.place);
        links.walk(round.lists, round.place.bytes, table.len(), |nth, list| {
            let Some(&Taken { credit, word, .. }) = taken.next_if(|one| one.list == nth) else { return };
            let links = if list.lost == ALL_LOST { &[] } else { list.links };
            totals.waiting -= credit;
            let share = totals.share_out(credit, links.len(), u64::from(list.lost));
            if share > 0 || word.is_some() {
                totals.waiting += share * links.len() as u64;
                delivery.put(Gift { share, word }, links);
            }
        })?;
        links.back_to(now);
        // Credit of lists that were not found, as after a damaged snapshot.
        let rest: u64 = taken.map(|one| one.credit).sum();
        totals.waiting -= rest;
        totals.virtual_credit += rest;
        Ok(())
    }
}
