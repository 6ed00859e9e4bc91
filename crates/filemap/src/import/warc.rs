//! Imports a WARC file into a store, on two threads: one reads, decompresses and parses, the
//! caller's compresses and puts.
//!
//! An interrupted import is repeated to resume it: a record that the store already has (same URL,
//! time and digest) adds nothing. A body equal to the newest version's is stored as a reference;
//! one from the dump of a store, if it was a reference there.
//!
//! Invariants: memory is bounded by the batches under way (a few MiB each), by the answers that
//! wait for their requests (see `pair`), and by the spool's bound for one record; an error of the
//! store stops both threads; what was imported before stays.

use std::collections::BTreeMap;
use std::io::Read;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use filemap_core::Put;

use super::asked::{self, asked_for, role};
use super::dates::Dates;
use super::options::ImportOptions;
use super::pair::{Links, Pairing, Role, Size};
use super::report::ImportReport;
use crate::date::DateRule;
use crate::error::Result;
use crate::page::version::BodyForm;
use crate::page::{Page, RecordKind};
use crate::spool::Payload;
use crate::store::{Arrival, BodySource, Known, PageStore, Sameness};
use crate::warc::capture::{Capture, Captured, Original, capture};
use crate::warc::header::Segment;
use crate::warc::stored::Stored;
use crate::warc::{Item, Place, Problem, ProblemKind, Reader, RecordHeader};

/// Records or bytes of a full batch.
const BATCH_RECORDS: u64 = 256;
const BATCH_BYTES: u64 = 2 << 20;
/// The smallest answer that is set aside on disk while it waits for its request.
const SET_ASIDE_BYTES: u64 = 64 << 10;
/// Batches that may wait for the storing thread.
const BATCHES_WAITING: usize = 2;

/// Progress of an import.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use filemap::import::{ImportOptions, import};
/// # use filemap::{Options, PageStore};
/// use std::ops::ControlFlow;
///
/// use filemap::import::ImportProgress;
///
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// // At most 1000 pages.
/// let progress = &mut |at: ImportProgress| match at.pages {
///     1000.. => ControlFlow::Break(()),
///     _ => ControlFlow::Continue(()),
/// };
/// assert!(!import(&store, "empty.warc", &b""[..], &ImportOptions::new(), progress)?.stopped);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportProgress {
    /// Bytes read from the file.
    pub bytes_read: u64,
    /// Whole records so far.
    pub records: u64,
    /// Versions stored.
    pub pages: u64,
    /// Problems so far.
    pub problems: u64,
}

impl ImportProgress {
    fn of(report: &ImportReport) -> ImportProgress {
        let problems = report.losses();
        ImportProgress { bytes_read: report.bytes_read, records: report.records, pages: report.stored, problems }
    }

    /// This, plus other files.
    pub(super) fn after(&self, others: &ImportReport) -> ImportProgress {
        let others = ImportProgress::of(others);
        ImportProgress {
            bytes_read: others.bytes_read + self.bytes_read,
            records: others.records + self.records,
            pages: others.pages + self.pages,
            problems: others.problems + self.problems,
        }
    }
}

enum Event {
    Page(Box<Capture>, Place),
    Problem(Problem),
    /// A record that is not kept.
    Ignored,
}

#[derive(Default)]
struct Batch {
    events: Vec<Event>,
    /// Whole records, those of `ignored` included.
    records: u64,
    ignored: u64,
    bytes_read: u64,
    /// Size of the pages, with headers as in memory.
    page_bytes: u64,
    mended_dates: BTreeMap<DateRule, u64>,
    without_request: u64,
    unanswered: u64,
}

/// Imports the WARC file `source`; its content tells whether it is plain, gzip or zstd. `file` is
/// its name in the report. `progress` is called on this thread before every page and at the end;
/// `Break` ends the import there: what was stored stays, and the same import repeated adds the
/// rest.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::ops::ControlFlow;
///
/// use filemap::import::{ImportOptions, import};
/// use filemap::{Options, PageStore};
///
/// let dir = tempfile::tempdir()?;
/// let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// let file = b"WARC/1.1\r\nWARC-Type: resource\r\nWARC-Target-URI: http://example.com/a.txt\r\n\
///     WARC-Date: 2023-11-14T22:13:20Z\r\nContent-Length: 5\r\n\r\nhello\r\n\r\n";
/// let go_on = &mut |_| ControlFlow::Continue(());
/// let report = import(&store, "file.warc", &file[..], &ImportOptions::new(), go_on)?;
/// assert_eq!((report.stored, report.losses()), (1, 0));
/// assert_eq!(store.get("http://example.com/a.txt")?.map(|page| page.body), Some(b"hello".to_vec()));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`crate::Error::Read`] if `source` fails, [`crate::Error::Spool`], and those of the store; all
/// that came before is stored. Damage and records that cannot be kept are in the report.
pub fn import<R: Read + Send>(
    store: &PageStore,
    file: &str,
    source: R,
    options: &ImportOptions,
    progress: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
) -> Result<ImportReport> {
    import_into(&mut |_| Ok(store.clone()), file, source, options, progress)
}

