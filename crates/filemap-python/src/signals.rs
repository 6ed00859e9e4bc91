//! Signals during long calls: Ctrl-C ends them within a tenth of a second.

use std::ffi::{c_int, c_void};
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::ffi;
use pyo3::prelude::*;

const BETWEEN: Duration = Duration::from_millis(100);

/// Checks for signals periodically, in code that does not hold the interpreter.
#[derive(Debug)]
pub struct Watch {
    next: Instant,
    raised: Option<PyErr>,
}

impl Watch {
    pub fn new() -> Watch {
        Watch { next: Instant::now() + BETWEEN, raised: None }
    }

    /// Runs `tell` (for example the caller's progress callback) and the signal handlers every
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

    /// The exception, if any, for the caller to report in another way.
    pub fn take(&mut self) -> Option<PyErr> {
        self.raised.take()
    }

    /// The exception, if any; otherwise the result.
    ///
    /// # Errors
    ///
    /// The exception of a signal handler or of the caller's callback.
    pub fn end<T>(self, result: PyResult<T>) -> PyResult<T> {
        match self.raised {
            Some(error) => Err(error),
            None => result,
        }
    }
}

/// Checks for signals periodically, in many short calls of code that holds the interpreter: `list`
/// of an iterator runs no Python in between.
#[derive(Debug)]
pub struct Looks(Mutex<Instant>);

impl Looks {
    pub fn new() -> Looks {
        Looks(Mutex::new(Instant::now() + BETWEEN))
    }

    /// Runs the signal handlers every tenth of a second.
    ///
    /// # Errors
    ///
    /// The exception of a handler.
    pub fn look(&self, py: Python<'_>) -> PyResult<()> {
        let now = Instant::now();
        {
            let mut next = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if now < *next {
                return Ok(());
            }
            *next = now + BETWEEN;
        }
        py.check_signals()
    }
}

/// Raises an exception in the interpreter's main thread as soon as that runs, for a caller that
/// cannot return one.
#[expect(unsafe_code, reason = "PyO3 has no other form of it")]
pub fn raise_later(error: PyErr) {
    extern "C" fn raise(error: *mut c_void) -> c_int {
        // SAFETY: this is the pointer of the box below, and the interpreter calls once.
        let error = unsafe { Box::from_raw(error.cast::<PyErr>()) };
        Python::attach(|py| error.restore(py));
        -1
    }
    let error: *mut PyErr = Box::into_raw(Box::new(error));
    // SAFETY: any thread may call it, with any pointer for `raise`, which takes that of a `PyErr`.
    if unsafe { ffi::Py_AddPendingCall(Some(raise), error.cast()) } != 0 {
        // The interpreter's queue is full. SAFETY: nobody else has the pointer.
        let error = unsafe { Box::from_raw(error) };
        Python::attach(|py| error.write_unraisable(py, None));
    }
}
