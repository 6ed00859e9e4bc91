//! Files of a frontier: the only place that builds and parses their names; their creation, opening
//! and replacement.

use std::path::Path;
use std::sync::Arc;

use filemap_io::files::{self, Replacement, remove};
use filemap_io::header::Kind;
use filemap_io::{Access, Advice, Dir, File, OsDir};

use crate::error::{Error, Result};
use crate::failpoint::{Failpoint, planted};
use crate::format::{header, read_header};

/// The writer's lock.
pub(crate) const LOCK: &str = "frontier.lock";
/// State at the start of a journal.
pub(crate) const SNAPSHOT: &str = "frontier.snapshot";
/// The snapshot while it is being written.
const NEW_SNAPSHOT: &str = "frontier.snapshot.new";
/// A row for each page.
pub(crate) const PAGES: &str = "frontier.pages";
/// URL texts.
pub(crate) const URLS: &str = "frontier.urls";

/// The directory of a frontier.
///
/// # Errors
/// `Io`.
pub(crate) fn folder(path: &Path) -> Result<Arc<dyn Dir>> {
    Ok(Arc::new(OsDir::open(path).map_err(Error::io("open", &path.display().to_string()))?))
}

/// Name of a journal.
pub(crate) fn journal(number: u64) -> String {
    format!("frontier.{number}.journal")
}

/// Name of a file of links.
pub(crate) fn links(number: u64) -> String {
    format!("frontier.{number}.links")
}

/// Name of a run of the index.
pub(crate) fn run(number: u64) -> String {
    filemap_runs::file_name("frontier", number)
}

/// Returns whether a file is a journal, a file of links or a run.
fn is_numbered(file: &str) -> bool {
    let number = file.strip_prefix("frontier.").and_then(|rest| rest.split('.').next()?.parse().ok());
    number.is_some_and(|number| [journal(number), links(number), run(number)].iter().any(|name| name == file))
}

/// Returns whether a file belongs to a frontier, other than the snapshot and the lock.
pub(crate) fn is_part(file: &str) -> bool {
    [PAGES, URLS].contains(&file) || is_numbered(file)
}

/// Replaces the snapshot; removes the rest of an interrupted replacement first.
///
/// # Errors
/// `Io`: the old snapshot is still in place, unless the last sync failed.
pub(crate) fn replace_snapshot(dir: &dyn Dir, write: impl FnOnce(&dyn File, &str) -> Result<()>) -> Result<()> {
    remove_unfinished(dir)?;
    let new = Replacement::begin(dir, SNAPSHOT, NEW_SNAPSHOT)?;
    write(new.file(), NEW_SNAPSHOT)?;
    if !planted(Failpoint::SnapshotNotSynced) {
        new.sync()?;
    }
    Ok(new.commit()?)
}

/// Removes the rest of an interrupted replacement of the snapshot.
///
/// # Errors
/// `Io`.
pub(crate) fn remove_unfinished(dir: &dyn Dir) -> Result<()> {
    Ok(remove(dir, NEW_SNAPSHOT)?)
}

/// Removes all journals, files of links and runs except those named.
///
/// # Errors
/// `Io`.
pub(crate) fn remove_others(dir: &dyn Dir, kept: &[&str]) -> Result<()> {
    for name in dir.list().map_err(Error::io("list", "the directory"))? {
        if is_numbered(&name) && !kept.contains(&&name[..]) {
            remove(dir, &name)?;
        }
    }
    Ok(())
}

/// Creates a file with its header, replacing an older file of that name. Its contents are durable,
/// its name is not yet.
///
/// # Errors
/// `Io`.
pub(crate) fn create(dir: &dyn Dir, name: &str, kind: Kind, id: [u8; 16], number: u64) -> Result<Arc<dyn File>> {
    remove(dir, name)?;
    let file = dir.open(name, Access::Create).map_err(Error::io("create", name))?;
    files::write(&*file, name, &header(kind, id, number), 0)?;
    file.sync().map_err(Error::io("sync", name))?;
    Ok(file)
}

/// Opens a file that the snapshot names, for writing.
///
/// # Errors
/// `Corrupt` if it is missing or has another frontier's id; `NewerFormat`; `Io`.
pub(crate) fn open(dir: &dyn Dir, name: &str, kind: Kind, id: [u8; 16], number: u64) -> Result<Arc<dyn File>> {
    let file = dir.open(name, Access::Write).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::corrupt(name, 0, "the file is missing"),
        _ => Error::io("open", name)(error),
    })?;
    // After a failed sync the page cache may hold what the device does not: reread from the
    // device.
    file.sync().map_err(Error::io("sync", name))?;
    file.advise(Advice::DropCache, 0, 0);
    match read_header(&*file, name, kind)? == (id, number) {
        true => Ok(file),
        false => Err(Error::corrupt(name, 16, "the file belongs to another frontier")),
    }
}

/// Cuts a file to the length in the snapshot.
///
/// # Errors
/// `Corrupt` if it is shorter; `Io`.
pub(crate) fn cut(file: &dyn File, name: &str, bytes: u64) -> Result<()> {
    let len = file.len().map_err(Error::io("length", name))?;
    if len < bytes {
        let what = format!("the file ends {} bytes too early", bytes - len);
        return Err(Error::corrupt(name, len, what));
    }
    file.set_len(bytes).map_err(Error::io("set length", name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_files_are_known_by_their_names() {
        assert!(
            ["frontier.1.links", "frontier.120.journal", "frontier.000007.run", "frontier.1000000.run"]
                .iter()
                .all(|name| is_numbered(name))
        );
        let others = [
            "frontier..links",
            "frontier.links",
            "frontier.01.journal",
            "frontier.x.links",
            "other.1.links",
            "frontier.7.run",
        ];
        assert!(others.iter().all(|name| !is_numbered(name)));
    }
}
