//! Verification in parts, quickly, and the notes on it: a pass stopped at any place and resumed
//! finds what one pass finds.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use filemap_core::check::{Inspected, Problem, VerifyOptions, VerifyReport, inspect};
use filemap_core::{Options, Record, Store};

fn options() -> Options {
    Options::new().segment_bytes(1 << 20).large_value_bytes(64 << 10).free_space_floor(0).space_bound(None)
}

/// A store of some segments with large bodies, references, removals and garbage.
fn make(path: &Path) {
    let store = Store::create(path, options()).unwrap();
    let mut rng = fastrand::Rng::with_seed(4);
    for i in 0..1200u32 {
        let bytes = if i % 60 == 0 { 200_000 } else { rng.usize(..4000) };
        let body: Vec<u8> = (0..bytes).map(|_| rng.u8(..) & rng.u8(..)).collect();
        let key = format!("key {}", i % 900);
        store.put(&Record::new(key.as_bytes(), &body)).unwrap();
        if i % 7 == 0 {
            store.put_if_changed(&Record::new(key.as_bytes(), &body)).unwrap();
        }
        if i % 11 == 0 {
            store.remove(format!("key {}", i / 2).as_bytes()).unwrap();
        }
        if i == 600 {
            store.compact().unwrap();
        }
    }
    store.close().unwrap();
}

/// Flips bytes in the middle of values. Returns their number.
fn damage(path: &Path) -> usize {
    for (id, at) in [(0, 0.3), (0, 0.6), (2, 0.5)] {
        let mut names: Vec<_> = fs::read_dir(path).unwrap().map(|e| e.unwrap().path()).collect();
        names.retain(|p| p.file_name().unwrap().to_str().unwrap().starts_with("value"));
        names.sort();
        let mut bytes = fs::read(&names[id]).unwrap();
        let at = (bytes.len() as f64 * at) as usize;
        bytes[at] ^= 1;
        fs::write(&names[id], bytes).unwrap();
    }
    3
}

fn all(store: &Store, options: &VerifyOptions) -> VerifyReport {
    store.verify_with(options, &mut |_| ControlFlow::Continue(())).unwrap()
}

fn sorted(mut problems: Vec<Problem>) -> Vec<(String, u64, String)> {
    problems.sort_by(|a, b| (&a.file, a.offset, &a.what).cmp(&(&b.file, b.offset, &b.what)));
    problems.into_iter().map(|p| (p.file, p.offset, p.what)).collect()
}

/// Resumes a stopped pass, and stops it at the nth progress call.
fn some(store: &Store, calls: i32) -> VerifyReport {
    let mut left = calls;
    let resumable = VerifyOptions::new().resumable().rate(Some(u64::MAX));
    let stop = &mut |_| {
        left -= 1;
        if left < 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    store.verify_with(&resumable, stop).unwrap()
}

#[test]
fn a_pass_that_is_stopped_anywhere_and_resumed_finds_what_a_whole_one_finds() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    make(&path);
    let hits = damage(&path);
    let store = Store::open_read_only(&path, options()).unwrap();
    let whole = all(&store, &VerifyOptions::new());
    assert!(whole.is_complete && whole.problems.len() >= hits && whole.resumed_bytes == 0);
    let mut resumed = 0;
    for calls in 0..40 {
        let first = some(&store, calls);
        if first.is_complete {
            break;
        }
        assert_eq!(first.is_resumable, path.join("VERIFYING").exists());
        if first.is_resumable {
            let told = inspected(&path.join("VERIFYING"));
            assert_eq!((told.kind.as_str(), told.problem), ("verification under way", None));
        }
        // Stopping once more at once loses nothing.
        some(&store, 0);
        let rest = all(&store, &VerifyOptions::new().resumable());
        assert!(rest.is_complete && !path.join("VERIFYING").exists());
        assert_eq!(sorted(rest.problems), sorted(whole.problems.clone()), "stopped after {calls}");
        assert_eq!((rest.value_records, rest.indexed_keys), (whole.value_records, whole.indexed_keys));
        assert_eq!((rest.bytes, rest.files), (whole.bytes, whole.files));
        resumed = resumed.max(rest.resumed_bytes);
    }
    assert!(resumed > whole.bytes / 4, "{resumed} of {}", whole.bytes);
    // A pass that should begin anew does, and an invalid position file counts for nothing.
    some(&store, 39);
    let anew = all(&store, &VerifyOptions::new().resumable().anew());
    assert_eq!((anew.resumed_bytes, sorted(anew.problems)), (0, sorted(whole.problems.clone())));
    fs::write(path.join("VERIFYING"), [7; 999]).unwrap();
    let rest = all(&store, &VerifyOptions::new().resumable());
    assert_eq!((rest.resumed_bytes, sorted(rest.problems)), (0, sorted(whole.problems)));
}

