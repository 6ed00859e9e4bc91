//! The page table: a row of 24 bytes for each page, in blocks of 170 rows, and the cache of
//! blocks.
//!
//! The cache holds as many blocks as the options allow, those used last. The others are in
//! `frontier.pages`, in slots of 4096 bytes. A slot that the last snapshot names is not
//! overwritten before the next one: a changed block moves to a free slot, and a snapshot records
//! the slot of each block. So a snapshot writes only changed blocks, and an opening reads none.
//!
//! Invariants: a slot holds one block, or is free, or was freed since the last snapshot. A block's
//! checksum is kept beside its slot number, so an old block is not taken for it.

use std::sync::Arc;

use filemap_io::files::{read_exact, write};
use filemap_io::header::crc32;
use filemap_io::{Dir, File};

use crate::error::{Error, Result};
use crate::failpoint::{Failpoint, planted};
use crate::files::{self, PAGES};
use crate::format::{self, PageRecord};
use crate::grow::push;
use crate::marks::{Marks, Status};
use crate::options::Rent;
use crate::row::Row;
use crate::shares::Shares;
use crate::trust::Standing;

/// Rows per block.
pub(crate) const ROWS: u32 = (BLOCK_BYTES / PageRecord::BYTES) as u32;
pub(crate) const BLOCK_BYTES: usize = 4096;
/// Minimum blocks in memory: those of a page and of rows read along with it.
const FRAMES_MIN: usize = 4;
const NONE: u32 = u32::MAX;

/// The location of a block.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Its slot in the file, [`NONE`] if it was never written.
    slot: u32,
    crc: u32,
    /// Its frame in memory, or [`NONE`].
    frame: u32,
    /// True if the slot was written since the last snapshot.
    is_fresh: bool,
    /// Credit of its rows, as written.
    credit: u64,
}

/// A block in memory.
#[derive(Debug)]
struct Frame {
    block: u32,
    is_dirty: bool,
    /// True if it was used since the clock hand passed.
    is_used: bool,
    rows: Box<[Row; ROWS as usize]>,
}

/// The table as a snapshot describes it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directory {
    /// Number of pages.
    pub(crate) pages: u32,
    /// Number of pages by status.
    pub(crate) counts: [u32; Status::ALL.len()],
    pub(crate) blocks: Vec<Named>,
}

/// A block, as a snapshot names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) slot: u32,
    pub(crate) crc: u32,
    /// Credit of its rows.
    pub(crate) credit: u64,
}

/// The page table.
#[derive(Debug)]
pub(crate) struct Table {
    file: Arc<dyn File>,
    id: [u8; 16],
    pages: u32,
    /// Number of hosts: rows with a higher one are invalid.
    pub(crate) hosts: u32,
    counts: [u32; Status::ALL.len()],
    /// The pages that get rent, and their number.
    pub(crate) rent: Rent,
    pub(crate) members: u32,
    /// Counts of fetched pages by site, host and shape.
    pub(crate) shares: Shares,
    places: Vec<Place>,
    frames: Vec<Frame>,
    frames_max: usize,
    /// Clock hand: the next frame considered for eviction.
    hand: usize,
    /// Number of slots in the file.
    slots: u32,
    free: Vec<u32>,
    /// Slots that the last snapshot names and the next one will not.
    freed: Vec<u32>,
}

