//! A cache on disk between a store and its object storage: ranges of segments and of tables of the
//! index, which never change under their names. Everything else goes through.
//!
//! Bytes that arrived damaged are kept as any others: who finds damage drops the entry and reads
//! past the cache, which gets the answer in its place.
//!
//! An entry is found by the store, the object and the range. The store is identified by its
//! description object (random id, time, tag), so that one made anew at the same place has no entry
//! of the old one. A cached answer does not prove that the object exists: verification and repair
//! read past the cache.

mod files;

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path as FilePath;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::DateTime;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use xxhash_rust::xxh3::xxh3_128;

use files::{Entry, Files};

/// The folders of objects that never change.
const FOLDERS: [&str; 2] = ["seg", TABLES];
/// The folder of the index's tables.
const TABLES: &str = "compacted";
/// The bit of a key that says whether it is of a table of the index.
const OF_TABLE: u128 = 1;

/// The cache of one handle, with its counts.
#[derive(Debug)]
pub(crate) struct Cache {
    files: Files,
}

/// Counts of a cache on disk, since the handle was opened.
///
/// ```
/// use filemap_cloud::{CloudOptions, Mode, open_bucket};
/// let folder = tempfile::tempdir()?;
/// let options = CloudOptions::new().disk_cache(folder.path().join("cache"), 64 << 20);
/// open_bucket("mem://cached", Mode::Fill, &options)?;
/// let store = open_bucket("mem://cached", Mode::Read, &options)?;
/// let counts = store.cache_counts().expect("a handle for reading has a cache");
/// assert_eq!((counts.damaged, counts.failed), (0, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheCounts {
    /// Answers from the cache.
    pub hits: u64,
    /// Answers from the object storage that could have been in it.
    pub misses: u64,
    /// Entries that were damaged, or dropped because of damage, and read from the object storage.
    pub damaged: u64,
    /// Entries that could not be written.
    pub failed: u64,
    /// Bytes of its files that the handle knows.
    pub bytes: u64,
}

impl Cache {
    /// Opens or makes a cache in a folder, of at most `bytes`.
    pub(crate) fn open(folder: &FilePath, bytes: u64) -> io::Result<Cache> {
        Ok(Cache { files: Files::open(folder, bytes)? })
    }

    pub(crate) fn counts(&self) -> CacheCounts {
        self.files.counts()
    }

    /// Drops all entries of tables of the index: one of them is damaged or gone.
    pub(crate) fn drop_tables(&self) {
        self.files.drop_entries(|key| key & OF_TABLE == OF_TABLE);
    }
}

/// Objects read through a cache.
#[derive(Debug)]
pub(crate) struct Cached {
    objects: Arc<dyn ObjectStore>,
    cache: Arc<Cache>,
    /// Identifies the store.
    store: u128,
    /// True if nothing is read from the cache, and what is read replaces its entries.
    is_afresh: bool,
}

impl Cached {
    /// `store` identifies the store: its location, and its description's id, time and tag.
    pub(crate) fn new(objects: Arc<dyn ObjectStore>, cache: &Arc<Cache>, store: &str) -> Cached {
        Cached { objects, cache: Arc::clone(cache), store: xxh3_128(store.as_bytes()), is_afresh: false }
    }

    /// Reads past the cache, and replaces its entries.
    pub(crate) fn afresh(self) -> Cached {
        Cached { is_afresh: true, ..self }
    }

    /// The key of a request whose answer never changes.
    fn key(&self, location: &Path, options: &GetOptions) -> Option<(u128, Range<u64>)> {
        let Some(GetRange::Bounded(range)) = &options.range else { return None };
        let is_plain = !options.head
            && options.version.is_none()
            && options.if_match.is_none()
            && options.if_none_match.is_none()
            && options.if_modified_since.is_none()
            && options.if_unmodified_since.is_none();
        let folder = location.as_ref().rsplit('/').nth(1)?;
        let text = format!("{:032x} {location} {} {}", self.store, range.start, range.end);
        let of_table = if folder == TABLES { OF_TABLE } else { 0 };
        let key = xxh3_128(text.as_bytes()) & !OF_TABLE | of_table;
        (is_plain && FOLDERS.contains(&folder)).then(|| (key, range.clone()))
    }
}

