//! The objects of one store: read, create, list and delete below a prefix, with bounded retries of
//! transient failures. A request's timeout grows with its size: an unanswered request ends, and a
//! large one on a slow link is not cut off.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion,
};

use crate::cache::{Cache, Cached};
use crate::error::{Error, Result};

/// The pause before the first retry; each later pause doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The base timeout of every request; the transfer time on the slowest link is added.
const PATIENCE: Duration = Duration::from_secs(30);

/// The prefix of the names of a shard's objects.
const SHARD: &str = "shard/";

/// The objects of one store.
#[derive(Clone)]
pub(crate) struct Bucket {
    objects: Arc<dyn ObjectStore>,
    /// The same objects through a client with its own timeouts: the index sets none.
    of_index: Arc<dyn ObjectStore>,
    /// A cache that both read through, and both without it.
    cache: Option<Behind>,
    root: Path,
    /// The shard to which names beginning with [`SHARD`] belong.
    shard: u32,
    location: Arc<str>,
    retries: u32,
    /// Bytes per second of the slowest link.
    slowest: u64,
}

/// A cache, and the objects behind it.
#[derive(Clone)]
struct Behind {
    cache: Arc<Cache>,
    objects: Arc<dyn ObjectStore>,
    of_index: Arc<dyn ObjectStore>,
    /// The objects read past the cache, which gets the answers.
    afresh: Arc<dyn ObjectStore>,
}

/// Bounds of retries and of time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Retries of a request after a transient failure.
    pub(crate) retries: u32,
    /// Bytes per second of the slowest supported link.
    pub(crate) slowest: u64,
}

impl Bucket {
    pub(crate) fn new(objects: Arc<dyn ObjectStore>, root: Path, location: &str, bounds: Bounds) -> Bucket {
        let (of_index, Bounds { retries, slowest }) = (Arc::clone(&objects), bounds);
        let (location, slowest) = (location.into(), slowest.max(1));
        Bucket { objects, of_index, cache: None, root, shard: 0, location, retries, slowest }
    }

    /// Reads through a cache. `store` identifies the store: its location, and its description.
    pub(crate) fn with_cache(self, cache: Arc<Cache>, store: &str) -> Bucket {
        let through = |objects: &Arc<dyn ObjectStore>| Cached::new(Arc::clone(objects), &cache, store);
        let (objects, of_index) = (Arc::new(through(&self.objects)), Arc::new(through(&self.of_index)));
        let afresh = Arc::new(through(&self.objects).afresh());
        let behind = Behind { cache, objects: self.objects, of_index: self.of_index, afresh };
        Bucket { objects, of_index, cache: Some(behind), ..self }
    }

    /// The same objects without a cache.
    pub(crate) fn uncached(&self) -> Bucket {
        let all = self.clone();
        match &self.cache {
            None => all,
            Some(Behind { objects, of_index, .. }) => {
                Bucket { objects: Arc::clone(objects), of_index: Arc::clone(of_index), cache: None, ..all }
            }
        }
    }

    /// The same objects, read past the cache: it gets what is read in place of its entries.
    pub(crate) fn afresh(&self) -> Bucket {
        let all = self.clone();
        match &self.cache {
            None => all,
            Some(behind) => Bucket { objects: Arc::clone(&behind.afresh), ..all },
        }
    }

    /// The cache that it reads through.
    pub(crate) fn cache(&self) -> Option<&Cache> {
        self.cache.as_ref().map(|behind| &*behind.cache)
    }

    /// Adds a second client for the index: it reaches the same objects and bounds each request.
    pub(crate) fn with_index(self, of_index: Arc<dyn ObjectStore>) -> Bucket {
        Bucket { of_index, ..self }
    }

    /// The objects of one shard of a store of `of` shards. With several shards, errors name the
    /// shard.
    pub(crate) fn of_shard(&self, shard: u32, of: u32) -> Bucket {
        let location = match of {
            1 => Arc::clone(&self.location),
            _ => format!("{} (shard {shard})", self.location).into(),
        };
        Bucket { shard, location, ..self.clone() }
    }

    /// The prefix of the names of the shard's objects.
    pub(crate) fn shard_name(&self) -> String {
        format!("shard-{:02}", self.shard)
    }

    /// The number of the shard.
    pub(crate) fn shard(&self) -> u32 {
        self.shard
    }

