//! Writes WARC records: a version as a record, a record as a compressed member.
//!
//! Layers: `uri` (URLs as URIs), `record` (a version as a record), `pack` (a record as a member).

mod pack;
mod record;
mod uri;

pub use pack::Compression;
pub(crate) use pack::Packer;
pub(crate) use record::{Draft, Entry, Form, Reference, draft, info, warcinfo};
pub(crate) use uri::target_uri;
