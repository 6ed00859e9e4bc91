//! The journal of requests to a set: the answers to each request, and the keys that it added.
//!
//! A client may send a request again because the answer was lost on its way. The URLs are in the
//! set by then: looked up again they would be called seen, and nobody would ever fetch them. So
//! answers are kept under the request's id, and are durable before the set has the URLs.
//!
//! Files `SET.NUMBER.requests`, each a [`segment`]: the newest, with keys, is appended to; older
//! ones have answers alone, since the set has their keys. A file is removed when enough newer ids
//! are kept, or its own are old enough; the time up to which ids may have been forgotten is noted
//! first.
//!
//! Crash-safe order: answers and keys are durable before the set takes the keys; the set is synced
//! before keys are taken out of a file; what is forgotten is noted durably before its file is
//! removed. After a crash the set is given the keys again.

mod failpoint;
mod segment;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use filemap_io::Dir;
use filemap_io::files::sync_folder;

use crate::error::{Error, Result};
use crate::files::{self, beside};
use crate::request_id::time_of;
use segment::{Head, Home, Writer};

#[cfg(test)]
pub(crate) use failpoint::plant;
pub(crate) use failpoint::{Failpoint, planted};
pub(crate) use segment::Record;

/// Length at which the newest file is full. A trie or growing filter is rewritten once for each
/// full file.
const FULL_BYTES: u64 = 64 << 20;
/// Bytes of records in a group of a file without keys.
const GROUP_BYTES: usize = 1 << 20;

/// Retention of ids: until this many newer ones came, or this much time passed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep {
    pub(crate) requests: u64,
    pub(crate) ms: u64,
}

/// Summary of a file.
#[derive(Debug)]
struct File {
    number: u64,
    ids: u64,
    /// Times at which its first and its last request were answered.
    oldest_ms: u64,
    newest_ms: u64,
    /// The latest time of its ids.
    newest_id_ms: u64,
}

impl File {
    fn new(number: u64) -> File {
        File { number, ids: 0, oldest_ms: u64::MAX, newest_ms: 0, newest_id_ms: 0 }
    }

    fn count(&mut self, record: &Record) {
        self.oldest_ms = self.oldest_ms.min(record.at_ms);
        self.newest_ms = self.newest_ms.max(record.at_ms);
        if record.id != 0 {
            self.ids += 1;
            self.newest_id_ms = self.newest_id_ms.max(time_of(record.id));
        }
    }
}

/// An open journal; its set's lock keeps others out.
#[derive(Debug)]
pub(crate) struct Journal {
    home: Home,
    keep: Keep,
    full_bytes: u64,
    /// File and place in it of each id.
    places: HashMap<u128, (u64, u32)>,
    /// Without keys, the oldest first.
    older: VecDeque<File>,
    newest: Option<(Writer, File)>,
    next_number: u64,
    floor_ms: u64,
}

impl Journal {
    /// Opens the journal of a set, after [`recover`]; `keys_of` identifies its kind of keys.
    ///
    /// # Errors
    /// `Corrupt`; `NewerFormat`; `Io`.
    pub(crate) fn open(dir: Arc<dyn Dir>, name: &str, keys_of: u64, keep: Keep) -> Result<Journal> {
        let numbers = segment::numbers(&*dir, name)?;
        let home = home(&dir, name, keys_of, &numbers)?;
        let mut journal = Journal {
            home,
            keep,
            full_bytes: FULL_BYTES,
            places: HashMap::new(),
            older: VecDeque::new(),
            newest: None,
            next_number: numbers.last().map_or(1, |last| last + 1),
            floor_ms: 0,
        };
        for number in numbers {
            let head = segment::head(&*dir, name, number, Some(keys_of))?.head;
            journal.floor_ms = journal.floor_ms.max(head.floor_ms);
            let mut file = File::new(number);
            segment::read(&journal.home, number, false, |place, record| {
                file.count(&record);
                if record.id != 0 {
                    journal.places.insert(record.id, (number, place));
                }
                Ok(())
            })?;
            journal.older.push_back(file);
        }
        Ok(journal)
    }

