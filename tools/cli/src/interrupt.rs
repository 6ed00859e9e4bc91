//! Ctrl-C and SIGTERM: the first asks the program to stop, a second one ends it at once.
//!
//! A verb that may take long calls [`listen`] and checks [`asked`] wherever it can stop. It then
//! closes its files, says how to continue, and ends with [`outcome`]; its exit code is 128 plus
//! the signal's number. Stores and frontiers survive the second signal at any moment. The first
//! signal ends a verb that does not listen.
//!
//! SIGHUP ends the program too, unless it has a log to reopen: see [`listen_to_hang_ups`].

use std::fmt::Display;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::outcome::Outcome;
use crate::words;

/// Written by the signal handlers.
struct Signals {
    asked: Arc<AtomicBool>,
    number: Arc<AtomicUsize>,
}

static SIGNALS: OnceLock<Signals> = OnceLock::new();

/// Makes the first signal only set a flag, and returns the flag. If the system refuses a handler,
/// the signal still ends the process.
pub fn listen() -> Arc<AtomicBool> {
    let signals = SIGNALS.get_or_init(|| {
        let signals = Signals { asked: Arc::new(AtomicBool::new(false)), number: Arc::new(AtomicUsize::new(0)) };
        for signal in [SIGINT, SIGTERM] {
            // In this order: a signal that finds the flag set already ends the process.
            let code = 128 + signal;
            let _ = signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&signals.asked));
            let number = usize::try_from(signal).unwrap_or(0);
            let _ = signal_hook::flag::register_usize(signal, Arc::clone(&signals.number), number);
            let _ = signal_hook::flag::register(signal, Arc::clone(&signals.asked));
        }
        signals
    });
    Arc::clone(&signals.asked)
}

/// Set by SIGHUP.
static HUNG_UP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Makes SIGHUP only set a flag.
///
/// # Errors
/// The error of the system if it refuses a handler.
pub fn listen_to_hang_ups() -> std::io::Result<()> {
    let flag = HUNG_UP.get_or_init(Arc::default);
    signal_hook::flag::register(SIGHUP, Arc::clone(flag)).map(|_| ())
}

/// Returns whether SIGHUP has arrived since the last call.
pub fn hung_up() -> bool {
    HUNG_UP.get().is_some_and(|flag| flag.swap(false, Ordering::Relaxed))
}

/// Returns whether the work must stop.
pub fn asked() -> bool {
    SIGNALS.get().is_some_and(|signals| signals.asked.load(Ordering::Relaxed))
}

/// Result of a progress callback: `Break` once the work must stop.
pub fn go_on() -> ControlFlow<()> {
    if asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// Outcome of an interrupted verb.
pub fn outcome() -> Outcome {
    let number = SIGNALS.get().map_or(0, |signals| signals.number.load(Ordering::Relaxed));
    Outcome::Interrupted(u8::try_from(number).unwrap_or(0))
}

/// As [`outcome`], but first prints what was done and how to continue, even with `--quiet`.
pub fn stopped(done: impl Display) -> Outcome {
    words::complain(format_args!("interrupted: {done}"));
    outcome()
}
