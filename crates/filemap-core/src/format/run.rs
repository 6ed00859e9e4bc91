//! The pages of a run: sorted slot changes that wait in address.idx until rewriting their leaves
//! pays.
//!
//! A run covers one part of the hash space, that of one value of the first seven bits. It consists
//! of groups: a summary, and the pages of changes after it. The list of runs is a tree of nodes;
//! it has three words for each run, and one for each of its groups.

use filemap_io::layout::{Wire, Zeros, get, is_reserved_zero};

use super::bits::Bits;
use super::bloom::place;
use super::leaf::{MIN_DEPTH, Slot};
use super::{Flaw, PAGE_BYTES, all_zero, seeded_crc};

filemap_io::layout! {
    /// The head of a page of changes.
    pub(crate) struct Layout {
        0 CRC: u32 = "CRC-32 of bytes 4..4096, seeded with store id and page number";
        4 KIND: u8 = "3 = changes";
        5 PART: u8 = "part: the first seven bits of the hashes";
        6 CHANGES: u16 = "number of changes, up to 254";
        8 EPOCH: u64 = "epoch of the superblock that first names the run";
        16 REPLACED: u16 = "number of changes that replace or remove a slot";
        18 RESERVED: Zeros<14> = "reserved, zero";
        .. "32", "16 each" = "changes: the new slots, sorted by hash; one whose key record has address 0 is removed";
        .. "-", "8 each" = "the addresses of replaced slots' key records in bits 0..39, the number of the change in bits 40..55, ascending";
    }
}

filemap_io::layout! {
    /// The head of a summary.
    pub(crate) struct SummaryLayout {
        0 CRC: u32 = "CRC-32 of bytes 4..4096, seeded with store id and page number";
        4 KIND: u8 = "4 = summary";
        5 PART: u8 = "part: the first seven bits of the hashes";
        6 PAGES: u16 = "number of pages of changes behind it, 1 to 7";
        8 EPOCH: u64 = "epoch of the superblock that first names the run";
        16 RESERVED: Zeros<16> = "reserved, zero";
        .. "32", "576 each" = "of each page: 8 bytes, the 40 hash bits of its first change; 568 bytes, its Bloom filter";
    }
}

/// Parts of the hash space.
pub(crate) const PARTS: usize = 1 << MIN_DEPTH;
/// Pages of changes in a full group.
pub(crate) const GROUP_PAGES: usize = if cfg!(filemap_loom) { 1 } else { 7 };
/// Words of the Bloom filter of one page.
pub(crate) const FILTER_WORDS: usize = if cfg!(filemap_loom) { 1 } else { 71 };
const PAGE_SUMMARY_BYTES: usize = 8 + 8 * FILTER_WORDS;
pub(crate) const HEADER_BYTES: usize = Layout::BYTES;
const KIND: u8 = 3;
const SUMMARY_KIND: u8 = 4;
const SLOT_BYTES: usize = 16;
const REPLACED_BYTES: usize = 8;

const _: () = assert!(SummaryLayout::BYTES + GROUP_PAGES * PAGE_SUMMARY_BYTES <= PAGE_BYTES);

const REPLACED_ADDRESS: Bits = Bits { word: 0, low: 0, bits: 40, text: "" };
const REPLACED_AT: Bits = Bits { word: 0, low: 40, bits: 16, text: "" };

/// Lowest level of the tree of the list of runs.
pub(crate) const LIST_LEVEL: u8 = 128;
/// Words of the list before those of its runs.
pub(crate) const HEAD_WORDS: usize = 2;
pub(crate) const SETTLING_PART: Bits = Bits { word: 0, low: 56, bits: 8, text: "the part that settles" };
pub(crate) const SETTLING_RUNS: Bits =
    Bits { word: 0, low: 0, bits: 32, text: "how many of its oldest runs settle, 0 for none" };
pub(crate) const SETTLED: Bits =
    Bits { word: 1, low: 0, bits: 64, text: "the first hash whose changes in them are not yet in its leaf" };
