//! Paths that are not intact stores: every way of opening them refuses, gives the reason, and
//! leaves every byte and timestamp as it was.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Bench, Ran, run, tool, warc};
use filemap_core::{Error, Options, StorageError, Store};

const URL: &str = "http://example.com/";

/// Everything observable about a file: mode, owner, modification time, content or target.
type Seen = (u32, u32, i64, i64, Vec<u8>);

/// Everything in a folder. The content and time of the lock file can be left out: looking at a
/// damaged store with write permission takes its lock.
fn everything(folder: &Path, but_locks: bool) -> BTreeMap<PathBuf, Seen> {
    let mut seen = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).chain([folder.clone()]) {
            let about = fs::symlink_metadata(&path).unwrap();
            let content = if about.is_file() {
                fs::read(&path).unwrap()
            } else if about.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else {
                Vec::new()
            };
            if about.is_dir() && path != folder {
                folders.push(path.clone());
            }
            let mut state = (about.mode(), about.uid(), about.mtime(), about.mtime_nsec(), content);
            if but_locks && path.ends_with("LOCK") {
                state = (about.mode(), about.uid(), 0, 0, Vec::new());
            }
            seen.insert(path, state);
        }
    }
    seen
}

/// Creates something other than an intact store at `store`; `whole` and `other` are the folders of
/// two intact stores to copy from.
type Make = fn(store: &Path, whole: &Path, other: &Path);

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn with_files(folder: &Path, files: &[(&str, &[u8])]) {
    fs::create_dir(folder).unwrap();
    for (name, content) in files {
        fs::write(folder.join(name), content).unwrap();
    }
}

/// Changes both copies of a superblock, checksums included.
fn change_superblock(folder: &Path, change: impl Fn(&mut [u8])) {
    let path = folder.join("SUPERBLOCK");
    let mut bytes = fs::read(&path).unwrap();
    for copy in [0, 4096] {
        let copy = &mut bytes[copy..copy + 512];
        change(copy);
        let crc = crc32fast::hash(&copy[12..]);
        copy[8..12].copy_from_slice(&crc.to_le_bytes());
    }
    fs::write(path, bytes).unwrap();
}

/// Paths that are not stores: not a byte of them may change.
const FOREIGN: &[(&str, Make)] = &[
    ("a folder of letters", |store, _, _| with_files(store, &[("letter.txt", b"dear")])),
    ("a text called SUPERBLOCK", |store, _, _| with_files(store, &[("SUPERBLOCK", b"super block party, 8 pm\n")])),
    ("a database called SUPERBLOCK", |store, _, _| {
        with_files(store, &[("SUPERBLOCK", &[&b"SQLite format 3\0"[..], &[0; 8176]].concat())]);
    }),
    ("a database", |store, _, _| with_files(store, &[("pages.db", b"SQLite format 3\0\x10\0")])),
    ("empty files of all the right names", |store, _, _| {
        with_files(store, &[("LOCK", b""), ("SUPERBLOCK", b""), ("address.idx", b""), ("key0.dat", b"")]);
        fs::write(store.join("value0.dat"), b"").unwrap();
    }),
    ("zeros called SUPERBLOCK", |store, _, _| with_files(store, &[("SUPERBLOCK", &[0; 8192])])),
    ("a secret called key0.dat", |store, _, _| with_files(store, &[("key0.dat", b"\x17\xe2\x90secret of 16 b")])),
    ("a large file called value0.dat", |store, _, _| with_files(store, &[("value0.dat", &[7; 4096])])),
    ("a text called LOCK", |store, _, _| with_files(store, &[("LOCK", b"locked by the other program\n")])),
    ("a text called address.idx", |store, _, _| with_files(store, &[("address.idx", b"12 High Street\n")])),
    ("names in small letters", |store, whole, _| {
        with_files(store, &[]);
        fs::copy(whole.join("SUPERBLOCK"), store.join("superblock")).unwrap();
    }),
    ("the folder above a store", |store, whole, _| {
        with_files(store, &[]);
        copy(whole, &store.join("pages.fm"));
    }),
    ("a file", |store, whole, _| assert!(fs::copy(whole.join("value0.dat"), store).unwrap() > 0)),
    ("a FIFO", |store, _, _| assert!(Command::new("mkfifo").arg(store).status().unwrap().success())),
    ("a socket", |store, _, _| drop(UnixListener::bind(store).unwrap())),
    ("a link to nowhere", |store, _, _| symlink("nowhere", store).unwrap()),
    ("a folder called SUPERBLOCK", |store, _, _| {
        with_files(store, &[]);
        fs::create_dir(store.join("SUPERBLOCK")).unwrap();
    }),
    ("a link called SUPERBLOCK", |store, whole, _| {
        with_files(store, &[]);
        symlink(whole.join("SUPERBLOCK"), store.join("SUPERBLOCK")).unwrap();
    }),
    ("a folder that everyone may write to", |store, whole, _| {
        copy(whole, store);
        fs::set_permissions(store, fs::Permissions::from_mode(0o777)).unwrap();
    }),
    ("a store of a newer version", |store, whole, _| {
        copy(whole, store);
        change_superblock(store, |copy| copy[12..16].copy_from_slice(&[2, 0, 2, 0]));
    }),
    ("a store of a version far ahead, all else unknown", |store, whole, _| {
        copy(whole, store);
        change_superblock(store, |copy| {
            copy[12..16].copy_from_slice(&[9, 0, 9, 0]);
            copy[40..44].fill(0xff);
            copy[104..].fill(0xee);
        });
    }),
];

