//! Wire format of the response to an upload: a line for each record, then the sums.

use filemap::Put;
use filemap::date::{self, DateRule};
use filemap::import::{Fate, ImportReport, ImportedRecord, MAX_LISTED_PROBLEMS};
use filemap::page::RecordKind;
use filemap::store::RevisitCount;
use filemap::warc::{Place, Problem, ProblemKind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Url, outcome};

/// Outcome of a record that is not kept, and of one that cannot be kept.
const SKIPPED: &str = "skipped";
const FAILED: &str = "failed";

/// Every kind of problem with its name.
const PROBLEMS: [(ProblemKind, &str); 5] = [
    (ProblemKind::Damage, "damage"),
    (ProblemKind::Unusable, "unusable"),
    (ProblemKind::Misplaced, "misplaced"),
    (ProblemKind::Segment, "segment"),
    (ProblemKind::Warning, "warning"),
];

fn kind_name(kind: ProblemKind) -> &'static str {
    PROBLEMS.iter().find(|(own, _)| *own == kind).map_or("unusable", |(_, name)| name)
}

/// Reason why records of this type are skipped.
fn reason(record_type: &str) -> String {
    match RecordKind::named(record_type) {
        Some(kind) if !kind.is_page() => format!("without `keep={record_type}` such records are not kept"),
        _ => "it is not a page".to_owned(),
    }
}

/// The outcome of a record, or a problem at a position of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct RecordLine {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    offset: Option<u64>,
    /// Offset in the decompressed member, if the record is compressed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    inner: Option<u64>,
    /// Name of the file inside the WACZ file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    file: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none", default)]
    record_type: Option<String>,
    #[serde(flatten)]
    url: Url,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    outcome: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    problem: Option<String>,
    /// Reason why a record is skipped.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    reason: Option<String>,
    /// Reason why something is lost.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    error: Option<String>,
    /// The rule by which something was corrected.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    warning: Option<String>,
}

impl RecordLine {
    /// The line for a record of `file`, or of a file inside it, whose name is then included.
    pub(crate) fn new(record: &ImportedRecord<'_>, file: &str) -> RecordLine {
        let mut line = RecordLine {
            offset: Some(record.place.offset),
            inner: record.place.inner,
            file: record.file.strip_prefix(file).map(|name| name.trim_start_matches(": ").to_owned()),
            record_type: Some(record.record_type.to_owned()),
            time: record.time_ms.map(date::format),
            url: if record.url.is_empty() { Url::default() } else { Url::new(record.url) },
            ..RecordLine::default()
        };
        line.file = line.file.filter(|name| !name.is_empty());
        line.record_type = line.record_type.filter(|name| !name.is_empty());
        match record.fate {
            Fate::Stored(put) => line.outcome = Some(outcome(Some(put)).to_owned()),
            Fate::AlreadyThere => line.outcome = Some(outcome(None).to_owned()),
            Fate::Failed(problem) => {
                line.outcome = Some(FAILED.to_owned());
                line.tell(problem);
            }
            Fate::Problem(problem) => line.tell(problem),
            _ => {
                line.outcome = Some(SKIPPED.to_owned());
                line.reason = Some(reason(record.record_type));
            }
        }
        line
    }

    fn tell(&mut self, problem: &Problem) {
        self.problem = Some(kind_name(problem.kind).to_owned());
        match problem.kind {
            ProblemKind::Warning => self.warning = Some(problem.what.clone()),
            _ => self.error = Some(problem.what.clone()),
        }
    }

    /// The problem that the line reports; `file` is the name of the uploaded file.
    fn problem(self, file: &str) -> Option<Problem> {
        let name = self.problem?;
        let kind = PROBLEMS.iter().find(|(_, own)| *own == name).map_or(ProblemKind::Unusable, |(kind, _)| *kind);
        let file = self.file.map_or(file.to_owned(), |inner| format!("{file}: {inner}"));
        let place = Place { offset: self.offset.unwrap_or_default(), inner: self.inner };
        Some(Problem::new(&file, place, kind, self.error.or(self.warning).unwrap_or_default()))
    }
}

/// Content of a line of an answer.
pub(crate) enum Answered {
    /// A record's outcome, or a problem: already counted.
    Record,
    /// The error that ended the response: the file is not stored as a whole.
    Failed(String),
    /// The last line.
    Sums(Box<Sums>),
}

/// The last line: sums of the import.
pub(crate) struct Sums {
    /// The report without its problems.
    pub(crate) report: ImportReport,
    pub(crate) revisits: RevisitCount,
    /// True if all of the file was read.
    pub(crate) is_whole: bool,
}

