//! `dump`: writes pages out, as JSON Lines, WARC files and their index, or plain files.
//!
//! What is asked for is checked before anything is made. A damaged version is reported and left out; every version that
//! is whole is written.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::ValueEnum;
use filemap::dump::{DumpEvent, DumpOptions, DumpReport, Selection, StatusRange, Target};
use filemap::{Error, Spool, dump, warc};
use serde_json::json;

use crate::address::Address;
use crate::cli::Shared;
use crate::outcome::{Failure, Outcome};
use crate::output::Output;
use crate::progress::Progress;
use crate::target::{Folder, Stream};
use crate::words::{count, size};
use crate::{amount, interrupt, opening, selection, time, words};

const AFTER_HELP: &str = "\
JSON Lines go to standard output or to one file; `load` reads them back. WARC files, their index and plain\n\
files go to a folder, several forms in one pass: pages-00000.warc.gz, pages.cdxj, pages.files/HOST/PATH and so\n\
on, each called .open until it is whole. `import` reads WARC files back; both give an equal store.\n\n\
Examples:\n  \
fm-tool dump pages.fm | gzip > pages.jsonl.gz\n  \
fm-tool dump pages.fm --format warc,cdxj -o archive\n  \
fm-tool dump pages.fm --format files -o site --newest --host example.com --status 2xx";

/// Write pages out: JSON Lines, WARC files, plain files
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The store's folder
    store: PathBuf,
    /// The forms, several at a time if need be
    #[arg(long, value_enum, value_delimiter = ',', default_value = "jsonl")]
    format: Vec<Format>,
    /// The folder for the files, made if absent; for JSON Lines alone, the file; - is standard output
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// What the files' names begin with [default: the store's name]
    #[arg(long)]
    name: Option<String>,
    /// Replace the files of an earlier dump
    #[arg(long)]
    overwrite: bool,
    /// How WARC files are compressed
    #[arg(long, value_enum, default_value_t = Compression::Gzip)]
    compression: Compression,
    /// Begin another WARC file when one has this size
    #[arg(long, value_name = "SIZE", default_value = "1GB", value_parser = amount::parse)]
    roll: u64,
    /// Only the newest version of each page
    #[arg(long)]
    newest: bool,
    /// Every version: the default
    #[arg(long, hide = true, conflicts_with = "newest")]
    all_versions: bool,
    #[command(flatten)]
    selected: Selected,
}

/// Which versions are written.
#[derive(clap::Args)]
struct Selected {
    /// Only pages of this host
    #[arg(long, value_parser = selection::host)]
    host: Option<String>,
    /// And of its subdomains
    #[arg(long, requires = "host")]
    subdomains: bool,
    /// Only pages whose canonical URL begins so
    #[arg(long)]
    prefix: Option<Address>,
    /// Only versions fetched at this time or later
    #[arg(long, value_name = "TIME", value_parser = time::parse, allow_negative_numbers = true)]
    from: Option<i64>,
    /// Only versions fetched before this time
    #[arg(long, value_name = "TIME", value_parser = time::parse, allow_negative_numbers = true)]
    to: Option<i64>,
    /// Only versions with this status: 404, 2xx or 200-299; may be given several times
    #[arg(long, value_delimiter = ',')]
    status: Vec<StatusRange>,
    /// Only versions of this type: text/html or image/*; may be given several times
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    mime: Vec<String>,
    /// No more than so many versions
    #[arg(long, value_name = "NUMBER")]
    limit: Option<u64>,
}

/// The forms of a dump.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A JSON object a line: text as text, other bytes as base64
    Jsonl,
    /// WARC files
    Warc,
    /// The sorted index of the WARC files
    Cdxj,
    /// A tree of plain files, and a list of them
    Files,
}

/// How WARC files are compressed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Compression {
    /// .warc.gz, a member for each record
    Gzip,
    /// .warc.zst, with a dictionary: smaller, read by fewer programs
    Zstd,
    /// .warc
    None,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    check(args)?;
    let store = opening::to_read(&args.store, shared)?;
    let (mut target, is_stdout) = target(args)?;
    let options = options(args, is_stdout);
    let started = Instant::now();
    let bar = Progress::bytes(shared).unless_printing(is_stdout && io::stdout().is_terminal());
    let total_bytes = store.engine().stats().value_bytes;
    let report = dump::dump(&store, &options, &mut *target, &mut |event| match event {
        DumpEvent::Progress(report) => {
            let words = || count(report.written, "version");
            bar.at(report.seen_bytes, total_bytes.max(report.seen_bytes), words);
        }
        DumpEvent::Damage(error) => bar.aside(|| words::complain(error)),
        _ => {}
    });
    drop(bar);
    let report = report.map_err(failure)?;
    if !is_stdout {
        tell(&report, started.elapsed().as_secs_f64(), shared)?;
    }
    if report.inexact > 0 {
        let number = count(report.inexact, "version");
        words::complain(format_args!("{number} with headers too large for WARC's: an import gives other ones"));
    }
    let outcome = if report.damaged > 0 { Outcome::Damaged } else { Outcome::Done };
    if report.stopped {
        let written = count(report.written, "version");
        return Ok(outcome.and(interrupt::outcome(format_args!("the dump has {written}, not all; dump again"))));
    }
    Ok(outcome)
}

