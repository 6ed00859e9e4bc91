//! `top`: lists the heaviest hosts, the largest pages, or the pages with most versions.
//!
//! Sizes come from one sequential pass over the value log that decompresses no body; numbers of
//! versions from the list of pages and their key records; numbers of pages from the order of keys.
//! Memory is bounded by the hosts counted exactly, or by the pages printed. Of a store over
//! several folders each is read in turn, for one list.

mod hosts;
mod pages;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::PathBuf;

use filemap::PageStore;
use filemap::access::Listed;
use filemap::store::VersionSize;
use fm_cli::words::{self, count};
use fm_cli::{Failure, Outcome, Output, Progress, fields, interrupt, sizes, times};
use serde_json::{Value, json};

use self::hosts::{Hosts, Sums, Weight};
use crate::arguments::selection::Selection;
use crate::flags::Shared;
use crate::json;
use crate::stores::{bucket, opening};

/// List the hosts or pages that take most space
#[derive(clap::Args)]
#[command(
    after_help = "Prints pages, versions, bytes of bodies and bytes in the value log of each host; `stored` and `bodies` include \
    variants and the records beside pages. Reads the value log once without decompressing bodies. --most-versions \
    reads the keys instead; --most-pages a few for each host, and prints pages only (in a store of an older \
    version, which has no order, key.dat). Of object storage only the index is read. All numbers are exact unless the store has more hosts than --exact-hosts.\n\n\
    Example:\n  fm-tool top pages.fm --sort pages --limit 100\n  fm-tool top pages.fm --most-pages --domain org"
)]
pub struct Args {
    /// The store's folder, shards: with several, or an s3:// location
    store: PathBuf,
    #[command(flatten)]
    selection: Selection,
    /// List the pages with the largest newest version instead of hosts
    #[arg(long, conflicts_with = "most_versions")]
    largest: bool,
    /// List the pages with most versions instead of hosts
    #[arg(long, conflicts_with = "sort")]
    most_versions: bool,
    /// List the hosts with most pages, without sizes: reads only keys
    #[arg(long, conflicts_with_all = ["sort", "largest", "most_versions"])]
    most_pages: bool,
    /// The order
    #[arg(long, value_enum, default_value_t = Sort::Stored)]
    sort: Sort,
    /// Length of the list
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,
    /// Hosts counted exactly (150 bytes each). Beyond that counts are lower bounds, and the error
    /// is printed
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    exact_hosts: usize,
}

/// The order of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Sort {
    /// Bytes in the value log
    Stored,
    /// Bytes of bodies, before compression
    Bodies,
    /// Pages
    Pages,
    /// Versions
    Versions,
}

impl Sort {
    fn weight(self) -> Weight {
        match self {
            Self::Stored => |sums| sums.stored_bytes,
            Self::Bodies => |sums| sums.body_bytes,
            Self::Pages => |sums| sums.pages,
            Self::Versions => |sums| sums.versions,
        }
    }
}

/// A listed page, ordered by weight, then URL.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Ranked {
    weight: u64,
    url: Reverse<Vec<u8>>,
    time_ms: i64,
    body_bytes: u64,
    stored_bytes: u64,
}

/// Keeps the heaviest pages.
struct Heaviest {
    heap: BinaryHeap<Reverse<Ranked>>,
    limit: usize,
}

impl Heaviest {
    fn offer(&mut self, page: Ranked) {
        if self.heap.len() < self.limit {
            self.heap.push(Reverse(page));
        } else if let Some(mut lightest) = self.heap.peek_mut()
            && page > lightest.0
        {
            *lightest = Reverse(page);
        }
    }

