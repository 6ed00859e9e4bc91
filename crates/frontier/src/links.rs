//! The file of links: the links of each fetched page, in the order of fetches, for virtual visits.
//!
//! A list is LEB128 numbers: page, links not kept, links kept, and the kept links as differences
//! to the one before. A block is full at an eighth of the bytes before it, at least 256 bytes and
//! at most 64 KiB.
//!
//! The file is read in a circle, list by list, without memory per page or random reads. A page
//! fetched again has another list further on; [`Links::rewritten`] drops the older ones. As with
//! URLs, an opening rebuilds what is past the length in the last snapshot from the journal.
//!
//! Invariant: block ends and the position in the circle follow from the lists added and the calls
//! of [`Links::prepare`] alone, so a replay reads the same lists.

use std::sync::Arc;

use filemap_io::files::read_exact;
use filemap_io::header::crc32;
use filemap_io::{Dir, File, varint};

use crate::error::{Error, Result};
use crate::failpoint::{Failpoint, planted};
use crate::files;
use crate::format::{BlockHeader, HEADER_BYTES, LINKS};
use crate::record::{Bytes, put_pages};

const BLOCK_HEAD_BYTES: u64 = BlockHeader::BYTES as u64;
const BLOCK_BYTES_MIN: u64 = 256;
const BLOCK_BYTES_MAX: u64 = 64 << 10;
const START: u64 = HEADER_BYTES as u64;

/// The file as a snapshot describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The file's number.
    pub(crate) number: u64,
    /// Its length.
    pub(crate) bytes: u64,
    /// Number of lists in it.
    pub(crate) lists: u64,
    /// The block that is being read.
    pub(crate) block: u64,
    /// Position in that block, in numbers.
    pub(crate) at: u64,
}

/// A list, borrowed.
pub(crate) struct List<'a> {
    pub(crate) page: u32,
    /// Number of links not kept.
    pub(crate) lost: u32,
    pub(crate) links: &'a [u32],
}

/// The open file of links.
#[derive(Debug)]
pub(crate) struct Links {
    name: String,
    file: Arc<dyn File>,
    id: [u8; 16],
    place: Place,
    written_bytes: u64,
    /// Finished blocks not written yet.
    pending: Vec<u8>,
    /// Lists of the block that is being filled.
    open: Vec<u8>,
    /// The block at `place.block`: its end, and its numbers (page, lost, count, links).
    loaded: Option<(u64, Vec<u32>)>,
}

impl Links {
    /// Creates the file; its contents are durable, its name is not yet.
    pub(crate) fn create(dir: &dyn Dir, id: [u8; 16], number: u64) -> Result<Links> {
        let name = files::links(number);
        let file = files::create(dir, &name, LINKS, id, number)?;
        Ok(Links::with(file, id, Place { number, bytes: START, lists: 0, block: START, at: 0 }))
    }

    fn with(file: Arc<dyn File>, id: [u8; 16], place: Place) -> Links {
        let (name, pending, open) = (files::links(place.number), Vec::new(), Vec::new());
        Links { name, file, id, written_bytes: place.bytes, place, pending, open, loaded: None }
    }

    /// Opens the file as a snapshot describes it, and cuts off what follows.
    pub(crate) fn open(dir: &dyn Dir, id: [u8; 16], place: Place) -> Result<Links> {
        let name = files::links(place.number);
        let file = files::open(dir, &name, LINKS, id, place.number)?;
        files::cut(&*file, &name, place.bytes)?;
        Ok(Links::with(file, id, place))
    }

