//! Tests of stores in object storage, as their users see them.

mod as_store;
mod bodies;
mod bucket;
mod caching;
mod checkpoints;
mod compacting;
mod copying;
mod dictionaries;
mod erasing;
mod kept;
mod killed;
mod looks;
mod lost_index;
mod mend;
mod owners;
mod requests;
mod salvage;
mod sharded;
mod simulated;
