//! Requests of archive tools: the index, Memento, captures as recorded.

use filemap::{Page, Variant};

use crate::served::{Served, served};

const FIRST: i64 = 1_700_000_000_000;
const DAY: i64 = 86_400_000;

fn page(url: &str, time_ms: i64, status: u16, body: &str) -> Page {
    let mut page = Page::new(url, time_ms, status, body);
    page.headers.push("Content-Type", "text/html; charset=utf-8");
    page.headers.push("Set-Cookie", "stolen=1");
    page
}

fn site() -> Served {
    let mut moved = page("http://www.example.com/moved", FIRST, 301, "");
    moved.headers.push("Location", "http://www.example.com/");
    let mut posted = page("http://www.example.com/form", FIRST, 200, "answer to a=1");
    posted.variant = Variant::of_request("POST", Some(b"application/x-www-form-urlencoded"), b"a=1&b=X+Y");
    let mut sized = page("http://www.example.com/", FIRST + 2 * DAY, 200, "third");
    sized.digest = Some("sha1:G7HRM7BGOKSKMSXZAHMUQTTV53QOFSMK".to_owned());
    served(&[
        page("http://www.example.com/", FIRST, 200, "first"),
        page("http://www.example.com/", FIRST + DAY, 404, "second"),
        sized,
        moved,
        posted,
        page("http://www.example.com/a?x=1&y=2", FIRST, 200, "query"),
        page("http://www.example.com/broken", FIRST, 500, "broken"),
        page("http://sub.example.com/", FIRST, 200, "below"),
        page("http://other.example/", FIRST, 200, "other"),
        page("http://127.0.0.1:8080/x", FIRST, 200, "by address"),
        page("http://[::1]/x", FIRST, 200, "by address"),
        page("https://secure.example/a/1", FIRST, 200, "https"),
        page("https://www.secure.example/a/2", FIRST, 200, "https"),
    ])
}

fn lines(server: &Served, query: &str) -> Vec<String> {
    let answer = server.get(&format!("/cdx?{query}"), &[]);
    assert_eq!(answer.status, 200, "{query}: {}", String::from_utf8_lossy(&answer.body));
    String::from_utf8(answer.body).expect("text").lines().map(str::to_owned).collect()
}

#[test]
fn the_index_has_the_captures_that_are_asked_for() {
    let server = site();
    let all = lines(&server, "url=http://www.example.com/");
    assert_eq!(all.len(), 3);
    assert_eq!(lines(&server, "url=https://example.com/"), all, "the same key of an index");
    assert_eq!(lines(&server, "url=example.com/"), all);
    assert!(lines(&server, "url=sub.example.com/none").is_empty());
    let fields: Vec<&str> = all[2].split(' ').collect();
    assert_eq!(
        fields[..6],
        [
            "com,example)/",
            "20231116221320",
            "http://www.example.com/",
            "text/html",
            "200",
            "G7HRM7BGOKSKMSXZAHMUQTTV53QOFSMK"
        ]
    );
    assert_eq!((fields.len(), fields[6], fields[7], fields[9], fields[10]), (11, "-", "-", "-", "-"));
    assert!(fields[8].parse::<u64>().is_ok());
    let stamps = |query: &str| lines(&server, &format!("url=http://www.example.com/&fl=timestamp&{query}"));
    assert_eq!(stamps(""), ["20231114221320", "20231115221320", "20231116221320"]);
    assert_eq!(stamps("sort=reverse&limit=1"), ["20231116221320"]);
    assert_eq!(stamps("limit=-1"), ["20231116221320"]);
    assert_eq!(stamps("limit=2"), ["20231114221320", "20231115221320"]);
    assert_eq!(stamps("closest=20231115&sort=closest")[0], "20231114221320");
    assert_eq!(stamps("closest=20231115230000&sort=closest")[0], "20231115221320");
    assert_eq!(stamps("from=20231115&to=20231115"), ["20231115221320"]);
    assert_eq!(stamps("filter=statuscode:404"), ["20231115221320"]);
    assert_eq!(stamps("filter=!statuscode:4.."), ["20231114221320", "20231116221320"]);
    assert_eq!(stamps("filter=statuscode:2..&filter=!digest:-"), ["20231116221320"], "both must fit");
    let urls = |query: &str| lines(&server, &format!("fl=original&{query}"));
    assert_eq!(urls("url=http://www.example.com/a*"), ["http://www.example.com/a?x=1&y=2"]);
    assert_eq!(urls("url=www.example.com&matchType=host").len(), 7);
    let domain = urls("url=example.com&matchType=domain");
    assert!(domain.len() == 8 && domain.contains(&"http://sub.example.com/".to_owned()), "{domain:?}");
    assert_eq!(urls("url=example.com&matchType=domain&limit=2").len(), 2);
    for address in ["http://127.0.0.1:8080/x", "http://[::1]/x"] {
        assert_eq!(urls(&format!("url={address}")), [address]);
    }
    assert_eq!(urls("url=http://[::1]/&matchType=host"), ["http://[::1]/x"]);
    let all = ["https://secure.example/a/1", "https://www.secure.example/a/2"];
    for query in ["url=secure.example/a/*", "url=secure.example&matchType=host", "url=*.secure.example"] {
        assert_eq!(urls(query), all, "{query}");
    }
    assert_eq!(urls("url=secure.example/?u=http://other.example/").len(), 0, "its own host counts");
    assert_eq!(urls("url=http://www.example.com/&to=9999").len(), 3);
    let json = server.get("/cdx?url=http://www.example.com/&output=json&fl=url,status", &[]).json();
    assert_eq!(json[0], serde_json::json!(["original", "statuscode"]));
    assert_eq!((json[2][1].as_str(), json.as_array().map(Vec::len)), (Some("404"), Some(4)));
    let none = server.get("/cdx?url=nowhere.example&matchType=host&output=json", &[]).json();
    assert_eq!(none, serde_json::json!([]));
}

