//! Links between crawls that share their hosts: a mailbox for each shard, and who owns it.
//!
//! `boxes` has the mailboxes of the server; `mail` and `owners` are the handlers.
//!
//! Invariant: an answered change is durable. Links are URLs of pages that access rules may keep
//! back: so reading them takes the right to write.

pub(super) mod boxes;
pub(super) mod mail;
pub(super) mod owners;
