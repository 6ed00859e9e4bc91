//! The directory's nodes, read when their entries are needed.

use std::io;
use std::ops::Range;
use std::sync::Mutex;

use filemap_io::{Advice, Map};

use super::*;
use crate::format::node;
use crate::index::address::nodes::{NodeReader, Nodes};

const KEYS: u64 = 12_000;

/// Leaves of few slots, so that there are many leaves.
fn limits() -> Limits {
    Limits { leaf_slots: 2, ..Limits::default() }
}

fn open(file: &Arc<dyn File>, root: IndexRoot, epoch: u64) -> (Arc<Index>, IndexWriter) {
    let loaded = load(Arc::clone(file), SEED, US, root, epoch, &limits()).unwrap();
    let index = Arc::clone(&loaded.index);
    (index, IndexWriter::new(loaded, root, epoch + 1, limits()))
}

/// A file that records the pages read, except mapped ones, and the pages requested ahead.
#[derive(Debug)]
pub(super) struct Noting {
    file: Arc<dyn File>,
    read: Mutex<Vec<u64>>,
    pub(super) asked: Mutex<Vec<Range<u64>>>,
}

impl Noting {
    pub(super) fn of(file: Arc<dyn File>) -> Noting {
        Noting { file, read: Mutex::default(), asked: Mutex::default() }
    }
}

impl File for Noting {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read.lock().unwrap().push(offset / PAGE_BYTES as u64);
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(data, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        self.file.allocated_bytes()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn advise(&self, advice: Advice, offset: u64, len: u64) {
        if advice == Advice::WillNeed {
            let first = offset / PAGE_BYTES as u64;
            self.asked.lock().unwrap().push(first..first + len / PAGE_BYTES as u64);
        }
        self.file.advise(advice, offset, len);
    }

    fn map(&self, offset: u64, len: usize) -> io::Result<Arc<dyn Map>> {
        self.file.map(offset, len)
    }
}

/// An index with many nodes, and its root.
fn large() -> (tempfile::TempDir, Arc<dyn File>, IndexRoot, u64) {
    let (temp, file) = file();
    let (_, mut writer) = open(&file, IndexRoot::empty(), 1);
    let batch = (1..=KEYS).map(|i| (hash(i), i)).collect();
    let mut durable = (IndexRoot::empty(), 0);
    apply(&mut writer, &batch, &mut |root, epoch| durable = (root, epoch));
    (temp, file, durable.0, durable.1)
}

/// The page of the node that holds the entry of a hash.
fn node_of(file: &Arc<dyn File>, root: IndexRoot, hash: u64) -> u32 {
    let nth = (hash >> (64 - root.depth)) as usize / node::CAPACITY;
    open(file, root, 1 << 40).1.levels[0][nth]
}

#[test]
fn opening_reads_no_node_of_the_lowest_level_and_a_look_up_one() {
    let (_temp, file, root, epoch) = large();
    let (_, writer) = open(&file, root, epoch);
    assert!(writer.levels[0].len() > 8 && writer.levels.len() > 1);
    let noting = Arc::new(Noting::of(Arc::clone(&file)));
    let file: Arc<dyn File> = noting.clone();
    for owner in [US, Owner::Other] {
        noting.read.lock().unwrap().clear();
        let index = load(Arc::clone(&file), SEED, owner, root, epoch, &limits()).unwrap().index;
        let low: Vec<u64> = writer.levels[0].iter().map(|&page| u64::from(page)).collect();
        assert!(!noting.read.lock().unwrap().iter().any(|page| low.contains(page)));
        for _ in 0..2 {
            assert!(
                matches!(index.lookup(hash(7), &mut LastLeaf::default()), Ok(Lookup::Found(c)) if c.iter().count() == 1)
            );
            assert_eq!(noting.read.lock().unwrap().iter().filter(|page| low.contains(page)).count(), 1);
        }
    }
}

#[test]
fn a_damaged_node_is_an_error_for_its_own_keys_and_for_every_change() {
    let (_temp, file, root, epoch) = large();
    let page = node_of(&file, root, hash(7));
    file.write_at(&[0xff; 8], u64::from(page) * PAGE_BYTES as u64 + 2048).unwrap();
    let (index, mut writer) = open(&file, root, epoch);
    let place = format!("offset {}", u64::from(page) * PAGE_BYTES as u64);
    let mut bad = 0;
    for i in 1..=KEYS {
        match index.lookup(hash(i), &mut LastLeaf::default()) {
            Ok(Lookup::Found(found)) => assert_eq!(found.iter().next(), Some(&slot(hash(i), i))),
            Ok(Lookup::Stale(_)) => panic!("the index is ours"),
            Err(e) => {
                assert!(e.is_corrupt() && e.to_string().contains(&place), "{e}");
                bad += 1;
            }
        }
    }
    assert!((1..KEYS / 2).contains(&bad), "{bad}");
    // A check reports it once and checks everything else.
    let (mut pages, mut keys) = (Vec::new(), 0);
    let slots = &mut |found: &[Slot]| {
        keys += found.len() as u64;
        Ok(())
    };
    index.check(&mut || Ok(()), slots, &mut |page, _| pages.push(page)).unwrap();
    assert_eq!(pages, [page]);
    assert!(keys > KEYS / 2 && keys < KEYS, "{keys}");
    // Nothing is written, since the free pages are not known.
    let len = file.len().unwrap();
    let old = writer.leaf((0..).map(hash).find(|h| index.directory.load().find(*h).is_ok()).unwrap()).unwrap();
    let failed = writer.replace(&old, &[]).and_then(|()| writer.flush());
    assert!(failed.is_err_and(|e| e.is_corrupt() && e.to_string().contains(&place)));
    assert_eq!(file.len().unwrap(), len);
}

#[test]
fn a_follower_that_meets_a_node_which_was_used_again_is_stale() {
    let (_temp, file, root, epoch) = large();
    let (_, mut writer) = open(&file, root, epoch);
    let index = load(Arc::clone(&file), SEED, Owner::Other, root, epoch, &limits()).unwrap().index;
    for round in 1..4 {
        let batch = (1..=KEYS).step_by(97).map(|i| (hash(i), i + round)).collect();
        apply(&mut writer, &batch, &mut |_, _| {});
    }
    let stale = (1..=KEYS).filter(|i| match index.lookup(hash(*i), &mut LastLeaf::default()) {
        Ok(Lookup::Stale(_)) => true,
        Ok(Lookup::Found(found)) => {
            assert_eq!(found.iter().next(), Some(&slot(hash(*i), *i)));
            false
        }
        Err(e) => panic!("{e}"),
    });
    assert!(stale.count() > 0);
}

#[test]
fn nodes_near_to_each_other_are_requested_together_but_never_more_than_the_kernel_reads() {
    let (_temp, file) = file();
    let requests = Arc::new(Noting::of(file));
    let asked = |numbers: Vec<u32>| {
        let reader = NodeReader { file: requests.clone(), seed: SEED, pages: 1000, epoch: 1 };
        Nodes::new(reader, numbers, 0).will_need();
        std::mem::take(&mut *requests.asked.lock().unwrap())
    };
    assert!(asked(Vec::new()).is_empty());
    assert_eq!(asked(vec![9, 3, 7, 20]), [3..10, 20..21]);
    assert_eq!(asked((100..180).rev().collect()), [100..132, 132..164, 164..180]);
    assert_eq!(asked((100..180).step_by(4).collect()), [100..129, 132..161, 164..177]);
}
