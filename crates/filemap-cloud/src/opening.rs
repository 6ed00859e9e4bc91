//! Opens stores: creates a missing store, checks an existing one, gives a writer its epoch and
//! fences the previous writer.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use object_store::ObjectStore;
use object_store::path::Path;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use urlindex::Canonicalizer;

use crate::bucket::{Bounds, Bucket};
use crate::cache::Cache;
use crate::commit::{Committer, SEGMENTS, object};
use crate::core::Core;
use crate::dictionaries::Dictionaries;
use crate::due::Due;
use crate::error::{Error, Result};
use crate::format::description::{self, Description, MAX_SHARDS};
use crate::format::segment::SegmentId;
use crate::index::{Changes, Generation, Generations, Index};
use crate::options::{CloudOptions, Mode};
use crate::pending::Pending;
use crate::progress::Progress;
use crate::shard::Shard;
use crate::store::CloudStore;
use crate::writer::{Begin, Writer};
use crate::{location, probe, runtime, upkeep};

/// The object that exists while somebody creates a store of several shards.
const MAKING: &str = "making";
/// The longest time to create one shard.
const LONGEST_SHARD: Duration = Duration::from_secs(15);
/// The interval at which a waiting caller checks whether another has created the store.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Opens the store at a location in object storage, `s3://bucket/prefix` or `mem://name/prefix`:
/// all its shards, or one ([`CloudOptions::only_shard`]).
///
/// Endpoint, region and credentials of `s3://` come from the environment: `AWS_ENDPOINT`,
/// `AWS_REGION`, `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN` and the other
/// `AWS_*` that the crate `object_store` reads; plain HTTP only with `AWS_ALLOW_HTTP=true`. A
/// store at `mem://` lasts as long as the process.
///
/// # Errors
///
/// [`Error::Location`], [`Error::NotAStore`], [`Error::StoreUnsuitable`], [`Error::Format`],
/// [`Error::Unavailable`].
///
/// ```
/// use filemap::PageWrite;
/// use filemap_cloud::{CloudOptions, Error, Mode, open_bucket};
/// let absent = open_bucket("mem://open-bucket", Mode::Read, &CloudOptions::new()).err();
/// assert!(matches!(absent, Some(Error::NotAStore { .. })));
/// open_bucket("mem://open-bucket", Mode::Fill, &CloudOptions::new())?.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open_bucket(location: &str, mode: Mode, options: &CloudOptions) -> Result<CloudStore> {
    open_in(location::bucket(location, bounds(options))?, mode, options)
}

/// As [`open_bucket`], below a prefix of the caller's own object store. Errors name it `location`.
///
/// # Errors
///
/// As [`open_bucket`].
///
/// ```
/// use std::sync::Arc;
/// use filemap::PageWrite;
/// use filemap_cloud::object_store::memory::InMemory;
/// use filemap_cloud::{CloudOptions, Mode, open_on};
/// let objects = Arc::new(InMemory::new());
/// open_on(objects, "pages", "a test", Mode::Fill, &CloudOptions::new())?.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open_on(
    objects: Arc<dyn ObjectStore>,
    prefix: &str,
    location: &str,
    mode: Mode,
    options: &CloudOptions,
) -> Result<CloudStore> {
    let root = Path::parse(prefix).map_err(|error| {
        let what = error.to_string();
        Error::Location { location: location.to_owned(), what }
    })?;
    open_in(Bucket::new(objects, root, location, bounds(options)), mode, options)
}

/// The bounds of requests, from the options.
pub(crate) fn bounds(options: &CloudOptions) -> Bounds {
    Bounds { retries: options.max_retries, slowest: options.slowest }
}

