//! Pages in and out: `read` (GET, HEAD), `write` (PUT, DELETE), with their conditions, ranges and
//! bodies.

pub(super) mod condition;
mod range;
pub(super) mod read;
pub(super) mod send;
pub(super) mod upload;
pub(super) mod write;
