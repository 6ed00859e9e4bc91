//! A polite crawler as a library: fetches pages, follows their links, stores what it gets.
//!
//! The frontier decides which page is next, `urlindex` what a URL's canonical form is, the store
//! how pages are kept. Floors, highest first: [`run`] assigns pages to visits and commits their
//! results; [`visit`] takes one page from robots.txt to the store, by [`robots`], [`fetch`],
//! [`links`] and [`record`], none of which knows another except that `robots` fetches; [`files`]
//! keeps what a crawl knows beside its store; [`settings`] and [`failure`] are the terms they
//! share.
//!
//! Invariants: nothing is fetched from an unchecked address; every limit that is met has a name in
//! [`failure`]; a page that the frontier calls done is in the store; nothing is printed.

pub mod clock;
mod error;
pub mod failure;
pub mod fetch;
pub mod files;
mod links;
pub mod record;
pub mod robots;
pub mod run;
pub mod settings;
mod stop;
pub mod visit;

pub use crate::error::{BoxError, Error, Result};
pub use crate::failure::{Failure, Reason};
pub use crate::links::{Link, is_web};
pub use crate::stop::Stop;
