//! Surveys a damaged store: finds its segments, whatever their names and headers, and the facts
//! that the superblock still holds. Changes nothing.

use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::sync::Arc;

use filemap_io::{Access, Dir, File};

use crate::error::{Error, Result};
use crate::files::check_versions;
use crate::format::header::{self, FileHeader, Kind};
use crate::format::key_runs::KeyRuns;
use crate::format::superblock::{BYTES, COPIES, Superblock};
use crate::format::{names, seed};
use crate::handle::recover;
use crate::limits::Limits;
use crate::logs::scan::{Item, Scan};
use crate::logs::segments::FIRST_RECORD;
use crate::logs::values::ValueFraming;
use crate::record::now_ms;
use crate::upkeep::repair::found::Found;
use crate::upkeep::repair::known::Known;
use crate::upkeep::repair::{Ignored, Loss};

/// Result of a survey.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) store_id: [u8; 16],
    /// The newest intact copy of the superblock.
    pub(crate) superblock: Option<Superblock>,
    /// True if that is certainly the last one written: only then do its tail and segment table
    /// count.
    pub(crate) is_last: bool,
    /// Segments outside the log's order first, then the log.
    pub(crate) segments: Vec<Found>,
    /// Ids of dictionaries with a file.
    pub(crate) dictionaries: Vec<u32>,
    /// Ids of dictionaries that the last superblock names.
    pub(crate) named_dictionaries: Vec<u32>,
    /// Unused files with a segment's name.
    pub(crate) ignored: Vec<Ignored>,
    /// Missing segments that the last superblock names.
    pub(crate) missing: Vec<Loss>,
    /// Facts that cannot be known.
    pub(crate) unwitnessed: Vec<String>,
    /// Greater than the ordinals of all segments, and with an unused number; without one only if
    /// the log continues in a segment that exists.
    pub(crate) next_ordinal: u64,
    /// The runs of keys in order of the store, as far as known.
    pub(crate) order: Option<KeyRuns>,
    /// Greater than the numbers of all earlier runs of keys in order, as far as files and
    /// superblock tell: a backup may have such files.
    pub(crate) next_run: u64,
}

/// A file with a segment's name.
struct Candidate {
    name: String,
    id: u16,
    bytes: u64,
    file: Arc<dyn File>,
    header: std::result::Result<FileHeader, &'static str>,
}

/// Examines all files of a directory. Unreadable bytes count as damage, or as an error if
/// `is_strict`.
///
/// # Errors
/// `NotAStore` if nothing there belongs to a store; `NewerFormat`; `Full` if a segment is needed
/// and all numbers are in use; `Io`.
pub(crate) fn survey(dir: &dyn Dir, is_strict: bool, limits: &Limits) -> Result<Survey> {
    let mut listed = dir.list().map_err(Error::io("list", dir.path().display()))?;
    listed.sort();
    let mut ignored = Vec::new();
    let mut candidates = Vec::new();
    for name in &listed {
        if let Some(id) = segment_id(name) {
            candidates.extend(candidate(dir, name, id, is_strict, &mut ignored)?);
        }
    }
    let superblocks = superblocks(dir, is_strict)?;
    let not =
        || Error::NotAStore { path: dir.path().to_owned(), why: "none of its files is an intact FileMap file".into() };
    let store_id = owner(dir, &listed, &candidates, &superblocks).ok_or_else(not)?;
    let found = superblocks.into_iter().find(|s| s.0.store_id == store_id);
    let is_whole = found.as_ref().is_some_and(|f| f.1);
    let superblock = found.map(|f| f.0);
    let segments =
        Sorting { store_id, is_strict, ignored: &mut ignored, taken: HashMap::new() }.segments(candidates)?;
    let greatest = segments.iter().map(|s| s.header.ordinal + 1).max().unwrap_or(0);
    let known = Known::look(dir, superblock.as_ref(), is_whole, &segments, limits);
    let is_last = known.is_last();
    let named_dictionaries = known.dictionaries();
    let (missing, told) = (known.missing(&segments), known.next_ordinal());
    let order = known.order().cloned();
    let runs = listed.iter().filter_map(|name| names::parse_key_run(name)).map(|number| number + 1);
    let told_run = order.as_ref().map_or(1, |order| order.next);
    let first_run = superblock.as_ref().map_or(1, |superblock| recover::first_run(superblock.epoch));
    let next_run = runs.chain([told_run, first_run]).max().unwrap_or(1);
    let unwitnessed = known.unwitnessed(&segments);
    let next_ordinal = next_ordinal(greatest.max(told), &segments)?;
    Ok(Survey {
        store_id,
        superblock,
        is_last,
        segments,
        dictionaries: listed.iter().filter_map(|name| names::parse_dictionary(name)).collect(),
        named_dictionaries,
        ignored,
        missing,
        unwitnessed,
        next_ordinal,
        next_run,
        order,
    })
}

