//! A leaf: a piece of the trie, its keys in the order of inserts, each as an edge that leaves the
//! path of an earlier one.
//!
//! The first key is stored whole. Each later one leaves the trie of those before it at one place:
//! on the edge of one of them, its *parent*, after the bytes *shared* with it, with a differing
//! byte, its *head*; what follows is its *edge*, in the leaf's [`Code`]. (A key that ends on
//! another's edge has neither head nor edge.) So a new key is appended, and nothing moves or is
//! rewritten. That is a path-decomposed trie (Kanda, Fujii, Tomabechi, Takeda: Dynamic
//! path-decomposed tries, JEA 2020) for each leaf, in which the parent is a number of seven bits
//! and no hash table is needed.
//!
//! A search compares the current entry's edge with the key, which gives the shared length, and
//! looks for the entry that leaves there with the key's next byte: there is at most one, and it is
//! further back. So a search passes the records once.
//!
//! All keys of a leaf share a prefix, given by the separators around it in the blocks above and
//! not stored here. `shared` counts from its end.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 1 | number of the code |
//! | 1 | 1 | number of entries, up to 127; plus 128 in a wide leaf |
//! | 2 | 2 | length of the shared prefix |
//! | 4 | 4 | bytes of all edges |
//! | 8 | 4 or 8 each | records, of 8 bytes in a wide leaf |
//!
//! A record has the parent's number (7 bits, 127 for none), whether there is no head (1), the head
//! (8), the shared length (8, or 16) and the edge's length (8, or 32). A leaf with an entry that
//! does not fit is wide. Edges are at the leaf's end, the first one last.

use super::code::{Code, CodeId};
use super::key::{Comparison, Key};

const HEADER_BYTES: usize = 8;
/// The parent of entries without one.
pub(super) const ROOT: usize = 127;
/// Maximum number of entries of a leaf.
pub(super) const ENTRIES_MAX: usize = 127;
const WIDE: u8 = 128;
const NARROW_BYTES: usize = 4;
const WIDE_BYTES: usize = 8;
/// Flag above the parent's number: the key ends there.
const EMPTY: u64 = 1 << 7;
const HEAD_SHIFT: u32 = 8;
const SHARED_SHIFT: u32 = 16;
const LEN_SHIFT: u32 = 32;
/// Bit position of the length in a record of four bytes.
const NARROW_LEN_SHIFT: u32 = 24;

/// An entry without its edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) parent: usize,
    /// Bytes shared with its parent, after the leaf's prefix.
    pub(super) shared: usize,
    pub(super) head: Option<u8>,
    pub(super) edge_len: usize,
}

impl Entry {
    /// As eight bytes.
    fn packed(&self) -> u64 {
        place(self.parent, self.shared, self.head) | (self.edge_len as u64) << LEN_SHIFT
    }

    fn of(packed: u64) -> Entry {
        let head = (packed & EMPTY == 0).then_some((packed >> HEAD_SHIFT) as u8);
        let shared = usize::from((packed >> SHARED_SHIFT) as u16);
        Entry { parent: packed as usize & ROOT, shared, head, edge_len: (packed >> LEN_SHIFT) as usize }
    }

    fn is_wide(&self) -> bool {
        self.shared.max(self.edge_len) > usize::from(u8::MAX)
    }
}

/// The bits that identify an entry.
#[inline]
fn place(parent: usize, shared: usize, head: Option<u8>) -> u64 {
    let head = head.map_or(EMPTY, |head| u64::from(head) << HEAD_SHIFT);
    parent as u64 | head | (shared as u64) << SHARED_SHIFT
}

fn widened(narrow: u32) -> u64 {
    let narrow = u64::from(narrow);
    narrow & ((1 << NARROW_LEN_SHIFT) - 1) | (narrow >> NARROW_LEN_SHIFT) << LEN_SHIFT
}

fn narrowed(wide: u64) -> u32 {
    (wide as u32) & ((1 << NARROW_LEN_SHIFT) - 1) | ((wide >> LEN_SHIFT) as u32) << NARROW_LEN_SHIFT
}

/// Place of a key, or the place where it would leave the path of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) parent: usize,
    /// Bytes that the key shares with what is there.
    pub(super) shared: usize,
    pub(super) is_found: bool,
}

/// A decoded leaf.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf<'a> {
    bytes: &'a [u8],
    pub(super) code: CodeId,
    is_wide: bool,
    pub(super) len: usize,
    /// Length of the prefix of all keys that belong here.
    pub(super) prefix_len: usize,
    edges_len: usize,
}

