//! The files of a crawl's folder: their names, built and parsed only here, and atomic replacement.
//! Each submodule handles one kind of file.
//!
//! A new version is written under the name plus `.new`, and renamed: a crash leaves the old or the
//! new version.

pub mod bodies;
pub mod depot;
pub mod seen;
pub mod sequence;
pub mod sitemaps;
pub mod warc;
pub mod watched;

use std::path::{Path, PathBuf};

use filemap_io::files::{self, Replacement};
use filemap_io::{Dir, OsDir, StorageError};

use crate::error::Error;

/// The settings.
pub const SETTINGS: &str = "crawl.json";
/// Start pages from lists, one a line.
pub const SEEDS: &str = "seeds";
/// The counts of the run, for `status`.
pub const STATUS: &str = "status.json";
/// The same counts for collectors, as OpenMetrics text.
pub const METRICS: &str = "metrics.prom";
/// The store's sequence at the last commit.
pub const SEQUENCE: &str = "store-sequence";
/// The control socket of a running crawl.
pub const CONTROL: &str = "control.sock";
/// The name of the run that has the shard, if the files are kept in one.
pub(crate) const OWNER: &str = "owner";
/// The frontier's folder.
pub const FRONTIER: &str = "frontier";
/// The seen set.
pub const SEEN: &str = "seen";
/// The folder of links to other crawls' shards.
pub const OUTBOX: &str = "outbox";
/// The sitemaps named by robots.txt files and indexes.
pub const SITEMAPS: &str = "sitemaps";
/// The number of frontier pages certainly in the seen set.
pub const SEEN_NOTE: &str = "seen-pages";
/// The content-seen set.
pub const BODIES: &str = "bodies";
/// The store of URLs that hold a body.
pub const HOLDERS: &str = "holders.fm";

/// The holders' store in an unfinished backup.
pub(crate) const HOLDERS_PARTIAL: &str = "holders.fm.partial";
/// The lock of a run on a folder whose files are kept in a shard.
pub(crate) const DEPOT_LOCK: &str = "depot.lock";
/// The frontier's snapshot.
pub(crate) const FRONTIER_SNAPSHOT: &str = "frontier/frontier.snapshot";

/// The folder of the crawl into this store.
pub(crate) fn folder_of(store: &Path) -> PathBuf {
    let mut name = store.components().collect::<PathBuf>().into_os_string();
    name.push(".crawl");
    PathBuf::from(name)
}

/// The path of an unfinished backup.
pub(crate) fn partial(backup: &Path) -> PathBuf {
    PathBuf::from(format!("{}.partial", backup.display()))
}

/// The name of an unfinished file.
pub fn unfinished(name: &str) -> String {
    format!("{name}.new")
}

/// The kind of a file in the frontier's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrontierFile {
    /// Grows until the next snapshot.
    Journal,
    /// Never written again.
    Run,
    /// The snapshot, or a file that it names.
    OfSnapshot,
}

/// The kind of a file in the frontier's folder; `None` if it is not kept.
pub(crate) fn frontier_file(name: &str) -> Option<FrontierFile> {
    match name.strip_prefix("frontier.")?.rsplit('.').next()? {
        "journal" => Some(FrontierFile::Journal),
        "run" => Some(FrontierFile::Run),
        "snapshot" | "urls" | "links" | "pages" => Some(FrontierFile::OfSnapshot),
        _ => None,
    }
}

/// Returns whether a file in the outbox's folder contains links.
pub(crate) fn is_of_outbox(name: &str) -> bool {
    name.ends_with(".mail")
}

/// Returns whether a file belongs to the seen set beside its main file.
pub(crate) fn is_beside_seen(name: &str) -> bool {
    name.strip_prefix(SEEN).is_some_and(|rest| rest.starts_with('.'))
}

/// The name of a WARC file of a series, from its store's name.
pub(crate) fn warc_file(stem: &str, number: u32) -> String {
    format!("{stem}-{number:05}.warc.gz")
}

/// The name of an unfinished WARC file of a series.
pub(crate) fn open_warc_file(stem: &str, number: u32) -> String {
    format!("{}.open", warc_file(stem, number))
}

/// The number of a WARC file of a series, finished or not; `None` for any other file.
pub(crate) fn warc_number(stem: &str, name: &str) -> Option<u32> {
    let rest = name.strip_prefix(stem)?.strip_prefix('-')?;
    rest.strip_suffix(".open").unwrap_or(rest).strip_suffix(".warc.gz")?.parse().ok()
}

/// The progress note of a series of WARC files.
pub(crate) fn warc_note(stem: &str) -> String {
    format!("{stem}.place")
}

/// The lock of a series of WARC files.
pub(crate) fn warc_lock(stem: &str) -> String {
    format!("{stem}.lock")
}

/// Replaces a file, durably and atomically.
///
/// # Errors
/// I/O errors.
pub fn replace(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), Error> {
    replacing(folder, name, bytes, |replacement| {
        replacement.sync()?;
        replacement.commit()
    })
}

/// Replaces a file atomically. A power failure may lose it.
///
/// # Errors
/// I/O errors.
pub fn publish(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), Error> {
    replacing(folder, name, bytes, |replacement| replacement.rename())
}

fn replacing(
    folder: &Path,
    name: &str,
    bytes: &[u8],
    finish: impl FnOnce(Replacement<'_>) -> Result<(), StorageError>,
) -> Result<(), Error> {
    let dir = OsDir::open(folder).map_err(|error| Error::io("open", folder, error))?;
    let new = unfinished(name);
    let replaced = begin(&dir, name, &new).and_then(|replacement| {
        replacement.file().write_at(bytes, 0).map_err(StorageError::io("write", &new))?;
        finish(replacement)
    });
    replaced.map_err(|error| Error::files(folder, error))
}

/// Begins a replacement; overwrites what a crash left of an earlier one.
fn begin<'a>(dir: &'a dyn Dir, name: &'a str, new: &'a str) -> Result<Replacement<'a>, StorageError> {
    files::remove(dir, new)?;
    Replacement::begin(dir, name, new)
}
