//! Hints of others about a page's changes, such as those of sitemaps: when the next fetch of it is
//! due.

use std::collections::BTreeMap;

use super::Frontier;
use crate::error::Result;
use crate::outcome::Hint;
use crate::pages::Status;
use crate::record::Record;
use crate::recrawl::{due_s, interval_ms, step_of};
use crate::state::FIRST_AGE;

impl Frontier {
    /// Takes hints about pages, of which those that are not known, or about to be fetched, are
    /// skipped. A page that has changed since it was fetched is due now; one whose interval has not
    /// been learnt yet gets the one that is said. Without recrawls nothing is done. Returns how many
    /// pages are due sooner, or later.
    ///
    /// O(hints + pages that wait), one read from disk for each hint.
    ///
    /// # Errors
    /// `Poisoned`, `Corrupt`, `Io`.
    pub fn hint(&mut self, hints: &[Hint<'_>], now_ms: i64) -> Result<u32> {
        self.poison.check()?;
        let Some(recrawl) = self.options.recrawl else { return Ok(0) };
        let (pages, index) = (&self.state.pages, &self.state.index);
        let mut hinted = BTreeMap::new();
        for hint in hints {
            if let Some(page) = index.find(index.fingerprint(hint.key))? {
                hinted.insert(page, hint);
            }
        }
        let waits: BTreeMap<u32, u32> =
            self.state.queue.timers().filter(|(page, _)| hinted.contains_key(page)).collect();
        let mut changes = Vec::new();
        for (&page, hint) in &hinted {
            let marks = pages.marks(page);
            let age = match hint.every_ms.filter(|_| marks.age() == FIRST_AGE) {
                Some(every_ms) => step_of(&recrawl, every_ms),
                None => marks.age(),
            };
            let due = match (marks.status(), waits.get(&page)) {
                // Its retry is due, and not its recrawl.
                (Status::Fetched, Some(&due)) if marks.failure().is_none() => {
                    let fetched_ms = i64::from(due) * 1000 - interval_ms(&recrawl, marks.age()) as i64;
                    let has_changed = hint.changed_ms.is_some_and(|at_ms| (fetched_ms..=now_ms).contains(&at_ms));
                    let again = if has_changed { now_ms } else { fetched_ms };
                    due_s(again, if has_changed { 0 } else { interval_ms(&recrawl, age) })
                }
                (Status::Fetched, _) | (Status::Gone | Status::Due | Status::Refreshing, _) => continue,
                _ => 0,
            };
            if age != marks.age() || due > 0 && waits.get(&page) != Some(&due) {
                changes.push((page, age, due));
            }
        }
        let count = changes.len() as u32;
        if count > 0 {
            let is_moved = |page: u32| {
                let at = changes.binary_search_by_key(&page, |(page, _, _)| *page);
                at.is_ok_and(|at| changes[at].2 > 0)
            };
            self.state.queue.forget(|page| !is_moved(page));
            self.tell(&Record::Hinted { changes })?;
        }
        Ok(count)
    }
}
