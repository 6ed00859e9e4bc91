//! The trie as a tree of blocks: how a key is found, inserted, and how a block that is too long is cut.
//!
//! Leaves hold keys; the blocks above hold the shortest texts that tell leaves apart, and lead to them. Leaves are written in the newest
//! [`Code`] when something is put into them, inner blocks always raw: they are few, and every search reads some.
//!
//! Invariants: the keys of a block lie between its own separator and the next one in the block above; all leaves have the
//! same depth; no block is empty, but the root of an empty trie; the first entry of an inner block is its own separator (of
//! those in the leftmost path, the empty text).

use std::sync::Arc;

use super::arena::{Arena, BLOCK_BYTES_MAX, BlockId};
use super::block::{Block, Kind, Parts, Position};
use super::code::{Code, CodeId, common};
use super::file::Learnt;
use super::training;

/// Blocks longer than this are cut. Longer ones take fewer bytes, shorter ones less time.
const BLOCK_BYTES: usize = 3072;
/// So many inner blocks above a leaf are enough for more keys than memory holds.
const DEPTH_MAX: usize = 24;

/// An inner block with fewer entries is not cut, however long they are: else URLs that are as long as a block, which anyone can make, would
/// give inner blocks of one entry, and a tree of any depth.
const INNER_ENTRIES_MIN: usize = 8;

/// The longest key: as many as an inner block must have fit it, and two in a leaf, where a byte may take two.
pub(super) const KEY_BYTES_MAX: usize = u16::MAX as usize;
const _: () = assert!(BLOCK_BYTES + (INNER_ENTRIES_MIN + 1) * (KEY_BYTES_MAX + 16) < BLOCK_BYTES_MAX);

/// With so many keys the first table of symbols is made, and with so many times as many each other one: what a crawl finds changes.
const TRAIN_KEYS: u64 = 1 << 14;
const TRAIN_GROWTH: u64 = 8;
/// A table has one symbol more for so many keys: it takes up to a hundred bytes for each.
const KEYS_PER_SYMBOL: u64 = 64;
/// With more symbols edges are shorter, but the table leaves the processor's cache.
const SYMBOLS_MAX: usize = 8000;
/// Bytes of edges that a table is made of.
const SAMPLE_BYTES: usize = 1 << 20;
/// No more tables than a block can name.
const CODES_MAX: usize = CodeId::MAX as usize;

/// See the module.
#[derive(Debug)]
pub(super) struct Tree {
    arena: Arena,
    root: BlockId,
    /// Inner blocks above a leaf.
    depth: usize,
    keys: u64,
    /// The newest last.
    codes: Vec<Code>,
    /// How many keys there are when the next table is made.
    train_at: u64,
    /// A block that is being written.
    scratch: Vec<u8>,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree::new(&Learnt { symbols: None, train_at: TRAIN_KEYS })
    }
}

impl Tree {
    /// An empty tree, whose keys are like those of another one.
    pub(super) fn new(learnt: &Learnt) -> Tree {
        let mut codes = vec![Code::Raw];
        codes.extend(learnt.symbols.iter().map(|symbols| Code::Symbols(Arc::clone(symbols))));
        let mut arena = Arena::default();
        let root = arena.add(&Parts::new((codes.len() - 1) as CodeId, Kind::Leaf).bytes());
        Tree { arena, root, depth: 0, keys: 0, codes, train_at: learnt.train_at.max(TRAIN_KEYS), scratch: Vec::new() }
    }

    pub(super) fn len(&self) -> u64 {
        self.keys
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let codes: u64 = self.codes.iter().map(Code::memory_bytes).sum();
        self.arena.memory_bytes() + codes + (self.scratch.capacity() + size_of::<Tree>()) as u64
    }

