//! The thread that brings links to the mailboxes of their shards, and from those of our own.

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use filemap_http::{LinksClient, Mailed};
use filemap_io::guard;
use mailbox::{Activity, Batch, Link, Outbox, Standing};

use crate::error::Error;
use crate::run::observe::{Event, Observer};
use crate::settings::fleet::FleetSettings;
use crate::stop::Stop;

/// Shards of a crawl, and the epoch of each.
pub type Epochs = BTreeMap<u32, u64>;

/// The thread looks this often whether there is something to send, or has come.
const LOOK: Duration = Duration::from_millis(50);
/// How often it reads mailboxes that were empty, and says that the crawl lives: more often where
/// the lease is short.
const READ_EVERY: Duration = Duration::from_millis(200);
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// Links of a request.
const LINKS: usize = 10_000;
/// The wait before a server that failed is asked again: doubled for each further time, up to the
/// other.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(15);

/// What the coordinator asks for.
#[derive(Debug)]
pub enum Order {
    /// The frontier has what came from a shard up to this place.
    Committed { shard: u32, cursor: u64 },
    /// There is nothing to do, with so many parts of mailboxes received; or, if the crawl is
    /// stuck, nothing can be done before mailboxes take its links.
    Rest { received: u64, is_stuck: bool },
    /// There is.
    Busy,
    /// Another shard is to be taken, if one is free.
    TakeOne,
    /// Links are to be taken from mailboxes, or left there.
    Receive(bool),
    /// The run has ended.
    End,
}

/// What comes.
#[derive(Debug)]
pub enum Mail {
    /// Links of a shard, up to a place in its mailbox.
    Links {
        /// The shard.
        shard: u32,
        /// Its links.
        links: Vec<Link>,
        /// The place behind them.
        cursor: u64,
    },
    /// A shard that was free is ours.
    Taken(u32),
    /// A shard is no longer ours.
    Lost(u32),
    /// How the fleet gets on.
    News(Standing),
}

/// The coordinator's end.
pub struct Post {
    orders: Sender<Order>,
    heard: Arc<Mutex<Instant>>,
}

impl Post {
    pub fn order(&self, order: Order) {
        // If the thread has ended it has said why.
        let _ = self.orders.send(order);
    }

    /// How long ago a request was begun by which the server knows that the crawl lives.
    pub fn since_heard(&self) -> Duration {
        guard(&self.heard).elapsed()
    }

    /// Ends when the server has not known for so long that the crawl lives.
    pub fn silence(&self, lease: Duration) -> impl Future<Output = ()> + Send + use<> {
        let heard = Arc::clone(&self.heard);
        async move {
            loop {
                let left = lease.saturating_sub(guard(&heard).elapsed());
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left).await;
            }
        }
    }
}

/// A shard of ours.
struct Owned {
    epoch: u64,
    /// The place up to which its links are taken.
    cursor: Option<u64>,
    /// Whether the coordinator has links that it has not committed.
    is_out: bool,
    /// A place up to which links are to be dropped.
    to_drop: Option<u64>,
}

impl Owned {
    fn new(epoch: u64) -> Owned {
        Owned { epoch, cursor: None, is_out: false, to_drop: None }
    }
}

/// When something that failed is tried again.
struct Later {
    at: Instant,
    pause: Duration,
}

impl Later {
    fn after(before: Option<&Later>) -> Later {
        let pause = before.map_or(PAUSE, |before| (before.pause * 2).min(PAUSE_MAX));
        Later { at: Instant::now() + pause, pause }
    }
}

/// Brings links.
pub struct Postman {
    client: LinksClient,
    crawl: u128,
    shards: u32,
    outbox: Arc<Mutex<Outbox>>,
    owned: BTreeMap<u32, Owned>,
    orders: Receiver<Order>,
    heard: Arc<Mutex<Instant>>,
    stop: Stop,
    observer: Arc<dyn Observer>,
    /// Parts of mailboxes that were handed to the coordinator.
    delivered: u64,
    /// With how many of them it had nothing to do, and whether it is stuck.
    rests: Option<(u64, bool)>,
    report_every: Duration,
    reported: Option<(Instant, Activity)>,
    read: Instant,
    receives: bool,
    takes_one: bool,
    /// A shard whose claim was not answered: the server may have noted it.
    claimed: Option<u32>,
    /// The shard to which links are sent next, and whether all have had their turn since some were
    /// taken.
    turn: u32,
    has_tried_all: bool,
    /// Shards whose mailboxes did not take links.
    later: HashMap<u32, Later>,
}

/// Whoever takes what comes; false if nobody does any more.
type Tell<'a> = &'a dyn Fn(Result<Mail, Error>) -> bool;

