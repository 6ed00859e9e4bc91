//! What the command lines say to people: text from outside made safe to look at, and numbers in words; how they open
//! what they write to; and how they take their arguments.
//!
//! Words are no data, so they never fail a program: a standard error that was closed is ignored. Words carry no
//! character that a terminal would obey, whatever URL or file name is in them.

mod arguments;
mod plain;
pub mod sink;
mod words;

pub use arguments::parse;
pub use plain::plain;
pub use words::{count, say, size};