    /// Sets the length at which a file is full.
    #[cfg(test)]
    pub(crate) fn full_at(&mut self, bytes: u64) {
        self.full_bytes = bytes;
    }

    /// The answers to a request, without its keys. Reads two bits a URL.
    ///
    /// # Errors
    /// `Corrupt`; `Io`.
    pub(crate) fn find(&self, id: u128) -> Result<Option<Record>> {
        let Some((number, place)) = self.places.get(&id).copied() else { return Ok(None) };
        match &self.newest {
            _ if planted(Failpoint::AnsweredAnew) => Ok(None),
            Some((writer, _)) if writer.number() == number => writer.read(place).map(Some),
            _ => segment::read_at(&self.home, number, place).map(Some),
        }
    }

    /// Ids with times up to this may have been answered and forgotten.
    pub(crate) fn floor_ms(&self) -> u64 {
        self.floor_ms
    }

    /// Number of kept ids.
    pub(crate) fn len(&self) -> u64 {
        self.places.len() as u64
    }

    /// Appends requests; durable after [`Journal::sync`].
    ///
    /// # Errors
    /// `Io`; `Full`. None of the requests is in the journal then; [`Journal::cut_back`] must
    /// follow.
    pub(crate) fn append(&mut self, records: &[Record], now_ms: u64) -> Result<()> {
        if self.newest.is_none() {
            self.begin_file(now_ms)?;
        }
        self.append_to_newest(records)
    }

    fn append_to_newest(&mut self, records: &[Record]) -> Result<()> {
        let Some((writer, file)) = &mut self.newest else { return Ok(()) };
        let places = writer.append(records)?;
        for (record, place) in records.iter().zip(places) {
            file.count(record);
            if record.id != 0 {
                self.places.insert(record.id, (writer.number(), place));
            }
        }
        Ok(())
    }

    /// Cuts off what a failed [`Journal::append`] may have left.
    ///
    /// # Errors
    /// `Io`: the contents of the file are unknown.
    pub(crate) fn cut_back(&mut self) -> Result<()> {
        self.newest.as_ref().map_or(Ok(()), |(writer, _)| writer.cut_back())
    }

