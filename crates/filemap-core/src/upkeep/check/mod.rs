//! `verify`: reads every byte of a store, or in a quick pass only references and their targets,
//! and reports the place of each flaw. Damage does not stop a pass; the caller may, and can resume
//! it later.

mod crew;
mod expand;
mod keys;
mod leaves;
mod order;
mod places;
pub(crate) mod position;
mod quick;
mod report;
mod segment_table;
mod starts;
mod values;
mod whose;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use filemap_io::files::{self, Replacement};
use filemap_io::{Access, Progress};

use crate::error::{Error, Result, StorageError, unless_cancelled};
use crate::format::key_runs::KeyRuns;
use crate::format::location::{Extent, Location};
use crate::format::superblock::{COPIES, Tail};
use crate::format::verified::Verified;
use crate::format::{PAGE_BYTES, names};
use crate::handle::reading::Reading;
use crate::handle::rules;
use crate::index::segment_table::SegmentTable;
use crate::logs::keys::KeyFile;
use crate::record::now_ms;
use crate::sync::primitive::sleep;
use crate::upkeep::Upkeep;
use places::Places;
use position::Position;
use starts::Starts;
use values::{Findings, Unread};
use whose::Whose;

pub(crate) use crew::Crew;
pub use report::{Problem, VerifyOptions, VerifyProgress, VerifyReport};

/// Longest sleep of a rate-limited pass between two cancellation checks.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

struct Check<'a, 's> {
    reading: &'s Reading,
    report: VerifyReport,
    total_bytes: u64,
    /// The intact records of the value log.
    places: Places<'s>,
    /// The chunks among them.
    chunks: HashMap<u16, Starts>,
    /// Locations of lists of chunks, and the chunks listed.
    lists: HashMap<Location, Vec<Extent>>,
    /// Live bytes as found, and the tombstones below `tail`.
    found: SegmentTable,
    tail: Tail,
    /// By id of an unreadable dictionary.
    unread: BTreeMap<u32, Unread>,
    /// Dictionaries present or named when the pass began, and the highest id assigned by then:
    /// only one of these, or a newer one, can have been erased since.
    named: BTreeSet<u32>,
    last_dictionary: u32,
    keys: HashMap<u16, Starts>,
    /// Heads of keys that are counted; `None` without a rule for counting.
    counted: Option<u64>,
    /// The runs of keys in order when the pass began, and the sum of the hashes of their keys.
    order: Option<KeyRuns>,
    run_hashes: Option<u64>,
    /// The sum of the hashes of heads of keys.
    head_hashes: u64,
    /// Keys of damaged value records.
    whose: Whose,
    /// End of the key-log scan. Records beyond it were written since.
    key_end: Tail,
    /// Segments of the key log, and the value of `KeyLog::removals` when they were opened.
    /// Addresses found then and now are comparable only while that value is unchanged.
    key_files: Vec<KeyFile>,
    removals: u64,
    options: &'a VerifyOptions,
    crew: &'a Crew<'s>,
    begun: Instant,
    /// Segments that an earlier part of the pass found intact, by ordinal, and the file that
    /// records them.
    known: HashMap<u64, Findings>,
    position: Option<Position>,
    progress: &'a mut Progress<'a, VerifyProgress>,
}

/// Verifies a store: see [`Store::verify_with`](crate::Store::verify_with). Helper threads join
/// through `crew`. A writer passes its `upkeep`.
pub(crate) fn verify<'a, 's>(
    reading: &'s Reading,
    upkeep: Option<&Upkeep>,
    options: &'a VerifyOptions,
    crew: &'a Crew<'s>,
    progress: &'a mut Progress<'a, VerifyProgress>,
) -> Result<VerifyReport> {
    reading.check_open()?;
    match upkeep {
        // Then the memtables hold only versions put during the pass.
        Some(upkeep) => upkeep.checkpoint()?,
        None => reading.follow_writer()?,
    }
    let begun_ms = now_ms();
    let mut check = check(reading, options, crew, progress)?;
    let done = if options.is_quick { check.quick() } else { check.full() };
    check.absent();
    check.name_problems();
    let Check { mut report, position, places, .. } = check;
    // Anything found after the handle was closed may be another writer's.
    reading.check_open()?;
    if let Some(e) = places.failed() {
        return Err(e);
    }
    match done {
        Err(Error::Cancelled) => {
            report.is_resumable = position.is_some_and(|p| p.is_kept());
            Ok(report)
        }
        Err(e) => Err(e),
        Ok(()) => {
            report.is_complete = true;
            if !options.is_quick {
                note_verified(reading, &report, position.map_or(begun_ms, |p| p.begun_ms), options);
            }
            Ok(report)
        }
    }
}