    /// Appends the list of a fetched page; `links` ascend. Writes nothing before [`Links::flush`].
    pub(crate) fn append(&mut self, page: u32, lost: u32, links: &[u32]) {
        varint::put(&mut self.open, u64::from(page));
        varint::put(&mut self.open, u64::from(lost));
        put_pages(&mut self.open, links);
        self.place.lists += 1;
        let full = ((self.place.bytes - START) / 8).clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX);
        if self.open.len() as u64 >= full {
            self.seal();
        }
    }

    /// Ends the block that is being filled.
    fn seal(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let mut head = [0; BlockHeader::BYTES];
        BlockHeader::LEN.put(&mut head, self.open.len() as u32);
        let crc = self.checksum(self.place.bytes, &head[BlockHeader::CRC.end()..], &self.open);
        BlockHeader::CRC.put(&mut head, crc);
        self.pending.extend_from_slice(&head);
        self.pending.append(&mut self.open);
        self.place.bytes = self.written_bytes + self.pending.len() as u64;
    }

    /// Writes the finished blocks.
    pub(crate) fn flush(&mut self) -> Result<()> {
        if !self.pending.is_empty() {
            self.file.write_at(&self.pending, self.written_bytes).map_err(Error::io("write", &self.name))?;
            self.written_bytes = self.place.bytes;
            self.pending.clear();
        }
        Ok(())
    }

    /// Ends the last block and makes all durable.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.seal();
        self.flush()?;
        if planted(Failpoint::LinksNotSynced) {
            return Ok(());
        }
        self.file.sync().map_err(Error::io("sync", &self.name))
    }

    /// Loads the block of the next lists; `pages` is the number of known pages. One read for
    /// hundreds of lists.
    ///
    /// # Errors
    /// `Corrupt`, `Io`: nothing has changed.
    pub(crate) fn prepare(&mut self, pages: u32) -> Result<()> {
        self.prepare_within(self.place.bytes, pages)
    }

    /// As `prepare`, in a circle that ends at an offset.
    fn prepare_within(&mut self, end_of_all: u64, pages: u32) -> Result<()> {
        loop {
            match &self.loaded {
                Some((_, numbers)) if self.place.at < numbers.len() as u64 => return Ok(()),
                Some((end, _)) => {
                    let next = if *end < end_of_all { *end } else { START };
                    let loaded = self.load(next, pages)?;
                    (self.place.block, self.place.at) = (next, 0);
                    self.loaded = Some(loaded);
                }
                None if end_of_all == START => return Ok(()),
                None => {
                    let loaded = self.load(self.place.block, pages)?;
                    if !is_begin(&loaded.1, self.place.at) {
                        let what = "no list begins at the snapshot's position";
                        return Err(Error::corrupt(&self.name, self.place.block, what));
                    }
                    self.loaded = Some(loaded);
                }
            }
        }
    }

    /// Passes the next `lists` lists to `each`, numbered from 0; none if the file is empty. The
    /// circle ends at `end`, where the last block ended at some earlier time. `pages` is the
    /// number of known pages.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub(crate) fn walk(&mut self, lists: u64, end: u64, pages: u32, mut each: impl FnMut(u32, List<'_>)) -> Result<()> {
        for nth in 0..lists as u32 {
            self.prepare_within(end, pages)?;
            match self.take() {
                Some(list) => each(nth, list),
                None => break,
            }
        }
        Ok(())
    }

    /// Returns to an earlier position in the circle.
    pub(crate) fn back_to(&mut self, before: Place) {
        (self.place.block, self.place.at) = (before.block, before.at);
        self.loaded = None;
    }

    /// Takes the next list of the loaded block.
    fn take(&mut self) -> Option<List<'_>> {
        let (_, numbers) = self.loaded.as_ref()?;
        let [page, lost, count, rest @ ..] = numbers.get(self.place.at as usize..)? else { return None };
        let links = rest.get(..*count as usize)?;
        self.place.at += 3 + links.len() as u64;
        Some(List { page: *page, lost: *lost, links })
    }

    /// Reads the block at an offset; returns its end and its numbers.
    fn load(&self, offset: u64, pages: u32) -> Result<(u64, Vec<u32>)> {
        let bad = |what: &str| Error::corrupt(&self.name, offset, what);
        let left = self.place.bytes.checked_sub(offset + BLOCK_HEAD_BYTES);
        let left = left.ok_or_else(|| bad("no block starts here"))?;
        let mut head = [0; BLOCK_HEAD_BYTES as usize];
        self.read(&mut head, offset)?;
        let len = u64::from(BlockHeader::LEN.get(&head));
        if len == 0 || len > left {
            return Err(bad("a block is longer than the file, or empty"));
        }
        let mut lists = vec![0; len as usize];
        self.read(&mut lists, offset + BLOCK_HEAD_BYTES)?;
        if BlockHeader::CRC.get(&head) != self.checksum(offset, &head[BlockHeader::CRC.end()..], &lists) {
            return Err(bad("block checksum mismatch"));
        }
        let numbers = decode(&lists, pages).ok_or_else(|| bad("not lists of links"))?;
        Ok((offset + BLOCK_HEAD_BYTES + len, numbers))
    }

    /// Reads from the file or from the unwritten blocks; blocks are written as a whole.
    fn read(&self, to: &mut [u8], offset: u64) -> Result<()> {
        match offset.checked_sub(self.written_bytes) {
            None => Ok(read_exact(&*self.file, &self.name, to, offset)?),
            Some(from) => {
                let waiting = self.pending.get(from as usize..).and_then(|rest| rest.get(..to.len()));
                let waiting = waiting.ok_or_else(|| Error::corrupt(&self.name, offset, "no block starts here"))?;
                to.copy_from_slice(waiting);
                Ok(())
            }
        }
    }

    fn checksum(&self, offset: u64, len: &[u8], lists: &[u8]) -> u32 {
        crc32(&[&self.id, &self.place.number.to_le_bytes(), &offset.to_le_bytes(), len, lists])
    }

    /// Writes the latest list of each page to the next file; its contents are durable, its name is
    /// not yet. O(links), 8 bytes of memory a page.
    pub(crate) fn rewritten(&self, dir: &dyn Dir, pages: u32) -> Result<Links> {
        let (mut latest, mut list) = (vec![0u64; pages as usize], 0);
        self.each(pages, |page, _, _| {
            list += 1;
            latest[page as usize] = list;
        })?;
        let mut next = Links::create(dir, self.id, self.place.number + 1)?;
        let mut failed = Ok(());
        list = 0;
        self.each(pages, |page, lost, links| {
            list += 1;
            if latest[page as usize] == list {
                next.append(page, lost, links);
                if failed.is_ok() {
                    failed = next.flush();
                }
            }
        })?;
        failed?;
        next.sync()?;
        Ok(next)
    }

    fn each(&self, pages: u32, mut each: impl FnMut(u32, u32, &[u32])) -> Result<()> {
        let mut offset = START;
        while offset < self.place.bytes {
            let (end, numbers) = self.load(offset, pages)?;
            let mut rest = &numbers[..];
            while let [page, lost, count, links @ ..] = rest {
                let (links, behind) = links.split_at(*count as usize);
                each(*page, *lost, links);
                rest = behind;
            }
            offset = end;
        }
        Ok(())
    }

    pub(crate) fn place(&self) -> Place {
        self.place
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of the file, buffer included.
    pub(crate) fn bytes(&self) -> u64 {
        self.place.bytes + self.open.len() as u64
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        let loaded = self.loaded.as_ref().map_or(0, |(_, numbers)| 4 * numbers.capacity());
        (self.pending.capacity() + self.open.capacity() + loaded) as u64
    }
}

