//! What of a crawl was not fetched, and why: counted at the end of a run, over all runs.

use std::path::Path;

use fm_cli::words;
use frontier::{FailureKind, Frontier, PageStatus};
use serde_json::{Value, json};

use crate::crawl::End;
use crate::failure::{is_lost, word};

/// Hosts that are named.
const NAMED: usize = 5;

/// What was not fetched.
pub struct Coverage {
    /// Known pages.
    pages: u64,
    /// Pages that wait for their first fetch, or for one that is due.
    waiting: u64,
    /// Pages that could not be fetched again.
    stale: u64,
    /// Pages that were given up, by reason, most frequent first.
    given_up: Vec<(FailureKind, u64)>,
    /// Hosts that do not answer, with their queued pages left out: the longest first.
    silent: Vec<String>,
}

impl Coverage {
    /// Counts. O(pages).
    pub fn of(frontier: &Frontier) -> Coverage {
        let (mut waiting, mut stale, mut given_up) = (0, 0, Vec::new());
        for (status, last_failure, count) in frontier.counts() {
            match (status, last_failure) {
                (PageStatus::Queued | PageStatus::Retrying, _) | (PageStatus::Due, None) => waiting += u64::from(count),
                (PageStatus::Due | PageStatus::Fetched, Some(kind)) if is_lost(kind) => stale += u64::from(count),
                (PageStatus::Gone, Some(kind)) => given_up.push((kind, u64::from(count))),
                _ => {}
            }
        }
        given_up.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let mut silent: Vec<_> =
            frontier.hosts().filter_map(|host| Some((host.failing?.since_ms, host.host))).collect();
        silent.sort();
        let silent = silent.into_iter().map(|(_, host)| host).collect();
        Coverage { pages: u64::from(frontier.pages()), waiting, stale, given_up, silent }
    }

    /// Pages that should be there and are not, when a run ends so: given up for a reason that is
    /// neither their site's answer nor a limit or rule of the crawl's, not fetched again for such
    /// a reason, or left waiting.
    pub fn missing(&self, end: End) -> u64 {
        let lost = self.given_up.iter().filter(|(kind, _)| is_lost(*kind)).map(|(_, count)| count).sum::<u64>();
        lost + self.stale + if end == End::Waiting { self.waiting } else { 0 }
    }

    /// The same as a part of all known pages.
    pub fn missing_part(&self, end: End) -> f64 {
        self.missing(end) as f64 / self.pages.max(1) as f64
    }

    /// As JSON.
    pub fn json(&self, end: End) -> Value {
        let given_up: serde_json::Map<String, Value> =
            self.given_up.iter().map(|(kind, count)| (word(*kind), (*count).into())).collect();
        json!({ "waiting": self.waiting, "stale": self.stale, "given_up": given_up, "missing": self.missing(end), "silent_hosts": self.silent.len() })
    }

    /// Says what is missing, if anything is.
    pub fn complain(&self, end: End, store: &Path, tolerated: f64) {
        let missing = self.missing(end);
        if missing == 0 {
            return;
        }
        let mut parts: Vec<String> = self
            .given_up
            .iter()
            .filter(|(kind, _)| is_lost(*kind))
            .map(|(kind, count)| format!("{count} given up ({})", word(*kind)))
            .collect();
        if self.stale > 0 {
            parts.push(format!("{} not fetched again", self.stale));
        }
        if end == End::Waiting && self.waiting > 0 {
            parts.push(format!("{} queued, as nothing more could be asked", self.waiting));
        }
        let pages = words::count(missing, "page");
        let store = store.display();
        words::complain(format_args!(
            "{pages} not fetched: {}; `fm-crawl list {store}` names them, `fm-crawl run {store}` goes on with what is \
             queued, `fm-crawl retry {store}` queues what was given up",
            parts.join(", ")
        ));
        if !self.silent.is_empty() {
            let named = self.silent.iter().take(NAMED).map(|host| fm_cli::plain(host.as_bytes()));
            let named = named.collect::<Vec<_>>().join(", ");
            let more = self.silent.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            words::complain(format_args!("no answer from {named}{more}"));
        }
        if self.missing_part(end) <= tolerated {
            let (part, most) = (100.0 * self.missing_part(end), 100.0 * tolerated);
            words::complain(format_args!("that is {part:.2}% of the known pages, and --tolerate {most}% allows it"));
        }
    }
}