impl<'a> Leaf<'a> {
    #[inline]
    pub(super) fn of(bytes: &'a [u8]) -> Leaf<'a> {
        let header = bytes.first_chunk::<HEADER_BYTES>().expect("a block has a header");
        let [code, len, p0, p1, e0, e1, e2, e3] = *header;
        let prefix_len = usize::from(u16::from_le_bytes([p0, p1]));
        let edges_len = u32::from_le_bytes([e0, e1, e2, e3]) as usize;
        Leaf { bytes, code, is_wide: len & WIDE != 0, len: usize::from(len & !WIDE), prefix_len, edges_len }
    }

    /// Bytes in use.
    pub(super) fn used_bytes(&self) -> usize {
        HEADER_BYTES + self.len * record_bytes(self.is_wide) + self.edges_len
    }

    /// Returns whether one more entry fits.
    #[inline]
    pub(super) fn has_room_for(&self, entry: &Entry) -> bool {
        (self.is_wide || !entry.is_wide())
            && self.used_bytes() + record_bytes(self.is_wide) + entry.edge_len <= self.bytes.len()
    }

    fn packed(&self, number: usize) -> u64 {
        let records = &self.bytes[HEADER_BYTES..];
        if self.is_wide {
            u64::from_le_bytes(records.as_chunks::<WIDE_BYTES>().0[number])
        } else {
            widened(u32::from_le_bytes(records.as_chunks::<NARROW_BYTES>().0[number]))
        }
    }

    /// All entries with their encoded edges.
    pub(super) fn entries(&self) -> impl Iterator<Item = (Entry, &'a [u8])> {
        let (leaf, mut end) = (*self, self.bytes.len());
        (0..self.len).map(move |number| {
            let entry = Entry::of(leaf.packed(number));
            end -= entry.edge_len;
            (entry, &leaf.bytes[end..end + entry.edge_len])
        })
    }

    /// Searches a key that belongs here.
    #[inline]
    pub(super) fn find(&self, code: &Code, key: &Key<'_>) -> Place {
        let records = &self.bytes[HEADER_BYTES..];
        if self.is_wide {
            let records = &records.as_chunks::<WIDE_BYTES>().0[..self.len];
            self.find_with(code, key, usize::from(u16::MAX), |from, wanted| find_wide(records, from, wanted))
        } else {
            let records = &records.as_chunks::<NARROW_BYTES>().0[..self.len];
            self.find_with(code, key, usize::from(u8::MAX), |from, wanted| find_narrow(records, from, wanted as u32))
        }
    }

    #[inline]
    fn find_with(
        &self,
        code: &Code,
        key: &Key<'_>,
        shared_max: usize,
        find: impl Fn(usize, u64) -> Option<Found>,
    ) -> Place {
        let (mut parent, mut shared) = (ROOT, self.prefix_len);
        let (mut from, mut end) = (0, self.bytes.len());
        loop {
            let (head, here) = (key.get(shared), shared - self.prefix_len);
            let found = if here > shared_max { None } else { find(from, place(parent, here, head)) };
            let Some(Found { number, passed_bytes, edge_len }) = found else {
                return Place { parent, shared, is_found: false };
            };
            if head.is_none() {
                return Place { parent: number, shared, is_found: true };
            }
            end -= passed_bytes + edge_len;
            let Comparison { common, next } = code.compare(&self.bytes[end..end + edge_len], key, shared + 1);
            shared += 1 + common;
            (parent, from) = (number, number + 1);
            if next.is_none() && shared == key.len() {
                return Place { parent, shared, is_found: true };
            }
        }
    }

    /// Bytes of an entry, edge included.
    pub(super) fn entry_bytes(&self, entry: &Entry) -> usize {
        record_bytes(self.is_wide) + entry.edge_len
    }

    /// All keys in the order of their entries. `like` is any key that belongs here.
    pub(super) fn keys(&self, code: &Code, like: &[u8]) -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = Vec::with_capacity(self.len);
        for (entry, edge) in self.entries() {
            let mut key = match keys.get(entry.parent) {
                Some(parent) => parent[..self.prefix_len + entry.shared].to_vec(),
                None => like[..self.prefix_len].to_vec(),
            };
            key.extend(entry.head);
            code.decode(edge, &mut key);
            keys.push(key);
        }
        keys
    }

