//! A block above the leaves: the shortest texts that tell the blocks below apart, in order, and the addresses of those.
//!
//! Each text is written as how much it shares with the one before and the rest: its *head*, by which it differs, and what follows. All keys that
//! belong here begin with the bytes that the texts around the block, in the block above, begin with. The block does not
//! have these: its first entry counts them as shared.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 2 | the arena's |
//! | 2 | 2 | the number of entries; 2^15 more if the first one is empty, and so has no head |
//! | 4 | 4 each | what each shares, times 256, and 255 less its head |
//! | | 4 each | where what follows their heads ends, from the end of all these numbers on |
//! | | 4 each | the addresses |
//! | | | what follows the heads |
//!
//! A search compares no text as a whole: while it goes on it knows how many bytes the entry before shares with the key. An entry
//! that shares more than that with its predecessor cannot be nearer; one that shares as much and has a lesser head is passed over, too: both are
//! entries of a greater number than one that is known, so that the search is for the next number that is not.

use super::arena::{Address, UNITS_BYTES};
use super::code::common;

const HEADER_BYTES: usize = UNITS_BYTES + 2;
const FIRST_EMPTY: u16 = 1 << 15;
/// Three numbers.
const ENTRY_BYTES: usize = 12;

/// A block as it is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inner<'a> {
    pub(super) len: usize,
    is_first_empty: bool,
    marks: &'a [[u8; 4]],
    ends: &'a [[u8; 4]],
    children: &'a [[u8; 4]],
    rests: &'a [u8],
}

/// What an entry shares with the one before, and its head, as one number: of entries in order that leave the path of a key, the nearest to it
/// has the least.
#[inline]
fn mark(shared: usize, head: u8) -> u32 {
    (shared as u32) << 8 | u32::from(!head)
}

impl<'a> Inner<'a> {
    #[inline]
    pub(super) fn of(bytes: &'a [u8]) -> Inner<'a> {
        let count = u16::from_le_bytes([bytes[2], bytes[3]]);
        let len = usize::from(count & !FIRST_EMPTY);
        let (marks, rest) = bytes[HEADER_BYTES..].split_at(len * 4);
        let (ends, rest) = rest.split_at(len * 4);
        let (children, rests) = rest.split_at(len * 4);
        let (marks, ends, children) = (marks.as_chunks().0, ends.as_chunks().0, children.as_chunks().0);
        Inner { len, is_first_empty: count & FIRST_EMPTY != 0, marks, ends, children, rests }
    }

    /// So many of its bytes are used.
    pub(super) fn used_bytes(&self) -> usize {
        let rests_len = self.len.checked_sub(1).map_or(0, |last| self.end(last));
        HEADER_BYTES + self.len * ENTRY_BYTES + rests_len
    }

    #[inline]
    fn end(&self, number: usize) -> usize {
        u32::from_le_bytes(self.ends[number]) as usize
    }

    #[inline]
    fn rest(&self, number: usize) -> &'a [u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.end(before));
        &self.rests[start..self.end(number)]
    }

    #[inline]
    fn mark(&self, number: usize) -> u32 {
        u32::from_le_bytes(self.marks[number])
    }

    fn shared(&self, number: usize) -> usize {
        (self.mark(number) >> 8) as usize
    }

    /// How many bytes all keys that belong here begin with.
    pub(super) fn prefix_len(&self) -> usize {
        if self.len == 0 { 0 } else { self.shared(0) }
    }

    #[inline]
    pub(super) fn child(&self, number: usize) -> Address {
        u32::from_le_bytes(self.children[number])
    }

    /// The number of the entry whose block a key belongs to: the last one that is not greater.
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> usize {
        let mut shared = self.prefix_len();
        let mut number = usize::from(self.is_first_empty);
        loop {
            // Whatever there is comes after a key that is over.
            let wanted = key.get(shared).map_or(mark(shared, 0), |head| mark(shared, *head));
            number = next_at_most(self.marks, number, wanted);
            // One that shares less, or as much and has a greater head, comes after the key.
            if number == self.len || self.mark(number) != wanted || shared == key.len() {
                return number.saturating_sub(1);
            }
            let (rest, left) = (self.rest(number), &key[shared + 1..]);
            let alike = common(rest, left);
            shared += 1 + alike;
            if rest.get(alike).is_some_and(|next| left.get(alike).is_none_or(|byte| next > byte)) {
                return number.saturating_sub(1);
            }
            number += 1;
        }
    }

