//! Trains dictionaries on the pages of a store, and lists them.
//!
//! Samples come from segments spread over the shard, and only from the newest versions of pages:
//! no text of a removed page gets into a dictionary. A dictionary is kept if it compresses
//! held-out bodies better than the one before, by more than its object costs. It is in object
//! storage before anything is compressed with it, and before that the object `STORE` says that
//! there are dictionaries: builds that know none then open the store no more.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use filemap::Version;
use filemap::access::keys;
use filemap_core::dictionaries::Samples;
use futures_util::future::join_all;
use xxhash_rust::xxh3::xxh3_64;

use crate::bucket::Bucket;
use crate::commit::object;
use crate::compact::{CompactReport, ms_since_1970, pass_at};
use crate::core::Core;
use crate::dictionaries::Dictionaries;
use crate::dictionary::{Dictionary, unpack};
use crate::error::{Error, Result};
use crate::failpoint::Fault;
use crate::format::chunks::LEVEL;
use crate::format::description::{self, Description};
use crate::format::dictionary::{self, Facts};
use crate::format::record::{Codec, DictionaryId, Kind, Record};
use crate::format::row::Row;
use crate::format::segment::{Placed, Segment, SegmentId};
use crate::plan::Want;
use crate::store::CloudStore;
use crate::writer::Writer;

/// The most segments that are read.
const SEGMENTS: usize = 64;
/// Versions looked up in parallel.
const AT_ONCE: usize = 32;
/// The longest body that is a sample.
const LONGEST_SAMPLE: u64 = 256 << 10;
/// Most bytes of samples in memory: of all sites together, for the dictionary of all pages, and
/// for that of a site.
const MOST_BYTES: usize = 96 << 20;
const MOST_OF_ALL: usize = 16 << 20;
const MOST_OF_SITE: usize = 4 << 20;
/// Sites that are counted, and sites with a dictionary of their own.
const SITES_COUNTED: usize = 4_096;
const SITES: usize = 32;
/// The fewest pages that a dictionary is trained for.
const LEAST_PAGES: u64 = 16;
/// Bytes of bodies per byte of dictionary.
const BODIES_TO_DICTIONARY: u64 = 32;
/// The shortest dictionary that is tried, and the longest of all pages and of a site. At 256 KiB
/// zstd takes tables of twice the length.
const SHORTEST: u64 = 16 << 10;
const LONGEST_OF_ALL: u64 = 254 << 10;
const LONGEST_OF_SITE: u64 = 126 << 10;
/// Expected growth of the store and of a site, as a factor: over that much data a dictionary must
/// save more than its object costs.
const GROWTH_OF_ALL: f64 = 16.0;
const GROWTH_OF_SITE: f64 = 4.0;
/// Least gain on held-out bodies, as a share of their size before.
const LEAST_GAIN: f64 = 0.03;
/// How late the planted fault stores a dictionary.
const LATE: Duration = Duration::from_millis(60);

/// A dictionary of a store, as [`CloudStore::dictionaries`] lists it.
///
/// ```
/// use filemap_cloud::{CloudOptions, Mode, open_bucket};
/// let store = open_bucket("mem://dictionaries", Mode::Fill, &CloudOptions::new())?;
/// for dictionary in store.dictionaries()? {
///     println!("{}: {} bytes", dictionary.object, dictionary.bytes);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CloudDictionary {
    /// The name of its object, below the store's prefix.
    pub object: String,
    /// The scheme and host whose pages it is for; empty for all pages of its shard.
    pub site: Vec<u8>,
    /// The time of its training, in ms since 1970.
    pub created_ms: u64,
    /// Number of pages that it was trained for, of which a part was read.
    pub pages: u64,
    /// Its length.
    pub bytes: u64,
    /// Hold-out compression ratio when it was trained: compressed to uncompressed bytes.
    pub body_ratio: f64,
    /// True if it is the newest of its site: new bodies are compressed with it.
    pub is_current: bool,
}

