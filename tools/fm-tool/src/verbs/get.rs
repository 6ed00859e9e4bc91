//! `get`: prints a page: its body, its headers, or the whole response.
//!
//! The newest version's body passes through bounded memory. With `-o` the file is made only when the page is there, and
//! taken away again when the page turns out to be damaged.

use std::path::PathBuf;

use filemap::{Page, PageReader, PageStore};

use crate::address::Address;
use crate::outcome::{Failure, Outcome};
use crate::output::Output;
use crate::{Shared, json, opening, time, words};

/// Print a page's body, headers, or both
#[derive(clap::Args)]
#[command(after_help = "Example:\n  fm-tool get pages.fm https://example.com/ --at 2024-05-01 -o page.html")]
pub struct Args {
    /// The store's folder
    store: PathBuf,
    /// The page's URL
    url: Address,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The version that was the newest at this time
    #[arg(long, value_name = "TIME", value_parser = time::parse, allow_negative_numbers = true)]
    at: Option<i64>,
    /// Print the status line and the headers only
    #[arg(long, conflicts_with_all = ["response", "json"])]
    headers: bool,
    /// Print the status line, the headers and the body
    #[arg(long, conflicts_with = "json")]
    response: bool,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let store = opening::to_read(&args.store, shared)?;
    let Some((page, reader)) = find(args, shared, &store)? else {
        let when = args.at.map_or(String::new(), |at| format!(" (no version at or before {})", time::print(at)));
        words::complain(format_args!("{} is not in {}{when}", args.url, args.store.display()));
        return Ok(Outcome::NotFound);
    };
    let mut out = Output::file_or_stdout(args.output.as_deref(), shared.json)?;
    let written = print(args, &page, reader, &mut out).and_then(|()| out.finish());
    if written.is_err()
        && let Some(path) = args.output.as_deref().filter(|path| path.is_file())
    {
        // The failure itself is what counts; a file that stays behind is said by it.
        let _ = std::fs::remove_file(path);
    }
    written.map(|()| Outcome::Done)
}

/// A page, and what its body is read from if it is not in the page.
type Found = (Page, Option<PageReader>);

/// The page, with a reader of its body where it was not read yet.
fn find(args: &Args, shared: &Shared, store: &PageStore) -> Result<Option<Found>, Failure> {
    if let Some(at) = args.at {
        return Ok(store.get_at(&args.url, at)?.map(|page| (page, None)));
    }
    if shared.json {
        return Ok(store.get(&args.url)?.map(|page| (page, None)));
    }
    if args.headers {
        return Ok(store.head(&args.url)?.map(|head| (head.page, None)));
    }
    Ok(store.get_reader(&args.url)?.map(|(page, reader)| (page, Some(reader))))
}

fn print(args: &Args, page: &Page, reader: Option<PageReader>, out: &mut Output) -> Result<(), Failure> {
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
