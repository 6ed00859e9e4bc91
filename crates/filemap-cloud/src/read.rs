//! Reads: one page, its versions, many pages at once, and listings.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use filemap::access::{Cursor, Fetched, Listed, Results, Scope, keys};
use filemap::canonical::url_of_key;
use filemap::page::RecordKind;
use filemap::{Error, Lookup, Page, PageHead, Result, Variant, Version};
use futures_util::future::{BoxFuture, FutureExt, join_all};

use crate::core::{Core, Found, shown};
use crate::error;
use crate::parts::{Part, Parts};
use crate::walk::Walk;

/// Number of keys that a listing fetches at once.
const KEYS_AT_ONCE: usize = 1_000;
/// Number of records read in parallel.
const RECORDS_AT_ONCE: usize = 32;

/// A key, its form, and the version sought: the newest up to a time, or a given one.
#[derive(Clone)]
pub(crate) struct Sought {
    pub(crate) key: Vec<u8>,
    form: Vec<u8>,
    meant: Meant,
}

#[derive(Clone, Copy)]
enum Meant {
    UntilTime(Option<i64>),
    Version(Version),
}

impl Sought {
    /// Seeks a given version.
    pub(crate) fn version(key: &[u8], version: Version) -> Sought {
        Sought { key: key.to_vec(), form: keys::form(key), meant: Meant::Version(version) }
    }
}

impl Core {
    pub(crate) fn sought(&self, lookup: &Lookup<'_>) -> Result<Sought> {
        self.sought_beside(lookup, RecordKind::Response)
    }

    fn sought_beside(&self, lookup: &Lookup<'_>, kind: RecordKind) -> Result<Sought> {
        let key = keys::key(&self.canonical(lookup.url)?, kind, lookup.variant);
        Ok(Sought { form: keys::form(&key), key, meant: Meant::UntilTime(lookup.time_ms) })
    }

    pub(crate) async fn found(&self, sought: &Sought) -> error::Result<Option<Found>> {
        match sought.meant {
            Meant::UntilTime(time_ms) => self.newest(&sought.form, time_ms).await,
            Meant::Version(version) => Ok(self.row(&sought.form, version).await?.map(|row| (version, row))),
        }
    }

    /// Looks the version up again after its record was missing at `gone`: others may have moved
    /// it, or the one that a reference names. Missing at the same place again, it is damage.
    pub(crate) async fn found_again(
        &self,
        sought: &Sought,
        gone: Found,
        before: &mut Option<Found>,
    ) -> error::Result<Option<Found>> {
        if before.replace(gone) == Some(gone) {
            return Err(self.lost(&sought.key, &gone.1).await);
        }
        self.index.refresh().await?;
        self.found(sought).await
    }

    /// Reads the page sought. Looks it up again while its segment is missing because others move
    /// it.
    pub(crate) async fn page_sought(&self, sought: &Sought) -> error::Result<Option<Page>> {
        let (mut found, mut before) = (self.found(sought).await?, None);
        while let Some(at @ (version, row)) = found {
            if let Some(page) = self.page(&sought.key, version, &row).await? {
                return Ok(Some(page));
            }
            found = self.found_again(sought, at, &mut before).await?;
        }
        Ok(None)
    }

    /// As [`Core::page_sought`], without the body.
    async fn head_sought(&self, sought: &Sought) -> error::Result<Option<PageHead>> {
        let (mut found, mut before) = (self.found(sought).await?, None);
        while let Some(at @ (version, row)) = found {
            if let Some(head) = self.head(&sought.key, version, &row).await? {
                return Ok(Some(head));
            }
            found = self.found_again(sought, at, &mut before).await?;
        }
        Ok(None)
    }
}

/// A version of a page, with its body.
pub(crate) fn page(core: &Arc<Core>, lookup: &Lookup<'_>) -> Result<Option<Page>> {
    let sought = core.sought(lookup)?;
    Ok(core.wait(|core| async move { core.page_sought(&sought).await })?)
}

/// The newest record of a kind beside a page.
pub(crate) fn beside(core: &Arc<Core>, lookup: &Lookup<'_>, kind: RecordKind) -> Result<Option<Page>> {
    let sought = core.sought_beside(lookup, kind)?;
    Ok(core.wait(|core| async move { core.page_sought(&sought).await })?)
}

/// A given version.
pub(crate) fn version(core: &Arc<Core>, lookup: &Lookup<'_>, version: Version) -> Result<Option<Page>> {
    let sought = Sought { meant: Meant::Version(version), ..core.sought(lookup)? };
    Ok(core.wait(|core| async move { core.page_sought(&sought).await })?)
}

/// A version without its body.
pub(crate) fn head(core: &Arc<Core>, lookup: &Lookup<'_>) -> Result<Option<PageHead>> {
    let sought = core.sought(lookup)?;
    Ok(core.wait(|core| async move { core.head_sought(&sought).await })?)
}

