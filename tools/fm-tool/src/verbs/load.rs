//! `load`: takes dumps (JSON Lines) into a store.
//!
//! A dump of all versions gives an equal store. A bad line is said with its number and costs itself only; the end is then
//! that of damage. Loading again adds nothing, which is how a load is resumed.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::json;

use crate::cli::Shared;
use crate::load::{self, LoadReport};
use crate::opening::{FreeArg, ToFill};
use crate::outcome::{Failure, Outcome};
use crate::output::Output;
use crate::progress::Progress;
use crate::words::{count, size};
use crate::{interrupt, words};

/// Take in dumps (JSON Lines)
#[derive(clap::Args)]
#[command(after_help = "Loading again adds nothing.\n\n\
    Examples:\n  fm-tool dump old.fm | fm-tool load new.fm\n  zcat pages.jsonl.gz | fm-tool load pages.fm")]
pub struct Args {
    /// The store's folder, made if absent
    store: PathBuf,
    /// The dumps; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    files: Vec<PathBuf>,
    /// Make a new store that takes URLs as they are written, byte for byte
    #[arg(long)]
    exact_urls: bool,
    #[command(flatten)]
    free: FreeArg,
}

struct Source {
    name: String,
    bytes: u64,
    reader: Box<dyn Read>,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let sources: Vec<Source> = args.files.iter().map(|path| open(path, shared)).collect::<Result<_, _>>()?;
    let total_bytes: u64 = sources.iter().map(|source| source.bytes).sum();
    interrupt::listen();
    let mut stores = ToFill::open(&args.store, args.exact_urls, &args.free, shared)?;
    let mut out = Output::stdout(shared.json);
    let (mut outcome, mut done_bytes, bar) = (Outcome::Done, 0, Progress::bytes(shared));
    for Source { name, bytes, reader } in sources {
        let started = Instant::now();
        let report = load::load(&mut stores, &name, reader, &mut |report| {
            let words = || count(report.stored, "version");
            bar.at(done_bytes + report.bytes_read, total_bytes, words);
        })?;
        done_bytes += bytes;
        if report.damaged + report.unusable > 0 {
            outcome = Outcome::Damaged;
        }
        let seconds = started.elapsed().as_secs_f64();
        bar.aside(|| say_problems(&name, &report));
        if out.is_json() {
            out.json(&line(&name, &report, seconds))?;
        } else if !shared.quiet {
            bar.aside(|| words::say(summary(&name, &report, seconds)));
        }
        if report.stopped {
            let mut end = Outcome::Done;
            bar.aside(|| {
                end = interrupt::outcome(format_args!("what was loaded stays; run the same command to go on"))
            });
            outcome = outcome.and(end);
            break;
        }
    }
    drop(bar);
    stores.close()?;
    out.finish()?;
    Ok(outcome)
}

fn open(path: &Path, shared: &Shared) -> Result<Source, Failure> {
    if path == Path::new("-") {
        if io::stdin().is_terminal() && !shared.quiet {
            words::say("reading a dump from standard input; end it with Ctrl-D");
        }
        return Ok(Source { name: "standard input".to_owned(), bytes: 0, reader: Box::new(io::stdin()) });
    }
    let fail = |error: io::Error| Failure::io("open", path, &error);
    let file = File::open(path).map_err(fail)?;
    let about = file.metadata().map_err(fail)?;
    if about.is_dir() {
        return Err(Failure::Usage(format!("{} is a folder; name the files in it", path.display())));
    }
    Ok(Source { name: path.display().to_string(), bytes: about.len(), reader: Box::new(file) })
}

fn say_problems(name: &str, report: &LoadReport) {
    for bad in &report.bad_lines {
        words::complain(format_args!("{name}: line {} (offset {}): {}", bad.line, bad.offset, bad.what));
    }
    let more = report.damaged + report.unusable - report.bad_lines.len() as u64;
    if more > 0 {
        words::complain(format_args!("{name}: {} more", count(more, "bad line")));
    }
}

fn line(name: &str, report: &LoadReport, seconds: f64) -> serde_json::Value {
    let bad = report.bad_lines.iter();
    let bad =
        bad.map(|bad| json!({ "line": bad.line, "offset": bad.offset, "what": bad.what, "damage": !bad.unusable }));
    json!({
        "file": name,
        "bytes_read": report.bytes_read,
        "records": report.records,
        "stored": report.stored,
        "unchanged": report.unchanged,
        "already_there": report.already_there,
        "body_bytes": report.body_bytes,
        "damaged": report.damaged,
        "unusable": report.unusable,
        "refused": report.refused,
        "seconds": (seconds * 1000.0).round() / 1000.0,
        "problems": bad.collect::<Vec<_>>(),
    })
}

fn summary(name: &str, report: &LoadReport, seconds: f64) -> String {
    let mut words = format!("{name}: {} stored", count(report.stored, "version"));
    let parts = [
        (report.unchanged, "with an unchanged body"),
        (report.already_there, "already there"),
        (report.damaged + report.unusable, "passed over"),
        (report.refused, "of them refused by rules of erasures"),
    ];
    for (number, part) in parts.into_iter().filter(|(number, _)| *number > 0) {
        words.push_str(&format!(", {number} {part}"));
    }
    let rate = report.records as f64 / seconds.max(1e-3);
    words + &format!("; {} of bodies in {seconds:.1} s ({rate:.0}/s)", size(report.body_bytes))
}
