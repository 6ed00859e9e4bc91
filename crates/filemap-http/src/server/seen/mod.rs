//! Seen sets over HTTP: several crawling machines ask one server which URLs are new.
//!
//! `worker` answers the requests of one set, batching those of many clients; `sets` has the sets
//! by name; `external` is a set outside the server; `ask` and `manage` are the handlers.
//!
//! Invariant: an answer is durable, unless `durable=0`; a request sent again with its id gets the
//! same answer, or is refused.

pub(super) mod ask;
pub(super) mod external;
pub(super) mod manage;
pub(super) mod sets;
mod worker;