/// Damaged stores that cannot be opened.
const BROKEN: &[(&str, Make)] = &[
    ("two stores mixed: keys", |store, whole, other| mix(store, whole, other, "key0.dat")),
    ("two stores mixed: index", |store, whole, other| mix(store, whole, other, "address.idx")),
    ("two stores mixed: superblock", |store, whole, other| mix(store, whole, other, "SUPERBLOCK")),
    ("no keys", |store, whole, _| without(store, whole, "key0.dat")),
    ("no index", |store, whole, _| without(store, whole, "address.idx")),
    ("half a superblock", |store, whole, _| {
        copy(whole, store);
        let half = fs::read(whole.join("SUPERBLOCK")).unwrap();
        fs::write(store.join("SUPERBLOCK"), &half[..300]).unwrap();
    }),
    ("a superblock of noise after the magic", |store, whole, _| {
        copy(whole, store);
        fs::write(store.join("SUPERBLOCK"), [&b"FILEMAP\0"[..], &[0x5a; 8000]].concat()).unwrap();
    }),
];

/// Stores without their value segment; the rest can be read.
const LACKING: &[(&str, Make)] = &[
    ("two stores mixed: values", |store, whole, other| mix(store, whole, other, "value0.dat")),
    ("one file in another's place", |store, whole, _| {
        copy(whole, store);
        fs::copy(whole.join("key0.dat"), store.join("value0.dat")).unwrap();
    }),
    ("no values", |store, whole, _| without(store, whole, "value0.dat")),
    ("empty values", |store, whole, _| {
        copy(whole, store);
        fs::write(store.join("value0.dat"), b"").unwrap();
    }),
];

fn mix(store: &Path, whole: &Path, other: &Path, name: &str) {
    copy(whole, store);
    fs::copy(other.join(name), store.join(name)).unwrap();
}

fn without(store: &Path, whole: &Path, name: &str) {
    copy(whole, store);
    fs::remove_file(store.join(name)).unwrap();
}

type Open = fn(&Path, Options) -> filemap_core::Result<Store>;

