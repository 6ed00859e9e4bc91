//! Reads node pages: the words of a tree, or the directory's entries as they are needed.

use std::sync::Arc;

use filemap_io::{Advice, File, files};

use super::trouble::{Damage, Trouble};
use crate::error::Error;
use crate::format::leaf::{CAPACITY as LEAF_CAPACITY, MIN_DEPTH};
use crate::format::node::{self, CAPACITY, Entry};
use crate::format::{Flaw, PAGE_BYTES, names};

/// Nodes at most this many pages apart are requested together.
const NEAR: u32 = 4;
/// Most pages of one request: of a longer one the kernel reads no more than the read-ahead or the
/// largest request of the device, often 32 pages, and drops the rest.
const MOST_AHEAD: u32 = 32;

/// Page numbers of the nodes of each level, lowest level first.
pub(crate) type Levels = Vec<Vec<u32>>;

type Read<T> = std::result::Result<T, Trouble>;

/// Reads the nodes that one superblock names.
#[derive(Clone, Debug)]
pub(super) struct NodeReader {
    pub(super) file: Arc<dyn File>,
    pub(super) seed: u32,
    /// Pages of the file.
    pub(super) pages: u64,
    /// Epoch of the superblock: no node is newer.
    pub(super) epoch: u64,
}

impl NodeReader {
    /// Reads a tree of `count` words whose lowest level is numbered `lowest`. Returns the page
    /// numbers of each level's nodes and the words.
    pub(super) fn tree(&self, root: u32, count: usize, lowest: u8) -> Read<(Levels, Vec<u64>)> {
        let levels = self.levels(root, count, lowest)?;
        let words = self.level(lowest, &levels[0], count)?;
        Ok((levels, words))
    }

    /// The page numbers of each level's nodes of a tree. Reads all nodes except those of the
    /// lowest level.
    pub(super) fn levels(&self, root: u32, count: usize, lowest: u8) -> Read<Levels> {
        let mut counts = vec![count];
        while counts[counts.len() - 1] > CAPACITY {
            counts.push(counts[counts.len() - 1].div_ceil(CAPACITY));
        }
        let mut levels = vec![vec![root]];
        for level in (1..counts.len()).rev() {
            let nodes = levels.last().map_or(&[][..], |l| l);
            let entries = self.level(lowest + level as u8, nodes, counts[level])?;
            levels.push(entries.iter().map(|&e| e as u32).collect());
        }
        levels.reverse();
        Ok(levels)
    }

    /// Reads the entries of one level from its nodes.
    fn level(&self, level: u8, nodes: &[u32], count: usize) -> Read<Vec<u64>> {
        self.will_need(nodes);
        // Sized by what was read, not by the claimed count: a sparse file can have any length.
        let mut entries = Vec::with_capacity(count.min(nodes.len() * CAPACITY));
        for &page in nodes {
            let want = CAPACITY.min(count - entries.len().min(count));
            entries.extend(self.node(level, page, entries.len() as u64, want)?);
        }
        Ok(entries)
    }

    /// Prefetches nodes, with what lies between those that are near to each other: a checkpoint
    /// writes its nodes to the lowest free pages.
    fn will_need(&self, nodes: &[u32]) {
        let mut pages = nodes.to_vec();
        pages.sort_unstable();
        for mut near in pages.chunk_by(|a, b| b - a <= NEAR) {
            while let [first, ..] = near {
                let (now, later) = near.split_at(near.partition_point(|page| page - first < MOST_AHEAD));
                let bytes = u64::from(now[now.len() - 1] - first + 1) * PAGE_BYTES as u64;
                self.file.advise(Advice::WillNeed, u64::from(*first) * PAGE_BYTES as u64, bytes);
                near = later;
            }
        }
    }

    /// Reads the `count` entries from `first` on of a level, a whole node.
    fn node(&self, level: u8, page: u32, first: u64, count: usize) -> Read<Vec<u64>> {
        let damage = |what| Trouble::Damage(Damage { page, what });
        if page == 0 || u64::from(page) >= self.pages {
            return Err(damage("node page number is out of range"));
        }
        let bytes = files::read(&*self.file, names::INDEX, u64::from(page) * PAGE_BYTES as u64, PAGE_BYTES);
        let node = node::decode(self.seed, page, &bytes.map_err(Error::from)?).map_err(damage)?;
        if node.level != level || node.first != first || node.entries.len() != count {
            return Err(damage("node page is not the one that its parent names"));
        }
        if node.epoch > self.epoch {
            return Err(damage("node page is newer than the superblock"));
        }
        Ok(node.entries)
    }
}

/// The nodes that hold the entries of a directory.
#[derive(Debug)]
pub(super) struct Nodes {
    reader: NodeReader,
    numbers: Vec<u32>,
    depth: u8,
}

impl Nodes {
    /// The nodes of a directory with this depth.
    pub(super) fn new(reader: NodeReader, numbers: Vec<u32>, depth: u8) -> Nodes {
        Nodes { reader, numbers, depth }
    }

    /// Reads the node that holds an entry. Returns the index of its first entry, and all its
    /// entries.
    pub(super) fn with_entry(&self, at: usize) -> Read<(usize, Vec<u64>)> {
        let (nth, count) = (at / CAPACITY, 1 << self.depth);
        let first = nth * CAPACITY;
        // There are as many nodes as the depth requires.
        let page = self.numbers.get(nth).copied().unwrap_or(0);
        let entries = self.reader.node(0, page, first as u64, CAPACITY.min(count - first))?;
        match check_entries(self.depth, self.reader.pages, first, &entries) {
            Ok(()) => Ok((first, entries)),
            Err(what) => Err(Trouble::Damage(Damage { page, what })),
        }
    }

    /// Prefetches all nodes without waiting.
    pub(super) fn will_need(&self) {
        self.reader.will_need(&self.numbers);
    }

    /// Pages of the file.
    pub(super) fn pages(&self) -> u64 {
        self.reader.pages
    }
}

/// Checks directory entries, the first of which has index `first`: each leaf's run is aligned, is
/// complete as far as it lies in them, and names a page within the file.
pub(super) fn check_entries(depth: u8, pages: u64, first: usize, entries: &[u64]) -> std::result::Result<(), Flaw> {
    let mut at = 0;
    while at < entries.len() {
        let entry = Entry::unpack(entries[at]);
        if entry.pack() != entries[at] || usize::from(entry.count) > LEAF_CAPACITY {
            return Err("a directory entry has reserved bits, or too large a count");
        }
        if !(MIN_DEPTH..=depth).contains(&entry.depth) {
            return Err("the depth of a directory entry is out of range");
        }
        if u64::from(entry.page) >= pages || (entry.page == 0) != (entry.count == 0) {
            return Err("the page of a directory entry is out of range");
        }
        let run = 1 << (depth - entry.depth);
        // The run of the first entry may have begun before.
        let begins_before = at == 0 && first != 0;
        let end = ((first + at) / run + 1) * run - first;
        if !(first + at).is_multiple_of(run) && !begins_before
            || entries[at..end.min(entries.len())].iter().any(|&e| e != entries[at])
        {
            return Err("the run of a directory entry is not whole");
        }
        at = end;
    }
    Ok(())
}
