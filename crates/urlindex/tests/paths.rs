//! Every kind of set by the path of its file: created, closed, opened, opened read-only, copied.

use std::path::Path;

use urlindex::hash::SlotHash;
use urlindex::{
    BloomFilter, BloomOptions, ContentSeen, DiskOptions, DiskUrlSet, GrowingFilter, HashBitmap, Md5Bitmap, SeenSet,
    UrlTrie,
};

const URL: &[u8] = b"http://example.com/";
const OTHER: &[u8] = b"http://example.org/";

/// `make` creates an empty set, `open` opens it for writing, `read` opens it read-only.
fn goes_by_its_path<S: SeenSet>(
    make: impl Fn(&Path) -> S,
    open: impl Fn(&Path) -> S,
    read: impl Fn(&Path) -> S,
    end: impl Fn(S, &Path),
) {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a folder").join("seen.set");
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    let set = make(&path);
    assert!(set.insert(URL).unwrap());
    end(set, &path);
    let set = open(&path);
    assert!(!set.contains(URL).unwrap().is_new() && set.contains(OTHER).unwrap().is_new());
    assert!(set.insert(OTHER).unwrap());
    end(set, &path);
    let set = read(&path);
    assert!(!set.contains(URL).unwrap().is_new() && !set.contains(OTHER).unwrap().is_new());
    // All its files lie beside the file, under its name.
    for entry in std::fs::read_dir(path.parent().unwrap()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name.starts_with("seen.set"), "{name}");
    }
    assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 1);
}

fn sync<S: SeenSet>(set: S, _: &Path) {
    set.sync().unwrap();
}

#[test]
fn bitmaps_go_by_their_paths() {
    let hashes = [SlotHash::Bkdr, SlotHash::Ap];
    let close = |set: Md5Bitmap, _: &Path| set.close().unwrap();
    let open = |path: &Path| Md5Bitmap::open(path).unwrap();
    goes_by_its_path(
        |path| Md5Bitmap::create(path, 16).unwrap(),
        open,
        |path| Md5Bitmap::open_read_only(path).unwrap(),
        close,
    );
    let close = |set: HashBitmap, _: &Path| set.close().unwrap();
    goes_by_its_path(
        |path| HashBitmap::create(path, &hashes, 1 << 16).unwrap(),
        |path| HashBitmap::open(path).unwrap(),
        |path| HashBitmap::open_read_only(path).unwrap(),
        close,
    );
}

#[test]
fn bitmaps_of_other_programs_are_adopted_by_their_paths() {
    let temp = tempfile::tempdir().unwrap();
    let (md5, hashed) = (temp.path().join("md5.bits"), temp.path().join("hashed.bits"));
    Md5Bitmap::create(&md5, 16).map(|set| (set.insert(URL).unwrap(), set.close().unwrap())).unwrap();
    HashBitmap::create(&hashed, &[SlotHash::Djb], 1 << 16)
        .map(|set| (set.insert(URL).unwrap(), set.close().unwrap()))
        .unwrap();
    for path in [&md5, &hashed] {
        std::fs::remove_file(path.with_extension("bits.meta")).unwrap();
    }
    assert!(Md5Bitmap::adopt(&md5).unwrap().contains(URL).unwrap() != urlindex::Verdict::New);
    let adopted = HashBitmap::adopt(&hashed, &[SlotHash::Djb], None).unwrap();
    assert!(!adopted.contains(URL).unwrap().is_new() && adopted.contains(OTHER).unwrap().is_new());
}

#[test]
fn filters_go_by_their_paths() {
    let options = || BloomOptions::new(1_000, 1e-6);
    goes_by_its_path(
        |path| BloomFilter::create(path, options()).unwrap(),
        |path| BloomFilter::open(path).unwrap(),
        |path| BloomFilter::load(path).unwrap(),
        sync,
    );
    goes_by_its_path(
        |path| GrowingFilter::create(path, 1e-6, 7).unwrap(),
        |path| GrowingFilter::open(path).unwrap(),
        |path| GrowingFilter::load(path).unwrap(),
        sync,
    );
}

#[test]
fn a_trie_goes_by_its_path() {
    let save = |set: UrlTrie, path: &Path| assert!(set.save(path).unwrap() > 0);
    let load = |path: &Path| UrlTrie::load(path).unwrap();
    goes_by_its_path(|_| UrlTrie::new(), load, load, save);
}

#[test]
fn sets_on_disk_go_by_their_paths_and_snapshots_by_their_folders() {
    let open = |path: &Path| DiskUrlSet::open(path, DiskOptions::new()).unwrap();
    let read = |path: &Path| DiskUrlSet::open_read_only(path, DiskOptions::new()).unwrap();
    goes_by_its_path(|path| DiskUrlSet::create(path, DiskOptions::new()).unwrap(), open, read, sync);

    let temp = tempfile::tempdir().unwrap();
    let (path, copy) = (temp.path().join("seen.set"), temp.path().join("copy"));
    std::fs::create_dir(&copy).unwrap();
    let set = DiskUrlSet::create(&path, DiskOptions::new()).unwrap();
    set.insert(URL).unwrap();
    set.snapshot(&copy).unwrap();
    set.insert(OTHER).unwrap();
    let copied = open(&copy.join("seen.set"));
    assert!(!copied.contains(URL).unwrap().is_new() && copied.contains(OTHER).unwrap().is_new());
    assert!(set.snapshot(&copy).is_err(), "there is one already");

    let (path, copy) = (temp.path().join("bodies.set"), temp.path().join("more"));
    std::fs::create_dir(&copy).unwrap();
    let bodies = ContentSeen::create(&path, DiskOptions::new()).unwrap();
    assert!(bodies.check_and_insert(b"a body").unwrap().is_new());
    bodies.snapshot(&copy).unwrap();
    let copied = ContentSeen::open(copy.join("bodies.set"), DiskOptions::new()).unwrap();
    assert!(!copied.check_and_insert(b"a body").unwrap().is_new());
}
