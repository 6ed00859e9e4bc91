//! One block: a piece of the trie, its keys in order, each written as how much it shares with the one before and the rest.
//!
//! That is a path-compressed trie in the order of a walk through it: an entry's *shared* is the depth of the node at which it
//! leaves the path before, its *rest* the edge: its *head*, by which the children of a node differ, as it is, and what follows in the
//! block's [`Code`]. No pointer stands in a leaf.
//!
//! Every key that is sought in a block begins with the bytes that the texts around the block, in the block above, begin with. The block does
//! not have these: its first entry counts them as shared.
//!
//! A block is: the number of its code, what it is (1 inner, 2 wide, 4 the first entry has no rest, and so no head), the number of its entries
//! (2 bytes); then what each shares, then the lengths of what follows the heads as it is written (a byte each, or four if one does not
//! fit), the heads, in an inner block the number of the block that holds the keys from each one on (4 bytes), and what follows the heads.
//!
//! A search compares no key as a whole: while it goes on it knows how many bytes the entry before shares with the key that is sought. An entry
//! that shares more than that with its predecessor cannot be nearer; one that shares as much and has a lesser head is passed over, too. So
//! only edges that lead to the key are read, and decoded; all others cost a look at three bytes.

use super::arena::BlockId;
use super::code::{Code, CodeId, Comparison};

const HEADER_BYTES: usize = 4;
const INNER: u8 = 1;
const WIDE: u8 = 2;
const FIRST_EMPTY: u8 = 4;
/// Bytes of a length in a wide block.
const WIDE_BYTES: usize = 4;

/// Whether a block's entries lead to other blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Leaf,
    Inner,
}

/// A block as it is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block<'a> {
    pub(super) code: CodeId,
    pub(super) kind: Kind,
    pub(super) len: usize,
    /// Bytes of a length: 1 or 4.
    width: usize,
    shared: &'a [u8],
    lens: &'a [u8],
    heads: &'a [u8],
    /// Whether the first entry has no head.
    is_first_empty: bool,
    children: &'a [u8],
    rests: &'a [u8],
}

/// Where a key stands in a block, or would stand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    /// The number of the first entry greater than the key (how many there are, if there is none).
    pub(super) number: usize,
    /// Where its rest begins among the rests.
    offset: usize,
    /// How many bytes the key shares with the entry before (if there is none, as many as with all).
    shared: usize,
    /// How many it shares with the entry `number`.
    shared_after: usize,
    /// Whether the entry before is the key itself.
    pub(super) is_found: bool,
}

impl<'a> Block<'a> {
    #[inline]
    pub(super) fn of(bytes: &'a [u8]) -> Block<'a> {
        let (code, flags, len) = (bytes[0], bytes[1], usize::from(u16::from_le_bytes([bytes[2], bytes[3]])));
        let (kind, children_len) = if flags & INNER == 0 { (Kind::Leaf, 0) } else { (Kind::Inner, len * 4) };
        let width = if flags & WIDE == 0 { 1 } else { WIDE_BYTES };
        let (shared, rest) = bytes[HEADER_BYTES..].split_at(len * width);
        let (lens, rest) = rest.split_at(len * width);
        let (heads, rest) = rest.split_at(len);
        let (children, rests) = rest.split_at(children_len);
        let is_first_empty = flags & FIRST_EMPTY != 0;
        Block { code, kind, len, width, shared, lens, heads, is_first_empty, children, rests }
    }

    /// How many bytes all keys that belong here begin with.
    pub(super) fn prefix_len(&self) -> usize {
        if self.len == 0 { 0 } else { self.shared(0) }
    }

    pub(super) fn shared(&self, number: usize) -> usize {
        length(self.shared, self.width, number)
    }

    fn rest_len(&self, number: usize) -> usize {
        length(self.lens, self.width, number)
    }

    /// 0 in a leaf.
    pub(super) fn child(&self, number: usize) -> BlockId {
        self.children.as_chunks::<4>().0.get(number).map_or(0, |child| u32::from_le_bytes(*child))
    }

    /// The block that a key belongs to which stands here.
    #[inline]
    pub(super) fn child_of(&self, position: &Position) -> BlockId {
        self.child(position.number.saturating_sub(1))
    }

    /// The head of an entry, if it has one.
    fn head(&self, number: usize) -> Option<u8> {
        let is_empty = self.is_first_empty && number == 0;
        (!is_empty).then(|| self.heads[number])
    }

    /// What follows the heads, as it is written.
    pub(super) fn edges(&self) -> impl Iterator<Item = &'a [u8]> {
        let (lens, width, mut rests) = (self.lens, self.width, self.rests);
        (0..self.len).map(move |number| {
            let (edge, after) = rests.split_at(length(lens, width, number));
            rests = after;
            edge
        })
    }

