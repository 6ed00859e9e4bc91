//! The index from a URL's fingerprint to its page.
//!
//! A fingerprint is 64 bits of the URL's XXH3 hash with the frontier's own seed. The expected
//! number of URLs mistaken for another, and never fetched, is 0.0003 among a hundred million and
//! 0.03 among a billion.
//!
//! The most recent pages are in memory, 13 to 14 bytes each. When they reach the limit in the
//! options they are written to a sorted run; four runs of about one size are merged into one. A
//! look-up asks the Bloom filters of all runs and reads a block of the run that may have the
//! fingerprint, unless the page is in the cache of recent look-ups.
//!
//! Invariants: pages below `base` are in the runs, all others in memory; a snapshot names synced
//! runs only, and a run that it names is not removed before the next snapshot.

use std::sync::Arc;

use filemap_io::files::remove;
use filemap_io::{Dir, StorageError};
use filemap_runs::{Home, Run, RunInfo, RunReader, RunWriter, Source, Written};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::{Error, Result};
use crate::failpoint::{Failpoint, planted};
use crate::files;
use crate::grow::push;
use crate::pairs::Pairs;

/// Runs of about one size that are merged with a new one.
const MERGED: usize = 3;
const EMPTY: u32 = u32::MAX;
const SLOTS_MIN: usize = 64;
/// Maximum look-ups of runs that are cached: 1 MiB.
const MET_MAX: usize = 1 << 16;
/// Memory of a page in the index.
const PAGE_BYTES: u64 = 14;
/// Minimum pages in memory before a run is written.
const PAGES_MIN: u64 = 16;

/// The index as a snapshot describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Named {
    /// Seed of the fingerprints.
    pub(crate) seed: u64,
    /// Pages in the runs.
    pub(crate) base: u32,
    /// The runs, oldest first.
    pub(crate) runs: Vec<RunInfo>,
}

/// The index.
#[derive(Debug)]
pub(crate) struct Index {
    seed: u64,
    home: Home<Pairs>,
    /// Oldest first; the oldest is the longest.
    runs: Vec<Arc<Run<Pairs>>>,
    /// Runs written since the last snapshot.
    unsynced: Vec<Written>,
    /// Numbers of runs merged since the last snapshot.
    outdated: Vec<u64>,
    base: u32,
    /// Fingerprints of the pages from `base` on.
    fingerprints: Vec<u64>,
    /// Hash table of these pages by fingerprint, [`EMPTY`] if free; linear probing from a slot
    /// proportional to the fingerprint.
    slots: Vec<u32>,
    /// Maximum pages in memory.
    pages_max: usize,
    /// Cache of recent look-ups in runs, by the low bits of the fingerprint.
    met: Vec<(u64, u32)>,
}

impl Index {
    /// Opens the index as a snapshot describes it, without the pages in memory, which will take at
    /// most `memory_bytes`.
    ///
    /// # Errors
    /// `Corrupt`, `NewerFormat`, `Io`.
    pub(crate) fn open(dir: &Arc<dyn Dir>, id: [u8; 16], named: &Named, memory_bytes: u64) -> Result<Index> {
        let home = Home::new(Arc::clone(dir), "frontier", id, Pairs);
        let runs = named.runs.iter().map(|info| Run::open(&home, *info).map(Arc::new));
        let runs: Vec<_> = runs.collect::<std::result::Result<_, StorageError>>()?;
        let mut index = Index {
            seed: named.seed,
            home,
            runs: Vec::new(),
            unsynced: Vec::new(),
            outdated: Vec::new(),
            base: named.base,
            fingerprints: Vec::new(),
            slots: vec![EMPTY; SLOTS_MIN],
            pages_max: (memory_bytes / PAGE_BYTES).max(PAGES_MIN) as usize,
            met: Vec::new(),
        };
        index.set_runs(runs);
        Ok(index)
    }

