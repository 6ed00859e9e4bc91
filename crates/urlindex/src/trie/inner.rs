//! An inner block: the shortest separators of the blocks below, in order, and their addresses.
//!
//! All keys of the block share a prefix, given by the separators around it in the block above and
//! not stored here. The next eight bytes of each separator, its *head*, are a number: a search
//! counts heads not greater than the key's, and compares texts only among equal heads.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | number of entries |
//! | 2 | 2 | length of the shared prefix |
//! | 8 | 16 each | head, padded with zeros, and address |
//! | | 4 each | end of the text, from the end of these numbers on |
//! | | | texts, heads included |

use super::arena::Address;
use super::key::common;
use super::key::{HEAD_BYTES, Key, head};

const HEADER_BYTES: usize = 8;
const LINK_BYTES: usize = HEAD_BYTES + Address::BYTES;
const ENTRY_BYTES: usize = LINK_BYTES + 4;

/// A decoded inner block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inner<'a> {
    pub(super) len: usize,
    /// Length of the shared prefix.
    pub(super) prefix_len: usize,
    links: &'a [[u8; LINK_BYTES]],
    ends: &'a [[u8; 4]],
    texts: &'a [u8],
}

/// A separator without the shared prefix, and an address.
pub(super) type Entry<'a> = (&'a [u8], Address);

impl<'a> Inner<'a> {
    #[inline]
    pub(super) fn of(bytes: &'a [u8]) -> Inner<'a> {
        let (header, rest) = bytes.split_at(HEADER_BYTES);
        let len = usize::from(u16::from_le_bytes([header[0], header[1]]));
        let prefix_len = usize::from(u16::from_le_bytes([header[2], header[3]]));
        let (links, rest) = rest.split_at(len * LINK_BYTES);
        let (ends, texts) = rest.split_at(len * 4);
        Inner { len, prefix_len, links: links.as_chunks().0, ends: ends.as_chunks().0, texts }
    }

    /// Bytes in use.
    pub(super) fn used_bytes(&self) -> usize {
        HEADER_BYTES + self.len * ENTRY_BYTES + self.len.checked_sub(1).map_or(0, |last| self.end(last))
    }

    #[inline]
    fn end(&self, number: usize) -> usize {
        u32::from_le_bytes(self.ends[number]) as usize
    }

    /// A separator without the shared prefix.
    #[inline]
    fn text(&self, number: usize) -> &'a [u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.end(before));
        &self.texts[start..self.end(number)]
    }

    #[inline]
    pub(super) fn child(&self, number: usize) -> Address {
        let [.., a, b, c, d, e, f, g, h] = self.links[number];
        Address::of([a, b, c, d, e, f, g, h])
    }

    /// Number of the entry whose block a key belongs to: the last that is not greater.
    #[inline]
    pub(super) fn find(&self, key: &Key<'_>) -> usize {
        let head = key.head(self.prefix_len);
        // Count all heads: no branch to predict, and all are fetched at once.
        let count = self.links.iter().filter(|link| head_of(link) <= head).count();
        let last = count.saturating_sub(1);
        if head_of(&self.links[last]) == head { self.find_among(key, head, count) } else { last }
    }

    /// The search among equal heads: the first `end` entries have no greater head, and the last of
    /// those the same.
    fn find_among(&self, key: &Key<'_>, head: u64, end: usize) -> usize {
        let start = self.links[..end].partition_point(|link| head_of(link) < head);
        let (rest, mut at, mut len) = (&key.text[self.prefix_len..], start, end - start);
        while len > 0 {
            let half = len.div_ceil(2);
            if self.text(at + half - 1) <= rest {
                at += half;
            }
            len -= half;
        }
        at.saturating_sub(1)
    }

    /// A whole separator. `like` is any key of this block.
    pub(super) fn whole_text(&self, number: usize, like: &[u8]) -> Vec<u8> {
        [&like[..self.prefix_len], self.text(number)].concat()
    }

