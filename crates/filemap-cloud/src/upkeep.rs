//! Upkeep of a writer in the background: it compacts when enough has died, and deletes what was
//! rewritten when the grace is over.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::compact::pass;
use crate::core::Core;
use crate::due::Due;
use crate::plan::Want;

/// How often is looked whether a grace is over.
const SWEEP_EVERY: Duration = Duration::from_secs(600);
/// Between two passes.
const PAUSE: Duration = Duration::from_secs(1);

/// Until the handle is closed, or its commits have failed.
pub(crate) async fn run(core: Weak<Core>, due: Arc<Due>, bound: f64) {
    let mut waiting = 0;
    loop {
        let is_due = due.wait(SWEEP_EVERY).await;
        let Some(core) = core.upgrade().filter(|core| !core.is_closing()) else { return };
        if !is_due && waiting == 0 {
            continue;
        }
        if core.writer.as_ref().is_none_or(|writer| writer.progress.check().is_err()) {
            return;
        }
        // What fails for the object storage is tried again when it is due; a failed commit is told
        // to whoever puts.
        let pass = tokio::task::spawn_blocking(move || pass(&core, Want::Bound(bound), core.options.grace));
        if let Ok(Ok(report)) = pass.await {
            waiting = report.waiting;
        }
        tokio::time::sleep(PAUSE).await;
    }
}
