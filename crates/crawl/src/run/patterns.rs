//! Reloads files of patterns and of hosts while the crawl runs.

use std::time::{Duration, Instant};

use super::observe::{Event, Observer};
use crate::error::Error;
use crate::fetch::hosts::{self, Hosts};
use crate::settings::filter::{Change, Filter};

/// The interval of checks.
const EVERY: Duration = Duration::from_secs(3);

/// The time of the last check.
pub struct Patterns(Instant);

impl Default for Patterns {
    fn default() -> Patterns {
        Patterns(Instant::now())
    }
}

impl Patterns {
    /// Reloads the changed files, and reports it; does nothing right after another check.
    ///
    /// # Errors
    /// Errors of the observer.
    pub fn look(&mut self, filter: &Filter, hosts: &Hosts, observer: &dyn Observer) -> Result<(), Error> {
        if self.0.elapsed() < EVERY {
            return Ok(());
        }
        self.0 = Instant::now();
        for Change { file, patterns } in filter.look() {
            observer.event(&Event::Patterns { file, patterns }).map_err(Error::Observer)?;
        }
        if let Some(hosts::Change { file, hosts }) = hosts.look() {
            observer.event(&Event::Hosts { file, hosts }).map_err(Error::Observer)?;
        }
        Ok(())
    }
}
