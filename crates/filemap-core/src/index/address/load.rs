//! Opens the index that a superblock names: reads the node pages, checks that they form a
//! directory, and finds the pages in use.

use std::sync::Arc;

use filemap_io::{Advice, File, files};

use super::directory::Directory;
use super::runs::Runs;
use super::{Index, Owner};
use crate::error::{Error, Result};
use crate::files::drop_failed_writes;
use crate::format::leaf::{CAPACITY as LEAF_CAPACITY, MAX_DEPTH, MIN_DEPTH};
use crate::format::node::{self, CAPACITY, Entry, TABLE_LEVEL};
use crate::format::run::LIST_LEVEL;
use crate::format::superblock::IndexRoot;
use crate::format::{PAGE_BYTES, names};
use crate::limits::Limits;

/// Loads the index of a superblock's `root` and `epoch`. A writer makes an
/// [`IndexWriter`](super::IndexWriter) of it.
///
/// # Errors
/// `Corrupt` when the file is shorter than the root says, or a node page is damaged or
/// inconsistent; `Io`.
pub(crate) fn load(
    file: Arc<dyn File>,
    seed: u32,
    owner: Owner,
    root: IndexRoot,
    epoch: u64,
    limits: &Limits,
) -> Result<Loaded> {
    let corrupt = |page: u64, what: &str| Error::corrupt(names::INDEX, page * PAGE_BYTES as u64, what);
    let len = file.len().map_err(Error::io("measure", names::INDEX))?;
    if len / (PAGE_BYTES as u64) < root.pages || root.pages == 0 {
        return Err(corrupt(len / PAGE_BYTES as u64, "file is shorter than the superblock says"));
    }
    let filter_bytes_max = match owner {
        Owner::Us { filter_bytes_max } => {
            drop_failed_writes(&*file, root.pages * PAGE_BYTES as u64);
            filter_bytes_max
        }
        Owner::Other => 0,
    };
    if !(MIN_DEPTH..=MAX_DEPTH.min(40)).contains(&root.depth) {
        return Err(corrupt(0, "depth of the directory is out of range"));
    }
    if root.root != 0 && 1 << root.depth > root.pages * CAPACITY as u64 {
        return Err(corrupt(0, "directory is larger than the file"));
    }
    let loader = Loader { file: &*file, seed, pages: root.pages, epoch };
    let (list_levels, list) = match root.runs {
        0 => (Vec::new(), Vec::new()),
        page => loader.tree(page, root.runs_words as usize, LIST_LEVEL)?,
    };
    let runs = Runs::decode(&list, root.pages, epoch).map_err(|what| corrupt(u64::from(root.runs), what))?;
    let (levels, directory) = if root.root == 0 {
        (Vec::new(), Directory::empty(epoch, runs, filter_bytes_max))
    } else {
        let (levels, entries) = loader.tree(root.root, 1 << root.depth, 0)?;
        loader.check_entries(root.depth, &entries)?;
        (levels, Directory::new(root.depth, epoch, entries.into_iter(), runs, filter_bytes_max))
    };
    let (table_levels, table) = match root.table {
        0 => (Vec::new(), Vec::new()),
        page => loader.tree(page, root.table_words as usize, TABLE_LEVEL)?,
    };
    let index = Arc::new(Index::new(Arc::clone(&file), seed, owner, directory, root.counted, limits));
    let (table_pages, list_pages) = (table_levels.concat(), list_levels.concat());
    Ok(Loaded { index, levels, table, table_pages, list, list_pages })
}

/// A loaded index.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) index: Arc<Index>,
    /// Page numbers of the directory's nodes.
    pub(crate) levels: Levels,
    /// The words of the segment table.
    pub(crate) table: Vec<u64>,
    /// The pages of the segment table.
    pub(crate) table_pages: Vec<u32>,
    /// The words of the list of runs.
    pub(crate) list: Vec<u64>,
    /// The pages of the list of runs.
    pub(crate) list_pages: Vec<u32>,
}

/// Page numbers of the nodes of each level.
pub(crate) type Levels = Vec<Vec<u32>>;

struct Loader<'a> {
    file: &'a dyn File,
    seed: u32,
    pages: u64,
    epoch: u64,
}

impl Loader<'_> {
    /// Reads a tree of `count` words whose lowest level is numbered `lowest`. Returns the page
    /// numbers of each level's nodes, lowest level first, and the words.
    fn tree(&self, root: u32, count: usize, lowest: u8) -> Result<(Levels, Vec<u64>)> {
        let mut counts = vec![count];
        while counts[counts.len() - 1] > CAPACITY {
            counts.push(counts[counts.len() - 1].div_ceil(CAPACITY));
        }
        let mut levels = vec![vec![root]];
        for level in (1..counts.len()).rev() {
            let nodes = levels.last().map_or(&[][..], |l| l);
            let entries = self.level(usize::from(lowest) + level, nodes, counts[level])?;
            levels.push(entries.iter().map(|&e| e as u32).collect());
        }
        let entries = self.level(usize::from(lowest), levels.last().map_or(&[][..], |l| l), counts[0])?;
        levels.reverse();
        Ok((levels, entries))
    }

    /// Reads the entries of one level from its nodes.
    fn level(&self, level: usize, nodes: &[u32], count: usize) -> Result<Vec<u64>> {
        for &page in nodes {
            self.file.advise(Advice::WillNeed, u64::from(page) * PAGE_BYTES as u64, PAGE_BYTES as u64);
        }
        // Sized by what was read, not by what is claimed: a sparse file can have any length.
        let mut entries = Vec::with_capacity(count.min(nodes.len() * CAPACITY));
        for &page in nodes {
            let offset = u64::from(page) * PAGE_BYTES as u64;
            let corrupt = |what: &str| Error::corrupt(names::INDEX, offset, what);
            if page == 0 || u64::from(page) >= self.pages {
                return Err(corrupt("node page number is out of range"));
            }
            let bytes = files::read(self.file, names::INDEX, offset, PAGE_BYTES)?;
            let node = node::decode(self.seed, page, &bytes).map_err(corrupt)?;
            let want = CAPACITY.min(count - entries.len().min(count));
            if usize::from(node.level) != level || node.first != entries.len() as u64 || node.entries.len() != want {
                return Err(corrupt("node page is not the one that its parent names"));
            }
            if node.epoch > self.epoch {
                return Err(corrupt("node page is newer than the superblock"));
            }
            entries.extend(node.entries);
        }
        Ok(entries)
    }

    /// Checks that each leaf's run is aligned, whole and uniform, and its page within the file.
    fn check_entries(&self, depth: u8, entries: &[u64]) -> Result<()> {
        let mut at = 0;
        while at < entries.len() {
            let entry = Entry::unpack(entries[at]);
            let bad = |what: &str| {
                let what = format!("directory entry {at}: {what}");
                Err(Error::corrupt(names::INDEX, u64::from(entry.page) * PAGE_BYTES as u64, what))
            };
            if entry.pack() != entries[at] || usize::from(entry.count) > LEAF_CAPACITY {
                return bad("reserved bits are set, or its count is too large");
            }
            if !(MIN_DEPTH..=depth).contains(&entry.depth) {
                return bad("depth is out of range");
            }
            if u64::from(entry.page) >= self.pages || (entry.page == 0) != (entry.count == 0) {
                return bad("page is out of range");
            }
            let run = 1 << (depth - entry.depth);
            if at % run != 0 || entries[at..(at + run).min(entries.len())].iter().any(|&e| e != entries[at]) {
                return bad("run is not whole");
            }
            at += run;
        }
        Ok(())
    }
}
