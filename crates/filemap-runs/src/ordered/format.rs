//! Bytes of an ordered run: its header, the fixed part of each block, their limits.

use filemap_io::header::{Kind, is_sealed, seal};
use filemap_io::layout;
use filemap_io::layout::Zeros;

use super::change::Tally;
use crate::run::{Salt, checksum, salt};

layout! {
    /// `NAME.NUMBER.run` of keys in order: header, a page. Blocks follow.
    pub(crate) struct OrderedHeader {
        0 MAGIC: [u8; 8] = "magic `FMDORD01`";
        8 READ_VERSION: u16 = "the version that a reader must know";
        10 WRITE_VERSION: u16 = "the version that a writer must know";
        12 RESERVED_1: Zeros<4> = "reserved, zero";
        16 ID: [u8; 16] = "the owner's id";
        32 NUMBER: u64 = "the run's number; with the id the salt of its checksums";
        40 LEAVES: u64 = "leaf blocks; 0 until it is whole";
        48 PAGES: u64 = "pages of 4096 bytes, this one included";
        56 ADDED: u64 = "entries that add their key";
        64 REMOVED: u64 = "entries that remove their key";
        72 ROOT_PAGE: u64 = "page where the root block begins";
        80 ROOT_PAGES: u32 = "pages of the root block, the last of the file";
        84 HEIGHT: u32 = "level of the root block: 0 if it is a leaf";
        88 RESERVED_2: Zeros<4004> = "reserved, zero";
        4092 CRC: u32 = "CRC-32 of the bytes before";
    }
}

layout! {
    /// `NAME.NUMBER.run` of keys in order: what each block begins with.
    pub(crate) struct OrderedBlock {
        0 CRC: u32 = "CRC-32 of the owner's id, the run's number, the block's first page (8 bytes each) and all that follows";
        4 LEVEL: u8 = "level: 0 a leaf; n an inner block, whose children have level n - 1";
        5 PAGES: u8 = "pages of the block, 1 to 18";
        6 COUNT: u16 = "entries, 1 at least";
        8 BYTES_USED: u32 = "bytes up to the end of the last entry; zeros follow";
    }
}

/// Bytes of a page: the header, and almost every block, is one page.
pub(super) const PAGE_BYTES: usize = OrderedHeader::BYTES;
/// Maximum length of a key, in bytes.
pub const MAX_KEY_BYTES: usize = 70_000;
/// Maximum number of pages of a block: two children with the longest separator.
pub(super) const BLOCK_PAGES_MAX: usize = (MAX_KEY_BYTES + 100).div_ceil(PAGE_BYTES);
/// Maximum number of levels of inner blocks. Each block has at least two children, except the last
/// of its level.
pub(super) const HEIGHT_MAX: u32 = 48;
/// Limit on the pages of a run. Below it offsets and sums of counts cannot overflow.
pub(super) const PAGES_MAX: u64 = 1 << 41;

pub(super) const KIND: Kind = Kind { magic: *b"FMDORD01", version: 1, what: "run of keys in order" };
/// Bytes of a header that name the owner. They lie in one sector, so they are written atomically.
pub const OWNER_BYTES: usize = OrderedHeader::LEAVES.at;

/// Shared state of the ordered runs of one owner: directory, name, id, counters.
pub type Home = crate::home::Home<()>;

/// Owner's id and run's number, read from the start of a file; `None` if it is not an ordered run
/// or if fewer than [`OWNER_BYTES`] bytes are given.
///
/// ```
/// # let dir = filemap_io::sim::SimDisk::new(1).dir();
/// use filemap_runs::ordered::{Home, first_header, owner};
/// let home = Home::new(dir, "keys", [7; 16], ());
/// assert_eq!(owner(&first_header(&home, 3)), Some(([7; 16], 3)));
/// assert_eq!(owner(b"another file"), None);
/// ```
pub fn owner(start: &[u8]) -> Option<([u8; 16], u64)> {
    let is_run = start.len() >= OWNER_BYTES && start.starts_with(&KIND.magic);
    is_run.then(|| (OrderedHeader::ID.get(start), OrderedHeader::NUMBER.get(start)))
}

