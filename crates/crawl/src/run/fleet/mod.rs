//! A crawl's part in a fleet: each host belongs to a shard, each shard to one crawl.
//!
//! Links to other crawls' shards go into the outbox, which is committed before the frontier: so
//! the links of a done page are in it. [`post`] sends them to the mailboxes of their shards, and
//! receives the links of our own shards, which the mailbox drops after the frontier's commit. So a
//! link arrives at least once, after any crash; a repeated one is already known.
//!
//! A crawl with its pages in a bucket has one shard, and the bucket decides whose it is: the shard
//! is taken at the mailboxes after the first commit there, which has the crawl's id at them. If
//! another run takes it there, the bucket is asked: the run takes it again, or it has lost it.
//!
//! Two crawls never fetch from one shard at once: an owner that has not reached the mailboxes for
//! the time of its lease assigns no page, and drops the visits in flight; only then is the shard
//! freed for another. The old owner hands over the shard's queued pages, each at its turn; the new
//! owner queues again what it had handed over of it.

mod post;

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use filemap_http::{ClientOptions, LinksClient, Mailed};
use filemap_io::guard;
use filemap_io::system::create_dir;
use mailbox::{Activity, Outbox, Standing};
use xxhash_rust::xxh3::xxh3_64;

use self::post::{Order, Post, Postman};
use super::observe::{Event, Observer, Pause};
use crate::error::Error;
use crate::files;
use crate::links::Link;
use crate::settings::fleet::{FleetSettings, Own};
use crate::stop::Stop;

pub use self::post::Mail;

/// Bytes waiting in the outbox above which no more pages are assigned.
const OUTBOX_BYTES: u64 = 1 << 30;
/// Bytes of links in memory above which the outbox writes them before the next commit.
const OUTBOX_MEMORY: usize = 16 << 20;
/// Recently sent links that are remembered: 24 bytes each.
const SENT_LATELY: usize = 1 << 20;
/// A crawl with all its available pages assigned for this time, or held up by full mailboxes,
/// takes another free shard, or says so, if its shard is in a bucket.
const STARVES_FOR: Duration = Duration::from_secs(10);

/// The time for the mail thread to end.
const END_WITHIN: Duration = Duration::from_secs(5);

/// A crawl's part of a fleet.
pub struct Fleet {
    links: String,
    shards: u32,
    /// The shard of the bucket that has the pages, if they are in one.
    kept: Option<u32>,
    /// True if it takes more free shards.
    is_auto: bool,
    owned: BTreeSet<u32>,
    outbox: Arc<Mutex<Outbox>>,
    postman: Option<Postman>,
    bringing: Option<JoinHandle<()>>,
    post: Post,
    lease: Duration,
    /// Links sent in this run, by URL hash, with their fewest links from a start page.
    lately: HashMap<u64, u16>,
    /// Mailbox batches received since the last commit.
    taken: Vec<(u32, u64)>,
    /// Mailbox batches received in this run; and the last report of no work: their number then,
    /// and whether mailboxes take no links.
    received: u64,
    told_rest: Option<(u64, bool)>,
    /// True if links are received from mailboxes.
    receives: bool,
    standing: Option<Standing>,
    /// Time when others were last at work, or something arrived from them.
    moved: Instant,
    /// Time since when all available pages are assigned; and whether they were for long.
    starves_since: Instant,
    has_starved: bool,
}

