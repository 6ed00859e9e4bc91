//! Imports a crawl's WARC file and reads pages by URL; then puts, lists, dates and removes pages
//! by hand.
//! Another program computed the lengths and CRC-32s of the bodies from the same WARC files.

use crate::harness::{Bench, PAGE_BYTES, PAGE_CRC, PAGE_URL, PAGES, warc};
use serde_json::Value;

const ARCHIVE: &str = "https://archive.org/";

#[test]
fn an_imported_page_comes_out_by_its_url_byte_for_byte() {
    let bench = Bench::with(&["python-docs.warc.gz"]);
    let page = bench.run("get", &[PAGE_URL]).ended(0);
    assert_eq!(page.out.len(), PAGE_BYTES);
    assert_eq!(crc32fast::hash(&page.out), PAGE_CRC);
    assert_eq!(page.words, "", "data needs no words");
}

#[test]
fn bodies_are_decoded_by_default_and_byte_exact_as_received() {
    let known = [
        ("example.warc.gz", "http://example.com/", (1270, 0x8baa_9508), (606, 0xcfbf_da60)),
        ("cc.warc.gz", "http://commoncrawl.org/", (20_289, 0xd0bd_0185), (20_289, 0xd0bd_0185)),
        ("IAH-urls-wget.warc.gz", ARCHIVE, (30_459, 0xee90_efd6), (30_459, 0xee90_efd6)),
    ];
    for (file, url, decoded, received) in known {
        let bench = Bench::with(&[file]);
        let body = bench.run("get", &[url]).ended(0).out;
        assert_eq!((body.len(), crc32fast::hash(&body)), decoded, "{url} decoded");
        let exact = Bench::new();
        exact.run("import", &["--as-received".as_ref(), warc(file).as_os_str()]).ended(0);
        let body = exact.run("get", &[url]).ended(0).out;
        assert_eq!((body.len(), crc32fast::hash(&body)), received, "{url} as received");
    }
}

#[test]
fn an_import_run_again_adds_nothing() {
    let bench = Bench::new();
    let file = warc("python-docs.warc.gz");
    // 72 responses and 2 resources; 10 of them were fetched twice within a second, with the same
    // content.
    let first = bench.run("import", &["--json".as_ref(), file.as_os_str()]).ended(0).json();
    assert_eq!((&first[0]["stored"], &first[0]["already_there"]), (&Value::from(64), &Value::from(10)), "{first:?}");
    let versions = bench.run("history", &[PAGE_URL]).ended(0).text().lines().count();
    let second = bench.run("import", &["--json".as_ref(), file.as_os_str()]).ended(0).json();
    assert_eq!((&second[0]["stored"], &second[0]["already_there"]), (&Value::from(0), &Value::from(74)), "{second:?}");
    assert_eq!(bench.run("history", &[PAGE_URL]).ended(0).text().lines().count(), versions);
    assert_eq!(bench.run::<&str>("ls", &[]).ended(0).text().lines().count(), PAGES);
}

#[test]
fn a_page_of_an_earlier_time_comes_out_by_that_time() {
    let bench = Bench::with(&["IAH-urls-wget.warc.gz"]);
    let crc = |time: &str| crc32fast::hash(&bench.run("get", &[ARCHIVE, "--at", time]).ended(0).out);
    for early in ["20131021215309", "2013-10-21T21:53:11Z", "1382392391999"] {
        assert_eq!(crc(early), 0xe0f3_dcf0, "{early}");
    }
    for late in ["20131021215312", "2024-01-01", "2013-10-21T23:53:12+02:00"] {
        assert_eq!(crc(late), 0xee90_efd6, "{late}");
    }
    bench
        .run("get", &[ARCHIVE, "--at", "20131021215308"])
        .ended(1)
        .said("no version at or before 2013-10-21T21:53:08Z");
    let times = bench.run("history", &[ARCHIVE, "--json"]).ended(0).json();
    let times: Vec<&str> = times.iter().map(|line| line["time"].as_str().unwrap()).collect();
    assert_eq!(times, ["2013-10-21T21:53:12Z", "2013-10-21T21:53:09Z"], "the newest first");
}

#[test]
fn headers_and_the_whole_response_come_out_as_they_were() {
    let bench = Bench::with(&["python-docs.warc.gz"]);
    let headers = bench.run("get", &[PAGE_URL, "--headers"]).ended(0);
    let text = headers.text();
    assert!(text.starts_with("HTTP/1.0 200 OK\r\nServer: SimpleHTTP/"), "{text}");
    assert!(text.ends_with("\r\n\r\n"), "{text}");
    let response = bench.run("get", &[PAGE_URL, "--response"]).ended(0);
    let body = response.out.strip_prefix(&headers.out[..]).expect("the response begins with its headers");
    assert_eq!(crc32fast::hash(body), PAGE_CRC);
    let line = &bench.run("head", &[PAGE_URL, "--json"]).ended(0).json()[0];
    assert_eq!((&line["status"], &line["body_bytes"]), (&Value::from(200), &Value::from(PAGE_BYTES)));
}

#[test]
fn a_page_is_written_to_a_file_and_an_absent_one_makes_no_file() {
    let bench = Bench::with(&["python-docs.warc.gz"]);
    let file = bench.path("page.html");
    let args = |url: &str| [url.into(), "-o".into(), file.clone().into_os_string()];
    bench.run("get", &args("http://absent.example/")).ended(1);
    assert!(!file.exists());
    let ran = bench.run("get", &args(PAGE_URL)).ended(0);
    assert!(ran.out.is_empty());
    assert_eq!(crc32fast::hash(&std::fs::read(&file).unwrap()), PAGE_CRC);
}