/// Returns whether a version exists, from the index alone.
pub(crate) fn contains(core: &Arc<Core>, lookup: &Lookup<'_>) -> Result<bool> {
    let sought = core.sought(lookup)?;
    Ok(core.wait(|core| async move { Ok(core.found(&sought).await?.is_some()) })?)
}

/// The newest version, its digest and the length of its body, from the index alone.
pub(crate) fn digest(core: &Arc<Core>, lookup: &Lookup<'_>) -> Result<Option<(Version, u128, u64)>> {
    let sought = core.sought(lookup)?;
    let found = core.wait(|core| async move { core.found(&sought).await })?;
    Ok(found.map(|(version, row)| (version, row.digest, row.body_bytes)))
}

/// Times and sequences of the versions of a page, from the index alone.
pub(crate) fn versions(core: &Arc<Core>, lookup: &Lookup<'_>) -> Result<Vec<Version>> {
    let (sought, time_ms) = (core.sought(lookup)?, lookup.time_ms);
    let found = core.wait(|core| async move { core.versions(&sought.form, time_ms).await })?;
    Ok(found.into_iter().map(|(version, _)| version).collect())
}

/// The shards of a handle, and the number of shards of the store.
pub(crate) struct Cores {
    pub(crate) cores: Vec<Arc<Core>>,
    pub(crate) of: u32,
}

impl Cores {
    /// The shard of a URL.
    fn of(&self, url: &[u8]) -> Result<&Arc<Core>> {
        let shards = self.cores.iter().map(|core| core.bucket.shard());
        Ok(&self.cores[self.cores[0].place(url, self.of, shards)?])
    }
}

/// The newest versions of several pages, read in parallel.
pub(crate) fn pages(cores: Cores, urls: &[&[u8]]) -> Result<Vec<Option<Page>>> {
    let ahead = Ahead::new(cores, urls.iter().map(|url| url.to_vec()), RECORDS_AT_ONCE);
    ahead.map(|(_, page)| page).collect()
}

/// The newest versions of pages, with a number of reads ahead.
pub(crate) fn ahead<'s>(cores: Cores, urls: impl Iterator<Item = Vec<u8>> + 's, depth: usize) -> Fetched<'s> {
    Box::new(Ahead::new(cores, urls, depth.max(1)))
}

/// Receives a page when it has been read.
type Answer = Receiver<error::Result<Option<Page>>>;

/// Running reads, in the order of their URLs.
struct Ahead<U> {
    cores: Cores,
    urls: U,
    depth: usize,
    under_way: VecDeque<(Vec<u8>, Result<Answer>)>,
}

impl<U: Iterator<Item = Vec<u8>>> Ahead<U> {
    fn new(cores: Cores, urls: U, depth: usize) -> Ahead<U> {
        Ahead { cores, urls, depth, under_way: VecDeque::new() }
    }

    fn begin(&self, url: &[u8]) -> Result<Answer> {
        let core = Arc::clone(self.cores.of(url)?);
        let sought = core.sought(&Lookup::new(url))?;
        let (sender, receiver) = sync_channel(1);
        core.runtime.clone().spawn(async move {
            // If the receiver was dropped, nobody waits any more.
            let _ = sender.send(core.page_sought(&sought).await);
        });
        Ok(receiver)
    }
}

impl<U: Iterator<Item = Vec<u8>>> Iterator for Ahead<U> {
    type Item = (Vec<u8>, Result<Option<Page>>);

    fn next(&mut self) -> Option<Self::Item> {
        while self.under_way.len() < self.depth {
            let Some(url) = self.urls.next() else { break };
            let begun = self.begin(&url);
            self.under_way.push_back((url, begun));
        }
        let (url, begun) = self.under_way.pop_front()?;
        let ended = || self.cores.cores[0].bucket.unavailable("a request", 0, &"its task ended without an answer");
        let page = begun.and_then(|begun| Ok(begun.recv().unwrap_or_else(|_| Err(ended()))?));
        Some((url, page))
    }
}

/// Versions of one key whose heads must still be read.
struct History {
    key: Arc<[u8]>,
    rest: VecDeque<Found>,
}

