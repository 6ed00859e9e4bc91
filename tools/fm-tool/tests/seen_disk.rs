//! `fm-tool seen` with a set on disk: batches answered in order, fingerprints, ages, memory, and
//! damage to any of its files.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::harness::{Bench, Ran, run, tool};
use serde_json::Value;

fn command(verb: &str, path: &Path, args: &[&str]) -> Command {
    let mut command = tool();
    command.args(["seen", verb]).arg(path).args(args);
    command
}

fn seen(verb: &str, path: &Path, args: &[&str]) -> Ran {
    run(&mut command(verb, path, args))
}

fn made(bench: &Bench, name: &str, options: &[&str]) -> PathBuf {
    let path = bench.path(name);
    seen("create", &path, &[&["--kind", "disk"], options].concat()).ended(0).said("fingerprints of");
    path
}

fn urls(range: std::ops::Range<usize>) -> Vec<u8> {
    range.flat_map(|i| format!("http://host{}.example/page/{i}\n", i % 7).into_bytes()).collect()
}

fn list(bench: &Bench, name: &str, bytes: &[u8]) -> String {
    let path = bench.path(name);
    fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

fn stat(path: &Path) -> Value {
    seen("stat", path, &["--json"]).ended(0).json().remove(0)
}

/// So little memory that the set writes runs.
const LITTLE: [&str; 2] = ["--memory", "64KiB"];

/// The files of a set that contain its fingerprints.
fn parts(bench: &Bench, kind: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(bench.path("")).unwrap().map(|entry| entry.unwrap().path());
    let mut parts: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|e| e == kind)).collect();
    parts.sort();
    parts
}

#[test]
fn hundreds_of_thousands_of_lines_are_answered_in_the_order_in_which_they_came() {
    let bench = Bench::new();
    let set = made(&bench, "seen", &[]);
    // Each URL twice, at once and much later, with an invalid line in between.
    let mut lines = Vec::new();
    let mut expected = Vec::new();
    for part in 0..5 {
        let urls = urls(part * 40_000..(part + 2) * 40_000);
        for (nth, url) in urls.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let is_new = part == 0 || nth >= 40_000;
            for verdict in [if is_new { "new" } else { "seen" }, "seen"] {
                lines.extend(url);
                expected.extend([verdict.as_bytes(), b"\t", url].concat());
            }
        }
        lines.extend(b"nonsense\n");
        expected.extend(b"invalid\tnonsense\n");
    }
    let list = list(&bench, "list", &lines);
    let mut child = command("add", &set, &[&LITTLE[..], &["-"]].concat())
        .stdin(Stdio::from(run_cat(&list)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut answers = Vec::new();
    std::io::Read::read_to_end(&mut child.stdout.take().unwrap(), &mut answers).unwrap();
    let ended = child.wait_with_output().unwrap();
    let words = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(2), "{words}");
    assert!(answers == expected, "the answers, in order");
    assert!(words.contains("800005 lines: 240000 new, 560000 seen, 5 invalid"), "{words}");
    assert!(words.contains("written"), "{words}");
    let again = seen("check", &set, &["--count", &list]).ended(2);
    assert_eq!(again.text(), "800005 lines: 800000 seen, 5 invalid\n");
    let stat = stat(&set);
    assert_eq!((&stat["urls"], &stat["fingerprint_bits"]), (&240_000.into(), &80.into()));
    assert!(stat["runs"].as_u64().unwrap() > 0);
    // Fingerprints of a few hosts are stored densely.
    let each = stat["disk_bytes_per_url"].as_f64().unwrap();
    assert!((4.0..10.0).contains(&each), "{each}");
}

/// The output of `cat`, as a pipe.
fn run_cat(path: &str) -> std::process::ChildStdout {
    Command::new("cat").arg(path).stdout(Stdio::piped()).spawn().unwrap().stdout.unwrap()
}

