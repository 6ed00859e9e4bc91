//! `fm-bench load --as-pages` and `fm-bench ahead`: a store of pages, and gets of chosen URLs,
//! with which `benches/serving.py --only cold` compares a server.

use filemap::{Options, PageStore};

use crate::{report, run, words};

#[test]
fn pages_of_a_load_are_read_ahead_and_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (store, list) = (path("pages.fm"), path("urls"));
    let loaded = run(&["load", &store, "--pages=1000", "--as-pages"]);
    if words(&loaded).contains("no block device") {
        eprintln!("skipped: {}", words(&loaded));
        return;
    }
    report(&loaded);
    let arguments = ["ahead", &store, "--pages=1000", "--gets=300", "--warm", "--threads=2"];
    let found = report(&run(&arguments));
    let got = &found["get_ahead"];
    assert_eq!(got["gets"], 300, "{found}");
    assert_eq!((got["pages missing"]["value"].as_f64(), got["bodies wrong"]["value"].as_f64()), (Some(0.0), Some(0.0)));

    // Other pages than those of the load are missing, so the comparison sees something.
    let other = report(&run(&[&arguments[..], &["--seed=2"]].concat()));
    assert_eq!(other["get_ahead"]["pages missing"]["value"], 300.0, "{other}");

    let to = format!("--list={list}");
    report(&run(&[&arguments[..], &[&to[..]]].concat()));
    let urls = std::fs::read_to_string(&list).expect("a list");
    let store = PageStore::open_read_only(&store, Options::new()).expect("a store of pages");
    assert_eq!(urls.lines().count(), 300);
    for url in urls.lines() {
        let page = store.get(url).expect("the store is whole").expect("it is there");
        assert_eq!((page.status, page.headers.get("content-type")), (Some(200), Some(&b"text/html"[..])), "{url}");
    }
}
