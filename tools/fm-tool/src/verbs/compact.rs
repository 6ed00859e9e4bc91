//! `compact`: frees the space of dead records, or prints how much that would free.

use std::path::{Path, PathBuf};

use filemap_core::Store;
use filemap_core::compact::{Compacted, CompactionGoal, Reason};
use fm_cli::words::{self, count};
use fm_cli::{Failure, Outcome, Output, Progress, fields, interrupt, sizes};

#[cfg(feature = "cloud")]
use super::in_bucket;
use crate::flags::Shared;
#[cfg(feature = "cloud")]
use crate::stores::bucket;
use crate::stores::{opening, shards};

/// Free the space of dead records
#[derive(clap::Args, Clone)]
#[command(
    after_help = "A process that writes the store compacts by itself, as far as its space bound requires; this verb is for stores \
    that no process writes. Needs free space of about one segment.\n\n\
    In object storage segments that were rewritten are deleted an hour later, by a writer or by the next compaction, \
    and segments that no index names once they are an hour old. A writer elsewhere loses the store: it must open it \
    again.\n\nExample:\n  fm-tool compact pages.fm --dry-run"
)]
pub struct Args {
    /// The store's folder, or an s3:// location
    store: PathBuf,
    /// Only print what it would do, as of the last checkpoint
    #[arg(long)]
    dry_run: bool,
    /// Stop at the space bound: a quarter more than the live bytes
    #[arg(long)]
    to_bound: bool,
    /// Read at most this much a second, such as 50MB/s
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse_rate)]
    rate: Option<u64>,
}

impl Args {
    fn goal(&self) -> CompactionGoal {
        if self.to_bound { CompactionGoal::Bound } else { CompactionGoal::NoGarbage }
    }
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    #[cfg(feature = "cloud")]
    if let Some(location) = bucket::location(&args.store) {
        let why = "a bucket is read as fast as it answers";
        bucket::refuse_flags(location, &[("--rate", args.rate.is_some(), why)])?;
        return in_bucket::compact::run(location, args.goal(), args.dry_run, shared);
    }
    if let Some(members) = shards::checked(&args.store)? {
        return shards::each(&members, shared, |_, store| {
            run(&Args { store: store.to_owned(), ..args.clone() }, shared)
        });
    }
    let mut out = Output::stdout(shared.flags);
    if args.dry_run {
        let store = opening::engine_to_plan(&args.store, shared)?;
        foretell(&store, args.goal(), &mut out)?;
        return out.end(Outcome::Done);
    }
    let store = opening::engine_to_change(&args.store, shared, |options| options.compaction_rate(args.rate))?;
    let done = compact(&store, args.goal(), shared);
    let closed = store.close();
    let done = done?;
    closed?;
    let outcome = tell(&done, &args.store, &mut out)?;
    out.end(outcome)
}

/// Prints the result of a compaction without compacting.
fn foretell(store: &Store, goal: CompactionGoal, out: &mut Output) -> Result<(), Failure> {
    let plan = store.compaction_plan(goal)?;
    let line = fields!(plan; dry_run = true, reason = plan.reason.to_string(), segments, copied_bytes, freed_bytes);
    if plan.segments.is_empty() {
        return out.report(&line, format_args!("nothing would be compacted: {}", plan.reason));
    }
    let words = format_args!(
        "{} would be emptied ({}): {} copied, {} given back",
        count(plan.segments.len() as u64, "segment"),
        plan.reason,
        sizes::print(plan.copied_bytes),
        sizes::print(plan.freed_bytes),
    );
    out.report(&line, words)
}

/// Compacts and shows its progress.
pub fn compact(store: &Store, goal: CompactionGoal, shared: &Shared) -> Result<Compacted, Failure> {
    interrupt::listen();
    let plan = store.compaction_plan(goal)?;
    let bar = Progress::bytes(&shared.flags);
    let total_bytes = plan.copied_bytes + plan.freed_bytes;
    Ok(store.compact_with(goal, &mut |done| {
        let words = || format!("{} given back", sizes::print(done.removed_bytes.saturating_sub(done.copied_bytes)));
        bar.at(done.read_bytes, total_bytes.max(done.read_bytes), words);
        interrupt::go_on()
    })?)
}

/// Prints the result of a compaction.
pub fn tell(done: &Compacted, path: &Path, out: &mut Output) -> Result<Outcome, Failure> {
    let freed_bytes = done.removed_bytes.saturating_sub(done.copied_bytes);
    let segments = count(done.removed_segments, "segment");
    let line = fields!(done;
        reason = done.reason.to_string(), removed_segments, read_bytes, copied_bytes, freed_bytes = freed_bytes,
        stuck_segments, unexpanded_records, elapsed_ms = done.elapsed.as_millis() as u64,
    );
    if out.is_json() {
        out.json(&line)?;
    } else if done.reason != Reason::Cancelled {
        let (freed, copied) = (sizes::print(freed_bytes), sizes::print(done.copied_bytes));
        let words = match done.removed_segments {
            0 => format!("nothing was compacted: {}", done.reason),
            _ => format!(
                "{segments} removed: {freed} given back, {copied} copied, in {:.1} s",
                done.elapsed.as_secs_f64()
            ),
        };
        out.report(&line, words)?;
    }
    if done.reason == Reason::Cancelled {
        out.flush()?;
        let freed = sizes::print(freed_bytes);
        return Ok(interrupt::stopped(format_args!(
            "{segments} removed, {freed} given back, and stay so; `fm-tool compact {}` continues",
            path.display()
        )));
    }
    Ok(stuck(done))
}

/// Reports segments that could not be emptied because of damage, and returns the outcome.
pub fn stuck(done: &Compacted) -> Outcome {
    if done.stuck_segments > 0 {
        let segments = count(done.stuck_segments, "segment");
        words::complain(format_args!(
            "{segments} could not be emptied: they hold damaged live records; `fm-tool verify` lists them"
        ));
    }
    if done.unexpanded_records > 0 {
        let records = count(done.unexpanded_records, "record");
        words::complain(format_args!(
            "{records} could not be compressed again: decompression failed, and they stay as they are; `fm-tool verify` says why"
        ));
    }
    if done.stuck_segments + done.unexpanded_records == 0 { Outcome::Done } else { Outcome::Damaged }
}