impl Table {
    /// Creates an empty table of `memory_bytes` of blocks. Its file's name is not durable yet.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn create(dir: &dyn Dir, id: [u8; 16], memory_bytes: u64) -> Result<Table> {
        let file = files::create(dir, PAGES, format::PAGES, id, 0)?;
        Ok(Table::with(file, id, Directory::default(), 0, memory_bytes))
    }

    /// Opens the table as a snapshot describes it.
    ///
    /// # Errors
    /// `Corrupt`, `NewerFormat`, `Io`.
    pub(crate) fn open(
        dir: &dyn Dir,
        id: [u8; 16],
        directory: Directory,
        hosts: u32,
        memory_bytes: u64,
    ) -> Result<Table> {
        let file = files::open(dir, PAGES, format::PAGES, id, 0)?;
        let (len, last) =
            (file.len().map_err(Error::io("length", PAGES))?, directory.blocks.iter().map(|block| block.slot).max());
        if last.is_some_and(|slot| offset(slot) + BLOCK_BYTES as u64 > len) {
            return Err(Error::corrupt(PAGES, len, "the file ends before its last block"));
        }
        Ok(Table::with(file, id, directory, hosts, memory_bytes))
    }

    fn with(file: Arc<dyn File>, id: [u8; 16], directory: Directory, hosts: u32, memory_bytes: u64) -> Table {
        let place = |&Named { slot, crc, credit }: &Named| Place { slot, crc, frame: NONE, is_fresh: false, credit };
        let places: Vec<Place> = directory.blocks.iter().map(place).collect();
        let slots = directory.blocks.iter().map(|block| block.slot + 1).max().unwrap_or(0);
        let mut is_free = vec![true; slots as usize];
        places.iter().for_each(|place| is_free[place.slot as usize] = false);
        Table {
            file,
            id,
            pages: directory.pages,
            hosts,
            counts: directory.counts,
            rent: Rent::default(),
            members: 0,
            shares: Shares::default(),
            places,
            frames: Vec::new(),
            frames_max: ((memory_bytes / BLOCK_BYTES as u64) as usize).max(FRAMES_MIN),
            hand: 0,
            slots,
            free: (0..slots).filter(|slot| is_free[*slot as usize]).rev().collect(),
            freed: Vec::new(),
        }
    }

    /// Number of pages by status.
    pub(crate) fn counts(&self) -> &[u32; Status::ALL.len()] {
        &self.counts
    }

    pub(crate) fn len(&self) -> u32 {
        self.pages
    }

    /// Number of pages with one of these statuses.
    pub(crate) fn count(&self, is_counted: impl Fn(Status) -> bool) -> u32 {
        let counted = Status::ALL.iter().filter(|status| is_counted(**status));
        // Saturating: the counts of a damaged snapshot may be wrong.
        counted.fold(0, |sum, status| self.counts[*status as usize].saturating_add(sum))
    }

    /// Adds a page; returns its number.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub(crate) fn add(&mut self, row: Row) -> Result<u32> {
        let page = self.pages;
        if page.is_multiple_of(ROWS) {
            push(&mut self.places, Place { slot: NONE, crc: 0, frame: NONE, is_fresh: false, credit: 0 });
            self.frame(Frame {
                block: page / ROWS,
                is_dirty: true,
                is_used: true,
                rows: Box::new([Row::default(); ROWS as usize]),
            })?;
        }
        *self.update(page)? = row;
        self.counts[row.status() as usize] += 1;
        self.members += u32::from(row.is_member(self.rent));
        self.pages += 1;
        Ok(page)
    }

    /// A page's row.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    #[inline]
    pub(crate) fn get(&mut self, page: u32) -> Result<Row> {
        let frame = self.load(page / ROWS)?;
        Ok(frame.rows[(page % ROWS) as usize])
    }

    /// A page's row, for changes of anything but its status.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    #[inline]
    pub(crate) fn update(&mut self, page: u32) -> Result<&mut Row> {
        let frame = self.load(page / ROWS)?;
        frame.is_dirty = true;
        Ok(&mut frame.rows[(page % ROWS) as usize])
    }

    /// Sets a page's marks.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub(crate) fn set(&mut self, page: u32, marks: Marks) -> Result<()> {
        let before = self.get(page)?;
        let row = Row { marks, ..before };
        *self.update(page)? = row;
        let by = i32::from(row.status().is_fetched()) - i32::from(before.status().is_fetched());
        if by != 0 {
            self.shares.count(row.host, row.shape, row.trust.standing(), by);
        }
        self.count_member(before, row);
        // Wrapping: the counts of a damaged snapshot may be wrong.
        for (status, by) in [(before.status(), u32::MAX), (row.status(), 1)] {
            let count = &mut self.counts[status as usize];
            *count = count.wrapping_add(by);
        }
        Ok(())
    }

    /// Gives a page a standing without a voucher, as for a seed.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub(crate) fn raise(&mut self, page: u32, standing: Standing) -> Result<()> {
        let row = self.update(page)?;
        let before = row.trust.standing();
        row.trust.set(standing);
        let row = *row;
        self.risen(&row, before);
        Ok(())
    }

    /// Updates the counts after a page's standing may have risen.
    #[inline]
    pub(crate) fn risen(&mut self, row: &Row, before: Standing) {
        let after = row.trust.standing();
        if before == after {
            return;
        }
        if row.status().is_fetched() {
            self.shares.risen(row.host, row.shape, before, after);
        }
        let mut was = *row;
        was.trust.set(before);
        self.count_member(was, *row);
    }

    fn count_member(&mut self, before: Row, after: Row) {
        // Wrapping: the counts of a damaged snapshot may be wrong.
        let by = u32::from(after.is_member(self.rent)).wrapping_sub(u32::from(before.is_member(self.rent)));
        self.members = self.members.wrapping_add(by);
    }

    /// Sets a page's status; returns its new row.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub(crate) fn set_status(&mut self, page: u32, status: Status) -> Result<Row> {
        let marks = self.get(page)?.marks.with_status(status);
        self.set(page, marks)?;
        self.get(page)
    }

    #[inline]
    fn load(&mut self, block: u32) -> Result<&mut Frame> {
        let frame = match self.places[block as usize].frame {
            NONE => self.read_in(block)?,
            frame => frame,
        };
        let frame = &mut self.frames[frame as usize];
        frame.is_used = true;
        Ok(frame)
    }

    /// Reads a block into a frame.
    #[cold]
    fn read_in(&mut self, block: u32) -> Result<u32> {
        let mut rows = Box::new([Row::default(); ROWS as usize]);
        self.read(block, &mut rows)?;
        self.frame(Frame { block, is_dirty: false, is_used: true, rows })
    }

    /// Gives a block a frame, and evicts another if needed.
    fn frame(&mut self, frame: Frame) -> Result<u32> {
        let block = frame.block as usize;
        let number = if self.frames.len() < self.frames_max {
            push(&mut self.frames, frame);
            self.frames.len() - 1
        } else {
            let number = self.pick_unused();
            self.write_back(number)?;
            self.places[self.frames[number].block as usize].frame = NONE;
            self.frames[number] = frame;
            number
        };
        self.places[block].frame = number as u32;
        Ok(number as u32)
    }

    /// The next frame not used lately, to be evicted.
    fn pick_unused(&mut self) -> usize {
        loop {
            self.hand = if self.hand + 1 < self.frames.len() { self.hand + 1 } else { 0 };
            if !std::mem::take(&mut self.frames[self.hand].is_used) {
                return self.hand;
            }
        }
    }

    /// Reads and checks a block of the file.
    fn read(&self, block: u32, rows: &mut [Row; ROWS as usize]) -> Result<()> {
        let place = &self.places[block as usize];
        let mut bytes = [0; BLOCK_BYTES];
        let bad = |what: &str| Error::corrupt(PAGES, offset(place.slot), what);
        read_exact(&*self.file, PAGES, &mut bytes, offset(place.slot))?;
        if self.checksum(block, &bytes) != place.crc {
            return Err(bad("block checksum mismatch"));
        }
        let count = (self.pages - block * ROWS).min(ROWS) as usize;
        for (row, bytes) in rows.iter_mut().zip(bytes.chunks_exact(PageRecord::BYTES)).take(count) {
            *row = Row::decode(bytes, self.hosts).ok_or_else(|| bad("impossible row of a page"))?;
        }
        rows[count..].fill(Row::default());
        match credit_of(&rows[..]) == u128::from(place.credit) {
            true => Ok(()),
            false => Err(bad("the rows' credit differs from the snapshot's")),
        }
    }

    /// Writes a changed block to a slot that no snapshot names.
    fn write_back(&mut self, number: usize) -> Result<()> {
        let frame = &mut self.frames[number];
        if !std::mem::take(&mut frame.is_dirty) {
            return Ok(());
        }
        let mut bytes = [0; BLOCK_BYTES];
        for (row, bytes) in frame.rows.iter().zip(bytes.chunks_exact_mut(PageRecord::BYTES)) {
            bytes.copy_from_slice(&row.encode());
        }
        let block = frame.block;
        let before = self.places[block as usize];
        let in_place = before.is_fresh || planted(Failpoint::BlocksInPlace) && before.slot != NONE;
        let slot = if in_place { before.slot } else { self.new_slot() };
        if !in_place && before.slot != NONE {
            self.freed.push(before.slot);
        }
        let crc = self.checksum(block, &bytes);
        let credit = credit_of(&self.frames[number].rows[..]) as u64;
        self.places[block as usize] = Place { slot, crc, credit, is_fresh: true, ..before };
        Ok(write(&*self.file, PAGES, &bytes, offset(slot))?)
    }

    fn new_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        })
    }

    /// Makes all rows durable. They count once a snapshot with the directory is in place.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn sync(&mut self) -> Result<()> {
        (0..self.frames.len()).try_for_each(|frame| self.write_back(frame))?;
        if planted(Failpoint::BlocksNotSynced) {
            return Ok(());
        }
        self.file.sync().map_err(Error::io("sync", PAGES))
    }

    /// Frees slots not in the directory, after a snapshot has stored it.
    pub(crate) fn named(&mut self) {
        self.places.iter_mut().for_each(|place| place.is_fresh = false);
        self.free.append(&mut self.freed);
    }

    /// The directory, after [`Table::sync`].
    pub(crate) fn directory(&self) -> Directory {
        let named = |&Place { slot, crc, credit, .. }: &Place| Named { slot, crc, credit };
        let blocks = self.places.iter().map(named).collect();
        Directory { pages: self.pages, counts: self.counts, blocks }
    }

    /// Credit of all pages. O(blocks + rows in memory).
    pub(crate) fn credit(&self) -> u128 {
        let on_disk = self.places.iter().filter(|place| place.frame == NONE).map(|place| u128::from(place.credit));
        on_disk.sum::<u128>() + self.frames.iter().map(|frame| credit_of(&frame.rows[..])).sum::<u128>()
    }

    /// A page's row, read without changing the cache. At most one read from disk.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub(crate) fn peek(&self, page: u32) -> Result<Row> {
        let frame = self.places.get((page / ROWS) as usize).and_then(|place| self.frames.get(place.frame as usize));
        if let Some(frame) = frame.filter(|_| page < self.pages) {
            return Ok(frame.rows[(page % ROWS) as usize]);
        }
        Scan::new(self, page).next_row().unwrap_or(Err(Error::NoSuchPage { page }))
    }

    /// The rows of the pages from `first` on, in order. Each block is read once, and none stays in
    /// memory.
    pub(crate) fn scan_from(&self, first: u32) -> Scan<'_> {
        Scan::new(self, first)
    }

    /// Bytes of the file.
    pub(crate) fn disk_bytes(&self) -> u64 {
        offset(self.slots)
    }

    #[cfg(test)]
    pub(crate) fn blocks_in_memory(&self) -> usize {
        self.frames.len()
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        let frames =
            self.frames.capacity() * size_of::<Frame>() + self.frames.len() * size_of::<[Row; ROWS as usize]>();
        let slots = self.free.capacity() + self.freed.capacity();
        self.shares.memory_bytes() + (frames + self.places.capacity() * size_of::<Place>() + slots * 4) as u64
    }

    fn checksum(&self, block: u32, bytes: &[u8]) -> u32 {
        crc32(&[&self.id, &block.to_le_bytes(), bytes])
    }
}