/// Returns the flaw of a part of a run's file, the header (page 0) or a block at a page, for tools
/// that look at the file alone: a block is not compared with what its parent says.
///
/// ```
/// # let dir = filemap_io::sim::SimDisk::new(1).dir();
/// use filemap_runs::ordered::{Home, first_header, flaw};
/// let header = first_header(&Home::new(dir, "keys", [7; 16], ()), 3);
/// assert_eq!(flaw(&header, 0, &header), None);
/// assert_eq!(flaw(&header, 1, &[0; 4096]), Some("block checksum mismatch"));
/// ```
pub fn flaw(header: &[u8], page: u64, part: &[u8]) -> Option<&'static str> {
    if header.len() < OrderedHeader::BYTES || part.len() < PAGE_BYTES {
        return Some("it is cut off");
    }
    if page == 0 {
        return (!is_sealed(part)).then_some("header checksum mismatch");
    }
    let salt = salt(OrderedHeader::ID.get(header), OrderedHeader::NUMBER.get(header));
    (OrderedBlock::CRC.get(part) != checksum(&salt, page, part)).then_some("block checksum mismatch")
}

/// The owner's record of a run.
///
/// ```
/// # let dir = filemap_io::sim::SimDisk::new(1).dir();
/// # use filemap_runs::ordered::{Change, Home, Writer};
/// # let home = Home::new(dir, "keys", [7; 16], ());
/// let mut writer = Writer::create(&home, 1).unwrap();
/// writer.push(b"com,example)/", Change::Added).unwrap();
/// writer.push(b"com,example)/old", Change::Removed).unwrap();
/// let info = writer.end().unwrap().expect("not empty").info();
/// assert_eq!((info.number, info.entries(), info.removed), (1, 2, 1));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Number in the file's name.
    pub number: u64,
    /// Leaf blocks.
    pub leaves: u64,
    /// Pages of the file.
    pub pages: u64,
    /// Entries that add their key.
    pub added: u64,
    /// Entries that remove their key.
    pub removed: u64,
}

impl Info {
    /// Number of entries.
    pub fn entries(&self) -> u64 {
        self.added.saturating_add(self.removed)
    }

    /// Length of the file, in bytes.
    pub fn disk_bytes(&self) -> u64 {
        self.pages.saturating_mul(PAGE_BYTES as u64)
    }

    /// Returns whether the numbers are plausible.
    pub fn is_possible(&self) -> bool {
        // An entry takes at least three bytes.
        let entries_max = self.pages.saturating_mul(PAGE_BYTES as u64 / 3);
        let is_in = self.leaves > 0 && self.leaves < self.pages && self.pages < PAGES_MAX;
        is_in && (self.leaves..=entries_max).contains(&self.entries())
    }

    pub(super) fn tally(&self) -> Tally {
        Tally { entries: self.entries(), removed: self.removed }
    }
}

/// Position of a block, and the tally of the entries in and below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Child {
    pub(super) page: u64,
    pub(super) pages: u32,
    pub(super) tally: Tally,
}

impl Child {
    /// The page after the block.
    pub(super) fn end(&self) -> u64 {
        self.page + u64::from(self.pages)
    }
}

/// The header of a run's file while the run is being written.
pub fn first_header(home: &Home, number: u64) -> Vec<u8> {
    header(home.id, &Info { number, ..Info::default() }, &Child::default(), 0)
}

/// The header of a run with this root.
pub(super) fn header(id: [u8; 16], info: &Info, root: &Child, height: u32) -> Vec<u8> {
    let mut bytes = vec![0; OrderedHeader::BYTES];
    KIND.begin(&mut bytes);
    OrderedHeader::ID.put(&mut bytes, id);
    OrderedHeader::NUMBER.put(&mut bytes, info.number);
    OrderedHeader::LEAVES.put(&mut bytes, info.leaves);
    OrderedHeader::PAGES.put(&mut bytes, info.pages);
    OrderedHeader::ADDED.put(&mut bytes, info.added);
    OrderedHeader::REMOVED.put(&mut bytes, info.removed);
    OrderedHeader::ROOT_PAGE.put(&mut bytes, root.page);
    OrderedHeader::ROOT_PAGES.put(&mut bytes, root.pages);
    OrderedHeader::HEIGHT.put(&mut bytes, height);
    seal(&mut bytes);
    bytes
}

/// The root and its level, from a valid header; `None` if it cannot lie there.
pub(super) fn root(header: &[u8], info: &Info) -> Option<(Child, u32)> {
    let (page, pages) = (OrderedHeader::ROOT_PAGE.get(header), OrderedHeader::ROOT_PAGES.get(header));
    let root = Child { page, pages, tally: info.tally() };
    let height = OrderedHeader::HEIGHT.get(header);
    let is_last = page.checked_add(u64::from(pages)) == Some(info.pages);
    let is_block = page > 0 && (1..=BLOCK_PAGES_MAX as u32).contains(&pages);
    (is_last && is_block && height <= HEIGHT_MAX).then_some((root, height))
}