/// What makes no sense is refused before anything is opened.
fn check(args: &Args) -> Result<(), Failure> {
    let has = |format: Format| args.format.contains(&format);
    if has(Format::Cdxj) && !has(Format::Warc) {
        return Err(Failure::Usage("cdxj is the index of WARC files; give --format warc,cdxj".to_owned()));
    }
    let is_stream = args.format == [Format::Jsonl] || args.format == [Format::Warc];
    match &args.output {
        Some(path) if path == Path::new("-") && !is_stream => {
            Err(Failure::Usage("only jsonl or warc alone goes to standard output; give a folder with -o".to_owned()))
        }
        None if args.format != [Format::Jsonl] => {
            Err(Failure::Usage("give a folder with -o; for WARC alone, -o - is standard output".to_owned()))
        }
        Some(_) if is_stdout(args) && has(Format::Warc) && io::stdout().is_terminal() => {
            Err(Failure::Usage("WARC files are nothing for a terminal; send them to a file or a program".to_owned()))
        }
        _ => Ok(()),
    }
}

fn is_stdout(args: &Args) -> bool {
    args.output.as_deref().is_none_or(|path| path == Path::new("-"))
}

/// Where the dump goes, and whether that is standard output.
fn target(args: &Args) -> Result<(Box<dyn Target>, bool), Failure> {
    let Some(path) = args.output.as_deref().filter(|path| *path != Path::new("-")) else {
        return Ok((Box::new(Stream::stdout()), true));
    };
    if args.format != [Format::Jsonl] {
        return Ok((Box::new(Folder::open(path, &stem(args), args.overwrite)?), false));
    }
    if path.exists() && !path.is_file() && !path.is_dir() {
        return Ok((Box::new(Stream::device(path)?), true));
    }
    Ok((Box::new(Folder::file(path, args.overwrite)?), false))
}

/// What the files' names begin with.
fn stem(args: &Args) -> String {
    let name = args.name.as_deref().or_else(|| args.store.file_stem()?.to_str()).unwrap_or("pages");
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    let name: String = name.trim_start_matches('.').chars().map(safe).collect();
    if name.is_empty() { "pages".to_owned() } else { name }
}

fn options(args: &Args, is_stdout: bool) -> DumpOptions {
    let formats = args.format.iter().map(|format| match format {
        Format::Jsonl => dump::Format::Jsonl,
        Format::Warc => dump::Format::Warc,
        Format::Cdxj => dump::Format::Cdxj,
        Format::Files => dump::Format::Files,
    });
    let compression = match args.compression {
        Compression::Gzip => warc::Compression::Gzip,
        Compression::Zstd => warc::Compression::Zstd,
        Compression::None => warc::Compression::Plain,
    };
    let folder = args.output.as_deref().filter(|path| path.is_dir());
    // An index is as long as the dump: it is sorted where the dump has its room.
    let spool = Spool { memory_bytes: 64 << 20, dir: folder.map_or_else(std::env::temp_dir, Path::to_owned) };
    DumpOptions::new(&stem(args), &formats.collect::<Vec<_>>())
        .selection(args.selected.selection())
        .newest_only(args.newest)
        .limit(args.selected.limit)
        .compression(compression)
        .stop(interrupt::flag())
        .roll_bytes((!is_stdout).then_some(args.roll))
        .spool(spool)
}

impl Selected {
    fn selection(&self) -> Selection {
        let mut selection = Selection::new();
        if let Some(host) = &self.host {
            selection = selection.host(host, self.subdomains);
        }
        if let Some(prefix) = &self.prefix {
            selection = selection.prefix(prefix.bytes());
        }
        if let Some(from) = self.from {
            selection = selection.from(from);
        }
        if let Some(to) = self.to {
            selection = selection.before(to);
        }
        selection = self.status.iter().fold(selection, |selection, status| selection.status(*status));
        self.mime.iter().fold(selection, |selection, mime| selection.mime(mime))
    }
}

/// The target's errors name what failed, and one is none: a reader that has had enough.
fn failure(error: Error) -> Failure {
    match error {
        Error::Write(error) if error.kind() == io::ErrorKind::BrokenPipe => Failure::PipeClosed,
        error => error.into(),
    }
}

fn tell(report: &DumpReport, seconds: f64, shared: &Shared) -> Result<(), Failure> {
    let mut out = Output::stdout(shared.json);
    if out.is_json() {
        out.json(&json!({
            "seen": report.seen,
            "written": report.written,
            "damaged": report.damaged,
            "inexact": report.inexact,
            "warc_bytes": report.warc_bytes,
            "files": report.files,
            "seconds": (seconds * 1000.0).round() / 1000.0,
        }))?;
    } else if !shared.quiet {
        let rate = report.written as f64 / seconds.max(1e-3);
        let warc = if report.warc_bytes > 0 { format!(", {} of WARC", size(report.warc_bytes)) } else { String::new() };
        words::say(format_args!(
            "{} written to {}{warc} in {seconds:.1} s ({rate:.0}/s)",
            count(report.written, "version"),
            count(report.files.len() as u64, "file"),
        ));
    }
    out.finish()
}
