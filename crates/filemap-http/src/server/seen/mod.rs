//! Seen sets over HTTP: several crawling machines send their URLs to one that knows which are new.
//!
//! `worker` answers the requests of one set, those of many clients together; `sets` has the sets
//! by their names; `external` is one that others keep; `ask` and `manage` are the handlers.
//!
//! Invariant: what is answered is durable, unless `durable=0`; a request that is sent again with
//! its id is answered as it was, or refused.

pub(super) mod ask;
pub(super) mod external;
pub(super) mod manage;
pub(super) mod sets;
mod worker;
