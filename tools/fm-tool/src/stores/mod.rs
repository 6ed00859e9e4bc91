//! How verbs get their stores: opening them, here or behind a server, absent files, and the file
//! system below.

pub mod absence;
pub mod file_system;
pub mod opening;
pub mod remote;
