//! A full disk: an import says which pages are safe and how to continue, an option sets a floor of
//! free space, and a removal is either durable or reported not to be. Each test has its own small
//! tmpfs; if none can be mounted, nothing is tested.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::{self, Bench, Ran, run, warc};

#[test]
fn help_that_cannot_be_written_is_an_error() {
    for words in ["--help", "--version"] {
        let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") else { return };
        let output = Command::new(harness::program()).arg(words).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("standard output"), "{words}");
    }
}

/// The number of pages in the WARC file, which is too large for the disk.
const PAGES: usize = 400;

/// Runs a script in its own mount namespace, in which `$D` is a file system of `size`, `$T` the
/// program and `$W` a WARC file; `None` if that is not permitted.
fn on_small_disk(bench: &Bench, size: &str, warc: &Path, script: &str) -> Option<Ran> {
    let folder = bench.path("disk");
    fs::create_dir_all(&folder).unwrap();
    let script = format!("mount -t tmpfs -o size={size} none \"$D\" || exit 77\n{script}");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", &script]).env("D", &folder);
    command.env("T", harness::program()).env("W", warc);
    let output = command.output().ok()?;
    let words = String::from_utf8(output.stderr).unwrap();
    let code = output.status.code()?;
    let is_refused = code == 77 || words.contains("unshare");
    (!is_refused).then_some(Ran { code, out: output.stdout, words })
}

/// A WARC file with pages that hardly compress: 12 MB.
fn write_warc(path: &Path) {
    let (mut warc, mut seed) = (String::new(), 0x9e37_79b9_7f4a_7c15_u64);
    for number in 0..PAGES {
        let mut body = String::new();
        while body.len() < 30_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let _ = write!(body, " {:x}", seed >> 8);
        }
        let http = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let _ = write!(
            warc,
            "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.example/{number}\r\n\
             WARC-Date: 2024-05-01T12:00:00Z\r\nWARC-Record-ID: <urn:x:{number}>\r\n\
             Content-Type: application/http; msgtype=response\r\nContent-Length: {}\r\n\r\n{http}\r\n\r\n",
            http.len()
        );
    }
    fs::write(path, warc).unwrap();
}

#[test]
fn an_import_that_fills_the_disk_says_what_is_safe_and_goes_on_when_there_is_room() {
    for (free, size) in [("0", "4m"), ("3MB", "8m")] {
        let bench = Bench::new();
        let file = bench.path("large.warc");
        write_warc(&file);
        let script = format!(
            "\"$T\" import --min-free {free} \"$D/p.fm\" \"$W\"; echo $?\n\
             \"$T\" count \"$D/p.fm\"\n\
             mount -o remount,size=64m \"$D\" && \"$T\" import -q --min-free {free} \"$D/p.fm\" \"$W\"; echo $?\n\
             \"$T\" verify -q \"$D/p.fm\"; echo $?\n\"$T\" count \"$D/p.fm\""
        );
        let Some(ran) = on_small_disk(&bench, size, &file, &script) else { return };
        let words = &ran.words;
        for said in
            ["disk (tmpfs) is full", "of this run are stored", "safe", "the same command continues", "large.warc"]
        {
            assert!(words.contains(said), "{said:?} not said in: {words}");
        }
        let lines: Vec<&str> = ran.text().lines().collect();
        let safe: usize = lines[1].parse().unwrap();
        assert!(
            safe > 50 && safe < PAGES && words.contains(&format!("{safe} pages of this run are stored")),
            "{safe}: {words}"
        );
        assert_eq!((lines[0], &lines[2..]), ("2", &["0", "0", &*PAGES.to_string()][..]), "{words}");
    }
}

#[test]
fn the_floor_of_free_space_is_an_option_of_import_and_put() {
    let bench = Bench::new();
    let script = "\"$T\" import \"$D/p.fm\" \"$W\"; echo $?\n\
                  echo x | \"$T\" put \"$D/p.fm\" http://a.example/; echo $?\n\
                  echo x | \"$T\" put --min-free 1MB \"$D/p.fm\" http://a.example/; echo $?\n\
                  \"$T\" import -q --min-free 1MB \"$D/p.fm\" \"$W\"; echo $?";
    let Some(ran) = on_small_disk(&bench, "100m", &warc("example.warc.gz"), script) else { return };
    assert_eq!(ran.text().lines().collect::<Vec<_>>(), ["2", "2", "0", "0"], "{}", ran.words);
    for said in [
        "are free, and 268.4 MB are to stay free (--min-free)",
        "0 pages of this run",
        "http://a.example/ was not stored",
    ] {
        assert!(ran.words.contains(said), "{said:?} not said in: {}", ran.words);
    }
}

