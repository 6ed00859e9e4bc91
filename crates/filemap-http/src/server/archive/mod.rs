//! Endpoints for web archive tools: an index (CDX), captures by time (Memento, RFC 7089), and the
//! captures themselves, with their own status.
//!
//! Layers: `captures` (the versions of a URL, and their names), then `cdx`, `memento`, `replay`.

mod captures;
pub(super) mod cdx;
pub(super) mod memento;
pub(super) mod replay;
