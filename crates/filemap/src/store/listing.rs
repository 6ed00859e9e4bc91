//! Listings of pages or variants: in the order of their URLs, from any place, in both directions,
//! if the store keeps its keys in order (`page::order`); else by a pass over the key log.
//!
//! A listing reads the ranges of [`keys::ranges`] one after the other and omits the keys that the
//! scope's filter rejects. It reads more than it returns in four cases. A prefix that ends within
//! the authority (`http://exam`) has the range of all pages. A prefix with a path has the ranges
//! of the other scheme and of other ports, too. Pages whose URLs have another shape (`ftp:`) are
//! one range for all hosts. And that range is read for every host, domain and prefix, though
//! mostly empty.
//!
//! All kinds of store share these ranges and cursors: `access::keys`.

use std::collections::VecDeque;

use filemap_core::Store;
use filemap_core::list::{Direction, KeyRange, Keys, KeysInOrder};

use super::PageStore;
use crate::access::{Cursor, ListKind, Listed, Scope, keys};
use crate::error::{Error, Result};
use crate::page::key;

type Filter = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// A listing of pages or variants: see [`PageStore::listing`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use filemap::access::Scope;
/// use filemap::{Options, Page, PageStore};
///
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// for url in ["http://example.com/b", "http://www.example.com/", "http://example.com/a"] {
///     store.put_page(&Page::new(url, 1_700_000_000_000, 200, "hello"))?;
/// }
/// let scope = Scope::new().domain("example.com");
/// let first = store.listing(&scope, None)?.next().expect("a page")?;
/// assert_eq!(first.url, b"http://example.com/a");
/// let rest = store.listing(&scope, first.cursor.as_ref())?;
/// assert_eq!(rest.count(), 2);
/// # Ok(())
/// # }
/// ```
pub struct Listing {
    source: Source,
    kind: ListKind,
}

enum Source {
    InOrder(InOrder),
    /// Filtered by the engine.
    Scan(Keys),
}

struct InOrder {
    engine: Store,
    takes: Filter,
    direction: Direction,
    /// Ranges not yet started.
    ranges: VecDeque<KeyRange>,
    keys: Option<KeysInOrder>,
}

impl PageStore {
    /// The pages or variants in `scope`. With `after`, those after that entry: a cursor from a
    /// listing of the same kind, of this or an earlier handle, in any process.
    ///
    /// Entries are in order, by host from its last label on, then path: see
    /// [`Capabilities::lists_in_order`](crate::access::Capabilities::lists_in_order). A listing
    /// reads only keys, about as many as it returns; with a prefix that ends within the host, all.
    /// A store without key order lists by a pass over its key log, in no defined order, and gives
    /// no cursors.
    ///
    /// # Errors
    ///
    /// [`Error::Cursor`]; [`Error::Unsupported`] for a cursor, or backwards, in a store without
    /// key order; those of [`Store::keys_in`].
    pub fn listing(&self, scope: &Scope, after: Option<&Cursor>) -> Result<Listing> {
        let kind = scope.kind;
        let after = after.map(|cursor| keys::form_of_cursor(cursor, kind)).transpose()?;
        if self.engine().has_key_order() {
            return Ok(Listing { source: Source::InOrder(self.in_order(scope, after)?), kind });
        }
        if after.is_some() {
            return Err(no_cursors());
        }
        if scope.is_backwards {
            let what = "key order, which a backward listing needs: a repair makes one";
            return Err(Error::Unsupported { what });
        }
        let takes = scope.filter();
        let keys = self.engine().keys_where(move |key| keys::is_of(kind, key) && takes(key::url(key)));
        Ok(Listing { source: Source::Scan(keys), kind })
    }

    fn in_order(&self, scope: &Scope, after: Option<&[u8]>) -> Result<InOrder> {
        let direction = if scope.is_backwards { Direction::Back } else { Direction::Forward };
        let rest = |range: KeyRange| match (after, direction) {
            (None, _) => range,
            (Some(form), Direction::Forward) => range.after(form),
            (Some(form), Direction::Back) => range.before(form),
        };
        let ranges = keys::ranges(scope).into_iter().map(|range| rest(range.into()));
        let mut ranges: VecDeque<KeyRange> =
            ranges.filter(|range| range.until.as_ref().is_none_or(|until| range.from < *until)).collect();
        if scope.is_backwards {
            ranges.make_contiguous().reverse();
        }
        let takes = Box::new(scope.filter());
        let mut listing = InOrder { engine: self.engine().clone(), takes, direction, ranges, keys: None };
        listing.begin_next()?;
        Ok(listing)
    }
}

impl InOrder {
    /// Begins the next range, if there is one.
    fn begin_next(&mut self) -> Result<()> {
        let next = self.ranges.pop_front();
        self.keys = next.map(|range| self.engine.keys_in(range, self.direction)).transpose()?;
        Ok(())
    }

    /// Returns the next key of the ranges.
    fn step(&mut self) -> Option<Result<Vec<u8>>> {
        loop {
            match self.keys.as_mut()?.next() {
                Some(key) => return Some(key.map_err(Into::into)),
                None => match self.begin_next() {
                    Ok(()) => {}
                    Err(error) => return Some(Err(error)),
                },
            }
        }
    }

    fn cursor(&self) -> Option<Cursor> {
        self.keys.as_ref().map(KeysInOrder::form).filter(|form| !form.is_empty()).map(keys::cursor)
    }
}

impl Listing {
    /// As `next`, but returns `Some(None)` after reading this many keys that are not in the
    /// listing, so that the caller can check for signals. A listing without order does not stop
    /// for that.
    pub fn next_within(&mut self, keys: usize) -> Option<Option<Result<Listed>>> {
        Some(match self.next_key(keys)? {
            Some(Ok(key)) => {
                let cursor = self.cursor();
                let variant = if self.kind == ListKind::Variants { key::variant(&key) } else { None };
                let url = if variant.is_some() { key::url(&key).to_vec() } else { key };
                Some(Ok(Listed::new(url, variant, cursor)))
            }
            Some(Err(error)) => Some(Err(error)),
            None => None,
        })
    }

    /// The next key of the listing; `Some(None)` if none of the next `keys` keys belongs to it.
    pub(super) fn next_key(&mut self, keys: usize) -> Option<Option<Result<Vec<u8>>>> {
        let in_order = match &mut self.source {
            Source::Scan(keys) => return keys.next().map(|key| Some(key.map_err(Into::into))),
            Source::InOrder(in_order) => in_order,
        };
        for _ in 0..keys {
            match in_order.step()? {
                Ok(key) if !keys::is_of(self.kind, &key) || !(in_order.takes)(key::url(&key)) => {}
                key => return Some(Some(key)),
            }
        }
        Some(None)
    }

    /// The place after the last entry returned.
    pub(super) fn cursor(&self) -> Option<Cursor> {
        match &self.source {
            Source::InOrder(in_order) => in_order.cursor(),
            Source::Scan(_) => None,
        }
    }
}

impl Iterator for Listing {
    type Item = Result<Listed>;

    fn next(&mut self) -> Option<Result<Listed>> {
        self.next_within(usize::MAX)?
    }
}

pub(super) fn no_cursors() -> Error {
    Error::Unsupported { what: "key order, which a cursor needs: a repair makes one" }
}

/// The cursor after the page of this canonical URL, whether that page exists or not.
pub(super) fn behind(canonical_url: &[u8]) -> Cursor {
    keys::cursor(&keys::form(canonical_url))
}
