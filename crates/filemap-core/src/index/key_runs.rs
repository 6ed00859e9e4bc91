//! Files of the ordered runs: opens them when needed, writes and removes them. Also the keys of
//! several runs as one list.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use filemap_io::{Access, Dir, files};
use filemap_runs::ordered::{Change, Direction, Entry, Home, Info, Merge, OWNER_BYTES, Run, Source, Writer, owner};

use crate::error::{Error, Result, StorageError};
use crate::failpoint::{Fault, planted};
use crate::format::{all_zero, names};
use crate::sync::{Ranked, lock, rank};

/// Entries written in about a tenth of a millisecond.
const SOME_ENTRIES: usize = 1024;
/// Entries between two syncs while writing: some tens of megabytes.
const ENTRIES_AT_ONCE: usize = 1 << 21;
/// Range of numbers, from the next one on, that runs begun since the last superblock may have; few
/// are begun.
const BEGUN_AT_ONCE: u64 = 16;
/// Entries read on the way to a key before the walk is replaced by a search.
const STEPS: usize = 32;

/// The runs of a store, as files.
#[derive(Debug)]
pub(crate) struct KeyRunFiles {
    home: Home,
    /// Open runs, by number. A list that began earlier may hold more.
    opened: Ranked<{ rank::KEY_RUNS }, BTreeMap<u64, Arc<Run>>>,
}

impl KeyRunFiles {
    /// Opens no file yet.
    pub(crate) fn new(dir: Arc<dyn Dir>, store_id: [u8; 16]) -> KeyRunFiles {
        KeyRunFiles { home: Home::new(dir, names::KEY_RUNS, store_id, ()), opened: Ranked::default() }
    }

    /// Bytes read, and bytes written.
    pub(crate) fn traffic(&self) -> (u64, u64) {
        let (_, read, written) = self.home.traffic.counts();
        (read, written)
    }

    /// Closes all runs.
    pub(crate) fn close(&self) {
        lock(&self.opened).clear();
    }

    /// Opens runs that a superblock names.
    ///
    /// # Errors
    /// `Corrupt` if one is missing or differs from the superblock's record; `NewerFormat`; `Io`.
    pub(crate) fn open(&self, runs: &[Info]) -> Result<Vec<Arc<Run>>> {
        let mut opened = lock(&self.opened);
        let mut all = Vec::with_capacity(runs.len());
        for info in runs {
            let known = opened.get(&info.number).filter(|run| run.info() == *info);
            let run = match known {
                Some(run) => Arc::clone(run),
                None => Arc::new(Run::open(&self.home, *info)?),
            };
            opened.insert(info.number, Arc::clone(&run));
            all.push(run);
        }
        Ok(all)
    }

    /// Opens a run again, for a reader that must see what the disk holds.
    ///
    /// # Errors
    /// Those of [`KeyRunFiles::open`].
    pub(crate) fn open_anew(&self, info: &Info) -> Result<Run> {
        Ok(Run::open(&self.home, *info)?)
    }

    /// Writes the sum of sources as a run of this number, or of the next number whose name is
    /// free; durable except for its name. No source has a key twice. `None` if all changes cancel
    /// out. Calls `each_some` about every tenth of a millisecond. After an error no file is left.
    ///
    /// # Errors
    /// `Corrupt` from a source; `Io`; those of `each_some`.
    pub(crate) fn write(
        &self,
        number: u64,
        sources: Vec<Source<'_>>,
        each_some: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Option<Info>> {
        // A checkpoint of a load has one source, in memory: its entries need no merge.
        let alone = match sources[..] {
            [Source::Memory(entries)] => Some(entries),
            _ => None,
        };
        let merge = Merge::new(sources, Direction::Forward, Bound::Unbounded)?;
        let writer = Writer::create(&self.home, number)?;
        let begun = writer.number();
        let written = match alone {
            Some(entries) => write_alone(entries, writer, each_some),
            None => write_merged(merge, writer, each_some),
        };
        if written.is_err() {
            // If this fails, the next opening removes it.
            let _ = self.remove(begun);
        }
        written
    }

    /// Makes the names of new runs durable.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn sync_names(&self) -> Result<()> {
        Ok(files::sync_folder(&*self.home.dir)?)
    }

