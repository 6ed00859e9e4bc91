//! `dump`: writes pages as JSON Lines, WARC files and their index, a WACZ file, plain files, or a
//! Parquet file.
//!
//! Arguments are checked before any file is made. Damaged versions are reported and left out; all
//! others are written.

#[cfg(feature = "cloud")]
mod in_bucket;
mod parquet;
mod target;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::ValueEnum;
use filemap::dump::{DumpEvent, DumpOptions, DumpReport, MimeRange, OutputFile, Selection, StatusRange, Target, Wacz};
use filemap::warc::Spool;
use filemap::{Error, PageStore, dump, warc};
use fm_cli::words::{self, count};
use fm_cli::{Failure, Outcome, Output, Progress, fields, interrupt, sink, sizes, times};

use self::target::{Existing, Folder, Stream, WholeFile};
use crate::arguments::selection;
use crate::arguments::urls::Address;
use crate::flags::Shared;
use crate::stores::{bucket, opening, shards};

const AFTER_HELP: &str = "\
JSON Lines go to standard output or to one file. WARC files, their index and plain files go to a folder, several \
formats in one pass: pages-00000.warc.gz, pages.cdxj, pages.files/HOST/PATH and so on, each called .open until it \
is complete. WARC alone goes to one file if its name ends in .warc, .warc.gz or .warc.zst, WACZ always to one file. \
`import` reads JSON Lines, WARC and WACZ back; each gives an equal store. Parquet is a table of all versions and \
records beside pages, or of pages and variants with --newest: one row each, the columns named as in Common Crawl's \
index, in NAME.parquet or, in a folder, pages.parquet. The value log is read once; for --host and --prefix with few \
pages, at most 4096 or one in 32, their records alone. Of object storage versions come in the order of their URLs; revisits \
of other URLs have no body there, and Parquet needs a folder.\n\n\
Examples:\n  \
fm-tool dump pages.fm | gzip > pages.jsonl.gz\n  \
fm-tool dump pages.fm --format warc,cdxj -o archive\n  \
fm-tool dump pages.fm --format warc -o pages.warc.gz\n  \
fm-tool dump pages.fm --format wacz -o pages.wacz\n  \
fm-tool dump pages.fm --format parquet -o pages.parquet --newest --host example.com --subdomains\n  \
fm-tool dump pages.fm --format files -o site --newest --host example.com --status 2xx";

/// The default of `--roll`.
const ROLL_BYTES: u64 = 1_000_000_000;

/// Write pages as JSON Lines, WARC files, WACZ, plain files or Parquet
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The store's folder, shards: with several, written one after the other, or an s3:// location
    store: PathBuf,
    /// One or more formats
    #[arg(long, value_enum, value_delimiter = ',', default_value = "jsonl")]
    format: Vec<Format>,
    /// The folder for the files, made if missing; for one format alone, the file; - is standard
    /// output
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// The beginning of the files' names [default: the store's name; `pages` for several folders]
    #[arg(long)]
    name: Option<String>,
    /// Replace the files of an earlier dump
    #[arg(long)]
    overwrite: bool,
    /// Compression of WARC files [default: by the name of a single file, else gzip]
    #[arg(long, value_enum)]
    compression: Option<Compression>,
    /// Start another WARC file at this size [default: 1GB]
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse_positive)]
    roll: Option<u64>,
    /// Only the newest version of each page
    #[arg(long)]
    newest: bool,
    /// Every version: the default
    #[arg(long, hide = true, conflicts_with = "newest")]
    all_versions: bool,
    #[command(flatten)]
    selected: Selected,
}

/// Selection of versions.
#[derive(clap::Args)]
struct Selected {
    /// Only pages of this host
    #[arg(long, value_parser = selection::host)]
    host: Option<String>,
    /// Include its subdomains
    #[arg(long, requires = "host")]
    subdomains: bool,
    /// Only pages whose canonical URL begins with this
    #[arg(long)]
    prefix: Option<Address>,
    /// Only versions fetched at this time or later
    #[arg(long, value_name = "TIME", value_parser = times::parse, allow_negative_numbers = true)]
    from: Option<i64>,
    /// Only versions fetched before this time
    #[arg(long, value_name = "TIME", value_parser = times::parse, allow_negative_numbers = true)]
    to: Option<i64>,
    /// Only versions with this status: 404, 2xx or 200-299; may be given several times
    #[arg(long, value_delimiter = ',')]
    status: Vec<StatusRange>,
    /// Only versions of this media type: text/html or image/*; may be given several times
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    mime: Vec<MimeRange>,
    /// At most this many versions
    #[arg(long, value_name = "NUMBER")]
    limit: Option<u64>,
}

