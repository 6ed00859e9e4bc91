//! Runs a scenario with a fault planted or without; turns a panic into a violation.

use std::panic::{AssertUnwindSafe, catch_unwind};

use filemap_core::sim::{self, Fault};

/// Runs with a fault planted or without; a panic of the engine is a violation.
pub(crate) fn guarded(fault: Option<Fault>, run: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    sim::plant(fault);
    let result = catch_unwind(AssertUnwindSafe(run));
    sim::at_steps(None);
    sim::plant(None);
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|t| (*t).to_owned()));
        Err(format!("a panic: {}", text.unwrap_or_default()))
    })
}
