//! The bytes of a store: records in segments, segments, rows of the index, the description of the
//! store.
//!
//! Numbers in segments are little-endian. docs/CLOUD.md has the layout of a bucket.

pub(crate) mod description;
pub(crate) mod manifest;
pub(crate) mod record;
pub(crate) mod row;
pub(crate) mod segment;
pub(crate) mod sources;
