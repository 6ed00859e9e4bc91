//! Result of importing one file, as a JSON line or as a sentence.

use std::collections::BTreeMap;
use std::fmt::Display;

use filemap::import::ImportReport;
use filemap::store::RevisitCount;
use filemap::warc::ProblemKind;
use fm_cli::fields;
use fm_cli::sizes;
use fm_cli::words::{self, count};
use serde_json::{Value, json};

/// Bad lines of JSON Lines that are listed; the others are only counted.
const LISTED_LINES: usize = 1_000;
/// Problems of one file that are printed; `--json` lists all.
const SAID_PROBLEMS: usize = 20;

/// Fields of a line of `load --json`.
const LOAD_FIELDS: [&str; 12] = [
    "file",
    "bytes_read",
    "records",
    "stored",
    "unchanged",
    "already_there",
    "body_bytes",
    "damaged",
    "unusable",
    "refused",
    "seconds",
    "problems",
];

/// The verb in whose form an import prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    #[default]
    Import,
    /// `load`: every input is JSON Lines.
    Load,
}

/// Result of importing one file.
#[derive(Default)]
pub struct Brought {
    pub report: ImportReport,
    pub problems: Vec<Value>,
    pub seconds: f64,
    /// Files of unsupported kinds, a sentence each.
    pub refused: Vec<String>,
    /// The revisits that a server counted.
    pub revisits: Option<RevisitCount>,
    /// Reason why a server does not have all of the file.
    pub failure: Option<String>,
}

/// The fault of a line of JSON Lines.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum BadLine {
    /// It is not a page.
    Damaged,
    /// It is a page that this store cannot keep.
    Unusable,
}

impl From<ImportReport> for Brought {
    fn from(report: ImportReport) -> Brought {
        let listed = report.problems.iter().map(|problem| {
            json!({
                "offset": problem.place.offset,
                "inner_offset": problem.place.inner,
                "damage": problem.kind == ProblemKind::Damage,
                "what": problem.what,
                "warning": problem.kind == ProblemKind::Warning,
                "misplaced": problem.kind == ProblemKind::Misplaced,
                "segment": problem.kind == ProblemKind::Segment,
            })
        });
        Brought { problems: listed.collect(), report, ..Brought::default() }
    }
}

impl Brought {
    /// Lists a bad line, counted from 1, at the offset reached so far.
    pub fn list_line(&mut self, number: u64, bad: BadLine, what: &dyn Display) {
        if self.problems.len() < LISTED_LINES {
            self.problems.push(json!({
                "offset": self.report.bytes_read,
                "inner_offset": null,
                "damage": bad == BadLine::Damaged,
                "what": what.to_string(),
                "line": number,
            }));
        }
    }
}

/// Prints the problems of a file.
pub fn say_problems(name: &str, brought: &Brought, form: Form) {
    let most = if form == Form::Load { LISTED_LINES } else { SAID_PROBLEMS };
    for problem in brought.problems.iter().take(most) {
        let entry = problem["entry"].as_str();
        let inner = problem["inner_offset"].as_u64().filter(|inner| *inner > 0);
        let inner = inner.map_or(String::new(), |inner| format!(" (+{inner} decompressed)"));
        let what = problem["what"].as_str().unwrap_or_default();
        let offset = &problem["offset"];
        if let Some(entry) = entry {
            words::complain(format_args!("{name}: {entry}: {what}"));
            continue;
        }
        match (problem["line"].as_u64(), form) {
            (Some(line), Form::Load) => words::complain(format_args!("{name}: line {line} (offset {offset}): {what}")),
            (Some(line), _) => words::complain(format_args!("{name}: offset {offset}: line {line}: {what}")),
            (None, _) => words::complain(format_args!("{name}: offset {offset}{inner}: {what}")),
        }
    }
    brought.refused.iter().for_each(words::complain);
    let report = &brought.report;
    let all = report.losses() + report.warnings;
    if all > most as u64 {
        let more = all - most as u64;
        let hint = if brought.problems.len() > most { "; --json lists them" } else { "" };
        words::complain(format_args!("{name}: {} more{hint}", count(more, "problem")));
    }
}

