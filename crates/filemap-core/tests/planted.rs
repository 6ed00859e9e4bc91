//! Objects planted in a store's directory under every name that the store opens: links that lead
//! out of it, FIFOs, sockets, folders, files of other owners. Every way to open the store refuses,
//! or does not need the name; nothing outside changes.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use filemap_core::{Options, Record, Result, Store};

fn options() -> Options {
    Options::new().segment_bytes(1 << 20).large_value_bytes(64 << 10).free_space_floor(0)
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut x = 88_172_645_463_325_252u64;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as u8
    };
    (0..bytes).map(|_| next()).collect()
}

fn make(path: &Path) {
    let store = Store::create(path, options()).unwrap();
    for i in 0..20u8 {
        store.put(&Record::new(&[b'k', i], &noise(500))).unwrap();
    }
    store.close().unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Plants something at `path`; `outside` is the original, moved away.
type Plant = fn(path: &Path, outside: &Path);

const PLANTS: [(&str, Plant); 8] = [
    ("a link", |path, outside| symlink(outside, path).unwrap()),
    ("a link to nowhere", |path, outside| symlink(outside.with_extension("absent"), path).unwrap()),
    ("a hard link", |path, outside| fs::hard_link(outside, path).unwrap()),
    ("a FIFO", |path, _| assert!(Command::new("mkfifo").arg(path).status().unwrap().success())),
    ("a socket", |path, _| drop(UnixListener::bind(path).unwrap())),
    ("a folder", |path, _| fs::create_dir(path).unwrap()),
    ("another owner's file", |path, outside| {
        fs::copy(outside, path).unwrap();
        chown(path, Some(54_321), None).unwrap();
    }),
    ("everyone's file", |path, outside| {
        fs::copy(outside, path).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
    }),
];

/// The names under which a store opens files, including the next segment's, and whether each way
/// of opening needs the file.
const NAMES: [(&str, [bool; 3]); 7] = [
    // (name, [open, open_read_only, create])
    ("LOCK", [true, false, true]),
    ("SUPERBLOCK", [true, true, true]),
    ("SUPERBLOCK.new", [false, false, true]),
    ("address.idx", [true, true, true]),
    ("key0.dat", [true, true, true]),
    ("value0.dat", [true, true, true]),
    ("value1.dat", [true, true, true]),
];

type Open = fn(&Path, Options) -> Result<Store>;

const WAYS: [(&str, Open); 3] = [
    ("open", |path, options| Store::open(path, options)),
    ("open_read_only", |path, options| Store::open_read_only(path, options)),
    ("create", |path, options| Store::create(path, options)),
];

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0)
}

/// Content, time and permissions of a file.
fn seen(path: &Path) -> (Vec<u8>, i64, i64, u32) {
    let about = fs::metadata(path).unwrap();
    (fs::read(path).unwrap(), about.mtime(), about.mtime_nsec(), about.mode())
}

/// Moves a file out of a store, or creates one to stand for it.
fn move_out(path: &Path, outside: &Path) {
    if path.exists() {
        fs::rename(path, outside).unwrap();
    } else {
        fs::write(outside, "somebody's letter").unwrap();
    }
}

#[test]
fn whatever_is_planted_under_a_name_of_the_store_is_refused_and_nothing_outside_changes() {
    if !is_root() {
        eprintln!("skipped for files of other owners: only root can give files away");
    }
    let whole = tempfile::tempdir().unwrap();
    let whole = whole.path().join("whole");
    make(&whole);
    for (kind, plant) in PLANTS.iter().filter(|(kind, _)| is_root() || !kind.starts_with("another owner")) {
        for (name, needed) in NAMES {
            for ((way, open), needed) in WAYS.iter().zip(needed) {
                let temp = tempfile::tempdir().unwrap();
                let (store, outside) = (temp.path().join("a"), temp.path().join("outside"));
                copy(&whole, &store);
                move_out(&store.join(name), &outside);
                if *way == "create" {
                    fs::remove_dir_all(&store).unwrap();
                    fs::create_dir(&store).unwrap();
                }
                plant(&store.join(name), &outside);
                let before = seen(&outside);
                let opened = open(&store, options());
                // Files that are only read may have other names: a snapshot of hard links does no
                // harm.
                let is_only_read = *way == "open_read_only" || (*way == "open" && name == "value1.dat");
                let needed = needed && !(*kind == "a hard link" && is_only_read);
                assert_eq!(opened.is_err(), needed, "{way} with {kind} as {name}: {opened:?}");
                if let Err(error) = opened {
                    assert!(!error.to_string().contains("os error"), "{way} with {kind} as {name}: {error}");
                }
                assert_eq!(seen(&outside), before, "{way} with {kind} as {name}");
                assert!(!outside.with_extension("absent").exists(), "{way} with {kind} as {name}");
            }
        }
    }
}