    /// What it takes to make a tree for keys like these.
    pub(super) fn learnt(&self) -> Learnt {
        let symbols = match self.codes.last() {
            Some(Code::Symbols(symbols)) => Some(Arc::clone(symbols)),
            _ => None,
        };
        Learnt { symbols, train_at: self.train_at }
    }

    pub(super) fn contains(&self, key: &[u8]) -> bool {
        self.find(self.block(self.leaf_of(key)), key).is_found
    }

    fn leaf_of(&self, key: &[u8]) -> BlockId {
        (0..self.depth).fold(self.root, |id, _| {
            let block = self.block(id);
            block.child_of(&block.find(&Code::Raw, key))
        })
    }

    #[inline]
    fn block(&self, id: BlockId) -> Block<'_> {
        Block::of(self.arena.bytes(id))
    }

    #[inline]
    fn code(&self, block: &Block<'_>) -> &Code {
        &self.codes[usize::from(block.code)]
    }

    #[inline]
    fn find(&self, block: Block<'_>, key: &[u8]) -> Position {
        block.find(self.code(&block), key)
    }

    /// Whether it was not there.
    pub(super) fn insert(&mut self, key: &[u8]) -> bool {
        let mut path = [0; DEPTH_MAX];
        let mut id = self.root;
        for above in path.iter_mut().take(self.depth) {
            *above = id;
            let block = self.block(id);
            id = block.child_of(&block.find(&Code::Raw, key));
        }
        let block = self.block(id);
        let mut position = self.find(block, key);
        if position.is_found {
            return false;
        }
        let newest = (self.codes.len() - 1) as CodeId;
        if block.code != newest {
            let rewritten = block.part(0..block.len, block.prefix_len(), &self.codes, newest);
            self.arena.replace(id, &rewritten);
            position = self.find(self.block(id), key);
        }
        self.keys += 1;
        let mut level = self.depth;
        path[level] = id;
        let mut is_last = self.put(id, &position, key, 0);
        // Each cut puts an entry into the block above, which may be too long then.
        while let Some((separator, right)) = self.cut_if_long(&path[..=level], key, is_last) {
            if level == 0 {
                self.grow(&separator, right);
                break;
            }
            level -= 1;
            let position = self.find(self.block(path[level]), &separator);
            is_last = self.put(path[level], &position, &separator, right);
        }
        if self.keys >= self.train_at {
            self.train();
        }
        true
    }

    /// Puts a key into a block at its place there; whether it is the last one there.
    fn put(&mut self, id: BlockId, position: &Position, key: &[u8], child: BlockId) -> bool {
        let mut scratch = std::mem::take(&mut self.scratch);
        let block = self.block(id);
        let is_last = position.number == block.len;
        block.with(position, key, child, self.code(&block), &mut scratch);
        self.arena.replace(id, &scratch);
        scratch.shrink_to(4 * BLOCK_BYTES);
        self.scratch = scratch;
        is_last
    }

    /// Cuts the block at the end of a path if it is too long: in halves, or before its last entry if that was just put there, so that keys
    /// that come in order leave full blocks behind. `like` is any key of this path.
    fn cut_if_long(&mut self, path: &[BlockId], like: &[u8], is_last: bool) -> Option<(Vec<u8>, BlockId)> {
        let (&id, above) = path.split_last()?;
        if self.arena.bytes(id).len() <= BLOCK_BYTES {
            return None;
        }
        let block = self.block(id);
        let at = cutting_place(&block, is_last)?;
        let mut separator = block.key(at, self.code(&block), like);
        if block.kind == Kind::Leaf {
            // As short as can be; an inner block's leads on to children and stays whole.
            separator.truncate(block.shared(at) + 1);
        }
        let (from, to) = self.fences(above, like);
        let right_prefix = to.map_or(0, |to| common(&separator, &to));
        let left = block.part(0..at, common(&from, &separator), &self.codes, block.code);
        let right = block.part(at..block.len, right_prefix, &self.codes, block.code);
        self.arena.replace(id, &left);
        Some((separator, self.arena.add(&right)))
    }

    /// The texts between which the keys of the block lie that a path of inner blocks leads to: from the first on, and less than the other, if
    /// there is one. `like` is any such key.
    fn fences(&self, path: &[BlockId], like: &[u8]) -> (Vec<u8>, Option<Vec<u8>>) {
        let (mut from, mut to) = (Vec::new(), None);
        for &id in path {
            let block = self.block(id);
            let number = block.find(&Code::Raw, like).number;
            if number > 0 {
                from = block.key(number - 1, &Code::Raw, like);
            }
            if number < block.len {
                to = Some(block.key(number, &Code::Raw, like));
            }
        }
        (from, to)
    }

    /// A new root over the old one and its right half.
    fn grow(&mut self, separator: &[u8], right: BlockId) {
        let mut parts = Parts::new(0, Kind::Inner);
        parts.push(0, &[], self.root, &Code::Raw);
        parts.push(0, separator, right, &Code::Raw);
        self.root = self.arena.add(&parts.bytes());
        self.depth += 1;
        assert!(self.depth < DEPTH_MAX - 1, "a trie this deep holds more keys than there can be");
    }

    /// Makes another table of symbols, of the edges that there are now.
    fn train(&mut self) {
        self.train_at = if self.codes.len() < CODES_MAX { self.keys.saturating_mul(TRAIN_GROWTH) } else { u64::MAX };
        let edges_bytes = self.arena.memory_bytes() as usize;
        // Whole leaves, from all over the trie.
        let step = (edges_bytes / SAMPLE_BYTES).max(1);
        let leaves = (0..self.arena.len()).step_by(step).map(|id| self.block(id as BlockId));
        let mut sample = Vec::new();
        for leaf in leaves.filter(|block| block.kind == Kind::Leaf) {
            for edge in leaf.edges() {
                let mut text = Vec::new();
                self.code(&leaf).decode(edge, &mut text);
                sample.push(text);
            }
        }
        let symbols_max = usize::try_from(self.keys / KEYS_PER_SYMBOL).unwrap_or(usize::MAX).min(SYMBOLS_MAX);
        if let Some(symbols) = training::train(&sample, symbols_max) {
            self.codes.push(Code::Symbols(Arc::new(symbols)));
        }
    }

    /// The keys of one leaf that come after `from` (or at it, if `is_inclusive`), in order: the first leaf that has any. Nothing is put
    /// out if there are none.
    pub(super) fn some_after(&self, from: &[u8], is_inclusive: bool, out: &mut Vec<Vec<u8>>) {
        let mut like = from.to_vec();
        loop {
            let mut path = [0; DEPTH_MAX];
            let mut id = self.root;
            for above in path.iter_mut().take(self.depth) {
                *above = id;
                let block = self.block(id);
                id = block.child_of(&block.find(&Code::Raw, &like));
            }
            let block = self.block(id);
            block.walk(self.code(&block), &like, |_, key| {
                if key > from || (is_inclusive && key == from) {
                    out.push(key.to_vec());
                }
                true
            });
            match self.fences(&path[..self.depth], &like).1 {
                Some(next) if out.is_empty() => like = next,
                _ => return,
            }
        }
    }
}

/// Which entry a block is to be cut before; `None` if it has too few.
fn cutting_place(block: &Block<'_>, is_last: bool) -> Option<usize> {
    match block.kind {
        Kind::Leaf if block.len < 2 => None,
        Kind::Leaf if is_last => Some(block.len - 1),
        Kind::Leaf => Some(block.middle()),
        Kind::Inner if block.len < INNER_ENTRIES_MIN => None,
        Kind::Inner if is_last && block.len >= 2 * INNER_ENTRIES_MIN => Some(block.len - 1),
        // By number and not by bytes, so that no half is of few long ones.
        Kind::Inner => Some(block.len / 2),
    }
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
