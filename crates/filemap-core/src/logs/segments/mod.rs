//! The segment files of one log, of values or keys: which exist, and which are open. Readers find
//! a segment without a lock. Few files are kept open, however many exist.
//!
//! Invariants:
//! - a segment's number is the low 16 bits of its ordinal. Numbers may be reused once the file is
//!   removed; ordinals never are;
//! - a new segment is durable, in name and header, before anything is appended to it;
//! - a new segment of the value log is then listed in SUPERBLOCK as begun, and removed from that
//!   list before its file is removed unused.

mod begun;
mod family;
mod known;
mod make;
mod sizes;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use filemap_io::{Access, Advice, Dir, File, files};

use crate::error::{Error, Result, StorageError};
use crate::files::check_header;
use crate::format::header::{self, FileHeader};
use crate::format::names;
use crate::logs::scan::{Framing, Scan};
use crate::sync::{Ranked, lock, rank};
use known::Known;
use make::Making;

pub(crate) use begun::Begun;
pub(crate) use family::{Bounds, Family};

/// A segment and its file, which stays open independently of other reads.
pub(crate) type OpenSegment = (Arc<Segment>, Arc<dyn File>);

/// Offset of a segment's first record.
pub(crate) const FIRST_RECORD: u64 = header::BYTES as u64;

/// One segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) id: u16,
    /// Position in the order of the log; the low 16 bits are the number.
    pub(crate) ordinal: u64,
    pub(crate) seed: u32,
    /// No record in the segment is an earlier version of a tombstone with a lower sequence.
    pub(crate) floor: u64,
    /// True if compaction wrote it: then it is not part of the log's order, and counts only once a
    /// superblock names it.
    pub(crate) is_output: bool,
    /// Level at which compaction recompressed the pages; 0 if they are stored as put.
    pub(crate) level: u8,
    /// Creation time, in ms since 1970.
    pub(crate) created_ms: i64,
    family: &'static Family,
    file: ArcSwapOption<Arc<dyn File>>,
    used: AtomicU64,
    /// Length of the file when the segment was found.
    pub(crate) met_bytes: u64,
    /// Final length of the file; 0 until measured.
    sealed_bytes: AtomicU64,
}

impl Segment {
    fn new(family: &'static Family, header: &FileHeader, file: Option<Arc<dyn File>>, met_bytes: u64) -> Arc<Segment> {
        Arc::new(Segment {
            id: header.ordinal as u16,
            ordinal: header.ordinal,
            seed: (family.seed)(&header.store_id, header.ordinal),
            family,
            floor: header.floor,
            is_output: header.is_output,
            level: header.level,
            created_ms: header.created_ms,
            file: ArcSwapOption::from_pointee(file),
            used: AtomicU64::new(0),
            met_bytes,
            sealed_bytes: AtomicU64::new(0),
        })
    }

    /// Sets the final length: nothing more is appended.
    pub(crate) fn seal(&self, bytes: u64) {
        self.sealed_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn name(&self) -> String {
        (self.family.name)(self.id)
    }

    /// Damage at an offset of this segment.
    pub(crate) fn corrupt(&self, offset: u64, what: &str) -> Error {
        Error::corrupt(self.name(), offset, what)
    }
}

/// All segments of one log of a store.
#[derive(Debug)]
pub(crate) struct Segments {
    family: &'static Family,
    dir: Arc<dyn Dir>,
    store_id: [u8; 16],
    access: Access,
    known: ArcSwap<Known>,
    bounds: Bounds,
    clock: AtomicU64,
    /// Segments whose files are open for reading. Files are opened and closed under this lock.
    opened: Ranked<{ rank::OPENED }, Vec<Arc<Segment>>>,
    making: Ranked<{ rank::SEGMENTS }, Making>,
    has_spare: AtomicBool,
    /// Segments removed, or about to be removed, from the list, whose files may still exist.
    leaving: Ranked<{ rank::LEAVING }, Vec<Arc<Segment>>>,
    /// Raised whenever segments leave the list or are found: a read that sees it change starts
    /// over.
    changes: AtomicU64,
    /// Files with a segment's name that are not usable segments, by number: length and flaw.
    unusable: Ranked<{ rank::UNUSABLE }, BTreeMap<u16, (u64, String)>>,
}

impl Segments {
    /// Finds the segments of a directory by their headers. Files with a missing or damaged header
    /// are left to [`Segments::unusable`].
    ///
    /// # Errors
    /// `Io`; `NewerFormat`.
    pub(crate) fn open(
        family: &'static Family,
        dir: Arc<dyn Dir>,
        store_id: [u8; 16],
        access: Access,
        bounds: Bounds,
    ) -> Result<Segments> {
        let this = Segments {
            family,
            dir,
            store_id,
            access,
            known: ArcSwap::default(),
            bounds,
            clock: AtomicU64::new(1),
            opened: Ranked::default(),
            making: Ranked::new(Making::default()),
            has_spare: AtomicBool::new(false),
            leaving: Ranked::default(),
            changes: AtomicU64::new(0),
            unusable: Ranked::default(),
        };
        this.look_anew()?;
        Ok(this)
    }