/// The versions of a page, newest first, without their bodies.
pub(crate) fn history(core: &Arc<Core>, lookup: &Lookup<'_>) -> Result<Results<'static, PageHead>> {
    let (sought, time_ms) = (core.sought(lookup)?, lookup.time_ms);
    let key = sought.key.into();
    let rest = core.wait(|core| async move { core.versions(&sought.form, time_ms).await })?.into();
    Ok(Box::new(Parts::new(core, History { key, rest }, |core, history| older(core, history).boxed())))
}

async fn older(core: Arc<Core>, mut history: History) -> error::Result<Part<History, PageHead>> {
    let now: Vec<Found> = history.rest.drain(..RECORDS_AT_ONCE.min(history.rest.len())).collect();
    let heads = join_all(now.iter().map(async |(version, row)| {
        let head = match core.head(&history.key, *version, row).await {
            // Its record was moved or removed in the meantime.
            Ok(None) => core.head_sought(&Sought::version(&history.key, *version)).await,
            head => head,
        };
        match head {
            Err(error) if error.is_damage() => Some(Err(Error::Unreadable {
                url: shown(&history.key),
                version: *version,
                source: Arc::new(error.into()),
            })),
            Err(error) => Some(Err(error.into())),
            Ok(head) => head.map(Ok),
        }
    }));
    let heads = heads.await.into_iter().flatten().collect();
    let is_end = history.rest.is_empty();
    Ok(((!is_end).then_some(history), heads))
}

/// A listing: a walk, and a filter of its keys.
struct Listing {
    walk: Walk,
    scope: Scope,
}

impl Listing {
    fn new(core: &Arc<Core>, scope: &Scope, after: Option<&Cursor>) -> Result<Listing> {
        let after = after.map(|cursor| keys::form_of_cursor(cursor, scope.kind)).transpose()?;
        let walk = Walk::new(core, keys::ranges(scope), after, scope.is_backwards);
        Ok(Listing { walk, scope: scope.clone() })
    }

    /// Returns the next keys of the scope, and whether these were the last.
    async fn step(&mut self, keys_at_once: usize) -> error::Result<(Vec<(Vec<u8>, Vec<u8>, Found)>, bool)> {
        let found = self.walk.step(keys_at_once).await?;
        let is_end = found.len() < keys_at_once;
        let takes = self.scope.filter();
        let of_scope = found.into_iter().filter_map(|(form, found)| {
            let key = keys::key_of_form(&form)?;
            (keys::is_of(self.scope.kind, &key) && takes(url_of_key(&key))).then_some((form, key, found))
        });
        Ok((of_scope.collect(), is_end))
    }
}

/// The pages or variants of a scope.
pub(crate) fn list(core: &Arc<Core>, scope: &Scope, after: Option<&Cursor>) -> Result<Results<'static, Listed>> {
    let step = |_: Arc<Core>, mut listing: Listing| -> BoxFuture<'static, error::Result<Part<Listing, Listed>>> {
        async move {
            let (found, is_end) = listing.step(KEYS_AT_ONCE).await?;
            let listed = found.into_iter().map(|(form, key, _)| {
                let cursor = Some(keys::cursor(&form));
                Ok(Listed::new(url_of_key(&key).to_vec(), keys::variant(&key), cursor))
            });
            let listed = listed.collect();
            Ok(((!is_end).then_some(listing), listed))
        }
        .boxed()
    };
    Ok(Box::new(Parts::new(core, Listing::new(core, scope, after)?, step)))
}

/// The newest versions of the pages or variants of a scope, without their bodies.
pub(crate) fn heads(core: &Arc<Core>, scope: &Scope) -> Result<Results<'static, PageHead>> {
    let step = |core: Arc<Core>, listing: Listing| heads_of(core, listing).boxed();
    Ok(Box::new(Parts::new(core, Listing::new(core, scope, None)?, step)))
}

async fn heads_of(core: Arc<Core>, mut listing: Listing) -> error::Result<Part<Listing, PageHead>> {
    let (found, is_end) = listing.step(RECORDS_AT_ONCE).await?;
    let is_backwards = listing.scope.is_backwards;
    let heads = join_all(found.into_iter().map(async |(form, key, (version, row))| {
        let sought = Sought { key, form, meant: Meant::UntilTime(None) };
        // Backwards, the walk finds the oldest version first.
        let head = if is_backwards { Ok(None) } else { core.head(&sought.key, version, &row).await };
        let head = match head {
            Ok(None) => core.head_sought(&sought).await,
            head => head,
        };
        match head {
            Err(error) if error.is_damage() => {
                let (url, source) = (shown(&sought.key), Arc::new(error.into()));
                Some(Err(Error::Unreadable { url, version, source }))
            }
            head => head.map_err(Error::from).transpose(),
        }
    }));
    let heads = heads.await.into_iter().flatten().collect();
    Ok(((!is_end).then_some(listing), heads))
}

/// The variants of a URL.
pub(crate) fn variants(core: &Arc<Core>, url: &[u8]) -> Result<Results<'static, Variant>> {
    let canonical = core.canonical(url)?;
    let walk = Walk::new(core, keys::ranges_of_url(&canonical), None, false);
    let step = |_: Arc<Core>, mut walk: Walk| -> BoxFuture<'static, error::Result<Part<Walk, Variant>>> {
        async move {
            let found = walk.step(KEYS_AT_ONCE).await?;
            let is_end = found.len() < KEYS_AT_ONCE;
            let keys = found.iter().filter_map(|(form, _)| keys::key_of_form(form));
            let of_variants = keys.filter(|key| keys::is_of(filemap::access::ListKind::Variants, key));
            let variants = of_variants.filter_map(|key| keys::variant(&key).map(Ok)).collect();
            Ok(((!is_end).then_some(walk), variants))
        }
        .boxed()
    };
    Ok(Box::new(Parts::new(core, walk, step)))
}
