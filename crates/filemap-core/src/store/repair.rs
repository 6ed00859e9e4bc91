//! Coordinates a repair: surveys the files, creates the files of the new store and an empty handle
//! on it, and reads the segments into that.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use filemap_io::{Access, Advice, Dir, Lock, Progress};

use crate::error::{Error, Result, StorageError};
use crate::format::header::{FileHeader, Kind};
use crate::format::rules::Rules;
use crate::format::superblock::{IndexRoot, Superblock, Tail};
use crate::format::{FORMAT_VERSION, names};
use crate::handle::log::Log;
use crate::handle::log::Pins;
use crate::handle::reading::Reading;
use crate::handle::recover;
use crate::handle::recover::check_canonicalizer;
use crate::handle::rules;
use crate::index::memtable::{Grouping, Memtable};
use crate::index::segment_table::SegmentTable;
use crate::index::superblock::SuperblockFile;
use crate::logs::segments::FIRST_RECORD;
use crate::logs::values::append::Appender;
use crate::options::{Canonicalizer, Options};
use crate::record::now_ms;
use crate::store::assemble::{Files, Parts};
use crate::store::{Store, Threads, Workers, open_dir, open_store_dir, take_lock, witness};
use crate::sync::gate;
use crate::sync::primitive::sleep;
use crate::upkeep::Upkeep;
use crate::upkeep::repair::dictionaries;
use crate::upkeep::repair::files::{self, Copying};
use crate::upkeep::repair::found::Found as Segment;
use crate::upkeep::repair::rebuild::{Found, Living, Rebuild, Scanned};
use crate::upkeep::repair::survey::{Survey, survey};
use crate::upkeep::repair::{Loss, RepairProgress, RepairReport, RepairTo};
use crate::upkeep::worker;

/// Checkpoint stages merged into one stage of a repair.
const STAGES_IN_ONE: u64 = 64;

impl Store {
    /// Rebuilds a store from its value segments, whatever the state of index, key log and
    /// superblock. Every intact record comes back, newest version first. Removed versions stay
    /// removed unless their tombstone is lost. Damaged bytes are covered, so that `verify` finds
    /// no problem afterwards. Nothing else may write the source meanwhile.
    ///
    /// The segments are read once, from front to end. `memtable_bytes` of `options` bounds the
    /// memory of a batch. All intact versions come back, whatever the retention; those beyond it
    /// are dropped as always, when their key is put again or pruned. The canonicaliser comes from
    /// the superblock; without an intact copy of that, `options` must name it. `progress` is
    /// called every few megabytes, and may cancel.
    ///
    /// The result is durable on return. After a crash or an error, a new store is incomplete and
    /// its directory may be removed; a repair in place must be repeated, and can be.
    ///
    /// # Errors
    /// [`Error::NotAStore`] if nothing is left; `InvalidOption` if the canonicaliser is unknown;
    /// [`Error::Canonicalizer`] if it is not the store's; `Locked`; [`Error::NotEmpty`] if the
    /// target is neither new nor empty; `Full` if a segment is needed and all numbers are in use;
    /// `NewerFormat`; [`Error::Cancelled`]; `Io`. Unreadable sectors count as damage in a repair
    /// to a new store, and are an error in place.
    pub fn repair(
        source: impl AsRef<Path>,
        to: RepairTo<'_>,
        options: &Options,
        progress: &mut Progress<'_, RepairProgress>,
    ) -> Result<RepairReport> {
        options.validate()?;
        let from = open_store_dir(source.as_ref())?;
        let RepairTo::New(path) = to else {
            return repair_in(from, None, options, Threads::Started, progress);
        };
        let target = || {
            filemap_io::system::create_dir(path).map_err(|e| match e.kind() {
                std::io::ErrorKind::AlreadyExists => Error::NotEmpty { path: path.to_owned() },
                _ => Error::io("create", path.display())(e),
            })?;
            open_dir(path)
        };
        repair_in(from, Some(&target), options, Threads::Started, progress)
    }
}

