//! The tests of the frontier through its public interface, in one program.

mod kill;
mod quality;
mod web;
