//! `import`: takes WARC files, WACZ files and dumps into a store.
//!
//! Every file is opened before the store is made. Damage is said with file and offset, and ends the program with the
//! code for it; every whole record is taken in. Running an import again adds nothing, which is how one is resumed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use filemap::import;
use filemap::import::{ImportOptions, ImportProgress, ImportReport};
use filemap::store::RevisitCount;
use filemap::warc::ProblemKind;
use serde_json::{Value, json};

use crate::cli::Shared;
use crate::interrupt::Input;
use crate::load::{self, LoadReport};
use crate::opening::{FreeArg, ToFill};
use crate::outcome::{Failure, Outcome};
use crate::output::Output;
use crate::progress::Progress;
use crate::words::{count, size};
use crate::{disk, interrupt, words};

/// Problems of one file that are said; with --json, all are listed.
const SAID_PROBLEMS: usize = 20;

/// Take in WARC files, WACZ files and dumps
#[derive(clap::Args)]
#[command(after_help = "WARC and ARC files may be plain, gzip or zstd, or lie in a WACZ file, which is seen from\n\
    their content; a file called .jsonl is taken for a dump. Running an import again adds nothing.\n\n\
    Example:\n  fm-tool import pages.fm crawl-*.warc.gz")]
pub struct Args {
    /// The store's folder, made if absent
    store: PathBuf,
    /// WARC files, WACZ files and dumps; - is a WARC file on standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Keep content codings (gzip, br, ...) as they came instead of undoing them
    #[arg(long)]
    as_received: bool,
    /// Keep these records beside their pages; may be given several times
    #[arg(long, value_name = "KIND", value_enum, value_delimiter = ',')]
    keep: Vec<Keep>,
    /// Make a new store that takes URLs as they are written, byte for byte
    #[arg(long)]
    exact_urls: bool,
    #[command(flatten)]
    free: FreeArg,
}

/// Kinds of records that are kept only where asked.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Keep {
    /// What was sent to get a page
    Request,
    /// Notes about a page
    Metadata,
    /// A page in another form, such as its text
    Conversion,
}

/// A file to import, open.
struct Source {
    name: String,
    bytes: u64,
    reader: Input,
    is_dump: bool,
    is_zip: bool,
    /// Whether its length is not known.
    is_endless: bool,
}

/// What one file brought.
#[derive(Default)]
struct Brought {
    report: ImportReport,
    problems: Vec<Value>,
    seconds: f64,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let sources: Vec<Source> = args.files.iter().map(|path| open(path)).collect::<Result<_, _>>()?;
    let total_bytes = sources.iter().map(|source| source.bytes).sum();
    interrupt::listen();
    let mut stores = ToFill::open(&args.store, args.exact_urls, &args.free, shared)?;
    let (mut out, mut outcome) = (Output::stdout(shared.json), Outcome::Done);
    let (mut done_bytes, mut done_files, mut total) = (0, 0, ImportReport::default());
    let (files, started) = (sources.len(), Instant::now());
    let is_endless = sources.iter().any(|source| source.is_endless);
    let bar = if is_endless { Progress::endless_bytes(shared) } else { Progress::bytes(shared) };
    for source in sources {
        let (name, bytes) = (source.name.clone(), source.bytes);
        let brought = bring(&mut stores, args, source, &mut |read, pages| {
            let pages = total.stored + pages;
            let rate = pages as f64 / started.elapsed().as_secs_f64().max(1e-3);
            bar.at(done_bytes + read, total_bytes, || format!("{}, {rate:.0} pages/s", count(pages, "page")));
        });
        let brought = match brought {
            // One file that is refused leaves the others alone.
            Err(failure @ Failure::Usage(_)) => {
                outcome = outcome.and(Outcome::of_one(failure)?);
                done_files += 1;
                continue;
            }
            Err(Failure::Full(words)) => return Err(full(stores, args, &name, &words)),
            brought => brought?,
        };
        done_bytes += bytes;
        done_files += 1;
        if brought.report.losses() > 0 {
            outcome = Outcome::Damaged;
        }
        bar.aside(|| {
            say_problems(&name, &brought);
            if !out.is_json() && !shared.quiet {
                words::say(summary(&name, &brought.report, brought.seconds));
            }
        });
        if out.is_json() {
            let counted = stores.store().map(|store| brought.report.unresolved.clone().count(store)).transpose()?;
            out.json(&line(&name, &brought, counted.as_ref()))?;
        }
        total.add(brought.report);
        if interrupt::asked() {
            break;
        }
    }
    drop(bar);
    // An original may have come in a later file than its revisits.
    let revisits = stores.store().map(|store| total.unresolved.count(store)).transpose()?;
    if !shared.quiet {
        words::say_unresolved(revisits.as_ref());
    }
    if let (true, true, Some(count)) = (out.is_json(), files > 1, &revisits) {
        out.json(&json!({ "files": files, "revisits": count.revisits, "unresolved_revisits": count.unresolved }))?;
    }
    stores.close()?;
    if files > 1 && !out.is_json() && !shared.quiet {
        words::say(summary("in all", &total, started.elapsed().as_secs_f64()));
    }
    out.finish()?;
    if total.stopped || (interrupt::asked() && done_files < files) {
        let stored = count(total.stored, "page");
        outcome = outcome.and(interrupt::outcome(format_args!(
            "{stored} stored, which are safe; the same command goes on from there, and adds nothing twice"
        )));
    }
    Ok(outcome)
}