/// Words of a run in the list, before those of its groups.
pub(crate) const RUN_WORDS: usize = 3;
pub(crate) const PART: Bits = Bits { word: 0, low: 56, bits: 8, text: "part of the hash space" };
pub(crate) const LEVEL: Bits = Bits {
    word: 0,
    low: 48,
    bits: 8,
    text: "level: 0 written by a checkpoint, one more than that of the runs it was joined of",
};
pub(crate) const PAGES: Bits = Bits { word: 0, low: 0, bits: 32, text: "pages of changes" };
pub(crate) const CHANGES: Bits = Bits { word: 1, low: 0, bits: 64, text: "changes" };
pub(crate) const EPOCH: Bits =
    Bits { word: 2, low: 0, bits: 64, text: "epoch of the superblock that first names the run" };
pub(crate) const GROUP_HASH: Bits =
    Bits { word: 3, low: 32, bits: 32, text: "of each group: the upper 32 of the 40 hash bits of its first change" };
pub(crate) const GROUP_PAGE: Bits =
    Bits { word: 3, low: 0, bits: 32, text: "its summary's page; those of its changes follow" };

/// The fields of the list, for docs/FORMAT.md.
#[cfg(test)]
pub(super) const HEAD_FIELDS: [Bits; 3] = [SETTLING_PART, SETTLING_RUNS, SETTLED];
/// The fields of a run in the list, for docs/FORMAT.md.
#[cfg(test)]
pub(super) const FIELDS: [Bits; 7] = [PART, LEVEL, PAGES, CHANGES, EPOCH, GROUP_HASH, GROUP_PAGE];

/// A checkpoint's change of one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// The new slot. If its key record's address is 0, the slot is removed and only its hash
    /// counts.
    pub(crate) slot: Slot,
    /// Address of the key record of the slot that it replaces or removes, 0 for none. It tells
    /// that slot from those of other keys with the same hash bits.
    pub(crate) replaces: u64,
}

impl Change {
    pub(crate) fn hash(&self) -> u64 {
        self.slot.hash
    }

    pub(crate) fn removes(&self) -> bool {
        self.slot.key == 0
    }
}

/// Returns true if `changes` changes fit in a page; `replaced` of them replace or remove a slot.
pub(crate) fn fits(changes: usize, replaced: usize) -> bool {
    HEADER_BYTES + changes * SLOT_BYTES + replaced * REPLACED_BYTES <= PAGE_BYTES
}

/// Encodes changes, sorted by hash, for page number `page`.
///
/// Panics if they do not fit or are not sorted.
pub(crate) fn encode(seed: u32, page: u32, part: u8, epoch: u64, changes: &[Change]) -> [u8; PAGE_BYTES] {
    let replaced = changes.iter().filter(|c| c.replaces != 0).count();
    assert!(fits(changes.len(), replaced) && changes.is_sorted_by_key(Change::hash), "changes of no page");
    let mut b = [0; PAGE_BYTES];
    Layout::KIND.put(&mut b, KIND);
    Layout::PART.put(&mut b, part);
    Layout::CHANGES.put(&mut b, changes.len() as u16);
    Layout::EPOCH.put(&mut b, epoch);
    Layout::REPLACED.put(&mut b, replaced as u16);
    let (slots, addresses) = b[HEADER_BYTES..].split_at_mut(changes.len() * SLOT_BYTES);
    let mut addresses = addresses.chunks_exact_mut(REPLACED_BYTES);
    for ((nth, change), out) in changes.iter().enumerate().zip(slots.chunks_exact_mut(SLOT_BYTES)) {
        for (word, out) in change.slot.pack().into_iter().zip(out.chunks_exact_mut(u64::BYTES)) {
            word.write(out);
        }
        if change.replaces != 0
            && let Some(out) = addresses.next()
        {
            (REPLACED_AT.at(nth as u64) | REPLACED_ADDRESS.at(change.replaces)).write(out);
        }
    }
    let crc = seeded_crc(seed, u64::from(page), &b[Layout::CRC.end()..]);
    Layout::CRC.put(&mut b, crc);
    b
}