    /// Makes all requests durable.
    ///
    /// # Errors
    /// `Io`: the contents of the file are unknown.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.newest.as_mut().map_or(Ok(()), |(writer, _)| writer.sync())
    }

    /// Returns whether some requests are not durable.
    pub(crate) fn is_changed(&self) -> bool {
        self.newest.as_ref().is_some_and(|(writer, _)| writer.is_changed())
    }

    /// Returns whether there is a file to append to that is not full.
    pub(crate) fn is_open(&self) -> bool {
        self.newest.as_ref().is_some_and(|(writer, _)| writer.len() < self.full_bytes)
    }

    /// Returns whether [`Journal::begin_file`] is due: the newest file is full, or its first
    /// request need not be kept any longer.
    pub(crate) fn is_full(&self, now_ms: u64) -> bool {
        self.newest.as_ref().is_some_and(|(writer, file)| {
            writer.len() >= self.full_bytes || file.oldest_ms.saturating_add(self.keep.ms) <= now_ms
        })
    }

    /// Takes the keys, which the set has durably, out of the newest file, and begins another.
    /// Forgets what need not be kept at this time, but keeps ids with a time in the future: the
    /// floor that they would set would refuse other requests.
    ///
    /// # Errors
    /// `Io`; `Corrupt`.
    pub(crate) fn begin_file(&mut self, now_ms: u64) -> Result<()> {
        let gone = self.take_forgotten(now_ms);
        let (mut floor_ms, mut kept) = (self.floor_ms, Vec::new());
        for file in &gone {
            if file.newest_id_ms <= now_ms {
                floor_ms = floor_ms.max(file.newest_id_ms);
                continue;
            }
            segment::read(&self.home, file.number, false, |_, record| {
                match time_of(record.id) {
                    time_ms if time_ms > now_ms => kept.push(Record { keys: Vec::new(), ..record }),
                    time_ms => floor_ms = floor_ms.max(time_ms),
                }
                Ok(())
            })?;
        }
        if planted(Failpoint::ForgottenUnnoted) {
            gone.iter().try_for_each(|file| self.remove(file.number))?;
        }
        self.strip_newest()?;
        let writer = Writer::create(&self.home, self.next_number, floor_ms)?;
        self.newest = Some((writer, File::new(self.next_number)));
        self.floor_ms = floor_ms;
        self.next_number += 1;
        if !kept.is_empty() {
            self.append_to_newest(&kept)?;
            self.sync()?;
        }
        for file in gone {
            self.remove(file.number)?;
            self.places.retain(|_, (number, _)| *number != file.number);
        }
        Ok(())
    }

    fn remove(&self, number: u64) -> Result<()> {
        Ok(files::remove(&*self.home.dir, &beside::requests(&self.home.name, number))?)
    }

    /// Takes the oldest files, which need not be kept, and those without ids.
    fn take_forgotten(&mut self, now_ms: u64) -> Vec<File> {
        let (mut gone, kept): (Vec<File>, Vec<File>) = self.older.drain(..).partition(|file| file.ids == 0);
        self.older = kept.into();
        let newest = self.newest.as_ref().map_or(0, |(_, file)| file.ids);
        let mut ids = newest + self.older.iter().map(|file| file.ids).sum::<u64>();
        while let Some(oldest) = self.older.front() {
            let is_old = oldest.newest_ms.saturating_add(self.keep.ms) <= now_ms;
            if !is_old && ids - oldest.ids < self.keep.requests {
                break;
            }
            ids -= oldest.ids;
            gone.extend(self.older.pop_front());
        }
        gone
    }

    /// Takes the keys, which the set has durably, out of the newest file. The next request begins
    /// another.
    ///
    /// # Errors
    /// `Io`; `Corrupt`.
    pub(crate) fn strip_newest(&mut self) -> Result<()> {
        let Some((writer, file)) = self.newest.take() else { return Ok(()) };
        for (id, place) in strip(&self.home, writer.number(), false)? {
            self.places.insert(id, (file.number, place));
        }
        self.older.push_back(file);
        Ok(())
    }
}

/// The journal's home. Its id is that of all its files, or a new one if there are none.
fn home(dir: &Arc<dyn Dir>, name: &str, keys_of: u64, numbers: &[u64]) -> Result<Home> {
    let mut id = None;
    for number in numbers {
        let found = segment::head(&**dir, name, *number, Some(keys_of))?.id;
        if *id.get_or_insert(found) != found {
            return Err(Error::corrupt(&beside::requests(name, *number), 16, "the file belongs to another journal"));
        }
    }
    let id = id.map_or_else(|| files::new_id(&**dir), Ok)?;
    Ok(Home { dir: Arc::clone(dir), name: name.to_owned(), id, keys_of })
}

/// Rewrites a file without keys, and without requests that cannot be sent again. Returns the ids
/// and their places.
fn strip(home: &Home, number: u64, is_last: bool) -> Result<Vec<(u128, u32)>> {
    let head = segment::head(&*home.dir, &home.name, number, Some(home.keys_of))?.head;
    let (mut groups, mut bytes) = (vec![Vec::new()], 0);
    segment::read(home, number, is_last, |_, record| {
        if record.id != 0 {
            bytes += record.verdicts.len();
            if bytes > GROUP_BYTES {
                bytes = 0;
                groups.push(Vec::new());
            }
            if let Some(group) = groups.last_mut() {
                group.push(Record { keys: Vec::new(), ..record });
            }
        }
        Ok(())
    })?;
    groups.retain(|group| !group.is_empty());
    let places = segment::write(home, number, Head { has_keys: false, ..head }, &groups)?;
    let of_groups = groups.iter().zip(places);
    Ok(of_groups.flat_map(|(group, places)| group.iter().map(|record| record.id).zip(places)).collect())
}

