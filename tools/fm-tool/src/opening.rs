//! How each verb gets its store: to read, to change, or to fill.
//!
//! Invariant: only filling creates. Reading takes no lock, so that it works while a crawler writes; changing an absent
//! store is an error.

use std::path::Path;
use std::sync::Arc;

use filemap::{Options, PageStore};
use filemap_core::{Event, RecoveryReport, Store};
use urlindex::Exact;

use crate::cli::Shared;
use crate::outcome::Failure;
use crate::words;

/// The engine of a store, for what does not concern pages.
pub fn engine_to_read(path: &Path, shared: &Shared) -> Result<Store, Failure> {
    Ok(Store::open_read_only(path, options(shared))?)
}

/// A store to read, while another process may write it.
pub fn to_read(path: &Path, shared: &Shared) -> Result<PageStore, Failure> {
    Ok(PageStore::open_read_only(path, options(shared))?)
}

/// A store to change, which must be there.
pub fn to_change(path: &Path, shared: &Shared) -> Result<PageStore, Failure> {
    Ok(PageStore::open(path, options(shared))?)
}

/// The engine of a store to change, which must be there, with options of the caller's.
pub fn engine_to_change(path: &Path, shared: &Shared, with: impl FnOnce(Options) -> Options) -> Result<Store, Failure> {
    Ok(Store::open(path, with(options(shared)))?)
}

/// Options for a store whose keys are made as those of another.
pub fn options_like(store: &Store, shared: &Shared) -> Options {
    let made_with = store.canonicalizer();
    options(shared).canonicalizer(&made_with.name, made_with.version)
}

/// A store to fill, made if it is absent; its keys are the URLs' exact bytes if so asked.
pub fn to_fill(path: &Path, exact_urls: bool, shared: &Shared) -> Result<PageStore, Failure> {
    if !exact_urls {
        return Ok(PageStore::open_or_create(path, options(shared))?);
    }
    let absent =
        |error: &filemap::Error| matches!(error, filemap::Error::Engine(filemap_core::Error::NotAStore { .. }));
    match PageStore::open_with(path, Arc::new(Exact), options(shared)) {
        Err(error) if absent(&error) => Ok(PageStore::create_with(path, Arc::new(Exact), options(shared))?),
        opened => Ok(opened?),
    }
}

fn options(shared: &Shared) -> Options {
    let quiet = shared.quiet;
    Options::new().on_event(move |event| match event {
        Event::Recovered(report) if !quiet && has_recovered(report) => words::say(event),
        Event::Poisoned { .. } | Event::ErasureUnfinished { .. } => words::complain(event),
        _ => {}
    })
}

/// Whether opening found anything that the last writer had left unfinished.
fn has_recovered(report: &RecoveryReport) -> bool {
    report.replayed_records + report.skipped_bytes + report.truncated_bytes > 0
}
