//! `archives`: lists the files that hold pages in place (`import --in-place`), checks their
//! records, and notes where files have moved.

use std::ops::ControlFlow;
use std::path::PathBuf;

use filemap::PageStore;
use filemap::archives::is_remote;
use filemap::store::Archive;
use fm_cli::words::{self, count};
use fm_cli::{Failure, Outcome, Output, Progress, fields, interrupt};
use serde_json::json;

use crate::flags::Shared;
use crate::stores::{bucket, opening};

/// List the files that pages were left in, check them, or say where they are now
#[derive(clap::Args)]
#[command(
    after_help = "`fm-tool import --in-place` leaves records in files of an archive. --check reads every record there and \
    names the pages whose record has moved, is missing or has changed; exit code 3. --move says where files are now: each \
    location that is FROM, or below it, gets TO in its place.\n\n\
    Example:\n  fm-tool archives pages.fm --move /archive /mnt/old-archive"
)]
pub struct Args {
    /// The store's folder
    store: PathBuf,
    /// Read every record
    #[arg(long)]
    check: bool,
    /// Note that files are below TO now, no longer below FROM: paths, or http(s) addresses
    #[arg(long = "move", num_args = 2, value_names = ["FROM", "TO"], conflicts_with = "check")]
    moved: Option<Vec<String>>,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    bucket::refuse_as(&args.store, "no page of a bucket is left in a file elsewhere: all have their bodies")?;
    match (&args.moved.as_deref(), args.check) {
        (Some([from, to]), _) => move_files(args, shared, from, to),
        (_, true) => check(args, shared),
        _ => list(args, shared),
    }
}

fn list(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let store = opening::local_to_read(&args.store, shared)?;
    let mut out = Output::stdout(shared.flags);
    for archive in store.archives()? {
        print(&archive, &mut out)?;
    }
    out.end(Outcome::Done)
}

fn print(archive: &Archive, out: &mut Output) -> Result<(), Failure> {
    if out.is_json() {
        return out.json(&fields!(archive; id = archive.id.to_string(), imported_from = archive.name, location));
    }
    out.line(fm_cli::plain(archive.location.as_bytes()))
}

fn move_files(args: &Args, shared: &Shared, from: &str, to: &str) -> Result<Outcome, Failure> {
    let to = match is_remote(to) {
        true => to.to_owned(),
        false => {
            let path = PathBuf::from(to);
            let whole = path.canonicalize().map_err(|error| Failure::io("find", &path, &error))?;
            super::import::in_place::text(&whole)?
        }
    };
    let store = opening::local_to_change(&args.store, shared)?;
    let (mut out, mut moved) = (Output::stdout(shared.flags), 0);
    let result = move_all(&store, from, &to, &mut |archive| {
        moved += 1;
        print(archive, &mut out)
    });
    let closed = store.close();
    result?;
    closed?;
    if moved == 0 {
        words::complain(format_args!("{} has no file at or below {from}", args.store.display()));
        return out.end(Outcome::NotFound);
    }
    if shared.flags.says() {
        words::say(format_args!("{} below {to} now", count(moved, "file")));
    }
    out.end(Outcome::Done)
}

fn move_all(
    store: &PageStore,
    from: &str,
    to: &str,
    each: &mut dyn FnMut(&Archive) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (from, to) = (from.trim_end_matches('/'), to.trim_end_matches('/'));
    for mut archive in store.archives()? {
        let rest = archive.location.strip_prefix(from).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let Some(rest) = rest else { continue };
        archive.location = format!("{to}{rest}");
        store.move_archive(archive.id, &archive.location)?;
        each(&archive)?;
    }
    Ok(store.sync()?)
}

fn check(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    interrupt::listen();
    let store = opening::local_to_read(&args.store, shared)?;
    let mut out = Output::stdout(shared.flags);
    let bar = Progress::records(&shared.flags, None, "records");
    let (mut gone, mut failed) = (0u64, None);
    let there = store.check_archives(&mut |read| {
        bar.add();
        if let Err(error) = read {
            gone += 1;
            match out.is_json() {
                true => failed = out.json(&json!({ "lost": error.to_string() })).err(),
                false => bar.aside(|| words::complain(&error)),
            }
        }
        if failed.is_some() { ControlFlow::Break(()) } else { interrupt::go_on() }
    })?;
    drop(bar);
    if let Some(failure) = failed {
        return Err(failure);
    }
    let words = format!("{} are where they were left, {gone} are not", count(there, "record"));
    out.report(&json!({ "there": there, "lost": gone }), words)?;
    out.finish()?;
    let outcome = if gone > 0 { Outcome::Damaged } else { Outcome::Done };
    if interrupt::asked() {
        return Ok(outcome.and(interrupt::stopped(format_args!("{} read", count(there + gone, "record")))));
    }
    Ok(outcome)
}