fn open_in(bucket: Bucket, mode: Mode, options: &CloudOptions) -> Result<CloudStore> {
    let runtime = runtime::handle(bucket.location())?;
    let (waiting, options, name) = (runtime.clone(), options.clone(), bucket.clone());
    let opened = runtime::wait(&waiting, async move {
        let Described { shards: of, canonicalizer, id } = described(&bucket, mode, &options).await?;
        // A writer decides what to store by what is in the bucket, not in a cache.
        let bucket = if mode == Mode::Read { cached(bucket, &options, id).await? } else { bucket };
        let (mut shards, wanted) = (Vec::new(), wanted(&bucket, of, &options)?);
        if mode != Mode::Read && wanted.len() > 1 {
            // Checked first: if one shard cannot be opened, no writer of another is fenced.
            for shard in wanted.clone() {
                check_writable(&bucket.of_shard(shard, of)).await?;
            }
        }
        for shard in wanted {
            let parts = (bucket.of_shard(shard, of), Arc::clone(&canonicalizer), runtime.clone());
            shards.push(shard_in(parts, mode, options.clone()).await?);
        }
        Ok(CloudStore::over(shards, of))
    });
    opened.unwrap_or_else(|| Err(name.unavailable("opening", 0, &"its task ended without an answer")))
}

/// Adds the cache on disk of the options. The description tells a store from one that was at the
/// same place before: by its random id, and a restored copy by its time. A tag may be the digest
/// of the same bytes.
async fn cached(bucket: Bucket, options: &CloudOptions, id: Option<String>) -> Result<Bucket> {
    let Some((folder, bytes)) = options.disk_cache.clone() else { return Ok(bucket) };
    let Some(meta) = bucket.meta(description::NAME).await? else {
        return Err(Error::NotAStore { location: bucket.location().to_owned() });
    };
    let shown = folder.display().to_string();
    let wrong = |what: String| {
        let location = bucket.location().to_owned();
        Error::Location { location, what: format!("the cache on disk {shown} cannot be opened: {what}") }
    };
    let cache = tokio::task::spawn_blocking(move || Cache::open(&folder, bytes)).await;
    let cache = cache.map_err(|error| wrong(error.to_string()))?.map_err(|error| wrong(error.to_string()))?;
    let time_ms = meta.last_modified.timestamp_millis();
    let store = format!("{} {id:?} {time_ms} {:?}", bucket.location(), meta.e_tag);
    Ok(bucket.with_cache(Arc::new(cache), &store))
}

/// The shards to open: all, or the one that the options name.
pub(crate) fn wanted(bucket: &Bucket, of: u32, options: &CloudOptions) -> Result<Range<u32>> {
    let Some(shard) = options.only_shard else { return Ok(0..of) };
    if shard < of {
        return Ok(shard..shard + 1);
    }
    let what = format!("it has no shard {shard}, but {of}, numbered from 0");
    Err(Error::Location { location: bucket.location().to_owned(), what })
}

/// Fails if no writer can open the shard, as far as can be seen without opening it.
async fn check_writable(bucket: &Bucket) -> Result<()> {
    let now = Generations::read(bucket).await?;
    now.check_no_repair(bucket)?;
    Index::check_there(bucket, now.newest).await
}

/// Opens one shard.
async fn shard_in(
    (bucket, canonicalizer, runtime): (Bucket, Arc<dyn Canonicalizer>, Handle),
    mode: Mode,
    options: CloudOptions,
) -> Result<Shard> {
    if mode == Mode::Read {
        let index = Arc::new(Index::open_to_read(bucket.clone(), &options).await?);
        let dictionaries = Dictionaries::new(bucket.clone(), options.dictionary_bytes);
        let core = Core { bucket, index, canonicalizer, runtime, options, dictionaries, writer: None };
        return Ok(over(Arc::new(core), None, None));
    }
    let (index, base) = owned(&bucket, &options).await?;
    let index = Arc::new(index);
    // After the earlier writer is fenced: nothing that it trains later is named by a segment that
    // counts.
    let dictionaries = Dictionaries::new(bucket.clone(), options.dictionary_bytes);
    if let Err(error) = dictionaries.prepare().await {
        // Nothing was written through it.
        let _ = index.close().await;
        return Err(error);
    }
    let (sender, sealed) = mpsc::unbounded_channel();
    let (pending, progress) = (Arc::new(Pending::default()), Arc::new(Progress::default()));
    let due = Arc::new(Due::default());
    let begin = Begin {
        epoch: index.epoch().unwrap_or_default(),
        base,
        segment_bytes: options.segment_bytes,
        unsynced_bytes: options.unsynced_bytes,
        location: bucket.location().to_owned(),
        fault: options.fault,
    };
    let writer = Some(Writer::new(begin, Arc::clone(&pending), Arc::clone(&progress), Arc::clone(&due), sender));
    let committer = Committer {
        bucket: bucket.clone(),
        index: Arc::clone(&index),
        pending,
        progress,
        due: Arc::clone(&due),
        segment_bytes: options.segment_bytes as u64,
        uploads: options.uploads,
        fault: options.fault,
    };
    let commits = tokio::spawn(committer.run(sealed));
    let bound = options.space_bound;
    let core = Arc::new(Core { bucket, index, canonicalizer, runtime, options, dictionaries, writer });
    if core.options.trains {
        // It ends by itself when the handle is closed.
        tokio::spawn(upkeep::train(Arc::downgrade(&core), Arc::clone(&due), core.options.segment_bytes as u64));
    }
    let upkeep = bound.map(|bound| tokio::spawn(upkeep::run(Arc::downgrade(&core), due, bound)));
    Ok(over(core, Some(commits), upkeep))
}

