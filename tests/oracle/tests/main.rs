//! The tests of the engine against the oracle, in one program.

#[path = "../../../crates/filemap-core/tests/moment/mod.rs"]
mod moment;
mod strings;
