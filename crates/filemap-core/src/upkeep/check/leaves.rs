//! Verification of the index: every leaf, and the targets of its slots. The walk does not depend
//! on the scan of the key log, so it runs in parallel.

use crate::error::{Error, Result};
use crate::format::PAGE_BYTES;
use crate::format::key::{offset_of, segment_of};
use crate::format::leaf::Slot;
use crate::format::names;
use crate::handle::reading::Reading;
use crate::upkeep::check::crew::Aside;
use crate::upkeep::check::places::Places;
use crate::upkeep::check::{Check, stamp};

/// Leaves between two progress reports.
const LEAVES: u64 = 256;

/// File, offset and flaw of each wrong target of a slot.
type Bad = Vec<(String, u64, &'static str)>;

/// Findings of a walk over all leaves.
#[derive(Debug, Default)]
pub(super) struct Leaves {
    pages: u64,
    keys: u64,
    bad: Bad,
    /// Pages that are not intact leaves, and why.
    flawed: Vec<(u32, String)>,
}

/// Walks over all leaves. `lead` adds the wrong targets of a slot. `tell` gets the number of pages
/// read and may end the walk.
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

/// The walk that checks the targets of slots in the value log.
fn walk_to_values(reading: &Reading, places: &Places, tell: &mut dyn FnMut(u64) -> Result<()>) -> Result<Leaves> {
    let mut lead = |slot: &Slot, bad: &mut Bad| {
        if places.were_scanned(slot.location) && !places.has(slot.location) {
            let name = names::segment(slot.location.segment);
            bad.push((name, slot.location.offset(), "the index leads here, but there is no intact record"));
        }
    };
    walk(reading, &mut lead, tell)
}

impl Check<'_, '_> {
    /// Sets the walk aside for a helper thread, unless the read rate is limited.
    pub(super) fn leaves_aside(&mut self) -> Option<Aside<Result<Leaves>>> {
        if self.options.rate.is_some() {
            return None;
        }
        let (reading, places) = (self.reading, self.places.clone());
        Some(self.crew.aside(move |is_unwanted| {
            let mut tell = |_| if is_unwanted() { Err(Error::Cancelled) } else { Ok(()) };
            walk_to_values(reading, &places, &mut tell)
        }))
    }

    /// Reports the findings of the walk, which runs now if it was not set aside. `heads` is the
    /// number of key records to which slots lead; `settled` identifies the index in which they
    /// were counted.
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
        // If each slot leads to a different head, none leads elsewhere.
        if heads != keys {
            let mut lead = |slot: &Slot, bad: &mut Bad| {
                if !self.has_key(slot.key) {
                    let (name, offset) = (names::keys(segment_of(slot.key)), offset_of(slot.key));
                    bad.push((name, offset, "the index leads here, but there is no intact key record"));
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
        let latest = self.reading.latest().index;
        let expected = latest.keys;
        // The counts are comparable only if no checkpoint, not even a running one, changed the
        // index.
        let unchanged = settled.is_some() && stamp(self.reading) == settled;
        if unchanged && self.report.problems.is_empty() && (keys != expected || heads != keys) {
            let what =
                format!("the index has {keys} keys, the superblock says {expected}, the key log has {heads} heads");
            self.problem(names::INDEX, 0, what);
        }
        if unchanged
            && self.report.problems.is_empty()
            && let Some((counted, expected)) = self.counted.zip(latest.counted)
            && counted != expected
        {
            let what = format!("the index has {counted} counted keys, the superblock says {expected}");
            self.problem(names::SUPERBLOCK, 0, what);
        }
        if unchanged && self.report.problems.is_empty() {
            self.segment_table();
        }
        if unchanged && self.report.problems.is_empty() {
            self.compare_order(keys, true);
        }
        Ok(())
    }
}
