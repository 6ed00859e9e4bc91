//! `verify`: quick and full, at a limited rate, interrupted and resumed, and the report of `stat`
//! afterwards.

use std::fs;
use std::process::{Command, Stdio};

use crate::harness::{Bench, Ran};
use filemap_core::{Options, Record, Store};

/// Creates a store with several small segments; its pages do not compress.
fn make(bench: &Bench) {
    let options = Options::new()
        .segment_bytes(1 << 20)
        .large_value_bytes(64 << 10)
        .free_space_floor(0)
        .space_bound(None)
        .canonicalizer("exact", 1);
    let store = Store::create(bench.store(), options).unwrap();
    let mut noise = 1u64;
    for i in 0..300 {
        let mut next = || {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (noise >> 56) as u8
        };
        let body: Vec<u8> = (0..20_000).map(|_| next()).collect();
        store.put(&Record::new(format!("http://example.com/{i}").as_bytes(), &body)).unwrap();
    }
    store.close().unwrap();
}

fn stat(bench: &Bench, name: &str) -> String {
    let ran = bench.run::<&str>("stat", &[]).ended(0);
    let line = ran.text().lines().find(|line| line.split(' ').next() == Some(name));
    line.unwrap_or_default().split_once(' ').unwrap_or_default().1.trim().to_owned()
}

/// Damage in the body of one page, and in the head of another's record; only the key log tells
/// which page that is.
#[test]
fn damage_is_named_by_file_offset_and_url() {
    let bench = Bench::new();
    make(&bench);
    let path = bench.store().join("value0.dat");
    let whole = fs::read(&path).unwrap();
    let place =
        |url: &[u8]| whole.windows(url.len()).position(|window| window == url).expect("it is in the first segment");
    let mut bytes = whole.clone();
    bytes[place(b"http://example.com/7") + 5_000] ^= 1;
    bytes[place(b"http://example.com/12") + 3] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let lines = bench.run::<&str>("verify", &[]).ended(3).text().to_owned();
    for number in [7, 12] {
        let url = format!("http://example.com/{number}");
        let named =
            lines.lines().any(|l| l.starts_with("value0.dat: offset ") && l.split(": ").any(|part| part == url));
        assert!(named, "{url} in {lines}");
    }
    assert!(!lines.contains("http://example.com/8"), "{lines}");
    let json = bench.run("verify", &["--json"]).ended(3).json();
    assert!(json.iter().any(|line| line["urls"] == serde_json::json!(["http://example.com/7"])), "{json:?}");
}

#[test]
fn keys_that_no_checkpoint_has_brought_to_the_index_are_counted_as_such() {
    let bench = Bench::new();
    let store = Store::create(bench.store(), Options::new().free_space_floor(0).canonicalizer("exact", 1)).unwrap();
    for i in 0..5 {
        store.put(&Record::new(format!("http://example.com/{}", i % 3).as_bytes(), b"body")).unwrap();
    }
    store.sync().unwrap();
    bench.run::<&str>("verify", &[]).ended(0).said("3 keys in the log since the last checkpoint: no damage");
    store.close().unwrap();
    bench.run::<&str>("verify", &[]).ended(0).said(", 3 keys: no damage");
}

#[test]
fn a_run_that_is_interrupted_says_so_and_the_next_goes_on() {
    let bench = Bench::new();
    make(&bench);
    assert_eq!(stat(&bench, "verified_ms"), "never");
    let mut command = bench.command("verify");
    let child = command.args(["--full", "--rate", "1MB/s"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("it starts");
    while !bench.store().join("VERIFYING").exists() {
        assert!(child.try_wait().unwrap().is_none(), "six seconds are longer than that");
        std::thread::yield_now();
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.expect("there is a kill").success());
    let ended = child.wait_with_output().unwrap();
    let words = String::from_utf8(ended.stderr).unwrap();
    let ran = Ran { code: ended.status.code().unwrap(), out: ended.stdout, words };
    let ran = ran.ended(130).said("interrupted").said("no damage so far").said("continues");
    assert!(ran.out.is_empty());
    assert_eq!(stat(&bench, "verified_ms"), "never", "it did not come to its end");
    bench.run("verify", &["--rate", "100MB/s"]).ended(0).said("by an earlier run").said("no damage");
    assert!(!bench.store().join("VERIFYING").exists());
    assert!(stat(&bench, "verified_ms").contains("(20"), "{}", stat(&bench, "verified_ms"));
    assert_eq!(stat(&bench, "verified_problems"), "0");
}

#[test]
fn the_quick_way_meets_no_page_and_the_full_one_says_in_stat_what_it_found() {
    let bench = Bench::new();
    make(&bench);
    let segment = bench.store().join("value1.dat");
    let mut bytes = fs::read(&segment).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(&segment, &bytes).unwrap();
    let line = &bench.run("verify", &["--quick", "--json"]).ended(0).json()[0];
    assert_eq!((&line["value_records"], &line["indexed_keys"]), (&0.into(), &300.into()));
    assert_eq!(stat(&bench, "verified_ms"), "never", "it has read no page");
    let found = bench.run::<&str>("verify", &[]).ended(3);
    assert!(found.text().lines().all(|line| line.starts_with("value1.dat: offset ")), "{}", found.text());
    assert_eq!(stat(&bench, "verified_problems"), found.text().lines().count().to_string());
    fs::write(&segment, &bytes[..at]).unwrap();
    bench.run("verify", &["--quick"]).ended(3);
    for contradiction in [&["--quick", "--full"][..], &["--quick", "--rate", "1MB/s"], &["--rate", "fast"]] {
        bench.run("verify", contradiction).ended(2);
    }
}

#[test]
fn a_store_in_which_nothing_can_be_written_is_verified_all_the_same() {
    let bench = Bench::new();
    make(&bench);
    // Other files have the names that a run would write to.
    for name in ["VERIFYING", "VERIFIED.new"] {
        fs::create_dir_all(bench.store().join(name).join("x")).unwrap();
    }
    bench.run::<&str>("verify", &[]).ended(0).said("no damage");
    assert_eq!(stat(&bench, "verified_ms"), "never");
}