/// Formats of a dump.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A JSON object a line: text as text, other bytes as base64
    Jsonl,
    /// WARC files
    Warc,
    /// The sorted index of the WARC files
    Cdxj,
    /// A tree of plain files and a list of them: pages only
    Files,
    /// One WACZ file: WARC files, their index and a list of pages, zipped
    Wacz,
    /// One Parquet file: a table, compressed by zstd
    Parquet,
}

/// Compression of WARC files.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Compression {
    /// .warc.gz, one member a record
    Gzip,
    /// .warc.zst with a dictionary: smaller, but fewer programs read it
    Zstd,
    /// .warc
    None,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    check(args)?;
    bucket::refuse_unbuilt(&args.store)?;
    #[cfg(feature = "cloud")]
    if let Some(location) = bucket::location(&args.store) {
        return in_bucket::run(location, args, shared);
    }
    let stores = opening::members_to_read(&args.store, shared)?;
    interrupt::listen();
    if args.format == [Format::Parquet] {
        return parquet::run(args, &stores, shared);
    }
    let mut to = to(args)?;
    let is_stdout = matches!(to, To::Stream(_));
    let options = options(args, &to);
    let started = Instant::now();
    let bar = Progress::bytes(&shared.flags).unless_printing(is_stdout && io::stdout().is_terminal());
    let total_bytes = value_bytes(&stores);
    let report = dump::dump_members(&stores, &options, to.target(), &mut |event| {
        match event {
            DumpEvent::Progress(report) => {
                let words = || count(report.written, "version");
                bar.at(report.seen_bytes, total_bytes.max(report.seen_bytes), words);
            }
            DumpEvent::Damage(error) | DumpEvent::NoBody(error) => bar.aside(|| words::complain(error)),
            _ => {}
        }
        interrupt::go_on()
    });
    drop(bar);
    let mut report = report.map_err(failure)?;
    to.finish(&mut report)?;
    if !is_stdout {
        tell(&report, started.elapsed().as_secs_f64(), shared)?;
    }
    conclude(&report)
}

/// Bytes of the value logs.
fn value_bytes(stores: &[PageStore]) -> u64 {
    stores.iter().map(|store| store.engine().stats().value_bytes).sum()
}

/// Reports what was left out, and returns the outcome.
fn conclude(report: &DumpReport) -> Result<Outcome, Failure> {
    let notes = [
        (
            count(report.without_place, "record"),
            "beside pages (requests, metadata, conversions) left out: plain files have no place for them",
        ),
        (count(report.inexact, "version"), "with headers too large for WARC: an import gives different ones"),
        (count(report.bodiless, "version"), "written without the body: the version that it refers to cannot be read"),
    ];
    for (number, note) in notes.iter().filter(|(number, _)| !number.starts_with("0 ")) {
        words::complain(format_args!("{number} {note}"));
    }
    let outcome = if report.damaged + report.bodiless > 0 { Outcome::Damaged } else { Outcome::Done };
    if report.is_cancelled {
        let written = count(report.written, "version");
        let what = "incomplete files are called .open";
        return Ok(outcome.and(interrupt::stopped(format_args!("the dump has {written}, not all; {what}; dump again"))));
    }
    Ok(outcome)
}

/// Refuses contradictory arguments before anything is opened.
fn check(args: &Args) -> Result<(), Failure> {
    let has = |format: Format| args.format.contains(&format);
    if has(Format::Cdxj) && !has(Format::Warc) {
        return Err(Failure::Usage("cdxj is the index of WARC files; give --format warc,cdxj".to_owned()));
    }
    if has(Format::Wacz) {
        return check_wacz(args);
    }
    if has(Format::Parquet) {
        return parquet::check(args);
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
            Err(Failure::Usage("WARC files are not for a terminal; send them to a file or a program".to_owned()))
        }
        _ => check_one_file(args),
    }
}

