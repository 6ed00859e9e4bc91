//! How the edges of a trie are written: as they are, or in the codes of a table of
//! [`symbols`](super::symbols).
//!
//! A block names the code that it is written with by its number ([`CodeId`]). The codes of a trie
//! stay as long as it does, as old blocks are written in old ones; only the newest is written
//! with.

use std::sync::Arc;

use super::key::{Comparison, Key, common};
use super::symbols::Symbols;

/// The number of a code among those of its trie; 0 is [`Code::Raw`].
pub(super) type CodeId = u8;

/// See the module.
#[derive(Debug)]
pub(super) enum Code {
    Raw,
    Symbols(Arc<Symbols>),
}

impl Code {
    /// Compares an edge with what a key has from a place on, decoding no more of it than is alike.
    #[inline]
    pub(super) fn compare(&self, edge: &[u8], key: &Key<'_>, at: usize) -> Comparison {
        match self {
            Code::Raw => {
                let common = common(edge, &key.text[at..]);
                Comparison { common, next: edge.get(common).copied() }
            }
            Code::Symbols(symbols) => symbols.compare(edge, key, at),
        }
    }

    /// Appends the text of an edge.
    pub(super) fn decode(&self, edge: &[u8], text: &mut Vec<u8>) {
        match self {
            Code::Raw => text.extend_from_slice(edge),
            Code::Symbols(symbols) => symbols.decode(edge, text),
        }
    }

    /// Appends a text as an edge.
    pub(super) fn encode(&self, text: &[u8], edge: &mut Vec<u8>) {
        match self {
            Code::Raw => edge.extend_from_slice(text),
            Code::Symbols(symbols) => symbols.encode(text, edge),
        }
    }

    /// How long the edge of a text would be.
    pub(super) fn written_bytes(&self, text: &[u8]) -> usize {
        let mut edge = Vec::new();
        self.encode(text, &mut edge);
        edge.len()
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        match self {
            Code::Raw => 0,
            Code::Symbols(symbols) => symbols.memory_bytes(),
        }
    }
}
