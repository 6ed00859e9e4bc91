//! Counts of a run, violations found, and runs on several threads.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A violation, and the command that shows it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The violation.
    pub what: String,
    /// The command that shows it again.
    pub repeat: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\n  again: {}", self.what, self.repeat)
    }
}

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Strings of operations.
    pub runs: u64,
    /// States of the disk that were opened and judged.
    pub states: u64,
    /// Those among them that a crash inside a recovery left.
    pub in_recovery: u64,
    /// Calls that were made to fail.
    pub failures: u64,
    /// Calls that could have failed and were not made to.
    pub passed_over: u64,
}

impl Count {
    /// Adds another count.
    pub fn add(&mut self, other: Count) {
        self.runs += other.runs;
        self.states += other.states;
        self.in_recovery += other.in_recovery;
        self.failures += other.failures;
        self.passed_over += other.passed_over;
    }
}

/// Runs numbers on the given number of threads, until they are used up, enough states were judged,
/// or something was violated.
///
/// # Errors
/// The first violation.
pub fn each(
    threads: usize,
    numbers: Range<u64>,
    enough: u64,
    run: impl Fn(u64) -> Result<Count, Violation> + Sync,
) -> Result<Count, Violation> {
    let next = AtomicU64::new(numbers.start);
    let total = Mutex::new((Count::default(), None));
    std::thread::scope(|s| {
        for _ in 0..threads.max(1) {
            s.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    {
                        let total = total.lock().unwrap_or_else(PoisonError::into_inner);
                        if number >= numbers.end || total.0.states >= enough || total.1.is_some() {
                            return;
                        }
                    }
                    let result = run(number);
                    let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
                    match result {
                        Ok(count) => total.0.add(count),
                        Err(violation) => total.1 = total.1.take().or(Some(violation)),
                    }
                }
            });
        }
    });
    let (count, violation) = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    violation.map_or(Ok(count), Err)
}
