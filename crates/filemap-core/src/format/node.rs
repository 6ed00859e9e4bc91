//! A node page of address.idx: a range of the directory, of the segment table or of the list of
//! runs, or the page numbers of nodes one level below.
//!
//! The segment table has the words of [`row`](super::row), the list of runs those of
//! [`run`](super::run). A directory entry with page 0 is a leaf without slots, which has no page.

use filemap_io::layout::{Wire, Zeros, is_reserved_zero};

use super::bits::Bits;
use super::{Flaw, PAGE_BYTES, all_zero, seeded_crc};

filemap_io::layout! {
    /// The head of a node.
    pub(crate) struct Layout {
        0 CRC: u32 = "CRC-32 of bytes 4..4096, seeded with store id and page number";
        4 KIND: u8 = "2 = node";
        5 LEVEL: u8 = "level: 0 holds directory entries, 64 words of the segment table, 128 those of the list of runs, any other the page numbers of nodes of level n - 1";
        6 ENTRIES: u16 = "number of entries, up to 508";
        8 EPOCH: u64 = "epoch of the superblock that first names the page";
        16 FIRST: u64 = "index of the first entry in its level";
        24 RESERVED: Zeros<8> = "reserved, zero";
        .. "32", "8 each" = "entries";
    }
}

const DEPTH: Bits = Bits { word: 0, low: 48, bits: 8, text: "depth of the leaf" };
const COUNT: Bits = Bits { word: 0, low: 32, bits: 16, text: "number of its slots" };
const PAGE: Bits = Bits { word: 0, low: 0, bits: 32, text: "page, 0 for a leaf without slots" };

/// The fields of a directory entry, for docs/FORMAT.md.
#[cfg(test)]
pub(super) const ENTRY_FIELDS: [Bits; 3] = [DEPTH, COUNT, PAGE];

/// Entries of a full node.
pub(crate) const CAPACITY: usize = (PAGE_BYTES - HEADER_BYTES) / ENTRY_BYTES;
const ENTRY_BYTES: usize = u64::BYTES;
/// Lowest level of the segment table's tree.
pub(crate) const TABLE_LEVEL: u8 = 64;
const HEADER_BYTES: usize = Layout::BYTES;
const KIND: u8 = 2;

/// A directory entry: the leaf of a range of hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) page: u32,
    pub(crate) count: u16,
    pub(crate) depth: u8,
}

impl Entry {
    pub(crate) fn pack(self) -> u64 {
        PAGE.at(u64::from(self.page)) | COUNT.at(u64::from(self.count)) | DEPTH.at(u64::from(self.depth))
    }

    /// Unpacks a word; ignores the upper 8 bits, which are free for use in memory.
    pub(crate) fn unpack(word: u64) -> Entry {
        Entry { page: PAGE.of(word) as u32, count: COUNT.of(word) as u16, depth: DEPTH.of(word) as u8 }
    }
}

/// A decoded node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) level: u8,
    pub(crate) epoch: u64,
    pub(crate) first: u64,
    pub(crate) entries: Vec<u64>,
}

/// Encodes a node for page number `page`.
pub(crate) fn encode(seed: u32, page: u32, level: u8, epoch: u64, first: u64, entries: &[u64]) -> [u8; PAGE_BYTES] {
    assert!(entries.len() <= CAPACITY);
    let mut b = [0; PAGE_BYTES];
    Layout::KIND.put(&mut b, KIND);
    Layout::LEVEL.put(&mut b, level);
    Layout::ENTRIES.put(&mut b, entries.len() as u16);
    Layout::EPOCH.put(&mut b, epoch);
    Layout::FIRST.put(&mut b, first);
    for (entry, out) in entries.iter().zip(b[HEADER_BYTES..].chunks_exact_mut(ENTRY_BYTES)) {
        entry.write(out);
    }
    let crc = seeded_crc(seed, u64::from(page), &b[Layout::CRC.end()..]);
    Layout::CRC.put(&mut b, crc);
    b
}

/// Returns true if a page has the kind of a node.
pub(crate) fn is_node(page: &[u8]) -> bool {
    Layout::KIND.get(page) == KIND
}

/// Decodes and verifies a node read from page number `page`.
pub(crate) fn decode(seed: u32, page: u32, b: &[u8]) -> Result<Node, Flaw> {
    if b.len() != PAGE_BYTES {
        return Err("node page is cut off");
    }
    if seeded_crc(seed, u64::from(page), &b[Layout::CRC.end()..]) != Layout::CRC.get(b) {
        return Err("node page checksum mismatch");
    }
    let count = usize::from(Layout::ENTRIES.get(b));
    if Layout::KIND.get(b) != KIND {
        return Err("not a node page");
    }
    if count > CAPACITY {
        return Err("node page header is out of range");
    }
    let used = HEADER_BYTES + ENTRY_BYTES * count;
    if !is_reserved_zero(Layout::ROWS, b) || !all_zero(&b[used..]) {
        return Err("reserved bytes of a node page are not zero");
    }
    Ok(Node {
        level: Layout::LEVEL.get(b),
        epoch: Layout::EPOCH.get(b),
        first: Layout::FIRST.get(b),
        entries: b[HEADER_BYTES..used].chunks_exact(ENTRY_BYTES).map(u64::read).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_entries_come_back() {
        let entry = Entry { page: u32::MAX, count: 254, depth: 47 };
        assert_eq!(Entry::unpack(entry.pack() | 0xff << 56), entry);
        for n in [0, 3, CAPACITY] {
            let entries: Vec<u64> = (0..n as u64).map(|i| i * i).collect();
            let page = encode(1, 2, 1, 4, 508, &entries);
            assert_eq!(decode(1, 2, &page).unwrap(), Node { level: 1, epoch: 4, first: 508, entries });
            assert!(decode(1, 3, &page).is_err());
        }
        let page = encode(1, 2, 1, 4, 508, &[1, 2, 3]);
        for at in 0..PAGE_BYTES {
            let mut bad = page;
            bad[at] ^= 1;
            assert!(decode(1, 2, &bad).is_err(), "byte {at}");
        }
    }
}
