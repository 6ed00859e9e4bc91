//! Followers: read-only handles of another process. They use the index of the writer's last
//! checkpoint and replay the log's tail into their own memtable.
//!
//! What a follower has shown stays visible: its memtable outlives the writer's checkpoints. It is
//! rebuilt from the newest superblock only when it has grown too large, or when records that it
//! leads to may have been dropped or removed. The newer index is put in place first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use filemap_io::{Access, Dir, File};

use crate::error::{Error, Result};
use crate::failpoint::{Fault, planted};
use crate::format::superblock::{Superblock, Tail};
use crate::handle::reading::lost::{READS, absent};
use crate::handle::reading::{End, Opened, Reading, Tables};
use crate::handle::recover::check_canonicalizer;
use crate::handle::recover::{self, Met};
use crate::index::address::{Owner, load};
use crate::index::memtable::{Grouping, Memtable};
use crate::index::superblock::SuperblockFile;
use crate::logs::keys::KeyLog;
use crate::logs::scan::Item;
use crate::logs::segments::{Bounds, FIRST_RECORD, Segment, Segments};
use crate::logs::values::ValueLog;
use crate::options::Options;
use crate::stats::Counters;
use crate::sync::primitive::{AtomicU64, Ordering, sleep};
use crate::sync::{Ranked, lock, rank};

/// Greatest interval between two follows of a handle in use.
const EVERY: Duration = Duration::from_millis(500);

/// State of a follower.
#[derive(Debug)]
pub(crate) struct Follower {
    state: Ranked<{ rank::FOLLOW }, Following>,
    opened: Instant,
    /// Time of the last follow, in ms after `opened`.
    last_ms: AtomicU64,
    /// Records with a lower sequence are durable.
    durable_before: AtomicU64,
}

#[derive(Debug)]
struct Following {
    position: Tail,
    /// Next sequence at `position`.
    next_sequence: u64,
    /// Segment of the position when a superblock last showed that nothing was missed.
    checked: u64,
    /// True if the memtable must be rebuilt: compaction may have removed segments before they were
    /// read.
    is_lost: bool,
    /// Records found since the memtable was begun.
    met: Met,
    /// [`Segments::changes`] when the memtable was begun.
    changes: u64,
    /// `dropped_epoch` of the superblock when the memtable was begun.
    dropped_epoch: u64,
}

