//! The command line with real object storage: the bucket of `FILEMAP_S3`, in the environment that
//! `crates/filemap-cloud/ceph.sh` prints.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::harness::{Bench, PAGE_URL, Ran, run, tool};

/// A location for a store that no other test uses; `None` without a bucket.
fn place(name: &str) -> Option<String> {
    let Ok(s3) = std::env::var("FILEMAP_S3") else {
        eprintln!("skipped: FILEMAP_S3 names no bucket");
        return None;
    };
    let unique = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    Some(format!("{s3}/{name}-{unique}"))
}

fn ran(verb: &str, args: &[&str]) -> Ran {
    run(tool().arg(verb).args(args))
}

/// The last JSON line that a verb prints.
#[track_caller]
fn told(verb: &str, args: &[&str], code: i32) -> Value {
    ran(verb, &[args, &["--json"]].concat()).ended(code).json().pop().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The whole dump of a store, as lines without the data that only this store knows.
#[track_caller]
fn dumped(store: &Path) -> BTreeSet<String> {
    ran("dump", &[text(store)]).ended(0).text().lines().map(str::to_owned).collect()
}

/// A store with several versions of a page, variants, records next to pages, and removed pages.
fn filled() -> Bench {
    let bench = Bench::new();
    let warcs = [crate::harness::warc("python-docs.warc.gz"), crate::harness::warc("example.warc.gz")];
    let kept = ["--keep", "request,metadata"].map(std::ffi::OsString::from);
    let args: Vec<_> = warcs.into_iter().map(|path| path.into_os_string()).chain(kept).collect();
    bench.run("import", &args).ended(0);
    for (time, status) in [("2020-01-01", "200"), ("2021-01-01", "404"), ("2022-01-01", "200")] {
        let args = ["--time", time, "--status", status, "--header", "X-Version: kept", "http://v.example/", "-"];
        bench.feed("put", &args, time.as_bytes()).ended(0);
        bench.feed("put", &["--time", time, "--variant", "session 7", "http://v.example/", "-"], b"varies").ended(0);
    }
    bench.feed("put", &["http://gone.example/", "-"], b"gone").ended(0);
    bench.run("rm", &["http://gone.example/"]).ended(0);
    bench
}

#[test]
fn a_copy_goes_up_and_down_with_every_version_and_again_adds_nothing() {
    let Some(there) = place("copy") else { return };
    let bench = filled();
    let (here, back) = (bench.store(), bench.path("back.fm"));
    let up = told("copy", &[text(&here), &there], 0);
    let versions = up["versions"].as_u64().unwrap();
    assert!(versions > 100 && up["already_there"] == 0 && up["complete"] == true, "{up}");
    let again = told("copy", &[text(&here), &there], 0);
    assert_eq!((&again["versions"], &again["already_there"]), (&Value::from(0), &Value::from(versions)));
    let down = told("copy", &[&there, text(&back)], 0);
    assert_eq!(down["versions"], versions);
    assert_eq!(dumped(&back), dumped(&here));
    ran("copy", &[&there, text(&back)]).ended(0).said(&format!("{versions} already there"));
    for (verb, args) in [
        ("get", &[PAGE_URL][..]),
        ("history", &["http://v.example/"]),
        ("history", &["http://v.example/", "--all-variants"]),
        ("get", &["http://v.example/", "--at", "2021-06-01", "--headers"]),
        ("ls", &[]),
        ("count", &["--versions", "--host", "v.example"]),
    ] {
        let (local, remote) = (ran(verb, &[&[text(&here)], args].concat()), ran(verb, &[&[&*there], args].concat()));
        assert_eq!((remote.code, &remote.out), (local.code, &local.out), "{verb} {args:?}: {}", remote.words);
    }
    ran("has", &[&there, "http://gone.example/"]).ended(1);
    // From one bucket to another.
    let Some(other) = place("copied") else { return };
    assert_eq!(told("copy", &[&there, &other], 0)["versions"], versions);
    assert_eq!(told("verify", &[&other], 0)["problems"], 0);
    // Keys of different kinds do not mix.
    run(tool().args(["put", &other, "http://a.example/", "Cargo.toml"])).ended(0);
    let exact = bench.path("exact.fm");
    run(tool().arg("put").arg(&exact).args(["--exact-urls", "http://A.example", "Cargo.toml"])).ended(0);
    ran("copy", &[text(&exact), &other]).ended(2).said("canonicaliser");
}

#[test]
fn a_bucket_is_dumped_as_a_folder_is_and_lines_are_loaded_into_one() {
    let (Some(there), Some(other)) = (place("dumped"), place("loaded")) else { return };
    let bench = filled();
    let versions = told("copy", &[text(&bench.store()), &there], 0)["versions"].as_u64().unwrap();
    let expected = dumped(&bench.store());
    assert_eq!(dumped(Path::new(&there)), expected);
    let lines = bench.path("pages.jsonl");
    ran("dump", &[&there, "-o", text(&lines)]).ended(0);
    assert_eq!(told("load", &[&other, text(&lines)], 0)["stored"], versions);
    assert_eq!(told("load", &[&other, text(&lines)], 0)["stored"], 0, "it has them");
    assert_eq!(dumped(Path::new(&other)), expected);
    let folder = bench.path("archive");
    let warc = told("dump", &[&there, "--format", "warc,cdxj", "--name", "pages", "-o", text(&folder)], 0);
    assert_eq!((&warc["written"], &warc["damaged"]), (&Value::from(versions), &Value::from(0)));
    assert!(folder.join("pages-00000.warc.gz").exists() && folder.join("pages.cdxj").exists());
    let (sums, own) = (told("top", &[&there], 0), told("top", &[text(&bench.store())], 0));
    assert!(["all", "pages", "versions"].iter().all(|name| sums[name] == own[name]), "{sums}, {own}");
    let largest = ran("top", &[&there, "--largest", "--sort", "bodies", "--limit", "3"]).ended(0);
    assert_eq!(largest.text().lines().count(), 3);
    // Of one page its newest version, and no other host's.
    let newest = ran("dump", &[&there, "--newest", "--host", "v.example"]).ended(0);
    assert_eq!(newest.text().lines().count(), 2, "the page and its variant: {}", newest.text());
    let refused = ran("import", &[&other, text(&folder.join("pages-00000.warc.gz"))]);
    assert!(refused.code == 2 && refused.words.contains("takes JSON Lines"), "{}", refused.words);
}

#[test]
fn dictionaries_are_trained_in_a_bucket_and_stored_bodies_get_them() {
    let Some(there) = place("trained") else { return };
    let bench = Bench::new();
    let mut random = fastrand(11);
    let navigation: String = (0..300).map(|_| format!("{:08x}", random())).collect();
    let lines: Vec<String> = (0..300)
        .map(|nth| {
            let url = format!("http://many.example/{nth}");
            format!(r#"{{"url":"{url}","time_ms":1700000000000,"status":200,"body":"{navigation}{nth}"}}"#)
        })
        .collect();
    let file = bench.path("pages.jsonl");
    std::fs::write(&file, lines.join("\n")).unwrap();
    ran("load", &[&there, text(&file)]).ended(0);
    let bytes = || told("stat", &[&there], 0)["segment_bytes"].as_u64().unwrap();
    let before = bytes();
    let made = ran("train", &[&there, "--json"]).ended(0).json();
    assert!(made.iter().any(|made| made["site"] == "" && made["is_current"] == true), "{made:?}");
    assert_eq!(ran("train", &[&there, "--list", "--json"]).ended(0).json().len(), made.len());
    assert!(told("recompress", &[&there, "--level", "9"], 0)["rewritten"].as_u64() > Some(0));
    assert!(bytes() < before / 2, "{before} -> {}", bytes());
    assert_eq!(told("verify", &[&there], 0)["problems"], 0);
    let page = ran("get", &[&there, "http://many.example/7"]).ended(0);
    assert!(page.text().ends_with('7') && page.text().starts_with(&navigation[..100]));
    let erased = told("erase", &[&there, "--url", "http://many.example/7", "--reason", "asked for", "--yes"], 0);
    assert!(erased["complete"] == true && erased["dictionaries"].as_u64() > Some(0), "{erased}");
}

#[test]
fn an_interrupted_copy_is_ended_by_the_same_command() {
    let Some(there) = place("interrupted") else { return };
    let bench = Bench::new();
    let mut random = fastrand(7);
    let lines: Vec<String> = (0..3_000)
        .map(|nth| {
            let body: String = (0..500).map(|_| format!("{:08x}", random())).collect();
            format!(r#"{{"url":"http://many.example/{nth}","time_ms":1700000000000,"status":200,"body":"{body}"}}"#)
        })
        .collect();
    bench.feed("import", &["-"], lines.join("\n").as_bytes()).ended(0);
    // At any point: the crate's own tests stop a copy at known places.
    for signal in ["INT", "KILL", "INT"] {
        let mut copy = tool()
            .arg("copy")
            .arg(bench.store())
            .arg(&there)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(500));
        Command::new("kill").arg(format!("-{signal}")).arg(copy.id().to_string()).status().unwrap();
        let code = copy.wait().unwrap().code();
        assert!([Some(0), Some(130), None].contains(&code), "{code:?}");
    }
    let ended = told("copy", &[text(&bench.store()), &there], 0);
    assert_eq!(ended["versions"].as_u64().unwrap() + ended["already_there"].as_u64().unwrap(), 3_000, "{ended}");
    assert_eq!(ran("count", &[&there]).ended(0).text().trim(), "3000");
    let verified = told("verify", &[&there], 0);
    assert_eq!((&verified["versions"], &verified["problems"]), (&Value::from(3_000), &Value::from(0)));
    let back = bench.path("back.fm");
    assert_eq!(told("copy", &[&there, text(&back)], 0)["versions"], 3_000);
    assert!(dumped(&back) == dumped(&bench.store()));
}

/// Random numbers (xorshift).
fn fastrand(seed: u32) -> impl FnMut() -> u32 {
    let mut state = seed;
    move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    }
}

#[test]
fn upkeep_of_a_bucket_frees_erases_and_says_what_it_did() {
    let Some(there) = place("upkeep") else { return };
    let bench = filled();
    ran("copy", &[text(&bench.store()), &there]).ended(0);
    ran("verify", &[&there, "--quick"]).ended(0).said("no damage");
    let stat = told("stat", &[&there], 0);
    assert!(
        stat["live_bytes"].as_u64().unwrap() > 0 && stat["dead_bytes"] == 0 && stat["canonicalizer"] == "whatwg 1",
        "{stat}"
    );
    ran("stat", &[&there]).ended(0).text().contains("live_bytes");
    let metrics = ran("stat", &[&there, "--format", "openmetrics"]).ended(0);
    assert!(
        metrics.text().contains("\nfilemap_live_bytes ") && metrics.text().ends_with("# EOF\n"),
        "{}",
        metrics.text()
    );
    let planned = told("prune", &[&there, "--keep-versions", "1", "--host", "v.example", "--dry-run"], 0);
    assert_eq!((&planned["versions"], &planned["dry_run"]), (&Value::from(4), &Value::from(true)), "{planned}");
    let pruned = ran("prune", &[&there, "--keep-versions", "1", "--host", "v.example", "--json"]).ended(0).json();
    assert_eq!(
        (&pruned[0]["versions"], &pruned[0]["live_bytes"]),
        (&Value::from(4), &planned["live_bytes"]),
        "{pruned:?}"
    );
    assert!(!told("compact", &[&there, "--dry-run"], 0)["segments"].as_array().unwrap().is_empty());
    let compacted = told("compact", &[&there], 0);
    assert!(compacted["rewritten"].as_u64().unwrap() > 0 && compacted["waiting"].as_u64().unwrap() > 0, "{compacted}");
    let stat = told("stat", &[&there], 0);
    assert!(stat["dead_bytes"] == 0 && stat["waiting_segments"] == compacted["waiting"], "{stat}");
    let segments = ran("segments", &[&there, "--json"]).ended(0).json();
    let live = segments.iter().map(|segment| segment["live_bytes"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(Some(live), stat["live_bytes"].as_u64());
    // Erases a page, and the objects that wait for deletion.
    let url = ["--url", PAGE_URL, "--reason", "r"];
    let foretold = told("erase", &[&[&*there][..], &url, &["--dry-run"]].concat(), 0);
    assert_eq!((&foretold["pages"], &foretold["dry_run"]), (&Value::from(1), &Value::from(true)));
    let erased = ran("erase", &[&[&*there][..], &url].concat()).ended(0).said("1 page erased").said("no rule is kept");
    assert!(erased.words.contains("not reached"), "{}", erased.words);
    ran("get", &[&there, PAGE_URL]).ended(1);
    let erased = told("erase", &[&there, "--host", "v.example", "--reason", "r", "--yes"], 0);
    assert_eq!(
        (&erased["pages"], &erased["complete"], &erased["waiting"]),
        (&Value::from(1), &Value::from(true), &Value::from(0))
    );
    ran("repair", &[&there, "--in-place", "--yes"]).ended(0).said("all of it was read");
    assert_eq!(told("stat", &[&there], 0)["generation"], 2);
    ran("get", &[&there, PAGE_URL]).ended(1);
    assert_eq!(told("verify", &[&there], 0)["problems"], 0);
}

/// Sends an S3 request to the object storage in the environment.
fn request(method: &str, location: &str, object: &str) {
    let endpoint = std::env::var("AWS_ENDPOINT").unwrap();
    let user = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"].map(|name| std::env::var(name).unwrap()).join(":");
    let path = location.strip_prefix("s3://").unwrap();
    let mut curl = Command::new("curl");
    curl.args(["-sf", "-o", "/dev/null", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", &user, "-X", method]);
    // The digest of an empty body, which S3 requires.
    curl.args(["-H", "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"]);
    assert!(curl.arg(format!("{endpoint}/{path}/{object}")).status().unwrap().success(), "{method} {object}");
}

#[test]
fn what_is_lost_in_a_bucket_is_named_with_the_code_3_and_repaired() {
    let Some(there) = place("lost") else { return };
    let bench = filled();
    ran("copy", &[text(&bench.store()), &there]).ended(0);
    // This adds a second segment.
    run(tool().args(["put", &there, "http://late.example/", "Cargo.toml"])).ended(0);
    let segments = ran("segments", &[&there, "--json"]).ended(0).json();
    let object = segments.last().unwrap()["object"].as_str().unwrap();
    request("DELETE", &there, object);
    for args in [&["--quick"][..], &[]] {
        let found = ran("verify", &[&[&*there][..], args, &["--json"]].concat()).ended(3).json();
        assert!(found[0]["object"] == object && found[0]["what"].as_str().unwrap().contains("missing"), "{found:?}");
        assert_eq!(found.last().unwrap()["problems"], 1);
    }
    let back = bench.path("back.fm");
    let copied = ran("copy", &[&there, text(&back)]).ended(3).said("late.example").said("left out");
    assert!(copied.words.contains("1 version or place"), "{}", copied.words);
    assert_eq!(dumped(&back), dumped(&bench.store()));
    // The repair names the missing object and reports its page as lost, but only once.
    let told = ran("repair", &[&there, "--in-place", "--yes", "--json"]).ended(3).json();
    assert!(told[0]["object"] == object && told[0]["what"].as_str().unwrap().contains("missing"), "{told:?}");
    let summary = told.last().unwrap();
    assert!(summary["complete"] == false && summary["lost_bytes"].as_u64().unwrap() > 0, "{summary}");
    ran("repair", &[&there, "--in-place", "--yes"]).ended(0).said("all of it was read");
    ran("verify", &[&there]).ended(0).said("no damage");
    ran("has", &[&there, "http://late.example/"]).ended(1);
    // Without `STORE`, no file says that a new store may be made here.
    request("DELETE", &there, "STORE");
    for verb in ["verify", "stat", "ls"] {
        ran(verb, &[&there]).ended(3).said("a store was here");
    }
}

#[test]
fn what_a_bucket_does_not_do_is_said_and_a_refused_copy_ends_no_writer() {
    let Some(there) = place("refused") else { return };
    let bench = filled();
    ran("copy", &[text(&bench.store()), &there]).ended(0);
    // An empty prefix does not mean the whole store.
    ran("erase", &[&there, "--prefix", "", "--reason", "r", "--yes"]).ended(2).said("it is empty");
    ran("has", &[&there, PAGE_URL]).ended(0);
    ran("erase", &[&there, "--host", "none.example", "--reason", "r", "--yes"]).ended(0).said("no page of the store");
    let exact = bench.path("exact.fm");
    run(tool().arg("put").arg(&exact).args(["--exact-urls", "http://A.example", "Cargo.toml"])).ended(0);
    use filemap::PageWrite;
    use filemap_cloud::{CloudOptions, Mode, open_bucket};
    let writer = open_bucket(&there, Mode::Write, &CloudOptions::new()).unwrap();
    ran("copy", &[text(&exact), &there]).ended(2).said("canonicaliser");
    writer.put(&filemap::Page::new("http://b.example/", 1, 200, "b"), filemap::access::PutRule::Always).unwrap();
    writer.close().expect("it was not fenced");
    ran("has", &[&there, PAGE_URL]).ended(0);
}

#[test]
fn a_copy_with_a_checkpoint_ends_it_and_one_that_is_left_can_be_removed() {
    use filemap::PageWrite;
    use filemap_cloud::{CloudOptions, Mode, open_bucket};
    let Some(there) = place("checkpoint") else { return };
    let bench = filled();
    let versions = told("copy", &[text(&bench.store()), &there], 0)["versions"].clone();
    let back = bench.path("held.fm");
    assert_eq!(told("copy", &[&there, text(&back), "--checkpoint"], 0)["versions"], versions);
    assert_eq!(ran("segments", &[&there, "--checkpoints", "--json"]).ended(0).json().len(), 0, "it has ended");
    let store = open_bucket(&there, Mode::Read, &CloudOptions::new()).unwrap();
    let held = store.checkpoint("scan", Duration::from_secs(3600)).unwrap();
    let listed = told("segments", &[&there, "--checkpoints"], 0);
    assert_eq!((&listed["name"], &listed["live"]), (&Value::from("scan"), &Value::from(true)), "{listed}");
    ran("erase", &[&there, "--url", PAGE_URL, "--reason", "r", "--yes"]).ended(3).said("a checkpoint needs them");
    assert_eq!(told("segments", &[&there, "--checkpoints", "--remove", "scan"], 0)["removed"], 1);
    ran("segments", &[&there, "--checkpoints", "--remove", "scan"]).ended(1);
    ran("erase", &[&there, "--url", PAGE_URL, "--reason", "r", "--yes"]).ended(0);
    held.close().unwrap();
}

#[test]
fn a_cache_on_disk_serves_the_next_program() {
    let Some(there) = place("cache") else { return };
    let bench = filled();
    ran("copy", &[text(&bench.store()), &there]).ended(0);
    let cache = bench.path("cache");
    let get = || run(tool().args(["get", &there, PAGE_URL]).env("FILEMAP_CACHE_DIR", &cache)).ended(0).out;
    let first = get();
    assert!(std::fs::read_dir(&cache).unwrap().count() > 0, "nothing was kept");
    assert_eq!(get(), first);
}

#[test]
fn what_no_index_names_is_kept_by_a_prune_and_the_way_back_is_said() {
    use filemap::PageWrite;
    use filemap_cloud::{CloudOptions, Mode, open_bucket};
    let Some(there) = place("orphans") else { return };
    let open = |mode| open_bucket(&there, mode, &CloudOptions::new()).unwrap();
    let put = |store: &filemap_cloud::CloudStore, url: &str| {
        store.put(&filemap::Page::new(url, 1, 200, "body"), filemap::access::PutRule::Always).unwrap();
    };
    let first = open(Mode::Fill);
    put(&first, "http://a.example/");
    first.sync().unwrap();
    // Before the second opens: later the first may know already that it has lost the store.
    put(&first, "http://b.example/");
    let second = open(Mode::Write);
    assert!(first.sync().is_err(), "another writer has the store");
    second.close().unwrap();
    ran("verify", &[&there]).ended(0).said("1 segment").said("--uncommitted");
    let pruned = ran("prune", &[&there, "--keep-versions", "1", "--compact", "--json"]).ended(0).json();
    assert_eq!(pruned.last().unwrap()["young_orphans"], 0, "it looks for none: {pruned:?}");
    assert_eq!(told("compact", &[&there], 0)["young_orphans"], 1);
    ran("repair", &[&there, "--in-place", "--yes"]).ended(3).said("before any compaction");
    ran("repair", &[&there, "--in-place", "--yes", "--uncommitted"]).ended(0);
    ran("has", &[&there, "http://b.example/"]).ended(0);
}