#[test]
fn what_the_index_does_not_know_is_refused_by_name() {
    let server = site();
    let nine = format!("url=http://www.example.com/{}", "&filter=status:2..".repeat(9));
    for (query, words) in [
        ("", "`url`"),
        ("url=http://www.example.com/&collapse=digest", "`collapse`"),
        ("url=http://www.example.com/&fl=size", "`size`"),
        ("url=http://www.example.com/&from=yesterday", "`yesterday`"),
        ("url=http://www.example.com/&filter=status", "`filter`"),
        (nine.as_str(), "at most 8"),
        ("url=http://www.example.com/&fl=url&fl=status", "twice"),
        ("url=http://www.example.com/&filter=status:(", "expression"),
        ("url=http://www.example.com/&matchType=near", "`near`"),
        ("url=www.example.com&matchType=host&sort=reverse", "`sort`"),
    ] {
        let (status, detail) = server.get(&format!("/cdx?{query}"), &[]).problem();
        assert!(status == 400 && detail.contains(words), "{query}: {status} {detail}");
    }
}

#[test]
fn a_capture_is_as_it_was_and_leaves_nothing_behind() {
    let server = site();
    let first = server.get("/web/20231114221320id_/http://www.example.com/", &[]);
    assert_eq!((first.status, &first.body[..]), (200, &b"first"[..]));
    assert_eq!(first.header("memento-datetime"), Some("Tue, 14 Nov 2023 22:13:20 GMT"));
    assert_eq!((first.header("set-cookie"), first.header("x-archive-orig-set-cookie")), (None, Some("stolen=1")));
    assert!(first.header("content-security-policy").is_some_and(|policy| policy.starts_with("sandbox")));
    let links = first.header("link").expect("links");
    assert!(links.contains("<http://www.example.com/>; rel=\"original\""), "{links}");
    assert_eq!(server.get("/web/20231115221320id_/http://www.example.com/", &[]).status, 404, "as it was");
    assert_eq!(server.get("/web/20231114221320id_/http://www.example.com/broken", &[]).status, 500, "as it was");
    assert!(server.log.lock().expect("unpoisoned").is_empty(), "and no failure of the server");
    let moved = server.get("/web/20231114221320id_/http://www.example.com/moved", &[]);
    assert_eq!((moved.status, moved.header("location")), (301, Some("http://www.example.com/")));
    let query = server.get("/web/20231114221320id_/http://www.example.com/a?x=1&y=2", &[]);
    assert_eq!(query.body, b"query");
    for (stamp, leads) in [
        ("2023", "20231114221320"),
        ("20231115", "20231114221320"),
        ("20231116000000", "20231115221320"),
        ("20991231235959", "20231116221320"),
    ] {
        let near = server.get(&format!("/web/{stamp}id_/http://www.example.com/"), &[]);
        let place = format!("http://{}/web/{leads}id_/http://www.example.com/", server.address);
        assert_eq!((near.status, near.header("location")), (307, Some(place.as_str())), "{stamp}");
    }
    for (target, status) in [
        ("/web/20231114221320id_/http://www.example.com/none", 404),
        ("/web/20231114221320/http://www.example.com/", 400),
        ("/web/yesterdayid_/http://www.example.com/", 400),
        ("/web/20231114221320id_/", 400),
        ("/web/20231114221320id_/no url", 400),
    ] {
        assert_eq!(server.get(&target.replace(' ', "%20"), &[]).status, status, "{target}");
    }
}

