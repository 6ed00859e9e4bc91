//! On-line page importance of a graph in memory: the credit, and the order of visits, without
//! hosts, files or time.
//!
//! The frontier's own sums, for a graph that is known as a whole, to try policies. Pages are
//! numbers from 0 on; the caller passes the links at each visit, and none are kept.
//!
//! The budget is split: a part of the visits goes to pages visited before, the rest to those never
//! visited. In each part the page with the most credit comes first, to within a tenth: pages are
//! queued by eighths of a doubling of credit. Pages to which no page of good standing links
//! ([`Rent::Endorsed`]) come after all others.
//!
//! A file that includes this one must include these modules of the frontier beside it:
//! [`crate::credit`], [`crate::grow`], [`crate::place`], [`crate::shares`], [`crate::trust`].

mod buckets;
mod ledger;

use frontier::{Rent, StorageError};

use crate::credit::{CLASSES, TOTAL, Totals, class};
use crate::grow::push;
use crate::place::{Entry, VOUCHED, place};
use crate::shares::Shares;
use crate::trust::{Standing, Trust};
use buckets::Buckets;
use ledger::Ledger;

type Result<T> = std::result::Result<T, StorageError>;

/// A page that was visited.
const VISITED: u8 = 1;
/// A page that gets rent though it was not visited.
const SEED: u8 = 2;
/// Entries of the queues beyond two for each page, before they are swept.
const SLACK: usize = 1024;

/// On-line importance in memory.
#[derive(Clone, Debug)]
pub struct Opic {
    ledger: Ledger,
    marks: Vec<u8>,
    trust: Vec<Trust>,
    /// Host and shape of each page.
    hosts: Vec<u32>,
    shapes: Vec<u8>,
    shares: Shares,
    /// Pages never visited; pages visited before.
    queues: [Buckets; 2],
    /// Pages whose place has changed in this visit.
    moved: Vec<u32>,
    rent: Rent,
    refresh_share: f64,
    visits: u64,
    refreshes: u64,
}

impl Opic {
    /// An empty graph. `tax` is 0.01 to 0.99, `refresh_share` 0 to 1; for `window` see
    /// [`frontier::FrontierOptions::window`].
    ///
    /// # Errors
    /// `InvalidOption`.
    pub fn new(tax: f64, rent: Rent, window: f64, refresh_share: f64) -> Result<Opic> {
        if !(0.01..=0.99).contains(&tax) || !(0.0..=1.0).contains(&refresh_share) || window <= 0.0 {
            return Err(StorageError::option("tax", "a tax, a window or a share of refreshes is out of range"));
        }
        Ok(Opic {
            ledger: Ledger::new(Totals::new(tax, window)),
            marks: Vec::new(),
            trust: Vec::new(),
            hosts: Vec::new(),
            shapes: Vec::new(),
            shares: Shares::default(),
            queues: [Buckets::new(), Buckets::new()],
            moved: Vec::new(),
            rent,
            refresh_share,
            visits: 0,
            refreshes: 0,
        })
    }

    /// A graph whose pages are all known and count as visited: they share the credit.
    ///
    /// # Errors
    /// `InvalidOption`.
    pub fn whole(pages: u32, tax: f64, window: f64) -> Result<Opic> {
        let mut opic = Opic::new(tax, Rent::Crawled, window, 1.0)?;
        for page in 0..pages {
            opic.add((0, 0));
            opic.marks[page as usize] = VISITED;
        }
        opic.share_virtual();
        let mut moved = std::mem::take(&mut opic.moved);
        moved.drain(..).for_each(|page| opic.queue(page));
        Ok(opic)
    }

