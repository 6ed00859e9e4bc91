//! `prune`: drops old versions by number, age or size, of all pages or of selected ones, and frees
//! their space.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use filemap::PageStore;
use filemap::store::PruneStep;
use filemap_core::compact::CompactionGoal;
use filemap_core::erase::KeyFilter;
use filemap_core::prune::{PruneRule, Pruned};
use fm_cli::words::{self, count};
use fm_cli::{Failure, Outcome, Output, Progress, fields, interrupt, sizes, times};
use regex::bytes::Regex;

use super::compact;
#[cfg(feature = "cloud")]
use super::in_bucket;
use crate::arguments::selection::Selection;
use crate::flags::Shared;
#[cfg(feature = "cloud")]
use crate::stores::bucket;
use crate::stores::{opening, shards};

/// Drop old versions of pages
#[derive(clap::Args, Clone)]
#[command(
    mut_arg("older_than", |arg| arg.required_unless_present_any(["keep_versions", "max_size"])),
    after_help = "--older-than alone drops every older version, the newest too: a page not fetched since is removed. \
    --keep-versions alone keeps the newest N of each page at any age. Together they drop a version only if both \
    would. --max-size is applied last and drops the oldest versions of all pages until the live bytes of the value \
    log fit. A version whose body a kept version needs, such as a revisit's original, is kept; over several folders also \
    if that one is in another.\n\n\
    --host, --domain, --prefix and --regex choose pages, with their variants and the records beside them; the others \
    keep all versions. Given several, a page must match all. --max-size is about the whole store and takes none of \
    them. In object storage there is neither --max-size nor --regex, and the original \
    of a revisit is dropped as any other version: a body that only a revisit of another URL needs is lost.\n\n\
    Examples:\n  fm-tool prune pages.fm --older-than 90d --keep-versions 1\n  \
    fm-tool prune pages.fm --domain news.example --older-than 30d"
)]
pub struct Args {
    /// The store's folder, or an s3:// location
    store: PathBuf,
    /// Drop versions older than this: 90d, 12h, 2w, or a time
    #[arg(long, value_name = "AGE", value_parser = times::past, allow_negative_numbers = true)]
    older_than: Option<i64>,
    /// Keep the newest N versions of each page
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep_versions: Option<u32>,
    /// Drop the oldest versions until the live bytes of the value log are at most this: 500GB
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = sizes::parse,
        conflicts_with_all = ["host", "domain", "prefix", "regex"]
    )]
    max_size: Option<u64>,
    #[command(flatten)]
    selection: Selection,
    /// Only those whose canonical URL this regular expression matches
    #[arg(long)]
    regex: Option<Regex>,
    /// Only print what would be dropped
    #[arg(long, conflicts_with = "compact")]
    dry_run: bool,
    /// Free all dead space, not only what the space bound requires
    #[arg(long)]
    compact: bool,
}

impl Args {
    fn goal(&self) -> CompactionGoal {
        if self.compact { CompactionGoal::NoGarbage } else { CompactionGoal::Bound }
    }

    /// Accepts the canonical URLs of the selected pages; `None` if all are selected.
    fn filter(&self) -> Option<impl Fn(&[u8]) -> bool + Send + Sync + use<>> {
        let (is_of, regex) = (self.selection.scope().filter(), self.regex.clone());
        let is_all = self.selection.is_all() && regex.is_none();
        (!is_all).then_some(move |url: &[u8]| is_of(url) && regex.as_ref().is_none_or(|regex| regex.is_match(url)))
    }
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let rule =
        PruneRule { keep_versions: args.keep_versions, since_ms: args.older_than, max_live_bytes: args.max_size };
    #[cfg(feature = "cloud")]
    if let Some(location) = bucket::location(&args.store) {
        return in_object_storage(location, rule, args, shared);
    }
    let why = "it bounds one store: give the path of each folder, and its bound";
    shards::refuse_flags(&args.store, &[("--max-size", args.max_size.is_some(), why)])?;
    if shards::is_shards(&args.store) {
        return over_all(rule, args, shared);
    }
    interrupt::listen();
    if args.dry_run {
        let store = opening::local_to_plan(&args.store, shared)?;
        return planned(shared, |progress| match args.filter() {
            Some(filter) => store.prune_plan_where(rule, filter, progress),
            None => store.prune_plan(rule, progress),
        });
    }
    let mut out = Output::stdout(shared.flags);
    let store = opening::local_to_change(&args.store, shared)?;
    let done = pruned((&store, &args.store), args, shared, &mut out, |progress| match args.filter() {
        Some(filter) => store.prune_where(rule, filter, progress),
        None => store.prune(rule, progress),
    });
    let outcome = Outcome::closed(done, store.close())?;
    out.end(outcome)
}