/// As [`import`], into the store that `stores` returns for the URL of a page: it is called for
/// every page, on this thread, so that a file without pages needs no store. An error of it that
/// concerns one page costs that page.
///
/// # Errors
///
/// As [`import`], and those of `stores`.
pub fn import_into<R: Read + Send>(
    stores: &mut dyn FnMut(&[u8]) -> Result<PageStore>,
    file: &str,
    source: R,
    options: &ImportOptions,
    progress: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
) -> Result<ImportReport> {
    let mut reader = Reader::new(source, file, options.body_rules.spool.clone())?;
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(BATCHES_WAITING);
        let producer = scope.spawn(move || produce(&mut reader, file, options, &sender));
        let stored = consume(stores, file, receiver, progress);
        // The receiver is gone by now, so the producer ends.
        let produced = producer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let report = stored?;
        produced.map(|()| report)
    })
}

/// Reads the file to its end, or until the other thread stops.
fn produce<R: Read>(
    reader: &mut Reader<R>,
    file: &str,
    options: &ImportOptions,
    batches: &SyncSender<Batch>,
) -> Result<()> {
    let (mut batch, mut dates) = (Batch::default(), Dates::default());
    let mut pairing = Pairing::new();
    loop {
        let item = reader.next_item();
        let bytes_read = reader.bytes_read();
        let item = match item {
            Ok(Some(item)) => item,
            end => {
                go_on(&mut pairing, true, &mut batch);
                batch.bytes_read = bytes_read;
                batch.mended_dates = dates.mended;
                (batch.without_request, batch.unanswered) = (pairing.without_request(), pairing.unanswered());
                let _ = batches.send(batch);
                return end.map(|_| ());
            }
        };
        let taken = take(item, file, options, &mut dates, &mut pairing, &mut batch);
        go_on(&mut pairing, taken.is_err(), &mut batch);
        (batch.without_request, batch.unanswered) = (pairing.without_request(), pairing.unanswered());
        let taken = taken.and_then(|()| pairing.relieve(|event| set_aside(event, options)));
        if taken.is_err() {
            let _ = batches.send(batch);
            return taken;
        }
        batch.bytes_read = bytes_read;
        batch.mended_dates.clone_from(&dates.mended);
        let is_full = batch.records >= BATCH_RECORDS
            || batch.events.len() as u64 >= BATCH_RECORDS
            || batch.page_bytes >= BATCH_BYTES;
        if is_full && batches.send(std::mem::take(&mut batch)).is_err() {
            return Ok(());
        }
    }
}

fn take(
    item: Item,
    file: &str,
    options: &ImportOptions,
    dates: &mut Dates,
    pairing: &mut Pairing<Event>,
    batch: &mut Batch,
) -> Result<()> {
    let mut record = match item {
        Item::Problem(problem) => {
            pairing.push_other(Event::Problem(problem));
            return Ok(());
        }
        Item::Record(record) => record,
    };
    batch.records += 1;
    if let Some(problem) = record.problem.take() {
        pairing.push_other(Event::Problem(problem));
    }
    // A record from a dump is kept whatever its type, and names its variant itself.
    let is_ours = Stored::of(&record.header).is_some();
    let keeps = |kind: RecordKind| options.keeps(kind) || is_ours;
    let (links, place) = (Links::of(&record.header, record.place), record.place);
    let problem = |kind: ProblemKind, what: String| Event::Problem(Problem::new(file, place, kind, what));
    if let Some((kind, what)) = left_out(&record.header) {
        pairing.push(problem(kind, what), Role::Other, links, Size::default());
        return Ok(());
    }
    let is_segment = record.header.segment().is_some();
    let kind = record.header.kind().filter(|&kind| keeps(kind) || kind == RecordKind::Request);
    if let Some(what) = dates.settle(&mut record, kind.is_some(), kind.is_some_and(keeps))? {
        pairing.push_other(problem(ProblemKind::Warning, what));
    }
    let Some(kind) = kind else {
        pairing.push(Event::Ignored, Role::Other, links, Size::default());
        return Ok(());
    };
    let mut unread = None;
    let (role, event, size) = match capture(record, kind, &options.body_rules)? {
        Captured::Page(mut page) => {
            unread = asked::unread(&page);
            let role = if page.stored.is_some() { Role::Other } else { role(&mut page)? };
            let is_kept = keeps(kind) || matches!(role, Role::Request(Some(_)));
            let size = page_size(&page);
            if is_kept { (role, Event::Page(page, place), size) } else { (role, Event::Ignored, Size::default()) }
        }
        Captured::Unusable(why) => (Role::Other, problem(ProblemKind::Unusable, why.to_owned()), Size::default()),
    };
    if let Some(what) = unread {
        pairing.push_other(problem(ProblemKind::Unusable, what));
    }
    if let (true, Event::Page(page, _)) = (is_segment, &event) {
        pairing.push_other(problem(ProblemKind::Segment, first_segment(&page.page.url)));
    }
    let asked = match (&role, &event) {
        (Role::Request(Some(_)), Event::Page(page, _)) => asked_for(&page.page),
        _ => String::new(),
    };
    if let Some(answer) = pairing.push(event, role, links, size) {
        let what = format!(
            "{asked}: the request stands too far behind its answer at offset {}, which was taken in as the page of its URL",
            answer.offset
        );
        pairing.push_other(problem(ProblemKind::Misplaced, what));
    }
    Ok(())
}

