//! `ls`: lists URLs, a line each, without reading bodies.
//!
//! A URL may hold any byte but NUL, so that only `-0` and `--json` separate URLs for certain in a store of exact bytes.

use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::address::Address;
use crate::outcome::{Failure, Outcome};
use crate::output::Output;
use crate::{Shared, json, opening, words};

/// List the URLs of pages
#[derive(clap::Args)]
#[command(after_help = "Example:\n  fm-tool ls pages.fm --host example.com")]
pub struct Args {
    /// The store's folder
    store: PathBuf,
    /// Only those of this host
    #[arg(long)]
    host: Option<String>,
    /// Only those whose canonical form begins so
    #[arg(long)]
    prefix: Option<Address>,
    /// End each URL with a zero byte instead of a line's end, for xargs -0
    #[arg(short = '0', conflicts_with = "json")]
    zero: bool,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let store = opening::to_read(&args.store, shared)?;
    let prefix = args.prefix.as_ref().map_or(&b""[..], Address::bytes);
    let urls = match &args.host {
        Some(host) => store.urls_of_host(host),
        None => store.urls_with_prefix(prefix),
    };
    let mut out = Output::stdout(shared.json);
    let mut outcome = Outcome::Done;
    for url in urls {
        let url = match url.map_err(Failure::from) {
            Ok(url) => url,
            Err(Failure::Damage(what)) => {
                words::complain(what);
                outcome = Outcome::Damaged;
                continue;
            }
            Err(failure) => return Err(failure),
        };
        if !url.starts_with(prefix) {
            continue;
        }
        if out.is_json() {
            let line: Map<String, Value> = [json::field("url", &url)].into_iter().collect();
            out.json(&Value::Object(line))?;
        } else {
            out.shown(&url)?;
            out.bytes(if args.zero { b"\0" } else { b"\n" })?;
        }
    }
    out.finish()?;
    Ok(outcome)
}
