//! Many pages in one request: `fetch` (URLs in, pages out), `add` (pages in, a line for each out),
//! of these `file` (a file of an archive, read by `arriving`, told of by `told`).

pub(super) mod add;
mod arriving;
pub(super) mod fetch;
mod file;
mod told;
