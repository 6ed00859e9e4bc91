//! `verify`: reads every byte of a store, or all that leads somewhere, and says of each that is wrong where it is. Damage stops
//! nothing; the caller may, and go on later.

mod crew;
mod expand;
mod keys;
mod leaves;
mod places;
mod position;
mod quick;
mod report;
mod segment_table;
mod starts;
mod values;
mod whose;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use filemap_io::Access;

use crate::error::{Error, Result};
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
use values::Findings;
use whose::Whose;

pub(crate) use crew::Crew;
pub use report::{Problem, VerifyOptions, VerifyProgress, VerifyReport};

/// A pass that is held back looks up at least this often.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

struct Check<'a, 's> {
    reading: &'s Reading,
    report: VerifyReport,
    total_bytes: u64,
    /// The whole records of the value log.
    places: Places<'s>,
    /// The chunks among them.
    chunks: HashMap<u16, Starts>,
    /// Where lists of chunks lie, and what they list.
    lists: HashMap<Location, Vec<Extent>>,
    /// What was found to be live, and the removals below `tail`.
    found: SegmentTable,
    tail: Tail,
    /// Records that need a dictionary that cannot be read, by its id, and why.
    unread: BTreeMap<u32, (u64, Error)>,
    /// Dictionaries that there were when the pass began, or were to be, and the highest id given until then: only of these and of
    /// newer ones may one have been erased since.
    named: BTreeSet<u32>,
    last_dictionary: u32,
    keys: HashMap<u16, Starts>,
    /// The keys of records of the value log that are not whole.
    whose: Whose,
    /// Where the scan of the key log ends: what the index leads to beyond was written since.
    key_end: Tail,
    /// The key log's segments, and how often some were removed when they were opened: what is led by addresses then and
    /// now is compared only while that stays so.
    key_files: Vec<KeyFile>,
    removals: u64,
    options: &'a VerifyOptions,
    crew: &'a Crew<'s>,
    begun: Instant,
    /// Segments that an earlier part of the pass has found whole, by ordinal; and where that is noted.
    known: HashMap<u64, Findings>,
    position: Option<Position>,
    progress: &'a mut Progress<'a>,
}

type Progress<'a> = dyn FnMut(VerifyProgress) -> ControlFlow<()> + 'a;