    /// Calls `each` with the keys' numbers and texts, in order, as long as it says true. `like` is any key that belongs here.
    pub(super) fn walk(&self, code: &Code, like: &[u8], mut each: impl FnMut(usize, &[u8]) -> bool) {
        let mut key = like[..self.prefix_len()].to_vec();
        for (number, edge) in self.edges().enumerate() {
            key.truncate(self.shared(number));
            key.extend(self.head(number));
            code.decode(edge, &mut key);
            if !each(number, &key) {
                return;
            }
        }
    }

    /// The key of one entry.
    pub(super) fn key(&self, number: usize, code: &Code, like: &[u8]) -> Vec<u8> {
        let mut found = Vec::new();
        self.walk(code, like, |at, key| {
            if at == number {
                found = key.to_vec();
            }
            at < number
        });
        found
    }

    /// The entry about which there are as many bytes before as after; never the first.
    pub(super) fn middle(&self) -> usize {
        let (mut offset, entry_bytes) = (0, 2 * self.width + 1);
        let before_half = |number: &usize| {
            offset += self.rest_len(*number);
            (offset + number * entry_bytes) * 2 < self.rests.len() + self.len * entry_bytes
        };
        (0..self.len).take_while(before_half).count().clamp(1, self.len - 1)
    }

    /// Finds `key`, which belongs here.
    #[inline]
    pub(super) fn find(&self, code: &Code, key: &[u8]) -> Position {
        if self.width == 1 { self.find_by::<1>(code, key) } else { self.find_by::<WIDE_BYTES>(code, key) }
    }

    #[inline]
    fn find_by<const W: usize>(&self, code: &Code, key: &[u8]) -> Position {
        let (all_shared, all_lens) = (self.shared.as_chunks::<W>().0, self.lens.as_chunks::<W>().0);
        let shared = all_shared.first().map_or(0, value);
        let mut position = Position { number: 0, offset: 0, shared, shared_after: 0, is_found: false };
        if self.is_first_empty {
            (position.number, position.is_found) = (1, key.len() == shared);
        }
        while !position.is_found {
            // Whatever there is comes after a key that is over.
            let (at, head) = (position.shared, key.get(position.shared).map_or(0, |head| *head));
            let is_over = key.len() == at;
            let from = position.number;
            let entries = all_shared[from..].iter().zip(&all_lens[from..]).zip(&self.heads[from..]);
            let (mut passed, mut offset) = (0, position.offset);
            for ((shared, len), other) in entries {
                let shared = value(shared);
                if shared <= at && (shared < at || is_over || *other >= head) {
                    break;
                }
                passed += 1;
                offset += value(len);
            }
            (position.number, position.offset) = (from + passed, offset);
            let Some(shared) = all_shared.get(position.number).map(value) else { return position };
            position.shared_after = shared;
            if shared < at || is_over || self.heads[position.number] != head {
                return position;
            }
            let end = offset + value(&all_lens[position.number]);
            let Comparison { common, next } = code.compare(&self.rests[offset..end], &key[at + 1..]);
            let shared = at + 1 + common;
            if next.is_some_and(|next| key.get(shared).is_none_or(|byte| next > *byte)) {
                position.shared_after = shared;
                return position;
            }
            let is_found = next.is_none() && shared == key.len();
            position = Position { number: position.number + 1, offset: end, shared, shared_after: 0, is_found };
        }
        position
    }

