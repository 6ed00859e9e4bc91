//! The rules of this house as code, and what the end-to-end tests share.
//!
//! Owns the table of who may import whom ([`layers`]), the reading of Rust source that holds it ([`source`]), and the
//! rules themselves ([`rules`]). They stand in a library, not in a test file, so that each rule can be tried on a
//! planted bad snippet: a rule that has never failed proves nothing. Beside them stands what the tests and fuzz targets of
//! hostile files share ([`hostile`]).
//!
//! The tests themselves are in `tests/`; everything that they read is in `tests/data`.

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
