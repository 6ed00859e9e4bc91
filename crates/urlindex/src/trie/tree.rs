//! The trie as a tree of blocks: search, insert, and cutting of full blocks.
//!
//! [Leaves](super::leaf) hold keys; [inner blocks](super::inner) hold the shortest separators of
//! leaves, and lead to them. An insert into a leaf of an older code rewrites it in the newest
//! [`Code`]; inner blocks are raw: they are few, and every search reads some.
//!
//! Invariants: the keys of a block lie between its own separator and the next one in the block
//! above; all leaves have the same depth; no block is empty, but the root of an empty trie; the
//! first entry of an inner block is its own separator (the empty text along the leftmost path);
//! every block but the root has one reference.

use std::sync::Arc;

use super::arena::{Address, Arena, BLOCK_BYTES_MAX};
use super::code::{Code, CodeId};
use super::inner::{self, Inner};
use super::key::Key;
use super::key::common;
use super::leaf::{self, Draft, ENTRIES_MAX, Leaf};
use super::symbols::Learnt;
use super::{order, training};

/// Longer leaves are cut. Longer ones take fewer bytes, shorter ones less time.
const LEAF_BYTES: usize = 2048;
/// Free bytes given to a leaf that moves, so that few inserts move one.
const ROOM_BYTES: usize = 96;
/// Longer inner blocks are cut.
const INNER_BYTES: usize = 4096;
/// Maximum inner blocks above a leaf: enough for more keys than memory holds.
const DEPTH_MAX: usize = 24;

/// Inner blocks with fewer entries are not cut, however long: otherwise URLs as long as a block,
/// which anyone can make, would give inner blocks of one entry and a tree of any depth.
const INNER_ENTRIES_MIN: usize = 8;

/// Maximum length of a key: an inner block must hold its minimum number of entries, and a leaf
/// two, where a byte may take two.
pub(super) const KEY_BYTES_MAX: usize = u16::MAX as usize;
const _: () = assert!(INNER_BYTES + (INNER_ENTRIES_MIN + 1) * (KEY_BYTES_MAX + 32) < BLOCK_BYTES_MAX);
const _: () = assert!(LEAF_BYTES + ROOM_BYTES + 4 * (KEY_BYTES_MAX + 16) < BLOCK_BYTES_MAX);

/// Keys whose leaves are fetched together.
const GROUP: usize = 8;

/// Number of keys at which the first symbol table is trained, and factor of growth until each next
/// one: the URLs that a crawl finds change.
const TRAIN_KEYS: u64 = 1 << 14;
const TRAIN_GROWTH: u64 = 8;
/// Keys for each symbol of a table: a symbol takes up to a hundred bytes.
const KEYS_PER_SYMBOL: u64 = 64;
/// More symbols shorten edges, but the table no longer fits the processor's cache.
const SYMBOLS_MAX: usize = 8000;
/// A table must shorten edges this much to be worth rewriting all leaves.
const GAIN: (usize, usize) = (96, 100);
/// Bytes of edges in a training sample.
const SAMPLE_BYTES: usize = 1 << 20;
/// Maximum number of tables: a block names one in a byte.
const CODES_MAX: usize = CodeId::MAX as usize;

/// The blocks, codes and counts of a trie.
#[derive(Debug)]
pub(super) struct Tree {
    arena: Arena,
    root: Address,
    /// Inner blocks above a leaf.
    depth: usize,
    keys: u64,
    /// The newest last.
    codes: Vec<Code>,
    /// Number of keys at which the next table is trained.
    train_at: u64,
    /// Number of leaves cut.
    cuts: u64,
    /// Scratch space: an edge, a leaf and a part of it.
    edge: Vec<u8>,
    draft: Draft,
    part: Draft,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree::new(&Learnt { symbols: None, train_at: TRAIN_KEYS })
    }
}

/// An inner block on the path to a leaf, and the number of its entry that leads on.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    at: Address,
    number: usize,
}

/// The path of inner blocks to a leaf, the root first.
#[derive(Clone, Copy, Debug)]
struct Way {
    steps: [Step; DEPTH_MAX],
    /// Number of cuts at which it was found: valid until the next one.
    cuts: u64,
}