#[test]
fn lines_one_at_a_time_are_answered_each_before_the_next_by_filters() {
    let bench = Bench::new();
    let set = made(&bench, "seen", &[]);
    let list = list(&bench, "list", &urls(0..20_000));
    seen("add", &set, &[&["-q", &list][..], &LITTLE].concat()).ended(0);
    let mut child = command("check", &set, &[])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut ask, mut answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    for i in 0..400 {
        let (url, verdict) = if i % 2 == 0 { (i, "seen") } else { (20_000 + i, "new") };
        let line = urls(url..url + 1);
        ask.write_all(&line).unwrap();
        let mut answer = Vec::new();
        answers.read_until(b'\n', &mut answer).unwrap();
        assert_eq!(answer, [verdict.as_bytes(), b"\t", &line].concat());
    }
    drop(ask);
    let ended = child.wait_with_output().unwrap();
    let words = String::from_utf8(ended.stderr).unwrap();
    assert!(words.contains("one at a time") && words.contains("by the cache"), "{words}");
    // One block for each of the 200 known URLs that is in no cache, and hardly one for the others.
    let blocks =
        words.split(", ").find_map(|part| part.strip_suffix(" blocks searched for one URL\n")?.parse::<u64>().ok());
    assert!(blocks.is_some_and(|blocks| blocks <= 230), "{words}");
}

#[test]
fn fingerprints_are_exported_in_order_and_tell_what_they_are() {
    for (bits, loss) in [("80", "7.35e-6"), ("64", "0.482")] {
        let bench = Bench::new();
        let path = bench.path("seen");
        let made = ["--kind", "disk", "--fingerprint-bits", bits];
        seen("create", &path, &made).ended(0).said(&format!("fingerprints of {bits} bits")).said(loss);
        let list = list(&bench, "list", &urls(0..500));
        seen("add", &path, &["-q", &list]).ended(0);
        let all = seen("export", &path, &["--fingerprints"]).ended(0);
        let lines: Vec<&str> = all.text().lines().collect();
        assert!(lines.len() == 500 && lines.is_sorted() && lines.iter().all(|line| line.len() == 20));
        assert_eq!(lines.iter().all(|line| line.ends_with("0000")), bits == "64");
        let json = seen("export", &path, &["--fingerprints", "--json"]).ended(0).json();
        assert_eq!(json[7]["fingerprint"], lines[7]);
        seen("export", &path, &[]).ended(2).said("--fingerprints prints those");
        seen("export", &path, &["--prefix", "http://"]).ended(2).said("no URLs");
    }
}

#[test]
fn sets_with_other_fingerprints_are_not_merged() {
    let bench = Bench::new();
    let set = made(&bench, "seen", &[]);
    let others = [made(&bench, "seeded", &["--seed", "1"]), made(&bench, "short", &["--fingerprint-bits", "64"])];
    for other in &others {
        seen("merge", &set, &[other.to_str().unwrap()]).ended(2).said("Insert the URLs themselves");
    }
    let alike = made(&bench, "alike", &[]);
    let list = list(&bench, "list", &urls(0..5_000));
    seen("add", &alike, &[&["-q", &list][..], &LITTLE].concat()).ended(0);
    let merged = [alike.to_str().unwrap(), "--memory", "1MiB"];
    seen("merge", &set, &merged).ended(0).said("5000 of them added");
    assert_eq!(seen("check", &set, &["-c", &list]).ended(0).text(), "5000 lines: 5000 seen\n");
}

#[test]
fn memory_is_an_option_of_sets_on_disk_alone() {
    let bench = Bench::new();
    let set = made(&bench, "seen", &[]);
    let list = list(&bench, "list", &urls(0..10));
    seen("add", &set, &["--memory", "5", &list]).ended(2).said("memory");
    seen("add", &set, &["--memory", "lots", &list]).ended(2).said("20GB");
    let trie = bench.path("trie");
    seen("create", &trie, &["--kind", "trie"]).ended(0);
    for verb in ["add", "check"] {
        seen(verb, &trie, &["--memory", "1GiB", &list]).ended(2).said("--memory does not apply");
        seen(verb, &set, &["--memory", "1MiB", &list]).ended(0);
    }
}

