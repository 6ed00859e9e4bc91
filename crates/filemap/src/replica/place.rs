//! The place in the other store's history that a replica has reached, in a file in its folder. The
//! file also holds the replica's place in its own history at that time, which shows later whether
//! it has lost versions since.

use filemap_core::StorageError;
use filemap_io::{Access, Dir, File, OsDir, files};

use crate::error::{Error, Result};
use crate::names::{FOLLOWS, NEW_FOLLOWS};
use crate::store::{ChangesPlace, PageStore};

/// Maximum length of a place in bytes; it may hold a key of a list.
const MAX_PLACE_BYTES: u64 = 256 << 10;

/// The place in the other store's history that a replica has saved; `None` if it has not begun. If
/// the replica has lost versions since (by a repair, or because an older copy replaced it), the
/// beginning of a list.
///
/// # Errors
///
/// [`Error::Cursor`] if the file holds no valid place; `Io`.
pub fn noted_place(store: &PageStore) -> Result<Option<ChangesPlace>> {
    let dir = folder(store)?;
    let read = |file: &dyn File| {
        let bytes = file.len().map_err(StorageError::io("measure", FOLLOWS))?;
        files::read(file, FOLLOWS, 0, usize::try_from(bytes.min(MAX_PLACE_BYTES)).unwrap_or_default())
    };
    let text = match dir.open(FOLLOWS, Access::Read) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(StorageError::io("open", FOLLOWS)).and_then(|file| read(&*file)),
    };
    let text = text.map_err(|error| Error::Engine(error.into()))?;
    let text = String::from_utf8_lossy(&text);
    let (own, place) = text.trim().split_once('\n').ok_or(Error::Cursor { what: "the file FOLLOWS holds no place" })?;
    let has_all = store.engine().has_come_from(own.parse()?)?;
    let place: ChangesPlace = place.parse()?;
    Ok(Some(if has_all { place } else { place.beginning() }))
}

/// Returns whether a store has ever saved a place, of any store.
///
/// # Errors
///
/// `Io`.
pub fn is_replica(store: &PageStore) -> Result<bool> {
    files::exists(&folder(store)?, FOLLOWS).map_err(|error| Error::Engine(error.into()))
}

/// Deletes the saved place: the store is no longer a replica.
///
/// # Errors
///
/// `Io`.
pub fn forget_place(store: &PageStore) -> Result<()> {
    files::remove(&folder(store)?, FOLLOWS).map_err(|error| Error::Engine(error.into()))
}

/// Saves the place that a replica has reached, durably. The changes before it must be durable:
/// sync first.
///
/// # Errors
///
/// `Io`.
pub fn note_place(store: &PageStore, place: &ChangesPlace) -> Result<()> {
    let dir = folder(store)?;
    let text = format!("{}\n{place}\n", store.engine().changes_end()?);
    // A killed process may have left a temporary file.
    files::remove(&dir, NEW_FOLLOWS).map_err(|error| Error::Engine(error.into()))?;
    files::replace(&dir, FOLLOWS, NEW_FOLLOWS, |file| files::write(file, NEW_FOLLOWS, text.as_bytes(), 0))
        .map_err(|error: StorageError| Error::Engine(error.into()))
}

fn folder(store: &PageStore) -> Result<OsDir> {
    let path = store.engine().path();
    let shown = path.display().to_string();
    OsDir::open(path).map_err(StorageError::io("open", &shown)).map_err(|error| Error::Engine(error.into()))
}
