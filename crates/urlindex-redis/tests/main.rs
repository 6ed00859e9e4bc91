//! Tests on real servers: `redis-server` and `redis-cli` have to be there.

mod adding;
mod failing;
mod servers;
