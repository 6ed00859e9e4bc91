//! The state of a set on disk: memtable, cache, runs; how a URL passes through them.
//!
//! A roll writes the table (and a large batch) to a run, merged with those youngest runs that are
//! no larger than what is merged so far: each run is larger than all younger ones together, N URLs
//! lie in at most log2(N / table size) runs, and an entry is rewritten about half as often.
//!
//! Crash-safe order of a roll: write and sync the run and a new log; sync the directory; replace
//! the manifest by one that names them; only then remove the files that it no longer names. Memory
//! changes after the manifest: an earlier failure leaves it unchanged.

use std::sync::Arc;

use filemap_io::Access;
use filemap_io::files::sync_folder;
use filemap_runs::fixed::Fixed;
use filemap_runs::{Run, RunReader, RunWriter, Source};

use super::cache::Cache;
use super::failpoint::{Failpoint, planted};
use super::key::{Home, Squares, class};
use super::log::Log;
use super::manifest::{Manifest, RunEntry};
use super::options::{Budget, Clock, DiskOptions, generation, is_expired, start_ms};
use super::table::Table;
use super::{DiskStats, strangers};
use crate::error::Result;
use crate::files;

/// Maximum length of the log, in table sizes: inserting and forgetting in turn makes it longer
/// than its table.
const LOG_ENTRIES_PER_SLOT: u64 = 4;
const LOG_ENTRY_BYTES: u64 = 12;

/// A run.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) run: Arc<Run<Fixed>>,
    /// Its entry in the manifest.
    pub(super) entry: RunEntry,
}

/// The state of a set on disk.
pub(super) struct State {
    pub(super) home: Home,
    pub(super) manifest: Manifest,
    budget: Budget,
    clock: Clock,
    pub(super) table: Table,
    pub(super) cache: Cache,
    pub(super) log: Log,
    /// The oldest first.
    pub(super) levels: Vec<Level>,
    pub(super) urls: u64,
    pub(super) inserted: u64,
    /// Counts of tests; `disk_stats` adds the rest.
    pub(super) counters: DiskStats,
}

// Without tables and runs, which are most of the memory.
impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("urls", &self.urls).field("runs", &self.levels.len()).finish_non_exhaustive()
    }
}

impl State {
    /// A new set, durable. `manifest` is that of an empty one.
    pub(super) fn create(home: Home, manifest: Manifest, options: &DiskOptions) -> Result<State> {
        let budget = options.budget()?;
        strangers::make_room(&home, &[])?;
        let log = Log::create(&home, manifest.log_number)?;
        let manifest = Manifest { next_number: log.number() + 1, log_number: log.number(), ..manifest };
        sync_folder(&*home.dir)?;
        manifest.write(&*home.dir, &home.name)?;
        Ok(State::with(home, manifest, budget, options, log, Vec::new(), None))
    }

    /// Opens the set of a manifest, and removes what a crash left.
    pub(super) fn open(home: Home, manifest: Manifest, options: &DiskOptions) -> Result<State> {
        // A process that could not sync the directory may have renamed the manifest: files of the
        // older one must stay until it is durable.
        if !planted(Failpoint::OpenNotSynced) {
            sync_folder(&*home.dir)?;
        }
        strangers::remove_left(&home, &manifest)?;
        State::load(home, manifest, options, Access::Write)
    }

    /// Loads the set of a manifest.
    pub(super) fn load(home: Home, manifest: Manifest, options: &DiskOptions, access: Access) -> Result<State> {
        let budget = options.budget()?;
        let open = |entry: &RunEntry| {
            let run = Arc::new(Run::open(&home, entry.info)?);
            Ok(Level { run, entry: *entry })
        };
        let levels = manifest.runs.iter().map(open).collect::<Result<Vec<Level>>>()?;
        let mut entries = Vec::new();
        let log = Log::open(&home, manifest.log_number, access, |entry| entries.push(entry))?;
        // The log may have been written with more memory; a follower adds nothing to the table.
        let table_bytes = if access == Access::Read { 0 } else { budget.table_bytes };
        let table = Table::new(manifest.bits, table_bytes.max(Table::bytes_for(entries.len())));
        let mut state = State::with(home, manifest, budget, options, log, levels, Some(table));
        for entry in entries {
            let is_tombstone = entry & state.manifest.bits.tombstone() != 0;
            state.table.put(entry & state.manifest.bits.mask(), is_tombstone);
            state.count_one(is_tombstone);
        }
        Ok(state)
    }

