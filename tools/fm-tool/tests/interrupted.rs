//! Ctrl-C: the first one stops at a safe place and says how to continue, a second one ends the
//! program at once, and neither loses a page.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::process::{Child, Command, Stdio};

use crate::harness::{self, Bench, run};

/// A WARC record with a page.
fn record(number: usize) -> String {
    let mut body = format!("<html><title>{number}</title>");
    for word in 0..200_u64 {
        let _ = write!(body, " {:x}", (number as u64 * 200 + word).wrapping_mul(6_364_136_223_846_793_005) >> 32);
    }
    let http = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    format!(
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://host{}.example/{number}\r\n\
         WARC-Date: 2024-05-01T12:00:00Z\r\nWARC-Record-ID: <urn:x:{number}>\r\n\
         Content-Type: application/http; msgtype=response\r\nContent-Length: {}\r\n\r\n{http}\r\n\r\n",
        number % 7,
        http.len()
    )
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()).status();
    assert!(sent.expect("there is a kill").success());
}

/// The exit code of a child process, with its messages.
fn end(mut child: Child) -> (Option<i32>, String) {
    let mut words = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut words).unwrap();
    }
    (child.wait().unwrap().code(), words)
}

/// The number of pages that others can read by now.
fn urls(bench: &Bench) -> usize {
    let listed = run(bench.command("ls").arg("-0"));
    listed.out.iter().filter(|byte| **byte == 0).count()
}

/// An import from a pipe that has stored some pages and waits for more in the middle of a record.
fn waiting_import(bench: &Bench, warc: &str) -> (Child, std::process::ChildStdin) {
    let mut child =
        bench.command("import").arg("-").stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(&warc.as_bytes()[..warc.len() - 100]).unwrap();
    while !bench.store().join("SUPERBLOCK").exists() || urls(bench) == 0 {
        assert!(child.try_wait().unwrap().is_none(), "it waits for the rest of its input");
        std::thread::yield_now();
    }
    (child, pipe)
}

#[test]
fn an_import_that_is_interrupted_while_it_waits_closes_the_store_and_goes_on_when_run_again() {
    let warc: String = (0..2000).map(record).collect();
    for (name, code) in [("INT", 130), ("TERM", 143)] {
        let bench = Bench::new();
        let (child, pipe) = waiting_import(&bench, &warc);
        signal(&child, name);
        let (ended, words) = end(child);
        drop(pipe);
        assert_eq!(ended, Some(code), "{words}");
        assert!(words.contains("interrupted: ") && words.contains("continues from there"), "{words}");
        assert!(!words.contains("damaged"), "input that was cut short by the signal is not damage: {words}");
        let stored = urls(&bench);
        assert!(stored > 0 && words.contains(&format!("{stored} pages stored")), "{stored}: {words}");
        // The store was closed properly: there is nothing to replay.
        let stat = bench.run("stat", &["--json"]).ended(0).json();
        assert_eq!(stat[0]["memtable_entries"], 0);
        bench.run::<&str>("verify", &[]).ended(0);

        let file = bench.path("pages.warc");
        std::fs::write(&file, &warc).unwrap();
        let again = bench.run("import", &["--json".as_ref(), file.as_os_str()]).ended(0).json();
        assert_eq!(again[0]["already_there"].as_u64().unwrap() as usize, stored, "{again:?}");
        assert_eq!(urls(&bench), 2000);
    }
}

#[test]
fn a_dump_that_is_loaded_is_interrupted_like_a_warc_file() {
    let bench = Bench::new();
    let fifo = bench.path("pages.jsonl");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let child = bench.command("import").arg(&fifo).arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.unwrap();
    let mut pipe = std::fs::OpenOptions::new().write(true).open(&fifo).unwrap();
    for number in 0..500 {
        writeln!(pipe, "{{\"url\":\"http://a/{number}\",\"time_ms\":1,\"body\":\"{number}\"}}").unwrap();
    }
    write!(pipe, "{{\"url\":\"http://half").unwrap();
    while !bench.store().join("SUPERBLOCK").exists() || urls(&bench) == 0 {
        std::thread::yield_now();
    }
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    drop(pipe);
    assert_eq!(output.status.code(), Some(130));
    let line: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&line["stopped"], &line["damaged"]), (&true.into(), &0.into()), "{line}");
    assert_eq!(line["stored"].as_u64().unwrap() as usize, urls(&bench));
}

