//! The index: every leaf, and where its slots lead. Its walk needs nothing of the key log's scan and goes on beside it.

use crate::error::{Error, Result};
use crate::format::PAGE_BYTES;
use crate::format::key::{offset_of, segment_of};
use crate::format::leaf::Slot;
use crate::format::names;
use crate::handle::reading::Reading;
use crate::upkeep::check::crew::Aside;
use crate::upkeep::check::places::Places;
use crate::upkeep::check::{Check, stamp};

/// After so many leaves the caller is told.
const LEAVES: u64 = 256;

/// Files and offsets to which slots lead, but where there is nothing whole.
type Bad = Vec<(String, u64, &'static str)>;

/// What a walk over all leaves has found.
#[derive(Debug, Default)]
pub(super) struct Leaves {
    pages: u64,
    keys: u64,
    bad: Bad,
    /// Pages that are no whole leaves, and why.
    flawed: Vec<(u32, String)>,
}

/// Walks over all leaves, and asks `lead` of each slot for the places that it wrongly leads to. `tell` hears of pages, and may end it.
fn walk(
    reading: &Reading,
    lead: &mut dyn FnMut(&Slot, &mut Bad),
    tell: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Leaves> {
    let (mut keys, mut untold, mut bad, mut flawed) = (0, 0, Bad::new(), Vec::new());
    let mut slots = |slots: &[Slot]| {
        keys += slots.len() as u64;
        slots.iter().for_each(|slot| lead(slot, &mut bad));
        untold += 1;
        if untold < LEAVES { Ok(()) } else { tell(std::mem::take(&mut untold)) }
    };
    let mut follow = || reading.follow_writer();
    let mut flaw = |page, what: &str| flawed.push((page, what.to_owned()));
    let pages = reading.index().check(&mut follow, &mut slots, &mut flaw)?;
    tell(untold)?;
    Ok(Leaves { pages, keys, bad, flawed })
}

/// The walk that looks after the values.
fn walk_to_values(reading: &Reading, places: &Places, tell: &mut dyn FnMut(u64) -> Result<()>) -> Result<Leaves> {
    let mut lead = |slot: &Slot, bad: &mut Bad| {
        if places.were_scanned(slot.location) && !places.has(slot.location) {
            let name = names::segment(slot.location.segment);
            bad.push((name, slot.location.offset(), "the index leads here, but there is no whole record"));
        }
    };
    walk(reading, &mut lead, tell)
}

impl Check<'_, '_> {
    /// Begins the walk beside this thread, if nobody minds how fast it is read.
    pub(super) fn leaves_aside(&mut self) -> Option<Aside<Result<Leaves>>> {
        if self.options.rate.is_some() {
            return None;
        }
        let (reading, places) = (self.reading, self.places.clone());
        Some(self.crew.aside(move |is_unwanted| {
            let mut tell = |_| if is_unwanted() { Err(Error::Interrupted) } else { Ok(()) };
            walk_to_values(reading, &places, &mut tell)
        }))
    }

    /// Takes the walk's findings, or walks now. `heads` are the key log's records to which slots lead, `settled` tells which
    /// index they were counted in.
    pub(super) fn index(
        &mut self,
        aside: Option<Aside<Result<Leaves>>>,
        heads: u64,
        settled: Option<(u64, u64)>,
    ) -> Result<()> {
        self.report.files += 1;
        let leaves = match aside.and_then(|aside| self.crew.result(aside)) {
            Some(leaves) => {
                let leaves = leaves?;
                self.read(names::INDEX, leaves.pages * PAGE_BYTES as u64)?;
                leaves
            }
            None => {
                let (reading, places) = (self.reading, self.places.clone());
                walk_to_values(reading, &places, &mut |pages| self.read(names::INDEX, pages * PAGE_BYTES as u64))?
            }
        };
        let Leaves { pages, keys, mut bad, flawed } = leaves;
        // Where each slot leads to a head of its own, none leads elsewhere.
        if heads != keys {
            let mut lead = |slot: &Slot, bad: &mut Bad| {
                if !self.has_key(slot.key) {
                    let (name, offset) = (names::keys(segment_of(slot.key)), offset_of(slot.key));
                    bad.push((name, offset, "the index leads here, but there is no whole key record"));
                }
            };
            bad.extend(walk(self.reading, &mut lead, &mut |_| Ok(()))?.bad);
        }
        (self.report.index_pages, self.report.indexed_keys) = (pages, keys);
        for (page, what) in flawed {
            self.problem(names::INDEX, u64::from(page) * PAGE_BYTES as u64, what);
        }
        for (name, offset, what) in bad {
            self.problem(name, offset, what);
        }
        let expected = self.reading.latest().index.keys;
        // Counts can be compared only if no checkpoint changed them meanwhile, not even one that is still under way.
        let unchanged = settled.is_some() && stamp(self.reading) == settled;
        if unchanged && self.report.problems.is_empty() && (keys != expected || heads != keys) {
            let what =
                format!("the index has {keys} keys, the superblock says {expected}, the key log has {heads} heads");
            self.problem(names::INDEX, 0, what);
        }
        if unchanged && self.report.problems.is_empty() {
            self.segment_table();
        }
        Ok(())
    }
}
