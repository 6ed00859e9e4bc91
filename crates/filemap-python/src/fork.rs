//! Handles and `fork`: a child process has the memory of its parent, but none of its threads and
//! locks.
//!
//! `os.register_at_fork` counts forks in the child. A handle remembers the count at which it was
//! made. If the count differs, using the handle is an error and dropping it does nothing: the
//! threads that a drop would wait for do not exist in the child.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;

use crate::errors;

static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Called by `os.register_at_fork` in the child.
#[pyfunction]
pub fn _forked() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Number of forks between the first process and this one.
pub fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// A value that belongs to the process that made it.
pub struct OfProcess<T> {
    /// `None` only while it is dropped.
    value: Option<T>,
    generation: u64,
}

impl<T> OfProcess<T> {
    pub fn new(value: T) -> OfProcess<T> {
        OfProcess { value: Some(value), generation: generation() }
    }

    /// # Errors
    ///
    /// `ForkedError` in a child process.
    pub fn get(&self) -> PyResult<&T> {
        self.check()?;
        self.value.as_ref().ok_or_else(errors::closed)
    }

    /// # Errors
    ///
    /// `ForkedError` in a child process.
    pub fn get_mut(&mut self) -> PyResult<&mut T> {
        self.check()?;
        self.value.as_mut().ok_or_else(errors::closed)
    }

    /// Takes the value out; `None` in a child process.
    pub fn take(&mut self) -> Option<T> {
        let value = self.value.take();
        if self.generation == generation() {
            return value;
        }
        std::mem::forget(value);
        None
    }

    fn check(&self) -> PyResult<()> {
        if self.generation == generation() { Ok(()) } else { Err(errors::forked()) }
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