/// A decoded page of changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) part: u8,
    pub(crate) epoch: u64,
    pub(crate) changes: Vec<Change>,
}

/// Decodes and verifies a page of changes read from page number `page`.
pub(crate) fn decode(seed: u32, page: u32, b: &[u8]) -> Result<Changes, Flaw> {
    if b.len() != PAGE_BYTES {
        return Err("page of changes is cut off");
    }
    if seeded_crc(seed, u64::from(page), &b[Layout::CRC.end()..]) != Layout::CRC.get(b) {
        return Err("checksum mismatch in a page of changes");
    }
    if Layout::KIND.get(b) != KIND {
        return Err("not a page of changes");
    }
    let (count, replaced) = (usize::from(Layout::CHANGES.get(b)), usize::from(Layout::REPLACED.get(b)));
    if usize::from(Layout::PART.get(b)) >= PARTS || count == 0 || replaced > count || !fits(count, replaced) {
        return Err("header of a page of changes is out of range");
    }
    let slots_end = HEADER_BYTES + count * SLOT_BYTES;
    let used = slots_end + replaced * REPLACED_BYTES;
    if !is_reserved_zero(Layout::ROWS, b) || !all_zero(&b[used..]) {
        return Err("reserved bytes of a page of changes are not zero");
    }
    let mut changes: Vec<Change> = b[HEADER_BYTES..slots_end]
        .chunks_exact(SLOT_BYTES)
        .map(|s| Change { slot: Slot::unpack([0, 1].map(|word| get(s, word * u64::BYTES))), replaces: 0 })
        .collect();
    let mut next = 0;
    for word in b[slots_end..used].chunks_exact(REPLACED_BYTES).map(u64::read) {
        let (at, address) = replaced_of_word(word);
        if at < next || at >= count || address == 0 || word >> 56 != 0 {
            return Err("a page of changes has an invalid replaced slot");
        }
        changes[at].replaces = address;
        next = at + 1;
    }
    if !changes.is_sorted_by_key(Change::hash) {
        return Err("a page of changes is not in order");
    }
    if changes.iter().any(|c| c.removes() && c.replaces == 0) {
        return Err("a page of changes removes a slot that it does not name");
    }
    Ok(Changes { part: Layout::PART.get(b), epoch: Layout::EPOCH.get(b), changes })
}

/// Numbers of changes, and of changes that replace a slot, from the first and third word of a
/// page.
pub(crate) fn counts(first: u64, third: u64) -> (usize, usize) {
    ((first >> 48) as usize, (third & 0xffff) as usize)
}

/// Decodes a word: the number of a change, and the address of the key record it replaces.
pub(crate) fn replaced_of_word(word: u64) -> (usize, u64) {
    (REPLACED_AT.of(word) as usize, REPLACED_ADDRESS.of(word))
}

/// A decoded summary: tells which pages of a group may hold a hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) part: u8,
    pub(crate) epoch: u64,
    /// Hash bits of each page's first change.
    pub(crate) firsts: Vec<u64>,
    /// Words of the Bloom filters, page after page.
    pub(crate) filters: Vec<u64>,
}

impl Summary {
    /// Builds the summary of pages of changes.
    pub(crate) fn of(part: u8, epoch: u64, pages: &[&[Change]]) -> Summary {
        let mut filters = vec![0; pages.len() * FILTER_WORDS];
        for (changes, filter) in pages.iter().zip(filters.chunks_exact_mut(FILTER_WORDS)) {
            for change in *changes {
                let (word, mask) = place(change.hash(), FILTER_WORDS);
                filter[word] |= mask;
            }
        }
        Summary { part, epoch, firsts: pages.iter().map(|p| p[0].hash()).collect(), filters }
    }

