//! `erase` of a bucket: removes pages and their bytes; no rule prevents their return.

use filemap::access::Scope;
use filemap::{Lookup, PageRead};
use filemap_cloud::{CloudStore, EraseReport};
use fm_cli::words::{self, count};
use fm_cli::{Failure, Outcome, Output, fields};

use super::{GRACE, closed, damaged, to_change, to_read};
use crate::flags::Shared;

/// Selection of pages to erase.
pub enum Target {
    /// One page, with its variants.
    Url(Vec<u8>),
    /// All pages of a scope.
    Scope(Scope),
}

/// Counts the pages and variants that would be erased.
pub fn foretell(location: &str, target: &Target, shared: &Shared) -> Result<Outcome, Failure> {
    let store = to_read(location, shared)?;
    let (pages, variants) = match target {
        Target::Url(url) => (u64::from(store.contains(&Lookup::new(url))?), store.variants(url)?.count() as u64),
        Target::Scope(scope) => (store.count(scope)?, store.count(&scope.clone().variants())?),
    };
    let mut out = Output::stdout(shared.flags);
    let line = serde_json::json!({ "dry_run": true, "pages": pages, "variants": variants });
    let (pages, variants) = (count(pages, "page"), count(variants, "variant"));
    out.report(&line, format_args!("{pages} and {variants} would be erased, with all their versions"))?;
    out.end(Outcome::Done)
}

/// Erases.
pub fn run(location: &str, target: &Target, shared: &Shared) -> Result<Outcome, Failure> {
    let store = to_change(location, shared)?;
    let mut out = Output::stdout(shared.flags);
    let done = erased(&store, target, shared, &mut out);
    closed(&store, done, out)
}

fn erased(store: &CloudStore, target: &Target, shared: &Shared, out: &mut Output) -> Result<Outcome, Failure> {
    let report = match target {
        Target::Url(url) => store.erase_url(url)?,
        Target::Scope(scope) => store.erase(scope)?,
    };
    let outcome = damaged(&report.damage, out)?;
    tell(&report, shared, out)?;
    out.flush()?;
    if !report.damage.is_empty() {
        words::complain(
            "what is damaged may hold bytes of these pages still. To delete these objects loses all other pages in them: \
             `fm-tool copy` brings what can be read to another store before; then delete them, and run `fm-tool repair \
             --in-place`",
        );
    }
    if report.pinned > 0 {
        let objects = count(report.pinned, "object");
        words::complain(format_args!(
            "{objects} may hold bytes of these pages still, as a checkpoint needs them: `fm-tool segments --checkpoints` lists \
             it. Wait for its end or remove it, and run the same command again"
        ));
    }
    let orphans = report.waiting.saturating_sub(report.pinned);
    if orphans > 0 {
        let (objects, (grace, _)) = (count(orphans, "object"), GRACE);
        let why = "no index names them, and a repair may find that they were committed";
        words::complain(format_args!(
            "{objects} younger than {grace} may hold bytes of these pages still: {why}; the same command an hour later \
             deletes them"
        ));
    }
    Ok(if report.is_complete() { outcome } else { Outcome::Damaged })
}

fn tell(report: &EraseReport, shared: &Shared, out: &mut Output) -> Result<(), Failure> {
    let line = fields!(report;
        dry_run = false, complete = report.is_complete(), pages, rewritten, deleted, dictionaries, waiting, pinned,
        problems = report.damage.len(),
    );
    let (pages, segments) = (count(report.pages, "page"), count(report.rewritten, "segment"));
    let objects = count(report.deleted.saturating_add(report.dictionaries), "object");
    out.report(
        &line,
        format_args!("{pages} erased, with all versions and variants; {segments} rewritten, {objects} deleted"),
    )?;
    if shared.flags.says() && report.pages == 0 {
        words::say("no page of the store matches; pages that were removed or erased before have no bytes left either");
    }
    if shared.flags.says() {
        words::say("no rule is kept in object storage: what is put again is stored, and the reason is not kept");
        words::say(
            "not reached: versions that the bucket keeps of deleted objects; URLs in old tables of the index, which go two \
             hours later at the soonest; copies and dumps elsewhere",
        );
    }
    Ok(())
}