impl Following {
    /// State at the tail of a superblock.
    fn from(superblock: &Superblock, segments: &Segments) -> Following {
        Following {
            changes: segments.changes(),
            position: superblock.tail,
            next_sequence: superblock.next_sequence,
            checked: superblock.tail.ordinal,
            is_lost: false,
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

/// Opens a store for reading as of its last checkpoint.
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
            // The writer may have removed a file that the superblock names: then there is a newer
            // one.
            Err(e) if e.is_corrupt() => {
                failed = Some((current.epoch, e));
                continue;
            }
            keys => keys?,
        };
        let file = recover::open_index(&*dir, access, &current)?;
        let seed = recover::index_seed(&current);
        let loaded = match load(file, seed, Owner::Other, current.index, current.epoch, &options.limits) {
            // The writer may have reused a node page: then there is a newer superblock.
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
        let grouping = Grouping::of(&options, current.hash_seed);
        let active = Arc::new(Memtable::new(options.memtable_bytes, options.limits.follower_bytes, grouping));
        let follower = Follower {
            state: Ranked::new(Following::from(&current, &values.segments)),
            opened: Instant::now(),
            last_ms: AtomicU64::new(0),
            durable_before: AtomicU64::new(current.next_sequence),
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
    /// Follows the writer if due and no other thread is doing it, and looks at the value cache's
    /// memory. An error is kept for `stats`: the handle continues with what it has.
    pub(crate) fn follow_if_due(&self) {
        let Some(follower) = self.follower() else { return };
        let now = follower.opened.elapsed();
        let last = Duration::from_millis(follower.last_ms.load(Ordering::Relaxed));
        if now < last + EVERY {
            return;
        }
        if let Some(mut state) = follower.state.try_lock() {
            follower.last_ms.store(now.as_millis() as u64, Ordering::Relaxed);
            self.values.tend();
            if let Err(e) = self.keeping_up(|| self.follow_locked(&mut state)) {
                self.counters.failed(&e);
            }
        }
    }

    /// Follows the writer now.
    pub(crate) fn follow_writer(&self) -> Result<()> {
        let Some(follower) = self.follower() else { return Ok(()) };
        let mut state = lock(&follower.state);
        let result = self.keeping_up(|| self.follow_locked(&mut state));
        follower.last_ms.store(follower.opened.elapsed().as_millis() as u64, Ordering::Relaxed);
        result
    }

    /// The position to which this handle has followed the writer, made durable: the writer may
    /// have synced less, or have failed to. If a failed sync lost any of it, the next recovery
    /// drops that and gives the store another life.
    pub(super) fn durable_position(&self) -> Result<(Tail, u64)> {
        self.looking_again(|| self.sync_followed())
    }

    fn sync_followed(&self) -> Result<(Tail, u64)> {
        self.follow_writer()?;
        let Some(follower) = self.follower() else { return Err(Error::ReadOnly) };
        let (position, next) = follower.position();
        let tail = self.latest().tail;
        if next > follower.durable_before.load(Ordering::Acquire).max(self.latest().next_sequence)
            && !planted(Fault::FollowedNotSynced)
        {
            for segment in self.values.segments.log() {
                if (tail.ordinal..=position.ordinal).contains(&segment.ordinal) {
                    let file = self.values.segments.file(&segment)?;
                    file.sync().map_err(Error::io("sync", segment.name()))?;
                }
            }
            follower.durable_before.fetch_max(next, Ordering::AcqRel);
        }
        Ok((position, next))
    }

    /// Called after a read found damage or a missing file. Follows the writer, lists the segments
    /// again, and rebuilds the memtable if segments were removed since it was begun, as it may
    /// lead to them. Returns true if it rebuilt the memtable.
    pub(crate) fn catch_up(&self) -> Result<bool> {
        let Some(follower) = self.follower() else { return Ok(false) };
        let mut state = lock(&follower.state);
        let mut is_begun_anew = false;
        self.keeping_up(|| {
            self.follow_locked(&mut state)?;
            self.values.segments.look_anew()?;
            if self.values.segments.changes() != state.changes {
                self.start_table_anew(&mut state, &self.latest.load_full())?;
                is_begun_anew = true;
                self.follow_locked(&mut state)?;
            }
            Ok(is_begun_anew)
        })
    }

    /// Calls `follow` again if it fails with `Corrupt`: the writer may have overwritten or removed
    /// what its last superblock names, but only after writing a newer one. Failing twice at the
    /// same superblock is damage.
    fn keeping_up<T>(&self, mut follow: impl FnMut() -> Result<T>) -> Result<T> {
        let mut failed = None;
        loop {
            match follow() {
                Err(e) if e.is_corrupt() => {
                    let epoch = self.superblock.newest_whole(&*self.dir)?.epoch;
                    if failed.replace(epoch) == Some(epoch) {
                        return Err(e);
                    }
                }
                followed => return followed,
            }
        }
    }

    fn follow_locked(&self, state: &mut Following) -> Result<()> {
        Counters::add(&self.counters.refreshes, 1);
        self.heed_recoveries(state)?;
        state.is_lost |= self.follow_or_lose(state)?;
        // Until a superblock read after the log shows nothing new.
        loop {
            let newest = self.superblock.newest_whole(&*self.dir)?;
            if newest.dropped_epoch != state.dropped_epoch {
                self.heed_recoveries(state)?;
                continue;
            }
            // Compaction may have removed segments below the tail before this handle read them.
            state.is_lost |= newest.tail.ordinal > state.checked;
            let is_newer = newest.epoch > self.index.epoch();
            if !is_newer && !state.is_lost {
                state.checked = state.position.ordinal;
                return Ok(());
            }
            if is_newer {
                if newest.tail > state.position {
                    // The writer has moved on: first replay the log that its index covers.
                    state.is_lost |= self.follow_or_lose(state)?;
                }
                self.take_index(&newest)?;
            }
            let full = self.tables.load().active.bytes() > self.options.memtable_bytes;
            if state.is_lost || (full && newest.tail <= state.position) {
                self.start_table_anew(state, &newest)?;
            }
        }
    }

    /// Switches to the index of a newer superblock.
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
        // A run may have the number of another that only a lost superblock named.
        self.key_runs.close();
        self.segment_table.store(Arc::new(segment_table));
        self.latest.store(Arc::new(newest.clone()));
        Ok(())
    }

    /// Replaces the memtable by one that holds only the log after the superblock's tail.
    fn start_table_anew(&self, state: &mut Following, from: &Superblock) -> Result<()> {
        if let Some(follower) = self.follower() {
            // What was synced before may have been dropped, and other records may have its
            // sequences.
            follower.durable_before.store(from.next_sequence, Ordering::Release);
        }
        let (bytes, room) = (self.options.memtable_bytes, self.options.limits.follower_bytes);
        let fresh = Arc::new(Memtable::new(bytes, room, self.grouping()));
        let mut position = Following::from(from, &self.values.segments);
        self.follow_log_into(&mut position, &fresh)?;
        self.tables.store(Arc::new(Tables { active: fresh, frozen: None }));
        *state = position;
        Ok(())
    }

    /// Follows the log. Returns true if the segment in which it last stopped was removed: it was
    /// read no further before a checkpoint, so the memtable must be rebuilt.
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

    /// Enters every whole record from the position on. The writer appends in order, so the first
    /// record that is not whole is being written.
    fn follow_log_into(&self, state: &mut Following, table: &Memtable) -> Result<()> {
        loop {
            let last = self.follow_segment(state, table)?;
            if !last {
                return Ok(());
            }
        }
    }

    /// Follows one segment to its end. Returns true if it moved to a next one.
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
            // Known later segments may have been removed too: created ahead by a writer that was
            // killed, and replaced by others.
            self.values.segments.rescan(|s| self.is_settled(s, state.position.ordinal))?;
            next = self.begun_after(state, table)?;
        }
        let Some(next) = next else { return Ok(false) };
        // The next segment exists, so this one is complete: read the bytes appended to it
        // meanwhile.
        if let Some((segment, file)) = &segment {
            self.follow_records(segment, &**file, state, table)?;
        }
        state.position = Tail { ordinal: next, offset: FIRST_RECORD };
        Ok(true)
    }

