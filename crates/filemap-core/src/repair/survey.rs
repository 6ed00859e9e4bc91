//! What of a store is there: which files are its segments, whatever they are called and whatever has become of their headers; and
//! what the superblock can still tell. Changes nothing.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::Arc;

use filemap_io::{Access, Dir, File};

use crate::error::{Error, Result};
use crate::files::check_versions;
use crate::format::header::{self, FileHeader, Kind};
use crate::format::location::UNIT_BYTES;
use crate::format::superblock::{BYTES, COPIES, Superblock};
use crate::format::{names, seed};
use crate::index::{Owner, load};
use crate::limits::Limits;
use crate::log::scan::{Item, Scan};
use crate::record::now_ms;
use crate::recover;
use crate::repair::{Ignored, Loss};
use crate::segments::FIRST_RECORD;
use crate::values::ValueFraming;

/// A segment that was found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The file's name, which may not be the segment's.
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) header: FileHeader,
    /// Whether the header was damaged. Of what it said only the ordinal is known: a record's checksum tells.
    pub(crate) is_guessed: bool,
}

impl Found {
    /// The name that the segment should have.
    pub(crate) fn proper_name(&self) -> String {
        names::segment(self.header.ordinal as u16)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) store_id: [u8; 16],
    /// The newest whole copy of the superblock.
    pub(crate) superblock: Option<Superblock>,
    /// Whether it is certainly the last that was written: its log's tail and its segment table count.
    pub(crate) is_last: bool,
    /// Those that are not in the log's order first, then the log.
    pub(crate) segments: Vec<Found>,
    /// Ids of the dictionaries of which there are files.
    pub(crate) dictionaries: Vec<u32>,
    /// Files that bear a segment's name and are none of the store's.
    pub(crate) ignored: Vec<Ignored>,
    /// Segments that the last segment table names and that are not there.
    pub(crate) missing: Vec<Loss>,
    /// No segment had this ordinal or a greater one, and its number is free.
    pub(crate) next_ordinal: u64,
}

/// A file with a segment's name.
struct Candidate {
    name: String,
    id: u16,
    bytes: u64,
    file: Arc<dyn File>,
    header: std::result::Result<FileHeader, &'static str>,
}

/// Looks at all files of a directory. What the device does not give is damage, or an error if `is_strict`.
///
/// # Errors
/// `NotAStore` when nothing there is a store's; `NewerFormat`; `Io`.
pub(crate) fn survey(dir: &dyn Dir, is_strict: bool, limits: &Limits) -> Result<Survey> {
    let mut listed = dir.list().map_err(|e| Error::io("list", dir.path().display().to_string(), e))?;
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
        || Error::NotAStore { path: dir.path().to_owned(), why: "no file in it is a whole one of FileMap".into() };
    let store_id = owner(&candidates, &superblocks).or_else(|| other_owner(dir, &listed)).ok_or_else(not)?;
    let found = superblocks.into_iter().find(|s| s.0.store_id == store_id);
    let is_last = found.as_ref().is_some_and(|f| f.1);
    let superblock = found.map(|f| f.0);
    let segments =
        Sorting { store_id, is_strict, ignored: &mut ignored, taken: HashMap::new() }.segments(candidates)?;
    let greatest = segments.iter().map(|s| s.header.ordinal + 1).max().unwrap_or(0);
    let (missing, told) = missing(dir, superblock.as_ref().filter(|_| is_last), &segments, limits);
    let is_free = |ordinal: &u64| segments.iter().all(|s| s.header.ordinal as u16 != *ordinal as u16);
    let next = greatest.max(told);
    let next_ordinal = (next..next + (1 << 16)).find(is_free).unwrap_or(next);
    Ok(Survey {
        store_id,
        superblock,
        is_last,
        segments,
        dictionaries: listed.iter().filter_map(|name| names::parse_dictionary(name)).collect(),
        ignored,
        missing,
        next_ordinal,
    })
}

/// The number in the name of a segment, be it one that a repair was about to rename.
fn segment_id(name: &str) -> Option<u16> {
    let moved = || names::parse_segment(name.strip_suffix(".moved")?);
    names::parse_segment(name).or_else(moved)
}

/// What was read, or nothing where that failed and is not to be an error.
fn given(read: std::io::Result<usize>, name: &str, is_strict: bool) -> Result<usize> {
    match read {
        Err(_) if !is_strict => Ok(0),
        read => read.map_err(|e| Error::io("read", name, e)),
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
        Err(e) if is_strict && e.kind() != ErrorKind::InvalidInput => return Err(Error::io("open", name, e)),
        Err(e) => {
            ignored.push(Ignored { file: name.to_owned(), why: format!("it cannot be opened: {e}") });
            return Ok(None);
        }
    };
    let bytes = file.len().map_err(|e| Error::io("measure", name, e))?;
    let mut b = [0; header::BYTES];
    let n = given(file.read_at(&mut b, 0), name, is_strict)?;
    let header = match FileHeader::decode(&b[..n]) {
        Ok(h) => {
            check_versions(name, h.read_version, h.write_version, Access::Write)?;
            if h.kind == Kind::Values { Ok(h) } else { Err("it is a file of another kind") }
        }
        // Without a record it is none yet, and nothing is lost.
        Err(_) if bytes <= FIRST_RECORD => return Ok(None),
        Err(what) => Err(what),
    };
    Ok(Some(Candidate { name: name.to_owned(), id, bytes, file, header }))
}