    /// The block with another key at its place.
    pub(super) fn with(&self, position: &Position, key: &[u8], child: BlockId, code: &Code, out: &mut Vec<u8>) {
        let Position { number, offset, shared, shared_after, .. } = *position;
        let mut edges = Vec::with_capacity(key.len() - shared + 64);
        let rest = key[shared..].split_first();
        let (mut new, mut heads) = (1, [rest.map_or(0, |(head, _)| *head), 0]);
        code.encode(rest.map_or(&[], |(_, after)| after), &mut edges);
        let (mut shares, mut lens) = ([shared, 0], [edges.len(), 0]);
        // The entry after it is written anew, as it may share more with the key than with the one before.
        let (mut after, mut rest_start) = (number, offset);
        if number < self.len {
            let edge = &self.rests[offset..offset + self.rest_len(number)];
            (after, rest_start) = (number + 1, offset + edge.len());
            new = 2;
            heads[1] = match (shared_after - self.shared(number)).checked_sub(1) {
                Some(gone) => code.split(edge, gone, &mut edges),
                None => {
                    edges.extend_from_slice(edge);
                    self.heads[number]
                }
            };
            (shares[1], lens[1]) = (shared_after, edges.len() - lens[0]);
        }
        let is_wide = self.width > 1 || shares.iter().chain(&lens).any(|length| *length > usize::from(u8::MAX));
        let width = if is_wide { WIDE_BYTES } else { 1 };
        out.clear();
        push_header(out, self.code, self.kind, is_wide, self.is_first_empty || rest.is_none(), self.len + 1);
        for (old, lengths) in [(self.shared, &shares[..new]), (self.lens, &lens[..new])] {
            self.push_lengths(old, 0..number, width, out);
            lengths.iter().for_each(|length| push_length(out, *length, width));
            self.push_lengths(old, after..self.len, width, out);
        }
        out.extend_from_slice(&self.heads[..number]);
        out.extend_from_slice(&heads[..new]);
        out.extend_from_slice(&self.heads[after..]);
        if self.kind == Kind::Inner {
            out.extend_from_slice(&self.children[..number * 4]);
            out.extend_from_slice(&child.to_le_bytes());
            out.extend_from_slice(&self.children[number * 4..]);
        }
        out.extend_from_slice(&self.rests[..offset]);
        out.extend_from_slice(&edges);
        out.extend_from_slice(&self.rests[rest_start..]);
    }

    fn push_lengths(&self, lengths: &[u8], numbers: std::ops::Range<usize>, width: usize, out: &mut Vec<u8>) {
        if width == self.width {
            out.extend_from_slice(&lengths[numbers.start * width..numbers.end * width]);
        } else {
            numbers.for_each(|number| push_length(out, length(lengths, self.width, number), width));
        }
    }

    /// Some entries as a block of their own, of keys that all begin with `prefix_len` bytes alike, written in code number `id`.
    pub(super) fn part(
        &self,
        numbers: std::ops::Range<usize>,
        prefix_len: usize,
        codes: &[Code],
        id: CodeId,
    ) -> Vec<u8> {
        let (old, new) = (&codes[usize::from(self.code)], &codes[usize::from(id)]);
        let mut part = Parts::new(id, self.kind);
        let (mut key, mut first) = (vec![0; self.prefix_len()], true);
        let mut rest = Vec::new();
        for (number, edge) in self.edges().enumerate().take(numbers.end) {
            let shared = self.shared(number);
            if number < numbers.start || first {
                key.truncate(shared);
                key.extend(self.head(number));
                old.decode(edge, &mut key);
                if number >= numbers.start {
                    first = false;
                    part.push(prefix_len, &key[prefix_len..], self.child(number), new);
                }
            } else if self.code == id {
                part.push_written(shared, self.heads[number], edge, self.child(number));
            } else {
                rest.clear();
                rest.push(self.heads[number]);
                old.decode(edge, &mut rest);
                part.push(shared, &rest, self.child(number), new);
            }
        }
        part.bytes()
    }
}

/// The parts of a block that is made.
pub(super) struct Parts {
    code: CodeId,
    kind: Kind,
    shared: Vec<usize>,
    lens: Vec<usize>,
    heads: Vec<u8>,
    is_first_empty: bool,
    children: Vec<u8>,
    rests: Vec<u8>,
}

impl Parts {
    pub(super) fn new(code: CodeId, kind: Kind) -> Parts {
        let (shared, lens, heads) = (Vec::new(), Vec::new(), Vec::new());
        Parts { code, kind, shared, lens, heads, is_first_empty: false, children: Vec::new(), rests: Vec::new() }
    }

    /// `code` must be the one whose number was given. Only a first entry may have no rest.
    pub(super) fn push(&mut self, shared: usize, rest: &[u8], child: BlockId, code: &Code) {
        let before = self.rests.len();
        match rest.split_first() {
            Some((head, after)) => {
                code.encode(after, &mut self.rests);
                self.push_entry(shared, *head, self.rests.len() - before, child);
            }
            None => {
                self.is_first_empty = true;
                self.push_entry(shared, 0, 0, child);
            }
        }
    }

    fn push_written(&mut self, shared: usize, head: u8, edge: &[u8], child: BlockId) {
        self.rests.extend_from_slice(edge);
        self.push_entry(shared, head, edge.len(), child);
    }

