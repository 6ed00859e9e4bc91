//! A store in object storage as [`PageRead`] and [`PageWrite`]. Calls for a URL go to the shard of
//! its host, listings are merged, whole-store operations run on every shard.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::sync::Arc;

use filemap::access::{
    Capabilities, Contents, Cursor, Fetched, Listed, PutRule, Removed, RemovedVersions, Results, Scope, Streamed,
    Survives, keys, merge,
};
use filemap::page::RecordKind;
use filemap::{Error, Lookup, Page, PageHead, PageRead, PageWrite, Put, Result, Variant, Version};
use urlindex::Canonicalizer;

use crate::body::CloudBody;
use crate::cache::{Cache, CacheCounts};
use crate::core::Core;
use crate::error;
use crate::shard::Shard;
use crate::{body, read, write};

/// A store in object storage. Its calls block; it is `Send` and `Sync`.
///
/// Answers are those of [`filemap::PageStore`], with these exceptions. A put is durable only after
/// a successful [`PageWrite::sync`]. A put waits while too much is unsynced
/// ([`CloudOptions::unsynced_bytes`](crate::CloudOptions::unsynced_bytes)). A revisit is returned
/// as it was put, without the body of its original. [`PageWrite::put_reader`] holds the body in
/// memory; [`PageRead::get_reader`] holds a few mebibytes. A handle dropped without
/// [`PageWrite::close`] loses unsynced puts.
///
/// ```
/// use filemap::access::PutRule;
/// use filemap::{Page, PageRead, PageWrite};
/// use filemap_cloud::{CloudOptions, Mode, open};
///
/// let store = open("mem://example/pages", Mode::Fill, &CloudOptions::new())?;
/// store.put(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"), PutRule::IfNew)?;
/// store.sync()?;
/// assert_eq!(store.get(&"http://example.com/".into())?.expect("just put").body, b"hello");
/// store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CloudStore {
    /// The handle's shards: all of the store's, or one.
    shards: Vec<Shard>,
    /// The number of shards of the store.
    of: u32,
}

impl CloudStore {
    /// The canonicaliser of the store's keys.
    pub fn canonicalizer(&self) -> &Arc<dyn Canonicalizer> {
        &self.first().core.canonicalizer
    }

    /// The number of shards of the store. A URL belongs to the shard of its host:
    /// [`urlindex::shard`] of its canonical form.
    pub fn shards(&self) -> u32 {
        self.of
    }

    /// A handle to these shards of a store of `of`.
    pub(crate) fn over(shards: Vec<Shard>, of: u32) -> CloudStore {
        CloudStore { shards, of }
    }

    /// The first shard of the handle; there is always one.
    fn first(&self) -> &Shard {
        &self.shards[0]
    }

    /// Calls each shard and collects the answers.
    pub(crate) fn each<T, E>(
        &self,
        ask: impl FnMut(&Shard) -> std::result::Result<T, E>,
    ) -> std::result::Result<Vec<T>, E> {
        self.shards.iter().map(ask).collect()
    }

    /// Runs an operation on all shards, each on a separate thread; returns the first error when
    /// all are done.
    fn at_once(&self, act: fn(&Shard) -> error::Result<()>) -> Result<()> {
        if let [shard] = &self.shards[..] {
            return Ok(act(shard)?);
        }
        let done: Vec<error::Result<()>> = std::thread::scope(|scope| {
            let under_way: Vec<_> = self.shards.iter().map(|shard| scope.spawn(move || act(shard))).collect();
            let ended = under_way.into_iter().zip(&self.shards).map(|(thread, shard)| {
                let panicked = || Err(shard.core.bucket.unavailable("a call", 0, &"its thread panicked"));
                thread.join().unwrap_or_else(|_| panicked())
            });
            ended.collect()
        });
        Ok(done.into_iter().collect::<error::Result<()>>()?)
    }

    /// The shard of a URL.
    ///
    /// # Errors
    /// The handle lacks that shard; a URL without a canonical form.
    pub(crate) fn shard_of(&self, url: &[u8]) -> Result<&Shard> {
        let shards = self.shards.iter().map(|shard| shard.core.bucket.shard());
        Ok(&self.shards[self.first().core.place(url, self.of, shards)?])
    }

    fn of(&self, url: &[u8]) -> Result<&Arc<Core>> {
        Ok(&self.shard_of(url)?.core)
    }

