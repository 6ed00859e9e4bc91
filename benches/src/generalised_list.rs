//! The generalised list, a node a letter: the baseline that the trie of `urlindex` descends from.
//!
//! A node holds a letter, a head (the next letter) and a tail (an alternative letter). A URL
//! counts as seen if each of its letters has a node, so every prefix of a stored URL does, as in
//! the original.

/// A letter, and where to go from it.
#[derive(Debug)]
struct Node {
    letter: u8,
    head: Option<Box<Node>>,
    tail: Option<Box<Node>>,
}

/// The list, by its first node.
#[derive(Debug, Default)]
pub struct GeneralisedList {
    first: Option<Box<Node>>,
    nodes: u64,
}

impl GeneralisedList {
    /// Inserts `url`; whether it was new.
    pub fn insert(&mut self, url: &[u8]) -> bool {
        let mut is_new = false;
        let mut place = &mut self.first;
        for &letter in url {
            while place.as_ref().is_some_and(|node| node.letter != letter) {
                place = &mut place.as_mut().expect("it was looked at").tail;
            }
            if place.is_none() {
                self.nodes += 1;
                is_new = true;
            }
            place = &mut place.get_or_insert_with(|| Box::new(Node { letter, head: None, tail: None })).head;
        }
        is_new
    }

    /// Number of nodes.
    #[must_use]
    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Bytes of one node.
    #[must_use]
    pub fn node_bytes() -> u64 {
        size_of::<Node>() as u64
    }
}

impl Drop for GeneralisedList {
    /// Node by node: lists are long, and the stack is not.
    fn drop(&mut self) {
        let mut rest: Vec<Box<Node>> = self.first.take().into_iter().collect();
        while let Some(mut node) = rest.pop() {
            rest.extend(node.head.take());
            rest.extend(node.tail.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_shares_prefixes_and_calls_them_seen() {
        let mut list = GeneralisedList::default();
        assert!(list.insert(b"http://a/bc") && list.insert(b"http://a/bd") && list.insert(b"http://b"));
        assert_eq!(list.nodes(), 11 + 1 + 1);
        assert!(!list.insert(b"http://a/bc") && !list.insert(b"http://b"));
        assert!(!list.insert(b"http://a"), "the original's error: a prefix of a URL is called seen");
    }

    #[test]
    fn a_long_list_is_dropped_without_a_deep_stack() {
        let mut list = GeneralisedList::default();
        assert!(list.insert(&[b'x'; 1_000_000]));
        assert_eq!(list.nodes(), 1_000_000);
    }
}
