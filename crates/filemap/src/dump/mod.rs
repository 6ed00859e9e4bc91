//! Pages out, in formats that other programs read.
//!
//! So far JSON Lines ([`jsonl`]), for people, scripts and for moving a store: what is dumped can be loaded again,
//! byte for byte.

pub mod jsonl;
