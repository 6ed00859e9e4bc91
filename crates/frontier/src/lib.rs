//! The frontier of a crawler: decides which page to fetch next.
//!
//! Pages have *credit* (on-line page importance computation, OPIC). Seeds share all of it. The
//! page with the most is fetched next: a tax goes to a virtual page, and the page's links share
//! the rest. So pages to which much credit flows come first, and a trap that feeds only on itself
//! starves. Credit is counted in whole units, and its sum never changes.
//!
//! A [`Frontier`] is stored on disk, with a queue for each host, politeness, budgets, retries and
//! recrawls. It knows neither HTTP nor a store of pages: a crawler calls [`Frontier::next`],
//! fetches, and reports with [`Frontier::done`] or [`Frontier::failed`].
//!
//! Times are `i64` milliseconds since 1970; times before that count as 1970. URLs are UTF-8 text,
//! as the files hold them and as HTTP needs them; canonical URLs are ASCII anyway.
//!
//! Invariants: no URL is queued twice; what was committed survives any crash; no fetched page is
//! handed out again before it is due; credit sums exactly.

mod asked;
mod blocks;
mod claims;
mod credit;
mod delivery;
mod discover;
mod error;
mod failpoint;
mod files;
mod format;
mod frontier;
mod grow;
mod host;
mod hosts;
mod index;
mod journal;
mod link;
mod links;
mod marks;
mod names;
mod open;
mod options;
mod outcome;
mod pairs;
mod place;
mod queue;
mod record;
mod recrawl;
mod row;
mod shape;
mod shares;
mod slots;
mod snapshot;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod texts;
mod timers;
mod trust;
mod view;
mod window;

pub use error::{Error, Result};
pub use filemap_io::StorageError;
pub use frontier::Frontier;
pub use link::link;
pub use options::{FrontierOptions, Recrawl, Rent};
pub use outcome::{Assignment, Claim, Done, Failing, Failure, FailureKind, Fetched, Hint, Next, PageId, Remedy};
pub use view::{HostState, PageBrief, PageState, PageStatus, Stats};
