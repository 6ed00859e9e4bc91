//! Merges the listings of several shards in key order. After an error that does not concern a
//! single version nothing follows: the other shards would hide what is missing.

use filemap::access::{Listed, Results, keys};
use filemap::page::RecordKind;
use filemap::{Error, PageHead, Result};

/// Merges listings.
pub(crate) fn listings<'s>(lists: Vec<Results<'s, Listed>>, is_backwards: bool) -> Results<'s, Listed> {
    // A cursor contains the ordered form of a key, but no shard.
    merged(lists, is_backwards, |listed| listed.cursor.as_ref().map(|cursor| cursor.0.clone()).unwrap_or_default())
}

/// Merges heads.
pub(crate) fn heads<'s>(heads: Vec<Results<'s, PageHead>>, is_backwards: bool) -> Results<'s, PageHead> {
    let form = |head: &PageHead| {
        let page = &head.page;
        keys::form(&keys::key(&page.url, RecordKind::Response, page.variant.as_ref()))
    };
    merged(heads, is_backwards, form)
}

fn merged<'s, T: Send + 's>(
    mut lists: Vec<Results<'s, T>>,
    is_backwards: bool,
    form: impl Fn(&T) -> Vec<u8> + Send + 's,
) -> Results<'s, T> {
    match lists.pop() {
        Some(last) if lists.is_empty() => return last,
        last => lists.extend(last),
    }
    let heads = lists.iter().map(|_| None).collect();
    Box::new(Merged { lists, heads, has_begun: false, is_backwards, form })
}

/// The next item of a list and its ordered form, which an error lacks.
type Ahead<T> = Option<(Option<Vec<u8>>, Result<T>)>;

struct Merged<'s, T, F> {
    lists: Vec<Results<'s, T>>,
    heads: Vec<Ahead<T>>,
    has_begun: bool,
    is_backwards: bool,
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
        if matches!(&found, Ok(_) | Err(Error::Unreadable { .. })) {
            self.advance(nth);
        } else {
            self.heads.fill_with(|| None);
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists() -> Vec<Results<'static, u8>> {
        vec![Box::new([1, 4, 6].map(Ok).into_iter()), Box::new([].into_iter()), Box::new([2, 3, 9].map(Ok).into_iter())]
    }

    #[test]
    fn lists_are_one_in_order_and_errors_come_at_once() {
        let all = |lists, is_backwards| merged(lists, is_backwards, |number: &u8| vec![*number]);
        let numbers: Result<Vec<u8>> = all(lists(), false).collect();
        assert_eq!(numbers.expect("no error"), [1, 2, 3, 4, 6, 9]);
        let backwards: Vec<Results<'static, u8>> =
            vec![Box::new([6, 4, 1].map(Ok).into_iter()), Box::new([9, 3, 2].map(Ok).into_iter())];
        let numbers: Result<Vec<u8>> = all(backwards, true).collect();
        assert_eq!(numbers.expect("no error"), [9, 6, 4, 3, 2, 1]);
        for is_backwards in [false, true] {
            let mut broken = lists();
            broken.push(Box::new([Err(Error::Unsupported { what: "it" })].into_iter()));
            let broken: Vec<_> = all(broken, is_backwards).collect();
            assert!(matches!(&broken[..], [Err(_)]), "nothing follows");
            let mut lists = lists();
            let source = || std::sync::Arc::new(Error::Unsupported { what: "it" });
            let version = filemap::Version { time_ms: 1, sequence: 1 };
            lists
                .push(Box::new([Err(Error::Unreadable { url: String::new(), version, source: source() })].into_iter()));
            assert_eq!(all(lists, false).filter(Result::is_ok).count(), 6, "the others follow");
        }
    }
}