/// What is to be said when the disk is full: what is safe, and what to do.
fn full(stores: ToFill<'_>, args: &Args, name: &str, words: &str) -> Failure {
    let what = if args.keep.is_empty() { "page" } else { "record" };
    let stored = count(stores.store().map_or(0, |store| store.engine().stats().puts), what);
    let is_durable = stores.store().is_none_or(|store| store.sync().is_ok());
    // What it cannot write now, the next opening finds in the log.
    let _ = stores.store().cloned().map(filemap::PageStore::close);
    let safe = match is_durable {
        true => format!("{stored} of this run are stored and safe"),
        false => format!("{stored} of this run are stored, the last of them safe once the store was opened again"),
    };
    let disk = disk::file_system(&args.store);
    Failure::Full(format!(
        "{name}: {disk} is full: {words}; {safe}; with more space the same command goes on from there"
    ))
}

fn open(path: &Path) -> Result<Source, Failure> {
    let fail = |error: io::Error| Failure::io("open", path, &error);
    if path == Path::new("-") {
        let name = "standard input".to_owned();
        let reader = Input::stdin().map_err(fail)?;
        return Ok(Source { name, bytes: 0, reader, is_dump: false, is_zip: false, is_endless: true });
    }
    let file = File::open(path).map_err(fail)?;
    let about = file.metadata().map_err(fail)?;
    if about.is_dir() {
        return Err(Failure::Usage(format!("{} is a folder; name the files in it", path.display())));
    }
    let is_dump = path.extension().is_some_and(|extension| extension == "jsonl");
    let mut first = [0; 4];
    let is_zip = about.is_file() && file.read_at(&mut first, 0).is_ok() && import::is_zip(&first);
    let (name, reader) = (path.display().to_string(), Input::file(file));
    Ok(Source { name, bytes: about.len(), reader, is_dump, is_zip, is_endless: !about.is_file() })
}