#[test]
fn a_removal_on_a_disk_at_0_bytes_is_durable_or_said_not_to_be() {
    let bench = Bench::new();
    // With space for the log and without; after a crash, which leaves everything to the log.
    for left in [0, 4096, 16_384, 65_536, 262_144] {
        let script = format!(
            "\"$T\" import -q --min-free 0 \"$D/p.fm\" \"$W\" || exit 1\n\
             head -c {left} /dev/zero > \"$D/room\"\n\
             cat /dev/zero > \"$D/fill\" 2> /dev/null\nrm \"$D/room\"\n\
             \"$T\" rm \"$D/p.fm\" {}; echo $?\nrm \"$D/fill\"\n\
             \"$T\" has \"$D/p.fm\" {} > /dev/null; echo $?\n\"$T\" verify -q \"$D/p.fm\"; echo $?",
            harness::PAGE_URL,
            harness::PAGE_URL
        );
        let Some(ran) = on_small_disk(&bench, "16m", &warc("python-docs.warc.gz"), &script) else { return };
        let lines: Vec<&str> = ran.text().lines().collect();
        match lines[0] {
            "0" => assert_eq!(lines[1], "1", "{left}: it came back: {}", ran.words),
            _ => {
                assert_eq!((lines[0], lines[1]), ("2", "0"), "{left}: {}", ran.words);
                assert!(ran.words.contains("not removed"), "{left}: {}", ran.words);
            }
        }
        assert_eq!(lines[2], "0", "{left}: {}", ran.words);
    }
}

/// A trie and a growing filter are rewritten as a whole: their answers so far must fit on a disk
/// that others fill meanwhile.
#[test]
fn a_set_on_a_full_disk_says_early_that_it_cannot_grow_and_keeps_what_it_answered() {
    for kind in [&["trie"][..], &["growing", "--rate", "1e-6"]] {
        let bench = Bench::new();
        let (list, kind) = (bench.path("list"), kind.join(" "));
        let urls: String =
            (0..400_000_u64).map(|i| format!("http://host{}.example/{i}/{}\n", i % 97, i * 7919)).collect();
        fs::write(&list, urls).unwrap();
        let script = format!(
            "\"$T\" seen create -q \"$D/set\" --kind {kind} || exit 1\n\
             head -n 1000 \"$W\" | \"$T\" seen add -q \"$D/set\" > /dev/null || exit 1\n\
             cat /dev/zero > \"$D/fill\" 2> /dev/null\n\
             \"$T\" seen add --new-only \"$D/set\" \"$W\" > {answered}; echo $?\n\
             \"$T\" seen check -q --new-only \"$D/set\" {answered} | wc -l\n\
             head -n 1000 \"$W\" | \"$T\" seen check -q --new-only \"$D/set\" | wc -l\n\
             rm \"$D/fill\"; \"$T\" seen add -q --new-only \"$D/set\" \"$W\" > /dev/null; echo $?\n\
             \"$T\" seen check -q --new-only \"$D/set\" \"$W\" | wc -l\nwc -l < {answered}",
            answered = bench.path("answered").display(),
        );
        let Some(ran) = on_small_disk(&bench, "60m", &list, &script) else { return };
        let lines: Vec<&str> = ran.text().lines().collect();
        assert_eq!(lines[..5], ["2", "0", "0", "0", "0"], "{kind}: {}", ran.words);
        let answered: usize = lines[5].parse().unwrap();
        assert!((1_000..390_000).contains(&answered), "{kind}: {answered}");
        assert!(ran.words.contains("no room for a larger file"), "{kind}: {}", ran.words);
        // A set without any space is not created.
        let none =
            "cat /dev/zero > \"$D/fill\" 2> /dev/null\n\"$T\" seen create \"$D/set\" --kind trie; echo $?; ls \"$D\"";
        let ran = on_small_disk(&bench, "1m", &list, none).unwrap();
        assert!(ran.text().starts_with("2\n") && !ran.text().contains("set.room"), "{} {}", ran.text(), ran.words);
    }
}

#[test]
fn a_write_that_was_refused_for_space_says_so_of_an_ordinary_store_too() {
    let bench = Bench::with(&["example.warc.gz"]);
    let args = ["put", "--min-free", "900TB"];
    let ran = run(harness::tool().args(args).arg(bench.store()).args(["http://a.example/", "/dev/null"])).ended(2);
    ran.said("is full").said("900.0 TB are to stay free").said("was not stored");
}
