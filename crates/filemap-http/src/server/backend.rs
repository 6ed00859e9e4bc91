//! State shared by the handlers of one server: the store and its pool, options, counters, locks.
//!
//! Handlers that read pages call [`Backend::call`] and [`Backend::read`], which apply the access
//! rules. `whole` is the store without rules, for puts, removals and figures.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use filemap::PageStore;
use filemap::async_store::AsyncPageStore;
use filemap_core::dictionaries::CompressionSample;
use tokio::runtime::Handle;
use tokio::sync::{Mutex as AsyncMutex, OwnedSemaphorePermit, Semaphore, watch};

use super::counters::Counters;
use super::hour::Hour;
use super::inline::{Inline, Turns};
use super::options::ServerOptions;
use super::refusal::Refusal;
use super::shown::Shown;

/// Number of lock stripes for puts: pages of one stripe wait for each other.
const LOCKS: usize = 64;

/// Memory for URLs of requests to seen sets, in bytes, and the unit in which it is granted.
const ROOM: u64 = 256 << 20;
const ROOM_PART: u64 = 1 << 10;
/// Concurrent seen-set calls that may read from the device. Others wait, without holding a thread
/// that the store needs.
const ASKING: usize = 16;

/// Concurrent file imports, each on two threads: a slow client occupies them.
const UPLOADS: u32 = 16;

/// A slower read came from the device, or its body is large.
const QUICK_READ: Duration = Duration::from_micros(150);
/// A slower put waited for the device or a checkpoint.
const QUICK_PUT: Duration = Duration::from_micros(500);
/// While an inline put takes longer, the store holds puts up: no further one is inline.
const LONG_PUT: Duration = Duration::from_millis(2);
/// The largest body that is put inline, in bytes: compressing it takes less than [`QUICK_PUT`].
const SMALL_PUT: u64 = 64 << 10;

/// The state of one server.
pub(super) struct Backend {
    pub(super) whole: AsyncPageStore,
    shown: Shown,
    direct: PageStore,
    reads: Inline,
    puts: Inline,
    /// Made by the first put, which knows its runtime.
    turns: OnceLock<Turns>,
    pub(super) options: ServerOptions,
    pub(super) counters: Counters,
    pub(super) hour: Hour,
    sample: Mutex<Option<(Instant, CompressionSample)>>,
    /// Time at which the server was created.
    pub(super) begun: Instant,
    putting: [Arc<AsyncMutex<()>>; LOCKS],
    /// Number of changes that asked for a sync, and how many of them are synced.
    to_sync: AtomicU64,
    synced: AsyncMutex<u64>,
    /// Memory for URLs, in units of `ROOM_PART`.
    room: Arc<Semaphore>,
    /// Calls of seen sets that may read from the device.
    pub(super) asking: Arc<Semaphore>,
    uploads: Arc<Semaphore>,
    draining: AtomicBool,
    stopping: watch::Sender<bool>,
    ready: Mutex<Option<Instant>>,
}

impl Backend {
    pub(super) fn new(store: PageStore, options: ServerOptions) -> Backend {
        let counters = Counters::new();
        let shown = Shown::new(store.clone(), options.access.clone(), counters.kept_back.clone());
        let (direct, whole) = (store.clone(), AsyncPageStore::new(store, options.max_calls));
        let putting = std::array::from_fn(|_| Arc::new(AsyncMutex::new(())));
        Backend {
            whole,
            shown,
            direct,
            reads: Inline::new(QUICK_READ),
            puts: Inline::new(QUICK_PUT),
            turns: OnceLock::new(),
            options,
            counters,
            hour: Hour::default(),
            sample: Mutex::new(None),
            begun: Instant::now(),
            ready: Mutex::new(None),
            room: Arc::new(Semaphore::new((ROOM / ROOM_PART) as usize + 1)),
            asking: Arc::new(Semaphore::new(ASKING)),
            uploads: Arc::new(Semaphore::new(UPLOADS as usize)),
            draining: AtomicBool::new(false),
            stopping: watch::Sender::new(false),
            putting,
            to_sync: AtomicU64::new(0),
            synced: AsyncMutex::new(0),
        }
    }

