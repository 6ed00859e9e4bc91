//! A seen set that answers a request that is sent again as it did before.

pub(crate) mod options;
pub(crate) mod request;
pub(crate) mod set;

#[cfg(test)]
mod tests;
