//! `DiskUrlSet`: an exact set of a billion URLs in bounded memory.
//!
//! A URL is kept as a fingerprint of 80 bits (`key`). A test searches, in this order:
//!
//! 1. the `table` of recent inserts (the memtable), logged on disk in the `log`;
//! 2. the `cache` of popular URLs;
//! 3. a few sorted [runs](filemap_runs), where Bloom filters save most reads: one read of a block
//!    of 4096 bytes.
//!
//! A full table is merged into a run; `state` has the crash-safe order of writes, and the
//! `manifest` names the live files. Batches pass through the runs from front to end.
//!
//! # What it costs at N = 1e9, in 1 GiB
//!
//! *Disk*: a fingerprint of 81 bits (one marks tombstones) among 1e9 takes 2 + 81 - 29.9 bits:
//! 6.64 bytes, 6.75 with block headers, slack and index; fewer URLs are less dense (7.6 bytes at
//! 1e6). A merge of the largest run takes twice that for a time.
//!
//! *Memory*: the batch, 16 bytes a URL: 480 MB for 30 M URLs. The index of blocks: 8 bytes for
//! each 615 URLs, 13 MB. `memory_bytes` for table, cache and filters: 128 MB do for batches, which
//! need none of the three. A filter for a billion URLs would take more than the gigabyte, and no
//! batch would use it.
//!
//! *Time and I/O of a test in batches of B*: every batch reads every run, 6.7 n / B bytes a test
//! at n URLs; n is N / 2 on average: 112 bytes at B = 30 M, 224 in the last batch. An entry is
//! written when it comes, and again about log2(N / B) / 2 = 2.5 times in merges, 13 bytes for
//! reading and writing each: 40 bytes. The sum is under 300 sequential bytes a test at the end.
//! Processor time: hash 30 ns, sort 45 ns, a look-up in each of log2(N / B) / 2 runs at 20 ns
//! (Elias-Fano code is searched, not decoded), merges 2.5 times 15 ns. Since runs are searched,
//! not decoded, tests of a large set are as fast as those of a small one: checksums and copies of
//! 224 bytes take 40 ns.
//!
//! *One at a time at 1e8*: filters answer for new URLs (16 bits a URL and run: two false positives
//! in a thousand tests of a run), the cache for popular ones; the rest costs one read.
//!
//! # Error rate
//!
//! Two URLs collide if their 56 (40) bits of URL and 24 of host are equal: of 1e9 URLs of many
//! hosts 4e-7 are lost, of a single host 7. So rates are computed from the number of URLs in each
//! host class, not from N alone.
//!
//! # Threads
//!
//! One lock: tests of single URLs take turns, and wait during a batch or a merge. That makes
//! exactly one insert return `New`; a crawler's threads collect their links and test them
//! together. Several threads look up a large batch, each its part of the records and so a part of
//! every run.
//!
//! # What was tried
//!
//! Searching every block is slow for a batch as dense as the run (47 ns a look-up): such blocks
//! are decoded. Counting ones is slow without the processor's instruction, which needs `unsafe`:
//! zeros are counted once a block. URLs of a host share their high parts, which are searched by
//! halving. Building filters for batches took a third of their time: the first single test does
//! it.

mod batch;
mod cache;
mod failpoint;
mod iter;
mod key;
mod log;
mod lookup;
mod manifest;
mod options;
mod reader;
mod snapshot;
mod sort;
mod state;
mod strangers;
mod table;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use filemap_io::{Dir, Latch, Lock, guard};

use crate::error::{Error, Result};
use crate::files::{self, by_path};
use crate::seen::{SeenSet, SeenStats, Verdict};

use key::Home;
pub(crate) use manifest::Keys;
use manifest::Manifest;
use state::State;

pub use batch::{Answers, UrlBatch};
pub use iter::Fingerprints;
pub use key::{Fingerprint, FingerprintBits};
pub use options::DiskOptions;

/// An exact set of URLs on disk. See the module.
///
/// An insert is durable after [`SeenSet::sync`], which writes the log's end; until then a killed
/// process may forget it.
///
/// ```
/// use urlindex::{DiskOptions, DiskUrlSet, SeenSet, Verdict};
///
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("seen");
/// let set = DiskUrlSet::create(&path, DiskOptions::new()).unwrap();
/// assert!(set.insert(b"http://example.com/").unwrap());
/// set.sync().unwrap();
/// drop(set);
/// let set = DiskUrlSet::open(&path, DiskOptions::new()).unwrap();
/// assert_eq!(set.contains(b"http://example.com/").unwrap(), Verdict::Seen);
/// assert!(set.forget("http://example.com/").unwrap());
/// ```
#[derive(Debug)]
pub struct DiskUrlSet {
    state: Mutex<State>,
    poison: Latch,
    bits: FingerprintBits,
    seed: u64,
    /// None: read-only.
    lock: Option<Box<dyn Lock>>,
}

