//! What has changed since a place in the store's history: puts and removals in the order in which
//! they were made, as far as they are durable.
//!
//! Sequences rise along the log, and each belongs to one record. So what comes next lies in the
//! segment of the log that has its sequence; or, if compaction has removed that segment, in one of
//! compaction's outputs, which are searched for the sequences that the log lacks there.

use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::failpoint::{Fault, planted};
use crate::format::superblock::Tail;
use crate::format::value::{self, Kind};
use crate::handle::reading::Reading;
use crate::logs::scan::Item;
use crate::logs::segments::{FIRST_RECORD, Segment};
use crate::logs::values::read::Want;
use crate::record::{Head, Version};
use crate::store::Store;
use crate::store::pages::is_named;

/// Bytes of the log scanned for one batch.
const BATCH_BYTES: u64 = 1 << 20;
/// Bytes of a segment that are scanned for a sequence, rather than halved once more.
const NEAR_BYTES: u64 = 1 << 20;
/// Records that a search of compaction's outputs has found, read for one batch.
const FOUND_BATCH: usize = 256;

/// A place in the history of one store: what has changed since, [`Store::changes`] tells.
///
/// Its text, which `FromStr` reads, has the store's id, its life (another one after a recovery that
/// dropped something, and in a backup), the generation of its rules of erasures, and the next
/// sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChangeCursor {
    store_id: [u8; 16],
    life: u64,
    rules: u64,
    next: u64,
}

impl ChangeCursor {
    /// The next sequence: what has a lower one was told before.
    pub fn next_sequence(&self) -> u64 {
        self.next
    }
}

impl fmt::Display for ChangeCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = u128::from_be_bytes(self.store_id);
        write!(f, "{id:032x}-{:016x}-{}-{}", self.life, self.rules, self.next)
    }
}

impl FromStr for ChangeCursor {
    type Err = Error;

    /// # Errors
    /// `InvalidOption` for any other text.
    fn from_str(text: &str) -> Result<ChangeCursor> {
        let refused = || Error::option("cursor", format!("{text:?} is no place in a store's history"));
        let parts: Vec<&str> = text.split('-').collect();
        let [id, life, rules, next] = parts[..] else { return Err(refused()) };
        let is_hex = |text: &str, digits: usize| text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit());
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !is_hex(id, 32) || !is_hex(life, 16) || !is_number(rules) || !is_number(next) {
            return Err(refused());
        }
        let id = u128::from_str_radix(id, 16).map_err(|_| refused())?;
        let life = u64::from_str_radix(life, 16).map_err(|_| refused())?;
        let (rules, next) = (rules.parse().map_err(|_| refused())?, next.parse().map_err(|_| refused())?);
        Ok(ChangeCursor { store_id: id.to_be_bytes(), life, rules, next })
    }
}

/// One change of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// A version was put, and still exists.
    Put {
        /// Its key.
        key: Vec<u8>,
        /// The version without its body.
        head: Head,
    },
    /// All versions of a key with lower sequences were removed.
    Removed {
        /// The key.
        key: Vec<u8>,
        /// When, and the sequence of the removal.
        version: Version,
    },
    /// The rules of erasures have changed: [`Store::rules`] has them. What they erased is gone, and
    /// must be wherever it was copied to.
    Rules,
}

/// The changes of a store since a place in its history; see [`Store::changes`].
pub struct Changes {
    reading: Arc<Reading>,
    at: ChangeCursor,
    /// What is told of: the durable end of the log, and the next sequence there.
    end: (Tail, u64),
    /// Found and not told yet, in order; all that has a sequence below `covered` is among them.
    ahead: VecDeque<Result<Found>>,
    covered: u64,
    source: Source,
}

filemap_io::debug_fields!(Changes: at);

/// A record of the log that tells of a change.
struct Found {
    key: Vec<u8>,
    version: Version,
    is_removal: bool,
}

/// Where the next sequence is.
enum Source {
    Unknown,
    /// At this offset of a segment of the log, or after it.
    Log(Arc<Segment>, u64),
    /// Among these records of compaction's outputs, sorted by sequence, if it is below the number.
    Moved(VecDeque<Moved>, u64),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Moved {
    sequence: u64,
    segment: u16,
    offset: u64,
}

impl Store {
    /// Where the store's history stands now: all that is durable was before it. A read-only handle
    /// follows its writer first, and syncs what it has found.
    ///
    /// # Errors
    /// `Corrupt`; `Io`; `Closed`.
    pub fn changes_end(&self) -> Result<ChangeCursor> {
        self.reading.check_open()?;
        let (_, next) = self.reading.durable_end()?;
        let latest = self.reading.latest();
        Ok(ChangeCursor { store_id: latest.store_id, life: latest.life, rules: latest.rules, next })
    }