    /// The segment after the position, if it or a later one holds a whole record. Until then the
    /// writer's next recovery may remove it and continue in the one before: a writer killed while
    /// writing the first record leaves half of it. A later segment suffices, since a power loss
    /// may leave a segment without records and later ones with some.
    fn begun_after(&self, state: &Following, table: &Memtable) -> Result<Option<u64>> {
        let all = self.values.segments.log();
        let mut later = all.iter().filter(|s| s.ordinal > state.position.ordinal).peekable();
        let next = later.peek().map(|s| s.ordinal);
        for segment in later {
            // Bypass the open files: they would keep a removed file readable. If the name now
            // belongs to another file, the directory must be listed again.
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

    /// Returns true if, as far as this handle can know, the file under the segment's name stays
    /// that segment until it is removed. That holds for segments of the log up to an ordinal in
    /// use, and for compaction outputs that a superblock names, with the log beyond them. Others
    /// may be leftovers of a killed writer: its next recovery removes them and reuses the
    /// ordinals.
    pub(super) fn is_settled(&self, segment: &Segment, ordinal: u64) -> bool {
        match segment.is_output {
            false => segment.ordinal <= ordinal,
            true => {
                segment.ordinal < self.latest.load().tail.ordinal
                    && self.segment_table.load().names(segment.id, segment.ordinal)
            }
        }
    }

    /// Enters the records of one segment from the position on. Bytes that are not a record are
    /// being written, unless a whole record follows: then they are damage, and nothing else is
    /// lost. A record whose chunks or body are missing is skipped: a power loss left it, and the
    /// writer's next recovery drops it.
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

    /// Returns true if the writer's recovery would keep the record.
    fn is_whole(&self, bytes: &[u8], state: &Following, table: &Memtable) -> bool {
        state.met.is_whole(bytes, &self.values.segments, table, |key| self.hash(key))
    }

    /// Starts again from the last superblock if a writer has dropped something since: a failed
    /// sync leaves records in the cache that the device does not have, and retention drops
    /// versions; this handle may have followed either. The index is replaced first: otherwise
    /// versions that only the old memtable had would be missing in between.
    fn heed_recoveries(&self, state: &mut Following) -> Result<()> {
        let newest = self.superblock.newest_whole(&*self.dir)?;
        // This handle may have seen a superblock whose sync failed and that was then lost: now the
        // one before counts, or another of the same epoch, from a recovery that did not see it.
        let goes_on = newest.epoch > self.index.epoch() || newest == **self.latest.load();
        if newest.dropped_epoch == state.dropped_epoch && goes_on {
            return Ok(());
        }
        // Dropped records may have been overwritten by others.
        if let Some(pages) = &self.values.cache
            && !planted(Fault::StalePagesKept)
        {
            pages.forget();
        }
        // A recovery removes a segment that held only dropped records, and another may take its
        // name. Segments before the tail of a superblock stay.
        let kept = self.latest.load().tail.ordinal.min(newest.tail.ordinal);
        self.values.segments.rescan(|s| s.ordinal < kept && self.is_settled(s, kept))?;
        if newest != **self.latest.load() {
            self.take_index(&newest)?;
        }
        self.start_table_anew(state, &newest)
    }
}
