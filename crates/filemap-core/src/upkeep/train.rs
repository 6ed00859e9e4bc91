//! Trains dictionaries on the store's own pages: chooses samples, tries a dictionary, and keeps it
//! if it pays.
//!
//! Invariants: training holds no lock that a put or a get waits for, except the brief one of the
//! tally. A dictionary is used only if it compresses held-out pages better than before, at the
//! level that pages have in the end, by more than its file will cost.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::error::{Error, Result, StorageError};
use crate::event::{DictionaryMade, Event};
use crate::failpoint::step;
use crate::format::dictionary::{Making, ratio};
use crate::format::location::{Location, SizeClass};
use crate::format::value::Kind;
use crate::handle::reading::Reading;
use crate::handle::writing::LONGEST_SAMPLE;
use crate::logs::values::dictionaries::make::{Candidate, Samples};
use crate::logs::values::dictionaries::tally::{Attempt, FEW_PAGES, Job, Tally, Trained};
use crate::logs::values::dictionaries::{DictionaryFacts, Part, Registry};
use crate::logs::values::read::Want;
use crate::record::now_ms;
use crate::upkeep::Upkeep;

/// Least number of bytes of bodies per byte of dictionary, whose file holds it twice.
const BODIES_TO_DICTIONARY: u64 = 32;
/// Shortest dictionary tried, in bytes.
const SHORTEST: u64 = 16 << 10;
/// A group's dictionary is at most this fraction of the longest, less a little: at exactly 256
/// KiB, that fraction of the default, zstd uses tables of twice the length.
const GROUP_PART: usize = 4;
const LITTLE_LESS: usize = 128;
/// Length of a dictionary for metas, in bytes.
const META_BYTES: usize = 8 << 10;
/// Sample bytes per byte of dictionary, and the greatest number in all.
const SAMPLES_TO_DICTIONARY: usize = 16;
const MOST_SAMPLE_BYTES: usize = 16 << 20;
/// Expected growth of a group, and of the whole store, as a factor: over that much data a
/// dictionary must save more than its file costs.
const EXPECTED: f64 = 4.0;
const EXPECTED_IN_ALL: f64 = 16.0;
/// Least gain on held-out pages, as a share of the size before.
const LEAST_GAIN: f64 = 0.03;
/// Memory of a dictionary digested for compression, as a multiple of its length.
const DIGESTED: usize = 5;

impl Upkeep {
    /// Copies another store's dictionaries; see [`Registry::adopt`].
    ///
    /// # Errors
    /// `Poisoned`; `Io`; those of a checkpoint.
    pub(crate) fn adopt_dictionaries(&self, other: &Reading) -> Result<BTreeSet<u32>> {
        self.writing.poisoned().check()?;
        let adopted = self.reading.values().dictionaries.adopt(&other.values().dictionaries);
        // As after a dictionary is made.
        if let Err(e @ Error::Storage(StorageError::Io { op: "sync", .. })) = &adopted {
            self.writing.poison(e);
        }
        let adopted = adopted?;
        // The superblock must name them before a record does.
        self.name_dictionaries()?;
        Ok(adopted)
    }

    /// Makes a dictionary for a group, if it pays.
    ///
    /// # Errors
    /// `Io`; `Full`; those of a checkpoint. Then no new dictionary is used.
    pub(crate) fn train_group(&self, job: &Job) -> Result<Option<DictionaryFacts>> {
        let held = self.writing.training().turn();
        let made = self.make(job);
        drop(held);
        // A failed sync is never retried: the directory may hold names that other files depend on.
        if let Err(e @ Error::Storage(StorageError::Io { op: "sync", .. })) = &made {
            self.writing.poison(e);
        }
        let of = |ratio| Trained { pages: job.pages, ratio };
        let (attempt, facts) = match made {
            Ok(Outcome::Made(facts)) => (Attempt::Made(of(facts.body_ratio)), Ok(Some(facts))),
            Ok(Outcome::Stands(ratio)) => (Attempt::Stands(of(ratio)), Ok(None)),
            Ok(Outcome::Nothing) => (Attempt::Nothing, Ok(None)),
            Err(e) => (Attempt::Nothing, Err(e)),
        };
        self.writing.training().tally.done((&job.group, self.reading.hash(&job.group)), attempt);
        facts
    }

