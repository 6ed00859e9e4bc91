//! Stand-ins for the model checkers, and the faults that can be planted in them.
//!
//! The checkers have no `OnceLock` and no `ArcSwap`. These models have exactly the orderings that
//! the originals document. A fault weakens one kind of step, so that a test can prove that its
//! scenario detects it.

use std::cell::Cell;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

#[cfg(filemap_loom)]
use loom as checker;
#[cfg(filemap_shuttle)]
use shuttle as checker;

use checked::Ordering;
use checker::sync::atomic as checked;
pub(crate) use checker::sync::{Mutex, MutexGuard};

/// A kind of step to weaken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// `Release` stores of 32-bit words are `Relaxed`.
    Publish32,
    /// `Release` stores of 64-bit words are `Relaxed`.
    Publish64,
    /// `Acquire` loads of 64-bit words are `Relaxed`.
    Read64,
    /// `fetch_add` is `Relaxed`.
    Add,
    /// `fetch_or` is `Relaxed`.
    Mark,
    /// Fences do nothing.
    Fence,
    /// `notify_all` wakes one thread.
    WakeOne,
}

thread_local! {
    // The checkers run all threads of a scenario on one system thread.
    static FAULT: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// Plants a fault for the rest of the test.
#[cfg(all(test, filemap_loom))]
pub(crate) fn plant(fault: Fault) {
    FAULT.set(Some(fault));
}

fn weakened(order: Ordering, by: Fault) -> Ordering {
    if FAULT.get() == Some(by) { Ordering::Relaxed } else { order }
}

pub(crate) fn fence(order: Ordering) {
    if FAULT.get() != Some(Fault::Fence) {
        checked::fence(order);
    }
}

/// Yields: time does not pass in a model.
pub(crate) fn sleep(_: std::time::Duration) {
    checker::thread::yield_now();
}

macro_rules! atomic {
    ($name:ident, $value:ty, $publish:expr, $read:expr) => {
        pub(crate) struct $name(checked::$name);

        impl $name {
            pub(crate) fn new(value: $value) -> $name {
                $name(checked::$name::new(value))
            }

            pub(crate) fn load(&self, order: Ordering) -> $value {
                self.0.load($read(order))
            }

            pub(crate) fn store(&self, value: $value, order: Ordering) {
                self.0.store(value, $publish(order));
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }

        impl Default for $name {
            fn default() -> $name {
                $name::new(Default::default())
            }
        }
    };
}

atomic!(AtomicBool, bool, |order| order, |order| order);
atomic!(AtomicU32, u32, |order| weakened(order, Fault::Publish32), |order| order);
atomic!(AtomicU64, u64, |order| weakened(order, Fault::Publish64), |order| weakened(order, Fault::Read64));
atomic!(AtomicI64, i64, |order| order, |order| order);
atomic!(AtomicUsize, usize, |order| order, |order| order);

impl AtomicBool {
    pub(crate) fn swap(&self, value: bool, order: Ordering) -> bool {
        self.0.swap(value, order)
    }
}

impl AtomicU64 {
    pub(crate) fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        self.0.fetch_add(value, weakened(order, Fault::Add))
    }

    pub(crate) fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
        self.0.fetch_sub(value, order)
    }

    pub(crate) fn fetch_or(&self, value: u64, order: Ordering) -> u64 {
        self.0.fetch_or(value, weakened(order, Fault::Mark))
    }

    pub(crate) fn fetch_max(&self, value: u64, order: Ordering) -> u64 {
        self.0.fetch_max(value, order)
    }

    pub(crate) fn compare_exchange(&self, old: u64, new: u64, set: Ordering, fetch: Ordering) -> Result<u64, u64> {
        self.0.compare_exchange(old, new, set, fetch)
    }
}

/// Words of zeros.
#[derive(Debug)]
pub(crate) struct LargeWords(Box<[AtomicU64]>);

impl LargeWords {
    pub(crate) fn zeroed(words: usize) -> std::io::Result<LargeWords> {
        Ok(LargeWords((0..words).map(|_| AtomicU64::new(0)).collect()))
    }
}

impl Deref for LargeWords {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        &self.0
    }
}

impl AtomicI64 {
    pub(crate) fn fetch_max(&self, value: i64, order: Ordering) -> i64 {
        self.0.fetch_max(value, order)
    }
}

/// A condition variable without timeouts: time does not pass in a model.
pub(crate) struct Condvar(checker::sync::Condvar);

impl Condvar {
    pub(crate) fn wait<'g, T>(&self, guard: MutexGuard<'g, T>) -> std::sync::LockResult<MutexGuard<'g, T>> {
        self.0.wait(guard)
    }

    pub(crate) fn wait_timeout<'g, T>(
        &self,
        guard: MutexGuard<'g, T>,
        _: std::time::Duration,
    ) -> std::sync::LockResult<(MutexGuard<'g, T>, ())> {
        match self.0.wait(guard) {
            Ok(guard) => Ok((guard, ())),
            Err(poisoned) => Err(std::sync::PoisonError::new((poisoned.into_inner(), ()))),
        }
    }

    pub(crate) fn notify_all(&self) {
        if FAULT.get() == Some(Fault::WakeOne) {
            self.0.notify_one();
        } else {
            self.0.notify_all();
        }
    }
}

impl Default for Condvar {
    fn default() -> Condvar {
        Condvar(checker::sync::Condvar::new())
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Condvar")
    }
}

/// Model of `std`'s `OnceLock`: a thread that sees the value sees everything before `set`.
pub(crate) struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    is_set: checked::AtomicBool,
}

impl<T> OnceLock<T> {
    pub(crate) fn new() -> OnceLock<T> {
        OnceLock { value: std::sync::OnceLock::new(), is_set: checked::AtomicBool::new(false) }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        if self.is_set.load(Ordering::Acquire) { self.value.get() } else { None }
    }

    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        let result = self.value.set(value);
        if result.is_ok() {
            self.is_set.store(true, Ordering::Release);
        }
        result
    }

    pub(crate) fn get_or_init(&self, init: impl FnOnce() -> T) -> &T {
        let value = self.value.get_or_init(init);
        self.is_set.fetch_or(true, Ordering::AcqRel);
        value
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> OnceLock<T> {
        OnceLock::new()
    }
}

impl<T> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnceLock")
    }
}

/// Model of `arc-swap`'s `ArcSwap`: a load acquires what the store of that pointer released.
/// Values live as long as the cell; the pointer is an index into them.
pub(crate) struct ArcSwap<T> {
    values: std::sync::Mutex<Vec<Arc<T>>>,
    current: checked::AtomicUsize,
}

/// Result of a load.
pub(crate) struct Guard<T>(Arc<T>);

impl<T> Deref for Guard<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.0
    }
}

impl<T> ArcSwap<T> {
    pub(crate) fn from_pointee(value: T) -> ArcSwap<T> {
        ArcSwap { values: std::sync::Mutex::new(vec![Arc::new(value)]), current: checked::AtomicUsize::new(0) }
    }

    pub(crate) fn load_full(&self) -> Arc<T> {
        let at = self.current.load(Ordering::Acquire);
        Arc::clone(&self.values.lock().expect("no step in between")[at])
    }

    pub(crate) fn load(&self) -> Guard<T> {
        Guard(self.load_full())
    }

    pub(crate) fn store(&self, value: Arc<T>) {
        let at = {
            let mut values = self.values.lock().expect("no step in between");
            values.push(value);
            values.len() - 1
        };
        self.current.swap(at, Ordering::AcqRel);
    }
}

impl<T> fmt::Debug for ArcSwap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ArcSwap")
    }
}
