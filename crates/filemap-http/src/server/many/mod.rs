//! Many pages in one request: `fetch` (URLs in, pages out), `add` (pages in, a line for each out),
//! and `file` for an archive file (read by `arriving`, answered by `told`).

pub(super) mod add;
mod arriving;
pub(super) mod fetch;
mod file;
mod told;
