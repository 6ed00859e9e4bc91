//! `repair`: builds a store from the remains of a damaged one, and lists what is lost.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use filemap::PageStore;
use filemap_core::repair::{Loss, RepairReport, RepairTo};
use filemap_core::{Error, Options, StorageError, Store};
use fm_cli::words::{self, count};
use fm_cli::{Failure, Outcome, Output, Progress, fields, interrupt, plain, sink, sizes, times};
use serde_json::{Value, json};
use urlindex::{Canonicalizer, Whatwg};

#[cfg(feature = "cloud")]
use super::in_bucket;
use crate::flags::Shared;
use crate::json as fields;
use crate::stores::{bucket, opening, place, remote, shards};

/// Memory for a batch of keys, in bytes. Fewer batches write the index faster; more overlap better
/// with reading the log.
const BATCH_BYTES: usize = 128 << 20;

/// Build a store from the remains of a damaged one
///
/// Needs only the value segments (value*.dat): index, key log and superblock are rebuilt. Every
/// page with a whole record comes back; what was removed stays removed. Lost places are listed by
/// file and offset.
#[derive(clap::Args, Clone)]
#[command(after_help = "Exits with 3 if anything was lost.\n\n\
    Over several folders, with --in-place: a folder whose note of its membership is lost or wrong gets it again, if the other \
    folders and its own pages prove it.\n\n\
    In object storage, with --in-place: a new index is made of the segments, which stay. No writer opens the store until \
    it has ended. Exits with 3 too if removed pages may be there again, or if records were left out that no index knows \
    to be committed.\n\n\
    Example:\n  fm-tool repair damaged.fm pages.fm")]
pub struct Args {
    /// The damaged store's folder, or an s3:// location
    source: PathBuf,
    /// A new folder for the repaired store; the damaged one is not changed
    #[arg(conflicts_with = "in_place", required_unless_present = "in_place")]
    target: Option<PathBuf>,
    /// Repair the store where it is; asks first, or needs --yes
    #[arg(long)]
    in_place: bool,
    /// Do not ask
    #[arg(short, long, requires = "in_place")]
    yes: bool,
    /// The canonicaliser of the store's keys, such as `whatwg 1`, if its superblock is lost
    /// [default: that of `import`]
    #[arg(long = "canonicalizer", alias = "rule", value_name = "NAME VERSION", num_args = 2)]
    rule: Option<Vec<String>>,
    /// In object storage: count what no index knows to be committed, for an index that has lost
    /// the end of its log
    #[arg(long, requires = "in_place")]
    uncommitted: bool,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    if args.uncommitted && !bucket::is_bucket(&args.source) {
        return Err(Failure::Usage("--uncommitted is for a store in object storage".to_owned()));
    }
    #[cfg(feature = "cloud")]
    if let Some(location) = bucket::location(&args.source) {
        return in_object_storage(location, args, shared);
    }
    let why = "repair each folder into a new one by its path, or give --in-place";
    shards::refuse_flags(&args.source, &[("a new folder", args.target.is_some(), why)])?;
    if let Some(members) = shards::members(&args.source)? {
        return in_members(&members, args, shared);
    }
    let named = args.rule.as_ref().map(|rule| named(rule)).transpose()?;
    remote::refuse(&args.source)?;
    if let Some(to) = args.target.as_deref() {
        remote::refuse(to)?;
        sink::check_new_folder(to)?;
    }
    let question = "Its index, key log and superblock are rebuilt, and damaged bytes are covered. A repair into a new \
                    folder changes nothing here.";
    if args.in_place && !args.yes && !agreed(args, question)? {
        words::say("nothing was changed");
        return Ok(Outcome::Refused);
    }
    interrupt::listen();
    let bar = Progress::bytes(&shared.flags);
    let to = args.target.as_deref().map_or(RepairTo::InPlace, RepairTo::New);
    let run = |options: &Options| {
        Store::repair(&args.source, to, options, &mut |progress| {
            bar.at(progress.done_bytes, progress.total_bytes, || match progress.losses {
                0 => progress.file.clone(),
                losses => format!("{}, {} so far", progress.file, count(losses, "lost place")),
            });
            interrupt::go_on()
        })
    };
    let plain = || filemap::store::page_options(Options::new()).memtable_bytes(BATCH_BYTES);
    let repaired = match named {
        Some((name, version)) => run(&plain().canonicalizer(&name, version)),
        None => match run(&plain()) {
            // The superblock is lost, and nothing was changed yet.
            Err(Error::Storage(StorageError::InvalidOption { name: "canonicalizer", .. })) => {
                run(&plain().canonicalizer(Whatwg.name(), Whatwg.version()))
            }
            repaired => repaired,
        },
    };
    drop(bar);
    match repaired {
        Err(Error::Cancelled) => Ok(stopped(args)),
        repaired => {
            let outcome = told(&repaired?, args, shared)?;
            if outcome == Outcome::Damaged {
                let repaired = args.target.as_deref().unwrap_or(&args.source);
                let store = opening::engine_to_change(repaired, shared, |options| options)?;
                let marked = variants_shown(&store);
                store.close()?;
                marked?;
            }
            Ok(outcome)
        }
    }
}

/// Restores lost marks. A URL lists its variants by such a mark.
pub fn variants_shown(store: &Store) -> Result<(), Failure> {
    let marked = PageStore::mark_again(store)?;
    if marked > 0 {
        let marks = count(marked, "mark");
        words::say(format_args!("{marks} by which variants are found: lost, and restored"));
    }
    Ok(())
}

