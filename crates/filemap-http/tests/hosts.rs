//! The hosts of a store with their numbers of pages, as JSON.

use filemap::Page;
use filemap::acl::AccessRules;
use filemap_http::server::ServerOptions;

use crate::served::{self, Served, served};

const TIME: i64 = 1_700_000_000_000;

fn pages() -> Vec<Page> {
    let urls = [
        "http://a.example/1",
        "http://a.example/2",
        "http://sub.a.example/",
        "https://b.example:8443/",
        "http://b.example/x",
        "http://c.example/",
        "dns:a.example",
    ];
    urls.iter().map(|url| Page::new(*url, TIME, 200, "body")).collect()
}

/// All hosts, in parts of `limit`, and the last `has_rest`.
fn hosts(server: &Served, limit: usize) -> (Vec<(String, u64)>, bool) {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let part = server.get(&format!("/v1/hosts?limit={limit}{cursor}"), &[]).json();
        let rows = part["hosts"].as_array().expect("hosts");
        assert!((1..=limit).contains(&rows.len()), "{part}");
        found.extend(
            rows.iter().map(|row| {
                (row["host"].as_str().expect("a host").to_owned(), row["pages"].as_u64().expect("a number"))
            }),
        );
        match part["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (found, part["has_rest"].as_bool().expect("known")),
        }
    }
}

#[test]
fn hosts_have_their_pages_in_parts_of_any_size() {
    let server = served(&pages());
    let (all, has_rest) = hosts(&server, 1_000);
    let mut names: Vec<&str> = all.iter().map(|(host, _)| host.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["a.example", "b.example", "c.example", "sub.a.example"]);
    assert!(has_rest, "a record without a host follows");
    for (host, pages) in &all {
        let count = server.get(&format!("/v1/count?host={host}"), &[]).json();
        assert_eq!(count["count"].as_u64(), Some(*pages), "{host}");
    }
    assert!(all.contains(&("a.example".to_owned(), 2)), "{all:?}");
    for limit in 1..=5 {
        assert_eq!(hosts(&server, limit), (all.clone(), true), "in parts of {limit}");
    }
    for (query, words) in [("limit=0", "1 to 1000"), ("limit=1001", "1 to 1000"), ("cursor=*", "`cursor`")] {
        let (status, detail) = server.get(&format!("/v1/hosts?{query}"), &[]).problem();
        assert!(status == 400 && detail.contains(words), "{query}: {status} {detail}");
    }
}

#[test]
fn hosts_that_a_rule_excludes_are_in_no_part() {
    let mut rules = AccessRules::new();
    rules.add("rules.aclj", b"example,b - {\"access\": \"exclude\"}\n").expect("rules");
    let server = served::with(ServerOptions::new().access(rules), &pages());
    for limit in [1, 2, 100] {
        let (found, _) = hosts(&server, limit);
        let names: Vec<&str> = found.iter().map(|(host, _)| host.as_str()).collect();
        assert!(names.len() == 3 && !names.contains(&"b.example"), "{names:?}");
    }
}
