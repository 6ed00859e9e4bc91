//! `compact` of a bucket: rewrites segments with dead records, and deletes objects that no index
//! names.

use filemap_cloud::{CloudStore, CollectReport, CompactReport};
use filemap_core::compact::CompactionGoal;
use fm_cli::words::count;
use fm_cli::{Failure, Outcome, Output, fields, sizes};

use super::{GRACE, closed, damaged, to_change, to_read};
use crate::flags::Shared;

/// Runs the verb.
pub fn run(location: &str, goal: CompactionGoal, is_dry_run: bool, shared: &Shared) -> Result<Outcome, Failure> {
    let mut out = Output::stdout(shared.flags);
    if is_dry_run {
        foretell(&to_read(location, shared)?, goal, &mut out)?;
        return out.end(Outcome::Done);
    }
    let store = to_change(location, shared)?;
    let done = compact(&store, goal, Orphans::Deleted, &mut out);
    closed(&store, done, out)
}

fn foretell(store: &CloudStore, goal: CompactionGoal, out: &mut Output) -> Result<(), Failure> {
    let plan = store.compaction_plan(goal)?;
    let line = fields!(plan; dry_run = true, segments, copied_bytes, freed_bytes, waiting);
    let waiting = waiting(plan.waiting);
    if plan.segments.is_empty() {
        return out.report(&line, format_args!("nothing would be compacted{waiting}"));
    }
    let words = format_args!(
        "{} would be rewritten: {} copied, {} given back{waiting}",
        count(plan.segments.len() as u64, "segment"),
        sizes::print(plan.copied_bytes),
        sizes::print(plan.freed_bytes),
    );
    out.report(&line, words)
}

fn waiting(objects: u64) -> String {
    if objects == 0 {
        return String::new();
    }
    let (objects, (grace, _)) = (count(objects, "object"), GRACE);
    format!("; {objects} rewritten before are deleted {grace} after that, by a writer or by `fm-tool compact`")
}

/// Treatment of segments that no index names: a repair may find that they were committed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Orphans {
    /// Old ones are deleted.
    Deleted,
    /// They stay, as nobody asked to delete them.
    Kept,
}

/// Compacts, and prints the result.
pub fn compact(
    store: &CloudStore,
    goal: CompactionGoal,
    orphans: Orphans,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let done = store.compact(goal)?;
    let orphans = match orphans {
        Orphans::Deleted => store.collect(GRACE.1)?,
        Orphans::Kept => CollectReport::default(),
    };
    let outcome = damaged(&done.damage, out)?;
    tell(&done, &orphans, out)?;
    Ok(outcome)
}

/// Prints the result of a compaction.
pub fn tell(done: &CompactReport, orphans: &CollectReport, out: &mut Output) -> Result<(), Failure> {
    let line = fields!(done;
        rewritten, rewritten_bytes, copied_bytes, deleted, waiting, pinned, problems = done.damage.len(),
        orphans_deleted = orphans.segments, orphan_bytes = orphans.bytes, young_orphans = orphans.young,
        dictionaries_deleted = orphans.dictionaries,
    );
    let (grace, _) = GRACE;
    let mut words = match done.rewritten {
        0 => "nothing was compacted".to_owned(),
        _ => format!(
            "{} of {} rewritten: {} copied",
            count(done.rewritten, "segment"),
            sizes::print(done.rewritten_bytes),
            sizes::print(done.copied_bytes),
        ),
    };
    if done.deleted > 0 {
        words.push_str(&format!("; {} deleted", count(done.deleted, "object")));
    }
    words.push_str(&waiting(done.waiting.saturating_sub(done.pinned)));
    if done.pinned > 0 {
        let objects = count(done.pinned, "object");
        words.push_str(&format!("; {objects} stay for a checkpoint, which `fm-tool segments --checkpoints` lists"));
    }
    if orphans.segments > 0 {
        let (segments, bytes) = (count(orphans.segments, "segment"), sizes::print(orphans.bytes));
        words.push_str(&format!("; {segments} of {bytes} that no index names deleted"));
    }
    if orphans.dictionaries > 0 {
        words.push_str(&format!("; {} that nothing needs deleted", count(orphans.dictionaries, "dictionary")));
    }
    if orphans.young > 0 {
        let segments = count(orphans.young, "segment");
        words.push_str(&format!("; {segments} that no index names stay, as they are younger than {grace}"));
    }
    if !done.damage.is_empty() {
        words.push_str("; what is damaged stays as it is");
    }
    out.report(&line, words)
}