    /// The heaviest first; empty if the pass was interrupted.
    fn ranked_if(self, outcome: Option<Outcome>) -> impl Iterator<Item = Ranked> {
        let ranked = outcome.map(|_| self.heap.into_sorted_vec());
        ranked.into_iter().flatten().map(|Reverse(page)| page)
    }
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    if args.largest && matches!(args.sort, Sort::Pages | Sort::Versions) {
        return Err(Failure::Usage("the largest pages are sorted by `stored` or `bodies`".to_owned()));
    }
    bucket::refuse_unbuilt(&args.store)?;
    #[cfg(feature = "cloud")]
    if let Some(location) = bucket::location(&args.store) {
        return in_bucket(location, args, shared);
    }
    let stores = opening::members_to_read(&args.store, shared)?;
    interrupt::listen();
    let mut out = Output::stdout(shared.flags);
    let listed = if args.most_pages {
        pages::most_pages(args, shared, &stores, &mut out)?
    } else if args.most_versions {
        most_versions(args, shared, &stores, &mut out)?
    } else if args.largest {
        largest(args, versions(shared, &stores), stores.iter().flat_map(PageStore::sizes), &mut out)?
    } else {
        by_host(args, shared, versions(shared, &stores), stores.iter().flat_map(PageStore::sizes), &mut out)?
    };
    out.end(listed.unwrap_or_else(interrupted))
}

/// Lists the hosts or the largest pages of a bucket, by its index.
#[cfg(feature = "cloud")]
fn in_bucket(location: &str, args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let flags = [
        ("--accept-loss", shared.accept_loss, "`repair` tells what is lost"),
        ("--most-pages", args.most_pages, "`--sort pages` lists the same of a bucket"),
        ("--most-versions", args.most_versions, "`--sort versions` lists the hosts with most"),
    ];
    bucket::refuse_flags(location, &flags)?;
    let store = bucket::opened(location, bucket::For::Reading, bucket::options()?)?;
    interrupt::listen();
    let (mut out, progress) = (Output::stdout(shared.flags), Progress::records(&shared.flags, None, "versions"));
    let sizes = store.sizes(&args.selection.scope());
    let listed = match args.largest {
        true => largest(args, progress, sizes, &mut out)?,
        false => by_host(args, shared, progress, sizes, &mut out)?,
    };
    out.end(listed.unwrap_or_else(interrupted))
}

/// Outcome of an interrupted pass. A part says nothing about the whole, so nothing is printed.
fn interrupted() -> Outcome {
    interrupt::stopped("nothing is listed, since not everything was read; run it again")
}

/// Lists hosts; `None` if interrupted.
fn by_host(
    args: &Args,
    shared: &Shared,
    progress: Progress,
    sizes: impl Iterator<Item = filemap::Result<VersionSize>>,
    out: &mut Output,
) -> Result<Option<Outcome>, Failure> {
    let filter = args.selection.scope().filter();
    let mut hosts = Hosts::new(args.exact_hosts, args.sort.weight());
    let outcome = progress.each(sizes, |version| {
        if filter(&version.url) {
            let sums = Sums {
                pages: u64::from(version.is_page && version.is_newest),
                versions: u64::from(version.is_page),
                body_bytes: version.body_bytes,
                stored_bytes: version.stored_bytes,
            };
            hosts.add(urlindex::host(&version.url).unwrap_or_default(), &sums);
        }
        Ok(())
    })?;
    if outcome.is_some() {
        print_hosts(args, shared, hosts, out)?;
    }
    Ok(outcome)
}

/// Progress of a pass over all versions.
fn versions(shared: &Shared, stores: &[PageStore]) -> Progress {
    let stats = stores.iter().map(|store| store.engine().stats());
    let versions = stats.map(|stats| stats.indexed_versions + stats.memtable_entries).sum();
    Progress::records(&shared.flags, Some(versions), "versions")
}

/// About the number of keys that a listing visits, if known without counting.
fn expected(args: &Args, stores: &[PageStore]) -> Result<Option<u64>, Failure> {
    stores.iter().map(|store| args.selection.expected(store)).sum()
}

fn print_hosts(args: &Args, shared: &Shared, hosts: Hosts, out: &mut Output) -> Result<(), Failure> {
    let (short_by, all) = (hosts.short_by(), *hosts.all());
    if !out.is_json() {
        out.line(format!("{:>12} {:>12} {:>10} {:>10}  host", "pages", "versions", "bodies", "stored"))?;
    }
    for (host, sums) in hosts.heaviest(args.limit as usize) {
        if out.is_json() {
            let mut line = json_sums(&sums);
            match host.is_empty() {
                true => line["host"] = Value::Null,
                false => json::set(&mut line, "host", &host),
            }
            out.json(&line)?;
        } else {
            out.row(row(&sums), if host.is_empty() { b"(no host)" } else { &host })?;
        }
    }
    if out.is_json() {
        let mut line = json_sums(&all);
        line["all"] = json!(true);
        line["short_by"] = json!(short_by);
        return out.json(&line);
    }
    out.line(format!("{}(all)", row(&all)))?;
    let is_of_bytes = matches!(args.sort, Sort::Stored | Sort::Bodies);
    say_short(args, shared, short_by, if is_of_bytes { sizes::print } else { |pages| pages.to_string() }, out)
}

