//! Imports an archive's index into a store: each line becomes the description of a page in place.
//!
//! A CDXJ line has a key, a time of 14 digits and a JSON object, as pywb, cdxj-indexer and Common
//! Crawl write it. A CDX line has fields between spaces: 9 or 11, or those named by the first line
//! (` CDX N b a m s k r M S V g`). Both may be gzip. The record itself is not read: the line is
//! the description until the page is read.
//!
//! A line that cannot be kept is a problem with its offset in the index. So is a missing file of
//! this machine, reported once with the number of its captures: they are described all the same,
//! and can be read once the file is there.
//!
//! Two threads: one reads and parses, the caller's thread puts.

mod line;

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use filemap_core::{Put, Version};
use flate2::bufread::MultiGzDecoder;

use self::line::{Described, Legend, Line};
use super::in_place::Describing;
use super::report::ImportReport;
use super::watch::{Fate, ImportProgress, ImportWatch, ImportedRecord};
use crate::error::{Error, Result};
use crate::page::{ArchiveId, InPlace, Page};
use crate::store::{Held, PageStore, unknown};
use crate::warc::{Place, Problem, ProblemKind};

/// Lines passed to the storing thread at once, and batches that may wait for it.
const BATCH_LINES: usize = 1024;
const BATCHES_WAITING: usize = 4;
/// Descriptions put at once.
const BATCH_PUTS: usize = 128;
/// The longest line, in bytes: a longer one is a problem, and left out.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// Returns the location of a file from its name in the index, or the reason why the name is
/// refused.
pub type Locate<'a> = dyn Fn(&str) -> std::result::Result<String, String> + Sync + 'a;

/// Result of parsing a line.
enum Parsed {
    Page(Box<Page>),
    Ignored,
    Problem(String),
}

/// Lines in the order of the index.
#[derive(Default)]
struct Batch {
    /// Each line with its offset in the index.
    lines: Vec<(u64, Parsed)>,
    /// Locations of files that no earlier batch had.
    files: Vec<String>,
    bytes_read: u64,
}

/// Imports the index `source`, a CDXJ or CDX file called `file`; its records stay where they are.
/// `locate` gives the location of a file by the name in the index: an absolute path, or an
/// `http(s)` address.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::ops::ControlFlow;
///
/// use filemap::import::{ImportProgress, cdxj};
/// use filemap::{Options, PageStore};
///
/// let dir = tempfile::tempdir()?;
/// let record = b"WARC/1.1\r\nWARC-Type: resource\r\nWARC-Target-URI: http://example.com/a.txt\r\n\
///     WARC-Date: 2023-11-14T22:13:20Z\r\nContent-Length: 5\r\n\r\nhello\r\n\r\n";
/// std::fs::write(dir.path().join("a.warc"), record)?;
/// let index = b"com,example)/a.txt 20231114221320 {\"url\": \"http://example.com/a.txt\", \
///     \"mime\": \"text/plain\", \"offset\": \"0\", \"filename\": \"a.warc\"}\n";
///
/// let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// let locate = |name: &str| Ok(dir.path().join(name).to_string_lossy().into_owned());
/// let go_on = &mut |_: ImportProgress| ControlFlow::Continue(());
/// let report = cdxj::import(&store, "index.cdxj", &index[..], &locate, go_on)?;
/// assert_eq!((report.in_place, report.losses()), (1, 0));
/// assert_eq!(store.get("http://example.com/a.txt")?.map(|page| page.body), Some(b"hello".to_vec()));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`Error::Read`] if `source` fails: everything before the failure is stored. Those of the store:
/// up to 127 of the preceding lines may not be stored.
pub fn import<R: Read + Send>(
    store: &PageStore,
    file: &str,
    source: R,
    locate: &Locate<'_>,
    watch: &mut dyn ImportWatch,
) -> Result<ImportReport> {
    import_into(&mut |_| Ok(store.clone()), file, source, locate, watch)
}