/// Takes one file in; `progress` is told of bytes read and pages stored.
fn bring(
    stores: &mut ToFill<'_>,
    args: &Args,
    source: Source,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Brought, Failure> {
    let started = Instant::now();
    let mut brought = Brought::default();
    if source.is_dump {
        let report = load::load(stores, &source.name, source.reader, &mut |report| {
            progress(report.bytes_read, report.stored);
        })?;
        brought.take_load(&report);
    } else {
        let options = ImportOptions::new()
            .stop(interrupt::flag())
            .as_received(args.as_received)
            .keep_requests(args.keep.contains(&Keep::Request))
            .keep_metadata(args.keep.contains(&Keep::Metadata))
            .keep_conversions(args.keep.contains(&Keep::Conversion));
        let mut store_for = |url: &[u8]| stores.store_for(url);
        let progress = &mut |at: &ImportProgress| progress(at.bytes_read, at.pages);
        let report = match source.is_zip {
            true => import::import_wacz_into(&mut store_for, &source.name, source.reader, &options, progress)?,
            false => import::import_into(&mut store_for, &source.name, source.reader, &options, progress)?,
        };
        brought.take_import(report);
    }
    brought.seconds = started.elapsed().as_secs_f64();
    Ok(brought)
}

impl Brought {
    fn take_import(&mut self, report: ImportReport) {
        self.problems = report
            .problems
            .iter()
            .map(|problem| {
                let damage = problem.kind == ProblemKind::Damage;
                let mut listed = self::problem(problem.place.offset, problem.place.inner, damage, &problem.what);
                listed["warning"] = json!(problem.kind == ProblemKind::Warning);
                listed["misplaced"] = json!(problem.kind == ProblemKind::Misplaced);
                listed["segment"] = json!(problem.kind == ProblemKind::Segment);
                listed
            })
            .collect();
        self.report = report;
    }

    fn take_load(&mut self, report: &LoadReport) {
        let bad = report.bad_lines.iter();
        self.problems = bad.map(|bad| problem(bad.offset, None, !bad.unusable, &bad.what)).collect();
        self.report.stopped = report.stopped;
        self.report.bytes_read = report.bytes_read;
        self.report.records = report.records;
        self.report.stored = report.stored;
        self.report.unchanged = report.unchanged;
        self.report.already_there = report.already_there;
        self.report.body_bytes = report.body_bytes;
        self.report.unusable = report.unusable;
        self.report.refused = report.refused;
        self.report.damaged = report.damaged;
    }
}

fn problem(offset: u64, inner: Option<u64>, damage: bool, what: &str) -> Value {
    json!({ "offset": offset, "inner_offset": inner, "damage": damage, "what": what })
}

fn say_problems(name: &str, brought: &Brought) {
    for problem in brought.problems.iter().take(SAID_PROBLEMS) {
        let inner = problem["inner_offset"].as_u64().filter(|inner| *inner > 0);
        let inner = inner.map_or(String::new(), |inner| format!(" (+{inner} decompressed)"));
        let what = problem["what"].as_str().unwrap_or_default();
        words::complain(format_args!("{name}: offset {}{inner}: {what}", problem["offset"]));
    }
    let report = &brought.report;
    let all = report.losses() + report.warnings;
    if all > SAID_PROBLEMS as u64 {
        let more = all - SAID_PROBLEMS as u64;
        words::complain(format_args!("{name}: {} more; --json lists them", count(more, "problem")));
    }
}

fn line(name: &str, brought: &Brought, revisits: Option<&RevisitCount>) -> Value {
    let report = &brought.report;
    json!({
        "file": name,
        "bytes_read": report.bytes_read,
        "records": report.records,
        "stored": report.stored,
        "unchanged": report.unchanged,
        "variants": report.variants,
        "already_there": report.already_there,
        "ignored": report.ignored,
        "decoded": report.decoded,
        "kept_as_received": report.kept_as_received,
        "body_bytes": report.body_bytes,
        "damaged": report.damaged,
        "unusable": report.unusable,
        "refused": report.refused,
        "misplaced": report.misplaced,
        "segments": report.segments,
        "without_request": report.without_request,
        "mended_dates": report.mended_dates.iter().map(|(rule, number)| (rule.name(), number)).collect::<BTreeMap<_, _>>(),
        "payload_digests": {
            "absent": report.digests.absent,
            "unreadable": report.digests.unreadable,
            "wrong": report.digests.wrong,
            "unchecked": report.digests.unchecked,
        },
        "revisits": revisits.map_or(0, |count| count.revisits),
        "unresolved_revisits": revisits.map_or(0, |count| count.unresolved),
        "stopped": report.stopped,
        "seconds": (brought.seconds * 1000.0).round() / 1000.0,
        "problems": brought.problems,
    })
}

fn summary(name: &str, report: &ImportReport, seconds: f64) -> String {
    let rate = |number: u64| number as f64 / seconds.max(1e-3);
    let mended: u64 = report.mended_dates.values().sum();
    let mut words = format!("{name}: {} stored", count(report.stored, "page"));
    let parts = [
        (report.unchanged, format!("{} with an unchanged body", report.unchanged)),
        (report.variants, format!("{} to other requests than a plain GET", report.variants)),
        (report.already_there, format!("{} already there", report.already_there)),
        (
            report.kept_as_received,
            format!("{} as received, for their coding is not what they say", report.kept_as_received),
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
            format!("{} taken for a page although the request is not met", count(report.without_request, "answer")),
        ),
        (mended, format!("{} found by a rule", count(mended, "date"))),
        (report.digests.wrong, format!("{} with a payload digest that is wrong", report.digests.wrong)),
        (report.digests.unreadable, format!("{} with a payload digest that is none", report.digests.unreadable)),
        (report.digests.absent, format!("{} without a payload digest", report.digests.absent)),
    ];
    for (number, part) in parts {
        if number > 0 {
            words.push_str(", ");
            words.push_str(&part);
        }
    }
    let pages = report.stored + report.already_there;
    words.push_str(&format!(
        "; {} of bodies in {seconds:.1} s ({}/s of the file, {:.0} pages/s)",
        size(report.body_bytes),
        size(rate(report.bytes_read) as u64),
        rate(pages),
    ));
    words
}
