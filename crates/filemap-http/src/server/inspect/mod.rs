//! The inspector: web pages about the store for an operator. Rendered on the server; only the live
//! charts of the overview use a script.
//!
//! Layers: `layout` (shared by all views); `capture`, `calendar`, `diff`, `highlight`; then one
//! file per view.
//!
//! Invariants: stored bytes appear as escaped text, or in a frame that can run and fetch nothing;
//! no view contacts another machine; every view has its JSON.

mod calendar;
mod capture;
pub(super) mod captures;
mod charts;
pub(super) mod compare;
pub(super) mod crawl;
mod diff;
pub(super) mod find;
mod highlight;
mod layout;
pub(super) mod overview;
pub(super) mod rendered;
pub(super) mod sets;
pub(super) mod show;
pub(super) mod space;
pub(super) mod tree;

pub(super) use layout::{charts, style};
