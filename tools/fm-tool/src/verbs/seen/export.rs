//! `seen export`: the URLs of a set that has them.

use std::path::PathBuf;

use serde_json::{Value, json};
use urlindex::{AnySet, StoredSet};

use crate::address::Address;
use crate::cli::Shared;
use crate::outcome::{Failure, Outcome};
use crate::output::Output;
use crate::progress::Progress;
use crate::{interrupt, json, seen_set, words};

/// Print the URLs of a set, in order
#[derive(clap::Args)]
#[command(
    after_help = "Only a trie has texts. They come in their canonical form, one a line, in the order of their bytes.\n\n\
    A set on disk has a fingerprint of each URL, from which no URL can be made. With --fingerprints they come as 20 hexadecimal digits a \
    line, in order: 24 bits of the host's XXH3 hash, then 56 of the URL's (40, and 0000, if they have 64 bits). URLs of one host stand together.\n\n\
    Example:\n  fm-tool seen export seen.trie --prefix https://example.com/"
)]
pub struct Args {
    /// The set's file
    set: PathBuf,
    /// Only those whose canonical form begins so
    #[arg(long)]
    prefix: Option<Address>,
    /// Of a set on disk: print the fingerprints, which is all that it has
    #[arg(long, conflicts_with = "prefix")]
    fingerprints: bool,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let set = seen_set::to_read(&args.set)?;
    let fail = |error| seen_set::failure(&args.set, error);
    match set.any() {
        AnySet::Trie(trie) if !args.fingerprints => {
            let prefix = args.prefix.as_ref().map_or(&[][..], Address::bytes);
            print(trie.prefix(prefix).map(Ok), "URL", shared, |url, out| match out.is_json() {
                true => out.json(&Value::Object([json::field("url", url)].into_iter().collect())),
                false => out.shown(url).and_then(|()| out.line("")),
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

/// Prints all of these, unless it is interrupted.
fn print<T>(
    all: impl Iterator<Item = Result<T, Failure>>,
    what: &str,
    shared: &Shared,
    one: impl Fn(&T, &mut Output) -> Result<(), Failure>,
) -> Result<Outcome, Failure> {
    interrupt::listen();
    let mut out = Output::stdout(shared.json);
    let progress = Progress::records(shared, None, "URLs").unless_printing(out.is_terminal());
    let mut printed = 0_u64;
    for item in all.take_while(|_| !interrupt::asked()) {
        one(&item?, &mut out)?;
        printed += 1;
        progress.add();
    }
    drop(progress);
    out.finish()?;
    if interrupt::asked() {
        return Ok(interrupt::outcome(format_args!("{} printed", words::count(printed, what))));
    }
    Ok(Outcome::Done)
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
