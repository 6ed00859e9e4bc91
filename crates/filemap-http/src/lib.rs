//! FileMap over HTTP: a server for a store ([`server`]), and a client for such a server
//! ([`Client`]).
//!
//! docs/HTTP.md has the routes. The server runs the blocking engine on a bounded pool of threads;
//! this crate starts no runtime: [`server::Server::serve`] runs on the caller's. The client
//! blocks, and needs no runtime.
//!
//! Features, all on by default: `server`; `client`; `async`, which adds `AsyncClient`, for callers
//! on tokio.

// With one side only, parts of the shared modules are unused.
#![cfg_attr(not(all(feature = "client", feature = "server")), allow(dead_code, unused_imports))]

#[cfg(feature = "client")]
mod client;
#[cfg(feature = "client")]
mod follow;
mod following;
#[cfg(feature = "async")]
mod pooled;
pub(crate) mod query;
#[cfg(feature = "server")]
pub mod server;
pub mod wire;

#[cfg(feature = "client")]
pub use client::{
    Ack, Added, AnyArchives, ArchiveForm, Client, ClientOptions, FleetNews, Imported, Line, Lines, LinksClient, Made,
    Mailed, Said, SeenClient,
};
#[cfg(feature = "client")]
pub use follow::{Mismatch, follow};
pub use following::{Following, FollowingFigures};
#[cfg(feature = "async")]
pub use pooled::{AsyncClient, AsyncLines, AsyncSeenClient};