    /// The only shard of the handle.
    pub(crate) fn only(&self) -> Result<&Shard> {
        match &self.shards[..] {
            [shard] => Ok(shard),
            _ => Err(Error::Unsupported { what: "keeping files with several shards: open one (`only_shard`)" }),
        }
    }

    /// The shards with the store's total, for reads that outlive the call.
    pub(crate) fn cores(&self) -> read::Cores {
        read::Cores { cores: self.shards.iter().map(|shard| Arc::clone(&shard.core)).collect(), of: self.of }
    }

    /// The last sequence of a version or removal in the handle's only shard; on a read-only
    /// handle, as far as that handle knows.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for a handle with several shards; those of the object storage.
    pub fn last_sequence(&self) -> Result<u64> {
        let core = &self.only()?.core;
        match &core.writer {
            Some(writer) => Ok(writer.last_sequence()),
            None => Ok(core.wait(|core| async move { core.index.next_sequence().await })?.saturating_sub(1)),
        }
    }

    /// Checks that no other writer has taken over a shard; [`CloudStore::is_fenced`] knows it from
    /// then on. Three requests a shard; none on a read-only handle.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Fenced`]; those of the object storage.
    pub fn check_owner(&self) -> Result<()> {
        let shards = self.shards.iter().filter(|shard| shard.core.writer.is_some());
        for shard in shards {
            shard.core.wait(|core| async move { core.index.refresh().await })?;
        }
        Ok(())
    }

    /// Counts of the cache on disk; `None` without one
    /// ([`CloudOptions::disk_cache`](crate::CloudOptions::disk_cache)).
    pub fn cache_counts(&self) -> Option<CacheCounts> {
        self.first().core.bucket.cache().map(Cache::counts)
    }

    /// Returns whether another writer has taken over a shard, so that this handle can write
    /// nothing there. Makes no request: the handle notices it at its next commit, or when a read
    /// fails.
    pub fn is_fenced(&self) -> bool {
        let is_fenced = |shard: &Shard| shard.core.writer.as_ref().is_some_and(|writer| writer.progress.is_fenced());
        self.shards.iter().any(is_fenced)
    }

    /// The newest version of a page, with the digest (XXH3-128) and the length of its body, from
    /// the index alone.
    ///
    /// # Errors
    ///
    /// As [`PageRead::contains`].
    pub fn digest(&self, lookup: &Lookup<'_>) -> Result<Option<(Version, u128, u64)>> {
        read::digest(self.of(lookup.url)?, lookup)
    }

    /// A version of a page without its body, and the body as a stream that can seek. Of a body
    /// over 4 MiB only the parts that are read are transferred. A shorter one, or one that was
    /// stored before there were chunks, is read at once.
    ///
    /// # Errors
    ///
    /// As [`PageRead::get`]. Reading the stream may fail likewise, also if the page is removed
    /// meanwhile and its segment deleted.
    pub fn body(&self, lookup: &Lookup<'_>) -> Result<Option<(Page, CloudBody)>> {
        body::open(self.of(lookup.url)?, lookup)
    }

    /// The newest record of a kind beside a page, such as a note.
    ///
    /// # Errors
    ///
    /// As [`PageRead::get`].
    pub fn get_beside(&self, lookup: &Lookup<'_>, kind: RecordKind) -> Result<Option<Page>> {
        read::beside(self.of(lookup.url)?, lookup, kind)
    }
}

impl PageRead for CloudStore {
    fn capabilities(&self) -> Capabilities {
        let mut promises = Capabilities::new(Survives::Sync);
        (promises.has_history, promises.lists_in_order, promises.lists_from_cursor) = (true, true, true);
        promises
    }

    fn get(&self, lookup: &Lookup<'_>) -> Result<Option<Page>> {
        read::page(self.of(lookup.url)?, lookup)
    }

    fn get_reader<'s>(&'s self, lookup: &Lookup<'_>) -> Result<Option<Streamed<'s>>> {
        Ok(self.body(lookup)?.map(|(page, body)| (page, Box::new(body) as Box<dyn Read>)))
    }

    fn get_version(&self, lookup: &Lookup<'_>, version: Version) -> Result<Option<Page>> {
        read::version(self.of(lookup.url)?, lookup, version)
    }

    fn head(&self, lookup: &Lookup<'_>) -> Result<Option<PageHead>> {
        read::head(self.of(lookup.url)?, lookup)
    }

