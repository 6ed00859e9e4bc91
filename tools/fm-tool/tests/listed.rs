//! Ordered lists: forwards, backwards, from a given URL; counts and hosts from the same order.

use filemap::{Options, Page, PageStore, Variant};
use serde_json::json;

use crate::harness::{Bench, Ran};

/// The pages in order.
const IN_ORDER: [&str; 9] = [
    "http://z.example:8080/",
    "http://a.org/",
    "https://a.org/",
    "http://a.org/x",
    "http://b.a.org/",
    "http://b.a.org/x?y",
    "http://ab.org/",
    "ftp://a.org/x",
    "urn:x",
];

fn fill(store: &PageStore) {
    for url in IN_ORDER.iter().rev() {
        store.put_page(&Page::new(*url, 1_700_000_000_000, 200, *url)).unwrap();
    }
    let page = Page::new("http://a.org/", 1_700_000_000_000, 200, "variant");
    store.put_page(&Page { variant: Some(Variant::new("v").unwrap()), ..page }).unwrap();
}

fn filled() -> Bench {
    let bench = Bench::new();
    let store = PageStore::create(bench.store(), Options::new()).unwrap();
    fill(&store);
    store.close().unwrap();
    bench
}

fn lines(ran: &Ran) -> Vec<&str> {
    ran.text().lines().collect()
}

fn ls(bench: &Bench, args: &[&str]) -> Ran {
    bench.run("ls", args).ended(0)
}

#[test]
fn urls_are_listed_in_order_both_ways_and_from_behind_any() {
    let bench = filled();
    assert_eq!(lines(&ls(&bench, &[])), IN_ORDER);
    let backwards: Vec<&str> = IN_ORDER.iter().rev().copied().collect();
    assert_eq!(lines(&ls(&bench, &["--reverse"])), backwards);
    for (at, url) in IN_ORDER.iter().enumerate() {
        assert_eq!(lines(&ls(&bench, &["--after", url])), IN_ORDER[at + 1..]);
        assert_eq!(
            lines(&ls(&bench, &["--after", url, "--limit", "1"])),
            IN_ORDER[at + 1..].iter().take(1).copied().collect::<Vec<_>>()
        );
        assert_eq!(lines(&ls(&bench, &["--after", url, "--reverse"])), backwards[IN_ORDER.len() - at..]);
        let long = ls(&bench, &["--long", "--after", url]);
        let found: Vec<_> = long.text().lines().map(|line| line.rsplit('\t').next().unwrap()).collect();
        assert_eq!(found, IN_ORDER[at + 1..]);
    }
    let long = ls(&bench, &["--long", "--reverse", "--json"]).json();
    assert_eq!(long.iter().map(|line| line["url"].as_str().unwrap()).collect::<Vec<_>>(), backwards);
    assert_eq!(lines(&ls(&bench, &["--after", "HTTP://A.org/w", "--limit", "1"])), ["http://a.org/x"]);
    assert_eq!(
        lines(&ls(&bench, &["--reverse", "--all-variants", "--host", "b.a.org"])),
        ["http://b.a.org/x?y", "http://b.a.org/"]
    );
    assert_eq!(lines(&ls(&bench, &["--all-variants", "--host", "a.org"])).last(), Some(&"http://a.org/\tv"));
}