    /// Adds a page of a host and a shape, without credit; returns its number. Each host is a site.
    pub fn add(&mut self, family: (u32, u8)) -> u32 {
        let page = self.marks.len() as u32;
        self.ledger.add();
        push(&mut self.marks, 0);
        push(&mut self.trust, Trust::default());
        push(&mut self.hosts, family.0);
        push(&mut self.shapes, family.1);
        self.shares.enter(family.0, &family.0.to_string());
        self.queues[0].push(self.place_of(page), page);
        page
    }

    /// Makes pages start pages: they share the credit of the virtual page, at first all credit.
    ///
    /// # Errors
    /// `InvalidOption` if a page does not exist.
    pub fn seed(&mut self, pages: &[u32]) -> Result<()> {
        if let Some(page) = pages.iter().find(|page| **page as usize >= self.marks.len()) {
            return Err(StorageError::option("pages", format!("there is no page {page}")));
        }
        for &page in pages {
            self.marks[page as usize] |= SEED;
            self.trust[page as usize].set(Standing::Endorsed);
        }
        self.ledger.share_virtual(pages.iter().copied(), |_, _, _| ());
        pages.iter().for_each(|page| self.queue(*page));
        Ok(())
    }

    /// The page to visit now, and whether it was visited before. It stays in its queue until
    /// [`Opic::visited`] is called.
    pub fn best(&mut self) -> Option<(u32, bool)> {
        let mut queues = std::mem::take(&mut self.queues);
        let wants_refresh = (self.refreshes as f64) < self.refresh_share * (self.visits + 1) as f64;
        let mut best = None;
        for kind in [usize::from(wants_refresh), usize::from(!wants_refresh)] {
            if let Some((_, page)) = queues[kind].peek(|at, page| self.worth(kind, at, page)) {
                best = Some((page, kind == 1));
                break;
            }
        }
        self.queues = queues;
        best
    }

    fn place_of(&self, page: u32) -> u16 {
        let level = || self.shares.level(self.hosts[page as usize], self.shapes[page as usize]);
        place(self.ledger.credit(page), self.trust[page as usize].standing(), level)
    }

    fn worth(&self, kind: usize, at: u16, page: u32) -> (Entry, u16) {
        let place = self.place_of(page);
        match kind_of(&self.marks, page) == kind {
            true => (judge(at, place), place),
            false => (Entry::Outdated, 0),
        }
    }

    /// Gives a page an entry at its place.
    fn queue(&mut self, page: u32) {
        let place = self.place_of(page);
        self.queues[kind_of(&self.marks, page)].push(place, page);
    }

    /// Visits a page: its credit goes to its links, each of which is listed once and was added
    /// before.
    ///
    /// # Errors
    /// `InvalidOption` if a page does not exist.
    #[inline]
    pub fn visited(&mut self, page: u32, links: &[u32]) -> Result<()> {
        let pages = self.marks.len() as u32;
        if let Some(page) = links.iter().chain([&page]).find(|page| **page >= pages) {
            return Err(StorageError::option("links", format!("there is no page {page}")));
        }
        let Opic { ledger, marks, trust, shares, hosts, shapes, moved, .. } = self;
        self.visits += 1;
        self.refreshes += u64::from(marks[page as usize] & VISITED);
        if marks[page as usize] & VISITED == 0 {
            marks[page as usize] |= VISITED;
            let (host, shape) = (hosts[page as usize], shapes[page as usize]);
            shares.count(host, shape, trust[page as usize].standing(), 1);
        }
        if let Some(word) = trust[page as usize].speak() {
            for &link in links.iter().filter(|link| **link != page) {
                let Some((before, after)) = trust[link as usize].hear(word) else { continue };
                if marks[link as usize] & VISITED != 0 {
                    let (host, shape) = (hosts[link as usize], shapes[link as usize]);
                    shares.risen(host, shape, before, after);
                }
                if before == Standing::None {
                    moved.push(link);
                }
            }
        }
        ledger.visit(page, links, 0, |link, before, after| note(moved, link, before, after));
        if self.ledger.totals.is_rent_due(pages) {
            self.share_virtual();
        }
        let mut moved = std::mem::take(&mut self.moved);
        moved.drain(..).for_each(|page| self.queue(page));
        self.moved = moved;
        if self.queues.iter().map(Buckets::len).sum::<usize>() > 2 * self.marks.len() + SLACK {
            self.sweep();
        }
        Ok(())
    }

