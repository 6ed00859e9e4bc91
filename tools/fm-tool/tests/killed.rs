//! An import that is killed loses nothing that was stored, and is resumed by running it again.

mod harness;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use harness::{Bench, run};

/// Pages of the WARC file: enough to be killed in the middle.
const PAGES: usize = 8000;

/// A WARC file of seeded pages that do not compress to nothing.
fn write_warc(path: &Path) {
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
    fs::write(path, warc).unwrap();
}

#[test]
fn an_import_killed_at_any_moment_is_resumed_and_loses_nothing() {
    let bench = Bench::new();
    let file = bench.path("pages.warc");
    write_warc(&file);
    let mut before = 0;
    for at_bytes in [1 << 20, 4 << 20, 8 << 20] {
        let mut child = bench.command("import").arg(&file).stderr(Stdio::null()).spawn().unwrap();
        let segment = bench.store().join("value0.dat");
        let started = Instant::now();
        while fs::metadata(&segment).map_or(0, |about| about.len()) < at_bytes
            && child.try_wait().unwrap().is_none()
            && started.elapsed() < Duration::from_secs(60)
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();

        let urls = bench.run::<&str>("ls", &[]).ended(0).text().lines().count();
        assert!(urls >= before, "{urls} URLs after {before}");
        assert!(before > 0 || (1..PAGES).contains(&urls), "the first kill came in the middle, with {urls} URLs");
        before = urls;
        assert_eq!(bench.run("verify", &["--json"]).ended(0).json().last().unwrap()["problems"], 0);
    }
    let last = bench.run("import", &["--json".as_ref(), file.as_os_str()]).ended(0).json();
    let added = last[0]["stored"].as_u64().unwrap() as usize;
    assert_eq!(last[0]["already_there"].as_u64().unwrap() as usize + added, PAGES, "{last:?}");
    assert_eq!(bench.run::<&str>("ls", &[]).ended(0).text().lines().count(), PAGES);
    let versions = bench.run("dump", &["--all-versions"]).ended(0).text().lines().count();
    assert_eq!(versions, PAGES, "nothing was stored twice");
}

#[test]
fn a_process_reads_and_verifies_what_another_is_still_writing() {
    let bench = Bench::new();
    let file = bench.path("pages.warc");
    write_warc(&file);
    let mut child = bench.command("import").arg(&file).stderr(Stdio::null()).spawn().unwrap();
    let mut seen = 0;
    let mut rounds = 0;
    while child.try_wait().unwrap().is_none() {
        if !bench.store().join("SUPERBLOCK").exists() {
            continue;
        }
        let listed = run(bench.command("ls").arg("-0"));
        if listed.code == 2 && seen == 0 {
            continue; // the store is being made
        }
        let urls = listed.ended(0).out.iter().filter(|byte| **byte == 0).count();
        assert!(urls >= seen, "{urls} URLs after {seen}");
        seen = urls;
        bench.run::<&str>("verify", &[]).ended(0);
        rounds += 1;
    }
    assert!(child.wait().unwrap().success());
    assert!(rounds > 0, "the import was over too soon");
    assert_eq!(bench.run::<&str>("ls", &[]).ended(0).text().lines().count(), PAGES);
}
