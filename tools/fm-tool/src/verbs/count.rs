//! `count`: how many pages, or versions, there are now. Reads key.dat from front to back, and no value.

use std::path::PathBuf;

use filemap::{PageStore, Variant};
use serde_json::{Map, Value};

use crate::cli::Shared;
use crate::outcome::{Failure, Outcome};
use crate::output::Output;
use crate::progress::Progress;
use crate::selection::Selection;
use crate::{interrupt, opening, time, words};

/// Count pages, or their versions
#[derive(clap::Args)]
#[command(
    after_help = "Reads key.dat once, some 100 bytes a page, whatever is chosen, and no page (with --all-variants twice); --versions and --since add one\n\
    small read for each version. `stat` tells about how many keys there are without reading anything.\n\n\
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
    /// Count the answers to other requests than a plain GET too: --json tells them apart
    #[arg(long)]
    all_variants: bool,
    /// Only pages whose newest version is of this time or later; with --versions, those versions
    #[arg(long, value_name = "TIME", value_parser = time::parse, allow_negative_numbers = true)]
    since: Option<i64>,
    /// Stop at so many pages
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let store = opening::to_read(&args.store, shared)?;
    interrupt::listen();
    let expected = args.selection.expected(&store);
    let progress = Progress::records(shared, expected, "pages");
    let (mut pages, mut variants, mut versions, mut outcome) = (0_u64, 0_u64, 0_u64, Outcome::Done);
    let urls = store.urls_where(args.selection.filter()).map(|url| url.map(|url| (url, None)));
    let others = args.all_variants.then(|| store.variants_where(args.selection.filter()));
    let others = others.into_iter().flatten().map(|found| found.map(|(url, variant)| (url, Some(variant))));
    for found in urls.chain(others) {
        if interrupt::asked() {
            drop(progress);
            let met = words::count(pages, "page");
            return Ok(interrupt::outcome(format_args!("{met} met so far, of an unknown number; count again")));
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
    let mut out = Output::stdout(shared.json);
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

/// How many versions of a page count; of a page that was removed since it was listed, none.
fn number(args: &Args, store: &PageStore, url: &[u8], variant: Option<&Variant>) -> filemap::Result<u64> {
    match args.since {
        None if args.versions => store.variant_version_count(url, variant),
        None => Ok(1),
        Some(since) if args.versions => {
            let versions = store.variant_versions(url, variant)?;
            Ok(versions.iter().filter(|version| version.time_ms >= since).count() as u64)
        }
        Some(since) => {
            let head = store.variant_head(url, variant)?;
            Ok(head.map_or(0, |head| u64::from(head.page.fetched_at_ms >= since)))
        }
    }
}
