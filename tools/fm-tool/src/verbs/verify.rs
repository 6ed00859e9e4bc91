//! `verify`: reads everything, or only the structures that lead to pages, and reports every
//! damaged place. Continues an interrupted run.

use std::path::{Path, PathBuf};

use filemap::access::{Listed, Scope};
use filemap::sharded::ShardedStore;
use filemap::store::RevisitCount;
use filemap::{PageRead, PageStore};
use filemap_core::Store;
use filemap_core::check::{Problem, VerifyOptions, VerifyReport};
use fm_cli::words::count;
use fm_cli::{Failure, Outcome, Output, Progress, fields, interrupt, plain, sizes};
use serde_json::json;

#[cfg(feature = "cloud")]
use super::in_bucket;
use crate::flags::Shared;
use crate::revisits;
#[cfg(feature = "cloud")]
use crate::stores::bucket;
use crate::stores::{opening, shards};

/// Read everything and report every damaged place
///
/// An interrupted run records its position in the store and the next one continues from there;
/// damaged places, and what changed since, are read again. `stat` prints when the last full run
/// ended.
#[derive(clap::Args, Clone)]
#[command(after_help = "Exits with 3 if anything is damaged.\n\n\
    In object storage --quick compares the index with a listing of the segments, and nothing is resumed. A full run \
    beside a writer may be unable to compare versions: it says so, and exits with 5.\n\n\
    Example:\n  fm-tool verify pages.fm --full --rate 50MB/s")]
pub struct Args {
    /// The store's folder, or an s3:// location
    store: PathBuf,
    /// Check only the superblock, the index, the heads of files and the end of the log
    #[arg(long)]
    quick: bool,
    /// Read and expand every page: the default
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// Read at most this much a second, such as 50MB/s
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse_rate, conflicts_with = "quick")]
    rate: Option<u64>,
    /// Start from the beginning, not where an interrupted run stopped
    #[arg(long, conflicts_with = "quick")]
    anew: bool,
    /// A folder of a store over several: revisits are counted over all.
    #[arg(skip)]
    is_member: bool,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    // The default has a flag too, for scripts.
    let is_full = args.full || !args.quick;
    #[cfg(feature = "cloud")]
    if let Some(location) = bucket::location(&args.store) {
        let flags = [
            ("--rate", args.rate.is_some(), "a bucket is read as fast as it answers"),
            ("--anew", args.anew, "a verification of a bucket always begins anew"),
        ];
        bucket::refuse_flags(location, &flags)?;
        return in_bucket::verify::run(location, is_full, shared);
    }
    if let Some(members) = shards::members(&args.store)? {
        let one =
            |_: usize, store: &Path| run(&Args { store: store.to_owned(), is_member: true, ..args.clone() }, shared);
        let ended = shards::each(&members, shared, one);
        return after_members(ended, interrupt::asked(), || together(&args.store, is_full, shared));
    }
    let store = opening::engine_to_read(&args.store, shared)?;
    interrupt::listen();
    let bar = Progress::bytes(&shared.flags);
    let mut options = VerifyOptions::new().rate(args.rate);
    options = if is_full { options.resumable().note() } else { options.quick() };
    if args.anew {
        options = options.anew();
    }
    let (mut done_bytes, mut total_bytes) = (0, 0);
    let report = store.verify_with(&options, &mut |progress| {
        (done_bytes, total_bytes) = (progress.done_bytes, progress.total_bytes);
        bar.at(done_bytes, total_bytes, || progress.file.clone());
        interrupt::go_on()
    })?;
    drop(bar);
    let mut out = Output::stdout(shared.flags);
    let told = report.problems.iter().try_for_each(|problem| tell(problem, &mut out));
    let ended = told.and_then(|()| match report.is_complete {
        true => told_whole(store, &report, is_full && !args.is_member, shared, out),
        false => out.end(stopped(&report, done_bytes, total_bytes)),
    });
    match ended {
        // Nobody reads what is damaged, and the exit code says that something is.
        Err(Failure::PipeClosed) if !report.problems.is_empty() => Ok(Outcome::Damaged),
        ended => ended,
    }
}

/// Prints a damaged place.
fn tell(problem: &Problem, out: &mut Output) -> Result<(), Failure> {
    if out.is_json() {
        return out.json(&line(problem));
    }
    let (file, offset, what) = (&problem.file, problem.offset, &problem.what);
    let whose: Vec<String> = problem.keys.iter().map(|key| shown(key)).collect();
    let whose = if whose.is_empty() { String::new() } else { format!(": {}", whose.join(", ")) };
    out.line(plain(format!("{file}: offset {offset}: {what}{whose}").as_bytes()))
}