/// Prepares a pass, from the beginning or resumed.
fn check<'a, 's>(
    reading: &'s Reading,
    options: &'a VerifyOptions,
    crew: &'a Crew<'s>,
    progress: &'a mut Progress<'a, VerifyProgress>,
) -> Result<Check<'a, 's>> {
    let stats = reading.stats();
    let there = reading.values().dictionaries.ids().into_iter();
    let named = reading.segment_table().dictionaries.keys().copied().chain(there).collect();
    let removals = reading.keys().removals();
    let (key_files, key_end) = reading.key_files()?;
    let store_id = reading.birth().store_id;
    let (position, known) = match options.is_resumable && !options.is_quick {
        true if options.is_anew => (Some(Position::new(store_id)), HashMap::new()),
        true => {
            let (position, known) = Position::resume(reading.dir(), store_id);
            (Some(position), known)
        }
        false => (None, HashMap::new()),
    };
    Ok(Check {
        reading,
        report: VerifyReport::default(),
        total_bytes: stats.value_bytes
            + stats.dictionary_bytes
            + stats.key_bytes
            + stats.key_run_bytes
            + (stats.index_leaves + reading.index().run_pages()) * PAGE_BYTES as u64,
        places: Places::new(reading, reading.log_end().0),
        chunks: HashMap::new(),
        lists: HashMap::new(),
        found: SegmentTable::default(),
        tail: reading.latest().tail,
        unread: BTreeMap::new(),
        named,
        last_dictionary: reading.values().dictionaries.last_id(),
        keys: HashMap::new(),
        counted: reading.options().counted.map(|_| 0),
        order: None,
        run_hashes: None,
        head_hashes: 0,
        whose: Whose::new(),
        key_end,
        key_files,
        removals,
        options,
        crew,
        begun: Instant::now(),
        known,
        position,
        progress,
    })
}

/// Records the end of a full pass. Advisory, so a failure to write it is not an error.
fn note_verified(reading: &Reading, report: &VerifyReport, begun_ms: i64, options: &VerifyOptions) {
    let (store_id, problems) = (reading.birth().store_id, report.problems.len() as u64);
    let note = Verified { store_id, ended_ms: now_ms(), bytes: report.bytes, problems, begun_ms };
    let write = || -> Result<()> {
        if options.is_resumable {
            files::remove(reading.dir(), names::VERIFYING)?;
        }
        if !options.is_noted && !reading.is_writer() {
            return Ok(());
        }
        files::remove(reading.dir(), names::NEW_VERIFIED)?;
        let replacement = Replacement::begin(reading.dir(), names::VERIFIED, names::NEW_VERIFIED)?;
        files::write(replacement.file(), names::NEW_VERIFIED, &note.encode(), 0)?;
        replacement.sync()?;
        Ok(replacement.rename()?)
    };
    if let Err(e) = write() {
        reading.counters().failed(&e);
    }
}

/// Returns a value that stays the same while the index is that of the latest superblock; `None`
/// while it is not.
fn stamp(reading: &Reading) -> Option<(u64, u64)> {
    let epoch = reading.latest().epoch;
    let settled = reading.index().settled()?;
    (reading.is_writer() || settled == epoch).then_some((settled, epoch))
}

/// Passes on system errors (for example no free file descriptor), which are not damage.
///
/// # Errors
/// The error, if it is a system error.
fn not_read(error: &Error) -> Result<()> {
    if matches!(error, Error::Storage(StorageError::Io { .. })) { Err(error.clone()) } else { Ok(()) }
}

impl Check<'_, '_> {
    fn problem(&mut self, file: impl Into<String>, offset: u64, what: impl Into<String>) {
        self.problem_of(file.into(), offset, 0, what.into());
    }

    /// A problem of records with these keys.
    fn problem_with(&mut self, file: String, offset: u64, what: String, keys: Vec<Vec<u8>>) {
        self.report.problems.push(Problem { file, offset, bytes: 0, what, keys });
    }

    fn problem_of(&mut self, file: String, offset: u64, bytes: u64, what: String) {
        self.report.problems.push(Problem { file, offset, bytes, what, keys: Vec::new() });
    }

    /// Reports an unusable file as a problem.
    ///
    /// # Errors
    /// The error, if it says nothing about the file's content.
    fn judge(&mut self, file: impl Into<String>, error: Error) -> Result<()> {
        not_read(&error)?;
        self.problem(file, 0, error.to_string());
        Ok(())
    }