/// Repairs each member of a store over several folders, then their notes.
fn in_members(members: &[PathBuf], args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let repaired =
        shards::each(members, shared, |_, store| run(&Args { source: store.to_owned(), ..args.clone() }, shared));
    match repaired {
        Ok(Outcome::Done | Outcome::Damaged) | Err(Failure::PipeClosed) => {
            shards::both(repaired, restore_notes(members, shared).map(|()| Outcome::Done))
        }
        repaired => repaired,
    }
}

/// Restores notes of members that are lost, or under those of others.
fn restore_notes(members: &[PathBuf], shared: &Shared) -> Result<(), Failure> {
    for path in opening::notes_restored(members, shared)? {
        let path = path.display();
        words::say(format_args!("{path}: its note of the store that it is a member of: lost or wrong, and restored"));
    }
    Ok(())
}

/// A new index for a bucket, whose segments stay.
#[cfg(feature = "cloud")]
fn in_object_storage(location: &str, args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let flags = [
        ("a new folder", args.target.is_some(), "give --in-place: a bucket gets a new index, and its segments stay"),
        ("--canonicalizer", args.rule.is_some(), "a bucket names its canonicaliser beside the index"),
        ("--accept-loss", shared.accept_loss, "a repair tells what is lost"),
    ];
    bucket::refuse_flags(location, &flags)?;
    let question =
        "A new index is made from the segments, which stay as they are. A writer that has the store open loses it.";
    if !args.yes && !agreed(args, question)? {
        words::say("nothing was changed");
        return Ok(Outcome::Refused);
    }
    in_bucket::repair::run(location, args.uncommitted, shared)
}

fn named(rule: &[String]) -> Result<(String, u32), Failure> {
    let version = rule[1].parse();
    let version = version.map_err(|_| Failure::Usage(format!("--canonicalizer: {} is not a version", rule[1])))?;
    Ok((rule[0].clone(), version))
}

fn agreed(args: &Args, question: &str) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        let what = "a repair in place asks first; without a terminal, give --yes";
        return Err(Failure::Usage(what.to_owned()));
    }
    Ok(words::ask(format_args!("Repair {} in place? {question}", place::shown(&args.source))))
}

fn stopped(args: &Args) -> Outcome {
    match &args.target {
        Some(target) => {
            let target = target.display();
            interrupt::stopped(format_args!("{target} is not a store yet; remove it, and run the same command again"))
        }
        None => {
            let source = args.source.display();
            interrupt::stopped(format_args!("{source} is not a store until the same command has completed"))
        }
    }
}

/// Prints the losses, then a summary.
fn told(report: &RepairReport, args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let mut out = Output::stdout(shared.flags);
    for loss in &report.losses {
        if out.is_json() { out.json(&line(loss))? } else { out.line(row(loss))? }
    }
    for ignored in &report.ignored {
        if out.is_json() {
            out.json(&json!({ "file": ignored.file, "left_out": ignored.why }))?;
        } else {
            out.line(plain(format!("{}: left out: {}", ignored.file, ignored.why).as_bytes()))?;
        }
    }
    out.report(&summary(report), in_words(report, args))?;
    out.finish()?;
    for doubt in &report.unwitnessed {
        words::complain(format_args!("no witness: {doubt}"));
    }
    if !report.is_rule_known {
        let rule = &report.canonicalizer;
        let what = "the superblock is lost, which names the canonicaliser of the keys";
        words::complain(format_args!("{what}: {rule} is assumed; if that is wrong, repair again with --canonicalizer"));
    }
    // A doubtful place may be a loss, so the exit code must say so.
    Ok(if report.is_complete() && report.unwitnessed.is_empty() { Outcome::Done } else { Outcome::Damaged })
}

fn row(loss: &Loss) -> String {
    let mut row = format!("{}: offset {}: {} lost: {}", loss.file, loss.offset, sizes::print(loss.bytes), loss.what);
    if let Some(key) = &loss.key {
        row.push_str(&format!(": {}", String::from_utf8_lossy(key)));
    }
    if let Some(version) = loss.version {
        row.push_str(&format!(" of {}", times::print(version.time_ms)));
    }
    plain(row.as_bytes())
}

fn line(loss: &Loss) -> Value {
    let mut line = fields!(loss; file, offset, bytes, what);
    if let Some(key) = &loss.key {
        fields::set(&mut line, "url", key);
    }
    if let Some(version) = loss.version {
        line["time_ms"] = json!(version.time_ms);
        line["sequence"] = json!(version.sequence);
    }
    line
}

fn summary(report: &RepairReport) -> Value {
    fields!(report;
        segments, bytes, records, tombstones, keys, losses = report.losses.len(), lost_bytes = report.lost_bytes(),
        left_out = report.ignored.len(), outdated, unfinished_bytes, unwitnessed,
        canonicalizer = report.canonicalizer.to_string(),
    )
}

fn in_words(report: &RepairReport, args: &Args) -> String {
    let target = args.target.as_ref().unwrap_or(&args.source).display();
    let lost = match report.losses.len() as u64 {
        0 if report.unwitnessed.is_empty() => "nothing is lost".to_owned(),
        0 => "nothing is known to be lost".to_owned(),
        places => format!("{} lost in {}", sizes::print(report.lost_bytes()), count(places, "place")),
    };
    format!(
        "{target} has {}, from {} in {}: {lost}",
        count(report.keys, "key"),
        count(report.records, "whole record"),
        count(report.segments, "segment"),
    )
}
