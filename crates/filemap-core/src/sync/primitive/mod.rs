//! The atomics, locks and pointers through which threads of the engine talk to each other, named in one place: those of
//! `std` and `arc-swap`, or, in a build for a model checker, stand-ins whose every step the checker sees and orders.
//!
//! - `--cfg filemap_loom`: all orders of steps that a small scenario has, under the memory model of C++11. What a thread wrote with
//!   `Relaxed` may be seen late; what is missing between two orderings shows.
//! - `--cfg filemap_shuttle`: many random orders of the steps of a large scenario, a whole store with its background threads, in
//!   which each step is seen by all at once.
//! - `--cfg filemap_tsan`: no model, but real threads under ThreadSanitizer, which must be told of the locks.
//!
//! Invariant: a build without these cfgs names nothing but `std` and `arc-swap`; nothing is wrapped.

#[cfg(any(filemap_loom, filemap_shuttle))]
mod modelled;
#[cfg(filemap_tsan)]
mod watched;

#[cfg(not(any(filemap_loom, filemap_shuttle)))]
pub(crate) use arc_swap::ArcSwap;
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
