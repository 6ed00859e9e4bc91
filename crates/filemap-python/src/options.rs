//! Opening of a store: its mode, and the options of `filemap.open` by name.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use filemap::{Durability, Options};
use filemap_core::Error as EngineError;
use filemap_core::dictionaries::Dictionaries;
use filemap_http::AnyArchives;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use urlindex::{Canonicalizer, CrawlRules, Exact, Whatwg};

use crate::argument::named;
use crate::errors::invalid;
use crate::times;

/// The mode in which a store was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Read,
    Write,
    OpenOrCreate,
    Create,
}

impl Mode {
    /// # Errors
    ///
    /// `InvalidValueError` for another name.
    pub fn named(name: &str) -> PyResult<Mode> {
        Ok(match name {
            "r" => Mode::Read,
            "w" => Mode::Write,
            "a" => Mode::OpenOrCreate,
            "x" => Mode::Create,
            _ => {
                let what = format!("a mode is 'r', 'w', 'a' or 'x', not {name:?}; no mode empties a store");
                return Err(invalid(what));
            }
        })
    }

    /// The mode's letter.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Read => "r",
            Mode::Write => "w",
            Mode::OpenOrCreate => "a",
            Mode::Create => "x",
        }
    }
}

/// Options for opening a store, except the mode.
pub struct Opening {
    pub options: Options,
    pub canonicalizer: Option<Arc<dyn Canonicalizer>>,
}

impl Opening {
    /// # Errors
    ///
    /// `TypeError` for an unknown option or one of a wrong type, `InvalidValueError`.
    pub fn from_python(given: Option<&Bound<'_, PyDict>>) -> PyResult<Opening> {
        let mut opening = Opening { options: Options::new(), canonicalizer: None };
        for (name, value) in given.into_iter().flat_map(|given| given.iter()) {
            let name: String = name.extract()?;
            if name == "canonicalizer" {
                if !value.is_none() {
                    opening.canonicalizer = Some(canonicalizer(&named::<String>(&name, &value)?)?);
                }
                continue;
            }
            opening.options = with(opening.options, &name, &value)?;
        }
        Ok(opening)
    }
}

/// Opens a store.
///
/// # Errors
///
/// Errors of the store.
pub fn opened(path: &Path, mode: Mode, opening: Opening) -> filemap::Result<filemap::PageStore> {
    if filemap::sharded::is_location(path) {
        let what = "Python opens the store of one folder: open each by its path to read, or copy all into one folder with \
                    `fm-tool copy`";
        return Err(filemap::Error::NotMembers { path: path.to_owned(), what: what.to_owned() });
    }
    let store = opened_here(path, mode, opening)?;
    Ok(store.with_archives(Arc::new(AnyArchives::new())))
}

/// As [`opened`], without archives on other machines.
fn opened_here(path: &Path, mode: Mode, opening: Opening) -> filemap::Result<filemap::PageStore> {
    let Opening { options, canonicalizer } = opening;
    let create = |options| match &canonicalizer {
        Some(rule) => filemap::PageStore::create_with(path, Arc::clone(rule), options),
        None => filemap::PageStore::create(path, options),
    };
    let open = |options| match &canonicalizer {
        Some(rule) => filemap::PageStore::open_with(path, Arc::clone(rule), options),
        None => filemap::PageStore::open(path, options),
    };
    let options = match &canonicalizer {
        Some(rule) if mode == Mode::Read => options.canonicalizer(rule.name(), rule.version()),
        _ => options,
    };
    match mode {
        Mode::Read => filemap::PageStore::open_read_only(path, options),
        Mode::Write => open(options),
        Mode::Create => create(options),
        Mode::OpenOrCreate => match open(options.clone()) {
            Err(filemap::Error::Engine(EngineError::NotAStore { .. })) => match create(options.clone()) {
                // Another process made the store first, or the folder has other files: opening
                // tells which.
                Err(filemap::Error::Engine(EngineError::NotEmpty { .. })) => open(options),
                created => created,
            },
            opened => opened,
        },
    }
}

