//! Keys for an implementation of a store: of a page, in order, and the ranges and cursors of a
//! listing. Every store lists in this order and accepts every other store's cursors.
//!
//! A key's *ordered form* sorts as plain bytes (see `page::order`): by host from its last label
//! on, then by path. Forms of pages, of variants and of records beside them are three ranges.
//!
//! A cursor is the byte `OF_URLS_1` and the ordered form of the last key returned. All ranges are
//! of one order, so the form shows in which of them to continue.

use std::ops::Range;

use super::{Cursor, ListKind, Scope};
use crate::error::{Error, Result};
use crate::page::order::{self, Class};
use crate::page::variant::Variant;
use crate::page::{Page, RecordKind, key};

/// First byte of a cursor that holds a form of the order "urls 1".
const OF_URLS_1: u8 = 1;

/// The key of a record of this kind under a canonical URL. All kinds of pages share one key.
///
/// ```
/// use filemap::access::keys;
/// use filemap::page::RecordKind;
/// let key = keys::key(b"http://example.com/", RecordKind::Request, None);
/// assert_eq!(keys::key_of_form(&keys::form(&key)), Some(key));
/// ```
pub fn key(canonical_url: &[u8], kind: RecordKind, variant: Option<&Variant>) -> Vec<u8> {
    key::key(canonical_url, kind, variant)
}

/// The variant in a key.
///
/// ```
/// use filemap::{Variant, access::keys, page::RecordKind};
/// let variant = Variant::new("session 7")?;
/// let key = keys::key(b"http://example.com/", RecordKind::Response, Some(&variant));
/// assert_eq!(keys::variant(&key), Some(variant));
/// # Ok::<(), filemap::Error>(())
/// ```
pub fn variant(key: &[u8]) -> Option<Variant> {
    key::variant(key)
}

/// Returns whether a key belongs to a listing of this kind.
///
/// ```
/// use filemap::access::{ListKind, keys};
/// assert!(keys::is_of(ListKind::Pages, b"http://example.com/"));
/// assert!(!keys::is_of(ListKind::Variants, b"http://example.com/"));
/// ```
pub fn is_of(kind: ListKind, key: &[u8]) -> bool {
    match kind {
        ListKind::Pages => key::is_page(key),
        ListKind::Variants => key::is_variant(key),
    }
}

/// The site of a key: scheme and host, `http://example.com`; empty for a URL without a host. Pages
/// of one site may share a compression dictionary.
///
/// ```
/// use filemap::access::keys;
/// assert_eq!(keys::site(b"https://example.com:8080/a?b"), b"https://example.com:8080");
/// assert_eq!(keys::site(b"urn:isbn:1"), b"");
/// ```
pub fn site(key: &[u8]) -> &[u8] {
    key::site(key)
}

/// The ordered form of a key.
///
/// ```
/// use filemap::access::keys;
/// let (host, below) = (keys::form(b"http://example.com/z"), keys::form(b"http://a.example.com/"));
/// assert!(host < below, "a host stands before its subdomains");
/// ```
pub fn form(key: &[u8]) -> Vec<u8> {
    let mut form = Vec::new();
    order::ordered(key, &mut form);
    form
}

/// The key of an ordered form; `None` for other bytes.
///
/// ```
/// assert_eq!(filemap::access::keys::key_of_form(&[0xff]), None);
/// ```
pub fn key_of_form(form: &[u8]) -> Option<Vec<u8>> {
    let mut key = Vec::new();
    order::key(form, &mut key).then_some(key)
}

/// The ranges of forms that hold the pages or variants of a scope, in order. They may also hold
/// keys outside the scope: [`Scope::filter`] refuses those.
///
/// ```
/// use filemap::access::{Scope, keys};
/// let ranges = keys::ranges(&Scope::new().host("example.com"));
/// assert!(ranges.iter().any(|range| range.contains(&keys::form(b"http://example.com/a"))));
/// ```
pub fn ranges(scope: &Scope) -> Vec<Range<Vec<u8>>> {
    spans(scope).into_iter().map(|span| span.range).collect()
}

/// As [`ranges`], of everything under the URLs of a scope: pages, variants, records beside them.
///
/// ```
/// use filemap::access::{Scope, keys};
/// let ranges = keys::ranges_of_all(&Scope::new().host("example.com"));
/// assert!(ranges.iter().any(|range| range.contains(&keys::form(b"http://example.com/\0request"))));
/// ```
pub fn ranges_of_all(scope: &Scope) -> Vec<Range<Vec<u8>>> {
    Class::ALL.into_iter().flat_map(|class| spans_of(scope, class)).map(|span| span.range).collect()
}