    /// Calls `each` with the entries' numbers and texts, in order, as long as it says true. `like` is any key that belongs here.
    fn walk(&self, like: &[u8], mut each: impl FnMut(usize, &[u8]) -> bool) {
        let mut text = like[..self.prefix_len()].to_vec();
        for number in 0..self.len {
            text.truncate(self.shared(number));
            if number > 0 || !self.is_first_empty {
                text.push(!(self.mark(number) as u8));
            }
            text.extend_from_slice(self.rest(number));
            if !each(number, &text) {
                return;
            }
        }
    }

    /// The text of one entry.
    pub(super) fn text(&self, number: usize, like: &[u8]) -> Vec<u8> {
        let mut found = Vec::new();
        self.walk(like, |at, text| {
            if at == number {
                found = text.to_vec();
            }
            at < number
        });
        found
    }

    /// The texts of all entries, and the blocks to which they lead.
    pub(super) fn entries(&self, like: &[u8]) -> Vec<(Vec<u8>, Address)> {
        let mut entries = Vec::with_capacity(self.len + 1);
        self.walk(like, |number, text| {
            entries.push((text.to_vec(), self.child(number)));
            true
        });
        entries
    }
}

/// Makes a block lead elsewhere.
pub(super) fn set_child(bytes: &mut [u8], number: usize, child: Address) {
    let len = Inner::of(bytes).len;
    let at = HEADER_BYTES + len * 8 + number * 4;
    bytes[at..at + 4].copy_from_slice(&child.to_le_bytes());
}

/// A block of these entries, which all begin with `prefix_len` bytes alike, as bytes of which the first are the arena's. Only the first
/// text may be no longer than that.
pub(super) fn written(entries: &[(Vec<u8>, Address)], prefix_len: usize) -> Vec<u8> {
    let is_first_empty = entries.first().is_some_and(|(text, _)| text.len() == prefix_len);
    let (mut marks, mut ends, mut children, mut rests) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut before: Option<&[u8]> = None;
    for (text, child) in entries {
        let shared = before.map_or(prefix_len, |before| common(before, text));
        let head = text.get(shared).copied().unwrap_or_default();
        rests.extend_from_slice(text.get(shared + 1..).unwrap_or_default());
        marks.extend(mark(shared, head).to_le_bytes());
        ends.extend((rests.len() as u32).to_le_bytes());
        children.extend(child.to_le_bytes());
        before = Some(text);
    }
    let count = entries.len() as u16 | if is_first_empty { FIRST_EMPTY } else { 0 };
    [&[0; UNITS_BYTES], &count.to_le_bytes()[..], &marks, &ends, &children, &rests].concat()
}

/// The first from `from` on that is not greater than `wanted`; how many there are, if all are.
#[inline]
fn next_at_most(marks: &[[u8; 4]], from: usize, wanted: u32) -> usize {
    const TOGETHER: usize = 8;
    let (blocks, rest) = marks[from..].as_chunks::<TOGETHER>();
    for (nth, block) in blocks.iter().enumerate() {
        // All at once, without a branch for each: the compiler makes vectors of it.
        let is_here = block.map(|mark| u32::from_le_bytes(mark) <= wanted);
        if is_here.iter().fold(false, |any, is_here| any | is_here) {
            let at = is_here.iter().position(|is_here| *is_here).unwrap_or_default();
            return from + nth * TOGETHER + at;
        }
    }
    let first = from + blocks.len() * TOGETHER;
    first + rest.iter().position(|mark| u32::from_le_bytes(*mark) <= wanted).unwrap_or(rest.len())
}
