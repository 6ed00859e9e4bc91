//! Words for people, on standard error: complaints and questions. Lines and numbers are those of `terminal`.

use std::fmt::Display;
use std::io::{self, Write};

use filemap::store::RevisitCount;
use terminal::plain;
pub use terminal::{count, say, size};

/// Says what went wrong, with the program's name, so that it is found in a pipeline's output.
pub fn complain(words: impl Display) {
    say(format_args!("fm-tool: {words}"));
}

/// Says how many revisits have no body because their original is not there, if any.
pub fn say_unresolved(count: Option<&RevisitCount>) {
    let Some(count) = count.filter(|count| count.unresolved > 0) else { return };
    let urls: Vec<String> = count.urls.iter().take(3).map(|url| plain(url)).collect();
    complain(format_args!(
        "{} of {} have no body, since their originals are not in the store: {}{}; import the files that have them",
        count.unresolved,
        self::count(count.revisits, "revisit"),
        urls.join(" "),
        if count.unresolved > urls.len() as u64 { " ..." } else { "" },
    ));
}

/// Asks a question that is answered with yes or no; anything but yes is no.
pub fn ask(question: impl Display) -> bool {
    let mut err = io::stderr();
    let _ = write!(err, "{} [y/N] ", plain(question.to_string().as_bytes()));
    let _ = err.flush();
    let mut answer = String::new();
    let _ = io::stdin().read_line(&mut answer);
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}
