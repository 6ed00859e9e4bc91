//! `import`: reads WARC files, WACZ files, JSON Lines and caches of other programs into a store.
//!
//! Every file is opened before the store is made. Damage is reported with file and offset, and
//! sets the exit code; all undamaged records are imported. Running an import again adds nothing,
//! so it also continues an interrupted one.

mod caches;
pub mod in_place;
pub mod json_lines;
pub mod report;
mod source;
mod target;

use std::path::PathBuf;
use std::time::Instant;

use filemap::import::{ImportOptions, ImportReport};
use filemap::page::RecordKind;
use fm_cli::words::{self, count};
use fm_cli::{Failure, Outcome, Output, Progress, interrupt};
use serde_json::json;

use self::report::{Brought, Form, line, say_problems, summary};
use self::source::{Content, Source};
use self::target::Target;
use crate::flags::Shared;
use crate::revisits;
use crate::stores::file_system;
use crate::stores::opening::NewStore;

/// Import WARC files, WACZ files, JSON Lines and caches of other programs
#[derive(clap::Args)]
#[command(
    after_help = "Formats are recognised by content: WARC and ARC (plain, gzip or zstd), WACZ, and JSON Lines as \
    `dump` writes them; a file called .jsonl is JSON Lines. Running an import again adds nothing. A \
    server gets WARC, ARC and WACZ files as they are and imports them, and JSON Lines one by one. Object storage takes \
    JSON Lines; import other files into a folder, and copy that.\n\n\
    --from reads the HTTP cache of Scrapy (either storage) or of requests-cache (SQLite or files; serializers pickle \
    and json). Pickles are read as data: nothing in them is run. Entries of Scrapy are variants of their URL, \
    scrapy:SPIDER:FINGERPRINT. An entry that cannot be read is counted, named and left out; exit code 3.\n\n\
    --in-place takes WARC files and their indexes (CDXJ or CDX, plain or gzip), and copies no body: pages are read from \
    the files, which must stay. `fm-tool archives` lists and checks them, and takes note of a move; --adopt copies all \
    into the store. A missing file of an index is named; exit code 3. A store over several folders takes all but \
    --in-place and --adopt.\n\n\
    Examples:\n  fm-tool import pages.fm crawl-*.warc.gz\n  fm-tool dump old.fm | fm-tool import new.fm -\n  \
    fm-tool import pages.fm --from scrapy-httpcache .scrapy/httpcache\n  \
    fm-tool import http://127.0.0.1:8640 crawl.warc.gz"
)]
pub struct Args {
    /// The store's folder, shards: with several, or an s3:// location, made if missing; or a
    /// server's address
    pub store: PathBuf,
    /// The files; - is standard input
    #[arg(value_name = "FILE", required_unless_present = "adopt")]
    pub files: Vec<PathBuf>,
    /// Keep content codings (gzip, br, ...) as they came instead of decoding them
    #[arg(long)]
    pub as_received: bool,
    /// The files are a cache of this program
    #[arg(long, value_enum, conflicts_with = "keep")]
    pub from: Option<caches::CacheKind>,
    /// Leave the spider's name out of variants: one entry for all spiders (FILEMAP_SHARED)
    #[arg(long, requires = "from")]
    pub shared: bool,
    /// Keep these records beside their pages; may be given several times
    #[arg(long, value_name = "KIND", value_enum, value_delimiter = ',')]
    pub keep: Vec<Keep>,
    /// Leave the records where they are: keep descriptions, and read bodies from the files
    #[arg(long, conflicts_with_all = ["from", "as_received"])]
    pub in_place: bool,
    /// Place of the files that an index names: a folder, or an http(s) address [default: beside
    /// the index, or in ../archive]
    #[arg(long, value_name = "PLACE", requires = "in_place")]
    pub archive: Option<String>,
    /// Copy the bodies of all pages that were left in place into the store
    #[arg(long, conflicts_with_all = ["files", "in_place", "from", "as_received", "keep", "exact_urls"])]
    pub adopt: bool,
    #[command(flatten)]
    pub new: NewStore,
    #[arg(skip)]
    pub form: Form,
}

