//! `count`: the number of pages or versions. Reads key.dat from front to back, and no value.

use std::path::PathBuf;

use filemap::{Lookup, PageStore, Variant};
use fm_cli::{Failure, Outcome, Output, Progress, interrupt, times, words};
use serde_json::{Map, Value};

use crate::arguments::selection::Selection;
use crate::flags::Shared;
use crate::stores::opening;

/// Count pages, or their versions
#[derive(clap::Args)]
#[command(
    after_help = "Reads key.dat once (about 100 bytes a page), with --all-variants twice, and no page; --versions and --since add a \
    small read for each version. `stat` prints an approximate number of keys without reading anything.\n\n\
    Example:\n  fm-tool count pages.fm --host example.com"
)]
pub struct Args {
    /// The store's folder
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
    let expected = args.selection.expected(&store);
    let progress = Progress::records(&shared.flags, expected, "pages");
    let (mut pages, mut variants, mut versions, mut outcome) = (0_u64, 0_u64, 0_u64, Outcome::Done);
    let urls = store.urls_where(args.selection.filter()).map(|url| url.map(|url| (url, None)));
    let others = args.all_variants.then(|| store.variants_where(args.selection.filter()));
    let others = others.into_iter().flatten().map(|found| found.map(|(url, variant)| (url, Some(variant))));
    for found in urls.chain(others) {
        if interrupt::asked() {
            drop(progress);
            let met = words::count(pages, "page");
            return Ok(interrupt::stopped(format_args!("{met} counted so far; count again")));
        }
        if args.limit.is_some_and(|limit| pages + variants >= limit) {
            break;
        }
        let counted =
            found.and_then(|(url, variant)| Ok((number(args, &store, &url, variant.as_ref())?, variant.is_some())));
        match counted.map_err(Failure::from) {
            // Removed since it was listed.
            Ok((0, _)) => {}
            Ok((number, is_variant)) => {
                *if is_variant { &mut variants } else { &mut pages } += 1;
                versions += number;
            }
            Err(failure) => progress.pass_over(failure, &mut outcome)?,
        }
        progress.add();
    }
    drop(progress);
    let mut out = Output::stdout(shared.flags.json);
    if out.is_json() {
        let mut counts = Map::from_iter([("pages".to_owned(), Value::from(pages))]);
        counts.extend(args.all_variants.then(|| ("variants".to_owned(), Value::from(variants))));
        counts.extend(args.versions.then(|| ("versions".to_owned(), Value::from(versions))));
        out.json(&Value::Object(counts))?;
    } else {
        out.line(if args.versions { versions } else { pages + variants }.to_string())?;
    }
    out.finish()?;
    Ok(outcome)
}

/// The number of versions of a page that count; 0 if it was removed since it was listed.
fn number(args: &Args, store: &PageStore, url: &[u8], variant: Option<&Variant>) -> filemap::Result<u64> {
    let lookup = Lookup::new(url).variant(variant);
    match args.since {
        None if args.versions => Ok(store.versions_of(lookup)?.len() as u64),
        None => Ok(1),
        Some(since) if args.versions => {
            let versions = store.versions_of(lookup)?;
            Ok(versions.iter().filter(|version| version.time_ms >= since).count() as u64)
        }
        Some(since) => {
            let head = store.head(lookup)?;
            Ok(head.map_or(0, |head| u64::from(head.page.fetched_at_ms >= since)))
        }
    }
}
