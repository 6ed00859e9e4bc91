//! `history`: lists the versions of a page, of a variant, or of both, one a line, newest first. An
//! unreadable version is reported, and the others are listed.

use std::path::PathBuf;

use filemap::{Lookup, PageHead, PageRead, Variant};
use fm_cli::{Failure, Outcome, Output, times, words};

use crate::arguments::urls::Address;
use crate::arguments::variant::{self, VariantArgs};
use crate::flags::Shared;
use crate::json;
use crate::stores::opening;

/// List a page's versions, newest first
#[derive(clap::Args)]
#[command(
    after_help = "Columns: time, status, bytes of the body, kind, remarks, variant; tabs between them. --all-variants \
    reads key.dat once if the URL has any.\n\n\
    Example:\n  fm-tool history pages.fm https://example.com/"
)]
pub struct Args {
    /// The store's folder, or a server's address
    store: PathBuf,
    /// The page's URL
    url: Address,
    #[command(flatten)]
    variant: VariantArgs,
    /// List the versions of the page and of all variants of its URL
    #[arg(long, conflicts_with_all = ["method", "variant"])]
    all_variants: bool,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let variant = args.variant.read()?;
    let store = opening::to_read(&args.store, shared)?;
    let mut out = Output::stdout(shared.flags);
    let mut found = list(args, &*store, variant.as_ref(), &mut out)?;
    if args.all_variants {
        let mut variants: Vec<Variant> = store.variants(args.url.bytes())?.collect::<filemap::Result<_>>()?;
        variants.sort_unstable();
        for variant in variants {
            let of_variant = list(args, &*store, Some(&variant), &mut out)?;
            found = found.into_iter().chain(of_variant).reduce(Outcome::and);
        }
    }
    out.finish()?;
    Ok(found.unwrap_or_else(|| {
        variant::complain(&*store, &args.store, &args.url, variant.as_ref(), "");
        Outcome::NotFound
    }))
}

/// Lists the versions of the page or of a variant; `None` if there are none.
fn list(
    args: &Args,
    store: &dyn PageRead,
    variant: Option<&Variant>,
    out: &mut Output,
) -> Result<Option<Outcome>, Failure> {
    let mut outcome = None;
    for version in store.history(&Lookup::new(&args.url).variant(variant))? {
        let told = match version {
            Ok(version) => {
                print(&version, out)?;
                Outcome::Done
            }
            Err(error) if error.is_damage() => {
                words::complain(error);
                Outcome::Damaged
            }
            Err(error) => return Err(error.into()),
        };
        outcome = Some(outcome.map_or(told, |outcome: Outcome| outcome.and(told)));
    }
    Ok(outcome)
}

fn print(version: &PageHead, out: &mut Output) -> Result<(), Failure> {
    if out.is_json() {
        return out.json(&json::head(version)?);
    }
    match &version.page.variant {
        None => out.line(row(version)),
        Some(variant) => {
            let has_note = version.unchanged_since.is_some() || version.page.in_place.is_some();
            let tabs = if has_note { "\t" } else { "\t\t" };
            out.row(row(version) + tabs, variant.as_bytes())
        }
    }
}

fn row(version: &PageHead) -> String {
    let page = &version.page;
    let status = page.status.map_or("-".to_owned(), |status| status.to_string());
    let bytes = page.in_place.map_or(version.body_bytes.to_string(), |_| "-".to_owned());
    let mut row = format!("{}\t{status}\t{bytes}\t{}", times::print(page.fetched_at_ms), page.kind.name());
    if page.in_place.is_some() {
        row.push_str("\tbody in place");
    } else if version.unchanged_since.is_some() {
        row.push_str("\tbody unchanged");
    }
    row
}
