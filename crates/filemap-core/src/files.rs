//! Opening of files of any kind: header checks, and dropping what a failed write may have left in
//! the page cache.

use filemap_io::{Access, Advice, File, files};

use crate::error::{Error, Result, StorageError};
use crate::format::FORMAT_VERSION;
use crate::format::header::{self, FileHeader, Kind};

/// Checks that this program knows a format version well enough for `access`.
///
/// # Errors
/// `NewerFormat`.
pub(crate) fn check_versions(file: &str, read: u16, write: u16, access: Access) -> Result<()> {
    let found = if access == Access::Read { read } else { read.max(write) };
    if found > FORMAT_VERSION {
        return Err(Error::Storage(StorageError::NewerFormat { file: file.into(), found, supported: FORMAT_VERSION }));
    }
    Ok(())
}

/// Reads and checks the header of a file opened for `access`.
///
/// # Errors
/// `Corrupt` if it is damaged, of another kind or of another store; `NewerFormat`.
pub(crate) fn check_header(
    file: &dyn File,
    name: &str,
    kind: Kind,
    store_id: &[u8; 16],
    access: Access,
) -> Result<FileHeader> {
    let bytes = files::read(file, name, 0, header::BYTES)?;
    let header = FileHeader::decode(&bytes).map_err(|what| Error::corrupt(name, 0, what))?;
    check_versions(name, header.read_version, header.write_version, access)?;
    if header.kind != kind {
        return Err(Error::corrupt(name, 0, "it is a file of another kind"));
    }
    if header.store_id != *store_id {
        return Err(Error::corrupt(name, 0, "it belongs to another store"));
    }
    Ok(header)
}

/// Drops cached pages from an offset on, before anything is written there. The offset is the end
/// of what the last superblock names.
///
/// After a write that the device failed, the cached page counts as clean. ext4 leaves its new
/// blocks marked as unwritten and does not correct that when the same cached page is written and
/// synced again: that sync succeeds, and after the next mount the blocks are zeros. After the page
/// is dropped, a new write behaves normally.
pub(crate) fn drop_failed_writes(file: &dyn File, from: u64) {
    file.advise(Advice::DropCache, from, 0);
}
