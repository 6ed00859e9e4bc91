//! A store for callers on tokio: blocking calls on a bounded number of threads.
//!
//! Invariants: at most as many calls run as [`AsyncStore::new`] allows, further ones wait; a call
//! that has begun runs to its end, even if its future is dropped.

use std::panic::resume_unwind;
use std::sync::Arc;

use filemap_core::{Put, Version};
use tokio::sync::Semaphore;

use crate::access::{Cursor, Listed, Lookup, PageRead, PageWrite, PutRule, RemovedVersions, Scope};
use crate::error::{Error, Result};
use crate::page::Page;
use crate::page::variant::Variant;
use crate::page::version::PageHead;
use crate::store::PageStore;

/// A [`PageStore`] for callers on tokio.
pub type AsyncPageStore = AsyncStore<PageStore>;

/// Entries of a list, and the cursor to continue from.
type Part = (Vec<Result<Listed>>, Option<Cursor>);

/// A store, local or behind a server, whose calls do not block the caller's thread. Cheap to
/// clone; clones share the bound.
///
/// **Back-pressure.** Calls over the bound wait for their turn, in order. **Cancelling.** A future
/// that is dropped while it waits has done nothing. One that is dropped later only loses the
/// result: its put is in the store. If you do not know which happened, put the page again with
/// [`PutRule::IfNew`], which adds nothing to an existing version. The shutdown of a runtime may
/// drop calls that no thread has begun; [`AsyncStore::close`] before it waits for all.
///
/// For operations without a method here, and for loops over many pages, use one
/// [`AsyncStore::call`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use filemap::access::PutRule;
/// use filemap::async_store::AsyncPageStore;
/// use filemap::{Lookup, Options, Page, PageStore};
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
#[derive(Debug)]
pub struct AsyncStore<S> {
    store: Arc<S>,
    turns: Arc<Semaphore>,
    max_calls: u32,
}

impl<S> Clone for AsyncStore<S> {
    fn clone(&self) -> AsyncStore<S> {
        AsyncStore { store: Arc::clone(&self.store), turns: Arc::clone(&self.turns), max_calls: self.max_calls }
    }
}

impl<S: Send + Sync + 'static> AsyncStore<S> {
    /// Calls on `store`, at most `max_calls` (1 or more) at a time, each on a blocking thread of
    /// the caller's runtime.
    pub fn new(store: S, max_calls: u32) -> AsyncStore<S> {
        let max_calls = max_calls.max(1);
        AsyncStore { store: Arc::new(store), turns: Arc::new(Semaphore::new(max_calls as usize)), max_calls }
    }

    /// The store itself, whose calls block.
    pub fn blocking(&self) -> &S {
        &self.store
    }

    /// Runs any call on the store.
    ///
    /// # Errors
    ///
    /// Those of `call`; [`filemap_core::Error::Closed`] after [`AsyncStore::close`] or a shutdown
    /// of the runtime.
    pub async fn call<T: Send + 'static>(&self, call: impl FnOnce(&S) -> Result<T> + Send + 'static) -> Result<T> {
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(|_| closed())?;
        let store = Arc::clone(&self.store);
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
}