impl CloudStore {
    /// Trains dictionaries on the newest versions of pages: in each shard one for all pages, and
    /// one for each of the largest sites if it pays. Bodies that this handle and later writers put
    /// are then compressed with them; stored ones stay as they are. Returns the new dictionaries,
    /// which may be none. Puts continue meanwhile.
    ///
    /// Reads up to 64 segments of a shard, and takes up to 120 MiB of memory for samples. Costs a
    /// `PUT` for each dictionary, and some requests to learn whether this handle still owns the
    /// store. A `GET` of a body that needs a dictionary costs one more request
    /// the first time ([`CloudOptions::dictionary_bytes`](crate::CloudOptions::dictionary_bytes)).
    ///
    /// After the first dictionary, builds without them refuse to open the store.
    ///
    /// # Errors
    ///
    /// [`Error::ReadOnly`]; [`Error::Fenced`] and [`Error::Repairing`]; those of the object
    /// storage. Dictionaries made before the error are used.
    ///
    /// ```
    /// use filemap::access::PutRule;
    /// use filemap::{Page, PageRead, PageWrite};
    /// use filemap_cloud::{CloudOptions, Mode, open_bucket};
    /// let store = open_bucket("mem://trained", Mode::Fill, &CloudOptions::new())?;
    /// let page = |nth: usize| {
    ///     let body = format!("<title>{nth}</title>{}", "<nav>one site, one navigation</nav>".repeat(40));
    ///     Page::new(format!("http://example.com/{nth}"), 1_700_000_000_000, 200, body)
    /// };
    /// (0..400).try_for_each(|nth| store.put(&page(nth), PutRule::IfNew).map(drop))?;
    /// for made in store.train()? {
    ///     println!("{}: {} bytes of {} pages", made.object, made.bytes, made.pages);
    /// }
    /// store.put(&page(400), PutRule::IfNew)?;
    /// assert_eq!(store.get(&"http://example.com/400".into())?, Some(page(400)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn train(&self) -> filemap::Result<Vec<CloudDictionary>> {
        let of_shards = self.each(|shard| {
            let made = trained(&shard.core)?;
            Ok::<_, Error>(made.iter().map(|made| shown(&shard.core.bucket, made, true)).collect::<Vec<_>>())
        })?;
        Ok(of_shards.into_iter().flatten().collect())
    }

    /// Compresses stored bodies again, at a level from 1 to 19 and with the present dictionaries,
    /// where that makes them shorter. Large bodies stay as they are. Rewrites segments, as
    /// [`CloudStore::compact`] does, and reports the same; a segment that gains nothing is read
    /// and stays. Repeat it after an interruption.
    ///
    /// Takes as long as compressing all pages on one core.
    ///
    /// # Errors
    ///
    /// As [`CloudStore::compact`]; [`Error::Location`] for another level.
    ///
    /// ```
    /// use filemap_cloud::{CloudOptions, Mode, open_bucket};
    /// let store = open_bucket("mem://recompressed", Mode::Fill, &CloudOptions::new())?;
    /// assert_eq!(store.recompress(9)?.rewritten, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recompress(&self, level: i32) -> filemap::Result<CompactReport> {
        let reports = self.each(|shard| {
            let core = &shard.core;
            if !(1..=19).contains(&level) {
                let (location, what) = (core.bucket.location().to_owned(), format!("level {level} is not 1 to 19"));
                return Err(Error::Location { location, what });
            }
            pass_at(core, Want::All, core.options.grace, Some(level))
        })?;
        Ok(reports.into_iter().fold(CompactReport::default(), CompactReport::plus))
    }

    /// The dictionaries in object storage, of all shards of the handle, used or not. A listing,
    /// and a request for each that is not in memory.
    ///
    /// # Errors
    ///
    /// Damage of a dictionary; those of the object storage.
    pub fn dictionaries(&self) -> filemap::Result<Vec<CloudDictionary>> {
        let of_shards = self.each(|shard| listed(&shard.core))?;
        Ok(of_shards.into_iter().flatten().collect())
    }
}

