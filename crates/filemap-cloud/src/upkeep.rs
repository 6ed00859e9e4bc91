//! Background upkeep of a writer: compacts when enough bytes are dead, and deletes rewritten
//! segments after the grace.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::compact::pass;
use crate::core::Core;
use crate::due::Due;
use crate::plan::Want;

/// The interval at which expired graces are checked.
const SWEEP_EVERY: Duration = Duration::from_secs(600);
/// The pause between two passes.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs until the handle is closed, or its commits have failed.
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
        // An error of the object storage is retried when upkeep is due again; a failed commit is
        // reported by later puts.
        let pass = tokio::task::spawn_blocking(move || pass(&core, Want::Bound(bound), core.options.grace));
        if let Ok(Ok(report)) = pass.await {
            waiting = report.waiting;
        }
        tokio::time::sleep(PAUSE).await;
    }
}
