//! The threads that talk to object storage: one runtime per process, started by the first store.
//!
//! Callers block; the work runs as tasks. No runtime thread ever drives another runtime
//! (`block_on`), so a caller may itself be a runtime thread: it waits as for a disk.

use std::future::Future;
use std::sync::{OnceLock, mpsc};

use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::{Error, Result};

static RUNTIME: OnceLock<std::result::Result<Runtime, String>> = OnceLock::new();

/// Number of threads of the runtime: they only wait, and do no compression or checksums.
const THREADS: usize = 4;

/// The runtime of this process.
pub(crate) fn handle(location: &str) -> Result<Handle> {
    let start =
        || Builder::new_multi_thread().worker_threads(THREADS).thread_name("filemap-cloud").enable_all().build();
    match RUNTIME.get_or_init(|| start().map_err(|error| error.to_string())) {
        Ok(runtime) => Ok(runtime.handle().clone()),
        Err(what) => {
            let what = format!("no threads for requests can be started: {what}");
            Err(Error::Location { location: location.to_owned(), what })
        }
    }
}

/// Runs a future and waits for it; `None` if it ended without a result.
pub(crate) fn wait<T: Send + 'static>(handle: &Handle, future: impl Future<Output = T> + Send + 'static) -> Option<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    handle.spawn(async move {
        // If the receiver was dropped, nobody waits any more.
        let _ = sender.send(future.await);
    });
    receiver.recv().ok()
}