#[test]
fn the_answer_to_a_form_is_found_as_tools_ask_for_it() {
    let server = site();
    let target = "/web/20231114221320id_/http://www.example.com/form";
    let form = ["Content-Type: application/x-www-form-urlencoded", "Origin: http://www.example.com"];
    let answer = server.ask("POST", target, &form, b"a=1&b=X+Y");
    assert_eq!((answer.status, &answer.body[..]), (200, &b"answer to a=1"[..]));
    assert_eq!(server.ask("POST", target, &form, b"a=2").status, 404);
    assert_eq!(server.get(target, &[]).status, 404);
    let by_url = format!("{target}?__wb_method=POST&a=1&b=X%20Y");
    assert_eq!(server.get(&by_url, &[]).body, b"answer to a=1");
    let index = lines(&server, "url=http://www.example.com/form?__wb_method=POST%26a=1%26b=X%2520Y");
    assert!(index.len() == 1 && index[0].starts_with("com,example)/form?__wb_method=post&a=1&b=x%20y "), "{index:?}");
}

#[test]
fn memento_leads_from_a_time_to_a_capture() {
    let server = site();
    let gate = "/timegate/http://www.example.com/";
    for (when, stamp) in [
        (None, "20231116221320"),
        (Some("Tue, 14 Nov 2023 22:13:20 GMT"), "20231114221320"),
        (Some("Wed, 15 Nov 2023 12:00:00 GMT"), "20231115221320"),
        (Some("Mon, 01 Jan 2001 00:00:00 GMT"), "20231114221320"),
    ] {
        let line = when.map(|when| format!("Accept-Datetime: {when}"));
        let headers: Vec<&str> = line.iter().map(String::as_str).collect();
        let found = server.get(gate, &headers);
        let place = format!("http://{}/web/{stamp}id_/http://www.example.com/", server.address);
        assert_eq!((found.status, found.header("location")), (302, Some(place.as_str())), "{when:?}");
        assert_eq!(found.header("vary"), Some("accept-datetime"));
        assert!(found.header("link").is_some_and(|links| links.contains("rel=\"timemap\"")));
    }
    assert_eq!(server.get(gate, &["Accept-Datetime: now"]).status, 400);
    assert_eq!(server.get("/timegate/http://www.example.com/none", &[]).status, 404);
    let map = String::from_utf8(server.get("/timemap/link/http://www.example.com/", &[]).body).expect("text");
    let mementos: Vec<&str> = map.lines().filter(|line| line.contains("memento\"")).collect();
    assert_eq!(mementos.len(), 3, "{map}");
    assert!(mementos[0].contains("rel=\"first memento\"; datetime=\"Tue, 14 Nov 2023 22:13:20 GMT\""), "{map}");
    assert!(
        mementos[2].contains("rel=\"last memento\"") && map.contains("rel=\"self\"; type=\"application/link-format\""),
        "{map}"
    );
    let json = server.get("/timemap/json/http://www.example.com/", &[]).json();
    assert_eq!(json["mementos"]["list"].as_array().map(Vec::len), Some(3));
    assert_eq!(json["mementos"]["last"]["datetime"].as_str(), Some("2023-11-16T22:13:20Z"));
}