/// A block being filled: one page, or as many as its first entries need.
#[derive(Debug)]
pub(super) struct Filling {
    pub(super) bytes: Vec<u8>,
    pub(super) count: usize,
}

impl Filling {
    pub(super) fn new() -> Filling {
        let mut bytes = Vec::with_capacity(2 * PAGE_BYTES);
        bytes.resize(OrderedBlock::BYTES, 0);
        Filling { bytes, count: 0 }
    }

    /// Adds the entry that `append` encodes. Returns false and adds nothing if the block is full
    /// and has at least `least` entries.
    #[inline]
    pub(super) fn add(&mut self, least: usize, append: impl FnOnce(&mut Vec<u8>)) -> bool {
        let before = self.bytes.len();
        let room = before.next_multiple_of(PAGE_BYTES);
        append(&mut self.bytes);
        if self.bytes.len() > room && self.count >= least {
            self.bytes.truncate(before);
            return false;
        }
        self.count += 1;
        true
    }

    pub(super) fn pages(&self) -> u32 {
        self.bytes.len().div_ceil(PAGE_BYTES) as u32
    }

    /// Appends the block to `out`, to be written at `page`, and becomes empty.
    pub(super) fn finish(&mut self, salt: &Salt, level: usize, page: u64, out: &mut Vec<u8>) {
        let (pages, used) = (self.pages(), self.bytes.len());
        self.bytes.resize(pages as usize * PAGE_BYTES, 0);
        OrderedBlock::LEVEL.put(&mut self.bytes, level as u8);
        OrderedBlock::PAGES.put(&mut self.bytes, pages as u8);
        OrderedBlock::COUNT.put(&mut self.bytes, self.count as u16);
        OrderedBlock::BYTES_USED.put(&mut self.bytes, used as u32);
        OrderedBlock::CRC.put(&mut self.bytes, 0);
        let crc = checksum(salt, page, &self.bytes);
        OrderedBlock::CRC.put(&mut self.bytes, crc);
        out.extend_from_slice(&self.bytes);
        self.bytes.truncate(OrderedBlock::BYTES);
        self.bytes.shrink_to(2 * PAGE_BYTES);
        self.count = 0;
    }
}

/// Number of entries of a whole block and offset of their end; an error names the flaw.
pub(super) fn check_block(
    bytes: &[u8],
    salt: &Salt,
    level: u32,
    child: &Child,
) -> Result<(usize, usize), &'static str> {
    if OrderedBlock::CRC.get(bytes) != checksum(salt, child.page, bytes) {
        return Err("block checksum mismatch");
    }
    if u32::from(OrderedBlock::LEVEL.get(bytes)) != level || u32::from(OrderedBlock::PAGES.get(bytes)) != child.pages {
        return Err("not the block that its parent names");
    }
    let (count, used) = (OrderedBlock::COUNT.get(bytes), OrderedBlock::BYTES_USED.get(bytes) as usize);
    if count == 0 || used > bytes.len() || used <= bytes.len() - PAGE_BYTES || used < OrderedBlock::BYTES {
        return Err("impossible block length");
    }
    Ok((usize::from(count), used))
}

#[cfg(test)]
mod tests {
    use filemap_io::layout::markdown;

    use super::*;

    #[test]
    fn the_document_has_both_tables() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/FORMAT.md");
        let document = std::fs::read_to_string(path).expect("docs/FORMAT.md");
        for table in [OrderedHeader::ROWS, OrderedBlock::ROWS].map(|rows| markdown(rows, &[])) {
            assert!(document.contains(&table), "docs/FORMAT.md lacks:\n{table}");
        }
    }

    #[test]
    fn golden_bytes_do_not_change() {
        let info = Info { number: 3, leaves: 2, pages: 4, added: 5, removed: 1 };
        let child = Child { page: 3, pages: 1, tally: info.tally() };
        let header = header([1; 16], &info, &child, 1);
        let mut block = Vec::new();
        let mut filling = Filling::new();
        assert!(filling.add(1, |out| out.extend_from_slice(&[0, 2, b'a'])));
        filling.finish(&crate::run::salt([1; 16], 3), 0, 1, &mut block);
        let crc = |bytes: &[u8]| filemap_io::header::crc32(&[bytes]);
        assert_eq!([crc(&header), crc(&block)], [558_161_692, 2_264_910_187], "the format changed: raise the version");
        assert_eq!(root(&header, &info), Some((child, 1)));
    }
}