/// Counts of tests and their cost since a set was opened.
///
/// ```
/// use urlindex::{DiskOptions, DiskUrlSet, SeenSet};
///
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("seen");
/// let set = DiskUrlSet::create(&path, DiskOptions::new()).unwrap();
/// set.insert(b"http://example.com/").unwrap();
/// assert_eq!((set.disk_stats().tests, set.disk_stats().runs), (1, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct DiskStats {
    /// Tests of one URL.
    pub tests: u64,
    /// Tests in batches.
    pub batch_tests: u64,
    /// Single tests answered by the table of recent inserts.
    pub table_hits: u64,
    /// Single tests answered by the cache of popular URLs.
    pub cache_hits: u64,
    /// Reads of a block for one URL.
    pub block_reads: u64,
    /// Bytes read in all.
    pub read_bytes: u64,
    /// Bytes written in all.
    pub written_bytes: u64,
    /// Runs of the set.
    pub runs: u64,
    /// With a maximum age: milliseconds by which inserts are dated too late, and forgotten later,
    /// because the clock was ahead once. To correct it, merge the set into a new one
    /// ([`DiskUrlSet::merge_from`]), which dates all URLs as of then.
    pub ahead_ms: u64,
}

impl DiskUrlSet {
    by_path! {
        /// Creates an empty set in a new file; its other files have names that begin with it.
        ///
        /// # Errors
        /// [`crate::StorageError::InvalidOption`]; [`crate::StorageError::Locked`];
        /// [`crate::StorageError::Io`], with [`std::io::ErrorKind::AlreadyExists`] if the file
        /// exists, or URLs of a set of that name whose manifest is lost.
        fn create, create_in(dir, name, options: DiskOptions) -> Result<DiskUrlSet> {
            DiskUrlSet::create_of(Keys::Urls, dir, name, options)
        }
    }

    /// [`DiskUrlSet::create`] for URLs or digests.
    pub(crate) fn create_of(keys: Keys, dir: Arc<dyn Dir>, name: &str, options: DiskOptions) -> Result<DiskUrlSet> {
        options.budget()?;
        let lock = files::lock(&*dir, name)?;
        if files::exists(&*dir, name)? {
            return Err(Error::io("create", name)(std::io::ErrorKind::AlreadyExists.into()));
        }
        let (id, bits) = (files::new_id(&*dir)?, options.bits);
        let log_generation = match options.max_age_ms {
            0 => 0,
            max_age_ms => options::generation(options.clock.now_ms(), max_age_ms),
        };
        let manifest = Manifest {
            bits,
            keys,
            id,
            seed: options.seed,
            max_age_ms: options.max_age_ms,
            next_number: 2,
            log_number: 1,
            log_generation,
            urls: 0,
            tombstones_ever: 0,
            branch: files::new_number(&*dir)?,
            runs: Vec::new(),
        };
        let home = Home::new(dir, name, id, bits.format());
        let state = State::create(home, manifest, &options)?;
        Ok(DiskUrlSet::with(state, Some(lock)))
    }

    by_path! {
        /// Opens a set: reads manifest, indexes of runs and log, and removes what a crash left.
        /// Options fixed at creation are ignored. Filters are built from the runs at the first
        /// test of one URL that memory does not answer: a few seconds for 1e8 URLs.
        ///
        /// # Errors
        /// [`crate::StorageError::Corrupt`] with file and offset;
        /// [`crate::StorageError::NewerFormat`]; [`crate::StorageError::Locked`];
        /// [`crate::StorageError::InvalidOption`]; [`Error::Unsupported`] if it is a
        /// [`crate::ContentSeen`]; [`crate::StorageError::Io`].
        fn open, open_in(dir, name, options: DiskOptions) -> Result<DiskUrlSet> {
            DiskUrlSet::open_of(Keys::Urls, dir, name, options)
        }
    }

    /// [`DiskUrlSet::open`] for URLs or digests.
    pub(crate) fn open_of(keys: Keys, dir: Arc<dyn Dir>, name: &str, options: DiskOptions) -> Result<DiskUrlSet> {
        options.budget()?;
        let lock = files::lock(&*dir, name)?;
        let manifest = Manifest::read(&*dir, name)?;
        manifest.check_keys(keys, name)?;
        let home = Home::new(dir, name, manifest.id, manifest.bits.format());
        let state = State::open(home, manifest, &options)?;
        Ok(DiskUrlSet::with(state, Some(lock)))
    }

