//! The text of a link: its canonical URL; or the URL to fetch, a NUL and the canonical URL.
//!
//! A page is identified by its canonical URL. The URL fetched is that of the first link to it,
//! since a server may distinguish two spellings that are one page to the crawl. No URL has a NUL.

use std::borrow::Cow;

const BETWEEN: char = '\0';

/// The text of a link with the URL to fetch, `url`, and its canonical form, `key`, for
/// [`crate::Fetched::links`] and [`crate::Frontier::seed`]. If both are equal, it is that URL.
///
/// ```
/// use frontier::{Frontier, FrontierOptions, Next, link};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("frontier");
/// let mut frontier = Frontier::create(&path, FrontierOptions::new()).unwrap();
/// frontier.seed(&[link("http://example.com/a//", "http://example.com/a/")], 0).unwrap();
/// // The same page.
/// frontier.seed(&["http://example.com/a/"], 0).unwrap();
/// let Next::Fetch(assignment) = frontier.next(0).unwrap() else { panic!("the seed waits") };
/// assert_eq!(assignment.url, "http://example.com/a//");
/// assert_eq!(assignment.key, "http://example.com/a/");
/// assert_eq!(frontier.pages(), 1);
/// ```
pub fn link<'a>(url: &str, key: &'a str) -> Cow<'a, str> {
    match url == key || url.contains(BETWEEN) {
        true => Cow::Borrowed(key),
        false => Cow::Owned(format!("{url}{BETWEEN}{key}")),
    }
}

/// The URL to fetch.
pub(crate) fn url_of(text: &str) -> &str {
    text.split_once(BETWEEN).map_or(text, |(url, _)| url)
}

/// The canonical URL.
pub(crate) fn key_of(text: &str) -> &str {
    text.split_once(BETWEEN).map_or(text, |(_, key)| key)
}
