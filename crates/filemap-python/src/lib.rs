//! The compiled module `filemap._native`: stores of pages, seen sets, canonical URLs and a crawler
//! for Python.
//!
//! A thin layer over the crates `filemap`, `urlindex` and `crawl`: arguments in, objects out. The
//! rest of the package (asyncio, Scrapy, requests-cache) is Python, in `python/filemap`.
//!
//! Rules of every call:
//!
//! * The interpreter is released during all work of the store (`Python::detach`), and attached
//!   again only to make objects.
//! * A handle knows the generation of the process that opened it (`fork`): after a `fork` the
//!   child gets an error, and drops nothing of the handle.
//! * Long calls check for signals (`signals`), so that Ctrl-C ends them.
//!
//! Layers, lowest first: `errors`, `report`, `signals`; `argument`, `fork`, `headers`, `times`;
//! `coding`, `options`; `backing`, `sets`; `page`, `seen`; `crawled`, `iterate`; `store`;
//! `changes`, `crawling`, `lists`, `queue`, `tables`, `upkeep`, `warc`.

// PyO3 makes the docstrings of classes from these comments; generated glue has none.
#![allow(missing_docs)]

mod argument;
mod backing;
mod changes;
mod coding;
mod crawled;
mod crawling;
mod errors;
mod fork;
mod headers;
mod iterate;
mod lists;
mod made;
mod options;
mod page;
mod queue;
mod redis;
mod report;
mod seen;
mod sets;
mod signals;
mod store;
mod tables;
mod times;
mod upkeep;
mod waiting;
mod warc;

/// Declared here; the modules of this crate add the contents.
#[pyo3::pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use crate::changes::{Change, Changes};
    #[pymodule_export]
    use crate::coding::decode_body;
    #[pymodule_export]
    use crate::crawled::{CrawlSummary, CrawledPage};
    #[pymodule_export]
    use crate::crawling::into_store;
    #[pymodule_export]
    use crate::fork::_forked;
    #[pymodule_export]
    use crate::headers::Headers;
    #[pymodule_export]
    use crate::iterate::{Bytes, Heads, Many, Pages, Urls};
    #[pymodule_export]
    use crate::page::{Capture, Page, PageHead, Put, Version};
    #[pymodule_export]
    use crate::queue::PutQueue;
    #[pymodule_export]
    use crate::report::{Absent, BackupReport, CompactReport, EraseReport, ExportReport, ImportReport};
    #[pymodule_export]
    use crate::report::{Problem, PruneReport, VerifyReport};
    #[pymodule_export]
    use crate::seen::{SeenSet, canonicalize};
    #[pymodule_export]
    use crate::store::PageStore;
    #[pymodule_export]
    use crate::tables::Table;
    #[pymodule_export]
    use crate::warc::{export, import_};

    /// The version of the package.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
