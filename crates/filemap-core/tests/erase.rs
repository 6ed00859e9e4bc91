//! Erased text is in no file of the store any more, and in no dictionary trained on it.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use filemap_core::erase::{Erased, Erasure, Search, Searched};
use filemap_core::{Options, Put, Record, Store};

const SECRET_KEY: &[u8] = b"http://a.example/private/jane-roe";
const SECRET: &str = "Jane Roe, 14 Hill Street, born in 1971";

fn group(key: &[u8]) -> &[u8] {
    &key[..key.iter().rposition(|b| *b == b'/').unwrap_or(0)]
}

fn options() -> Options {
    Options::new()
        .segment_bytes(1 << 20)
        .large_value_bytes(256 << 10)
        .dictionary_bytes(64 << 10)
        .free_space_floor(0)
        .dictionary_group(group)
}

/// A page that shares much with its neighbours.
fn page(site: &str, i: u64) -> String {
    let noise = |n: u64| (i * 31 + n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let words: String = (0..60).map(|n| format!("{:x} of the {site} page, ", noise(n) >> 40)).collect();
    format!("<html><title>{site} {i}</title><body>What every page of {site} says. {words}</body></html>")
}

fn secret_page(i: u64) -> String {
    page("a", i).replace("<body>", &format!("<body>{}", format!("{SECRET}. ").repeat(20)))
}

fn put(store: &Store, key: &[u8], body: &str, time_ms: i64) {
    store.put(&Record::new(key, body.as_bytes()).time(time_ms)).unwrap();
}

/// A store in which the secret is a sample of dictionaries, an old version, and a removed page.
fn filled(path: &Path) -> Store {
    let store = Store::create(path, options()).unwrap();
    for i in 0..1500 {
        put(&store, format!("http://a.example/{i}").as_bytes(), &page("a", i), 1);
        put(&store, format!("http://b.example/{i}").as_bytes(), &page("b", i), 1);
        if i % 100 == 0 {
            put(&store, SECRET_KEY, &secret_page(i), i as i64);
            put(&store, &[SECRET_KEY, b"/", &[b'a' + (i / 100) as u8]].concat(), &secret_page(i), 1);
        }
    }
    store.train().unwrap();
    store
}

fn all_of(prefix: &'static [u8]) -> Erasure {
    Erasure {
        keys: Arc::new(move |key| key.starts_with(prefix)),
        versions: Arc::new(|_, _| true),
        groups: Arc::new(|group| group.starts_with(b"http://a.example")),
    }
}

fn erase(store: &Store, what: &Erasure) -> Erased {
    let erased = store.erase(what, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(erased.is_complete(), "{erased:?}");
    assert_eq!(store.verify().unwrap().problems, []);
    erased
}

/// Names of the files that contain these bytes.
fn holders(path: &Path, text: &[u8]) -> BTreeSet<String> {
    let files = std::fs::read_dir(path).unwrap().map(|f| f.unwrap());
    let has = |bytes: Vec<u8>| memchr::memmem::find(&bytes, text).is_some();
    let holders = files.filter(|f| has(std::fs::read(f.path()).unwrap()));
    holders.map(|f| f.file_name().into_string().unwrap()).collect()
}

fn is_in_a_dictionary(path: &Path) -> bool {
    holders(path, &SECRET.as_bytes()[..20]).iter().any(|name| name.starts_with("dict"))
}

#[test]
fn what_rm_and_compact_leave_in_dictionaries_an_erasure_takes_away() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = filled(&path);
    assert!(is_in_a_dictionary(&path));
    let keys: Vec<Vec<u8>> = store.keys_with_prefix(SECRET_KEY).map(|k| k.unwrap()).collect();
    keys.iter().for_each(|key| assert!(store.remove(key).unwrap()));
    store.compact().unwrap();
    store.train().unwrap();
    store.recompress(9).unwrap();
    assert!(is_in_a_dictionary(&path), "as this test takes for granted");
    let before = store.dictionaries().len();
    let erased = erase(&store, &all_of(SECRET_KEY));
    assert_eq!(erased.versions, 0, "they were removed");
    assert!(!erased.dictionaries.is_empty() && erased.made_dictionaries > 0, "{erased:?} of {before}");
    assert!(!is_in_a_dictionary(&path));
    assert_eq!(holders(&path, SECRET_KEY), BTreeSet::new());
    store.close().unwrap();
    assert_eq!(holders(&path, SECRET_KEY), BTreeSet::new());
    let store = Store::open(&path, options()).unwrap();
    for i in (0..1500).step_by(7) {
        let body = store.get(format!("http://b.example/{i}").as_bytes()).unwrap().unwrap().body;
        assert_eq!(body, page("b", i).as_bytes());
    }
    assert_eq!(store.keys().count(), 3000);
}

#[test]
fn live_pages_with_all_their_versions_chunks_and_removals_go() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = filled(&path);
    let large: String = (0..60_000).map(|i| format!("{SECRET} {:x}", i * 0x9e37_79b9_u64)).collect();
    put(&store, &[SECRET_KEY, b"/large"].concat(), &large, 5);
    store.remove(&[SECRET_KEY, b"/a"].concat()).unwrap();
    let plan = store.erase_plan(&all_of(SECRET_KEY), &mut |_| ControlFlow::Continue(())).unwrap();
    let erased = erase(&store, &all_of(SECRET_KEY));
    assert_eq!((erased.versions, erased.keys), (15 + 14 + 1, 1 + 14 + 1));
    assert_eq!((plan.versions, plan.keys, plan.dictionaries), (erased.versions, erased.keys, erased.dictionaries));
    assert_eq!(store.get(SECRET_KEY).unwrap(), None);
    assert_eq!(store.keys_with_prefix(SECRET_KEY).count(), 0);
    assert!(!is_in_a_dictionary(&path));
    assert_eq!(holders(&path, b"jane-roe"), BTreeSet::new());
    assert_eq!(store.keys().count(), 3000);
    // Nothing is left to erase, except in dictionaries, whose content cannot be checked.
    let again = erase(&store, &all_of(SECRET_KEY));
    assert_eq!((again.versions, again.keys), (0, 0));
}