#[test]
fn the_files_after_the_interrupted_one_are_left_for_the_next_run() {
    let bench = Bench::new();
    let fifo = bench.path("first.warc");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let second = harness::warc("example.warc.gz");
    let child = bench.command("import").args([&fifo, &second]).stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = std::fs::OpenOptions::new().write(true).open(&fifo).unwrap();
    // The store is created with the first pages, which arrive in batches of some hundred.
    pipe.write_all((0..600).map(record).collect::<String>().as_bytes()).unwrap();
    while !bench.store().join("SUPERBLOCK").exists() {
        std::thread::yield_now();
    }
    signal(&child, "INT");
    let (code, words) = end(child);
    assert_eq!(code, Some(130), "{words}");
    bench.run("get", &["http://example.com/"]).ended(1);
}

#[test]
fn a_second_signal_ends_at_once_and_nothing_is_lost() {
    let warc: String = (0..2000).map(record).collect();
    let bench = Bench::new();
    let (child, pipe) = waiting_import(&bench, &warc);
    let before = urls(&bench);
    signal(&child, "INT");
    signal(&child, "INT");
    let (code, words) = end(child);
    drop(pipe);
    assert_eq!(code, Some(130), "{words}");
    assert!(urls(&bench) >= before);
    bench.run::<&str>("verify", &[]).ended(0);
}

#[test]
fn a_watch_goes_on_until_it_is_interrupted() {
    let bench = Bench::with(&["example.warc.gz"]);
    let mut command = bench.command("stat");
    command.args(["--watch", "0.01", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for tick in 0..5 {
        let line: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(line["indexed_keys"], 1);
        assert_eq!(line.get("records_per_s").is_some(), tick > 0, "{line}");
    }
    signal(&child, "INT");
    let (code, words) = end(child);
    assert_eq!(code, Some(130), "{words}");
    assert!(words.contains("interrupted"), "{words}");
}

#[test]
fn a_watch_sees_what_another_process_puts() {
    let bench = Bench::with(&["example.warc.gz"]);
    let mut child = bench.command("stat").args(["--watch", "0.01", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> serde_json::Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let first = next()["last_sequence"].as_u64().unwrap();
    bench.feed("put", &["http://new.example/"], b"new").ended(0);
    let seen = std::iter::from_fn(|| Some(next())).find(|line| line["last_sequence"] != first).unwrap();
    assert_eq!(seen["last_sequence"], first + 1);
    assert!(seen["records_per_s"].as_f64().unwrap() > 0.0, "{seen}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_list_of_urls_that_is_interrupted_tells_how_far_it_came() {
    let bench = Bench::with(&["example.warc.gz"]);
    let mut command = bench.command("has");
    command.args(["--from", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(b"http://example.com/\nhttp://absent/\nhttp://half").unwrap();
    // Once a pipe takes more than its capacity, the program has started to read.
    pipe.write_all(&b"\nhttp://example.com/".repeat(20_000)).unwrap();
    signal(&child, "INT");
    let (code, words) = end(child);
    drop(pipe);
    assert_eq!(code, Some(130), "{words}");
    assert!(words.contains("URLs were checked"), "{words}");
}

#[test]
fn a_removal_that_is_interrupted_closes_the_store_and_leaves_the_rest() {
    let bench = Bench::with(&["example.warc.gz", "cc.warc.gz"]);
    let mut command = bench.command("rm");
    command.args(["--from", "-", "--json"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let absent: String = (0..5000).map(|number| format!("http://absent.example/{number}\n")).collect();
    let words = std::thread::spawn({
        let mut stderr = child.stderr.take().unwrap();
        move || {
            let mut words = String::new();
            stderr.read_to_string(&mut words).unwrap();
            words
        }
    });
    pipe.write_all(format!("http://example.com/\n{absent}").as_bytes()).unwrap();
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    drop(pipe);
    let words = words.join().unwrap();
    assert_eq!(output.status.code(), Some(130), "{words}");
    assert!(words.contains("1 page removed, which stay so"), "{words}");
    bench.run("has", &["http://example.com/"]).ended(1);
    bench.run("has", &["http://commoncrawl.org/"]).ended(0);
    assert_eq!(bench.run("stat", &["--json"]).ended(0).json()[0]["memtable_entries"], 0);
}
