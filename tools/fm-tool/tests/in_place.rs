//! `import --in-place`, `archives` and `import --adopt`: pages whose records stay in their files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::{Bench, PAGE_BYTES, PAGE_URL, warc};

/// The captures in python-docs.warc.gz; some URLs have several.
const CAPTURES: usize = 64;

/// A collection with a WARC file and its index, as in pywb, both from a dump of the sample.
fn collection(bench: &Bench) -> (PathBuf, PathBuf) {
    let from = Bench::with(&["python-docs.warc.gz"]);
    let (archive, indexes) = (bench.path("coll/archive"), bench.path("coll/indexes"));
    fs::create_dir_all(&archive).unwrap();
    fs::create_dir_all(&indexes).unwrap();
    let args = ["--format", "warc,cdxj", "--output", archive.to_str().unwrap()];
    from.run("dump", &args).ended(0);
    let index = fs::read_dir(&archive).unwrap().map(|entry| entry.unwrap().path());
    let index = index.into_iter().find(|path| path.extension().is_some_and(|name| name == "cdxj")).unwrap();
    let moved = indexes.join("index.cdxj");
    fs::rename(index, &moved).unwrap();
    (archive, moved)
}

fn name(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn an_index_is_imported_in_place_and_pages_are_read_from_the_archive() {
    let bench = Bench::new();
    let (archive, index) = collection(&bench);
    bench.run("import", &[&index]).ended(2).said("--in-place");
    assert!(!bench.store().exists());
    let line = &bench.run("import", &["--json", "--in-place", name(&index)]).ended(0).json()[0];
    assert_eq!(
        (&line["stored"], &line["in_place"], &line["body_bytes"]),
        (&CAPTURES.into(), &CAPTURES.into(), &0.into())
    );
    bench.run("import", &["--in-place", name(&index)]).ended(0).said(&format!("{CAPTURES} already there"));
    assert_eq!(bench.run("get", &[PAGE_URL]).ended(0).out.len(), PAGE_BYTES);
    bench
        .run("archives", &["--check"])
        .ended(0)
        .said(&format!("{CAPTURES} records are where they were left, 0 are not"));
    let history = bench.run("history", &[PAGE_URL]).ended(0);
    assert!(history.text().contains("\t-\tresponse\tbody in place"), "{}", history.text());
    let long = bench.run("ls", &["--long"]).ended(0);
    assert!(long.text().lines().all(|line| line.split('\t').nth(2) == Some("-")), "{}", long.text());
    assert!(bench.run("head", &[PAGE_URL]).ended(0).text().contains("in place, in archive "));
    let listed = bench.run("archives", &["--json"]).ended(0).json();
    let location = listed[0]["location"].as_str().unwrap().to_owned();
    assert!(listed.len() == 1 && location.starts_with(name(&archive.canonicalize().unwrap())), "{listed:?}");

    // A dump includes the bodies.
    let dumped = bench.run("dump", &["--format", "jsonl"]).ended(0);
    assert_eq!(dumped.json().len(), CAPTURES);
    assert!(dumped.json().iter().all(|line| line["in_place"].is_null()));

    // A missing file is named by a get, a check and a dump.
    let elsewhere = bench.path("elsewhere");
    fs::rename(&archive, &elsewhere).unwrap();
    bench.run("get", &[PAGE_URL]).ended(3).said(&location).said("the file is missing");
    bench
        .run("archives", &["--check"])
        .ended(3)
        .said(&format!("0 records are where they were left, {CAPTURES} are not"));
    bench.run("dump", &["--format", "jsonl"]).ended(3).said(PAGE_URL);
    bench.run("archives", &["--move", "/nowhere", name(&elsewhere)]).ended(1).said("/nowhere");
    bench.run("archives", &["--move", name(&archive), "/nowhere"]).ended(2).said("/nowhere");
    let old = location.rsplit_once('/').unwrap().0;
    bench.run("archives", &["--move", old, name(&elsewhere)]).ended(0).said("1 file below");
    assert_eq!(bench.run("get", &[PAGE_URL]).ended(0).out.len(), PAGE_BYTES);

    let adopted = &bench.run("import", &["--adopt", "--json"]).ended(0).json()[0];
    assert_eq!((&adopted["pages"], &adopted["lost"]), (&CAPTURES.into(), &0.into()));
    fs::remove_dir_all(&elsewhere).unwrap();
    assert_eq!(bench.run("get", &[PAGE_URL]).ended(0).out.len(), PAGE_BYTES);
    bench.run("import", &["--adopt"]).ended(0).said("0 pages copied");
    bench.run("verify", &["--full"]).ended(0);
}

#[test]
fn a_warc_file_is_imported_in_place_and_what_is_lost_stays_described() {
    let bench = Bench::new();
    let file = bench.path("copy.warc.gz");
    fs::copy(warc("python-docs.warc.gz"), &file).unwrap();
    bench.run("import", &["--in-place", name(&file)]).ended(0).said("left in place");
    assert_eq!(bench.run("get", &[PAGE_URL]).ended(0).out.len(), PAGE_BYTES);
    let small: u64 = fs::read_dir(bench.store()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!(small > 0);
    // Cuts off the second half of the file.
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let adopted = bench.run("import", &["--adopt", "--json"]).ended(3).said("copy.warc.gz");
    let adopted = &adopted.json()[0];
    let (copied, lost) = (adopted["pages"].as_u64().unwrap(), adopted["lost"].as_u64().unwrap());
    assert!(copied > 0 && lost > 0, "{adopted}");
    fs::write(&file, &bytes).unwrap();
    let rest = &bench.run("import", &["--adopt", "--json"]).ended(0).json()[0];
    assert_eq!((rest["pages"].as_u64(), rest["lost"].as_u64()), (Some(lost), Some(0)));
}

#[test]
fn what_cannot_stay_in_place_is_refused_before_a_store_is_made() {
    let bench = Bench::new();
    let (_, index) = collection(&bench);
    let lines = bench.path("pages.jsonl");
    fs::write(&lines, "{}\n").unwrap();
    let file = warc("python-docs.warc.gz");
    for (args, words) in [
        (vec!["--in-place", name(&lines)], "only records of WARC files"),
        (vec!["--in-place", "-"], "not in a stream"),
        (vec!["--in-place", "--archive", "/tmp", name(&file)], "--archive is for an index"),
        (vec!["--in-place", "--archive", "/no/such/folder", name(&index)], "/no/such/folder"),
        (vec!["--archive", "/tmp", name(&index)], "--in-place"),
        (vec!["--in-place", "--as-received", name(&file)], "--as-received"),
        (vec!["--adopt", name(&file)], "cannot be used with"),
        (vec!["--adopt"], "pages.fm"),
    ] {
        bench.run("import", &args).ended(2).said(words);
        assert!(!bench.store().exists(), "{args:?}");
    }
    // An index may only name files below its own places.
    let line = r#"k 20200101000000 {"url":"http://a/","offset":"0","filename":"NAME"}"#;
    for outside in ["/etc/passwd", "../x.warc", "http://127.0.0.1:9/x.warc"] {
        let index = bench.path("outside.cdxj");
        fs::write(&index, format!("{}\n", line.replace("NAME", outside))).unwrap();
        bench.run("import", &["--in-place", name(&index)]).ended(3).said("is outside of").said(outside);
    }
    // Missing files are named once, with the number of their pages; the pages are described.
    let named = bench.run("import", &["--in-place", "--archive", name(&bench.path("coll")), name(&index)]);
    named.ended(3).said(&format!("the {CAPTURES} captures"));
    bench.run("has", &[PAGE_URL]).ended(0);
}

#[test]
fn a_removal_that_costs_a_revisit_its_body_says_so() {
    let bench = Bench::new();
    let record = |kind: &str, second: u32, more: &str, block: &str| {
        format!(
            "WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Target-URI: http://a.example/\r\nWARC-Date: 2020-01-01T00:00:0{second}Z\r\n\
             {more}Content-Type: application/http\r\nContent-Length: {}\r\n\r\n{block}\r\n\r\n",
            block.len()
        )
    };
    let refers = "WARC-Refers-To-Date: 2020-01-01T00:00:01Z\r\nWARC-Profile: \
                  http://netpreserve.org/warc/1.1/revisit/server-not-modified\r\n";
    let original = record("response", 1, "", "HTTP/1.1 200 OK\r\n\r\nthe body");
    let revisit = record("revisit", 2, refers, "HTTP/1.1 304 Not Modified\r\n\r\n");
    let (first, second) = (bench.path("first.warc"), bench.path("second.warc"));
    fs::write(&first, original).unwrap();
    fs::write(&second, revisit).unwrap();
    bench.run("import", &["--in-place", name(&first)]).ended(0);
    bench.run("import", &[&second]).ended(0);
    assert_eq!(bench.run("get", &["http://a.example/"]).ended(0).out, b"the body");
    fs::remove_file(&first).unwrap();
    let removed = bench.run("rm", &["http://a.example/", "--at", "2020-01-01T00:00:01Z"]);
    removed.ended(3).said("the bodies of 1 revisit are lost");
    assert!(!bench.run("history", &["http://a.example/"]).ended(0).text().contains("in place"));
}
