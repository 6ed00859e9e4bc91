//! [`LinksClient`]: the mailboxes of a fleet of crawls behind a server.

use std::time::Duration;

use filemap::Result;
use mailbox::{Activity, Link, Part, Posted, ShardStats, Standing};
use ureq::http::StatusCode;

use super::call::{Answered, Connection, Found};
use super::options::ClientOptions;
use crate::wire::links::{
    Entered, FleetShards, FleetStanding, LinkLine, LinksPart, Report, ShardLine, Taken, crawl_id,
};

/// Time limit of a request, its response included.
const LIMIT: Duration = Duration::from_secs(120);

/// Outcome of a mailbox request.
///
/// ```
/// use filemap_http::Mailed;
///
/// fn done<T>(mailed: Mailed<T>) -> Option<T> {
///     match mailed {
///         Mailed::Done(told) => Some(told),
///         Mailed::Fenced(_) | Mailed::Refused(_) => None,
///     }
/// }
/// assert_eq!(done(Mailed::Done(7)), Some(7));
/// assert_eq!(done::<u64>(Mailed::Fenced("a later run has shard 2".to_owned())), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mailed<T> {
    /// Done, durably.
    Done(T),
    /// The shard is owned by a later run or by another crawl: the caller has lost it.
    Fenced(String),
    /// Permanently refused, with the reason: the token does not allow it, the shard has another
    /// owner, or links before these are missing.
    Refused(String),
}

/// State of a fleet, as reported to one of its crawls.
///
/// ```
/// use filemap_http::FleetNews;
///
/// let news = FleetNews { fenced: vec![2], ..FleetNews::default() };
/// let mut own = vec![1, 2, 3];
/// own.retain(|shard| !news.fenced.contains(shard));
/// assert_eq!(own, [1, 3]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetNews {
    /// State of the fleet.
    pub standing: Standing,
    /// Shards that the crawl has lost.
    pub fenced: Vec<u32>,
}

/// Client for the mailboxes of crawls that share their hosts. Its calls block; it is `Send` and
/// `Sync`.
///
/// ```no_run
/// use filemap_http::{ClientOptions, LinksClient, Mailed};
///
/// let links = LinksClient::open("http://127.0.0.1:8640/v1/links", 4, &ClientOptions::new())?;
/// let Mailed::Done(epoch) = links.take(2, 7)? else { panic!("shard 2 has another owner") };
/// let Mailed::Done(part) = links.read(2, None, epoch)? else { panic!("it is ours") };
/// // Committed here, before it is dropped there.
/// assert!(matches!(links.drop_to(2, part.cursor, epoch)?, Mailed::Done(())));
/// # Ok::<(), filemap::Error>(())
/// ```
#[derive(Debug)]
pub struct LinksClient {
    connection: Connection,
    lease: Duration,
}

impl LinksClient {
    /// Opens the mailboxes at `location`, such as `http://127.0.0.1:8640/v1/links`, with `shards`
    /// shards; creates them if they do not exist. One request.
    ///
    /// # Errors
    ///
    /// [`filemap::Error::Remote`] if the server is unreachable, rejects the token, has no
    /// mailboxes, or has mailboxes for another number of shards.
    pub fn open(location: &str, shards: u32, options: &ClientOptions) -> Result<LinksClient> {
        let connection = Connection::with_limit(location, options, Some(LIMIT))?;
        let found = match connection.put_json("", &format!("{{\"shards\":{shards}}}"))? {
            Answered::Found(found) => found,
            Answered::Refused(_, why) => return Err(connection.refused_for(why)),
        };
        let standing: FleetStanding = connection.read_json(found)?;
        Ok(LinksClient { connection, lease: Duration::from_millis(standing.lease_ms) })
    }

    /// Lease: how long a silent crawl may still fetch pages of its shards. After that they may be
    /// freed for others.
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// Posts links of `crawl`. `first` is the number of the first link among all that the crawl
    /// has for the shard. Links that the mailbox already has are skipped.
    ///
    /// # Errors
    ///
    /// [`filemap::Error::Remote`]: the server is unreachable, or the mailbox or its disk is full;
    /// retry the same request later.
    pub fn post(&self, shard: u32, crawl: u128, first: u64, links: Vec<Link>) -> Result<Mailed<Posted>> {
        let mut lines = Vec::new();
        for link in links {
            let line = serde_json::to_vec(&LinkLine::from(link));
            lines.extend(line.map_err(|error| self.connection.strange(&error.to_string()))?);
            lines.push(b'\n');
        }
        let path = format!("/{shard}?crawl={}&first={first}", crawl_id(crawl));
        let answer = self.connection.post_lines(&path, None, &lines)?;
        self.done(answer, |connection, found| {
            let Entered { entered, next } = connection.read_json(found)?;
            Ok(Posted { entered, next })
        })
    }

