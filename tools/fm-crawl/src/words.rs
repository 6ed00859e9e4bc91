//! Words for people, on standard error: complaints. Lines and numbers are those of `terminal`.

use std::fmt::Display;

pub use terminal::{count, say, size};

/// Says what went wrong, with the program's name.
pub fn complain(words: impl Display) {
    say(format_args!("fm-crawl: {words}"));
}