    /// The key of one entry.
    pub(super) fn key(&self, number: usize, code: &Code, like: &[u8]) -> Vec<u8> {
        let entries: Vec<(Entry, &[u8])> = self.entries().take(number + 1).collect();
        let mut path = vec![number];
        while let Some((entry, _)) = path.last().and_then(|last| entries.get(*last)) {
            path.push(entry.parent);
        }
        let mut key = like[..self.prefix_len].to_vec();
        for (entry, edge) in path.iter().rev().filter_map(|number| entries.get(*number)) {
            key.truncate(self.prefix_len + entry.shared);
            key.extend(entry.head);
            code.decode(edge, &mut key);
        }
        key
    }

    /// Writes the entries in `is_in` to `part`, a leaf whose keys share `prefix_len` bytes.
    pub(super) fn part(
        &self,
        is_in: &[bool],
        prefix_len: usize,
        (id, code): (CodeId, &Code),
        like: &[u8],
        part: &mut Draft,
    ) {
        part.clear(id, prefix_len);
        let gone = prefix_len - self.prefix_len;
        let mut numbers = [ROOT; ENTRIES_MAX + 1];
        let mut edge = Vec::new();
        for (number, (mut entry, written)) in self.entries().enumerate().filter(|(number, _)| is_in[*number]) {
            numbers[number] = part.leaf().len;
            if numbers[entry.parent] != ROOT || (entry.parent == ROOT && gone == 0) {
                entry.shared -= gone;
                // An entry at the start of the leaf has no parent.
                entry.parent = if entry.shared == 0 { ROOT } else { numbers[entry.parent] };
                part.push(&entry, written);
                continue;
            }
            // The entry whose path it leaves is not in the part: store a path from where it leaves
            // the others.
            let key = self.key(number, code, like);
            let place = part.leaf().find(code, &Key::new(&key));
            let is_same = place.shared == self.prefix_len + entry.shared && entry.parent != ROOT;
            if !is_same {
                edge.clear();
                code.encode(key.get(place.shared + 1..).unwrap_or_default(), &mut edge);
            }
            let edge = if is_same { written } else { &edge };
            part.push(&place.entry(key.get(place.shared).copied(), prefix_len, edge.len()), edge);
        }
    }

    /// Writes all entries to `draft` in another code.
    pub(super) fn rewritten(&self, old: &Code, (id, new): (CodeId, &Code), draft: &mut Draft) {
        draft.clear(id, self.prefix_len);
        let (mut text, mut edge) = (Vec::new(), Vec::new());
        for (entry, written) in self.entries() {
            text.clear();
            edge.clear();
            old.decode(written, &mut text);
            new.encode(&text, &mut edge);
            draft.push(&Entry { edge_len: edge.len(), ..entry }, &edge);
        }
    }

    /// Copies the leaf to `bytes`, which must be long enough.
    pub(super) fn copy_to(&self, bytes: &mut [u8]) {
        let (front, back) = (HEADER_BYTES + self.len * record_bytes(self.is_wide), self.edges_len);
        bytes[..front].copy_from_slice(&self.bytes[..front]);
        let start = bytes.len() - back;
        bytes[start..].copy_from_slice(&self.bytes[self.bytes.len() - back..]);
    }
}

impl Place {
    /// The entry of a key that belongs here.
    #[inline]
    pub(super) fn entry(&self, head: Option<u8>, prefix_len: usize, edge_len: usize) -> Entry {
        Entry { parent: self.parent, shared: self.shared - prefix_len, head, edge_len }
    }
}

/// Appends an entry to a leaf with room for it.
pub(super) fn push(bytes: &mut [u8], entry: &Entry, edge: &[u8]) {
    let Leaf { is_wide, len, edges_len, .. } = Leaf::of(bytes);
    let (packed, at) = (entry.packed(), HEADER_BYTES + len * record_bytes(is_wide));
    if is_wide {
        bytes[at..at + WIDE_BYTES].copy_from_slice(&packed.to_le_bytes());
    } else {
        bytes[at..at + NARROW_BYTES].copy_from_slice(&narrowed(packed).to_le_bytes());
    }
    let end = bytes.len() - edges_len;
    bytes[end - edge.len()..end].copy_from_slice(edge);
    bytes[1] += 1;
    bytes[4..HEADER_BYTES].copy_from_slice(&((edges_len + edge.len()) as u32).to_le_bytes());
}