fn shown(bucket: &Bucket, dictionary: &Dictionary, is_current: bool) -> CloudDictionary {
    let Facts { site, created_ms, pages, body_ppm } = dictionary.facts.clone();
    let (object, bytes) = (bucket.named(&dictionary::object(dictionary.id)), dictionary.content().len() as u64);
    CloudDictionary { object, site, created_ms, pages, bytes, body_ratio: f64::from(body_ppm) / 1e6, is_current }
}

/// The dictionaries of one shard, oldest first.
fn listed(core: &Arc<Core>) -> Result<Vec<CloudDictionary>> {
    let found = core.wait(|core| async move {
        let mut found = BTreeMap::new();
        for (id, _) in Dictionaries::listed(&core.bucket).await? {
            // It may have been deleted in the meantime.
            found.extend(core.dictionaries.get(id).await?.map(|dictionary| (id, dictionary)));
        }
        Ok(found)
    })?;
    let newest: HashMap<&[u8], DictionaryId> =
        found.iter().map(|(id, dictionary)| (&dictionary.facts.site[..], *id)).collect();
    let is_newest = |dictionary: &Dictionary| newest.get(&dictionary.facts.site[..]) == Some(&dictionary.id);
    Ok(found.values().map(|dictionary| shown(&core.bucket, dictionary, is_newest(dictionary))).collect())
}

/// Trains the dictionaries of one shard, and compresses new bodies with them.
pub(crate) fn trained(core: &Arc<Core>) -> Result<Vec<Arc<Dictionary>>> {
    let writer = core.writer.as_ref().ok_or_else(|| core.index.read_only())?;
    let _turn = core.dictionaries.turn();
    // Segments have what was put.
    writer.sync()?;
    let mut made = Vec::new();
    for job in sampled(core)?.jobs() {
        if core.is_closing() {
            break;
        }
        made.extend(make(core, writer, job)?);
    }
    Ok(made)
}

/// Pages of a site, or all pages.
#[derive(Default)]
struct Pages {
    pages: u64,
    /// Bytes of their bodies.
    bytes: u64,
    samples: Vec<Vec<u8>>,
    sample_bytes: usize,
}

impl Pages {
    fn count(&mut self, bytes: u64) {
        self.pages += 1;
        self.bytes += bytes;
    }

    /// Adds a sample, if there are fewer than `most` bytes of them. Returns its bytes.
    fn add(&mut self, body: Vec<u8>, most: usize) -> usize {
        let bytes = if self.sample_bytes < most { body.len() } else { 0 };
        if bytes > 0 {
            self.sample_bytes += bytes;
            self.samples.push(body);
        }
        bytes
    }

    /// The samples, mixed: pages that were put together are alike, and a dictionary is made of the
    /// first ones. The same pages give the same dictionary.
    fn mixed(mut self) -> Samples {
        self.samples.sort_by_cached_key(|body| xxh3_64(body));
        let mut mixed = Samples::default();
        self.samples.into_iter().for_each(|body| mixed.add(body));
        mixed
    }
}

/// Pages that were read, with samples.
#[derive(Default)]
struct Tally {
    all: Pages,
    of_sites: HashMap<Vec<u8>, Pages>,
    sample_bytes: usize,
    /// Bytes of the segments that were read, and of all.
    read: u64,
    written: u64,
}

/// A dictionary to train.
struct Job {
    site: Vec<u8>,
    /// As estimated for the whole shard.
    pages: u64,
    bytes: u64,
    samples: Samples,
    longest: u64,
    growth: f64,
}

impl Tally {
    fn count(&mut self, record: &Record<'_>) {
        self.all.count(record.body_bytes);
        let site = keys::site(record.key);
        if site.is_empty() || (self.of_sites.len() >= SITES_COUNTED && !self.of_sites.contains_key(site)) {
            return;
        }
        self.of_sites.entry(site.to_vec()).or_default().count(record.body_bytes);
    }

    /// Adds a sample; for all pages too, if `is_of_all`.
    fn add(&mut self, key: &[u8], body: Vec<u8>, is_of_all: bool) {
        if is_of_all {
            self.all.add(body.clone(), MOST_OF_ALL);
        }
        let Some(of_site) = self.of_sites.get_mut(keys::site(key)) else { return };
        if self.sample_bytes < MOST_BYTES {
            self.sample_bytes += of_site.add(body, MOST_OF_SITE);
        }
    }

