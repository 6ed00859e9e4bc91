//! Messages on standard error, questions, and counts with their noun.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::OnceLock;

use crate::plain::plain;

static PROGRAM: OnceLock<&'static str> = OnceLock::new();

/// The name that [`complain`] prints first; set once.
pub(crate) fn set_program(name: &'static str) {
    let _ = PROGRAM.set(name);
}

/// Prints a line on standard error.
pub fn say(words: impl Display) {
    let _ = writeln!(io::stderr(), "{}", plain(words.to_string().as_bytes()));
}

/// Prints an error or warning after the program's name, so that it stands out in a pipeline's
/// output.
pub fn complain(words: impl Display) {
    match PROGRAM.get() {
        Some(program) => say(format_args!("{program}: {words}")),
        None => say(words),
    }
}

/// Asks a yes-or-no question on the terminal; any answer but yes is no.
pub fn ask(question: impl Display) -> bool {
    let mut err = io::stderr();
    let _ = write!(err, "{} [y/N] ", plain(question.to_string().as_bytes()));
    let _ = err.flush();
    let mut answer = String::new();
    let _ = io::stdin().read_line(&mut answer);
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// A count with its noun: `1 page`, `2 pages`, `2 dictionaries`.
pub fn count(number: u64, noun: &str) -> String {
    let stem = noun.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o', 'u']));
    match (number, stem) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        _ => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_agree_with_their_noun() {
        assert_eq!(count(1, "page"), "1 page");
        assert_eq!(count(0, "page"), "0 pages");
        assert_eq!((count(3, "dictionary"), count(3, "key")), ("3 dictionaries".to_owned(), "3 keys".to_owned()));
    }
}
