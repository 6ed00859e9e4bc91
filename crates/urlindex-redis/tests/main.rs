//! Tests on real servers: `redis-server` and `redis-cli` must be installed.

mod adding;
mod failing;
mod servers;
