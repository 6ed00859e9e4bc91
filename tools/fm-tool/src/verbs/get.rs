//! `get`: prints pages: their bodies, their headers, or the whole responses, one after the other.
//!
//! The newest version's body is streamed in bounded memory. With `-o` the file is made only for an
//! existing page, and removed if a page turns out to be damaged. A revisit without its original is
//! printed without a body, with a message.

use std::io::Read;
use std::path::PathBuf;

use filemap::page::RecordKind;
use filemap::{Lookup, Page, PageRead, Variant, Version};
use fm_cli::{Failure, Outcome, Output, interrupt, plain, times, words};

use crate::arguments::pages::{Asked, PageArgs};
use crate::arguments::urls::{Address, Urls};
use crate::arguments::variant;
use crate::flags::Shared;
use crate::json;

/// Print a page's body, headers, or both
#[derive(clap::Args)]
#[command(
    after_help = "Several pages are printed one after the other; with --json one a line. A page that is not in the store is \
    reported, and the others are printed.\n\n\
    Example:\n  fm-tool get pages.fm https://example.com/ --at 2024-05-01 -o page.html"
)]
pub struct Args {
    #[command(flatten)]
    pages: PageArgs,
    /// Write to this file instead of standard output; it is replaced when all is written
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The version that was the newest at this time
    #[arg(long, value_name = "TIME", value_parser = times::parse, allow_negative_numbers = true)]
    at: Option<i64>,
    /// The version of this number: `sequence` of `history --json` and of `put --json`
    #[arg(long, value_name = "SEQUENCE", conflicts_with = "at")]
    version: Option<u64>,
    /// Print the status line and the headers only
    #[arg(long, conflicts_with_all = ["response", "json"])]
    headers: bool,
    /// Print the status line, the headers and the body
    #[arg(long, conflicts_with = "json")]
    response: bool,
    /// Print nothing of a page whose body is not in the store (a revisit without its original),
    /// and exit with 1
    #[arg(long, conflicts_with = "headers")]
    require_body: bool,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let Asked { store, variant, urls } = args.pages.open(shared)?;
    let mut out = None;
    let outcome = all(args, shared, &Source { store, variant }, urls, &mut out)?;
    match (outcome, out) {
        // An incomplete file must not replace an existing one.
        (Outcome::Interrupted(_), Some(mut out)) => out.flush()?,
        (_, Some(out)) => out.finish()?,
        (_, None) => {}
    }
    Ok(outcome)
}

/// The store, and the variant to get.
struct Source {
    store: Box<dyn PageRead>,
    variant: Option<Variant>,
}

/// Prints every page that exists; `out` is opened for the first.
fn all(args: &Args, shared: &Shared, asked: &Source, urls: Urls, out: &mut Option<Output>) -> Result<Outcome, Failure> {
    let outcome = urls.each(
        |url| find(args, shared, asked, url),
        |url, found| {
            let Some((page, reader)) = found else {
                let when = match (args.at, args.version) {
                    (Some(at), _) => format!(" (no version at or before {})", times::print(at)),
                    (_, Some(sequence)) => format!(" (no version {sequence}; `history --json` lists them)"),
                    _ => String::new(),
                };
                variant::complain(&*asked.store, &args.pages.store, url, asked.variant.as_ref(), &when);
                return Ok(Outcome::NotFound);
            };
            if !args.headers && page.lacks_body() {
                say_no_body(args, url, &page);
                if args.require_body {
                    return Ok(Outcome::NotFound);
                }
            }
            let out = match out {
                Some(out) => out,
                None => out.insert(Output::file_or_stdout(args.output.as_deref(), shared.flags)?),
            };
            print(args, &page, reader, out)?;
            Ok(Outcome::Done)
        },
    )?;
    Ok(outcome.unwrap_or_else(|| interrupt::stopped("not everything was printed")))
}

/// A page, and the reader of its body if the page does not hold it.
type Found<'a> = (Page, Option<Box<dyn Read + 'a>>);

fn find<'a>(args: &Args, shared: &Shared, asked: &'a Source, url: &Address) -> Result<Option<Found<'a>>, Failure> {
    let store = &*asked.store;
    let newest = Lookup::new(url).variant(asked.variant.as_ref());
    let page = match (args.at, args.version) {
        (Some(at), _) => store.get(&newest.at(at))?,
        (_, Some(sequence)) => {
            let is_it = |version: &Version| version.sequence == sequence;
            let found = match store.versions(&newest) {
                // The newest version can be read although others cannot.
                Err(error) if error.is_damage() => {
                    let head = store.head(&newest)?.map(|head| head.version);
                    Some(head.filter(is_it).ok_or(error)?)
                }
                versions => versions?.into_iter().find(is_it),
            };
            found.map(|version| store.get_version(&newest, version)).transpose()?.flatten()
        }
        _ if shared.flags.json => store.get(&newest)?,
        _ if args.headers => store.head(&newest)?.map(|head| head.page),
        _ => return streamed(store, &newest),
    };
    Ok(page.map(|page| (page, None)))
}

/// The newest version, its body as a stream.
fn streamed<'a>(store: &'a dyn PageRead, newest: &Lookup<'_>) -> Result<Option<Found<'a>>, Failure> {
    let Some((mut page, mut reader)) = store.get_reader(newest)? else { return Ok(None) };
    if page.kind != RecordKind::Revisit {
        return Ok(Some((page, Some(reader))));
    }
    // Read now, because the caller must know whether there is a body.
    reader.read_to_end(&mut page.body)?;
    Ok(Some((page, None)))
}

/// Reports a revisit whose original is not in the store, and names the original.
fn say_no_body(args: &Args, url: &Address, page: &Page) {
    let revisit = page.revisit.as_ref();
    let original = revisit.and_then(|revisit| revisit.refers_to_url.as_deref());
    let original = original.map_or(String::new(), |url| format!(" of {}", plain(url)));
    let when = revisit.and_then(|revisit| revisit.refers_to_ms);
    let when = when.map_or(String::new(), |at| format!(" as of {}", times::print(at)));
    let digest = page.digest.as_ref().map_or(String::new(), |digest| format!(", {}", plain(digest.as_bytes())));
    words::complain(format_args!(
        "{url}: no body: the version of {} is a revisit, and its original{original}{when}{digest} is not in {}; import the \
         file that has it",
        times::print(page.fetched_at_ms),
        args.pages.store.display()
    ));
}

fn print(args: &Args, page: &Page, reader: Option<Box<dyn Read + '_>>, out: &mut Output) -> Result<(), Failure> {
    if out.is_json() {
        return out.line(json::page(page)?);
    }
    if args.headers || args.response {
        out.http_head(&page.http_head())?;
    }
    match reader {
        _ if args.headers => Ok(()),
        Some(mut reader) => out.copy(&mut reader).map(|_| ()),
        None => out.bytes(&page.body),
    }
}