/// Opens the current index for writing, and returns the first uncommitted sequence. No repair is
/// building another index.
async fn owned(bucket: &Bucket, options: &CloudOptions) -> Result<(Index, u64)> {
    loop {
        let before = Generations::read(bucket).await?;
        before.check_no_repair(bucket)?;
        let (index, base) = index_to_write(bucket, before.newest, options).await?;
        // A repair that begins from here on fences this writer. An earlier one has taken its
        // number by now.
        let now = Generations::read(bucket).await?;
        if now == before {
            return Ok((index, base));
        }
        // Nothing was written through it.
        let _ = index.close().await;
    }
}

/// Opens an index for writing in probed object storage, and returns the first uncommitted
/// sequence. Fails if segments come from writers unknown to it: it has then lost their rows.
pub(crate) async fn index_to_write(
    bucket: &Bucket,
    generation: Generation,
    options: &CloudOptions,
) -> Result<(Index, u64)> {
    let found = probe::probe(bucket, &bucket.token()?).await?;
    let index = Index::open_to_write(bucket.clone(), generation, options, found.replaces_if_match).await?;
    let (base, own) = (index.next_sequence().await?, index.epoch().unwrap_or_default());
    let from = SegmentId { epoch: own, number: 0 };
    let later = bucket.list_after(SEGMENTS, &from.name()).await?;
    let later = later.iter().filter_map(|object| SegmentId::of_name(object.location.filename()?));
    if let Some(later) = later.max().filter(|later| later.epoch >= own) {
        // If the newer segments belong to a writer that opened the store in the meantime, this
        // fails.
        index.commit(&Changes { next: base, ..Changes::default() }, 1).await?;
        let what = format!(
            "it does not know the writer of {}: the end of the index is lost; run `repair`",
            bucket.named(&object(later))
        );
        return Err(bucket.damaged(&generation.folder(), what));
    }
    Ok((index, base))
}

fn over(core: Arc<Core>, commits: Option<JoinHandle<()>>, upkeep: Option<JoinHandle<()>>) -> Shard {
    let (commits, upkeep) = (Mutex::new(commits), Mutex::new(upkeep));
    Shard { core, commits, upkeep, closed: Mutex::default(), keeping: Mutex::default(), hold: Mutex::default() }
}

/// The parameters of a store.
pub(crate) struct Described {
    pub(crate) shards: u32,
    pub(crate) canonicalizer: Arc<dyn Canonicalizer>,
    /// The store's random id, if it has one.
    pub(crate) id: Option<String>,
}

