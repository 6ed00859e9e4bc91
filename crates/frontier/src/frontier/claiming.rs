//! Claiming pages at a set that several crawls share: which of them fetches a page.

use super::Frontier;
use crate::error::{Error, Result};
use crate::outcome::{Claim, PageId};
use crate::record::Record;

impl Frontier {
    /// Records that pages in flight are about to be asked for under an id, at a set that other
    /// crawls share. Ask after [`Frontier::commit`]: so a crawl that ends before it has the answer
    /// finds the claim when it is opened again, and asks again.
    ///
    /// # Errors
    /// `NotInFlight`, also if a page is claimed already or named twice; `Poisoned`, `Io`. Nothing
    /// was changed then.
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

    /// The claims of which not all pages are fetched or have failed. One read from disk for each
    /// page.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub fn claims(&self) -> Result<Vec<Claim>> {
        let claim = |(id, pages): (u128, &[u32])| {
            let page = |page: &u32| Ok((PageId::new(*page), self.state.texts.read(*page)?.1));
            Ok(Claim { id, pages: pages.iter().map(page).collect::<Result<_>>()? })
        };
        self.state.claims.iter().map(claim).collect()
    }
}
