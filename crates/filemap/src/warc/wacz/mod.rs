//! The zip file that a WACZ file is, entry by entry, damaged ones too.
//!
//! Layers: `header` (the headers of a zip file), `layout` (its entries), `entry` (the bytes of
//! one).

pub(crate) mod entry;
pub(crate) mod header;
pub(crate) mod layout;
