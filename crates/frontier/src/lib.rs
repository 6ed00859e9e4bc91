//! Which page next: the frontier of a crawler.
//!
//! Pages have *credit* (on-line page importance, OPIC). N start pages share all of it; the page
//! with the most is fetched next, a tax goes to a virtual page, and the rest is shared by the
//! page's links. So what much credit flows to is fetched first, and a trap that feeds only on
//! itself starves. The sum of credit is a whole number and never changes.
//!
//! A [`Frontier`] keeps that on disk, with queues for each host, politeness, budgets, retries and
//! recrawls. It knows neither HTTP nor a store of pages: a crawler asks [`Frontier::next`],
//! fetches, and tells [`Frontier::done`] or [`Frontier::failed`].
//!
//! Invariants: no URL is queued twice; what was committed is there after any crash; nothing that
//! is done is handed out again before it is due; credit sums exactly.

mod asked;
mod blocks;
mod credit;
mod discover;
mod error;
mod failpoint;
mod files;
mod format;
mod frontier;
mod grow;
mod hosts;
mod journal;
mod links;
mod options;
mod outcome;
mod pages;
mod place;
mod queue;
mod record;
mod recrawl;
mod snapshot;
mod state;
#[cfg(test)]
mod tests;
mod texts;
mod trust;
mod view;

pub use error::{Error, Result};
pub use filemap_io::StorageError;
pub use frontier::Frontier;
pub use options::{FrontierOptions, Recrawl, Rent};
pub use outcome::{Assignment, Done, Failure, FailureKind, Fetched, Next, PageId};
pub use view::{HostState, PageState, PageStatus, Stats};
