//! What a visit does to the state: credit and a word for the links of a page, rent, refunds.

use super::State;
use crate::credit::{Account, TOTAL, class};
use crate::error::Result;
use crate::links::Links;
use crate::marks::Status;
use crate::options::Rent;
use crate::queue::Queue;
use crate::record::ALL_LOST;
use crate::row::Row;
use crate::table::Table;
use crate::trust::{Standing, Word};

/// Pages waiting for their first fetch get credit back when they hold less than this part of all.
const REFUND_PART: u64 = 1024;
/// Lists of links examined for each virtual visit, at most.
const LOOKS_PER_VISIT: usize = 8;

impl State {
    /// Visits a page: its credit goes to its links, each listed once, and its word, if it may vouch.
    /// If all links are lost, its credit goes to the virtual page.
    pub(super) fn visit(&mut self, page: u32, links: &[u32], lost: u32, gains: &mut Gains) -> Result<()> {
        let row = self.table.update(page)?;
        let links = if lost == ALL_LOST { &[] } else { links };
        let share = row.change(|account| self.totals.visit(account, links.len(), u64::from(lost)));
        let word = if lost == ALL_LOST { None } else { row.trust.speak() };
        if row.status().queue().is_some() {
            gains.raised(page);
        }
        if self.totals.is_heavy() {
            for page in 0..self.table.len() {
                self.table.update(page)?.change(Account::scale_down);
            }
            self.totals.scale_down();
        }
        if share == 0 && word.is_none() {
            return Ok(());
        }
        for link in links {
            // What a page that was given up would get is the virtual page's.
            if !gains.add(&mut self.table, *link, share, word.filter(|_| *link != page))? {
                self.totals.virtual_credit += share;
            }
        }
        Ok(())
    }

    /// Visits fetched pages again without a fetch: those of the next lists of links whose credit
    /// is at least 0.3 of an equal share of all credit among fetched pages.
    pub(super) fn visit_again(&mut self, gains: &mut Gains) -> Result<()> {
        let least = TOTAL / 10 * 3 / u64::from(self.table.count(Status::is_fetched).max(1));
        let (mut visits, mut links) = (0, Vec::new());
        for _ in 0..usize::from(self.virtual_visits) * LOOKS_PER_VISIT {
            let Some(list) = self.links.as_mut().and_then(Links::take) else { break };
            let row = self.table.get(list.page)?;
            if row.credit < least || !row.status().is_fetched() {
                continue;
            }
            let (page, lost) = (list.page, list.lost);
            links.clear();
            links.extend_from_slice(list.links);
            self.visit(page, &links, lost, gains)?;
            visits += 1;
            if visits == self.virtual_visits {
                break;
            }
        }
        Ok(())
    }

    /// Moves all credit of a page that is given up to the virtual page.
    pub(super) fn forfeit(&mut self, page: u32, was_new: bool) -> Result<()> {
        let row = self.table.update(page)?;
        if was_new {
            self.queued_credit = self.queued_credit.wrapping_sub(row.credit);
        }
        row.change(|account| self.totals.forfeit(account));
        Ok(())
    }

    /// Visits the virtual page and refunds credit, when due.
    pub(super) fn settle(&mut self) -> Result<()> {
        if self.totals.is_rent_due(self.table.len()) {
            self.pay_rent()?;
        }
        let is_poor = self.queued_credit < TOTAL / REFUND_PART && self.table.count(Status::is_new) > 0;
        if is_poor && self.totals.may_refund(self.table.len()) {
            self.refund()?;
            self.queues(Queue::rebuild)?;
        }
        Ok(())
    }

    fn is_member(&self, row: &Row) -> bool {
        row.status() != Status::Gone
            && match self.rent {
                Rent::Endorsed => row.trust.standing() == Standing::Endorsed,
                Rent::Crawled => row.marks.is_seed() || row.status().is_fetched(),
                Rent::Known => true,
            }
    }

    /// Visits the virtual page: shares its credit among the members. O(pages).
    fn pay_rent(&mut self) -> Result<()> {
        let mut members = 0;
        for row in self.table.scan() {
            members += u64::from(self.is_member(&row?));
        }
        let mut gains = Gains::new(self.table.len());
        let share = self.totals.share_virtual(members);
        for page in 0..self.table.len() {
            let row = self.table.get(page)?;
            if self.is_member(&row) {
                gains.add(&mut self.table, page, share, None)?;
            }
        }
        self.take_gains(gains)
    }

    /// Gives pages that wait for their first fetch half of what fetched pages hold, and all of the
    /// virtual page's credit, in proportion to what each has. O(pages).
    fn refund(&mut self) -> Result<()> {
        let State { table, totals, .. } = self;
        let (mut held, mut waiting) = (0, 0);
        for page in 0..table.len() {
            let row = table.update(page)?;
            if row.status().is_new() {
                (held, waiting) = (held + row.credit, waiting + 1);
            } else {
                row.change(|account| totals.take_half(account));
            }
        }
        let refund = totals.refund(held, waiting);
        self.queued_credit = 0;
        for page in 0..table.len() {
            let row = table.update(page)?;
            if row.status().is_new() {
                row.change(|account| totals.give(account, refund));
                self.queued_credit += row.credit;
            }
        }
        Ok(())
    }

    /// Queues new pages, and pages whose place has changed.
    pub(super) fn take_gains(&mut self, mut gains: Gains) -> Result<()> {
        gains.raised.sort_unstable();
        gains.raised.dedup();
        self.queued_credit = self.queued_credit.wrapping_add(gains.queued_credit);
        let known = self.table.len();
        self.queues(|queue, view| {
            gains.raised.iter().try_for_each(|page| queue.raised(*page, view))?;
            (gains.first_new..known).try_for_each(|page| queue.put(page, view))
        })
    }
}

/// Effects of visits on the queues.
pub(super) struct Gains {
    /// Pages from this number on are new: they have no entries yet.
    first_new: u32,
    queued_credit: u64,
    raised: Vec<u32>,
}

impl Gains {
    pub(super) fn new(first_new: u32) -> Gains {
        Gains { first_new, queued_credit: 0, raised: Vec::new() }
    }

    /// Gives a page credit, and another's word; false if it was given up.
    #[inline]
    pub(super) fn add(&mut self, table: &mut Table, page: u32, share: u64, word: Option<Word>) -> Result<bool> {
        let row = table.update(page)?;
        if row.status() == Status::Gone {
            return Ok(false);
        }
        let before = row.credit;
        row.credit += share;
        let risen = word.and_then(|word| row.trust.hear(word));
        let (status, host, shape) = (row.status(), row.host, row.shape);
        if let Some((before, after)) = risen.filter(|_| status.is_fetched()) {
            table.shares.risen(host, shape, before, after);
        }
        let is_first = risen.is_some_and(|(before, _)| before == Standing::None);
        if status.is_new() {
            self.queued_credit += share;
        }
        if is_first || status.queue().is_some() && class(before) != class(before + share) {
            self.raised(page);
        }
        Ok(true)
    }

    /// Notes that a page's place has changed.
    pub(super) fn raised(&mut self, page: u32) {
        if page < self.first_new {
            self.raised.push(page);
        }
    }
}