/// Opens the store of `bench` in every way that the library and the tool offer, and expects each
/// to refuse.
fn refuse_all(kind: &str, bench: &Bench, but_locks: bool) {
    let (store, file) = (bench.store(), warc("example.warc.gz"));
    let options = || Options::new().canonicalizer("whatwg", 1);
    let before = everything(store.parent().unwrap(), but_locks);
    let same = |way: &str| {
        assert!(everything(store.parent().unwrap(), but_locks) == before, "{way} changed something: {kind}");
    };
    let ways: [(&str, Open); 4] = [
        ("create", |path, options| Store::create(path, options)),
        ("open", |path, options| Store::open(path, options)),
        ("open_or_create", |path, options| Store::open_or_create(path, options)),
        ("open_read_only", |path, options| Store::open_read_only(path, options)),
    ];
    for (way, open) in ways {
        let error = open(&store, options()).map(drop).expect_err(&format!("{way}: {kind}"));
        assert!(
            !matches!(
                error,
                Error::Storage(StorageError::Locked { .. }) | Error::Storage(StorageError::Poisoned { .. })
            ),
            "{way}: {kind}: {error}"
        );
        same(way);
    }
    for verb in ["get", "head", "history", "rm", "ls", "stat", "verify", "dump", "put", "import"] {
        let ran = run_verb(bench, verb, &file);
        let words = ran.words.trim_end();
        assert!([2, 3].contains(&ran.code), "{verb} ended with {}: {kind}", ran.code);
        assert!(words.starts_with("fm-tool: ") && words.lines().count() == 1, "{verb}: {kind}: {words}");
        assert!(!words.contains("os error 17") && !words.contains("os error 40"), "{verb}: {kind}: {words}");
        assert!(ran.out.is_empty(), "{verb} printed something: {kind}");
        same(verb);
    }
}

/// Runs a verb on the store of `bench`, with the arguments that it needs.
fn run_verb(bench: &Bench, verb: &str, file: &Path) -> Ran {
    match verb {
        "get" | "head" | "history" | "rm" => bench.run(verb, &[URL]),
        "put" => bench.feed(verb, &[URL], b"body"),
        "import" => bench.run(verb, &[file]),
        _ => bench.run::<&str>(verb, &[]),
    }
}

fn try_all(kinds: &[(&str, Make)], but_locks: bool) {
    let whole = Bench::with(&["example.warc.gz"]);
    let other = Bench::with(&["cc.warc.gz"]);
    for (kind, make) in kinds {
        let bench = Bench::new();
        make(&bench.store(), &whole.store(), &other.store());
        refuse_all(kind, &bench, but_locks);
    }
    let copied = Bench::new();
    copy(&whole.store(), &copied.store());
    assert!(!copied.run("get", &[URL]).ended(0).out.is_empty(), "a whole copy is opened");
}

#[test]
fn what_is_no_store_is_refused_everywhere_and_left_as_it_was() {
    try_all(FOREIGN, false);
}

#[test]
fn a_store_that_is_not_whole_is_refused_everywhere_and_not_made_worse() {
    try_all(BROKEN, true);
}

#[test]
fn a_store_without_its_values_is_named_by_whoever_reads_and_refused_to_whoever_writes() {
    let whole = Bench::with(&["example.warc.gz"]);
    let other = Bench::with(&["cc.warc.gz"]);
    let options = || Options::new().canonicalizer("whatwg", 1);
    for (kind, make) in LACKING {
        let bench = Bench::new();
        let (store, file) = (bench.store(), warc("example.warc.gz"));
        make(&store, &whole.store(), &other.store());
        let before = everything(store.parent().unwrap(), true);
        for open in [Store::create, Store::open, Store::open_or_create] {
            assert!(open(&store, options()).is_err(), "{kind}");
        }
        let reader = Store::open_read_only(&store, options()).unwrap();
        assert_eq!(reader.absent().iter().map(|a| a.file.as_str()).collect::<Vec<_>>(), ["value0.dat"], "{kind}");
        // `verify` is last, since it records its progress.
        for verb in ["get", "head", "history", "rm", "ls", "stat", "dump", "put", "import", "verify"] {
            let ran = run_verb(&bench, verb, &file);
            assert_eq!(ran.code, 3, "{verb}: {kind}: {}", ran.words);
            assert!(ran.words.contains("value0.dat"), "{verb}: {kind}: {}", ran.words);
            let writes = ["rm", "put", "import"].contains(&verb);
            assert!(!writes || ran.out.is_empty(), "{verb} printed something: {kind}");
            let is_same = || everything(store.parent().unwrap(), true) == before;
            assert!(verb == "verify" || is_same(), "{verb} changed something: {kind}");
        }
    }
}