/// A WACZ file is one file, and contains its own WARC files and index.
fn check_wacz(args: &Args) -> Result<(), Failure> {
    let refuse = |why: &str| Err(Failure::Usage(why.to_owned()));
    if args.format != [Format::Wacz] {
        return refuse("a WACZ file contains WARC files and their index; give --format wacz alone");
    }
    if args.compression == Some(Compression::Zstd) {
        return refuse("WACZ players do not read zstd; give --compression gzip or none");
    }
    match &args.output {
        Some(path) if path != Path::new("-") => Ok(()),
        _ => refuse("a WACZ file is written to a file; give -o NAME.wacz"),
    }
}

/// Checks for a dump into one WARC file, whose name sets the compression.
fn check_one_file(args: &Args) -> Result<(), Failure> {
    let Some((path, compression)) = args.output.as_deref().and_then(|path| warc_name(path).map(|is| (path, is))) else {
        return Ok(());
    };
    let name = path.display();
    let refuse = |why: &str| Err(Failure::Usage(format!("{name} is one WARC file; {why}")));
    if path.is_dir() || args.format == [Format::Jsonl] {
        return Ok(());
    }
    if args.format != [Format::Warc] {
        return refuse("give a folder for several formats");
    }
    if args.roll.is_some() {
        return refuse("--roll needs a folder");
    }
    if args.name.is_some() {
        return refuse("--name is for the files of a folder");
    }
    match args.compression {
        Some(other) if other != compression => refuse("its name contradicts --compression"),
        _ => Ok(()),
    }
}

/// Compression of a WARC file, by its name; `None` if it is not a WARC file's name.
fn warc_name(path: &Path) -> Option<Compression> {
    let name = path.file_name()?.to_str()?;
    let ends = |end: &str| name.len() > end.len() && name.ends_with(end);
    let ends = [(".warc.gz", Compression::Gzip), (".warc.zst", Compression::Zstd), (".warc", Compression::None)]
        .map(|(end, compression)| ends(end).then_some(compression));
    ends.into_iter().flatten().next()
}

/// The single WARC file to write, and its compression.
fn one_warc(args: &Args) -> Option<(&Path, Compression)> {
    let path = args.output.as_deref().filter(|path| args.format == [Format::Warc] && !path.is_dir())?;
    warc_name(path).map(|compression| (path, compression))
}

impl Args {
    fn existing(&self) -> Existing {
        if self.overwrite { Existing::Replaced } else { Existing::Refused }
    }
}

fn is_stdout(args: &Args) -> bool {
    args.output.as_deref().is_none_or(|path| path == Path::new("-"))
}

/// Target of a dump.
enum To {
    Folder(Folder),
    /// Standard output, or a device.
    Stream(Stream),
    Wacz(Box<Wacz<WholeFile>>, String),
}

impl To {
    fn target(&mut self) -> &mut dyn Target {
        match self {
            To::Folder(folder) => folder,
            To::Stream(stream) => stream,
            To::Wacz(wacz, _) => &mut **wacz,
        }
    }

    /// Finishes a WACZ file, unless the dump was stopped; other files are finished already.
    fn finish(self, report: &mut DumpReport) -> Result<(), Failure> {
        let To::Wacz(wacz, name) = self else { return Ok(()) };
        report.files.clear();
        if report.is_cancelled {
            return Ok(());
        }
        let whole = wacz.finish(report).and_then(|file| Box::new(file).close());
        whole.map_err(|error| failure(Error::Write(error)))?;
        report.files.push(name);
        Ok(())
    }
}

fn to(args: &Args) -> Result<To, Failure> {
    let Some(path) = args.output.as_deref().filter(|path| *path != Path::new("-")) else {
        return Ok(To::Stream(Stream::stdout()));
    };
    if args.format == [Format::Wacz] {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        return Ok(To::Wacz(Box::new(Wacz::new(WholeFile::at(path, args.existing())?)), name));
    }
    if args.format != [Format::Jsonl] && one_warc(args).is_none() {
        return Ok(To::Folder(Folder::open(path, &stem(args), args.existing())?));
    }
    if path.exists() && !path.is_file() && !path.is_dir() {
        return Ok(To::Stream(Stream::device(path)?));
    }
    Ok(To::Folder(Folder::file(path, args.existing())?))
}

