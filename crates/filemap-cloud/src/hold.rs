//! A checkpoint that this process keeps alive: its object, the tables of its view, and the task
//! that refreshes both. If the process dies, both expire.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::bucket::Bucket;
use crate::error::{Error, Result};
use crate::failpoint::Fault;
use crate::format::checkpoint::Checkpoint;
use crate::index::{Held, Index, Tables};
use crate::options::CloudOptions;
use crate::pins;

/// Refreshes in a lifetime.
const REFRESHES: u32 = 4;

/// A live checkpoint of a shard.
pub(crate) struct Hold {
    pin: Arc<Pin>,
    keeper: JoinHandle<()>,
}

struct Pin {
    bucket: Bucket,
    name: String,
    checkpoint: Checkpoint,
    tables: Tables,
}

impl Hold {
    /// Takes a checkpoint, and opens its view of the index. `name` must be unique.
    ///
    /// The object comes first: a compaction that does not see it deletes only segments whose rows
    /// were moved before, and the view, opened after it, names none of them.
    pub(crate) async fn take(
        bucket: &Bucket,
        options: &CloudOptions,
        name: String,
        lifetime: Duration,
    ) -> Result<(Index, Hold)> {
        let is_late = Fault::CheckpointLate.is_planted(options.fault);
        let all = Checkpoint { lifetime, next: 0, refreshes: 0 };
        if !is_late {
            pins::store(bucket, &name, all).await?;
        }
        match Hold::opened(bucket, options, &name, all, is_late).await {
            Ok((index, pin)) => {
                let pin = Arc::new(pin);
                let keeper = tokio::spawn(keep(Arc::clone(&pin)));
                Ok((index, Hold { pin, keeper }))
            }
            Err(error) => {
                // If it is left, it expires.
                let _ = bucket.delete(&pins::object(&name)).await;
                Err(error)
            }
        }
    }

    /// Opens the view, and says in the object what it needs. Fails if the checkpoint has expired
    /// or was removed meanwhile: segments of the view may be gone.
    async fn opened(
        bucket: &Bucket,
        options: &CloudOptions,
        name: &str,
        all: Checkpoint,
        is_late: bool,
    ) -> Result<(Index, Pin)> {
        let held = Held { name, object: &pins::object(name), lifetime: all.lifetime };
        let (index, tables) = Index::open_held(bucket, options, &held).await?;
        let stored = async {
            let checkpoint = Checkpoint { next: index.next_sequence().await?, ..all };
            let stored = if is_late {
                pins::store(bucket, name, checkpoint).await
            } else {
                pins::renew(bucket, name, all, checkpoint).await
            };
            stored.map(|()| checkpoint)
        };
        let stored = stored.await;
        match stored {
            Ok(checkpoint) => Ok((index, Pin { bucket: bucket.clone(), name: name.to_owned(), checkpoint, tables })),
            Err(error) => {
                // Both if they can be; the tables are kept for a lifetime at most.
                let _ = (tables.release().await, index.close().await);
                Err(error)
            }
        }
    }

    /// Releases the checkpoint.
    pub(crate) async fn release(self) -> Result<()> {
        self.keeper.abort();
        // Until it has ended, it might keep the tables again.
        let _ = self.keeper.await;
        let deleted = self.pin.bucket.delete(&pins::object(&self.pin.name)).await;
        deleted.and(self.pin.tables.release().await)
    }
}

impl Pin {
    /// Refreshes the checkpoint. `Expired`: somebody has removed it, or it had expired while this
    /// process did not run.
    async fn refresh(&self) -> Result<()> {
        pins::renew(&self.bucket, &self.name, self.checkpoint, self.checkpoint).await?;
        self.tables.refresh(self.checkpoint.lifetime).await
    }
}

/// Refreshes a checkpoint until it is released or gone. A refresh that fails is repeated at the
/// next time; if all fail, reads of missing objects say that the checkpoint has expired.
async fn keep(pin: Arc<Pin>) {
    loop {
        tokio::time::sleep(pin.checkpoint.lifetime / REFRESHES).await;
        if let Err(Error::Expired { .. }) = pin.refresh().await {
            return;
        }
    }
}
