//! Claims on pages in a set that several crawls share: they decide which crawl fetches a page.

use super::{Flight, Frontier};
use crate::error::{Error, Result};
use crate::link::key_of;
use crate::outcome::{Claim, PageId};
use crate::record::Record;

impl Frontier {
    /// Records that pages in flight are about to be requested, under an id, from a set that other
    /// crawls share. Send the request after [`Frontier::commit`]: a crawl that ends before the
    /// answer finds the claim when it is opened again, and repeats the request.
    ///
    /// # Errors
    /// `NotInFlight`, also if a page is claimed already or named twice; `InvalidOption` if there
    /// is an open claim of this id; `Poisoned`, `Io`.
    ///
    /// ```
    /// use frontier::{Frontier, FrontierOptions, Next};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("frontier");
    /// let mut frontier = Frontier::create(&path, FrontierOptions::new()).unwrap();
    /// frontier.seed(&["http://example.com/"], 0).unwrap();
    /// let Next::Fetch(assignment) = frontier.next(0).unwrap() else { panic!("the seed waits") };
    /// frontier.claim(7, &[assignment.page]).unwrap();
    /// frontier.commit().unwrap();
    /// drop(frontier);
    /// let frontier = Frontier::open(&path, FrontierOptions::new()).unwrap();
    /// let claims = frontier.claims().unwrap();
    /// assert_eq!((claims[0].id, claims[0].pages[0].1.as_str()), (7, "http://example.com/"));
    /// ```
    pub fn claim(&mut self, id: u128, pages: &[PageId]) -> Result<()> {
        self.poison.check()?;
        let mut numbers: Vec<u32> = pages.iter().map(|page| page.number()).collect();
        numbers.sort_unstable();
        let is_bad = |page: &u32| !self.in_flight.contains_key(page) || self.state.claims.has(*page);
        let twice = numbers.windows(2).find(|two| two[0] == two[1]).map(|two| two[0]);
        if let Some(page) = numbers.iter().copied().find(is_bad).or(twice) {
            return Err(Error::NotInFlight { page });
        }
        if self.state.claims.iter().any(|(open, _)| open == id) {
            return Err(Error::option("id", "there is an open claim of this id"));
        }
        match numbers.is_empty() {
            true => Ok(()),
            false => self.tell(&Record::Claimed { id, pages: numbers, done: Vec::new() }),
        }
    }

    /// The open claims: not all their pages are fetched or have failed. One read from disk for
    /// each page.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub fn claims(&self) -> Result<Vec<Claim>> {
        let claim = |(id, pages): (u128, &[u32])| {
            let page = |page: &u32| Ok((PageId::new(*page), key_of(&self.state.texts.read(*page)?.1).to_owned()));
            Ok(Claim { id, pages: pages.iter().map(page).collect::<Result<_>>()? })
        };
        self.state.claims.iter().map(claim).collect()
    }

    /// Ends a claim that will never be answered; its pages can be claimed anew.
    ///
    /// # Errors
    /// `Poisoned`, `Io`.
    pub fn end_claim(&mut self, id: u128) -> Result<()> {
        self.poison.check()?;
        let found = self.state.claims.iter().find(|(open, _)| *open == id).map(|(_, pages)| pages.to_vec());
        match found {
            Some(pages) => self.tell(&Record::Claimed { id, done: pages.clone(), pages }),
            None => Ok(()),
        }
    }

    /// Returns whether the fetch of a page handed out earlier may begin now. If so, the delay runs
    /// from now; if its host's delay or a hold forbids it, returns false: release the page then.
    ///
    /// # Errors
    /// `NotInFlight`; `Poisoned`, `Io`.
    pub fn begins(&mut self, page: PageId, now_ms: i64) -> Result<bool> {
        self.poison.check()?;
        self.advance(now_ms)?;
        let number = page.number();
        let flight = *self.in_flight.get(&number).ok_or(Error::NotInFlight { page: number })?;
        let (clock_ms, delay_ms) = (self.state.queue.clock_ms(), self.options.delay_ms);
        let number_of_host = self.host_of(number)?;
        let host = self.state.hosts.get_mut(number_of_host);
        // Ignores this page's own hand-out; that of another page counts as its beginning.
        let before_ms = if host.began_ms == Some(flight.began_ms) { flight.before_ms } else { host.began_ms };
        let handed_ms = std::mem::replace(&mut host.began_ms, before_ms);
        if host.next_at_ms(delay_ms) > clock_ms {
            host.began_ms = handed_ms;
            return Ok(false);
        }
        host.began_ms = Some(clock_ms);
        self.in_flight.insert(number, Flight { began_ms: clock_ms, before_ms, ..flight });
        self.note_begin(number, number_of_host);
        Ok(true)
    }

    /// Undoes the start of a fetch that was not made: the host's next page need not wait for it.
    pub(super) fn not_begun(&mut self, page: u32, flight: Flight) -> Result<()> {
        let host = self.host_of(page)?;
        let host = self.state.hosts.get_mut(host);
        if host.began_ms == Some(flight.began_ms) {
            host.began_ms = flight.before_ms;
        }
        Ok(())
    }
}