#[test]
fn what_is_planted_as_the_next_segment_of_an_open_store_stops_writes_and_is_not_written_to() {
    for (kind, plant) in PLANTS.iter().filter(|(kind, _)| is_root() || !kind.starts_with("another owner")) {
        let temp = tempfile::tempdir().unwrap();
        let (path, outside) = (temp.path().join("a"), temp.path().join("outside"));
        let store = Store::create(&path, options()).unwrap();
        fs::write(&outside, "somebody's letter").unwrap();
        plant(&path.join("value1.dat"), &outside);
        let before = seen(&outside);
        let mut put = 0u8;
        let error = loop {
            match store.put(&Record::new(&[put], &noise(60_000))) {
                Ok(_) => put += 1,
                Err(error) => break error,
            }
            assert!(put < 100, "{kind} did not stop the writes");
        };
        assert!(error.to_string().contains("value1.dat"), "{kind}: {error}");
        for i in 0..put {
            assert_eq!(store.get(&[i]).unwrap().unwrap().body.len(), 60_000, "{kind}: reads go on");
        }
        drop(store);
        assert_eq!(seen(&outside), before, "{kind}");
        // Without it the store continues, and everything that was put is there.
        let planted = path.join("value1.dat");
        if planted.is_dir() {
            fs::remove_dir(&planted).unwrap()
        } else {
            fs::remove_file(&planted).unwrap()
        }
        let store = Store::open(&path, options()).unwrap();
        assert!((0..put).all(|i| store.contains(&[i]).unwrap()), "{kind}");
        store.put(&Record::new(b"more", &noise(60_000))).unwrap();
        assert_eq!(store.verify().unwrap().problems, []);
    }
}

#[test]
fn names_that_are_none_of_the_stores_are_never_opened() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    make(&path);
    // Each would be refused, or would block, if it were opened.
    for name in ["value01.dat", "value+1.dat", "value65536.dat", "value-1.dat", "value1.dat.bak", "VALUE1.DAT", "core"]
    {
        assert!(Command::new("mkfifo").arg(path.join(name)).status().unwrap().success());
    }
    let store = Store::open(&path, options()).unwrap();
    assert_eq!(store.stats().segments, 1);
    for i in 0..30u8 {
        store.put(&Record::new(&[b'n', i], &noise(60_000))).unwrap();
    }
    assert!(store.stats().segments > 1);
    assert_eq!(store.verify().unwrap().problems, []);
}

#[test]
fn threads_that_race_to_create_a_store_share_one_and_lose_nothing() {
    for _ in 0..25 {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a");
        let barrier = std::sync::Barrier::new(3);
        std::thread::scope(|s| {
            for i in 0..3u8 {
                let (path, barrier) = (&path, &barrier);
                s.spawn(move || {
                    barrier.wait();
                    loop {
                        match Store::open_or_create(path, options()) {
                            Ok(store) => {
                                store.put(&Record::new(&[i], b"mine")).unwrap();
                                return store.close().unwrap();
                            }
                            Err(filemap_core::Error::Storage(filemap_core::StorageError::Locked { .. })) => {
                                std::thread::yield_now()
                            }
                            // Not yet, or not any more: the directory exists and the superblock
                            // does not.
                            Err(filemap_core::Error::NotAStore { .. }) => std::thread::yield_now(),
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
        });
        let store = Store::open(&path, options()).unwrap();
        assert!((0..3u8).all(|i| store.contains(&[i]).unwrap()));
    }
}
