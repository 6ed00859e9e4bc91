//! Rounds: what waits is handed over, fetched pages are visited again without a fetch, rent and
//! refunds are paid, in one pass over the rows ([`crate::delivery`]).

use super::State;
use crate::credit::TOTAL;
use crate::delivery::{Errand, Gift, Round, Taken};
use crate::error::Result;
use crate::links::Links;
use crate::marks::Status;
use crate::options::Rent;
use crate::record::ALL_LOST;
use crate::row::Row;

/// Pages waiting for their first fetch get credit back when they hold less than this part of all.
const REFUND_PART: u64 = 1024;
/// Of a list that is to be examined: it is of a barren page.
const BARREN: u64 = 1 << 31;

impl State {
    /// Counts an event with so many links; begins a round if one is due, and goes on with it.
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
        if to < round.end {
            self.delivery.round = Some(round);
            return Ok(());
        }
        self.end_round(round)
    }

    /// Collects what waits, and the pages of the next lists of links.
    fn begin_round(&mut self) -> Result<()> {
        let wanted = self.delivery.fetches.saturating_mul(u64::from(self.virtual_visits));
        let place = self.links.as_ref().map(Links::place).unwrap_or_default();
        let lists = wanted.saturating_mul(u64::from(self.delivery.looks)).min(place.lists);
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
        self.choose_errand(&mut round)?;
        self.delivery.round = Some(round);
        Ok(())
    }

    /// Visits the virtual page or refunds credit, when due.
    fn choose_errand(&mut self, round: &mut Round) -> Result<()> {
        let totals = &mut self.totals;
        let waiting = self.table.count(Status::is_new);
        let is_poor = self.queued_credit < TOTAL / REFUND_PART && waiting > 0;
        if totals.is_rent_due(self.table.len()) {
            let members = self.members()?;
            let share = self.totals.share_virtual(members);
            if share > 0 {
                round.pot = share * members;
                self.totals.waiting += round.pot;
                round.errand = Errand::Rent { share };
            }
        } else if is_poor && totals.may_refund(self.table.len()) {
            // In the end the virtual page has half of what pages hold that do not wait, but for
            // remainders.
            let others = (TOTAL - totals.virtual_credit - totals.waiting).saturating_sub(self.queued_credit);
            let (times, part) = totals.refund(others / 2, self.queued_credit, u64::from(waiting));
            round.errand = Errand::Refund { times, part };
        }
        Ok(())
    }

    /// How many pages get rent.
    fn members(&self) -> Result<u64> {
        match self.rent {
            Rent::Endorsed => return Ok(u64::from(self.table.endorsed)),
            Rent::Known => return Ok(u64::from(self.table.count(|status| status != Status::Gone))),
            Rent::Crawled => {}
        }
        let mut members = 0;
        for row in self.table.scan() {
            members += u64::from(self.is_member(&row?));
        }
        Ok(members)
    }

    fn is_member(&self, row: &Row) -> bool {
        match self.rent {
            Rent::Endorsed => row.is_endorsed(),
            Rent::Crawled => row.status() != Status::Gone && (row.marks.is_seed() || row.status().is_fetched()),
            Rent::Known => row.status() != Status::Gone,
        }
    }

    /// Does for a page what the round has for it.
    fn serve(&mut self, page: u32, round: &mut Round) -> Result<()> {
        match round.errand {
            Errand::None => {}
            Errand::Rent { share } if share <= round.pot => {
                let row = self.table.get(page)?;
                if self.is_member(&row) {
                    round.pot -= share;
                    self.totals.waiting -= share;
                    self.give(page, [Gift { share, word: None }])?;
                }
            }
            Errand::Rent { .. } => {}
            Errand::Refund { times, part } => self.refund(page, times, part)?,
        }
        {
            let gifts = round.gifts_of(page);
            if gifts.clone().next().is_some() {
                self.totals.waiting -= gifts.clone().map(|gift| gift.share).sum::<u64>();
                self.give(page, gifts)?;
            }
        }
        for look in round.looks_of(page) {
            let taken = self.take(page, round.looks[look])?;
            round.taken.extend(taken);
        }
        Ok(())
    }

    /// Takes half of what a page holds that does not wait for its first fetch; one that does gets
    /// some times what it has, as long as the virtual page has it.
    fn refund(&mut self, page: u32, times: u64, part: u64) -> Result<()> {
        let row = self.table.get(page)?;
        if !row.status().is_new() {
            if row.credit > 0 {
                let totals = &mut self.totals;
                self.table.update(page)?.change(|account| totals.take_half(account));
            }
            return Ok(());
        }
        let share = self.totals.refunded(row.credit, (times, part));
        self.give(page, [Gift { share, word: None }])
    }

    /// Takes the credit of a page, if it was fetched and has at least 0.3 of an equal share of all
    /// credit among fetched pages.
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

    /// Ends a round: what was taken waits for the next one.
    fn end_round(&mut self, mut round: Round) -> Result<()> {
        self.totals.waiting -= round.pot;
        self.totals.virtual_credit += round.pot;
        self.scale_down_if_heavy()?;
        if self.links.is_none() {
            return Ok(());
        }
        self.delivery.adapt(round.taken.len() as u64, round.wanted);
        round.taken.sort_unstable_by_key(|one| one.list);
        self.share_out(&round)
    }

    /// Shares out what was taken among the links of the examined lists, which are read again: in
    /// memory they would be the most of a round.
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
        // A snapshot may say anything.
        let rest: u64 = taken.map(|one| one.credit).sum();
        totals.waiting -= rest;
        totals.virtual_credit += rest;
        Ok(())
    }
}