    /// What has changed since a place in the store's history: each version put since that still
    /// exists, and each removal, in the order of their sequences. Only what is durable is told of:
    /// a crash takes nothing back that was told. A version that was dropped by retention is not
    /// mentioned; nor is a removal of a key that had been erased.
    ///
    /// To know a whole store: take [`Store::changes_end`], list the versions with lower sequences
    /// than its next one, and go on from there: what else the list has may not be durable.
    ///
    /// The first change takes the reading of some heads of one segment, each further one the reading
    /// of its record and a look-up. Where compaction has removed a segment of the log, all its
    /// outputs since are read once for each million records in them.
    ///
    /// ```
    /// # let temp = tempfile::tempdir()?;
    /// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
    /// use filemap_core::Record;
    /// use filemap_core::changes::Change;
    /// let before = store.changes_end()?;
    /// store.put(&Record::new(b"http://a.example/", b"A page."))?;
    /// store.sync()?;
    /// let mut changes = store.changes(before)?;
    /// assert!(matches!(changes.next(), Some(Ok(Change::Put { .. }))));
    /// assert!(changes.next().is_none());
    /// assert_eq!(changes.cursor(), store.changes_end()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Outrun`] if it is not known any more: the place is of another store or another life
    /// of it, or removals since were dropped
    /// ([`Options::keep_removals`](crate::Options::keep_removals)). `Corrupt`; `Io`; `Closed`.
    pub fn changes(&self, since: ChangeCursor) -> Result<Changes> {
        self.reading.check_open()?;
        let mut end = self.reading.durable_end()?;
        if since.next > end.1 && !self.is_read_only() {
            // A handle that only reads may have told of it.
            self.sync()?;
            end = self.reading.durable_end()?;
        }
        let source = Source::Unknown;
        let reading = Arc::clone(&self.reading);
        let changes = Changes { reading, at: since, end, ahead: VecDeque::new(), covered: since.next, source };
        changes.check_kept()?;
        Ok(changes)
    }
}

impl Changes {
    /// The place after the last change returned: where to go on.
    pub fn cursor(&self) -> ChangeCursor {
        self.at
    }

    /// Looks how far the store has come: what has become durable since is told of next. Returns true
    /// if there is something.
    ///
    /// # Errors
    /// As [`Store::changes`].
    pub fn renew(&mut self) -> Result<bool> {
        self.reading.check_open()?;
        self.end = self.reading.durable_end()?;
        self.check_kept()?;
        Ok(self.at.next < self.end.1 || self.at.rules != self.reading.latest().rules)
    }

    /// # Errors
    /// `Outrun`.
    fn check_kept(&self) -> Result<()> {
        let latest = self.reading.latest();
        let why = if self.at.store_id != latest.store_id {
            "it is a place in another store's history"
        } else if self.at.life != latest.life {
            "the store has dropped something since, in a recovery or a repair, or is a copy of that one"
        } else if self.at.next < latest.removals_from {
            "removals since were dropped, which are kept for a time only"
        } else if self.at.next > self.end.1 || self.at.rules > latest.rules {
            "the store is an older state of that one"
        } else {
            return Ok(());
        };
        Err(Error::Outrun { why: why.into() })
    }

    /// The change that a record tells of, if there still is one.
    fn told(&self, found: Found) -> Result<Option<Change>> {
        let Found { key, version, is_removal } = found;
        if is_removal {
            return Ok(Some(Change::Removed { key, version }));
        }
        let head = self.reading.looking_again(|| {
            let newest = self.reading.with_newest(&key, Want::Head, |raw| raw.head());
            match newest {
                Ok(Some(head)) if head.version.sequence == version.sequence => return Ok(Some(head)),
                Ok(None) => return Ok(None),
                // Damage of the newest hides no other.
                Err(e) if !e.is_corrupt() => return Err(e),
                _ => {}
            }
            let mut spots = self.reading.all_spots(&key, self.reading.hash(&key))?;
            self.reading.hide_surplus(&mut spots);
            let spot = spots.iter().find(|s| s.version.sequence == version.sequence);
            spot.map(|spot| self.reading.with_spot(&key, spot, Want::Head, |raw| raw.head())).transpose()
        })?;
        Ok(head.map(|head| Change::Put { key, head }))
    }

