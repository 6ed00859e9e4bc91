//! The mail thread: sends links to the mailboxes of their shards, and receives those of our own.

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

/// The crawl's shards, and the epoch of each.
pub type Epochs = BTreeMap<u32, u64>;

/// The interval at which the thread checks for links to send or receive.
const LOOK: Duration = Duration::from_millis(50);
/// The interval of reading empty mailboxes and of reporting that the crawl is alive; shorter with
/// a short lease.
const READ_EVERY: Duration = Duration::from_millis(200);
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// The maximum number of links in a request.
const LINKS: usize = 10_000;
/// The wait before a failed request is repeated: doubled each time, up to `PAUSE_MAX`.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(15);

/// Orders of the coordinator.
#[derive(Debug)]
pub enum Order {
    /// The frontier has committed a shard's links up to this cursor.
    Committed { shard: u32, cursor: u64 },
    /// There is no work, after this number of received batches; or, if the crawl is stuck, none
    /// until mailboxes take its links.
    Rest { received: u64, is_stuck: bool },
    /// There is work.
    Busy,
    /// Take another shard, if one is free.
    TakeOne,
    /// Take a shard of ours again, which another run has taken.
    TakeAgain(u32),
    /// Start or stop receiving links from mailboxes.
    Receive(bool),
    /// The run has ended.
    End,
}

/// Messages to the coordinator.
#[derive(Debug)]
pub enum Mail {
    /// Links of a shard, up to a cursor in its mailbox.
    Links {
        /// The shard.
        shard: u32,
        /// Its links.
        links: Vec<Link>,
        /// The cursor after them.
        cursor: u64,
    },
    /// A free shard is now ours.
    Taken(u32),
    /// A shard is no longer ours.
    Lost(u32),
    /// The state of the fleet.
    News(Standing),
}

/// The coordinator's handle of the thread.
pub struct Post {
    orders: Sender<Order>,
    heard: Arc<Mutex<Instant>>,
}

impl Post {
    /// A handle of no thread, and the orders that it gives.
    #[cfg(test)]
    pub fn alone() -> (Post, Receiver<Order>) {
        let (orders, ordered) = channel();
        (Post { orders, heard: Arc::new(Mutex::new(Instant::now())) }, ordered)
    }

    pub fn order(&self, order: Order) {
        // A thread that has ended has reported the reason.
        let _ = self.orders.send(order);
    }

    /// The time since the start of the last request that proved this crawl alive.
    pub fn since_heard(&self) -> Duration {
        guard(&self.heard).elapsed()
    }

    /// Completes when the server has not heard from the crawl for the lease.
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

/// The state of a shard of ours.
struct Owned {
    epoch: u64,
    /// The cursor up to which its links are received.
    cursor: Option<u64>,
    /// True if the coordinator has links that it has not committed.
    is_out: bool,
    /// The cursor up to which links are to be dropped.
    to_drop: Option<u64>,
}

impl Owned {
    fn new(epoch: u64) -> Owned {
        Owned { epoch, cursor: None, is_out: false, to_drop: None }
    }
}

/// The retry time of a failed operation.
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

/// The thread's state.
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
    /// Mailbox batches handed to the coordinator.
    delivered: u64,
    /// Their number at the coordinator's last report of no work, and whether it is stuck.
    rests: Option<(u64, bool)>,
    report_every: Duration,
    reported: Option<(Instant, Activity)>,
    read: Instant,
    receives: bool,
    takes_one: bool,
    /// A shard whose claim got no answer: the server may have noted it.
    claimed: Option<u32>,
    /// A shard to take again.
    again: Option<u32>,
    /// The next shard to send links to, and whether all have had a turn since links were last
    /// taken.
    turn: u32,
    has_tried_all: bool,
    /// Shards whose mailboxes refused links.
    later: HashMap<u32, Later>,
}

/// Passes a message to the coordinator; false if it no longer listens.
type Tell<'a> = &'a dyn Fn(Result<Mail, Error>) -> bool;

impl Postman {
    /// A handle and its thread's state.
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
            again: None,
            turn: 0,
            has_tried_all: false,
            later: HashMap::new(),
        };
        (post, postman)
    }

    /// Takes a shard now. Returns the reason if it is refused.
    pub fn take_now(&mut self, shard: u32) -> Result<Option<String>, Error> {
        let begun = Instant::now();
        match self.client.take(shard, self.crawl)? {
            Mailed::Done(epoch) => {
                self.owned.insert(shard, Owned::new(epoch));
                *guard(&self.heard) = begun;
                self.reported = None;
                Ok(None)
            }
            Mailed::Fenced(why) | Mailed::Refused(why) => Ok(Some(why)),
        }
    }

    /// Runs until the coordinator has ended, or a permanent failure.
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
            Order::TakeAgain(shard) => self.again = Some(shard),
            Order::Receive(receives) => self.receives = receives,
            Order::End => {}
        }
    }

    /// Runs one round. Returns false if nobody listens any more.
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

    /// Returns whether a sign of life is due.
    fn is_due(&self) -> bool {
        self.reported.is_none_or(|(at, _)| at.elapsed() >= self.report_every)
    }

    /// The crawl's activity. It is idle if it has no work, and no links that it does not know of
    /// are on their way to it.
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

    /// Posts waiting links of the outbox, a batch of each shard in turn, until a report is due. A
    /// mailbox that refuses links delays neither other mailboxes nor receiving: otherwise two full
    /// ones would deadlock.
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

    /// Posts a batch of links for a shard. Returns whether one was taken.
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

    /// Reports that the crawl is alive, if due, during long work.
    fn report_if_due(&mut self, tell: Tell<'_>) -> Result<(), Error> {
        if self.is_due() { self.report(self.activity(), tell).map(drop) } else { Ok(()) }
    }

    /// Has the mailboxes drop links that the frontier has committed.
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

    /// Hands the coordinator the links waiting in our mailboxes, a batch of each at a time.
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
            // After one batch there may be another.
            self.read = Instant::now() - READ_EVERY;
            if !tell(Ok(Mail::Links { shard, links: part.links, cursor: part.cursor })) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether an answer means that a shard is no longer ours.
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

    /// Reports that the crawl is alive, receives the state of the fleet, and takes a free shard if
    /// one is wanted.
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
        self.claim_again(tell)?;
        Ok(tell(Ok(Mail::News(news.standing))))
    }

    /// Takes the wanted shard; repeats the claim if its answer was lost.
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

    /// Takes the shard that is to be taken again; repeats it if the answer was lost.
    fn claim_again(&mut self, tell: Tell<'_>) -> Result<(), Error> {
        let Some(shard) = self.again else { return Ok(()) };
        let refused = self.take_now(shard)?;
        self.again = None;
        match refused {
            None => tell(Ok(Mail::Taken(shard))),
            Some(why) => return Err(Error::Broken(format!("shard {shard} cannot be taken again: {why}"))),
        };
        Ok(())
    }
}
