//! What a handle that reads sees of an index: the newest at some time, until it looks again.
//!
//! A look anew opens the index once more; those that want one at the same time share it. The view
//! before is closed when the last call that uses it has ended.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use slatedb::{DbReader, DbReaderMode, config::DbReaderOptions};
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use super::{Generation, MIN_AGE, Sum, cache, failed, filters};
use crate::bucket::Bucket;
use crate::error::Result;
use crate::options::CloudOptions;

/// See the module.
pub(super) struct Views {
    current: RwLock<Arc<View>>,
    options: CloudOptions,
    /// Held while the index is opened anew.
    renewing: Mutex<()>,
    /// Looks that have begun, and the last of them that has ended.
    begun: AtomicU64,
    ended: AtomicU64,
}

/// An open index.
pub(super) struct View {
    pub(super) reader: Arc<DbReader>,
    runtime: Handle,
}

impl Drop for View {
    fn drop(&mut self) {
        let reader = Arc::clone(&self.reader);
        self.runtime.spawn(async move {
            // Nobody asks for the result.
            let _ = reader.close().await;
        });
    }
}

impl Views {
    pub(super) async fn open(bucket: &Bucket, generation: Generation, options: &CloudOptions) -> Result<Views> {
        let current = RwLock::new(Arc::new(view(bucket, generation, options).await?));
        let (renewing, begun, ended) = (Mutex::default(), AtomicU64::default(), AtomicU64::default());
        Ok(Views { current, options: options.clone(), renewing, begun, ended })
    }

    pub(super) fn current(&self) -> Arc<View> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets later calls see what was written before this one.
    pub(super) async fn renew(&self, bucket: &Bucket, generation: Generation) -> Result<()> {
        let asked = self.begun.load(Ordering::SeqCst);
        let _renewing = self.renewing.lock().await;
        if self.ended.load(Ordering::SeqCst) > asked {
            // Another call has begun its look after this one had asked.
            return Ok(());
        }
        let nth = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let fresh = Arc::new(view(bucket, generation, &self.options).await?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        self.ended.store(nth, Ordering::SeqCst);
        Ok(())
    }
}

async fn view(bucket: &Bucket, generation: Generation, options: &CloudOptions) -> Result<View> {
    let reader_options = DbReaderOptions {
        manifest_poll_interval: options.poll,
        checkpoint_lifetime: MIN_AGE,
        object_store_max_retries: Some(bucket.retries()),
        ..DbReaderOptions::default()
    };
    let builder = DbReader::builder(generation.folder(bucket), Arc::clone(bucket.of_index()))
        .with_reader_mode(DbReaderMode::FollowLatest)
        .with_options(reader_options)
        .with_db_cache(cache(options), 0)
        .with_merge_operator(Arc::new(Sum))
        .with_filter_policies(filters());
    let reader = builder.build().await.map_err(|error| failed(bucket, "opening the index", &error))?;
    Ok(View { reader: Arc::new(reader), runtime: Handle::current() })
}