/// A growing leaf under construction.
#[derive(Debug)]
pub(super) struct Draft {
    bytes: Vec<u8>,
    spare: Vec<u8>,
}

impl Draft {
    /// An empty leaf.
    pub(super) fn new() -> Draft {
        Draft { bytes: vec![0; 4096], spare: Vec::new() }
    }

    pub(super) fn leaf(&self) -> Leaf<'_> {
        Leaf::of(&self.bytes)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.spare.capacity()
    }

    pub(super) fn clear(&mut self, code: CodeId, prefix_len: usize) {
        self.bytes[..HEADER_BYTES].fill(0);
        self.bytes[0] = code;
        self.bytes[2..4].copy_from_slice(&(prefix_len as u16).to_le_bytes());
    }

    /// Copies a leaf.
    pub(super) fn copy(&mut self, leaf: &Leaf<'_>) {
        self.bytes.resize(self.bytes.len().max(leaf.bytes.len()), 0);
        leaf.copy_to(&mut self.bytes);
    }

    pub(super) fn push(&mut self, entry: &Entry, edge: &[u8]) {
        while !self.leaf().has_room_for(entry) {
            let leaf = Leaf::of(&self.bytes);
            let is_wide = leaf.is_wide || entry.is_wide();
            let needed = HEADER_BYTES + (leaf.len + 1) * record_bytes(is_wide) + leaf.edges_len + edge.len();
            self.spare.clear();
            self.spare.resize(needed.next_power_of_two().max(self.bytes.len()), 0);
            if is_wide == leaf.is_wide {
                leaf.copy_to(&mut self.spare);
            } else {
                self.spare[..HEADER_BYTES].copy_from_slice(&self.bytes[..HEADER_BYTES]);
                self.spare[1] = WIDE;
                self.spare[4..HEADER_BYTES].fill(0);
                leaf.entries().for_each(|(entry, edge)| push(&mut self.spare, &entry, edge));
            }
            std::mem::swap(&mut self.bytes, &mut self.spare);
        }
        push(&mut self.bytes, entry, edge);
    }

    /// Frees the memory of a long leaf.
    pub(super) fn shrink(&mut self) {
        if self.memory_bytes() > 64 << 10 {
            *self = Draft::new();
        }
    }
}

fn record_bytes(is_wide: bool) -> usize {
    if is_wide { WIDE_BYTES } else { NARROW_BYTES }
}

/// An entry found by a search.
struct Found {
    number: usize,
    /// Bytes of the edges passed.
    passed_bytes: usize,
    edge_len: usize,
}

#[inline]
fn find_narrow(records: &[[u8; NARROW_BYTES]], from: usize, wanted: u32) -> Option<Found> {
    const TOGETHER: usize = 8;
    let mut passed_bytes = 0;
    let (blocks, rest) = records[from..].as_chunks::<TOGETHER>();
    for (nth, block) in blocks.iter().enumerate() {
        let words = block.map(u32::from_le_bytes);
        // Branch-free over eight records, so that the compiler vectorises it.
        let is_here = words.map(|word| (word ^ wanted) << (32 - NARROW_LEN_SHIFT) == 0);
        if is_here.iter().fold(false, |any, is_here| any | is_here) {
            let at = is_here.iter().position(|is_here| *is_here).unwrap_or_default();
            let before: u32 = words[..at].iter().map(|word| word >> NARROW_LEN_SHIFT).sum();
            let edge_len = (words[at] >> NARROW_LEN_SHIFT) as usize;
            return Some(Found {
                number: from + nth * TOGETHER + at,
                passed_bytes: passed_bytes + before as usize,
                edge_len,
            });
        }
        passed_bytes += words.iter().map(|word| word >> NARROW_LEN_SHIFT).sum::<u32>() as usize;
    }
    let first = from + blocks.len() * TOGETHER;
    for (nth, record) in rest.iter().enumerate() {
        let (word, number) = (u32::from_le_bytes(*record), first + nth);
        let edge_len = (word >> NARROW_LEN_SHIFT) as usize;
        if (word ^ wanted) << (32 - NARROW_LEN_SHIFT) == 0 {
            return Some(Found { number, passed_bytes, edge_len });
        }
        passed_bytes += edge_len;
    }
    None
}

