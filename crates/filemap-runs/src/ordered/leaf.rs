//! Leaf blocks: keys with their changes, front-coded. An entry is two LEB128 numbers, the bytes
//! shared with the key before and twice the number of others plus the change, then those others.

use filemap_io::varint;

use super::change::{Change, Tally};
use super::format::{Child, Filling, MAX_KEY_BYTES, OrderedBlock};
use super::front::{self, Piece};

const NO_LEAF: &str = "not a leaf of keys";

/// Appends an entry.
#[inline]
pub(super) fn append(out: &mut Vec<u8>, shared: usize, suffix: &[u8], change: Change) {
    varint::put(out, shared as u64);
    varint::put(out, (suffix.len() as u64) << 1 | u64::from(change == Change::Removed));
    out.extend_from_slice(suffix);
}

/// A leaf being filled, with its tally.
#[derive(Debug)]
pub(super) struct FillingLeaf {
    pub(super) block: Filling,
    pub(super) tally: Tally,
}

impl FillingLeaf {
    pub(super) fn new() -> FillingLeaf {
        FillingLeaf { block: Filling::new(), tally: Tally::default() }
    }

    /// Adds a key that shares `shared` bytes with the last one; false if the leaf is full.
    #[inline]
    pub(super) fn add(&mut self, key: &[u8], shared: usize, change: Change) -> bool {
        let shared = if self.block.count == 0 { 0 } else { shared };
        let is_added = self.block.add(1, |out| append(out, shared, &key[shared..], change));
        if is_added {
            self.tally.count(change);
        }
        is_added
    }
}

/// A decoded leaf. It is refilled in place, so that reading on allocates nothing.
#[derive(Debug, Default)]
pub(super) struct Leaf {
    /// Position of the leaf.
    pub(super) child: Child,
    pub(super) bytes: Vec<u8>,
    entries: Vec<(Piece, Change)>,
    /// The last key.
    last: Vec<u8>,
}

impl Leaf {
    /// Decodes `bytes`, which hold `count` entries up to `end`. An error names the flaw and leaves
    /// the leaf unusable.
    pub(super) fn decode(&mut self, child: &Child, count: usize, end: usize) -> Result<(), &'static str> {
        let mut rest = &self.bytes[OrderedBlock::BYTES..end];
        let mut tally = Tally::default();
        self.entries.clear();
        self.last.clear();
        for _ in 0..count {
            let shared = varint::take(&mut rest).ok_or(NO_LEAF)?;
            let coded = varint::take(&mut rest).ok_or(NO_LEAF)?;
            let (len, change) = (coded >> 1, Change::of(coded & 1 == 1));
            let (at, shared) = (end - rest.len(), usize::try_from(shared).map_err(|_| NO_LEAF)?);
            let (suffix, behind) =
                usize::try_from(len).ok().and_then(|len| rest.split_at_checked(len)).ok_or(NO_LEAF)?;
            if !front::rises(&self.last, shared, suffix) {
                return Err("the keys of a leaf are not in order");
            }
            if shared + suffix.len() > MAX_KEY_BYTES {
                return Err(NO_LEAF);
            }
            self.last.truncate(shared);
            self.last.extend_from_slice(suffix);
            self.entries.push((Piece { shared: shared as u32, at: at as u32, len: suffix.len() as u32 }, change));
            tally.count(change);
            rest = behind;
        }
        if !rest.is_empty() {
            return Err(NO_LEAF);
        }
        self.child = *child;
        if tally == child.tally { Ok(()) } else { Err("a leaf's entries differ from its parent's counts") }
    }

    /// Number of entries.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The bytes after the last entry.
    pub(super) fn rest(&self) -> &[u8] {
        let end = self.entries.last().map_or(0, |(piece, _)| (piece.at + piece.len) as usize);
        &self.bytes[end..]
    }

    /// The first key, which is stored whole.
    pub(super) fn first(&self) -> &[u8] {
        self.entries.first().map_or(&[], |(piece, _)| piece.suffix(&self.bytes))
    }

    /// The last key.
    pub(super) fn last(&self) -> &[u8] {
        &self.last
    }

    /// The change of an entry.
    #[inline]
    pub(super) fn change(&self, nth: usize) -> Change {
        self.entries[nth].1
    }

    /// Number of bytes that a key shares with the key before.
    #[inline]
    pub(super) fn shared(&self, nth: usize) -> usize {
        self.entries[nth].0.shared as usize
    }

    /// Number of keys below `key`.
    pub(super) fn below(&self, key: &[u8]) -> usize {
        front::below(&self.bytes, self.entries.iter().map(|(piece, _)| *piece), key, false)
    }

    /// Tally of the first `count` entries.
    pub(super) fn tally(&self, count: usize) -> Tally {
        let mut tally = Tally::default();
        self.entries[..count].iter().for_each(|(_, change)| tally.count(*change));
        tally
    }

    /// Makes `key` the key of entry `nth`; its first `known` bytes are already right.
    #[inline]
    pub(super) fn key(&self, nth: usize, known: usize, key: &mut Vec<u8>) {
        let piece = self.entries[nth].0;
        key.truncate(known);
        if piece.shared as usize <= known {
            key.extend_from_slice(&piece.suffix(&self.bytes)[known - piece.shared as usize..]);
        } else {
            self.gather(nth, known, key);
        }
    }

    /// Collects the bytes from `known` on, from as many entries before as needed.
    fn gather(&self, nth: usize, known: usize, key: &mut Vec<u8>) {
        let mut missing = self.entries[nth].0.text_len();
        key.resize(missing, 0);
        for (piece, _) in self.entries[..=nth].iter().rev() {
            let (shared, from) = (piece.shared as usize, known.max(piece.shared as usize));
            if from < missing {
                let suffix = piece.suffix(&self.bytes);
                key[from..missing].copy_from_slice(&suffix[from - shared..missing - shared]);
                missing = from;
            }
            if missing == known {
                return;
            }
        }
    }
}