    /// Calls the store on the pool.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Shown) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let shown = self.shown.clone();
        self.whole.call(move |_| Ok(read(&shown))).await?
    }

    /// Continues a call that has begun, on the pool.
    pub(super) async fn go_on<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> filemap::Result<T> + Send + 'static,
    ) -> filemap::Result<T> {
        self.whole.call(move |_| work()).await
    }

    /// Reads one page. A read from memory takes 10 us, less than handing a call to another thread
    /// and back. So it runs inline, unless reads prove to be slow: then they go to the pool.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Shown) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        if !self.reads.may_be_inline() {
            return self.call(read).await;
        }
        let begun = Instant::now();
        let found = read(&self.shown);
        self.reads.note(begun.elapsed());
        found
    }

    /// Puts a page with a body of `bytes`, without a sync; inline or on the pool, as
    /// [`Backend::read`] does. Inline puts occupy at most half of the runtime's workers, whatever
    /// the store makes them wait for. A put that reads the stored page first belongs on the pool.
    pub(super) async fn put<T: Send + 'static>(
        &self,
        bytes: u64,
        put: impl FnOnce(&PageStore) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let is_quick = bytes <= SMALL_PUT && self.puts.may_be_inline();
        let Some(_turn) = is_quick.then(|| self.turns().take()).flatten() else {
            return self.whole.call(move |store| Ok(put(store))).await?;
        };
        let begun = Instant::now();
        let done = put(&self.direct);
        self.puts.note(begun.elapsed());
        done
    }

    fn turns(&self) -> &Turns {
        self.turns.get_or_init(|| {
            let workers = Handle::try_current().map_or(1, |runtime| runtime.metrics().num_workers());
            Turns::new(workers / 2, LONG_PUT)
        })
    }

    /// The lock against other puts of the page with this key, held from condition to put. Acquired
    /// before a turn of the pool, so that no pool thread waits for it. Moved into the call, which
    /// runs to its end even if its client disconnects.
    pub(super) fn putting(&self, key: &[u8]) -> Arc<AsyncMutex<()>> {
        Arc::clone(&self.putting[(xxhash_rust::xxh3::xxh3_64(key) % LOCKS as u64) as usize])
    }

    /// Waits until all changes up to now are on the device. One sync runs at a time, for all that
    /// wait: none of them holds a thread of the pool.
    ///
    /// # Errors
    ///
    /// Those of [`PageStore::sync`].
    pub(super) async fn sync(&self) -> filemap::Result<()> {
        let own = self.to_sync.fetch_add(1, Ordering::SeqCst) + 1;
        let mut synced = self.synced.lock().await;
        if *synced < own {
            // Every change counted by now was made before the sync begins.
            let all = self.to_sync.load(Ordering::SeqCst);
            self.whole.call(PageStore::sync).await?;
            *synced = all;
        }
        Ok(())
    }

    /// The canonical key of a page; computed, not looked up.
    ///
    /// # Errors
    ///
    /// [`filemap::Error::Url`].
    pub(super) fn key(&self, url: &[u8]) -> filemap::Result<Vec<u8>> {
        self.direct.key(url)
    }

    /// Reserves memory for `bytes` of a request's URLs, waiting if necessary.
    pub(super) async fn room_for_urls(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let parts = bytes.min(ROOM) / ROOM_PART + 1;
        Arc::clone(&self.room).acquire_many_owned(parts as u32).await.ok()
    }

    /// The answer that a page is missing; an error if a missing file of the store may have held
    /// the page.
    pub(super) fn absent(&self, words: String) -> Refusal {
        match self.missed() {
            Some(missed) => Refusal::damage(format!("{words}; but {missed}")),
            None => Refusal::absent(words),
        }
    }

    /// The first missing file whose loss nobody has accepted.
    pub(super) fn missed(&self) -> Option<String> {
        let missed = self.direct.engine().absent().into_iter().find(|absent| absent.is_missed() && !absent.is_accepted);
        missed.map(|absent| format!("{} is unusable: {}; its content cannot be read", absent.file, absent.why))
    }

    /// Begins shutdown: requests that only wait end.
    pub(super) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Asks running long work to end where it can.
    pub(super) fn stop(&self) {
        self.stopping.send_replace(true);
    }

    pub(super) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Resolves when long work must end.
    pub(super) async fn stopped(&self) {
        let _ = self.stopping.subscribe().wait_for(|is_stopping| *is_stopping).await;
    }

    /// Waits for a turn to import a file.
    pub(super) async fn upload(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.uploads).acquire_owned().await.ok()
    }

    /// The store, for a call that another semaphore than the pool's bounds.
    pub(super) fn direct(&self) -> PageStore {
        self.direct.clone()
    }

    /// Waits until all file imports have ended; at shutdown their clients have left or must.
    pub(super) async fn uploads_ended(&self) {
        let _ = self.uploads.acquire_many(UPLOADS).await;
    }

    /// Returns whether clients connect by HTTPS.
    pub(super) fn is_secure(&self) -> bool {
        self.options.secure
    }

    /// Returns whether the store was found healthy within the last second.
    pub(super) fn was_ready(&self) -> bool {
        let last = *self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|last| last.elapsed() < Duration::from_secs(1))
    }

    /// Notes that the store is healthy.
    pub(super) fn note_ready(&self) {
        *self.ready.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Compression of bodies in the last sample, and its time; `None` before the first.
    pub(super) fn sample(&self) -> Option<(Instant, CompressionSample)> {
        *self.sample.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note_sample(&self, sample: CompressionSample) {
        *self.sample.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), sample));
    }

    /// Writes a line to the operator's log.
    pub(super) fn log(&self, words: &str) {
        (self.options.log)(words);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use filemap::Options;

    use super::*;

    #[test]
    fn puts_that_the_store_holds_up_leave_a_worker_to_others() {
        let dir = tempfile::tempdir().expect("a folder");
        let store = PageStore::create(dir.path().join("pages.fm"), Options::new()).expect("a store");
        let backend = Arc::new(Backend::new(store, ServerOptions::new()));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("threads");
        let (begins, begun) = channel();
        let (ends, ended) = channel::<()>();
        let ended = Arc::new(Mutex::new(ended));
        for _ in 0..4 {
            let (backend, begins, ended) = (Arc::clone(&backend), begins.clone(), Arc::clone(&ended));
            drop(runtime.spawn(async move {
                let put = move |_: &PageStore| {
                    begins.send(()).expect("the test listens");
                    let _ = ended.lock().expect("unpoisoned").recv();
                    Ok(())
                };
                backend.put(1, put).await.expect("put");
            }));
        }
        // With both workers in puts the other two could not even begin.
        for put in 0..4 {
            begun.recv_timeout(Duration::from_secs(10)).unwrap_or_else(|error| panic!("put {put}: {error}"));
        }
        let (answers, answered) = channel();
        drop(runtime.spawn(async move { answers.send(()) }));
        let is_answered = answered.recv_timeout(Duration::from_secs(10));
        drop(ends);
        assert!(is_answered.is_ok(), "no worker was left");
    }
}