    fn with(
        home: Home,
        manifest: Manifest,
        budget: Budget,
        options: &DiskOptions,
        log: Log,
        levels: Vec<Level>,
        table: Option<Table>,
    ) -> State {
        let bits = manifest.bits;
        State {
            table: table.unwrap_or_else(|| Table::new(bits, budget.table_bytes)),
            cache: Cache::new(bits, budget.cache_bytes),
            urls: manifest.urls,
            inserted: 0,
            counters: DiskStats::default(),
            clock: options.clock.clone(),
            home,
            manifest,
            budget,
            log,
            levels,
        }
    }

    fn count_one(&mut self, is_tombstone: bool) {
        if is_tombstone {
            self.urls = self.urls.saturating_sub(1);
            self.manifest.tombstones_ever = self.manifest.tombstones_ever.saturating_add(1);
        } else {
            self.urls += 1;
        }
    }

    /// Returns whether a fingerprint is in the set.
    pub(super) fn test(&mut self, fingerprint: u128) -> Result<bool> {
        self.counters.tests += 1;
        if let Some(is_tombstone) = self.table.ask(fingerprint) {
            self.counters.table_hits += u64::from(!is_tombstone);
            return Ok(!is_tombstone);
        }
        if self.cache.ask(fingerprint) {
            self.counters.cache_hits += 1;
            return Ok(true);
        }
        self.find(fingerprint)
    }

    /// Searches the runs for a fingerprint that is not in the table.
    pub(super) fn find(&mut self, fingerprint: u128) -> Result<bool> {
        for level in in_order_of_search(&self.levels) {
            if let Some(entry) = level.run.find(fingerprint)? {
                let is_there = entry == fingerprint;
                if is_there {
                    self.cache.put(fingerprint);
                }
                return Ok(is_there);
            }
        }
        Ok(false)
    }

    /// Adds a new fingerprint, or the tombstone of one in the set.
    pub(super) fn add(&mut self, fingerprint: u128, is_tombstone: bool) -> Result<()> {
        let log_bytes_max = LOG_ENTRIES_PER_SLOT * LOG_ENTRY_BYTES * self.table.capacity() as u64 + (64 << 10);
        if self.table.len() == self.table.capacity() || self.log.disk_bytes() > log_bytes_max {
            self.roll(&[], self.manifest.log_generation)?;
        }
        self.log.append(fingerprint | if is_tombstone { self.manifest.bits.tombstone() } else { 0 })?;
        self.table.put(fingerprint, is_tombstone);
        if is_tombstone {
            self.cache.remove(fingerprint);
        } else {
            self.inserted += 1;
        }
        self.count_one(is_tombstone);
        Ok(())
    }

    /// Adds new fingerprints in order.
    pub(super) fn add_all(&mut self, new: &[u128]) -> Result<()> {
        if new.len() < self.table.capacity() / 2 {
            return new.iter().try_for_each(|fingerprint| self.add(*fingerprint, false));
        }
        self.urls += new.len() as u64;
        self.roll(new, self.manifest.log_generation).inspect_err(|_| self.urls -= new.len() as u64)?;
        self.inserted += new.len() as u64;
        Ok(())
    }

    /// Writes the table and `new`, which is sorted, to a run, and starts a new log, in the order
    /// that the module describes.
    pub(super) fn roll(&mut self, new: &[u128], next_generation: u64) -> Result<()> {
        let recent = self.table.sorted();
        let first = self.first_to_merge((recent.len() + new.len()) as u64);
        let mut next = self.manifest.clone();
        (next.urls, next.log_generation) = (self.urls, next_generation);
        next.runs.truncate(first);
        let written = self.write_run(next.next_number, &recent, new, first)?;
        drop(recent);
        next.runs.extend(written);
        if planted(Failpoint::LogRemovedFirst) {
            files::remove(&*self.home.dir, self.log.name())?;
        }
        let log = Log::create(&self.home, 1 + written.map_or(next.next_number, |entry| entry.info.number))?;
        (next.next_number, next.log_number) = (log.number() + 1, log.number());
        if !planted(Failpoint::NamesNotSynced) {
            sync_folder(&*self.home.dir)?;
        }
        let open = |entry: RunEntry| Run::open(&self.home, entry.info).map(|run| Level { run: Arc::new(run), entry });
        let level = written.map(open).transpose()?;
        next.write(&*self.home.dir, &self.home.name)?;
        let old_log = std::mem::replace(&mut self.log, log);
        self.manifest = next;
        self.table.urls().for_each(|(fingerprint, is_popular)| {
            if is_popular { self.cache.put(fingerprint) } else { self.cache.put_if_free(fingerprint) }
        });
        self.table.reset(self.budget.table_bytes);
        let merged = self.levels.split_off(first);
        self.levels.extend(level);
        // The next opening tries again.
        let _ = files::remove(&*self.home.dir, old_log.name());
        for level in merged {
            let _ = files::remove(&*self.home.dir, level.run.name());
        }
        Ok(())
    }