    /// Finds segments that another process has added or removed. `settled` segments whose file
    /// name still exists are not read again; the names of others may belong to new ones.
    pub(crate) fn rescan(&self, settled: impl Fn(&Segment) -> bool) -> Result<()> {
        let known = self.known.load_full();
        let settled: Vec<_> = known.list.iter().filter(|s| settled(s)).map(Arc::clone).collect();
        self.look(&settled)
    }

    /// Reads the headers of all segment files again.
    pub(crate) fn look_anew(&self) -> Result<()> {
        self.look(&[])
    }

    /// Drops segments whose files are removed, or about to be, from the list.
    pub(crate) fn forget(&self, is_gone: impl Fn(&Segment) -> bool) {
        let making = lock(&self.making);
        let kept = self.all().iter().filter(|s| !is_gone(s)).map(Arc::clone).collect();
        self.replace(kept);
        drop(making);
    }

    /// Replaces the list, and closes the files of segments that left it.
    fn replace(&self, list: Vec<Arc<Segment>>) {
        let new = Arc::new(Known::new(list));
        let old = self.known.load_full();
        let lacks = |known: &Known, s: &Segment| known.get(s.id).is_none_or(|n| n.ordinal != s.ordinal);
        if old.list.iter().any(|s| lacks(&new, s)) {
            // Before they leave the list: a reader that misses one must see that it was removed.
            self.changes.fetch_add(1, Ordering::AcqRel);
        }
        self.known.store(Arc::clone(&new));
        let is_changed = old.list.iter().any(|s| lacks(&new, s)) || new.list.iter().any(|s| lacks(&old, s));
        if is_changed {
            // And after: a reader that took the old list, or missed a new segment, must see the
            // change.
            self.changes.fetch_add(1, Ordering::AcqRel);
        }
        let mut opened = lock(&self.opened);
        for segment in old.list.iter() {
            if !new.get(segment.id).is_some_and(|n| Arc::ptr_eq(n, segment)) {
                segment.file.store(None);
            }
        }
        opened.retain(|s| s.file.load().is_some());
    }

    /// Counts changes of the list: segments that left, or were found as another process's. If the
    /// count has changed since a place was found, a read there proves nothing.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    fn look(&self, known: &[Arc<Segment>]) -> Result<()> {
        let known: HashMap<u16, &Arc<Segment>> = known.iter().map(|s| (s.id, s)).collect();
        let (mut list, mut unusable) = (Vec::new(), BTreeMap::new());
        let names = self.dir.list().map_err(Error::io("list", self.dir.path().display()))?;
        let ids: Vec<u16> = names.iter().filter_map(|n| (self.family.parse)(n)).collect();
        let unread = ids.iter().filter(|id| !known.contains_key(*id));
        self.dir.will_open(&unread.map(|id| (self.family.name)(*id)).collect::<Vec<_>>());
        for id in ids {
            if let Some(segment) = known.get(&id) {
                list.push(Arc::clone(segment));
                continue;
            }
            let name = (self.family.name)(id);
            let file = match self.dir.open(&name, Access::Read) {
                // A recovering writer may remove a segment without records.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                opened => opened.map_err(Error::io("open", &name))?,
            };
            let len = file.len().map_err(Error::io("measure", &name))?;
            let header = check_header(&*file, &name, self.family.kind, &self.store_id, self.access).and_then(|h| {
                let what = "its header is that of another segment";
                if h.ordinal as u16 == id { Ok(h) } else { Err(Error::corrupt(&name, 0, what)) }
            });
            match header {
                Ok(header) => list.push(Segment::new(self.family, &header, None, len)),
                Err(Error::Storage(StorageError::Corrupt { what, .. })) => {
                    unusable.insert(id, (len, what));
                }
                Err(e) => return Err(e),
            }
        }
        *lock(&self.unusable) = unusable;
        self.replace(list);
        Ok(())
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.access == Access::Write
    }

