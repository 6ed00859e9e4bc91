//! Links between crawls that share their hosts: mailboxes, outboxes, and the owner of each shard.
//!
//! A fleet of crawls divides hosts into *shards* by a hash of their names
//! ([`urlindex::shard`](https://docs.rs/urlindex)). A crawl that finds a link of another shard
//! puts it into its [`Outbox`], and makes it durable there before it marks the page as done. The
//! outbox posts it to the shard's mailbox ([`Mailboxes`]) and keeps it until the mailbox answers
//! that the link is durable. The owner of the shard reads the mailbox, commits the links, and then
//! drops them from it. So no crash of any of the three loses a link: delivery is at least once.
//!
#![doc = include_str!("../README.md")]
//!
//! Invariants:
//! - The links from one crawl to one shard are numbered from 0. A mailbox takes those that follow
//!   the last one it has, skips those that it has, and refuses a gap. So no link is entered twice,
//!   and none is passed over.
//! - The size of a mailbox is bounded: a full one refuses links ([`Error::Full`]).
//! - A shard has one owner at a time. Each change of owner raises the shard's *epoch*, and a call
//!   with an older one is refused ([`Error::Fenced`]).

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
