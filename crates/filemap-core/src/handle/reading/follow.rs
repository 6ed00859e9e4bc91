//! Read-only handles: they use the index of the writer's last checkpoint and follow the log's tail into a memtable of
//! their own.
//!
//! What such a handle has seen it never unsees: its table is kept across the writer's checkpoints, and is built anew from
//! the newest superblock only when it has grown too large, after the newer index is in place.

use std::sync::Arc;
use std::time::{Duration, Instant};

use filemap_io::{Access, Dir, File};

use crate::error::{Error, Result};
use crate::failpoint::{Fault, planted};
use crate::format::superblock::{Superblock, Tail};
use crate::handle::reading::lost::absent;
use crate::handle::reading::{End, Opened, Reading, Tables};
use crate::handle::recover::check_canonicalizer;
use crate::handle::recover::{self, Met};
use crate::index::address::{Owner, load};
use crate::index::memtable::Memtable;
use crate::index::superblock::SuperblockFile;
use crate::logs::keys::KeyLog;
use crate::logs::scan::Item;
use crate::logs::segments::{Bounds, FIRST_RECORD, Segment, Segments};
use crate::logs::values::ValueLog;
use crate::options::Options;
use crate::stats::Counters;
use crate::sync::primitive::{AtomicU64, Ordering, sleep};
use crate::sync::{Ranked, lock, rank};

/// A handle that is used follows the writer at least this often.
const EVERY: Duration = Duration::from_millis(500);
/// A superblock may be read while it is being written: then again, so often.
pub(super) const READS: u32 = 50;

/// How far a read-only handle has followed.
#[derive(Debug)]
pub(crate) struct Follower {
    state: Ranked<{ rank::FOLLOW }, Following>,
    opened: Instant,
    /// Milliseconds after `opened` at which it last followed.
    last_ms: AtomicU64,
}

#[derive(Debug)]
struct Following {
    position: Tail,
    /// The next sequence there.
    next_sequence: u64,
    /// What was met since the table was begun.
    met: Met,
    /// [`Segments::changes`] when the table was begun.
    changes: u64,
    /// When something had last been dropped, as of when the table was begun.
    dropped_epoch: u64,
}

impl Following {
    /// From the tail of a superblock on.
    fn from(superblock: &Superblock, segments: &Segments) -> Following {
        Following {
            changes: segments.changes(),
            position: superblock.tail,
            next_sequence: superblock.next_sequence,
            met: Met::since(superblock),
            dropped_epoch: superblock.dropped_epoch,
        }
    }
}

impl Follower {
    pub(crate) fn position(&self) -> (Tail, u64) {
        let state = lock(&self.state);
        (state.position, state.next_sequence)
    }
}

/// Opens the parts of a store for reading, as of its last checkpoint.
pub(crate) fn open(dir: Arc<dyn Dir>, options: Options) -> Result<Reading> {
    let access = Access::Read;
    let superblock = SuperblockFile::open(&*dir, access)?;
    let mut failed = None;
    loop {
        let current = read_superblock(&superblock, &*dir)?;
        if let Some((epoch, error)) = failed.take()
            && epoch == current.epoch
        {
            return Err(error);
        }
        check_canonicalizer(&current, &options)?;
        let values = ValueLog::open(Arc::clone(&dir), current.store_id, access, &options)?;
        let keys = match KeyLog::open(Arc::clone(&dir), access, &current, Bounds::of_keys(&options)) {
            // The writer may have removed what it names since: then there is a newer superblock.
            Err(e) if e.is_corrupt() => {
                failed = Some((current.epoch, e));
                continue;
            }
            keys => keys?,
        };
        let file = recover::open_index(&*dir, access, &current)?;
        let seed = recover::index_seed(&current);
        let loaded = match load(file, seed, Owner::Other, current.index, current.epoch, &options.limits) {
            // The writer may have reused a node page since the superblock was read: then there is a newer one.
            Err(e) if e.is_corrupt() => {
                failed = Some((current.epoch, e));
                continue;
            }
            loaded => loaded?,
        };
        let segment_table = recover::segment_table(&loaded, current.index)?;
        keys.learn(segment_table.key_ends());
        values.dictionaries.learn(current.last_dictionary, segment_table.kept_dictionaries().collect());
        let Some(absent) = absent(&superblock, &*dir, &current, &segment_table, (&values, &keys))? else { continue };
        let active = Arc::new(Memtable::new(options.memtable_bytes, options.limits.follower_bytes));
        let follower = Follower {
            state: Ranked::new(Following::from(&current, &values.segments)),
            opened: Instant::now(),
            last_ms: AtomicU64::new(0),
        };
        return Ok(Reading::new(Opened {
            dir,
            options,
            current,
            values: Arc::new(values),
            keys,
            index: loaded.index,
            superblock,
            segment_table,
            active,
            absent,
            end: End::Follower(follower),
        }));
    }
}

