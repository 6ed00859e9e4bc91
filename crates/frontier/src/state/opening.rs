//! The end of a replay: pages in flight are queued again, and credit is added up. Unknown queues,
//! as after a snapshot of an older version, are rebuilt from the rows.

use super::State;
use crate::credit::TOTAL;
use crate::error::{Applied, Result};
use crate::marks::Status;
use crate::queue::Queue;
use crate::shape::site;
use crate::shares::Shares;

impl State {
    /// Adds up the credit of pages that wait for their first fetch, and counts pages that get
    /// rent. O(pages).
    pub(crate) fn count_rows(&mut self) -> Result<()> {
        let (mut queued_credit, mut members) = (0, 0);
        for row in self.table.scan_from(0) {
            let row = row?;
            queued_credit += if row.status().is_new() { row.credit } else { 0 };
            members += u32::from(row.is_member(self.table.rent));
        }
        (self.queued_credit, self.table.members) = (queued_credit, members);
        Ok(())
    }

    /// Checks that the sum of all credit is right.
    ///
    /// # Errors
    /// The wrong sum.
    pub(crate) fn check_credit(&self) -> std::result::Result<(), String> {
        let pages = self.table.credit() + u128::from(self.totals.waiting);
        match u128::from(self.totals.virtual_credit) + pages {
            sum if sum == u128::from(TOTAL) => Ok(()),
            sum => Err(format!("credit adds up to {sum}, not {TOTAL}")),
        }
    }

    /// Ends the replay: queues pages in flight again, and adds up credit.
    /// O(hosts + blocks of rows), or O(pages) if the queues are not known.
    ///
    /// # Errors
    /// The wrong sum; `Corrupt`, `Io`.
    pub(crate) fn go_live(&mut self) -> Applied {
        self.check_credit()?;
        if self.has_queues {
            self.land_all()?;
        } else {
            self.find_queues()?;
        }
        self.queues(Queue::go_live);
        Ok(())
    }

    /// Queues again the pages in flight at the snapshot that still are.
    fn land_all(&mut self) -> Result<()> {
        for page in std::mem::take(&mut self.flying) {
            let queued = match self.table.get(page)?.status() {
                Status::InFlight => Status::Ready,
                Status::Refreshing => Status::Due,
                _ => continue,
            };
            self.table.set_status(page, queued)?;
            self.queues(|queue, view| queue.put(page, view))?;
        }
        Ok(())
    }

    /// Counts families, and queues all pages by their rows. With recrawls, fetched pages without a
    /// due time are due at once. O(pages).
    fn find_queues(&mut self) -> Result<()> {
        let mut shares = Shares::default();
        (0..self.hosts.len()).for_each(|host| shares.enter(host, site(self.hosts.name(host))));
        for row in self.table.scan_from(0) {
            let row = row?;
            if row.status().is_fetched() {
                shares.count(row.host, row.shape, row.trust.standing(), 1);
            }
        }
        self.table.shares = shares;
        self.hosts.clear_queues();
        self.queue.timers.clear();
        for page in 0..self.table.len() {
            let row = self.table.get(page)?;
            match row.status() {
                Status::Ready => self.queues(|queue, view| queue.put(page, view))?,
                Status::InFlight => {
                    self.table.set_status(page, Status::Ready)?;
                    self.queues(|queue, view| queue.put(page, view))?;
                }
                Status::Due | Status::Refreshing => {
                    self.table.set_status(page, Status::Fetched)?;
                    self.wait(page, 1)?;
                }
                Status::Waiting | Status::Fetched => self.wait(page, row.due_s)?,
                Status::Gone => {}
            }
        }
        self.has_queues = true;
        Ok(())
    }
}
