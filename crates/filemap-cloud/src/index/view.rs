//! A follower's view of an index: a snapshot that is refreshed by polling.
//!
//! A call polls if the last poll is older than `poll`; an idle handle makes no request. A poll
//! lists new objects; if there are any, or a repair has built another index, it opens a new view.
//! Concurrent calls share one poll, and its error. The old view is closed when the last call that
//! uses it has ended.
//!
//! If polls fail, the old view is used for a while longer, and then calls fail: answers do not
//! stay stale.
//!
//! The view of a checkpoint is held: it never polls, and no other takes its place.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use slatedb::{DbReader, DbReaderMode, VersionedManifest, config::DbReaderOptions};
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use super::blocks::Blocks;
use super::clock::Still;
use super::{Generation, Generations, LONGEST_LOOK, MIN_AGE, Sum, failed, filters};
use crate::bucket::Bucket;
use crate::error::{Error, Result};
use crate::format::checkpoint::Checkpoint;
use crate::options::CloudOptions;

/// Disables SlateDB's own polling.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);
/// While polls fail, a view is used for `PATIENCE` times `poll`.
const PATIENCE: u32 = 5;

/// The newest view of an index, and the poll for a newer one.
pub(super) struct Views {
    bucket: Bucket,
    options: CloudOptions,
    /// Shared by all views: unchanged blocks stay cached.
    cache: Arc<Blocks>,
    /// The object of the checkpoint that holds the view, if one does.
    holder: Option<String>,
    state: RwLock<State>,
    /// Held during a poll; contains the last finished poll.
    looking: Mutex<Ended>,
    /// Number of polls begun.
    begun: AtomicU64,
}

/// A finished poll and its result.
struct Ended {
    nth: u64,
    result: Result<()>,
}

struct State {
    view: Arc<View>,
    generation: Generation,
    /// The start of the poll that last found this view current.
    since: Instant,
    /// The start of the last poll, successful or not.
    tried: Instant,
    /// The last object names when the view was opened; unknown for the first view.
    last: Option<[Option<String>; 2]>,
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
            // Nobody waits for the result.
            let _ = reader.close().await;
        });
    }
}

impl Views {
    pub(super) async fn open(bucket: &Bucket, options: &CloudOptions) -> Result<Views> {
        let since = Instant::now();
        let generation = Generations::read(bucket).await?.newest;
        Views::of(bucket, options, generation, since, None).await
    }

    /// A view of a generation that stays as it is, held by the checkpoint with this object.
    pub(super) async fn held(
        bucket: &Bucket,
        options: &CloudOptions,
        generation: Generation,
        holder: &str,
    ) -> Result<Views> {
        Views::of(bucket, options, generation, Instant::now(), Some(holder.to_owned())).await
    }

    async fn of(
        bucket: &Bucket,
        options: &CloudOptions,
        generation: Generation,
        since: Instant,
        holder: Option<String>,
    ) -> Result<Views> {
        let cache = Arc::new(Blocks::new(options.cache_bytes));
        let view = Arc::new(view(bucket, generation, &cache, holder.is_some()).await?);
        let state = RwLock::new(State { view, generation, since, tried: since, last: None });
        let (looking, begun) = (Mutex::new(Ended { nth: 0, result: Ok(()) }), AtomicU64::default());
        Ok(Views { bucket: bucket.clone(), options: options.clone(), cache, holder, state, looking, begun })
    }

    /// The manifest of the present view.
    pub(super) fn manifest(&self) -> VersionedManifest {
        self.read(|state| state.view.reader.manifest())
    }

    pub(super) fn generation(&self) -> Generation {
        self.read(|state| state.generation)
    }

