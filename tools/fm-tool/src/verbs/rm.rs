//! `rm`: removes pages with all their versions and variants, all pages of a host or prefix, one
//! variant, or the versions of one time. A page that is not in the store is reported; the others
//! are removed.
//!
//! A whole host is removed only after a question or `--yes`. The question counts the pages, by a
//! pass over key.dat.

use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::path::PathBuf;

use filemap::PageWrite;
use filemap::access::Removed;
use fm_cli::{Failure, Outcome, Output, Progress, interrupt, times, words};
use serde_json::json;

use crate::arguments::selection::Selection;
use crate::arguments::urls::{Address, UrlArgs, Urls};
use crate::arguments::variant::VariantArgs;
use crate::flags::Shared;
use crate::json;
use crate::stores::{file_system, opening};

/// Remove pages, with all their versions and variants
#[derive(clap::Args)]
#[command(
    mut_arg("urls", |urls| urls.required_unless_present_any(["host", "domain", "prefix"])),
    after_help = "--host, --domain and --prefix ask first, or need --yes; `fm-tool ls` with the same flags lists those pages.\n\n\
    Example:\n  fm-tool rm pages.fm https://example.com/old"
)]
pub struct Args {
    /// The store's folder, or a server's address
    store: PathBuf,
    #[command(flatten)]
    urls: UrlArgs,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    variant: VariantArgs,
    /// Remove what was fetched at exactly this time, and no other version
    #[arg(
        long,
        value_name = "TIME",
        value_parser = times::parse,
        allow_negative_numbers = true,
        conflicts_with_all = ["host", "domain", "prefix"]
    )]
    at: Option<i64>,
    /// Remove all of a host or prefix without asking
    #[arg(short, long)]
    yes: bool,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    if !args.urls.is_none() && !args.selection.is_all() {
        return Err(Failure::Usage("give either URLs, or --host, --domain and --prefix, not both".to_owned()));
    }
    if !args.selection.is_all() && !args.yes && !io::stdin().is_terminal() {
        let what = "removing a whole host or prefix asks first; without a terminal, give --yes";
        return Err(Failure::Usage(what.to_owned()));
    }
    if !args.variant.is_none() && !args.selection.is_all() {
        return Err(Failure::Usage(
            "--host, --domain and --prefix remove pages with all their variants, not one".to_owned(),
        ));
    }
    let variant = args.variant.of(&args.urls)?;
    let urls = args.urls.open()?;
    let store = opening::to_change(&args.store, shared)?;
    let mut out = Output::stdout(shared.flags);
    let outcome = if args.selection.is_all() {
        let remove = |url: &Address| match args.at {
            None => Ok((store.remove(url.bytes(), variant.as_ref())?, 0)),
            Some(at) => {
                let removed = store.remove_at(url.bytes(), variant.as_ref(), at)?;
                Ok((removed.is_some(), removed.map_or(0, |removed| removed.without_body)))
            }
        };
        named(args, shared, urls, &remove, &mut out)
    } else {
        chosen(args, shared, &*store, &mut out)
    };
    // The removals so far stay, whatever stopped the others.
    let synced = store.sync();
    let closed = store.close().map_err(Failure::from);
    let outcome = outcome.map_err(|failure| not_removed(failure, &synced, args))?;
    synced.map_err(|error| match error.into() {
        Failure::Full(words) => Failure::Full(format!("pages reported as removed may come back: {words}")),
        failure => failure,
    })?;
    match closed {
        // The removals are durable in the log.
        Err(Failure::Full(words)) => {
            words::complain(format_args!("removals are final; the index is updated once there is space: {words}"));
        }
        closed => closed?,
    }
    out.end(outcome)
}

/// The failure of a full disk: what was not removed, and whether earlier removals are durable.
fn not_removed(failure: Failure, synced: &filemap::Result<()>, args: &Args) -> Failure {
    let Failure::Full(words) = failure else { return failure };
    let disk = file_system::of(&args.store);
    let before = if synced.is_ok() { "earlier removals stay" } else { "earlier removals may come back" };
    Failure::Full(format!(
        "not removed: {disk} is full: {words}; {before}; free some space and run the same command again"
    ))
}

/// Removes a page; returns whether the page existed, and how many revisits lost their bodies.
type Remove<'a> = dyn Fn(&Address) -> filemap::Result<(bool, u64)> + 'a;

