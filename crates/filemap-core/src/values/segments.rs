//! The segment files: which there are, and which of them are open. Readers find a segment without a lock; few files are
//! kept open, however many there are.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use filemap_io::{Access, Advice, Dir, File};

use crate::buggify::{Fault, planted};
use crate::dictionaries::Registry;
use crate::error::{Error, Result};
use crate::files::check_header;
use crate::format::header::{self, FileHeader, Kind};
use crate::format::{names, seed};
use crate::log::scan::Scan;
use crate::primitive::Mutex;
use crate::record::now_ms;
use crate::sync::lock;
use crate::values::ValueFraming;

/// Where the first record of a segment lies.
pub(crate) const FIRST_RECORD: u64 = header::BYTES as u64;

/// A segment has at most this many bytes.
const LONGEST: u64 = 1 << 30;

/// One segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) id: u16,
    /// Its place in the order of the log; the number is its low 16 bits.
    pub(crate) ordinal: u64,
    pub(crate) seed: u32,
    file: ArcSwapOption<Arc<dyn File>>,
    used: AtomicU64,
}

impl Segment {
    fn new(store_id: &[u8; 16], ordinal: u64, file: Option<Arc<dyn File>>) -> Arc<Segment> {
        Arc::new(Segment {
            id: ordinal as u16,
            ordinal,
            seed: seed(store_id, ordinal),
            file: ArcSwapOption::from_pointee(file),
            used: AtomicU64::new(0),
        })
    }

    /// The file's name.
    pub(crate) fn name(&self) -> String {
        names::segment(self.id)
    }

    /// Damage at an offset of this segment.
    pub(crate) fn corrupt(&self, offset: u64, what: &str) -> Error {
        Error::corrupt(self.name(), offset, what)
    }
}

/// All segments of a store.
#[derive(Debug)]
pub(crate) struct Segments {
    dir: Arc<dyn Dir>,
    store_id: [u8; 16],
    access: Access,
    /// What records may need to be expanded.
    pub(crate) dictionaries: Registry,
    /// In order of the log.
    list: ArcSwap<Vec<Arc<Segment>>>,
    max_open: usize,
    clock: AtomicU64,
    opening: Mutex<usize>,
    /// A segment that was created ahead of its use.
    spare: Mutex<Option<Arc<Segment>>>,
    /// The greatest ordinal that was created through this handle.
    prepared: AtomicU64,
}

impl Segments {
    /// Finds the segments of a directory by their headers.
    ///
    /// # Errors
    /// `Corrupt` when a header is damaged; a segment that was being created when the machine stopped (shorter than a
    /// header) is no segment yet.
    pub(crate) fn open(dir: Arc<dyn Dir>, store_id: [u8; 16], access: Access, max_open: usize) -> Result<Segments> {
        let dictionaries = Registry::open(Arc::clone(&dir), store_id, access)?;
        let this = Segments {
            dictionaries,
            dir,
            store_id,
            access,
            list: ArcSwap::from_pointee(Vec::new()),
            max_open,
            clock: AtomicU64::new(1),
            opening: Mutex::new(0),
            spare: Mutex::new(None),
            prepared: AtomicU64::new(0),
        };
        this.rescan()?;
        Ok(this)
    }

    /// Looks for segments that another process has added.
    pub(crate) fn rescan(&self) -> Result<()> {
        self.look(&self.list.load_full())
    }

    /// Forgets the segments after an ordinal: their files are gone.
    pub(crate) fn forget_after(&self, ordinal: u64) {
        let list = self.list.load_full();
        let (kept, gone): (Vec<_>, Vec<_>) = list.iter().map(Arc::clone).partition(|s| s.ordinal <= ordinal);
        let closed = gone.iter().filter(|s| s.file.swap(None).is_some()).count();
        *lock(&self.opening) -= closed;
        self.list.store(Arc::new(kept));
    }