impl Postman {
    /// Both ends.
    pub fn new(
        client: LinksClient,
        outbox: Arc<Mutex<Outbox>>,
        (settings, epochs): (&FleetSettings, Epochs),
        (stop, observer): (Stop, Arc<dyn Observer>),
    ) -> (Post, Postman) {
        let (orders, ordered) = channel();
        let (now, crawl) = (Instant::now(), guard(&outbox).id());
        let heard = Arc::new(Mutex::new(now));
        let post = Post { orders, heard: Arc::clone(&heard) };
        let owned = epochs.into_iter().map(|(shard, epoch)| (shard, Owned::new(epoch))).collect();
        let postman = Postman {
            report_every: REPORT_EVERY.min(client.lease() / 4),
            client,
            crawl,
            shards: settings.shards,
            outbox,
            owned,
            orders: ordered,
            heard,
            stop,
            observer,
            delivered: 0,
            rests: None,
            reported: None,
            read: now,
            receives: true,
            takes_one: false,
            claimed: None,
            turn: 0,
            has_tried_all: false,
            later: HashMap::new(),
        };
        (post, postman)
    }

    /// Works until nobody gives orders any more, or something fails for good.
    pub fn work(mut self, tell: Tell<'_>) {
        let mut later: Option<Later> = None;
        loop {
            match self.orders.recv_timeout(LOOK) {
                Ok(Order::End) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(order) => self.take(order),
                Err(RecvTimeoutError::Timeout) => {}
            }
            while let Ok(order) = self.orders.try_recv() {
                if matches!(order, Order::End) {
                    return;
                }
                self.take(order);
            }
            if later.as_ref().is_some_and(|later| later.at > Instant::now()) {
                continue;
            }
            match self.round(tell) {
                Ok(true) => later = None,
                Ok(false) => return,
                Err(Error::Store(error @ filemap::Error::Remote { .. })) => {
                    let next = Later::after(later.as_ref());
                    self.say_later(&error.to_string(), next.pause);
                    later = Some(next);
                }
                Err(error) => {
                    tell(Err(error));
                    return;
                }
            }
        }
    }

    fn say_later(&self, why: &str, after: Duration) {
        if !self.stop.is_asked() {
            drop(self.observer.event(&Event::LinksLater { why: why.to_owned(), after }));
        }
    }

    fn take(&mut self, order: Order) {
        match order {
            Order::Committed { shard, cursor } => {
                if let Some(owned) = self.owned.get_mut(&shard) {
                    (owned.to_drop, owned.is_out) = (Some(cursor), false);
                }
            }
            Order::Rest { received, is_stuck } => self.rests = Some((received, is_stuck)),
            Order::Busy => self.rests = None,
            Order::TakeOne => self.takes_one = true,
            Order::Receive(receives) => self.receives = receives,
            Order::End => {}
        }
    }

    /// Does what is to be done. Returns false if nobody listens any more.
    fn round(&mut self, tell: Tell<'_>) -> Result<bool, Error> {
        self.send()?;
        self.drop_taken(tell)?;
        if !self.receive(tell)? {
            return Ok(false);
        }
        let does = self.activity();
        let is_news = self.reported.is_none_or(|(_, did)| did != does);
        if is_news || self.is_due() { self.report(does, tell) } else { Ok(true) }
    }

    /// Whether it is time to say that the crawl lives.
    fn is_due(&self) -> bool {
        self.reported.is_none_or(|(at, _)| at.elapsed() >= self.report_every)
    }

    /// What the crawl does. It is idle if it has nothing to do, and nothing that it does not know
    /// of is on its way.
    fn activity(&self) -> Activity {
        let is_all_dropped = self.owned.values().all(|owned| !owned.is_out && owned.to_drop.is_none());
        match self.rests {
            Some((received, is_stuck)) if received == self.delivered && is_all_dropped => {
                match is_stuck || guard(&self.outbox).waiting() > 0 {
                    true if self.has_tried_all => Activity::Stuck,
                    true => Activity::Working,
                    false => Activity::Idle,
                }
            }
            _ => Activity::Working,
        }
    }

    /// Posts what waits in the outbox, a batch of each shard in turn, until it is time to report.
    /// A mailbox that takes nothing holds up no other, nor what comes from mailboxes: else two
    /// that are full would wait for each other.
    fn send(&mut self) -> Result<(), Error> {
        let mut in_a_row = 0;
        while in_a_row < self.shards {
            if self.is_due() {
                return Ok(());
            }
            let shard = self.turn;
            self.turn = (shard + 1) % self.shards;
            match self.send_batch(shard)? {
                true => (in_a_row, self.has_tried_all) = (0, false),
                false => in_a_row += 1,
            }
        }
        self.has_tried_all = true;
        Ok(())
    }

