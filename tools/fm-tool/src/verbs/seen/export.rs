//! `seen export`: the URLs of a set that has them.

use std::path::{Path, PathBuf};

use serde_json::Value;
use urlindex::{AnySet, StoredSet};

use crate::address::Address;
use crate::cli::Shared;
use crate::outcome::{Failure, Outcome};
use crate::output::Output;
use crate::progress::Progress;
use crate::{interrupt, json, seen_set};

/// Print the URLs of a set, in order
#[derive(clap::Args)]
#[command(
    after_help = "Only a trie has texts. They come in their canonical form, one a line, in the order of their bytes.\n\n\
    Example:\n  fm-tool seen export seen.trie --prefix https://example.com/"
)]
pub struct Args {
    /// The set's file
    set: PathBuf,
    /// Only those whose canonical form begins so
    #[arg(long)]
    prefix: Option<Address>,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let set = seen_set::to_read(&args.set)?;
    let AnySet::Trie(trie) = set.any() else { return Err(Failure::Usage(why_not(&set, &args.set))) };
    interrupt::listen();
    let mut out = Output::stdout(shared.json);
    let progress = Progress::records(shared, None, "URLs").unless_printing(out.is_terminal());
    let mut printed = 0_u64;
    for url in trie.prefix(args.prefix.as_ref().map_or(&[], Address::bytes)) {
        if interrupt::asked() {
            break;
        }
        printed += 1;
        if out.is_json() {
            out.json(&Value::Object([json::field("url", &url)].into_iter().collect()))?;
        } else {
            out.shown(&url)?;
            out.line("")?;
        }
        progress.add();
    }
    drop(progress);
    out.finish()?;
    if interrupt::asked() {
        return Ok(interrupt::outcome(format_args!("{printed} URLs were printed")));
    }
    Ok(Outcome::Done)
}

fn why_not(set: &StoredSet, path: &Path) -> String {
    let path = path.display();
    match set.any() {
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
