//! A crawl that is killed again and again ends with the same store and the same WARC files, and
//! fetches only the pages that were in flight again.

use std::process::{Child, Stdio};

use urlindex::SeenSet as _;
use urlindex::stored::StoredSet;

use crate::warc;
use crate::web::crawl::Bench;
use crate::web::{Web, sites};

/// The number of kills, unless `FILEMAP_KILLS` sets another; and the site's pages for each.
const KILLS: usize = 20;
const PAGES_A_KILL: usize = 75;
/// Connections; twice as many pages may be in flight: fetched, but not durably recorded.
const CONNECTIONS: usize = 4;

fn start(bench: &Bench, resolve: &str) -> Child {
    let connections = (format!("--connections={CONNECTIONS}"), format!("--host-connections={CONNECTIONS}"));
    let warc = format!("--warc={}", bench.path("warc").display());
    let arguments = [
        "--seed=http://tree.test/",
        "--rate=0",
        "--allow-private",
        "--json",
        resolve,
        &connections.0,
        &connections.1,
        &warc,
    ];
    bench.command("run", &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

#[test]
fn a_crawl_killed_again_and_again_has_every_page_and_fetched_little_twice() {
    let kills = std::env::var("FILEMAP_KILLS").map_or(KILLS, |kills| kills.parse().expect("a number"));
    let pages_in_all = PAGES_A_KILL * kills;
    let web = Web::new([("tree.test", sites::tree(pages_in_all))]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    for kill in 1..=kills {
        let mut child = start(&bench, &resolve);
        // Each round waits for more pages than the one before, so every kill hits a crawl at work.
        while web.pages_asked() < kill * pages_in_all / (kills + 2) {
            assert!(child.try_wait().unwrap().is_none(), "it has not done all yet");
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let end = Bench::finish(start(&bench, &resolve)).ended(0).json();
    assert_eq!(end["end"], "complete", "{end}");

    let pages = bench.pages();
    assert_eq!(pages.len(), pages_in_all);
    let seen = StoredSet::open_read_only(bench.path("pages.fm.crawl/seen")).expect("a set");
    assert_eq!(seen.len(), pages_in_all as u64);
    for number in 0..pages_in_all {
        let url = if number == 0 { "http://tree.test/".to_owned() } else { format!("http://tree.test/p/{number}") };
        assert_eq!(pages[&url].body, sites::tree_page(number, pages_in_all).as_bytes(), "{url}");
        assert_eq!(bench.versions(&url), 1, "{url}");
        assert!(!seen.contains(url.as_bytes()).expect("read").is_new(), "{url}");
    }
    let mut in_files: Vec<String> = warc::records(&bench.path("warc")).into_iter().map(|record| record.url).collect();
    in_files.retain(|url| !url.ends_with("/robots.txt"));
    in_files.sort();
    assert!(in_files.iter().eq(pages.keys()), "{} records of {} pages", in_files.len(), pages.len());
    let again: usize =
        web.counts().iter().filter(|(url, _)| !url.ends_with("/robots.txt")).map(|(_, times)| times - 1).sum();
    assert!(again <= kills * 2 * CONNECTIONS, "{again} pages were fetched again");
    assert!(bench.run("why", &["http://tree.test/p/7"]).ended(0).out.contains("seen         yes"));
}
