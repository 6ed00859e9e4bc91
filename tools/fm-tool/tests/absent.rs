//! A store that has lost a whole value segment or a dictionary: every verb that reads returns the
//! rest, names the file and ends with 3; no verb writes before the loss is accepted; removed pages
//! stay removed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::harness::{Bench, Ran, run, tool};
use filemap::canonical::Exact;
use filemap::page::{RecordKind, Revisit, RevisitProfile};
use filemap::{Options, Page, PageStore};
use serde_json::Value;

/// For each file, the URLs and times of the versions in it.
type Places = BTreeMap<String, BTreeSet<(String, i64)>>;

fn url(i: u32) -> String {
    format!("http://example.com/{i}")
}

/// Fifty bodies fill a segment, and they do not compress.
fn body(i: u32, time_ms: i64) -> Vec<u8> {
    let mut noise = u64::from(i) << 32 | time_ms as u64;
    let mut next = || {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (noise >> 56) as u8
    };
    (0..20_000).map(|_| next()).collect()
}

/// The pages that are removed: their versions are in the first segment, the removals in another.
const REMOVED: std::ops::Range<u32> = 0..5;

/// Creates a store with several segments: pages, newer versions of some of them, removals.
fn make(path: &Path) -> Places {
    // Background compaction would move or copy pages while their places are recorded.
    let options =
        Options::new().segment_bytes(1 << 20).large_value_bytes(64 << 10).free_space_floor(0).space_bound(None);
    let store = PageStore::create_with(path, Arc::new(Exact), options).unwrap();
    let put = |pages: std::ops::Range<u32>, time_ms: i64| {
        for i in pages {
            store.put_page(&Page::new(url(i), time_ms, 200, body(i, time_ms))).unwrap();
        }
    };
    put(0..60, 1000);
    store.engine().checkpoint().unwrap();
    REMOVED.for_each(|i| assert!(store.remove(url(i)).unwrap()));
    put(20..60, 2000);
    put(60..140, 1000);
    let mut places = Places::new();
    for i in 0..140 {
        for head in store.engine().history(url(i).as_bytes()).unwrap() {
            let versions = places.entry(format!("value{}.dat", head.place.segment)).or_default();
            versions.insert((url(i), head.version.time_ms));
        }
    }
    store.close().unwrap();
    assert!(places.len() > 3, "{:?}", places.keys());
    places
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir(to).unwrap();
    fs::set_permissions(to, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// All files of a store except LOCK, which contains the id of the last process that opened it.
fn files(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let all = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.file_name() != Some("LOCK".as_ref()))
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect()
}

/// A way to lose a file; the second path is for swapping.
type Way = (&'static str, fn(&Path, &Path));

const WAYS: [Way; 4] = [
    ("removed", |file, _| fs::remove_file(file).unwrap()),
    ("emptied", |file, _| cut(file, 0)),
    ("cut below its header", |file, _| cut(file, 63)),
    ("swapped", |file, other| {
        let aside = file.with_extension("aside");
        fs::rename(file, &aside).unwrap();
        fs::rename(other, file).unwrap();
        fs::rename(aside, other).unwrap();
    }),
];

fn cut(file: &Path, bytes: u64) {
    OpenOptions::new().write(true).open(file).unwrap().set_len(bytes).unwrap();
}

/// The store without a file, or with two files swapped; and the remaining versions.
struct Broken {
    bench: Bench,
    lost: Vec<String>,
    left: BTreeSet<(String, i64)>,
    what: String,
}

impl Broken {
    fn of(whole: &Path, places: &Places, file: &str, (name, go): Way) -> Broken {
        let bench = Bench::new();
        copy(whole, &bench.store());
        let other = places.keys().find(|other| *other != file).unwrap().clone();
        go(&bench.store().join(file), &bench.store().join(&other));
        let mut lost = vec![file.to_owned()];
        lost.extend((name == "swapped").then_some(other));
        let left = places.iter().filter(|(file, _)| !lost.contains(file)).flat_map(|(_, all)| all.clone()).collect();
        Broken { bench, lost, left, what: format!("{file} is {name}") }
    }

    /// Runs a verb, and checks that it ends with 3 and names the lost files.
    #[track_caller]
    fn told(&self, verb: &str, args: &[&str]) -> Ran {
        let mut ran = self.bench.run(verb, args);
        assert_eq!(ran.code, 3, "{}: {verb} {args:?}: {}", self.what, ran.words);
        for file in &self.lost {
            ran = ran.said(file);
        }
        ran
    }

    /// The newest version of each page that can be read.
    fn newest(&self, places: &Places) -> BTreeSet<(String, i64)> {
        let mut newest = BTreeMap::new();
        for (url, time_ms) in places.values().flatten() {
            let entry = newest.entry(url.clone()).or_insert(*time_ms);
            *entry = (*entry).max(*time_ms);
        }
        newest.into_iter().filter(|version| self.left.contains(version)).collect()
    }
}

/// The URLs and times in a dump.
fn dumped(ran: &Ran) -> BTreeSet<(String, i64)> {
    let lines = ran.json();
    let all: BTreeSet<_> = lines.iter().map(|line| (text(line, "url"), time(line))).collect();
    assert_eq!(all.len(), lines.len(), "no version comes twice");
    all
}

fn text(line: &Value, name: &str) -> String {
    line[name].as_str().expect(name).to_owned()
}

fn time(line: &Value) -> i64 {
    line["time_ms"].as_i64().expect("a time")
}

fn each(mut judge: impl FnMut(&Broken, &Places)) {
    let whole = Bench::new();
    let places = make(&whole.store());
    for (file, way) in places.keys().flat_map(|file| WAYS.map(|way| (file, way))) {
        judge(&Broken::of(&whole.store(), &places, file, way), &places);
    }
}

#[test]
fn every_verb_that_reads_gives_all_the_rest_names_the_file_and_ends_with_3() {
    each(|broken, places| {
        assert_eq!(dumped(&broken.told("dump", &[])), broken.left, "{}", broken.what);
        let newest = broken.newest(places);
        assert_eq!(dumped(&broken.told("dump", &["--newest"])), newest, "{}", broken.what);
        let listed = broken.told("ls", &["--long", "--json"]).json();
        let listed: BTreeSet<_> = listed.iter().map(|line| (text(line, "url"), time(line))).collect();
        assert!(listed.is_superset(&newest), "{}", broken.what);
        let removed: Vec<String> = REMOVED.map(url).collect();
        assert!(!listed.iter().any(|(url, _)| removed.contains(url)), "{}", broken.what);
        let (one, time_ms) = newest.first().unwrap();
        let number: u32 = one.rsplit('/').next().unwrap().parse().unwrap();
        assert!(broken.told("get", &[one]).out == body(number, *time_ms), "{}", broken.what);
        let gone = places.values().flatten().find(|version| !broken.left.contains(version)).unwrap();
        broken.told("get", &[&gone.0, "--at", "1970-01-01T00:00:01Z"]);
        for url in &removed {
            assert_eq!(broken.told("get", &[url]).out, b"", "{}: {url}", broken.what);
        }
        for verb in ["ls", "count", "top", "stat", "segments", "verify"] {
            broken.told(verb, &[]);
        }
        for verb in ["has", "head", "history"] {
            broken.told(verb, &[one]);
        }
        broken.told("count", &["--versions"]);
        broken.told("compact", &["--dry-run"]);
    });
}

#[test]
fn versions_of_one_page_are_listed_and_printed_beside_one_that_is_lost() {
    let whole = Bench::new();
    let places = make(&whole.store());
    let time_of = |sequence: &Value, versions: &[Value]| {
        versions.iter().find(|line| line["sequence"] == *sequence).map(time).expect("a version")
    };
    let mut judged = 0;
    for file in places.keys() {
        let broken = Broken::of(&whole.store(), &places, file, WAYS[0]);
        for number in [20, 59] {
            let url = url(number);
            let versions = whole.run("history", &["--json", &url]).ended(0).json();
            assert_eq!(versions.len(), 2);
            let left = |time_ms: i64| broken.left.contains(&(url.clone(), time_ms));
            let mut ran = broken.told("history", &["--json", &url]);
            let listed: Vec<i64> = ran.json().iter().map(time).collect();
            assert_eq!(listed, [2000, 1000].into_iter().filter(|&ms| left(ms)).collect::<Vec<_>>(), "{}", broken.what);
            for ms in [1000, 2000].into_iter().filter(|&ms| !left(ms)) {
                ran = ran.said(&format!("{url}: the version of 1970-01-01T00:00:0{}Z (sequence ", ms / 1000));
                judged += 1;
            }
            for version in &versions {
                let ms = time_of(&version["sequence"], &versions);
                let at = format!("1970-01-01T00:00:0{}Z", ms / 1000);
                let expected = if left(ms) { body(number, ms) } else { Vec::new() };
                for asked in [["--version", &version["sequence"].to_string()], ["--at", &at]] {
                    let ran = broken.told("get", &[&url, asked[0], asked[1]]);
                    assert!(ran.out == expected, "{}: {asked:?}: {}", broken.what, ran.words);
                    assert!(left(ms) || ran.words.contains(&format!("the version of {at}")), "{}", ran.words);
                }
            }
        }
    }
    assert!(judged > 1);
}

#[test]
fn copies_and_merges_bring_every_version_that_can_be_read_and_backups_are_refused() {
    each(|broken, _| {
        let to = broken.bench.path("to.fm");
        let target = to.to_str().unwrap();
        broken.told("copy", &[target, "--compact"]);
        let verify = run(tool().arg("verify").arg(&to)).ended(0);
        assert!(verify.words.contains("no damage"), "{}", verify.words);
        assert_eq!(dumped(&run(tool().arg("dump").arg(&to)).ended(0)), broken.left, "{}", broken.what);
        let merged = broken.bench.path("merged.fm");
        let mut ran = run(tool().arg("merge").arg(&merged).arg(broken.bench.store())).ended(3);
        for file in &broken.lost {
            ran = ran.said(file);
        }
        assert_eq!(dumped(&run(tool().arg("dump").arg(&merged)).ended(0)), broken.left, "{}", broken.what);
        for verb in ["backup", "copy"] {
            let none = broken.bench.path("none.fm");
            broken.told(verb, &[none.to_str().unwrap()]);
            assert!(fs::read_dir(&none).map_or(0, Iterator::count) == 0, "{}: {verb} makes nothing", broken.what);
            let _ = fs::remove_dir(&none);
        }
    });
}

#[test]
fn nothing_is_written_before_the_loss_is_accepted_and_then_it_is_a_store_like_any_other() {
    each(|broken, _| {
        let before = files(&broken.bench.store());
        let page = broken.bench.path("page");
        fs::write(&page, "a page").unwrap();
        let page = page.to_str().unwrap();
        let new = ["http://example.com/new", page];
        let ones: [(&str, &[&str]); 6] = [
            ("put", &new),
            ("rm", &["http://example.com/70"]),
            ("compact", &[]),
            ("recompress", &[]),
            ("train", &[]),
            ("prune", &["--keep-versions", "1"]),
        ];
        for (verb, args) in ones {
            let ran = broken.bench.run(verb, args);
            assert_eq!(ran.code, 3, "{}: {verb}: {}", broken.what, ran.words);
            assert!(broken.lost.iter().any(|file| ran.words.contains(file)), "{}: {verb}: {}", broken.what, ran.words);
        }
        let after = files(&broken.bench.store());
        let changed: Vec<_> = before.keys().chain(after.keys()).filter(|f| before.get(*f) != after.get(*f)).collect();
        assert!(changed.is_empty(), "{}: {changed:?} have changed", broken.what);
        let accepted: Vec<&str> = new.into_iter().chain(["--accept-loss"]).collect();
        let mut ran = broken.bench.run("put", &accepted).ended(0);
        for file in &broken.lost {
            ran = ran.said(file);
        }
        broken.bench.run("put", &new).ended(0);
        let mut left = dumped(&broken.told("dump", &[]));
        assert!(left.iter().filter(|(url, _)| url == new[0]).count() > 0, "{}", broken.what);
        left.retain(|(url, _)| url != new[0]);
        assert_eq!(left, broken.left, "{}", broken.what);
    });
}

/// A page that shares a frame with the others, and has some text of its own.
fn alike(i: u32) -> String {
    let frame: String =
        (0..60).map(|j| format!("<li class=\"c{j}\"><a href=/{}>{:x}</a>", j * j * 31, j * 7919)).collect();
    let own: String = body(i, 0)[..300].iter().map(|byte| format!("{byte:x} ")).collect();
    format!("<html><title>{i}</title>{frame}<p>{own}")
}

/// Creates a store whose pages are compressed with a dictionary; returns the dictionary's bytes.
fn with_dictionary(bench: &Bench) -> Vec<u8> {
    let store = PageStore::create_with(bench.store(), Arc::new(Exact), Options::new().free_space_floor(0)).unwrap();
    let put = |pages: std::ops::Range<u32>| {
        for i in pages {
            store.put_page(&Page::new(url(i), 1000, 200, alike(i).into_bytes())).unwrap();
        }
    };
    put(0..300);
    store.engine().train().unwrap();
    assert_eq!(store.engine().dictionaries().len(), 1, "a dictionary is made");
    store.engine().recompress(9).unwrap();
    store.close().unwrap();
    fs::read(bench.store().join("dict1.zdict")).unwrap()
}

const DICTIONARY_WAYS: [Way; 4] = [
    WAYS[0],
    WAYS[1],
    ("cut after its facts", |file, _| cut(file, 512)),
    ("of another store", |file, _| {
        let bench = Bench::new();
        fs::write(file, with_dictionary(&bench)).unwrap();
    }),
];

#[test]
fn a_dictionary_that_is_gone_is_named_by_every_verb_and_nothing_is_written_before_that_is_accepted() {
    let whole = Bench::new();
    let bytes = with_dictionary(&whole);
    for (name, go) in DICTIONARY_WAYS {
        let bench = Bench::new();
        copy(&whole.store(), &bench.store());
        let file = bench.store().join("dict1.zdict");
        go(&file, &file);
        let lost = vec!["dict1.zdict".to_owned()];
        let broken = Broken { bench, lost, left: BTreeSet::new(), what: format!("the dictionary is {name}") };
        for verb in ["ls", "count", "top", "stat", "segments", "verify", "dump"] {
            broken.told(verb, &[]);
        }
        assert_eq!(broken.told("ls", &[]).text().lines().count(), 300, "{name}: no key is lost");
        broken.told("verify", &["--quick"]);
        broken.told("train", &["--list"]);
        broken.told("get", &[&url(20)]);
        for verb in ["has", "head", "history"] {
            broken.told(verb, &[&url(20)]);
        }
        for verb in ["backup", "copy"] {
            broken.told(verb, &[broken.bench.path("none.fm").to_str().unwrap()]);
        }
        broken.told("copy", &["--compact", broken.bench.path("part.fm").to_str().unwrap()]);
        let before = files(&broken.bench.store());
        let page = broken.bench.path("page");
        fs::write(&page, "a page").unwrap();
        let new = ["http://example.com/new", page.to_str().unwrap()];
        let writing: [(&str, &[&str]); 6] = [
            ("put", &new),
            ("rm", &[&url(20)]),
            ("compact", &[]),
            ("recompress", &[]),
            ("train", &[]),
            ("prune", &["--keep-versions", "1"]),
        ];
        for (verb, args) in writing {
            broken.told(verb, args);
        }
        broken.told("prune", &["--keep-versions", "1", "--dry-run"]);
        let changed = files(&broken.bench.store());
        let changed: Vec<_> = changed.into_iter().filter(|(file, bytes)| before.get(file) != Some(bytes)).collect();
        assert!(changed.is_empty(), "{name}: {:?}", changed.iter().map(|(file, _)| file).collect::<Vec<_>>());
        let accepted: Vec<&str> = new.into_iter().chain(["--accept-loss"]).collect();
        broken.bench.run("put", &accepted).ended(0);
        assert_eq!(
            broken.told("ls", &[]).text().lines().count(),
            301,
            "{name}: it is missed for as long as it may be needed"
        );
        broken.bench.run("prune", &["--keep-versions", "1", "--dry-run"]).ended(0);
        broken.bench.run("prune", &["--keep-versions", "1"]).ended(0);
        broken.told("dump", &[]);
        broken.bench.run("recompress", &["--level", "12"]).ended(3).said("could not be compressed again");
        // While a version needs the dictionary, it stays in the list of files.
        broken.told("erase", &["--url", &url(1000), "--reason", "asked for", "--yes"]);
        broken.told("verify", &[]);
        fs::write(&file, &bytes).unwrap();
        broken.bench.run::<&str>("verify", &[]).ended(0);
        assert_eq!(broken.bench.run::<&str>("dump", &[]).ended(0).text().lines().count(), 301, "{name}");
    }
}

#[test]
fn what_a_change_would_do_ends_as_the_change_does_when_a_loss_was_accepted() {
    let whole = Bench::new();
    let places = make(&whole.store());
    let broken = Broken::of(&whole.store(), &places, "value1.dat", WAYS[0]);
    let kept = ["--keep-versions", "1"];
    broken.told("prune", &[&kept[..], &["--dry-run"]].concat());
    broken.bench.run("prune", &[&kept[..], &["--dry-run", "--accept-loss"]].concat()).ended(3);
    broken.bench.run("rm", &["http://example.com/70", "--accept-loss"]).ended(0);
    for dry in [&["--dry-run"][..], &[]] {
        broken.bench.run("prune", &[&kept[..], dry].concat()).ended(3).said("value1.dat");
    }
    broken.bench.run("compact", &["--dry-run"]).ended(0).said("value1.dat");
    // The lost file was not searched for the pages to erase.
    let erased = ["--url", "http://example.com/80", "--reason", "asked for", "--yes"];
    broken.told("erase", &[&erased[..], &["--dry-run"]].concat());
    broken.told("erase", &erased);
}

#[test]
fn a_repair_that_cannot_tell_a_loss_from_a_segment_that_was_given_back_ends_with_3() {
    let whole = Bench::new();
    let places = make(&whole.store());
    let repair = |gone: &[&str]| {
        let bench = Bench::new();
        copy(whole.store().as_path(), &bench.store());
        gone.iter().for_each(|name| fs::remove_file(bench.store().join(name)).unwrap());
        let new = bench.path("new.fm");
        let ran = bench.run("repair", &[new.to_str().unwrap(), "--canonicalizer", "exact", "1"]);
        (ran, dumped(&run(tool().arg("dump").arg(&new)).ended(0)))
    };
    let (ran, all) = repair(&["SUPERBLOCK"]);
    assert_eq!(all, places.values().flatten().cloned().collect());
    ran.ended(3).said("no witness").said("nothing is known to be lost");
    // Each segment, even the last one, is lost together with a file that listed it.
    for name in places.keys() {
        for witness in ["SUPERBLOCK", "address.idx"] {
            let (ran, left) = repair(&[witness, name]);
            assert_ne!(left, all, "{witness} {name}");
            ran.ended(3);
        }
    }
    let (ran, left) = repair(&["SUPERBLOCK", "value1.dat"]);
    assert!(left.len() < all.len());
    ran.ended(3).said("value1.dat: removed by compaction, or lost");
    // The superblock lists the segment.
    let (ran, _) = repair(&["value1.dat"]);
    assert!(ran.ended(3).text().contains("value1.dat"));
}

#[test]
fn a_revisit_of_a_damaged_version_goes_out_without_a_body_and_that_is_said() {
    let bench = Bench::new();
    let store = PageStore::create_with(bench.store(), Arc::new(Exact), Options::new()).unwrap();
    let revisit = Revisit {
        profile: RevisitProfile::IdenticalPayload,
        refers_to_url: None,
        refers_to_ms: Some(1000),
        refers_to_id: None,
        original: None,
    };
    store.put_page(&Page::new(url(1), 1000, 200, body(1, 1000))).unwrap();
    let page = Page { kind: RecordKind::Revisit, revisit: Some(revisit), ..Page::new(url(1), 2000, 200, "") };
    store.put_page(&page).unwrap();
    let place = store.engine().history(url(1).as_bytes()).unwrap()[1].place;
    store.close().unwrap();
    let dump = |name: &str| {
        let to = bench.path(name);
        bench.run("dump", &["--newest", "--format", "warc", "-o", to.to_str().unwrap(), "--json"])
    };
    assert_eq!(dump("whole.warc").ended(0).json()[0]["bodiless"], 0);
    let segment =
        OpenOptions::new().write(true).open(bench.store().join(format!("value{}.dat", place.segment))).unwrap();
    segment.write_all_at(&[0xee; 16], place.offset + 10_000).unwrap();
    let ran = dump("part.warc").ended(3).said("1 version written without the body");
    let ran = ran.said(&format!("{}: the version of 1970-01-01T00:00:02Z has no body", url(1)));
    let ran = ran.said("the version of 1970-01-01T00:00:01Z (sequence ").said("is damaged");
    assert_eq!((&ran.json()[0]["bodiless"], &ran.json()[0]["written"]), (&1.into(), &1.into()));
    let got = bench.run("get", &[&url(1)]).ended(3).said("has no body").said("the version of 1970-01-01T00:00:01Z");
    assert_eq!(got.out, b"");
    // Both versions are listed, since their heads are intact.
    assert_eq!(bench.run("history", &[&url(1)]).ended(0).text().lines().count(), 2);
}
