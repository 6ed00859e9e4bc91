//! Imports a WARC file into a store, on two threads: one reads, decompresses and parses, the
//! caller's thread compresses and puts.
//!
//! Repeating an interrupted import resumes it: a record that the store already has (same URL, time
//! and digest) adds nothing. A body equal to the newest version's is stored as a reference; a body
//! from the dump of a store, if it was a reference there.
//!
//! Invariants: memory is bounded by the batches in flight (a few MiB each), by the answers that
//! wait for their requests (see `pair`), and by the spool's bound for one record; an error of the
//! store stops both threads; what was imported before stays.

use std::io::Read;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, sync_channel};

use filemap_core::Put;

use super::in_place::LeftIn;
use super::options::ImportOptions;
use super::produce::{Batch, Event, produce};
use super::report::ImportReport;
use super::watch::{Fate, ImportProgress, ImportWatch, ImportedRecord};
use crate::error::Result;
use crate::page::version::BodyForm;
use crate::page::{Page, RecordKind};
use crate::spool::Payload;
use crate::store::{Arrival, BodySource, Known, PageStore, Sameness};
use crate::warc::capture::{Capture, Original};
use crate::warc::{Place, Problem, ProblemKind, Reader};

/// Batches that may wait for the storing thread.
const BATCHES_WAITING: usize = 2;

/// Imports the WARC file `source`; its content shows whether it is plain, gzip or zstd. `file` is
/// its name in the report. `progress` is called on this thread before every page and at the end.
/// `Break` cancels the import: what was stored stays, and repeating the import adds the rest.
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
/// [`crate::Error::Read`] if `source` fails, [`crate::Error::Spool`], and those of the store;
/// everything before the error is stored. Damage and records that cannot be kept are in the
/// report.
pub fn import<R: Read + Send>(
    store: &PageStore,
    file: &str,
    source: R,
    options: &ImportOptions,
    progress: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
) -> Result<ImportReport> {
    import_into(&mut |_| Ok(store.clone()), file, source, options, &mut |at: ImportProgress| progress(at))
}

/// As [`import`], into the store that `stores` returns for the URL of a page. It is called for
/// every page, on this thread, so a file without pages needs no store. An error that it returns
/// for one page costs only that page. `watch` is also called on this thread.
///
/// # Errors
///
/// As [`import`], and those of `stores`.
pub fn import_into<R: Read + Send>(
    stores: &mut dyn FnMut(&[u8]) -> Result<PageStore>,
    file: &str,
    source: R,
    options: &ImportOptions,
    watch: &mut dyn ImportWatch,
) -> Result<ImportReport> {
    let mut reader = Reader::new(source, file, options.body_rules.spool.clone())?;
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(BATCHES_WAITING);
        let producer = scope.spawn(move || produce(&mut reader, file, options, &sender));
        let stored = consume(stores, (file, options.in_place.as_deref()), receiver, watch);
        // The receiver was dropped, so the producer ends.
        let produced = producer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let report = stored?;
        produced.map(|()| report)
    })
}

/// Puts the pages of all batches.
fn consume(
    stores: &mut dyn FnMut(&[u8]) -> Result<PageStore>,
    (file, location): (&str, Option<&str>),
    batches: Receiver<Batch>,
    watch: &mut dyn ImportWatch,
) -> Result<ImportReport> {
    let mut left = location.map(LeftIn::new);
    let report = put_all(stores, (file, left.as_mut()), batches, watch);
    // Also for what was put before an error, or before a stop.
    let settled = left.map_or(Ok(()), |mut left| left.describing.settle());
    let report = report?;
    settled.map(|()| report)
}

