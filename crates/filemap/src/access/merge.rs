//! Merges the listings of several stores in key order, for a store that is made of several.
//!
//! An error comes before all other items. What may follow it is the caller's decision: where an
//! error cuts a list off, the items of the other lists would hide what is missing.

use super::{Listed, Results, keys};
use crate::error::{Error, Result};
use crate::page::RecordKind;
use crate::page::version::PageHead;

/// Returns whether the rest of a listing follows an error. If not, every list ends there.
pub type RestFollows = fn(&Error) -> bool;

/// Merges listings that are in order, with cursors.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use filemap::access::{Scope, merge};
/// use filemap::{Error, Options, Page, PageRead, PageStore};
///
/// let dir = tempfile::tempdir()?;
/// let (a, b) = (dir.path().join("a.fm"), dir.path().join("b.fm"));
/// let stores = [PageStore::create(a, Options::new())?, PageStore::create(b, Options::new())?];
/// stores[0].put_page(&Page::new("http://example.com/2", 1_700_000_000_000, 200, "hello"))?;
/// stores[1].put_page(&Page::new("http://example.com/1", 1_700_000_000_000, 200, "hello"))?;
/// let lists = stores.iter().map(|store| store.list(&Scope::new(), None)).collect::<Result<Vec<_>, _>>()?;
/// let all = merge::listings(lists, false, Error::is_damage).collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(all[0].url, b"http://example.com/1");
/// assert_eq!(all[1].url, b"http://example.com/2");
/// # Ok(())
/// # }
/// ```
pub fn listings<'s>(
    lists: Vec<Results<'s, Listed>>,
    is_backwards: bool,
    rest_follows: RestFollows,
) -> Results<'s, Listed> {
    // A cursor contains the ordered form of a key, and no store.
    let form = |listed: &Listed| listed.cursor.as_ref().map(|cursor| cursor.0.clone()).unwrap_or_default();
    merged(lists, is_backwards, rest_follows, form)
}

/// Merges heads that are in order.
///
/// ```
/// use filemap::Error;
/// use filemap::access::merge;
/// assert!(merge::heads(Vec::new(), false, Error::is_damage).next().is_none());
/// ```
pub fn heads<'s>(
    heads: Vec<Results<'s, PageHead>>,
    is_backwards: bool,
    rest_follows: RestFollows,
) -> Results<'s, PageHead> {
    let form = |head: &PageHead| {
        let page = &head.page;
        keys::form(&keys::key(&page.url, RecordKind::Response, page.variant.as_ref()))
    };
    merged(heads, is_backwards, rest_follows, form)
}

fn merged<'s, T: Send + 's>(
    mut lists: Vec<Results<'s, T>>,
    is_backwards: bool,
    rest_follows: RestFollows,
    form: impl Fn(&T) -> Vec<u8> + Send + 's,
) -> Results<'s, T> {
    match lists.pop() {
        Some(last) if lists.is_empty() => return last,
        last => lists.extend(last),
    }
    let heads = lists.iter().map(|_| None).collect();
    Box::new(Merged { lists, heads, has_begun: false, is_backwards, rest_follows, form })
}

/// The next item of a list and its ordered form, which an error does not have.
type Ahead<T> = Option<(Option<Vec<u8>>, Result<T>)>;

struct Merged<'s, T, F> {
    lists: Vec<Results<'s, T>>,
    heads: Vec<Ahead<T>>,
    has_begun: bool,
    is_backwards: bool,
    rest_follows: RestFollows,
    form: F,
}

impl<T, F: Fn(&T) -> Vec<u8>> Merged<'_, T, F> {
    fn advance(&mut self, nth: usize) {
        let next = self.lists[nth].next();
        self.heads[nth] = next.map(|found| (found.as_ref().ok().map(&self.form), found));
    }
}

impl<T, F: Fn(&T) -> Vec<u8>> Iterator for Merged<'_, T, F> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        if !std::mem::replace(&mut self.has_begun, true) {
            (0..self.lists.len()).for_each(|nth| self.advance(nth));
        }
        let forms = self.heads.iter().enumerate().filter_map(|(nth, head)| Some((nth, &head.as_ref()?.0)));
        // Errors come first: the items after an error may be missing.
        let first = match self.is_backwards {
            false => forms.min_by(|one, other| one.1.cmp(other.1)),
            true => forms.max_by(|one, other| (one.1.is_none(), one.1).cmp(&(other.1.is_none(), other.1))),
        };
        let (nth, _) = first?;
        let (_, found) = self.heads[nth].take()?;
        if found.as_ref().err().is_none_or(self.rest_follows) {
            self.advance(nth);
        } else {
            self.heads.fill_with(|| None);
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use filemap_core::Version;

    use super::*;

    fn lists() -> Vec<Results<'static, u8>> {
        vec![Box::new([1, 4, 6].map(Ok).into_iter()), Box::new([].into_iter()), Box::new([2, 3, 9].map(Ok).into_iter())]
    }

    fn all(lists: Vec<Results<'static, u8>>, is_backwards: bool) -> Vec<Result<u8>> {
        let follows = |error: &Error| matches!(error, Error::Unreadable { .. });
        merged(lists, is_backwards, follows, |number: &u8| vec![*number]).collect()
    }

    #[test]
    fn lists_are_one_in_order_and_errors_come_at_once() {
        let numbers: Result<Vec<u8>> = all(lists(), false).into_iter().collect();
        assert_eq!(numbers.expect("no error"), [1, 2, 3, 4, 6, 9]);
        let backwards: Vec<Results<'static, u8>> =
            vec![Box::new([6, 4, 1].map(Ok).into_iter()), Box::new([9, 3, 2].map(Ok).into_iter())];
        let numbers: Result<Vec<u8>> = all(backwards, true).into_iter().collect();
        assert_eq!(numbers.expect("no error"), [9, 6, 4, 3, 2, 1]);
        for is_backwards in [false, true] {
            let mut broken = lists();
            broken.push(Box::new([Err(Error::Unsupported { what: "it" })].into_iter()));
            let broken = all(broken, is_backwards);
            assert!(matches!(&broken[..], [Err(_)]), "nothing follows");
            let mut lists = lists();
            let (url, source) = (String::new(), Arc::new(Error::Unsupported { what: "it" }));
            let version = Version { time_ms: 1, sequence: 1 };
            lists.push(Box::new([Err(Error::Unreadable { url, version, source })].into_iter()));
            assert_eq!(all(lists, false).iter().filter(|found| found.is_ok()).count(), 6, "the others follow");
        }
    }
}
