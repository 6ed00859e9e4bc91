//! Links between crawls that share their hosts: a mailbox for each shard, and who owns it.
//!
//! `boxes` has the mailboxes of the server; `mail` and `owners` are the handlers.
//!
//! Invariant: what is answered is on the device. Links are URLs of pages that rules of access may
//! keep back: so to read them takes the right to write.

pub(super) mod boxes;
pub(super) mod mail;
pub(super) mod owners;