    fn make(&self, job: &Job) -> Result<Outcome> {
        let start = Instant::now();
        let registry = &self.reading.values().dictionaries;
        let always = self.reading.options().limits.always_train;
        let own = registry.own(&job.group);
        if !registry.has_room() || (own.is_none() && !job.group.is_empty() && !self.has_memory()) {
            return Ok(Outcome::Nothing);
        }
        let longest = self.longest(&job.group);
        let bytes = (job.raw_bytes / BODIES_TO_DICTIONARY).clamp(SHORTEST.min(longest as u64), longest as u64) as usize;
        let (bodies, metas) = self.gather(&job.spots, (bytes * SAMPLES_TO_DICTIONARY).min(MOST_SAMPLE_BYTES));
        let level = self.reading.options().compression_level;
        let before = registry.choose(&job.group);
        let judged_at = if before == 0 && job.pages < FEW_PAGES { level } else { self.stays_at() };
        let body = trial(&bodies, bytes, judged_at, registry, before, Part::Body);
        let meta = trial(&metas, META_BYTES, judged_at, registry, before, Part::Meta);
        let Some(mut body) = body else { return Ok(Outcome::Nothing) };
        let gain = body.gain(&bodies);
        let cost = 2.0 * body.made.content.len() as f64;
        let expected = if job.group.is_empty() { EXPECTED_IN_ALL } else { EXPECTED };
        // Later puts are compared with the ratios at their own level.
        let at_level = |content: &[u8]| ppm(bodies.tried(content, level).unwrap_or_default(), bodies.held_out_bytes());
        let before_ppm = at_level(&body.before);
        if !always && gain < LEAST_GAIN * body.ratio_before(&bodies) {
            return Ok(if before == 0 { Outcome::Nothing } else { Outcome::Stands(ratio(before_ppm)) });
        }
        if !always && gain * job.raw_bytes as f64 * expected < cost {
            return Ok(Outcome::Nothing);
        }
        let body_ppm = at_level(&body.made.content);
        let mut meta = meta.filter(|m| m.gain(&metas) > 0.0).map(|m| m.made.content).unwrap_or_default();
        let meta_bytes = if meta.is_empty() { 0 } else { metas.tried(&meta, level).unwrap_or_default() };
        let making = Making {
            created_ms: now_ms(),
            group: job.group.clone(),
            pages: u32::try_from(job.pages).unwrap_or(u32::MAX),
            body_ppm,
            meta_ppm: ppm(meta_bytes, metas.held_out_bytes()),
            level: level as u16,
        };
        let facts = registry.create(&making, &mut body.made.content, &mut meta)?;
        self.name_dictionaries()?;
        self.reading.emit(&Event::DictionaryMade(DictionaryMade {
            id: facts.id,
            group: facts.group.clone(),
            pages: facts.pages,
            body_ratio: facts.body_ratio,
            body_ratio_before: ratio(before_ppm),
            elapsed: start.elapsed(),
        }));
        Ok(Outcome::Made(facts))
    }

    /// The level that pages have in the end, at which dictionaries are judged, except a first one
    /// of few pages, which is wanted soon.
    fn stays_at(&self) -> i32 {
        let level = self.reading.options().compression_level;
        // Without a bound nothing is recompressed in the background.
        let again = self.reading.options().recompression_level.filter(|_| self.reading.options().space_bound.is_some());
        again.map_or(level, |again| level.max(i32::from(again)))
    }

    /// Greatest length of a group's dictionary in bytes.
    fn longest(&self, group: &[u8]) -> usize {
        let bytes = self.reading.options().dictionary_bytes;
        if group.is_empty() { bytes } else { bytes / GROUP_PART - bytes / GROUP_PART / LITTLE_LESS }
    }

    /// Returns true if the digest of one more group's dictionary fits into half of the memory for
    /// digests; the other half is for reads and for other levels.
    fn has_memory(&self) -> bool {
        let one = DIGESTED * self.reading.options().dictionary_bytes / GROUP_PART;
        (self.reading.values().dictionaries.groups() + 1) * one <= self.reading.options().dictionary_memory_bytes / 2
    }

