//! Copies of a store and its crawl: each copy can continue by itself.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::web::crawl::Bench;
use crate::web::{Web, sites};

const PAGES: usize = 300;

/// A new bench whose store is the copy at `path`.
fn restored(path: &Path) -> Bench {
    let bench = Bench::new();
    let beside = |path: &Path| format!("{}.crawl", path.display());
    fs::rename(path, bench.store()).expect("on one file system");
    fs::rename(beside(path), beside(&bench.store())).expect("on one file system");
    bench
}

fn is_whole(bench: &Bench) {
    let pages = bench.pages();
    assert_eq!(pages.len(), PAGES);
    for number in 0..PAGES {
        let url = if number == 0 { "http://tree.test/".to_owned() } else { format!("http://tree.test/p/{number}") };
        assert_eq!(pages[&url].body, sites::tree_page(number, PAGES).as_bytes(), "{url}");
    }
}

#[test]
fn a_copy_of_a_running_crawl_goes_on_and_fetches_what_it_lacks() {
    let web = Web::slow([("tree.test", sites::tree(PAGES))], Duration::from_millis(10));
    let (bench, resolve) = (Bench::new(), web.resolve());
    let start = ["--rate=0", "--allow-private", "--json", &resolve];
    let child = bench.start("run", &[&start[..], &["--seed=http://tree.test/", "--forever"]].concat());
    let begun = Instant::now();
    while web.pages_asked() < PAGES / 3 {
        assert!(begun.elapsed() < Duration::from_secs(300), "it does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    let to = bench.path("copy.fm");
    let text = to.display().to_string();
    let said = bench.run("backup", &[&text, "--json"]).ended(0).json();
    assert_eq!(said["is_running"], json!(true), "{said}");
    let had = web.pages_asked();
    assert!(!bench.path("copy.fm.crawl.partial").exists() && !bench.path("copy.fm.crawl/seen").exists());
    assert!(bench.run("backup", &[&text]).ended(2).words.contains("it exists already"));
    // The original crawl continues.
    while web.pages_asked() < PAGES {
        assert!(begun.elapsed() < Duration::from_secs(300), "it does not go on");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("it is asked to end");
    Bench::finish(child).ended(143);
    is_whole(&bench);

    let copy = restored(&to);
    let stored = copy.pages().len();
    assert!(stored > PAGES / 4 && stored <= had, "{stored} pages of {had} asked for");
    let before = web.pages_asked();
    copy.run("run", &start).ended(0);
    is_whole(&copy);
    // At most two pages were in flight, on one connection.
    let asked = web.pages_asked() - before;
    assert!(
        asked >= PAGES - stored && asked <= PAGES - stored + 8,
        "{asked} pages were asked for, {stored} were there"
    );
    assert!(copy.run("why", &["http://tree.test/p/7"]).ended(0).out.contains("seen         yes"));
}

#[test]
fn a_copy_of_a_crawl_that_stands_still_goes_on_too_and_what_cannot_be_copied_is_refused() {
    let web = Web::new([("tree.test", sites::tree(PAGES))]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let start = ["--rate=0", "--allow-private", "--json", &resolve];
    let to = bench.path("copy.fm");
    let text = to.display().to_string();
    assert!(bench.run("backup", &[&text]).ended(2).words.contains("there is no crawl"));
    bench.run("run", &[&start[..], &["--seed=http://tree.test/", "--max-pages=100"]].concat()).ended(0);
    fs::create_dir(bench.path("copy.fm.crawl.partial")).expect("made");
    assert!(bench.run("backup", &[&text]).ended(2).words.contains("copy.fm.crawl.partial: a killed backup"));
    fs::remove_dir(bench.path("copy.fm.crawl.partial")).expect("removed");
    for within in [bench.store().join("copy"), bench.path("pages.fm.crawl").join("copy")] {
        let said = bench.run("backup", &[&within.display().to_string()]).ended(2).words;
        assert!(said.contains("within what is to be copied"), "{said}");
    }
    assert!(bench.run("backup", &[&text]).ended(0).out.starts_with("copied to "));
    let copy = restored(&to);
    copy.run("run", &[&start[..], &["--max-pages=1000"]].concat()).ended(0);
    is_whole(&copy);
    assert_eq!(web.pages_asked(), PAGES, "none of the first hundred again");
    assert_eq!(bench.pages().len(), 100, "the original is as it was");
}