#[test]
fn a_store_may_change_between_the_parts_of_a_pass() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    make(&path);
    let store = Store::open(&path, options()).unwrap();
    some(&store, 4);
    for i in 0..300u32 {
        store.put(&Record::new(format!("key {i}").as_bytes(), &[1; 3000])).unwrap();
        store.remove(format!("key {}", i + 300).as_bytes()).unwrap();
    }
    store.compact().unwrap();
    let rest = all(&store, &VerifyOptions::new().resumable());
    assert!(rest.is_complete);
    assert_eq!(rest.problems, []);
}

#[test]
fn what_was_damaged_in_one_part_of_a_pass_and_mended_since_is_read_again() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    make(&path);
    let files = fs::read_dir(&path).unwrap().map(|e| e.unwrap().path());
    let whole: Vec<_> = files.map(|file| (fs::read(&file).unwrap(), file)).collect();
    damage(&path);
    let store = Store::open_read_only(&path, options()).unwrap();
    assert!(!some(&store, 12).is_complete);
    whole.into_iter().for_each(|(bytes, file)| fs::write(file, bytes).unwrap());
    let rest = all(&store, &VerifyOptions::new().resumable());
    assert!(rest.is_complete && rest.problems.is_empty(), "{:?}", rest.problems);
}

#[test]
fn the_quick_way_reads_no_values_and_finds_what_leads_nowhere() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    make(&path);
    let quick = |path: &Path| {
        let store = Store::open_read_only(path, options()).unwrap();
        all(&store, &VerifyOptions::new().quick())
    };
    let report = quick(&path);
    assert!(report.is_complete && report.problems.is_empty(), "{:?}", report.problems);
    assert_eq!(report.value_records, 0);
    let store = Store::open_read_only(&path, options()).unwrap();
    assert!(report.indexed_keys == store.stats().indexed_keys && report.bytes == 4096 * report.index_pages);
    let segments = store.segments();
    drop(store);
    // A segment with live bytes, shorter than it was; and missing.
    let name = format!("value{}.dat", segments[0].id);
    let bytes = fs::read(path.join(&name)).unwrap();
    fs::write(path.join(&name), &bytes[..bytes.len() / 2]).unwrap();
    assert!(quick(&path).problems.iter().any(|p| p.file == name));
    fs::remove_file(path.join(&name)).unwrap();
    assert!(quick(&path).problems.iter().any(|p| p.file == name));
    fs::write(path.join(&name), &bytes).unwrap();
    assert_eq!(quick(&path).problems, []);
    // Damage a page of the index.
    let mut index = fs::read(path.join("address.idx")).unwrap();
    let leaf = (1..index.len() / 4096).rfind(|page| index[page * 4096 + 4] == 1).unwrap();
    index[leaf * 4096 + 100] ^= 1;
    fs::write(path.join("address.idx"), index).unwrap();
    let found = quick(&path).problems;
    assert!(found.is_empty() || found.iter().all(|p| p.file == "address.idx"), "{found:?}");
}

