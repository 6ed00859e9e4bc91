//! Backing of a seen set's handle: a set in local files, behind a server, or on Redis.

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use filemap_http::{Ack, Added, ClientOptions, Made, SeenClient};
use urlindex::idempotent::RequestId;
use urlindex::stored::StoredSet;
use urlindex::{SeenSet as _, SeenStats, Verdict};

use crate::errors::{self, Failure};
use crate::redis::OnRedis;
use crate::signals::Watch;

/// Pause between two attempts of an unanswered request.
const PAUSE: Duration = Duration::from_millis(100);

/// An open set.
#[derive(Clone)]
pub enum Set {
    Here(Arc<StoredSet>),
    There(Arc<Served>),
    Redis(Arc<OnRedis>),
}

/// A set behind a server.
pub struct Served {
    client: SeenClient,
    writes: bool,
    /// True if an answer waits until it would survive a power loss of the server.
    durable: bool,
    /// Time for which an unanswered request is repeated.
    patience: Duration,
}

/// Options for reaching a set behind a server.
pub struct Reaching {
    pub options: ClientOptions,
    pub durable: bool,
    pub patience: Duration,
}

impl Set {
    /// Adds a URL; returns whether it is new.
    ///
    /// # Errors
    ///
    /// Errors of the set; `RemoteError` if a server has not answered within the patience.
    pub fn insert(&self, url: &[u8]) -> Result<bool, Failure> {
        match self {
            Set::Here(set) => Ok(set.insert(url)?),
            Set::There(_) | Set::Redis(_) => {
                let mut verdicts = Vec::new();
                self.add(&[url], &mut verdicts)?;
                Ok(verdicts.iter().any(|verdict| verdict.is_new()))
            }
        }
    }

    /// Adds URLs. After an error `verdicts` has those of the URLs before it, as far as they are
    /// known.
    ///
    /// # Errors
    ///
    /// As [`Set::insert`].
    pub fn add(&self, urls: &[&[u8]], verdicts: &mut Vec<Verdict>) -> Result<(), Failure> {
        match self {
            Set::Here(set) => Ok(set.check_and_insert_batch(urls, verdicts)?),
            Set::There(served) => {
                let (urls, rest) = lines(urls);
                told(urls, served.add(urls)?, verdicts)?;
                rest
            }
            Set::Redis(redis) => redis.add(urls, verdicts),
        }
    }

    /// Returns whether a URL was added, or may have been. An invalid URL never was.
    ///
    /// # Errors
    ///
    /// As [`Set::insert`].
    pub fn contains(&self, url: &[u8]) -> Result<bool, Failure> {
        match self {
            Set::Here(set) => Ok(!set.contains(url)?.is_new()),
            Set::There(_) if lines(&[url]).1.is_err() => Ok(false),
            Set::There(served) => {
                let verdicts = served.patiently(|client| client.check(&[url]))?;
                Ok(verdicts.into_iter().flatten().any(|verdict| !verdict.is_new()))
            }
            Set::Redis(redis) => {
                let mut verdicts = Vec::new();
                redis.check(&[url], &mut verdicts)?;
                Ok(verdicts.iter().any(|verdict| !verdict.is_new()))
            }
        }
    }

    /// Checks whether URLs were added.
    ///
    /// # Errors
    ///
    /// As [`Set::insert`].
    pub fn check(&self, urls: &[&[u8]], verdicts: &mut Vec<Verdict>) -> Result<(), Failure> {
        match self {
            Set::Here(set) => Ok(set.contains_batch(urls, verdicts)?),
            Set::There(served) => {
                let (urls, rest) = lines(urls);
                told(urls, served.patiently(|client| client.check(urls))?, verdicts)?;
                rest
            }
            Set::Redis(redis) => redis.check(urls, verdicts),
        }
    }

    /// Removes URLs from the set.
    ///
    /// # Errors
    ///
    /// Errors of the set; `FileMapError` for one behind a server.
    pub fn forget(&self, urls: &[impl AsRef<[u8]>]) -> Result<Vec<bool>, Failure> {
        match self {
            Set::Here(set) => Ok(set.forget(urls)?),
            Set::There(_) | Set::Redis(_) => {
                let said = "a set behind a server, or on Redis, forgets no URL";
                Err(Failure::Python(errors::make("FileMapError", said.to_owned())))
            }
        }
    }

    /// # Errors
    ///
    /// As [`Set::insert`].
    pub fn stats(&self) -> Result<SeenStats, Failure> {
        match self {
            Set::Here(set) => Ok(set.stats()),
            Set::There(served) => served.patiently(SeenClient::stats),
            Set::Redis(redis) => Ok(redis.set().stats()),
        }
    }

    /// Makes added URLs durable.
    ///
    /// # Errors
    ///
    /// As [`Set::insert`].
    pub fn sync(&self) -> Result<(), Failure> {
        match self {
            Set::Here(set) => Ok(set.sync()?),
            // The answer to a request without URLs comes after the earlier ones are durable.
            Set::There(served) if served.writes && !served.durable => served.send(&[], true).map(|_| ()),
            Set::There(_) => Ok(()),
            Set::Redis(redis) => redis.sync(),
        }
    }
}

