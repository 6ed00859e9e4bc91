//! `seen forget`: takes URLs back, so that they are new again.

use std::path::PathBuf;

use serde_json::Value;
use urlindex::SeenSet;

use crate::cli::Shared;
use crate::outcome::{Failure, Outcome};
use crate::output::Output;
use crate::urls::UrlArgs;
use crate::{interrupt, json, seen_set, words};

/// Take URLs back: they are new again
#[derive(clap::Args)]
#[command(
    after_help = "A trie drops their texts. A Bloom filter puts them on an exact list beside it (SET.known), of at most 65536. A set on \
    disk takes any number. A bitmap and a \
    growing filter cannot: what they hold of a URL may be that of others too. URLs that were not in the set are said, and end \
    it with 1.\n\n\
    Example:\n  fm-tool seen forget seen.trie https://example.com/changed"
)]
pub struct Args {
    /// The set's file
    set: PathBuf,
    #[command(flatten)]
    urls: UrlArgs,
}

/// URLs that are forgotten together: a trie is built anew each time.
const TOGETHER: usize = 1 << 16;

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let urls = args.urls.open()?;
    let set = seen_set::to_change(&args.set)?;
    let canonicalizer = seen_set::noted_canonicalizer(&set, &args.set, None)?;
    let fail = |error| seen_set::failure(&args.set, error);
    // Whether it can at all, before anything is read.
    set.forget(&[]).map_err(fail)?;
    interrupt::listen();
    let mut out = Output::stdout(shared.json);
    let (mut outcome, mut forgotten) = (Outcome::Done, 0_u64);
    let mut urls = urls.peekable();
    while urls.peek().is_some() && !interrupt::asked() {
        let (mut given, mut keys) = (Vec::new(), Vec::new());
        for url in urls.by_ref().take(TOGETHER) {
            let url = url?;
            match canonicalizer.canonicalize(url.bytes()) {
                Ok(key) => keys.push(key),
                Err(error) => {
                    outcome = outcome.and(Outcome::of_one(Failure::Usage(format!("{url}: {error}")))?);
                    continue;
                }
            }
            given.push(url);
        }
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let were_seen = set.forget(&keys).map_err(|error| {
            words::complain(format_args!("forgot {} before this", words::count(forgotten, "URL")));
            fail(error)
        })?;
        set.sync().map_err(fail)?;
        for (url, was_seen) in given.iter().zip(were_seen) {
            forgotten += u64::from(was_seen);
            if !was_seen {
                words::complain(format_args!("{url} is not in {}", args.set.display()));
                outcome = outcome.and(Outcome::NotFound);
            }
            if out.is_json() {
                let fields = [json::field("url", url.bytes()), ("forgotten".to_owned(), Value::from(was_seen))];
                out.json(&Value::Object(fields.into_iter().collect()))?;
            }
        }
    }
    set.close().map_err(fail)?;
    out.finish()?;
    let forgotten = words::count(forgotten, "URL");
    if interrupt::asked() {
        return Ok(outcome.and(interrupt::outcome(format_args!("{forgotten} forgotten, which stay so"))));
    }
    if !shared.json && !shared.quiet {
        words::say(format_args!("forgot {forgotten}"));
    }
    Ok(outcome)
}
