//! Caches of other programs: Scrapy's HTTP cache, and requests-cache.
//!
//! Each entry becomes a [`CachedPage`], which a [`CacheLoader`] puts. Pickles of these programs
//! are read as data: nothing is called, and anything other than plain data is an error of that
//! entry. The caller reads the files and tables.
//!
//! Layers: `data` (values); `literal`, `pickle` (text and bytes as values); `dbm` (entries in a
//! file), `dumb` (the part that a directory lacks), `page`; `scrapy`, `requests` (values as
//! pages).

mod data;
mod dbm;
mod dumb;
mod json;
mod literal;
mod page;
mod pickle;
mod requests;
mod scrapy;

pub use dbm::{DbmEntry, DbmIndex, dumb_index, gdbm_index, is_gdbm};
pub use dumb::{DumbRest, dumb_rest};
pub use page::{CacheError, CacheLoader, CachedPage};
pub use requests::requests_entries;
pub use scrapy::{ScrapyFiles, scrapy_dbm_entry, scrapy_entry};
