//! What records of failing hosts, and of pages that are given up, brought back or hinted at, do to
//! the state.

use super::State;
use crate::journal::Applied;
use crate::outcome::FailureKind;
use crate::pages::Status;
use crate::record::Record;

impl State {
    /// Applies what was told of a host.
    pub(super) fn host_told(&mut self, record: &Record<'_>) -> Applied {
        match record {
            Record::Down { host, down } => {
                let number = self.hosts.enter(host);
                self.hosts.get_mut(number).down = Some(*down);
            }
            Record::Up { host } => {
                let number = self.hosts.enter(host);
                self.hosts.get_mut(number).answered();
                self.queues(|queue, view| queue.offer(number, view));
            }
            Record::HostBegan { host, at_ms } => {
                let number = self.hosts.enter(host);
                self.hosts.get_mut(number).began_ms = Some(*at_ms);
            }
            _ => {}
        }
        Ok(())
    }

    /// Applies what was told of many pages at once.
    pub(super) fn pages_told(&mut self, record: &Record<'_>) -> Applied {
        match record {
            Record::Lost { pages } => {
                self.check_pages(pages)?;
                pages.iter().for_each(|page| self.lose(*page));
                self.settle();
            }
            Record::Retried { pages } => {
                self.check_pages(pages)?;
                pages.iter().for_each(|page| self.retry(*page));
            }
            Record::Hinted { changes } => {
                for (page, age, due_s) in changes {
                    self.check_pages(&[*page])?;
                    self.pages.set(*page, self.pages.marks(*page).with_age(*age));
                    if *due_s > 0 {
                        self.wait(*page, *due_s);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Gives up a page that waits for its first fetch, since its host is down.
    fn lose(&mut self, page: u32) {
        let marks = self.pages.marks(page);
        if marks.status().is_new() {
            let down = Some(FailureKind::HostDown);
            self.pages.set(page, marks.with_status(Status::Gone).with_failure(marks.attempts(), down));
            self.queued_credit -= self.ledger.credit(page);
            self.ledger.forfeit(page);
            self.claims.settle(page);
        }
    }

    /// Queues a page again that was given up, or waits for another attempt. It counts as tried, for
    /// it may be claimed; one that another crawl has claimed does not.
    fn retry(&mut self, page: u32) {
        let marks = self.pages.marks(page);
        if !matches!(marks.status(), Status::Gone | Status::Waiting) {
            return;
        }
        let attempts = u8::from(marks.failure() != Some(FailureKind::Elsewhere));
        self.pages.set(page, marks.with_status(Status::Ready).with_failure(attempts, None));
        self.queues(|queue, view| queue.put(page, view));
    }

    /// Ends the waits for another attempt of the pages of some hosts.
    pub(crate) fn wake(&mut self, is_woken: impl Fn(u32) -> bool) {
        let pages = &self.pages;
        self.queue.cut(|page| pages.status(page) == Status::Waiting && is_woken(pages.host(page)));
    }
}
