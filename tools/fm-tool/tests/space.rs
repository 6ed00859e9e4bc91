//! The space in a store and how to reclaim it: segments, compaction, pruning; and whole stores:
//! backups, copies, merges.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::{Bench, PAGES, Ran, run, tool};

/// Pages of one megabyte in several versions, most of them removed.
fn wasteful() -> Bench {
    let bench = Bench::new();
    let mut x = 1u64;
    let mut noise = || {
        let mut next = || {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (x >> 56) as u8
        };
        (0..1_000_000).map(|_| next()).collect::<Vec<u8>>()
    };
    for time in ["2020-01-01", "2021-01-01", "2022-01-01"] {
        for page in 0..4 {
            let url = format!("http://example.com/{page}");
            bench.feed("put", &[url.as_str(), "-", "--time", time], &noise()).ended(0);
        }
    }
    bench.run("rm", &["http://example.com/0", "http://example.com/1"]).ended(0);
    bench
}

fn count(store: &Path, flags: &[&str]) -> String {
    run(tool().arg("count").arg(store).args(flags)).ended(0).text().trim().to_owned()
}

fn dump(store: &Path) -> Vec<String> {
    let mut lines: Vec<String> =
        run(tool().arg("dump").arg(store).arg("--all-versions")).ended(0).text().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn two(verb: &str, first: &Path, second: &Path) -> Ran {
    run(tool().arg(verb).arg(first).arg(second))
}

#[test]
fn segments_are_listed_with_what_lives_in_them() {
    let bench = wasteful();
    let table = bench.run::<&str>("segments", &[]).ended(0);
    assert!(table.text().starts_with("FILE") && table.text().contains("value0.dat"), "{}", table.text());
    let json = bench.run("segments", &["--json"]).ended(0).json();
    let sum = |name: &str| json.iter().map(|s| s[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!((json[0]["kind"].as_str(), json[0]["segment"].as_u64()), (Some("log"), Some(0)));
    assert!(sum("live_bytes") > 6_000_000 && sum("dead_bytes") > 6_000_000, "{json:?}");
    assert_eq!(sum("bytes"), fs::metadata(bench.store().join("value0.dat")).unwrap().len());
    assert!(json[0]["begun"].as_str().unwrap().starts_with("20"));
}

#[test]
fn compaction_foretells_what_it_gives_back_and_gives_it_back() {
    let bench = wasteful();
    let before = dump(&bench.store());
    let foretold = bench.run("compact", &["--dry-run", "--json"]).ended(0).json();
    assert!(foretold[0]["freed_bytes"].as_u64().unwrap() > 6_000_000, "{foretold:?}");
    bench.run("compact", &["--dry-run"]).ended(0).said("1 segment would be emptied").said("given back");
    let done = bench.run("compact", &["--json", "--rate", "1GB"]).ended(0).json();
    assert!(done[0]["freed_bytes"].as_u64().unwrap() > 6_000_000, "{done:?}");
    assert!(done[0]["freed_bytes"].as_u64() >= foretold[0]["freed_bytes"].as_u64());
    assert_eq!(dump(&bench.store()), before);
    bench.run::<&str>("verify", &[]).ended(0);
    bench.run::<&str>("compact", &[]).ended(0).said("nothing was compacted: all bytes are live");
    bench.run("compact", &["--rate", "1"]).ended(2).said("compaction_rate");
    bench.run("compact", &["--rate", "fast"]).ended(2).said("20GB");
}

/// Flips a bit in a file of the store, at this offset.
fn flip(bench: &Bench, name: &str, at: usize) {
    let file = bench.store().join(name);
    let mut bytes = fs::read(&file).unwrap();
    bytes[at] ^= 1;
    fs::write(&file, &bytes).unwrap();
}

#[test]
fn what_damage_keeps_from_being_compacted_is_said_and_ends_with_3() {
    for verb in [&["compact"][..], &["recompress", "--level", "1"]] {
        let bench = wasteful();
        // In the page that was put last.
        let len = fs::metadata(bench.store().join("value0.dat")).unwrap().len() as usize;
        flip(&bench, "value0.dat", len - 500_000);
        let pages = count(&bench.store(), &[]);
        bench.run(verb[0], &verb[1..]).ended(3).said("1 segment could not be emptied").said("verify");
        assert_eq!(count(&bench.store(), &[]), pages);
        let done = bench.run(verb[0], &[&verb[1..], &["--json"]].concat()).ended(3).json();
        assert_eq!(done[0]["stuck_segments"], 1);
    }
}

#[test]
fn what_damage_keeps_from_being_pruned_is_said_and_ends_with_3() {
    let bench = wasteful();
    // In a record near the end of the key log, which belongs to the newest pages.
    let len = fs::metadata(bench.store().join("key0.dat")).unwrap().len() as usize;
    flip(&bench, "key0.dat", len - 20);
    for rule in [["--keep-versions", "1"], ["--max-size", "1MB"]] {
        bench.run("prune", &[&rule[..], &["--dry-run"]].concat()).ended(3).said("damage hides keys");
    }
    let done = bench.run("prune", &["--keep-versions", "1", "--json"]).ended(3).said("damage hides keys").json();
    assert!(done[0]["hidden"].as_u64().unwrap() > 0, "{done:?}");
}

#[test]
fn a_compaction_that_is_interrupted_leaves_the_store_whole() {
    let bench = wasteful();
    let before = dump(&bench.store());
    // At one megabyte a second there is enough time to stop it.
    let mut command = bench.command("compact");
    let mut child = command.args(["--rate", "1MiB"]).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(300);
    while !bench.store().join("value2.dat").exists() && !bench.store().join("value1.dat").exists() {
        assert!(std::time::Instant::now() < deadline && child.try_wait().unwrap().is_none());
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap().success());
    let mut words = String::new();
    child.stderr.take().unwrap().read_to_string(&mut words).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{words}");
    assert!(words.contains("continues"), "{words}");
    assert_eq!(dump(&bench.store()), before);
    bench.run::<&str>("verify", &[]).ended(0);
    bench.run::<&str>("compact", &[]).ended(0);
    assert_eq!(dump(&bench.store()), before);
}

#[test]
fn old_versions_are_pruned_by_age_number_and_size_and_their_space_comes_back() {
    let bench = wasteful();
    let versions = || count(&bench.store(), &["--versions"]);
    bench.run::<&str>("prune", &[]).ended(2).said("--older-than");
    bench.run("prune", &["--keep-versions", "0"]).ended(2);
    let foretold = bench.run("prune", &["--keep-versions", "2", "--dry-run", "--json"]).ended(0).json();
    assert_eq!((foretold[0]["versions"].as_u64(), versions().as_str()), (Some(2), "6"));
    bench.run("prune", &["--older-than", "2021-06-01", "--keep-versions", "2"]).ended(0).said("2 versions of");
    assert_eq!(versions(), "4");
    let kept = bench.run("history", &["http://example.com/2"]).ended(0);
    assert!(kept.text().contains("2021-01-01") && !kept.text().contains("2020-01-01"), "{}", kept.text());
    let pruned = bench.run("prune", &["--max-size", "2.5MB", "--json", "--compact"]).ended(0).json();
    assert_eq!((pruned[0]["versions"].as_u64(), versions().as_str()), (Some(2), "2"));
    assert!(pruned[1]["freed_bytes"].as_u64().unwrap() > 1_000_000, "{pruned:?}");
    let disk = |_: ()| bench.run("stat", &["--json"]).ended(0).json()[0]["value_bytes"].as_u64().unwrap();
    assert!(disk(()) < 2_500_000, "{}", disk(()));
    bench.run("prune", &["--older-than", "1d", "--compact"]).ended(0).said("2 pages removed completely");
    assert_eq!((count(&bench.store(), &[]).as_str(), disk(()) < 10_000), ("0", true));
    bench.run::<&str>("verify", &[]).ended(0);
}

#[test]
fn only_chosen_pages_are_pruned_with_their_variants() {
    let bench = wasteful();
    for (host, time) in [("a.news.test", 2019), ("news.test", 2020), ("other.test", 2019)] {
        for extra in [&[][..], &["--variant", "one"]] {
            let (url, time) = (format!("http://{host}/x"), format!("{time}-01-01"));
            bench.feed("put", &[&[&*url, "-", "--time", &*time], extra].concat(), b"a page").ended(0);
        }
    }
    let versions = || count(&bench.store(), &["--versions"]);
    let all = versions();
    for choice in [["--host", "news.test"], ["--domain", "news.test"], ["--prefix", "http://a"], ["--regex", "/x$"]] {
        bench.run("prune", &[&choice[..], &["--max-size", "1MB"]].concat()).ended(2).said("cannot be used with");
        bench.run("prune", &choice).ended(2).said("--older-than");
    }
    bench.run("prune", &["--regex", "(", "--keep-versions", "1"]).ended(2).said("regex");
    let drops = |choice: &[&str]| {
        let rule = [choice, &["--older-than", "2020-06-01", "--json"]].concat();
        let planned = bench.run("prune", &[&rule[..], &["--dry-run"]].concat()).ended(0).json();
        (planned[0]["versions"].as_u64(), planned[0]["pages"].as_u64())
    };
    assert_eq!(drops(&["--host", "news.test"]), (Some(2), Some(2)), "page and variant");
    assert_eq!(drops(&["--domain", "News.Test"]), (Some(4), Some(4)));
    assert_eq!(drops(&["--regex", "^http://(a|other)[^/]*/x$"]), (Some(4), Some(4)));
    assert_eq!(drops(&["--domain", "news.test", "--prefix", "http://a."]), (Some(2), Some(2)));
    assert_eq!(drops(&["--host", "absent.test"]), (Some(0), Some(0)));
    assert_eq!(versions(), all);
    bench.run("prune", &["--domain", "news.test", "--older-than", "2020-06-01"]).ended(0).said("4 versions of");
    for (host, code) in [("a.news.test", 1), ("news.test", 1), ("other.test", 0)] {
        bench.run("get", &[format!("http://{host}/x")]).ended(code);
        bench.run("get", &[&format!("http://{host}/x"), "--variant", "one"]).ended(code);
    }
    bench.run::<&str>("verify", &[]).ended(0);
}

#[test]
fn the_original_of_a_revisit_that_stays_is_kept_with_it() {
    let length = |bench: &Bench| bench.run("get", &["http://example.com/"]).ended(0).out.len();
    for rule in [["--keep-versions", "1"], ["--older-than", "1d"], ["--max-size", "1"]] {
        let bench = Bench::with(&["example.warc.gz"]);
        assert_eq!(length(&bench), 1270);
        let done = bench.run("prune", &[&rule[..], &["--compact", "--json"]].concat()).ended(0).json();
        if rule[0] == "--keep-versions" {
            assert_eq!(length(&bench), 1270, "{done:?}");
        } else {
            assert_eq!(count(&bench.store(), &[]), "0", "{done:?}");
        }
        bench.run::<&str>("verify", &[]).ended(0);
    }
}

#[test]
fn a_backup_is_made_of_a_store_that_is_written_and_the_next_one_builds_on_it() {
    let bench = Bench::with(&["python-docs.warc.gz"]);
    // Another process has the store open, which does not matter.
    let mut writer = bench.command("import").arg("-").stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let (first, second) = (bench.path("first.fm"), bench.path("second.fm"));
    let done = run(tool().arg("backup").arg(bench.store()).arg(&first).arg("--json")).ended(0).json();
    assert!(done[0]["copied_bytes"].as_u64().unwrap() > 100_000, "{done:?}");
    assert_eq!(dump(&first), dump(&bench.store()));
    drop(writer.stdin.take());
    writer.wait().unwrap();
    bench.feed("put", &["http://new.example/"], b"new").ended(0);
    run(tool().arg("backup").arg(bench.store()).arg(&second).arg("--base").arg(&first)).ended(0).said("copied");
    assert_eq!(count(&second, &[]), (PAGES + 1).to_string());
    two("backup", &bench.store(), &second).ended(2).said("not empty");
    run(tool().arg("verify").arg(&second)).ended(0);
    // The backup is a store like any other.
    run(tool().arg("rm").arg(&second).arg("http://new.example/")).ended(0);
    bench.run("has", &["http://new.example/"]).ended(0);
}

#[test]
fn a_copy_has_the_same_pages_and_a_merge_has_those_of_all() {
    let bench = wasteful();
    let (plain, small, all) = (bench.path("plain.fm"), bench.path("small.fm"), bench.path("all.fm"));
    two("copy", &bench.store(), &plain).ended(0);
    run(tool().arg("copy").arg(bench.store()).arg(&small).args([
        "--compact",
        "--level",
        "9",
        "--segment-size",
        "2MiB",
    ]))
    .ended(0)
    .said("6 versions");
    assert_eq!(dump(&plain), dump(&bench.store()));
    assert_eq!(dump(&small), dump(&bench.store()));
    let bytes = |store: &Path| run(tool().arg("stat").arg(store).arg("--json")).json()[0]["value_bytes"].as_u64();
    assert_eq!(bytes(&plain), bytes(&bench.store()), "file by file");
    assert!(bytes(&small) < Some(6_200_000), "{:?}", bytes(&small));
    run(tool().arg("copy").arg(&plain).arg(bench.path("x")).args(["--level", "9"])).ended(2).said("--compact");
    two("copy", &plain, &small).ended(2).said("not empty");

    let other = Bench::with(&["example.warc.gz"]);
    run(tool().arg("merge").arg(&all).arg(&small).arg(other.store())).ended(0).said("2 versions of");
    let mut both = [dump(&small), dump(&other.store())].concat();
    both.sort();
    assert_eq!(dump(&all), both);
    let again = run(tool().arg("merge").arg(&all).arg(&plain).arg("--json")).ended(0).json();
    assert_eq!((again[0]["versions"].as_u64(), again[0]["already_there"].as_u64()), (Some(0), Some(6)));
    let exact = bench.path("exact.fm");
    let put = ["http://a/", "--exact-urls", "-"];
    assert!(
        tool().arg("put").arg(&exact).args(put).stdin(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
    );
    two("merge", &all, &exact).ended(2).said("canonicalis");
    let new = bench.path("new.fm");
    run(tool().arg("merge").arg(&new).args([&small, &exact])).ended(2).said("nothing was merged");
    assert!(!new.exists());
}
