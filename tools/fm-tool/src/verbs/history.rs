//! `history`: the versions of a page, of a variant, or of all of a URL, a line each, the newest of each first.

use std::path::PathBuf;

use filemap::{PageHead, Variant};

use crate::address::Address;
use crate::cli::Shared;
use crate::outcome::{Failure, Outcome};
use crate::output::Output;
use crate::variant::{self, VariantArgs};
use crate::{json, opening, time};

/// List a page's versions, the newest first
#[derive(clap::Args)]
#[command(
    after_help = "Columns: time, status, bytes of the body, kind, remarks, variant; tabs between them. --all-variants\n\
    reads key.dat once if the URL has any.\n\n\
    Example:\n  fm-tool history pages.fm https://example.com/"
)]
pub struct Args {
    /// The store's folder
    store: PathBuf,
    /// The page's URL
    url: Address,
    #[command(flatten)]
    variant: VariantArgs,
    /// List the page's versions and those of all variants of its URL
    #[arg(long, conflicts_with_all = ["method", "variant"])]
    all_variants: bool,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let variant = args.variant.read()?;
    let store = opening::to_read(&args.store, shared)?;
    let mut versions = store.variant_history(&args.url, variant.as_ref())?;
    if args.all_variants {
        let mut variants: Vec<Variant> =
            store.variants(&args.url)?.map(|found| Ok(found?.1)).collect::<Result<_, Failure>>()?;
        variants.sort_unstable();
        for variant in variants {
            versions.extend(store.variant_history(&args.url, &variant)?);
        }
    }
    if versions.is_empty() {
        variant::complain(&store, &args.store, &args.url, variant.as_ref(), "");
        return Ok(Outcome::NotFound);
    }
    let mut out = Output::stdout(shared.json);
    for version in &versions {
        if out.is_json() {
            out.json(&json::head(version)?)?;
        } else {
            out.bytes(row(version).as_bytes())?;
            if let Some(variant) = &version.page.variant {
                out.bytes(if version.unchanged_since.is_some() { b"\t" } else { b"\t\t" })?;
                out.shown(variant.as_bytes())?;
            }
            out.line("")?;
        }
    }
    out.finish()?;
    Ok(Outcome::Done)
}

fn row(version: &PageHead) -> String {
    let page = &version.page;
    let status = page.status.map_or("-".to_owned(), |status| status.to_string());
    let mut row =
        format!("{}\t{status}\t{}\t{}", time::print(page.fetched_at_ms), version.body_bytes, page.kind.name());
    if version.unchanged_since.is_some() {
        row.push_str("\tbody unchanged");
    }
    row
}