    /// Finds some of what comes next, or where it is.
    fn read_some(&mut self) -> Result<()> {
        let reading = Arc::clone(&self.reading);
        reading.looking_again(|| {
            self.reading.check_open()?;
            let done = match std::mem::replace(&mut self.source, Source::Unknown) {
                Source::Unknown => self.find(),
                Source::Log(segment, offset) => self.read_log(segment, offset),
                Source::Moved(moved, until) => self.read_moved(moved, until),
            };
            if done.is_err() {
                (self.source, self.covered) = (Source::Unknown, self.at.next);
                self.ahead.clear();
            }
            done
        })?;
        // Removals in segments that compaction has removed meanwhile may be in no output.
        self.check_kept()
    }

    /// The segments of the log that may have records to tell of, in order.
    fn log(&self) -> Vec<Arc<Segment>> {
        let mut log = self.reading.values().segments.log();
        log.retain(|s| s.ordinal <= self.end.0.ordinal);
        log
    }

    /// The offsets of a segment that are told of.
    fn end_of(&self, segment: &Segment) -> u64 {
        if segment.ordinal == self.end.0.ordinal { self.end.0.offset } else { u64::MAX }
    }

    /// The sequence of a segment's first record, if it has one.
    fn first_sequence(&self, segment: &Arc<Segment>) -> Result<Option<u64>> {
        let range = FIRST_RECORD..self.length(segment)?;
        Ok(self.reading.values().first_head(segment, range, |_| true)?.map(|(_, sequence)| sequence))
    }

    fn length(&self, segment: &Arc<Segment>) -> Result<u64> {
        let file = self.reading.values().segments.file(segment)?;
        let bytes = file.len().map_err(Error::io("measure", segment.name()))?;
        Ok(bytes.min(self.end_of(segment)))
    }

    /// Finds the segment of the log with the next sequence, and a place before it there; or searches
    /// the outputs of compaction.
    fn find(&mut self) -> Result<()> {
        let mut after = self.end.1;
        for segment in self.log().iter().rev() {
            let Some(first) = self.first_sequence(segment)? else { continue };
            if first <= self.covered {
                let offset = self.place_before(segment)?;
                self.source = Source::Log(Arc::clone(segment), offset);
                return Ok(());
            }
            after = first;
        }
        self.search_moved(after)
    }

    /// An offset of a segment with a record at or before the next sequence, by halving.
    fn place_before(&self, segment: &Arc<Segment>) -> Result<u64> {
        let (mut from, mut to) = (FIRST_RECORD, self.length(segment)?);
        while to.saturating_sub(from) > NEAR_BYTES {
            let middle = from.midpoint(to);
            match self.reading.values().first_head(segment, middle..to, |_| true)? {
                Some((offset, sequence)) if sequence <= self.covered => from = offset,
                _ => to = middle,
            }
        }
        Ok(from)
    }

    /// Reads a batch of a segment of the log.
    fn read_log(&mut self, segment: Arc<Segment>, from: u64) -> Result<()> {
        let file = self.reading.values().segments.file(&segment)?;
        let mut scan = self.reading.values().scan(&segment, &*file, from, self.end_of(&segment))?;
        while scan.offset() < from + BATCH_BYTES {
            match scan.next()? {
                None => {
                    let offset = scan.offset();
                    return self.after_segment(segment, offset);
                }
                Some(Item::Filler { .. }) => {}
                Some(Item::Gap { offset, what, .. }) => self.ahead.push_back(Err(segment.corrupt(offset, what))),
                Some(Item::Record { bytes, .. }) => {
                    let Ok(header) = value::peek(bytes) else { continue };
                    if header.sequence < self.covered {
                        continue;
                    }
                    self.covered = header.sequence + 1;
                    self.ahead.extend(found(&header, bytes).map(Ok));
                }
            }
        }
        let offset = scan.offset();
        self.source = Source::Log(segment, offset);
        Ok(())
    }

    /// Goes on behind a segment that was read to its end.
    fn after_segment(&mut self, segment: Arc<Segment>, offset: u64) -> Result<()> {
        if segment.ordinal == self.end.0.ordinal {
            self.covered = self.end.1;
            self.source = Source::Log(segment, offset);
            return Ok(());
        }
        for next in self.log().into_iter().filter(|s| s.ordinal > segment.ordinal) {
            let Some(first) = self.first_sequence(&next)? else { continue };
            if first <= self.covered || planted(Fault::MovedNotTold) {
                self.source = Source::Log(next, FIRST_RECORD);
                return Ok(());
            }
            return self.search_moved(first);
        }
        self.search_moved(self.end.1)
    }

