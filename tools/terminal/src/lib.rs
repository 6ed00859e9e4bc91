//! What the command lines say to people: text from outside made safe to look at, and numbers in words.
//!
//! Nothing here is data, so nothing here may fail a program: a standard error that was closed is ignored. Words carry no
//! character that a terminal would obey, whatever URL or file name is in them.

mod plain;
mod words;

pub use plain::plain;
pub use words::{count, say, size};
