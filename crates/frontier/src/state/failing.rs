//! The effect on the state of records about failing hosts, and about pages given up, brought back
//! or hinted at.

use super::State;
use crate::error::{Applied, Result};
use crate::marks::Status;
use crate::outcome::FailureKind;
use crate::record::Record;
use crate::row::Row;

impl State {
    /// Applies a record about a host.
    pub(super) fn host_told(&mut self, record: &Record<'_>) -> Applied {
        match record {
            Record::Down { host, down } => {
                let number = self.enter_host(host);
                self.hosts.get_mut(number).limits_mut().down = Some(*down);
            }
            Record::Up { host } => {
                let number = self.enter_host(host);
                self.hosts.answered(number);
                self.queues(|queue, view| queue.offer(number, view));
            }
            Record::HostBegan { host, at_ms } => {
                let number = self.enter_host(host);
                self.hosts.set_began_ms(number, Some(*at_ms));
            }
            _ => {}
        }
        Ok(())
    }

    /// Applies a record about many pages.
    pub(super) fn pages_told(&mut self, record: &Record<'_>) -> Applied {
        match record {
            Record::Lost { pages } => {
                self.check_pages(pages)?;
                pages.iter().try_for_each(|page| self.lose(*page))?;
                self.deliver(0, false)?;
            }
            Record::Retried { pages } => {
                self.check_pages(pages)?;
                pages.iter().try_for_each(|page| self.retry(*page))?;
            }
            Record::Hinted { changes } => {
                for (page, age, due_s) in changes {
                    self.check_pages(&[*page])?;
                    let marks = self.table.get(*page)?.marks.with_age(*age);
                    self.table.set(*page, marks)?;
                    if *due_s > 0 {
                        self.wait(*page, *due_s)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Gives up a page that waits for its first fetch, because its host is down.
    fn lose(&mut self, page: u32) -> Result<()> {
        let row = self.table.get(page)?;
        let marks = row.marks;
        if marks.status().is_new() {
            self.withdraw(&row);
            let down = Some(FailureKind::HostDown);
            self.table.set(page, marks.with_status(Status::Gone).with_failure(marks.attempts(), down))?;
            self.forfeit(page, true)?;
            self.claims.settle(page);
        }
        Ok(())
    }

    /// Queues again a page that was given up or waits for a retry. It counts as tried once, since
    /// it may be claimed already, unless another crawl has claimed it.
    fn retry(&mut self, page: u32) -> Result<()> {
        let marks = self.table.get(page)?.marks;
        if matches!(marks.status(), Status::Gone | Status::Waiting) {
            let attempts = u8::from(marks.failure() != Some(FailureKind::Elsewhere));
            self.table.set(page, marks.with_status(Status::Ready).with_failure(attempts, None))?;
            self.queues(|queue, view| queue.put(page, view))?;
        }
        Ok(())
    }

    /// Makes the pages of some hosts that wait for a retry due now.
    pub(crate) fn wake(&mut self, is_woken: impl Fn(u32) -> bool) -> Result<()> {
        if self.table.count(|status| status == Status::Waiting) == 0 {
            return Ok(());
        }
        let now_s = u32::try_from(self.queue.clock_ms() / 1000).unwrap_or(u32::MAX);
        let is_cut = |row: &Row| row.status() == Status::Waiting && is_woken(row.host);
        self.queues(|queue, view| queue.cut(now_s, is_cut, view))
    }
}
