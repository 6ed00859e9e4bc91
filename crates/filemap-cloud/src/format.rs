//! Byte formats of a store: segments and their records, dictionaries, rows of the index,
//! manifests, the store's description.
//!
//! Numbers in segments are little-endian. docs/CLOUD.md has the layout of a bucket.

pub(crate) mod checkpoint;
pub(crate) mod chunks;
pub(crate) mod description;
pub(crate) mod dictionary;
pub(crate) mod manifest;
pub(crate) mod record;
pub(crate) mod row;
pub(crate) mod segment;
pub(crate) mod sources;