#[test]
fn the_end_of_a_full_pass_is_noted_by_writers_and_by_others_if_asked() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    make(&path);
    let noted = |store: &Store| (store.stats().verified_ms, store.stats().verified_problems);
    let reader = Store::open_read_only(&path, options()).unwrap();
    assert_eq!(noted(&reader), (0, 0));
    all(&reader, &VerifyOptions::new());
    all(&reader, &VerifyOptions::new().note().quick());
    let stopped = reader.verify_with(&VerifyOptions::new().note(), &mut |_| ControlFlow::Break(()));
    assert!(!stopped.unwrap().is_complete);
    assert_eq!(noted(&reader), (0, 0), "a reader writes nothing unasked, and only a full pass counts");
    all(&reader, &VerifyOptions::new().note());
    let (first, problems) = noted(&reader);
    assert!(first > 1_600_000_000_000 && problems == 0);
    let found = {
        damage(&path);
        let store = Store::open(&path, options()).unwrap();
        let found = all(&store, &VerifyOptions::new()).problems.len() as u64;
        assert_eq!(noted(&store).1, found);
        found
    };
    assert!(noted(&reader).0 >= first && noted(&reader).1 == found && found > 0);
    let told = inspected(&path.join("VERIFIED"));
    assert_eq!(told.kind, "full verification");
    assert_eq!(told.problem, None);
    assert!(told.fields.contains(&("problems", found.to_string())), "{told:?}");
    // A damaged note, or another store's, is ignored.
    let mut bytes = fs::read(path.join("VERIFIED")).unwrap();
    bytes[40] ^= 1;
    fs::write(path.join("VERIFIED"), bytes).unwrap();
    assert_eq!(noted(&reader), (0, 0));
    assert!(inspected(&path.join("VERIFIED")).problem.is_some());
}

/// The head of a note; everything else in VERIFYING is intact, and names a segment.
fn inspected(file: &Path) -> Inspected {
    let mut items = Vec::new();
    let mut sink = |item| {
        items.push(item);
        ControlFlow::Continue(())
    };
    inspect(file, &mut sink).unwrap();
    let head = items.remove(0);
    assert_eq!(items.is_empty(), head.kind == "full verification", "{items:?}");
    for item in items {
        assert_eq!((item.kind.as_str(), item.problem), ("verified segment", None));
        assert!(item.fields.iter().any(|(name, number)| *name == "records" && number != "0"), "{:?}", item.fields);
    }
    head
}

#[test]
fn a_damaged_key_record_costs_the_versions_behind_it_and_its_key_is_named() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let key = b"http://a.example/of/a/name/that/is/nowhere/else";
    let versions: Vec<_> = (0..5)
        .map(|time| {
            let store =
                if time == 0 { Store::create(&path, options()) } else { Store::open(&path, options()) }.unwrap();
            let version = store.put(&Record::new(key, &[b'0' + time as u8; 99]).time(time)).unwrap();
            store.close().unwrap();
            version
        })
        .collect();
    let file = path.join("key0.dat");
    let mut bytes = fs::read(&file).unwrap();
    let at = bytes.windows(key.len()).position(|found| found == key).unwrap();
    bytes[at] ^= 1;
    fs::write(&file, bytes).unwrap();
    for (is_all, shown) in [(true, options()), (false, options().keep_versions(Some(2)))] {
        let store = Store::open_read_only(&path, shown).unwrap();
        let (whole, damage): (Vec<_>, Vec<_>) = store.history_iter(key).partition(Result::is_ok);
        let whole: Vec<_> = whole.into_iter().map(|head| head.unwrap().version).collect();
        let most = if is_all { 4 } else { 2 };
        assert_eq!(whole, versions.iter().rev().copied().take(most).collect::<Vec<_>>());
        assert!(damage.len() == 1 && damage[0].as_ref().is_err_and(filemap_core::Error::is_corrupt), "{damage:?}");
        assert_eq!(store.get(key).unwrap().unwrap().body, [b'4'; 99]);
        assert_eq!(store.get_version(key, versions[4]).unwrap().unwrap().body, [b'4'; 99]);
        assert_eq!(store.get_at(key, 7).unwrap().unwrap().head.version, versions[4]);
        assert_eq!(store.head_at(key, 4).unwrap().unwrap().version, versions[4]);
        assert!(store.get_at(key, 0).is_err() && store.head_at(key, 0).is_err() && store.history(key).is_err());
        let problems = all(&store, &VerifyOptions::new()).problems;
        assert!(problems.iter().any(|p| p.file == "key0.dat" && p.keys == [key.to_vec()]), "{problems:?}");
    }
}