    /// Length and flaw of an unusable file with a segment's name, if it exists.
    pub(crate) fn unusable(&self, id: u16) -> Option<(u64, String)> {
        lock(&self.unusable).get(&id).cloned()
    }

    /// Numbers of files with content that are not segments: their content is lost.
    pub(crate) fn strangers(&self) -> Vec<u16> {
        // An interrupted creation may leave the length on disk without the header.
        lock(&self.unusable).iter().filter(|(_, (len, _))| *len > FIRST_RECORD).map(|(id, _)| *id).collect()
    }

    /// All segments, in order of ordinal.
    pub(crate) fn all(&self) -> Arc<Vec<Arc<Segment>>> {
        Arc::clone(&self.known.load().list)
    }

    /// The segments of the log proper, without outputs of compaction, in order.
    pub(crate) fn log(&self) -> Vec<Arc<Segment>> {
        self.known.load().list.iter().filter(|s| !s.is_output).map(Arc::clone).collect()
    }

    /// Returns the segment with a number.
    ///
    /// # Errors
    /// `Corrupt` if it does not exist.
    pub(crate) fn get(&self, id: u16) -> Result<Arc<Segment>> {
        let found = self.known.load().get(id).map(Arc::clone);
        found.ok_or_else(|| {
            let why = self.unusable(id).map(|(_, what)| format!("the segment is missing: {what}"));
            Error::corrupt((self.family.name)(id), 0, why.unwrap_or_else(|| "the segment is missing".into()))
        })
    }

    /// Returns the file of a segment, opened if necessary. Closes the least recently used files.
    pub(crate) fn file(&self, segment: &Arc<Segment>) -> Result<Arc<dyn File>> {
        segment.used.store(self.clock.load(Ordering::Relaxed), Ordering::Relaxed);
        if let Some(file) = &*segment.file.load() {
            return Ok(Arc::clone(file));
        }
        let mut opened = lock(&self.opened);
        if let Some(file) = &*segment.file.load() {
            return Ok(Arc::clone(file));
        }
        let file = self.open_file(segment, Access::Read)?;
        segment.file.store(Some(Arc::new(Arc::clone(&file))));
        self.clock.fetch_add(1, Ordering::Relaxed);
        self.keep_open(&mut opened, segment);
        Ok(file)
    }

    /// Opens the file of a segment again, for appending or repair.
    pub(crate) fn writable(&self, segment: &Segment) -> Result<Arc<dyn File>> {
        self.open_file(segment, Access::Write)
    }

    /// Opens the file of a segment again, for reading.
    ///
    /// # Errors
    /// `Corrupt` if it is missing or now belongs to another segment.
    pub(crate) fn open_anew(&self, segment: &Segment) -> Result<Arc<dyn File>> {
        self.open_file(segment, Access::Read)
    }