/// Creates or opens the target's directory.
pub(crate) type Target<'a> = dyn Fn() -> Result<Arc<dyn Dir>> + 'a;

/// [`Store::repair`] between any two directories; in place without a `target`.
pub(crate) fn repair_in(
    source: Arc<dyn Dir>,
    target: Option<&Target<'_>>,
    options: &Options,
    threads: Threads,
    progress: &mut Progress<'_, RepairProgress>,
) -> Result<RepairReport> {
    // A reference may come after a later version that retention would keep instead of its target.
    let mut options = options.clone().keep_versions(None).keep_age(None);
    // Nothing counts before everything is durable, so fewer stages save syncs, at the cost of some
    // pages waiting for reuse.
    options.limits.stage_pages *= STAGES_IN_ONE;
    let options = &options;
    if target.is_none() {
        // Check before locking: a directory that is not a store must get no lock file.
        survey(&*source, true, &options.limits)?;
    }
    let held = lock_source(&*source, target.is_none())?;
    let mut survey = survey(&*source, target.is_none(), &options.limits)?;
    check_order(&survey, options)?;
    let rules = rules_of(&*source, &mut survey)?;
    let (rule, is_rule_known) = rule(&survey, options)?;
    // Read the witnesses before an in-place repair removes them.
    let (living, doubt) = witness::living(&source, &survey, options);
    let (dir, held) = match (target, held) {
        (None, Some(held)) => {
            files::begin_in_place(&source, &survey)?;
            (Arc::clone(&source), held)
        }
        (target, _) => {
            let dir = target.map_or_else(|| Ok(Arc::clone(&source)), |make| make())?;
            recover::check_vacant(&*dir)?;
            let held = take_lock(&*dir)?;
            recover::clear_unborn(&*dir)?;
            (dir, held)
        }
    };
    let first = Superblock { rules: rules.generation, ..first_superblock(&*dir, &survey, rule, options)? };
    files::create_derived(&*dir, &first)?;
    carry_rules(&*dir, &survey, &rules, target.is_some())?;
    survey.unwitnessed.extend(doubt);
    let mut job = Job { source, dir, survey, rules, is_copy: target.is_some(), options, living, found: None };
    job.make_segments()?;
    job.run(first, held, threads, progress)?;
    files::finish(&*job.dir)?;
    job.report(is_rule_known)
}

/// # Errors
/// `InvalidOption` if the store had an order of keys that the options do not name: a repair would
/// drop it silently.
fn check_order(survey: &Survey, options: &Options) -> Result<()> {
    let Some(order) = survey.order.clone() else { return Ok(()) };
    let mut before = SegmentTable { order: Some(order), ..SegmentTable::default() };
    recover::order(&mut before, options, 0, 1).map(drop)
}

/// The erasure rules, which the repaired store keeps; reported as a loss if missing.
fn rules_of(source: &dyn Dir, survey: &mut Survey) -> Result<Rules> {
    let vouched = survey.superblock.as_ref().map_or(0, |s| s.rules);
    match rules::read(source, &survey.store_id, vouched, Access::Write) {
        Err(Error::Storage(StorageError::Corrupt { what, .. })) => {
            survey.missing.push(loss(names::RULES, 0, 0, &what));
            Ok(Rules { next_id: 1, ..Rules::default() })
        }
        Ok(rules) => {
            // Only a superblock tells whether there were any.
            if rules.generation == 0 && survey.superblock.is_none() {
                let what = "no copy of the superblock is intact, and the file RULES is missing: if the store had rules \
                            of erasures, what they refused may be stored again";
                survey.unwitnessed.push(what.into());
            }
            Ok(rules)
        }
        Err(error) => Err(error),
    }
}

/// Copies the rules to the repaired store. A damaged file is set aside.
fn carry_rules(dir: &dyn Dir, survey: &Survey, rules: &Rules, is_copy: bool) -> Result<()> {
    if rules.generation > 0 {
        return if is_copy { rules::write(dir, &survey.store_id, rules) } else { Ok(()) };
    }
    let aside = names::set_aside(names::RULES, 0);
    match dir.rename(names::RULES, &aside) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::io("rename", names::RULES)(e)),
        _ => Ok(filemap_io::files::sync_folder(dir)?),
    }
}

