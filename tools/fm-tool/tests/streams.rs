//! The streams and their content: data and messages, JSON Lines, OpenMetrics, pipes that close
//! early, help.

use std::io::Read;
use std::process::Stdio;

use crate::harness::{Bench, PAGE_URL, PAGES, run, tool, warc};
use serde_json::Value;

const VERBS: [&str; 28] = [
    "import",
    "get",
    "put",
    "rm",
    "has",
    "head",
    "history",
    "ls",
    "count",
    "top",
    "stat",
    "verify",
    "repair",
    "train",
    "recompress",
    "dump",
    "load",
    "segments",
    "compact",
    "prune",
    "erase",
    "backup",
    "copy",
    "merge",
    "seen",
    "inspect",
    "completions",
    "man",
];

#[test]
fn every_verb_prints_json_lines_when_asked() {
    let bench = Bench::with(&["python-docs.warc.gz", "IAH-urls-wget.warc.gz"]);
    let segment = bench.store().join("value0.dat");
    let url = "https://example.com/json";
    let put = bench.feed("put", &[url, "-", "--json"], b"\xff\x00binary").ended(0).json();
    assert_eq!(put[0]["url"], url);
    let got = bench.run("get", &[url, "--json"]).ended(0).json();
    assert_eq!(got[0]["body_base64"], "/wBiaW5hcnk=", "bytes that are not text");
    let text = bench.run("get", &[PAGE_URL, "--json"]).ended(0).json();
    assert!(text[0]["body"].as_str().unwrap().contains("<html"), "text as text");
    for (verb, args) in [("head", &[PAGE_URL][..]), ("history", &[PAGE_URL]), ("ls", &[]), ("stat", &[]), ("dump", &[])]
    {
        let lines = bench.run(verb, &[args, &["--json"]].concat()).ended(0).json();
        assert!(!lines.is_empty() && lines.iter().all(Value::is_object), "{verb}: {lines:?}");
    }
    let verified = bench.run("verify", &["--json"]).ended(0).json();
    assert_eq!(verified.last().unwrap()["problems"], 0);
    let inspected = run(tool().arg("inspect").arg(segment).arg("--json")).ended(0).json();
    assert!(inspected.len() > 60 && inspected.iter().all(Value::is_object));
    let removed = bench.run("rm", &[url, "--json"]).ended(0).json();
    assert_eq!(removed[0]["removed"], true);
    let imported = bench.run("import", &["--json".as_ref(), warc("cc.warc.gz").as_os_str()]).ended(0).json();
    assert_eq!(imported[0]["stored"], 1, "{imported:?}");
}

#[test]
fn a_reader_that_closes_the_pipe_is_no_error() {
    let bench = Bench::with(&["python-docs.warc.gz"]);
    for (verb, args) in [("dump", &[][..]), ("dump", &["--json"]), ("ls", &[]), ("get", &[PAGE_URL])] {
        let mut child = bench.command(verb).args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut few = [0; 10];
        out.read_exact(&mut few).unwrap();
        drop(out);
        let mut words = String::new();
        child.stderr.take().unwrap().read_to_string(&mut words).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{verb}: {words}");
        assert_eq!(words, "", "{verb}");
    }
}

#[test]
fn no_bar_and_no_colour_reach_a_pipe() {
    let bench = Bench::new();
    let file = warc("python-docs.warc.gz");
    let words = bench.run("import", &[&file]).ended(0).words;
    assert!(!words.contains('\x1b') && !words.contains('\r'), "{words:?}");
    assert!(words.contains(" pages/s)") && words.contains("/s of the file, "), "{words:?}");
    assert_eq!(bench.run("import", &["-q".as_ref(), file.as_os_str()]).ended(0).words, "", "quiet");
}

#[test]
fn stat_speaks_text_json_and_openmetrics() {
    let bench = Bench::with(&["python-docs.warc.gz"]);
    assert!(
        bench
            .run::<&str>("stat", &[])
            .ended(0)
            .text()
            .lines()
            .any(|line| line.starts_with("indexed_keys ") && line.ends_with(&format!(" {PAGES}")))
    );
    let json = bench.run("stat", &["--format", "json"]).ended(0).json();
    assert_eq!(json[0]["indexed_keys"], PAGES);
    let metrics = bench.run("stat", &["--format", "openmetrics"]).ended(0);
    assert_openmetrics(metrics.text());
    assert!(metrics.text().contains(&format!("\nfilemap_indexed_keys {PAGES}\n")), "{}", metrics.text());
}

/// Checks the text against the grammar of OpenMetrics 1.0, for the kinds that are printed.
#[track_caller]
fn assert_openmetrics(text: &str) {
    let body = text.strip_suffix("# EOF\n").expect("it ends with # EOF");
    let mut family: Option<(String, String)> = None;
    for line in body.lines() {
        if let Some(described) = line.strip_prefix("# TYPE ") {
            let (name, kind) = described.split_once(' ').expect("a type line has a name and a kind");
            assert!(["counter", "gauge", "info"].contains(&kind), "{line}");
            family = Some((name.to_owned(), kind.to_owned()));
            continue;
        }
        let (name, kind) = family.as_ref().expect("a type line comes first");
        if let Some(described) = line.strip_prefix("# UNIT ") {
            let (of, unit) = described.split_once(' ').expect("a unit line has a name and a unit");
            assert!(of == name && name.ends_with(&format!("_{unit}")), "{line}");
        } else if let Some(help) = line.strip_prefix("# HELP ") {
            assert!(help.starts_with(&format!("{name} ")), "{line}");
        } else {
            let suffix = match kind.as_str() {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            let (sample, value) = line.rsplit_once(' ').expect("a sample has a name and a value");
            let plain = sample.split('{').next().unwrap();
            assert_eq!(plain, format!("{name}{suffix}"), "{line}");
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
    assert!(family.is_some(), "no metric at all");
}

#[test]
fn every_verb_helps_with_an_example() {
    for verb in VERBS {
        let help = run(tool().args([verb, "--help"])).ended(0);
        assert!(help.text().contains(&format!("fm-tool {verb} ")), "{}", help.text());
        assert_eq!(help.words, "");
    }
    run(&mut tool()).ended(2).said("Usage");
}

#[test]
fn every_verb_of_seen_helps_with_an_example() {
    for verb in ["create", "add", "check", "stat", "explain", "merge", "export", "forget"] {
        let help = run(tool().args(["seen", verb, "--help"])).ended(0);
        assert!(help.text().contains(&format!("fm-tool seen {verb} ")), "{}", help.text());
        assert_eq!(help.words, "");
    }
    run(tool().arg("seen")).ended(2).said("Usage");
}

#[test]
fn inspect_reads_every_file_of_a_store_and_no_other() {
    let bench = Bench::with(&["python-docs.warc.gz"]);
    let mut inspected = 0;
    for entry in std::fs::read_dir(bench.store()).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with("LOCK") {
            continue;
        }
        let text = run(tool().arg("inspect").arg(&path)).ended(0).text().to_owned();
        assert!(text.starts_with("offset 0  "), "{}: {text}", path.display());
        inspected += 1;
    }
    assert!(inspected >= 4, "superblock, index, keys and values, found {inspected}");
    let stranger = bench.path("letter.txt");
    std::fs::write(&stranger, "dear").unwrap();
    run(tool().arg("inspect").arg(stranger)).ended(2).said("letter.txt");
    run(tool().arg("inspect").arg(bench.path("absent"))).ended(2).said("absent");
}