/// The ranges of everything under one canonical URL, or under a variant of it.
///
/// ```
/// use filemap::access::keys;
/// let ranges = keys::ranges_of_url(b"http://example.com/");
/// assert!(ranges.iter().any(|range| range.contains(&keys::form(b"http://example.com/\0request"))));
/// assert!(!ranges.iter().any(|range| range.contains(&keys::form(b"http://example.com/a"))));
/// ```
pub fn ranges_of_url(canonical_url: &[u8]) -> Vec<Range<Vec<u8>>> {
    Class::ALL.into_iter().map(|class| class.of_url(canonical_url)).collect()
}

/// The cursor after a form: [`form_of_cursor`] reverses it.
///
/// ```
/// use filemap::access::{ListKind, keys};
/// let form = keys::form(b"http://example.com/");
/// assert_eq!(keys::form_of_cursor(&keys::cursor(&form), ListKind::Pages)?, form);
/// # Ok::<(), filemap::Error>(())
/// ```
pub fn cursor(form: &[u8]) -> Cursor {
    Cursor([&[OF_URLS_1], form].concat())
}

/// The ordered form in a cursor of a listing of this kind.
///
/// # Errors
///
/// [`Error::Cursor`].
///
/// ```
/// use filemap::access::{Cursor, ListKind, keys};
/// assert!(keys::form_of_cursor(&Cursor(vec![7]), ListKind::Pages).is_err());
/// ```
pub fn form_of_cursor(cursor: &Cursor, kind: ListKind) -> Result<&[u8]> {
    let none = |what| Error::Cursor { what };
    let Some((&OF_URLS_1, form)) = cursor.0.split_first() else {
        return Err(none("its first byte is unknown to this program"));
    };
    match order::class(form) {
        _ if !order::key(form, &mut Vec::new()) => Err(none("it has no URL")),
        Some(class) if class == class_of(kind) => Ok(form),
        _ => Err(none("it is of the other kind of listing, pages or variants")),
    }
}

/// The description of a page: a copy without its body, and not in place.
///
/// ```
/// let page = filemap::Page::new("http://example.com/", 1_700_000_000_000, 200, "hello");
/// assert!(filemap::access::keys::description(&page).body.is_empty());
/// ```
pub fn description(page: &Page) -> Page {
    Page { in_place: None, ..page.description() }
}

/// A range of keys of a scope.
pub(crate) struct Span {
    pub(crate) range: Range<Vec<u8>>,
    /// True if all its keys are in the scope: the filter refuses none.
    pub(crate) is_exact: bool,
}

impl Span {
    fn new(range: Range<Vec<u8>>, is_exact: bool) -> Option<Span> {
        (range.start < range.end).then_some(Span { range, is_exact })
    }
}

/// The ranges that hold all pages or variants of a scope, in order.
pub(crate) fn spans(scope: &Scope) -> Vec<Span> {
    spans_of(scope, class_of(scope.kind))
}

/// The ranges that hold all keys of a class whose URLs are in a scope, in order.
pub(crate) fn spans_of(scope: &Scope, class: Class) -> Vec<Span> {
    if scope.is_all() {
        return Span::new(class.all(), true).into_iter().collect();
    }
    let prefix = &scope.prefix;
    let with_prefix = if prefix.is_empty() { None } else { class.with_prefix(prefix) };
    let of_host = scope.host.as_ref().map(|host| class.of_host(host));
    let of_domain = scope.domain.as_ref().map(|domain| class.of_domain(domain));
    let shaped = [of_host, of_domain, with_prefix].into_iter().flatten().fold(class.shaped(), |all, range| {
        let end = all.end.min(range.end);
        all.start.max(range.start).min(end.clone())..end
    });
    let is_prefix_alone = scope.host.is_none() && scope.domain.is_none();
    // URLs have no NUL.
    let others = class.others_with_prefix(prefix.split(|&byte| byte == 0).next().unwrap_or_default());
    let spans = [Span::new(shaped, prefix.is_empty()), Span::new(others, is_prefix_alone && !prefix.contains(&0))];
    spans.into_iter().flatten().collect()
}

fn class_of(kind: ListKind) -> Class {
    match kind {
        ListKind::Pages => Class::Pages,
        ListKind::Variants => Class::Variants,
    }
}
