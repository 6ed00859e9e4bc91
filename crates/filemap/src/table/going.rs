//! Cancellation check of a table: before each batch, and once per 16 versions read.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

/// Number of versions between two checks.
const BETWEEN: u32 = 16;

/// The caller's cancellation check. The table shares it with the iterators that find its versions.
#[derive(Clone)]
pub(super) struct Going(Arc<Mutex<State>>);

struct State {
    ask: Box<dyn FnMut() -> ControlFlow<()> + Send>,
    passed: u32,
}

impl Going {
    pub fn new(ask: impl FnMut() -> ControlFlow<()> + Send + 'static) -> Going {
        Going(Arc::new(Mutex::new(State { ask: Box::new(ask), passed: 0 })))
    }

    /// Checks now.
    pub fn now(&self) -> ControlFlow<()> {
        (self.0.lock().unwrap_or_else(PoisonError::into_inner).ask)()
    }

    /// Counts a version, and checks after every 16 versions.
    pub fn next(&self) -> ControlFlow<()> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.passed = (state.passed + 1) % BETWEEN;
        if state.passed == 0 { (state.ask)() } else { ControlFlow::Continue(()) }
    }
}