    /// The dictionaries to try: of all pages first, then of the largest sites.
    fn jobs(self) -> Vec<Job> {
        let Tally { all, of_sites, read, written, .. } = self;
        // Only a part may have been read.
        let scale = written as f64 / read.max(1) as f64;
        let job = |site: Vec<u8>, of: Pages| {
            let (longest, growth) = match site.is_empty() {
                true => (LONGEST_OF_ALL, GROWTH_OF_ALL),
                false => (LONGEST_OF_SITE, GROWTH_OF_SITE),
            };
            let scaled = |count: u64| (count as f64 * scale) as u64;
            Job { site, pages: scaled(of.pages), bytes: scaled(of.bytes), samples: of.mixed(), longest, growth }
        };
        let mut sites: Vec<(Vec<u8>, Pages)> = of_sites.into_iter().collect();
        sites.sort_by(|(site, one), (other_site, other)| (other.bytes, site).cmp(&(one.bytes, other_site)));
        sites.truncate(SITES);
        let all = std::iter::once((Vec::new(), all)).chain(sites);
        all.map(|(site, pages)| job(site, pages)).filter(|job| job.pages >= LEAST_PAGES).collect()
    }
}

/// Reads segments spread over the shard.
fn sampled(core: &Arc<Core>) -> Result<Tally> {
    let rows = core.wait(|core| async move { core.index.segments().await })?;
    let chosen: Vec<SegmentId> = rows.keys().copied().step_by(rows.len().div_ceil(SEGMENTS).max(1)).collect();
    let written = rows.values().fold(0, |sum: u64, bytes| sum.saturating_add(bytes.written));
    let mut tally = Tally { written, ..Tally::default() };
    for id in chosen.iter().copied() {
        if core.is_closing() {
            break;
        }
        let bytes = core.wait(move |core| async move { core.bucket.get(&object(id)).await })?;
        // A verification names those that are missing or damaged.
        let Some(bytes) = bytes else { continue };
        let Ok(segment) = Segment::parse(&bytes, id) else { continue };
        tally.read = tally.read.saturating_add(rows.get(&id).map_or(0, |row| row.written));
        let pages: Vec<_> = segment.records().filter_map(std::result::Result::ok).collect();
        let pages: Vec<_> = pages.iter().filter(|(record, ..)| is_sample(record)).collect();
        pages.iter().for_each(|(record, ..)| tally.count(record));
        let of_segment = pages.iter().map(|(record, ..)| record.body_bytes).sum::<u64>();
        let every = of_segment.div_ceil((MOST_BYTES / chosen.len()) as u64).max(1);
        let taken: Vec<_> = pages.into_iter().step_by(every as usize).collect();
        let mut left = (MOST_OF_ALL / chosen.len()) as u64;
        for ((record, ..), with) in taken.iter().zip(newest(core, &taken)?) {
            let Some(with) = with else { continue };
            let Ok(body) = unpack(record, with.as_deref()) else { continue };
            let is_of_all = left > 0;
            left = left.saturating_sub(record.body_bytes);
            tally.add(record.key, body, is_of_all);
        }
    }
    Ok(tally)
}

fn is_sample(record: &Record<'_>) -> bool {
    let is_whole = record.kind == Kind::Page && record.codec != Codec::Chunks;
    is_whole && (1..=LONGEST_SAMPLE).contains(&record.body_bytes)
}

/// A version to look up, its row, and the dictionary that its body needs.
type Sought = (Vec<u8>, Version, Row, Option<DictionaryId>);

/// `None` if a record is not the newest version of its key; else the dictionary that its body
/// needs, if it needs one and that exists.
type Newest = Option<Option<Arc<Dictionary>>>;

