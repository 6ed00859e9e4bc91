//! Repair of stores that have lost files or bytes: every intact page comes back, nothing else
//! does, and the result verifies, compacts and takes puts like any other store.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use filemap_core::repair::{RepairReport, RepairTo};
use filemap_core::{Error, Options, Record, StorageError, Store, Version};

const MIB: usize = 1 << 20;

fn options() -> Options {
    // Tables of a few hundred entries, so that each repair takes many batches.
    Options::new()
        .segment_bytes(MIB as u64)
        .large_value_bytes(64 << 10)
        .memtable_bytes(256 << 10)
        .free_space_floor(0)
        .space_bound(None)
        .canonicalizer("test", 7)
}

type Versions = Vec<(Version, Vec<u8>, Vec<u8>)>;
type Contents = BTreeMap<Vec<u8>, Versions>;

/// All readable versions; damaged ones are left out.
fn contents(store: &Store) -> Contents {
    let mut all = Contents::new();
    for key in store.keys() {
        let Ok(key) = key else { continue };
        let Ok(history) = store.history(&key) else { continue };
        let read = |version| match store.get_version(&key, version) {
            Ok(value) => value.map(|v| (version, v.body, v.head.meta)),
            Err(e) if e.is_corrupt() => None,
            Err(e) => panic!("{e}"),
        };
        let versions: Versions = history.into_iter().filter_map(|head| read(head.version)).collect();
        if !versions.is_empty() {
            all.insert(key, versions);
        }
    }
    all
}

fn noise(rng: &mut fastrand::Rng, bytes: usize) -> Vec<u8> {
    let mut body: Vec<u8> = (0..bytes).map(|_| rng.u8(..)).collect();
    // Half of it is compressible.
    body.iter_mut().skip(bytes / 2).for_each(|b| *b = 7);
    body
}

/// A store of a few segments with all kinds of content: versions, references, large bodies,
/// removals, and outputs of compaction.
fn make(path: &Path, seed: u64, options: Options) -> Contents {
    let mut rng = fastrand::Rng::with_seed(seed);
    let store = Store::create(path, options).unwrap();
    for round in 0..5 {
        for _ in 0..400 {
            let key = format!("http://example.com/{}", rng.u32(..700)).into_bytes();
            let time = rng.i64(..1000);
            let bytes = if rng.u8(..60) == 0 { rng.usize(70_000..300_000) } else { rng.usize(..5000) };
            let body = noise(&mut rng, bytes);
            match rng.u8(..10) {
                0..=1 => drop(store.remove(&key).unwrap()),
                2..=3 => {
                    let same = store.get(&key).unwrap().map_or(body, |v| v.body);
                    store.put_if_changed(&Record::new(&key, &same).time(time).meta(b"same")).unwrap();
                }
                _ => drop(store.put(&Record::new(&key, &body).time(time).meta(&[round; 3])).unwrap()),
            }
        }
        if round == 2 {
            store.compact().unwrap();
        }
    }
    store.compact().unwrap();
    for i in 0..50u8 {
        store.put(&Record::new(&[i], &noise(&mut rng, 20_000))).unwrap();
        store.remove(&format!("http://example.com/{i}").into_bytes()).unwrap();
    }
    let all = contents(&store);
    assert!(store.segments().len() > 1 && store.segments().iter().any(|s| s.is_compacted));
    store.close().unwrap();
    all
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn segments(path: &Path) -> Vec<String> {
    let names = fs::read_dir(path).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|n| n.starts_with("value")).collect();
    names.sort_by_key(|n| (n.len(), n.clone()));
    names
}

/// Removes files by the beginnings of their names.
fn lose(path: &Path, names: &[&str]) {
    for entry in fs::read_dir(path).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if names.iter().any(|lost| name.starts_with(lost)) {
            fs::remove_file(path.join(name)).unwrap();
        }
    }
}

