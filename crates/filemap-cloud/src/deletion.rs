//! Deletes objects of segments, dictionaries and kept files, after a check that this writer still
//! owns the shard: a fenced writer's index is stale, and what it calls rewritten or an orphan may
//! live again in the index of a repair, or of a writer that found an index without its end.
//!
//! A window stays between a check and the last delete that it allows: the requests of one batch,
//! each with its retries (`max_retries` times 30 s and the pauses). The grace does not close the
//! window: it only keeps it from opening before somebody had that time to repair the index. A
//! writer that opens in it, or a repair that ends in it, may name an object that is deleted then,
//! and reports it as missing. Such a writer may also compress with a dictionary that is deleted
//! then, if an erasure had retired it and trained no other.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};

use crate::core::Core;
use crate::error::Result;

/// Objects deleted in parallel, after one check.
const AT_ONCE: usize = 32;

/// Deletes these objects. Before each batch it asks whether this writer still owns the shard: a
/// few requests.
///
/// # Errors
///
/// `Fenced` and `Repairing`: nothing is deleted from that batch on.
pub(crate) async fn delete(core: &Arc<Core>, names: &[String]) -> Result<()> {
    for batch in names.chunks(AT_ONCE) {
        core.index.check_owner().await?;
        let deletes = batch.iter().cloned().map(|name| {
            let core = Arc::clone(core);
            async move { core.bucket.delete(&name).await }
        });
        stream::iter(deletes).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    }
    Ok(())
}