    /// Removes the file of a run that no durable superblock names.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn remove(&self, number: u64) -> Result<()> {
        lock(&self.opened).remove(&number);
        Ok(files::remove(&*self.home.dir, &names::key_run(number))?)
    }

    /// Removes every run of this store that is not among the named ones: it was being written, or
    /// about to be removed, when a writer ended. `next` is the least run number that no durable
    /// superblock has named. A file of such a name that belongs to another store stays.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn remove_orphans(&self, named: &[Info], next: u64) -> Result<()> {
        let dir = &*self.home.dir;
        for name in dir.list().map_err(Error::io("list", dir.path().display()))? {
            let Some(number) = names::parse_key_run(&name) else { continue };
            if named.iter().all(|run| run.number != number) && self.is_ours(&name, number, next) {
                self.remove(number)?;
            }
        }
        Ok(())
    }

    /// Returns whether a file is a run of this store, or was about to become one. A file without
    /// an owner and with one of the next numbers was being created when the power failed: its
    /// blocks have the device's old content. A file that cannot be read may be anything.
    fn is_ours(&self, name: &str, number: u64, next: u64) -> bool {
        let mut start = [0; OWNER_BYTES];
        let read = self.home.dir.open(name, Access::Read).and_then(|file| file.read_at(&mut start, 0));
        let was_being_created = (next..next.saturating_add(BEGUN_AT_ONCE)).contains(&number);
        read.is_ok_and(|n| match owner(&start[..n]) {
            Some((id, of)) => id == self.home.id && (of == number || was_being_created),
            None => all_zero(&start[..n]) || was_being_created,
        })
    }
}

fn write_merged(
    mut merge: Merge<'_>,
    mut writer: Writer<'_>,
    each_some: &mut dyn FnMut() -> Result<()>,
) -> Result<Option<Info>> {
    for nth in 0.. {
        rest(nth, &writer, each_some)?;
        let Some((form, change)) = merge.next_entry()? else { break };
        writer.push(form, change)?;
    }
    end(writer)
}

/// Writes entries whose keys rise.
fn write_alone(
    entries: &[Entry<'_>],
    mut writer: Writer<'_>,
    each_some: &mut dyn FnMut() -> Result<()>,
) -> Result<Option<Info>> {
    for (nth, (form, change)) in entries.iter().enumerate() {
        rest(nth, &writer, each_some)?;
        writer.push(form, *change)?;
    }
    end(writer)
}

/// What is done between two entries, before number `nth`.
fn rest(nth: usize, writer: &Writer<'_>, each_some: &mut dyn FnMut() -> Result<()>) -> Result<()> {
    if nth.is_multiple_of(SOME_ENTRIES) {
        each_some()?;
    }
    if nth % ENTRIES_AT_ONCE == ENTRIES_AT_ONCE - 1 {
        // Otherwise a put's sync would wait for all of it.
        writer.sync_written()?;
    }
    Ok(())
}

fn end(writer: Writer<'_>) -> Result<Option<Info>> {
    let Some(written) = writer.end()? else { return Ok(None) };
    if !planted(Fault::KeyRunNotSynced) {
        written.sync()?;
    }
    Ok(Some(written.info()))
}

/// The number of the run that an error reports as damaged.
pub(crate) fn damaged(error: &Error) -> Option<u64> {
    match error {
        Error::Storage(StorageError::Corrupt { file, .. }) => names::parse_key_run(file),
        _ => None,
    }
}

/// The keys of all runs of a store, as a list with a look-ahead of one key.
#[derive(Debug)]
pub(crate) struct RunKeys {
    merge: Merge<'static>,
    next: Option<Vec<u8>>,
    /// True if `next` was read.
    is_read: bool,
}

impl RunKeys {
    /// Lists the keys from a bound on.
    ///
    /// # Errors
    /// `Corrupt`; `Io`.
    pub(crate) fn new(runs: Vec<Arc<Run>>, direction: Direction, from: Bound<&[u8]>) -> Result<RunKeys> {
        let merge = Merge::new(runs.into_iter().map(Source::Run).collect(), direction, from)?;
        Ok(RunKeys { merge, next: None, is_read: false })
    }

    /// The ordered form of the next key.
    ///
    /// # Errors
    /// `Corrupt`; `Io`. The call may be repeated.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>> {
        if !self.is_read {
            self.next = match self.merge.next_entry()? {
                Some((form, Change::Removed)) => return Err(unsound("remove a key that they did not add", form)),
                Some((form, Change::Added)) => Some(form.to_vec()),
                None => None,
            };
            self.is_read = true;
        }
        Ok(self.next.as_deref())
    }

    /// Moves past the next key.
    pub(crate) fn pass(&mut self) {
        self.is_read = false;
    }

    /// Returns whether a key is in a forward list. Keys must not descend from call to call.
    ///
    /// # Errors
    /// Those of [`RunKeys::next`].
    pub(crate) fn has(&mut self, form: &[u8]) -> Result<bool> {
        let mut steps = 0;
        while self.next()?.is_some_and(|next| next < form) {
            if steps == STEPS {
                self.merge.seek(Direction::Forward, Bound::Included(form))?;
            }
            steps += 1;
            self.pass();
        }
        Ok(self.next.as_deref() == Some(form))
    }

    /// Number of keys from `from` on and, if given, below `until`.
    ///
    /// # Errors
    /// `Corrupt`; `Io`.
    pub(crate) fn sum_in(&self, from: &[u8], until: Option<&[u8]>) -> Result<i64> {
        Ok(self.merge.sum_in(from, until)?)
    }
}