    /// The name of an object below the store's prefix.
    pub(crate) fn named(&self, name: &str) -> String {
        match name.strip_prefix(SHARD) {
            Some(rest) => format!("{}/{rest}", self.shard_name()),
            None => name.to_owned(),
        }
    }

    pub(crate) fn of_index(&self) -> &Arc<dyn ObjectStore> {
        &self.of_index
    }

    fn longest(&self, bytes: u64) -> Duration {
        PATIENCE.saturating_add(Duration::from_secs(bytes / self.slowest))
    }

    /// Bounds the time of a request that moves `bytes` bytes.
    async fn timed<T>(
        &self,
        bytes: u64,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> object_store::Result<T> {
        let longest = self.longest(bytes);
        match tokio::time::timeout(longest, request).await {
            Ok(answer) => answer,
            Err(_) => {
                let source = format!("no answer within {} s", longest.as_secs()).into();
                Err(object_store::Error::Generic { store: "object storage", source })
            }
        }
    }

    pub(crate) fn location(&self) -> &str {
        &self.location
    }

    pub(crate) fn retries(&self) -> u32 {
        self.retries
    }

    /// The path of an object of the store.
    pub(crate) fn path(&self, name: &str) -> Path {
        self.named(name).split('/').fold(self.root.clone(), |path, part| path.join(part))
    }

    /// Reads an object; `None` if it does not exist.
    pub(crate) async fn get(&self, name: &str) -> Result<Option<Bytes>> {
        self.read(name, None).await
    }

    /// Reads a range of an object; `None` if the object does not exist.
    pub(crate) async fn range(&self, name: &str, range: Range<u64>) -> Result<Option<Bytes>> {
        self.read(name, Some(GetRange::Bounded(range))).await
    }

    /// Reads the last bytes of an object; `None` if it does not exist.
    pub(crate) async fn tail(&self, name: &str, bytes: u64) -> Result<Option<Bytes>> {
        self.read(name, Some(GetRange::Suffix(bytes))).await
    }

    async fn read(&self, name: &str, range: Option<GetRange>) -> Result<Option<Bytes>> {
        let path = self.path(name);
        let mut attempts = 0;
        loop {
            let options = GetOptions { range: range.clone(), ..GetOptions::default() };
            let bytes = match self.timed(0, self.objects.get_opts(&path, options)).await {
                Ok(found) => self.timed(found.range.end.saturating_sub(found.range.start), found.bytes()).await,
                Err(error) => Err(error),
            };
            match bytes {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(object_store::Error::NotFound { .. }) => return Ok(None),
                Err(error) => {
                    if range.is_some() && self.ends_before(&path, range.as_ref()).await {
                        // The caller detects that it is cut off.
                        return Ok(Some(Bytes::new()));
                    }
                    self.pause(&mut attempts, &format!("reading {}", self.named(name)), error).await?;
                }
            }
        }
    }

    /// Returns whether an object exists and ends before a range: a server refuses such a range
    /// with an ordinary error.
    async fn ends_before(&self, path: &Path, range: Option<&GetRange>) -> bool {
        let Ok(found) = self.timed(0, self.objects.head(path)).await else { return false };
        match range {
            Some(GetRange::Bounded(range)) => found.size <= range.start,
            Some(GetRange::Offset(offset)) => found.size <= *offset,
            Some(GetRange::Suffix(_)) => found.size == 0,
            None => false,
        }
    }

    /// Time, size and tag of an object; `None` if it does not exist.
    pub(crate) async fn meta(&self, name: &str) -> Result<Option<ObjectMeta>> {
        let path = self.path(name);
        let mut attempts = 0;
        loop {
            match self.timed(0, self.objects.head(&path)).await {
                Ok(meta) => return Ok(Some(meta)),
                Err(object_store::Error::NotFound { .. }) => return Ok(None),
                Err(error) => self.pause(&mut attempts, &format!("reading {}", self.named(name)), error).await?,
            }
        }
    }

    /// Reads an object with its time and tag; `None` if it does not exist.
    pub(crate) async fn get_tagged(&self, name: &str) -> Result<Option<(Bytes, ObjectMeta)>> {
        let path = self.path(name);
        let mut attempts = 0;
        loop {
            let read = async {
                let found = self.objects.get(&path).await?;
                let meta = found.meta.clone();
                Ok::<_, object_store::Error>((found.bytes().await?, meta))
            };
            match self.timed(0, read).await {
                Ok(found) => return Ok(Some(found)),
                Err(object_store::Error::NotFound { .. }) => return Ok(None),
                Err(error) => self.pause(&mut attempts, &format!("reading {}", self.named(name)), error).await?,
            }
        }
    }

    /// Creates an object. Returns false if the name exists: it may come from an earlier attempt of
    /// this call whose answer was lost.
    pub(crate) async fn create(&self, name: &str, bytes: Bytes) -> Result<bool> {
        let path = self.path(name);
        let mut attempts = 0;
        loop {
            let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
            let put = self.objects.put_opts(&path, PutPayload::from(bytes.clone()), options);
            match self.timed(bytes.len() as u64, put).await {
                Ok(_) => return Ok(true),
                Err(object_store::Error::AlreadyExists { .. }) => return Ok(false),
                Err(error) => self.pause(&mut attempts, &format!("creating {}", self.named(name)), error).await?,
            }
        }
    }

    /// Creates an object with bytes that nobody else uses. Returns false if another object has the
    /// name. A lost answer or a 409 decides nothing: the object is then read.
    pub(crate) async fn claim(&self, name: &str, bytes: Bytes) -> Result<bool> {
        let mut attempts = 0;
        loop {
            if self.create(name, bytes.clone()).await? {
                return Ok(true);
            }
            match self.get(name).await? {
                Some(found) => return Ok(found == bytes),
                None => self.refused(&mut attempts, name).await?,
            }
        }
    }

    /// Waits after a creation was refused as if the object existed: S3 answers 409 to a request
    /// that raced another for the same name.
    pub(crate) async fn refused(&self, attempts: &mut u32, name: &str) -> Result<()> {
        let source = "409: refused, as if the object existed".into();
        let error = object_store::Error::AlreadyExists { path: name.to_owned(), source };
        self.pause(attempts, &format!("creating {}", self.named(name)), error).await
    }

    /// Creates or replaces an object.
    pub(crate) async fn replace(&self, name: &str, bytes: Bytes) -> Result<()> {
        let path = self.path(name);
        let mut attempts = 0;
        loop {
            let put = self.objects.put_opts(&path, PutPayload::from(bytes.clone()), PutOptions::default());
            match self.timed(bytes.len() as u64, put).await {
                Ok(_) => return Ok(()),
                Err(error) => self.pause(&mut attempts, &format!("writing {}", self.named(name)), error).await?,
            }
        }
    }

    /// Replaces an object if it is still the one that was read with this time and tag, by bytes
    /// that nobody else writes. Returns false if it is another or gone.
    ///
    /// Where `If-Match` does not work (see `probe`), an object that was unchanged a moment before
    /// is replaced: a deletion in that moment is undone.
    pub(crate) async fn replace_same(&self, name: &str, known: &ObjectMeta, bytes: Bytes) -> Result<bool> {
        use object_store::Error as Of;
        let path = self.path(name);
        let mut attempts = 0;
        // Without a tag there is no condition.
        while known.e_tag.is_some() {
            let version = UpdateVersion { e_tag: known.e_tag.clone(), version: None };
            let options = PutOptions { mode: PutMode::Update(version), ..PutOptions::default() };
            let put = self.objects.put_opts(&path, PutPayload::from(bytes.clone()), options);
            match self.timed(bytes.len() as u64, put).await {
                Ok(_) => return Ok(true),
                Err(Of::Precondition { .. } | Of::NotFound { .. } | Of::NotImplemented { .. }) => break,
                Err(error) => self.pause(&mut attempts, &format!("writing {}", self.named(name)), error).await?,
            }
        }
        match self.get_tagged(name).await? {
            None => Ok(false),
            // The answer to an earlier attempt was lost.
            Some((found, _)) if found == bytes => Ok(true),
            // The bucket refuses the condition as such.
            Some((_, now)) if now.e_tag == known.e_tag && now.last_modified == known.last_modified => {
                self.replace(name, bytes).await.map(|()| true)
            }
            Some(_) => Ok(false),
        }
    }

    /// A random name, which nobody has used before.
    pub(crate) fn token(&self) -> Result<String> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| Error::Location {
            location: self.location.to_string(),
            what: format!("the system returns no random numbers: {error}"),
        })?;
        Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Deletes an object; succeeds if it does not exist.
    pub(crate) async fn delete(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        let mut attempts = 0;
        loop {
            match self.timed(0, self.objects.delete(&path)).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => return Ok(()),
                Err(error) => self.pause(&mut attempts, &format!("deleting {}", self.named(name)), error).await?,
            }
        }
    }

    /// The objects below a folder.
    pub(crate) async fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>> {
        let path = self.path(folder);
        self.listed(folder, || self.objects.list(Some(&path))).await
    }

    /// The objects below a folder whose names sort after this one.
    pub(crate) async fn list_after(&self, folder: &str, name: &str) -> Result<Vec<ObjectMeta>> {
        let path = self.path(folder);
        let offset = path.clone().join(name);
        self.listed(folder, || self.objects.list_with_offset(Some(&path), &offset)).await
    }

    /// The last name below a folder; `known` if no name follows it.
    pub(crate) async fn last_after(&self, folder: &str, known: Option<String>) -> Result<Option<String>> {
        let objects = match &known {
            Some(name) => self.list_after(folder, name).await?,
            None => self.list(folder).await?,
        };
        let names = objects.iter().filter_map(|object| object.location.filename());
        Ok(names.max().map(str::to_owned).or(known))
    }

    /// The names of the folders in a folder below the store's prefix; an empty name means the
    /// prefix itself.
    pub(crate) async fn folders(&self, folder: &str) -> Result<Vec<String>> {
        let path = if folder.is_empty() { self.root.clone() } else { self.path(folder) };
        let mut attempts = 0;
        loop {
            match self.timed(0, self.objects.list_with_delimiter(Some(&path))).await {
                Ok(found) => {
                    let names = found.common_prefixes.iter().filter_map(|path| path.filename());
                    return Ok(names.map(str::to_owned).collect());
                }
                Err(error) => self.pause(&mut attempts, &format!("listing {}", self.named(folder)), error).await?,
            }
        }
    }

    async fn listed<'s>(
        &self,
        folder: &str,
        list: impl Fn() -> BoxStream<'s, object_store::Result<ObjectMeta>>,
    ) -> Result<Vec<ObjectMeta>> {
        let mut attempts = 0;
        loop {
            match self.collected(list()).await {
                Ok(found) => return Ok(found),
                Err(error) => self.pause(&mut attempts, &format!("listing {}", self.named(folder)), error).await?,
            }
        }
    }

    async fn collected(
        &self,
        mut objects: BoxStream<'_, object_store::Result<ObjectMeta>>,
    ) -> object_store::Result<Vec<ObjectMeta>> {
        let mut found = Vec::new();
        while let Some(object) = self.timed(0, objects.next().map(Ok)).await? {
            found.push(object?);
        }
        Ok(found)
    }

    /// Waits before a retry; an error if a retry is useless or the bound is reached.
    pub(crate) async fn pause(&self, attempts: &mut u32, operation: &str, error: object_store::Error) -> Result<()> {
        use object_store::Error as Of;
        let may_pass = matches!(
            error,
            Of::Generic { .. } | Of::JoinError { .. } | Of::Precondition { .. } | Of::AlreadyExists { .. }
        );
        if !may_pass || *attempts >= self.retries {
            return Err(self.unavailable(operation, *attempts, &error));
        }
        tokio::time::sleep(FIRST_PAUSE.saturating_mul(1 << (*attempts).min(16)).min(LONGEST_PAUSE)).await;
        *attempts += 1;
        Ok(())
    }

    pub(crate) fn unavailable(&self, operation: &str, retries: u32, error: &dyn std::fmt::Display) -> Error {
        let (location, operation) = (self.location.to_string(), operation.to_owned());
        Error::Unavailable { location, operation, retries, what: error.to_string() }
    }

    pub(crate) fn damaged(&self, object: &str, what: impl Into<String>) -> Error {
        Error::Damaged { location: self.location.to_string(), object: self.named(object), what: what.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_request_has_the_time_that_a_slow_link_takes() {
        let bucket = |slowest| {
            let objects = Arc::new(object_store::memory::InMemory::new());
            Bucket::new(objects, Path::from("a"), "the test", Bounds { retries: 0, slowest })
        };
        assert_eq!(bucket(64 << 10).longest(15 << 20), Duration::from_secs(30 + 240));
        assert_eq!(bucket(64 << 10).longest(0), PATIENCE);
        assert_eq!(bucket(0).longest(7), Duration::from_secs(30 + 7), "no division by zero");
    }
}
