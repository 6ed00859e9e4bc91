//! [`RedisUrlSet`]: the set, as a [`SeenSet`] and through requests that can be repeated.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::Value;
use urlindex::idempotent::RequestId;
use urlindex::{Canonicalizer, SeenSet, SeenStats, Verdict};

use crate::batch::{self, Batch, Said};
use crate::error::{Error, Remedy, Result, remedy};
use crate::kind::NewRedisSet;
use crate::lanes::{Lane, Lanes};
use crate::layout::{Names, Note, command};
use crate::link::Link;
use crate::location::Location;
use crate::options::RedisOptions;

/// The server-side functions that add URLs.
const FUNCTIONS: &str = include_str!("functions.lua");
/// Maximum URLs of a request: a server is blocked while it processes one group of them.
const MAX_URLS: usize = 65_536;
/// Maximum URLs that the trait's batches send in one request.
const CHUNK: usize = 4_096;
/// Time for which answers to a lane's requests are kept: it retries within its patience.
const LANE_KEEP: Duration = Duration::from_secs(60 * 60);
const LANE_REQUESTS: u32 = 4;
/// Waits between attempts: doubled from the first up to the longest.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Time, in ms, for replicas to receive the URLs before the call is repeated.
const REPLICAS_MS: u32 = 1_000;

/// A seen set on Redis (7 or later) or Redis Cluster, shared by many crawlers. Its calls block; it
/// is `Send` and `Sync`. The crate's documentation states its guarantees.
///
/// ```no_run
/// use urlindex::{SeenSet, Whatwg};
/// use urlindex_redis::{NewRedisSet, RedisOptions, RedisUrlSet};
///
/// let location = "redis://10.0.0.1:6379,10.0.0.2:6379/pages";
/// let new = NewRedisSet::Exact { urls: 100_000_000 };
/// let set = RedisUrlSet::create(location, new, &Whatwg, &RedisOptions::new())?;
/// assert!(set.insert(b"https://example.com/")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RedisUrlSet {
    location: Location,
    options: RedisOptions,
    note: Note,
    names: Names,
    lanes: Lanes,
    inserted: AtomicU64,
    /// Number of URLs at the last count.
    counted: AtomicU64,
}

impl RedisUrlSet {
    /// Creates an empty set of URLs canonicalised by `rules`. A few requests.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::Location`]; [`Error::Option`]; [`Error::Unsuitable`] if a
    /// server drops keys when its memory is full; [`Error::Unreachable`]; [`Error::Refused`].
    pub fn create(
        location: &str,
        new: NewRedisSet,
        rules: &dyn Canonicalizer,
        options: &RedisOptions,
    ) -> Result<RedisUrlSet> {
        new.check()?;
        let note = Note::new(new, rules.name(), rules.version());
        let text = serde_json::to_string(&note)
            .map_err(|error| Error::Option { name: "rules", why: format!("they cannot be noted: {error}") })?;
        RedisUrlSet::with(location, options, |set, lane| {
            let key = Names::note(&set.location.name);
            // A note equal to this one is from our own first attempt.
            let made = set.attempts(lane, "create", |link| {
                let set = command(&["SET", &key, &text, "NX"]);
                link.ask(vec![set, command(&["GET", &key])])
            })?;
            match made.get(1) {
                Some(Value::BulkString(there)) if *there == text.as_bytes() => Ok(note),
                _ => Err(Error::Exists { location: set.location.to_string() }),
            }
        })
    }

    /// Opens a set. A few requests.
    ///
    /// # Errors
    /// [`Error::NoSet`]; [`Error::Note`]; and as [`RedisUrlSet::create`].
    pub fn open(location: &str, options: &RedisOptions) -> Result<RedisUrlSet> {
        RedisUrlSet::with(location, options, |set, lane| {
            let key = Names::note(&set.location.name);
            let found = set.attempts(lane, "open", |link| link.ask(vec![command(&["GET", &key])]))?;
            let location = set.location.to_string();
            let damaged = |why: String| Error::Note { location: location.clone(), key: key.clone(), why };
            match found.as_slice() {
                [Value::BulkString(text)] => {
                    let note: Note = serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
                    note.fault().map_or(Ok(note), |why| Err(damaged(why)))
                }
                _ => Err(Error::NoSet { location }),
            }
        })
    }