/// Counts revisits, if asked, and prints the summary of a run that was not interrupted.
fn told_whole(
    store: Store,
    report: &VerifyReport,
    counts_revisits: bool,
    shared: &Shared,
    mut out: Output,
) -> Result<Outcome, Failure> {
    let recent_keys = recent_keys(&store, report);
    let revisits = if counts_revisits { revisits(store)? } else { None };
    out.report(&summary(report, recent_keys, revisits.as_ref()), in_words(report, recent_keys))?;
    if shared.flags.says() {
        revisits::say_unresolved(revisits.as_ref());
    }
    out.finish()?;
    if counts_revisits && revisits.is_none() && interrupt::asked() {
        return Ok(interrupt::stopped("everything was read, but revisits without an original were not counted"));
    }
    Ok(if report.problems.is_empty() { Outcome::Done } else { Outcome::Damaged })
}

/// The outcome of the members, and of what they are together; an interruption leaves that out.
fn after_members(
    each: Result<Outcome, Failure>,
    is_interrupted: bool,
    together: impl FnOnce() -> Result<Outcome, Failure>,
) -> Result<Outcome, Failure> {
    match each {
        Ok(Outcome::Interrupted(_)) => each,
        Ok(_) | Err(Failure::PipeClosed) if is_interrupted => {
            Ok(interrupt::stopped("each folder was read, but not checked with the others"))
        }
        Ok(_) | Err(Failure::PipeClosed) => shards::both(each, together()),
        failed => failed,
    }
}

/// Checks that folders are one store, whole and in order; in full, that each page is where the
/// host of its URL belongs, and counts revisits.
fn together(location: &Path, is_full: bool, shared: &Shared) -> Result<Outcome, Failure> {
    let Some(store) = opening::shards_to_read(location, shared)? else { return Ok(Outcome::Done) };
    let mut out = Output::stdout(shared.flags);
    let strays = match is_full {
        true => strays(store.strays()?, |path, listed| tell_stray(&store, path, listed, &mut out))?,
        false => 0,
    };
    let pages = match store.count(&Scope::new()) {
        // Reported for its member.
        Err(error) if error.is_damage() => None,
        pages => Some(pages?),
    };
    let revisits = if is_full { store.count_revisits(&mut |_| interrupt::go_on())? } else { None };
    let members = store.members().len() as u64;
    let line = json!({
        "members": members,
        "pages": pages,
        "strays": strays,
        "revisits": revisits.as_ref().map(|count| count.revisits),
        "unresolved_revisits": revisits.as_ref().map(|count| count.unresolved),
    });
    let words = match strays {
        0 => format!("{} are one store", count(members, "folder")),
        strays => format!(
            "{} are one store, with {} in another folder than that of their host, put there past the store",
            count(members, "folder"),
            count(strays, "page")
        ),
    };
    match out.report(&line, words) {
        // The end says so, unless there is worse.
        Ok(()) | Err(Failure::PipeClosed) => {}
        Err(failure) => return Err(failure),
    }
    if shared.flags.says() {
        revisits::say_unresolved(revisits.as_ref());
    }
    if is_full && revisits.is_none() {
        return out.end(interrupt::stopped("everything was read, but revisits without an original were not counted"));
    }
    out.end(if strays == 0 { Outcome::Done } else { Outcome::Damaged })
}

/// Number of pages in another folder than that of their host, each told. Once nobody reads that,
/// they are counted all the same.
fn strays<'a>(
    found: impl Iterator<Item = filemap::Result<(&'a Path, Listed)>>,
    mut tell: impl FnMut(&Path, &Listed) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let (mut strays, mut told) = (0, Ok(()));
    for stray in found {
        let (path, listed) = match stray {
            // Reported for its member.
            Err(error) if error.is_damage() => continue,
            stray => stray?,
        };
        strays += 1;
        told = told.and_then(|()| tell(path, &listed));
    }
    match told {
        Ok(()) | Err(Failure::PipeClosed) => Ok(strays),
        Err(failure) => Err(failure),
    }
}

fn tell_stray(store: &ShardedStore, path: &Path, listed: &Listed, out: &mut Output) -> Result<(), Failure> {
    let (path, url) = (path.display().to_string(), String::from_utf8_lossy(&listed.url).into_owned());
    let wanted = store.member_of(&listed.url)?.engine().path().display().to_string();
    if out.is_json() {
        return out.json(&json!({ "stray": url, "member": path, "belongs_into": wanted }));
    }
    out.line(plain(format!("{path}: {url} belongs into {wanted}, where it is looked for").as_bytes()))
}

