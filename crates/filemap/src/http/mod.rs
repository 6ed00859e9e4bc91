//! HTTP messages of archives: parses heads leniently, undoes the chunked coding and content
//! codings.
//!
//! Servers send anything, and archives keep it: this layer keeps what it cannot parse. Nothing
//! here touches the network or a store.

pub(crate) mod body;
pub(crate) mod chunked;
pub mod coding;
pub(crate) mod content;
pub(crate) mod head;