    /// Number of links of a crawl that the mailbox of a shard has received.
    ///
    /// # Errors
    ///
    /// [`filemap::Error::Remote`].
    pub fn had(&self, shard: u32, crawl: u128) -> Result<Mailed<u64>> {
        Ok(match self.post(shard, crawl, 0, Vec::new())? {
            Mailed::Done(posted) => Mailed::Done(posted.next),
            Mailed::Fenced(why) => Mailed::Fenced(why),
            Mailed::Refused(why) => Mailed::Refused(why),
        })
    }

    /// Reads links of a shard from `cursor` on, in this epoch.
    ///
    /// # Errors
    ///
    /// [`filemap::Error::Remote`].
    pub fn read(&self, shard: u32, cursor: Option<u64>, epoch: u64) -> Result<Mailed<Part>> {
        let from = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let answer = self.connection.get_unless_refused(&format!("/{shard}?epoch={epoch}{from}"))?;
        self.done(answer, |connection, found| {
            let part: LinksPart = connection.read_json(found)?;
            let cursor = part.cursor.parse().map_err(|_| connection.strange("a cursor that is not a number"))?;
            Ok(Part { links: part.links.into_iter().map(Link::from).collect(), cursor })
        })
    }

    /// Drops the links before `cursor`, which the owner has made durable.
    ///
    /// # Errors
    ///
    /// [`filemap::Error::Remote`].
    pub fn drop_to(&self, shard: u32, cursor: u64, epoch: u64) -> Result<Mailed<()>> {
        let path = format!("/{shard}?cursor={cursor}&epoch={epoch}");
        let answer = self.connection.delete_unless_refused(&path)?;
        self.done(answer, |_, _| Ok(()))
    }

    /// Takes a shard for a crawl, if it is free or its own. Returns the epoch.
    ///
    /// # Errors
    ///
    /// [`filemap::Error::Remote`].
    pub fn take(&self, shard: u32, crawl: u128) -> Result<Mailed<u64>> {
        let answer = self.connection.put_json(&format!("/{shard}/owner?crawl={}", crawl_id(crawl)), "")?;
        self.done(answer, |connection, found| Ok(connection.read_json::<Taken>(found)?.epoch))
    }

    /// Reports that a crawl is alive, its activity, and the shards that it owns with their epochs.
    ///
    /// # Errors
    ///
    /// [`filemap::Error::Remote`].
    pub fn report(&self, crawl: u128, owned: &[(u32, u64)], does: Activity) -> Result<Mailed<FleetNews>> {
        let report = serde_json::to_string(&Report::new(crawl, owned, does))
            .map_err(|error| self.connection.strange(&error.to_string()))?;
        let answer = self.connection.post_lines("/standing", None, report.as_bytes())?;
        self.done(answer, |connection, found| {
            let told: FleetStanding = connection.read_json(found)?;
            Ok(FleetNews { standing: told.standing(), fenced: told.fenced })
        })
    }

    /// The state of the fleet and of each shard, with its owner.
    ///
    /// # Errors
    ///
    /// [`filemap::Error::Remote`].
    pub fn shards(&self) -> Result<(Standing, Vec<ShardStats>)> {
        let found = match self.connection.get_unless_refused("")? {
            Answered::Found(found) => found,
            Answered::Refused(_, why) => return Err(self.connection.refused_for(why)),
        };
        let FleetShards { standing, shards } = self.connection.read_json(found)?;
        let stats: Option<Vec<ShardStats>> = shards.iter().map(ShardLine::stats).collect();
        let stats = stats.ok_or_else(|| self.connection.strange("an owner whose id is none"))?;
        Ok((standing.standing(), stats))
    }

    fn done<T>(&self, answer: Answered, read: impl FnOnce(&Connection, Found) -> Result<T>) -> Result<Mailed<T>> {
        Ok(match answer {
            Answered::Found(found) => Mailed::Done(read(&self.connection, found)?),
            Answered::Refused(StatusCode::PRECONDITION_FAILED, why) => Mailed::Fenced(why),
            Answered::Refused(_, why) => Mailed::Refused(why),
        })
    }
}
