//! One shard of a store, and the tasks of its writer.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::JoinHandle;

use crate::core::Core;
use crate::error::Result;
use crate::hold::Hold;
use crate::keeping::Keeping;

/// A shard, with the tasks of its writer.
pub(crate) struct Shard {
    pub(crate) core: Arc<Core>,
    /// The task that commits.
    pub(crate) commits: Mutex<Option<JoinHandle<()>>>,
    /// The task for upkeep.
    pub(crate) upkeep: Mutex<Option<JoinHandle<()>>>,
    pub(crate) closed: Mutex<Option<Result<()>>>,
    pub(crate) keeping: Mutex<Keeping>,
    /// The checkpoint whose view the shard has.
    pub(crate) hold: Mutex<Option<Hold>>,
}

impl Shard {
    /// Makes all earlier puts durable.
    pub(crate) fn sync(&self) -> Result<()> {
        match &self.core.writer {
            Some(writer) => writer.sync(),
            None => Err(self.core.index.read_only()),
        }
    }

    /// Syncs, and ends the handle's work. Waits for a dictionary in the making: none is stored
    /// later, when another owner may have erased its pages. Repeated calls return the first
    /// result.
    pub(crate) fn close(&self) -> Result<()> {
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(result) = &*closed {
            return result.clone();
        }
        let upkeep = self.upkeep.lock().unwrap_or_else(PoisonError::into_inner).take();
        let synced = self.core.writer.as_ref().map_or(Ok(()), |writer| {
            // A running compaction stops early.
            writer.stop_upkeep();
            let _turn = self.core.dictionaries.turn();
            let _alone = writer.compacting.lock().unwrap_or_else(PoisonError::into_inner);
            writer.finish()
        });
        let commits = self.commits.lock().unwrap_or_else(PoisonError::into_inner).take();
        let hold = self.hold.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = self.core.wait(|core| async move {
            if let Some(upkeep) = upkeep {
                upkeep.abort();
            }
            if let Some(commits) = commits {
                commits.await.map_err(|error| core.bucket.unavailable("a commit", 0, &error))?;
            }
            let released = match hold {
                Some(hold) => hold.release().await,
                None => Ok(()),
            };
            core.index.close().await.and(released)
        });
        closed.insert(synced.and(ended)).clone()
    }
}

impl Drop for Shard {
    /// Ends the work of the handle without making anything durable.
    fn drop(&mut self) {
        let is_closed = self.closed.get_mut().unwrap_or_else(PoisonError::into_inner).is_some();
        if is_closed {
            return;
        }
        if let Some(writer) = &self.core.writer {
            writer.stop_upkeep();
            writer.end();
        }
        let hold = self.hold.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let core = Arc::clone(&self.core);
        self.core.runtime.spawn(async move {
            // Nobody waits for the results. A checkpoint that is left expires.
            if let Some(hold) = hold {
                let _ = hold.release().await;
            }
            let _ = core.index.close().await;
        });
    }
}