/// Locks the source against writers. `None` if it has no lock file or cannot be locked, for
/// example on a read-only medium.
fn lock_source(source: &dyn Dir, in_place: bool) -> Result<Option<Box<dyn Lock>>> {
    if in_place {
        return take_lock(source).map(Some);
    }
    if source.open(names::LOCK, Access::Read).is_err() {
        return Ok(None);
    }
    match take_lock(source) {
        Err(e @ Error::Storage(StorageError::Locked { .. })) => Err(e),
        held => Ok(held.ok()),
    }
}

/// The canonicaliser of the store. The flag tells whether it comes from the superblock.
fn rule(survey: &Survey, options: &Options) -> Result<(Canonicalizer, bool)> {
    if let Some(superblock) = &survey.superblock {
        check_canonicalizer(superblock, options)?;
        return Ok((superblock.canonicalizer.clone(), true));
    }
    let why = "the superblock is lost, and with it the name of the canonicaliser of the keys: give that name";
    let unknown = || Error::option("canonicalizer", why);
    options.canonicalizer.clone().map(|rule| (rule, false)).ok_or_else(unknown)
}

/// The superblock before any version is entered.
fn first_superblock(dir: &dyn Dir, survey: &Survey, rule: Canonicalizer, options: &Options) -> Result<Superblock> {
    let old = survey.superblock.as_ref();
    let random: [u8; 16] = filemap_io::files::random(dir)?;
    let oldest = survey.segments.iter().map(|f| f.header.created_ms).min();
    let last = survey.segments.iter().rfind(|f| !f.header.is_output);
    let ordinal = last.map_or(survey.next_ordinal, |f| f.header.ordinal);
    Ok(Superblock {
        read_version: FORMAT_VERSION,
        write_version: FORMAT_VERSION,
        store_id: survey.store_id,
        hash_seed: old.map_or(recover::value_of(&random[..8]), |s| s.hash_seed),
        segment_bytes: old.map_or(options.segment_bytes as u32, |s| s.segment_bytes),
        canonicalizer: rule,
        created_ms: old.map(|s| s.created_ms).or(oldest).unwrap_or_else(now_ms),
        epoch: 1,
        tail: Tail { ordinal, offset: FIRST_RECORD },
        next_sequence: 1,
        key_tail: Tail { ordinal: 0, offset: FIRST_RECORD },
        index: IndexRoot::empty(),
        versions: 0,
        max_time_ms: i64::MIN,
        dropped_epoch: old.map_or(0, |s| s.dropped_epoch + 1),
        last_dictionary: old.map_or(0, |s| s.last_dictionary),
        rules: 0,
        life: recover::value_of(&random[8..]),
        removals_from: 0,
    })
}

/// State of one repair.
struct Job<'a> {
    source: Arc<dyn Dir>,
    dir: Arc<dyn Dir>,
    survey: Survey,
    rules: Rules,
    /// `dir` is not `source`.
    is_copy: bool,
    options: &'a Options,
    living: Option<Living>,
    /// Results: totals of the rebuild, and the last superblock.
    found: Option<(Found, Superblock)>,
}