    fn full(&mut self) -> Result<()> {
        let settled = stamp(self.reading);
        self.order.clone_from(&self.reading.segment_table().order);
        self.superblock()?;
        self.dictionaries()?;
        self.rules()?;
        self.values()?;
        self.unread()?;
        self.order()?;
        let leaves = self.leaves_aside();
        let heads = self.keys()?;
        self.index(leaves, heads, settled)
    }

    /// Bytes between two progress reports.
    fn piece_bytes(&self) -> u64 {
        if self.options.rate.is_some() { 256 << 10 } else { 4 << 20 }
    }

    fn read(&mut self, file: &str, bytes: u64) -> Result<()> {
        self.read_but(file, bytes, 0)
    }

    /// Counts bytes as read and reports progress, with `problems` found but not yet in the report.
    /// Sleeps to keep to the rate.
    ///
    /// # Errors
    /// `Cancelled` when the caller cancels; `Closed`.
    fn read_but(&mut self, file: &str, bytes: u64, problems: usize) -> Result<()> {
        self.report.bytes += bytes;
        let read = self.report.bytes - self.report.resumed_bytes;
        loop {
            self.reading.check_open()?;
            unless_cancelled((self.progress)(VerifyProgress {
                file: file.to_owned(),
                done_bytes: self.report.bytes.min(self.total_bytes),
                total_bytes: self.total_bytes,
                problems: (self.report.problems.len() + problems) as u64,
            }))?;
            let due = self.options.rate.map_or(0.0, |rate| read as f64 / rate.max(1) as f64);
            let early = Duration::from_secs_f64(due.min(1e9)).saturating_sub(self.begun.elapsed());
            if early.is_zero() {
                return Ok(());
            }
            sleep(early.min(LONGEST_WAIT));
        }
    }

    fn superblock(&mut self) -> Result<()> {
        self.report.files += 1;
        for (copy, offset) in self.reading.superblock().copies()?.iter().zip(COPIES) {
            if let Err(what) = copy {
                self.problem(names::SUPERBLOCK, offset, *what);
            }
        }
        Ok(())
    }

    /// Reports missing files that no other problem names.
    fn absent(&mut self) {
        let told = |report: &VerifyReport, file: &str| report.problems.iter().any(|p| p.file == file);
        for absent in self.reading.absent().iter().filter(|a| a.is_missed()) {
            if !told(&self.report, &absent.file) {
                self.problem(&absent.file, 0, &absent.why);
            }
        }
    }

    /// Verifies both copies of every dictionary.
    fn dictionaries(&mut self) -> Result<()> {
        for id in self.reading.values().dictionaries.ids() {
            let name = names::dictionary(id);
            self.report.files += 1;
            match self.reading.values().dictionaries.check(id) {
                Err(e) if e.is_corrupt() && self.has_gone(id)? => {}
                Err(e) => self.judge(name, e)?,
                Ok(checked) => {
                    for (offset, what) in checked.problems {
                        self.problem(&name, offset, what);
                    }
                    self.read(&name, checked.bytes)?;
                }
            }
        }
        Ok(())
    }

    /// Verifies the erasure rules.
    pub(super) fn rules(&mut self) -> Result<()> {
        let (dir, vouched) = (self.reading.dir(), self.reading.latest().rules);
        match rules::read(dir, &self.reading.birth().store_id, vouched, Access::Read) {
            Err(Error::Storage(StorageError::Corrupt { what, .. })) => self.problem(names::RULES, 0, what),
            Err(e) => return Err(e),
            Ok(rules) => self.report.files += u64::from(rules.generation > 0),
        }
        Ok(())
    }

    /// Returns true if an erasure has removed a dictionary since the pass began: the last
    /// superblock does not name it, so no record that counts does either. Always false for an id
    /// that was assigned before the pass but neither present nor named then: records may name
    /// dictionaries that no segment table does.
    fn has_gone(&self, id: u32) -> Result<bool> {
        if id <= self.last_dictionary && !self.named.contains(&id) {
            return Ok(false);
        }
        self.reading.follow_writer()?;
        let is_named = self.reading.segment_table().dictionaries.contains_key(&id);
        Ok(!is_named && !self.reading.values().dictionaries.is_listed(id))
    }

    /// Reports each missing or damaged dictionary once, however many records need it.
    fn unread(&mut self) -> Result<()> {
        for (id, Unread { records, keys, is_cut, error }) in std::mem::take(&mut self.unread) {
            not_read(&error)?;
            if self.has_gone(id)? {
                continue;
            }
            let some = if is_cut { ", only some of which are listed" } else { "" };
            let what = format!("{records} records cannot be expanded without it{some}: {error}");
            self.problem_with(names::dictionary(id), 0, what, keys.into_iter().collect());
        }
        Ok(())
    }
}