    fn with(state: State, lock: Option<Box<dyn Lock>>) -> DiskUrlSet {
        let (bits, seed) = (state.manifest.bits, state.manifest.seed);
        DiskUrlSet { state: Mutex::new(state), poison: Latch::default(), bits, seed, lock }
    }

    /// # Errors
    /// `ReadOnly`; `Poisoned`.
    fn check_writable(&self) -> Result<()> {
        if self.lock.is_none() {
            return Err(Error::ReadOnly { file: guard(&self.state).home.name.clone() });
        }
        Ok(self.poison.check()?)
    }

    /// The state without expired URLs.
    fn state(&self) -> Result<MutexGuard<'_, State>> {
        let mut state = guard(&self.state);
        if self.lock.is_none() {
            state.leave_out_old()?;
            return Ok(state);
        }
        // A poisoned set keeps its URLs.
        if state.is_time() && self.poison.check().is_ok() {
            self.poison.guard(|| state.keep_time())?;
        }
        Ok(state)
    }

    /// The fingerprint of a URL.
    pub fn fingerprint(&self, url: impl AsRef<[u8]>) -> Fingerprint {
        Fingerprint(self.bits.of(url.as_ref(), self.seed))
    }

    /// Length of its fingerprints.
    pub fn fingerprint_bits(&self) -> FingerprintBits {
        self.bits
    }

    /// The seed of its hash.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The age at which it forgets URLs, if any.
    pub fn max_age(&self) -> Option<Duration> {
        let max_age_ms = guard(&self.state).manifest.max_age_ms;
        (max_age_ms > 0).then(|| Duration::from_millis(max_age_ms))
    }

    /// An empty batch for this set. It takes 16 bytes of memory a URL beside the set's own; the
    /// larger a batch, the fewer bytes are read for a URL.
    pub fn batch(&self) -> UrlBatch {
        UrlBatch { bits: self.bits, seed: self.seed, records: Vec::new() }
    }

    /// [`SeenSet::check_and_insert`] of all URLs of a batch, in order of arrival; empties the
    /// batch. If many are new (half a table) they are durable at once.
    ///
    /// # Errors
    /// As [`SeenSet::check_and_insert`]; some of the URLs may be inserted then.
    /// [`crate::StorageError::InvalidOption`] if the batch was made for other fingerprints.
    pub fn check_and_insert_all(&self, batch: &mut UrlBatch) -> Result<Answers> {
        self.check_writable()?;
        self.answer(batch, true)
    }

    /// [`SeenSet::contains`] of all URLs of a batch; empties the batch.
    ///
    /// # Errors
    /// As [`SeenSet::contains`]; [`crate::StorageError::InvalidOption`] if the batch was made for
    /// other fingerprints.
    pub fn contains_all(&self, batch: &mut UrlBatch) -> Result<Answers> {
        self.answer(batch, false)
    }

    fn answer(&self, batch: &mut UrlBatch, inserts: bool) -> Result<Answers> {
        if (batch.bits, batch.seed) != (self.bits, self.seed) {
            return Err(Error::option("batch", "made for a set with other fingerprints"));
        }
        let mut state = self.state()?;
        let looked_up = batch::look_up(&mut state, &mut batch.records);
        let (answers, new) = batch::answers(self.bits, &mut batch.records, inserts);
        let done = looked_up.and_then(|()| match inserts {
            true => self.poison.guard(|| state.add_all(&batch.records[..new])),
            false => Ok(()),
        });
        batch.clear();
        done.map(|()| answers)
    }

    /// Forgets a URL, so that it is new again. Returns whether it was there. Durable after
    /// [`SeenSet::sync`].
    ///
    /// # Errors
    /// As [`SeenSet::check_and_insert`].
    pub fn forget(&self, url: impl AsRef<[u8]>) -> Result<bool> {
        self.forget_fingerprint(self.bits.of(url.as_ref(), self.seed))
    }

    pub(crate) fn forget_fingerprint(&self, fingerprint: u128) -> Result<bool> {
        self.check_writable()?;
        let mut state = self.state()?;
        let was_there = state.test(fingerprint)?;
        if was_there {
            self.poison.guard(|| state.add(fingerprint, true))?;
        }
        Ok(was_there)
    }

    /// [`DiskUrlSet::forget`] of many URLs, in order, looked up as a batch. Returns for each
    /// whether it was there; of a repeated URL only the first can have been.
    ///
    /// # Errors
    /// As [`DiskUrlSet::forget`]; some of them may be forgotten then.
    pub fn forget_all(&self, urls: &[impl AsRef<[u8]>]) -> Result<Vec<bool>> {
        self.check_writable()?;
        let mut batch = self.batch();
        urls.iter().try_for_each(|url| batch.push(url))?;
        let mut state = self.state()?;
        batch::look_up(&mut state, &mut batch.records)?;
        let (answers, _) = batch::answers(self.bits, &mut batch.records, false);
        let mut tombstones = BTreeSet::new();
        let fingerprints = urls.iter().map(|url| self.fingerprint(url).0);
        let were_there = fingerprints
            .zip(answers.iter())
            .map(|(fingerprint, verdict)| !verdict.is_new() && tombstones.insert(fingerprint))
            .collect();
        self.poison.guard(|| tombstones.iter().try_for_each(|fingerprint| state.add(*fingerprint, true)))?;
        Ok(were_there)
    }

    /// Counts of tests and their cost.
    pub fn disk_stats(&self) -> DiskStats {
        let state = guard(&self.state);
        let (block_reads, read_bytes, written_bytes) = state.home.traffic.counts();
        let (runs, ahead_ms) = (state.levels.len() as u64, state.ahead_ms());
        DiskStats { block_reads, read_bytes, written_bytes, runs, ahead_ms, ..state.counters }
    }

    pub(crate) fn check_and_insert_fingerprint(&self, fingerprint: u128) -> Result<Verdict> {
        self.check_writable()?;
        let mut state = self.state()?;
        if state.test(fingerprint)? {
            return Ok(Verdict::Seen);
        }
        self.poison.guard(|| state.add(fingerprint, false))?;
        Ok(Verdict::New)
    }

    pub(crate) fn contains_fingerprint(&self, fingerprint: u128) -> Result<Verdict> {
        Ok(if self.state()?.test(fingerprint)? { Verdict::Seen } else { Verdict::New })
    }

    /// Error rate and expected loss. Goes through the table.
    fn errors(&self, state: &State) -> (f64, f64) {
        // Probability that two URLs of one class share the bits of URL.
        let chance = (-f64::from(self.bits.url_bits())).exp2();
        let squares = state.squares();
        (squares / (state.urls.max(1) as f64) * chance, squares / 2.0 * chance)
    }
}