fn run(source: &Path, to: RepairTo<'_>) -> filemap_core::Result<RepairReport> {
    Store::repair(source, to, &options(), &mut |_| ControlFlow::Continue(()))
}

/// Opens a repaired store, and uses it in every way.
fn healthy(path: &Path) -> Contents {
    let store = Store::open(path, options()).unwrap();
    let all = contents(&store);
    let report = store.verify().unwrap();
    assert_eq!(report.problems, []);
    assert_eq!(report.indexed_keys, all.len() as u64);
    for (key, versions) in &all {
        let newest = store.get(key).unwrap().unwrap();
        assert!(newest.head.version == versions[0].0 && newest.body == versions[0].1, "newest first");
    }
    store.put(&Record::new(b"new", b"page")).unwrap();
    store.compact().unwrap();
    assert_eq!(store.get(b"new").unwrap().unwrap().body, b"page");
    store.remove(b"new").unwrap();
    assert!(contents(&store) == all, "after a compaction");
    assert_eq!(store.verify().unwrap().problems, []);
    store.close().unwrap();
    all
}

/// Repairs a store into a new one and in place, and checks that the results are the same.
fn both_ways(source: &Path) -> (RepairReport, Contents) {
    let temp = tempfile::tempdir().unwrap();
    let before: Vec<_> = segments(source).iter().map(|n| fs::read(source.join(n)).unwrap()).collect();
    let target = temp.path().join("new");
    let report = run(source, RepairTo::New(&target)).unwrap();
    let after: Vec<_> = segments(source).iter().map(|n| fs::read(source.join(n)).unwrap()).collect();
    assert!(before == after, "the source is only read");
    let all = healthy(&target);
    let place = temp.path().join("place");
    copy(source, &place);
    let in_place = run(&place, RepairTo::InPlace).unwrap();
    assert_eq!(in_place.losses, report.losses);
    assert!(healthy(&place) == all);
    assert_eq!((in_place.keys, in_place.ignored), (report.keys, report.ignored.clone()));
    (report, all)
}

#[test]
fn the_value_log_alone_gives_everything_back() {
    let temp = tempfile::tempdir().unwrap();
    for seed in 0..4 {
        let path = temp.path().join(seed.to_string());
        let original = make(&path, seed, options());
        for lost in
            [&["address.idx", "key", "SUPERBLOCK"][..], &["address.idx"], &["key"], &["SUPERBLOCK", "LOCK"], &[]]
        {
            let damaged = temp.path().join("damaged");
            copy(&path, &damaged);
            lose(&damaged, lost);
            let (report, all) = both_ways(&damaged);
            assert!(all == original, "without {lost:?}");
            assert!(report.is_complete(), "{:?} {:?}", report.losses, report.ignored);
            assert_eq!(report.is_rule_known, !lost.contains(&"SUPERBLOCK"));
            assert_eq!((report.canonicalizer.name.as_str(), report.keys), ("test", original.len() as u64));
            fs::remove_dir_all(damaged).unwrap();
        }
    }
}

#[test]
fn a_store_that_keeps_few_versions_keeps_as_many_after_a_repair() {
    let temp = tempfile::tempdir().unwrap();
    for keep in [1, 2] {
        let options = options().keep_versions(Some(keep));
        let path = temp.path().join(keep.to_string());
        let original = make(&path, 9, options.clone());
        lose(&path, &["address.idx", "key", "SUPERBLOCK"]);
        let report = Store::repair(&path, RepairTo::InPlace, &options, &mut |_| ControlFlow::Continue(())).unwrap();
        assert!(report.is_complete(), "{:?}", report.losses);
        let store = Store::open(&path, options).unwrap();
        assert!(contents(&store) == original);
        assert_eq!(store.verify().unwrap().problems, []);
    }
}

