//! The segment files of a log, of values or of keys: which there are, and which of them are open. Readers find a segment
//! without a lock; few files are kept open, however many there are.
//!
//! Invariants: a segment's number is the low 16 bits of its ordinal and may be used again once its file is gone; an ordinal is
//! used once. A new segment is durable, by name and header, before anything is appended to it.

mod family;
mod known;
mod sizes;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use filemap_io::{Access, Advice, Dir, File};

use crate::buggify::{Fault, planted};
use crate::cache::PageCache;
use crate::dictionaries::Registry;
use crate::error::{Error, Result};
use crate::files::check_header;
use crate::format::header::{self, FileHeader, Kind};
use crate::log::scan::{Framing, Scan};
use crate::primitive::Mutex;
use crate::record::now_ms;
use crate::sync::lock;
use known::Known;

pub(crate) use family::{Bounds, Family};

/// A segment and its file, which stays open however many others are read.
pub(crate) type OpenSegment = (Arc<Segment>, Arc<dyn File>);

/// Where the first record of a segment lies.
pub(crate) const FIRST_RECORD: u64 = header::BYTES as u64;

/// One segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) id: u16,
    /// Its place in the order of the log; the number is its low 16 bits.
    pub(crate) ordinal: u64,
    pub(crate) seed: u32,
    /// No record in it is an earlier version of a removal with a lower sequence.
    pub(crate) floor: u64,
    /// Whether compaction has written it: it is no part of the log's order, and counts only once a superblock names it.
    pub(crate) is_output: bool,
    /// Level at which compaction compressed its pages anew, 0 for as they came.
    pub(crate) level: u8,
    /// When it was begun, in ms since 1970.
    pub(crate) created_ms: i64,
    family: &'static Family,
    file: ArcSwapOption<Arc<dyn File>>,
    used: AtomicU64,
    /// Length of the file once it does not change any more; 0 when it was not measured yet.
    sealed_bytes: AtomicU64,
}

impl Segment {
    fn new(family: &'static Family, header: &FileHeader, file: Option<Arc<dyn File>>) -> Arc<Segment> {
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
            sealed_bytes: AtomicU64::new(0),
        })
    }

    /// The file's name.
    pub(crate) fn name(&self) -> String {
        (self.family.name)(self.id)
    }

    /// Damage at an offset of this segment.
    pub(crate) fn corrupt(&self, offset: u64, what: &str) -> Error {
        Error::corrupt(self.name(), offset, what)
    }
}

/// What those who add segments or remove them must agree on.
#[derive(Debug, Default)]
struct Making {
    /// A segment of the log that was created ahead of its use.
    spare: Option<Arc<Segment>>,
    /// Ordinals below were given out.
    next: u64,
}

/// All segments of one log of a store.
#[derive(Debug)]
pub(crate) struct Segments {
    family: &'static Family,
    dir: Arc<dyn Dir>,
    store_id: [u8; 16],
    access: Access,
    known: ArcSwap<Known>,
    /// What records may need to be expanded.
    pub(crate) dictionaries: Registry,
    /// Pages that were read lately, if any are kept.
    pub(crate) pages: Option<PageCache>,
    bounds: Bounds,
    clock: AtomicU64,
    /// Those whose files are open for reading. Files are opened and closed under this lock.
    opened: Mutex<Vec<Arc<Segment>>>,
    making: Mutex<Making>,
    has_spare: AtomicBool,
    /// Those that are known no more, or about to be, but whose files may still be there.
    leaving: Mutex<Vec<Arc<Segment>>>,
    /// Raised whenever segments are forgotten or met: a read that sees it change looks again.
    changes: AtomicU64,
}

impl Segments {
    /// Finds the segments of a directory by their headers.
    ///
    /// # Errors
    /// `Corrupt` when a header is damaged; a segment that was being created when the machine stopped (shorter than a
    /// header) is no segment yet.
    pub(crate) fn open(
        family: &'static Family,
        dir: Arc<dyn Dir>,
        store_id: [u8; 16],
        access: Access,
        bounds: Bounds,
    ) -> Result<Segments> {
        let dictionaries = match family.kind {
            Kind::Values => Registry::open(Arc::clone(&dir), store_id, access)?,
            _ => Registry::none(Arc::clone(&dir), store_id, access),
        };
        let this = Segments {
            family,
            dictionaries,
            pages: PageCache::new(bounds.page_cache_bytes),
            dir,
            store_id,
            access,
            known: ArcSwap::default(),
            bounds,
            clock: AtomicU64::new(1),
            opened: Mutex::default(),
            making: Mutex::new(Making::default()),
            has_spare: AtomicBool::new(false),
            leaving: Mutex::default(),
            changes: AtomicU64::new(0),
        };
        this.look_anew()?;
        Ok(this)
    }

