//! The counts of a run, for the progress, the summary and `status`.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};

use crate::clock::now_ms;
use crate::failure::Reason;
use crate::visit::{Told, Visit};

/// The counts of a run.
///
/// ```
/// use crawl::{Reason, run::Tally};
/// let mut tally = Tally::default();
/// tally.add(Reason::BodyLimit, 1);
/// tally.add(Reason::Dns, 2);
/// assert_eq!(tally.reasons_in_words(), "dns 2, body-limit 1");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Fetched pages, redirects and "not modified" included.
    pub fetched: u64,
    /// Redirects among them.
    pub redirects: u64,
    /// Pages among them that are unchanged since the last version.
    pub unchanged: u64,
    /// Pages among them stored as references to another URL's body.
    pub duplicates: u64,
    /// Bytes of bodies as received.
    pub wire_bytes: u64,
    /// Bytes of decoded bodies.
    pub body_bytes: u64,
    /// Discovered pages.
    pub discovered: u64,
    /// Free bytes on the disk, if the crawl pauses because they are too few.
    pub low_space: Option<u64>,
    /// Failures and limits, with the number of times each occurred.
    pub reasons: BTreeMap<Reason, u64>,
    /// Links sent to other crawls of the fleet.
    pub links_sent: u64,
    /// Links in the outbox, including earlier runs': no mailbox has them yet.
    pub links_waiting: u64,
    /// Links received from other crawls.
    pub links_received: u64,
    /// Recrawls rescheduled by hints of sitemaps.
    pub moved: u64,
    /// Hosts that are slowed down because they are busy.
    pub slowed_hosts: u64,
    /// True if the crawl was asked to pause.
    pub is_paused: bool,
    /// The latest failures, oldest first.
    latest: VecDeque<Latest>,
}

/// The number of failures kept with their URLs.
const KEPT: usize = 50;

/// A page that could not be fetched.
#[derive(Clone, Debug, PartialEq)]
struct Latest {
    url: String,
    reason: Reason,
    detail: String,
    time_ms: i64,
}

impl Tally {
    /// Counts a visit.
    pub fn visit(&mut self, visit: &Visit) {
        self.wire_bytes += visit.wire_bytes;
        self.body_bytes += visit.body_bytes;
        match &visit.told {
            Told::Fetched(fetched) => {
                self.fetched += 1;
                self.redirects +=
                    u64::from(visit.status.is_some_and(|status| (301..=308).contains(&status) && status != 304));
                self.unchanged += u64::from(fetched.changed == Some(false));
                self.duplicates += u64::from(visit.duplicate_of.is_some());
            }
            Told::Failed(failure) => {
                self.add(failure.reason, 1);
                let (url, detail, time_ms) = (visit.url.clone(), failure.detail.clone(), now_ms());
                self.keep(Latest { url, reason: failure.reason, detail, time_ms });
            }
            Told::Later => {}
        }
        for words in &visit.hooks_failed {
            self.keep(Latest {
                url: visit.url.clone(),
                reason: Reason::HookFailed,
                detail: words.clone(),
                time_ms: now_ms(),
            });
        }
        visit.met.iter().for_each(|&(reason, times)| self.add(reason, times));
    }

    fn keep(&mut self, latest: Latest) {
        if self.latest.len() == KEPT {
            self.latest.pop_front();
        }
        self.latest.push_back(latest);
    }

    /// The number of hook failures.
    pub fn hooks_failed(&self) -> u64 {
        self.reasons.get(&Reason::HookFailed).copied().unwrap_or(0)
    }

    /// The details of the latest failure of a reason.
    pub fn last_of(&self, reason: Reason) -> Option<&str> {
        self.latest.iter().rev().find(|latest| latest.reason == reason).map(|latest| latest.detail.as_str())
    }

    /// Counts a reason.
    pub fn add(&mut self, reason: Reason, times: u64) {
        if times > 0 {
            *self.reasons.entry(reason).or_default() += times;
        }
    }

    /// Pages that the store refused.
    pub fn unstorable(&self) -> u64 {
        self.reasons.get(&Reason::Unstorable).copied().unwrap_or(0)
    }

    /// All counts as JSON.
    pub fn json(&self) -> Value {
        let reasons: serde_json::Map<String, Value> =
            self.reasons.iter().map(|(reason, times)| (reason.name().to_owned(), Value::from(*times))).collect();
        let latest = self.latest.iter().map(|failed| {
            let Latest { url, reason, detail, time_ms } = failed;
            json!({ "url": url, "reason": reason.name(), "detail": detail, "time_ms": time_ms })
        });
        json!({
            "fetched": self.fetched, "redirects": self.redirects, "unchanged": self.unchanged,
            "duplicates": self.duplicates, "wire_bytes": self.wire_bytes, "body_bytes": self.body_bytes,
            "discovered": self.discovered, "links_sent": self.links_sent,
            "links_waiting": self.links_waiting, "links_received": self.links_received, "moved": self.moved, "slowed_hosts": self.slowed_hosts,
            "is_paused": self.is_paused, "low_space": self.low_space, "reasons": reasons,
            "latest_failures": latest.collect::<Vec<_>>(),
        })
    }

    /// Failures and limits in one line, most frequent first; empty if there are none.
    pub fn reasons_in_words(&self) -> String {
        let mut rows: Vec<(&Reason, &u64)> = self.reasons.iter().collect();
        rows.sort_by_key(|(reason, times)| (std::cmp::Reverse(**times), **reason));
        rows.iter().map(|(reason, times)| format!("{} {times}", reason.name())).collect::<Vec<_>>().join(", ")
    }
}