impl Tree {
    /// An empty tree for keys like those of another one.
    pub(super) fn new(learnt: &Learnt) -> Tree {
        let mut codes = vec![Code::Raw];
        codes.extend(learnt.symbols.iter().map(|symbols| Code::Symbols(Arc::clone(symbols))));
        let mut draft = Draft::new();
        draft.clear((codes.len() - 1) as CodeId, 0);
        let mut arena = Arena::default();
        let root = add_leaf(&mut arena, &draft.leaf());
        let train_at = learnt.train_at.max(TRAIN_KEYS);
        Tree { arena, root, depth: 0, keys: 0, codes, train_at, cuts: 0, edge: Vec::new(), draft, part: Draft::new() }
    }

    pub(super) fn len(&self) -> u64 {
        self.keys
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let codes: u64 = self.codes.iter().map(Code::memory_bytes).sum();
        let scratch = self.edge.capacity() + self.draft.memory_bytes() + self.part.memory_bytes();
        self.arena.memory_bytes() + codes + (scratch + size_of::<Tree>()) as u64
    }

    /// Returns the symbols and codes for a new tree with keys like these.
    pub(super) fn learnt(&self) -> Learnt {
        let symbols = match self.codes.last() {
            Some(Code::Symbols(symbols)) => Some(Arc::clone(symbols)),
            _ => None,
        };
        Learnt { symbols, train_at: self.train_at }
    }

    pub(super) fn contains(&self, text: &[u8]) -> bool {
        let key = Key::new(text);
        let at = self.leaf_of(&key);
        self.is_in_leaf(at, &key)
    }

    /// Calls `each` for each text, in order, with whether it is in the tree.
    pub(super) fn contain(&self, texts: &[&[u8]], mut each: impl FnMut(bool)) {
        let (groups, rest) = texts.as_chunks::<GROUP>();
        for group in groups {
            let keys = group.map(Key::new);
            let leaves = keys.each_ref().map(|key| self.leaf_of(key));
            leaves.iter().zip(&keys).for_each(|(at, key)| each(self.is_in_leaf(*at, key)));
        }
        rest.iter().for_each(|text| each(self.contains(text)));
    }

    #[inline]
    fn leaf_of(&self, key: &Key<'_>) -> Address {
        let at = (0..self.depth).fold(self.root, |at, _| {
            let inner = self.inner(at);
            inner.child(inner.find(key))
        });
        self.arena.touch(at);
        at
    }

    #[inline]
    fn is_in_leaf(&self, at: Address, key: &Key<'_>) -> bool {
        let leaf = self.leaf(at);
        leaf.find(self.code(&leaf), key).is_found
    }

