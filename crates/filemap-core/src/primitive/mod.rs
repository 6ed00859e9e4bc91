//! The atomics, locks and pointers through which threads of the engine talk to each other, named in one place: those of
//! `std` and `arc-swap`, or, in a build for a model checker, stand-ins whose every step the checker sees and orders.
//!
//! - `--cfg loom`: all orders of steps that a small scenario has, under the memory model of C++11. What a thread wrote with
//!   `Relaxed` may be seen late; what is missing between two orderings shows.
//! - `--cfg shuttle`: many random orders of the steps of a large scenario, a whole store with its background threads, in
//!   which each step is seen by all at once.
//! - `--cfg tsan`: no model, but real threads under ThreadSanitizer, which must be told of the locks.
//!
//! Invariant: a build without these cfgs names nothing but `std` and `arc-swap`; nothing is wrapped.

#[cfg(any(loom, shuttle))]
mod modelled;
#[cfg(tsan)]
mod watched;

#[cfg(not(any(loom, shuttle)))]
pub(crate) use arc_swap::ArcSwap;
#[cfg(not(any(loom, shuttle, tsan)))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::{
    sync::OnceLock,
    sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, fence},
    thread::sleep,
};
#[cfg(tsan)]
pub(crate) use watched::{Condvar, Mutex, MutexGuard};

#[cfg(any(loom, shuttle))]
pub(crate) use modelled::*;

pub(crate) use std::sync::atomic::Ordering;
