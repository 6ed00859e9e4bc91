//! `seen export`: prints the URLs of a trie, or the fingerprints of a set on disk.

use std::path::PathBuf;

use fm_cli::{Failure, Outcome, Output, Progress, interrupt, words};
use serde_json::json;
use urlindex::stored::{AnySet, StoredSet};

use super::sets;
use crate::arguments::urls::Address;
use crate::flags::Shared;
use crate::json;

/// Print the URLs of a set, in order
#[derive(clap::Args)]
#[command(after_help = "Only a trie has URLs. They are printed in canonical form, one a line, in byte order.\n \
    A set on disk has fingerprints, from which no URL can be recovered. --fingerprints prints them in order, 20 hexadecimal digits a \
    line: 24 bits of the host's XXH3 hash, then 56 of the URL's (with 64-bit fingerprints 40, and 0000). URLs of one host are adjacent.\n\n\
    Example:\n  fm-tool seen export seen.trie --prefix https://example.com/")]
pub struct Args {
    /// The set's file
    set: PathBuf,
    /// Only those whose canonical form begins with this
    #[arg(long)]
    prefix: Option<Address>,
    /// Set on disk: print the fingerprints
    #[arg(long, conflicts_with = "prefix")]
    fingerprints: bool,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let set = sets::to_read(&args.set)?;
    let fail = |error| sets::failure(&args.set, error);
    set.check_whole("be exported").map_err(fail)?;
    match set.any() {
        AnySet::Trie(trie) if !args.fingerprints => {
            let prefix = args.prefix.as_ref().map_or(&[][..], Address::bytes);
            print(trie.prefix(prefix).map(Ok), "URL", shared, |url, out| match out.is_json() {
                true => out.json(&json::of_url(url, json!({}))),
                false => out.row("", url),
            })
        }
        AnySet::Disk(disk) if args.fingerprints => {
            let fingerprints = disk.fingerprints().map_err(fail)?.map(|fingerprint| fingerprint.map_err(fail));
            print(fingerprints, "fingerprint", shared, |fingerprint, out| match out.is_json() {
                true => out.json(&json!({ "fingerprint": fingerprint.to_string() })),
                false => out.line(fingerprint.to_string()),
            })
        }
        _ => Err(Failure::Usage(why_not(&set, args))),
    }
}

/// Prints all items, until interrupted.
fn print<T>(
    all: impl Iterator<Item = Result<T, Failure>>,
    what: &str,
    shared: &Shared,
    one: impl Fn(&T, &mut Output) -> Result<(), Failure>,
) -> Result<Outcome, Failure> {
    interrupt::listen();
    let mut out = Output::stdout(shared.flags);
    let progress = Progress::records(&shared.flags, None, "URLs").unless_printing(out.is_terminal());
    let mut printed = 0_u64;
    let outcome = progress.each(all, |item| {
        printed += 1;
        one(&item, &mut out)
    })?;
    let stopped = || interrupt::stopped(format_args!("{} printed", words::count(printed, what)));
    out.end(outcome.unwrap_or_else(stopped))
}

fn why_not(set: &StoredSet, args: &Args) -> String {
    let path = args.set.display();
    match set.any() {
        AnySet::Trie(_) => format!("{path} is a trie, which has texts and no fingerprints; leave --fingerprints out"),
        AnySet::Disk(_) => {
            format!(
                "{path} has fingerprints of URLs and no URLs; --fingerprints prints those, and only a trie has texts"
            )
        }
        AnySet::Md5Bitmap(bitmap) => format!(
            "{path} is a bitmap and has no URLs; its words are the file itself: 2^{} bits, slot i in bit i % 8 of byte i / 8",
            bitmap.bits()
        ),
        _ => format!(
            "{path} is of the kind {}, which has bits of URLs and no URLs; only a trie can be exported",
            set.kind().name()
        ),
    }
}