    fn with(
        location: &str,
        options: &RedisOptions,
        note: impl FnOnce(&RedisUrlSet, &mut Lane) -> Result<Note>,
    ) -> Result<RedisUrlSet> {
        options.check()?;
        let location = Location::parse(location)?;
        let mut options = options.clone();
        options.replicas = location.replicas.unwrap_or(options.replicas);
        // A placeholder until the note is read.
        let no_note = Note::new(NewRedisSet::Bitmap { bits: 16 }, "", 0);
        let mut set = RedisUrlSet {
            names: Names::new(&location.name, 1),
            location,
            lanes: Lanes::new(options.connections),
            options,
            note: no_note,
            inserted: AtomicU64::new(0),
            counted: AtomicU64::new(0),
        };
        let mut lane = set.lanes.take();
        set.check_servers(&mut lane)?;
        set.note = note(&set, &mut lane)?;
        set.names = Names::new(&set.location.name, set.note.groups);
        set.lanes.give_back(lane);
        set.count()?;
        Ok(set)
    }

    /// Refuses servers that evict keys.
    fn check_servers(&self, lane: &mut Lane) -> Result<()> {
        let abouts = self.attempts(lane, "open", |link| link.ask_each(&command(&["INFO", "memory"])))?;
        for about in abouts {
            let text = match &about {
                Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                Value::VerbatimString { text, .. } => text.clone(),
                _ => String::new(),
            };
            let of =
                |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).map(str::to_owned);
            let policy = of("maxmemory_policy:").unwrap_or_default();
            if of("maxmemory:").is_some_and(|most| most != "0") && policy != "noeviction" {
                let why = format!("its `maxmemory-policy` is `{policy}`: it would drop URLs; set `noeviction`");
                return Err(Error::Unsuitable { location: self.location.to_string(), why });
            }
        }
        Ok(())
    }

    /// The set's location, without a user.
    pub fn location(&self) -> String {
        self.location.to_string()
    }

    /// The set's kind and size.
    pub fn kind(&self) -> NewRedisSet {
        self.note.set
    }

    /// Name and version of the canonicaliser of the set's URLs.
    pub fn rules(&self) -> (&str, u32) {
        (&self.note.rules, self.note.rules_version)
    }

    /// Adds URLs, and returns which were new. A request of the same owner with the same id, sent
    /// again after an error or a restart, gets the same answer. The owner is a number of a client
    /// that stores its request ids first, such as a crawl's id. One request a master.
    ///
    /// # Errors
    /// [`Error::Request`] if its answers have expired, its id was used for other URLs, or its id
    /// is from the future; [`Error::Option`] for more than 65,536 URLs; [`Error::Unreachable`]:
    /// send the request again; [`Error::Refused`].
    pub fn add(&self, owner: u128, id: RequestId, urls: &[impl AsRef<[u8]>]) -> Result<Vec<Verdict>> {
        if urls.len() > MAX_URLS {
            let why = format!("{} are too many for a request: the maximum is {MAX_URLS}", urls.len());
            return Err(Error::Option { name: "urls", why });
        }
        let urls: Vec<&[u8]> = urls.iter().map(AsRef::as_ref).collect();
        let keep = (millis(self.options.keep_for), self.options.keep_requests);
        let batch = Batch::new((&self.note, &self.names), (owner, id), keep, &urls);
        let mut lane = self.lanes.take();
        let new = self.settle(&mut lane).and_then(|()| self.send(&mut lane, &batch));
        self.lanes.give_back(lane);
        Ok(self.verdicts(&batch, &new?))
    }

    /// Number of URLs in the set. One request a master.
    ///
    /// # Errors
    /// [`Error::Unreachable`]; [`Error::Refused`].
    pub fn count(&self) -> Result<u64> {
        let ask = |link: &mut Link| {
            link.ask((0..self.names.groups()).map(|group| command(&["GET", &self.names.count(group)])).collect())
        };
        let mut lane = self.lanes.take();
        let counts = self.attempts(&mut lane, "count", ask);
        self.lanes.give_back(lane);
        let number = |count: &Value| match count {
            Value::BulkString(digits) => String::from_utf8_lossy(digits).parse().unwrap_or(0u64),
            Value::Int(number) => u64::try_from(*number).unwrap_or(0),
            _ => 0,
        };
        let count = counts?.iter().map(number).fold(0, u64::saturating_add);
        self.counted.store(count, Ordering::Relaxed);
        Ok(count)
    }

    /// Adds the URLs of one call of the trait.
    fn insert_all(&self, urls: &[&[u8]]) -> Result<Vec<Verdict>> {
        let mut lane = self.lanes.take();
        let keep = (millis(LANE_KEEP), LANE_REQUESTS);
        let verdicts = self.settle(&mut lane).and_then(|()| {
            let batch = Batch::new((&self.note, &self.names), (lane.owner, RequestId::now()), keep, urls);
            match self.send(&mut lane, &batch) {
                Ok(new) => Ok(self.verdicts(&batch, &new)),
                Err(error) => {
                    lane.doubt = Some(batch);
                    Err(error)
                }
            }
        });
        self.lanes.give_back(lane);
        verdicts
    }

    /// Repeats a request in doubt before the next one of its lane.
    fn settle(&self, lane: &mut Lane) -> Result<()> {
        let Some(batch) = lane.doubt.take() else { return Ok(()) };
        let hashes = |new: &[bool]| -> Vec<u64> {
            batch.places().iter().zip(new).filter(|(_, is_new)| **is_new).map(|(place, _)| place.hash).collect()
        };
        match self.send(lane, &batch) {
            Ok(new) => self.lanes.owe(hashes(&new).into_iter()),
            // Its answers have expired: owe all its URLs, so that some are given out twice.
            Err(Error::Request { .. }) => self.lanes.owe(hashes(&vec![true; batch.places().len()]).into_iter()),
            Err(error) => {
                lane.doubt = Some(batch);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Sends a batch; returns which of its URLs were new.
    fn send(&self, lane: &mut Lane, batch: &Batch) -> Result<Vec<bool>> {
        if batch.places().is_empty() {
            return Ok(Vec::new());
        }
        let answers = self.attempts(lane, "add", |link| {
            let answers = link.ask(batch.calls(&self.note.set, &self.names))?;
            self.wait_for_replicas(link)?;
            Ok(answers)
        })?;
        match batch.said(&answers) {
            Said::New(new) => Ok(new),
            Said::Refused(refusal) => Err(Error::Request { id: batch.id, refusal }),
            Said::Strange(why) => {
                let why = format!("unexpected answer: {why}");
                Err(Error::Refused { location: self.location.to_string(), op: "add", why })
            }
        }
    }

    fn wait_for_replicas(&self, link: &mut Link) -> redis::RedisResult<()> {
        if self.options.replicas == 0 {
            return Ok(());
        }
        let wait = command(&["WAIT", &self.options.replicas.to_string(), &REPLICAS_MS.to_string()]);
        for has in link.ask_each(&wait)? {
            if !matches!(has, Value::Int(number) if number >= i64::from(self.options.replicas)) {
                let why = format!("a master has {has:?} replicas that keep up, {} are required", self.options.replicas);
                return Err((redis::ErrorKind::Io, "too few replicas", why).into());
            }
        }
        Ok(())
    }

    /// The verdicts of a batch; owed URLs count as new.
    fn verdicts(&self, batch: &Batch, new: &[bool]) -> Vec<Verdict> {
        let verdicts: Vec<Verdict> = batch
            .places()
            .iter()
            .zip(new)
            .map(|(place, is_new)| batch::verdict(&self.note.set, *is_new || self.lanes.pay(place.hash)))
            .collect();
        let count = verdicts.iter().filter(|verdict| verdict.is_new()).count() as u64;
        self.inserted.fetch_add(count, Ordering::Relaxed);
        self.counted.fetch_add(count, Ordering::Relaxed);
        verdicts
    }

    /// Retries until there is an answer, on a new connection after each failure, within the
    /// patience of the options.
    fn attempts(
        &self,
        lane: &mut Lane,
        op: &'static str,
        ask: impl Fn(&mut Link) -> redis::RedisResult<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        let (begun, mut pause) = (Instant::now(), PAUSE);
        loop {
            let password = self.options.password.as_deref();
            let link = match lane.link.take() {
                Some(link) => Ok(link),
                None => Link::open(&self.location, password),
            };
            let failed = match link {
                Ok(mut link) => match ask(&mut link) {
                    Ok(answers) => {
                        lane.link = Some(link);
                        return Ok(answers);
                    }
                    Err(error) if remedy(&error) == Remedy::Load => match load(&mut link) {
                        Ok(()) => continue,
                        Err(error) => error,
                    },
                    Err(error) => error,
                },
                Err(error) => error,
            };
            let (location, why) = (self.location.to_string(), failed.to_string());
            if remedy(&failed) == Remedy::Never {
                return Err(Error::Refused { location, op, why });
            }
            if begun.elapsed() + pause > self.options.patience {
                return Err(Error::Unreachable { location, op, why });
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn look(&self, urls: &[&[u8]]) -> Result<Vec<Verdict>> {
        let places: Vec<_> = urls.iter().map(|url| self.note.set.place(url, self.note.seed)).collect();
        let mut lane = self.lanes.take();
        let ask = |link: &mut Link| link.ask(batch::looks(&self.note, &self.names, &places));
        // Whether a URL in doubt is in the set is unknown until it is settled.
        let answers = self.settle(&mut lane).and_then(|()| self.attempts(&mut lane, "check", ask));
        self.lanes.give_back(lane);
        let answers = answers?;
        let verdict = |(place, answer): (&crate::kind::Place, &Value)| {
            let is_there = batch::is_there(answer).ok_or_else(|| Error::Refused {
                location: self.location.to_string(),
                op: "check",
                why: format!("unexpected answer: {answer:?}"),
            })?;
            Ok(batch::verdict(&self.note.set, !is_there || self.lanes.is_owed(place.hash)))
        };
        places.iter().zip(&answers).map(verdict).collect()
    }
}

/// Loads the functions on each master.
fn load(link: &mut Link) -> redis::RedisResult<()> {
    link.ask_each(&command(&["FUNCTION", "LOAD", "REPLACE", FUNCTIONS])).map(drop)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl SeenSet for RedisUrlSet {
    fn check_and_insert(&self, url: &[u8]) -> urlindex::Result<Verdict> {
        Ok(self.insert_all(&[url])?.first().copied().unwrap_or(Verdict::New))
    }

    fn contains(&self, url: &[u8]) -> urlindex::Result<Verdict> {
        Ok(self.look(&[url])?.first().copied().unwrap_or(Verdict::New))
    }

    fn check_and_insert_batch(&self, urls: &[&[u8]], verdicts: &mut Vec<Verdict>) -> urlindex::Result<()> {
        verdicts.clear();
        for urls in urls.chunks(CHUNK) {
            verdicts.extend(self.insert_all(urls)?);
        }
        Ok(())
    }

    fn contains_batch(&self, urls: &[&[u8]], verdicts: &mut Vec<Verdict>) -> urlindex::Result<()> {
        verdicts.clear();
        for urls in urls.chunks(CHUNK) {
            verdicts.extend(self.look(urls)?);
        }
        Ok(())
    }

    /// Counted by the servers; if they do not answer, the last count.
    fn len(&self) -> u64 {
        self.count().unwrap_or_else(|_| self.counted.load(Ordering::Relaxed))
    }

    /// An estimate of the servers' memory, from the number of URLs.
    fn memory_bytes(&self) -> u64 {
        self.note.set.bytes(self.counted.load(Ordering::Relaxed))
    }

    fn disk_bytes(&self) -> u64 {
        0
    }

    fn false_positive_rate(&self) -> f64 {
        self.note.set.false_positive_rate(self.counted.load(Ordering::Relaxed))
    }

    fn expected_loss(&self) -> f64 {
        self.note.set.expected_loss(self.counted.load(Ordering::Relaxed))
    }

    /// Repeats requests in doubt. Answered URLs are as safe as [`RedisOptions::replicas`] and the
    /// servers' own settings make them.
    fn sync(&self) -> urlindex::Result<()> {
        // Lanes in doubt are taken first, so none is left after as many takes as there are lanes.
        for _ in 0..self.options.connections {
            let mut lane = self.lanes.take();
            let is_in_doubt = lane.doubt.is_some();
            let settled = self.settle(&mut lane);
            self.lanes.give_back(lane);
            settled?;
            if !is_in_doubt {
                break;
            }
        }
        Ok(())
    }

    fn stats(&self) -> SeenStats {
        let mut stats = SeenStats::default();
        stats.urls = self.len();
        stats.inserted = self.inserted.load(Ordering::Relaxed);
        stats.memory_bytes = self.memory_bytes();
        stats.false_positive_rate = self.false_positive_rate();
        stats.expected_loss = self.expected_loss();
        stats
    }
}

impl fmt::Debug for RedisUrlSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisUrlSet").field("location", &self.location()).field("set", &self.note.set).finish()
    }
}
