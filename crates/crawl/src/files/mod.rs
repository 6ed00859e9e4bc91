//! The files of a crawl's folder: their names, how one is replaced, and what each one keeps.
//!
//! A file is written under its name with `.new` appended, and renamed: a crash leaves the old one
//! or the new one.

pub mod bodies;
pub mod depot;
pub mod seen;
pub mod sequence;
pub mod sitemaps;
pub mod warc;
pub mod watched;

use std::path::Path;

use filemap_io::files::{self, Replacement};
use filemap_io::{Dir, OsDir, StorageError};

use crate::error::Error;

/// The settings.
pub const SETTINGS: &str = "crawl.json";
/// The start pages of lists, a line each.
pub const SEEDS: &str = "seeds";
/// The numbers of the run, for `status`.
pub const STATUS: &str = "status.json";
/// The same for collectors, as OpenMetrics text.
pub const METRICS: &str = "metrics.prom";
/// The store's sequence at the last commit.
pub const SEQUENCE: &str = "store-sequence";
/// The control socket of a running crawl.
pub const CONTROL: &str = "control.sock";
/// The frontier's folder.
pub const FRONTIER: &str = "frontier";
/// The set of discovered URLs.
pub const SEEN: &str = "seen";
/// The folder of links to shards of others.
pub const OUTBOX: &str = "outbox";
/// The sitemaps that robots.txt files and indexes name.
pub const SITEMAPS: &str = "sitemaps";
/// How many of the frontier's pages that set has for sure.
pub const SEEN_NOTE: &str = "seen-pages";
/// The set of bodies.
pub const BODIES: &str = "bodies";
/// The store of the URLs that hold a body.
pub const HOLDERS: &str = "holders.fm";

/// The name of a file until it is complete.
pub fn unfinished(name: &str) -> String {
    format!("{name}.new")
}

/// Replaces a file, durably and atomically.
///
/// # Errors
/// The system's.
pub fn replace(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), Error> {
    replacing(folder, name, bytes, |replacement| {
        replacement.sync()?;
        replacement.commit()
    })
}

/// Replaces a file atomically. A power failure may lose it.
///
/// # Errors
/// The system's.
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

/// Begins a replacement, over what a crash left of an earlier one.
fn begin<'a>(dir: &'a dyn Dir, name: &'a str, new: &'a str) -> Result<Replacement<'a>, StorageError> {
    files::remove(dir, new)?;
    Replacement::begin(dir, name, new)
}
