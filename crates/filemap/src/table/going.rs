//! Whether a table is to be read on: asked between rows, and while rows that nobody wants are
//! passed over.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Versions between two questions.
const BETWEEN: u32 = 1 << 10;

type Ask = Box<dyn FnMut() -> ControlFlow<()> + Send>;

/// Asks whether to go on. Shared by a table and by what chooses its versions.
#[derive(Clone, Default)]
pub(super) struct Going(Arc<State>);

#[derive(Default)]
struct State {
    ask: Mutex<Option<Ask>>,
    passed: AtomicU32,
    has_ended: AtomicBool,
}

impl Going {
    /// From now on `ask` is asked.
    pub fn ask(&self, ask: Ask) {
        *self.0.ask.lock().unwrap_or_else(PoisonError::into_inner) = Some(ask);
    }

    /// Counts a version, and asks now and then. Whether the table ends here, which is so from the
    /// first `Break` on.
    pub fn has_ended(&self) -> bool {
        if self.0.passed.fetch_add(1, Ordering::Relaxed).is_multiple_of(BETWEEN) {
            let mut ask = self.0.ask.lock().unwrap_or_else(PoisonError::into_inner);
            if ask.as_mut().is_some_and(|ask| ask().is_break()) {
                self.0.has_ended.store(true, Ordering::Relaxed);
            }
        }
        self.0.has_ended.load(Ordering::Relaxed)
    }
}
