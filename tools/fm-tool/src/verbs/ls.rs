//! `ls`: lists URLs, a line each, without reading bodies, in order where the store keeps one.
//!
//! A URL may hold any byte but NUL, so in a store of exact bytes only `-0` and `--json` separate
//! URLs reliably. `--long` lists all pages in log order by one sequential read; with a selection,
//! `--reverse` or `--after` it costs one read a page.

use std::cell::Cell;
use std::path::PathBuf;

use filemap::access::{Cursor, Listed, Results, Scope};
use filemap::{Lookup, PageHead, PageRead, Variant};
use fm_cli::{Failure, Outcome, Output, Progress, interrupt, times, words};
use serde_json::json;

use crate::arguments::selection::Selection;
use crate::arguments::urls::Address;
use crate::flags::Shared;
use crate::json;
use crate::stores::opening;

/// List the URLs of pages
#[derive(clap::Args)]
#[command(after_help = "Columns of --long: time, status, bytes of the body, bytes stored, URL; tabs between them. \
    URLs come in order: by host from its last label on (com, example, www), then by path; those that are not http or \
    https, or have a user, last. It reads about as much as it prints, except with a --prefix that ends within the host: \
    that reads the order of all pages. A store of an older version has no order until a repair makes one: key.dat is \
    read once then. --long and --since read the value log instead, in its order, or with a selection, --reverse or \
    --after one record a page.\n\n\
    Example:\n  fm-tool ls pages.fm --host example.com --limit 1000\n  \
    fm-tool ls pages.fm --host example.com --limit 1000 --after https://example.com/page/1000")]
pub struct Args {
    /// The store's folder, or a server's address
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
    /// List from the last to the first
    #[arg(long)]
    reverse: bool,
    /// Begin behind this URL, such as the last one of an earlier list; the page need not be there
    #[arg(long, value_name = "URL", conflicts_with = "all_variants")]
    after: Option<Address>,
    /// End each line with a zero byte instead of a line's end, for xargs -0
    #[arg(short = '0', conflicts_with = "json")]
    zero: bool,
}

/// The output of a listing.
struct Listing<'a> {
    args: &'a Args,
    store: &'a dyn PageRead,
    out: Output,
    listed: &'a Cell<u64>,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let store = opening::to_read(&args.store, shared)?;
    interrupt::listen();
    let expected = args.selection.expected(&*store)?;
    let out = Output::stdout(shared.flags);
    let progress = Progress::records(&shared.flags, expected, "pages").unless_printing(out.is_terminal());
    let listed = Cell::new(0);
    let has_room = || args.limit.is_none_or(|limit| listed.get() < limit);
    let mut listing = Listing { args, store: &*store, out, listed: &listed };
    let mut scope = args.selection.scope();
    scope.is_backwards = args.reverse;
    let after = args.after.as_ref().map(|url| store.cursor(url.bytes())).transpose()?;
    let variants = args.all_variants.then(|| scope.clone().variants());
    let outcome = if args.long || args.since.is_some() {
        let variants = variants.map(|scope| store.heads(&scope)).transpose()?;
        let heads = heads(&*store, &scope, after.as_ref())?.chain(variants.into_iter().flatten());
        progress.each(limited(heads, has_room), |head| listing.head(&head))?
    } else {
        let variants = variants.map(|scope| store.list(&scope, None)).transpose()?;
        let entries = store.list(&scope, after.as_ref())?.chain(variants.into_iter().flatten());
        progress.each(limited(entries, has_room), |Listed { url, variant, .. }| listing.url(&url, variant.as_ref()))?
    };
    listing.out.finish()?;
    if listed.get() == 0
        && outcome.is_some()
        && !args.all_variants
        && after.is_none()
        && args.limit != Some(0)
        && shared.flags.says()
    {
        hint_at_variants(args, &*store)?;
    }
    let stopped = || interrupt::stopped(format_args!("{} listed, not all", words::count(listed.get(), "page")));
    Ok(outcome.unwrap_or_else(stopped))
}

/// Items while there is room; after the last one, no further item is looked up.
fn limited<T>(mut items: impl Iterator<Item = T>, has_room: impl Fn() -> bool) -> impl Iterator<Item = T> {
    std::iter::from_fn(move || if has_room() { items.next() } else { None })
}

/// The newest versions of pages, or of those behind `after`.
fn heads<'s>(store: &'s dyn PageRead, scope: &Scope, after: Option<&Cursor>) -> filemap::Result<Results<'s, PageHead>> {
    if after.is_none() {
        return store.heads(scope);
    }
    let head = |listed: filemap::Result<Listed>| match listed {
        // `None`: the page was removed after it was listed.
        Ok(listed) => store.head(&Lookup::new(&listed.url)).transpose(),
        Err(error) => Some(Err(error)),
    };
    Ok(Box::new(store.list(scope, after)?.filter_map(head)))
}

/// Says that a store without pages has variants, so that an empty list is not taken for an empty
/// store. Stops at the first page.
fn hint_at_variants(args: &Args, store: &dyn PageRead) -> Result<(), Failure> {
    let has = |scope: Scope| store.list(&scope, None).map(|mut listed| listed.next().is_some());
    if !has(Scope::new())? && has(Scope::new().variants())? {
        words::say(format_args!(
            "{} has no pages, but variants (answers to other requests than a plain GET, or of a cache): \
             `fm-tool ls --all-variants` lists them",
            args.store.display()
        ));
    }
    Ok(())
}

impl Listing<'_> {
    fn add(&self) {
        self.listed.set(self.listed.get() + 1);
    }

    fn end(&mut self, variant: Option<&Variant>) -> Result<(), Failure> {
        self.add();
        if let Some(variant) = variant {
            self.out.bytes(b"\t")?;
            self.out.shown(variant.as_bytes())?;
        }
        self.out.bytes(if self.args.zero { b"\0" } else { b"\n" })
    }

    fn url(&mut self, url: &[u8], variant: Option<&Variant>) -> Result<(), Failure> {
        if self.out.is_json() {
            self.add();
            let mut line = json::of_url(url, json!({}));
            if let Some(variant) = variant {
                json::set(&mut line, "variant", variant.as_bytes());
            }
            return self.out.json(&line);
        }
        self.out.shown(url)?;
        self.end(variant)
    }

    fn head(&mut self, head: &PageHead) -> Result<(), Failure> {
        match self.args.since {
            Some(since) if head.page.fetched_at_ms < since => Ok(()),
            _ if self.args.long => self.long(head),
            _ => self.url(&self.store.key(&head.page.url)?, head.page.variant.as_ref()),
        }
    }

    fn long(&mut self, head: &PageHead) -> Result<(), Failure> {
        if self.out.is_json() {
            self.add();
            return self.out.json(&json::head(head)?);
        }
        let page = &head.page;
        let status = page.status.map_or("-".to_owned(), |status| status.to_string());
        let time = times::print(page.fetched_at_ms);
        // The length of a page in place is known only once its record is read.
        let body = page.in_place.map_or(head.body_bytes.to_string(), |_| "-".to_owned());
        let stored = head.stored_bytes;
        self.out.bytes(format!("{time}\t{status}\t{body}\t{stored}\t").as_bytes())?;
        self.out.shown(&self.store.key(&page.url)?)?;
        self.end(page.variant.as_ref())
    }
}