/// Looks each record up in the index.
fn newest(core: &Arc<Core>, records: &[&Placed<'_>]) -> Result<Vec<Newest>> {
    let sought = records.iter().map(|(record, place, bytes)| {
        let row = Row::of_record(record, *place, *bytes);
        (keys::form(record.key), record.version, row, record.dictionary())
    });
    let sought: Vec<Sought> = sought.collect();
    core.wait(move |core| async move {
        let mut found = Vec::new();
        for part in sought.chunks(AT_ONCE) {
            found.extend(join_all(part.iter().map(|sought| look(&core, sought))).await);
        }
        found.into_iter().collect()
    })
}

async fn look(core: &Core, sought: &Sought) -> Result<Newest> {
    let (form, version, row, id) = sought;
    if core.newest(form, None).await? != Some((*version, *row)) {
        return Ok(None);
    }
    let Some(id) = id else { return Ok(Some(None)) };
    match core.dictionaries.get(*id).await {
        // It is no sample, then.
        Err(error) if error.is_damage() => Ok(None),
        found => found.map(Some),
    }
}

/// Trains a dictionary, and stores it if it pays.
fn make(core: &Arc<Core>, writer: &Writer, job: Job) -> Result<Option<Arc<Dictionary>>> {
    let Job { site, pages, bytes, samples, longest, growth } = job;
    let before = core.dictionaries.of_site(&site);
    let before = before.as_ref().map_or(&b""[..], |before| before.content());
    let length = (bytes / BODIES_TO_DICTIONARY).clamp(SHORTEST, longest);
    let Some(made) = samples.dictionary(length as usize, LEVEL) else { return Ok(None) };
    let Some(bytes_before) = samples.tried(before, LEVEL) else { return Ok(None) };
    let held_out = samples.held_out_bytes().max(1) as f64;
    let gain = (bytes_before as f64 - made.compressed_bytes as f64) / held_out;
    let is_better = gain >= LEAST_GAIN * (bytes_before as f64 / held_out);
    if !is_better || gain * bytes as f64 * growth < made.content.len() as f64 {
        return Ok(None);
    }
    let body_ppm = (made.compressed_bytes as f64 / held_out * 1e6) as u32;
    let facts = Facts { site, created_ms: ms_since_1970(SystemTime::now()), pages, body_ppm };
    let id = DictionaryId { epoch: writer.epoch, number: core.dictionaries.next_number() };
    let Ok(made) = Dictionary::new(id, facts, made.content) else { return Ok(None) };
    let made = Arc::new(made);
    if core.is_closing() {
        return Ok(None);
    }
    store(core, &made)?;
    core.dictionaries.adopt(Arc::clone(&made));
    Ok(Some(made))
}

/// Stores a dictionary.
fn store(core: &Arc<Core>, made: &Dictionary) -> Result<()> {
    let (name, bytes) = (dictionary::object(made.id), Bytes::from(made.encode()));
    if Fault::DictionaryLate.is_planted(core.options.fault) {
        let core = Arc::clone(core);
        core.runtime.clone().spawn(async move {
            tokio::time::sleep(LATE).await;
            // If it fails, it is never stored.
            let _ = core.bucket.claim(&name, bytes).await;
        });
        return Ok(());
    }
    core.wait(move |core| async move {
        // A dictionary of a fenced writer may contain text of pages that the next one has erased.
        core.index.check_owner().await?;
        announce(&core.bucket).await?;
        if core.bucket.claim(&name, bytes).await? {
            return Ok(());
        }
        let what = format!("{} exists with other bytes: two writers had one epoch", core.bucket.named(&name));
        Err(Error::StoreUnsuitable { location: core.bucket.location().to_owned(), what })
    })
}

/// Says in the description that the store has dictionaries. Writers of several shards write the
/// same.
async fn announce(bucket: &Bucket) -> Result<()> {
    let Some(found) = bucket.get(description::NAME).await? else {
        return Err(bucket.damaged(description::NAME, "it is missing; restore the object"));
    };
    let location = || bucket.location().to_owned();
    let decoded = Description::decode(&found).map_err(|what| Error::Format { location: location(), what })?;
    if decoded.has_dictionaries {
        return Ok(());
    }
    let with = Description { has_dictionaries: true, ..decoded };
    bucket.replace(description::NAME, Bytes::from(with.encode())).await
}
