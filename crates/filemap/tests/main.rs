//! The tests of pages, import and export through the public interface, in one program.

mod access;
#[cfg(feature = "async")]
mod async_store;
mod copy;
mod export;
mod import_damage;
mod import_forms;
mod import_old;
mod import_samples;
mod import_watch;
mod in_place;
mod kept_bodies;
mod listing;
mod lost_versions;
mod many_pages;
mod page_count;
mod page_store;
mod remove_versions;
mod requests;
mod revisits;
mod samples;
mod sharded;
mod stores;
mod variants;
mod wacz;
