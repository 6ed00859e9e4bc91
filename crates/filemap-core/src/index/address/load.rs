//! Opens the index that a superblock names. Of the directory only the nodes above the lowest level
//! are read; the rest is read when needed.

use std::sync::Arc;

use filemap_io::File;

use super::directory::Directory;
use super::nodes::{Levels, NodeReader, Nodes};
use super::runs::Runs;
use super::trouble::Trouble;
use super::{Index, Owner};
use crate::error::{Error, Result};
use crate::files::drop_failed_writes;
use crate::format::leaf::{MAX_DEPTH, MIN_DEPTH};
use crate::format::node::{CAPACITY, TABLE_LEVEL};
use crate::format::run::LIST_LEVEL;
use crate::format::superblock::IndexRoot;
use crate::format::{PAGE_BYTES, names};
use crate::limits::Limits;

/// Loads the index of a superblock's `root` and `epoch`. A writer makes an
/// [`IndexWriter`](super::IndexWriter) from it.
///
/// # Errors
/// `Corrupt` if the file is shorter than the root says, or a node page that is read is damaged or
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
    let reader = NodeReader { file: Arc::clone(&file), seed, pages: root.pages, epoch };
    let tree = |page: u32, words: u32, lowest| match page {
        0 => Ok((Vec::new(), Vec::new())),
        page => reader.tree(page, words as usize, lowest).map_err(Trouble::error),
    };
    let (list_levels, list) = tree(root.runs, root.runs_words, LIST_LEVEL)?;
    let (table_levels, table) = tree(root.table, root.table_words, TABLE_LEVEL)?;
    let runs = Runs::decode(&list, root.pages, epoch).map_err(|what| corrupt(u64::from(root.runs), what))?;
    let (levels, directory) = if root.root == 0 {
        (Vec::new(), Directory::empty(epoch, runs, filter_bytes_max)?)
    } else {
        let levels = reader.levels(root.root, 1 << root.depth, 0).map_err(Trouble::error)?;
        let nodes = Nodes::new(reader, levels[0].clone(), root.depth);
        (levels, Directory::read_from(Some(nodes), root.depth, epoch, runs, filter_bytes_max)?)
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
