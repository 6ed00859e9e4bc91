//! `merge`: adds every version of some stores to another.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use filemap::sharded::{self, Membership};
use filemap_core::backup::{Copied, CopyEvent, CopyOptions};
use filemap_core::erase::Rule;
use filemap_core::{Error, Store};
use fm_cli::words::{self, count};
use fm_cli::{Failure, Outcome, Output, Progress, fields, interrupt, sizes};

use super::repair;
use crate::flags::Shared;
use crate::stores::{absence, bucket, opening, remote, shards};

/// Add all pages of some stores to another
#[derive(clap::Args)]
#[command(
    after_help = "Every version comes with its time and headers. An identical version is not added again, so that an interrupted \
    merge continues when it is run again; one that cannot be read is added again. The stores must have the same \
    canonicaliser.\n\nA folder of a store over several is merged into another store as one alone. Nothing but copies of itself is merged \
    into it: `fm-tool copy FROM shards:A,B` adds each page to the folder of its host.\n\nExample:\n  fm-tool merge all.fm monday.fm tuesday.fm"
)]
pub struct Args {
    /// The store to add to, made if missing
    to: PathBuf,
    /// The stores to add
    #[arg(required = true)]
    stores: Vec<PathBuf>,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    for path in args.stores.iter().chain([&args.to]) {
        let words = "stores in folders are merged: `fm-tool copy FROM TO` adds all pages of one store to another, in a \
                     bucket too";
        bucket::refuse_as(path, words)?;
        shards::refuse_as(path, words)?;
    }
    let mut stores = Vec::new();
    for path in &args.stores {
        stores.push(opening::engine_to_read(path, shared)?);
    }
    remote::refuse(&args.to)?;
    // Checked before anything is written.
    let wanted = stores[0].canonicalizer();
    for (store, path) in stores.iter().zip(&args.stores).skip(1) {
        let stored = store.canonicalizer();
        if stored != wanted {
            let (first, path) = (args.stores[0].display(), path.display());
            return Err(Failure::Usage(format!(
                "{path} has the canonicaliser {stored}, {first} has {wanted}; nothing was merged"
            )));
        }
    }
    let to = Store::open_or_create(&args.to, opening::options_like(&stores[0], shared))?;
    refuse_strangers((&to, &args.to), &stores)?;
    absence::of_written(&to);
    filemap::erase::obey(&to)?;
    interrupt::listen();
    let mut out = Output::stdout(shared.flags);
    let added = stores.iter().zip(&args.stores).try_fold(Outcome::Done, |outcome, (store, path)| {
        if matches!(outcome, Outcome::Interrupted(_)) {
            return Ok(outcome);
        }
        let (from, to) = ((store, path.as_path()), (&to, args.to.as_path()));
        let rules = say_missing_rules(from, to)?;
        // What it is a member of is no page, and true of itself alone.
        let options = CopyOptions::new().skip_keys(sharded::is_note);
        Ok(outcome.and(rules).and(copy(from, to, options, shared, &mut out)?))
    });
    let outcome = Outcome::closed(added, to.close())?;
    out.end(outcome)
}

/// Refuses a member of a store over several folders as the target of any but copies of itself:
/// pages of other hosts are not found in it.
fn refuse_strangers((to, path): Placed<'_>, stores: &[Store]) -> Result<(), Failure> {
    let Some(own) = Membership::of(to)? else { return Ok(()) };
    for store in stores {
        if Membership::of(store)? != Some(own) {
            let (path, number, members) = (path.display(), own.number + 1, own.members);
            return Err(Failure::Usage(format!(
                "{path} is member {number} of a store over {members} folders, and has the pages of its hosts alone: \
                 `fm-tool copy FROM shards:A,B` adds each page to the folder of its host; nothing was merged"
            )));
        }
    }
    Ok(())
}

/// Reports erasure rules, which are not merged with the pages. Damaged rules do not stop the
/// merge.
fn say_missing_rules((from, from_path): Placed<'_>, (to, to_path): Placed<'_>) -> Result<Outcome, Failure> {
    let own = to.rules()?;
    let theirs = match from.rules() {
        Err(error) if error.is_corrupt() => {
            let from = from_path.display();
            words::complain(format_args!("{from}: its rules of erasures are unknown; its pages are added"));
            return Ok(Outcome::Damaged);
        }
        theirs => theirs?,
    };
    let lacks = |rule: &&Rule| rule.holds() && !own.iter().any(|o| o.holds() && o.what == rule.what);
    let missing = theirs.iter().filter(lacks).count() as u64;
    if missing > 0 {
        let (rules, from, to) = (count(missing, "rule"), from_path.display(), to_path.display());
        let what = format_args!("`fm-tool erase {to} --rules-from {from}` adopts them");
        words::complain(format_args!("{from} has {rules} of erasures that {to} lacks: {what}"));
    }
    Ok(Outcome::Done)
}

/// A store, and its folder as it was given.
type Placed<'a> = (&'a Store, &'a Path);

/// Copies all versions of one store to another, and prints the result.
pub fn copy(
    (from, from_path): Placed<'_>,
    (to, to_path): Placed<'_>,
    options: CopyOptions,
    shared: &Shared,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let stats = from.stats();
    let bar = Progress::records(&shared.flags, Some(stats.indexed_keys + stats.memtable_entries), "keys");
    let mut so_far = Copied::default();
    let mut refused: BTreeMap<u32, u64> = BTreeMap::new();
    let copied = from.copy_to(to, options, &mut |event| {
        match event {
            CopyEvent::Done(sum) => {
                so_far = *sum;
                bar.add();
            }
            CopyEvent::Damaged(error) => bar.aside(|| words::complain(error)),
            CopyEvent::Refused(_, rule) => *refused.entry(rule).or_default() += 1,
            _ => {}
        }
        interrupt::go_on()
    });
    drop(bar);
    match copied {
        Err(Error::Cancelled) => {
            let (from, to) = (from_path.display(), to_path.display());
            let versions = count(so_far.versions, "version");
            Ok(interrupt::stopped(format_args!("{versions} copied; `fm-tool merge {to} {from}` continues from there")))
        }
        copied => {
            let copied = copied?;
            if copied.damaged > 0 {
                repair::variants_shown(to)?;
            }
            tell(&copied, from_path, out)?;
            for (rule, versions) in &refused {
                let versions = count(*versions, "version");
                words::complain(format_args!("{}: {versions} refused by erasure rule {rule}", from_path.display()));
            }
            Ok(if copied.damaged + copied.refused > 0 { Outcome::Damaged } else { Outcome::Done })
        }
    }
}

fn tell(copied: &Copied, from: &Path, out: &mut Output) -> Result<(), Failure> {
    let line = fields!(copied;
        store = from.display().to_string(), keys, versions, unchanged, already_there, body_bytes, damaged, refused,
    );
    let words = format_args!(
        "{}: {} of {} added, {} of them unchanged; {} already there",
        from.display(),
        count(copied.versions, "version"),
        sizes::print(copied.body_bytes),
        copied.unchanged,
        copied.already_there,
    );
    out.report(&line, words)
}