/// What is wrong with a page that is a first segment.
fn first_segment(url: &[u8]) -> String {
    let url = String::from_utf8_lossy(url);
    format!("{url}: this is the first segment of a record that was cut into several: the page ends with it")
}

/// Why a record is left out whatever it holds; `None` if it is not.
fn left_out(header: &RecordHeader) -> Option<(ProblemKind, String)> {
    if header.segment() == Some(Segment::Later) {
        let of = header.text("WARC-Segment-Origin-ID").unwrap_or("an unknown record");
        let number = header.text("WARC-Segment-Number").unwrap_or("?");
        let what =
            format!("this is segment {number} of {of}: segments are not put together, and the page ends before it");
        return Some((ProblemKind::Segment, what));
    }
    let what = match header.record_type() {
        _ if header.has_known_type() => return None,
        "" => "the record says no type (WARC-Type)".to_owned(),
        other => format!("the record is of a type that is not known: {other}"),
    };
    Some((ProblemKind::Unusable, what))
}

/// The size of a page that waits.
fn page_size(capture: &Capture) -> Size {
    let (headers, body) = (capture.page.headers.memory_bytes(), capture.body.len());
    match capture.body {
        Payload::Memory(_) => Size { memory: headers + body, disk: 0 },
        Payload::Disk { .. } => Size { memory: headers, disk: body },
    }
}

/// Moves the body of a page that waits for its request to disk, unless it is small. Returns its
/// size then.
fn set_aside(event: &mut Event, options: &ImportOptions) -> Result<Option<Size>> {
    let Event::Page(page, _) = event else { return Ok(None) };
    if !matches!(page.body, Payload::Memory(_)) || page.body.len() < SET_ASIDE_BYTES {
        return Ok(None);
    }
    page.body.set_aside(&options.body_rules.spool)?;
    Ok(Some(page_size(page)))
}

/// Moves what no longer waits to the batch; at the end, everything.
fn go_on(pairing: &mut Pairing<Event>, is_end: bool, batch: &mut Batch) {
    while let Some(held) = pairing.next(is_end) {
        match held.what {
            Event::Ignored => batch.ignored += 1,
            Event::Page(mut page, place) => {
                let Size { memory, disk } = page_size(&page);
                batch.page_bytes += memory + disk;
                page.page.variant = page.page.variant.or(held.variant);
                batch.events.push(Event::Page(page, place));
            }
            problem => batch.events.push(problem),
        }
    }
}

/// Puts the pages of all batches.
fn consume(
    stores: &mut dyn FnMut(&[u8]) -> Result<PageStore>,
    file: &str,
    batches: Receiver<Batch>,
    progress: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
) -> Result<ImportReport> {
    let mut report = ImportReport::default();
    let mut known = Known::default();
    for batch in batches {
        // Asked first: a source may end early because of a stop, which is no problem of the file.
        report.stopped = progress(ImportProgress::of(&report)).is_break();
        if report.stopped {
            return Ok(report);
        }
        report.bytes_read = batch.bytes_read;
        report.records += batch.records;
        report.ignored += batch.ignored;
        report.mended_dates = batch.mended_dates;
        report.without_request = batch.without_request;
        report.unanswered = batch.unanswered;
        for event in batch.events {
            report.stopped = progress(ImportProgress::of(&report)).is_break();
            if report.stopped {
                return Ok(report);
            }
            match event {
                Event::Problem(problem) => report.problem(problem),
                Event::Page(page, place) => {
                    let put = stores(&page.page.url).and_then(|store| put(&store, &mut known, *page, &mut report));
                    match put {
                        Err(error) if error.concerns_one_page() => {
                            report.refused += u64::from(error.refused_by().is_some());
                            report.problem(Problem::new(file, place, ProblemKind::Unusable, error.to_string()));
                        }
                        put => put?,
                    }
                }
                Event::Ignored => {}
            }
        }
    }
    // The whole file is in: there is nothing to cancel.
    let _ = progress(ImportProgress::of(&report));
    Ok(report)
}

