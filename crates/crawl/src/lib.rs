//! A polite crawler as a library: fetches pages, follows their links, stores what it gets.
//!
//! [`Crawler::builder`] begins. What a caller adds are hooks ([`hooks`]): a look at each page, own
//! links, an own fetcher, an own scope. The command line `fm-crawl` and the Python package are
//! faces of it.
//!
//! The frontier decides which page is next, `urlindex` what a URL's canonical form is, the store
//! how pages are kept. Floors, highest first: [`run`] assigns pages to visits and commits their
//! results; [`visit`] takes one page from robots.txt to the store, by [`robots`], [`fetch`],
//! `links` and [`record`], none of which knows another except that `robots` fetches; [`files`]
//! keeps what a crawl knows beside its store; [`settings`] and [`failure`] are the terms they
//! share.
//!
//! Invariants: nothing is fetched from an unchecked address; every limit that is met has a name in
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
