//! A whole run over a few pages: every built-in engine, every workload that needs no root.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const ENGINES: [&str; 9] =
    ["limit", "filemap", "filemap-plain", "lmdb", "fjall", "redb", "sqlite", "file-per-page", "warc"];
const RESULTS: [&str; 15] = [
    "load",
    "reopen",
    "warm",
    "miss",
    "cold",
    "depth",
    "squeeze",
    "ycsb-a",
    "ycsb-b",
    "ycsb-c",
    "ycsb-d",
    "ycsb-f",
    "kill",
    "durable",
    "overwrite",
];

/// Removed with all that is in it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("compare-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run(dir: &Path, more: &[&str]) -> (bool, Vec<Value>) {
    let out = dir.join("results.jsonl");
    let status = Command::new(env!("CARGO_BIN_EXE_compare"))
        .arg("run")
        .arg("--dir")
        .arg(dir.join("stores"))
        .arg("--out")
        .arg(&out)
        .args(["--pages", "300", "--rounds", "1", "--keep-page-cache", "--gets", "400", "--cold-gets", "60"])
        .args(["--depth-gets", "40", "--operations", "600", "--durable-puts", "20", "--kill-puts", "60"])
        .args(more)
        .output()
        .unwrap();
    let text = std::fs::read_to_string(&out).unwrap_or_default();
    (status.status.success(), text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn of_kind<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["kind"] == kind).collect()
}

#[test]
fn every_engine_goes_through_every_workload_and_no_answer_is_wrong() {
    let scratch = Scratch::new("run");
    let (success, lines) = run(&scratch.0, &[]);
    assert_eq!(of_kind(&lines, "failure"), Vec::<&Value>::new());
    assert!(success);
    assert_eq!(lines[0]["kind"], "machine");
    assert!(lines[0]["date"].as_str().unwrap().ends_with('Z'));
    assert!(!lines[0]["command"].as_str().unwrap().contains('/'));
    let described: Vec<&str> = of_kind(&lines, "engine").iter().map(|line| line["engine"].as_str().unwrap()).collect();
    assert!(ENGINES.iter().all(|engine| described.contains(engine)), "{described:?}");
    for engine in described {
        let describes = |line: &&&Value| line["engine"] == engine && line["settings"].as_str().is_some();
        assert_eq!(of_kind(&lines, "engine").iter().filter(describes).count(), 1, "{engine}");
        for workload in RESULTS.into_iter().chain(["delete"]) {
            let said = |line: &&Value| line["engine"] == engine && line["workload"] == workload;
            let said: Vec<&Value> = lines.iter().filter(said).collect();
            assert_eq!(said.len(), 1, "{engine} {workload}: {said:?}");
            let line = said[0];
            if line["kind"] == "skipped" {
                assert!(line["why"].as_str().is_some_and(|why| !why.is_empty()));
            } else {
                assert_eq!(
                    (&line["set"], &line["pages"], &line["round"]),
                    (&"generated-300".into(), &300.into(), &1.into())
                );
                assert!(line["raw_bytes"].as_u64().unwrap() > 300 * 64);
                let figures = line["figures"].as_object().unwrap();
                assert!(!figures.is_empty() && figures.values().all(Value::is_number), "{line}");
            }
        }
    }
    // An engine that can do everything skips only what needs root.
    let skipped: Vec<&Value> = of_kind(&lines, "skipped").into_iter().filter(|line| line["engine"] == "lmdb").collect();
    assert_eq!(skipped.len(), 1, "{skipped:?}");
    assert_eq!(skipped[0]["workload"], "squeeze");
    let left: Vec<_> = std::fs::read_dir(scratch.0.join("stores")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn chosen_engines_and_workloads_run_alone_for_as_many_rounds_as_asked() {
    let scratch = Scratch::new("chosen");
    let more = ["--engines", "lmdb,limit", "--workloads", "miss", "--first-round", "2"];
    let (success, lines) = run(&scratch.0, &more);
    assert!(success);
    let results = of_kind(&lines, "result");
    let said: Vec<_> =
        results.iter().map(|line| (line["engine"].as_str().unwrap(), line["workload"].as_str().unwrap())).collect();
    assert_eq!(said, [("lmdb", "load"), ("lmdb", "miss"), ("limit", "load"), ("limit", "miss")]);
    assert!(results.iter().all(|line| line["round"] == 2));
}

#[test]
fn an_unknown_engine_is_refused_before_anything_is_made() {
    let scratch = Scratch::new("unknown");
    let (success, lines) = run(&scratch.0, &["--engines", "none"]);
    assert!(!success && lines.is_empty());
    assert!(!scratch.0.join("stores").exists());
}
