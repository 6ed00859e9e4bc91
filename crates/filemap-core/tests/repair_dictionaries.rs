//! Repair of dictionaries: copied, restored from one of their two copies, reported missing, and
//! never mistaken for others.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use filemap_core::dictionaries::Dictionaries;
use filemap_core::repair::{RepairReport, RepairTo};
use filemap_core::{Options, Record, Store};

const PAGES: u32 = 1500;

fn options() -> Options {
    Options::new().free_space_floor(0)
}

fn key(i: u32) -> Vec<u8> {
    format!("http://example.com/{i}").into_bytes()
}

/// A page of a host: text common to all pages, and its own words.
fn body(i: u32) -> Vec<u8> {
    let frame: String = (0..40).map(|j| format!("<li class=c{j}><a href=/{}>", j * j * 31)).collect();
    let own: String = (0..40).map(|j| format!("{:x} ", (i + 1).wrapping_mul(2_654_435_761) ^ (j * 7919))).collect();
    format!("<html><title>{i}</title>{frame}<p>{own}</html>").into_bytes()
}

fn put(store: &Store, numbers: std::ops::Range<u32>) {
    for i in numbers {
        store.put(&Record::new(&key(i), &body(i)).time(1)).unwrap();
    }
}

/// A store whose second half of pages needs a dictionary.
fn make(path: &Path) -> PathBuf {
    let store = Store::create(path, options().dictionaries(Dictionaries::Off)).unwrap();
    put(&store, 0..PAGES / 2);
    store.close().unwrap();
    let store = Store::open(path, options()).unwrap();
    assert_eq!(store.train().unwrap().len(), 1);
    put(&store, PAGES / 2..PAGES);
    store.close().unwrap();
    path.join("dict1.zdict")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn run(source: &Path, to: RepairTo<'_>) -> RepairReport {
    Store::repair(source, to, &options(), &mut |_| ControlFlow::Continue(())).unwrap()
}

/// Number of readable pages. Asserts that each is right.
fn readable(store: &Store) -> u32 {
    let is_right = |i: &u32| match store.get(&key(*i)) {
        Ok(found) => {
            assert_eq!(found.unwrap().body, body(*i));
            true
        }
        Err(e) => {
            assert!(e.is_corrupt() && e.to_string().contains("dict1.zdict"), "{e}");
            false
        }
    };
    (0..PAGES).filter(is_right).count() as u32
}

/// Repairs a copy of a store in place, and into a new one. Returns the path and the report of
/// each.
fn both(source: &Path, temp: &Path) -> [(PathBuf, RepairReport); 2] {
    let (new, place) = (temp.join("new"), temp.join("place"));
    copy(source, &place);
    let reports = [run(source, RepairTo::New(&new)), run(&place, RepairTo::InPlace)];
    let [first, second] = reports;
    [(new, first), (place, second)]
}

#[test]
fn a_rotten_copy_of_a_dictionary_is_made_anew_from_the_other() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let file = make(&path);
    let whole = fs::read(&file).unwrap();
    let half = whole.len() / 2;
    for (nth, at) in [70, 600, half + 3, half + 600, usize::MAX].into_iter().enumerate() {
        let mut bytes = whole.clone();
        match bytes.get_mut(at) {
            Some(byte) => *byte ^= 1,
            // Half of a file that was being copied.
            None => bytes.truncate(half + 1000),
        }
        fs::write(&file, bytes).unwrap();
        let temp = temp.path().join(nth.to_string());
        fs::create_dir(&temp).unwrap();
        for (path, report) in both(&path, &temp) {
            assert!(report.is_complete(), "{at}: {:?}", report.losses);
            assert!(fs::read(path.join("dict1.zdict")).unwrap() == whole, "{at}");
            let store = Store::open(&path, options()).unwrap();
            assert_eq!(readable(&store), PAGES);
            assert_eq!(store.verify().unwrap().problems, []);
        }
    }
}

#[test]
fn a_dictionary_that_is_lost_is_told_and_its_number_is_not_given_to_another() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let file = make(&path);
    let whole = fs::read(&file).unwrap();
    let half = whole.len() / 2;
    for is_missing in [false, true] {
        let mut bytes = whole.clone();
        (bytes[700], bytes[half + 700]) = (!bytes[700], !bytes[half + 700]);
        fs::write(&file, bytes).unwrap();
        if is_missing {
            fs::remove_file(&file).unwrap();
        }
        let temp = temp.path().join(is_missing.to_string());
        fs::create_dir(&temp).unwrap();
        for (path, report) in both(&path, &temp) {
            assert_eq!(report.losses.len(), 1, "{:?}", report.losses);
            assert_eq!(report.losses[0].file, "dict1.zdict");
            assert!(report.losses[0].what.contains(if is_missing { "missing" } else { "damaged" }));
            assert_eq!(report.keys, u64::from(PAGES));
            let store = Store::open(&path, options()).unwrap();
            assert_eq!(readable(&store), PAGES / 2);
            assert!(store.absent().iter().any(|a| a.file == "dict1.zdict" && a.is_accepted && a.is_missed()));
            let made = store.train().unwrap();
            assert!(made.iter().all(|d| d.id > 1), "{made:?}");
            assert_eq!(readable(&store), PAGES / 2);
            store.close().unwrap();
            // A copy is found after all.
            fs::write(path.join("dict1.zdict"), &whole).unwrap();
            assert_eq!(readable(&Store::open(&path, options()).unwrap()), PAGES);
        }
    }
}