    fn look(&self, known: &[Arc<Segment>]) -> Result<()> {
        let known: HashMap<u16, &Arc<Segment>> = known.iter().map(|s| (s.id, s)).collect();
        let mut list = Vec::new();
        let names = self.dir.list().map_err(|e| Error::io("list", self.dir.path().display().to_string(), e))?;
        for id in names.iter().filter_map(|n| names::parse_segment(n)) {
            if let Some(segment) = known.get(&id) {
                list.push(Arc::clone(segment));
                continue;
            }
            let name = names::segment(id);
            let file = match self.dir.open(&name, Access::Read) {
                // A segment without a record may be removed by a writer that recovers.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                opened => opened.map_err(|e| Error::io("open", &name, e))?,
            };
            let len = file.len().map_err(|e| Error::io("measure", &name, e))?;
            if len < FIRST_RECORD {
                continue;
            }
            let header = check_header(&*file, &name, Kind::Values, &self.store_id, self.access).and_then(|h| {
                let what = "its header is that of another segment";
                if h.ordinal as u16 == id { Ok(h) } else { Err(Error::corrupt(&name, 0, what)) }
            });
            let header = match header {
                // Its length got to the disk and its header did not: what is there instead may even be another's.
                Err(e) if e.is_corrupt() && len == FIRST_RECORD => continue,
                header => header?,
            };
            list.push(Segment::new(&self.store_id, header.ordinal, None));
        }
        list.sort_by_key(|s| s.ordinal);
        self.list.store(Arc::new(list));
        Ok(())
    }

    /// All segments, in the order of the log.
    pub(crate) fn all(&self) -> Arc<Vec<Arc<Segment>>> {
        self.list.load_full()
    }

    /// The segment of a number.
    ///
    /// # Errors
    /// `Corrupt` when there is none.
    pub(crate) fn get(&self, id: u16) -> Result<Arc<Segment>> {
        let list = self.list.load();
        // Without gaps the ordinals are dense, and the first guess is right.
        let guess = list.first().map_or(0, |f| usize::from(id.wrapping_sub(f.id)));
        if let Some(segment) = list.get(guess)
            && segment.id == id
        {
            return Ok(Arc::clone(segment));
        }
        let found = list.iter().find(|s| s.id == id).map(Arc::clone);
        found.ok_or_else(|| Error::corrupt(names::segment(id), 0, "the segment is missing"))
    }

    /// The file of a segment, opened if need be; the one that was used least recently is closed for it.
    pub(crate) fn file(&self, segment: &Segment) -> Result<Arc<dyn File>> {
        segment.used.store(self.clock.load(Ordering::Relaxed), Ordering::Relaxed);
        if let Some(file) = &*segment.file.load() {
            return Ok(Arc::clone(file));
        }
        let mut open = lock(&self.opening);
        if let Some(file) = &*segment.file.load() {
            return Ok(Arc::clone(file));
        }
        let file = self.open_file(segment, Access::Read)?;
        segment.file.store(Some(Arc::new(Arc::clone(&file))));
        *open += 1;
        self.clock.fetch_add(1, Ordering::Relaxed);
        self.close_some(segment.id, &mut open);
        Ok(file)
    }

    /// The file of a segment, opened anew to be appended to or mended.
    pub(crate) fn writable(&self, segment: &Segment) -> Result<Arc<dyn File>> {
        self.open_file(segment, Access::Write)
    }

