//! `count`: the number of pages or versions, without reading a value.
//!
//! In a store with ordered keys, the number of pages of a host or domain comes from the summaries
//! of the runs; with a prefix the keys are walked. Without an order, key.dat is read.

use std::cell::Cell;
use std::path::PathBuf;

use filemap::access::{Listed, Scope};
use filemap::{Lookup, PageRead};
use fm_cli::{Failure, Outcome, Output, Progress, interrupt, times, words};
use serde_json::json;

use crate::arguments::selection::Selection;
use crate::flags::Shared;
use crate::stores::opening;

/// Count pages, or their versions
#[derive(clap::Args)]
#[command(
    after_help = "Reads no page. All pages, and those of a host or domain, are counted by a few reads, however many they are; \
    with --prefix, --versions, --since or --limit their URLs are read in order. --versions and --since add a small \
    read for each version. A store of an older version has no order until a repair makes one: key.dat is read once then \
    (about 100 bytes a page), with --all-variants twice.\n\n\
    Example:\n  fm-tool count pages.fm --host example.com"
)]
pub struct Args {
    /// The store's folder, or a server's address
    store: PathBuf,
    #[command(flatten)]
    selection: Selection,
    /// Count every version of a page
    #[arg(long)]
    versions: bool,
    /// Count variants too (answers to other requests than a plain GET); --json prints both numbers
    #[arg(long)]
    all_variants: bool,
    /// Only pages whose newest version is from this time or later; with --versions, only such
    /// versions
    #[arg(long, value_name = "TIME", value_parser = times::parse, allow_negative_numbers = true)]
    since: Option<i64>,
    /// Stop at this number of pages
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let store = opening::to_read(&args.store, shared)?;
    interrupt::listen();
    let expected = args.selection.expected(&*store)?;
    let progress = Progress::records(&shared.flags, expected, "pages");
    let (pages, variants, mut versions) = (Cell::new(0_u64), Cell::new(0_u64), 0_u64);
    let scope = args.selection.scope();
    if is_summed(args, &*store, &scope) {
        pages.set(store.count(&scope)?);
        variants.set(if args.all_variants { store.count(&scope.variants())? } else { 0 });
        return print(args, shared, Outcome::Done, [pages.get(), variants.get(), 0]);
    }
    let others = args.all_variants.then(|| store.list(&scope.clone().variants(), None)).transpose()?;
    let mut listed = store.list(&scope, None)?.chain(others.into_iter().flatten());
    let has_room = || args.limit.is_none_or(|limit| pages.get() + variants.get() < limit);
    // Stops without looking for a page after the last one that is counted.
    let listed = std::iter::from_fn(|| if has_room() { listed.next() } else { None });
    let outcome = progress.each(listed, |listed| {
        let number = number(args, &*store, &listed)?;
        let counted = if listed.variant.is_some() { &variants } else { &pages };
        // 0 if the page was removed after it was listed.
        counted.set(counted.get() + number.min(1));
        versions += number;
        Ok(())
    })?;
    let (pages, variants) = (pages.get(), variants.get());
    let Some(outcome) = outcome else {
        return Ok(interrupt::stopped(format_args!("{} counted so far; count again", words::count(pages, "page"))));
    };
    print(args, shared, outcome, [pages, variants, versions])
}

/// Returns whether the summaries of the order have the numbers. A prefix is walked instead, so
/// that Ctrl-C can end it.
fn is_summed(args: &Args, store: &dyn PageRead, scope: &Scope) -> bool {
    let is_of_all = !args.versions && args.since.is_none() && args.limit.is_none();
    is_of_all && scope.prefix.is_empty() && store.capabilities().lists_in_order
}

fn print(args: &Args, shared: &Shared, outcome: Outcome, numbers: [u64; 3]) -> Result<Outcome, Failure> {
    let [pages, variants, versions] = numbers;
    let mut out = Output::stdout(shared.flags);
    if out.is_json() {
        let mut counts = json!({ "pages": pages });
        if args.all_variants {
            counts["variants"] = json!(variants);
        }
        if args.versions {
            counts["versions"] = json!(versions);
        }
        out.json(&counts)?;
    } else {
        out.line(if args.versions { versions } else { pages + variants }.to_string())?;
    }
    out.end(outcome)
}

/// Number of versions of a page that count; 0 if it was removed after it was listed.
fn number(args: &Args, store: &dyn PageRead, listed: &Listed) -> filemap::Result<u64> {
    let lookup = Lookup::new(&listed.url).variant(listed.variant.as_ref());
    let since = args.since.unwrap_or(i64::MIN);
    if args.versions {
        let versions = store.versions(&lookup)?;
        return Ok(versions.iter().filter(|version| version.time_ms >= since).count() as u64);
    }
    match args.since {
        None => Ok(1),
        Some(since) => Ok(store.head(&lookup)?.map_or(0, |head| u64::from(head.page.fetched_at_ms >= since))),
    }
}