/// Reads a superblock that another process may be writing.
fn read_superblock(file: &SuperblockFile, dir: &dyn Dir) -> Result<Superblock> {
    let mut tries = 0;
    loop {
        match file.read(dir, Access::Read) {
            Err(e) if e.is_corrupt() && tries < READS => {
                tries += 1;
                sleep(Duration::from_micros(200));
            }
            read => return read,
        }
    }
}

impl Reading {
    /// Follows the writer if that was not done lately and no other thread is about it. An error is remembered for
    /// `stats`: the handle goes on with what it has.
    pub(crate) fn follow_if_due(&self) {
        let Some(follower) = self.follower() else { return };
        let now = follower.opened.elapsed();
        let last = Duration::from_millis(follower.last_ms.load(Ordering::Relaxed));
        if now < last + EVERY {
            return;
        }
        if let Some(mut state) = follower.state.try_lock() {
            follower.last_ms.store(now.as_millis() as u64, Ordering::Relaxed);
            if let Err(e) = self.follow_locked(&mut state) {
                self.counters.failed(&e);
            }
        }
    }

    /// Follows the writer now.
    pub(crate) fn follow_writer(&self) -> Result<()> {
        let Some(follower) = self.follower() else { return Ok(()) };
        let mut state = lock(&follower.state);
        let result = self.follow_locked(&mut state);
        follower.last_ms.store(follower.opened.elapsed().as_millis() as u64, Ordering::Relaxed);
        result
    }

    /// After something was not where it should be: follows the writer, looks which segments there are, and begins the table
    /// anew if some have gone since it was begun, for it may lead there. Whether it did the last.
    pub(crate) fn catch_up(&self) -> Result<bool> {
        let Some(follower) = self.follower() else { return Ok(false) };
        let mut state = lock(&follower.state);
        self.follow_locked(&mut state)?;
        self.values.segments.look_anew()?;
        let newest = self.latest.load_full();
        let is_stale = self.values.segments.changes() != state.changes;
        if is_stale {
            self.start_table_anew(&mut state, &newest)?;
        }
        Ok(is_stale)
    }

    fn follow_locked(&self, state: &mut Following) -> Result<()> {
        Counters::add(&self.counters.refreshes, 1);
        self.heed_recoveries(state)?;
        let begun_in = state.position.ordinal;
        let mut is_lost = self.follow_or_lose(state)?;
        let mut failed = None;
        loop {
            let newest = self.superblock.newest_whole(&*self.dir)?;
            // Of segments below the tail compaction may have removed some before this handle came by.
            is_lost |= newest.tail.ordinal > begun_in;
            if newest.epoch <= self.index.epoch() {
                return if is_lost { self.start_table_anew(state, &newest) } else { Ok(()) };
            }
            // What the last superblock names is not written to: what does not fit it is damaged. Else the writer was faster.
            if let Some((epoch, error)) = failed.take()
                && epoch == newest.epoch
            {
                return Err(error);
            }
            if newest.tail > state.position {
                // The writer has moved on since: what its index names must be known before it is used.
                is_lost |= self.follow_or_lose(state)?;
            }
            match self.take_index(&newest) {
                Err(e) if e.is_corrupt() => failed = Some((newest.epoch, e)),
                Err(e) => return Err(e),
                Ok(()) => {
                    let full = self.tables.load().active.bytes() > self.options.memtable_bytes;
                    if is_lost || (full && newest.tail <= state.position) {
                        self.start_table_anew(state, &newest)?;
                    }
                    return Ok(());
                }
            }
        }
    }

