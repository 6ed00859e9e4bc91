//! Iterates over a trie in order, a leaf at a time, so that inserts need not wait.

use super::UrlTrie;

/// URLs of a [`UrlTrie`] in the order of their bytes.
///
/// ```
/// use urlindex::{SeenSet, UrlTrie};
///
/// let set = UrlTrie::new();
/// set.insert(b"http://example.com/").unwrap();
/// assert_eq!(set.iter().collect::<Vec<_>>(), [b"http://example.com/"]);
/// ```
#[derive(Debug)]
pub struct UrlTrieIter<'a> {
    trie: &'a UrlTrie,
    prefix: Vec<u8>,
    /// The last URL returned, or where to start.
    last: Vec<u8>,
    has_begun: bool,
    /// True if a URL past the prefix was found.
    is_over: bool,
    /// The rest of a leaf, in reverse.
    pending: Vec<Vec<u8>>,
}

impl<'a> UrlTrieIter<'a> {
    pub(super) fn new(trie: &'a UrlTrie, prefix: Vec<u8>) -> UrlTrieIter<'a> {
        UrlTrieIter { trie, last: prefix.clone(), prefix, has_begun: false, is_over: false, pending: Vec::new() }
    }
}

impl Iterator for UrlTrieIter<'_> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if self.is_over {
            return None;
        }
        if self.pending.is_empty() {
            self.trie.read().some_after(&self.last, !self.has_begun, &mut self.pending);
            self.has_begun = true;
            self.last.clone_from(self.pending.last()?);
            self.pending.reverse();
        }
        let url = self.pending.pop()?;
        if url.starts_with(&self.prefix) {
            return Some(url);
        }
        self.pending.clear();
        self.is_over = true;
        None
    }
}
