//! The two logs of a store: values (the truth) and key records. Both are rolled segments of
//! checksummed records.
//!
//! `handle`, `upkeep` and `store` call this. Nothing here knows the index or a handle. Inside,
//! `keys` and `values` do not know each other; both use `segments`, which knows neither.

pub(crate) mod keys;
pub(crate) mod scan;
pub(crate) mod segments;
pub(crate) mod values;
