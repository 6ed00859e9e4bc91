//! The page table: host, shape, marks and standing of each page, in 7.5 bytes of memory.

use crate::grow::push;
use crate::outcome::FailureKind;
use crate::shares::Shares;
use crate::trust::{Standing, Trust};

/// Status of a page. The numbers are on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Status {
    /// Never fetched; queued.
    Ready = 0,
    /// Never fetched; failed, waits for a retry.
    Waiting = 1,
    /// Never fetched; in flight.
    InFlight = 2,
    /// Fetched; waits for its recrawl, if any.
    Fetched = 3,
    /// Fetched; queued for its recrawl.
    Due = 4,
    /// Fetched; in flight again.
    Refreshing = 5,
    /// Given up.
    Gone = 6,
}

impl Status {
    const ALL: [Status; 7] = [
        Status::Ready,
        Status::Waiting,
        Status::InFlight,
        Status::Fetched,
        Status::Due,
        Status::Refreshing,
        Status::Gone,
    ];

    /// Whether its first fetch is still to come or in flight.
    pub(crate) fn is_new(self) -> bool {
        matches!(self, Status::Ready | Status::Waiting | Status::InFlight)
    }

    pub(crate) fn is_fetched(self) -> bool {
        matches!(self, Status::Fetched | Status::Due | Status::Refreshing)
    }

    /// Its queue: 0 for first fetches, 1 for refreshes.
    pub(crate) fn queue(self) -> Option<usize> {
        match self {
            Status::Ready => Some(0),
            Status::Due => Some(1),
            _ => None,
        }
    }
}

/// Status (3 bits), seed (1), failed attempts (4), last failure (4) and recrawl step (4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks(pub(crate) u16);

impl Marks {
    /// Marks of a newly discovered page.
    pub(crate) fn new(is_seed: bool, age: u8) -> Marks {
        Marks(u16::from(is_seed) << 3 | u16::from(age & 15) << 12)
    }

    /// Marks from disk, if they are possible.
    pub(crate) fn checked(bits: u16) -> Option<Marks> {
        (usize::from(bits & 7) < Status::ALL.len()).then_some(Marks(bits))
    }

    pub(crate) fn status(self) -> Status {
        Status::ALL[usize::from(self.0 & 7)]
    }

    pub(crate) fn is_seed(self) -> bool {
        self.0 & 8 != 0
    }

    pub(crate) fn attempts(self) -> u8 {
        (self.0 >> 4 & 15) as u8
    }

    pub(crate) fn failure(self) -> Option<FailureKind> {
        FailureKind::of_code((self.0 >> 8 & 15) as u8)
    }

    /// The step of the recrawl interval.
    pub(crate) fn age(self) -> u8 {
        (self.0 >> 12) as u8
    }

    pub(crate) fn with_status(self, status: Status) -> Marks {
        Marks(self.0 & !7 | status as u16)
    }

    pub(crate) fn with_seed(self) -> Marks {
        Marks(self.0 | 8)
    }

    pub(crate) fn with_failure(self, attempts: u8, failure: Option<FailureKind>) -> Marks {
        let code = failure.map_or(0, FailureKind::code);
        Marks(self.0 & !0x0ff0 | u16::from(attempts & 15) << 4 | u16::from(code) << 8)
    }

    pub(crate) fn with_age(self, age: u8) -> Marks {
        Marks(self.0 & 0x0fff | u16::from(age & 15) << 12)
    }
}

/// The page table.
#[derive(Debug)]
pub(crate) struct Pages {
    hosts: Vec<u32>,
    marks: Vec<Marks>,
    /// Shape of each URL ([`crate::shape`]).
    shapes: Vec<u8>,
    /// Standing of each page.
    trust: Trust,
    /// Fetched pages by site, host and shape.
    pub(crate) shares: Shares,
    /// Pages by status.
    counts: [u32; Status::ALL.len()],
}