    /// Posts a batch of what waits for a shard. Returns whether one was taken.
    fn send_batch(&mut self, shard: u32) -> Result<bool, Error> {
        if self.later.get(&shard).is_some_and(|later| later.at > Instant::now()) {
            return Ok(false);
        }
        let waiting = guard(&self.outbox).next_batch(shard, LINKS)?;
        let Some(Batch { first, links }) = waiting else { return Ok(false) };
        match self.client.post(shard, self.crawl, first, links) {
            Ok(Mailed::Done(posted)) => {
                guard(&self.outbox).acknowledge(shard, posted.next)?;
                self.later.remove(&shard);
                Ok(true)
            }
            Ok(Mailed::Fenced(why) | Mailed::Refused(why)) => {
                Err(Error::Broken(format!("links to shard {shard} are refused: {why}")))
            }
            Err(error) => {
                let later = Later::after(self.later.get(&shard));
                self.say_later(&error.to_string(), later.pause);
                self.later.insert(shard, later);
                Ok(false)
            }
        }
    }

    /// Says that the crawl lives, if it is time, while much is to be done.
    fn report_if_due(&mut self, tell: Tell<'_>) -> Result<(), Error> {
        if self.is_due() { self.report(self.activity(), tell).map(drop) } else { Ok(()) }
    }

    /// Has links dropped that the frontier has committed.
    fn drop_taken(&mut self, tell: Tell<'_>) -> Result<(), Error> {
        let to_drop: Vec<(u32, u64, u64)> =
            self.owned.iter().filter_map(|(shard, owned)| Some((*shard, owned.to_drop?, owned.epoch))).collect();
        for (shard, cursor, epoch) in to_drop {
            self.report_if_due(tell)?;
            let mailed = self.client.drop_to(shard, cursor, epoch)?;
            if !self.is_lost(shard, &mailed, tell)?
                && let Some(owned) = self.owned.get_mut(&shard)
            {
                owned.to_drop = None;
            }
        }
        Ok(())
    }

    /// Hands the coordinator what waits in our mailboxes, a part of each at a time.
    fn receive(&mut self, tell: Tell<'_>) -> Result<bool, Error> {
        if !self.receives || self.read.elapsed() < READ_EVERY {
            return Ok(true);
        }
        self.read = Instant::now();
        let shards: Vec<(u32, Option<u64>, u64)> = self
            .owned
            .iter()
            .filter(|(_, owned)| !owned.is_out && owned.to_drop.is_none())
            .map(|(shard, owned)| (*shard, owned.cursor, owned.epoch))
            .collect();
        for (shard, cursor, epoch) in shards {
            self.report_if_due(tell)?;
            let mailed = self.client.read(shard, cursor, epoch)?;
            if self.is_lost(shard, &mailed, tell)? {
                continue;
            }
            let (Mailed::Done(part), Some(owned)) = (mailed, self.owned.get_mut(&shard)) else { continue };
            owned.cursor = Some(part.cursor);
            if part.links.is_empty() {
                continue;
            }
            owned.is_out = true;
            self.delivered += 1;
            // Where one part was, the next may be.
            self.read = Instant::now() - READ_EVERY;
            if !tell(Ok(Mail::Links { shard, links: part.links, cursor: part.cursor })) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether an answer says that a shard is no longer ours.
    fn is_lost<T>(&mut self, shard: u32, mailed: &Mailed<T>, tell: Tell<'_>) -> Result<bool, Error> {
        match mailed {
            Mailed::Done(_) => Ok(false),
            Mailed::Fenced(_) => {
                self.lose(shard, tell);
                Ok(true)
            }
            Mailed::Refused(why) => Err(Error::Broken(format!("links of shard {shard} are refused: {why}"))),
        }
    }

    fn lose(&mut self, shard: u32, tell: Tell<'_>) {
        if self.owned.remove(&shard).is_some() {
            tell(Ok(Mail::Lost(shard)));
        }
    }

    /// Says that the crawl lives, hears how the fleet gets on, and takes a free shard if one is
    /// wanted.
    fn report(&mut self, does: Activity, tell: Tell<'_>) -> Result<bool, Error> {
        let epochs: Vec<(u32, u64)> = self.owned.iter().map(|(shard, owned)| (*shard, owned.epoch)).collect();
        let begun = Instant::now();
        let news = match self.client.report(self.crawl, &epochs, does)? {
            Mailed::Done(news) => news,
            Mailed::Fenced(why) | Mailed::Refused(why) => {
                return Err(Error::Broken(format!("the fleet refuses this crawl: {why}")));
            }
        };
        *guard(&self.heard) = begun;
        self.reported = Some((begun, does));
        news.fenced.iter().for_each(|shard| self.lose(*shard, tell));
        if std::mem::take(&mut self.takes_one) && self.claimed.is_none() {
            self.claimed = news.standing.free.first().copied();
        }
        self.claim(tell)?;
        Ok(tell(Ok(Mail::News(news.standing))))
    }

    /// Takes the shard that is wanted; again, if the answer was lost.
    fn claim(&mut self, tell: Tell<'_>) -> Result<(), Error> {
        let Some(shard) = self.claimed else { return Ok(()) };
        let mailed = self.client.take(shard, self.crawl)?;
        self.claimed = None;
        if let Mailed::Done(epoch) = mailed {
            self.owned.insert(shard, Owned::new(epoch));
            self.reported = None;
            tell(Ok(Mail::Taken(shard)));
        }
        Ok(())
    }
}