    /// Puts the index of a newer superblock in place.
    fn take_index(&self, newest: &Superblock) -> Result<()> {
        self.keys.rescan(newest)?;
        let file = recover::open_index(&*self.dir, Access::Read, newest)?;
        let seed = recover::index_seed(newest);
        let loaded = load(file, seed, Owner::Other, newest.index, newest.epoch, &self.options.limits)?;
        let segment_table = recover::segment_table(&loaded, newest.index)?;
        self.values.dictionaries.learn(newest.last_dictionary, segment_table.kept_dictionaries().collect());
        self.look_for_absent(newest, &segment_table)?;
        self.indexed_time_ms.store(newest.max_time_ms, Ordering::Release);
        self.index.follow(&loaded.index);
        self.keys.follow(newest, segment_table.key_ends());
        self.segment_table.store(Arc::new(segment_table));
        self.latest.store(Arc::new(newest.clone()));
        Ok(())
    }

    /// Replaces the table by one that holds only what follows the superblock's tail.
    fn start_table_anew(&self, state: &mut Following, from: &Superblock) -> Result<()> {
        let fresh = Arc::new(Memtable::new(self.options.memtable_bytes, self.options.limits.follower_bytes));
        let mut position = Following::from(from, &self.values.segments);
        self.follow_log_into(&mut position, &fresh)?;
        self.tables.store(Arc::new(Tables { active: fresh, frozen: None }));
        *state = position;
        Ok(())
    }

    /// Follows the log. Whether the segment is gone in which it stopped last: then nothing came after that before a checkpoint
    /// began another one, and the table is to be begun anew from there.
    fn follow_or_lose(&self, state: &mut Following) -> Result<bool> {
        match self.follow_log(state) {
            Err(e) if e.is_corrupt() => {
                self.values.segments.look_anew()?;
                let is_there = self.values.segments.log().iter().any(|s| s.ordinal == state.position.ordinal);
                if is_there { Err(e) } else { Ok(true) }
            }
            followed => followed.map(|()| false),
        }
    }

    fn follow_log(&self, state: &mut Following) -> Result<()> {
        let table = Arc::clone(&self.tables.load().active);
        self.follow_log_into(state, &table)
    }

    /// Enters every whole record from the position on. The writer appends in order, so the first record that is not whole
    /// is the one that it is just writing.
    fn follow_log_into(&self, state: &mut Following, table: &Memtable) -> Result<()> {
        loop {
            let last = self.follow_segment(state, table)?;
            if !last {
                return Ok(());
            }
        }
    }

    /// Follows one segment to its end, and goes to the next if there is one. Returns whether it did.
    fn follow_segment(&self, state: &mut Following, table: &Memtable) -> Result<bool> {
        let all = self.values.segments.log();
        let segment = match all.iter().find(|s| s.ordinal == state.position.ordinal) {
            Some(segment) => Some((segment, self.values.segments.file(segment)?)),
            None if self.is_absent(state.position.ordinal) => None,
            None => {
                let name = crate::format::names::segment(state.position.ordinal as u16);
                return Err(Error::corrupt(name, 0, "the segment is missing"));
            }
        };
        if let Some((segment, file)) = &segment {
            self.follow_records(segment, &**file, state, table)?;
        }
        let mut next = self.begun_after(state, table)?;
        if next.is_none() {
            // Those that are known may even be gone, created ahead by a writer that was killed, and others in their place.
            self.values.segments.rescan(|s| self.is_settled(s, state.position.ordinal))?;
            next = self.begun_after(state, table)?;
        }
        let Some(next) = next else { return Ok(false) };
        // If there is a next one, this one is complete: what was appended to it between the two looks is there now.
        if let Some((segment, file)) = &segment {
            self.follow_records(segment, &**file, state, table)?;
        }
        state.position = Tail { ordinal: next, offset: FIRST_RECORD };
        Ok(true)
    }