    /// Visits a page that was visited before, by links that were kept: it moves credit like a
    /// visit, but costs none of the budget.
    ///
    /// # Errors
    /// As [`Opic::visited`].
    pub fn revisited(&mut self, page: u32, links: &[u32]) -> Result<()> {
        let counts = (self.visits, self.refreshes);
        self.visited(page, links)?;
        (self.visits, self.refreshes) = counts;
        Ok(())
    }

    fn share_virtual(&mut self) {
        let Opic { ledger, marks, moved, trust, rent, .. } = self;
        let members = (0..marks.len() as u32).filter(|page| match rent {
            Rent::Endorsed => trust[*page as usize].standing() == Standing::Endorsed,
            Rent::Crawled => marks[*page as usize] != 0,
            _ => true,
        });
        ledger.share_virtual(members, |page, before, after| note(moved, page, before, after));
    }

    /// Drops outdated entries.
    fn sweep(&mut self) {
        let mut queues = std::mem::take(&mut self.queues);
        for (kind, queue) in queues.iter_mut().enumerate() {
            queue.sweep(|at, page| self.worth(kind, at, page).0 != Entry::Outdated);
        }
        self.queues = queues;
    }

    /// Estimated importance of a page; all pages sum to 1.
    pub fn importance(&self, page: u32) -> f64 {
        self.ledger.totals.importance(&self.ledger.account(page))
    }

    /// Another estimate, in which held credit counts half: (H + C / 2) / (G + 1 / 2). On a graph
    /// that does not change it is closer to the truth.
    pub fn importance_midway(&self, page: u32) -> f64 {
        self.ledger.totals.estimate(&self.ledger.account(page), 0.5)
    }

    /// The credit that a page holds, in units; [`Opic::total`] is the number of all units.
    pub fn credit(&self, page: u32) -> u64 {
        self.ledger.credit(page)
    }

    /// Total credit.
    pub fn total(&self) -> u64 {
        TOTAL
    }

    /// The sum of the credit of all pages and the virtual page: always [`Opic::total`]. O(pages).
    pub fn sum(&self) -> u128 {
        self.ledger.sum()
    }

    /// Number of times that all credit was handed on.
    pub fn turns(&self) -> f64 {
        self.ledger.totals.turns
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> u64 {
        let queues: u64 = self.queues.iter().map(Buckets::memory_bytes).sum();
        let families = 4 * self.hosts.capacity() + self.shapes.capacity();
        let own = self.ledger.memory_bytes() + self.trust.capacity() as u64 + self.shares.memory_bytes() + queues;
        own + (self.marks.capacity() + families) as u64
    }
}

#[inline]
fn kind_of(marks: &[u8], page: u32) -> usize {
    usize::from(marks[page as usize] & VISITED)
}

/// Records that a change of credit has moved a page to another place.
#[inline(always)]
fn note(moved: &mut Vec<u32>, page: u32, before: u64, after: u64) {
    if class(after) != class(before) || before == 0 {
        moved.push(page);
    }
}

/// Judges an entry at one place of a page that belongs at another. A page whose credit or standing
/// has changed has another entry. Families change their levels without new entries for their
/// pages: a page that has risen is taken a little late.
#[inline]
fn judge(at: u16, place: u16) -> Entry {
    let is_of_family = at < VOUCHED && place < VOUCHED && at % CLASSES as u16 == place % CLASSES as u16;
    match is_of_family {
        _ if at == place => Entry::Current,
        false => Entry::Outdated,
        true if at < place => Entry::Current,
        true => Entry::Sunk,
    }
}
