//! Atomics, locks and pointers shared by the engine's threads: those of `std` and `arc-swap`, or
//! in model checker builds stand-ins whose steps the checker orders.
//!
//! - `--cfg filemap_loom`: all orders of steps of a small scenario, under the C++11 memory model.
//!   Writes with `Relaxed` may be seen late, so missing orderings show.
//! - `--cfg filemap_shuttle`: many random orders of the steps of a large scenario, a whole store
//!   with its background threads. Every step is visible to all threads at once.
//! - `--cfg filemap_tsan`: real threads under ThreadSanitizer, which must be shown the locks.
//!
//! Invariant: without these cfgs everything is `std` or `arc-swap`, unwrapped.

#[cfg(any(filemap_loom, filemap_shuttle))]
mod modelled;
#[cfg(filemap_tsan)]
mod watched;

#[cfg(not(any(filemap_loom, filemap_shuttle)))]
pub(crate) use arc_swap::ArcSwap;
#[cfg(not(any(filemap_loom, filemap_shuttle)))]
pub(crate) use filemap_io::LargeWords;
#[cfg(not(any(filemap_loom, filemap_shuttle, filemap_tsan)))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, OnceLock};
#[cfg(not(any(filemap_loom, filemap_shuttle)))]
pub(crate) use std::{
    sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, fence},
    thread::sleep,
};
#[cfg(filemap_tsan)]
pub(crate) use watched::{Condvar, Mutex, MutexGuard, OnceLock};

#[cfg(any(filemap_loom, filemap_shuttle))]
pub(crate) use modelled::*;

pub(crate) use std::sync::atomic::Ordering;
