//! The oracle: what a store must show, given what was done to it. Three harnesses share it.
//!
//! - [`Oracle`] learns of every put, removal, prune and erasure, and of what was acknowledged and
//!   durable (`filemap-crash`).
//! - [`Numbered`] knows the work from its numbers, and only how far it came (`filemap-kernel`).
//! - [`string`] runs a string of operations and compares everything with an [`Oracle`] (the
//!   property test here, a fuzz target).
//!
//! Invariant: a removal that counts hides all that was put before it. Which removals count is
//! uncertain after a crash: see `floor`.

mod exact;
mod floor;
mod numbered;
pub mod string;

pub use exact::{After, Oracle, Pruning, Shown, Step, What};
pub use numbered::{Bounds, Change, Numbered, Window};
