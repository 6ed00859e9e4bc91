//! Links between crawls that share their hosts: mailboxes, outboxes, and who owns which shard.
//!
//! A fleet of crawls divides hosts into *shards* by a hash of their names
//! ([`urlindex::shard`](https://docs.rs/urlindex)). A crawl that finds a link of another shard
//! puts it into its [`Outbox`], durable before the crawl notes that the page with the link is
//! done. From there it is posted to the shard's mailbox ([`Mailboxes`]), and stays in the outbox
//! until that has answered, which it does when the link is durable there. The owner of the shard
//! reads the mailbox, commits what it has read, and then has it dropped. So a link is lost by no
//! crash of any of the three: it comes at least once.
//!
#![doc = include_str!("../README.md")]
//!
//! Invariants:
//! - the links from one crawl to one shard are numbered from 0. A mailbox takes those that follow
//!   the last one it has, leaves out those that it has, and refuses a gap: what is sent again is
//!   not entered twice, and what is missing is not passed over;
//! - what a mailbox holds is bounded, and one that is full refuses ([`Error::Full`]);
//! - a shard has one owner at a time. Each change of owner raises the shard's *epoch*, and whoever
//!   comes with an older one is refused ([`Error::Fenced`]).

mod error;
mod failpoint;
mod fleet;
mod format;
mod link;
mod log;
mod mailbox;
mod names;
mod outbox;
mod state;
#[cfg(test)]
mod tests;

pub use error::{Error, Result};
pub use filemap_io::StorageError;
pub use fleet::{Activity, Mailboxes, Owner, ShardStats, Standing};
pub use link::Link;
pub use mailbox::{MailboxOptions, Part, Posted};
pub use outbox::{Batch, Outbox};