/// Checks which versions must and may exist after damage: all that were readable must; none may
/// that never existed. If a tombstone itself is lost, the versions that it removed may come back.
fn judge(all: &Contents, readable: &Contents, original: &Contents, what: &str) {
    for (key, versions) in readable {
        let name = String::from_utf8_lossy(key);
        let found = all.get(key).unwrap_or_else(|| panic!("{what}: {name} is lost"));
        for version in versions {
            assert!(found.contains(version), "{what}: {:?} of {name} is lost", version.0);
        }
    }
    for (key, versions) in all {
        for version in original.get(key).map_or(&[][..], |_| versions) {
            let was = original[key].contains(version);
            let oldest = original[key].iter().map(|v| v.0.sequence).min().unwrap_or(0);
            assert!(was || version.0.sequence < oldest, "{what}: {:?} never was", version.0);
        }
    }
}

#[test]
fn with_damaged_bytes_every_page_comes_back_that_is_still_whole() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let original = make(&path, 20, options());
    let names = segments(&path);
    let mut rng = fastrand::Rng::with_seed(1);
    for nth in 0..12 {
        let damaged = temp.path().join("damaged");
        copy(&path, &damaged);
        let mut hits = 0;
        for name in &names {
            let mut bytes = fs::read(damaged.join(name)).unwrap();
            for _ in 0..rng.usize(..4) {
                if bytes.len() < 1000 {
                    break;
                }
                let at = rng.usize(64..bytes.len());
                match rng.u8(..3) {
                    0 => bytes[at] ^= 1 << rng.u8(..8),
                    1 => bytes[at..].iter_mut().take(4096).for_each(|b| *b = 0),
                    _ => bytes.truncate(at),
                }
                hits += 1;
            }
            fs::write(damaged.join(name), bytes).unwrap();
        }
        // The index leads only to intact records: it is not damaged itself.
        let readable = match Store::open_read_only(&damaged, options()) {
            Ok(store) => contents(&store),
            Err(e) => panic!("{e}"),
        };
        fs::remove_file(damaged.join("SUPERBLOCK")).unwrap();
        let (report, all) = both_ways(&damaged);
        judge(&all, &readable, &original, &format!("{nth}"));
        assert!(hits == 0 || !report.losses.is_empty());
        for loss in &report.losses {
            assert!(names.contains(&loss.file) && loss.offset >= 64, "{loss:?}");
        }
        fs::remove_dir_all(damaged).unwrap();
    }
}

#[test]
fn a_segment_whose_header_is_damaged_is_known_by_its_records() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let original = make(&path, 30, options());
    for name in segments(&path) {
        let damaged = temp.path().join("damaged");
        copy(&path, &damaged);
        let mut bytes = fs::read(path.join(&name)).unwrap();
        bytes[..64].fill(0xee);
        fs::write(damaged.join(&name), bytes).unwrap();
        lose(&damaged, &["address.idx", "key", "SUPERBLOCK"]);
        let (report, all) = both_ways(&damaged);
        assert!(all == original, "{name}");
        assert_eq!(report.losses.len(), 1, "{:?}", report.losses);
        assert_eq!((report.losses[0].file.as_str(), report.losses[0].offset), (name.as_str(), 0));
        fs::remove_dir_all(damaged).unwrap();
    }
}

#[test]
fn of_a_half_copied_store_what_arrived_comes_back_and_what_did_not_is_named() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let original = make(&path, 40, options());
    for name in segments(&path) {
        let damaged = temp.path().join("damaged");
        copy(&path, &damaged);
        fs::remove_file(damaged.join(&name)).unwrap();
        let readable = Store::open_read_only(&damaged, options()).map(|s| contents(&s)).unwrap_or_default();
        let (report, all) = both_ways(&damaged);
        judge(&all, &readable, &original, &name);
        let is_named = report.losses.iter().any(|l| l.file == name && l.what.contains("missing"));
        let is_outdated = report.losses.is_empty() && all == original;
        assert!(is_named || is_outdated, "{name}: {:?}", report.losses);
        fs::remove_dir_all(damaged).unwrap();
    }
}

