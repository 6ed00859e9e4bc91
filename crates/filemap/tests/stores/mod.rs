//! Two stores compared version by version, and dumps that go to memory.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::rc::Rc;

use filemap::dump::{DumpEvent, DumpOptions, DumpReport, OutputFile, Target, dump};
use filemap::{Page, PageStore};

/// A version as it counts for equality: the page as stored, and which of the key's versions, the
/// newest first, holds its body if it does not itself.
pub type Held = (Page, Option<usize>);

/// Everything in a store: the versions of each key, the newest first.
pub fn contents(store: &PageStore) -> BTreeMap<Vec<u8>, Vec<Held>> {
    let mut keys: BTreeMap<Vec<u8>, Vec<_>> = BTreeMap::new();
    for version in store.stored_versions() {
        let version = version.expect("whole");
        keys.entry(version.key.clone()).or_default().push(version);
    }
    let held = |(key, mut versions): (Vec<u8>, Vec<filemap::store::StoredVersion>)| {
        versions.sort_by_key(|version| std::cmp::Reverse(version.version));
        let sequences: Vec<u64> = versions.iter().map(|version| version.version.sequence).collect();
        let place = |since: u64| sequences.iter().position(|&sequence| sequence == since).expect("it is kept");
        (key, versions.into_iter().map(|version| (version.page, version.unchanged_since.map(place))).collect())
    };
    keys.into_iter().map(held).collect()
}

/// Fails the test unless both stores hold the same versions of the same keys: times, statuses,
/// headers, bodies and all else, in the same order, and the same of them by reference.
#[track_caller]
pub fn assert_equal(found: &PageStore, expected: &PageStore) {
    let (found, expected) = (contents(found), contents(expected));
    let keys = |all: &BTreeMap<Vec<u8>, _>| -> Vec<String> {
        all.keys().map(|key| String::from_utf8_lossy(key).into_owned()).collect()
    };
    assert_eq!(keys(&found), keys(&expected));
    for (key, expected) in expected {
        let (found, key) = (&found[&key], String::from_utf8_lossy(&key).into_owned());
        assert_eq!(found.len(), expected.len(), "versions of {key}");
        for ((found, expected), nth) in found.iter().zip(&expected).zip(0..) {
            let short = |held: &Held| Page { body: Vec::new(), ..held.0.clone() };
            assert_eq!(short(found), short(expected), "version {nth} of {key}");
            assert!(found.0.body == expected.0.body, "the body of version {nth} of {key}");
            assert_eq!(found.1, expected.1, "what version {nth} of {key} refers to");
        }
    }
}

/// A folder in memory.
#[derive(Clone, Default)]
pub struct Memory(Rc<RefCell<BTreeMap<String, Vec<u8>>>>);

struct MemoryFile {
    folder: Memory,
    name: String,
    bytes: Vec<u8>,
}

impl Memory {
    /// The files that were closed.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        self.0.borrow().clone()
    }

    /// The one file of this name.
    #[track_caller]
    pub fn file(&self, name: &str) -> Vec<u8> {
        self.0.borrow().get(name).unwrap_or_else(|| panic!("no {name}")).clone()
    }
}

impl Target for Memory {
    fn create(&mut self, name: &str) -> io::Result<Box<dyn OutputFile>> {
        Ok(Box::new(MemoryFile { folder: self.clone(), name: name.to_owned(), bytes: Vec::new() }))
    }

    fn place(&mut self, path: &str, content: &[u8]) -> io::Result<bool> {
        let mut files = self.0.borrow_mut();
        let folder = format!("{path}/");
        let is_taken = files
            .keys()
            .any(|there| there == path || there.starts_with(&folder) || path.starts_with(&format!("{there}/")));
        if !is_taken {
            files.insert(path.to_owned(), content.to_vec());
        }
        Ok(!is_taken)
    }
}

impl Write for MemoryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl OutputFile for MemoryFile {
    fn close(self: Box<Self>) -> io::Result<()> {
        let before = self.folder.0.borrow_mut().insert(self.name.clone(), self.bytes);
        assert!(before.is_none(), "{} was written twice", self.name);
        Ok(())
    }
}

/// The files of a dump of `store`, and its report.
#[track_caller]
pub fn dumped(store: &PageStore, options: &DumpOptions) -> (Memory, DumpReport) {
    let mut target = Memory::default();
    let report = dump(store, options, &mut target, &mut |event| {
        if let DumpEvent::Damage(error) = event {
            panic!("{error}");
        }
        ControlFlow::Continue(())
    });
    (target, report.expect("memory does not fail"))
}
