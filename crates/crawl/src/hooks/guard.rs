//! Calls to foreign code: a panic becomes an ordinary error.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::BoxError;

/// Calls a hook and turns a panic into an error. Other visits continue meanwhile.
pub(crate) fn guarded<T>(call: impl FnOnce() -> Result<T, BoxError>) -> Result<T, String> {
    // Unwind safety: state that a hook leaves broken is its own.
    match tokio::task::block_in_place(|| catch_unwind(AssertUnwindSafe(call))) {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(panic) => Err(panicked(&*panic)),
    }
}

/// The message of a panic.
pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("it panicked: {}", text.unwrap_or("no words"))
}