    /// The first run to merge with this many new entries.
    fn first_to_merge(&self, mut entries: u64) -> usize {
        let mut first = self.levels.len();
        while let Some(level) = first.checked_sub(1).map(|before| &self.levels[before])
            && level.entry.generation == self.manifest.log_generation
            && level.entry.info.entries() <= entries
        {
            entries += level.entry.info.entries();
            first -= 1;
        }
        first
    }

    /// Merges the runs from `first` on, the table's entries and the new ones; `None` if nothing is
    /// left of them.
    fn write_run(&self, number: u64, recent: &[u128], new: &[u128], first: usize) -> Result<Option<RunEntry>> {
        let merged: u64 = self.levels[first..].iter().map(|level| level.entry.info.entries()).sum();
        let entries = merged + (recent.len() + new.len()) as u64;
        if entries == 0 {
            return Ok(None);
        }
        let mut sources = vec![Source::Memory(new), Source::Memory(recent)];
        let runs = self.levels[first..].iter().rev();
        sources.extend(runs.map(|level| Source::Run(RunReader::new(Arc::clone(&level.run)))));
        let bits = self.manifest.bits;
        let mut source = Source::merged(sources, &bits.format());
        let mut writer = RunWriter::create(&self.home, number)?;
        let mut squares = Squares::default();
        for_each_part(&mut source, |entries| {
            // The oldest run needs no tombstones: there is nothing older to hide.
            if first == 0 {
                entries.retain(|entry| entry & bits.tombstone() == 0);
            }
            for entry in entries.iter() {
                squares.add(*entry, bits.tombstone());
                writer.push(*entry)?;
            }
            Ok(())
        })?;
        let Some(written) = writer.end()? else { return Ok(None) };
        if !planted(Failpoint::RunNotSynced) {
            written.sync()?;
        }
        let (info, generation) = (written.info(), self.manifest.log_generation);
        Ok(Some(RunEntry { info, generation, squares: squares.sum() }))
    }

    /// Returns whether [`State::keep_time`] is due.
    pub(super) fn is_time(&self) -> bool {
        let max_age_ms = self.manifest.max_age_ms;
        if max_age_ms == 0 {
            return false;
        }
        let now_ms = self.clock.now_ms();
        let oldest = self.levels.first().map(|level| level.entry.generation);
        generation(now_ms, max_age_ms) > self.manifest.log_generation
            || oldest.is_some_and(|oldest| is_expired(oldest, now_ms, max_age_ms))
    }

    /// Milliseconds by which inserts are dated ahead of the clock.
    pub(super) fn ahead_ms(&self) -> u64 {
        match self.manifest.max_age_ms {
            0 => 0,
            max_age_ms => start_ms(self.manifest.log_generation, max_age_ms).saturating_sub(self.clock.now_ms()),
        }
    }

    /// Starts a generation if due, and drops expired runs.
    pub(super) fn keep_time(&mut self) -> Result<()> {
        let max_age_ms = self.manifest.max_age_ms;
        let now_ms = self.clock.now_ms();
        // A clock that goes back starts no generation.
        let current = generation(now_ms, max_age_ms).max(self.manifest.log_generation);
        let is_old = |level: &Level| is_expired(level.entry.generation, now_ms, max_age_ms);
        // Roll first: the table's tombstones may be those of URLs about to be dropped.
        if current > self.manifest.log_generation || self.table.len() > 0 {
            self.roll(&[], current)?;
        }
        let old = self.levels.iter().take_while(|level| is_old(level)).count();
        if old == 0 {
            return Ok(());
        }
        let mut next = self.manifest.clone();
        next.runs.drain(..old);
        next.urls = self.count(old)?;
        next.write(&*self.home.dir, &self.home.name)?;
        self.urls = next.urls;
        self.manifest = next;
        self.cache.clear();
        for level in self.levels.drain(..old) {
            let _ = files::remove(&*self.home.dir, level.run.name());
        }
        Ok(())
    }

