//! The trie as a tree of blocks: how a key is found, inserted, and how a block that is too long is cut.
//!
//! Leaves hold keys; the blocks above hold the shortest texts that tell leaves apart, and lead to them. Every leaf knows the next.
//!
//! Invariants: the keys of a block lie between its own separator and the next one in the block above; all leaves have the
//! same depth; no block is empty, but the root of an empty trie.

use super::arena::{Arena, BLOCK_BYTES_MAX, BlockId};
use super::block::{self, Kind};

/// Blocks longer than this are cut. Longer ones take fewer bytes, shorter ones less time.
const BLOCK_BYTES: usize = 1536;
/// So many inner blocks above a leaf are enough for more keys than memory holds.
const DEPTH_MAX: usize = 24;

/// An inner block with fewer entries is not cut, however long they are: else URLs that are as long as a block, which anyone can make, would
/// give inner blocks of one entry, and a tree of any depth.
const INNER_ENTRIES_MIN: usize = 8;

/// The longest key: as many as an inner block must have fit it.
pub(super) const KEY_BYTES_MAX: usize = u16::MAX as usize;
const _: () = assert!(BLOCK_BYTES + (INNER_ENTRIES_MIN + 1) * (KEY_BYTES_MAX + 16) < BLOCK_BYTES_MAX);

/// See the module.
#[derive(Debug)]
pub(super) struct Tree {
    arena: Arena,
    root: BlockId,
    /// Inner blocks above a leaf.
    depth: usize,
    first_leaf: BlockId,
    keys: u64,
}

impl Default for Tree {
    fn default() -> Tree {
        let mut arena = Arena::default();
        let root = arena.add(&[], None);
        Tree { arena, root, depth: 0, first_leaf: root, keys: 0 }
    }
}

impl Tree {
    pub(super) fn len(&self) -> u64 {
        self.keys
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.arena.memory_bytes() + size_of::<Tree>() as u64
    }

    pub(super) fn contains(&self, key: &[u8]) -> bool {
        block::find(self.arena.bytes(self.leaf_of(key)), key, Kind::Leaf).is_found
    }

    fn leaf_of(&self, key: &[u8]) -> BlockId {
        (0..self.depth).fold(self.root, |id, _| block::find(self.arena.bytes(id), key, Kind::Inner).child)
    }

    /// Whether it was not there.
    pub(super) fn insert(&mut self, key: &[u8]) -> bool {
        let mut path = [0; DEPTH_MAX];
        let mut id = self.root;
        for above in path.iter_mut().take(self.depth) {
            *above = id;
            id = block::find(self.arena.bytes(id), key, Kind::Inner).child;
        }
        let bytes = self.arena.bytes(id);
        let position = block::find(bytes, key, Kind::Leaf);
        if position.is_found {
            return false;
        }
        self.keys += 1;
        let is_last = position.offset == bytes.len();
        self.put(id, position, key, 0, Kind::Leaf);
        let mut cut = self.cut_if_long(id, is_last, Kind::Leaf);
        let mut above = self.depth;
        // Each cut puts an entry into the block above, which may be too long then.
        while let Some((separator, right)) = cut {
            if above == 0 {
                self.grow(&separator, right);
                break;
            }
            above -= 1;
            let id = path[above];
            let bytes = self.arena.bytes(id);
            let position = block::find(bytes, &separator, Kind::Inner);
            let is_last = position.offset == bytes.len();
            self.put(id, position, &separator, right, Kind::Inner);
            cut = self.cut_if_long(id, is_last, Kind::Inner);
        }
        true
    }

    fn put(&mut self, id: BlockId, position: block::Position, key: &[u8], child: BlockId, kind: Kind) {
        let (removed, with) = block::insertion(self.arena.bytes(id), position, key, child, kind);
        self.arena.splice(id, position.offset, removed, &with);
    }

    /// Cuts a block if it is too long: in halves, or before its last entry if that was just put there, so that keys that come in
    /// order leave full blocks behind.
    fn cut_if_long(&mut self, id: BlockId, is_last: bool, kind: Kind) -> Option<(Vec<u8>, BlockId)> {
        let bytes = self.arena.bytes(id);
        if bytes.len() <= BLOCK_BYTES {
            return None;
        }
        let halves = block::cut(bytes, cutting_place(bytes, is_last, kind)?, kind)?;
        let left = bytes[..halves.left_len].to_vec();
        let next = self.arena.next(id);
        self.arena.replace(id, &left);
        let right = self.arena.add(&halves.right, next);
        self.arena.set_next(id, right);
        Some((halves.separator, right))
    }

    /// A new root over the old one and its right half.
    fn grow(&mut self, separator: &[u8], right: BlockId) {
        let mut bytes = Vec::new();
        block::push(&mut bytes, 0, &[], self.root, Kind::Inner);
        block::push(&mut bytes, 0, separator, right, Kind::Inner);
        self.root = self.arena.add(&bytes, None);
        self.depth += 1;
        assert!(self.depth < DEPTH_MAX, "a trie this deep holds more keys than there can be");
    }

    /// The keys of one leaf that come after `from` (or at it, if `is_inclusive`), in order: the first leaf that has any. Nothing is put
    /// out if there are none.
    pub(super) fn some_after(&self, from: &[u8], is_inclusive: bool, out: &mut Vec<Vec<u8>>) {
        let mut leaf = if from.is_empty() { self.first_leaf } else { self.leaf_of(from) };
        loop {
            let bytes = self.arena.bytes(leaf);
            let (mut at, mut key) = (0, Vec::new());
            while let Some(entry) = block::entry(bytes, at, Kind::Leaf) {
                key.truncate(entry.shared);
                key.extend_from_slice(entry.rest);
                if key.as_slice() > from || (is_inclusive && key == from) {
                    out.push(key.clone());
                }
                at = entry.end;
            }
            match self.arena.next(leaf) {
                Some(next) if out.is_empty() => leaf = next,
                _ => return,
            }
        }
    }
}

/// Where a block is to be cut, which is where an entry begins; `None` if it has too few.
fn cutting_place(bytes: &[u8], is_last: bool, kind: Kind) -> Option<usize> {
    let mut starts = Vec::with_capacity(64);
    let mut at = 0;
    while let Some(entry) = block::entry(bytes, at, kind) {
        starts.push(at);
        at = entry.end;
    }
    match kind {
        Kind::Leaf if starts.len() < 2 => None,
        Kind::Leaf if is_last => starts.last().copied(),
        Kind::Leaf => {
            let half = starts.iter().copied().find(|start| *start >= bytes.len() / 2);
            half.or(starts.last().copied())
        }
        Kind::Inner if starts.len() < INNER_ENTRIES_MIN => None,
        Kind::Inner if is_last && starts.len() >= 2 * INNER_ENTRIES_MIN => starts.last().copied(),
        // By number and not by bytes, so that no half is of few long ones.
        Kind::Inner => Some(starts[starts.len() / 2]),
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
}
