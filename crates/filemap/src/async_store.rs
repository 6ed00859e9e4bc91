//! A page store for callers on tokio: blocking calls on a bounded number of threads.
//!
//! Invariants: at most as many calls are under way as [`AsyncPageStore::new`] allows, further ones
//! wait; a call that has begun runs to its end, even if its future is dropped.

use std::panic::resume_unwind;
use std::sync::Arc;

use filemap_core::Put;
use tokio::sync::Semaphore;

use crate::access::{Lookup, PageRead, PageWrite, PutRule};
use crate::error::{Error, Result};
use crate::page::Page;
use crate::page::variant::Variant;
use crate::page::version::PageHead;
use crate::store::PageStore;

/// A [`PageStore`] whose calls do not block the caller's thread. Cheap to clone; clones share the
/// bound.
///
/// **Back-pressure.** Calls over the bound wait for their turn, in order. **Cancelling.** A future
/// that is dropped while it waits has done nothing; one that is dropped later loses only the
/// answer: what was put is in the store. The shutdown of a runtime may drop calls that no thread
/// has begun; [`AsyncPageStore::close`] before it waits for all.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use filemap::access::PutRule;
/// use filemap::{AsyncPageStore, Lookup, Options, Page, PageStore};
///
/// let dir = tempfile::tempdir()?;
/// let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
/// runtime.block_on(async {
///     let store = AsyncPageStore::new(store, 4);
///     let page = Page::new("http://example.com/", 1_700_000_000_000, 200, "hello");
///     store.put(page, PutRule::Always).await?;
///     let page = store.get(&Lookup::new("http://example.com/")).await?.expect("just put");
///     assert_eq!(page.body, b"hello");
///     store.close().await
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AsyncPageStore {
    store: PageStore,
    turns: Arc<Semaphore>,
    max_calls: u32,
}

impl AsyncPageStore {
    /// Calls on `store`, at most `max_calls` (1 or more) at a time, each on a blocking thread of
    /// the caller's runtime.
    pub fn new(store: PageStore, max_calls: u32) -> AsyncPageStore {
        let max_calls = max_calls.max(1);
        AsyncPageStore { store, turns: Arc::new(Semaphore::new(max_calls as usize)), max_calls }
    }

    /// Any call on the store.
    ///
    /// # Errors
    ///
    /// Those of `call`; [`filemap_core::Error::Closed`] after [`AsyncPageStore::close`] or a
    /// shutdown of the runtime.
    pub async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&PageStore) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(|_| closed())?;
        let store = self.store.clone();
        let task = tokio::task::spawn_blocking(move || {
            let result = call(&store);
            drop(turn);
            result
        });
        match task.await {
            Ok(result) => result,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(_) => Err(closed()),
            },
        }
    }

    /// A call that takes a lookup.
    async fn look_up<T: Send + 'static>(
        &self,
        lookup: &Lookup<'_>,
        call: impl FnOnce(&PageStore, &Lookup<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (url, variant, time_ms) = (lookup.url.to_vec(), lookup.variant.cloned(), lookup.time_ms);
        self.call(move |store| call(store, &Lookup { url: &url, variant: variant.as_ref(), time_ms })).await
    }

    /// As [`PageRead::get`].
    ///
    /// # Errors
    ///
    /// As [`PageRead::get`] and [`AsyncPageStore::call`].
    pub async fn get(&self, lookup: &Lookup<'_>) -> Result<Option<Page>> {
        self.look_up(lookup, PageRead::get).await
    }

    /// As [`PageRead::head`].
    ///
    /// # Errors
    ///
    /// As [`PageRead::head`] and [`AsyncPageStore::call`].
    pub async fn head(&self, lookup: &Lookup<'_>) -> Result<Option<PageHead>> {
        self.look_up(lookup, PageRead::head).await
    }

    /// As [`PageRead::contains`].
    ///
    /// # Errors
    ///
    /// As [`PageRead::contains`] and [`AsyncPageStore::call`].
    pub async fn contains(&self, lookup: &Lookup<'_>) -> Result<bool> {
        self.look_up(lookup, PageRead::contains).await
    }

    /// As [`PageWrite::put`].
    ///
    /// # Errors
    ///
    /// As [`PageWrite::put`] and [`AsyncPageStore::call`].
    pub async fn put(&self, page: Page, rule: PutRule) -> Result<Option<Put>> {
        self.call(move |store| store.put(&page, rule)).await
    }

    /// As [`PageWrite::remove`].
    ///
    /// # Errors
    ///
    /// As [`PageWrite::remove`] and [`AsyncPageStore::call`].
    pub async fn remove(&self, url: impl AsRef<[u8]>, variant: Option<&Variant>) -> Result<bool> {
        let (url, variant) = (url.as_ref().to_vec(), variant.cloned());
        self.call(move |store| PageWrite::remove(store, &url, variant.as_ref())).await
    }

    /// As [`PageWrite::sync`].
    ///
    /// # Errors
    ///
    /// As [`PageWrite::sync`] and [`AsyncPageStore::call`].
    pub async fn sync(&self) -> Result<()> {
        self.call(PageStore::sync).await
    }

    /// Waits for all calls that have begun, and closes the store; later calls of other clones
    /// fail. If the future is dropped while it waits, nothing has happened.
    ///
    /// # Errors
    ///
    /// As [`PageWrite::close`]; [`filemap_core::Error::Closed`] if it was closed before.
    pub async fn close(self) -> Result<()> {
        let all = self.turns.acquire_many(self.max_calls).await.map_err(|_| closed())?;
        self.turns.close();
        all.forget();
        let store = self.store.clone();
        match tokio::task::spawn_blocking(move || store.close()).await {
            Ok(result) => result,
            Err(_) => Err(closed()),
        }
    }
}

fn closed() -> Error {
    filemap_core::Error::Closed.into()
}
