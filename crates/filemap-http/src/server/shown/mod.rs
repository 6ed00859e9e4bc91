//! What of a store requests see: the one place where the rules of access hold.
//!
//! Layers: `store` (rulings; one page, its versions), then `lists` (URLs and their number) and
//! `changes`.
//!
//! Invariants: handlers that read pages have a [`Shown`] and no store; of an excluded capture
//! nothing is read, and nothing is said that would not be said if it were not there.

mod changes;
mod lists;
mod store;

pub(super) use changes::ShownChanges;
pub(super) use lists::ShownListing;
pub(super) use store::{Capture, Found, Shown};
