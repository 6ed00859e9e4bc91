//! A row of the page table: the state of a page, in memory and as 24 bytes.

use crate::credit::{Account, HISTORY_MAX, TOTAL};
use crate::format::PageRecord;
use crate::marks::{Marks, Status};
use crate::options::Rent;
use crate::trust::{Standing, Trust};

/// The state of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Row {
    pub(crate) credit: u64,
    pub(crate) history: f32,
    pub(crate) host: u32,
    /// The second at which it is due, while it waits; 0 for never.
    pub(crate) due_s: u32,
    pub(crate) marks: Marks,
    pub(crate) trust: Trust,
    /// Shape of its URL ([`crate::shape`]).
    pub(crate) shape: u8,
}

impl Row {
    pub(crate) fn status(&self) -> Status {
        self.marks.status()
    }

    /// Returns whether it gets rent.
    pub(crate) fn is_member(&self, rent: Rent) -> bool {
        let is_member = match rent {
            Rent::Endorsed => self.trust.standing() == Standing::Endorsed,
            Rent::Crawled => self.marks.is_seed() || self.status().is_fetched(),
            Rent::Known => true,
        };
        is_member && self.status() != Status::Gone
    }

    /// Its credit and history. As a field of the row it would take another eight bytes.
    pub(crate) fn account(&self) -> Account {
        Account { credit: self.credit, history: self.history }
    }

    /// Changes its credit and history.
    #[inline]
    pub(crate) fn change<T>(&mut self, act: impl FnOnce(&mut Account) -> T) -> T {
        let mut account = self.account();
        let done = act(&mut account);
        Account { credit: self.credit, history: self.history } = account;
        done
    }

    pub(crate) fn encode(&self) -> [u8; PageRecord::BYTES] {
        let mut bytes = [0; PageRecord::BYTES];
        PageRecord::CREDIT.put(&mut bytes, self.credit);
        PageRecord::HISTORY.put(&mut bytes, self.history);
        PageRecord::HOST.put(&mut bytes, self.host);
        PageRecord::DUE_S.put(&mut bytes, self.due_s);
        PageRecord::MARKS.put(&mut bytes, self.marks.0);
        PageRecord::STANDING.put(&mut bytes, self.trust.0);
        PageRecord::SHAPE.put(&mut bytes, self.shape);
        bytes
    }

    /// Decodes a row; `None` if it is invalid, given the number of hosts.
    pub(crate) fn decode(bytes: &[u8], hosts: u32) -> Option<Row> {
        let row = Row {
            credit: PageRecord::CREDIT.get(bytes),
            history: PageRecord::HISTORY.get(bytes),
            host: PageRecord::HOST.get(bytes),
            due_s: PageRecord::DUE_S.get(bytes),
            marks: Marks::checked(PageRecord::MARKS.get(bytes))?,
            trust: Trust::checked(PageRecord::STANDING.get(bytes))?,
            shape: PageRecord::SHAPE.get(bytes),
        };
        let is_sane = row.credit <= TOTAL && (0.0..HISTORY_MAX as f32).contains(&row.history);
        (is_sane && row.host < hosts).then_some(row)
    }
}
