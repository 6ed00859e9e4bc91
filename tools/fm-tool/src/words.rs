//! Words for people, on standard error: messages, warnings, and a progress bar on a terminal.
//!
//! Nothing here is data, so nothing here may fail the program: a standard error that was closed is ignored. Words carry
//! no colour; the bar is drawn on a terminal only and is gone before any word is said, so that they never mix.

use std::fmt::Display;
use std::io::{self, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often the bar is redrawn.
const REDRAW: Duration = Duration::from_millis(200);

/// Says a line on standard error.
pub fn say(words: impl Display) {
    let _ = writeln!(io::stderr(), "{words}");
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
        let template = "{bar:24} {bytes}/{total_bytes}  {bytes_per_sec}  {msg}  {eta}";
        bar.set_style(ProgressStyle::with_template(template).expect("the template is fixed and valid"));
        if !bar.is_hidden() {
            bar.enable_steady_tick(REDRAW);
        }
        Self(bar)
    }

    /// Moves the bar to `done_bytes` of `total_bytes` and shows `words` beside it.
    pub fn show(&self, done_bytes: u64, total_bytes: u64, words: impl FnOnce() -> String) {
        self.0.set_length(total_bytes);
        self.0.set_position(done_bytes);
        if !self.0.is_hidden() {
            self.0.set_message(words());
        }
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
