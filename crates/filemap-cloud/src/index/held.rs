//! A view of the index that stays as it is while a checkpoint lives, and the checkpoint of SlateDB
//! that keeps its tables.
//!
//! SlateDB's checkpoint names the tables of a manifest, but not the end of the write-ahead log,
//! which only a writer could flush. So the view is opened after it, and holds that end in memory;
//! then its tables must be among those of the checkpoint. If the index was compacted in between,
//! both are made again.
//!
//! A writer decides by its own clock whether a checkpoint has expired, and that clock is ahead if
//! the index has ever seen a future time. So the end of a lifetime is computed from a clock at or
//! after every time in the index, looked up again at each refresh.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use slatedb::admin::Admin;
use slatedb::config::CheckpointOptions;
use slatedb::{CheckpointCreateResult, VersionedManifest};

use super::clock::Clock;
use super::view::Views;
use super::{CLOCK_SLACK, Generation, Generations, Index, Kind, admin, failed, looked, pass_all};
use crate::bucket::Bucket;
use crate::error::Result;
use crate::format::row;
use crate::options::CloudOptions;

/// Attempts to keep the tables of a view before the index is compacted.
const ATTEMPTS: u32 = 6;

/// The checkpoint that holds a view.
pub(crate) struct Held<'a> {
    /// Its name, which is unique.
    pub(crate) name: &'a str,
    /// Its object.
    pub(crate) object: &'a str,
    pub(crate) lifetime: Duration,
}

/// The tables of a view, kept from SlateDB's collection.
pub(crate) struct Tables {
    bucket: Bucket,
    generation: Generation,
    made: CheckpointCreateResult,
    /// At or after every time seen in the index.
    clock: Arc<Clock>,
}

impl Index {
    /// Opens a view of the newest index that stays as it is.
    pub(crate) async fn open_held(bucket: &Bucket, options: &CloudOptions, held: &Held<'_>) -> Result<(Index, Tables)> {
        for _ in 0..ATTEMPTS {
            let generation = Generations::read(bucket).await?.newest;
            let tables = Tables::keep(bucket, generation, held).await?;
            let views = match Views::held(bucket, options, generation, held.object).await {
                Ok(views) => views,
                Err(error) => {
                    // If it is left, it expires.
                    let _ = tables.release().await;
                    return Err(error);
                }
            };
            tables.follow(&views, held.lifetime).await?;
            if tables.have(&views.manifest()).await? {
                let index = Index { bucket: bucket.clone(), generation, kind: Kind::Reader(Arc::new(views)) };
                return Ok((index, tables));
            }
            tables.release().await?;
        }
        let what = "the index was compacted each time; try again";
        Err(bucket.unavailable("a checkpoint", ATTEMPTS, &what))
    }

    /// Releases the tables that a checkpoint keeps in the newest index.
    pub(crate) async fn release_held(bucket: &Bucket, name: &str) -> Result<()> {
        let generation = Generations::read(bucket).await?.newest;
        let admin = admin(bucket, generation);
        let operation = "removing a checkpoint of the index";
        for found in looked(bucket, operation, admin.list_checkpoints(Some(name))).await? {
            looked(bucket, operation, admin.delete_checkpoint(found.id)).await?;
        }
        Ok(())
    }
}

impl Tables {
    async fn keep(bucket: &Bucket, generation: Generation, held: &Held<'_>) -> Result<Tables> {
        let (lifetime, name) = (Some(held.lifetime), Some(held.name.to_owned()));
        let options = CheckpointOptions { lifetime, name, ..CheckpointOptions::default() };
        let clock = Arc::new(Clock::new(Duration::ZERO));
        pass_all(bucket, generation, &clock).await?;
        let admin = by_clock(bucket, generation, &clock);
        let made = looked(bucket, "a checkpoint of the index", admin.create_detached_checkpoint(&options)).await?;
        Ok(Tables { bucket: bucket.clone(), generation, made, clock })
    }

    /// Shows the clock the time of the last commit, which may be in the log alone, and keeps the
    /// tables accordingly longer.
    async fn follow(&self, views: &Views, lifetime: Duration) -> Result<()> {
        let ahead = self.clock.ahead();
        let last = views.current().await?.reader.get_key_value(row::NEXT).await;
        let last = last.map_err(|error| failed(&self.bucket, "reading the index", &error))?;
        last.iter().for_each(|row| self.clock.pass(row.create_ts));
        if self.clock.ahead() > ahead.saturating_add(CLOCK_SLACK) { self.refresh(lifetime).await } else { Ok(()) }
    }

    /// Returns whether all tables of a view are kept.
    async fn have(&self, view: &VersionedManifest) -> Result<bool> {
        let admin = admin(&self.bucket, self.generation);
        let operation = "reading the manifest of a checkpoint";
        let kept = looked(&self.bucket, operation, admin.read_manifest(Some(self.made.manifest_id))).await?;
        Ok(kept.is_some_and(|kept| names(view).is_subset(&names(&kept))))
    }

    /// Keeps them for another lifetime.
    pub(crate) async fn refresh(&self, lifetime: Duration) -> Result<()> {
        pass_all(&self.bucket, self.generation, &self.clock).await?;
        let admin = by_clock(&self.bucket, self.generation, &self.clock);
        let refreshed = admin.refresh_checkpoint(self.made.id, Some(lifetime));
        looked(&self.bucket, "refreshing a checkpoint of the index", refreshed).await
    }

    /// Leaves them to the collection.
    pub(crate) async fn release(&self) -> Result<()> {
        let admin = admin(&self.bucket, self.generation);
        looked(&self.bucket, "removing a checkpoint of the index", admin.delete_checkpoint(self.made.id)).await
    }
}

/// An administrator of the index with this clock.
fn by_clock(bucket: &Bucket, generation: Generation, clock: &Arc<Clock>) -> Admin {
    let builder = Admin::builder(bucket.path(&generation.folder()), Arc::clone(bucket.of_index()));
    builder.with_system_clock(Arc::clone(clock) as _).build()
}

/// The names of a manifest's tables.
fn names(manifest: &VersionedManifest) -> BTreeSet<String> {
    manifest.all_sst_views().map(|view| view.sst.id.value().to_string()).collect()
}