#[test]
fn a_version_whose_body_was_stored_with_one_that_goes_gets_its_own() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    let record = |time_ms| Record { key: b"k", meta: b"m", body: b"the same body", time_ms };
    store.put(&record(1)).unwrap();
    store.put_if_changed(&record(2)).unwrap();
    store.put_if_changed(&record(3)).unwrap();
    let first = Erasure {
        keys: Arc::new(|_| true),
        versions: Arc::new(|_, version| version.time_ms == 1),
        groups: Arc::new(|_| true),
    };
    let erased = erase(&store, &first);
    assert_eq!((erased.versions, erased.keys, erased.promoted), (1, 0, 2));
    let times: Vec<i64> = store.history(b"k").unwrap().iter().map(|h| h.version.time_ms).collect();
    assert_eq!(times, [3, 2]);
    for time_ms in [2, 3] {
        let value = store.get_at(b"k", time_ms).unwrap().unwrap();
        assert_eq!((value.body, value.head.meta), (b"the same body".to_vec(), b"m".to_vec()));
    }
}

#[test]
fn what_is_put_while_versions_are_dropped_keeps_what_it_refers_to() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options().keep_versions(Some(1))).unwrap();
    put(&store, SECRET_KEY, "body", 3);
    let first = store.get(SECRET_KEY).unwrap().unwrap().head.version;
    // Not the newest, so that the number kept hides it.
    let again = Record::new(SECRET_KEY, b"body").time(1);
    let meant = std::iter::once_with(|| {
        assert!(matches!(store.put_if_changed(&again).unwrap(), Put::Unchanged(_)));
        (SECRET_KEY, first)
    });
    assert_eq!(store.drop_versions(meant).unwrap(), 0);
    assert_eq!(store.get(SECRET_KEY).unwrap().unwrap().body, b"body");
}

fn search(store: &Store, texts: &[&str]) -> filemap_core::Result<Searched> {
    let texts: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    store.search(Search {
        texts: &texts,
        what: &all_of(SECRET_KEY),
        tombstones_too: false,
        mention: &mut |_, _| {},
        progress: &mut |_| ControlFlow::Continue(()),
    })
}

/// A store with one page, and a file with the name of a dictionary.
fn beside_a_dictionary(path: &Path, body: &str, dictionary: &[u8]) -> Store {
    let store = Store::create(path, options()).unwrap();
    put(&store, b"http://a.example/", body, 1);
    store.sync().unwrap();
    std::fs::write(path.join("dict9.zdict"), dictionary).unwrap();
    store
}

#[test]
fn remains_are_found_behind_a_million_mentions() {
    let temp = tempfile::tempdir().unwrap();
    let mut dictionary = b"erased, ".repeat((1 << 20) + 1);
    let end = dictionary.len() as u64;
    dictionary.extend_from_slice(SECRET.as_bytes());
    let store = beside_a_dictionary(&temp.path().join("a"), "erased, ", &dictionary);
    let left = search(&store, &["erased, ", SECRET]).unwrap().left;
    let places: Vec<(&str, u64)> = left.iter().map(|left| (&*left.file, left.offset)).collect();
    assert_eq!(places, [("dict9.zdict", end)]);
}

#[test]
fn remains_that_are_not_listed_are_counted() {
    let temp = tempfile::tempdir().unwrap();
    let store = beside_a_dictionary(&temp.path().join("a"), "A page.", &b"secret".repeat((1 << 16) + 7));
    let left = search(&store, &["secret"]).unwrap().left;
    assert_eq!(left.len(), (1 << 16) + 1);
    assert!(left[1 << 16].what.starts_with("7 further finds"), "{:?}", left[1 << 16]);
}

/// The page has both texts, of which one overlaps the other.
#[test]
fn a_text_that_overlaps_another_is_a_mention_too() {
    let temp = tempfile::tempdir().unwrap();
    let store = beside_a_dictionary(&temp.path().join("a"), "one two three", b"of two three others");
    assert_eq!(search(&store, &["one two", "two three"]).unwrap().left, []);
    assert_eq!(search(&store, &["one two", "three others"]).unwrap().left.len(), 1);
}

/// Each text is at another distance from the end of a block of 1 MiB.
#[test]
fn texts_across_the_ends_of_blocks_are_found_once() {
    let temp = tempfile::tempdir().unwrap();
    let text = "0123456789abcdef";
    for before in 0..=text.len() {
        let mut dictionary = vec![b'.'; (1 << 20) - before];
        dictionary.extend_from_slice(text.as_bytes());
        dictionary.resize(dictionary.len() + (1 << 20), b'.');
        let store = beside_a_dictionary(&temp.path().join(before.to_string()), "A page.", &dictionary);
        let left = search(&store, &[text, "456789", "def."]).unwrap().left;
        let at = (1 << 20) - before as u64;
        assert_eq!(left.iter().map(|left| left.offset).collect::<Vec<_>>(), [at, at + 4, at + 13], "{before}");
    }
}

#[test]
fn an_empty_text_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let store = beside_a_dictionary(&temp.path().join("a"), "A page.", b"");
    let refused = search(&store, &["secret", ""]).unwrap_err().to_string();
    assert!(refused.contains("text 1 is empty"), "{refused}");
    assert!(search(&store, &[]).is_ok());
}
