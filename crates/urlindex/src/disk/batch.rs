//! Batches: many URLs at once, answered in order of arrival after one pass through the runs.
//!
//! A batch keeps 16 bytes a URL: fingerprint and place of arrival in one number of 128 bits.
//! Sorted, they have the order of the runs, so each run is read once from front to end (only the
//! needed blocks, if few), and new URLs are in the order of a new run. That makes a billion URLs
//! cheap: no test needs its own seek.

use std::cmp::Ordering;
use std::panic::resume_unwind;
use std::sync::Mutex;
use std::thread::Builder;

use filemap_io::{StorageError, guard};

use super::key::{DECIDED, FingerprintBits, SEEN};
use super::lookup::find_all;
use super::sort::sort;
use super::state::{Level, State};
use crate::error::Result;
use crate::seen::Verdict;

/// Mark of a record that is not the first of its URL.
const AGAIN: u128 = 1 << 34;
/// Maximum URLs of a batch: places have 32 bits.
const URLS_MAX: usize = u32::MAX as usize;
/// Blocks per record from which on filters and single reads are cheaper than a pass.
const BLOCKS_PER_RECORD: u64 = 8;
/// Slots per record from which on single searches of the table are cheaper than a pass.
const SLOTS_PER_RECORD: usize = 32;
/// Maximum threads of a batch, and minimum records of each: starting a thread takes 20 us.
const THREADS_MAX: usize = 8;
const RECORDS_PER_THREAD: usize = 1 << 16;

/// URLs to test together. Made by [`crate::DiskUrlSet::batch`], for that set and others with the
/// same fingerprints.
///
/// ```
/// use urlindex::{DiskOptions, DiskUrlSet};
///
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("seen");
/// let set = DiskUrlSet::create(&path, DiskOptions::new()).unwrap();
/// let mut batch = set.batch();
/// for url in ["http://example.com/", "http://example.com/a", "http://example.com/"] {
///     batch.push(url).unwrap();
/// }
/// let answers = set.check_and_insert_all(&mut batch).unwrap();
/// assert_eq!((answers.len(), answers.new_count(), batch.len()), (3, 2, 0));
/// ```
#[derive(Debug)]
pub struct UrlBatch {
    pub(super) bits: FingerprintBits,
    pub(super) seed: u64,
    pub(super) records: Vec<u128>,
}

impl UrlBatch {
    /// Adds a URL; its text is not kept.
    ///
    /// # Errors
    /// [`StorageError::Full`] at 4,294,967,295 URLs.
    #[inline]
    pub fn push(&mut self, url: impl AsRef<[u8]>) -> Result<()> {
        self.push_fingerprint(self.bits.of(url.as_ref(), self.seed))
    }

    #[inline]
    pub(crate) fn push_fingerprint(&mut self, fingerprint: u128) -> Result<()> {
        if self.records.len() == URLS_MAX {
            return Err(StorageError::full("the batch", format!("it has {URLS_MAX} URLs")).into());
        }
        self.records.push(fingerprint | self.records.len() as u128);
        Ok(())
    }

    /// Number of URLs.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Reserves memory for exactly this many URLs in all; it grows by doubling otherwise.
    pub fn reserve(&mut self, urls: usize) {
        self.records.reserve_exact(urls.saturating_sub(self.records.len()));
    }

    /// Removes all URLs; keeps the memory.
    pub fn clear(&mut self) {
        self.records.clear();
    }
}

/// The answers to a batch: a bit each, in order of arrival.
///
/// ```
/// use urlindex::{DiskOptions, DiskUrlSet};
///
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("seen");
/// let set = DiskUrlSet::create(&path, DiskOptions::new()).unwrap();
/// let mut batch = set.batch();
/// for url in ["http://example.com/", "http://example.com/a", "http://example.com/"] {
///     batch.push(url).unwrap();
/// }
/// let answers = set.check_and_insert_all(&mut batch).unwrap();
/// assert!(answers.get(0).unwrap().is_new() && !answers.get(2).unwrap().is_new());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Answers {
    new: Vec<u64>,
    len: usize,
}

impl Answers {
    fn of(len: usize) -> Answers {
        Answers { new: vec![0; len.div_ceil(64)], len }
    }

    /// Number of answers.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The answer to the URL with this number in the batch, from 0; `None` past the last.
    pub fn get(&self, number: usize) -> Option<Verdict> {
        let is_new = (number < self.len).then(|| self.new[number / 64] >> (number % 64) & 1 == 1)?;
        Some(if is_new { Verdict::New } else { Verdict::Seen })
    }

