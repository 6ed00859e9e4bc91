//! One iterator over a list sent in parts; the scope of a list as query parameters.

use filemap::Result;
use filemap::access::{ListKind, Scope};

use crate::query::encoded;

/// Items of a part, and the argument that requests the next one.
type Part<T> = (Vec<Result<T>>, Option<String>);

/// Iterator that requests each part of a list when its first item is needed.
pub(super) struct Paged<T, F> {
    ask: F,
    items: std::vec::IntoIter<Result<T>>,
    next: Next,
}

enum Next {
    First,
    At(String),
    End,
}

impl<T, F: FnMut(Option<String>) -> Result<Part<T>>> Paged<T, F> {
    pub(super) fn new(ask: F) -> Self {
        Paged { ask, items: Vec::new().into_iter(), next: Next::First }
    }
}

impl<T, F: FnMut(Option<String>) -> Result<Part<T>>> Iterator for Paged<T, F> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        loop {
            if let Some(item) = self.items.next() {
                return Some(item);
            }
            let at = match std::mem::replace(&mut self.next, Next::End) {
                Next::First => None,
                Next::At(at) => Some(at),
                Next::End => return None,
            };
            match (self.ask)(at) {
                Ok((items, next)) => {
                    self.items = items.into_iter();
                    self.next = next.map_or(Next::End, Next::At);
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// A scope as parameters, each after an `&`.
pub(super) fn of_scope(scope: &Scope) -> String {
    let mut query = String::new();
    let texts = [("host", &scope.host), ("domain", &scope.domain)];
    for (name, text) in texts.into_iter().filter_map(|(name, text)| Some((name, text.as_ref()?))) {
        query += &format!("&{name}={}", encoded(text.as_bytes()));
    }
    if !scope.prefix.is_empty() {
        query += &format!("&prefix={}", encoded(&scope.prefix));
    }
    if scope.kind == ListKind::Variants {
        query += "&kind=variants";
    }
    if scope.is_backwards {
        query += "&reverse=1";
    }
    query
}