/// A file as a JSON line.
pub fn line(name: &str, brought: &Brought, revisits: Option<&RevisitCount>, form: Form) -> Value {
    let report = &brought.report;
    let mended = report.mended_dates.iter().map(|(rule, number)| (rule.name(), number)).collect::<BTreeMap<_, _>>();
    let digests = &report.digests;
    let mut line = fields!(report;
        file = name, bytes_read, records, stored, beside, in_place, unchanged, variants, already_there, ignored, decoded,
        kept_as_received, body_bytes, damaged, unusable, refused, misplaced, segments, without_request, unanswered,
        mended_dates = mended, payload_digests = fields!(digests; absent, unreadable, wrong, unchecked),
        revisits = revisits.map_or(0, |count| count.revisits),
        unresolved_revisits = revisits.map_or(0, |count| count.unresolved),
        stopped = report.is_cancelled,
        seconds = (brought.seconds * 1000.0).round() / 1000.0, problems = brought.problems,
        not_read = brought.refused,
    );
    if let (Form::Load, Some(fields)) = (form, line.as_object_mut()) {
        fields.retain(|name, _| LOAD_FIELDS.contains(&name.as_str()));
        let problems = fields.get_mut("problems").and_then(Value::as_array_mut).into_iter().flatten();
        problems.filter_map(Value::as_object_mut).for_each(|problem| drop(problem.remove("inner_offset")));
    }
    line
}

/// A file, or all of them, as a sentence.
pub fn summary(name: &str, report: &ImportReport, seconds: f64, form: Form) -> String {
    let rate = |number: u64| number as f64 / seconds.max(1e-3);
    let mended: u64 = report.mended_dates.values().sum();
    let pages = count(report.stored - report.beside, if form == Form::Load { "version" } else { "page" });
    let mut words = match report.beside {
        0 => format!("{name}: {pages} stored"),
        beside => format!("{name}: {pages} and {} stored", count(beside, "other record")),
    };
    let parts = [
        (report.in_place, format!("{} of them left in place", report.in_place)),
        (report.unchanged, format!("{} with an unchanged body", report.unchanged)),
        (report.variants, format!("{} to other requests than a plain GET", report.variants)),
        (report.already_there, format!("{} already there", report.already_there)),
        (
            report.kept_as_received,
            format!("{} kept as received, since their content coding is wrong", report.kept_as_received),
        ),
        (report.damaged, count(report.damaged, "damaged place")),
        (report.unusable, format!("{} that cannot be kept", count(report.unusable, "record"))),
        (report.refused, format!("{} of them refused by rules of erasures", report.refused)),
        (
            report.misplaced,
            format!("{} to another request than a plain GET taken for a page", count(report.misplaced, "answer")),
        ),
        (report.segments, format!("{} of records that are cut into several", count(report.segments, "segment"))),
        (
            report.without_request,
            format!("{} taken for a page although its request is missing", count(report.without_request, "answer")),
        ),
        (
            report.unanswered,
            format!("{} other than a plain GET without an answer", count(report.unanswered, "request")),
        ),
        (mended, format!("{} found by a rule", count(mended, "date"))),
        (report.digests.wrong, format!("{} with a payload digest that is wrong", report.digests.wrong)),
        (report.digests.unreadable, format!("{} with an unreadable payload digest", report.digests.unreadable)),
        (report.digests.absent, format!("{} without a payload digest", report.digests.absent)),
    ];
    for (number, part) in parts {
        if number > 0 {
            words.push_str(", ");
            words.push_str(&part);
        }
    }
    words.push_str(&format!(
        "; {} of bodies in {seconds:.1} s ({}/s of the file, {:.0} {}/s)",
        sizes::print(report.body_bytes),
        sizes::print(rate(report.bytes_read) as u64),
        rate(report.stored + report.already_there),
        if report.beside == 0 { "pages" } else { "records" },
    ));
    words
}
