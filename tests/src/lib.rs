//! The rules of the house as code, and what the end-to-end tests share.
//!
//! [`layers`] is the table of who may import whom, [`source`] reads Rust source, [`rules`] are the
//! rules. They stand in a library so that each rule is also tried on a planted bad snippet: a rule
//! that has never failed proves nothing. [`hostile`] is what the tests and fuzz targets of hostile
//! files share.
//!
//! The tests are in `tests/`; what they read is in `tests/data`.

pub mod hostile;
pub mod layers;
pub mod rules;
pub mod source;
pub mod workspace;

/// The examples of the README, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

/// The examples of the users' guide, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/GUIDE.md")]
pub struct Guide;