    /// Reads sample pages: bodies and metas. Skips pages that are unreadable or have moved, and
    /// those that are no longer their key's newest version, so that no text of a removed page gets
    /// into a dictionary.
    fn gather(&self, spots: &[(Location, SizeClass)], most_bytes: usize) -> (Samples, Samples) {
        let (mut bodies, mut metas) = (Samples::default(), Samples::default());
        for (location, size) in spots {
            let read = self.reading.values().with_record(*location, *size, Want::Whole, |raw| {
                if !self.is_newest_at(raw.key(), *location)? {
                    return Ok(None);
                }
                let mut body = Vec::new();
                if raw.header.kind == Kind::Page && raw.header.raw_bytes <= LONGEST_SAMPLE {
                    raw.body(&mut body)?;
                }
                Ok(Some((body, raw.meta()?)))
            });
            let Ok(Some((body, meta))) = read else { continue };
            bodies.add(body);
            metas.add(meta);
            if bodies.raw_bytes() >= most_bytes {
                break;
            }
        }
        (bodies, metas)
    }

    /// Returns true if the newest version of a key lies at a place.
    fn is_newest_at(&self, key: &[u8], at: Location) -> Result<bool> {
        let hash = self.reading.hash(key);
        let (in_memory, floor) = self.reading.in_memtables(key, hash);
        match in_memory {
            Some(entry) => Ok(entry.extent.location == at),
            None if floor > 0 => Ok(false),
            None => Ok(self.reading.candidates(hash)?.iter().any(|slot| slot.location == at)),
        }
    }

    /// Makes dictionaries now, from pages sampled over the whole log: see
    /// [`Store::train`](crate::Store::train).
    pub(crate) fn train(&self) -> Result<Vec<DictionaryFacts>> {
        self.reading.check_open()?;
        self.writing.poisoned().check()?;
        if !self.reading.options().makes_dictionaries() {
            let why = "no dictionaries are made while they are off or pages are stored raw".to_owned();
            return Err(Error::option("dictionaries", why));
        }
        let tally = Tally::default();
        let scale = self.reading.sample_log(&mut |met| {
            self.writing.note(&tally, met.key(), &met.header, met.location, met.size);
            Ok(())
        })?;
        let mut made = Vec::new();
        for mut job in tally.all_jobs(self.writing.firsts()) {
            // Only part of the log was read.
            job.raw_bytes = (job.raw_bytes as f64 * scale) as u64;
            job.pages = (job.pages as f64 * scale) as u64;
            step();
            match self.train_group(&job)? {
                Some(facts) => made.push(facts),
                // A handle that was closed meanwhile cannot read samples.
                None => self.reading.check_open()?,
            }
        }
        Ok(made)
    }
}

/// Result of a job.
enum Outcome {
    Made(DictionaryFacts),
    /// As [`Attempt::Stands`].
    Stands(f64),
    Nothing,
}

/// A new dictionary, and the one used before.
struct Trial {
    made: Candidate,
    before: Vec<u8>,
    before_bytes: u64,
}

impl Trial {
    fn ratio_before(&self, samples: &Samples) -> f64 {
        self.before_bytes as f64 / samples.held_out_bytes().max(1) as f64
    }

    /// Bytes saved by the new one, as a share of the uncompressed bytes.
    fn gain(&self, samples: &Samples) -> f64 {
        let saved = self.before_bytes as f64 - self.made.compressed_bytes as f64;
        saved / samples.held_out_bytes().max(1) as f64
    }
}

fn trial(samples: &Samples, bytes: usize, level: i32, registry: &Registry, before: u32, part: Part) -> Option<Trial> {
    let made = samples.dictionary(bytes, level)?;
    let before = if before == 0 { Vec::new() } else { registry.part(before, part).unwrap_or_default() };
    let before_bytes = samples.tried(&before, level)?;
    Some(Trial { made, before, before_bytes })
}

fn ppm(part: u64, whole: u64) -> u32 {
    (part as f64 / whole.max(1) as f64 * 1e6) as u32
}
