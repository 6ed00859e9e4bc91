//! Signals during long calls: Ctrl-C ends them within a tenth of a second.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use pyo3::prelude::*;

const BETWEEN: Duration = Duration::from_millis(100);

/// Looks for signals now and then, from code that does not hold the interpreter.
#[derive(Debug)]
pub struct Watch {
    next: Instant,
    raised: Option<PyErr>,
}

impl Watch {
    pub fn new() -> Watch {
        Watch { next: Instant::now() + BETWEEN, raised: None }
    }

    /// Runs `tell` (a progress callback of the caller's, say) and the handlers of signals, every
    /// tenth of a second. `Break` once one of them raised.
    pub fn tick(&mut self, tell: impl FnOnce(Python<'_>) -> PyResult<()>) -> ControlFlow<()> {
        if self.raised.is_some() {
            return ControlFlow::Break(());
        }
        let now = Instant::now();
        if now < self.next {
            return ControlFlow::Continue(());
        }
        self.next = now + BETWEEN;
        match Python::attach(|py| py.check_signals().and_then(|()| tell(py))) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.raised = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    /// What was raised, if anything.
    pub fn raised(&self) -> Option<&PyErr> {
        self.raised.as_ref()
    }

    /// What was raised, if anything; else the result.
    ///
    /// # Errors
    ///
    /// What a signal handler or the caller's callback raised.
    pub fn end<T>(self, result: PyResult<T>) -> PyResult<T> {
        match self.raised {
            Some(error) => Err(error),
            None => result,
        }
    }
}
