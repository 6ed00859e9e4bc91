//! Report of a run on the pages that were not fetched.

use std::path::Path;

use crawl::failure::{is_lost, word};
use crawl::run::{Coverage, End};
use fm_cli::words;

/// Maximum number of hosts that are named.
const NAMED: usize = 5;

/// Reports what is missing, if anything.
pub fn complain(coverage: &Coverage, end: End, store: &Path, tolerated: f64) {
    let missing = coverage.missing(end);
    if missing == 0 {
        return;
    }
    let mut parts: Vec<String> = coverage
        .given_up
        .iter()
        .filter(|(kind, _)| is_lost(*kind))
        .map(|(kind, count)| format!("{count} given up ({})", word(*kind)))
        .collect();
    if coverage.stale > 0 {
        parts.push(format!("{} not fetched again", coverage.stale));
    }
    if end == End::Waiting && coverage.waiting > 0 {
        parts.push(format!("{} queued, as nothing more could be asked", coverage.waiting));
    }
    let pages = words::count(missing, "page");
    let store = store.display();
    words::complain(format_args!(
        "{pages} not fetched: {}; `fm-crawl list {store}` names them, `fm-crawl run {store}` continues with what is \
         queued, `fm-crawl retry {store}` queues what was given up",
        parts.join(", ")
    ));
    if !coverage.silent.is_empty() {
        let named = coverage.silent.iter().take(NAMED).map(|host| fm_cli::plain(host.as_bytes()));
        let named = named.collect::<Vec<_>>().join(", ");
        let more = coverage.silent.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        words::complain(format_args!("no answer from {named}{more}"));
    }
    if coverage.missing_part(end) <= tolerated {
        let (part, most) = (100.0 * coverage.missing_part(end), 100.0 * tolerated);
        words::complain(format_args!("that is {part:.2}% of the known pages, and --tolerate {most}% allows it"));
    }
}
