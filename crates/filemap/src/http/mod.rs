//! HTTP messages as archives hold them: a head to read leniently, a chunked coding to take off, a
//! content coding to undo.
//!
//! Archives hold what servers sent, and servers send anything: this layer keeps what it cannot
//! understand rather than refuse it. Nothing here touches the network or a store.

pub(crate) mod body;
pub(crate) mod chunked;
pub mod coding;
pub(crate) mod content;
pub(crate) mod head;