    #[inline]
    fn inner(&self, at: Address) -> Inner<'_> {
        Inner::of(self.arena.bytes(at))
    }

    #[inline]
    fn leaf(&self, at: Address) -> Leaf<'_> {
        Leaf::of(self.arena.bytes(at))
    }

    #[inline]
    fn code(&self, leaf: &Leaf<'_>) -> &Code {
        &self.codes[usize::from(leaf.code)]
    }

    /// The path to a key's leaf, which is prefetched.
    #[inline]
    fn way_to(&self, key: &Key<'_>) -> Way {
        let (mut steps, mut at) = ([Step::default(); DEPTH_MAX], self.root);
        for step in steps.iter_mut().take(self.depth) {
            let inner = self.inner(at);
            *step = Step { at, number: inner.find(key) };
            at = inner.child(step.number);
        }
        self.arena.touch(at);
        Way { steps, cuts: self.cuts }
    }

    /// The block at the end of a path.
    #[inline]
    fn after(&self, way: &[Step]) -> Address {
        way.last().map_or(self.root, |Step { at, number }| self.inner(*at).child(*number))
    }

    /// Inserts a key; true if it is new.
    pub(super) fn insert(&mut self, text: &[u8]) -> bool {
        let key = Key::new(text);
        let way = self.way_to(&key);
        self.insert_at(&way, &key)
    }

    /// Inserts texts in order, and calls `each` with whether each is new.
    pub(super) fn insert_all(&mut self, texts: &[&[u8]], mut each: impl FnMut(bool)) {
        let (groups, rest) = texts.as_chunks::<GROUP>();
        for group in groups {
            let keys = group.map(Key::new);
            let mut ways = keys.each_ref().map(|key| self.way_to(key));
            for (way, key) in ways.iter_mut().zip(&keys) {
                if way.cuts != self.cuts {
                    *way = self.way_to(key);
                }
                each(self.insert_at(way, key));
            }
        }
        rest.iter().for_each(|text| each(self.insert(text)));
    }

    fn insert_at(&mut self, way: &Way, key: &Key<'_>) -> bool {
        let (text, way) = (key.text, &way.steps[..self.depth]);
        let mut at = self.after(way);
        let leaf = self.leaf(at);
        let place = leaf.find(self.code(&leaf), key);
        if place.is_found {
            return false;
        }
        let newest = (self.codes.len() - 1) as CodeId;
        if leaf.code != newest {
            at = self.rewrite(way, at, newest);
        }
        self.edge.clear();
        self.codes[usize::from(newest)].encode(text.get(place.shared + 1..).unwrap_or_default(), &mut self.edge);
        let leaf = Leaf::of(self.arena.bytes(at));
        let entry = place.entry(key.get(place.shared), leaf.prefix_len, self.edge.len());
        self.keys += 1;
        if leaf.len + 1 < ENTRIES_MAX && leaf.has_room_for(&entry) && leaf.used_bytes() <= LEAF_BYTES {
            leaf::push(self.arena.bytes_mut(at), &entry, &self.edge);
        } else {
            self.draft.copy(&leaf);
            self.draft.push(&entry, &self.edge);
            let (bytes, len) = (self.draft.leaf().used_bytes(), self.draft.leaf().len);
            if len == ENTRIES_MAX || (bytes > LEAF_BYTES && len > 1) {
                self.split(way, at, text);
            } else {
                self.replace(way, at);
            }
            self.draft.shrink();
            self.part.shrink();
        }
        if self.keys >= self.train_at {
            self.train();
        }
        true
    }

    /// Rewrites a leaf in another code; returns its new address.
    fn rewrite(&mut self, way: &[Step], at: Address, id: CodeId) -> Address {
        let leaf = Leaf::of(self.arena.bytes(at));
        let (old, new) = (&self.codes[usize::from(leaf.code)], &self.codes[usize::from(id)]);
        leaf.rewritten(old, (id, new), &mut self.draft);
        self.replace(way, at)
    }

    /// Replaces a leaf by the draft; returns its address.
    fn replace(&mut self, way: &[Step], old: Address) -> Address {
        self.arena.remove(old);
        let at = add_leaf(&mut self.arena, &self.draft.leaf());
        self.lead_to(way, at);
        at
    }

    /// Sets the reference at the end of a path.
    fn lead_to(&mut self, way: &[Step], child: Address) {
        match way.last() {
            Some(Step { at, number }) => inner::set_child(self.arena.bytes_mut(*at), *number, child),
            None => self.root = child,
        }
    }

    /// Cuts the draft, a full leaf, and replaces the leaf by the parts: halves, or all but its
    /// last key if that one is new, so that keys in order leave full leaves behind. `like` is any
    /// key of this leaf.
    fn split(&mut self, way: &[Step], old: Address, like: &[u8]) {
        self.cuts += 1;
        let leaf = self.draft.leaf();
        let code = (leaf.code, &self.codes[usize::from(leaf.code)]);
        let order = order::order(&leaf, code.1);
        let is_in_order = order.last().is_some_and(|(last, _)| *last == leaf.len - 1);
        let cut = if is_in_order { leaf.len - 1 } else { order::cutting_place(&leaf, &order) };
        let (first, shared) = order[cut];
        let mut separator = leaf.key(first, code.1, like);
        // As short as possible.
        separator.truncate(leaf.prefix_len + shared + 1);
        let (from, to) = self.fences(way, like);
        let mut is_right = [false; ENTRIES_MAX];
        order[cut..].iter().for_each(|(number, _)| is_right[*number] = true);
        leaf.part(&is_right, to.map_or(0, |to| common(&separator, &to)), code, like, &mut self.part);
        let right = add_leaf(&mut self.arena, &self.part.leaf());
        leaf.part(&is_right.map(|is_right| !is_right), common(&from, &separator), code, like, &mut self.part);
        self.arena.remove(old);
        let left = add_leaf(&mut self.arena, &self.part.leaf());
        self.lead_to(way, left);
        self.add_separator(way, separator, right, like);
    }

    /// Adds an entry to the last block of a path, after the path's own; cuts that block if full,
    /// which adds an entry to the block above.
    fn add_separator(&mut self, way: &[Step], separator: Vec<u8>, child: Address, like: &[u8]) {
        let Some((&Step { at, number }, above)) = way.split_last() else {
            let entries = [(&[][..], self.root), (&separator[..], child)];
            self.root = add_inner(&mut self.arena, &inner::written(&entries, 0, 0));
            self.depth += 1;
            assert!(self.depth < DEPTH_MAX - 1, "a trie this deep holds more keys than there can be");
            return;
        };
        let inner = self.inner(at);
        let mut entries: Vec<inner::Entry<'_>> = inner.entries().collect();
        let (is_last, prefix_len) = (number + 1 == entries.len(), inner.prefix_len);
        entries.insert(number + 1, (&separator[prefix_len..], child));
        if inner.used_bytes() <= INNER_BYTES || entries.len() < INNER_ENTRIES_MIN {
            let bytes = inner::written(&entries, prefix_len, 0);
            self.arena.remove(at);
            let at = add_inner(&mut self.arena, &bytes);
            self.lead_to(above, at);
            return;
        }
        let is_in_order = is_last && entries.len() >= 2 * INNER_ENTRIES_MIN;
        let cut = if is_in_order { entries.len() - 1 } else { inner::cutting_place(&entries) };
        let (from, to) = self.fences(above, like);
        let middle = [&like[..prefix_len], entries[cut].0].concat();
        let part = |entries: &[inner::Entry<'_>], alike: usize| inner::written(entries, alike, alike - prefix_len);
        let left = part(&entries[..cut], common(&from, &middle));
        let right = part(&entries[cut..], to.map_or(0, |to| common(&middle, &to)));
        self.arena.remove(at);
        let left = add_inner(&mut self.arena, &left);
        let right = add_inner(&mut self.arena, &right);
        self.lead_to(above, left);
        self.add_separator(above, middle, right, like);
    }

    /// Separators around the block at the end of a path: its keys are at or above the first, and
    /// below the second, if any. `like` is any such key.
    fn fences(&self, way: &[Step], like: &[u8]) -> (Vec<u8>, Option<Vec<u8>>) {
        let (mut from, mut to) = (Vec::new(), None);
        for &Step { at, number } in way {
            let inner = self.inner(at);
            from = inner.whole_text(number, like);
            if number + 1 < inner.len {
                to = Some(inner.whole_text(number + 1, like));
            }
        }
        (from, to)
    }

    /// Trains another symbol table on the present edges.
    fn train(&mut self) {
        self.train_at = if self.codes.len() < CODES_MAX { self.keys.saturating_mul(TRAIN_GROWTH) } else { u64::MAX };
        // Whole leaves, from all over the trie.
        let step = (self.arena.memory_bytes() as usize / SAMPLE_BYTES).max(1);
        let mut blocks = vec![self.root];
        for _ in 0..self.depth {
            let inners = blocks.iter().map(|at| self.inner(*at));
            blocks = inners.flat_map(|inner| (0..inner.len).map(move |number| inner.child(number))).collect();
        }
        let mut sample = Vec::new();
        for leaf in blocks.iter().step_by(step).map(|at| self.leaf(*at)) {
            for (_, edge) in leaf.entries() {
                let mut text = Vec::new();
                self.code(&leaf).decode(edge, &mut text);
                sample.push(text);
            }
        }
        let symbols_max = usize::try_from(self.keys / KEYS_PER_SYMBOL).unwrap_or(usize::MAX).min(SYMBOLS_MAX);
        let Some(symbols) = training::train(&sample, symbols_max) else { return };
        let code = Code::Symbols(Arc::new(symbols));
        let written = |code: &Code| sample.iter().map(|text| code.written_bytes(text)).sum::<usize>();
        let newest = self.codes.last().map_or(usize::MAX, written);
        if written(&code) * GAIN.1 <= newest * GAIN.0 {
            self.codes.push(code);
        }
    }

    /// The keys of the first leaf that has any after `from` (or at it, if `is_inclusive`), in
    /// order. Leaves `out` empty if there are none.
    pub(super) fn some_after(&self, from: &[u8], is_inclusive: bool, out: &mut Vec<Vec<u8>>) {
        let mut like = from.to_vec();
        loop {
            let way = self.way_to(&Key::new(&like));
            let way = &way.steps[..self.depth];
            let leaf = self.leaf(self.after(way));
            let keys = leaf.keys(self.code(&leaf), &like);
            out.extend(keys.into_iter().filter(|key| &key[..] > from || (is_inclusive && key == from)));
            out.sort_unstable();
            match self.fences(way, &like).1 {
                Some(next) if out.is_empty() => like = next,
                _ => return,
            }
        }
    }
}

