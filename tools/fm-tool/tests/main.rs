//! All tests of the built command line, in one program.

mod absent;
mod bad_input;
mod bucket;
mod caches;
mod chosen;
#[cfg(feature = "cloud")]
mod cloud;
mod dumps;
mod erase;
mod every_verb;
mod filled_shards;
mod foreign;
mod full;
mod guide;
mod harness;
mod hostile;
mod imports;
mod in_place;
mod interrupted;
mod killed;
mod listed;
mod pages;
mod readme;
mod remote;
mod repair;
mod seen;
mod seen_disk;
mod seen_redis;
mod shards;
mod space;
mod streams;
mod variants;
mod verify;
