//! Malicious input: keys that look like paths or terminal escapes, multi-line headers, times at
//! the limits of the calendar; and closed standard streams.

use std::fs;
use std::process::{Command, Stdio};

use crate::harness::{self, Bench, run, tool, warc};
use serde_json::{Value, json};

/// Keys of a store of exact URLs that are harmful as paths, arguments or terminal output.
fn keys() -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = [
        "../../../../etc/passwd",
        "..",
        ".",
        "/",
        "/etc/passwd",
        "//server/share",
        "C:\\Windows\\system32",
        "CON",
        "NUL.txt",
        "SUPERBLOCK",
        "value0.dat",
        "LOCK",
        "~",
        "$(reboot)",
        "`reboot`",
        "a b\tc\nd\re",
        "\u{1b}[2J\u{1b}]0;owned\u{7}",
        "http://a/\u{202e}gnp.exe",
        "\u{feff}",
        "%00",
        " ",
    ]
    .map(|key| key.as_bytes().to_vec())
    .to_vec();
    keys.extend([b"\xff\xfe\x80".to_vec(), vec![b'k'; 65_536], vec![0xfe; 65_535]]);
    keys
}

/// A dump with one page for each key.
fn dump_of(keys: &[Vec<u8>]) -> String {
    let line = |(i, key): (usize, &Vec<u8>)| {
        let mut line = json!({ "time_ms": i, "status": 200, "body": format!("body {i}") });
        match std::str::from_utf8(key) {
            Ok(text) => line["url"] = Value::from(text),
            Err(_) => {
                use base64::Engine;
                line["url_base64"] = Value::from(base64::engine::general_purpose::STANDARD.encode(key));
            }
        }
        format!("{line}\n")
    };
    keys.iter().enumerate().map(line).collect()
}

