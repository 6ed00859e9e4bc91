//! Stores of verbs: opening them, local, in several folders, behind a server or in a bucket;
//! missing files; the file system below.

pub mod absence;
pub mod bucket;
pub mod file_system;
pub mod filling;
pub mod opening;
pub mod place;
pub mod remote;
pub mod served;
pub mod shards;
