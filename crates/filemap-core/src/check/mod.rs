//! `verify`: reads every byte of a store, or all that leads somewhere, and says of each that is wrong where it is. Damage stops
//! nothing; the caller may, and go on later.

mod crew;
mod expand;
mod keys;
mod position;
mod quick;
mod report;
mod starts;
mod values;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use filemap_io::Access;

use crate::accounts::{Account, Accounts};
use crate::error::{Error, Result};
use crate::format::key::{UNIT_BYTES as KEY_UNIT, offset_of, segment_of};
use crate::format::leaf::Slot;
use crate::format::location::{Extent, Location, UNIT_BYTES};
use crate::format::superblock::{COPIES, Tail};
use crate::format::verified::Verified;
use crate::format::{PAGE_BYTES, names};
use crate::keys::KeyFile;
use crate::primitive::sleep;
use crate::record::now_ms;
use crate::recover;
use crate::state::Shared;
use position::Position;
use starts::Starts;
use values::Findings;

pub(crate) use crew::Crew;
pub use report::{Problem, VerifyOptions, VerifyProgress, VerifyReport};

/// A pass that is held back looks up at least this often.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

struct Check<'a> {
    shared: &'a Shared,
    report: VerifyReport,
    total_bytes: u64,
    values: HashMap<u16, Starts>,
    /// The chunks among them.
    chunks: HashMap<u16, Starts>,
    /// Where lists of chunks lie, and what they list.
    lists: HashMap<Location, Vec<Extent>>,
    /// What was found to be live, and the removals below `tail`.
    found: Accounts,
    tail: Tail,
    /// Records that need a dictionary that cannot be read, by its id, and why.
    unread: BTreeMap<u32, (u64, Error)>,
    keys: HashMap<u16, Starts>,
    /// Where the scans end: what the index leads to beyond was written since.
    value_end: Tail,
    key_end: Tail,
    /// The key log's segments, and how often some were removed when they were opened: what is led by addresses then and
    /// now is compared only while that stays so.
    key_files: Vec<KeyFile>,
    removals: u64,
    options: &'a VerifyOptions,
    crew: &'a Crew<'a>,
    begun: Instant,
    /// Segments that an earlier part of the pass has found whole, by ordinal; and where that is noted.
    known: HashMap<u64, Findings>,
    position: Option<Position>,
    progress: &'a mut Progress<'a>,
}

type Progress<'a> = dyn FnMut(VerifyProgress) -> ControlFlow<()> + 'a;

