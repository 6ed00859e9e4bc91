//! `seen forget`: removes URLs from a set, so that they are new again.

use std::path::PathBuf;

use fm_cli::{Failure, Outcome, Output, interrupt, words};
use serde_json::json;
use urlindex::SeenSet;

use super::sets;
use crate::arguments::urls::UrlArgs;
use crate::flags::Shared;
use crate::json;

/// Remove URLs from a set: they are new again
#[derive(clap::Args)]
#[command(
    after_help = "A trie removes their texts. A Bloom filter keeps them on an exact list beside it (SET.known) of at most 65536. A set on disk \
    removes any number. A bitmap and a growing filter cannot: the bits of a URL may be those of other URLs too. URLs that are not \
    in the set are reported, and the exit code is 1.\n\n\
    Example:\n  fm-tool seen forget seen.trie https://example.com/changed"
)]
pub struct Args {
    /// The set's file
    set: PathBuf,
    #[command(flatten)]
    urls: UrlArgs,
}

/// URLs forgotten in one batch: a trie is rebuilt for each.
const TOGETHER: usize = 1 << 16;

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let urls = args.urls.open()?;
    let set = sets::to_change(&args.set)?;
    let canonicalizer = sets::noted_canonicalizer(&set, &args.set, None)?;
    let fail = |error| sets::failure(&args.set, error);
    // Fails before anything is read if the kind of set cannot forget.
    set.forget(&[] as &[&[u8]]).map_err(fail)?;
    interrupt::listen();
    let mut out = Output::stdout(shared.flags);
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
                out.json(&json::of_url(url.bytes(), json!({ "forgotten": was_seen })))?;
            }
        }
    }
    set.close().map_err(fail)?;
    out.finish()?;
    let forgotten = words::count(forgotten, "URL");
    if interrupt::asked() {
        return Ok(outcome.and(interrupt::stopped(format_args!("{forgotten} forgotten, which stay so"))));
    }
    if shared.flags.says() {
        words::say(format_args!("forgot {forgotten}"));
    }
    Ok(outcome)
}