/// As [`import`], into the store that `stores` returns for the URL of a page. It is called for
/// every page, on this thread, so an index without captures needs no store. A store stays open
/// until the end. After a `Break`, `watch` is still called for up to 127 pages that came before.
///
/// # Errors
///
/// As [`import`], and those of `stores`.
pub fn import_into<R: Read + Send>(
    stores: &mut dyn FnMut(&[u8]) -> Result<PageStore>,
    file: &str,
    source: R,
    locate: &Locate<'_>,
    watch: &mut dyn ImportWatch,
) -> Result<ImportReport> {
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(BATCHES_WAITING);
        let producer = scope.spawn(move || produce(file, source, locate, &sender));
        let consumer = Consumer {
            stores,
            file,
            describing: Describing::default(),
            waiting: Vec::new(),
            keys: HashSet::new(),
            hashing: RandomState::new(),
            files: HashMap::new(),
            report: ImportReport::default(),
        };
        let stored = consumer.consume(receiver, watch);
        // The receiver was dropped, so the producer ends.
        let produced = producer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let report = stored?;
        produced.map(|()| report)
    })
}

/// Returns whether a file begins like an index: with the first line of a CDX file, a CDXJ line, or
/// a line about the index itself.
pub fn is_index(start: &[u8]) -> bool {
    let line = &start[..memchr::memchr(b'\n', start).unwrap_or(start.len())];
    let mut words = line.splitn(3, |&byte| byte == b' ');
    let (key, stamp, rest) = (words.next(), words.next(), words.next());
    let is_stamp = |stamp: &[u8]| matches!(stamp.len(), 14 | 17) && stamp.iter().all(u8::is_ascii_digit);
    let is_header = [&b" CDX "[..], b"!meta ", b"#"].iter().any(|begin| start.starts_with(begin));
    is_header || key.is_some_and(|key| !key.is_empty()) && stamp.is_some_and(is_stamp) && rest.is_some()
}

/// Reads the index to its end, or until the other thread stops.
fn produce<R: Read>(file: &str, source: R, locate: &Locate<'_>, batches: &SyncSender<Batch>) -> Result<()> {
    let read = |offset: u64| move |source| Error::Read { what: file.to_owned(), offset, source };
    let mut source = BufReader::with_capacity(256 << 10, source);
    let is_packed = source.fill_buf().map_err(read(0))?.starts_with(&[0x1f, 0x8b]);
    let mut lines: Box<dyn BufRead> = match is_packed {
        true => Box::new(BufReader::with_capacity(256 << 10, MultiGzDecoder::new(source))),
        false => Box::new(source),
    };
    let (mut offset, mut text, mut legend) = (0, Vec::new(), Legend::default());
    let mut files: HashMap<String, ArchiveId> = HashMap::new();
    let (mut batch, mut failure) = (Batch::default(), None);
    loop {
        text.clear();
        let count = match lines.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut text) {
            Ok(0) => break,
            Ok(count) => count as u64,
            // What came before the error is imported, except for a line that it cuts.
            Err(error) => {
                failure = Some(read(offset)(error));
                break;
            }
        };
        let at = offset;
        offset += count;
        let parsed = if count == MAX_LINE_BYTES && !text.ends_with(b"\n") {
            // A read failure recurs with the next line.
            offset += lines.skip_until(b'\n').unwrap_or(0) as u64;
            Parsed::Problem(format!("the line is longer than {MAX_LINE_BYTES} bytes"))
        } else {
            match legend.line(&text) {
                Ok(None) => Parsed::Ignored,
                Err(what) => Parsed::Problem(what),
                Ok(Some(line)) => page(line, |name| {
                    if let Some(id) = files.get(name) {
                        return Ok(*id);
                    }
                    let location = locate(name)?;
                    let id = ArchiveId::of(&location);
                    files.insert(name.to_owned(), id);
                    batch.files.push(location);
                    Ok(id)
                }),
            }
        };
        batch.lines.push((at, parsed));
        if batch.lines.len() >= BATCH_LINES {
            batch.bytes_read = offset;
            if batches.send(std::mem::take(&mut batch)).is_err() {
                return Ok(());
            }
        }
    }
    batch.bytes_read = offset;
    // The other thread may have stopped.
    let _ = batches.send(batch);
    failure.map_or(Ok(()), Err)
}

