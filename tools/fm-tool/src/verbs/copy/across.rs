//! `copy` to or from a remote store: every version goes through the interface that all stores
//! share. A version that the target has is not put again.

use std::path::Path;

use filemap::copy::{CopyEvent, CopyReport};
use filemap_core::erase::RuleState;
use fm_cli::words::{self, count};
use fm_cli::{Failure, Outcome, Output, Progress, fields, interrupt, sizes, times};

use crate::flags::Shared;
use crate::stores::bucket;
use crate::stores::place::{self, Place};

/// Copies all versions of a store to another; with a checkpoint, those of one moment.
pub fn run(from_path: &Path, to_path: &Path, is_held: bool, shared: &Shared) -> Result<Outcome, Failure> {
    if place::is_same(from_path, to_path) {
        return Err(Failure::Usage(format!("{}: a store is not copied to itself", place::shown(from_path))));
    }
    if is_held && !bucket::is_bucket(from_path) {
        // Before the other store is opened, which takes a bucket from its writer.
        return Err(place::no_checkpoint(from_path));
    }
    let from = Place::to_read(from_path, shared)?;
    let canonicalizer = from.canonicalizer(from_path)?;
    let to = Place::to_fill(to_path, &canonicalizer, shared)?;
    let from = if is_held { from.held(from_path)? } else { from };
    if let Place::Server(_) = &from {
        words::complain(
            "a server gives what its token may see: if it has access rules, the pages that they exclude are not in the \
             copy, unless it is a token of an administrator",
        );
    }
    interrupt::listen();
    let mut out = Output::stdout(shared.flags);
    let location = from_path.to_string_lossy();
    let copied = from.versions(&*canonicalizer, &location).and_then(|mut versions| {
        let expected = from.store().contents()?.keys;
        let bar = Progress::records(&shared.flags, expected, "versions");
        let mut seen = 0;
        Ok(filemap::copy::copy(&mut versions, to.store(), to.puts_at_once(), &mut |event| {
            match event {
                CopyEvent::Progress(report) => {
                    bar.add_many(report.seen() - seen);
                    seen = report.seen();
                }
                CopyEvent::Damage(error) => bar.aside(|| words::complain(format_args!("left out: {error}"))),
                CopyEvent::Refused(page, error) => bar.aside(|| {
                    let (url, time) = (String::from_utf8_lossy(&page.url), times::print(page.fetched_at_ms));
                    words::complain(format_args!("left out: {url} of {time}: {error}"));
                }),
                CopyEvent::Repeated(page) => bar.aside(|| {
                    let (url, time) = (String::from_utf8_lossy(&page.url), times::print(page.fetched_at_ms));
                    words::complain(format_args!(
                        "in another order: {url} of {time}: the copy has it once, before other versions of that time"
                    ));
                }),
                _ => {}
            }
            interrupt::go_on()
        })?)
    });
    let closed = to.store().close();
    // A checkpoint ends here; one that is left expires.
    let released = if is_held { from.store().close() } else { Ok(()) };
    let report = copied?;
    closed?;
    released?;
    let outcome = told(&report, (from_path, to_path), &mut out)?;
    say_rules(&from, &to, from_path)?;
    out.end(outcome)
}

fn told(report: &CopyReport, (from, to): (&Path, &Path), out: &mut Output) -> Result<Outcome, Failure> {
    let (from, to) = (from.display(), to.display());
    let line = fields!(report;
        from = from.to_string(), to = to.to_string(), complete = report.is_complete(), versions, unchanged,
        already_there, body_bytes, damaged, refused, repeated, stopped = report.is_cancelled,
    );
    let versions = count(report.versions, "version");
    let words = format_args!(
        "{to}: {versions} of {} copied, {} of them unchanged; {} already there",
        sizes::print(report.body_bytes),
        report.unchanged,
        report.already_there,
    );
    if report.is_cancelled {
        if out.is_json() {
            out.json(&line)?;
        }
        out.flush()?;
        let there = report.already_there;
        return Ok(interrupt::stopped(format_args!(
            "{versions} copied, which are safe, {there} already there; the same command continues from there"
        )));
    }
    out.report(&line, words)?;
    out.flush()?;
    if report.damaged > 0 {
        let places = count(report.damaged, "version or place");
        words::complain(format_args!(
            "{places} of {from} cannot be read and were left out: `fm-tool verify` names all"
        ));
    }
    if report.repeated > 0 {
        let versions = count(report.repeated, "version");
        words::complain(format_args!(
            "{versions} of {from} equal an earlier one of the same page and time: {to} has that alone, so that another may be its newest"
        ));
    }
    if report.refused > 0 {
        words::complain(format_args!("{} refused by {to} were left out", count(report.refused, "version")));
    }
    Ok(if report.is_complete() { Outcome::Done } else { Outcome::Damaged })
}

/// Reports that the erasure rules are not copied.
fn say_rules(from: &Place, to: &Place, path: &Path) -> Result<(), Failure> {
    if matches!((from, to), (Place::Here(_), Place::Here(_))) {
        return Ok(());
    }
    let mut holds = 0;
    for store in from.folders() {
        let rules = store.erase_rules()?;
        holds += rules.iter().filter(|rule| !matches!(rule.state, RuleState::Lifted)).count() as u64;
    }
    if holds > 0 {
        let rules = count(holds, "rule");
        words::complain(format_args!(
            "{rules} of erasures of {} do not come along: what they cover may be put there again",
            path.display()
        ));
    }
    Ok(())
}
