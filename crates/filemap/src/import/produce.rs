//! Reads a file into batches of pages, on its own thread: parses and dates the records, and pairs
//! answers with their requests.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use super::asked::{self, asked_for, role};
use super::dates::Dates;
use super::options::ImportOptions;
use super::pair::{Links, Pairing, Role, Size};
use super::watch::Of;
use crate::date::DateRule;
use crate::error::Result;
use crate::page::RecordKind;
use crate::spool::Payload;
use crate::warc::capture::{Capture, Captured, capture};
use crate::warc::header::Segment;
use crate::warc::stored::Stored;
use crate::warc::{Item, Place, Problem, ProblemKind, Reader, RecordHeader};

/// Number of records, and of bytes, of a full batch.
const BATCH_RECORDS: u64 = 256;
const BATCH_BYTES: u64 = 2 << 20;
/// Age at which a batch is sent with its next record, so that a slow source is reported in time.
const BATCH_AGE: Duration = Duration::from_secs(1);
/// The smallest answer that is set aside on disk while it waits for its request.
const SET_ASIDE_BYTES: u64 = 64 << 10;

/// An event in a file.
pub(super) enum Event {
    Page(Box<Capture>, Place),
    Problem(Problem, Of),
    /// A record that cannot be kept.
    Failed(Problem, Of),
    /// A record that is not kept.
    Ignored(Place, Of),
}

/// Events in the order of the file.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) events: Vec<Event>,
    /// Number of whole records, including `ignored`.
    pub(super) records: u64,
    pub(super) ignored: u64,
    pub(super) bytes_read: u64,
    /// Size of the pages, with headers as in memory.
    page_bytes: u64,
    pub(super) mended_dates: BTreeMap<DateRule, u64>,
    pub(super) without_request: u64,
    pub(super) unanswered: u64,
}

/// Reads the file to its end, or until the other thread stops.
pub(super) fn produce<R: Read>(
    reader: &mut Reader<R>,
    file: &str,
    options: &ImportOptions,
    batches: &SyncSender<Batch>,
) -> Result<()> {
    let (mut batch, mut dates) = (Batch::default(), Dates::default());
    let (mut pairing, mut since) = (Pairing::new(), Instant::now());
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
        let reads_alone = matches!(&item, Item::Record(record) if reader.gives_alone(record));
        let taken = take(item, (file, reads_alone), options, &mut dates, &mut pairing, &mut batch);
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
            || batch.page_bytes >= BATCH_BYTES
            || since.elapsed() >= BATCH_AGE;
        if is_full {
            if batches.send(std::mem::take(&mut batch)).is_err() {
                return Ok(());
            }
            since = Instant::now();
        }
    }
}

fn take(
    item: Item,
    (file, reads_alone): (&str, bool),
    options: &ImportOptions,
    dates: &mut Dates,
    pairing: &mut Pairing<Event>,
    batch: &mut Batch,
) -> Result<()> {
    let mut record = match item {
        Item::Problem(problem) => {
            pairing.push_other(Event::Problem(problem, Of::default()));
            return Ok(());
        }
        Item::Record(record) => record,
    };
    batch.records += 1;
    let of = Of::header(&record.header);
    let (links, place) = (Links::of(&record.header, record.place), record.place);
    if let Some(problem) = record.problem.take() {
        pairing.push_other(Event::Problem(problem, of.clone()));
    }
    // A record from a dump is kept whatever its type, and names its variant itself.
    let is_ours = Stored::of(&record.header).is_some();
    let keeps = |kind: RecordKind| options.keeps(kind) || is_ours;
    let problem = |kind: ProblemKind, what: String| Event::Problem(Problem::new(file, place, kind, what), of.clone());
    let failed = |kind: ProblemKind, what: String| Event::Failed(Problem::new(file, place, kind, what), of.clone());
    if let Some((kind, what)) = left_out(&record.header) {
        pairing.push(failed(kind, what), Role::Other, links, Size::default());
        return Ok(());
    }
    let is_segment = record.header.segment().is_some();
    let kind = record.header.kind().filter(|&kind| keeps(kind) || kind == RecordKind::Request);
    if let Some(what) = dates.settle(&mut record, kind.is_some(), kind.is_some_and(keeps))? {
        pairing.push_other(problem(ProblemKind::Warning, what));
    }
    let Some(kind) = kind else {
        pairing.push(Event::Ignored(place, of), Role::Other, links, Size::default());
        return Ok(());
    };
    let mut unread = None;
    let (role, event, size) = match capture(record, kind, &options.body_rules)? {
        Captured::Page(mut page) => {
            (page.reads_alone, unread) = (reads_alone, asked::unread(&page));
            let role = if page.stored.is_some() { Role::Other } else { role(&mut page)? };
            let is_kept = keeps(kind) || matches!(role, Role::Request(Some(_)));
            let (event, size) = page_event(page, place, is_kept, &of);
            (role, event, size)
        }
        Captured::Unusable(why) => (Role::Other, failed(ProblemKind::Unusable, why.to_owned()), Size::default()),
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

/// The event of a page, which may be a request that is not kept.
fn page_event(page: Box<Capture>, place: Place, is_kept: bool, of: &Of) -> (Event, Size) {
    let size = page_size(&page);
    if is_kept { (Event::Page(page, place), size) } else { (Event::Ignored(place, of.clone()), Size::default()) }
}

/// The message for a page that is a first segment.
fn first_segment(url: &[u8]) -> String {
    let url = String::from_utf8_lossy(url);
    format!("{url}: this is the first segment of a record that its writer split: the page ends with it")
}

/// Reason why a record is left out regardless of its content; `None` if it is not.
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
        "" => "the record has no type (WARC-Type)".to_owned(),
        other => format!("the record has an unknown type: {other}"),
    };
    Some((ProblemKind::Unusable, what))
}

/// Size of a waiting page.
fn page_size(capture: &Capture) -> Size {
    let (headers, body) = (capture.page.headers.memory_bytes(), capture.body.len());
    match capture.body {
        Payload::Memory(_) => Size { memory: headers + body, disk: 0 },
        Payload::Disk { .. } => Size { memory: headers, disk: body },
    }
}

/// Moves the body of a page that waits for its request to disk, unless it is small. Returns the
/// new size.
fn set_aside(event: &mut Event, options: &ImportOptions) -> Result<Option<Size>> {
    let Event::Page(page, _) = event else { return Ok(None) };
    if !matches!(page.body, Payload::Memory(_)) || page.body.len() < SET_ASIDE_BYTES {
        return Ok(None);
    }
    page.body.set_aside(&options.body_rules.spool)?;
    Ok(Some(page_size(page)))
}

/// Moves records that no longer wait to the batch; at the end, all records.
fn go_on(pairing: &mut Pairing<Event>, is_end: bool, batch: &mut Batch) {
    while let Some(held) = pairing.next(is_end) {
        match held.what {
            Event::Ignored(..) => {
                batch.ignored += 1;
                batch.events.push(held.what);
            }
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
