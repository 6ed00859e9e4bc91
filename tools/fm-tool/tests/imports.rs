//! `import`, `get` and `verify` of incomplete data: revisits without their originals, dates that
//! need a rule, unsupported forms; and no store for an import that stores nothing.

use std::fs;
use std::path::PathBuf;

use crate::harness::Bench;
use flate2::Compression;
use flate2::read::GzEncoder;

const DIGEST: &str = "WARC-Payload-Digest: sha-256:7TWJCUEXLGWZSXBM2FF4WJVSOIEZH6XWDQU5G6NSODKEFWJCSDVQ====\r\n";

fn record(kind: &str, url: &str, date: &str, block: &str) -> String {
    format!(
        "WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nWARC-Date: {date}\r\n{DIGEST}\
         WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest\r\n\
         Content-Type: application/http\r\nContent-Length: {}\r\n\r\n{block}\r\n\r\n",
        block.len()
    )
}

fn file(bench: &Bench, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = bench.path(name);
    fs::write(&path, bytes).expect("a temporary file");
    path
}

#[test]
fn a_revisit_without_its_original_is_said_counted_and_resolved_later() {
    let bench = Bench::new();
    let url = "https://a.example/page";
    let again = record("revisit", url, "2020-01-02T00:00:00Z", "HTTP/1.1 200 OK\r\n\r\n");
    let first = record("response", "http://a.example/page", "2020-01-01T00:00:00Z", "HTTP/1.1 200 OK\r\n\r\nhere");
    let (again, first) = (file(&bench, "again.warc", again), file(&bench, "first.warc", first));

    bench.run("import", &[&again]).ended(0).said("no body for 1 of 1 revisit:").said(url);
    let line = &bench.run("import", &[PathBuf::from("--json"), again.clone()]).ended(0).json()[0];
    assert_eq!((&line["revisits"], &line["unresolved_revisits"]), (&1.into(), &1.into()));
    bench.run("verify", &["--full"]).ended(0).said("no body for 1 of 1 revisit:");
    let line = &bench.run("verify", &["--json"]).ended(0).json()[0];
    assert_eq!((&line["revisits"], &line["unresolved_revisits"]), (&1.into(), &1.into()));

    let got = bench.run("get", &[url]).ended(0).said("no body").said("revisit").said("sha-256:");
    assert_eq!(got.out, b"");
    let got = bench.run("get", &[url, "--require-body"]).ended(1).said("no body");
    assert_eq!(got.out, b"");
    bench.run("get", &[url, "--json"]).ended(0).said("no body");
    bench.run("get", &[url, "--at", "2021", "--require-body"]).ended(1);
    bench.run("get", &[url, "--headers"]).ended(0);

    let ran = bench.run("import", &[&first]).ended(0);
    assert!(!ran.words.contains("no body"), "{}", ran.words);
    let got = bench.run("get", &[url, "--require-body"]).ended(0);
    assert_eq!((&got.out[..], got.words.as_str()), (&b"here"[..], ""));
    let ran = bench.run("verify", &["--full"]).ended(0);
    assert!(!ran.words.contains("no body"), "{}", ran.words);
}

#[test]
fn originals_of_a_later_file_count_at_the_end_of_the_import() {
    let bench = Bench::new();
    let again = record("revisit", "http://a.example/", "2020-01-02T00:00:00Z", "HTTP/1.1 200 OK\r\n\r\n");
    let first = record("response", "http://a.example/", "2020-01-01T00:00:00Z", "HTTP/1.1 200 OK\r\n\r\nhere");
    let files = [PathBuf::from("--json"), file(&bench, "1.warc", again), file(&bench, "2.warc", first)];
    let lines = bench.run("import", &files).ended(0).json();
    let counts: Vec<_> = lines.iter().map(|line| line["unresolved_revisits"].as_u64()).collect();
    assert_eq!(counts, [Some(1), Some(0), Some(0)]);
}

