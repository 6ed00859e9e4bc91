//! Reads WACZ files as zip files, entry by entry, including damaged ones.
//!
//! Layers: `header` (the headers of a zip file), `layout` (its entries), `entry` (the bytes of
//! one).

pub(crate) mod entry;
pub(crate) mod header;
pub(crate) mod layout;