/// The names in a folder.
fn names(folder: &std::path::Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn no_key_ever_becomes_a_path() {
    use std::os::unix::ffi::OsStrExt;
    let keys = keys();
    let bench = Bench::new();
    fs::write(bench.path("in.jsonl"), dump_of(&keys)).unwrap();
    bench.run("import", &["--exact-urls".as_ref(), bench.path("in.jsonl").as_os_str()]).ended(0);
    for (i, key) in keys.iter().enumerate() {
        let key = std::ffi::OsStr::from_bytes(key);
        assert_eq!(bench.run("get", &["--".as_ref(), key]).ended(0).text(), format!("body {i}"));
        bench.run("get", &["-o".as_ref(), bench.path("out").as_os_str(), "--".as_ref(), key]).ended(0);
        assert_eq!(fs::read_to_string(bench.path("out")).unwrap(), format!("body {i}"));
    }
    let mut listed: Vec<Vec<u8>> = bench
        .run("ls", &["-0"])
        .ended(0)
        .out
        .split(|b| *b == 0)
        .map(<[u8]>::to_vec)
        .filter(|k| !k.is_empty())
        .collect();
    listed.sort();
    let mut sorted = keys.clone();
    sorted.sort();
    assert!(listed == sorted, "every byte of every key reaches a pipe");

    bench.run("dump", &["-o".as_ref(), bench.path("out.jsonl").as_os_str()]).ended(0);
    let other = Bench::new();
    other.run("import", &["--exact-urls".as_ref(), bench.path("out.jsonl").as_os_str()]).ended(0);
    let sorted_dump = |bench: &Bench| {
        let mut lines: Vec<String> =
            bench.run::<&str>("dump", &[]).ended(0).text().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert!(sorted_dump(&bench) == sorted_dump(&other), "a dump that was loaded gives the same dump");
    for key in &keys {
        bench.run("rm", &["--".as_ref(), std::ffi::OsStr::from_bytes(key)]).ended(0);
    }
    assert_eq!(bench.run::<&str>("ls", &[]).ended(0).text(), "");
    assert_eq!(names(&bench.store()), ["LOCK", "SUPERBLOCK", "address.idx", "key0.dat", "value0.dat"]);
    assert_eq!(names(bench.store().parent().unwrap()), ["in.jsonl", "out", "out.jsonl", "pages.fm"]);
}

#[test]
fn keys_that_no_store_takes_are_said_and_the_others_are_kept() {
    let bench = Bench::new();
    let keys = [vec![], b"a\0b".to_vec(), vec![b'k'; 65_537], b"good".to_vec()];
    fs::write(bench.path("in.jsonl"), dump_of(&keys)).unwrap();
    let report = bench.run("import", &["--exact-urls".as_ref(), "--json".as_ref(), bench.path("in.jsonl").as_os_str()]);
    let report = report.ended(3).json();
    assert_eq!((&report[0]["stored"], &report[0]["unusable"]), (&json!(1), &json!(3)), "{report:?}");
    assert_eq!(bench.run::<&str>("ls", &[]).ended(0).text(), "good\n");
}

#[test]
fn words_carry_no_orders_to_a_terminal() {
    let bench = Bench::new();
    let url = "http://a/\u{1b}]0;owned\u{7}\nfm-tool: all is well";
    let safe = "http://a/\\x1b]0;owned\\x07\\x0afm-tool: all is well";
    let put = bench.feed("put", &[url, "-", "--exact-urls"], b"x").ended(0).said(safe);
    let removed = bench.run("rm", &[url]).ended(0).said(safe);
    let absent = bench.run("get", &[url]).ended(1).said(safe);
    for words in [put.words, removed.words, absent.words] {
        assert!(!words.trim_end().contains(|c: char| c.is_control()), "{words:?}");
    }
    bench.feed("put", &[url, "-", "-q"], b"x").ended(0);
    let inspected = run(tool().arg("inspect").arg(bench.store().join("value0.dat"))).ended(0);
    assert!(inspected.text().contains(safe) && !inspected.text().contains('\u{1b}'), "{}", inspected.text());
    assert_eq!(bench.run("ls", &["--json"]).ended(0).json()[0]["url"], url, "programs get every byte");
}

#[test]
fn a_header_of_several_lines_is_refused() {
    let bench = Bench::new();
    let put = |header: &str| bench.feed("put", &["http://a/", "-", "--header", header], b"x");
    for bad in ["A: b\r\nSet-Cookie: c", "A: b\nC: d", "A\r\nB: c", "A B: c", "A: b\rc", "A: \u{1b}[2J", ": b", "A"] {
        put(bad).ended(2).said("header");
    }
    assert!(!bench.store().exists(), "what is refused makes no store");
    put("A:  b\tc: d ").ended(0);
    let headers = bench.run("get", &["http://a/", "--headers"]).ended(0);
    assert_eq!(headers.text(), "HTTP/1.1 200 \r\nA: b\tc: d\r\n\r\n");
}

#[test]
fn forms_that_contradict_each_other_are_refused() {
    let bench = Bench::with(&["example.warc.gz"]);
    bench.run("stat", &["--format", "openmetrics", "--json"]).ended(2).said("contradict");
    bench.run("stat", &["--format", "json", "--json"]).ended(0);
}

#[test]
fn streams_that_are_not_there_harm_nothing() {
    let bench = Bench::with(&["example.warc.gz"]);
    let url = "http://example.com/";
    let before = bench.run("get", &[url]).ended(0).out;
    let file = warc("cc.warc.gz");
    let verbs: [(&str, Vec<&str>); 8] = [
        ("get", vec![url]),
        ("head", vec![url]),
        ("ls", vec![]),
        ("stat", vec![]),
        ("verify", vec![]),
        ("dump", vec![]),
        ("import", vec![file.to_str().unwrap()]),
        ("put", vec!["http://example.com/empty"]),
    ];
    for (verb, args) in verbs {
        for closed in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
            let script = format!("exec \"$0\" \"$@\" {closed}");
            let status = Command::new("sh")
                .args(["-c", &script])
                .arg(harness::program())
                .arg(verb)
                .arg(bench.store())
                .args(&args)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .unwrap();
            // A page cannot be put without input: that is refused, and stores nothing.
            let wanted = if verb == "put" && closed.contains("<&-") { 2 } else { 0 };
            assert_eq!(status.code(), Some(wanted), "{verb} {closed}");
        }
    }
    bench.run::<&str>("verify", &[]).ended(0);
    assert_eq!(bench.run("get", &[url]).ended(0).out, before);
}

#[test]
fn times_at_the_ends_of_the_calendar_come_through_dump_and_load() {
    let times =
        [i64::MIN, i64::MIN + 1, -62_135_596_800_001, -1, 0, 1 << 32, 4_294_967_296_000, i64::MAX - 1, i64::MAX];
    let bench = Bench::new();
    let line = |time_ms: &i64| format!("{}\n", json!({ "url": "http://a/", "time_ms": time_ms, "body": "x" }));
    fs::write(bench.path("in.jsonl"), times.iter().map(line).collect::<String>()).unwrap();
    bench.run("import", &[bench.path("in.jsonl")]).ended(0);
    bench.run("dump", &["-o".as_ref(), bench.path("out.jsonl").as_os_str()]).ended(0);
    let other = Bench::new();
    other.run("import", &[bench.path("out.jsonl")]).ended(0);
    for bench in [&bench, &other] {
        let history = bench.run("history", &["http://a/", "--json"]).ended(0).json();
        let found: Vec<i64> = history.iter().map(|version| version["time_ms"].as_i64().unwrap()).collect();
        assert_eq!(found, times.iter().rev().copied().collect::<Vec<_>>());
        bench.run("history", &["http://a/"]).ended(0);
        bench.run("head", &["http://a/"]).ended(0);
        bench.run::<&str>("verify", &[]).ended(0);
    }
}