#[test]
fn an_import_that_takes_nothing_leaves_no_store() {
    let info = "WARC/1.0\r\nWARC-Type: warcinfo\r\nContent-Length: 0\r\n\r\n\r\n\r\n";
    let no_url = record("response", "not a URL", "2020-01-01T00:00:00Z", "x");
    for (name, bytes, code) in [
        ("empty.warc", Vec::new(), 3),
        ("empty.gz", Vec::new(), 3),
        ("empty.warc.gz", Vec::new(), 3),
        // An empty gzip member, and an empty zstd frame.
        ("nothing.warc.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0".to_vec(), 3),
        ("nothing.warc.zst", b"\x28\xb5\x2f\xfd\x04\0\x01\0\0\x99\xe9\xd8\x51".to_vec(), 3),
        ("text.warc", b"no WARC file\n".to_vec(), 3),
        ("info.warc", info.into(), 0),
        ("no-url.warc", no_url.into(), 3),
        ("packed.warc.xz", [&b"\xfd7zXZ\0\0\x04"[..], &[7; 100]].concat(), 2),
        ("packed.warc.bz2", [&b"BZh91AY&SY"[..], &[7; 100]].concat(), 2),
        ("empty.jsonl", Vec::new(), 0),
        ("bad.jsonl", b"{}\n".to_vec(), 3),
    ] {
        let bench = Bench::new();
        let ran = bench.run("import", &[file(&bench, name, bytes)]).ended(code).said("was not made");
        assert!(code != 3 || ran.words.contains(": offset 0: "), "{name}: {}", ran.words);
        assert!(!bench.store().exists(), "{name}: {}", ran.words);
    }
}

#[test]
fn a_file_in_another_form_is_named_with_what_to_do_and_the_others_are_taken() {
    let bench = Bench::new();
    let page = record("response", "http://a.example/", "2020-01-01T00:00:00Z", "HTTP/1.1 200 OK\r\n\r\nhere");
    let packed = file(&bench, "a.warc.xz", [&b"\xfd7zXZ\0\0\x04"[..], &[7; 100]].concat());
    let command = format!("xz -dc {} | fm-tool import", packed.display());
    bench.run("import", &[packed, file(&bench, "b.warc", page)]).ended(2).said("compressed by xz").said(&command);
    assert_eq!(bench.run("get", &["http://a.example/"]).ended(0).out, b"here");
}

#[test]
fn dates_by_a_rule_and_digests_that_do_not_hold_are_said() {
    let bench = Bench::new();
    let page = record("response", "http://a.example/", "2008-10-294T05:21:46-0700", "HTTP/1.1 200 OK\r\n\r\nhere");
    let path = file(&bench, "a.warc", page.replace("7TWJCUEX", "7TWJCUEA"));
    let ran = bench.run("import", &[&path]).ended(0);
    let ran = ran.said("2008-10-294T05:21:46-0700").said("day-of-year").said("1 date found by a rule");
    ran.said("1 with a payload digest that is wrong");
    let line = &bench.run("import", &[PathBuf::from("--json"), path]).ended(0).json()[0];
    assert_eq!((&line["mended_dates"]["day-of-year"], &line["payload_digests"]["wrong"]), (&1.into(), &1.into()));
}

#[test]
fn segments_and_unknown_types_are_said_and_end_with_3() {
    let bench = Bench::new();
    let page = |kind: &str| record(kind, "http://a.example/", "2020-01-01T00:00:00Z", "HTTP/1.1 200 OK\r\n\r\nhere");
    let first = page("response").replacen("WARC-Profile", "WARC-Segment-Number: 1\r\nWARC-Profile", 1);
    let path = file(&bench, "a.warc", first + &page("continuation") + &page("screenshot"));
    let ran = bench.run("import", &[&path]).ended(3).said("1 page stored").said("2 segments of records that are cut");
    ran.said("first segment of a record").said("segments are not put together").said("unknown type: screenshot");
    let line = &bench.run("import", &[PathBuf::from("--json"), path]).ended(3).json()[0];
    assert_eq!((&line["segments"], &line["unusable"], &line["ignored"]), (&2.into(), &1.into(), &0.into()));
}

