//! The view of a store that requests see: the one place where access rules are applied.
//!
//! Layers: `store` (rulings; one page, its versions), then `lists` (URLs and their number) and
//! `changes`.
//!
//! Invariants: handlers that read pages have a [`Shown`] and no store; an excluded capture is
//! never read, and every response is as if it did not exist.

mod changes;
mod lists;
mod store;

pub(super) use changes::ShownChanges;
pub(super) use lists::ShownListing;
pub(super) use store::{Capture, Found, Shown};
