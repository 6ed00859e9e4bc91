//! How far long work is: bytes or records, their rate, and the time left.
//!
//! Invariant: drawn on standard error, only if that is a terminal, and not with `--quiet` or `--json`; gone before any
//! word is said, so that the two never mix. Work is never slower for it by more than a look at a flag.

use std::fmt;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::cli::Shared;
use crate::outcome::{Failure, Outcome};

/// Bytes of so many bytes.
const BYTES: &str = "{bar:20} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {eta} left {wide_msg}";
/// Bytes of who knows how many.
const ENDLESS_BYTES: &str = "{spinner} {decimal_bytes} {decimal_bytes_per_sec} {wide_msg}";
/// Records of about so many.
const RECORDS: &str = "{bar:20} {human_pos} of about {human_len} {msg}, {rate}, {eta} left";
/// Records of who knows how many.
const ENDLESS_RECORDS: &str = "{spinner} {human_pos} {msg}, {rate}";

/// A bar; hidden where nobody would see it.
pub struct Progress(ProgressBar);

impl Progress {
    fn new(hidden: bool, template: &str) -> Self {
        let target = if hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template(template).expect("the templates are fixed and valid");
        bar.set_style(style.with_key("rate", |state: &ProgressState, out: &mut dyn fmt::Write| {
            let _ = write!(out, "{:.0}/s", state.per_sec());
        }));
        Self(bar)
    }

    /// A bar over bytes, whose number [`Progress::at`] tells.
    pub fn bytes(shared: &Shared) -> Self {
        Self::new(shared.quiet || shared.json, BYTES)
    }

    /// A bar over bytes from a source whose length nobody knows.
    pub fn endless_bytes(shared: &Shared) -> Self {
        Self::new(shared.quiet || shared.json, ENDLESS_BYTES)
    }

    /// A bar over about `expected` records, if that is known, which are called `noun`.
    pub fn records(shared: &Shared, expected: Option<u64>, noun: &'static str) -> Self {
        let bar = Self::new(shared.quiet || shared.json, if expected.is_some() { RECORDS } else { ENDLESS_RECORDS });
        if let Some(expected) = expected {
            bar.0.set_length(expected);
        }
        bar.0.set_message(noun);
        bar
    }

    /// No bar if data is printed to the terminal meanwhile: the two would overwrite each other.
    pub fn unless_printing(self, to_terminal: bool) -> Self {
        if to_terminal {
            self.0.set_draw_target(ProgressDrawTarget::hidden());
        }
        self
    }

    /// Moves a bar to `done_bytes` of `total_bytes` and shows `words` beside it.
    pub fn at(&self, done_bytes: u64, total_bytes: u64, words: impl FnOnce() -> String) {
        if self.0.is_hidden() {
            return;
        }
        if self.0.length() != Some(total_bytes) {
            self.0.set_length(total_bytes);
        }
        self.0.set_message(words());
        self.0.set_position(done_bytes);
    }

    /// One record more.
    pub fn add(&self) {
        if !self.0.is_hidden() {
            self.0.inc(1);
        }
    }

    /// So many records more.
    pub fn add_many(&self, records: u64) {
        if !self.0.is_hidden() {
            self.0.inc(records);
        }
    }

    /// Takes the bar away while `speak` says something.
    pub fn aside(&self, speak: impl FnOnce()) {
        self.0.suspend(speak);
    }

    /// Says what is wrong with one of many things, so that work goes on; a failure that concerns all of them comes back.
    pub fn pass_over(&self, failure: Failure, outcome: &mut Outcome) -> Result<(), Failure> {
        let one = self.0.suspend(|| Outcome::of_one(failure))?;
        *outcome = outcome.and(one);
        Ok(())
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
