//! Verification of the value log, segment by segment. The findings of each are independent, so a
//! stopped pass can resume with the next segment.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::location::{Extent, Location, UNIT_BYTES};
use crate::format::superblock::Tail;
use crate::format::value::{self, Kind};
use crate::logs::scan::Item;
use crate::logs::segments::{FIRST_RECORD, Segment};
use crate::upkeep::check::crew::Filling;
use crate::upkeep::check::expand::Flaw;
use crate::upkeep::check::starts::Starts;
use crate::upkeep::check::whose::{self, Whose};
use crate::upkeep::check::{Check, not_read};

/// A list of chunks: its unit, and the chunks listed.
pub(super) type List = (u32, Vec<Extent>);

/// Findings of one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    pub(super) id: u16,
    pub(super) ordinal: u64,
    /// End of the part that was read.
    pub(super) end: u64,
    pub(super) records: u64,
    /// Units at which intact records start, ascending; and those of them that are chunks.
    pub(super) starts: Vec<u32>,
    pub(super) chunks: Vec<u32>,
    pub(super) lists: Vec<List>,
    /// Units of tombstones that the segment table counts.
    pub(super) tombstone_units: u64,
}

/// Result of reading one segment.
#[derive(Debug, Default)]
struct Scanned {
    findings: Findings,
    /// Offset of each flaw, number of bytes there that belong to no intact record, and
    /// description.
    problems: Vec<(u64, u64, String)>,
    whose: Whose,
    /// By id of an unreadable dictionary.
    unread: BTreeMap<u32, Unread>,
}

/// Records that need an unreadable dictionary.
#[derive(Debug)]
pub(super) struct Unread {
    pub(super) records: u64,
    pub(super) keys: BTreeSet<Vec<u8>>,
    /// Further keys were not kept.
    pub(super) is_cut: bool,
    pub(super) error: Error,
}

/// Adds records that need the dictionary `id`, and as many of their keys as fit.
fn add_unread(all: &mut BTreeMap<u32, Unread>, id: u32, more: Unread) {
    let named: usize = all.values().map(|unread| unread.keys.len()).sum();
    let room = whose::NAMED_MAX.saturating_sub(named);
    let unread = all.entry(id).or_insert_with(|| Unread {
        records: 0,
        keys: BTreeSet::new(),
        is_cut: false,
        error: more.error.clone(),
    });
    unread.records += more.records;
    unread.is_cut |= more.is_cut || more.keys.len() > room;
    unread.keys.extend(more.keys.into_iter().take(room));
}

impl Scanned {
    /// Adds the flaws found while decompressing the records.
    fn judge(&mut self, flaws: Vec<(u64, Flaw)>) {
        let mut bad = HashSet::new();
        for (offset, flaw) in flaws {
            match flaw {
                Flaw::Record(what) => {
                    bad.insert((offset / UNIT_BYTES) as u32);
                    self.problems.push((offset, 0, what.to_owned()));
                }
                Flaw::Dictionary(id, key, error) => {
                    let one = Unread { records: 1, keys: BTreeSet::from([key]), is_cut: false, error };
                    add_unread(&mut self.unread, id, one);
                }
            }
        }
        if !bad.is_empty() {
            let findings = &mut self.findings;
            findings.starts.retain(|unit| !bad.contains(unit));
            findings.chunks.retain(|unit| !bad.contains(unit));
            findings.lists.retain(|list| !bad.contains(&list.0));
            self.problems.sort();
        }
    }
}

impl Check<'_, '_> {
    /// Scans every segment up to the end of the log.
    pub(super) fn values(&mut self) -> Result<()> {
        let end = self.places.end;
        let segment_table = Arc::clone(&self.reading.segment_table());
        let counts = |s: &Segment| match s.is_output {
            true => segment_table.names(s.id, s.ordinal),
            false => s.ordinal <= end.ordinal,
        };
        for segment in self.reading.values().segments.all().iter().filter(|s| counts(s)) {
            // Segments below the checkpoint's tail no longer change.
            let is_settled = segment.is_output || segment.ordinal < self.tail.ordinal;
            let known = self.known.remove(&segment.ordinal).filter(|f| is_settled && f.id == segment.id);
            let known =
                known.filter(|f| self.reading.values().segments.sealed_bytes(segment).is_ok_and(|len| len == f.end));
            self.report.files += 1;
            if let Some(known) = known {
                self.report.resumed_bytes += known.end;
                self.read(&segment.name(), known.end)?;
                self.adopt(segment, known);
                continue;
            }
            let Some(scanned) = self.segment(segment)? else { continue };
            let is_whole = scanned.problems.is_empty() && scanned.unread.is_empty();
            if is_settled && is_whole {
                self.done(&scanned.findings);
            }
            self.tell(segment, scanned);
        }
        Ok(())
    }

