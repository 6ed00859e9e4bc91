//! Erasing: erased content is in no file, it is refused and counted when it comes again, and the
//! rest is unchanged.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::{Bench, PAGE_URL, run, tool, warc};

const SECRET: &str = "Jane Roe of 14 Hill Street was born in 1971";

/// The sample pages, and 300 pages of a site that make a dictionary worthwhile. Every fourth of
/// these is private, so the dictionary contains their text whether it is made while they are
/// loaded or later.
fn bench() -> Bench {
    let bench = Bench::with(&["python-docs.warc.gz"]);
    let mut lines = String::new();
    for i in 0..300_u64 {
        let noise: String =
            (0..40).map(|n| format!("{:x} ", (i * 40 + n).wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
        let words = if i % 4 == 0 { format!("{SECRET}. ").repeat(10) } else { String::new() };
        let name = if i % 4 == 0 { "private" } else { "page" };
        let body = format!("<html>What each page of it says in the same words. {words}{noise}</html>");
        let body = body.replace('"', "");
        lines += &format!(
            "{{\"url\":\"http://a.example/{name}/{i}\",\"time\":\"2024-01-01T00:00:00Z\",\"status\":200,\"body\":\"{body}\"}}\n"
        );
    }
    fs::write(bench.path("pages.jsonl"), lines).unwrap();
    run(tool().arg("load").arg(bench.store()).arg(bench.path("pages.jsonl"))).ended(0);
    bench.run::<&str>("train", &[]).ended(0);
    bench
}

fn holders(store: &Path, text: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(store).unwrap().map(|f| f.unwrap().path());
    files.filter(|f| memchr::memmem::find(&fs::read(f).unwrap(), text.as_bytes()).is_some()).collect()
}

fn is_in_a_dictionary(store: &Path) -> bool {
    holders(store, &SECRET[..20]).iter().any(|f| f.extension().is_some_and(|e| e == "zdict"))
}

#[test]
fn an_erased_prefix_is_in_no_file_and_import_load_put_and_merge_refuse_it() {
    let bench = bench();
    let store = bench.store();
    assert!(is_in_a_dictionary(&store), "as this test takes for granted");
    run(tool().arg("copy").arg(&store).arg(bench.path("before.fm"))).ended(0);
    let order = ["--prefix", "http://a.example/private/", "--reason", "letter of May 5th", "--yes"];
    let planned = bench.run("erase", &[&order[..], &["--dry-run", "--json"]].concat()).ended(0).json();
    assert_eq!((planned[0]["captures"].as_u64(), planned[0]["urls"].as_u64()), (Some(75), Some(75)), "{planned:?}");
    assert!(is_in_a_dictionary(&store), "a dry run changes nothing");
    let done = bench.run("erase", &[&order[..], &["--json"]].concat()).ended(0).json();
    assert_eq!(done[0]["captures"].as_u64(), Some(75), "{done:?}");
    assert_eq!(done[0]["complete"].as_bool(), Some(true), "{done:?}");
    assert!(done[0]["proof"]["texts"].as_u64().unwrap() > 75, "{done:?}");
    assert!(!is_in_a_dictionary(&store));
    assert_eq!(holders(&store, "http://a.example/private/2"), [] as [PathBuf; 0]);
    bench.run::<&str>("verify", &[]).ended(0);
    bench.run("get", &[PAGE_URL]).ended(0);
    bench.run("get", &["http://a.example/private/20"]).ended(1);

    let list = bench.run::<&str>("erase", &["--list"]).ended(0);
    assert!(list.text().starts_with("1\tin force\t") && list.text().contains("letter of May 5th"), "{}", list.text());
    bench.feed("put", &["http://a.example/private/20"], b"again").ended(2).said("rule 1");
    let loaded = run(tool().args(["load", "--json"]).arg(&store).arg(bench.path("pages.jsonl"))).ended(3).json();
    assert_eq!((loaded[0]["refused"].as_u64(), loaded[0]["stored"].as_u64()), (Some(75), Some(0)), "{loaded:?}");
    let merged = run(tool().args(["merge", "--json"]).arg(&store).arg(bench.path("before.fm"))).ended(3);
    assert_eq!(merged.json()[0]["refused"].as_u64(), Some(75));
    assert!(merged.words.contains("75 versions refused by erasure rule 1"), "{}", merged.words);

    // An earlier backup takes over the rules, and they erase its pages.
    let before = bench.path("before.fm");
    run(tool().arg("erase").arg(&before).arg("--rules-from").arg(&store)).ended(0).said("1 rule taken over");
    assert!(!is_in_a_dictionary(&before) && holders(&before, "http://a.example/private/2").is_empty());
    // A compacted copy has the rules, too.
    let copy = bench.path("copy.fm");
    run(tool().arg("copy").arg(&store).arg(&copy).arg("--compact")).ended(0);
    let list = run(tool().arg("erase").arg(&copy).arg("--list")).ended(0);
    assert!(list.text().starts_with("1\tin force\t"), "{}", list.text());

    bench.run("erase", &["--lift", "1"]).ended(0);
    bench.run("erase", &["--lift", "1"]).ended(1);
    bench.feed("put", &["http://a.example/private/20"], b"again").ended(0);
}

#[test]
fn an_erased_url_is_kept_as_a_digest_only_and_an_import_of_it_is_refused_and_counted() {
    let bench = Bench::with(&["python-docs.warc.gz"]);
    let done = bench.run("erase", &["--url", PAGE_URL, "--reason", "r", "--json"]).ended(0).json();
    assert_eq!(done[0]["urls"].as_u64(), Some(1), "{done:?}");
    let list = bench.run::<&str>("erase", &["--list"]).ended(0);
    assert!(list.text().contains("kept as a digest") && !list.text().contains("tutorial"), "{}", list.text());
    let rules = fs::read(bench.store().join("RULES")).unwrap();
    assert!(memchr::memmem::find(&rules, b"tutorial").is_none());
    let again = run(tool().args(["import", "--json"]).arg(bench.store()).arg(warc("python-docs.warc.gz"))).ended(3);
    assert_eq!(again.json()[0]["refused"].as_u64(), Some(1), "{}", String::from_utf8_lossy(&again.out));
    bench.run("get", &[PAGE_URL]).ended(1);
    // The same erasure again uses the same rule.
    bench.run("erase", &["--url", PAGE_URL, "--reason", "r"]).ended(0).said("rule 1 ");
    assert_eq!(bench.run::<&str>("erase", &["--list"]).ended(0).text().lines().count(), 1);
}

#[test]
fn a_body_is_erased_by_its_digest_wherever_it_is_and_in_a_span_of_time_only() {
    let bench = Bench::new();
    let put = |url: &str, time: &str, body: &[u8]| bench.feed("put", &[url, "-", "--time", time], body);
    for (url, time) in [("http://a/", "2020"), ("http://a/", "2021"), ("http://b/", "2022")] {
        put(url, time, b"abc").ended(0);
    }
    put("http://a/", "2023", b"other").ended(0);
    let abc = "sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5";
    let early = ["--digest", abc, "--to", "2020", "--reason", "r", "--json"];
    assert_eq!(bench.run("erase", &early).ended(0).json()[0]["captures"].as_u64(), Some(1));
    assert_eq!(bench.run("history", &["http://a/"]).ended(0).text().lines().count(), 2);
    let all = ["--digest", "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "--reason", "r"];
    bench.run("erase", &all).ended(0).said("2 captures erased, 1 URL completely");
    assert_eq!(bench.run("ls", &[] as &[&str]).ended(0).text(), "http://a/\n");
    put("http://c/", "2024", b"abc").ended(2).said("rule 2");
    put("http://c/", "2024", b"abcd").ended(0);
}

#[test]
fn a_damaged_body_may_be_the_one_that_is_meant_and_is_counted() {
    let bench = Bench::new();
    let text: Vec<u8> = (0..2000u32).flat_map(|i| (i * 0x9e37).to_le_bytes()).collect();
    bench.feed("put", &["http://a/", "-", "--time", "2020"], &text).ended(0);
    bench.feed("put", &["http://b/", "-", "--time", "2020"], b"abc").ended(0);
    let file = std::fs::OpenOptions::new().write(true).open(bench.store().join("value0.dat")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"rot", 1000).unwrap();
    let order = ["--digest", "sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5", "--reason", "r"];
    bench.run("erase", &order).ended(3).said("could not be looked at").said("value0.dat");
    bench.run("get", &["http://b/"]).ended(1);
    // It stays incomplete until the damaged value is removed, since even dead bytes might be
    // meant; the first run after the removal reclaims them.
    bench.run("erase", &["--resume"]).ended(3);
    let lifted = bench.path("lifted.fm");
    run(std::process::Command::new("cp").arg("-r").arg(bench.store()).arg(&lifted)).ended(0);
    run(tool().arg("erase").arg(&lifted).args(["--lift", "1"])).ended(0).said("before its erasure had ended");
    bench.run("rm", &["http://a/"]).ended(0);
    bench.run("erase", &["--resume"]).ended(3);
    bench.run("erase", &["--resume"]).ended(0);
}

#[test]
fn a_merge_brings_the_pages_of_a_store_whose_rules_are_damaged_and_a_compact_copy_of_it_is_refused() {
    let from = Bench::new();
    for url in ["http://a/", "http://b/", "http://c/"] {
        from.feed("put", &[url], url.as_bytes()).ended(0);
    }
    from.run("erase", &["--url", "http://b/", "--reason", "r"]).ended(0);
    let rules = from.store().join("RULES");
    let whole = fs::read(&rules).unwrap();
    let other = Bench::new();
    other.feed("put", &["http://d/"], b"x").ended(0);
    for damaged in [Some(&whole[..whole.len() - 1]), Some(&[0; 100]), None] {
        match damaged {
            Some(bytes) => fs::write(&rules, bytes).unwrap(),
            None => fs::remove_file(&rules).unwrap(),
        }
        let to = Bench::new();
        let ran = to.run("merge", &[from.store(), other.store()]).ended(3).said("RULES").said("pages.fm: ");
        assert_eq!(ran.words.matches("RULES").count(), 1, "{}", ran.words);
        let listed = to.run::<&str>("ls", &[]).ended(0);
        let mut listed: Vec<&str> = listed.text().lines().collect();
        listed.sort_unstable();
        assert_eq!(listed, ["http://a/", "http://c/", "http://d/"]);
        // Such a copy would forget the erasure rules.
        let copy = to.path("copy.fm");
        from.run("copy", &[copy.to_str().unwrap(), "--compact"]).ended(3).said("RULES");
    }
}

#[test]
fn orders_that_make_no_sense_change_nothing() {
    let bench = Bench::new();
    bench.feed("put", &["http://a/"], b"x").ended(0);
    let wrong: [&[&str]; 7] = [
        &[],
        &["--url", "http://a/"],
        &["--url", "http://a/", "--host", "a", "--reason", "r"],
        &["--host", "a", "--reason", "r"],
        &["--regex", "(", "--reason", "r", "--yes"],
        &["--digest", "md5:x", "--reason", "r"],
        &["--regex", "a", "--hashed", "--reason", "r", "--yes"],
    ];
    for args in wrong {
        bench.run("erase", args).ended(2);
    }
    // Everything contains the empty text.
    for flag in ["--url", "--host", "--prefix", "--regex", "--digest"] {
        bench.run("erase", &[flag, "", "--reason", "r", "--yes"]).ended(2).said(&flag[2..]);
    }
    for regex in ["a*", "()", "^", "x|", "(?s).*"] {
        for more in ["--yes", "--dry-run"] {
            bench.run("erase", &["--regex", regex, "--reason", "r", more]).ended(2).said("every URL");
        }
    }
    for reason in ["", " "] {
        bench.run("erase", &["--url", "http://a/", "--reason", reason]).ended(2).said("option reason");
    }
    assert!(!bench.store().join("RULES").exists());
    bench.run("erase", &["--resume"]).ended(0).said("no erasure is unfinished");
    bench.run("get", &["http://a/"]).ended(0);
}