impl Fleet {
    /// Joins a fleet: takes this crawl's earlier shards, and those it is configured to own. With a
    /// shard in a bucket, `kept`, [`Fleet::claim`] takes that one, and links are sent only after
    /// [`Fleet::committed`]. Blocks.
    ///
    /// # Errors
    /// Errors of the server, also if a shard has another owner, or none is free; errors of the
    /// outbox.
    pub fn join(
        settings: &FleetSettings,
        (folder, kept): (&Path, Option<u32>),
        options: &ClientOptions,
        (stop, observer): (&Stop, &Arc<dyn Observer>),
    ) -> Result<Fleet, Error> {
        let client = LinksClient::open(&settings.links, settings.shards, options)?;
        create_dir(folder).map_err(|error| Error::io("create", folder, error))?;
        let mut outbox = Outbox::open_or_create(folder.join(files::OUTBOX), settings.shards)?;
        if kept.is_some() {
            outbox.hold();
        }
        compare(&client, &mut outbox, settings)?;
        let epochs = if kept.is_some() { post::Epochs::new() } else { take(&client, outbox.id(), settings)? };
        if let Own::List(list) = &settings.own {
            for shard in epochs.keys().copied().filter(|shard| !list.contains(shard)) {
                observer.event(&Event::ShardKept { shard }).map_err(Error::Observer)?;
            }
        }
        let (outbox, now) = (Arc::new(Mutex::new(outbox)), Instant::now());
        let (lease, owned) = (client.lease(), epochs.keys().copied().chain(kept).collect());
        let (post, postman) =
            Postman::new(client, Arc::clone(&outbox), (settings, epochs), (stop.clone(), Arc::clone(observer)));
        Ok(Fleet {
            links: settings.links.clone(),
            shards: settings.shards,
            kept,
            is_auto: settings.own == Own::Auto,
            owned,
            outbox,
            postman: Some(postman),
            bringing: None,
            post,
            lease,
            lately: HashMap::new(),
            taken: Vec::new(),
            received: 0,
            told_rest: None,
            receives: true,
            standing: None,
            moved: now,
            starves_since: now,
            has_starved: false,
        })
    }

    /// Takes the shard of the bucket at the mailboxes. Call it after the first commit, and before
    /// [`Fleet::begin`]. Blocks.
    ///
    /// # Errors
    /// Errors of the server, also if another crawl than this bucket's owns the shard.
    pub fn claim(&mut self) -> Result<(), Error> {
        let (Some(shard), Some(postman)) = (self.kept, &mut self.postman) else { return Ok(()) };
        let refused = postman.take_now(shard)?;
        refused.map_or(Ok(()), |why| Err(Error::Usage(format!("{}: {why}", self.links))))
    }

    /// Takes the shard of the bucket again: another run took it at the mailboxes, but not there.
    pub fn take_again(&self, shard: u32) {
        self.post.order(Order::TakeAgain(shard));
    }

    /// Returns whether all available pages have been assigned for long, since the last call; only
    /// with a shard in a bucket.
    pub fn has_starved(&mut self) -> bool {
        std::mem::take(&mut self.has_starved)
    }

    /// Starts the exchange of links on a separate thread, which ends with this value. `tell`
    /// receives what arrives, and returns false when nobody listens any more.
    ///
    /// # Errors
    /// I/O errors.
    pub fn begin(&mut self, tell: impl Fn(Result<Mail, Error>) -> bool + Send + 'static) -> Result<(), Error> {
        let Some(postman) = self.postman.take() else { return Ok(()) };
        let begun = std::thread::Builder::new().name("links".to_owned()).spawn(move || postman.work(&tell));
        self.bringing = Some(begun.map_err(|error| Error::Broken(format!("no thread to bring links: {error}")))?);
        Ok(())
    }

    /// The shard of a URL.
    pub fn shard(&self, url: &str) -> u32 {
        urlindex::shard(url.as_bytes(), self.shards)
    }

    /// Returns whether the pages of a URL's host are ours.
    pub fn is_ours(&self, url: &str) -> bool {
        self.owned.contains(&self.shard(url))
    }

    /// Returns whether a shard is ours.
    pub fn owns(&self, shard: u32) -> bool {
        self.owned.contains(&shard)
    }

    /// Makes a shard ours, or no longer ours.
    pub fn own(&mut self, shard: u32, is_ours: bool) {
        if is_ours {
            self.owned.insert(shard);
        } else {
            self.owned.remove(&shard);
            self.taken.retain(|(of, _)| *of != shard);
        }
    }

    /// Sends a link to its shard, durably with the next commit at the latest. Returns false if it
    /// was already sent in this run.
    ///
    /// # Errors
    /// Errors of the outbox.
    pub fn send(&mut self, url: &str, depth: u16, is_seed: bool) -> Result<bool, Error> {
        let hash = xxh3_64(url.as_bytes());
        if !is_seed {
            if self.lately.get(&hash).is_some_and(|sent| *sent <= depth) {
                return Ok(false);
            }
            if self.lately.len() >= SENT_LATELY {
                self.lately.clear();
            }
            self.lately.insert(hash, depth);
        }
        let link = mailbox::Link { url: url.to_owned(), depth, is_seed };
        Ok(guard(&self.outbox).add_within(self.shard(url), link, OUTBOX_MEMORY)?)
    }

