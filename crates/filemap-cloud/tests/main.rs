//! Tests of stores in object storage, as their users see them.

mod as_store;
mod mend;
mod owners;