fn put_all(
    stores: &mut dyn FnMut(&[u8]) -> Result<PageStore>,
    (file, mut left): (&str, Option<&mut LeftIn<'_>>),
    batches: Receiver<Batch>,
    watch: &mut dyn ImportWatch,
) -> Result<ImportReport> {
    let mut report = ImportReport::default();
    let mut known = Known::default();
    for batch in batches {
        // Asked first: a source may end early because of a stop, which is not a problem of the
        // file.
        report.is_cancelled = watch.progress(ImportProgress::of(&report)).is_break();
        if report.is_cancelled {
            return Ok(report);
        }
        report.bytes_read = batch.bytes_read;
        report.records += batch.records;
        report.ignored += batch.ignored;
        report.mended_dates = batch.mended_dates;
        report.without_request = batch.without_request;
        report.unanswered = batch.unanswered;
        for event in batch.events {
            report.is_cancelled = watch.progress(ImportProgress::of(&report)).is_break();
            if report.is_cancelled {
                return Ok(report);
            }
            match event {
                Event::Problem(problem, of) => {
                    watch.record(&of.record(file, problem.place, Fate::Problem(&problem)));
                    report.problem(problem);
                }
                Event::Failed(problem, of) => {
                    watch.record(&of.record(file, problem.place, Fate::Failed(&problem)));
                    report.problem(problem);
                }
                Event::Page(mut page, place) => {
                    let how = (&mut known, left.as_deref_mut());
                    take_in(stores, how, (&mut page, file, place), &mut report, watch)?;
                }
                Event::Ignored(place, of) => {
                    watch.record(&of.record(file, place, Fate::Ignored));
                }
            }
        }
    }
    // The whole file is imported: there is nothing to cancel.
    let _ = watch.progress(ImportProgress::of(&report));
    Ok(report)
}

/// Puts a page, and reports the outcome.
fn take_in(
    stores: &mut dyn FnMut(&[u8]) -> Result<PageStore>,
    (known, left): (&mut Known, Option<&mut LeftIn<'_>>),
    (page, file, place): (&mut Capture, &str, Place),
    report: &mut ImportReport,
    watch: &mut dyn ImportWatch,
) -> Result<()> {
    let put = stores(&page.page.url).and_then(|store| match left.filter(|_| LeftIn::can_have(page)) {
        Some(left) => left.describe(&store, page, place, report),
        None => put(&store, known, page, report),
    });
    let Page { kind, ref url, fetched_at_ms, .. } = page.page;
    let tell = |watch: &mut dyn ImportWatch, fate: Fate<'_>| {
        let (record_type, time_ms) = (kind.name(), Some(fetched_at_ms));
        watch.record(&ImportedRecord { file, place, record_type, url, time_ms, fate });
    };
    match put {
        Err(error) if error.concerns_one_page() => {
            report.refused += u64::from(error.refused_by().is_some());
            let problem = Problem::new(file, place, ProblemKind::Unusable, error.to_string());
            tell(watch, Fate::Failed(&problem));
            report.problem(problem);
        }
        put => tell(watch, put?.map_or(Fate::AlreadyThere, Fate::Stored)),
    }
    report.unresolved.keep_bounded_in(stores)
}

/// Puts a page. Returns `None` if the store already has it.
fn put(store: &PageStore, known: &mut Known, page: &mut Capture, report: &mut ImportReport) -> Result<Option<Put>> {
    // The body may have waited on disk.
    page.body.take_back()?;
    report.digests.add(page.digests);
    if let Some(bytes) = store.given_bytes(&page.page, page.body.len())? {
        report.unresolved.push(store, &store.key_of_page(&page.page)?, &page.page, bytes);
        report.already_there += 1;
        return Ok(None);
    }
    let (decoded, as_received) = (page.decoded, page.kept_as_received);
    let is_page = page.page.kind.is_page();
    let is_variant = page.page.variant.is_some() && is_page;
    let form = BodyForm::if_changed(&page.page);
    let put = put_page(store, known, page, form)?;
    let body_bytes = page.body.len();
    if page.page.kind == RecordKind::Revisit {
        report.unresolved.push(store, &store.key_of_page(&page.page)?, &page.page, body_bytes);
    }
    match &put {
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
    Ok(put)
}

/// Stores a page, with its body in this form unless a dump prescribes another. Returns `None` if
/// the store already has it.
pub(super) fn put_page(
    store: &PageStore,
    known: &mut Known,
    capture: &mut Capture,
    mut form: BodyForm,
) -> Result<Option<Put>> {
    let len = capture.body.len();
    if len > filemap_core::Record::MAX_VALUE_BYTES {
        return Err(filemap_core::Error::ValueTooLarge { len }.into());
    }
    let stored = capture.stored.take();
    let sameness = if stored.is_some() { Sameness::Everything } else { Sameness::Visit };
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

/// The arrival of `page` with this body; `None` if the store already has it.
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

/// Gives an unchanged version the body of an earlier version of its URL; if the store lacks that,
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
