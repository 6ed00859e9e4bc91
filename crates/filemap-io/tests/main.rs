//! The tests of this crate from outside, in one program: the lock, and what may be opened.

mod lock;
mod ways_in;
