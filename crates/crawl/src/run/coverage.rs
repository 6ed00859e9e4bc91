//! Coverage: the pages that the crawl has not fetched, by reason; counted at the end of a run,
//! over all runs.

use frontier::{FailureKind, Frontier, PageStatus};
use serde_json::{Value, json};

use super::coordinator::End;
use crate::error::Error;
use crate::failure::{is_lost, word};

/// Counts of pages that were not fetched.
///
/// ```
/// use crawl::run::{Coverage, End};
/// # let place = tempfile::tempdir()?;
/// # let path = place.path().join("frontier");
/// # let mut frontier = frontier::Frontier::create(&path, frontier::FrontierOptions::new())?;
/// frontier.seed(&["http://example.com/"], 0)?;
/// let coverage = Coverage::of(&frontier)?;
/// assert_eq!((coverage.pages, coverage.waiting), (1, 1));
/// // A page that waits is missing where the crawl has waited for it in vain.
/// assert_eq!((coverage.missing(End::Interrupted), coverage.missing(End::Waiting)), (0, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Coverage {
    /// Known pages.
    pub pages: u64,
    /// Pages that wait for their first fetch, or are due for a recrawl.
    pub waiting: u64,
    /// Pages whose recrawl failed.
    pub stale: u64,
    /// Given-up pages by reason, most frequent first.
    pub given_up: Vec<(FailureKind, u64)>,
    /// Hosts that do not answer, longest first; their queued pages are left out.
    pub silent: Vec<String>,
}

impl Coverage {
    /// Counts the frontier's pages. O(pages).
    ///
    /// # Errors
    /// Errors of the frontier.
    pub fn of(frontier: &Frontier) -> Result<Coverage, Error> {
        let (mut waiting, mut stale, mut given_up) = (0, 0, Vec::new());
        for (status, last_failure, count) in frontier.counts()? {
            match (status, last_failure) {
                (PageStatus::Due | PageStatus::Fetched, Some(kind)) if is_lost(kind) => stale += u64::from(count),
                (PageStatus::Queued | PageStatus::Retrying | PageStatus::Due, _) => waiting += u64::from(count),
                (PageStatus::Gone, Some(kind)) => given_up.push((kind, u64::from(count))),
                _ => {}
            }
        }
        given_up.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let mut silent: Vec<_> =
            frontier.hosts().filter_map(|host| Some((host.failing?.since_ms, host.host))).collect();
        silent.sort();
        let silent = silent.into_iter().map(|(_, host)| host).collect();
        Ok(Coverage { pages: u64::from(frontier.pages()), waiting, stale, given_up, silent })
    }

    /// Pages missing at this end of a run: given up or not fetched again for a reason that is
    /// neither their host's answer nor a limit or rule of the crawl, or left waiting.
    pub fn missing(&self, end: End) -> u64 {
        let lost = self.given_up.iter().filter(|(kind, _)| is_lost(*kind)).map(|(_, count)| count).sum::<u64>();
        lost + self.stale + if end == End::Waiting { self.waiting } else { 0 }
    }

    /// The missing pages as a fraction of all known pages.
    pub fn missing_part(&self, end: End) -> f64 {
        self.missing(end) as f64 / self.pages.max(1) as f64
    }

    /// As JSON.
    pub fn json(&self, end: End) -> Value {
        let given_up: serde_json::Map<String, Value> =
            self.given_up.iter().map(|(kind, count)| (word(*kind), (*count).into())).collect();
        json!({ "waiting": self.waiting, "stale": self.stale, "given_up": given_up, "missing": self.missing(end), "silent_hosts": self.silent.len() })
    }
}

#[cfg(test)]
mod tests {
    use frontier::{Failure, Fetched, FrontierOptions, Next, Recrawl, Remedy};

    use super::*;

    #[test]
    fn a_page_that_is_due_waits_whatever_its_last_answer_was() {
        for (kind, waiting, stale) in [(FailureKind::ClientStatus, 1, 0), (FailureKind::ServerStatus, 0, 1)] {
            let folder = tempfile::tempdir().unwrap();
            let recrawl = Recrawl::new().first_ms(10_000).min_ms(10_000).max_ms(10_000);
            let options = FrontierOptions::new().recrawl(Some(recrawl)).delay_ms(0);
            let mut frontier = Frontier::create(folder.path().join("frontier"), options).unwrap();
            frontier.seed(&["http://example.com/"], 0).unwrap();
            let Next::Fetch(first) = frontier.next(0).unwrap() else { panic!("the seed waits") };
            frontier.done(first.page, &Fetched::default()).unwrap();
            let Next::Fetch(again) = frontier.next(15_000).unwrap() else { panic!("it is due again") };
            let failure = Failure { kind, retry_after_ms: None, remedy: Remedy::GiveUp };
            frontier.failed(again.page, &failure, 15_000).unwrap();
            // Due once more, and nothing of its host may be fetched.
            frontier.host_hold("example.com", 1_000_000).unwrap();
            assert!(matches!(frontier.next(60_000).unwrap(), Next::Wait { .. }));
            let coverage = Coverage::of(&frontier).unwrap();
            assert_eq!((coverage.waiting, coverage.stale), (waiting, stale), "{kind:?}");
            assert_eq!(coverage.missing(End::Waiting), 1, "{kind:?}");
        }
    }
}