/// The error of runs that are whole but contradict each other.
pub(crate) fn unsound(what: &str, form: &[u8]) -> Error {
    let shown = String::from_utf8_lossy(&form[..form.len().min(80)]).into_owned();
    Error::corrupt(names::KEY_RUNS, 0, format!("the runs of keys in order {what}: {shown:?}; a repair rebuilds them"))
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use filemap_io::sim::SimDisk;

    use super::*;

    #[test]
    fn entries_written_alone_make_the_run_that_a_merge_makes() {
        let mut keys: Vec<String> = (0..5_000).map(|n| format!("com,site{})/{n}", n % 37)).collect();
        keys.sort();
        let change = |nth: usize| if nth.is_multiple_of(3) { Change::Removed } else { Change::Added };
        let entries: Vec<Entry<'_>> = keys.iter().enumerate().map(|(nth, key)| (key.as_bytes(), change(nth))).collect();
        let written = |sources: Vec<Source<'_>>| {
            let (disk, mut calls) = (SimDisk::new(1), 0);
            let files = KeyRunFiles::new(disk.dir(), [7; 16]);
            let mut each_some = || {
                calls += 1;
                Ok(())
            };
            let info = files.write(1, sources, &mut each_some).unwrap().unwrap();
            assert!(calls >= 4, "{calls}");
            (info, disk.bytes(&names::key_run(1)).unwrap())
        };
        let alone = written(vec![Source::Memory(&entries)]);
        assert_eq!(alone.0.entries(), 5_000);
        assert!(alone == written(vec![Source::Memory(&entries), Source::Memory(&[])]));
    }

    #[test]
    fn entries_written_alone_that_do_not_rise_are_refused_and_leave_no_file() {
        let disk = SimDisk::new(1);
        let files = KeyRunFiles::new(disk.dir(), [7; 16]);
        let entries: [Entry<'_>; 2] = [(b"b", Change::Added), (b"a", Change::Added)];
        assert!(files.write(1, vec![Source::Memory(&entries)], &mut || Ok(())).is_err());
        assert!(disk.names().is_empty());
        assert!(files.write(1, vec![Source::Memory(&[])], &mut || Ok(())).unwrap().is_none());
        assert!(disk.names().is_empty());
    }
}