/// Reads a line of the response to the upload of `file`, and counts it in `so_far`; `None` if the
/// line is invalid.
pub(crate) fn read_line(line: &[u8], file: &str, so_far: &mut ImportReport) -> Option<Answered> {
    let value: Value = serde_json::from_slice(line).ok()?;
    if value["records"].is_u64() {
        return Some(Answered::Sums(Box::new(read_sums(&value))));
    }
    let line: RecordLine = serde_json::from_value(value).ok()?;
    so_far.records += u64::from(line.outcome.is_some());
    match line.outcome.as_deref() {
        Some("stored") => so_far.stored += 1,
        Some("unchanged") => (so_far.stored, so_far.unchanged) = (so_far.stored + 1, so_far.unchanged + 1),
        Some("present") => so_far.already_there += 1,
        Some(SKIPPED) => so_far.ignored += 1,
        Some(FAILED) => {}
        Some(_) => return None,
        None if line.problem.is_none() => return line.error.map(Answered::Failed),
        None => {}
    }
    if let Some(problem) = line.problem(file) {
        count_problem(so_far, problem.kind);
        if so_far.problems.len() < MAX_LISTED_PROBLEMS {
            so_far.problems.push(problem);
        }
    }
    Some(Answered::Record)
}

/// The numbers of a report, with their names.
fn numbers(report: &mut ImportReport) -> [(&'static str, &mut u64); 22] {
    [
        ("bytes_read", &mut report.bytes_read),
        ("records", &mut report.records),
        ("stored", &mut report.stored),
        ("beside", &mut report.beside),
        ("unchanged", &mut report.unchanged),
        ("variants", &mut report.variants),
        ("already_there", &mut report.already_there),
        ("ignored", &mut report.ignored),
        ("decoded", &mut report.decoded),
        ("kept_as_received", &mut report.kept_as_received),
        ("body_bytes", &mut report.body_bytes),
        ("damaged", &mut report.damaged),
        ("unusable", &mut report.unusable),
        ("refused", &mut report.refused),
        ("misplaced", &mut report.misplaced),
        ("segments", &mut report.segments),
        ("without_request", &mut report.without_request),
        ("unanswered", &mut report.unanswered),
        ("warnings", &mut report.warnings),
        ("digests_absent", &mut report.digests.absent),
        ("digests_unreadable", &mut report.digests.unreadable),
        ("digests_wrong", &mut report.digests.wrong),
    ]
}

/// The last line.
pub(crate) fn sums(report: &mut ImportReport, revisits: &RevisitCount, is_whole: bool, is_durable: bool) -> Value {
    let mut line: Map<String, Value> =
        numbers(report).into_iter().map(|(name, number)| (name.to_owned(), json!(number))).collect();
    let mended: Map<String, Value> =
        report.mended_dates.iter().map(|(rule, number)| (rule.name().to_owned(), json!(number))).collect();
    line.insert("digests_unchecked".to_owned(), json!(report.digests.unchecked));
    line.insert("mended_dates".to_owned(), Value::Object(mended));
    line.insert("revisits".to_owned(), json!(revisits.revisits));
    line.insert("unresolved_revisits".to_owned(), json!(revisits.unresolved));
    let urls: Vec<Url> = revisits.urls.iter().map(|url| Url::new(url)).collect();
    line.insert("unresolved_urls".to_owned(), json!(urls));
    line.insert("stopped".to_owned(), json!(report.is_cancelled));
    line.insert("is_whole".to_owned(), json!(is_whole));
    line.insert("durable".to_owned(), json!(is_durable));
    Value::Object(line)
}

fn read_sums(line: &Value) -> Sums {
    let number = |name: &str| line[name].as_u64().unwrap_or_default();
    let mut report = ImportReport::default();
    for (name, own) in numbers(&mut report) {
        *own = number(name);
    }
    report.digests.unchecked = number("digests_unchecked");
    for rule in DateRule::ALL {
        if let Some(count) = line["mended_dates"][rule.name()].as_u64() {
            report.mended_dates.insert(rule, count);
        }
    }
    report.is_cancelled = line["stopped"] == true;
    let mut revisits = RevisitCount::default();
    (revisits.revisits, revisits.unresolved) = (number("revisits"), number("unresolved_revisits"));
    let urls: Vec<Url> = serde_json::from_value(line["unresolved_urls"].clone()).unwrap_or_default();
    revisits.urls = urls.into_iter().filter_map(Url::bytes).collect();
    Sums { report, revisits, is_whole: line["is_whole"] == true }
}

/// Counts a line, for the sums of a file that is not read to its end.
pub(crate) fn count(report: &mut ImportReport, fate: &Fate<'_>) {
    match fate {
        Fate::Stored(put) => {
            report.stored += 1;
            report.unchanged += u64::from(matches!(put, Put::Unchanged(_)));
        }
        Fate::AlreadyThere => report.already_there += 1,
        Fate::Failed(problem) | Fate::Problem(problem) => count_problem(report, problem.kind),
        _ => report.ignored += 1,
    }
}

fn count_problem(report: &mut ImportReport, kind: ProblemKind) {
    match kind {
        ProblemKind::Damage => report.damaged += 1,
        ProblemKind::Misplaced => report.misplaced += 1,
        ProblemKind::Segment => report.segments += 1,
        ProblemKind::Warning => report.warnings += 1,
        _ => report.unusable += 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[u8]) -> (Option<Answered>, ImportReport) {
        let mut report = ImportReport::default();
        (read_line(line, "b.wacz", &mut report), report)
    }

    #[test]
    fn sums_come_back() {
        let mut report = ImportReport::default();
        for (nth, (_, number)) in numbers(&mut report).into_iter().enumerate() {
            *number = nth as u64 + 1;
        }
        report.digests.unchecked = 30;
        report.is_cancelled = true;
        report.mended_dates = DateRule::ALL.into_iter().zip(40..).collect();
        let mut revisits = RevisitCount::default();
        (revisits.revisits, revisits.unresolved) = (50, 51);
        revisits.urls = vec![b"http://a/".to_vec(), b"\xff".to_vec()];
        for is_whole in [true, false] {
            let line = sums(&mut report, &revisits, is_whole, false).to_string();
            let (Some(Answered::Sums(found)), _) = read(line.as_bytes()) else { panic!("{line}") };
            assert_eq!((&found.report, &found.revisits, found.is_whole), (&report, &revisits, is_whole));
        }
    }

    #[test]
    fn problems_come_back_and_what_ends_an_answer_is_none_of_them() {
        for (nth, (kind, name)) in PROBLEMS.into_iter().enumerate() {
            let inner = Some(nth as u64).filter(|inner| *inner > 0);
            let place = Place { offset: 7, inner };
            let problem = Problem::new("sent: archive/a.warc", place, kind, "cut");
            for (fate, is_record) in [(Fate::Problem(&problem), false), (Fate::Failed(&problem), true)] {
                let mut record = ImportedRecord::new("sent: archive/a.warc", place, fate);
                (record.record_type, record.url, record.time_ms) = ("response", b"http://a/", Some(1000));
                let line = serde_json::to_string(&RecordLine::new(&record, "sent")).unwrap();
                let (Some(Answered::Record), found) = read(line.as_bytes()) else { panic!("{line}") };
                assert_eq!(found.problems, [Problem::new("b.wacz: archive/a.warc", place, kind, "cut")], "{line}");
                assert_eq!((found.records, found.losses() + found.warnings), (u64::from(is_record), 1), "{line}");
                let head = "\"type\":\"response\",\"url\":\"http://a/\",\"time\":\"1970-01-01T00:00:01Z\"";
                assert!(line.contains(name) && line.contains(head), "{line}");
                assert_eq!(line.contains("\"error\""), kind != ProblemKind::Warning, "{line}");
                assert_eq!(line.contains("\"outcome\":\"failed\""), is_record, "{line}");
            }
        }
        assert!(matches!(read(b"{\"error\":\"full\"}").0, Some(Answered::Failed(words)) if words == "full"));
        for line in ["{\"offset\":1}", "[", "{\"offset\":1,\"outcome\":\"lost\"}", ""] {
            assert!(read(line.as_bytes()).0.is_none(), "{line}");
        }
    }

    #[test]
    fn outcomes_are_counted_and_what_is_skipped_says_why() {
        let place = Place { offset: 7, inner: None };
        for (record_type, words) in [("request", "keep=request"), ("warcinfo", "not a page")] {
            let mut record = ImportedRecord::new("sent", place, Fate::Ignored);
            record.record_type = record_type;
            let line = serde_json::to_string(&RecordLine::new(&record, "sent")).unwrap();
            let (Some(Answered::Record), found) = read(line.as_bytes()) else { panic!("{line}") };
            assert!(line.contains(words), "{line}");
            assert_eq!((found.records, found.ignored), (1, 1), "{line}");
        }
        let count = |outcome: &str| {
            let found = read(format!("{{\"offset\":1,\"outcome\":\"{outcome}\"}}").as_bytes()).1;
            (found.records, found.stored, found.unchanged, found.already_there)
        };
        assert_eq!(count("stored"), (1, 1, 0, 0));
        assert_eq!(count("unchanged"), (1, 1, 1, 0));
        assert_eq!(count("present"), (1, 0, 0, 1));
    }
}