    /// [`State::keep_time`] of a follower: leaves out expired URLs in memory only.
    pub(super) fn leave_out_old(&mut self) -> Result<()> {
        let max_age_ms = self.manifest.max_age_ms;
        if max_age_ms == 0 {
            return Ok(());
        }
        let now_ms = self.clock.now_ms();
        let is_old = |generation: u64| is_expired(generation, now_ms, max_age_ms);
        let old = self.levels.iter().take_while(|level| is_old(level.entry.generation)).count();
        let is_table_old = self.table.len() > 0 && is_old(self.manifest.log_generation);
        if old == 0 && !is_table_old {
            return Ok(());
        }
        self.levels.drain(..old);
        if is_table_old {
            self.table.reset(0);
        }
        self.cache.clear();
        self.urls = self.count(0)?;
        Ok(())
    }

    /// URLs in the table and the runs from `first` on. If any URL was ever forgotten, this reads
    /// them.
    fn count(&self, first: usize) -> Result<u64> {
        let levels = &self.levels[first..];
        if self.manifest.tombstones_ever == 0 {
            return Ok(self.table.len() as u64 + levels.iter().map(|level| level.entry.info.live).sum::<u64>());
        }
        let mut sources = vec![Source::Owned(self.table.sorted().into_iter())];
        sources.extend(levels.iter().rev().map(|level| Source::Run(RunReader::new(Arc::clone(&level.run)))));
        let (mut urls, tombstone) = (0, self.manifest.bits.tombstone());
        for_each_part(&mut Source::merged(sources, &self.manifest.bits.format()), |entries| {
            urls += entries.iter().filter(|entry| **entry & tombstone == 0).count() as u64;
            Ok(())
        })?;
        Ok(urls)
    }

    /// An upper bound of the sum over classes of the squared number of URLs, close if all runs
    /// hold similar URLs (Cauchy-Schwarz).
    pub(super) fn squares(&self) -> f64 {
        let mut in_table = 0.0;
        for urls in self.table.sorted().chunk_by(|a, b| class(*a) == class(*b)) {
            in_table += (urls.len() as f64).powi(2);
        }
        let roots = self.levels.iter().map(|level| level.entry.squares.sqrt()).sum::<f64>();
        (roots + in_table.sqrt()).powi(2)
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let indexes = self.levels.iter().map(|level| level.run.memory_bytes());
        let fixed = self.table.memory_bytes() + self.cache.memory_bytes() + self.log.memory_bytes();
        fixed + indexes.sum::<u64>()
    }

    pub(super) fn disk_bytes(&self) -> u64 {
        let runs = self.levels.iter().map(|level| level.run.disk_bytes());
        runs.sum::<u64>() + self.log.disk_bytes() + self.manifest.disk_bytes()
    }
}

/// The runs in the order in which one URL is looked for. A tombstone hides what older runs have,
/// so the runs from the oldest with tombstones on are searched first, the newest first. What the
/// older ones have is in the set, in whichever it is found: the oldest, which is the largest, has
/// most of the URLs that are asked for.
fn in_order_of_search(levels: &[Level]) -> impl Iterator<Item = &Level> {
    let without = levels.iter().take_while(|level| level.entry.info.tombstones == 0).count();
    let (without, others) = levels.split_at(without);
    others.iter().rev().chain(without)
}

/// Runs `work` on all entries of a source, part by part.
fn for_each_part(source: &mut Source<'_, Fixed>, mut work: impl FnMut(&mut Vec<u128>) -> Result<()>) -> Result<()> {
    let mut entries = Vec::new();
    loop {
        entries.clear();
        source.fill(&mut entries)?;
        if entries.is_empty() {
            return Ok(());
        }
        work(&mut entries)?;
    }
}