    /// Looks for segments that another process has added or removed. What is `settled` is not looked at again, if there is
    /// still a file of its name; under the names of others there may be new ones.
    pub(crate) fn rescan(&self, settled: impl Fn(&Segment) -> bool) -> Result<()> {
        let known = self.known.load_full();
        let settled: Vec<_> = known.list.iter().filter(|s| settled(s)).map(Arc::clone).collect();
        self.look(&settled)
    }

    /// Looks at all files of the directory again.
    pub(crate) fn look_anew(&self) -> Result<()> {
        self.look(&[])
    }

    /// Forgets segments: their files are gone, or about to be.
    pub(crate) fn forget(&self, is_gone: impl Fn(&Segment) -> bool) {
        let making = lock(&self.making);
        let kept = self.all().iter().filter(|s| !is_gone(s)).map(Arc::clone).collect();
        self.replace(kept);
        drop(making);
    }

    /// Puts another list in place of the known one, and closes the files of those that are not in it.
    fn replace(&self, list: Vec<Arc<Segment>>) {
        let new = Arc::new(Known::new(list));
        let old = self.known.load_full();
        let lacks = |known: &Known, s: &Segment| known.get(s.id).is_none_or(|n| n.ordinal != s.ordinal);
        if old.list.iter().any(|s| lacks(&new, s)) {
            // Before they are missing: whoever misses one must see that it has gone.
            self.changes.fetch_add(1, Ordering::AcqRel);
        }
        self.known.store(Arc::clone(&new));
        let is_changed = old.list.iter().any(|s| lacks(&new, s)) || new.list.iter().any(|s| lacks(&old, s));
        if is_changed {
            // And after: whoever took the list before must see that it is another now, and whoever missed a new one.
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

    /// How often segments were forgotten, or another process's were met. A read of a place that was found before the number
    /// changed proves nothing.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    fn look(&self, known: &[Arc<Segment>]) -> Result<()> {
        let known: HashMap<u16, &Arc<Segment>> = known.iter().map(|s| (s.id, s)).collect();
        let mut list = Vec::new();
        let names = self.dir.list().map_err(|e| Error::io("list", self.dir.path().display().to_string(), e))?;
        for id in names.iter().filter_map(|n| (self.family.parse)(n)) {
            if let Some(segment) = known.get(&id) {
                list.push(Arc::clone(segment));
                continue;
            }
            let name = (self.family.name)(id);
            let file = match self.dir.open(&name, Access::Read) {
                // A segment without a record may be removed by a writer that recovers.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                opened => opened.map_err(|e| Error::io("open", &name, e))?,
            };
            let len = file.len().map_err(|e| Error::io("measure", &name, e))?;
            if len < FIRST_RECORD {
                continue;
            }
            let header = check_header(&*file, &name, self.family.kind, &self.store_id, self.access).and_then(|h| {
                let what = "its header is that of another segment";
                if h.ordinal as u16 == id { Ok(h) } else { Err(Error::corrupt(&name, 0, what)) }
            });
            let header = match header {
                // Its length got to the disk and its header did not: what is there instead may even be another's.
                Err(e) if e.is_corrupt() && len == FIRST_RECORD => continue,
                header => header?,
            };
            list.push(Segment::new(self.family, &header, None));
        }
        self.replace(list);
        Ok(())
    }

    /// All segments, in the order in which they were begun.
    pub(crate) fn all(&self) -> Arc<Vec<Arc<Segment>>> {
        Arc::clone(&self.known.load().list)
    }

    /// Those that make up the log, in its order.
    pub(crate) fn log(&self) -> Vec<Arc<Segment>> {
        self.known.load().list.iter().filter(|s| !s.is_output).map(Arc::clone).collect()
    }

    /// The segment of a number.
    ///
    /// # Errors
    /// `Corrupt` when there is none.
    pub(crate) fn get(&self, id: u16) -> Result<Arc<Segment>> {
        let found = self.known.load().get(id).map(Arc::clone);
        found.ok_or_else(|| Error::corrupt((self.family.name)(id), 0, "the segment is missing"))
    }

    /// The file of a segment, opened if need be; the one that was used least recently is closed for it.
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

    /// The file of a segment, opened anew to be appended to or mended.
    pub(crate) fn writable(&self, segment: &Segment) -> Result<Arc<dyn File>> {
        self.open_file(segment, Access::Write)
    }

    /// The file of a segment, opened anew to be read.
    ///
    /// # Errors
    /// `Corrupt` when it is gone, or another segment's by now.
    pub(crate) fn open_anew(&self, segment: &Segment) -> Result<Arc<dyn File>> {
        self.open_file(segment, Access::Read)
    }

    fn open_file(&self, segment: &Segment, access: Access) -> Result<Arc<dyn File>> {
        let name = segment.name();
        let file = self.dir.open(&name, access).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => Error::corrupt(&name, 0, "the segment is missing"),
            _ => Error::io("open", &name, e),
        })?;
        let header = check_header(&*file, &name, self.family.kind, &self.store_id, access)?;
        if (header.ordinal, header.is_output) != (segment.ordinal, segment.is_output) {
            return Err(Error::corrupt(name, 0, "its header is that of another segment"));
        }
        file.advise(Advice::Random, 0, 0);
        Ok(file)
    }

    /// Notes that a segment's file is open, and closes those that were used least recently until few enough are.
    fn keep_open(&self, opened: &mut Vec<Arc<Segment>>, segment: &Arc<Segment>) {
        while opened.len() >= self.bounds.open_files.max(1) {
            let used = |place: &usize| opened[*place].used.load(Ordering::Relaxed);
            let Some(oldest) = (0..opened.len()).min_by_key(used) else { break };
            opened.swap_remove(oldest).file.store(None);
        }
        opened.push(Arc::clone(segment));
    }

    /// Creates the next segment of the log ahead of its use, unless there is one. Creating one takes two syncs, which no put
    /// should wait for. `floor` is the next sequence, or a lower one.
    ///
    /// # Errors
    /// As [`Segments::begin`].
    pub(crate) fn prepare(&self, floor: u64) -> Result<()> {
        let mut making = lock(&self.making);
        if making.spare.is_none() {
            making.spare = Some(self.create_next(&mut making, floor)?);
            self.has_spare.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Gives out no ordinal below this one.
    pub(crate) fn pass_over(&self, next: u64) {
        let mut making = lock(&self.making);
        making.next = making.next.max(next);
    }

    /// Whether a segment waits for its use.
    pub(crate) fn is_prepared(&self) -> bool {
        self.has_spare.load(Ordering::Acquire)
    }

    /// Adds the next segment at the end of the log, opened to be appended to; creates it if that was not done ahead.
    ///
    /// # Errors
    /// `Io`; `Full` when all 65,536 numbers are in use. The log has not changed then.
    pub(crate) fn begin(&self, floor: u64) -> Result<OpenSegment> {
        // Held until the segment is in the list: no other thread may create its file meanwhile.
        let mut making = lock(&self.making);
        let segment = match making.spare.take() {
            Some(spare) => spare,
            None => self.create_next(&mut making, floor)?,
        };
        // Opened before it counts: what fails to be opened waits for the next try.
        let opened = self.writable(&segment);
        if opened.is_err() {
            making.spare = Some(Arc::clone(&segment));
        }
        self.has_spare.store(opened.is_err(), Ordering::Release);
        let file = opened?;
        self.add(&segment);
        Ok((segment, file))
    }

    /// Adds a segment for compaction to write, and opens it for that. [`Segment::floor`] says what `floor` means.
    ///
    /// # Errors
    /// As [`Segments::begin`].
    pub(crate) fn begin_output(&self, floor: u64, level: u8) -> Result<OpenSegment> {
        let mut making = lock(&self.making);
        let ordinal = self.next_ordinal(&making);
        making.next = ordinal + 1;
        drop(making);
        // No lock is held meanwhile: a put that rolls the log must not wait for these syncs.
        let segment = self.create(FileHeader { floor, is_output: true, level, ..self.header(ordinal) })?;
        let file = self.writable(&segment).inspect_err(|_| {
            // Nothing leads there; what cannot be removed now the next writer removes.
            let _ = self.dir.remove(&segment.name());
        })?;
        let making = lock(&self.making);
        self.add(&segment);
        drop(making);
        Ok((segment, file))
    }

    fn add(&self, segment: &Arc<Segment>) {
        let mut list = Vec::clone(&self.all());
        list.push(Arc::clone(segment));
        self.known.store(Arc::new(Known::new(list)));
    }

    /// The next ordinal whose number is free, greater than all that were given out.
    fn next_ordinal(&self, making: &Making) -> u64 {
        let known = self.known.load();
        let next = known.list.last().map_or(0, |last| last.ordinal + 1).max(making.next);
        let mut all = next..next + (1 << 17);
        let leaving = lock(&self.leaving).clone();
        let is_leaving = |id: u16| leaving.iter().any(|s| s.id == id);
        let is_free = |ordinal: &u64| known.get(*ordinal as u16).is_none() && !is_leaving(*ordinal as u16);
        let is_preferred = |ordinal: &u64| u32::from(*ordinal as u16) < self.bounds.numbers && is_free(ordinal);
        all.clone().find(is_preferred).or_else(|| all.find(is_free)).unwrap_or(next)
    }

    /// Creates the next segment of the log. What stands in its way stands in it for ever: no name is passed over.
    fn create_next(&self, making: &mut Making, floor: u64) -> Result<Arc<Segment>> {
        let ordinal = self.next_ordinal(making);
        let segment = self.create(FileHeader { floor, ..self.header(ordinal) })?;
        making.next = ordinal + 1;
        Ok(segment)
    }

    fn header(&self, ordinal: u64) -> FileHeader {
        FileHeader::new(self.family.kind, self.store_id, ordinal, now_ms())
    }

    /// Creates a segment with its header, durable by name and content.
    fn create(&self, header: FileHeader) -> Result<Arc<Segment>> {
        let id = header.ordinal as u16;
        let name = (self.family.name)(id);
        if self.known.load().get(id).is_some() {
            return Err(Error::full(name, "all 65,536 segment numbers are in use"));
        }
        self.remove_unborn(&name)?;
        let file = self.dir.open(&name, Access::Create).map_err(|e| Error::io("create", &name, e))?;
        if let Err(e) = file.write_at(&header.encode(), 0) {
            let _ = self.dir.remove(&name);
            return Err(Error::io("create", &name, e));
        }
        if !planted(Fault::NewSegmentNotSynced) {
            file.sync().map_err(|e| Error::io("sync", &name, e))?;
        }
        if !planted(Fault::NewSegmentNameNotSynced) {
            self.dir.sync().map_err(|e| Error::io("sync", self.dir.path().display().to_string(), e))?;
        }
        file.advise(Advice::Random, 0, 0);
        let segment = Segment::new(self.family, &header, Some(file));
        segment.used.store(self.clock.load(Ordering::Relaxed), Ordering::Relaxed);
        self.keep_open(&mut lock(&self.opened), &segment);
        Ok(segment)
    }

    /// Removes a file whose creation the machine's stop cut short: one that holds no record.
    fn remove_unborn(&self, name: &str) -> Result<()> {
        let file = match self.dir.open(name, Access::Write) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            opened => opened.map_err(|e| Error::io("open", name, e))?,
        };
        if file.len().map_err(|e| Error::io("measure", name, e))? > FIRST_RECORD {
            return Err(Error::corrupt(name, 0, "a file that should not exist yet holds something; move it away"));
        }
        self.dir.remove(name).map_err(|e| Error::io("remove", name, e))
    }

    /// A scan of a segment's records between two offsets.
    pub(crate) fn scan_framed<'f, F: Framing>(
        &self,
        segment: &Segment,
        file: &'f dyn File,
        framing: F,
        range: Range<u64>,
    ) -> Result<Scan<'f, F>> {
        // No record lies further, however long a file is.
        Scan::new(file, segment.name(), framing, range.start, range.end.min(self.family.longest))
    }

    /// Removes segments whose space is given back. Their names are gone for good when this returns.
    ///
    /// # Errors
    /// `Io`. Those of them that are left are known no more, and the next writer finds them.
    pub(crate) fn remove(&self, gone: &[Arc<Segment>]) -> Result<()> {
        let is_gone = |s: &Segment| gone.iter().any(|g| g.ordinal == s.ordinal);
        lock(&self.leaving).extend(gone.iter().map(Arc::clone));
        self.forget(is_gone);
        for segment in gone {
            let name = segment.name();
            match self.dir.remove(&name) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(Error::io("remove", name, e)),
                _ => {}
            }
        }
        lock(&self.leaving).retain(|s| !is_gone(s));
        self.dir.sync().map_err(|e| Error::io("sync", self.dir.path().display().to_string(), e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::VALUES;
    use filemap_io::OsDir;

    #[test]
    fn a_segment_that_goes_counts_until_its_file_is_gone() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Arc::new(OsDir::open(temp.path()).unwrap());
        let bounds = Bounds { open_files: 8, page_cache_bytes: 0, numbers: 9 };
        let segments = Segments::open(&VALUES, dir, [1; 16], Access::Write, bounds).unwrap();
        let gone = [segments.begin(0).unwrap().0, segments.begin(0).unwrap().0];
        assert_eq!(segments.bytes().0, 2 * FIRST_RECORD);
        // The first cannot be removed, so the second stays as well.
        let first = temp.path().join(gone[0].name());
        std::fs::remove_file(&first).unwrap();
        std::fs::create_dir(&first).unwrap();
        assert!(segments.remove(&gone).is_err());
        assert!(segments.all().is_empty() && segments.bytes().0 == FIRST_RECORD);
        assert_eq!(segments.begin(0).unwrap().0.ordinal, 2, "a number is not free as long as a file may have its name");
        std::fs::remove_dir(&first).unwrap();
        segments.remove(&gone).unwrap();
        assert_eq!(segments.bytes().0, FIRST_RECORD);
    }
}
