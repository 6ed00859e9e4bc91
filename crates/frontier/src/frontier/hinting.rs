//! Hints about a page's changes, such as those of sitemaps: they move its next fetch.

use std::collections::BTreeMap;

use super::Frontier;
use crate::error::Result;
use crate::marks::Status;
use crate::outcome::Hint;
use crate::record::Record;
use crate::recrawl::{due_s, interval_ms, step_of};
use crate::state::FIRST_AGE;

impl Frontier {
    /// Takes hints about pages; skips pages that are unknown or about to be fetched. A page that
    /// changed since its fetch is due now; one whose interval is not learnt yet gets the interval
    /// in the hint. Does nothing without recrawls. Returns the number of pages whose due time
    /// changed.
    ///
    /// O(hints), two reads from disk for each.
    ///
    /// # Errors
    /// `Poisoned`, `Corrupt`, `Io`.
    pub fn hint(&mut self, hints: &[Hint<'_>], now_ms: i64) -> Result<u32> {
        self.poison.check()?;
        let Some(recrawl) = self.options.recrawl else { return Ok(0) };
        let (table, index) = (&self.state.table, &self.state.index);
        let mut hinted = BTreeMap::new();
        for hint in hints {
            if let Some(page) = index.find(index.fingerprint(hint.key))? {
                hinted.insert(page, hint);
            }
        }
        let mut changes = Vec::new();
        for (&page, hint) in &hinted {
            let row = table.peek(page)?;
            let marks = row.marks;
            let age = match hint.every_ms.filter(|_| marks.age() == FIRST_AGE) {
                Some(every_ms) => step_of(&recrawl, every_ms),
                None => marks.age(),
            };
            let due = match marks.status() {
                // The due time must be that of a recrawl, not of a retry.
                Status::Fetched if row.due_s > 0 && marks.failure().is_none() => {
                    let fetched_ms = i64::from(row.due_s) * 1000 - interval_ms(&recrawl, marks.age()) as i64;
                    let has_changed = hint.changed_ms.is_some_and(|at_ms| (fetched_ms..=now_ms).contains(&at_ms));
                    let again = if has_changed { now_ms } else { fetched_ms };
                    due_s(again, if has_changed { 0 } else { interval_ms(&recrawl, age) })
                }
                Status::Fetched | Status::Gone | Status::Due | Status::Refreshing => continue,
                _ => 0,
            };
            if age != marks.age() || due > 0 && row.due_s != due {
                changes.push((page, age, due));
            }
        }
        let count = changes.len() as u32;
        if count > 0 {
            self.tell(&Record::Hinted { changes })?;
        }
        Ok(count)
    }
}