impl Job<'_> {
    /// Ensures that every segment exists with its header, and that one can be appended to.
    fn make_segments(&self) -> Result<()> {
        if self.is_copy {
            for segment in &self.survey.segments {
                files::create_segment(&*self.dir, &segment.header)?;
            }
        }
        if self.survey.segments.iter().all(|f| f.header.is_output) {
            let id = self.survey.store_id;
            let header = FileHeader::new(Kind::Values, id, self.survey.next_ordinal, now_ms());
            files::create_segment(&*self.dir, &header)?;
        }
        Ok(filemap_io::files::sync_folder(&*self.dir)?)
    }

    /// Copies the dictionaries if needed. Returns those without an intact copy.
    fn carry_dictionaries(&self) -> Result<Vec<u32>> {
        let to = self.is_copy.then_some(&*self.dir);
        let mut damaged = Vec::new();
        for id in self.survey.dictionaries.iter().copied() {
            if !dictionaries::carry(&*self.source, to, id, &self.survey.store_id)? {
                damaged.push(id);
            }
        }
        Ok(damaged)
    }

    /// Losses for dictionaries that are damaged, or missing though records or the superblock name
    /// them.
    fn judge_dictionaries(&self, named: &BTreeSet<u32>, damaged: &[u32]) -> Vec<Loss> {
        let all: BTreeSet<u32> = named.iter().chain(&self.survey.named_dictionaries).chain(damaged).copied().collect();
        let is_there = |id: &u32| self.survey.dictionaries.contains(id) && !damaged.contains(id);
        let gone = all.into_iter().filter(|id| !is_there(id)).map(|id| {
            let how = if damaged.contains(&id) { "damaged" } else { "missing" };
            let what = match named.contains(&id) {
                true => format!("the dictionary is {how}, and records that name it cannot be decompressed without it"),
                false => format!("the dictionary is {how}; no remaining record names it"),
            };
            loss(&names::dictionary(id), 0, 0, &what)
        });
        gone.collect()
    }

    fn run(
        &mut self,
        first: Superblock,
        held: Box<dyn Lock>,
        threads: Threads,
        progress: &mut Progress<'_, RepairProgress>,
    ) -> Result<()> {
        let damaged = self.carry_dictionaries()?;
        let upkeep = Arc::new(self.handle(&first, held)?);
        let reading = upkeep.reading();
        let known = self.survey.dictionaries.iter().chain(&self.survey.named_dictionaries).max();
        reading.values().dictionaries.pass_over(known.copied().unwrap_or(0));
        let started = match threads {
            Threads::Started => worker::start_checkpoints(&upkeep)?,
            Threads::None => Vec::new(),
        };
        // On drop, ends the thread and releases the lock, even after an error.
        let workers = Workers::new(&upkeep, started, false);
        let vouched = self.survey.superblock.as_ref().filter(|_| self.survey.is_last).map(|s| s.tail);
        let total_bytes = self.survey.segments.iter().map(|f| f.bytes).sum();
        let make_room: fn(&Upkeep) -> Result<()> = match threads {
            Threads::Started => wait_for_room,
            Threads::None => Upkeep::checkpoint,
        };
        let living = self.living.take();
        let result = (|| {
            let mut rebuild = Rebuild::new(&upkeep, &make_room, progress, total_bytes, vouched);
            rebuild.believe(living);
            let mut end = FIRST_RECORD;
            for segment in &self.survey.segments {
                let scanned = self.segment(reading, &mut rebuild, segment)?;
                if !segment.header.is_output {
                    end = scanned.end;
                }
            }
            let last = reading.values().segments.get(first.tail.ordinal as u16)?;
            files::own(&*self.dir, &last.name())?;
            let segment_bytes = u64::from(first.segment_bytes);
            let appender = Appender::new(Arc::clone(&reading.values().segments), last, end, segment_bytes)?;
            rebuild.finish(appender)
        })();
        if result.is_err() {
            // So that closing makes nothing durable.
            upkeep.writing().poisoned().set(&Error::Cancelled);
        }
        let mut found = result?;
        found.losses.extend(self.judge_dictionaries(&found.dictionaries, &damaged));
        self.found = Some((found, Superblock::clone(&reading.latest())));
        workers.close()
    }

    /// Opens a handle on the empty store.
    fn handle(&self, first: &Superblock, held: Box<dyn Lock>) -> Result<Upkeep> {
        let options = self.options.clone();
        let (dir, gate) = gate::guard(Arc::clone(&self.dir), held);
        let files = Files::open(&dir, first, &options)?;
        let last = files.values.segments.get(first.tail.ordinal as u16)?;
        files::own(&*self.dir, &last.name())?;
        let appender =
            Appender::new(Arc::clone(&files.values.segments), last, FIRST_RECORD, u64::from(first.segment_bytes))?;
        let log = Log::new(appender, 1, BTreeMap::new(), Pins::of(None));
        let mut segment_table = SegmentTable::default();
        recover::order(&mut segment_table, &options, 0, self.survey.next_run)?;
        let parts = Parts {
            superblock: SuperblockFile::open_new(&*dir)?,
            dir,
            gate,
            current: first.clone(),
            next_epoch: first.epoch + 1,
            files,
            segment_table,
            absent: Vec::new(),
            active: Arc::new(Memtable::new(options.memtable_bytes, 0, Grouping::of(&options, first.hash_seed))),
            log,
            // The same version may lie in two places, perhaps in different batches.
            replayed_below: u64::MAX,
            rules: self.rules.clone(),
        };
        parts.assemble(options)
    }

    /// Reads one segment, copies it if repairing into a new store, and mends the result.
    fn segment(&self, reading: &Reading, rebuild: &mut Rebuild<'_>, found: &Segment) -> Result<Scanned> {
        let segment = reading.values().segments.get(found.header.ordinal as u16)?;
        let name = segment.name();
        if found.is_guessed {
            rebuild.lost(loss(&found.name, 0, FIRST_RECORD, "its header is damaged and was replaced"));
        }
        if !self.is_copy {
            let file = self.dir.open(&name, Access::Read).map_err(Error::io("open", &name))?;
            let scanned = rebuild.segment(&segment, &*file, &*file, &found.name)?;
            if !scanned.gaps.is_empty() || scanned.end < found.bytes {
                files::mend(&*files::own(&*self.dir, &name)?, &segment, &scanned.gaps, scanned.end)?;
            }
            return Ok(scanned);
        }
        let source = self.source.open(&found.name, Access::Read).map_err(Error::io("open", &found.name))?;
        let copy = reading.values().segments.writable(&segment)?;
        let copying = Copying::new(source, Arc::clone(&copy));
        let scanned = rebuild.segment(&segment, &copying, &*copy, &found.name)?;
        for (offset, bytes) in copying.unreadable() {
            rebuild.lost(loss(&found.name, offset, bytes, "the device cannot read it"));
        }
        files::mend(&*copy, &segment, &scanned.gaps, scanned.end)?;
        copy.advise(Advice::DropCache, 0, 0);
        Ok(scanned)
    }

    fn report(self, is_rule_known: bool) -> Result<RepairReport> {
        let (found, superblock) = self.found.ok_or(Error::Closed)?;
        let mut losses = self.survey.missing;
        losses.extend(found.losses);
        Ok(RepairReport {
            segments: found.segments,
            bytes: found.bytes,
            records: found.records,
            tombstones: found.tombstones,
            keys: superblock.index.keys,
            losses,
            outdated: found.outdated,
            unfinished_bytes: found.unfinished_bytes,
            ignored: self.survey.ignored,
            unwitnessed: self.survey.unwitnessed,
            canonicalizer: superblock.canonicalizer,
            is_rule_known,
        })
    }
}

fn loss(file: &str, offset: u64, bytes: u64, what: &str) -> Loss {
    Loss { file: file.to_owned(), offset, bytes, key: None, version: None, what: what.to_owned() }
}

/// Waits until the checkpoint thread has taken the full memtable, which it merges while the next
/// one fills.
fn wait_for_room(upkeep: &Upkeep) -> Result<()> {
    let (reading, writing) = (upkeep.reading(), upkeep.writing());
    loop {
        writing.poisoned().check()?;
        let tables = reading.tables();
        if tables.active.bytes() < reading.options().memtable_bytes && !tables.active.is_exhausted() {
            return Ok(());
        }
        if tables.frozen.is_none() {
            writing.ask_for_checkpoint();
        }
        drop(tables);
        sleep(Duration::from_millis(1));
    }
}