/// The first part of the files' names.
fn stem(args: &Args) -> String {
    let of_file = one_warc(args).and_then(|(path, _)| path.file_name()?.to_str()?.rsplit_once(".warc"));
    let wacz = || args.output.as_deref().filter(|_| args.format == [Format::Wacz])?.file_stem()?.to_str();
    let of_file = of_file.map(|(stem, _)| stem).or_else(wacz);
    let of_store = || Some(&args.store).filter(|store| !shards::is_shards(store))?.file_stem()?.to_str();
    let name = args.name.as_deref().or(of_file).or_else(of_store).unwrap_or("pages");
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    let name: String = name.trim_start_matches('.').chars().map(safe).collect();
    if name.is_empty() { "pages".to_owned() } else { name }
}

fn options(args: &Args, to: &To) -> DumpOptions {
    let formats = args.format.iter().flat_map(|format| match format {
        Format::Jsonl => &[dump::Format::Jsonl][..],
        Format::Warc => &[dump::Format::Warc],
        Format::Cdxj => &[dump::Format::Cdxj],
        Format::Files => &[dump::Format::Files],
        Format::Wacz => &[dump::Format::Warc, dump::Format::Cdxj, dump::Format::Pages],
        // Tables are written by `parquet`.
        Format::Parquet => &[],
    });
    let one = one_warc(args).map(|(_, compression)| compression);
    let compression = match one.or(args.compression).unwrap_or(Compression::Gzip) {
        Compression::Gzip => warc::Compression::Gzip,
        Compression::Zstd => warc::Compression::Zstd,
        Compression::None => warc::Compression::Plain,
    };
    let folder = args.output.as_deref().filter(|path| path.is_dir());
    let beside = args.output.as_deref().filter(|_| args.format == [Format::Wacz]).map(sink::folder_of);
    // The index grows with the dump, so it is sorted on the same disk.
    let dir = folder.or(beside).map_or_else(std::env::temp_dir, Path::to_owned);
    let spool = Spool::default().memory_bytes(64 << 20).dir(dir);
    let options = DumpOptions::new(&stem(args), &formats.copied().collect::<Vec<_>>())
        .selection(args.selected.selection())
        .limit(args.selected.limit)
        .compression(compression)
        .roll_bytes((!matches!(to, To::Stream(_)) && one.is_none()).then_some(args.roll.unwrap_or(ROLL_BYTES)))
        .spool(spool);
    if args.newest { options.newest_only() } else { options }
}

impl Selected {
    fn selection(&self) -> Selection {
        let mut selection = Selection::new();
        if let Some(host) = &self.host {
            selection = if self.subdomains { selection.host_with_subdomains(host) } else { selection.host(host) };
        }
        selection = self.prefix.iter().fold(selection, |selection, prefix| selection.prefix(prefix.bytes()));
        selection = self.from.into_iter().fold(selection, Selection::from);
        selection = self.to.into_iter().fold(selection, Selection::before);
        selection = self.status.iter().copied().fold(selection, Selection::status);
        self.mime.iter().cloned().fold(selection, Selection::mime)
    }
}

/// Errors of the target name the file. A closed pipe is not an error.
fn failure(error: Error) -> Failure {
    match error {
        Error::Write(error) if error.kind() == io::ErrorKind::BrokenPipe => Failure::PipeClosed,
        error => error.into(),
    }
}

fn tell(report: &DumpReport, seconds: f64, shared: &Shared) -> Result<(), Failure> {
    let line = fields!(report;
        seen, written, without_place, damaged, bodiless, inexact, warc_bytes, files,
        seconds = (seconds * 1000.0).round() / 1000.0,
    );
    let rate = report.written as f64 / seconds.max(1e-3);
    let warc = match report.warc_bytes {
        0 => String::new(),
        bytes => format!(", {} of WARC", sizes::print(bytes)),
    };
    let (versions, files) = (count(report.written, "version"), count(report.files.len() as u64, "file"));
    let mut out = Output::stdout(shared.flags);
    out.report(&line, format_args!("{versions} written to {files}{warc} in {seconds:.1} s ({rate:.0}/s)"))?;
    out.finish()
}
