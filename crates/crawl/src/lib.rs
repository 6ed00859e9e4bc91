//! A polite crawler as a library: fetches pages, follows their links, stores the results.
//!
//! Start with [`Crawler::builder`]. Callers extend a crawl by hooks ([`hooks`]): a callback for
//! each page, custom link extraction, a custom fetcher, a custom scope. The command line
//! `fm-crawl` and the Python package are front ends of this library.
//!
//! The frontier picks the next page, `urlindex` defines a URL's canonical form, the store keeps
//! pages. Layers, highest first: [`run`] assigns pages to visits and commits their results;
//! [`visit`] takes one page from robots.txt to the store, using [`robots`], [`fetch`], `links` and
//! [`record`], which are independent of each other except that `robots` fetches; [`files`] keeps a
//! crawl's state beside its store; [`settings`] and [`failure`] are the vocabulary they share.
//!
//! Invariants: nothing is fetched from an unchecked address; every limit reached has a name in
//! [`failure`]; a page that the frontier calls done is in the store; nothing is printed.

pub mod clock;
mod crawler;
mod error;
pub mod failure;
pub mod fetch;
pub mod files;
pub mod hooks;
mod links;
pub mod pages;
pub mod record;
pub mod robots;
pub mod run;
pub mod settings;
pub mod shard;
mod simhash;
mod stop;
pub mod visit;

pub use crate::crawler::{Builder, Crawler};
pub use crate::error::{BoxError, Error, Result};
pub use crate::failure::{Failure, Reason};
pub use crate::hooks::{Capture, OnPage, Parse, Reply};
pub use crate::links::edges::Edge;
pub use crate::links::{Link, check_start, is_web};
pub use crate::simhash::simhash64;
pub use crate::stop::Stop;
