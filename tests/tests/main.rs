//! The rules of the house and the end-to-end tests, in one program, except those that count its
//! memory.

mod architecture;
mod arrangement;
mod dependencies;
mod golden;
mod golden_sets;
mod hostile_damage;
mod hostile_files;
mod safety;
mod sharded;
mod warc_to_pages;