impl<S: PageRead + 'static> AsyncStore<S> {
    /// Runs a call that takes a lookup.
    async fn look_up<T: Send + 'static>(
        &self,
        lookup: &Lookup<'_>,
        call: impl FnOnce(&S, &Lookup<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (url, variant, time_ms) = (lookup.url.to_vec(), lookup.variant.cloned(), lookup.time_ms);
        self.call(move |store| call(store, &Lookup { url: &url, variant: variant.as_ref(), time_ms })).await
    }

    /// As [`PageRead::get`].
    ///
    /// # Errors
    ///
    /// As [`PageRead::get`] and [`AsyncStore::call`].
    pub async fn get(&self, lookup: &Lookup<'_>) -> Result<Option<Page>> {
        self.look_up(lookup, S::get).await
    }

    /// As [`PageRead::get_version`].
    ///
    /// # Errors
    ///
    /// As [`PageRead::get_version`] and [`AsyncStore::call`].
    pub async fn get_version(&self, lookup: &Lookup<'_>, version: Version) -> Result<Option<Page>> {
        self.look_up(lookup, move |store, lookup| store.get_version(lookup, version)).await
    }

    /// As [`PageRead::get_many`]: several pages in one call.
    ///
    /// # Errors
    ///
    /// As [`PageRead::get_many`] and [`AsyncStore::call`].
    pub async fn get_many<U>(&self, urls: impl IntoIterator<Item = U>) -> Result<Vec<Option<Page>>>
    where
        U: Into<Vec<u8>>,
    {
        let urls: Vec<Vec<u8>> = urls.into_iter().map(Into::into).collect();
        self.call(move |store| store.get_many(&urls.iter().map(Vec::as_slice).collect::<Vec<_>>())).await
    }

    /// As [`PageRead::head`].
    ///
    /// # Errors
    ///
    /// As [`PageRead::head`] and [`AsyncStore::call`].
    pub async fn head(&self, lookup: &Lookup<'_>) -> Result<Option<PageHead>> {
        self.look_up(lookup, S::head).await
    }

    /// As [`PageRead::contains`].
    ///
    /// # Errors
    ///
    /// As [`PageRead::contains`] and [`AsyncStore::call`].
    pub async fn contains(&self, lookup: &Lookup<'_>) -> Result<bool> {
        self.look_up(lookup, S::contains).await
    }

    /// The newest `most` versions of [`PageRead::history`]. For earlier ones look up the time of
    /// the last version, which is then the first.
    ///
    /// # Errors
    ///
    /// As [`PageRead::history`] and [`AsyncStore::call`].
    pub async fn history(&self, lookup: &Lookup<'_>, most: usize) -> Result<Vec<Result<PageHead>>> {
        self.look_up(lookup, move |store, lookup| Ok(store.history(lookup)?.take(most).collect())).await
    }

    /// The next `most` entries of [`PageRead::list`], including errors of damage, and the cursor
    /// to continue from: `None` at the end. A part that would end with an error continues to the
    /// next entry, for its cursor; of the errors on the way there, one [`Error::LeftOut`] has the
    /// number.
    ///
    /// ```
    /// # async fn all(store: filemap::async_store::AsyncPageStore) -> filemap::Result<()> {
    /// use filemap::access::Scope;
    ///
    /// let (scope, mut after) = (Scope::new().host("example.com"), None);
    /// loop {
    ///     let (part, next) = store.list(&scope, after.as_ref(), 1_000).await?;
    ///     for listed in part {
    ///         println!("{}", String::from_utf8_lossy(&listed?.url));
    ///     }
    ///     let Some(next) = next else { break };
    ///     after = Some(next);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`PageRead::list`] and [`AsyncStore::call`]; [`Error::Unsupported`] if there are more
    /// entries and the store gives no cursors.
    pub async fn list(&self, scope: &Scope, after: Option<&Cursor>, most: usize) -> Result<Part> {
        let (scope, after) = (scope.clone(), after.cloned());
        self.call(move |store| {
            let mut list = store.list(&scope, after.as_ref())?;
            next_part(&mut list, most)
        })
        .await
    }

    /// As [`PageRead::count`].
    ///
    /// # Errors
    ///
    /// As [`PageRead::count`] and [`AsyncStore::call`].
    pub async fn count(&self, scope: &Scope) -> Result<u64> {
        let scope = scope.clone();
        self.call(move |store| store.count(&scope)).await
    }
}

impl<S: PageWrite + 'static> AsyncStore<S> {
    /// As [`PageWrite::put`].
    ///
    /// # Errors
    ///
    /// As [`PageWrite::put`] and [`AsyncStore::call`].
    pub async fn put(&self, page: Page, rule: PutRule) -> Result<Option<Put>> {
        self.call(move |store| store.put(&page, rule)).await
    }

    /// As [`PageWrite::put_many`]: several pages in one call.
    ///
    /// # Errors
    ///
    /// As [`PageWrite::put_many`] and [`AsyncStore::call`].
    pub async fn put_many(&self, pages: Vec<Page>, rule: PutRule) -> Result<Vec<Option<Put>>> {
        self.call(move |store| store.put_many(&pages, rule)).await
    }

    /// As [`PageWrite::remove`].
    ///
    /// # Errors
    ///
    /// As [`PageWrite::remove`] and [`AsyncStore::call`].
    pub async fn remove(&self, url: impl AsRef<[u8]>, variant: Option<&Variant>) -> Result<bool> {
        let (url, variant) = (url.as_ref().to_vec(), variant.cloned());
        self.call(move |store| store.remove(&url, variant.as_ref())).await
    }

    /// As [`PageWrite::remove_at`].
    ///
    /// # Errors
    ///
    /// As [`PageWrite::remove_at`] and [`AsyncStore::call`].
    pub async fn remove_at(
        &self,
        url: impl AsRef<[u8]>,
        variant: Option<&Variant>,
        time_ms: i64,
    ) -> Result<Option<RemovedVersions>> {
        let (url, variant) = (url.as_ref().to_vec(), variant.cloned());
        self.call(move |store| store.remove_at(&url, variant.as_ref(), time_ms)).await
    }

    /// As [`PageWrite::sync`].
    ///
    /// # Errors
    ///
    /// As [`PageWrite::sync`] and [`AsyncStore::call`].
    pub async fn sync(&self) -> Result<()> {
        self.call(S::sync).await
    }

    /// Waits for all calls that have begun, and closes the store; later calls of other clones
    /// fail. If the future is dropped while it waits, it has no effect.
    ///
    /// # Errors
    ///
    /// As [`PageWrite::close`]; [`filemap_core::Error::Closed`] if it was closed before.
    pub async fn close(self) -> Result<()> {
        let all = self.turns.acquire_many(self.max_calls).await.map_err(|_| closed())?;
        self.turns.close();
        all.forget();
        let store = Arc::clone(&self.store);
        match tokio::task::spawn_blocking(move || store.close()).await {
            Ok(result) => result,
            Err(_) => Err(closed()),
        }
    }
}