#[test]
fn a_selection_is_listed_and_counted_alike() {
    let bench = filled();
    let cases: [(&[&str], &[&str]); 9] = [
        (&["--host", "A.org"], &["http://a.org/", "https://a.org/", "http://a.org/x", "ftp://a.org/x"]),
        (
            &["--domain", "a.org"],
            &[
                "http://a.org/",
                "https://a.org/",
                "http://a.org/x",
                "http://b.a.org/",
                "http://b.a.org/x?y",
                "ftp://a.org/x",
            ],
        ),
        (&["--domain", "example"], &["http://z.example:8080/"]),
        (&["--host", "b.a.org", "--domain", "a.org"], &["http://b.a.org/", "http://b.a.org/x?y"]),
        (&["--prefix", "http://a.org/"], &["http://a.org/", "http://a.org/x"]),
        (&["--prefix", "http://a"], &["http://a.org/", "http://a.org/x", "http://ab.org/"]),
        (&["--prefix", "ftp:"], &["ftp://a.org/x"]),
        (&["--host", "a.org", "--prefix", "https:"], &["https://a.org/"]),
        (&["--host", "absent.example"], &[]),
    ];
    for (args, expected) in cases {
        assert_eq!(lines(&ls(&bench, args)), expected, "{args:?}");
        let backwards: Vec<&str> = expected.iter().rev().copied().collect();
        assert_eq!(lines(&ls(&bench, &[args, &["--reverse"]].concat())), backwards, "{args:?}");
        let counted = bench.run("count", args).ended(0);
        assert_eq!(counted.text().trim(), expected.len().to_string(), "{args:?}");
    }
    assert_eq!(
        bench.run("count", &["--json", "--all-variants"]).ended(0).json(),
        [json!({ "pages": 9, "variants": 1 })]
    );
    assert_eq!(bench.run("count", &["--all-variants", "--domain", "a.org"]).ended(0).text(), "7\n");
}

#[test]
fn hosts_with_most_pages_are_ranked() {
    let bench = filled();
    let top = bench.run("top", &["--most-pages", "--limit", "2"]).ended(0);
    assert_eq!(lines(&top), ["         4 pages  a.org", "         2 pages  b.a.org", "         9 pages  (all)"]);
    let top = bench.run("top", &["--most-pages", "--json", "--domain", "a.org"]).ended(0).json();
    assert_eq!(
        top,
        [
            json!({ "pages": 4, "host": "a.org" }),
            json!({ "pages": 2, "host": "b.a.org" }),
            json!({ "pages": 6, "all": true, "short_by": 0 })
        ]
    );
    assert!(lines(&bench.run("top", &["--most-pages"]).ended(0)).contains(&"          1 page  (no host)"));
    bench.run("top", &["--most-pages", "--exact-hosts", "2"]).ended(0).said("over 2 hosts");
    bench.run("top", &["--most-pages", "--sort", "pages"]).ended(2);
}

#[test]
fn a_place_that_is_no_url_is_refused() {
    let bench = filled();
    bench.run("ls", &["--after", "no URL"]).ended(2).said("no URL");
    bench.run("ls", &["--after", "http://a.org/", "--all-variants"]).ended(2).said("--all-variants");
}

#[test]
fn a_store_without_order_lists_in_that_of_its_log_and_refuses_the_rest() {
    let bench = Bench::new();
    let store = PageStore::create(bench.store(), Options::new().end_key_order()).unwrap();
    fill(&store);
    assert!(!store.engine().has_key_order());
    store.close().unwrap();
    let mut listed: Vec<String> = ls(&bench, &[]).text().lines().map(str::to_owned).collect();
    listed.sort_unstable();
    let mut expected = IN_ORDER.to_vec();
    expected.sort_unstable();
    assert_eq!(listed, expected);
    assert_eq!(bench.run("count", &["--host", "a.org"]).ended(0).text(), "4\n");
    assert!(lines(&bench.run("top", &["--most-pages"]).ended(0))[0].ends_with("4 pages  a.org"));
    bench.run("ls", &["--reverse"]).ended(2).said("a repair makes one");
    bench.run("ls", &["--after", "http://a.org/"]).ended(2).said("a repair makes one");
    // Opening for writing does not create the order, either; a repair does.
    bench.run("rm", &["urn:x"]).ended(0);
    bench.run("ls", &["--reverse"]).ended(2);
    bench.run("repair", &["--in-place", "--yes"]).ended(0);
    assert_eq!(lines(&ls(&bench, &["--reverse"])).last(), Some(&IN_ORDER[0]));
}