#[test]
fn segments_under_wrong_names_are_put_right_and_those_of_other_stores_left_out() {
    let temp = tempfile::tempdir().unwrap();
    let (path, other) = (temp.path().join("a"), temp.path().join("b"));
    let original = make(&path, 50, options());
    make(&other, 51, options());
    let names = segments(&path);
    let (first, second) = (&names[0], &names[1]);
    fs::rename(path.join(first), path.join("x")).unwrap();
    fs::rename(path.join(second), path.join(first)).unwrap();
    fs::rename(path.join("x"), path.join(second)).unwrap();
    fs::copy(other.join(&names[2]), path.join("value999.dat")).unwrap();
    fs::write(path.join("value1000.dat"), [1; 100_000]).unwrap();
    fs::remove_file(path.join("SUPERBLOCK")).unwrap();
    let (report, all) = both_ways(&path);
    assert!(all == original);
    assert_eq!(report.losses, []);
    let why: Vec<(&str, bool)> =
        report.ignored.iter().map(|i| (i.file.as_str(), i.why.contains("another store"))).collect();
    assert_eq!(why, [("value999.dat", true), ("value1000.dat", false)]);
    // In place they stay beside the store, intact.
    run(&path, RepairTo::InPlace).unwrap();
    assert_eq!(fs::read(path.join("value1000.dat.set-aside0")).unwrap(), [1; 100_000]);
    assert!(healthy(&path) == original);
}

#[test]
fn files_with_other_names_elsewhere_are_never_written_in_place() {
    let temp = tempfile::tempdir().unwrap();
    let (path, linked) = (temp.path().join("a"), temp.path().join("snapshot"));
    let original = make(&path, 60, options());
    let names = segments(&path);
    // One is damaged, and all are shared with a snapshot.
    let mut bytes = fs::read(path.join(&names[0])).unwrap();
    bytes[100] ^= 1;
    fs::write(path.join(&names[0]), &bytes).unwrap();
    fs::create_dir(&linked).unwrap();
    names.iter().for_each(|n| fs::hard_link(path.join(n), linked.join(n)).unwrap());
    let before: Vec<_> = names.iter().map(|n| fs::read(linked.join(n)).unwrap()).collect();
    fs::remove_file(path.join("SUPERBLOCK")).unwrap();
    let report = run(&path, RepairTo::InPlace).unwrap();
    assert_eq!(report.losses.len(), 1);
    assert_eq!(fs::metadata(path.join(&names[0])).unwrap().nlink(), 1);
    let all = healthy(&path);
    judge(&all, &all, &original, "linked");
    let after: Vec<_> = names.iter().map(|n| fs::read(linked.join(n)).unwrap()).collect();
    assert!(before == after);
}

