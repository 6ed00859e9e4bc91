//! `train` of a bucket: trains dictionaries on its pages, or lists those that are there.

use filemap_cloud::CloudDictionary;
use fm_cli::words::{self, count};
use fm_cli::{Failure, Outcome, Output, fields, plain, sizes};

use super::{closed, to_change, to_read};
use crate::flags::Shared;

/// Runs the verb.
pub fn run(location: &str, is_list: bool, shared: &Shared) -> Result<Outcome, Failure> {
    let mut out = Output::stdout(shared.flags);
    if is_list {
        let found = to_read(location, shared)?.dictionaries()?;
        tell(&found, &mut out)?;
        out.flush()?;
        if found.is_empty() && !shared.flags.quiet {
            words::say("no dictionaries");
        }
        return out.end(Outcome::Done);
    }
    let store = to_change(location, shared)?;
    let done = store.train().map_err(Failure::from).and_then(|made| {
        tell(&made, &mut out)?;
        if !shared.flags.quiet {
            match made.len() as u64 {
                0 => words::say("no dictionary pays yet: too few pages, or too few alike"),
                made => words::say(format_args!("{} made", count(made, "dictionary"))),
            }
        }
        Ok(Outcome::Done)
    });
    closed(&store, done, out)
}

fn tell(dictionaries: &[CloudDictionary], out: &mut Output) -> Result<(), Failure> {
    for d in dictionaries {
        let site = String::from_utf8_lossy(&d.site);
        if out.is_json() {
            out.json(&fields!(d; object, site = site, created_ms, bytes, pages, body_ratio, is_current))?;
        } else {
            let site = if site.is_empty() { "all pages".to_owned() } else { plain(site.as_bytes()) };
            let bytes = sizes::print(d.bytes);
            out.line(format!("{}\t{site}\t{bytes}\t{} pages\t{:.3}", d.object, d.pages, d.body_ratio))?;
        }
    }
    Ok(())
}
