//! The tests of the built crawler against webs on this machine, in one program.

mod backup;
mod barren;
#[cfg(feature = "cloud")]
mod bucket;
mod control;
mod corners;
mod edges;
mod fleet;
mod heads;
mod hostile;
mod hosts;
mod killed;
mod machines;
mod mishaps;
mod operators;
mod outages;
mod programs;
mod sitemaps;
mod sites;
mod spellings;
mod tls;
#[cfg(not(feature = "cloud"))]
mod unbuilt;
mod warc;
mod ways;
mod web;
