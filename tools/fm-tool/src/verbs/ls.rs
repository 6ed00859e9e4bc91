//! `ls`: lists URLs, a line each, without reading bodies.
//!
//! A URL may hold any byte but NUL: in a store of exact bytes only `-0` and `--json` separate URLs
//! reliably. `--long` lists all pages in log order by one sequential read; with a selection it
//! costs a read for each page.

use std::path::PathBuf;

use filemap::{Lookup, PageHead, PageStore, Variant};
use fm_cli::{Failure, Outcome, Output, Progress, interrupt, times, words};
use serde_json::{Map, Value};

use crate::arguments::selection::Selection;
use crate::flags::Shared;
use crate::json;
use crate::stores::opening;

/// List the URLs of pages
#[derive(clap::Args)]
#[command(after_help = "Columns of --long: time, status, bytes of the body, bytes stored, URL; tabs between them. \
    Reads key.dat once; --long and --since read the value log instead, or with a selection one record a page. \
    --all-variants reads twice.\n\n\
    Example:\n  fm-tool ls pages.fm --host example.com")]
pub struct Args {
    /// The store's folder
    store: PathBuf,
    #[command(flatten)]
    selection: Selection,
    /// Print time, status and sizes of the newest version too
    #[arg(short, long)]
    long: bool,
    /// List variants too (answers to other requests than a plain GET), after the pages, as URL,
    /// tab, variant
    #[arg(long)]
    all_variants: bool,
    /// Only pages whose newest version is from this time or later
    #[arg(long, value_name = "TIME", value_parser = times::parse, allow_negative_numbers = true)]
    since: Option<i64>,
    /// List at most this many
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// End each line with a zero byte instead of a line's end, for xargs -0
    #[arg(short = '0', conflicts_with = "json")]
    zero: bool,
}

/// The output of a listing, and its state.
struct Listing<'a> {
    args: &'a Args,
    out: Output,
    progress: Progress,
    outcome: Outcome,
    listed: u64,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let store = opening::to_read(&args.store, shared)?;
    interrupt::listen();
    let expected = args.selection.expected(&store);
    let out = Output::stdout(shared.flags.json);
    let progress = Progress::records(&shared.flags, expected, "pages");
    let progress = progress.unless_printing(out.is_terminal());
    let mut listing = Listing { args, out, progress, outcome: Outcome::Done, listed: 0 };
    let needs_heads = args.long || args.since.is_some();
    if needs_heads && args.selection.is_all() {
        let variants = args.all_variants.then(|| store.variant_heads());
        let heads = store.heads().chain(variants.into_iter().flatten());
        listing.all(heads, |listing, head| listing.head(&store, &head))?;
    } else {
        let urls = store.urls_where(args.selection.filter()).map(|url| url.map(|url| (url, None)));
        let variants = args.all_variants.then(|| store.variants_where(args.selection.filter()));
        let variants = variants.into_iter().flatten().map(|found| found.map(|(url, variant)| (url, Some(variant))));
        listing.all(urls.chain(variants), |listing, (url, variant)| match needs_heads {
            // `None`: removed since it was listed.
            true => {
                let head = store.head(Lookup::new(&url).variant(variant.as_ref()))?;
                head.map_or(Ok(()), |head| listing.head(&store, &head))
            }
            false => listing.url(&url, variant.as_ref()),
        })?;
    }
    let Listing { out, progress, mut outcome, listed, .. } = listing;
    drop(progress);
    out.finish()?;
    if interrupt::asked() {
        let listed = words::count(listed, "page");
        outcome = outcome.and(interrupt::stopped(format_args!("{listed} listed, not all")));
    }
    Ok(outcome)
}

impl Listing<'_> {
    /// Prints every item, until interrupted.
    fn all<T>(
        &mut self,
        items: impl Iterator<Item = filemap::Result<T>>,
        print: impl Fn(&mut Self, T) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for item in items {
            if interrupt::asked() || self.args.limit.is_some_and(|limit| self.listed >= limit) {
                break;
            }
            self.progress.add();
            match item.map_err(Failure::from).and_then(|item| print(self, item)) {
                Ok(()) => {}
                Err(failure) => self.progress.pass_over(failure, &mut self.outcome)?,
            }
        }
        Ok(())
    }

    fn end(&mut self, variant: Option<&Variant>) -> Result<(), Failure> {
        self.listed += 1;
        if let Some(variant) = variant {
            self.out.bytes(b"\t")?;
            self.out.shown(variant.as_bytes())?;
        }
        self.out.bytes(if self.args.zero { b"\0" } else { b"\n" })
    }

    fn url(&mut self, url: &[u8], variant: Option<&Variant>) -> Result<(), Failure> {
        if self.out.is_json() {
            self.listed += 1;
            let variant = variant.map(|variant| json::field("variant", variant.as_bytes()));
            let line: Map<String, Value> = [json::field("url", url)].into_iter().chain(variant).collect();
            return self.out.json(&Value::Object(line));
        }
        self.out.shown(url)?;
        self.end(variant)
    }

    fn head(&mut self, store: &PageStore, head: &PageHead) -> Result<(), Failure> {
        match self.args.since {
            Some(since) if head.page.fetched_at_ms < since => Ok(()),
            _ if self.args.long => self.long(store, head),
            _ => self.url(&store.key(&head.page.url)?, head.page.variant.as_ref()),
        }
    }

    fn long(&mut self, store: &PageStore, head: &PageHead) -> Result<(), Failure> {
        if self.out.is_json() {
            self.listed += 1;
            return self.out.json(&json::head(head)?);
        }
        let page = &head.page;
        let status = page.status.map_or("-".to_owned(), |status| status.to_string());
        let time = times::print(page.fetched_at_ms);
        let (body, stored) = (head.body_bytes, head.stored_bytes);
        self.out.bytes(format!("{time}\t{status}\t{body}\t{stored}\t").as_bytes())?;
        self.out.shown(&store.key(&page.url)?)?;
        self.end(page.variant.as_ref())
    }
}
