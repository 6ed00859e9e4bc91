//! Background upkeep of a writer: compacts when enough bytes are dead, deletes rewritten segments
//! after the grace, and trains dictionaries as pages come, if it is asked to.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::compact::pass;
use crate::core::Core;
use crate::due::Due;
use crate::plan::Want;
use crate::train;

/// The interval at which expired graces are checked.
const SWEEP_EVERY: Duration = Duration::from_secs(600);
/// The pause between two passes.
const PAUSE: Duration = Duration::from_secs(1);

/// The interval at which the committed bytes are compared; it takes no request.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Full segments committed before the first training, and the growth until the next one. A shard
/// with a dictionary begins with the second.
const FIRST_SEGMENTS: u64 = 4;
const GROWTH: u64 = 8;

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

/// Trains dictionaries as pages come, until the handle is closed or its commits have failed.
pub(crate) async fn train(core: Weak<Core>, due: Arc<Due>, segment_bytes: u64) {
    let has_one = core.upgrade().is_some_and(|core| core.dictionaries.of_site(b"").is_some());
    let mut next = segment_bytes * FIRST_SEGMENTS * if has_one { GROWTH } else { 1 };
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(core) = core.upgrade().filter(|core| !core.is_closing()) else { return };
        if core.writer.as_ref().is_none_or(|writer| writer.progress.check().is_err()) {
            return;
        }
        let committed = due.committed_bytes();
        if committed < next {
            continue;
        }
        next = committed.saturating_mul(GROWTH);
        // Without a dictionary bodies are larger, no more: an error is retried with the next one.
        let _ = tokio::task::spawn_blocking(move || train::trained(&core)).await;
    }
}