/// An answer from the cache.
fn answer(location: &Path, range: Range<u64>, entry: Entry) -> GetResult {
    let Entry { size, modified_ms, bytes } = entry;
    let last_modified = DateTime::from_timestamp_millis(modified_ms).unwrap_or_default();
    let meta = ObjectMeta { location: location.clone(), last_modified, size, e_tag: None, version: None };
    let payload = GetResultPayload::Stream(stream::once(async move { Ok(bytes) }).boxed());
    GetResult { payload, meta, range, attributes: Attributes::default(), extensions: Default::default() }
}

/// Runs a call that waits for the disk; `None` if its thread could not be started or panicked.
async fn on_disk<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(call).await.ok()
}

impl fmt::Display for Cached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} behind a cache on disk", self.objects)
    }
}

#[async_trait]
impl ObjectStore for Cached {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.objects.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.objects.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let Some((key, wanted)) = self.key(location, &options) else {
            return self.objects.get_opts(location, options).await;
        };
        let (cache, is_afresh) = (Arc::clone(&self.cache), self.is_afresh);
        let entry = on_disk(move || {
            if is_afresh {
                cache.files.drop_entries(|of| of == key);
                return None;
            }
            cache.files.get(key)
        });
        if let Some(Some(entry)) = entry.await {
            return Ok(answer(location, wanted, entry));
        }
        let found = self.objects.get_opts(location, options).await?;
        if found.range != wanted {
            // The object ends before: it is cut off, or no object of a store.
            return Ok(found);
        }
        let (meta, range, attributes) = (found.meta.clone(), found.range.clone(), found.attributes.clone());
        let (cache, size, modified_ms) = (Arc::clone(&self.cache), meta.size, meta.last_modified.timestamp_millis());
        let wanted_bytes = range.end - range.start;
        // The transfer happens when the caller reads, within the time that it allows.
        let read = async move {
            let bytes: Bytes = found.bytes().await?;
            // A shorter answer is none.
            if bytes.len() as u64 == wanted_bytes {
                let entry = Entry { size, modified_ms, bytes: bytes.clone() };
                // The cache counts an entry that it cannot write.
                on_disk(move || cache.files.put(key, &entry)).await;
            }
            Ok::<_, object_store::Error>(bytes)
        };
        let payload = GetResultPayload::Stream(read.into_stream().boxed());
        Ok(GetResult { payload, meta, range, attributes, extensions: Default::default() })
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.objects.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.objects.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.objects.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.objects.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.objects.copy_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ranges_of_objects_that_never_change_have_a_key() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = Arc::new(Cache::open(folder.path(), 1 << 20).expect("a cache"));
        let objects: Arc<dyn ObjectStore> = Arc::new(object_store::memory::InMemory::new());
        let of = |store: &str| Cached::new(Arc::clone(&objects), &cache, store);
        let range = |range| GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
        let key = |store: &str, location: &str, options: &GetOptions| of(store).key(&Path::from(location), options);
        let first = key("a", "p/shard-00/seg/1-1", &range(0..9));
        assert!(first.is_some() && first == key("a", "p/shard-00/seg/1-1", &range(0..9)));
        for (store, location, range) in [
            ("b", "p/shard-00/seg/1-1", range(0..9)),
            ("a", "p/shard-01/seg/1-1", range(0..9)),
            ("a", "p/shard-00/ix/1/compacted/1.sst", range(0..9)),
            ("a", "p/shard-00/seg/1-1", range(0..8)),
        ] {
            assert!(key(store, location, &range).is_some_and(|other| Some(&other) != first.as_ref()), "{location}");
        }
        for (location, options) in [
            ("p/STORE", range(0..9)),
            ("p/shard-00/ix/1/manifest/1.manifest", range(0..9)),
            ("p/shard-00/ix/1/wal/1.sst", range(0..9)),
            ("p/shard-00/crawl/1-1", range(0..9)),
            ("p/shard-00/seg/1-1", GetOptions::default()),
            ("p/shard-00/seg/1-1", GetOptions { head: true, ..range(0..9) }),
            ("p/shard-00/seg/1-1", GetOptions { if_match: Some("x".to_owned()), ..range(0..9) }),
        ] {
            assert_eq!(key("a", location, &options), None, "{location}");
        }
    }
}
