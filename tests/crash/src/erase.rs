//! Erases a key on the simulated disk. Afterwards no file holds its bodies, whatever was
//! interrupted.

use std::ops::ControlFlow;
use std::sync::Arc;

use filemap_core::Store;
use filemap_core::erase::{Erased, Erasure, Search};
use filemap_io::sim::SimDisk;

use crate::trouble::Trouble;

/// An erasure of all versions of a key.
pub fn of(key: &[u8]) -> Erasure {
    let own = key.to_vec();
    Erasure { keys: Arc::new(move |found| found == own), versions: Arc::new(|_, _| true), groups: Arc::new(|_| true) }
}

/// Erases a key; what was done.
///
/// # Errors
/// What the store returned.
pub fn erase(store: &Store, key: &[u8]) -> Result<Erased, Trouble> {
    Ok(store.erase(&of(key), &mut |_| ControlFlow::Continue(()))?)
}

/// Looks for texts of an erased key in all files: as they lie on the disk, and as the store
/// expands them.
///
/// # Errors
/// Says what was found, and where.
pub fn check(disk: &SimDisk, store: &Store, key: &[u8], texts: &[Vec<u8>]) -> Result<(), Trouble> {
    nowhere(disk, texts)?;
    let mut mentioned = 0;
    let searched = store.search(Search {
        texts,
        what: &of(key),
        tombstones_too: true,
        mention: &mut |_, _| mentioned += 1,
        progress: &mut |_| ControlFlow::Continue(()),
    })?;
    match searched.left.first() {
        Some(left) => Err(Trouble::Wrong(format!("after an erasure: {} at {}: {}", left.file, left.offset, left.what))),
        None if mentioned > 0 => Err(Trouble::Wrong(format!("{mentioned} records have text of what was erased"))),
        None => Ok(()),
    }
}

/// As the files lie.
///
/// # Errors
/// Says what was found, and where.
pub fn nowhere(disk: &SimDisk, texts: &[Vec<u8>]) -> Result<(), Trouble> {
    for name in disk.names() {
        let bytes = disk.bytes(&name).unwrap_or_default();
        if let Some(at) = texts.iter().find_map(|text| memchr::memmem::find(&bytes, text)) {
            return Err(Trouble::Wrong(format!("after an erasure: {name} has text of it at {at}")));
        }
    }
    Ok(())
}