    /// Records that a segment need not be read again.
    fn done(&mut self, findings: &Findings) {
        let dir = self.reading.dir();
        if let Some(position) = &mut self.position
            && let Err(e) = position.add(dir, findings)
        {
            self.reading.counters().failed(&e);
            self.position = None;
        }
    }

    /// Adds the result of one segment to the report.
    fn tell(&mut self, segment: &Segment, scanned: Scanned) {
        let file = segment.name();
        for (offset, bytes, what) in scanned.problems {
            self.problem_of(file.clone(), offset, bytes, what);
        }
        self.whose.extend(scanned.whose);
        for (id, unread) in scanned.unread {
            add_unread(&mut self.unread, id, unread);
        }
        self.adopt(segment, scanned.findings);
    }

    fn adopt(&mut self, segment: &Segment, findings: Findings) {
        self.report.value_records += findings.records;
        if findings.tombstone_units > 0 {
            self.found.add_tombstones(segment.id, Some(segment.ordinal), findings.tombstone_units);
        }
        let place = |unit: u32| Location { segment: segment.id, unit };
        self.lists.extend(findings.lists.into_iter().map(|(unit, list)| (place(unit), list)));
        self.places.add(segment.id, Starts::of(&findings.starts));
        self.chunks.insert(segment.id, Starts::of(&findings.chunks));
    }

    /// Reads one segment; `None` if compaction has removed it since.
    fn segment(&mut self, segment: &Arc<Segment>) -> Result<Option<Scanned>> {
        let name = segment.name();
        let mut scanned = Scanned::default();
        let findings = &mut scanned.findings;
        (findings.id, findings.ordinal) = (segment.id, segment.ordinal);
        let file = match self.reading.values().segments.file(segment) {
            Ok(file) => file,
            Err(e) => {
                not_read(&e)?;
                // Its live records are checked at their new places, if those count.
                self.reading.catch_up()?;
                if self.reading.values().segments.get(segment.id).is_ok_and(|s| s.ordinal == segment.ordinal) {
                    self.problem(name, 0, e.to_string());
                }
                return Ok(None);
            }
        };
        let is_last = !segment.is_output && segment.ordinal == self.places.end.ordinal;
        let to = if is_last { self.places.end.offset } else { u64::MAX };
        let mut scan = self.reading.values().scan(segment, &*file, FIRST_RECORD, to)?.once();
        let (mut filling, mut told) = (Filling::default(), 0);
        while let Some(item) = scan.next()? {
            match item {
                Item::Filler { .. } => {}
                Item::Gap { offset, bytes, what } => {
                    let what = format!("{bytes} bytes belong to no intact record: {what}");
                    scanned.problems.push((offset, bytes, what));
                    scanned.whose.extend(whose::of_gap(segment, &*file, offset, bytes)?);
                }
                Item::Record { offset, bytes } => {
                    self.record(segment, offset, bytes, &mut scanned.findings);
                    self.crew.add(&mut filling, offset, bytes);
                }
            }
            let at = scan.offset();
            if at - told >= self.piece_bytes() {
                self.read_but(&name, at - std::mem::replace(&mut told, at), scanned.problems.len())?;
            }
        }
        scanned.findings.end = scan.offset().max(FIRST_RECORD);
        scanned.judge(self.crew.finish(&mut filling));
        self.read_but(&name, scanned.findings.end.saturating_sub(told), scanned.problems.len())?;
        Ok(Some(scanned))
    }

    /// Notes the kind of a record. Meanwhile the crew checks that it can be decompressed.
    fn record(&self, segment: &Segment, offset: u64, bytes: &[u8], findings: &mut Findings) {
        findings.records += 1;
        let Ok(header) = value::peek(bytes) else { return };
        let unit = (offset / UNIT_BYTES) as u32;
        match header.kind {
            Kind::Chunk => findings.chunks.push(unit),
            Kind::Chunked => {
                let payload = &bytes[header.payload_at()..][..header.payload_bytes as usize];
                let list = value::decode_chunks(payload, header.raw_bytes).unwrap_or_default();
                let extent = |c: &value::ChunkEntry| Extent { location: c.location, units: c.units };
                findings.lists.push((unit, list.iter().map(extent).collect()));
            }
            Kind::Tombstone if segment.is_output || (Tail { ordinal: segment.ordinal, offset }) < self.tail => {
                findings.tombstone_units += bytes.len() as u64 / UNIT_BYTES;
            }
            _ => {}
        }
        findings.starts.push(unit);
    }
}
