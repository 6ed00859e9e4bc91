//! `fm-bench frontier` at a small size, with its kills, so that the program still does at two
//! hundred million pages what it says.

use crate::{report, run, words};

const PAGES: u64 = 40_000;

#[test]
fn a_frontier_of_a_simulated_web_keeps_through_kills_what_was_committed() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("frontier").display().to_string();
    let pages = format!("--pages={PAGES}");
    // With so little memory most rows and the index are on disk, as in the large run.
    let arguments = ["frontier", &dir, &pages, "--commit-every=100", "--memory-mib=1"];
    let report = report(&run(&arguments));
    let (crawl, killed) = (&report["crawl"], &report["after kill -9"]);
    // Speed, memory and time depend on the machine and the build; what is kept does not.
    assert!(crawl["links"].as_u64().is_some_and(|links| links >= 5 * PAGES), "{report}");
    assert_eq!(crawl["known pages"]["met"], true, "{report}");
    assert!(crawl["known pages"]["value"].as_f64().is_some_and(|known| known <= 1.1 * PAGES as f64), "{report}");
    assert_eq!(killed["each"].as_array().map(Vec::len), Some(3), "{report}");
    assert_eq!(killed["committed pages and fetches lost"]["value"], 0.0, "{report}");
    assert_eq!(killed["units of credit lost or made"]["value"], 0.0, "{report}");

    // It creates a frontier, and never continues one that it finds.
    let again = run(&arguments);
    assert!(!again.status.success() && words(&again).contains("exists"), "{}", words(&again));
}