impl Pages {
    /// An empty table with room for some pages.
    pub(crate) fn new(pages: usize) -> Pages {
        Pages {
            hosts: Vec::with_capacity(pages),
            marks: Vec::with_capacity(pages),
            shapes: Vec::with_capacity(pages),
            trust: Trust::default(),
            shares: Shares::default(),
            counts: [0; Status::ALL.len()],
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.marks.len() as u32
    }

    /// Adds a page, never fetched; returns its number. Its host has an entry among the shares.
    pub(crate) fn add(&mut self, host: u32, shape: u8, marks: Marks) -> u32 {
        let page = self.len();
        push(&mut self.hosts, host);
        push(&mut self.marks, marks);
        push(&mut self.shapes, shape);
        self.trust.add();
        self.counts[marks.status() as usize] += 1;
        page
    }

    pub(crate) fn host(&self, page: u32) -> u32 {
        self.hosts[page as usize]
    }

    pub(crate) fn shape(&self, page: u32) -> u8 {
        self.shapes[page as usize]
    }

    #[inline]
    pub(crate) fn standing(&self, page: u32) -> Standing {
        self.trust.get(page)
    }

    /// The level of a page's family.
    #[inline]
    pub(crate) fn level(&self, page: u32) -> u16 {
        self.shares.level(self.host(page), self.shape(page))
    }

    /// Gives a page a standing without a voucher, as a seed has.
    pub(crate) fn raise(&mut self, page: u32, standing: Standing) {
        let before = self.standing(page);
        self.trust.set(page, standing);
        if self.status(page).is_fetched() {
            self.shares.risen(self.host(page), self.shape(page), before, standing);
        }
    }

    /// Lets a visited page vouch for its links ([`Trust::told`]). Calls `vouched` for each that gets
    /// its first voucher.
    #[inline]
    pub(crate) fn told(&mut self, page: u32, links: &[u32], mut vouched: impl FnMut(u32)) {
        let Pages { trust, shares, marks, hosts, shapes, .. } = self;
        trust.told(page, links, |link, before, after| {
            if marks[link as usize].status().is_fetched() {
                shares.risen(hosts[link as usize], shapes[link as usize], before, after);
            }
            if before == Standing::None {
                vouched(link);
            }
        });
    }

    /// A page's standing as on disk.
    pub(crate) fn standing_mark(&self, page: u32) -> u8 {
        self.trust.mark(page)
    }

    /// Sets the standing of a page from disk; `false` if it is impossible. Whoever has set those of
    /// all pages says so to [`Pages::count_shares`].
    pub(crate) fn set_standing_mark(&mut self, page: u32, mark: u8) -> bool {
        self.trust.set_mark(page, mark)
    }

    /// Counts fetched pages for their families, after reading them from disk.
    pub(crate) fn count_shares(&mut self) {
        for page in (0..self.len()).filter(|page| self.marks[*page as usize].status().is_fetched()) {
            let page = page as usize;
            self.shares.count(self.hosts[page], self.shapes[page], self.trust.get(page as u32), 1);
        }
    }

    pub(crate) fn marks(&self, page: u32) -> Marks {
        self.marks[page as usize]
    }

    pub(crate) fn status(&self, page: u32) -> Status {
        self.marks(page).status()
    }

    pub(crate) fn set(&mut self, page: u32, marks: Marks) {
        let before = self.status(page);
        self.counts[before as usize] -= 1;
        self.counts[marks.status() as usize] += 1;
        self.marks[page as usize] = marks;
        let by = i32::from(marks.status().is_fetched()) - i32::from(before.is_fetched());
        if by != 0 {
            self.shares.count(self.host(page), self.shape(page), self.standing(page), by);
        }
    }

    pub(crate) fn set_status(&mut self, page: u32, status: Status) {
        self.set(page, self.marks(page).with_status(status));
    }

    /// Pages with one of these statuses.
    pub(crate) fn count(&self, is_counted: impl Fn(Status) -> bool) -> u32 {
        Status::ALL.iter().filter(|status| is_counted(**status)).map(|status| self.counts[*status as usize]).sum()
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        let rest = self.trust.memory_bytes() + self.shares.memory_bytes();
        (self.hosts.capacity() * 4 + self.marks.capacity() * 2 + self.shapes.capacity()) as u64 + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_keep_what_they_are_given() {
        let marks = Marks::new(true, 9).with_status(Status::Due).with_failure(15, Some(FailureKind::Other)).with_age(3);
        assert_eq!((marks.status(), marks.is_seed(), marks.attempts()), (Status::Due, true, 15));
        assert_eq!((marks.failure(), marks.age()), (Some(FailureKind::Other), 3));
        let cleared = marks.with_failure(0, None).with_status(Status::Ready);
        assert_eq!((cleared.attempts(), cleared.failure(), cleared.age(), cleared.is_seed()), (0, None, 3, true));
        assert_eq!(Marks::checked(7), None);
        for kind in FailureKind::ALL {
            assert_eq!(Marks::new(false, 0).with_failure(1, Some(kind)).failure(), Some(kind));
        }
    }

    #[test]
    fn pages_are_counted_by_status() {
        let mut pages = Pages::new(0);
        for _ in 0..10 {
            pages.add(0, 0, Marks::new(false, 0));
        }
        pages.set_status(3, Status::Gone);
        pages.set_status(4, Status::Fetched);
        assert_eq!((pages.count(Status::is_new), pages.count(Status::is_fetched)), (8, 1));
        assert_eq!(pages.count(|status| status == Status::Gone), 1);
    }
}