/// Removes the pages that are named.
fn named(args: &Args, shared: &Shared, urls: Urls, remove: &Remove<'_>, out: &mut Output) -> Result<Outcome, Failure> {
    interrupt::listen();
    let mut number = 0;
    let outcome = urls.each(
        |url| Ok(remove(url)?),
        |url, (removed, lost)| {
            number += u64::from(removed);
            if !removed {
                let when = args.at.map_or(String::new(), |at| format!(" of exactly {}", times::print(at)));
                words::complain(format_args!("{url}{when} is not in {}", args.store.display()));
            }
            if out.is_json() {
                unread(out.json(&json::of_url(url.bytes(), json!({ "removed": removed }))))?;
            } else if removed && !shared.flags.quiet {
                let when = args.at.map_or(String::new(), |at| format!(" of {}", times::print(at)));
                words::say(format_args!("removed {url}{when}"));
            }
            if lost > 0 {
                words::complain(format_args!("{url}: the bodies of {} are lost", words::count(lost, "revisit")));
                return Ok(Outcome::Damaged);
            }
            Ok(if removed { Outcome::Done } else { Outcome::NotFound })
        },
    )?;
    Ok(outcome.unwrap_or_else(|| stopped(number)))
}

/// Removes all selected pages.
fn chosen(args: &Args, shared: &Shared, store: &dyn PageWrite, out: &mut Output) -> Result<Outcome, Failure> {
    let (which, scope) = (args.selection.words(), args.selection.scope());
    let mut expected = None;
    if !args.yes {
        let pages = store.list(&scope, None)?.filter(|listed| listed.is_ok()).count() as u64;
        let variants = store.list(&scope.clone().variants(), None)?.filter(|listed| listed.is_ok()).count() as u64;
        let number = pages + variants;
        expected = Some(number);
        let mut pages = words::count(pages, "page");
        if variants > 0 {
            pages.push_str(&format!(" and {}", words::count(variants, "variant")));
        }
        let place = args.store.display();
        let what = "with all their versions and variants,";
        if number > 0 && !words::ask(format_args!("Remove {pages}{which}, {what} from {place}?")) {
            words::say("nothing was removed");
            return Ok(Outcome::Refused);
        }
    }
    interrupt::listen();
    let progress = Progress::records(&shared.flags, expected, "pages");
    let (mut outcome, mut failed, mut pages, mut variants) = (Outcome::Done, None, 0, 0);
    let removed = store.remove_all(&scope, &mut |found| {
        progress.add();
        pages += u64::from(found.as_ref().is_ok_and(|removed| removed.is_page));
        let told = match found.map_err(Failure::from) {
            Ok(Removed { url, is_page: true, .. }) if out.is_json() => {
                unread(out.json(&json::of_url(url, json!({ "removed": true }))))
            }
            Ok(removed) => {
                variants += u64::from(removed.is_variant);
                Ok(())
            }
            Err(failure) => progress.pass_over(failure, &mut outcome),
        };
        failed = told.err();
        if failed.is_some() { ControlFlow::Break(()) } else { interrupt::go_on() }
    });
    drop(progress);
    if removed.is_err() && pages > 0 {
        words::complain(format_args!("{} removed before it failed", words::count(pages, "page")));
    }
    let removed = removed?;
    if let Some(failure) = failed {
        return Err(failure);
    }
    if interrupt::asked() {
        return Ok(outcome.and(stopped(removed)));
    }
    if removed + variants == 0 {
        words::complain(format_args!("there are no pages{which} in {}", args.store.display()));
        outcome = outcome.and(Outcome::NotFound);
    } else if !shared.flags.quiet {
        let and = if variants == 0 { String::new() } else { format!(" and {}", words::count(variants, "variant")) };
        words::say(format_args!("removed {}{and}{which}", words::count(removed, "page")));
    }
    Ok(outcome)
}

/// A reader that closes the output keeps no page from being removed; the end of the verb tells.
fn unread(told: Result<(), Failure>) -> Result<(), Failure> {
    if matches!(told, Err(Failure::PipeClosed)) { Ok(()) } else { told }
}

fn stopped(number: u64) -> Outcome {
    let number = words::count(number, "page");
    interrupt::stopped(format_args!("{number} removed, which stay so; the same command removes the rest"))
}
