//! Answers to requests other than a plain GET, on the command line: a URL alone means the page,
//! even if other answers came later.

use crate::harness::{Bench, run, tool};
use serde_json::Value;

const URL: &str = "http://a.example/api";

/// A WARC file with a GET and then two POSTs, each with its answer.
fn archive() -> String {
    let mut file = String::new();
    for (nth, (method, body)) in [("GET", ""), ("POST", "q=1"), ("POST", "q=a+b")].into_iter().enumerate() {
        let length = body.len();
        let request = format!(
            "{method} /api HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let answer = format!("HTTP/1.1 200 OK\r\n\r\n{method} {body}");
        for (kind, names, block) in [
            ("response", String::new(), answer),
            ("request", format!("WARC-Concurrent-To: <urn:response{nth}>\r\n"), request),
        ] {
            file.push_str(&format!(
                "WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {URL}\r\nWARC-Date: 2020-01-01T00:00:0{nth}Z\r\n\
                 WARC-Record-ID: <urn:{kind}{nth}>\r\n{names}Content-Type: application/http;msgtype={kind}\r\n\
                 Content-Length: {}\r\n\r\n{block}\r\n\r\n",
                block.len()
            ));
        }
    }
    file
}

fn filled() -> Bench {
    let bench = Bench::new();
    let file = bench.path("posts.warc");
    std::fs::write(&file, archive()).unwrap();
    bench.run("import", &[&file]).ended(0).said("2 to other requests than a plain GET");
    std::fs::write(bench.path("form"), "q=a+b").unwrap();
    bench
}

#[test]
fn a_url_alone_prints_the_page_and_a_method_with_its_data_the_answer_to_that() {
    let bench = filled();
    assert_eq!(bench.run("get", &[URL]).ended(0).text(), "GET ");
    assert_eq!(bench.run("get", &[URL, "--at", "2024"]).ended(0).text(), "GET ");
    let form = bench.path("form");
    let form = form.to_str().unwrap();
    let asked = ["--method", "post", "--data-file", form];
    let with = |verb: &str, more: &[&str]| bench.run(verb, &[&[URL], &asked[..], more].concat());
    assert_eq!(with("get", &[]).ended(0).text(), "POST q=a+b");
    assert_eq!(with("get", &["--at", "20200101000002"]).ended(0).text(), "POST q=a+b");
    with("get", &["--at", "20200101000001"]).ended(1).said("this answer of http://a.example/api is not in");
    assert!(with("get", &["--headers"]).ended(0).text().starts_with("HTTP/1.1 200 OK"));
    assert_eq!(with("get", &["--json"]).ended(0).json()[0]["variant"], "__wb_method=POST&q=a b");
    assert_eq!(with("history", &[]).ended(0).text().lines().count(), 1);
    assert!(with("head", &[]).ended(0).text().contains("variant          __wb_method=POST&q=a b\n"));
    with("has", &[]).ended(0);
    let fed = |body: &[u8]| bench.feed("get", &[URL, "--method", "POST", "--data-file", "-"], body);
    assert_eq!(fed(b"q=1").ended(0).text(), "POST q=1");
    fed(b"q=2").ended(1);
    let other = with("get", &["--data-type", "text/plain"]);
    other.ended(1);
    assert_eq!(bench.run("get", &[URL, "--variant", "__wb_method=POST&q=a b"]).ended(0).text(), "POST q=a+b");
    assert_eq!(bench.run("get", &[URL, "--method", "GET"]).ended(0).text(), "GET ");
    bench.run("get", &[URL, "--method", "two words"]).ended(2);
    bench.run("get", &[URL, "--data-file", form]).ended(2);
}

#[test]
fn lists_and_counts_have_pages_and_with_all_variants_the_rest() {
    let bench = filled();
    let lines = |verb: &str, args: &[&str]| {
        let ran = bench.run(verb, args).ended(0);
        let mut lines: Vec<String> = ran.text().lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let one = format!("{URL}\t__wb_method=POST&q=1");
    let two = format!("{URL}\t__wb_method=POST&q=a b");
    assert_eq!(lines("ls", &[]), [URL]);
    assert_eq!(lines("ls", &["--host", "a.example"]), [URL]);
    assert_eq!(lines("ls", &["--all-variants"]), [URL, &one, &two]);
    for args in [&["-l", "--all-variants"][..], &["-l", "--all-variants", "--prefix", "http://a"]] {
        let long = lines("ls", args);
        assert_eq!((long.len(), long.iter().filter(|line| line.ends_with(&one)).count()), (3, 1), "{long:?}");
    }
    let json = bench.run("ls", &["--all-variants", "--json"]).ended(0).json();
    assert_eq!(json.iter().filter(|line| line["variant"] == "__wb_method=POST&q=1").count(), 1);
    assert_eq!(
        (lines("count", &[]), lines("count", &["--all-variants"])),
        (vec!["1".to_owned()], vec!["3".to_owned()])
    );
    let counts = bench.run("count", &["--all-variants", "--versions", "--json"]).ended(0).json();
    assert_eq!(counts[0], serde_json::json!({ "pages": 1, "variants": 2, "versions": 3 }));
    assert_eq!(lines("history", &[URL]).len(), 1);
    let all = lines("history", &[URL, "--all-variants"]);
    assert_eq!(all.iter().filter(|line| line.ends_with("\t\t__wb_method=POST&q=a b")).count(), 1, "{all:?}");
    assert_eq!(all.len(), 3);
    let top = bench.run("top", &["--json"]).ended(0).json();
    assert_eq!((&top[0]["host"], &top[0]["pages"]), (&Value::from("a.example"), &Value::from(1)));
}

#[test]
fn rm_of_a_url_removes_its_variants_and_rm_of_one_leaves_the_rest() {
    let bench = filled();
    bench.run("rm", &[URL, "--variant", "__wb_method=POST&q=1"]).ended(0);
    assert_eq!(bench.run("count", &["--all-variants"]).ended(0).text(), "2\n");
    bench.run("rm", &[URL, "--variant", "__wb_method=POST&q=1"]).ended(1);
    bench.run("rm", &[URL]).ended(0);
    assert_eq!(bench.run("count", &["--all-variants"]).ended(0).text(), "0\n");
    assert_eq!(bench.run::<&str>("dump", &[]).ended(0).text(), "", "nor is a request left");

    let bench = filled();
    bench.run("rm", &["--host", "a.example", "--yes"]).ended(0).said("removed 1 page and 2 variants of a.example");
    assert_eq!(bench.run::<&str>("dump", &[]).ended(0).text(), "");
    bench.run("rm", &["--host", "a.example", "--yes", "--method", "POST"]).ended(2);
}

#[test]
fn variants_whose_mark_is_lost_are_shown_again_by_a_repair_and_a_copy() {
    let bench = filled();
    let segment = bench.store().join("value0.dat");
    let mut bytes = std::fs::read(&segment).unwrap();
    let at = bytes.windows(9).position(|w| w == b"\0variants").unwrap();
    bytes[at] ^= 1;
    std::fs::write(&segment, &bytes).unwrap();
    for verb in [&["repair"][..], &["copy", "--compact"]] {
        let whole = bench.path("whole.fm");
        let made = run(tool().args(verb).arg(bench.store()).arg(&whole));
        made.ended(3).said("1 mark by which variants are found");
        let on = |verb: &str, args: &[&str]| run(tool().arg(verb).arg(&whole).args(args)).ended(0);
        assert_eq!(on("history", &[URL, "--all-variants"]).text().lines().count(), 3);
        on("rm", &[URL]);
        assert_eq!(on("count", &["--all-variants"]).text(), "0\n");
        std::fs::remove_dir_all(&whole).unwrap();
    }
}

#[test]
fn put_makes_a_variant_and_a_url_of_variants_only_says_where_they_are() {
    let bench = Bench::new();
    bench.feed("put", &[URL, "--variant", "fingerprint"], b"apart").ended(0);
    bench
        .feed("put", &[URL, "--method", "PUT", "--data-file", "-"], b"x")
        .ended(2)
        .said("cannot both be standard input");
    bench.run("get", &[URL]).ended(1).said("may be as the answer to other requests");
    bench.run("has", &[URL]).ended(1);
    assert_eq!(bench.run("get", &[URL, "--variant", "fingerprint"]).ended(0).text(), "apart");
    // A dump and a load keep it apart, too.
    let dump = bench.run::<&str>("dump", &[]).ended(0);
    let other = Bench::new();
    other.feed::<&str>("load", &[], &dump.out).ended(0);
    assert_eq!(other.run("get", &[URL, "--variant", "fingerprint"]).ended(0).text(), "apart");
    assert_eq!(other.run::<&str>("dump", &[]).ended(0).out, dump.out);
}

#[test]
fn variants_go_through_a_wacz_file_and_a_merge() {
    let bench = filled();
    let lines = |args: &[&str]| {
        let mut lines: Vec<String> = run(tool().args(args)).ended(0).text().lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let path = |name: &str| bench.path(name).to_str().expect("a path").to_owned();
    let (store, wacz, from_wacz, merged) = (bench.store(), path("x.wacz"), path("from.fm"), path("merged.fm"));
    let store = store.to_str().expect("a path");
    bench.run("dump", &["--format", "wacz", "-o", &wacz]).ended(0);
    run(tool().args(["import", &from_wacz, &wacz])).ended(0).said("2 to other requests than a plain GET");
    // The other store only has the page, at another time.
    let other = path("other.fm");
    std::fs::write(
        bench.path("page.warc"),
        archive().replace("2020", "2019").split("WARC/1.0").take(3).collect::<Vec<_>>().join("WARC/1.0"),
    )
    .unwrap();
    run(tool().args(["import", &other, &path("page.warc")])).ended(0);
    run(tool().args(["merge", &merged, &from_wacz, &other])).ended(0);
    assert_eq!(lines(&["dump", &from_wacz]), lines(&["dump", store]));
    let mut both = [lines(&["dump", store]), lines(&["dump", &other])].concat();
    both.sort_unstable();
    // The merge finds that both have the same body, and stores it once.
    let all: Vec<String> = lines(&["dump", &merged])
        .iter()
        .map(|line| line.replace("\"unchanged\":true", "\"unchanged\":false"))
        .collect();
    assert_eq!(all, both);
    for (store, versions) in [(store, 3), (&from_wacz, 3), (&merged, 4)] {
        assert_eq!(lines(&["history", store, URL, "--all-variants"]).len(), versions, "{store}");
        assert_eq!(run(tool().args(["get", store, URL])).ended(0).text(), "GET ");
        let variant = ["get", store, URL, "--variant", "__wb_method=POST&q=1"];
        assert_eq!(run(tool().args(variant)).ended(0).text(), "POST q=1");
        assert_eq!(lines(&["ls", store, "--all-variants"]).len(), 3, "{store}");
    }
    run(tool().args(["rm", &merged, URL])).ended(0);
    assert_eq!(lines(&["count", &merged, "--all-variants"]), ["0"]);
}

#[test]
fn a_store_of_variants_alone_does_not_list_as_an_empty_one() {
    let bench = filled();
    let of_all = bench.run("ls", &["--all-variants"]).ended(0);
    assert!(!of_all.words.contains("has no pages"), "{}", of_all.words);
    let absent = bench.run("ls", &["--host", "b.example"]).ended(0);
    assert!(absent.text().is_empty() && !absent.words.contains("has no pages"), "it has one: {}", absent.words);
    let (posts, text) = (Bench::new(), archive());
    // After the GET, its answer and its request.
    let (from, _) = text.match_indices("WARC/1.0").nth(2).unwrap();
    let file = posts.path("posts.warc");
    std::fs::write(&file, &text[from..]).unwrap();
    posts.run("import", &[&file]).ended(0);
    for args in [&[][..], &["--long"], &["--host", "a.example"]] {
        let ran = posts.run("ls", args).ended(0).said("has no pages, but variants").said("--all-variants");
        assert!(ran.text().is_empty());
    }
    for args in [["--quiet"], ["--json"], ["--all-variants"], ["--limit=0"]] {
        assert!(!posts.run("ls", &args).ended(0).words.contains("has no pages"));
    }
}