fn put(store: &PageStore, known: &mut Known, mut page: Capture, report: &mut ImportReport) -> Result<()> {
    // It may have waited on disk.
    page.body.take_back()?;
    report.digests.add(page.digests);
    if let Some(bytes) = store.given_bytes(&page.page, page.body.len())? {
        report.unresolved.push(store, &store.key_of_page(&page.page)?, &page.page, bytes)?;
        report.already_there += 1;
        return Ok(());
    }
    let (decoded, as_received) = (page.decoded, page.kept_as_received);
    let is_page = page.page.kind.is_page();
    let is_variant = page.page.variant.is_some() && is_page;
    let put = put_page(store, known, &mut page)?;
    let body_bytes = page.body.len();
    if page.page.kind == RecordKind::Revisit {
        report.unresolved.push(store, &store.key_of_page(&page.page)?, &page.page, body_bytes)?;
    }
    match put {
        None => report.already_there += 1,
        Some(put) => {
            report.stored += 1;
            report.beside += u64::from(!is_page);
            report.unchanged += u64::from(matches!(put, Put::Unchanged(_)));
            report.variants += u64::from(is_variant);
            report.decoded += u64::from(decoded);
            report.kept_as_received += u64::from(as_received);
            report.body_bytes += body_bytes;
        }
    }
    Ok(())
}

/// Stores a page; `None` if the store already has it.
fn put_page(store: &PageStore, known: &mut Known, capture: &mut Capture) -> Result<Option<Put>> {
    let len = capture.body.len();
    if len > filemap_core::MAX_VALUE_BYTES {
        return Err(filemap_core::Error::ValueTooLarge { len }.into());
    }
    let stored = capture.stored.take();
    let sameness = if stored.is_some() { Sameness::Everything } else { Sameness::Visit };
    let mut form = BodyForm::if_changed(&capture.page);
    if let Some(stored) = stored {
        form = stored.body_form;
        if let Some(original) = stored.original
            && !fetch_body(store, known, capture, original)?
        {
            return Ok(None);
        }
    }
    let arrival = arrival(store, known, &capture.page, &mut capture.body, sameness)?;
    let Some(arrival) = arrival else { return Ok(None) };
    let put = match &mut capture.body {
        Payload::Memory(bytes) => {
            let form = if arrival.mends { BodyForm::Whole } else { form };
            store.put_parts(&capture.page, BodySource::Bytes(bytes, form))?
        }
        disk => store.put_parts(&capture.page, BodySource::Reader(&mut *disk.reader()?))?,
    };
    known.put(arrival);
    Ok(Some(put))
}

/// The arrival of `page`, with this body; `None` if the store already has it.
fn arrival(
    store: &PageStore,
    known: &mut Known,
    page: &Page,
    body: &mut Payload,
    sameness: Sameness,
) -> Result<Option<Arrival>> {
    store.arrival(known, page, body.len(), sameness, |hasher| {
        body.chunks(|bytes| {
            hasher.update(bytes);
            Ok(())
        })
    })
}

/// Gives an unchanged version the body of an earlier one of its URL; if the store lacks that,
/// makes it a revisit. Returns false if the store has it as a revisit, from an import before its
/// original.
fn fetch_body(store: &PageStore, known: &mut Known, capture: &mut Capture, original: Original) -> Result<bool> {
    let key = store.key_of_page(&capture.page)?;
    let revisit = Page { kind: RecordKind::Revisit, revisit: Some(original.revisit), ..capture.page.clone() };
    let mut no_body = Payload::default();
    let Some(body) = store.original_body(known, &key, original.time_ms, &original.payload)? else {
        capture.page = revisit;
        capture.body = no_body;
        return Ok(true);
    };
    capture.body = Payload::Memory(body);
    Ok(arrival(store, known, &revisit, &mut no_body, Sameness::Everything)?.is_some())
}