    fn open_file(&self, segment: &Segment, access: Access) -> Result<Arc<dyn File>> {
        let name = segment.name();
        let file = self.dir.open(&name, access).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => Error::corrupt(&name, 0, "the segment is missing"),
            _ => Error::io("open", &name, e),
        })?;
        let header = check_header(&*file, &name, Kind::Values, &self.store_id, access)?;
        if header.ordinal != segment.ordinal {
            return Err(Error::corrupt(name, 0, "its header is that of another segment"));
        }
        file.advise(Advice::Random, 0, 0);
        Ok(file)
    }

    /// Closes files that were used least recently until few enough are open.
    fn close_some(&self, keep: u16, open: &mut usize) {
        let list = self.list.load();
        while *open > self.max_open {
            let oldest = list
                .iter()
                .filter(|s| s.id != keep && s.file.load().is_some())
                .min_by_key(|s| s.used.load(Ordering::Relaxed));
            let Some(oldest) = oldest else { return };
            oldest.file.store(None);
            *open -= 1;
        }
    }

    /// Creates the segment of an ordinal ahead of its use, unless it was created before. Creating one takes two syncs,
    /// which no put should wait for.
    ///
    /// # Errors
    /// As [`Segments::begin`].
    pub(crate) fn prepare(&self, ordinal: u64) -> Result<()> {
        let mut spare = lock(&self.spare);
        let is_begun = self.list.load().last().is_some_and(|s| s.ordinal >= ordinal);
        if spare.is_none() && !is_begun {
            *spare = Some(self.create(ordinal)?);
        }
        Ok(())
    }

    /// Whether a segment waits for its use.
    pub(crate) fn is_prepared(&self, ordinal: u64) -> bool {
        self.prepared.load(Ordering::Relaxed) >= ordinal
    }

    /// Adds the segment of an ordinal at the end of the log; creates it if that was not done ahead.
    ///
    /// # Errors
    /// `Io`; `Full` when the number is still taken by a segment 65,536 before.
    pub(crate) fn begin(&self, ordinal: u64) -> Result<Arc<Segment>> {
        // Held until the segment is in the list: no other thread may create its file meanwhile.
        let mut spare = lock(&self.spare);
        let segment = match spare.take() {
            Some(spare) if spare.ordinal == ordinal => spare,
            _ => self.create(ordinal)?,
        };
        let mut list = Vec::clone(&self.list.load());
        list.push(Arc::clone(&segment));
        self.list.store(Arc::new(list));
        self.close_some(segment.id, &mut lock(&self.opening));
        Ok(segment)
    }

    /// Creates a segment with its header, durable by name and content.
    fn create(&self, ordinal: u64) -> Result<Arc<Segment>> {
        let name = names::segment(ordinal as u16);
        if self.list.load().iter().any(|s| s.id == ordinal as u16) {
            return Err(Error::full(name, "all 65,536 segment numbers are in use"));
        }
        self.remove_unborn(&name)?;
        let file = self.dir.open(&name, Access::Create).map_err(|e| Error::io("create", &name, e))?;
        let header = FileHeader::new(Kind::Values, self.store_id, ordinal, now_ms()).encode();
        file.write_at(&header, 0).map_err(|e| Error::io("write", &name, e))?;
        if !planted(Fault::NewSegmentNotSynced) {
            file.sync().map_err(|e| Error::io("sync", &name, e))?;
        }
        if !planted(Fault::NewSegmentNameNotSynced) {
            self.dir.sync().map_err(|e| Error::io("sync", self.dir.path().display().to_string(), e))?;
        }
        file.advise(Advice::Random, 0, 0);
        *lock(&self.opening) += 1;
        self.prepared.store(ordinal, Ordering::Relaxed);
        Ok(Segment::new(&self.store_id, ordinal, Some(file)))
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
    pub(crate) fn scan<'f>(
        &self,
        segment: &Segment,
        file: &'f dyn File,
        from: u64,
        end: u64,
    ) -> Result<Scan<'f, ValueFraming>> {
        // No location lies further, however long a file is.
        Scan::new(file, segment.name(), ValueFraming { seed: segment.seed }, from, end.min(LONGEST))
    }

    /// Length of all segments in bytes, and what they take on the device.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let mut sum = (0, 0);
        for segment in self.all().iter() {
            if let Ok(file) = self.dir.open(&segment.name(), Access::Read) {
                sum.0 += file.len().unwrap_or(0);
                sum.1 += file.allocated_bytes().unwrap_or(0);
            }
        }
        sum
    }
}