#[test]
fn answers_that_are_taken_for_pages_without_their_requests_are_said() {
    let bench = Bench::new();
    let with_ids = |record: String, ids: &str| record.replacen("WARC-Profile", &format!("{ids}\r\nWARC-Profile"), 1);
    let page = |nth: usize| format!("http://a.example/{nth}");
    let answer = |nth: usize| record("response", &page(nth), "2020-01-01T00:00:00Z", "HTTP/1.1 200 OK\r\n\r\nhere");
    let named = with_ids(answer(0), "WARC-Record-ID: <urn:a>\r\nWARC-Concurrent-To: <urn:q>");
    let ran = bench.run("import", &[file(&bench, "alone.warc", &named)]).ended(0);
    ran.said("1 answer taken for a page although its request is missing");

    // A request without an answer; and one that only its URL links to its answer.
    let plain = record("response", &page(7), "2020-01-01T00:00:00Z", "HTTP/1.1 200 OK\r\n\r\nby GET");
    let ask = |nth: usize, second: u32| {
        let time = format!("2020-01-01T00:01:{second:02}Z");
        record("request", &page(nth), &time, &format!("POST /{nth} HTTP/1.1\r\n\r\n"))
    };
    let posted = record("response", &page(7), "2020-01-01T00:01:01Z", "HTTP/1.1 200 OK\r\n\r\nby POST");
    let loose = file(&bench, "loose.warc", plain + &posted + &ask(7, 2) + &ask(8, 3));
    let ran = bench.run("import", &[&loose]).ended(0).said("2 pages and 2 other records stored");
    ran.said("1 request other than a plain GET without an answer");
    assert_eq!(bench.run("get", &[page(7)]).ended(0).text(), "by GET");
    let line = &bench.run("import", &[PathBuf::from("--json"), loose]).ended(0).json()[0];
    assert_eq!((&line["unanswered"], &line["already_there"]), (&1.into(), &4.into()));

    let post = record("request", &page(0), "2020-01-01T00:00:00Z", "POST /0 HTTP/1.1\r\n\r\n");
    let post = with_ids(post, "WARC-Record-ID: <urn:q>");
    let far = named + &(1..100).map(answer).collect::<String>() + &post;
    let far = file(&bench, "far.warc", far);
    let ran =
        bench.run("import", &[&far]).ended(3).said("1 answer to another request than a plain GET taken for a page");
    ran.said("POST http://a.example/0: the request stands too far behind its answer at offset 0");
    let line = &bench.run("import", &[PathBuf::from("--json"), far]).ended(3).json()[0];
    assert_eq!((&line["misplaced"], &line["without_request"]), (&1.into(), &0.into()));
}

#[test]
fn json_lines_in_gzip_come_in_whole_or_up_to_where_they_are_cut() {
    let bench = Bench::with(&["python-docs.warc.gz"]);
    let lines = bench.run::<&str>("dump", &[]).ended(0);
    let pages = lines.text().lines().count();
    let mut packed = Vec::new();
    std::io::Read::read_to_end(&mut GzEncoder::new(&lines.out[..], Compression::default()), &mut packed)
        .expect("memory");
    let (whole, cut) = (file(&bench, "a.jsonl.gz", &packed), file(&bench, "b", &packed[..packed.len() / 2]));
    let again = Bench::new();
    again.run("import", &[&whole]).ended(0).said(&format!("{pages} pages stored"));
    again.feed("import", &["-"], &packed).ended(0).said(&format!("{pages} already there"));
    let part = Bench::new();
    let ran = part.run("import", &[PathBuf::from("--json"), cut]).ended(3);
    let line = &ran.json()[0];
    let stored = line["stored"].as_u64().expect("a number") as usize;
    assert!(stored > 0 && stored < pages && line["damaged"] == 1, "{line}");
    assert_eq!(part.run::<&str>("dump", &[]).ended(0).text().lines().count(), stored);
}
