//! `repair` into a new folder and in place, after a question or with `--yes`: the files that it
//! lists, and its exit codes.

use std::fs;
use std::process::Stdio;

use crate::harness::{self, Bench, PAGE_BYTES, PAGE_URL, PAGES, run, tool};

const REMEDY: &str = "`fm-tool repair` makes a store of what the value segments hold";

fn pages(store: &std::path::Path) -> usize {
    run(tool().arg("ls").arg(store)).ended(0).text().lines().count()
}

/// The number of listed pages; a file is reported missing.
fn pages_told(bench: &Bench) -> usize {
    bench.run::<&str>("ls", &[]).ended(3).text().lines().count()
}

#[test]
fn without_index_key_log_and_superblock_every_page_comes_back() {
    let bench = Bench::with(&["python-docs.warc.gz"]);
    for name in ["address.idx", "key0.dat", "SUPERBLOCK"] {
        let _ = fs::remove_file(bench.store().join(name));
    }
    bench.run::<&str>("ls", &[]).ended(3).said("SUPERBLOCK").said(REMEDY);
    let new = bench.path("new.fm");
    let ran = bench.run("repair", &[&new]).ended(3).said("nothing is known to be lost").said("whatwg");
    assert!(ran.out.is_empty());
    assert_eq!(pages(&new), PAGES);
    assert_eq!(run(tool().arg("get").arg(&new).arg(PAGE_URL)).ended(0).out.len(), PAGE_BYTES);
    run(tool().arg("verify").arg(&new)).ended(0);
    // The repaired store uses the same canonicaliser as `import`.
    let again = run(tool().args(["import".as_ref(), new.as_os_str(), harness::warc("cc.warc.gz").as_os_str()]));
    again.ended(0);
    // The damaged store is unchanged.
    bench.run::<&str>("ls", &[]).ended(3);
    bench.run("repair", &[&new]).ended(2).said("not empty");
}

#[test]
fn every_verb_that_finds_no_way_to_the_pages_names_the_file_and_says_that_a_repair_makes_one() {
    let files = ["SUPERBLOCK", "address.idx", "key0.dat"];
    for (name, left) in files.into_iter().flat_map(|name| [None, Some(0), Some(10)].map(|left| (name, left))) {
        let bench = Bench::with(&["python-docs.warc.gz"]);
        let path = bench.store().join(name);
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        if let Some(left) = left {
            fs::write(&path, &bytes[..left]).unwrap();
        }
        for verb in ["ls", "count", "top", "stat", "segments", "verify", "dump"] {
            bench.run::<&str>(verb, &[]).ended(3).said(name).said(REMEDY);
        }
        for verb in ["get", "has", "head", "history"] {
            bench.run(verb, &[PAGE_URL]).ended(3).said(name).said(REMEDY);
        }
        bench.run("copy", &[&bench.path("copy.fm")]).ended(3).said(name);
        bench.run("backup", &[&bench.path("backup.fm")]).ended(3).said(name);
        bench.run("put", &[PAGE_URL, "-"]).ended(3).said(name).said(REMEDY).said("--accept-loss");
    }
}

#[test]
fn a_folder_with_somebody_elses_files_is_no_damaged_store() {
    let bench = Bench::new();
    fs::create_dir(bench.store()).unwrap();
    fs::write(bench.store().join("value0.dat"), "seconds,volts\n0,1.5\n").unwrap();
    bench.run::<&str>("ls", &[]).ended(2).said("not a FileMap store");
}

#[test]
fn rules_of_erasures_that_are_gone_are_missed_by_every_verb_that_reads() {
    let bench = Bench::with(&["python-docs.warc.gz"]);
    bench.run("erase", &["--url", PAGE_URL, "--reason", "a letter", "--yes"]).ended(0);
    bench.run::<&str>("ls", &[]).ended(0);
    for harm in [|path| fs::write(path, "").unwrap(), |path: std::path::PathBuf| fs::remove_file(path).unwrap()] {
        harm(bench.store().join("RULES"));
        for verb in ["ls", "count", "top", "stat", "segments", "verify", "dump"] {
            bench.run::<&str>(verb, &[]).ended(3).said("RULES");
        }
        assert_eq!(pages_told(&bench), PAGES - 1, "all the rest is given");
        bench.run("head", &["http://docs.python.localhost/3.11/index.html"]).ended(3).said("RULES is unusable");
        bench.run("put", &[PAGE_URL, "-"]).ended(3).said("RULES");
    }
}

#[test]
fn in_place_it_asks_first_and_lists_what_is_lost() {
    let bench = Bench::with(&["python-docs.warc.gz"]);
    let segment = bench.store().join("value0.dat");
    let mut bytes = fs::read(&segment).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(&segment, &bytes).unwrap();
    bench.run("repair", &["--in-place"]).ended(2).said("--yes");
    bench.run::<&str>("repair", &[]).ended(2);
    bench.run("repair", &["--in-place", "elsewhere"]).ended(2);
    bench.run("repair", &["elsewhere", "--rule", "whatwg", "x"]).ended(2).said("not a version");
    assert!(fs::read(&segment).unwrap() == bytes, "nothing was done yet");
    let ran = bench.run("repair", &["--in-place", "--yes"]).ended(3).said("lost in 1 place");
    assert!(ran.text().starts_with("value0.dat: offset "), "{}", ran.text());
    assert!(ran.text().contains("http://docs.python.localhost/"), "its URL is reported: {}", ran.text());
    bench.run::<&str>("verify", &[]).ended(0);
    assert_eq!(pages(&bench.store()), PAGES - 1);
    // A second repair has nothing to do.
    let lines = bench.run("repair", &["--in-place", "--yes", "--json"]).ended(0).json();
    assert_eq!(lines.len(), 1);
    assert_eq!((&lines[0]["losses"], &lines[0]["keys"]), (&0.into(), &(PAGES - 1).into()));
}

#[test]
fn losses_and_files_that_are_left_out_are_json_lines() {
    let bench = Bench::with(&["python-docs.warc.gz"]);
    let other = Bench::with(&["cc.warc.gz"]);
    fs::copy(other.store().join("value0.dat"), bench.store().join("value3.dat")).unwrap();
    let segment = bench.store().join("value0.dat");
    let mut bytes = fs::read(&segment).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(&segment, &bytes).unwrap();
    let new = bench.path("new.fm");
    let lines = bench.run("repair", &[new.to_str().unwrap(), "--json"]).ended(3).json();
    assert_eq!(lines.len(), 3);
    assert!(lines[0]["url"].as_str().unwrap().starts_with("http://docs.python.localhost/"));
    assert_eq!(lines[1]["left_out"], "it belongs to another store");
    assert_eq!((&lines[2]["losses"], &lines[2]["left_out"]), (&1.into(), &1.into()));
}

#[test]
fn a_store_that_is_written_and_a_folder_that_is_none_are_refused() {
    let bench = Bench::with(&["python-docs.warc.gz"]);
    let mut writer = bench.command("put").args(["http://x/", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    let new = bench.path("new.fm");
    // Whether the writer has the lock yet or not, a repair never reads a store that is being
    // written.
    let ran = bench.run("repair", &[&new]);
    assert!([0, 4].contains(&ran.code), "{}", ran.words);
    drop(writer.stdin.take());
    // The second of the two is refused.
    assert!(writer.wait().unwrap().success() || ran.code == 0);
    let none = bench.path("none");
    fs::create_dir(&none).unwrap();
    run(tool().arg("repair").arg(&none).arg(bench.path("other.fm"))).ended(2).said("not a FileMap store");
    assert!(!bench.path("other.fm").exists());
}