    fn push_entry(&mut self, shared: usize, head: u8, len: usize, child: BlockId) {
        self.shared.push(shared);
        self.lens.push(len);
        self.heads.push(head);
        if self.kind == Kind::Inner {
            self.children.extend_from_slice(&child.to_le_bytes());
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let is_wide = self.shared.iter().chain(&self.lens).any(|length| *length > usize::from(u8::MAX));
        let width = if is_wide { WIDE_BYTES } else { 1 };
        let lengths_len = self.lens.len() * (2 * width + 1);
        let mut out = Vec::with_capacity(HEADER_BYTES + lengths_len + self.children.len() + self.rests.len());
        push_header(&mut out, self.code, self.kind, is_wide, self.is_first_empty, self.lens.len());
        self.shared.iter().chain(&self.lens).for_each(|length| push_length(&mut out, *length, width));
        out.extend_from_slice(&self.heads);
        out.extend_from_slice(&self.children);
        out.extend_from_slice(&self.rests);
        out
    }
}

fn push_header(out: &mut Vec<u8>, code: CodeId, kind: Kind, is_wide: bool, is_first_empty: bool, len: usize) {
    let flag = |flag, is_set| if is_set { flag } else { 0 };
    let flags = flag(INNER, kind == Kind::Inner) | flag(WIDE, is_wide) | flag(FIRST_EMPTY, is_first_empty);
    out.extend_from_slice(&[code, flags]);
    out.extend_from_slice(&(len as u16).to_le_bytes());
}

fn push_length(out: &mut Vec<u8>, length: usize, width: usize) {
    out.extend_from_slice(&(length as u32).to_le_bytes()[..width]);
}

#[inline]
fn value<const W: usize>(bytes: &[u8; W]) -> usize {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte))
}

fn length(lengths: &[u8], width: usize, number: usize) -> usize {
    match width {
        1 => usize::from(lengths[number]),
        _ => value(&lengths.as_chunks::<WIDE_BYTES>().0[number]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::symbols::{Symbol, Symbols};
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    fn keys(bytes: &[u8], codes: &[Code], like: &[u8]) -> Vec<Vec<u8>> {
        let (block, mut keys) = (Block::of(bytes), Vec::new());
        block.walk(&codes[usize::from(block.code)], like, |number, key| {
            assert_eq!(number, keys.len());
            keys.push(key.to_vec());
            true
        });
        keys
    }

    #[test]
    fn keys_inserted_in_any_order_are_found_and_stand_in_order() {
        let words = [&b"ab"[..], b"aab", b"bbbb", b"abababab"].map(|word| Symbol::of(word).expect("short"));
        let symbols: Vec<Symbol> = words.into_iter().chain((0..=255).map(Symbol::byte)).collect();
        let codes = [Code::Raw, Code::Symbols(Arc::new(Symbols::new(&symbols).expect("a table")))];
        let mut rng = fastrand::Rng::with_seed(2);
        for round in 0..200u8 {
            let (mut id, mut expected) = (round % 2, BTreeSet::new());
            let mut bytes = Parts::new(id, Kind::Leaf).bytes();
            for _ in 0..60 {
                let len = if rng.u8(..20) == 0 { rng.usize(250..700) } else { rng.usize(1..8) };
                let key: Vec<u8> = (0..len).map(|_| rng.u8(b'a'..=b'b')).collect();
                let position = Block::of(&bytes).find(&codes[usize::from(id)], &key);
                assert_eq!(position.is_found, !expected.insert(key.clone()));
                if !position.is_found {
                    let mut with = Vec::new();
                    Block::of(&bytes).with(&position, &key, 0, &codes[usize::from(id)], &mut with);
                    bytes = with;
                }
                assert!(Block::of(&bytes).find(&codes[usize::from(id)], &key).is_found);
                if rng.u8(..40) == 0 {
                    id = 1 - id;
                    let block = Block::of(&bytes);
                    bytes = block.part(0..block.len, block.prefix_len(), &codes, id);
                }
            }
            let all: Vec<Vec<u8>> = expected.into_iter().collect();
            assert_eq!(keys(&bytes, &codes, b""), all);
            let block = Block::of(&bytes);
            let from = rng.usize(1..all.len());
            let alike = super::super::code::common(&all[from], &all[all.len() - 1]);
            let right = block.part(from..all.len(), alike, &codes, rng.u8(..2));
            assert_eq!(
                (Block::of(&right).prefix_len(), keys(&right, &codes, &all[from])),
                (alike, all[from..].to_vec())
            );
            let left = block.part(0..from, 0, &codes, id);
            assert_eq!(keys(&left, &codes, b""), all[..from]);
            assert_eq!(block.key(from, &codes[usize::from(id)], b""), all[from]);
        }
    }
}