/// All whole copies of superblocks, the one that counts first, and whether each is certainly the last.
fn superblocks(dir: &dyn Dir, is_strict: bool) -> Result<Vec<(Superblock, bool)>> {
    let mut all = Vec::new();
    // The last is that of an earlier repair which was cut short. It has the facts of the store, too.
    for name in [names::SUPERBLOCK, names::OLD_SUPERBLOCK, names::NEW_SUPERBLOCK] {
        let file = match dir.open(name, Access::Read) {
            Err(e) if is_strict && !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) => {
                return Err(Error::io("open", name, e));
            }
            Err(_) => continue,
            Ok(file) => file,
        };
        let mut whole = Vec::new();
        for offset in COPIES {
            let mut b = [0; BYTES];
            let n = given(file.read_at(&mut b, offset), name, is_strict)?;
            if let Ok(found) = Superblock::decode(&b[..n]) {
                check_versions(name, found.read_version, found.write_version, Access::Write)?;
                whole.push(found);
            }
        }
        whole.sort_by_key(|s| std::cmp::Reverse(s.epoch));
        // A copy that is not whole may have been the later one.
        let is_certain = whole.len() == COPIES.len() && name != names::NEW_SUPERBLOCK;
        all.extend(whole.into_iter().enumerate().map(|(nth, s)| (s, is_certain && nth == 0)));
    }
    Ok(all)
}

/// Whose the segments are: the superblock's store if any of them is, else the one that most of their bytes belong to.
fn owner(candidates: &[Candidate], superblocks: &[(Superblock, bool)]) -> Option<[u8; 16]> {
    let whole = || candidates.iter().filter_map(|c| c.header.ok().map(|h| (h.store_id, c.bytes)));
    let is_used = |id: &[u8; 16]| whole().any(|w| w.0 == *id) || whole().next().is_none();
    if let Some(found) = superblocks.iter().map(|s| s.0.store_id).find(is_used) {
        return Some(found);
    }
    let mut bytes: HashMap<[u8; 16], u64> = HashMap::new();
    whole().for_each(|(id, n)| *bytes.entry(id).or_default() += n);
    bytes.into_iter().max_by_key(|(id, n)| (*n, *id)).map(|(id, _)| id)
}

/// Whose the other files are, for when no segment has a whole header.
fn other_owner(dir: &dyn Dir, listed: &[String]) -> Option<[u8; 16]> {
    let header = |name: &String| {
        let file = dir.open(name, Access::Read).ok()?;
        let mut b = [0; header::BYTES];
        let n = file.read_at(&mut b, 0).ok()?;
        FileHeader::decode(&b[..n]).ok().map(|h| h.store_id)
    };
    let is_ours = |name: &&String| *name == names::INDEX || (name.starts_with("key") && name.ends_with(".dat"));
    listed.iter().filter(is_ours).find_map(header)
}

/// Finds out which segment each file is.
struct Sorting<'a> {
    store_id: [u8; 16],
    is_strict: bool,
    ignored: &'a mut Vec<Ignored>,
    /// By number: whose it is.
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
        // Those that are in their places come first, then those that have only strayed, then those that must be guessed.
        rest.sort_by_key(|c| c.header.is_err());
        for candidate in rest {
            let header = match candidate.header {
                Ok(header) => Some(header),
                Err(_) => self.guess(&candidate, greatest)?,
            };
            match (header, candidate.header) {
                (Some(header), was) => self.take(&mut found, candidate, header, was.is_err()),
                (None, Err(what)) => self.ignore(&candidate.name, &format!("{what}, and no record in it is whole")),
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

    /// A header for a segment that has none any more: its number is in its name, and a whole record fits only the right ordinal.
    /// It is taken out of the log's order, in which nobody can tell its place, and may hold versions from before any removal.
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
                    // What cannot be read proves nothing.
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

/// What the last checkpoint knew of and is not there, segments and ends of segments, and the ordinal after its last segment; of that what the
/// superblock alone tells when the table of segments cannot be read.
fn missing(dir: &dyn Dir, superblock: Option<&Superblock>, found: &[Found], limits: &Limits) -> (Vec<Loss>, u64) {
    let Some(superblock) = superblock else { return (Vec::new(), 0) };
    let table = || {
        let file = recover::open_index(dir, Access::Read, superblock)?;
        let seed = recover::index_seed(superblock);
        let loaded = load(file, seed, Owner::Other, superblock.index, superblock.epoch, limits)?;
        recover::accounts(&loaded, superblock.index)
    };
    let accounts = table().unwrap_or_default();
    let is_there = |ordinal: u64| found.iter().any(|f| f.header.ordinal == ordinal);
    let all = || accounts.values.values();
    let cut = found.iter().filter_map(|f| {
        let account = all().find(|a| a.ordinal == f.header.ordinal);
        let used = account.map_or(0, |a| FIRST_RECORD + (a.live_units + a.tombstone_units) * UNIT_BYTES);
        let known = if superblock.tail.ordinal == f.header.ordinal { superblock.tail.offset } else { 0 };
        let bytes = used.max(known).checked_sub(f.bytes).filter(|bytes| *bytes > 0)?;
        let what = "the segment ends here and was longer, at least by this".into();
        Some(Loss { file: f.name.clone(), offset: f.bytes, bytes, key: None, version: None, what })
    });
    // Removals alone keep no segment: one that is gone may have been compacted since.
    let gone = all().filter(|a| a.live_units > 0 && !is_there(a.ordinal));
    let losses = gone.map(|a| Loss {
        file: names::segment(a.ordinal as u16),
        offset: 0,
        bytes: (a.live_units + a.tombstone_units) * UNIT_BYTES,
        key: None,
        version: None,
        what: match a.tombstone_units {
            0 => "the segment is missing".into(),
            _ => "the segment is missing, and what was removed in it may show again".into(),
        },
    });
    (losses.chain(cut).collect(), all().map(|a| a.ordinal + 1).max().unwrap_or(0))
}