/// Names of a set's files.
pub(crate) fn files_of(dir: &dyn Dir, name: &str) -> Result<Vec<String>> {
    Ok(segment::numbers(dir, name)?.into_iter().map(|number| beside::requests(name, number)).collect())
}

/// Keys of a request.
#[derive(Debug)]
pub(crate) struct KeysOf {
    /// Name of their file.
    pub(crate) file: String,
    /// Offset of the request in it.
    pub(crate) at: u64,
    /// Identifies the sets that have such keys.
    pub(crate) keys_of: u64,
    /// In the set's encoding.
    pub(crate) bytes: Vec<u8>,
}

impl KeysOf {
    /// The error of keys that do not decode.
    pub(crate) fn malformed(&self) -> Error {
        Error::corrupt(&self.file, self.at, "the keys of a request are cut off")
    }
}

/// Keys of requests that the set may lack, for a follower. Call it before reading the set, since a
/// writer gives the set its keys before it takes them out of the journal. Changes nothing.
///
/// # Errors
/// `Corrupt`; `NewerFormat`; `Io`.
pub(crate) fn waiting(dir: &Arc<dyn Dir>, name: &str) -> Result<Vec<KeysOf>> {
    let numbers = segment::numbers(&**dir, name)?;
    let (last, mut all) = (numbers.last().copied(), Vec::new());
    for number in numbers {
        let file = beside::requests(name, number);
        let found = match segment::head(&**dir, name, number, None) {
            // The writer has removed the file meanwhile: the set has its keys.
            Err(Error::Storage(error)) if error.is_absent() => continue,
            found => found?,
        };
        if found.head.has_keys {
            let (id, keys_of) = (found.id, found.keys_of);
            let home = Home { dir: Arc::clone(dir), name: name.to_owned(), id, keys_of };
            let read = segment::read(&home, number, Some(number) == last, |at, record| {
                all.push(KeysOf { file: file.clone(), at: u64::from(at), keys_of, bytes: record.keys });
                Ok(())
            });
            match read {
                Err(Error::Storage(error)) if error.is_absent() => {}
                read => read?,
            }
        }
    }
    Ok(all)
}

/// Gives the set the keys that a crash may have kept from it: `insert` takes those of a request,
/// `sync` makes them durable. A key is given only if its answer is on the device.
///
/// # Errors
/// `Corrupt`; `NewerFormat`; `Io`; those of the set.
pub(crate) fn recover(
    dir: &Arc<dyn Dir>,
    name: &str,
    keys_of: u64,
    mut insert: impl FnMut(&KeysOf) -> Result<()>,
    sync: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let numbers = segment::numbers(&**dir, name)?;
    let Some(last) = numbers.last().copied() else { return Ok(()) };
    sync_folder(&**dir)?;
    let home = home(dir, name, keys_of, &numbers)?;
    let mut with_keys = Vec::new();
    for number in numbers {
        if segment::head(&**dir, name, number, Some(keys_of))?.head.has_keys {
            segment::settle(&home, number)?;
            with_keys.push(number);
        }
    }
    if with_keys.is_empty() {
        return Ok(());
    }
    for number in &with_keys {
        let file = beside::requests(name, *number);
        segment::read(&home, *number, *number == last, |at, record| {
            insert(&KeysOf { file: file.clone(), at: u64::from(at), keys_of, bytes: record.keys })
        })?;
    }
    sync()?;
    with_keys.into_iter().try_for_each(|number| strip(&home, number, number == last).map(drop))
}