/// The library's tests check when it forgets, with a clock that stands still.
#[test]
fn the_age_at_which_a_set_forgets_is_remembered() {
    let bench = Bench::new();
    let set = bench.path("seen");
    seen("create", &set, &["--kind", "disk", "--max-age", "90d"]).ended(0).said("forgets after 90d");
    let list = list(&bench, "list", &urls(0..10));
    assert_eq!(seen("add", &set, &["-c", &list]).ended(0).text(), "10 lines: 10 new\n");
    let stat = stat(&set);
    assert_eq!((&stat["max_age_ms"], &stat["urls"]), (&7_776_000_000_u64.into(), &10.into()));
    assert_eq!(stat["ahead_ms"], 0);
    assert_eq!(seen("check", &set, &["-c", &list]).ended(0).text(), "10 lines: 10 seen\n");
}

/// Names of files that belong to others, in particular answers of the set itself.
#[test]
fn answers_may_be_written_to_any_file_beside_the_set() {
    let bench = Bench::new();
    let set = made(&bench, "links", &[]);
    let list = list(&bench, "list", &urls(0..5_000));
    for name in ["links.new", "links.20240501.log", "links.000004.log"] {
        fs::remove_file(&set).unwrap();
        parts(&bench, "run").iter().chain(&parts(&bench, "log")).for_each(|path| fs::remove_file(path).unwrap());
        fs::remove_file(bench.path("links.canon")).unwrap();
        let set = made(&bench, "links", &[]);
        let answers = bench.path(name);
        let mut add = command("add", &set, &["--new-only", &list]);
        let ended = add.args(LITTLE).stdout(fs::File::create(&answers).unwrap()).status().unwrap();
        assert!(ended.success());
        assert_eq!(fs::read(&answers).unwrap(), urls(0..5_000), "{name}");
        fs::remove_file(&answers).unwrap();
    }
}

#[test]
fn damage_to_a_run_or_the_log_is_told_with_file_and_offset_and_ends_with_3() {
    let bench = Bench::new();
    let set = made(&bench, "seen", &[]);
    let lists = [list(&bench, "list", &urls(0..20_000)), list(&bench, "few", &urls(20_000..20_050))];
    for list in &lists {
        seen("add", &set, &[&["-q", list][..], &LITTLE].concat()).ended(0);
    }
    let (runs, logs) = (parts(&bench, "run"), parts(&bench, "log"));
    assert!(!runs.is_empty() && logs.len() == 1);
    for path in runs.iter().chain(&logs) {
        let whole = fs::read(path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        // A damaged block of a run is found when it is queried; a sector of the log is found at
        // once.
        let at = if name.ends_with(".run") { 4096 + 99 } else { 512 + 99 };
        let mut damaged = whole.clone();
        damaged[at] ^= 4;
        fs::write(path, &damaged).unwrap();
        for args in [["check", "-q"], ["add", "-q"], ["export", "--fingerprints"]] {
            let mut all = command(args[0], &set, &args[1..]);
            if args[0] != "export" {
                all.args(&lists);
            }
            let place = format!("{name} is damaged at offset {}", at / 512 * 512);
            run(&mut all).ended(3).said(&place).said(set.to_str().unwrap());
        }
        fs::remove_file(path).unwrap();
        seen("stat", &set, &[]).ended(3).said(name).said("is missing");
        fs::write(path, &whole).unwrap();
    }
    // A log that was truncated after it was closed, at the end of a sector.
    let whole = fs::read(&logs[0]).unwrap();
    fs::write(&logs[0], &whole[..1024]).unwrap();
    for args in [&["check", "-q", &lists[1]][..], &["add", "-q", &lists[1]], &["stat"]] {
        run(&mut command(args[0], &set, &args[1..])).ended(3).said(".log is damaged at offset 1024").said("cut off");
    }
    fs::write(&logs[0], &whole).unwrap();
    assert_eq!(seen("check", &set, &["-c", &lists[0]]).ended(0).text(), "20000 lines: 20000 seen\n");
}