#[test]
fn a_store_that_only_newer_programs_may_write_is_read() {
    let bench = Bench::with(&["example.warc.gz"]);
    change_superblock(&bench.store(), |copy| copy[14..16].copy_from_slice(&[2, 0]));
    let before = everything(&bench.store(), false);
    assert!(!bench.run("get", &[URL]).ended(0).out.is_empty());
    bench.feed("put", &[URL], b"body").ended(2).said("format version 2");
    bench.run("rm", &[URL]).ended(2).said("format version 2");
    assert!(everything(&bench.store(), false) == before);
}

#[test]
fn a_store_of_keys_made_by_another_rule_is_not_written() {
    let bench = Bench::with(&["example.warc.gz"]);
    change_superblock(&bench.store(), |copy| copy[48..54].copy_from_slice(b"marble"));
    let before = everything(&bench.store(), false);
    let opened = Store::open(bench.store(), Options::new().canonicalizer("whatwg", 1));
    assert!(matches!(opened.map(drop), Err(Error::Canonicalizer { .. })));
    assert!(everything(&bench.store(), false) == before);
    bench.run("get", &[URL]).ended(2).said("marble");
    bench.feed("put", &[URL], b"body").ended(2).said("marble");
}

#[test]
fn a_creation_that_was_cut_short_is_taken_up() {
    let whole = Bench::with(&["example.warc.gz"]);
    let superblock = fs::read(whole.store().join("SUPERBLOCK")).unwrap();
    let header = fs::read(whole.store().join("key0.dat")).unwrap()[..64].to_vec();
    let left: [&[(&str, &[u8])]; 6] = [
        &[],
        &[("LOCK", b"4711\n")],
        &[("LOCK", b"4711\n"), ("SUPERBLOCK.new", b"")],
        &[("SUPERBLOCK.new", &[0x5a; 4608])],
        &[("SUPERBLOCK.new", &superblock), ("key0.dat", &[0x5a; 64]), ("address.idx", &[0; 4096]), ("value0.dat", b"")],
        &[("key0.dat", &header), ("address.idx", b""), ("value0.dat", &[0; 64])],
    ];
    for files in left {
        let bench = Bench::new();
        with_files(&bench.store(), files);
        for verb in ["ls", "stat", "dump"] {
            bench.run::<&str>(verb, &[]).ended(2).said("is not a FileMap store");
        }
        bench.feed("put", &[URL], b"body").ended(0);
        assert_eq!(bench.run("get", &[URL]).ended(0).out, b"body");
        assert!(!bench.store().join("SUPERBLOCK.new").exists());
    }
}

#[test]
fn inspect_refuses_what_is_no_file_of_ours_and_hangs_on_nothing() {
    let bench = Bench::with(&["example.warc.gz"]);
    let paths = ["letter", "fifo", "folder"].map(|name| bench.path(name));
    fs::write(&paths[0], "dear").unwrap();
    assert!(Command::new("mkfifo").arg(&paths[1]).status().unwrap().success());
    fs::create_dir(&paths[2]).unwrap();
    for path in &paths {
        run(tool().arg("inspect").arg(path)).ended(2).said(&path.display().to_string());
    }
    // A store's file may be inspected anywhere, even where anyone can write.
    let away = bench.path("away");
    fs::create_dir(&away).unwrap();
    fs::set_permissions(&away, fs::Permissions::from_mode(0o777)).unwrap();
    fs::copy(bench.store().join("SUPERBLOCK"), away.join("copy")).unwrap();
    run(tool().arg("inspect").arg(away.join("copy"))).ended(0);
}