    /// All answers, in order.
    pub fn iter(&self) -> impl Iterator<Item = Verdict> + '_ {
        (0..self.len).filter_map(|number| self.get(number))
    }

    /// Number of new URLs.
    pub fn new_count(&self) -> u64 {
        self.new.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

/// Sorts a batch's records and looks them up: each URL's first record is then marked if the URL is
/// in the set.
pub(super) fn look_up(state: &mut State, records: &mut [u128]) -> Result<()> {
    state.counters.batch_tests += records.len() as u64;
    sort(records);
    let mask = state.manifest.bits.mask();
    let mut before = None;
    for record in records.iter_mut() {
        let fingerprint = *record & mask;
        if before == Some(fingerprint) {
            *record |= AGAIN | DECIDED;
        }
        before = Some(fingerprint);
    }
    look_up_in_table(state, records);
    let threads = threads(records.len());
    let part = records.len().div_ceil(threads).max(1);
    let levels = &state.levels;
    in_parts(records, part, threads - 1, |part| look_up_in_runs(levels, mask, part))
}

/// Runs `work` on all parts of the records, on this thread and up to `helpers` more. If the system
/// refuses a thread, the others take its parts.
fn in_parts(
    records: &mut [u128],
    part: usize,
    helpers: usize,
    work: impl Fn(&mut [u128]) -> Result<()> + Sync,
) -> Result<()> {
    let parts = Mutex::new(records.chunks_mut(part));
    let work_off = || loop {
        let next = guard(&parts).next();
        match next {
            Some(part) => work(part)?,
            None => return Ok(()),
        }
    };
    std::thread::scope(|scope| {
        let helpers = (0..helpers).map_while(|_| Builder::new().spawn_scoped(scope, work_off).ok());
        let helpers: Vec<_> = helpers.collect();
        let own = work_off();
        let all = helpers.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        all.fold(own, Result::and)
    })
}

/// Number of threads for this many records. Records are sorted, so each thread needs only its
/// own part of every run.
fn threads(records: usize) -> usize {
    let most = THREADS_MAX.min(records / RECORDS_PER_THREAD);
    // The system is asked only if needed, since that reads files.
    if most > 1 { std::thread::available_parallelism().map_or(1, usize::from).min(most) } else { 1 }
}

fn look_up_in_runs(levels: &[Level], mask: u128, records: &mut [u128]) -> Result<()> {
    for level in levels.iter().rev() {
        if records.len() as u64 * BLOCKS_PER_RECORD >= level.run.info().blocks {
            find_all(&level.run, records)?;
            continue;
        }
        for record in records.iter_mut().filter(|record| **record & DECIDED == 0) {
            let fingerprint = *record & mask;
            if let Some(entry) = level.run.find(fingerprint)? {
                *record |= if entry == fingerprint { DECIDED | SEEN } else { DECIDED };
            }
        }
    }
    Ok(())
}

fn look_up_in_table(state: &mut State, records: &mut [u128]) {
    let decide = |is_tombstone: bool| if is_tombstone { DECIDED } else { DECIDED | SEEN };
    let bits = state.manifest.bits;
    // A pass through a large table costs more than a few searches.
    if (state.table.len() / 4).max(state.table.capacity() / SLOTS_PER_RECORD) > records.len() {
        for record in records.iter_mut().filter(|record| **record & DECIDED == 0) {
            *record |= state.table.ask(*record & bits.mask()).map_or(0, decide);
        }
        return;
    }
    let mut entries = state.table.sorted().into_iter().peekable();
    for record in records.iter_mut().filter(|record| **record & DECIDED == 0) {
        while let Some(entry) = entries.peek() {
            match (entry & bits.mask()).cmp(&(*record & bits.mask())) {
                Ordering::Less => drop(entries.next()),
                Ordering::Equal => {
                    *record |= decide(entry & bits.tombstone() != 0);
                    break;
                }
                Ordering::Greater => break,
            }
        }
    }
}

/// The answers to looked-up records. With `inserts`, repeated URLs are seen, and fingerprints of
/// new URLs move to the front; also returns their number.
pub(super) fn answers(bits: FingerprintBits, records: &mut [u128], inserts: bool) -> (Answers, usize) {
    let mut answers = Answers::of(records.len());
    let (mut new, mut first_is_new) = (0, false);
    for i in 0..records.len() {
        let record = records[i];
        let is_first = record & AGAIN == 0;
        if is_first {
            first_is_new = record & SEEN == 0;
        }
        if first_is_new && (is_first || !inserts) {
            let place = (record & (DECIDED - 1)) as usize;
            answers.new[place / 64] |= 1 << (place % 64);
        }
        if inserts && is_first && first_is_new {
            // `new` is never past the record being read.
            records[new] = record & bits.mask();
            new += 1;
        }
    }
    (answers, new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn every_part_is_worked_off_once_however_many_helpers_there_are() {
        for helpers in [0, 1, 7] {
            let mut records = vec![1; 1_000];
            let double = |part: &mut [u128]| {
                part.iter_mut().for_each(|record| *record *= 2);
                Ok(())
            };
            in_parts(&mut records, 30, helpers, double).expect("worked off");
            assert!(records.iter().all(|record| *record == 2));
            let failed = in_parts(&mut records, 30, helpers, |_| Err(Error::corrupt("f", 1, "x")));
            assert!(matches!(failed, Err(Error::Storage(StorageError::Corrupt { .. }))));
        }
    }
}
