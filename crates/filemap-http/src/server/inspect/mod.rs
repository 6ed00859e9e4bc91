//! A page to look at: the store for an operator with a browser. Server-rendered, without script
//! but for the live charts of the overview.
//!
//! Layers: `layout` (what all views share); `capture`, `calendar`, `diff`, `highlight`; a view a
//! file.
//!
//! Invariants: whatever stored bytes a view shows is escaped text, or stands in a frame that can
//! run and fetch nothing; no view asks any other machine for anything; every view has its JSON.

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