impl SeenSet for DiskUrlSet {
    fn check_and_insert(&self, url: &[u8]) -> Result<Verdict> {
        self.check_and_insert_fingerprint(self.bits.of(url, self.seed))
    }

    fn contains(&self, url: &[u8]) -> Result<Verdict> {
        self.contains_fingerprint(self.bits.of(url, self.seed))
    }

    /// As [`DiskUrlSet::check_and_insert_all`]: no verdicts after an error.
    fn check_and_insert_batch(&self, urls: &[&[u8]], verdicts: &mut Vec<Verdict>) -> Result<()> {
        verdicts.clear();
        let mut batch = self.batch();
        batch.reserve(urls.len());
        urls.iter().try_for_each(|url| batch.push(url))?;
        verdicts.extend(self.check_and_insert_all(&mut batch)?.iter());
        Ok(())
    }

    fn contains_batch(&self, urls: &[&[u8]], verdicts: &mut Vec<Verdict>) -> Result<()> {
        verdicts.clear();
        let mut batch = self.batch();
        batch.reserve(urls.len());
        urls.iter().try_for_each(|url| batch.push(url))?;
        verdicts.extend(self.contains_all(&mut batch)?.iter());
        Ok(())
    }

    fn len(&self) -> u64 {
        guard(&self.state).urls
    }

    fn memory_bytes(&self) -> u64 {
        guard(&self.state).memory_bytes()
    }

    fn disk_bytes(&self) -> u64 {
        guard(&self.state).disk_bytes()
    }

    /// For a URL of a host like those in the set: see the module.
    fn false_positive_rate(&self) -> f64 {
        self.errors(&guard(&self.state)).0
    }

    /// Of the URLs in the set; forgotten ones do not count. A close upper bound.
    fn expected_loss(&self) -> f64 {
        self.errors(&guard(&self.state)).1
    }

    fn sync(&self) -> Result<()> {
        if self.lock.is_none() {
            return Ok(());
        }
        let mut state = guard(&self.state);
        self.poison.guard(|| state.log.sync())
    }

    fn stats(&self) -> SeenStats {
        let state = guard(&self.state);
        let (false_positive_rate, expected_loss) = self.errors(&state);
        SeenStats {
            urls: state.urls,
            inserted: state.inserted,
            memory_bytes: state.memory_bytes(),
            disk_bytes: state.disk_bytes(),
            false_positive_rate,
            expected_loss,
        }
    }
}

impl Drop for DiskUrlSet {
    /// Makes all inserts durable if possible; call [`SeenSet::sync`] to be sure.
    fn drop(&mut self) {
        if self.lock.is_none() {
            return;
        }
        let mut state = guard(&self.state);
        let _ = self.poison.guard(|| state.log.close());
    }
}

#[cfg(test)]
mod tests;