/// Reads the description of the store, which is created if it is missing and `mode` allows it.
pub(crate) async fn described(bucket: &Bucket, mode: Mode, options: &CloudOptions) -> Result<Described> {
    let wanted = options.shards.unwrap_or(1);
    if !(1..=MAX_SHARDS).contains(&wanted) {
        let what = format!("a store must have 1 to {MAX_SHARDS} shards, not {wanted}");
        return Err(Error::Location { location: bucket.location().to_owned(), what });
    }
    let found = match bucket.get(description::NAME).await? {
        None => absent(bucket, mode, options, wanted).await?,
        found => found,
    };
    let location = || bucket.location().to_owned();
    let found = found.ok_or_else(|| Error::NotAStore { location: location() })?;
    let description = Description::decode(&found).map_err(|what| Error::Format { location: location(), what })?;
    let Description { shards, canonicalizer, canonicalizer_version, id, .. } = description;
    if options.shards.is_some_and(|wanted| wanted != shards) {
        let what = format!("it has {shards} shards, not {wanted}: the number is fixed at its creation");
        return Err(Error::Location { location: location(), what });
    }
    let named = urlindex::canonical::named(&canonicalizer, canonicalizer_version);
    let unknown = || {
        let what = format!("its keys were made by the canonicaliser {canonicalizer} version {canonicalizer_version}");
        Error::Format { location: location(), what }
    };
    Ok(Described { shards, canonicalizer: named.ok_or_else(unknown)?, id })
}

/// The description of a store that had none: this call or a concurrent one creates it now.
async fn absent(bucket: &Bucket, mode: Mode, options: &CloudOptions, shards: u32) -> Result<Option<Bytes>> {
    if let Some(left) = left(bucket).await? {
        // Another caller may have created it in the meantime.
        let found = bucket.get(description::NAME).await?;
        let what = || format!("it is missing, but {left} exists: a store was here; restore the object");
        return found.map(Some).ok_or_else(|| bucket.damaged(description::NAME, what()));
    }
    if mode != Mode::Fill {
        return Err(Error::NotAStore { location: bucket.location().to_owned() });
    }
    // An unsuitable object storage is refused before anything is left in it.
    let found = probe::probe(bucket, &bucket.token()?).await?;
    if shards == 1 {
        return made(bucket, options, shards, found).await;
    }
    // Creating an index opens it: of members that begin together only one creates all.
    if let Some(made) = turn(bucket).await? {
        return Ok(Some(made));
    }
    let made = made(bucket, options, shards, found).await;
    // If it is left, the next caller that creates the store waits for a while.
    let _ = bucket.delete(MAKING).await;
    made
}

/// Waits until this call may create the store, or until another has created it.
async fn turn(bucket: &Bucket) -> Result<Option<Bytes>> {
    let token = Bytes::from(bucket.token()?);
    let (mut shards, mut since) = (0, Instant::now());
    // A caller that completes no shard in this time was killed.
    while !bucket.claim(MAKING, token.clone()).await? && since.elapsed() < LONGEST_SHARD {
        if let Some(made) = bucket.get(description::NAME).await? {
            return Ok(Some(made));
        }
        let now = bucket.folders("").await?.len();
        if now > shards {
            (shards, since) = (now, Instant::now());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(None)
}

/// Creates the missing indexes, then the description.
async fn made(bucket: &Bucket, options: &CloudOptions, shards: u32, found: probe::Found) -> Result<Option<Bytes>> {
    // Indexes first: a store with a description but without an index has lost it.
    for shard in 0..shards {
        // Another caller may have created the store: then shards may have writers.
        if let Some(made) = bucket.get(description::NAME).await? {
            return Ok(Some(made));
        }
        let bucket = bucket.of_shard(shard, shards);
        let first = Generations::read(&bucket).await?.newest;
        Index::make(bucket, first, options, found.replaces_if_match).await?;
    }
    let made = Description {
        shards,
        canonicalizer: options.canonicalizer.name().to_owned(),
        canonicalizer_version: options.canonicalizer.version(),
        id: Some(bucket.token()?),
        has_dictionaries: false,
    };
    bucket.create(description::NAME, Bytes::from(made.encode())).await?;
    // Another caller may have been faster.
    bucket.get(description::NAME).await
}

/// A folder that proves that a store was created here, whatever its shards.
async fn left(bucket: &Bucket) -> Result<Option<String>> {
    for shard in bucket.folders("").await? {
        let is_shard = |number: &str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        if !shard.strip_prefix("shard-").is_some_and(is_shard) {
            continue;
        }
        let folders = bucket.folders(&shard).await?;
        if let Some(found) = folders.iter().find(|name| ["seg", "crawl", "index", "dict"].contains(&&***name)) {
            return Ok(Some(format!("{shard}/{found}")));
        }
    }
    Ok(None)
}
