//! Tests of the library against a server of the loopback: builder, hooks, how it is stopped.

mod exec;
mod hooks;
mod running;
mod site;