impl Shared {
    /// See [`Store::verify_with`](crate::Store::verify_with). Whoever helps, helps with `crew`.
    pub(crate) fn verify<'a>(
        &'a self,
        options: &'a VerifyOptions,
        crew: &'a Crew<'a>,
        progress: &'a mut Progress<'a>,
    ) -> Result<VerifyReport> {
        self.check_open()?;
        if self.writer.is_some() {
            // The tables then hold only what is put while this runs.
            self.checkpoint()?;
        } else {
            self.follow_writer()?;
        }
        let begun_ms = now_ms();
        let mut check = self.check(options, crew, progress)?;
        let done = if options.is_quick { check.quick() } else { check.full() };
        let Check { mut report, position, .. } = check;
        match done {
            Err(Error::Interrupted) => {
                report.is_resumable = position.is_some_and(|p| p.is_kept());
                Ok(report)
            }
            Err(e) => Err(e),
            Ok(()) => {
                report.is_complete = true;
                if !options.is_quick {
                    self.note_verified(&report, position.map_or(begun_ms, |p| p.begun_ms), options);
                }
                Ok(report)
            }
        }
    }

    /// A pass at its beginning, or where it is to go on.
    fn check<'a>(
        &'a self,
        options: &'a VerifyOptions,
        crew: &'a Crew<'a>,
        progress: &'a mut Progress<'a>,
    ) -> Result<Check<'a>> {
        let stats = self.stats();
        let removals = self.keys.removals();
        let (key_files, key_end) = self.key_files()?;
        let store_id = self.birth.store_id;
        let (position, known) = match options.is_resumable && !options.is_quick {
            true if options.is_anew => (Some(Position::new(store_id)), HashMap::new()),
            true => {
                let (position, known) = Position::resume(&*self.dir, store_id);
                (Some(position), known)
            }
            false => (None, HashMap::new()),
        };
        Ok(Check {
            shared: self,
            report: VerifyReport::default(),
            total_bytes: stats.value_bytes
                + stats.dictionary_bytes
                + stats.key_bytes
                + stats.index_leaves * PAGE_BYTES as u64,
            values: HashMap::new(),
            chunks: HashMap::new(),
            lists: HashMap::new(),
            found: Accounts::default(),
            tail: self.latest.load().tail,
            unread: BTreeMap::new(),
            keys: HashMap::new(),
            value_end: self.log_end().0,
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
    fn note_verified(&self, report: &VerifyReport, begun_ms: i64, options: &VerifyOptions) {
        let (store_id, problems) = (self.birth.store_id, report.problems.len() as u64);
        let note = Verified { store_id, ended_ms: now_ms(), bytes: report.bytes, problems, begun_ms };
        let write = || -> std::io::Result<()> {
            if options.is_resumable {
                position::remove(&*self.dir)?;
            }
            if !options.is_noted && self.writer.is_none() {
                return Ok(());
            }
            match self.dir.remove(names::NEW_VERIFIED) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
            let file = self.dir.open(names::NEW_VERIFIED, Access::Create)?;
            file.write_at(&note.encode(), 0)?;
            file.sync()?;
            self.dir.rename(names::NEW_VERIFIED, names::VERIFIED)
        };
        if let Err(e) = write() {
            self.counters.failed(&Error::io("write", names::VERIFIED, e));
        }
    }

    /// Something that stays the same for as long as the index is that of the latest superblock; `None` while it is not.
    fn settled(&self) -> Option<(u64, u64)> {
        let epoch = self.latest.load().epoch;
        let settled = self.index.settled()?;
        (self.writer.is_some() || settled == epoch).then_some((settled, epoch))
    }
}

impl Check<'_> {
    fn problem(&mut self, file: impl Into<String>, offset: u64, what: impl Into<String>) {
        self.report.problems.push(Problem { file: file.into(), offset, what: what.into() });
    }

    fn full(&mut self) -> Result<()> {
        let settled = self.shared.settled();
        self.superblock()?;
        self.dictionaries()?;
        self.values()?;
        self.unread();
        let heads = self.keys()?;
        self.index(heads, settled)
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
        for (copy, offset) in self.shared.superblock.copies()?.iter().zip(COPIES) {
            if let Err(what) = copy {
                self.problem(names::SUPERBLOCK, offset, *what);
            }
        }
        Ok(())
    }

    /// Reads both copies of every dictionary.
    fn dictionaries(&mut self) -> Result<()> {
        for id in self.shared.segments.dictionaries.ids() {
            let name = names::dictionary(id);
            self.report.files += 1;
            match self.shared.segments.dictionaries.check(id) {
                Err(e) => self.problem(name, 0, e.to_string()),
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

    /// Reports dictionaries that are missing or damaged once each, however many records need them.
    fn unread(&mut self) {
        for (id, (records, error)) in std::mem::take(&mut self.unread) {
            self.problem(names::dictionary(id), 0, format!("{records} records cannot be expanded without it: {error}"));
        }
    }

    /// Compares the segment table with what was found.
    fn accounts(&mut self) {
        let mut told = Accounts::clone(&self.shared.accounts.load());
        recover::forget_removed(&self.shared.segments, &mut told);
        let of = |accounts: &BTreeMap<u16, Account>, id: u16| {
            accounts.get(&id).map_or((0, 0), |a| (a.live_units, a.tombstone_units))
        };
        let found = std::mem::take(&mut self.found);
        let families = [(&told.values, &found.values, UNIT_BYTES), (&told.keys, &found.keys, KEY_UNIT)];
        for (nth, (told, found, unit)) in families.into_iter().enumerate() {
            let ids: BTreeSet<u16> = told.keys().chain(found.keys()).copied().collect();
            for id in ids.into_iter().filter(|id| of(told, *id) != of(found, *id)) {
                let ((live, removals), (found_live, found_removals)) = (of(told, id), of(found, id));
                let what = format!(
                    "the segment table says {} bytes are live and {} removals, but {} and {} are",
                    live * unit,
                    removals * unit,
                    found_live * unit,
                    found_removals * unit
                );
                let name = if nth == 0 { names::segment(id) } else { names::keys(id) };
                self.problem(name, 0, what);
            }
        }
    }

    fn has_value(&self, location: Location) -> bool {
        self.values.get(&location.segment).is_some_and(|s| s.has(u64::from(location.unit)))
    }

    /// Whether a place was scanned.
    fn was_scanned(&self, location: Location) -> bool {
        let found = self.shared.segments.get(location.segment).or_else(|_| {
            // A reader may not have heard of what was written since.
            self.shared.catch_up().and_then(|_| self.shared.segments.get(location.segment))
        });
        match found {
            // What compaction has written since was not.
            Ok(s) if s.is_output => self.values.contains_key(&s.id),
            Ok(s) => Tail { ordinal: s.ordinal, offset: location.offset() } < self.value_end,
            Err(_) => true,
        }
    }

    /// Checks every leaf and where its slots lead. `settled` tells which index the heads were counted in.
    fn index(&mut self, heads: u64, settled: Option<(u64, u64)>) -> Result<()> {
        self.report.files += 1;
        let (mut keys, mut bad) = (0, Vec::new());
        let mut slots = |slots: &[Slot]| {
            keys += slots.len() as u64;
            for slot in slots {
                if self.was_scanned(slot.location) && !self.has_value(slot.location) {
                    let name = names::segment(slot.location.segment);
                    bad.push((name, slot.location.offset(), "the index leads here, but there is no whole record"));
                }
                if !self.has_key(slot.key) {
                    let (name, offset) = (names::keys(segment_of(slot.key)), offset_of(slot.key));
                    bad.push((name, offset, "the index leads here, but there is no whole key record"));
                }
            }
        };
        let mut pages = Vec::new();
        let mut follow = || self.shared.follow_writer();
        self.report.index_pages = self.shared.index.check(&mut follow, &mut slots, &mut |page, what| {
            pages.push((page, what.to_owned()));
        })?;
        self.report.indexed_keys = keys;
        self.read(names::INDEX, self.report.index_pages * PAGE_BYTES as u64)?;
        for (page, what) in pages {
            self.problem(names::INDEX, u64::from(page) * PAGE_BYTES as u64, what);
        }
        for (name, offset, what) in bad {
            self.problem(name, offset, what);
        }
        let latest = self.shared.latest.load();
        let expected = latest.index.keys;
        // Counts can be compared only if no checkpoint changed them meanwhile, not even one that is still under way.
        let unchanged = settled.is_some() && self.shared.settled() == settled;
        if unchanged && self.report.problems.is_empty() && (keys != expected || heads != keys) {
            let what =
                format!("the index has {keys} keys, the superblock says {expected}, the key log has {heads} heads");
            self.problem(names::INDEX, 0, what);
        }
        if unchanged && self.report.problems.is_empty() {
            self.accounts();
        }
        Ok(())
    }
}
