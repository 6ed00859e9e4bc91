//! The built server as an operator runs it: started, stopped, killed; its tokens and certificate.

mod following;
mod killed;
mod page_of_docs;
mod program;
mod redis;
mod slow_readers;
mod started;