    fn read<T>(&self, what: impl FnOnce(&State) -> T) -> T {
        what(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// A view that is no older than `poll`, or somewhat older while polls fail.
    pub(super) async fn current(&self) -> Result<Arc<View>> {
        if self.holder.is_some() {
            return Ok(self.read(|state| Arc::clone(&state.view)));
        }
        let poll = self.options.poll;
        let (age, tried) = self.read(|state| (state.since.elapsed(), state.tried.elapsed()));
        let is_patient = age < poll.saturating_mul(PATIENCE);
        if age >= poll && (tried >= poll || !is_patient) {
            let looked = self.look(false).await;
            if !is_patient {
                looked?;
            }
        }
        Ok(self.read(|state| Arc::clone(&state.view)))
    }

    /// Refreshes the view: later calls see everything written before this one. A held view stays;
    /// if its checkpoint is gone, objects that the view names may be, too: an error.
    pub(super) async fn renew(&self) -> Result<()> {
        let Some(holder) = &self.holder else { return self.look(true).await };
        let ended = |bytes: &[u8]| Checkpoint::decode(bytes).is_some_and(Checkpoint::is_ended);
        let is_live = self.bucket.get(holder).await?.is_some_and(|bytes| !ended(&bytes));
        if is_live { Ok(()) } else { Err(Error::Expired { location: self.bucket.location().to_owned() }) }
    }

    /// As [`Views::renew`], after a table of the view was missing or invalid: the cache on disk
    /// may have it damaged, so its tables are read again.
    pub(super) async fn renew_tables(&self) -> Result<()> {
        if let Some(cache) = self.bucket.cache() {
            cache.drop_tables();
        }
        self.renew().await
    }

    /// Polls for changes. `is_sure`: the caller knows that there are some.
    async fn look(&self, is_sure: bool) -> Result<()> {
        let asked = self.begun.load(Ordering::SeqCst);
        let mut last = self.looking.lock().await;
        if last.nth > asked {
            // Another call began its poll after this one was made.
            return last.result.clone();
        }
        let nth = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let since = Instant::now();
        self.change(|state| state.tried = since);
        let looked = tokio::time::timeout(LONGEST_LOOK, self.news(is_sure, since)).await;
        let late = |late| Err(self.bucket.unavailable("a poll for changes", self.bucket.retries(), &late));
        let result = looked.unwrap_or_else(late);
        *last = Ended { nth, result: result.clone() };
        result
    }

    async fn news(&self, is_sure: bool, since: Instant) -> Result<()> {
        let generation = Generations::read(&self.bucket).await?.newest;
        let (of, before) = self.read(|state| (state.generation, state.last.clone()));
        let before = before.filter(|_| of == generation);
        let folder = generation.folder();
        let [log, manifest] = before.clone().unwrap_or_default();
        let last = [
            self.bucket.last_after(&format!("{folder}/wal"), log).await?,
            self.bucket.last_after(&format!("{folder}/manifest"), manifest).await?,
        ];
        if !is_sure && before.as_ref() == Some(&last) {
            self.change(|state| state.since = since);
            return Ok(());
        }
        let view = Arc::new(view(&self.bucket, generation, &self.cache, false).await?);
        self.change(|state| *state = State { view, generation, since, tried: since, last: Some(last) });
        Ok(())
    }

    pub(super) async fn close(&self) -> std::result::Result<(), slatedb::Error> {
        self.read(|state| Arc::clone(&state.view)).reader.close().await
    }
}

async fn view(bucket: &Bucket, generation: Generation, cache: &Arc<Blocks>, is_held: bool) -> Result<View> {
    let reader_options = DbReaderOptions {
        manifest_poll_interval: NEVER,
        checkpoint_lifetime: MIN_AGE,
        object_store_max_retries: Some(bucket.retries()),
        ..DbReaderOptions::default()
    };
    let builder = DbReader::builder(bucket.path(&generation.folder()), Arc::clone(bucket.of_index()))
        .with_reader_mode(DbReaderMode::FollowLatest)
        .with_options(reader_options)
        .with_db_cache(Arc::clone(cache) as _, generation.number())
        .with_merge_operator(Arc::new(Sum))
        .with_filter_policies(filters());
    let builder = if is_held { builder.with_system_clock(Arc::new(Still::default())) } else { builder };
    let reader = builder.build().await.map_err(|error| failed(bucket, "opening the index", &error))?;
    Ok(View { reader: Arc::new(reader), runtime: Handle::current() })
}