/// The first ordinal from `next` on whose number no segment has. `next` itself if there is none
/// and none is needed, since the log has a last segment.
fn next_ordinal(next: u64, segments: &[Found]) -> Result<u64> {
    let taken: HashSet<u16> = segments.iter().map(|s| s.header.ordinal as u16).collect();
    let free = (next..next + (1 << 16)).find(|ordinal| !taken.contains(&(*ordinal as u16)));
    match free {
        Some(ordinal) => Ok(ordinal),
        None if segments.iter().any(|s| !s.header.is_output) => Ok(next),
        None => {
            let why = "all 65,536 segment numbers are in use, and the repair needs one to append to";
            Err(Error::full(&names::segment(next as u16), why))
        }
    }
}

/// Parses a segment's name, including the temporary name of a segment that a repair was renaming.
fn segment_id(name: &str) -> Option<u16> {
    let moved = || names::parse_segment(name.strip_suffix(".moved")?);
    names::parse_segment(name).or_else(moved)
}

/// Returns the bytes read; a failure counts as 0 unless `is_strict`.
fn given(read: std::io::Result<usize>, name: &str, is_strict: bool) -> Result<usize> {
    match read {
        Err(_) if !is_strict => Ok(0),
        read => read.map_err(Error::io("read", name)),
    }
}

fn candidate(
    dir: &dyn Dir,
    name: &str,
    id: u16,
    is_strict: bool,
    ignored: &mut Vec<Ignored>,
) -> Result<Option<Candidate>> {
    let file = match dir.open(name, Access::Read) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) if is_strict && e.kind() != ErrorKind::InvalidInput => return Err(Error::io("open", name)(e)),
        Err(e) => {
            ignored.push(Ignored { file: name.to_owned(), why: format!("it cannot be opened: {e}") });
            return Ok(None);
        }
    };
    let bytes = file.len().map_err(Error::io("measure", name))?;
    let mut b = [0; header::BYTES];
    let n = given(file.read_at(&mut b, 0), name, is_strict)?;
    let header = match FileHeader::decode(&b[..n]) {
        Ok(h) => {
            check_versions(name, h.read_version, h.write_version, Access::Write)?;
            // A power loss may leave another segment's header in a file that was created ahead.
            // That file is not the other segment, cut short.
            if bytes <= FIRST_RECORD && h.ordinal as u16 != id {
                return Ok(None);
            }
            if h.kind == Kind::Values { Ok(h) } else { Err("it is a file of another kind") }
        }
        // A file without a record is not a segment yet; nothing is lost.
        Err(_) if bytes <= FIRST_RECORD => return Ok(None),
        Err(what) => Err(what),
    };
    Ok(Some(Candidate { name: name.to_owned(), id, bytes, file, header }))
}

