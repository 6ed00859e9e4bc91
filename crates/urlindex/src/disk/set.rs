//! [`DiskUrlSet`]: creation, opening, and the calls of [`SeenSet`], each under the one lock;
//! `state` and `batch` do the work.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use filemap_io::{Dir, Latch, Lock, guard};

use crate::error::{Error, Result};
use crate::files::{self, by_path};
use crate::seen::{SeenSet, SeenStats, Verdict};

use super::DiskStats;
use super::batch::{self, Answers, UrlBatch};
use super::key::{Fingerprint, FingerprintBits, Home};
use super::manifest::{Keys, Manifest};
use super::options::{self, DiskOptions};
use super::state::State;

/// An exact set of URLs on disk. See [`crate::disk`].
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
    pub(super) state: Mutex<State>,
    pub(super) poison: Latch,
    pub(super) bits: FingerprintBits,
    pub(super) seed: u64,
    /// `None`: read-only.
    pub(super) lock: Option<Box<dyn Lock>>,
}

impl DiskUrlSet {
    by_path! {
        /// Creates an empty set in a new file; its other files have names that begin with it.
        ///
        /// # Errors
        /// [`crate::StorageError::InvalidOption`]; [`crate::StorageError::Locked`];
        /// [`crate::StorageError::Io`], with [`std::io::ErrorKind::AlreadyExists`] if the file
        /// exists, or URLs of a set of that name whose manifest is missing.
        fn create, create_in(dir, name, options: DiskOptions) -> Result<DiskUrlSet> {
            DiskUrlSet::create_of(Keys::Urls, dir, name, options)
        }
    }

    /// [`DiskUrlSet::create`] for URLs or digests.
    pub(crate) fn create_of(keys: Keys, dir: Arc<dyn Dir>, name: &str, options: DiskOptions) -> Result<DiskUrlSet> {
        options.budget()?;
        let lock = files::lock(&*dir, name)?;
        files::check_absent(&*dir, name)?;
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
        /// Options fixed at creation are ignored.
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

    pub(super) fn with(state: State, lock: Option<Box<dyn Lock>>) -> DiskUrlSet {
        let (bits, seed) = (state.manifest.bits, state.manifest.seed);
        DiskUrlSet { state: Mutex::new(state), poison: Latch::default(), bits, seed, lock }
    }

    /// # Errors
    /// `ReadOnly`; `Poisoned`.
    pub(super) fn check_writable(&self) -> Result<()> {
        if self.lock.is_none() {
            return Err(Error::ReadOnly { file: guard(&self.state).home.name.clone() });
        }
        Ok(self.poison.check()?)
    }

    /// The state without expired URLs.
    pub(super) fn state(&self) -> Result<MutexGuard<'_, State>> {
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

    /// Length of the set's fingerprints.
    pub fn fingerprint_bits(&self) -> FingerprintBits {
        self.bits
    }

    /// Seed of the set's hash.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The maximum age of its URLs, if any.
    pub fn max_age(&self) -> Option<Duration> {
        let max_age_ms = guard(&self.state).manifest.max_age_ms;
        (max_age_ms > 0).then(|| Duration::from_millis(max_age_ms))
    }

    /// An empty batch for this set. It takes 16 bytes of memory a URL beside the set's own; the
    /// larger a batch, the fewer bytes are read for a URL.
    pub fn batch(&self) -> UrlBatch {
        UrlBatch { bits: self.bits, seed: self.seed, records: Vec::new() }
    }

    fn batch_of(&self, urls: &[impl AsRef<[u8]>]) -> Result<UrlBatch> {
        let mut batch = self.batch();
        batch.reserve(urls.len());
        urls.iter().try_for_each(|url| batch.push(url))?;
        Ok(batch)
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

    /// Returns whether the lock is free and `State::keep_time` is not due.
    pub(crate) fn is_free(&self) -> bool {
        self.state.try_lock().is_ok_and(|state| !state.is_time())
    }

    /// Inserts fingerprints that are not in the set, without repeats.
    ///
    /// # Errors
    /// As [`SeenSet::check_and_insert`]; some of them may be inserted then.
    pub(crate) fn insert_new(&self, mut fingerprints: Vec<u128>) -> Result<()> {
        self.check_writable()?;
        fingerprints.sort_unstable();
        let mut state = self.state()?;
        self.poison.guard(|| state.add_all(&fingerprints))
    }

    /// Forgets a URL, so that it is new again. Returns whether it was in the set. Durable after
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
    /// whether it was in the set; of a repeated URL only the first can have been.
    ///
    /// # Errors
    /// As [`DiskUrlSet::forget`]; some of them may be forgotten then.
    pub fn forget_all(&self, urls: &[impl AsRef<[u8]>]) -> Result<Vec<bool>> {
        self.check_writable()?;
        let mut batch = self.batch_of(urls)?;
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

    /// Error rate and expected loss. Reads the whole table.
    fn errors(&self, state: &State) -> (f64, f64) {
        // Probability that two URLs of one class agree in the bits of URL.
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
        verdicts.extend(self.check_and_insert_all(&mut self.batch_of(urls)?)?.iter());
        Ok(())
    }

    fn contains_batch(&self, urls: &[&[u8]], verdicts: &mut Vec<Verdict>) -> Result<()> {
        verdicts.clear();
        verdicts.extend(self.contains_all(&mut self.batch_of(urls)?)?.iter());
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

    /// For a URL of a host like those in the set: see [`crate::disk`].
    fn false_positive_rate(&self) -> f64 {
        self.errors(&guard(&self.state)).0
    }

    /// A close upper bound. Counts URLs in the set, not forgotten ones.
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
