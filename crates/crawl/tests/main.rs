//! Tests of the library against a server on the loopback address: builder, hooks, stopping.

mod exec;
mod hooks;
mod running;
mod site;
mod taken;
