//! Progress of long work: bytes or records, their rate, the time left.
//!
//! Invariant: drawn on standard error, only if that is a terminal, and not with `--quiet` or
//! `--json`; removed before any message is printed. While hidden, a bar costs the test of a flag.

use std::fmt;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::flags::Flags;
use crate::interrupt;
use crate::outcome::{Failure, Outcome};

const BYTES: &str = "{bar:20} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {eta} left {wide_msg}";
const ENDLESS_BYTES: &str = "{spinner} {decimal_bytes} {decimal_bytes_per_sec} {wide_msg}";
const RECORDS: &str = "{bar:20} {human_pos} of about {human_len} {msg}, {rate}, {eta} left";
const ENDLESS_RECORDS: &str = "{spinner} {human_pos} {msg}, {rate}";
const LINE: &str = "{spinner} {wide_msg}";

/// A progress bar; hidden if nobody would see it.
pub struct Progress(ProgressBar);

impl Progress {
    fn new(flags: &Flags, template: &str) -> Self {
        let target = if flags.says() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        // The templates are constants: a bad one leaves the default style.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.with_key("rate", |state: &ProgressState, out: &mut dyn fmt::Write| {
                let _ = write!(out, "{:.0}/s", state.per_sec());
            }));
        }
        Self(bar)
    }

    /// A bar over bytes; [`Progress::at`] sets how many.
    pub fn bytes(flags: &Flags) -> Self {
        Self::new(flags, BYTES)
    }

    /// A bar over the bytes of a source of unknown length.
    pub fn endless_bytes(flags: &Flags) -> Self {
        Self::new(flags, ENDLESS_BYTES)
    }

    /// A bar over about `expected` records, if known; `noun` names them.
    pub fn records(flags: &Flags, expected: Option<u64>, noun: &'static str) -> Self {
        let bar = Self::new(flags, if expected.is_some() { RECORDS } else { ENDLESS_RECORDS });
        if let Some(expected) = expected {
            bar.0.set_length(expected);
        }
        bar.0.set_message(noun);
        bar
    }

    /// One line of text, set by [`Progress::show`].
    pub fn line(flags: &Flags) -> Self {
        Self::new(flags, LINE)
    }

    /// Hides the bar if data is printed to a terminal meanwhile: each would overwrite the other.
    pub fn unless_printing(self, to_terminal: bool) -> Self {
        if to_terminal {
            self.0.set_draw_target(ProgressDrawTarget::hidden());
        }
        self
    }

    /// Returns whether the bar is hidden.
    pub fn is_hidden(&self) -> bool {
        self.0.is_hidden()
    }

    /// Replaces the text and redraws.
    pub fn show(&self, words: String) {
        self.0.set_message(words);
        self.0.tick();
    }

    /// Moves a bar to `done_bytes` of `total_bytes` with `words` beside it.
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

    /// Adds one record.
    pub fn add(&self) {
        self.add_many(1);
    }

    /// Adds this many records.
    pub fn add_many(&self, records: u64) {
        if !self.0.is_hidden() {
            self.0.inc(records);
        }
    }

    /// Removes the bar while `speak` prints.
    pub fn aside(&self, speak: impl FnOnce()) {
        self.0.suspend(speak);
    }

    /// Prints a failure that concerns one of many items, so that the caller can continue; returns
    /// any other failure.
    pub fn pass_over(&self, failure: Failure, outcome: &mut Outcome) -> Result<(), Failure> {
        let one = self.0.suspend(|| Outcome::of_one(failure))?;
        *outcome = outcome.and(one);
        Ok(())
    }

    /// Processes all items, then removes the bar. Prints a failure that concerns one item. `None`
    /// if interrupted.
    pub fn each<T, E: Into<Failure>>(
        self,
        items: impl Iterator<Item = Result<T, E>>,
        mut take: impl FnMut(T) -> Result<(), Failure>,
    ) -> Result<Option<Outcome>, Failure> {
        let mut outcome = Outcome::Done;
        for item in items {
            if interrupt::asked() {
                return Ok(None);
            }
            self.add();
            if let Err(failure) = item.map_err(Into::into).and_then(&mut take) {
                self.pass_over(failure, &mut outcome)?;
            }
        }
        Ok(Some(outcome))
    }

    /// Removes the bar.
    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