    fn contains(&self, lookup: &Lookup<'_>) -> Result<bool> {
        read::contains(self.of(lookup.url)?, lookup)
    }

    fn get_many(&self, urls: &[&[u8]]) -> Result<Vec<Option<Page>>> {
        read::pages(self.cores(), urls)
    }

    fn get_ahead<'s>(&'s self, urls: Box<dyn Iterator<Item = Vec<u8>> + 's>, depth: usize) -> Fetched<'s> {
        read::ahead(self.cores(), urls, depth)
    }

    fn history<'s>(&'s self, lookup: &Lookup<'_>) -> Result<Results<'s, PageHead>> {
        read::history(self.of(lookup.url)?, lookup)
    }

    fn versions(&self, lookup: &Lookup<'_>) -> Result<Vec<Version>> {
        read::versions(self.of(lookup.url)?, lookup)
    }

    fn variants<'s>(&'s self, url: &[u8]) -> Result<Results<'s, Variant>> {
        read::variants(self.of(url)?, url)
    }

    fn key(&self, url: &[u8]) -> Result<Vec<u8>> {
        self.first().core.canonical(url)
    }

    fn list<'s>(&'s self, scope: &Scope, after: Option<&Cursor>) -> Result<Results<'s, Listed>> {
        let lists = self.each(|shard| read::list(&shard.core, scope, after))?;
        Ok(merge::listings(lists, scope.is_backwards, is_of_one))
    }

    fn cursor(&self, url: &[u8]) -> Result<Cursor> {
        Ok(keys::cursor(&keys::form(&self.first().core.canonical(url)?)))
    }

    fn heads<'s>(&'s self, scope: &Scope) -> Result<Results<'s, PageHead>> {
        let heads = self.each(|shard| read::heads(&shard.core, scope))?;
        Ok(merge::heads(heads, scope.is_backwards, is_of_one))
    }

    /// Sums the segments' bytes in the index: one row each.
    fn contents(&self) -> Result<Contents> {
        let rows = self.each(|shard| shard.core.wait(|core| async move { core.index.segments().await }))?;
        let segments = rows.iter().flat_map(|rows| rows.values());
        let mut contents = Contents::default();
        contents.bytes = Some(segments.fold(0, |sum: u64, bytes| sum.saturating_add(bytes.written)));
        Ok(contents)
    }
}

impl PageWrite for CloudStore {
    fn put(&self, page: &Page, rule: PutRule) -> Result<Option<Put>> {
        write::put(self.of(&page.url)?, page, rule)
    }

    fn put_reader(&self, page: &Page, body: &mut dyn Read) -> Result<Version> {
        let mut bytes = Vec::new();
        // Reading one byte over the limit detects a body that is too long.
        body.take(filemap_core::Record::MAX_VALUE_BYTES + 1).read_to_end(&mut bytes).map_err(|source: io::Error| {
            let (what, offset) = (String::from_utf8_lossy(&page.url).into_owned(), bytes.len() as u64);
            Error::Read { what, offset, source }
        })?;
        match write::put_with(self.of(&page.url)?, page, &bytes, PutRule::Always)? {
            Some(put) => Ok(put.version()),
            None => Err(Error::Unsupported { what: "version for a page that was put" }),
        }
    }

    fn remove(&self, url: &[u8], variant: Option<&Variant>) -> Result<bool> {
        write::remove(self.of(url)?, url, variant)
    }

    fn remove_at(&self, url: &[u8], variant: Option<&Variant>, time_ms: i64) -> Result<Option<RemovedVersions>> {
        write::remove_at(self.of(url)?, url, variant, time_ms)
    }

    fn remove_all(&self, scope: &Scope, each: &mut dyn FnMut(Result<Removed<'_>>) -> ControlFlow<()>) -> Result<u64> {
        let (mut pages, mut goes_on) = (0, true);
        for shard in &self.shards {
            pages += write::remove_all(&shard.core, scope, &mut |removed| {
                let told = each(removed);
                goes_on = told.is_continue();
                told
            })?;
            if !goes_on {
                break;
            }
        }
        Ok(pages)
    }

    fn sync(&self) -> Result<()> {
        self.at_once(Shard::sync)
    }

    fn close(&self) -> Result<()> {
        self.at_once(Shard::close)
    }
}

/// Returns whether an error is about one version. Any other may cut the list of a shard off.
fn is_of_one(error: &Error) -> bool {
    matches!(error, Error::Unreadable { .. })
}
