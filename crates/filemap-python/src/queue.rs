//! `PutQueue`: a thread that puts pages for an event loop, which must not wait for compression.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use filemap_core::StorageError;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::argument::{Text, text};
use crate::backing::Backing;
use crate::errors::{self, Failure};
use crate::fork::OfProcess;
use crate::page::Given;
use crate::store::PageStore;
use crate::waiting;

/// Maximum size of the bodies that wait, in bytes, and maximum number of puts.
const MOST_BYTES: usize = 8 << 20;
const MOST_PUTS: usize = 256;
/// Time that the thread polls before it sleeps, and the number of puts that wake it earlier.
/// Waking a thread costs the caller as much as the rest of a put.
const LINGERS: Duration = Duration::from_millis(20);
const WAKING_PUTS: usize = 16;

/// Puts pages one after the other on a separate thread.
#[pyclass(frozen, module = "filemap._native", name = "PutQueue")]
pub struct PutQueue {
    store: Py<PageStore>,
    shared: OfProcess<Arc<Shared>>,
    thread: Mutex<OfProcess<Option<JoinHandle<()>>>>,
}

struct Shared {
    state: Mutex<State>,
    /// Signalled when a put is queued, or the queue is closed.
    filled: Condvar,
    /// Signalled when a put is done.
    emptied: Condvar,
}

#[derive(Default)]
struct State {
    /// Puts that wait, each with its key.
    waiting: VecDeque<(Vec<u8>, Given)>,
    /// Bytes of the bodies in `waiting`.
    bytes: usize,
    /// The key of the put in progress, which is no longer in `waiting`.
    putting: Option<Vec<u8>>,
    failed: Vec<(Vec<u8>, Failure)>,
    /// True while the thread waits for `filled` without a limit.
    is_asleep: bool,
    is_closed: bool,
}

impl State {
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.putting.is_none()
    }

    fn has(&self, key: &[u8]) -> bool {
        self.putting.as_deref() == Some(key) || self.waiting.iter().any(|(other, _)| other == key)
    }

    fn is_full(&self) -> bool {
        self.waiting.len() >= MOST_PUTS || self.bytes >= MOST_BYTES
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while there is nothing to put.
    fn more<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let (mut state, timeout) = self.filled.wait_timeout(state, LINGERS).unwrap_or_else(PoisonError::into_inner);
        while timeout.timed_out() && state.waiting.is_empty() && !state.is_closed {
            state.is_asleep = true;
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_asleep = false;
        state
    }

    fn wait_until<'a>(&'a self, mut state: MutexGuard<'a, State>, is_so: impl Fn(&State) -> bool) {
        self.filled.notify_one();
        while !is_so(&state) {
            state = self.emptied.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The thread: puts pages until the queue is closed and empty.
    fn put_all(&self, store: &Backing) {
        let mut state = self.state();
        loop {
            let Some((key, given)) = state.waiting.pop_front() else {
                if state.is_closed {
                    return;
                }
                state = self.more(state);
                continue;
            };
            state.bytes -= given.body().len();
            state.putting = Some(key);
            drop(state);
            let put = catch_unwind(AssertUnwindSafe(|| given.put_if_changed(store)))
                .unwrap_or_else(|_| Err(errors::make("FileMapError", "the put panicked".to_owned()).into()));
            state = self.state();
            state.putting = None;
            if let Err(failure) = put {
                state.failed.push((given.url().to_vec(), failure));
            }
            self.emptied.notify_all();
        }
    }
}

impl PutQueue {
    fn key(&self, py: Python<'_>, url: &[u8]) -> PyResult<Vec<u8>> {
        self.store.get().on(py, |store| Ok(store.pages().key(url)?))
    }
}

#[pymethods]
impl PutQueue {
    /// A queue of puts into an open store, which must be closed before the store is.
    #[new]
    fn new(store: Py<PageStore>) -> PyResult<PutQueue> {
        let handle = store.get().backing()?;
        let shared = Arc::new(Shared { state: Mutex::default(), filled: Condvar::new(), emptied: Condvar::new() });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("filemap-put".to_owned())
            .spawn(move || of_thread.put_all(&handle))
            .map_err(StorageError::io("start", "a thread for puts"))
            .map_err(|error| Failure::from(filemap_core::Error::from(error)))?;
        Ok(PutQueue { store, shared: OfProcess::new(shared), thread: Mutex::new(OfProcess::new(Some(thread))) })
    }

    /// As `put_if_changed` of the store, but done later. Waits while 8 MiB or 256 pages are
    /// queued. Returns the message about the page, to be kept until the page is put; `None` if the
    /// body has 8 MiB or more, or a message cannot hold the whole page.
    ///
    /// Raises `InvalidUrlError`, and errors of the arguments; `failures` returns others.
    #[pyo3(signature = (url, body, **rest))]
    fn put<'py>(
        &self,
        py: Python<'py>,
        url: &Bound<'py, PyAny>,
        body: &Bound<'py, PyAny>,
        rest: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let shared = self.shared.get()?;
        let given = Given::from_python(url, Some(body), rest)?;
        let key = self.key(py, given.url())?;
        let (page, body) = given.parts();
        let message = if body.len() < MOST_BYTES { waiting::message(page, body) } else { None };
        let mut state = shared.state();
        if state.is_full() {
            drop(state);
            py.detach(|| shared.wait_until(shared.state(), |state| !state.is_full() || state.is_closed));
            state = shared.state();
        }
        if state.is_closed {
            return Err(errors::closed());
        }
        state.bytes += given.body().len();
        state.waiting.push_back((key, given));
        if state.is_asleep || state.waiting.len() >= WAKING_PUTS {
            shared.filled.notify_one();
        }
        Ok(message.map(|message| PyBytes::new(py, &message)))
    }

    /// Waits until all puts are done, or those of a URL.
    ///
    /// Raises `InvalidUrlError`, unless nothing is queued.
    #[pyo3(signature = (url = None))]
    fn wait(&self, py: Python<'_>, url: Option<Text>) -> PyResult<()> {
        let shared = self.shared.get()?;
        if shared.state().is_idle() {
            return Ok(());
        }
        let Some(url) = url else {
            py.detach(|| shared.wait_until(shared.state(), State::is_idle));
            return Ok(());
        };
        let key = self.key(py, url.as_ref())?;
        if shared.state().has(&key) {
            py.detach(|| shared.wait_until(shared.state(), |state| !state.has(&key)));
        }
        Ok(())
    }

    /// The URLs and exceptions of puts that failed since the last call.
    fn failures<'py>(&self, py: Python<'py>) -> PyResult<Vec<(Bound<'py, PyString>, PyErr)>> {
        let failed = std::mem::take(&mut self.shared.get()?.state().failed);
        failed.into_iter().map(|(url, failure)| Ok((text(py, &url)?, failure.into()))).collect()
    }

    /// Does all puts, and ends the thread. A second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let shared = self.shared.get()?;
        shared.state().is_closed = true;
        shared.filled.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).get_mut()?.take();
        // A panic of a put is among the failures.
        let _ = thread.map(|thread| py.detach(|| thread.join()));
        Ok(())
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err("a queue of puts cannot be pickled"))
    }
}

impl Drop for PutQueue {
    /// A queue that was not closed still does its puts; the drop does not wait for them.
    fn drop(&mut self) {
        if let Ok(shared) = self.shared.get() {
            shared.state().is_closed = true;
            shared.filled.notify_all();
        }
    }
}
