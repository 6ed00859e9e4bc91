//! One block: a piece of the trie, its keys in order, each written as how much it shares with the one before and the rest.
//!
//! That is a path-compressed trie in the order of a walk through it: an entry's *shared* is the depth of the node at which it
//! leaves the path before, its *rest* the edge. No pointer stands in a leaf. The first entry of a block shares nothing.
//!
//! An entry is: shared, length of the rest (each one byte, or 255 and two bytes), the rest, and in an inner block the
//! number of the block that holds the keys from this one on (4 bytes).
//!
//! A search compares no key as a whole: while it goes on it knows how many bytes the entry before shares with the key that is sought, and
//! an entry that shares more than that with its predecessor cannot be nearer.

use super::arena::BlockId;

/// A length that does not fit one byte.
const WIDE: u8 = 255;

/// Whether a block's entries lead to other blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Leaf,
    Inner,
}

/// An entry as it stands in its block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub(super) shared: usize,
    pub(super) rest: &'a [u8],
    /// 0 in a leaf.
    pub(super) child: BlockId,
    /// Where the next entry begins.
    pub(super) end: usize,
}

/// Where a key stands in a block, or would stand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    /// Where the first entry greater than the key begins (the block's end, if there is none).
    pub(super) offset: usize,
    /// How many bytes the key shares with the entry before `offset`.
    pub(super) shared: usize,
    /// How many it shares with the entry at `offset`.
    pub(super) shared_after: usize,
    /// Whether the entry before is the key itself.
    pub(super) is_found: bool,
    /// The child of the entry before, or of the first entry if there is none.
    pub(super) child: BlockId,
}

/// The entry at `at`; `None` at the end, or if the bytes are no entry.
#[inline]
pub(super) fn entry(block: &[u8], at: usize, kind: Kind) -> Option<Entry<'_>> {
    let (shared, rest_len, start) = match *block.get(at..)? {
        [shared, rest, ..] if shared != WIDE && rest != WIDE => (usize::from(shared), usize::from(rest), at + 2),
        [] => return None,
        _ => {
            let (shared, next) = length(block, at)?;
            let (rest, next) = length(block, next)?;
            (shared, rest, next)
        }
    };
    let rest = block.get(start..start + rest_len)?;
    let end = start + rest_len;
    match kind {
        Kind::Leaf => Some(Entry { shared, rest, child: 0, end }),
        Kind::Inner => {
            let child = u32::from_le_bytes(*block.get(end..)?.first_chunk::<4>()?);
            Some(Entry { shared, rest, child, end: end + 4 })
        }
    }
}

fn length(block: &[u8], at: usize) -> Option<(usize, usize)> {
    match *block.get(at..)? {
        [WIDE, low, high, ..] => Some((usize::from(u16::from_le_bytes([low, high])), at + 3)),
        [WIDE, ..] | [] => None,
        [byte, ..] => Some((usize::from(byte), at + 1)),
    }
}

/// Finds `key`.
#[inline]
pub(super) fn find(block: &[u8], key: &[u8], kind: Kind) -> Position {
    let mut position = Position { offset: 0, shared: 0, shared_after: 0, is_found: false, child: 0 };
    while let Some(entry) = entry(block, position.offset, kind) {
        if position.offset == 0 {
            position.child = entry.child;
        }
        if entry.shared == position.shared {
            let common = common(entry.rest, &key[entry.shared..]);
            let shared = entry.shared + common;
            let is_prefix = common == entry.rest.len();
            if is_prefix && shared == key.len() {
                return Position { offset: entry.end, shared, shared_after: 0, is_found: true, child: entry.child };
            }
            if !is_prefix && (shared == key.len() || entry.rest[common] > key[shared]) {
                position.shared_after = shared;
                return position;
            }
            position.shared = shared;
        } else if entry.shared < position.shared {
            position.shared_after = entry.shared;
            return position;
        }
        position.offset = entry.end;
        position.child = entry.child;
    }
    position
}

/// How many bytes two texts begin with alike.
#[inline]
pub(super) fn common(a: &[u8], b: &[u8]) -> usize {
    // Eight at a time: the beginnings of two URLs are long.
    let (a_words, b_words) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
    for (i, (a, b)) in a_words.iter().zip(b_words).enumerate() {
        let differing = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differing != 0 {
            return i * 8 + differing.trailing_zeros() as usize / 8;
        }
    }
    let done = a_words.len().min(b_words.len()) * 8;
    done + a[done..].iter().zip(&b[done..]).take_while(|(a, b)| a == b).count()
}