/// The next `most` entries and errors, and the cursor after them.
fn next_part(list: &mut impl Iterator<Item = Result<Listed>>, most: usize) -> Result<Part> {
    let (mut part, most) = (Vec::new(), most.max(1));
    // Damage that exceeds the part.
    let mut further = (0, String::new());
    while let Some(listed) = list.next() {
        let is_entry = match &listed {
            Err(error) if error.is_damage() && part.len() >= most => {
                if further.0 == 0 {
                    further.1 = error.to_string();
                }
                further.0 += 1;
                continue;
            }
            listed => listed.is_ok(),
        };
        part.extend(left_out(&mut further));
        part.push(listed);
        if is_entry && part.len() >= most {
            let next = part.last().and_then(|last| last.as_ref().ok()?.cursor.clone());
            if next.is_none() && list.next().is_some() {
                return Err(Error::Unsupported { what: "cursors" });
            }
            return Ok((part, next));
        }
    }
    part.extend(left_out(&mut further));
    Ok((part, None))
}

/// The error for this number of errors, given the first.
fn left_out((damaged, first): &mut (u64, String)) -> Option<Result<Listed>> {
    let (damaged, first) = (std::mem::take(damaged), std::mem::take(first));
    (damaged > 0).then_some(Err(Error::LeftOut { damaged, bodiless: 0, first }))
}

fn closed() -> Error {
    filemap_core::Error::Closed.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(nth: u8) -> Result<Listed> {
        Ok(Listed::new(vec![nth], None, Some(Cursor(vec![nth]))))
    }

    fn damage(first: &str) -> Result<Listed> {
        Err(Error::LeftOut { damaged: 1, bodiless: 0, first: first.to_owned() })
    }

    /// Entries by number, errors by text.
    fn shown(part: &[Result<Listed>]) -> Vec<String> {
        let one = |listed: &Result<Listed>| listed.as_ref().map_or_else(ToString::to_string, |l| l.url[0].to_string());
        part.iter().map(one).collect()
    }

    #[test]
    fn errors_count_towards_a_part_and_those_beyond_it_are_one() {
        let damaged = (0..1000).map(|nth| damage(&nth.to_string()));
        let mut list = [entry(1), damage("a"), entry(2)].into_iter().chain(damaged).chain([entry(3), entry(4)]);
        let (part, next) = next_part(&mut list, 2).unwrap();
        assert_eq!((part.len(), next), (3, Some(Cursor(vec![2]))), "an error and two entries");
        let (part, next) = next_part(&mut list, 5).unwrap();
        assert_eq!(next, Some(Cursor(vec![3])));
        let said = shown(&part);
        assert_eq!(said.len(), 7, "five errors, one for the others, and an entry");
        assert!(said[5].starts_with("995 versions") && said[5].contains("first: 1 versions"), "{}", said[5]);
        let (part, next) = next_part(&mut list, 5).unwrap();
        assert_eq!((shown(&part), next), (vec!["4".to_owned()], None));
    }

    #[test]
    fn damage_at_the_end_of_a_list_is_counted_and_ends_it() {
        let mut list = (0..100).map(|_| damage("a"));
        let (part, next) = next_part(&mut list, 10).unwrap();
        assert_eq!((part.len(), next), (11, None));
        assert!(shown(&part)[10].starts_with("90 versions"));
    }

    #[test]
    fn a_list_without_cursors_is_given_whole_or_not() {
        let plain = |nth: u8| Ok(Listed::new(vec![nth], None, None));
        assert_eq!(next_part(&mut (0..3).map(plain), 3).unwrap().0.len(), 3);
        assert!(matches!(next_part(&mut (0..3).map(plain), 2), Err(Error::Unsupported { .. })));
    }
}