    /// All entries, in order.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry<'a>> {
        let inner = *self;
        (0..self.len).map(move |number| (inner.text(number), inner.child(number)))
    }
}

/// Changes an entry's address.
pub(super) fn set_child(bytes: &mut [u8], number: usize, child: Address) {
    let at = HEADER_BYTES + number * LINK_BYTES + HEAD_BYTES;
    bytes[at..at + Address::BYTES].copy_from_slice(&child.to_bytes());
}

/// Encodes a block of these entries, whose keys share `prefix_len` bytes; the first `gone` bytes
/// of their texts are left out.
pub(super) fn written(entries: &[Entry<'_>], prefix_len: usize, gone: usize) -> Vec<u8> {
    let texts = || entries.iter().map(|(text, _)| &text[gone..]);
    let texts_len: usize = texts().map(<[u8]>::len).sum();
    let mut bytes = Vec::with_capacity(HEADER_BYTES + entries.len() * ENTRY_BYTES + texts_len);
    bytes.extend((entries.len() as u16).to_le_bytes());
    bytes.extend((prefix_len as u16).to_le_bytes());
    bytes.resize(HEADER_BYTES, 0);
    for (text, (_, child)) in texts().zip(entries) {
        bytes.extend(head(text).to_le_bytes());
        bytes.extend(child.to_bytes());
    }
    let mut end = 0;
    for text in texts() {
        end += text.len();
        bytes.extend((end as u32).to_le_bytes());
    }
    texts().for_each(|text| bytes.extend_from_slice(text));
    bytes
}

/// The place to cut entries: where neighbours share least, so that parts have more in common and
/// heads tell more. Near the middle by number, not by bytes, so that no half has few long ones.
pub(super) fn cutting_place(entries: &[Entry<'_>]) -> usize {
    let (near, half) = (entries.len() * 3 / 8, entries.len() / 2);
    let rank = |at: &usize| (common(entries[at - 1].0, entries[*at].0), at.abs_diff(half));
    (near.max(1)..=entries.len() - near.max(1)).min_by_key(rank).unwrap_or(half)
}

#[inline]
fn head_of(link: &[u8; LINK_BYTES]) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *link;
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_leads_to_the_last_text_that_is_not_greater() {
        let mut rng = fastrand::Rng::with_seed(4);
        let mut arena = super::super::arena::Arena::default();
        for _ in 0..300 {
            let text = |rng: &mut fastrand::Rng| {
                let stem = [&b""[..], b"12345678", b"1234567", b"12345678\0", b"1234567812345678"][rng.usize(..5)];
                let rest: Vec<u8> = (0..rng.usize(..4)).map(|_| [0, 1, b'1', 255][rng.usize(..4)]).collect();
                [b"ab", stem, &rest].concat()
            };
            let mut texts: Vec<Vec<u8>> = (0..rng.usize(1..40)).map(|_| text(&mut rng)).collect();
            texts.sort();
            texts.dedup();
            let prefix_len = rng.usize(..3);
            let entries: Vec<Entry<'_>> = texts.iter().map(|text| (&text[prefix_len.min(1)..], arena.add(1))).collect();
            let bytes = written(&entries, prefix_len, prefix_len - prefix_len.min(1));
            let inner = Inner::of(&bytes);
            assert_eq!((inner.len, inner.used_bytes()), (texts.len(), bytes.len()));
            for (number, text) in texts.iter().enumerate() {
                assert_eq!((&inner.whole_text(number, b"ab"), inner.child(number)), (text, entries[number].1));
            }
            assert_eq!(inner.entries().count(), texts.len());
            for _ in 0..200 {
                let key = if rng.bool() { text(&mut rng) } else { texts[rng.usize(..texts.len())].clone() };
                let expected = texts.partition_point(|text| *text <= key).saturating_sub(1);
                assert_eq!(inner.find(&Key::new(&key)), expected, "{texts:?} {key:?}");
            }
        }
    }
}