    /// Numbers in the group of the pages that may hold a hash.
    pub(crate) fn pages_of(&self, hash: u64) -> impl Iterator<Item = usize> + '_ {
        let first = self.firsts.partition_point(|f| *f < hash).saturating_sub(1);
        let (word, mask) = place(hash, FILTER_WORDS);
        (first..self.firsts.len())
            .take_while(move |page| self.firsts[*page] <= hash)
            .filter(move |page| self.filters[page * FILTER_WORDS + word] & mask == mask)
    }

    /// Encodes the summary for page number `page`.
    pub(crate) fn encode(&self, seed: u32, page: u32) -> [u8; PAGE_BYTES] {
        assert!(self.firsts.len() <= GROUP_PAGES && self.filters.len() == self.firsts.len() * FILTER_WORDS);
        let mut b = [0; PAGE_BYTES];
        SummaryLayout::KIND.put(&mut b, SUMMARY_KIND);
        SummaryLayout::PART.put(&mut b, self.part);
        SummaryLayout::PAGES.put(&mut b, self.firsts.len() as u16);
        SummaryLayout::EPOCH.put(&mut b, self.epoch);
        let words = self.firsts.iter().zip(self.filters.chunks_exact(FILTER_WORDS));
        for ((first, filter), out) in words.zip(b[SummaryLayout::BYTES..].chunks_exact_mut(PAGE_SUMMARY_BYTES)) {
            let words = std::iter::once(first).chain(filter);
            words.zip(out.chunks_exact_mut(u64::BYTES)).for_each(|(word, out)| word.write(out));
        }
        let crc = seeded_crc(seed, u64::from(page), &b[SummaryLayout::CRC.end()..]);
        SummaryLayout::CRC.put(&mut b, crc);
        b
    }

    /// Decodes and verifies a summary read from page number `page`.
    pub(crate) fn decode(seed: u32, page: u32, b: &[u8]) -> Result<Summary, Flaw> {
        if b.len() != PAGE_BYTES {
            return Err("summary is cut off");
        }
        if seeded_crc(seed, u64::from(page), &b[SummaryLayout::CRC.end()..]) != SummaryLayout::CRC.get(b) {
            return Err("checksum mismatch in a summary");
        }
        if SummaryLayout::KIND.get(b) != SUMMARY_KIND {
            return Err("not a summary");
        }
        let pages = usize::from(SummaryLayout::PAGES.get(b));
        if usize::from(SummaryLayout::PART.get(b)) >= PARTS || !(1..=GROUP_PAGES).contains(&pages) {
            return Err("header of a summary is out of range");
        }
        let used = SummaryLayout::BYTES + pages * PAGE_SUMMARY_BYTES;
        if !is_reserved_zero(SummaryLayout::ROWS, b) || !all_zero(&b[used..]) {
            return Err("reserved bytes of a summary are not zero");
        }
        let of_pages = b[SummaryLayout::BYTES..used].chunks_exact(PAGE_SUMMARY_BYTES);
        let firsts: Vec<u64> = of_pages.clone().map(u64::read).collect();
        if !firsts.is_sorted() || firsts.iter().any(|first| first >> 40 != 0) {
            return Err("pages of a summary are not in order");
        }
        let filters = of_pages.flat_map(|page| page[8..].chunks_exact(8).map(u64::read)).collect();
        Ok(Summary { part: SummaryLayout::PART.get(b), epoch: SummaryLayout::EPOCH.get(b), firsts, filters })
    }
}

/// Kind of a page of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Changes.
    Changes,
    /// The summary of a group.
    Summary,
}

