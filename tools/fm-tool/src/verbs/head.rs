//! `head`: prints pages without their bodies, which are not read.

use filemap::{Lookup, PageHead};
use fm_cli::{Failure, Outcome, Output, interrupt, times};

use crate::arguments::pages::{Asked, PageArgs};
use crate::arguments::urls::Address;
use crate::arguments::variant;
use crate::flags::Shared;
use crate::json;

/// Print a page without its body
#[derive(clap::Args)]
#[command(after_help = "Example:\n  fm-tool head pages.fm https://example.com/")]
pub struct Args {
    #[command(flatten)]
    pages: PageArgs,
    /// The version that was the newest at this time
    #[arg(long, value_name = "TIME", value_parser = times::parse, allow_negative_numbers = true)]
    at: Option<i64>,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let Asked { store, variant, urls } = args.pages.open(shared)?;
    let mut out = Output::stdout(shared.flags);
    let mut nth = 0;
    let find = |url: &Address| {
        let newest = Lookup::new(url).variant(variant.as_ref());
        Ok(store.head(&args.at.map_or(newest, |at| newest.at(at)))?)
    };
    let outcome = urls.each(find, |url, head| {
        if nth > 0 && !out.is_json() {
            out.line("")?;
        }
        nth += 1;
        let Some(head) = head else {
            variant::complain(&*store, &args.pages.store, url, variant.as_ref(), "");
            return Ok(Outcome::NotFound);
        };
        if out.is_json() {
            out.json(&json::head(&head)?)?
        } else {
            print(&head, &mut out)?
        }
        Ok(Outcome::Done)
    })?;
    out.end(outcome.unwrap_or_else(|| interrupt::stopped("not all heads are printed")))
}

/// The store's own fields, then the status line and headers as received.
fn print(head: &PageHead, out: &mut Output) -> Result<(), Failure> {
    let page = &head.page;
    let mut row = |name: &str, value: &[u8]| out.row(format!("{name:16} "), value);
    row("url", &page.url)?;
    if let Some(variant) = &page.variant {
        row("variant", variant.as_bytes())?;
    }
    row("fetched", times::print(page.fetched_at_ms).as_bytes())?;
    row("kind", page.kind.name().as_bytes())?;
    let body = match page.in_place {
        None => format!("{} bytes", head.body_bytes),
        Some(place) => format!("in place, in archive {} at offset {}", place.archive, place.offset),
    };
    row("body", body.as_bytes())?;
    row("stored", format!("{} bytes", head.stored_bytes).as_bytes())?;
    row("sequence", head.version.sequence.to_string().as_bytes())?;
    if let Some(sequence) = head.unchanged_since {
        row("same body as", format!("sequence {sequence}").as_bytes())?;
    }
    let texts = [
        ("ip", page.ip.map(|ip| ip.to_string())),
        ("method", page.method.clone()),
        ("truncated", page.truncated.clone()),
        ("digest", page.digest.clone()),
        ("record id", page.record_id.clone()),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            row(name, text.as_bytes())?;
        }
    }
    out.line("")?;
    out.http_head(&page.http_head())
}