/// Reports the greatest error of the counts, if not all hosts fitted.
fn say_short(
    args: &Args,
    shared: &Shared,
    short_by: u64,
    unit: fn(u64) -> String,
    out: &mut Output,
) -> Result<(), Failure> {
    if short_by == 0 || shared.flags.quiet {
        return Ok(());
    }
    out.flush()?;
    words::say(format_args!(
        "over {} hosts: counts may be too small by up to {}; --exact-hosts raises the bound",
        args.exact_hosts,
        unit(short_by)
    ));
    Ok(())
}

fn json_sums(sums: &Sums) -> Value {
    fields!(sums; pages, versions, body_bytes, stored_bytes)
}

fn row(sums: &Sums) -> String {
    let (bodies, stored) = (sizes::print(sums.body_bytes), sizes::print(sums.stored_bytes));
    format!("{:>12} {:>12} {bodies:>10} {stored:>10}  ", sums.pages, sums.versions)
}

/// Lists the largest pages; `None` if interrupted.
fn largest(
    args: &Args,
    progress: Progress,
    sizes: impl Iterator<Item = filemap::Result<VersionSize>>,
    out: &mut Output,
) -> Result<Option<Outcome>, Failure> {
    let filter = args.selection.scope().filter();
    let mut heaviest = Heaviest { heap: BinaryHeap::new(), limit: args.limit as usize };
    let outcome = progress.each(sizes, |v| {
        if v.is_page && v.is_newest && filter(&v.url) {
            heaviest.offer(Ranked {
                weight: if args.sort == Sort::Bodies { v.body_bytes } else { v.stored_bytes },
                url: Reverse(v.url),
                time_ms: v.time_ms,
                body_bytes: v.body_bytes,
                stored_bytes: v.stored_bytes,
            });
        }
        Ok(())
    })?;
    for Ranked { url: Reverse(url), time_ms, body_bytes, stored_bytes, .. } in heaviest.ranked_if(outcome) {
        if out.is_json() {
            let fields = json!({ "time_ms": time_ms, "body_bytes": body_bytes, "stored_bytes": stored_bytes });
            out.json(&json::of_url(&url, fields))?;
        } else {
            out.row(format!("{body_bytes:>12} {stored_bytes:>12}  {}  ", times::print(time_ms)), &url)?;
        }
    }
    Ok(outcome)
}

/// Lists the pages with most versions; `None` if interrupted.
fn most_versions(
    args: &Args,
    shared: &Shared,
    stores: &[PageStore],
    out: &mut Output,
) -> Result<Option<Outcome>, Failure> {
    let progress = Progress::records(&shared.flags, expected(args, stores)?, "pages");
    let mut heaviest = Heaviest { heap: BinaryHeap::new(), limit: args.limit as usize };
    let mut lists = Vec::new();
    for store in stores {
        let list = store.listing(&args.selection.scope(), None)?;
        lists.push(list.map(move |listed| listed.map(|listed| (store, listed))));
    }
    let outcome = progress.each(lists.into_iter().flatten(), |(store, Listed { url, .. })| {
        let weight = store.versions_of(&url)?.len() as u64;
        heaviest.offer(Ranked { weight, url: Reverse(url), time_ms: 0, body_bytes: 0, stored_bytes: 0 });
        Ok(())
    })?;
    for Ranked { url: Reverse(url), weight, .. } in heaviest.ranked_if(outcome) {
        if out.is_json() {
            out.json(&json::of_url(&url, json!({ "versions": weight })))?;
        } else {
            out.row(format!("{:>16}  ", count(weight, "version")), &url)?;
        }
    }
    Ok(outcome)
}
