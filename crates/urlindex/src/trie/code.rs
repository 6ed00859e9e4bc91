//! Codes of a trie's edges: raw, or by a table of [`symbols`](super::symbols).
//!
//! A block names its code by number ([`CodeId`]). Old blocks keep old codes, so a trie keeps them
//! all; only the newest encodes.

use std::sync::Arc;

use super::key::{Comparison, Key, common};
use super::symbols::Symbols;

/// Number of a code within its trie; 0 is [`Code::Raw`].
pub(super) type CodeId = u8;

/// A code of edges.
#[derive(Debug)]
pub(super) enum Code {
    Raw,
    Symbols(Arc<Symbols>),
}

impl Code {
    /// Compares an edge with a key from a position on, decoding only the common part.
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

    /// Length of a text's edge.
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