/// First the options whose value may be `None`; for the others `None` means the default.
fn with(options: Options, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Options> {
    Ok(match name {
        "keep_versions" => options.keep_versions(named(name, value)?),
        "keep_age" if value.is_none() => options.keep_age(None),
        "space_bound" => options.space_bound(named(name, value)?),
        "compaction_rate" => options.compaction_rate(named(name, value)?),
        "recompression_level" => options.recompression_level(named(name, value)?),
        _ if value.is_none() => check(options, name)?,
        "keep_age" => options.keep_age(Some(age(value)?)),
        "durability" => options.durability(durability(value)?),
        "compression_level" => options.compression_level(named(name, value)?),
        "segment_bytes" => options.segment_bytes(named(name, value)?),
        "checkpoint_bytes" => options.checkpoint_bytes(named(name, value)?),
        "memtable_bytes" => options.memtable_bytes(named(name, value)?),
        "max_open_files" => options.max_open_files(named(name, value)?),
        "free_space_floor" => options.free_space_floor(named(name, value)?),
        "large_value_bytes" => options.large_value_bytes(named(name, value)?),
        "recompression_age" => options.recompression_age(age(value)?),
        "dictionaries" => {
            options.dictionaries(if named(name, value)? { Dictionaries::Automatic } else { Dictionaries::Off })
        }
        "value_cache_bytes" => options.value_cache_bytes(named(name, value)?),
        "max_value_cache_bytes" => options.max_value_cache_bytes(named(name, value)?),
        "filter_memory_bytes" => options.filter_memory_bytes(named(name, value)?),
        "accept_loss" => {
            if named(name, value)? {
                options.accept_loss()
            } else {
                options
            }
        }
        "keys_in_order" => {
            if named(name, value)? {
                options
            } else {
                options.end_key_order()
            }
        }
        _ => return Err(unknown(name)),
    })
}

/// Names of the options that accept `None` as a value.
const NULLABLE: [&str; 6] =
    ["canonicalizer", "keep_versions", "keep_age", "space_bound", "compaction_rate", "recompression_level"];

/// Names of the options for which `None` means the default.
const DEFAULTED: [&str; 15] = [
    "keys_in_order",
    "durability",
    "compression_level",
    "segment_bytes",
    "checkpoint_bytes",
    "memtable_bytes",
    "max_open_files",
    "free_space_floor",
    "large_value_bytes",
    "recompression_age",
    "dictionaries",
    "value_cache_bytes",
    "max_value_cache_bytes",
    "filter_memory_bytes",
    "accept_loss",
];

fn check(options: Options, name: &str) -> PyResult<Options> {
    if DEFAULTED.contains(&name) { Ok(options) } else { Err(unknown(name)) }
}

fn unknown(name: &str) -> PyErr {
    let all = [&NULLABLE[..], &DEFAULTED[..]].concat().join(", ");
    PyTypeError::new_err(format!("open has no option '{name}'; there are {all}"))
}

fn age(value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    Ok(Duration::from_millis(times::age_ms(value)?.unsigned_abs()))
}

/// Parses `"buffered"`, `"sync"`, or the seconds between two syncs.
fn durability(value: &Bound<'_, PyAny>) -> PyResult<Durability> {
    match value.extract::<String>() {
        Ok(name) => match name.as_str() {
            "buffered" => Ok(Durability::Buffered),
            "sync" => Ok(Durability::Sync),
            _ => Err(invalid(format!(
                "durability is 'buffered', 'sync', or the seconds between two syncs, not {name:?}"
            ))),
        },
        Err(_) => age(value).map(Durability::Interval),
    }
}

/// A canonicaliser by its name.
///
/// # Errors
///
/// `InvalidValueError` for an unknown name.
pub fn canonicalizer(name: &str) -> PyResult<Arc<dyn Canonicalizer>> {
    Ok(match name {
        "whatwg" => Arc::new(Whatwg),
        "exact" => Arc::new(Exact),
        "crawl" => Arc::new(CrawlRules::crawl()),
        "surt" => Arc::new(CrawlRules::surt()),
        _ => {
            return Err(invalid(format!("a canonicaliser is 'whatwg', 'exact', 'crawl' or 'surt', not {name:?}")));
        }
    })
}