/// See [`Store::verify_with`](crate::Store::verify_with). Whoever helps, helps with `crew`. The writer gives its `upkeep`.
pub(crate) fn verify<'a, 's>(
    reading: &'s Reading,
    upkeep: Option<&Upkeep>,
    options: &'a VerifyOptions,
    crew: &'a Crew<'s>,
    progress: &'a mut Progress<'a>,
) -> Result<VerifyReport> {
    reading.check_open()?;
    match upkeep {
        // The memtables then hold only what is put while this runs.
        Some(upkeep) => upkeep.checkpoint()?,
        None => reading.follow_writer()?,
    }
    let begun_ms = now_ms();
    let mut check = check(reading, options, crew, progress)?;
    let done = if options.is_quick { check.quick() } else { check.full() };
    check.absent();
    check.name_problems();
    let Check { mut report, position, places, .. } = check;
    // What it has found since the handle was closed may be another writer's.
    reading.check_open()?;
    if let Some(e) = places.failed() {
        return Err(e);
    }
    match done {
        Err(Error::Interrupted) => {
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

/// A pass at its beginning, or where it is to go on.
fn check<'a, 's>(
    reading: &'s Reading,
    options: &'a VerifyOptions,
    crew: &'a Crew<'s>,
    progress: &'a mut Progress<'a>,
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
            + stats.index_leaves * PAGE_BYTES as u64,
        places: Places::new(reading, reading.log_end().0),
        chunks: HashMap::new(),
        lists: HashMap::new(),
        found: SegmentTable::default(),
        tail: reading.latest().tail,
        unread: BTreeMap::new(),
        named,
        last_dictionary: reading.values().dictionaries.last_id(),
        keys: HashMap::new(),
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

/// Notes that a full pass came to its end. Advice only: if it cannot be written, nobody is the worse for it.
fn note_verified(reading: &Reading, report: &VerifyReport, begun_ms: i64, options: &VerifyOptions) {
    let (store_id, problems) = (reading.birth().store_id, report.problems.len() as u64);
    let note = Verified { store_id, ended_ms: now_ms(), bytes: report.bytes, problems, begun_ms };
    let write = || -> std::io::Result<()> {
        if options.is_resumable {
            position::remove(reading.dir())?;
        }
        if !options.is_noted && !reading.is_writer() {
            return Ok(());
        }
        match reading.dir().remove(names::NEW_VERIFIED) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let file = reading.dir().open(names::NEW_VERIFIED, Access::Create)?;
        file.write_at(&note.encode(), 0)?;
        file.sync()?;
        reading.dir().rename(names::NEW_VERIFIED, names::VERIFIED)
    };
    if let Err(e) = write() {
        reading.counters().failed(&Error::io("write", names::VERIFIED, e));
    }
}

/// Something that stays the same for as long as the index is that of the latest superblock; `None` while it is not.
fn stamp(reading: &Reading) -> Option<(u64, u64)> {
    let epoch = reading.latest().epoch;
    let settled = reading.index().settled()?;
    (reading.is_writer() || settled == epoch).then_some((settled, epoch))
}

/// What the system refuses (to open one more file, say) is no damage: nothing is known of what was to be read.
///
/// # Errors
/// The error, if it is such a refusal.
fn not_read(error: &Error) -> Result<()> {
    if matches!(error, Error::Io { .. }) { Err(error.clone()) } else { Ok(()) }
}

impl Check<'_, '_> {
    fn problem(&mut self, file: impl Into<String>, offset: u64, what: impl Into<String>) {
        self.problem_of(file.into(), offset, 0, what.into());
    }

    fn problem_of(&mut self, file: String, offset: u64, bytes: u64, what: String) {
        self.report.problems.push(Problem { file, offset, bytes, what, keys: Vec::new() });
    }

    /// Reports why a file cannot be used.
    ///
    /// # Errors
    /// The error, if it says nothing about what the file holds.
    fn judge(&mut self, file: impl Into<String>, error: Error) -> Result<()> {
        not_read(&error)?;
        self.problem(file, 0, error.to_string());
        Ok(())
    }

    fn full(&mut self) -> Result<()> {
        let settled = stamp(self.reading);
        self.superblock()?;
        self.dictionaries()?;
        self.rules()?;
        self.values()?;
        self.unread()?;
        let leaves = self.leaves_aside();
        let heads = self.keys()?;
        self.index(leaves, heads, settled)
    }

    /// After so many bytes the caller is told.
    fn piece_bytes(&self) -> u64 {
        if self.options.rate.is_some() { 256 << 10 } else { 4 << 20 }
    }

    fn read(&mut self, file: &str, bytes: u64) -> Result<()> {
        self.read_but(file, bytes, 0)
    }

    /// Bytes were read, and problems found that are not in the report yet. `Interrupted` when the caller says so.
    fn read_but(&mut self, file: &str, bytes: u64, problems: usize) -> Result<()> {
        self.report.bytes += bytes;
        let read = self.report.bytes - self.report.resumed_bytes;
        loop {
            self.reading.check_open()?;
            let told = (self.progress)(VerifyProgress {
                file: file.to_owned(),
                done_bytes: self.report.bytes.min(self.total_bytes),
                total_bytes: self.total_bytes,
                problems: (self.report.problems.len() + problems) as u64,
            });
            if told.is_break() {
                return Err(Error::Interrupted);
            }
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

    /// Files that are missed and that nothing has led to.
    fn absent(&mut self) {
        let told = |report: &VerifyReport, file: &str| report.problems.iter().any(|p| p.file == file);
        for absent in self.reading.absent().iter().filter(|a| a.is_missed()) {
            if !told(&self.report, &absent.file) {
                self.problem(&absent.file, 0, &absent.why);
            }
        }
    }

    /// Reads both copies of every dictionary.
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

    /// Reads the rules of erasures.
    pub(super) fn rules(&mut self) -> Result<()> {
        let (dir, vouched) = (self.reading.dir(), self.reading.latest().rules);
        match rules::read(dir, &self.reading.birth().store_id, vouched, Access::Read) {
            Err(Error::Corrupt { what, .. }) => self.problem(names::RULES, 0, what),
            Err(e) => return Err(e),
            Ok(rules) => self.report.files += u64::from(rules.generation > 0),
        }
        Ok(())
    }

    /// Whether an erasure has removed a dictionary since it was looked for: the last superblock has it neither as there nor as lost, so no
    /// record that counts names it. Not one that there was not before either: records name what no segment table does.
    fn has_gone(&self, id: u32) -> Result<bool> {
        if id <= self.last_dictionary && !self.named.contains(&id) {
            return Ok(false);
        }
        self.reading.follow_writer()?;
        let is_named = self.reading.segment_table().dictionaries.contains_key(&id);
        Ok(!is_named && !self.reading.values().dictionaries.is_listed(id))
    }

    /// Reports dictionaries that are missing or damaged once each, however many records need them.
    fn unread(&mut self) -> Result<()> {
        for (id, (records, error)) in std::mem::take(&mut self.unread) {
            not_read(&error)?;
            if self.has_gone(id)? {
                continue;
            }
            self.problem(names::dictionary(id), 0, format!("{records} records cannot be expanded without it: {error}"));
        }
        Ok(())
    }
}
