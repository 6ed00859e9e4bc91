//! Links between crawls that share their hosts: a mailbox for each shard, and its owner.
//!
//! `boxes` has the mailboxes of the server; `mail` and `owners` are the handlers.
//!
//! Invariant: an answered change is durable. Links are URLs of pages that access rules may
//! withhold: so reading them requires the right to write.

pub(super) mod boxes;
pub(super) mod mail;
pub(super) mod owners;