    /// Returns our own start pages. Sends the others to their shards, except the first `sent`
    /// ones, which were sent before. Durable with the next commit.
    ///
    /// # Errors
    /// Errors of the outbox.
    pub fn share(&mut self, starts: Vec<Link>, sent: usize) -> Result<Vec<Link>, Error> {
        let mut ours = Vec::new();
        for (at, start) in starts.into_iter().enumerate() {
            if self.is_ours(&start.url) {
                ours.push(start);
            } else if at >= sent {
                self.send(&start.url, 0, true)?;
            }
        }
        Ok(ours)
    }

    /// Notes a mailbox batch whose links the frontier has.
    pub fn took(&mut self, shard: u32, cursor: u64) {
        self.received += 1;
        self.moved = Instant::now();
        self.taken.push((shard, cursor));
    }

    /// Makes sent links durable: before the frontier's commit.
    ///
    /// # Errors
    /// Errors of the outbox.
    pub fn commit(&mut self) -> Result<(), Error> {
        Ok(guard(&self.outbox).commit()?)
    }

    /// Returns whether links were received since the last commit.
    pub fn has_taken(&self) -> bool {
        !self.taken.is_empty()
    }

    /// Notes the frontier's commit: mailboxes may drop the received links, and held links may be
    /// sent.
    pub fn committed(&mut self) {
        guard(&self.outbox).release();
        for (shard, cursor) in self.taken.drain(..) {
            self.post.order(Order::Committed { shard, cursor });
        }
    }

    /// The reason why no page may be assigned now, if any.
    pub fn pause(&self) -> Option<Pause> {
        if self.post.since_heard() >= self.lease {
            return Some(Pause::Unheard);
        }
        (guard(&self.outbox).bytes() >= OUTBOX_BYTES).then_some(Pause::Full)
    }

    /// Completes when no page may be fetched any more, because the mailboxes were unreachable.
    pub fn silence(&self) -> impl Future<Output = ()> + Send + use<> {
        self.post.silence(self.lease)
    }

    /// Starts or stops receiving links from mailboxes.
    pub fn receive(&mut self, receives: bool) {
        if std::mem::replace(&mut self.receives, receives) != receives {
            self.post.order(Order::Receive(receives));
        }
    }

    /// The number of links that no mailbox has yet.
    pub fn waiting(&self) -> u64 {
        guard(&self.outbox).waiting()
    }

    /// Notes the state of the fleet.
    pub fn learn(&mut self, standing: Standing) {
        if standing.working > 0 {
            self.moved = Instant::now();
        }
        self.standing = Some(standing);
    }

    /// Notes that there is work here; if all of it has been assigned for long, or full mailboxes
    /// hold it up, another shard may have more.
    pub fn busy(&mut self, is_starving: bool) {
        if self.told_rest.take().is_some() {
            self.post.order(Order::Busy);
        }
        self.look_for_more(is_starving);
    }

    fn look_for_more(&mut self, is_starving: bool) {
        if !is_starving {
            self.starves_since = Instant::now();
        } else if (self.is_auto || self.kept.is_some()) && self.starves_since.elapsed() >= STARVES_FOR {
            self.starves_since = Instant::now();
            match self.kept {
                Some(_) => self.has_starved = true,
                None => self.post.order(Order::TakeOne),
            }
        }
    }

    /// Notes that there is no work here, or none until mailboxes take our links. Returns what is
    /// known of the other crawls.
    pub fn rest(&mut self, is_stuck: bool, patience: Duration) -> Others {
        let rest = (self.received, is_stuck);
        if self.told_rest != Some(rest) {
            self.told_rest = Some(rest);
            self.post.order(Order::Rest { received: self.received, is_stuck });
        }
        // A full mailbox that holds the crawl up may be that of a shard that nobody has.
        self.look_for_more(true);
        match &self.standing {
            Some(standing) if standing.is_over => Others::Over,
            Some(standing) if standing.working == 0 && self.moved.elapsed() > patience => Others::Silent,
            _ => Others::Working,
        }
    }

    /// The work that the fleet has left, by the last report; `None` if there is none.
    pub fn unfinished(&self) -> Option<Standing> {
        self.standing.clone().filter(|standing| !standing.is_over)
    }
}