/// Returns whether a list begins, or the last one ends, at an index into the numbers of lists.
fn is_begin(numbers: &[u32], place: u64) -> bool {
    let mut at = 0;
    while at < place {
        let Some(count) = numbers.get(at as usize + 2) else { return false };
        at += 3 + u64::from(*count);
    }
    at == place && at <= numbers.len() as u64
}

/// Decodes lists into numbers; `None` unless they are lists of pages below `pages`.
fn decode(lists: &[u8], pages: u32) -> Option<Vec<u32>> {
    let mut from = Bytes { rest: lists };
    // A number takes at least one byte.
    let mut numbers = Vec::with_capacity(lists.len());
    while !from.rest.is_empty() {
        let head = numbers.len();
        numbers.extend([from.small()?, from.small()?, 0]);
        from.pages_into(&mut numbers)?;
        numbers[head + 2] = (numbers.len() - head - 3) as u32;
        let last = numbers[head + 3..].last();
        if numbers[head] >= pages || last.is_some_and(|last| *last >= pages) {
            return None;
        }
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use filemap_io::sim::SimDisk;

    use super::*;
    use filemap_io::StorageError;

    const PAGES: u32 = 5_000;

    fn links_of(page: u32) -> Vec<u32> {
        (page + 1..PAGES).step_by(97).take(page as usize % 40).collect()
    }

    /// The pages of one pass through the circle.
    fn round(links: &mut Links, len: usize) -> Vec<u32> {
        let mut pages = Vec::new();
        while pages.len() < len {
            links.prepare(PAGES).expect("read");
            while let Some(list) = links.take() {
                assert_eq!((list.lost, list.links), (list.page % 3, &links_of(list.page)[..]));
                pages.push(list.page);
            }
        }
        pages
    }

    #[test]
    fn lists_come_in_a_circle_and_as_a_snapshot_knows_them() {
        let disk = SimDisk::new(1);
        let mut links = Links::create(&*disk.dir(), [1; 16], 7).expect("made");
        links.prepare(PAGES).expect("nothing to read");
        assert!(links.take().is_none());
        for page in 0..PAGES {
            links.append(page, page % 3, &links_of(page));
            if page % 7 == 0 {
                links.flush().expect("written");
            }
        }
        links.sync().expect("synced");
        let all: Vec<u32> = (0..PAGES).collect();
        assert_eq!(round(&mut links, all.len()), all);
        assert_eq!(round(&mut links, all.len()), all);
        links.prepare(PAGES).expect("read");
        (0..5).for_each(|_| assert!(links.take().is_some()));
        let place = links.place();
        links.append(3, 0, &[4]);
        links.sync().expect("synced");
        let mut again = Links::open(&*disk.dir(), [1; 16], place).expect("opened");
        again.prepare(PAGES).expect("read");
        assert_eq!(again.take().map(|list| list.page), links.take().map(|list| list.page));
        assert_eq!((again.place().lists, disk.bytes(again.name()).expect("there").len() as u64), (5_000, place.bytes));
    }

    #[test]
    fn a_rewritten_file_has_the_latest_list_of_each_page() {
        let disk = SimDisk::new(1);
        let mut links = Links::create(&*disk.dir(), [1; 16], 1).expect("made");
        for turn in 0..3 {
            (0..100).for_each(|page| links.append(page, turn, &links_of(page)));
        }
        links.append(9, 7, &[]);
        links.sync().expect("synced");
        let next = links.rewritten(&*disk.dir(), PAGES).expect("written");
        let mut lists = Vec::new();
        next.each(PAGES, |page, lost, links| lists.push((page, lost, links.len()))).expect("read");
        assert_eq!((lists.len(), next.place().lists, next.place().number), (100, 100, 2));
        assert!(lists.contains(&(9, 7, 0)) && lists.contains(&(30, 2, 30)), "{lists:?}");
    }

    #[test]
    fn a_byte_that_is_wrong_is_found_when_its_block_is_read() {
        let disk = SimDisk::new(1);
        let mut links = Links::create(&*disk.dir(), [1; 16], 1).expect("made");
        (0..60).for_each(|page| links.append(page, 0, &links_of(page)));
        links.sync().expect("synced");
        let (place, whole) = (links.place(), disk.bytes(links.name()).expect("there"));
        for at in 512..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 4;
            disk.set_bytes(links.name(), &damaged);
            let links = Links::open(&*disk.dir(), [1; 16], place).expect("opened");
            let read = links.each(PAGES, |_, _, _| ());
            assert!(
                matches!(&read, Err(Error::Storage(StorageError::Corrupt { offset, .. })) if *offset <= at as u64),
                "{at}: {read:?}"
            );
        }
        disk.set_bytes(links.name(), &whole);
        let few = Links::open(&*disk.dir(), [1; 16], place).expect("opened").each(20, |_, _, _| ());
        assert!(few.is_err(), "there is no such page");
    }
}
