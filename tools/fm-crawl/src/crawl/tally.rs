//! What a run has done so far, in numbers: for the progress, the summary and `status`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::visit::{Told, Visit};
use crate::failure::Reason;

/// The numbers of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Pages fetched: those with an answer that was taken, redirects and "not modified" among them.
    pub fetched: u64,
    /// Of them redirects.
    pub redirects: u64,
    /// Of them the same as before.
    pub unchanged: u64,
    /// Of them stored as references to another URL's body.
    pub duplicates: u64,
    /// Bytes of bodies over the wire.
    pub wire_bytes: u64,
    /// Bytes of bodies without their codings.
    pub body_bytes: u64,
    /// Pages discovered.
    pub discovered: u64,
    /// Failures and limits by name, and how often each was met.
    pub reasons: BTreeMap<Reason, u64>,
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
            Told::Failed(failure) => self.add(failure.reason, 1),
        }
        visit.met.iter().for_each(|&(reason, times)| self.add(reason, times));
    }

    /// Counts a reason.
    pub fn add(&mut self, reason: Reason, times: u64) {
        if times > 0 {
            *self.reasons.entry(reason).or_default() += times;
        }
    }

    /// Pages that the store refuses.
    pub fn unstorable(&self) -> u64 {
        self.reasons.get(&Reason::Unstorable).copied().unwrap_or(0)
    }

    /// All of it.
    pub fn json(&self) -> Value {
        let reasons: serde_json::Map<String, Value> =
            self.reasons.iter().map(|(reason, times)| (reason.name().to_owned(), Value::from(*times))).collect();
        json!({
            "fetched": self.fetched,
            "redirects": self.redirects,
            "unchanged": self.unchanged,
            "duplicates": self.duplicates,
            "wire_bytes": self.wire_bytes,
            "body_bytes": self.body_bytes,
            "discovered": self.discovered,
            "reasons": reasons,
        })
    }

    /// Failures and limits in one line, the most frequent first; empty if there are none.
    pub fn reasons_in_words(&self) -> String {
        let mut rows: Vec<(&Reason, &u64)> = self.reasons.iter().collect();
        rows.sort_by_key(|(reason, times)| (std::cmp::Reverse(**times), **reason));
        rows.iter().map(|(reason, times)| format!("{} {times}", reason.name())).collect::<Vec<_>>().join(", ")
    }
}