/// Returns all intact superblock copies, the one that counts first, and whether each is certainly
/// the last.
fn superblocks(dir: &dyn Dir, is_strict: bool) -> Result<Vec<(Superblock, bool)>> {
    let mut all = Vec::new();
    // The third is that of an earlier, interrupted repair; it has the store's facts too.
    for name in [names::SUPERBLOCK, names::OLD_SUPERBLOCK, names::NEW_SUPERBLOCK] {
        let file = match dir.open(name, Access::Read) {
            Err(e) if is_strict && !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) => {
                return Err(Error::io("open", name)(e));
            }
            Err(_) => continue,
            Ok(file) => file,
        };
        let mut whole = Vec::new();
        for offset in COPIES {
            let mut b = [0; BYTES];
            let n = given(file.read_at(&mut b, offset), name, is_strict)?;
            if let Ok(found) = Superblock::decode(&b[..n])
                && COPIES[(found.epoch % 2) as usize] == offset
            {
                check_versions(name, found.read_version, found.write_version, Access::Write)?;
                whole.push(found);
            }
        }
        whole.sort_by_key(|s| std::cmp::Reverse(s.epoch));
        // A damaged copy may have been the later one.
        let is_certain = whole.len() == COPIES.len() && name != names::NEW_SUPERBLOCK;
        all.extend(whole.into_iter().enumerate().map(|(nth, s)| (s, is_certain && nth == 0)));
    }
    Ok(all)
}

/// Returns the store's id: the one in most files; on a tie the superblock's, then the one with
/// more bytes of segments.
fn owner(
    dir: &dyn Dir,
    listed: &[String],
    candidates: &[Candidate],
    superblocks: &[(Superblock, bool)],
) -> Option<[u8; 16]> {
    let mut votes: HashMap<[u8; 16], (u64, bool, u64)> = HashMap::new();
    for (header, bytes) in candidates.iter().filter_map(|c| c.header.ok().map(|h| (h, c.bytes))) {
        let vote = votes.entry(header.store_id).or_default();
        (vote.0, vote.2) = (vote.0 + 1, vote.2 + bytes);
    }
    for header in listed.iter().filter_map(|name| other_header(dir, name)) {
        votes.entry(header.store_id).or_default().0 += 1;
    }
    let mut ids: Vec<[u8; 16]> = superblocks.iter().map(|s| s.0.store_id).collect();
    ids.sort_unstable();
    ids.dedup();
    for id in ids {
        let vote = votes.entry(id).or_default();
        (vote.0, vote.1) = (vote.0 + 1, true);
    }
    votes.into_iter().max_by_key(|(id, vote)| (*vote, *id)).map(|(id, _)| id)
}

/// Reads the header of a key segment, dictionary or index.
fn other_header(dir: &dyn Dir, name: &str) -> Option<FileHeader> {
    let is_ours = name == names::INDEX || names::parse_keys(name).is_some() || names::parse_dictionary(name).is_some();
    let file = is_ours.then(|| dir.open(name, Access::Read).ok()).flatten()?;
    let mut b = [0; header::BYTES];
    let n = file.read_at(&mut b, 0).ok()?;
    FileHeader::decode(&b[..n]).ok()
}

/// Identifies the segment of each file.
struct Sorting<'a> {
    store_id: [u8; 16],
    is_strict: bool,
    ignored: &'a mut Vec<Ignored>,
    /// File name by segment number.
    taken: HashMap<u16, String>,
}

