//! Many pages in one request: `fetch` (URLs in, pages out), `add` (pages in, a line for each out).

pub(super) mod add;
pub(super) mod fetch;
