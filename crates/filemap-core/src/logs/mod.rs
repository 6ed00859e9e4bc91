//! The two logs of a store: values (the truth) and key records. Both are rolled segments of checksummed records.
//!
//! `handle`, `upkeep` and `store` call this. Nothing in here knows the index or a handle. Inside, `keys` and `values` stand
//! side by side over `segments`, which knows neither of them.

pub(crate) mod keys;
pub(crate) mod scan;
pub(crate) mod segments;
pub(crate) mod values;
