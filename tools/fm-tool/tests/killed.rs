//! A killed import loses no stored page, and continues when it is run again.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::harness::{Bench, run};

/// The number of pages in the WARC file.
const PAGES: usize = 8000;

/// A WARC file with seeded pages that do not compress much.
fn write_warc(path: &Path) -> String {
    let mut warc = String::new();
    let mut seed: u64 = 0x9e37_79b9_7f4a_7c15;
    for number in 0..PAGES {
        let mut body = format!("<html><title>{number}</title>");
        for _ in 0..300 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let _ = write!(body, " {:x}", seed >> 32);
        }
        let http =
            format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let _ = write!(
            warc,
            "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://host{}.example/{number}\r\n\
             WARC-Date: 2024-05-01T12:00:00Z\r\nWARC-Record-ID: <urn:x:{number}>\r\n\
             Content-Type: application/http; msgtype=response\r\nContent-Length: {}\r\n\r\n{http}\r\n\r\n",
            number % 7,
            http.len()
        );
    }
    fs::write(path, &warc).unwrap();
    warc
}

/// An import from a pipe: it cannot end before the pipe is closed, however slow or fast this test
/// runs.
fn import_from_pipe(bench: &Bench) -> Child {
    bench.command("import").arg("-").stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn an_import_killed_at_any_moment_is_resumed_and_loses_nothing() {
    let bench = Bench::new();
    let file = bench.path("pages.warc");
    let warc = write_warc(&file);
    let mut before = 0;
    for quarters in 1..=3 {
        let mut child = import_from_pipe(&bench);
        // Only a part: the import is killed while it waits for more.
        child.stdin.as_mut().unwrap().write_all(&warc.as_bytes()[..warc.len() / 4 * quarters]).unwrap();
        // By now it has read all but the contents of the pipe and its own buffers, and a part of
        // that is stored.
        let segment = bench.store().join("value0.dat");
        while fs::metadata(&segment).map_or(0, |about| about.len()) < (quarters as u64) << 21 {
            assert!(child.try_wait().unwrap().is_none(), "it waits for the rest of its input");
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();

        let urls = bench.run::<&str>("ls", &[]).ended(0).text().lines().count();
        assert!(urls >= before, "{urls} URLs after {before}");
        assert!((1..PAGES).contains(&urls), "the kill came in the middle, with {urls} URLs");
        before = urls;
        assert_eq!(bench.run("verify", &["--json"]).ended(0).json().last().unwrap()["problems"], 0);
    }
    let last = bench.run("import", &["--json".as_ref(), file.as_os_str()]).ended(0).json();
    let added = last[0]["stored"].as_u64().unwrap() as usize;
    assert_eq!(last[0]["already_there"].as_u64().unwrap() as usize + added, PAGES, "{last:?}");
    assert_eq!(bench.run::<&str>("ls", &[]).ended(0).text().lines().count(), PAGES);
    let versions = bench.run::<&str>("dump", &[]).ended(0).text().lines().count();
    assert_eq!(versions, PAGES, "nothing was stored twice");
}

#[test]
fn a_process_reads_and_verifies_what_another_is_still_writing() {
    let bench = Bench::new();
    let file = bench.path("pages.warc");
    let warc = write_warc(&file);
    let mut child = import_from_pipe(&bench);
    let mut pipe = child.stdin.take().unwrap();
    let mut seen = 0;
    for piece in warc.as_bytes().chunks(warc.len() / 5) {
        pipe.write_all(piece).unwrap();
        // The first piece is larger than pipe and buffers, so the store exists or soon will.
        let listed = loop {
            assert!(child.try_wait().unwrap().is_none(), "it waits for the rest of its input");
            let listed = run(bench.command("ls").arg("-0"));
            if listed.code != 2 || seen > 0 {
                break listed;
            }
        };
        let urls = listed.ended(0).out.iter().filter(|byte| **byte == 0).count();
        assert!(urls >= seen, "{urls} URLs after {seen}");
        seen = urls;
        bench.run::<&str>("verify", &[]).ended(0);
    }
    drop(pipe);
    assert!(child.wait().unwrap().success());
    assert_eq!(bench.run::<&str>("ls", &[]).ended(0).text().lines().count(), PAGES);
}

/// The lines of a dump, one for each version, without the fields that describe its storage.
fn dumped(bench: &Bench) -> Vec<String> {
    let lines = bench.run::<&str>("dump", &[]).ended(0).json();
    let mut lines: Vec<String> = lines
        .into_iter()
        .map(|line| format!("{} {} {} {}", line["url"], line["time_ms"], line["body_xxh3"], line["headers"]))
        .collect();
    lines.sort();
    lines
}

#[test]
fn an_adoption_killed_at_any_moment_loses_nothing_and_goes_on() {
    // On a busy machine a kill may come after the end.
    let killed: Vec<usize> = (0..6).map(|_| kills_of_an_adoption()).take_while(|killed| *killed < 2).collect();
    assert!(killed.len() < 6, "{killed:?} of 5 came in the middle");
}

/// Kills an adoption five times. Returns how many of the kills came in the middle.
fn kills_of_an_adoption() -> usize {
    let bench = Bench::new();
    let file = bench.path("pages.warc");
    write_warc(&file);
    bench.run("import", &["--in-place".as_ref(), file.as_os_str()]).ended(0);
    let all = dumped(&bench);
    assert_eq!(all.len(), PAGES);
    let segment = bench.store().join("value0.dat");
    let mut killed = 0;
    for step in 1..=5 {
        let before = fs::metadata(&segment).unwrap().len();
        let mut child = bench.command("import").arg("--adopt").stderr(Stdio::null()).spawn().unwrap();
        while fs::metadata(&segment).map_or(0, |about| about.len()) < before + (step << 20) {
            if child.try_wait().unwrap().is_some() {
                break;
            }
            std::thread::yield_now();
        }
        child.kill().unwrap();
        killed += usize::from(!child.wait().unwrap().success());
        // A version may be there twice: in place, and with its body.
        let mut found = dumped(&bench);
        found.dedup();
        assert!(found == all, "after the kill number {step}");
    }
    bench.run("import", &["--adopt"]).ended(0);
    fs::remove_file(&file).unwrap();
    assert!(dumped(&bench) == all, "each once, and in the store");
    assert_eq!(bench.run("verify", &["--json"]).ended(0).json().last().unwrap()["problems"], 0);
    killed
}
