//! Crash tests on the simulated disk of `filemap-io`. At the engine's calls, images of the disk
//! are drawn as a power loss or a kill could leave them; on each the store is opened and judged by
//! the oracle.
//!
//! - `filemap-oracle` knows what was put, removed and synced, and judges what a reopened store
//!   shows;
//! - `world` chooses options, tiny limits and keys;
//! - `op` has the operations; `drive` performs them on a store and tells the oracle;
//! - `closing` closes a handle in the middle of what a clone of it does;
//! - `listing` reads a list of keys beside other work, `lists` has the driver's part of it;
//! - `contents` reads everything that a store shows; `judge` opens an image and compares it with
//!   the oracle; `trouble` says what went wrong;
//! - `mend` repairs a store without its derived files;
//! - [`hunt`] runs random strings of operations over three generations of crashes;
//! - [`small`] runs every string of up to four operations;
//! - [`failing`] fails every single call, one run a call.
//!
//! A seed decides everything: a violation names the command that repeats it.

mod closing;
mod contents;
mod count;
mod drive;
mod erase;
pub mod failing;
mod guard;
pub mod hunt;
mod judge;
mod listing;
mod lists;
mod mend;
mod one;
mod op;
mod overtake;
pub mod small;
mod trouble;
mod vanish;
mod world;

pub use count::{Count, Violation, each};