/// Kinds of records that are kept only on request.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Keep {
    /// The request that a page answers
    Request,
    /// Notes about a page
    Metadata,
    /// A page in another form, such as its text
    Conversion,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    if args.adopt {
        return in_place::adopted(&args.store, shared);
    }
    let sources = open(args, shared)?;
    let total_bytes = sources.iter().map(|source| source.bytes).sum();
    let mut target = Target::open(&args.store, &args.new, args.from.is_some(), shared)?;
    let (is_server, mut out) = (target.is_server(), Output::stdout(shared.flags));
    let (mut outcome, mut failure, mut told) = (Outcome::Done, None, Ok(()));
    let (mut done_bytes, mut done_files, mut total) = (0, 0, ImportReport::default());
    let (files, started) = (sources.len(), Instant::now());
    let bar = progress(&sources, shared);
    for source in sources {
        let (name, bytes) = (source.name.clone(), source.bytes);
        let brought = bring(&mut target, args, source, &mut |read, pages| {
            let pages = total.stored + pages;
            let rate = pages as f64 / started.elapsed().as_secs_f64().max(1e-3);
            bar.at(done_bytes + read, total_bytes, || match pages {
                0 if is_server => "sent".to_owned(),
                pages => format!("{}, {rate:.0} pages/s", count(pages, "page")),
            });
        });
        let brought = match brought {
            // A refused file does not stop the others.
            Err(failure @ Failure::Usage(_)) => {
                outcome = outcome.and(Outcome::of_one(failure)?);
                done_files += 1;
                continue;
            }
            Err(Failure::Full(words)) => return Err(full(target, args, &name, &words)),
            Err(Failure::Floor(words)) => return Err(full(target, args, &name, &format!("{words} (--min-free)"))),
            Err(failure) => return Err(kept(target, failure)),
            Ok(brought) => brought,
        };
        done_bytes += bytes;
        done_files += 1;
        if brought.report.losses() > 0 {
            outcome = outcome.and(Outcome::Damaged);
        }
        if !brought.refused.is_empty() {
            outcome = outcome.and(Outcome::Refused);
        }
        bar.aside(|| {
            say_problems(&name, &brought, args.form);
            if shared.flags.says() {
                words::say(summary(&name, &brought.report, brought.seconds, args.form));
            }
        });
        if out.is_json() {
            // Files are imported even if nobody reads what is printed.
            told = told.and_then(|()| print(&name, &brought, &target, args.form, &mut out));
        }
        target.add_up(&mut total, brought.report)?;
        failure = brought.failure.map(|words| not_whole(&name, &words));
        if interrupt::asked() || failure.is_some() {
            break;
        }
    }
    drop(bar);
    let summed = sum_up(target, &mut total, (files, started), args.form, shared, out);
    if let Some(failure) = failure {
        return Err(failure);
    }
    let is_stopped = total.is_cancelled || (interrupt::asked() && done_files < files);
    ended(outcome, told, summed, || is_stopped.then(|| stopped(total.stored, is_server)))
}

/// The end of a run: a closed pipe hides no other outcome, and no failure of closing the store.
fn ended(
    outcome: Outcome,
    told: Result<(), Failure>,
    closed: Result<(), Failure>,
    stopped: impl FnOnce() -> Option<Outcome>,
) -> Result<Outcome, Failure> {
    let ended = Outcome::closed(told.map(|()| Outcome::Done), closed);
    if !matches!(ended, Ok(_) | Err(Failure::PipeClosed)) {
        return ended;
    }
    let outcome = stopped().map_or(outcome, |stopped| outcome.and(stopped));
    if outcome == Outcome::Done { ended } else { Ok(outcome) }
}

/// The failure, after which object storage has what was stored before: it keeps what was synced.
fn kept(target: Target<'_>, failure: Failure) -> Failure {
    if matches!(target, Target::Bucket(_))
        && let Err(error) = target.close()
    {
        words::complain(format_args!("pages of this run may not be stored: {error}"));
    }
    failure
}

/// Opens the files, and refuses those that cannot be imported as asked for. From here on an
/// interruption stops the work in order.
fn open(args: &Args, shared: &Shared) -> Result<Vec<Source>, Failure> {
    let sources: Vec<Source> =
        args.files.iter().map(|path| Source::open(path, args.form, args.from, shared)).collect::<Result<_, _>>()?;
    in_place::check(&args.store, args.in_place.then_some(args.archive.as_deref()), &sources)?;
    interrupt::listen();
    Ok(sources)
}

fn progress(sources: &[Source], shared: &Shared) -> Progress {
    match sources.iter().any(|source| source.is_endless) {
        true => Progress::endless_bytes(&shared.flags),
        false => Progress::bytes(&shared.flags),
    }
}

/// Outcome of an interrupted import.
fn stopped(stored: u64, is_server: bool) -> Outcome {
    let stored = count(stored, "page");
    let safe = if is_server { "without those of the last file, not counted here" } else { "which are safe" };
    let what = "the same command continues from there, and adds nothing twice";
    interrupt::stopped(format_args!("{stored} stored, {safe}; {what}"))
}

/// The failure of a file that a server has taken in part; the part was counted.
fn not_whole(name: &str, words: &str) -> Failure {
    let safe = "what is counted is stored; the same command continues from there, and adds nothing twice";
    Failure::Io(format!("{name}: the server has not all of it: {words}; {safe}"))
}

/// Closes the store, and prints the sums of several files.
fn sum_up(
    target: Target<'_>,
    total: &mut ImportReport,
    (files, started): (usize, Instant),
    form: Form,
    shared: &Shared,
    mut out: Output,
) -> Result<(), Failure> {
    // An original may be in a later file than its revisits.
    let revisits = target.revisits(std::mem::take(&mut total.unresolved))?;
    if !shared.flags.quiet {
        revisits::say_unresolved(revisits.as_ref());
    }
    target.close()?;
    let sums = files > 1 && form == Form::Import;
    if let (true, true, Some(count)) = (out.is_json(), sums, &revisits) {
        out.json(&json!({ "files": files, "revisits": count.revisits, "unresolved_revisits": count.unresolved }))?;
    }
    if sums && !out.is_json() && !shared.flags.quiet {
        words::say(summary("in all", total, started.elapsed().as_secs_f64(), form));
    }
    out.finish()
}