/// Prunes each folder of a store over several. What each keeps for revisits in any is found first.
fn over_all(rule: PruneRule, args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let store = match args.dry_run {
        true => opening::shards_to_plan(&args.store, shared)?,
        false => opening::shards_to_change(&args.store, shared)?,
    };
    let Some(store) = store else { return Ok(Outcome::Done) };
    interrupt::listen();
    let bar = Progress::records(&shared.flags, Some(0), "examined");
    let filter = args.filter().map(|filter| Arc::new(filter) as KeyFilter);
    let spared = store.spared(rule, filter, &mut |progress| watch(&bar, progress))?;
    drop(bar);
    let Some(spared) = spared else { return Ok(interrupt::stopped("nothing was changed")) };
    shards::each_open(&store, shared, |number, member, path| {
        let (engine, spared) = (member.engine(), &spared[number]);
        if args.dry_run {
            return planned(shared, |progress| {
                Ok(engine.prune_plan_with(rule, spared, &mut |step| progress(PruneStep::Pruning(step)))?)
            });
        }
        let mut out = Output::stdout(shared.flags);
        let outcome = pruned((member, path), args, shared, &mut out, |progress| {
            Ok(engine.prune_with(rule, spared, &mut |step| progress(PruneStep::Pruning(step)))?)
        })?;
        out.end(outcome)
    })
}

/// Prints the plan of a prune.
fn planned(shared: &Shared, plan: impl FnOnce(Watch<'_>) -> filemap::Result<Pruned>) -> Result<Outcome, Failure> {
    let mut out = Output::stdout(shared.flags);
    let bar = Progress::records(&shared.flags, Some(0), "examined");
    let planned = plan(&mut |progress| watch(&bar, progress));
    drop(bar);
    if interrupt::asked() {
        return Ok(interrupt::stopped("the plan is incomplete; nothing was changed"));
    }
    let planned = planned?;
    tell(&planned, Done::Planned, &mut out)?;
    out.end(hidden(&planned, Outcome::Done))
}

/// Gets the progress of a prune.
type Watch<'a> = &'a mut dyn FnMut(PruneStep) -> ControlFlow<()>;

#[cfg(feature = "cloud")]
fn in_object_storage(location: &str, rule: PruneRule, args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let flags = [
        ("--max-size", args.max_size.is_some(), "a bucket is pruned by number and age"),
        ("--regex", args.regex.is_some(), "a bucket is pruned by host, domain and prefix"),
    ];
    bucket::refuse_flags(location, &flags)?;
    let order = in_bucket::prune::Order {
        rule,
        scope: args.selection.scope(),
        is_dry_run: args.dry_run,
        goal: args.goal(),
        compacts: args.compact,
    };
    let tell: in_bucket::prune::Tell =
        |pruned, is_plan, out| tell(pruned, if is_plan { Done::Planned } else { Done::Dropped }, out);
    in_bucket::prune::run(location, &order, tell, shared)
}

fn pruned(
    (store, path): (&PageStore, &Path),
    args: &Args,
    shared: &Shared,
    out: &mut Output,
    prune: impl FnOnce(Watch<'_>) -> filemap::Result<Pruned>,
) -> Result<Outcome, Failure> {
    let bar = Progress::records(&shared.flags, Some(0), "examined");
    let pruned = prune(&mut |progress| watch(&bar, progress))?;
    drop(bar);
    tell(&pruned, Done::Dropped, out)?;
    if pruned.is_cancelled {
        out.flush()?;
        let what = "they stay dropped; the same command continues";
        return Ok(interrupt::stopped(format_args!("{} dropped so far; {what}", count(pruned.versions, "version"))));
    }
    if pruned.versions == 0 && !args.compact {
        return Ok(hidden(&pruned, Outcome::Done));
    }
    let done = compact::compact(store.engine(), args.goal(), shared)?;
    let outcome = compact::tell(&done, path, out)?;
    Ok(hidden(&pruned, outcome))
}

/// Reports keys that damage hides, and turns the outcome into damage.
fn hidden(pruned: &Pruned, outcome: Outcome) -> Outcome {
    match (pruned.hidden, outcome) {
        (0, outcome) => outcome,
        (hidden, outcome) => {
            let places = count(hidden, "place");
            words::complain(format_args!(
                "damage hides keys in {places}: what they hold stays; `fm-tool verify` says where"
            ));
            if matches!(outcome, Outcome::Done) { Outcome::Damaged } else { outcome }
        }
    }
}

fn watch(bar: &Progress, step: PruneStep) -> ControlFlow<()> {
    match step {
        PruneStep::Pruning(progress) => bar.at(progress.done, progress.total, || "examined".to_owned()),
        PruneStep::Revisits(versions) => bar.at(versions, versions, || "versions examined for revisits".to_owned()),
        _ => {}
    }
    interrupt::go_on()
}

/// Kind of the report: a prune, or the plan of one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Done {
    Planned,
    Dropped,
}

fn tell(pruned: &Pruned, done: Done, out: &mut Output) -> Result<(), Failure> {
    let line = fields!(pruned;
        dry_run = done == Done::Planned, versions, pages = pruned.keys, bytes, live_bytes, hidden,
        stopped = pruned.is_cancelled,
    );
    let (dropped, gone, after) = match done {
        Done::Planned => ("would be dropped", "would be removed completely", " after that"),
        Done::Dropped => ("dropped", "removed completely", ""),
    };
    let (versions, pages) = (count(pruned.versions, "version"), count(pruned.keys, "page"));
    let (bytes, live) = (sizes::print(pruned.bytes), sizes::print(pruned.live_bytes));
    out.report(&line, format_args!("{versions} of {bytes} {dropped}, {pages} {gone}; {live} live{after}"))
}