/// The kind of a whole page, if it can be a page of a run.
pub(crate) fn kind_of(page: &[u8]) -> Option<Kind> {
    match Layout::KIND.get(page) {
        KIND => Some(Kind::Changes),
        SUMMARY_KIND => Some(Kind::Summary),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::location::{Location, SizeClass};

    fn change(hash: u64, key: u64, replaces: u64) -> Change {
        let (location, size) = match key {
            0 => (Location::unpack(0), SizeClass(0)),
            _ => (Location::new(key as u16, 64 * key), SizeClass(key as u8)),
        };
        Change { slot: Slot { hash, key, location, size }, replaces }
    }

    /// A full page of changes: a third each add, replace and remove a slot.
    fn full() -> Vec<Change> {
        let of = |i: u64| change(i << 30, [i + 1, i + 1, 0][i as usize % 3], [0, i + 7, i + 7][i as usize % 3]);
        let all: Vec<Change> = (0..254).map(of).collect();
        let fitting = (0..254).rev().find(|n| fits(*n, all[..*n].iter().filter(|c| c.replaces != 0).count()));
        all[..fitting.unwrap()].to_vec()
    }

    #[test]
    fn changes_come_back_and_a_changed_byte_is_noticed() {
        for changes in [vec![change(1, 2, 0)], vec![change((1 << 40) - 1, 0, (1 << 40) - 1)], full()] {
            let page = encode(5, 9, 127, 3, &changes);
            assert_eq!(decode(5, 9, &page).unwrap(), Changes { part: 127, epoch: 3, changes });
            assert!(decode(5, 8, &page).is_err() && decode(6, 9, &page).is_err());
            assert_eq!(kind_of(&page), Some(Kind::Changes));
        }
        assert!(full().len() > 180 && full().len() < 254);
        let page = encode(5, 9, 12, 3, &full());
        for at in 0..PAGE_BYTES {
            let mut bad = page;
            bad[at] ^= 4;
            assert!(decode(5, 9, &bad).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_page_that_no_writer_makes_is_refused_though_its_checksum_is_right() {
        let page = encode(5, 9, 12, 3, &full());
        let replaced = HEADER_BYTES + full().len() * SLOT_BYTES;
        type Spoil = fn(&mut [u8], usize);
        let spoil: [Spoil; 6] = [
            |b, _| Layout::CHANGES.put(b, 0),
            |b, _| Layout::PART.put(b, 128),
            |b, _| Layout::REPLACED.put(b, 300),
            |b, _| b.copy_within(HEADER_BYTES + 32..HEADER_BYTES + 48, HEADER_BYTES), // out of order
            |b, at| b.copy_within(at + 8..at + 16, at),                               // one change twice
            |b, at| b[at..at + 5].fill(0),                                            // no address
        ];
        for (nth, spoil) in spoil.iter().enumerate() {
            let mut bad = page;
            spoil(&mut bad, replaced);
            let crc = seeded_crc(5, 9, &bad[Layout::CRC.end()..]);
            Layout::CRC.put(&mut bad, crc);
            assert!(decode(5, 9, &bad).is_err(), "{nth}");
        }
    }

    #[test]
    fn a_summary_comes_back_and_knows_every_change() {
        let changes = full();
        let pages: Vec<&[Change]> = changes.chunks(changes.len().div_ceil(GROUP_PAGES)).collect();
        let summary = Summary::of(12, 3, &pages);
        let page = summary.encode(5, 9);
        assert_eq!(Summary::decode(5, 9, &page).unwrap(), summary);
        assert_eq!(kind_of(&page), Some(Kind::Summary));
        for (nth, changes) in pages.iter().enumerate() {
            assert!(changes.iter().all(|c| summary.pages_of(c.hash()).any(|page| page == nth)));
        }
        let absent = (0..10_000).map(|i| ((i * 97) << 18) + 5).filter(|hash| summary.pages_of(*hash).count() > 0);
        assert!(absent.count() < 100, "of 10,000 absent hashes");
        for at in 0..PAGE_BYTES {
            let mut bad = page;
            bad[at] ^= 4;
            assert!(Summary::decode(5, 9, &bad).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_hash_that_goes_on_in_the_next_page_is_sought_in_both() {
        let same: Vec<Change> = (1..5).map(|key| change(77, key, 0)).collect();
        let summary = Summary::of(0, 1, &[&[change(5, 1, 0), change(77, 9, 0)], &same[..2], &same[2..]]);
        assert_eq!(summary.pages_of(77).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