fn find_wide(records: &[[u8; WIDE_BYTES]], from: usize, wanted: u64) -> Option<Found> {
    let mut passed_bytes = 0;
    for (number, record) in records.iter().enumerate().skip(from) {
        let word = u64::from_le_bytes(*record);
        let edge_len = (word >> LEN_SHIFT) as usize;
        if (word ^ wanted) << (64 - LEN_SHIFT) == 0 {
            return Some(Found { number, passed_bytes, edge_len });
        }
        passed_bytes += edge_len;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::order;
    use super::super::symbols::{Symbol, Symbols};
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    fn insert(draft: &mut Draft, code: &Code, text: &[u8]) -> bool {
        let (leaf, key) = (draft.leaf(), Key::new(text));
        let place = leaf.find(code, &key);
        let mut edge = Vec::new();
        code.encode(text.get(place.shared + 1..).unwrap_or_default(), &mut edge);
        let entry = place.entry(key.get(place.shared), leaf.prefix_len, edge.len());
        if !place.is_found {
            draft.push(&entry, &edge);
        }
        !place.is_found
    }

    fn assert_holds(leaf: &Leaf<'_>, code: &Code, like: &[u8], expected: &[Vec<u8>]) {
        let keys = leaf.keys(code, like);
        let order = order::order(leaf, code);
        let in_order: Vec<&Vec<u8>> = order.iter().map(|(number, _)| &keys[*number]).collect();
        assert!(in_order.iter().copied().eq(expected), "{in_order:?} {expected:?}");
        for (pair, (_, shared)) in in_order.windows(2).zip(&order[1..]) {
            assert_eq!(super::super::key::common(pair[0], pair[1]), leaf.prefix_len + shared);
        }
        assert!(order.len() < 2 || (1..order.len()).contains(&order::cutting_place(leaf, &order)));
        for (number, key) in keys.iter().enumerate() {
            assert_eq!(&leaf.key(number, code, like), key);
            let place = leaf.find(code, &Key::new(key));
            assert!(place.is_found && place.parent == number);
        }
        for (number, (entry, _)) in leaf.entries().enumerate() {
            assert!(entry.parent == ROOT || entry.parent < number);
        }
    }

    #[test]
    fn keys_inserted_in_any_order_are_found_and_told_in_order() {
        let words = [&b"ab"[..], b"aab", b"bbbb", b"abababab"].map(|word| Symbol::of(word).expect("short"));
        let symbols: Vec<Symbol> = words.into_iter().chain((0..=255).map(Symbol::byte)).collect();
        let codes = [Code::Raw, Code::Symbols(Arc::new(Symbols::new(&symbols).expect("a table")))];
        let mut rng = fastrand::Rng::with_seed(2);
        for round in 0..400 {
            let id = round % 2;
            let (mut draft, mut part, mut expected) = (Draft::new(), Draft::new(), BTreeSet::new());
            draft.clear(id as CodeId, 0);
            for _ in 0..rng.usize(2..ENTRIES_MAX) {
                let len = if rng.u8(..20) == 0 { rng.usize(250..700) } else { rng.usize(1..8) };
                let key: Vec<u8> = (0..len).map(|_| rng.u8(b'a'..=b'b')).collect();
                assert_eq!(insert(&mut draft, &codes[id], &key), expected.insert(key));
            }
            let all: Vec<Vec<u8>> = expected.into_iter().collect();
            let leaf = draft.leaf();
            assert_holds(&leaf, &codes[id], b"", &all);
            let other = 1 - id;
            leaf.rewritten(&codes[id], (other as CodeId, &codes[other]), &mut part);
            assert_holds(&part.leaf(), &codes[other], b"", &all);
            if all.len() < 2 {
                continue;
            }
            let (order, cut) = (order::order(&leaf, &codes[id]), rng.usize(1..all.len()));
            let mut is_in = [false; ENTRIES_MAX];
            order[cut..].iter().for_each(|(number, _)| is_in[*number] = true);
            let alike = super::super::key::common(&all[cut], &all[all.len() - 1]);
            for prefix_len in [0, alike / 2, alike] {
                leaf.part(&is_in, prefix_len, (id as CodeId, &codes[id]), b"", &mut part);
                assert_eq!(part.leaf().prefix_len, prefix_len);
                assert_holds(&part.leaf(), &codes[id], &all[cut], &all[cut..]);
            }
            leaf.part(&is_in.map(|is_in| !is_in), 0, (id as CodeId, &codes[id]), b"", &mut part);
            assert_holds(&part.leaf(), &codes[id], b"", &all[..cut]);
        }
    }
}