/// Counts revisits; `None` if interrupted, or if this program does not know the store's
/// canonicaliser.
fn revisits(store: Store) -> Result<Option<RevisitCount>, Failure> {
    match PageStore::over(store) {
        Ok(store) => Ok(opening::with_archives(store).count_revisits(&mut |_| interrupt::go_on())?),
        Err(filemap::Error::UnknownCanonicalizer { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The number of keys that no checkpoint has indexed yet; in a store with an index, of versions.
fn recent_keys(store: &Store, report: &VerifyReport) -> u64 {
    match (store.stats().memtable_entries, report.indexed_keys) {
        (0, _) => 0,
        (_, 0) => store.keys().filter(|key| key.is_ok()).count() as u64,
        (entries, _) => entries,
    }
}

fn line(problem: &Problem) -> serde_json::Value {
    let whose: Vec<String> = problem.keys.iter().map(|key| shown(key)).collect();
    fields!(problem; file, offset, what, urls = whose)
}

/// The URL of a key, with the kind of a record beside a page.
fn shown(key: &[u8]) -> String {
    String::from_utf8_lossy(key).replace('\0', " ")
}

fn stopped(report: &VerifyReport, done_bytes: u64, total_bytes: u64) -> Outcome {
    let found = match report.problems.len() as u64 {
        0 => "no damage so far".to_owned(),
        number => format!("damage in {} so far", count(number, "place")),
    };
    let next = match report.is_resumable {
        true => "the same command continues from that segment",
        false => "run it again to be certain",
    };
    let (done, total) = (sizes::print(done_bytes), sizes::print(total_bytes));
    interrupt::stopped(format_args!("{done} of {total} were read: {found}; {next}"))
}

fn summary(report: &VerifyReport, recent_keys: u64, revisits: Option<&RevisitCount>) -> serde_json::Value {
    fields!(report;
        files, bytes, resumed_bytes, value_records, key_records, index_pages, indexed_keys,
        recent_keys = recent_keys, problems = report.problems.len(), revisits = revisits.map(|count| count.revisits),
        unresolved_revisits = revisits.map(|count| count.unresolved),
    )
}

fn in_words(report: &VerifyReport, recent_keys: u64) -> String {
    let found = match report.problems.len() as u64 {
        0 => "no damage".to_owned(),
        number => format!("damage in {}", count(number, "place")),
    };
    let before = match report.resumed_bytes {
        0 => String::new(),
        bytes => format!(" ({} of them by an earlier run)", sizes::print(bytes)),
    };
    let keys = match (report.indexed_keys, recent_keys) {
        (keys, 0) => count(keys, "key"),
        (0, recent) => format!("{} in the log since the last checkpoint", count(recent, "key")),
        (keys, recent) => format!(
            "{} in the index, {} in the log since the last checkpoint",
            count(keys, "key"),
            count(recent, "version")
        ),
    };
    format!(
        "{}{before} read in {}, {}, {keys}: {found}",
        sizes::print(report.bytes),
        count(report.files, "file"),
        count(report.value_records, "value record"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_damage_is_left_to_the_members_when_strays_are_searched() {
        let nobody = |_: &Path, _: &Listed| Ok(());
        let closed = || Err(filemap::Error::Engine(filemap_core::Error::Closed));
        let lost = || {
            let (location, detail) = ("a.fm".to_owned(), "checksum mismatch".to_owned());
            Err(filemap::Error::Remote { location, detail, is_damage: true, is_of_one_page: false })
        };
        assert!(matches!(strays([lost()].into_iter(), nobody), Ok(0)));
        assert!(matches!(strays([lost(), closed()].into_iter(), nobody), Err(Failure::Io(_))));
    }

    #[test]
    fn an_interruption_after_the_last_member_is_the_outcome() {
        let unasked = || -> Result<Outcome, Failure> { panic!("it was interrupted") };
        for each in [Ok(Outcome::Done), Ok(Outcome::Damaged), Err(Failure::PipeClosed), Ok(Outcome::Interrupted(2))] {
            assert!(matches!(after_members(each, true, unasked), Ok(Outcome::Interrupted(_))));
        }
        let io = || Err(Failure::Io("no disk".to_owned()));
        assert!(matches!(after_members(io(), true, unasked), Err(Failure::Io(_))));
        assert!(matches!(after_members(Ok(Outcome::Done), false, || Ok(Outcome::Damaged)), Ok(Outcome::Damaged)));
    }
}
