//! A store in object storage as [`PageRead`] and [`PageWrite`].

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use filemap::access::{
    Capabilities, Contents, Cursor, Fetched, Listed, PutRule, Removed, RemovedVersions, Results, Scope, Survives, keys,
};
use filemap::page::RecordKind;
use filemap::{Error, Lookup, Page, PageHead, PageRead, PageWrite, Put, Result, Variant, Version};
use tokio::task::JoinHandle;
use urlindex::Canonicalizer;

use crate::core::Core;
use crate::error;
use crate::keeping::Keeping;
use crate::{read, write};

/// A store in object storage. Its calls block; it is `Send` and `Sync`.
///
/// Answers are those of [`filemap::PageStore`], with these exceptions. What [`PageWrite::sync`]
/// returned for is safe, not each put. A put waits while too much is not safe yet
/// ([`CloudOptions::unsynced_bytes`](crate::CloudOptions::unsynced_bytes)). A revisit is given as
/// it was put, without the body of its original. [`PageWrite::put_reader`] holds the body in
/// memory, and so does [`PageRead::get_reader`]. A handle that is dropped without
/// [`PageWrite::close`] loses what was not synced.
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
    pub(crate) core: Arc<Core>,
    /// The task of the commits.
    pub(crate) commits: Mutex<Option<JoinHandle<()>>>,
    /// The task of the upkeep.
    pub(crate) upkeep: Mutex<Option<JoinHandle<()>>>,
    pub(crate) closed: Mutex<Option<error::Result<()>>>,
    pub(crate) keeping: Mutex<Keeping>,
}

impl CloudStore {
    /// What makes its keys.
    pub fn canonicalizer(&self) -> &Arc<dyn Canonicalizer> {
        &self.core.canonicalizer
    }

    /// The last sequence that a version or a removal has; of a handle that reads, of those that it
    /// knows.
    ///
    /// # Errors
    ///
    /// Those of the object storage.
    pub fn last_sequence(&self) -> filemap::Result<u64> {
        match &self.core.writer {
            Some(writer) => Ok(writer.last_sequence()),
            None => Ok(self.core.wait(|core| async move { core.index.next_sequence().await })?.saturating_sub(1)),
        }
    }

    /// Whether another writer has taken the store: this handle writes nothing any more. It is told
    /// so by its next commit alone; no request.
    pub fn is_fenced(&self) -> bool {
        self.core.writer.as_ref().is_some_and(|writer| writer.progress.is_fenced())
    }

    /// The newest version of a page, with the digest (XXH3-128) and the length of its body. No
    /// record is read.
    ///
    /// # Errors
    ///
    /// As [`PageRead::contains`].
    pub fn digest(&self, lookup: &Lookup<'_>) -> Result<Option<(Version, u128, u64)>> {
        read::digest(&self.core, lookup)
    }

    /// The newest record of a kind beside a page, such as a note.
    ///
    /// # Errors
    ///
    /// As [`PageRead::get`].
    pub fn get_beside(&self, lookup: &Lookup<'_>, kind: RecordKind) -> Result<Option<Page>> {
        read::beside(&self.core, lookup, kind)
    }

    fn close_once(&self) -> error::Result<()> {
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(result) = &*closed {
            return result.clone();
        }
        let upkeep = self.upkeep.lock().unwrap_or_else(PoisonError::into_inner).take();
        let synced = self.core.writer.as_ref().map_or(Ok(()), |writer| {
            // A compaction ends what it is about.
            writer.stop_upkeep();
            let _alone = writer.compacting.lock().unwrap_or_else(PoisonError::into_inner);
            writer.finish()
        });
        let commits = self.commits.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = self.core.wait(|core| async move {
            if let Some(upkeep) = upkeep {
                upkeep.abort();
            }
            if let Some(commits) = commits {
                commits.await.map_err(|error| core.bucket.unavailable("a commit", 0, &error))?;
            }
            core.index.close().await
        });
        closed.insert(synced.and(ended)).clone()
    }
}

impl Drop for CloudStore {
    /// Ends the work of the handle without making anything durable.
    fn drop(&mut self) {
        let is_closed = self.closed.get_mut().unwrap_or_else(PoisonError::into_inner).is_some();
        if is_closed {
            return;
        }
        if let Some(writer) = &self.core.writer {
            writer.stop_upkeep();
            writer.end();
        }
        let core = Arc::clone(&self.core);
        self.core.runtime.spawn(async move {
            // Nobody asks for the result.
            let _ = core.index.close().await;
        });
    }
}