impl Sorting<'_> {
    fn segments(mut self, candidates: Vec<Candidate>) -> Result<Vec<Found>> {
        let greatest = candidates.iter().filter_map(|c| c.header.ok()).map(|h| h.ordinal).max().unwrap_or(0);
        let (mut found, mut rest) = (Vec::new(), Vec::new());
        for candidate in candidates {
            match candidate.header {
                Ok(header) if header.store_id != self.store_id => {
                    self.ignore(&candidate.name, "it belongs to another store");
                }
                Ok(header)
                    if header.ordinal as u16 == candidate.id && names::parse_segment(&candidate.name).is_some() =>
                {
                    self.take(&mut found, candidate, header, false);
                }
                _ => rest.push(candidate),
            }
        }
        // Files under their proper names come first, then misplaced ones, then those that must be
        // guessed.
        rest.sort_by_key(|c| c.header.is_err());
        for candidate in rest {
            let header = match candidate.header {
                Ok(header) => Some(header),
                Err(_) => self.guess(&candidate, greatest)?,
            };
            match (header, candidate.header) {
                (Some(header), was) => self.take(&mut found, candidate, header, was.is_err()),
                (None, Err(what)) => self.ignore(&candidate.name, &format!("{what}, and no record in it is intact")),
                (None, Ok(_)) => {}
            }
        }
        found.sort_by_key(|f| (!f.header.is_output, f.header.ordinal));
        Ok(found)
    }

    fn ignore(&mut self, file: &str, why: &str) {
        self.ignored.push(Ignored { file: file.to_owned(), why: why.to_owned() });
    }

    fn take(&mut self, found: &mut Vec<Found>, candidate: Candidate, header: FileHeader, is_guessed: bool) {
        let id = header.ordinal as u16;
        if let Some(other) = self.taken.get(&id) {
            let why = format!("{other} is the segment of number {id}");
            return self.ignore(&candidate.name, &why);
        }
        self.taken.insert(id, candidate.name.clone());
        found.push(Found { name: candidate.name, bytes: candidate.bytes, header, is_guessed });
    }

    /// Reconstructs the header of a segment: its number is in the file's name, and an intact
    /// record verifies only under the right ordinal. The segment is marked as output, since its
    /// place in the log's order is unknown, with floor 0, since it may hold versions older than
    /// any tombstone.
    fn guess(&self, candidate: &Candidate, greatest: u64) -> Result<Option<FileHeader>> {
        for life in 0..=(greatest >> 16) + 1 {
            let ordinal = u64::from(candidate.id) | life << 16;
            let framing = ValueFraming { seed: seed(&self.store_id, ordinal) };
            let mut scan = Scan::new(&*candidate.file, candidate.name.clone(), framing, FIRST_RECORD, u64::MAX)?;
            let mut is_it = false;
            loop {
                match scan.next() {
                    Ok(Some(Item::Gap { .. })) => {}
                    Ok(Some(_)) => {
                        is_it = true;
                        break;
                    }
                    Err(e) if self.is_strict => return Err(e),
                    // Unreadable bytes prove nothing.
                    Ok(None) | Err(_) => break,
                }
            }
            if is_it {
                let header = FileHeader::new(Kind::Values, self.store_id, ordinal, now_ms());
                return Ok(Some(FileHeader { is_output: true, ..header }));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(ordinal: u64, is_output: bool) -> Found {
        let header = FileHeader { is_output, ..FileHeader::new(Kind::Values, [0; 16], ordinal, 0) };
        Found { name: names::segment(ordinal as u16), bytes: 0, header, is_guessed: is_output }
    }

    /// A repair removes a file that has the name of the segment it creates.
    #[test]
    fn a_repair_never_takes_the_number_of_a_segment() {
        let mut segments: Vec<Found> = (0..1 << 16).map(|ordinal| found(ordinal, true)).collect();
        let refused = next_ordinal(1 << 16, &segments).unwrap_err().to_string();
        assert!(refused.contains("all 65,536 segment numbers are in use"), "{refused}");
        segments[7] = found(7, false);
        assert_eq!(next_ordinal(1 << 16, &segments).unwrap(), 1 << 16, "the log goes on in the segment 7");
        segments.remove(7);
        assert_eq!(next_ordinal(1 << 16, &segments).unwrap(), (1 << 16) + 7);
        assert_eq!(next_ordinal(3, &[]).unwrap(), 3);
    }
}
