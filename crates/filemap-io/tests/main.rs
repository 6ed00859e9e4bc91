//! Integration tests of this crate in one program: the lock, and permission checks.

mod lock;
mod ways_in;