fn credit_of(rows: &[Row]) -> u128 {
    rows.iter().map(|row| u128::from(row.credit)).sum()
}

/// The offset of a slot, after the header's.
fn offset(slot: u32) -> u64 {
    (1 + u64::from(slot)) * BLOCK_BYTES as u64
}

/// Reads rows in order.
pub(crate) struct Scan<'a> {
    table: &'a Table,
    page: u32,
    /// The block read last, and its rows.
    block: u32,
    rows: Box<[Row; ROWS as usize]>,
}

impl<'a> Scan<'a> {
    fn new(table: &'a Table, page: u32) -> Scan<'a> {
        Scan { table, page, block: NONE, rows: Box::new([Row::default(); ROWS as usize]) }
    }

    /// The next row; `None` after the last one, or after an error.
    pub(crate) fn next_row(&mut self) -> Option<Result<Row>> {
        if self.page >= self.table.pages {
            return None;
        }
        let (block, at) = (self.page / ROWS, (self.page % ROWS) as usize);
        self.page += 1;
        let frame = self.table.places[block as usize].frame;
        if let Some(frame) = self.table.frames.get(frame as usize) {
            return Some(Ok(frame.rows[at]));
        }
        if self.block != block {
            if let Err(error) = self.table.read(block, &mut self.rows) {
                self.page = NONE;
                return Some(Err(error));
            }
            self.block = block;
        }
        Some(Ok(self.rows[at]))
    }
}

impl Iterator for Scan<'_> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        self.next_row()
    }
}