/// Prints the result of one file as a JSON line.
fn print(name: &str, brought: &Brought, target: &Target<'_>, form: Form, out: &mut Output) -> Result<(), Failure> {
    let revisits = match brought.revisits {
        Some(_) => brought.revisits.clone(),
        None => target.revisits(brought.report.unresolved.clone())?,
    };
    out.json(&line(name, brought, revisits.as_ref(), form))
}

/// The failure of a full disk: what is safe, and what to do.
fn full(target: Target<'_>, args: &Args, name: &str, words: &str) -> Failure {
    let what = if args.keep.is_empty() { "page" } else { "record" };
    let stored = count(target.puts(), what);
    let is_durable = target.store().is_none_or(|store| store.pages().sync().is_ok());
    // What cannot be written now is recovered from the log at the next opening.
    let _ = target.store().map(|store| store.pages().close());
    let safe = match is_durable {
        true => format!("{stored} of this run are stored and safe"),
        false => format!("{stored} of this run are stored, the last of them safe once the store was opened again"),
    };
    let disk = file_system::of(target.last_folder().unwrap_or(&args.store));
    Failure::Full(format!(
        "{name}: {disk} is full: {words}; {safe}; with more space the same command continues from there"
    ))
}

/// Imports one file; `progress` gets bytes read and pages stored.
fn bring(
    target: &mut Target<'_>,
    args: &Args,
    source: Source,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Brought, Failure> {
    let started = Instant::now();
    let Source { name, content, reader, path, .. } = source;
    if let (Content::Cache(from), Target::Here(stores)) = (content, &mut *target) {
        let options = if args.as_received { ImportOptions::new().as_received() } else { ImportOptions::new() };
        let mut brought = caches::import(stores, (from, args.shared), &path, options, progress)?;
        brought.seconds = started.elapsed().as_secs_f64();
        return Ok(brought);
    }
    if content == Content::Index {
        let places = (name.as_str(), path.as_path());
        let mut brought = target.index(places, reader, args.archive.as_deref(), progress)?;
        brought.seconds = started.elapsed().as_secs_f64();
        return Ok(brought);
    }
    let (content, reader) =
        content.resolve(reader).map_err(|error| Failure::Io(format!("cannot read {name}: {error}")))?;
    let mut brought = if content == Content::JsonLines {
        target.json_lines(&name, reader, progress)?
    } else {
        let options = args.keep.iter().fold(ImportOptions::new(), |options, keep| {
            options.keep(match keep {
                Keep::Request => RecordKind::Request,
                Keep::Metadata => RecordKind::Metadata,
                Keep::Conversion => RecordKind::Conversion,
            })
        });
        let options = if args.as_received { options.as_received() } else { options };
        let options = if args.in_place { in_place::options(options, &path)? } else { options };
        target.archive((&name, content), reader, &options, progress)?
    };
    brought.seconds = started.elapsed().as_secs_f64();
    Ok(brought)
}

#[cfg(test)]
mod tests {
    use filemap::{Options, PageStore};

    use super::*;

    #[test]
    fn a_failure_leaves_object_storage_what_was_stored_before() {
        let dir = tempfile::tempdir().unwrap();
        let store = PageStore::create(dir.path().join("pages.fm"), Options::new()).unwrap();
        let failure = kept(Target::Bucket(Box::new(store.clone())), Failure::Io("reading failed".to_owned()));
        assert!(matches!(failure, Failure::Io(words) if words == "reading failed"));
        let page = filemap::Page::new("http://example.com/", 1_700_000_000_000, 200, "late");
        assert!(store.put_page(&page).is_err(), "it was closed, which makes pages durable");
    }

    #[test]
    fn a_closed_pipe_hides_nothing() {
        let pipe = || Err(Failure::PipeClosed);
        let io = || Err(Failure::Io("no disk".to_owned()));
        assert!(matches!(ended(Outcome::Done, pipe(), pipe(), || None), Err(Failure::PipeClosed)));
        assert!(matches!(ended(Outcome::Damaged, Ok(()), pipe(), || None), Ok(Outcome::Damaged)));
        assert!(matches!(ended(Outcome::Refused, pipe(), Ok(()), || None), Ok(Outcome::Refused)));
        assert!(matches!(ended(Outcome::Done, pipe(), io(), || None), Err(Failure::Io(_))));
        let stopped = || Some(Outcome::Interrupted(2));
        assert!(matches!(ended(Outcome::Damaged, pipe(), pipe(), stopped), Ok(Outcome::Interrupted(2))));
        assert!(matches!(ended(Outcome::Done, Ok(()), Ok(()), || None), Ok(Outcome::Done)));
    }
}