impl Drop for Fleet {
    /// Ends the thread, which holds the outbox, unless it waits for the server.
    fn drop(&mut self) {
        self.post.order(Order::End);
        let begun = Instant::now();
        while self.bringing.as_ref().is_some_and(|thread| !thread.is_finished()) && begun.elapsed() < END_WITHIN {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The state of the other crawls of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// Some are at work, or their state is unknown.
    Working,
    /// None has been at work for long, but something is left to do.
    Silent,
    /// Nothing is left to do.
    Over,
}

/// Learns how many of this crawl's links each mailbox has received. If more than ever sent, the
/// outbox is an older copy, and would reuse their numbers for other links.
fn compare(client: &LinksClient, outbox: &mut Outbox, settings: &FleetSettings) -> Result<(), Error> {
    for shard in 0..settings.shards {
        match client.had(shard, outbox.id())? {
            Mailed::Done(next) => outbox.acknowledge(shard, next)?,
            Mailed::Fenced(why) | Mailed::Refused(why) => {
                return Err(Error::Usage(format!("{}: {why}", settings.links)));
            }
        }
    }
    Ok(())
}

/// Takes a crawl's shards. Returns the epoch of each.
fn take(client: &LinksClient, crawl: u128, settings: &FleetSettings) -> Result<post::Epochs, Error> {
    let FleetSettings { links, shards, own, .. } = settings;
    let mut epochs = post::Epochs::new();
    let free = match client.report(crawl, &[], Activity::Working)? {
        Mailed::Done(news) => news.standing.free,
        Mailed::Fenced(why) | Mailed::Refused(why) => return Err(Error::Usage(format!("{links}: {why}"))),
    };
    let wanted = |shard: u32| matches!(own, Own::List(list) if list.contains(&shard));
    if let Own::List(list) = own
        && let Some(shard) = list.iter().find(|shard| **shard >= *shards)
    {
        return Err(Error::Usage(format!("--own {shard}: there are {shards} shards, numbered from 0")));
    }
    for shard in (0..*shards).filter(|shard| wanted(*shard) || !free.contains(shard)) {
        match client.take(shard, crawl)? {
            Mailed::Done(epoch) => drop(epochs.insert(shard, epoch)),
            Mailed::Fenced(why) | Mailed::Refused(why) if wanted(shard) => {
                return Err(Error::Usage(format!("{links}: {why}")));
            }
            Mailed::Fenced(_) | Mailed::Refused(_) => {}
        }
    }
    for shard in free {
        if epochs.is_empty()
            && *own == Own::Auto
            && let Mailed::Done(epoch) = client.take(shard, crawl)?
        {
            epochs.insert(shard, epoch);
        }
    }
    match epochs.is_empty() {
        true => Err(Error::Usage(format!(
            "{links}: each of the {shards} shards has an owner: `curl {links}` names them; a shard whose crawl has stopped \
             permanently is freed by DELETE {links}/SHARD/owner"
        ))),
        false => Ok(epochs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crawl_without_work_or_held_up_by_full_mailboxes_looks_for_another_shard() {
        let folder = tempfile::tempdir().unwrap();
        let long_ago = Instant::now().checked_sub(STARVES_FOR).unwrap();
        for (number, (kept, is_stuck)) in [(Some(0), false), (Some(0), true), (None, true)].into_iter().enumerate() {
            let (post, orders) = Post::alone();
            let outbox = Outbox::open_or_create(folder.path().join(number.to_string()), 2).unwrap();
            let mut fleet = Fleet {
                links: String::new(),
                shards: 2,
                kept,
                is_auto: true,
                owned: BTreeSet::from([0]),
                outbox: Arc::new(Mutex::new(outbox)),
                postman: None,
                bringing: None,
                post,
                lease: Duration::from_secs(60),
                lately: HashMap::new(),
                taken: Vec::new(),
                received: 0,
                told_rest: None,
                receives: true,
                standing: None,
                moved: Instant::now(),
                starves_since: long_ago,
                has_starved: false,
            };
            assert_eq!(fleet.rest(is_stuck, Duration::from_secs(60)), Others::Working);
            let takes_one = orders.try_iter().any(|order| matches!(order, Order::TakeOne));
            assert_eq!((fleet.has_starved(), takes_one), (kept.is_some(), kept.is_none()), "{kept:?} {is_stuck}");
        }
    }
}
