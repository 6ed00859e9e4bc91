//! Words for people, on standard error: messages, warnings, and a progress bar on a terminal.
//!
//! Nothing here is data, so nothing here may fail the program: a standard error that was closed is ignored. Words carry
//! no colour and no character that a terminal would obey, whatever URL or file name is in them; the bar is drawn on a terminal only and is gone before any word is said, so that they never mix.

use std::fmt::Display;
use std::io::{self, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::plain::plain;

/// Says a line on standard error.
pub fn say(words: impl Display) {
    let _ = writeln!(io::stderr(), "{}", plain(words.to_string().as_bytes()));
}

/// Says what went wrong, with the program's name, so that it is found in a pipeline's output.
pub fn complain(words: impl Display) {
    say(format_args!("fm-tool: {words}"));
}

/// A progress bar over bytes; hidden where standard error is no terminal.
pub struct Bar(ProgressBar);

impl Bar {
    /// A bar that has nothing to show yet; `quiet` hides it.
    pub fn new(quiet: bool) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(None, target);
        let template = "{bar:20} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {wide_msg}";
        bar.set_style(ProgressStyle::with_template(template).expect("the template is fixed and valid"));
        Self(bar)
    }

    /// Moves the bar to `done_bytes` of `total_bytes` and shows `words` beside it.
    pub fn show(&self, done_bytes: u64, total_bytes: u64, words: impl FnOnce() -> String) {
        if self.0.is_hidden() {
            return;
        }
        if self.0.length() != Some(total_bytes) {
            self.0.set_length(total_bytes);
        }
        self.0.set_message(words());
        self.0.set_position(done_bytes);
    }

    /// Takes the bar away while `speak` says something, so that the two never mix.
    pub fn aside(&self, speak: impl FnOnce()) {
        self.0.suspend(speak);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Bytes as people read them: `17.3 MB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut scaled = bytes as f64;
    let mut unit = "B";
    for next in UNITS {
        if scaled < 999.95 {
            break;
        }
        scaled /= 1000.0;
        unit = next;
    }
    format!("{scaled:.1} {unit}")
}

/// A count with its noun: `1 page`, `2 pages`.
pub fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_carry_a_unit_that_fits() {
        let pairs = [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (17_300_000, "17.3 MB"), (999_999, "1.0 MB")];
        for (bytes, words) in pairs {
            assert_eq!(size(bytes), words);
        }
        assert_eq!(size(u64::MAX), "18446.7 PB");
    }

    #[test]
    fn counts_agree_with_their_noun() {
        assert_eq!(count(1, "page"), "1 page");
        assert_eq!(count(0, "page"), "0 pages");
    }
}
