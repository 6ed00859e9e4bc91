//! Ctrl-C and SIGTERM: the first is a request to stop, the second an order.
//!
//! After the first no page is begun, what is in flight is finished or given back, and everything is closed. After a second the process
//! ends at once, which a store and a frontier bear at any moment.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::outcome::Outcome;

struct Signals {
    asked: Arc<AtomicBool>,
    number: Arc<AtomicUsize>,
}

static SIGNALS: OnceLock<Signals> = OnceLock::new();

/// From now on a first signal is only noted. Where the system refuses that, it goes on ending the process.
pub fn listen() {
    SIGNALS.get_or_init(|| {
        let signals = Signals { asked: Arc::new(AtomicBool::new(false)), number: Arc::new(AtomicUsize::new(0)) };
        for signal in [SIGINT, SIGTERM] {
            // In this order: a signal that finds the request made already ends the process.
            let _ = signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&signals.asked));
            let number = usize::try_from(signal).unwrap_or(0);
            let _ = signal_hook::flag::register_usize(signal, Arc::clone(&signals.number), number);
            let _ = signal_hook::flag::register(signal, Arc::clone(&signals.asked));
        }
        signals
    });
}

/// Whether the work is to stop.
pub fn asked() -> bool {
    SIGNALS.get().is_some_and(|signals| signals.asked.load(Ordering::Relaxed))
}

/// How an interrupted verb ends.
pub fn outcome() -> Outcome {
    let number = SIGNALS.get().map_or(0, |signals| signals.number.load(Ordering::Relaxed));
    Outcome::Interrupted(u8::try_from(number).unwrap_or(0))
}
