//! Whether a table is to be read on: asked before each batch, and of every few versions that are
//! met.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

/// Versions between two questions.
const BETWEEN: u32 = 16;

/// Asks whether to go on. A table shares it with what finds its versions.
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

    /// Asks now.
    pub fn now(&self) -> ControlFlow<()> {
        (self.0.lock().unwrap_or_else(PoisonError::into_inner).ask)()
    }

    /// Counts a version, and asks now and then.
    pub fn next(&self) -> ControlFlow<()> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.passed = (state.passed + 1) % BETWEEN;
        if state.passed == 0 { (state.ask)() } else { ControlFlow::Continue(()) }
    }
}