#[test]
fn a_repair_that_is_stopped_leaves_no_store_and_can_be_done_again() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let original = make(&path, 70, options());
    for calls in 0..segments(&path).len() {
        let target = temp.path().join(format!("new{calls}"));
        let mut left = calls;
        let mut stop = |_| {
            left = left.wrapping_sub(1);
            if left == usize::MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let stopped = Store::repair(&path, RepairTo::New(&target), &options(), &mut stop);
        assert!(matches!(stopped, Err(Error::Cancelled)), "{stopped:?}");
        assert!(matches!(Store::open(&target, options()), Err(Error::NotAStore { .. })));
        assert!(matches!(run(&path, RepairTo::New(&target)), Err(Error::NotEmpty { .. })));
        let place = temp.path().join(format!("place{calls}"));
        copy(&path, &place);
        left = calls;
        let mut stop = |_| {
            left = left.wrapping_sub(1);
            if left == usize::MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        assert!(matches!(Store::repair(&place, RepairTo::InPlace, &options(), &mut stop), Err(Error::Cancelled)));
        assert!(matches!(Store::open(&place, options()), Err(Error::NotAStore { .. })));
        let report = run(&place, RepairTo::InPlace).unwrap();
        assert!(report.is_complete() && report.is_rule_known);
        assert!(healthy(&place) == original);
    }
}

#[test]
fn what_cannot_be_repaired_is_refused_and_left_alone() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    make(&path, 80, options());
    let target = temp.path().join("new");
    // A writer has the store open.
    let writer = Store::open(&path, options()).unwrap();
    assert!(matches!(run(&path, RepairTo::New(&target)), Err(Error::Storage(StorageError::Locked { .. }))));
    assert!(matches!(run(&path, RepairTo::InPlace), Err(Error::Storage(StorageError::Locked { .. }))));
    writer.close().unwrap();
    // The canonicaliser of its keys is unknown, or a different one is asked for.
    let go_on = &mut |_| ControlFlow::Continue(());
    let wrong = Store::repair(&path, RepairTo::New(&target), &options().canonicalizer("other", 1), go_on);
    assert!(matches!(wrong, Err(Error::Canonicalizer { .. })), "{wrong:?}");
    fs::remove_file(path.join("SUPERBLOCK")).unwrap();
    let unknown = Store::repair(&path, RepairTo::InPlace, &Options::new().free_space_floor(0), go_on);
    assert!(
        matches!(unknown, Err(Error::Storage(StorageError::InvalidOption { name: "canonicalizer", .. }))),
        "{unknown:?}"
    );
    assert!(path.join("address.idx").exists() && !target.exists());
    // The directory is empty.
    let empty = temp.path().join("empty");
    fs::create_dir(&empty).unwrap();
    fs::write(empty.join("value0.dat"), [9; 5000]).unwrap();
    assert!(matches!(run(&empty, RepairTo::InPlace), Err(Error::NotAStore { .. })));
    assert!(matches!(run(&temp.path().join("absent"), RepairTo::InPlace), Err(Error::NotAStore { .. })));
    assert_eq!(fs::read(empty.join("value0.dat")).unwrap(), [9; 5000]);
}

#[test]
fn losses_are_told_by_key_as_far_as_it_is_known() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = Store::create(&path, options().compression_level(0)).unwrap();
    let places: Vec<_> = (0..5u8)
        .map(|i| {
            let version = store.put(&Record::new(&[b'k', i], &[i; 1000]).time(9)).unwrap();
            (version, store.head(&[b'k', i]).unwrap().unwrap())
        })
        .collect();
    store.close().unwrap();
    let mut bytes = fs::read(path.join("value0.dat")).unwrap();
    let at = |nth: usize| places[nth].1.place.offset as usize;
    bytes[at(1) + 500] ^= 1; // in the body
    bytes[at(2) + 60] ^= 1; // in the head
    bytes[at(4) + 500] ^= 1;
    fs::write(path.join("value0.dat"), bytes).unwrap();
    let (report, all) = both_ways(&path);
    assert_eq!(all.len(), 2);
    let told: Vec<_> =
        report.losses.iter().map(|l| (l.offset as usize, l.bytes, l.key.as_deref(), l.version)).collect();
    let stored = places[0].1.stored_bytes;
    assert_eq!(
        told,
        [
            (at(1), stored, Some(&b"k\x01"[..]), Some(places[1].0)),
            (at(2), stored, None, None),
            (at(4), stored, Some(b"k\x04"), Some(places[4].0)),
        ]
    );
    assert_eq!(report.lost_bytes(), 3 * stored);
}