/// What has to be put into a block at `position.offset` for `key`, and how many bytes it takes the place of: the entry after it, if
/// there is one, is written anew, as it may share more with the key than with the one before.
pub(super) fn insertion(block: &[u8], position: Position, key: &[u8], child: BlockId, kind: Kind) -> (usize, Vec<u8>) {
    let mut bytes = Vec::with_capacity(key.len() - position.shared + 12);
    push(&mut bytes, position.shared, &key[position.shared..], child, kind);
    let Some(next) = entry(block, position.offset, kind) else { return (0, bytes) };
    let gone = position.shared_after - next.shared;
    push_lengths(&mut bytes, position.shared_after, next.rest.len() - gone);
    let rest_start = next.end - next.rest.len() - if kind == Kind::Inner { 4 } else { 0 };
    (rest_start + gone - position.offset, bytes)
}

/// Writes an entry.
pub(super) fn push(bytes: &mut Vec<u8>, shared: usize, rest: &[u8], child: BlockId, kind: Kind) {
    push_lengths(bytes, shared, rest.len());
    bytes.extend_from_slice(rest);
    if kind == Kind::Inner {
        bytes.extend_from_slice(&child.to_le_bytes());
    }
}

fn push_lengths(bytes: &mut Vec<u8>, shared: usize, rest: usize) {
    for length in [shared, rest] {
        match u8::try_from(length).ok().filter(|length| *length != WIDE) {
            Some(length) => bytes.push(length),
            None => {
                bytes.push(WIDE);
                bytes.extend_from_slice(&(length as u16).to_le_bytes());
            }
        }
    }
}

/// A block cut in two.
pub(super) struct Halves {
    /// Where the left half ends.
    pub(super) left_len: usize,
    pub(super) right: Vec<u8>,
    /// The least key that tells the halves apart: keys from it on are in the right one.
    pub(super) separator: Vec<u8>,
}

/// Cuts a block before the first entry that begins at `from` or later, and is not the first. `None` if there is none.
pub(super) fn cut(block: &[u8], from: usize, kind: Kind) -> Option<Halves> {
    let (mut at, mut key) = (0, Vec::new());
    while let Some(entry) = entry(block, at, kind) {
        key.truncate(entry.shared);
        key.extend_from_slice(entry.rest);
        if at >= from && at > 0 {
            let mut right = Vec::with_capacity(block.len() - at + key.len() + 6);
            push(&mut right, 0, &key, entry.child, kind);
            right.extend_from_slice(&block[entry.end..]);
            // A leaf's separator is as short as can be; an inner block's leads on to children and stays whole.
            let len = if kind == Kind::Leaf { entry.shared + 1 } else { key.len() };
            key.truncate(len);
            return Some(Halves { left_len: at, right, separator: key });
        }
        at = entry.end;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn keys(block: &[u8]) -> Vec<Vec<u8>> {
        let (mut at, mut key, mut keys) = (0, Vec::new(), Vec::new());
        while let Some(entry) = entry(block, at, Kind::Leaf) {
            key.truncate(entry.shared);
            key.extend_from_slice(entry.rest);
            keys.push(key.clone());
            at = entry.end;
        }
        assert_eq!(at, block.len());
        keys
    }

    #[test]
    fn keys_inserted_in_any_order_are_found_and_stand_in_order() {
        let mut rng = fastrand::Rng::with_seed(2);
        for _ in 0..300 {
            let (mut block, mut expected) = (Vec::new(), BTreeSet::new());
            for _ in 0..60 {
                let len = if rng.u8(..20) == 0 { rng.usize(250..700) } else { rng.usize(1..8) };
                let key: Vec<u8> = (0..len).map(|_| rng.u8(b'a'..=b'b')).collect();
                let position = find(&block, &key, Kind::Leaf);
                assert_eq!(position.is_found, !expected.insert(key.clone()));
                if !position.is_found {
                    let (removed, with) = insertion(&block, position, &key, 0, Kind::Leaf);
                    block.splice(position.offset..position.offset + removed, with);
                }
                assert!(find(&block, &key, Kind::Leaf).is_found);
            }
            assert_eq!(keys(&block), expected.iter().cloned().collect::<Vec<_>>());
            let halves = cut(&block, block.len() / 2, Kind::Leaf).or_else(|| cut(&block, 1, Kind::Leaf));
            let halves = halves.expect("many entries");
            let (left, right) = (keys(&block[..halves.left_len]), keys(&halves.right));
            assert!(left.last() < Some(&halves.separator) && halves.separator <= right[0]);
            assert_eq!([left, right].concat(), keys(&block));
        }
    }

    #[test]
    fn bytes_that_are_no_entry_are_none() {
        for bytes in [&[][..], &[1], &[0, 5, 1, 2], &[255, 1], &[255, 1, 0, 255, 3], &[0, 255, 200, 0, 1]] {
            assert!(entry(bytes, 0, Kind::Leaf).is_none(), "{bytes:?}");
        }
        assert!(entry(&[0, 1, 7, 1, 2, 3], 0, Kind::Inner).is_none());
    }
}
