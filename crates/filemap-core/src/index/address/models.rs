//! The index's readers under the model checker, beside its one writer. The file's words are the
//! checker's. A write to the file stores them one by one without ordering: the least that a system
//! call guarantees.

use std::io;
use std::sync::Arc;

use filemap_io::{Advice, File, Map};

use super::nodes::{NodeReader, Nodes};
use super::*;
use crate::format::leaf::MIN_DEPTH;
use crate::format::location::{Location, SizeClass};
use crate::format::node;
use crate::format::superblock::IndexRoot;
use crate::sync::primitive::{Fault, plant};

const PAGES: usize = 8;

/// A leaf without slots.
const NO_LEAF: Entry = Entry { page: 0, count: 0, depth: MIN_DEPTH };

/// An in-memory file that is its own map.
#[derive(Debug)]
struct Memory(Vec<Word>);

impl Map for Memory {
    fn words(&self) -> &[Word] {
        &self.0
    }
}

#[derive(Debug)]
struct ModelFile(Arc<Memory>);

impl File for ModelFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        for (bytes, word) in buf.chunks_mut(8).zip(&self.0.0[offset as usize / 8..]) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes()[..bytes.len()]);
        }
        Ok(buf.len())
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        for (bytes, word) in data.as_chunks().0.iter().zip(&self.0.0[offset as usize / 8..]) {
            word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok((PAGES * PAGE_BYTES) as u64)
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        self.len()
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn advise(&self, _: Advice, _: u64, _: u64) {}

    fn map(&self, _: u64, _: usize) -> io::Result<Arc<dyn Map>> {
        Ok(Arc::clone(&self.0) as Arc<dyn Map>)
    }
}

/// A key in the left half of the hashes, one in the right half, and one that a split separates
/// from the first.
const LEFT: u64 = 1 << 61;
const RIGHT: u64 = 3 << 62;
const LEFT_TOO: u64 = 1 << 62;

/// A slot whose fields are all derived from `key`, so that a torn slot is noticed.
fn slot(hash: u64, key: u64) -> Slot {
    Slot { hash: kept_bits(hash), key, location: Location::new(key as u16, 64 * key), size: SizeClass(key as u8) }
}

/// The key record of a hash's only slot. Asserts that the slot is whole.
fn key_of(index: &Index, hash: u64) -> u64 {
    let Ok(Lookup::Found(found)) = index.lookup(hash, &mut LastLeaf::default()) else {
        panic!("an error where there is no damage")
    };
    let slots: Vec<&Slot> = found.iter().collect();
    assert_eq!(slots.len(), 1, "the key is lost or is there twice");
    assert_eq!(*slots[0], slot(hash, slots[0].key), "a slot is put together from two");
    slots[0].key
}

/// Replaces the slots of a leaf as one stage of a checkpoint does, up to writing its superblock.
fn write(writer: &mut IndexWriter, slots: &[Slot], hash: u64) {
    let old = writer.leaf(hash).unwrap();
    writer.replace(&old, slots).unwrap();
    writer.flush().unwrap();
}

/// Runs `change` in a writer, beside `read` in a reader. The writer has replaced the left leaf
/// before, so a retired page waits for reuse.
fn scenario(change: fn(&mut IndexWriter), read: fn(&Index)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let words = (0..PAGES * PAGE_BYTES / 8).map(|_| Word::new(0)).collect();
        let file: Arc<dyn File> = Arc::new(ModelFile(Arc::new(Memory(words))));
        let root = IndexRoot::empty();
        let loaded = load(file, 9, Owner::Us { filter_bytes_max: u64::MAX }, root, 1, &Limits::default()).unwrap();
        let index = Arc::clone(&loaded.index);
        let mut writer = IndexWriter::new(loaded, root, 2, Limits::default());
        for key in 1..=2 {
            write(&mut writer, &[slot(LEFT, key)], LEFT);
            writer.committed(false);
        }
        // The models of the memtable explain why the reader is the spawned thread.
        let reader = loom::thread::spawn(move || read(&index));
        change(&mut writer);
        reader.join().unwrap();
    });
}

/// Reuses, for the right leaf, the page that a reader of the left leaf may still read.
fn reuse(writer: &mut IndexWriter) {
    write(writer, &[slot(LEFT, 3)], LEFT);
    writer.committed(false);
    write(writer, &[slot(RIGHT, 4)], RIGHT);
}

#[test]
fn a_reader_of_a_page_that_is_used_again_starts_over() {
    scenario(reuse, |index| assert!((2..=3).contains(&key_of(index, LEFT))));
}

#[test]
fn a_reader_never_goes_back() {
    scenario(
        |writer| write(writer, &[slot(LEFT, 3)], LEFT),
        |index| {
            let first = key_of(index, LEFT);
            assert!(key_of(index, LEFT) >= first);
        },
    );
}

#[test]
fn a_split_that_doubles_the_directory_hides_no_key() {
    scenario(
        |writer| write(writer, &[slot(LEFT, 3), slot(LEFT + (1 << 30), 4), slot(LEFT_TOO, 5)], LEFT),
        |index| assert!((2..=3).contains(&key_of(index, LEFT))),
    );
}

