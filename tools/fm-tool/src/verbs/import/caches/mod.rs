//! Caches of other programs as inputs of `import`: their folders and files.
//! [`filemap::import::cache`] decodes the entries.
//!
//! An unreadable entry is counted, named and left out, and the import continues. A file of an
//! unsupported kind is refused, with the command that converts it.

mod requests;
mod scrapy;
#[cfg(feature = "sqlite")]
mod tables;

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use filemap::import::cache::{CacheLoader, CachedPage};
use filemap::import::{ImportOptions, MAX_LISTED_PROBLEMS};
use fm_cli::{Failure, interrupt};
use rustix::fs::OFlags;
use serde_json::json;

use super::report::Brought;
use crate::stores::filling::ToFill;

/// The program that wrote a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CacheKind {
    /// Scrapy's HTTP cache: the folder HTTPCACHE_DIR, of either storage
    ScrapyHttpcache,
    /// requests-cache: its SQLite file, or the folder of its file system backend
    RequestsCache,
}

/// Longest file of an entry that is read, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Imports one cache; `progress` gets bytes read and pages stored.
pub fn import(
    stores: &mut ToFill<'_>,
    (from, is_shared): (CacheKind, bool),
    path: &Path,
    options: ImportOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Brought, Failure> {
    if is_shared && from != CacheKind::ScrapyHttpcache {
        return Err(Failure::Usage("--shared is about spiders: it goes with --from scrapy-httpcache only".to_owned()));
    }
    let mut taking = Taking {
        stores,
        loader: CacheLoader::new(options),
        brought: Brought::default(),
        progress,
        root: path.to_path_buf(),
        is_cache: false,
    };
    let what = match from {
        CacheKind::ScrapyHttpcache => {
            scrapy::import(&mut taking, path, is_shared)?;
            "Scrapy's HTTP cache; name the folder that HTTPCACHE_DIR names"
        }
        CacheKind::RequestsCache => {
            requests::import(&mut taking, path)?;
            "a cache of requests-cache; name its file or folder"
        }
    };
    taking.brought.report.is_cancelled = interrupt::asked();
    let Taking { mut brought, is_cache, .. } = taking;
    // A wrong folder must not pass for an empty cache.
    if !is_cache && brought.refused.is_empty() && !brought.report.is_cancelled {
        brought.refused.push(format!("{}: nothing in it is an entry of {what}", path.display()));
    }
    Ok(brought)
}

/// An import in progress.
struct Taking<'a, 's> {
    stores: &'a mut ToFill<'s>,
    loader: CacheLoader,
    brought: Brought,
    progress: &'a mut dyn FnMut(u64, u64),
    root: PathBuf,
    /// True if anything was an entry, or a file of a cache without entries.
    is_cache: bool,
}

impl Taking<'_, '_> {
    /// Counts an entry of `bytes` bytes. Returns false once the work must stop.
    fn goes_on(&mut self, bytes: u64) -> bool {
        let report = &mut self.brought.report;
        report.bytes_read += bytes;
        report.records += 1;
        (self.progress)(report.bytes_read, report.stored);
        !interrupt::asked()
    }

    /// Puts a page; lists one that the store cannot keep.
    fn put(&mut self, entry: &str, page: CachedPage) -> Result<(), Failure> {
        self.is_cache = true;
        for lost in &page.lost {
            self.brought.report.warnings += 1;
            self.list(entry, &format!("kept, but {lost}"), "warning");
        }
        if let Some(what) = &page.damage {
            self.damaged(entry, format!("{what}: it is marked truncated"));
        }
        let canonicalizer = self.stores.canonicalizer();
        let put = self.stores.store_for(page.key_url(&*canonicalizer)).and_then(|store| {
            let report = &mut self.brought.report;
            self.loader.put(&store, page, report)
        });
        match put {
            Err(error) if error.concerns_one_page() => {
                self.brought.report.unusable += 1;
                self.brought.report.refused += u64::from(error.refused_by().is_some());
                self.list(entry, &error, "unusable");
                Ok(())
            }
            put => Ok(put?),
        }
    }

    /// Lists an entry that cannot be read.
    fn damaged(&mut self, entry: &str, what: impl Display) {
        self.is_cache = true;
        self.brought.report.damaged += 1;
        self.list(entry, &what, "damage");
    }

    /// Lists a file or folder that is not part of the cache.
    fn foreign(&mut self, entry: &str, what: impl Display) {
        self.brought.report.ignored += 1;
        self.brought.report.warnings += 1;
        self.list(entry, &what, "warning");
    }

    /// Lists a file of an unsupported kind.
    fn refused(&mut self, entry: &str, what: impl Display) {
        self.brought.refused.push(format!("{}: {what}", self.root.join(entry).display()));
    }

    fn list(&mut self, entry: &str, what: &dyn Display, kind: &str) {
        if self.brought.problems.len() < MAX_LISTED_PROBLEMS {
            self.brought.problems.push(json!({
                "entry": entry,
                "damage": kind == "damage",
                "what": what.to_string(),
                "warning": kind == "warning",
            }));
        }
    }

    /// A path below the cache's root, for a message.
    fn name_of(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }
}

/// Entries of a folder, sorted by name.
fn sorted(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let fail = |error: io::Error| Failure::io("read", folder, &error);
    let found = std::fs::read_dir(folder).map_err(fail)?;
    let mut paths: Vec<PathBuf> =
        found.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>().map_err(fail)?;
    paths.sort_unstable();
    Ok(paths)
}

/// The name of a file, if it is text.
fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Opens a regular file for reading; anything else is an error. Opening a FIFO would wait for its
/// writer despite signals, and opening a device may have effects.
pub fn open(path: &Path) -> io::Result<File> {
    let regular = |about: std::fs::Metadata| match about.is_file() {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file, and is not opened")),
    };
    regular(std::fs::metadata(path)?)?;
    // The file may have been replaced meanwhile, so the open one is checked again.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::options().read(true).custom_flags(flags.bits() as i32).open(path)?;
    regular(file.metadata()?)?;
    Ok(file)
}

/// Reads a whole file.
fn whole(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is over 1 GiB"));
    }
    Ok(bytes)
}

/// The first bytes of a file.
fn head(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns whether a file begins as one of SQLite.
fn is_sqlite(head: &[u8]) -> bool {
    head.starts_with(b"SQLite format 3\0")
}

/// Message for an SQLite file in a program built without SQLite.
#[cfg(not(feature = "sqlite"))]
const NO_SQLITE: &str = "it is a file of SQLite, and this fm-tool was built without the feature `sqlite`";