    /// Searches the outputs of compaction for the sequences from the next one up to `until`, which no
    /// segment of the log has.
    fn search_moved(&mut self, until: u64) -> Result<()> {
        let (wanted, most, mut next) =
            (self.covered..until, self.reading.options().limits.moved_found, BinaryHeap::new());
        let all = self.reading.values().segments.all();
        // All that an output holds was put before it was begun.
        let may_have = |s: &&Arc<Segment>| s.is_output && s.floor > wanted.start && is_named(&self.reading, s);
        for segment in all.iter().filter(may_have) {
            let file = self.reading.values().segments.file(segment)?;
            let mut scan = self.reading.values().scan(segment, &*file, FIRST_RECORD, u64::MAX)?.once();
            while let Some(item) = scan.next()? {
                match item {
                    Item::Filler { .. } => {}
                    Item::Gap { offset, what, .. } => self.ahead.push_back(Err(segment.corrupt(offset, what))),
                    Item::Record { offset, bytes } => {
                        let Ok(header) = value::peek(bytes) else { continue };
                        if wanted.contains(&header.sequence) && header.kind != Kind::Chunk {
                            next.push(Moved { sequence: header.sequence, segment: segment.id, offset });
                            if next.len() > most {
                                next.pop();
                            }
                        }
                    }
                }
            }
        }
        let is_cut = next.len() >= most;
        let moved = VecDeque::from(next.into_sorted_vec());
        let until = moved.back().filter(|_| is_cut).map_or(until, |last| last.sequence + 1);
        self.source = Source::Moved(moved, until);
        Ok(())
    }

    /// Reads a batch of the records that a search has found.
    fn read_moved(&mut self, mut moved: VecDeque<Moved>, until: u64) -> Result<()> {
        for at in moved.drain(..moved.len().min(FOUND_BATCH)).collect::<Vec<_>>() {
            let segment = self.reading.values().segments.get(at.segment)?;
            let file = self.reading.values().segments.file(&segment)?;
            let mut scan = self.reading.values().scan(&segment, &*file, at.offset, u64::MAX)?;
            let record = match scan.next()? {
                Some(Item::Record { offset, bytes }) if offset == at.offset => {
                    value::peek(bytes).ok().filter(|h| h.sequence == at.sequence).map(|h| found(&h, bytes))
                }
                _ => None,
            };
            // Another segment may have the number by now.
            let record = record.ok_or_else(|| segment.corrupt(at.offset, "the record that was here is gone"))?;
            // Two outputs may have it, until a crashed compaction is cleared away.
            if at.sequence >= self.covered {
                self.ahead.extend(record.map(Ok));
                self.covered = at.sequence + 1;
            }
        }
        if moved.is_empty() {
            self.covered = self.covered.max(until);
            return Ok(());
        }
        self.source = Source::Moved(moved, until);
        Ok(())
    }
}

/// What a record tells of, unless it is part of another one's body.
fn found(header: &value::Header, bytes: &[u8]) -> Option<Found> {
    let is_removal = header.kind == Kind::Tombstone;
    (is_removal || header.kind.is_version()).then(|| Found {
        key: bytes[header.key_at()..header.meta_at()].to_vec(),
        version: Version { time_ms: header.time_ms, sequence: header.sequence },
        is_removal,
    })
}

impl Iterator for Changes {
    type Item = Result<Change>;

    /// The next change; `None` when all is told that was durable at the last [`Changes::renew`].
    /// After an error of damage the next change follows; any other error is returned again.
    fn next(&mut self) -> Option<Result<Change>> {
        let rules = self.reading.latest().rules;
        if rules > self.at.rules {
            self.at.rules = rules;
            return Some(Ok(Change::Rules));
        }
        loop {
            match self.ahead.pop_front() {
                Some(Ok(found)) => {
                    if found.version.sequence >= self.end.1 {
                        self.ahead.push_front(Ok(found));
                        return None;
                    }
                    self.at.next = found.version.sequence + 1;
                    match self.told(found).transpose() {
                        Some(change) => return Some(change),
                        None => continue,
                    }
                }
                Some(Err(damage)) => return Some(Err(damage)),
                None => self.at.next = self.at.next.max(self.covered.min(self.end.1)),
            }
            if self.at.next >= self.end.1 {
                return None;
            }
            if let Err(e) = self.read_some() {
                return Some(Err(e));
            }
        }
    }
}
