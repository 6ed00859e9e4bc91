//! The effect of a visit on the state: credit and a word for the links of a page.

use std::ops::Range;

use super::State;
use crate::credit::{Account, class};
use crate::delivery::Gift;
use crate::error::Result;
use crate::marks::Status;
use crate::record::ALL_LOST;
use crate::row::Row;
use crate::trust::Standing;

impl State {
    /// Visits a fetched page: its links, each listed once, get its credit and its word, if it may
    /// vouch. New links get theirs now, known ones at the next round. If all links are lost, its
    /// credit goes to the virtual page.
    pub(super) fn visit(&mut self, page: u32, known: &[u32], new: Range<u32>, lost: u32) -> Result<()> {
        let links = if lost == ALL_LOST { 0 } else { known.len() + new.len() };
        let row = self.table.update(page)?;
        let share = row.change(|account| self.totals.visit(account, links, u64::from(lost)));
        let word = if lost == ALL_LOST { None } else { row.trust.speak() };
        self.scale_down_if_heavy()?;
        if lost == ALL_LOST || share == 0 && word.is_none() {
            return Ok(());
        }
        let gift = Gift { share, word };
        for link in new {
            self.give(link, [gift])?;
        }
        self.totals.waiting += share * known.len() as u64;
        self.delivery.put(gift, known);
        Ok(())
    }

    /// Gives a page credit and words. Gifts for a page that was given up go to the virtual page.
    #[inline]
    pub(super) fn give(&mut self, page: u32, gifts: impl IntoIterator<Item = Gift>) -> Result<()> {
        let row = self.table.update(page)?;
        let before = *row;
        let mut sum = 0;
        for gift in gifts {
            sum += gift.share;
            if let Some(word) = gift.word.filter(|_| before.status() != Status::Gone) {
                row.trust.hear(word);
            }
        }
        if before.status() == Status::Gone {
            self.totals.virtual_credit += sum;
            return Ok(());
        }
        row.credit += sum;
        let row = *row;
        if row.status().is_new() {
            self.queued_credit = self.queued_credit.wrapping_add(sum);
        }
        let (was, is) = (before.trust.standing(), row.trust.standing());
        self.table.risen(&row, was);
        match was == Standing::None && is != was || class(before.credit) != class(row.credit) {
            true => self.moved(page, &row),
            false => Ok(()),
        }
    }

    /// Adds an entry for a queued page that has risen, at its new place. New pages get theirs at
    /// the end of a record.
    #[inline]
    pub(super) fn moved(&mut self, page: u32, row: &Row) -> Result<()> {
        match row.status().queue() {
            Some(kind) if page < self.first_new => self.queues(|queue, view| queue.raised(page, kind, row, view)),
            _ => Ok(()),
        }
    }

    /// Moves all credit of a given-up page to the virtual page.
    pub(super) fn forfeit(&mut self, page: u32, was_new: bool) -> Result<()> {
        let row = self.table.update(page)?;
        if was_new {
            self.queued_credit = self.queued_credit.wrapping_sub(row.credit);
        }
        row.change(|account| self.totals.forfeit(account));
        Ok(())
    }

    /// Scales all history down if weights are large. O(pages), but rarely.
    pub(super) fn scale_down_if_heavy(&mut self) -> Result<()> {
        if self.totals.is_heavy() {
            for page in 0..self.table.len() {
                self.table.update(page)?.change(Account::scale_down);
            }
            self.totals.scale_down();
        }
        Ok(())
    }
}
