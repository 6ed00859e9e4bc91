//! Inner blocks: for each child its position, its tally, and a separator from the child before: a
//! text above that child's keys, and not above its own.
//!
//! A child is a row of LEB128 numbers: for all but the first the separator, front-coded (bytes
//! shared with the separator before, number of others, those); twice the pages between it and the
//! child before (for the first: twice its page), plus 1 if it is longer than a page, and then its
//! number of pages; entries in and below it; how many of them remove their key.

use filemap_io::varint;

use super::change::Tally;
use super::format::{BLOCK_PAGES_MAX, Child, Filling, MAX_KEY_BYTES, OrderedBlock};
use super::front::{self, Piece};

const NO_INNER: &str = "not an inner block";

/// An inner block being filled.
#[derive(Debug)]
pub(super) struct FillingInner {
    pub(super) block: Filling,
    pub(super) tally: Tally,
    /// Separator of the first child from the entries before it; the parent stores it.
    pub(super) first: Vec<u8>,
    /// The last child.
    pub(super) child: Child,
    /// Its separator.
    last: Vec<u8>,
}

impl FillingInner {
    pub(super) fn new() -> FillingInner {
        let (first, last) = (Vec::new(), Vec::new());
        FillingInner { block: Filling::new(), tally: Tally::default(), first, child: Child::default(), last }
    }

    /// Adds a child; false if the block is full. It always takes two: with one child a block, a
    /// level would be as long as the one below it.
    pub(super) fn add(&mut self, separator: &[u8], child: &Child) -> bool {
        let is_first = self.block.count == 0;
        let shared = front::common(&self.last, separator);
        let gap = if is_first { child.page } else { child.page - self.child.end() };
        let is_added = self.block.add(2, |out| {
            if !is_first {
                varint::put(out, shared as u64);
                varint::put(out, (separator.len() - shared) as u64);
                out.extend_from_slice(&separator[shared..]);
            }
            varint::put(out, gap << 1 | u64::from(child.pages > 1));
            if child.pages > 1 {
                varint::put(out, u64::from(child.pages));
            }
            varint::put(out, child.tally.entries);
            varint::put(out, child.tally.removed);
        });
        if is_added {
            let last = if is_first { &mut self.first } else { &mut self.last };
            last.clear();
            last.extend_from_slice(separator);
            self.child = *child;
            self.tally.entries += child.tally.entries;
            self.tally.removed += child.tally.removed;
        }
        is_added
    }
}

/// A decoded inner block.
#[derive(Debug)]
pub(super) struct Inner {
    bytes: Vec<u8>,
    children: Vec<(Piece, Child)>,
    end: usize,
}

impl Inner {
    /// Decodes `bytes`, which hold `count` children up to `end`. An error names the flaw.
    pub(super) fn decode(bytes: Vec<u8>, own: &Child, count: usize, end: usize) -> Result<Inner, &'static str> {
        let mut rest = &bytes[OrderedBlock::BYTES..end];
        let (mut children, mut tally) = (Vec::with_capacity(count), Tally::default());
        let (mut separator, mut before) = (Vec::new(), 0);
        for nth in 0..count {
            let mut piece = Piece::default();
            if nth > 0 {
                let shared = varint::take(&mut rest).and_then(|n| usize::try_from(n).ok()).ok_or(NO_INNER)?;
                let len = varint::take(&mut rest).and_then(|n| usize::try_from(n).ok()).ok_or(NO_INNER)?;
                let at = end - rest.len();
                let (suffix, behind) = rest.split_at_checked(len).ok_or(NO_INNER)?;
                if !front::rises(&separator, shared, suffix) {
                    return Err("the separators of an inner block are not in order");
                }
                if shared + len > MAX_KEY_BYTES {
                    return Err(NO_INNER);
                }
                separator.truncate(shared);
                separator.extend_from_slice(suffix);
                piece = Piece { shared: shared as u32, at: at as u32, len: len as u32 };
                rest = behind;
            }
            let child = take_child(&mut rest, before).ok_or(NO_INNER)?;
            before = child.end();
            tally = tally.plus(child.tally).ok_or(NO_INNER)?;
            children.push((piece, child));
        }
        if !rest.is_empty() {
            return Err(NO_INNER);
        }
        // Children lie before their parents, so no descent visits a block twice.
        if before > own.page {
            return Err("an inner block lies before one of its children");
        }
        match tally == own.tally {
            true => Ok(Inner { bytes, children, end }),
            false => Err("an inner block's entries differ from its parent's counts"),
        }
    }

    /// Number of children.
    pub(super) fn len(&self) -> usize {
        self.children.len()
    }

    pub(super) fn child(&self, nth: usize) -> Child {
        self.children[nth].1
    }

    /// The bytes after the last child.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.end..]
    }

    /// Number of the child that would hold `key`.
    pub(super) fn find(&self, key: &[u8]) -> usize {
        let separators = self.children.iter().skip(1).map(|(piece, _)| *piece);
        front::below(&self.bytes, separators, key, true)
    }

    /// Tally of the first `count` children.
    pub(super) fn tally(&self, count: usize) -> Tally {
        let tallies = self.children[..count].iter().map(|(_, child)| child.tally);
        // No overflow: their total is checked against the header.
        tallies.fold(Tally::default(), |sum, one| sum.plus(one).unwrap_or(sum))
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        (self.bytes.len() + size_of::<(Piece, Child)>() * self.children.len()) as u64
    }

    /// Turns `separator` from that of the child before into that of child `nth`.
    pub(super) fn separator(&self, nth: usize, separator: &mut Vec<u8>) {
        let piece = self.children[nth].0;
        separator.truncate(piece.shared as usize);
        separator.extend_from_slice(piece.suffix(&self.bytes));
    }
}

fn take_child(rest: &mut &[u8], before: u64) -> Option<Child> {
    let place = varint::take(rest)?;
    let page = before.checked_add(place >> 1)?;
    let pages = match place & 1 {
        0 => 1,
        _ => varint::take(rest).filter(|pages| (2..=BLOCK_PAGES_MAX as u64).contains(pages))?,
    };
    page.checked_add(pages).filter(|_| page > 0)?;
    let tally = Tally { entries: varint::take(rest)?, removed: varint::take(rest)? };
    let is_possible = tally.entries > 0 && tally.removed <= tally.entries;
    is_possible.then_some(Child { page, pages: pages as u32, tally })
}
