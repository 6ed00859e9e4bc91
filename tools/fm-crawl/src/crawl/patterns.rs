//! Files of patterns, which are read again while the crawl runs.

use std::time::{Duration, Instant};

use fm_cli::{Failure, words};
use serde_json::json;

use super::log::Log;
use crate::filter::{Change, Filter};

/// They are looked at this often.
const EVERY: Duration = Duration::from_secs(3);

/// When they were last looked at.
pub struct Patterns(Instant);

impl Default for Patterns {
    fn default() -> Patterns {
        Patterns(Instant::now())
    }
}

impl Patterns {
    /// Reads those that have changed, and says so; nothing if it has done that just before.
    ///
    /// # Errors
    /// The log's.
    pub fn look(&mut self, filter: &Filter, log: &mut Log) -> Result<(), Failure> {
        if self.0.elapsed() < EVERY {
            return Ok(());
        }
        self.0 = Instant::now();
        for Change { file, patterns } in filter.look() {
            let file = file.display().to_string();
            let (said, what) = match patterns {
                Ok(count) => (format!("{file} has changed: {}", words::count(count as u64, "pattern")), json!(count)),
                Err(wrong) => (format!("patterns stay as they were: {wrong}"), json!({ "error": wrong })),
            };
            words::complain(said);
            log.event("patterns", json!({ "file": file, "patterns": what }))?;
        }
        Ok(())
    }
}