    /// The segment after the position, if it or one after it holds a whole record. Until then the writer's next recovery may
    /// remove it and go on in the one before: half a record is what a writer leaves that is killed while it writes the
    /// first. One after it will do, since a power loss may leave a segment without a record and those after it with some.
    fn begun_after(&self, state: &Following, table: &Memtable) -> Result<Option<u64>> {
        let all = self.values.segments.log();
        let mut later = all.iter().filter(|s| s.ordinal > state.position.ordinal).peekable();
        let next = later.peek().map(|s| s.ordinal);
        for segment in later {
            // Not through the open files, which would keep the removed one. Where the file is another's now, the directory is to
            // be looked at again.
            let file = match self.values.segments.open_anew(segment) {
                Err(e) if e.is_corrupt() => return Ok(None),
                opened => opened?,
            };
            let mut scan = self.values.scan(segment, &*file, FIRST_RECORD, u64::MAX)?;
            while let Some(item) = scan.next()? {
                if let Item::Record { bytes, .. } = item
                    && self.is_whole(bytes, state, table)
                {
                    return Ok(next);
                }
            }
        }
        Ok(None)
    }

    /// Whether the file under a segment's name is that segment for as long as there is one, as far as this handle can know: one of
    /// the log up to an ordinal that is in use, or one of compaction that a superblock has named, with the log beyond it. What
    /// a writer that was killed has left unnamed its next recovery removes, and gives the ordinal out again.
    pub(super) fn is_settled(&self, segment: &Segment, ordinal: u64) -> bool {
        match segment.is_output {
            false => segment.ordinal <= ordinal,
            true => {
                segment.ordinal < self.latest.load().tail.ordinal
                    && self.segment_table.load().names(segment.id, segment.ordinal)
            }
        }
    }

    /// Enters the records of one segment from the position on. Bytes that are no record are the one being written, unless a
    /// whole record follows them: then they are damage, and cost nothing else. A record whose chunks or whose body are not
    /// there is none either: a power loss has left it, and the writer's next recovery drops it.
    fn follow_records(
        &self,
        segment: &Segment,
        file: &dyn File,
        state: &mut Following,
        table: &Memtable,
    ) -> Result<()> {
        let mut scan = self.values.scan(segment, file, state.position.offset, u64::MAX)?;
        while let Some(item) = scan.next()? {
            let Item::Record { offset, bytes } = item else { continue };
            if !self.is_whole(bytes, state, table) {
                continue;
            }
            state.met.add(segment, offset, bytes);
            if table.is_exhausted() {
                return Err(Error::full("the memtable", "the writer's checkpoints are too far apart to follow"));
            }
            let sequence = recover::enter(table, segment.id, offset, bytes, |key| self.hash(key));
            state.next_sequence = state.next_sequence.max(sequence + 1);
            state.position.offset = offset + bytes.len() as u64;
        }
        Ok(())
    }

    /// Whether a record counts, as the writer's recovery would judge it.
    fn is_whole(&self, bytes: &[u8], state: &Following, table: &Memtable) -> bool {
        state.met.is_whole(bytes, &self.values.segments, table, |key| self.hash(key))
    }

    /// Starts anew from the last superblock if a writer has dropped something since: a failed sync leaves records in the cache
    /// that the device does not have, and retention drops versions; this handle may have followed either. The index comes first,
    /// or what only the old table knew would be missed in between.
    fn heed_recoveries(&self, state: &mut Following) -> Result<()> {
        let mut failed = None;
        loop {
            let newest = self.superblock.newest_whole(&*self.dir)?;
            // A superblock that failed to be synced may have been seen, and be gone: then the one before it counts again.
            if newest.dropped_epoch == state.dropped_epoch && newest.epoch >= self.index.epoch() {
                return Ok(());
            }
            if let Some((epoch, error)) = failed.take()
                && epoch == newest.epoch
            {
                return Err(error);
            }
            // Where records were dropped there may be others by now.
            if let Some(pages) = &self.values.cache
                && !planted(Fault::StalePagesKept)
            {
                pages.forget();
            }
            self.values.segments.rescan(|s| self.is_settled(s, newest.tail.ordinal))?;
            if newest.epoch != self.index.epoch() {
                match self.take_index(&newest) {
                    Err(e) if e.is_corrupt() => {
                        failed = Some((newest.epoch, e));
                        continue;
                    }
                    taken => taken?,
                }
            }
            return self.start_table_anew(state, &newest);
        }
    }
}
