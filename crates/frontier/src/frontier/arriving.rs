//! Links found by other crawls, to pages that are not known here.

use super::Frontier;
use crate::discover::sort_links;
use crate::error::Result;
use crate::outcome::Done;
use crate::record::Record;

/// Stands for no page: the page with the links is another crawl's.
const NO_PAGE: u32 = u32::MAX;

impl Frontier {
    /// Enters links found by another crawl, at depth `depth`. Known pages stay as they are, so
    /// repeated links do no harm. New pages share the credit of the virtual page, as links from
    /// outside; they get no rent before pages here link to them too. Limits of depth, of a host's
    /// pages and of length apply as for links found here.
    ///
    /// O(links).
    ///
    /// # Errors
    /// `Full`, with nothing entered; `Poisoned`, `Corrupt`, `Io`.
    ///
    /// ```
    /// use frontier::{Frontier, FrontierOptions, Next};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("frontier");
    /// let mut frontier = Frontier::create(&path, FrontierOptions::new()).unwrap();
    /// let done = frontier.arrived(&["http://example.com/a", "http://example.com/b"], 3).unwrap();
    /// assert_eq!(done.new_links, 2);
    /// assert_eq!(frontier.arrived(&["http://example.com/a"], 1).unwrap().known_links, 1);
    /// let Next::Fetch(assignment) = frontier.next(0).unwrap() else { panic!("two wait") };
    /// assert_eq!((assignment.depth, assignment.is_seed), (3, false));
    /// ```
    pub fn arrived(&mut self, links: &[&str], depth: u16) -> Result<Done> {
        self.poison.check()?;
        self.check_room(links.len())?;
        let (mut done, known, new) = sort_links(&mut self.state, &self.options, NO_PAGE, depth, links)?;
        done.first_new = self.state.table.len();
        (done.known_links, done.new_links) = (known.len() as u32, new.len() as u32);
        if !new.is_empty() {
            self.tell(&Record::Arrived { depth, new })?;
        }
        Ok(done)
    }
}