fn add_leaf(arena: &mut Arena, leaf: &Leaf<'_>) -> Address {
    let at = arena.add(leaf.used_bytes() + ROOM_BYTES);
    leaf.copy_to(arena.bytes_mut(at));
    at
}

fn add_inner(arena: &mut Arena, bytes: &[u8]) -> Address {
    let at = arena.add(bytes.len());
    arena.bytes_mut(at)[..bytes.len()].copy_from_slice(bytes);
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_as_long_as_a_block_and_longer_do_not_make_the_tree_deep() {
        let mut rng = fastrand::Rng::with_seed(7);
        for longest in [400, 1_000, 3_000, 40_000] {
            let mut tree = Tree::default();
            let mut keys = std::collections::BTreeSet::new();
            for _ in 0..3_000 {
                let mut key = vec![rng.u8(b'a'..=b'c'); rng.usize(1..longest)];
                key.extend(rng.u16(..).to_be_bytes());
                assert_eq!(tree.insert(&key), keys.insert(key.clone()));
            }
            assert!(tree.depth <= 6, "{longest}: {}", tree.depth);
            assert!(keys.iter().all(|key| tree.contains(key)));
        }
    }

    #[test]
    fn keys_of_any_bytes_stay_in_order_while_tables_follow_one_another() {
        let mut rng = fastrand::Rng::with_seed(8);
        let words = [&b"http://"[..], b"/index", b"\0", b"\xff\xff", b"abababababababab", b"%2F"];
        let (mut tree, mut keys) = (Tree::default(), std::collections::BTreeSet::new());
        for round in 0..6_000u64 {
            let word = |rng: &mut fastrand::Rng| match rng.usize(..9) {
                number if number < words.len() => words[number].to_vec(),
                6 => vec![rng.u8(..); rng.usize(1..3)],
                7 => vec![b'a'; if rng.u8(..50) == 0 { rng.usize(1..2_000) } else { 1 }],
                _ => rng.u8(..100).to_string().into_bytes(),
            };
            let mut key: Vec<u8> = (0..rng.usize(1..8)).flat_map(|_| word(&mut rng)).collect();
            assert_eq!(tree.contains(&key), keys.contains(&key));
            assert_eq!(tree.insert(&key), keys.insert(key.clone()));
            assert!(tree.contains(&key));
            key.pop();
            assert_eq!(tree.contains(&key), keys.contains(&key));
            if round % 1_500 == 1_400 {
                tree.train();
            }
        }
        assert_eq!((tree.codes.len(), tree.len()), (5, keys.len() as u64));
        let (mut all, mut some, mut last) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            tree.some_after(&last, all.is_empty(), &mut some);
            let Some(end) = some.last() else { break };
            last.clone_from(end);
            all.append(&mut some);
        }
        assert!(all.iter().eq(&keys), "{} of {}", all.len(), keys.len());
    }
}