    fn set_runs(&mut self, runs: Vec<Arc<Run<Pairs>>>) {
        self.runs = runs;
        let met = if self.runs.is_empty() { 0 } else { self.pages_max.next_power_of_two().min(MET_MAX) };
        // No page has the number EMPTY.
        self.met.resize(met, (0, EMPTY));
    }

    pub(crate) fn named(&self) -> Named {
        Named { seed: self.seed, base: self.base, runs: self.runs.iter().map(|run| run.info()).collect() }
    }

    pub(crate) fn fingerprint(&self, url: &str) -> u64 {
        xxh3_64_with_seed(url.as_bytes(), self.seed)
    }

    fn place(&self, fingerprint: u64) -> usize {
        ((u128::from(fingerprint) * self.slots.len() as u128) >> 64) as usize
    }

    /// The page in memory with a fingerprint.
    #[inline]
    pub(crate) fn find_in_memory(&self, fingerprint: u64) -> Option<u32> {
        let mut at = self.place(fingerprint);
        loop {
            match self.slots[at] {
                EMPTY => return None,
                page if self.fingerprints[(page - self.base) as usize] == fingerprint => return Some(page),
                _ => at = if at + 1 == self.slots.len() { 0 } else { at + 1 },
            }
        }
    }

    /// Finds the page with a fingerprint. In 993 of 1,000 calls at most one read from disk.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub(crate) fn find(&self, fingerprint: u64) -> Result<Option<u32>> {
        if let Some(page) = self.find_in_memory(fingerprint) {
            return Ok(Some(page));
        }
        match self.met.get(self.met_at(fingerprint)) {
            Some((met, page)) if *met == fingerprint && *page != EMPTY => Ok(Some(*page)),
            _ => self.find_in_runs(fingerprint),
        }
    }

    fn find_in_runs(&self, fingerprint: u64) -> Result<Option<u32>> {
        // Search the oldest run first: it has most pages.
        for run in &self.runs {
            if let Some((_, page)) = run.find(fingerprint)? {
                if page < self.base {
                    return Ok(Some(page));
                }
                let name = files::run(run.info().number);
                return Err(Error::corrupt(&name, 0, format!("page {page} is not in the runs")));
            }
        }
        Ok(None)
    }

    /// As `find`, and caches the page: links of a host's navigation recur.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub(crate) fn meet(&mut self, fingerprint: u64) -> Result<Option<u32>> {
        let found = self.find(fingerprint)?;
        let at = self.met_at(fingerprint);
        if let (Some(page), Some(met)) = (found.filter(|page| *page < self.base), self.met.get_mut(at)) {
            *met = (fingerprint, page);
        }
        Ok(found)
    }

    fn met_at(&self, fingerprint: u64) -> usize {
        fingerprint as usize & self.met.len().wrapping_sub(1)
    }

    /// Adds the next page, which has a new fingerprint.
    pub(crate) fn add(&mut self, fingerprint: u64) {
        let page = self.base + self.fingerprints.len() as u32;
        push(&mut self.fingerprints, fingerprint);
        // Keeps the load factor at most five sixths.
        if self.fingerprints.len() * 6 > self.slots.len() * 5 {
            self.grow();
        } else {
            self.enter(page);
        }
    }

    fn enter(&mut self, page: u32) {
        let mut at = self.place(self.fingerprints[(page - self.base) as usize]);
        while self.slots[at] != EMPTY {
            at = if at + 1 == self.slots.len() { 0 } else { at + 1 };
        }
        self.slots[at] = page;
    }

    fn grow(&mut self) {
        let len = self.slots.len() + self.slots.len() / 4;
        // Frees the old slots first, to lower the peak of memory.
        self.slots = Vec::new();
        self.slots = vec![EMPTY; len];
        (self.base..self.base + self.fingerprints.len() as u32).for_each(|page| self.enter(page));
    }

    /// Fingerprints of the pages in memory.
    pub(crate) fn in_memory(&self) -> &[u64] {
        &self.fingerprints
    }

    /// Writes the pages in memory to a run, if they exceed the limit. O(pages in memory),
    /// sometimes 4 or 16 times as much: merging writes each page some log4(pages) times.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub(crate) fn flush_if_full(&mut self) -> Result<()> {
        if self.fingerprints.len() < self.pages_max {
            return Ok(());
        }
        let mut pairs: Vec<(u64, u32)> = self.fingerprints.iter().copied().zip(self.base..).collect();
        pairs.sort_unstable();
        let kept = self.runs.len() - self.runs_to_merge();
        let written = self.write(&pairs, kept)?;
        drop(pairs);
        let run = Arc::new(Run::open(&self.home, written.info())?);
        let merged = self.runs.split_off(kept);
        self.outdated.extend(merged.iter().map(|run| run.info().number));
        self.unsynced.retain(|one| merged.iter().all(|run| run.info().number != one.info().number));
        self.unsynced.push(written);
        let runs = self.runs.drain(..).chain([run]).collect();
        self.set_runs(runs);
        self.base += self.fingerprints.len() as u32;
        self.fingerprints.clear();
        self.slots.fill(EMPTY);
        Ok(())
    }

    /// Number of the last runs to merge with the pages in memory.
    fn runs_to_merge(&self) -> usize {
        let (mut count, mut entries) = (0, self.fingerprints.len() as u64);
        while self.runs.len() >= count + MERGED {
            let end = self.runs.len() - count;
            let sizes: Vec<u64> = self.runs[end - MERGED..end].iter().map(|run| run.info().entries()).collect();
            // The first run is the longest.
            if sizes[0] > entries + sizes[1..].iter().sum::<u64>() {
                break;
            }
            (count, entries) = (count + MERGED, entries + sizes.iter().sum::<u64>());
        }
        count
    }

    /// Merges these pairs and the runs from `kept` on into a new run.
    fn write(&self, pairs: &[(u64, u32)], kept: usize) -> Result<Written> {
        let number = self.runs.iter().map(|run| run.info().number).chain(self.outdated.iter().copied()).max();
        let mut writer = RunWriter::create(&self.home, number.unwrap_or(0) + 1)?;
        let runs = self.runs[kept..].iter().rev().map(|run| Source::Run(RunReader::new(Arc::clone(run))));
        let mut merged = Source::merged(std::iter::once(Source::Memory(pairs)).chain(runs).collect(), &Pairs);
        let mut entries = Vec::new();
        loop {
            merged.fill(&mut entries)?;
            if entries.is_empty() {
                break;
            }
            entries.drain(..).try_for_each(|entry| writer.push(entry))?;
        }
        let name = files::run(number.unwrap_or(0) + 1);
        writer.end()?.ok_or_else(|| Error::corrupt(&name, 0, "a run without entries"))
    }

    /// Syncs the contents of the runs, not their names.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn sync(&mut self) -> Result<()> {
        for written in self.unsynced.drain(..) {
            if !planted(Failpoint::RunsNotSynced) {
                written.sync()?;
            }
        }
        if planted(Failpoint::RunsRemovedFirst) {
            self.remove_outdated()?;
        }
        Ok(())
    }

    /// Removes merged runs, which no snapshot names any more.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn remove_outdated(&mut self) -> Result<()> {
        for number in self.outdated.drain(..) {
            remove(&*self.home.dir, &files::run(number))?;
        }
        Ok(())
    }

    /// Names of the files in use or named by the last snapshot.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.runs.iter().map(|run| run.info().number).chain(self.outdated.iter().copied()).map(files::run)
    }

    /// Approximate bytes of the runs.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.disk_bytes()).sum()
    }

    /// Bytes of memory, without the Bloom filters of runs, which are mapped.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let runs: u64 = self.runs.iter().map(|run| run.memory_bytes()).sum();
        let tables = self.fingerprints.capacity() * 8 + self.slots.capacity() * 4;
        runs + (tables + self.met.capacity() * size_of::<(u64, u32)>()) as u64
    }
}
