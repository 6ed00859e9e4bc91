//! Locks and cells whose hand-over ThreadSanitizer sees. It only sees what instrumented code does,
//! and the standard library is not instrumented. So each lock has a word that one holder releases
//! and the next acquires: exactly what a lock guarantees, no more.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult, WaitTimeoutResult};
use std::time::Duration;

/// Set by the detector's own test: hides the locks, so that it must report the race.
static BLIND: AtomicBool = AtomicBool::new(false);

fn acquire(word: &AtomicU32) {
    word.load(if BLIND.load(Ordering::Relaxed) { Ordering::Relaxed } else { Ordering::Acquire });
}

fn release(word: &AtomicU32) {
    word.store(0, if BLIND.load(Ordering::Relaxed) { Ordering::Relaxed } else { Ordering::Release });
}

#[derive(Default)]
pub(crate) struct Mutex<T> {
    released: AtomicU32,
    inner: std::sync::Mutex<T>,
}

pub(crate) struct MutexGuard<'m, T> {
    released: &'m AtomicU32,
    /// `None` only while waiting.
    inner: Option<std::sync::MutexGuard<'m, T>>,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex { released: AtomicU32::new(0), inner: std::sync::Mutex::new(value) }
    }

    fn guard<'m>(&'m self, inner: std::sync::MutexGuard<'m, T>) -> MutexGuard<'m, T> {
        acquire(&self.released);
        MutexGuard { released: &self.released, inner: Some(inner) }
    }

    pub(crate) fn into_inner(self) -> LockResult<T> {
        acquire(&self.released);
        self.inner.into_inner()
    }

    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        match self.inner.lock() {
            Ok(inner) => Ok(self.guard(inner)),
            Err(poisoned) => Err(PoisonError::new(self.guard(poisoned.into_inner()))),
        }
    }

    pub(crate) fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        match self.inner.try_lock() {
            Ok(inner) => Ok(self.guard(inner)),
            Err(TryLockError::Poisoned(p)) => Err(TryLockError::Poisoned(PoisonError::new(self.guard(p.into_inner())))),
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().expect("it does not wait")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("it does not wait")
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        release(self.released);
    }
}

impl<T> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MutexGuard")
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutex")
    }
}

#[derive(Debug, Default)]
pub(crate) struct Condvar(std::sync::Condvar);

impl Condvar {
    pub(crate) fn wait<'m, T>(&self, mut guard: MutexGuard<'m, T>) -> LockResult<MutexGuard<'m, T>> {
        let inner = guard.inner.take().expect("it does not wait yet");
        release(guard.released);
        let inner = self.0.wait(inner).unwrap_or_else(PoisonError::into_inner);
        acquire(guard.released);
        guard.inner = Some(inner);
        Ok(guard)
    }

    pub(crate) fn wait_timeout<'m, T>(
        &self,
        mut guard: MutexGuard<'m, T>,
        timeout: Duration,
    ) -> LockResult<(MutexGuard<'m, T>, WaitTimeoutResult)> {
        let inner = guard.inner.take().expect("it does not wait yet");
        release(guard.released);
        let (inner, result) = self.0.wait_timeout(inner, timeout).unwrap_or_else(PoisonError::into_inner);
        acquire(guard.released);
        guard.inner = Some(inner);
        Ok((guard, result))
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// `std`'s `OnceLock`: a thread that sees it set sees everything before.
#[derive(Debug, Default)]
pub(crate) struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    is_set: AtomicBool,
}

impl<T> OnceLock<T> {
    pub(crate) fn new() -> OnceLock<T> {
        OnceLock { value: std::sync::OnceLock::new(), is_set: AtomicBool::new(false) }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        if self.is_set.load(Ordering::Acquire) { self.value.get() } else { None }
    }

    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        let result = self.value.set(value);
        self.is_set.fetch_or(true, Ordering::AcqRel);
        result
    }

    pub(crate) fn get_or_init(&self, init: impl FnOnce() -> T) -> &T {
        let mut is_mine = false;
        let value = self.value.get_or_init(|| {
            is_mine = true;
            init()
        });
        if is_mine {
            self.is_set.store(true, Ordering::Release);
        }
        // Another thread has stored the value and is about to publish it.
        while !self.is_set.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const EACH: u64 = 300_000;
    const BLINDED: &str = "FILEMAP_BLIND_DETECTOR";

    /// Runs itself again with the locks hidden from the detector, which must report the race.
    #[test]
    fn a_lock_that_the_detector_is_not_told_of_is_reported() {
        if std::env::var_os(BLINDED).is_some() {
            return count_under_a_lock();
        }
        let name = "sync::primitive::watched::tests::a_lock_that_the_detector_is_not_told_of_is_reported";
        let mut child = Command::new(std::env::current_exe().unwrap());
        let output = child.args([name, "--exact", "--nocapture"]).env(BLINDED, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("WARNING: ThreadSanitizer: data race"), "{said}");
    }

    fn count_under_a_lock() {
        BLIND.store(true, Ordering::Relaxed);
        // The detector misses only the slow path of the standard library's lock, where a thread
        // waits for the other. So lock often enough for that to happen often.
        let (counter, start) = (Mutex::new(0u64), std::sync::Barrier::new(2));
        let count = || {
            start.wait();
            (0..EACH).for_each(|_| *counter.lock().unwrap() += 1);
        };
        std::thread::scope(|s| {
            [s.spawn(count), s.spawn(count)].into_iter().for_each(|t| t.join().unwrap());
        });
        assert_eq!(*counter.lock().unwrap(), 2 * EACH);
    }
}
