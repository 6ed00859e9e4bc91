//! `seen explain`: shows how a URL becomes canonical, rule by rule, and so why a set takes two
//! URLs for the same.

use std::path::PathBuf;

use fm_cli::{Failure, Outcome, Output, fields, words};
use serde_json::{Value, json};
use urlindex::canonical::{Encoding, Explanation};

use super::sets;
use crate::arguments::urls::{Address, UrlArgs};
use crate::flags::Shared;
use crate::json;
use fm_cli::canonical::{self, Canonical};

/// Show how a URL becomes canonical, rule by rule
#[derive(clap::Args)]
#[command(
    after_help = "Without --canonicalizer and --set: the result of each preset. The rule `whatwg` is the URL standard's own parsing. \
    Bytes that are not UTF-8 are encoded in one of two ways. `percent-bytes`, for a bare URL in a list or argument: each byte over 7F is \
    percent-encoded. `page-encoding` (with --encoding), for a link of a page: the path in UTF-8, the query in the page's encoding, as the \
    URL standard says.\n\n\
    Example:\n  fm-tool seen explain 'HTTP://www.Example.com:80/a/../b?utm_source=x#top' --canonicalizer crawl,+www"
)]
pub struct Args {
    #[command(flatten)]
    urls: UrlArgs,
    /// The canonicaliser: whatwg, crawl, surt or exact, with rules switched as in
    /// crawl,+www,-tracking; may be given again
    #[arg(long = "canonicalizer", alias = "canonical", value_name = "RULES", value_parser = Canonical::parse)]
    canonical: Vec<Canonical>,
    /// Treat it as a link of a page in this encoding, such as windows-1252 or shift_jis
    #[arg(long, value_name = "LABEL", value_parser = encoding)]
    encoding: Option<&'static Encoding>,
    /// The URL of that page
    #[arg(long, value_name = "URL", requires = "encoding")]
    base: Option<Address>,
    /// The canonicaliser of this set
    #[arg(long, value_name = "SET", conflicts_with = "canonical")]
    set: Option<PathBuf>,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let canonicals = canonicals(args)?;
    let urls = args.urls.open()?;
    let mut out = Output::stdout(shared.flags);
    let mut outcome = Outcome::Done;
    for url in urls {
        let url = url?;
        for (name, canonical) in &canonicals {
            let explained = match args.encoding {
                Some(encoding) => {
                    canonical.explain_in_page(args.base.as_ref().map(Address::bytes), url.bytes(), encoding)
                }
                None => canonical.explain(url.bytes()),
            };
            if explained.key.is_err() {
                outcome = outcome.and(Outcome::Refused);
            }
            if out.is_json() {
                out.json(&line(url.bytes(), name, &explained))?;
            } else {
                print(url.bytes(), name, &explained, &mut out)?;
            }
        }
    }
    out.end(outcome)
}

fn encoding(label: &str) -> Result<&'static Encoding, String> {
    Encoding::for_label(label.as_bytes()).ok_or_else(|| format!("`{label}` is not an encoding of the web"))
}

/// The canonicalisers to explain, with their names.
fn canonicals(args: &Args) -> Result<Vec<(String, Canonical)>, Failure> {
    let named =
        |text: &str| Canonical::parse(text).map(|canonical| (text.to_owned(), canonical)).map_err(Failure::Usage);
    if let Some(path) = &args.set {
        let set = sets::to_read(path)?;
        return Ok(vec![named(&canonical::words(&*sets::canonicalizer(&set, path, None)?))?]);
    }
    if args.canonical.is_empty() {
        return ["whatwg", "crawl", "surt"].into_iter().map(named).collect();
    }
    let name = |canonical: &Canonical| canonical::words(&*canonical.canonicalizer());
    Ok(args.canonical.iter().map(|canonical| (name(canonical), canonical.clone())).collect())
}

fn print(url: &[u8], name: &str, explained: &Explanation, out: &mut Output) -> Result<(), Failure> {
    out.row(format!("{name:20}  "), url)?;
    for step in &explained.steps {
        out.row(format!("  {:18}  ", step.rule), step.after.as_bytes())?;
    }
    match &explained.key {
        Err(error) => {
            out.flush()?;
            words::complain(format_args!("{name}: {}: {error}", String::from_utf8_lossy(url)));
        }
        Ok(_) if explained.steps.is_empty() => out.line("  (nothing changes)")?,
        Ok(_) => {}
    }
    Ok(())
}

fn line(url: &[u8], name: &str, explained: &Explanation) -> Value {
    let step = |step: &urlindex::canonical::Step| fields!(step; rule, before, after);
    let steps: Vec<Value> = explained.steps.iter().map(step).collect();
    let mut line = json::of_url(url, json!({ "canonicalizer": name, "steps": steps }));
    match &explained.key {
        Ok(key) => json::set(&mut line, "key", key),
        Err(error) => line["error"] = json!(error.to_string()),
    }
    line
}
