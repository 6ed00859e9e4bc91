//! The tests of the engine's public interface, in one program.

mod backup;
mod compaction;
mod counted;
mod edges;
mod erase;
mod hostile_keys;
mod moment;
mod order;
mod planted;
mod prune;
mod readers;
mod recovery;
mod remove_version;
mod repair;
mod repair_dictionaries;
mod rules;
mod value_cache;
mod verify;