#[test]
fn a_page_put_by_hand_comes_out_and_goes_when_removed() {
    let bench = Bench::new();
    let url = "https://example.com/by/hand";
    let body: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let args = [url, "-", "--status", "203", "--header", "Content-Type: application/x-test", "--time", "2020-02-02"];
    bench.feed("put", &args, &body).ended(0);
    assert_eq!(bench.run("get", &[url]).ended(0).out, body);
    let head = &bench.run("head", &[url, "--json"]).ended(0).json()[0];
    assert_eq!(head["status"], 203);
    assert_eq!(head["time"], "2020-02-02T00:00:00Z");
    assert_eq!(head["headers"], serde_json::json!([{ "name": "Content-Type", "value": "application/x-test" }]));

    let file = bench.path("body");
    std::fs::write(&file, "from a file").unwrap();
    bench.run("put", &[url.as_ref(), file.as_os_str()]).ended(0);
    assert_eq!(bench.run("get", &[url]).ended(0).text(), "from a file", "the newer time wins");
    assert_eq!(bench.run("history", &[url]).ended(0).text().lines().count(), 2);

    bench.run("rm", &[url]).ended(0);
    for verb in ["get", "head", "history", "rm"] {
        bench.run(verb, &[url]).ended(1).said(url);
    }
}

#[test]
fn urls_are_met_however_they_are_written() {
    let bench = Bench::with(&["example.warc.gz"]);
    for spelling in ["http://example.com/", "HTTP://EXAMPLE.com:80/", "http://example.com/#top"] {
        assert_eq!(bench.run("get", &[spelling]).ended(0).out.len(), 1270, "{spelling}");
    }
}

#[test]
fn urls_are_listed_whole_by_host_and_by_prefix() {
    let bench = Bench::with(&["python-docs.warc.gz", "IAH-urls-wget.warc.gz", "cc.warc.gz"]);
    let list = |args: &[&str]| {
        let text = bench.run("ls", args).ended(0).text().to_owned();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let all = list(&[]);
    assert!(all.len() > 54 && all.iter().any(|url| url == PAGE_URL), "{all:?}");
    assert_eq!(list(&["--host", "docs.python.localhost"]).len(), 54);
    assert_eq!(list(&["--host", "commoncrawl.org"]), ["http://commoncrawl.org/"]);
    let tutorial = "http://docs.python.localhost/3.11/tutorial/";
    let expected: Vec<String> = all.iter().filter(|url| url.starts_with(tutorial)).cloned().collect();
    assert_eq!(list(&["--prefix", tutorial]), expected);
    assert!(list(&["--host", "absent.example"]).is_empty());
    let zeros = bench.run("ls", &["-0"]).ended(0).out;
    assert_eq!(zeros.iter().filter(|byte| **byte == 0).count(), all.len());
    assert!(!zeros.contains(&b'\n'));
}

#[test]
fn a_dump_of_all_versions_loaded_into_another_store_gives_the_same_dump() {
    let from = Bench::new();
    let files = ["IAH-urls-wget.warc.gz", "example.warc.gz", "cc.warc.gz"].map(warc);
    let keep = ["--keep", "request,metadata"].map(std::ffi::OsStr::new);
    let args: Vec<&std::ffi::OsStr> = keep.into_iter().chain(files.iter().map(|file| file.as_os_str())).collect();
    from.run("import", &args).ended(0);
    let dump = from.path("pages.jsonl");
    from.run("dump", &["-o".as_ref(), dump.as_os_str()]).ended(0);
    let to = Bench::new();
    to.run("load", &[&dump]).ended(0);
    let sorted = |bench: &Bench, flags: &[&str]| {
        let text = bench.run("dump", flags).ended(0).text().to_owned();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    for flags in [&[][..], &["--newest"]] {
        let (before, after) = (sorted(&from, flags), sorted(&to, flags));
        assert!(before.len() > 10, "{flags:?}");
        assert!(before == after, "{flags:?}: {before:#?} became {after:#?}");
    }
    let again = to.run("import", &["--json".as_ref(), dump.as_os_str()]).ended(0).json();
    assert_eq!(again[0]["stored"], 0, "{again:?}");
}

#[test]
fn a_bad_line_of_a_dump_costs_itself_only() {
    let bench = Bench::new();
    let dump = bench.path("pages.jsonl");
    let good = |url: &str| format!("{{\"url\":\"{url}\",\"time_ms\":1,\"body\":\"x\"}}\n");
    let lines = [good("http://a/"), "{\"url\":\n".to_owned(), "\n".to_owned(), good("http://b/")];
    std::fs::write(&dump, lines.concat()).unwrap();
    let offset = lines[0].len().to_string();
    bench.run("import", &[&dump]).ended(3).said("pages.jsonl").said(&format!("offset {offset}:"));
    assert_eq!(bench.run::<&str>("ls", &[]).ended(0).text().lines().count(), 2);
}

#[test]
fn a_store_of_exact_urls_tells_spellings_apart() {
    let bench = Bench::new();
    bench.feed("put", &["HTTP://EXAMPLE.com:80/#top", "-", "--exact-urls"], b"exact").ended(0);
    bench.run("get", &["http://example.com/"]).ended(1);
    assert_eq!(bench.run("get", &["HTTP://EXAMPLE.com:80/#top"]).ended(0).out, b"exact");
    bench.feed("put", &["http://example.com/"], b"plain").ended(0);
    assert_eq!(bench.run::<&str>("ls", &[]).ended(0).text().lines().count(), 2);
    let other = Bench::with(&["example.warc.gz"]);
    other.feed("put", &["http://example.com/", "-", "--exact-urls"], b"x").ended(2).said("whatwg");
}