    fn open_file(&self, segment: &Segment, access: Access) -> Result<Arc<dyn File>> {
        let name = segment.name();
        let file = self.dir.open(&name, access).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => Error::corrupt(&name, 0, "the segment is missing"),
            _ => Error::io("open", &name)(e),
        })?;
        let header = check_header(&*file, &name, self.family.kind, &self.store_id, access)?;
        if (header.ordinal, header.is_output) != (segment.ordinal, segment.is_output) {
            return Err(Error::corrupt(name, 0, "its header is that of another segment"));
        }
        file.advise(Advice::Random, 0, 0);
        Ok(file)
    }

    /// Registers an open file, and closes the least recently used ones above the limit.
    fn keep_open(&self, opened: &mut Vec<Arc<Segment>>, segment: &Arc<Segment>) {
        while opened.len() >= self.bounds.open_files.max(1) {
            let used = |place: &usize| opened[*place].used.load(Ordering::Relaxed);
            let Some(oldest) = (0..opened.len()).min_by_key(used) else { break };
            opened.swap_remove(oldest).file.store(None);
        }
        opened.push(Arc::clone(segment));
    }

    /// Scans a segment's records between two offsets.
    pub(crate) fn scan_framed<'f, F: Framing>(
        &self,
        segment: &Segment,
        file: &'f dyn File,
        framing: F,
        range: Range<u64>,
    ) -> Result<Scan<'f, F>> {
        // No record lies beyond it, however long the file is.
        Scan::new(file, segment.name(), framing, range.start, range.end.min(self.family.longest))
    }

    /// Returns the length of a segment's file: as found if that is at least `least`, else measured
    /// now.
    ///
    /// # Errors
    /// `Corrupt` if it is missing; `Io`.
    pub(crate) fn length(&self, segment: &Arc<Segment>, least: u64) -> Result<u64> {
        if segment.met_bytes >= least {
            return Ok(segment.met_bytes);
        }
        self.file(segment)?.len().map_err(Error::io("measure", segment.name()))
    }

    /// Removes segments and their files, durably.
    ///
    /// # Errors
    /// `Io`. Segments whose files remain are forgotten nevertheless; the next writer finds them.
    pub(crate) fn remove(&self, gone: &[Arc<Segment>]) -> Result<()> {
        let is_gone = |s: &Segment| gone.iter().any(|g| g.ordinal == s.ordinal);
        lock(&self.leaving).extend(gone.iter().map(Arc::clone));
        self.forget(is_gone);
        for segment in gone {
            files::remove(&*self.dir, &segment.name())?;
        }
        lock(&self.leaving).retain(|s| !is_gone(s));
        Ok(files::sync_folder(&*self.dir)?)
    }

    /// Renames segments so that nothing reads them.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn set_aside(&self, gone: &[Arc<Segment>]) -> Result<()> {
        let listed = self.dir.list().map_err(Error::io("list", self.dir.path().display()))?;
        for name in gone.iter().map(|s| s.name()) {
            let aside = names::next_set_aside(&name, &listed);
            self.dir.rename(&name, &aside).map_err(Error::io("rename", &name))?;
        }
        self.forget(|s| gone.iter().any(|g| g.ordinal == s.ordinal));
        Ok(files::sync_folder(&*self.dir)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::header::Kind;
    use crate::format::seed;
    use filemap_io::OsDir;

    static FAMILY: Family =
        Family { kind: Kind::Values, name: names::segment, parse: names::parse_segment, seed, longest: 1 << 30 };

    #[test]
    fn a_segment_that_goes_counts_until_its_file_is_gone() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Arc::new(OsDir::open(temp.path()).unwrap());
        let bounds = Bounds { open_files: 8, numbers: 9 };
        let segments = Segments::open(&FAMILY, dir, [1; 16], Access::Write, bounds).unwrap();
        let gone = [segments.begin(0).unwrap().0, segments.begin(0).unwrap().0];
        assert_eq!(segments.bytes().0, 2 * FIRST_RECORD);
        // The first cannot be removed, so the second stays too.
        let first = temp.path().join(gone[0].name());
        std::fs::remove_file(&first).unwrap();
        std::fs::create_dir(&first).unwrap();
        assert!(segments.remove(&gone).is_err());
        assert!(segments.all().is_empty() && segments.bytes().0 == FIRST_RECORD);
        assert_eq!(segments.begin(0).unwrap().0.ordinal, 2, "a number is not free while a file may have its name");
        std::fs::remove_dir(&first).unwrap();
        segments.remove(&gone).unwrap();
        assert_eq!(segments.bytes().0, FIRST_RECORD);
    }
}