/// One thread checks a leaf with one key and marks its entry; another may see the mark or not.
fn marked() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let leaf = Entry { page: 1, count: 1, depth: MIN_DEPTH }.pack();
        let directory =
            Arc::new(Directory::new(MIN_DEPTH, 1, [leaf, NO_LEAF.pack()].into_iter(), Runs::none(), u64::MAX).unwrap());
        let reader = Arc::clone(&directory);
        let reader = loom::thread::spawn(move || assert!(!reader.lacks(0, LEFT)));
        directory.set_verified(0, [kept_bits(LEFT)].into_iter());
        assert!(!directory.lacks(0, LEFT) && directory.lacks(0, LEFT_TOO - 1));
        reader.join().unwrap();
    });
}

#[test]
fn a_leaf_that_is_marked_as_checked_has_its_keys_in_the_filter() {
    marked();
}

#[test]
#[should_panic]
fn leaves_that_are_marked_before_their_keys_are_in_the_filter_are_noticed() {
    plant(Fault::Mark);
    marked();
}

/// Keys of a leaf are in the filter before a reader sees the leaf's entry.
fn named() {
    scenario(
        |writer| write(writer, &[slot(RIGHT, 4)], RIGHT),
        |index| {
            let directory = index.directory.load();
            let (at, entry) = directory.find(RIGHT).ok().unwrap();
            assert!(entry.page == 0 || !directory.lacks(at, RIGHT));
            assert!((1..=2).contains(&key_of(index, LEFT)));
        },
    );
}

#[test]
fn a_key_of_the_old_leaf_and_of_the_new_one_is_in_the_filter_all_the_time() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let leaf = Entry { page: 1, count: 1, depth: MIN_DEPTH };
        let directory = Arc::new(
            Directory::new(MIN_DEPTH, 1, [leaf.pack(), NO_LEAF.pack()].into_iter(), Runs::none(), u64::MAX).unwrap(),
        );
        let readers = [0, 1].map(|number| {
            let directory = Arc::clone(&directory);
            loom::thread::spawn(move || {
                if number == 0 {
                    // This reader has checked the old leaf.
                    directory.set_verified(0, [kept_bits(LEFT)].into_iter());
                }
                assert!(!directory.lacks(0, LEFT));
            })
        });
        let slots = [LEFT, LEFT_TOO].map(kept_bits);
        directory.set(0, Entry { page: 2, count: 2, ..leaf }, slots.into_iter());
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        assert!(directory.is_verified(0) && !directory.lacks(0, LEFT) && !directory.lacks(0, LEFT_TOO));
    });
}

#[test]
fn a_leaf_that_is_named_has_its_keys_in_the_filter() {
    named();
}

#[test]
#[should_panic]
fn leaves_that_are_named_before_their_keys_are_in_the_filter_are_noticed() {
    plant(Fault::Publish64);
    named();
}

#[test]
fn the_index_is_settled_only_when_it_is_that_of_a_superblock() {
    scenario(reuse, |index| {
        let before = index.settled();
        let keys = [key_of(index, LEFT), key_of(index, LEFT)];
        if before.is_some() && index.settled() == before {
            assert_eq!(keys[0], keys[1]);
        }
    });
}

/// A reader needs an entry whose node's page the writer reuses for a leaf, after reading the node.
fn reused_node() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let words = (0..PAGES * PAGE_BYTES / 8).map(|_| Word::new(0)).collect();
        let file: Arc<dyn File> = Arc::new(ModelFile(Arc::new(Memory(words))));
        let old = Entry { page: 2, count: 1, depth: MIN_DEPTH };
        let node = node::encode(9, 1, 0, 1, 0, &[old.pack(), NO_LEAF.pack()]);
        file.write_at(&node, PAGE_BYTES as u64).unwrap();
        let reader = NodeReader { file: Arc::clone(&file), seed: 9, pages: PAGES as u64, epoch: 1 };
        let nodes = Nodes::new(reader, vec![1], MIN_DEPTH);
        let directory = Directory::read_from(Some(nodes), MIN_DEPTH, 1, Runs::none(), 0).unwrap();
        let directory = Arc::new(directory);
        let reader = Arc::clone(&directory);
        let reader = loom::thread::spawn(move || {
            let found = reader.find(LEFT).map_or(0, |(_, entry)| entry.page);
            assert!((2..=3).contains(&found));
        });
        directory.read_all(Some(1)).unwrap();
        directory.set(0, Entry { page: 3, ..old }, std::iter::empty());
        // As in a flush.
        fence(Ordering::Release);
        file.write_at(&[0xff; PAGE_BYTES], PAGE_BYTES as u64).unwrap();
        reader.join().unwrap();
        assert_eq!(directory.find(LEFT).ok().map(|(_, entry)| entry.page), Some(3));
    });
}

#[test]
fn a_node_that_is_used_again_was_read_before() {
    reused_node();
}

#[test]
#[should_panic]
fn a_reader_of_a_node_without_its_fence_is_noticed() {
    plant(Fault::Fence);
    reused_node();
}

#[test]
#[should_panic]
fn a_reader_without_its_fence_is_noticed() {
    plant(Fault::Fence);
    scenario(reuse, |index| assert!((2..=3).contains(&key_of(index, LEFT))));
}

#[test]
#[should_panic]
fn pages_that_are_named_before_they_are_written_are_noticed() {
    plant(Fault::Publish64);
    scenario(reuse, |index| assert!((2..=3).contains(&key_of(index, LEFT))));
}

#[test]
#[should_panic]
fn a_reader_that_does_not_acquire_is_noticed() {
    plant(Fault::Read64);
    scenario(reuse, |index| assert!((2..=3).contains(&key_of(index, LEFT))));
}