impl PageRead for CloudStore {
    fn capabilities(&self) -> Capabilities {
        let mut promises = Capabilities::new(Survives::Sync);
        (promises.has_history, promises.lists_in_order, promises.lists_from_cursor) = (true, true, true);
        promises
    }

    fn get(&self, lookup: &Lookup<'_>) -> Result<Option<Page>> {
        read::page(&self.core, lookup)
    }

    fn get_version(&self, lookup: &Lookup<'_>, version: Version) -> Result<Option<Page>> {
        read::version(&self.core, lookup, version)
    }

    fn head(&self, lookup: &Lookup<'_>) -> Result<Option<PageHead>> {
        read::head(&self.core, lookup)
    }

    fn contains(&self, lookup: &Lookup<'_>) -> Result<bool> {
        read::contains(&self.core, lookup)
    }

    fn get_many(&self, urls: &[&[u8]]) -> Result<Vec<Option<Page>>> {
        read::pages(&self.core, urls)
    }

    fn get_ahead<'s>(&'s self, urls: Box<dyn Iterator<Item = Vec<u8>> + 's>, depth: usize) -> Fetched<'s> {
        read::ahead(&self.core, urls, depth)
    }

    fn history<'s>(&'s self, lookup: &Lookup<'_>) -> Result<Results<'s, PageHead>> {
        read::history(&self.core, lookup)
    }

    fn versions(&self, lookup: &Lookup<'_>) -> Result<Vec<Version>> {
        read::versions(&self.core, lookup)
    }

    fn variants<'s>(&'s self, url: &[u8]) -> Result<Results<'s, Variant>> {
        read::variants(&self.core, url)
    }

    fn key(&self, url: &[u8]) -> Result<Vec<u8>> {
        self.core.canonical(url)
    }

    fn list<'s>(&'s self, scope: &Scope, after: Option<&Cursor>) -> Result<Results<'s, Listed>> {
        read::list(&self.core, scope, after)
    }

    fn cursor(&self, url: &[u8]) -> Result<Cursor> {
        Ok(keys::cursor(&keys::form(&self.core.canonical(url)?)))
    }

    fn heads<'s>(&'s self, scope: &Scope) -> Result<Results<'s, PageHead>> {
        read::heads(&self.core, scope)
    }

    /// Bytes of the segments in the index: one row of it each.
    fn contents(&self) -> Result<Contents> {
        let rows = self.core.wait(|core| async move { core.index.segments().await })?;
        let mut contents = Contents::default();
        contents.bytes = Some(rows.values().fold(0, |sum: u64, bytes| sum.saturating_add(bytes.written)));
        Ok(contents)
    }
}

impl PageWrite for CloudStore {
    fn put(&self, page: &Page, rule: PutRule) -> Result<Option<Put>> {
        write::put(&self.core, page, rule)
    }

    fn put_reader(&self, page: &Page, body: &mut dyn Read) -> Result<Version> {
        let mut bytes = Vec::new();
        // One byte more than fits tells that it does not.
        body.take(filemap_core::MAX_VALUE_BYTES + 1).read_to_end(&mut bytes).map_err(|source: io::Error| {
            let (what, offset) = (String::from_utf8_lossy(&page.url).into_owned(), bytes.len() as u64);
            Error::Read { what, offset, source }
        })?;
        match write::put_with(&self.core, page, &bytes, PutRule::Always)? {
            Some(put) => Ok(put.version()),
            None => Err(Error::Unsupported { what: "version for a page that was put" }),
        }
    }

    fn remove(&self, url: &[u8], variant: Option<&Variant>) -> Result<bool> {
        write::remove(&self.core, url, variant)
    }

    fn remove_at(&self, url: &[u8], variant: Option<&Variant>, time_ms: i64) -> Result<Option<RemovedVersions>> {
        write::remove_at(&self.core, url, variant, time_ms)
    }

    fn remove_all(&self, scope: &Scope, each: &mut dyn FnMut(Result<Removed<'_>>) -> ControlFlow<()>) -> Result<u64> {
        write::remove_all(&self.core, scope, each)
    }

    fn sync(&self) -> Result<()> {
        match &self.core.writer {
            Some(writer) => Ok(writer.sync()?),
            None => Err(self.core.index.read_only().into()),
        }
    }

    fn close(&self) -> Result<()> {
        Ok(self.close_once()?)
    }
}
