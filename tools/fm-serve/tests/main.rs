//! Runs the built server as an operator does: start, stop, kill; its tokens and certificate.

mod following;
mod killed;
mod page_of_docs;
mod program;
mod redis;
mod slow_readers;
mod started;