fn page(line: Line<'_>, archive: impl FnOnce(&str) -> std::result::Result<ArchiveId, String>) -> Parsed {
    let described = line.page().and_then(|Described { mut page, filename, offset, length }| {
        page.in_place = Some(InPlace { archive: archive(&filename)?, offset, length });
        Ok(page)
    });
    described.map_or_else(Parsed::Problem, |page| Parsed::Page(Box::new(page)))
}

/// A description waiting to be put.
struct Waiting {
    place: Place,
    page: Box<Page>,
    key: Vec<u8>,
    /// Versions that it replaces.
    gone: Vec<Version>,
}

/// Puts descriptions, many at once.
struct Consumer<'a> {
    stores: &'a mut dyn FnMut(&[u8]) -> Result<PageStore>,
    file: &'a str,
    describing: Describing,
    /// All of the store of `describing`, with different keys.
    waiting: Vec<Waiting>,
    /// Hashes of their keys.
    keys: HashSet<u64>,
    hashing: RandomState,
    /// Location of each file, and the number of its captures in the index.
    files: HashMap<ArchiveId, (String, u64)>,
    report: ImportReport,
}

impl Consumer<'_> {
    fn consume(mut self, batches: Receiver<Batch>, watch: &mut dyn ImportWatch) -> Result<ImportReport> {
        let taken = self.take_all(batches, watch);
        // Also for what came before an error, or before a stop.
        let put = self.put_waiting(watch);
        let settled = self.describing.settle();
        taken?;
        put?;
        settled?;
        if !self.report.is_cancelled {
            self.miss_files(watch)?;
            // The whole index is in: there is nothing to cancel.
            let _ = watch.progress(ImportProgress::of(&self.report));
        }
        Ok(self.report)
    }

    fn take_all(&mut self, batches: Receiver<Batch>, watch: &mut dyn ImportWatch) -> Result<()> {
        for batch in batches {
            for location in batch.files {
                let id = ArchiveId::of(&location);
                // Another name may lead to the same file.
                self.files.entry(id).or_insert((location, 0));
            }
            for (offset, parsed) in batch.lines {
                let at = ImportProgress::of(&self.report);
                let pages = at.pages + self.waiting.len() as u64;
                if watch.progress(ImportProgress { pages, ..at }) == ControlFlow::Break(()) {
                    self.report.is_cancelled = true;
                    return Ok(());
                }
                self.take(Place { offset, inner: None }, parsed, watch)?;
            }
            self.report.bytes_read = batch.bytes_read;
        }
        Ok(())
    }

    fn take(&mut self, place: Place, parsed: Parsed, watch: &mut dyn ImportWatch) -> Result<()> {
        match parsed {
            Parsed::Page(page) => {
                self.report.records += 1;
                self.take_page(place, page, watch)
            }
            Parsed::Ignored => {
                self.report.ignored += 1;
                Ok(())
            }
            Parsed::Problem(what) => {
                self.put_waiting(watch)?;
                self.report.records += 1;
                self.fail(place, what, watch);
                Ok(())
            }
        }
    }

    fn take_page(&mut self, place: Place, page: Box<Page>, watch: &mut dyn ImportWatch) -> Result<()> {
        if page.variant.is_some() {
            // Its put also marks the page, which a batch does not.
            self.put_waiting(watch)?;
        }
        let (key, held) = match self.look(&page, watch) {
            Ok(looked) => looked,
            Err(error) => {
                self.put_waiting(watch)?;
                return self.done(place, &page, Err(error), watch);
            }
        };
        if held.is_here {
            self.put_waiting(watch)?;
            self.describing.replace(&key, held.gone)?;
            return self.done(place, &page, Ok(None), watch);
        }
        self.keys.insert(self.hashing.hash_one(&key));
        let is_alone = page.variant.is_some();
        self.waiting.push(Waiting { place, page, key, gone: held.gone });
        if is_alone || self.waiting.len() >= BATCH_PUTS { self.put_waiting(watch) } else { Ok(()) }
    }

    /// The key of a page, and what its store has of the visit. Waiting descriptions are put first
    /// if they are of the same key or of another store.
    fn look(&mut self, page: &Page, watch: &mut dyn ImportWatch) -> Result<(Vec<u8>, Held)> {
        let store = (self.stores)(&page.url)?;
        let key = store.key_of_page(page)?;
        if self.keys.contains(&self.hashing.hash_one(&key)) || !self.describing.is_of(&store) {
            self.put_waiting(watch)?;
        }
        let file = page.in_place.and_then(|place| self.files.get(&place.archive));
        let (location, _) = file.ok_or_else(|| unknown(page.in_place))?;
        // The target of a revisit is known when its record is read.
        let held = self.describing.held(&store, &key, page, location, None)?;
        Ok((key, held))
    }

    /// Puts the waiting descriptions: at once, or one by one if a page is refused.
    fn put_waiting(&mut self, watch: &mut dyn ImportWatch) -> Result<()> {
        self.keys.clear();
        let waiting = std::mem::take(&mut self.waiting);
        let Some(store) = self.describing.store().filter(|_| !waiting.is_empty()).cloned() else { return Ok(()) };
        let pages: Vec<(&[u8], &Page)> = waiting.iter().map(|one| (&*one.key, &*one.page)).collect();
        let mut versions = match waiting.len() {
            1 => None,
            _ => match store.put_descriptions(&pages) {
                Ok(versions) => Some(versions.into_iter()),
                Err(error) if error.concerns_one_page() => None,
                Err(error) => return Err(error),
            },
        };
        for one in waiting {
            let put = match versions.as_mut().and_then(Iterator::next) {
                Some(version) => Ok(version),
                None => store.put_description(&one.key, &one.page),
            };
            if put.is_ok() {
                self.describing.replace(&one.key, one.gone)?;
            }
            self.done(one.place, &one.page, put.map(|version| Some(Put::Stored(version))), watch)?;
        }
        Ok(())
    }

    /// Counts and reports the outcome for a page; `None` if the store has the visit.
    fn done(&mut self, place: Place, page: &Page, put: Result<Option<Put>>, watch: &mut dyn ImportWatch) -> Result<()> {
        let put = match put {
            Ok(put) => put,
            Err(error) if error.concerns_one_page() => {
                self.report.refused += u64::from(error.refused_by().is_some());
                self.fail(place, error.to_string(), watch);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if let Some((_, captures)) = page.in_place.and_then(|place| self.files.get_mut(&place.archive)) {
            *captures += 1;
        }
        self.report.count_in_place(page, put.is_some());
        let fate = put.map_or(Fate::AlreadyThere, Fate::Stored);
        let (record_type, url, time_ms) = (page.kind.name(), &*page.url, Some(page.fetched_at_ms));
        watch.record(&ImportedRecord { file: self.file, place, record_type, url, time_ms, fate });
        Ok(())
    }

    fn fail(&mut self, place: Place, what: String, watch: &mut dyn ImportWatch) {
        let problem = Problem::new(self.file, place, ProblemKind::Unusable, what);
        watch.record(&ImportedRecord::new(self.file, place, Fate::Failed(&problem)));
        self.report.problem(problem);
    }

    /// Reports files of this machine that are missing, and were not moved to a known place.
    fn miss_files(&mut self, watch: &mut dyn ImportWatch) -> Result<()> {
        let Some(store) = self.describing.store() else { return Ok(()) };
        let mut gone = Vec::new();
        for (id, (_, captures)) in self.files.drain() {
            // A file without a described page is not known to the store, and not missed.
            let known = store.archive(id)?.map(|archive| archive.location);
            gone.extend(known.filter(|location| !store.is_there(location)).map(|location| (location, captures)));
        }
        gone.sort();
        for (location, captures) in gone {
            let what = format!(
                "{location}: the file is missing or cannot be opened: the {captures} captures that the index has of \
                 it are described, and cannot be read before it is"
            );
            let problem = Problem::new(self.file, Place::default(), ProblemKind::Damage, what);
            self.report.tell(problem, watch);
        }
        Ok(())
    }
}
