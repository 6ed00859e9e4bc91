//! A seen set that answers a request sent again as it did before.

mod options;
mod request;
mod set;

pub use options::RequestOptions;
pub use request::{AddRequest, Verdicts};
pub use set::IdempotentSet;

pub use crate::error::RequestRefusal;
pub use crate::request_id::RequestId;

#[cfg(test)]
mod tests;