#[test]
fn what_no_checkpoint_has_seen_comes_back_and_a_torn_end_is_no_loss() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = Store::create(&path, options()).unwrap();
    store.put(&Record::new(b"old", b"1")).unwrap();
    store.checkpoint().unwrap();
    store.put(&Record::new(b"young", b"2")).unwrap();
    store.sync().unwrap();
    let copied = temp.path().join("b");
    copy(&path, &copied);
    drop(store);
    let mut bytes = fs::read(copied.join("value0.dat")).unwrap();
    let whole = bytes.len();
    bytes.extend_from_slice(&[5; 1000]);
    fs::write(copied.join("value0.dat"), bytes).unwrap();
    let (report, all) = both_ways(&copied);
    assert_eq!(all.len(), 2);
    assert!(report.is_complete(), "{:?}", report.losses);
    assert_eq!((report.unfinished_bytes, report.bytes), (1000, whole as u64 + 1000));
    // Without a superblock that cannot be known.
    fs::remove_file(copied.join("SUPERBLOCK")).unwrap();
    let (report, _) = both_ways(&copied);
    assert_eq!((report.unfinished_bytes, report.lost_bytes()), (0, 1000));
}

#[test]
fn a_store_without_a_page_is_repaired_to_one_without_a_page() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    Store::create(&path, options()).unwrap().close().unwrap();
    let (report, all) = both_ways(&path);
    assert!(all.is_empty() && report.is_complete());
    // All segments are missing: the superblock still names the store.
    fs::remove_file(path.join("value0.dat")).unwrap();
    let (report, all) = both_ways(&path);
    assert!(all.is_empty());
    assert_eq!(report.losses.iter().map(|loss| loss.file.as_str()).collect::<Vec<_>>(), ["value0.dat"]);
}

#[test]
fn a_segment_that_was_cut_off_is_told_wherever_the_cut_is() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = Store::create(&path, options().compression_level(0)).unwrap();
    for i in 0..50u8 {
        store.put(&Record::new(&[b'k', i], &[i; 1000])).unwrap();
    }
    let third = store.head(b"k\x03").unwrap().unwrap().place.offset;
    store.close().unwrap();
    let whole = fs::metadata(path.join("value0.dat")).unwrap().len();
    // Between two records, where no existing record is broken, and within one.
    for (cut, broken) in [(third, 0), (third + 100, 100)] {
        let damaged = temp.path().join("damaged");
        copy(&path, &damaged);
        fs::OpenOptions::new().write(true).open(damaged.join("value0.dat")).unwrap().set_len(cut).unwrap();
        let (report, all) = both_ways(&damaged);
        assert_eq!((all.len(), report.lost_bytes()), (3, whole - cut + broken), "{:?}", report.losses);
        assert!(
            report.losses.iter().any(|loss| loss.offset == cut && loss.bytes == whole - cut),
            "{:?}",
            report.losses
        );
        fs::remove_dir_all(damaged).unwrap();
    }
    // Many segments, the first of them cut: at least its live bytes are reported.
    let path = temp.path().join("b");
    let original = make(&path, 41, options());
    let name = segments(&path)[0].clone();
    fs::OpenOptions::new().write(true).open(path.join(&name)).unwrap().set_len(64).unwrap();
    let (report, all) = both_ways(&path);
    assert!(all == original || report.losses.iter().any(|loss| loss.file == name), "{:?}", report.losses);
}

#[test]
fn a_header_alone_is_not_the_segment_whose_header_it_is() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = Store::create(&path, options()).unwrap();
    store.put(&Record::new(b"k", b"v")).unwrap();
    store.close().unwrap();
    // What a power loss may leave of a segment created ahead; and the segment whose header it has
    // is emptied.
    let (lost, spare) = (path.join("value0.dat"), path.join("value1.dat"));
    fs::copy(&lost, &spare).unwrap();
    fs::OpenOptions::new().write(true).open(&spare).unwrap().set_len(64).unwrap();
    fs::OpenOptions::new().write(true).open(&lost).unwrap().set_len(0).unwrap();
    let report = run(&path, RepairTo::New(&temp.path().join("new"))).unwrap();
    assert_eq!(report.losses.iter().map(|l| l.file.as_str()).collect::<Vec<_>>(), ["value0.dat"], "{report:?}");
}