impl Served {
    /// Connects to the set at `location`. The modes `a` and `x` make a missing one: an exact set
    /// on disk whose URLs are canonical by `rules`.
    ///
    /// # Errors
    ///
    /// `RemoteError`; `StoreExistsError` in mode `x`; `ReadOnlyError` if the mode writes and the
    /// server or the token does not allow it.
    pub fn open(location: &str, mode: &str, rules: &str, reaching: Reaching) -> Result<Served, Failure> {
        let Reaching { options, durable, patience } = reaching;
        let client = match SeenClient::open(location, &options) {
            Ok(_) if mode == "x" => {
                let said = format!("{location}: this seen set exists already");
                return Err(Failure::Python(errors::make("StoreExistsError", said)));
            }
            Ok(client) => client,
            Err(absent) if matches!(mode, "a" | "x") => {
                let wanted = format!(r#"{{"kind":"disk","rules":"{rules}"}}"#);
                // Of several crawlers that begin at once, one makes the set.
                match patiently(patience, || SeenClient::create(location, &wanted, &options))? {
                    Made::Set(client) => client,
                    Made::Refused(why) => return Err(not_made(absent, &why)),
                }
            }
            Err(error) => return Err(error.into()),
        };
        let served = Served { client, writes: mode != "r", durable, patience };
        if served.writes {
            served.check_right(location)?;
        }
        Ok(served)
    }

    /// Name and version of the canonicaliser of the set's URLs.
    pub fn rules(&self) -> (&str, u32) {
        self.client.rules()
    }

    fn check_right(&self, location: &str) -> Result<(), Failure> {
        let read_only = |said: String| Failure::Python(errors::make("ReadOnlyError", said));
        if !self.client.writes() {
            let said = format!("{location}: the server only reads; start it with --write, or use the mode 'r'");
            return Err(read_only(said));
        }
        match self.client.add(None, &[""; 0], Ack::Accepted)? {
            Added::Refused(why) => Err(read_only(format!("{location}: {why}"))),
            _ => Ok(()),
        }
    }

    fn add(&self, urls: &[&[u8]]) -> Result<Vec<Option<Verdict>>, Failure> {
        if !self.writes {
            return Err(Failure::Python(errors::make("ReadOnlyError", "the set is open read-only".to_owned())));
        }
        self.send(urls, self.durable)
    }

    /// A request keeps its id when it is repeated, so that its URLs are new to one caller only.
    fn send(&self, urls: &[&[u8]], durable: bool) -> Result<Vec<Option<Verdict>>, Failure> {
        let id = RequestId::now();
        let ack = if durable { Ack::Durable } else { Ack::Accepted };
        let remote = |said: String| Err(Failure::Python(errors::make("RemoteError", said)));
        match self.patiently(|client| client.add(Some(id), urls, ack))? {
            Added::Verdicts(verdicts) => Ok(verdicts),
            Added::Forgotten => remote(
                "the server takes this request for one that it may have forgotten: the clock here is behind by more \
                 than it keeps requests"
                    .to_owned(),
            ),
            Added::Ahead(why) | Added::Refused(why) => remote(why),
        }
    }

    fn patiently<T>(&self, ask: impl Fn(&SeenClient) -> filemap::Result<T>) -> Result<T, Failure> {
        patiently(self.patience, || ask(&self.client))
    }
}

/// Repeats a request until it is answered, within `patience`.
fn patiently<T>(patience: Duration, ask: impl Fn() -> filemap::Result<T>) -> Result<T, Failure> {
    let (begun, mut watch) = (Instant::now(), Watch::new());
    loop {
        match ask() {
            Ok(answer) => return Ok(answer),
            Err(error) if begun.elapsed() + PAUSE >= patience => return Err(error.into()),
            Err(_) => sleep(PAUSE),
        }
        if watch.tick(|_| Ok(())).is_break() {
            return Ok(watch.end(Err(errors::closed()))?);
        }
    }
}

/// The URLs before the first that cannot be a line of a request, and the error of that one.
fn lines<'a>(urls: &'a [&'a [u8]]) -> (&'a [&'a [u8]], Result<(), Failure>) {
    let is_line = |url: &&[u8]| !url.is_empty() && !url.iter().any(|byte| matches!(byte, b'\n' | b'\r'));
    match urls.iter().position(|url| !is_line(url)) {
        Some(at) => {
            let why = "a URL that is empty, or has an end of line, cannot be sent to a server";
            (&urls[..at], Err(no_url(urls[at], why)))
        }
        None => (urls, Ok(())),
    }
}

/// Stores the verdicts up to the first URL that the server refuses as invalid.
fn told(urls: &[&[u8]], answered: Vec<Option<Verdict>>, verdicts: &mut Vec<Verdict>) -> Result<(), Failure> {
    verdicts.clear();
    for (url, verdict) in urls.iter().zip(answered) {
        verdicts.push(verdict.ok_or_else(|| no_url(url, "the server does not accept it as a URL"))?);
    }
    Ok(())
}

fn no_url(url: &[u8], why: &str) -> Failure {
    let said = format!("{:?}: {why}", String::from_utf8_lossy(url));
    Failure::Python(errors::make("InvalidUrlError", said))
}

/// Error for a missing set that could not be made.
fn not_made(absent: filemap::Error, why: &str) -> Failure {
    let said = absent.to_string();
    if said.contains(why) {
        return absent.into();
    }
    Failure::Python(errors::make("RemoteError", format!("{said}; and none can be made: {why}")))
}
