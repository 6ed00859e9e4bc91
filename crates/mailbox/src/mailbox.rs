//! The mailbox of a shard: the links that wait for its owner, and the owner's id.

use std::sync::Arc;
use std::time::Duration;

use filemap_io::Dir;

use crate::error::{Error, Result};
use crate::failpoint::{Failpoint, planted};
use crate::link::Link;
use crate::log::Log;
use crate::names;
use crate::state::{Record, State, encode_links};

/// Maximum number of crawls that a mailbox takes links from: 16 bytes each.
const SENDERS_MAX: usize = 4096;
/// Maximum bytes of URLs in one read; but one batch at least.
const PART_BYTES: usize = 4 << 20;

filemap_io::options! {
    /// Limits of mailboxes.
    ///
    /// ```
    /// use mailbox::MailboxOptions;
    /// let lease = std::time::Duration::from_secs(30);
    /// let options = MailboxOptions::new().max_bytes(64 << 20).lease(lease);
    /// ```
    #[derive(Clone, Debug)]
    pub struct MailboxOptions {
        /// Maximum bytes that wait in each mailbox; default 1 GiB. A mailbox over it takes no
        /// links.
        pub(crate) max_bytes: u64 = 1 << 30,
        /// The lease. An owner not heard from for longer must have stopped fetching pages of its
        /// shard, which may then be freed; default 60 s.
        pub(crate) lease: Duration = Duration::from_secs(60),
    }
}

/// The result of posting a batch of links.
///
/// ```
/// use mailbox::{Link, MailboxOptions, Mailboxes, Posted};
///
/// # let folder = tempfile::tempdir()?;
/// let boxes = Mailboxes::create(folder.path().join("links"), 1, MailboxOptions::new())?;
/// let links = [Link { url: "http://example.com/".into(), depth: 3, is_seed: false }];
/// assert_eq!(boxes.post(0, 7, 0, &links)?, Posted { entered: 1, next: 1 });
/// // Sent again, as its answer was lost.
/// assert_eq!(boxes.post(0, 7, 0, &links)?, Posted { entered: 0, next: 1 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posted {
    /// Links entered; the others were already there.
    pub entered: u64,
    /// Number of links received from this crawl: also the number of its next one.
    pub next: u64,
}

/// Links read from a place of a mailbox on.
///
/// ```
/// use mailbox::{Link, MailboxOptions, Mailboxes};
///
/// # let folder = tempfile::tempdir()?;
/// let boxes = Mailboxes::create(folder.path().join("links"), 1, MailboxOptions::new())?;
/// let link = Link { url: "http://example.com/".into(), depth: 3, is_seed: false };
/// boxes.post(0, 7, 0, &[link])?;
/// let part = boxes.read(0, None, 1_000)?;
/// assert_eq!(part.links.len(), 1);
/// assert!(boxes.read(0, Some(part.cursor), 1_000)?.links.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The links, in the order in which they came.
    pub links: Vec<Link>,
    /// The place after them: the cursor of the next read, and of the drop of this part.
    pub cursor: u64,
}

/// The mailbox of a shard.
#[derive(Debug)]
pub(crate) struct Mailbox {
    shard: u32,
    options: MailboxOptions,
    log: Log,
    pub(crate) state: State,
}

impl Mailbox {
    pub(crate) fn exists(dir: &dyn Dir, shard: u32) -> Result<bool> {
        Log::exists(dir, &names::mailbox(shard))
    }

    pub(crate) fn create(dir: Arc<dyn Dir>, shard: u32, options: MailboxOptions) -> Result<Mailbox> {
        let state = State::default();
        let log = Log::create(dir, &names::mailbox(shard), &Record::State(state.clone()).encode())?;
        Ok(Mailbox { shard, options, log, state })
    }

    pub(crate) fn open(dir: Arc<dyn Dir>, shard: u32, options: MailboxOptions) -> Result<Mailbox> {
        let log = Log::open(dir, &names::mailbox(shard))?;
        let mut mailbox = Mailbox { shard, options, log, state: State::default() };
        let (mut at, mut is_first) = (mailbox.log.newest_base(), true);
        while let Some(group) = mailbox.log.read(at)? {
            let record = Record::decode(&group.record);
            let record = record.filter(|record| !is_first || matches!(record, Record::State(_)));
            let applied = record.and_then(|record| mailbox.state.apply(&record, at));
            applied.ok_or_else(|| Error::corrupt(mailbox.log.name(), at, "not a record of a mailbox"))?;
            (at, is_first) = (group.next, false);
        }
        let place = mailbox.place();
        if place < mailbox.log.begin() || place > mailbox.log.end() {
            return Err(Error::corrupt(mailbox.log.name(), place, "the file that has this place is missing"));
        }
        mailbox.log.remove_before(place)?;
        Ok(mailbox)
    }

    pub(crate) fn shard(&self) -> u32 {
        self.shard
    }

    /// The place of the first waiting link.
    fn place(&self) -> u64 {
        if self.state.waiting() == 0 { self.log.end() } else { self.state.dropped_at }
    }

    /// Bytes of the waiting links.
    pub(crate) fn bytes(&self) -> u64 {
        self.log.end() - self.place()
    }

    /// Writes a record and applies it; durable on return.
    fn tell(&mut self, record: &Record) -> Result<()> {
        let at = self.write(&record.encode())?;
        self.state.apply(record, at).ok_or_else(|| self.impossible(at))
    }

    fn impossible(&self, at: u64) -> Error {
        Error::corrupt(self.log.name(), at, "impossible record of a mailbox")
    }

    /// Writes an encoded record, durable on return. Returns its place.
    fn write(&mut self, record: &[u8]) -> Result<u64> {
        if self.log.is_full() {
            let place = self.place();
            let mut state = State { dropped_at: place, ..self.state.clone() };
            if planted(Failpoint::SendersForgotten) {
                state.senders.clear();
            }
            self.log.begin_file(&Record::State(state).encode())?;
            self.state.dropped_at = place;
            self.log.remove_before(place)?;
        }
        let at = self.log.append(record)?;
        self.log.sync()?;
        Ok(at)
    }

    /// Enters those of a crawl's links that it does not have yet; durable on return.
    pub(crate) fn post(&mut self, sender: u128, first: u64, links: &[Link]) -> Result<Posted> {
        let shard = self.shard;
        let next = self.state.senders.get(&sender).copied().unwrap_or(0);
        if first > next {
            return Err(Error::Gap { shard, next, first });
        }
        let known = usize::try_from(next - first).unwrap_or(usize::MAX).min(links.len());
        let new = &links[known..];
        if new.is_empty() {
            return Ok(Posted { entered: 0, next });
        }
        if self.state.senders.len() >= SENDERS_MAX && !self.state.senders.contains_key(&sender) {
            return Err(Error::TooManySenders { shard, max: SENDERS_MAX });
        }
        let (bytes, max) = (self.bytes(), self.options.max_bytes);
        if bytes >= max {
            return Err(Error::Full { shard, bytes, max });
        }
        let at = self.write(&encode_links(sender, next, new))?;
        let entered = new.len() as u64;
        self.state.enter(sender, next, entered, at).ok_or_else(|| self.impossible(at))?;
        Ok(Posted { entered, next: next + entered })
    }

    /// Reads whole batches from a place on, up to `links_max` links or `PART_BYTES` of URLs.
    pub(crate) fn read(&self, cursor: Option<u64>, links_max: usize) -> Result<Part> {
        let begin = self.checked(cursor)?;
        let (mut part, mut bytes) = (Part { links: Vec::new(), cursor: begin }, 0);
        while part.links.len() < links_max && bytes < PART_BYTES {
            let group = match self.log.read(part.cursor) {
                // Unless `begin` is a place, the bytes there are not damage.
                Err(_) if part.cursor == begin && self.walk_to(begin)?.is_none() => {
                    return Err(Error::Cursor { shard: self.shard, cursor: begin });
                }
                group => group?,
            };
            let Some(group) = group else { break };
            match Record::decode(&group.record) {
                Some(Record::Links { links, .. }) => {
                    bytes += links.iter().map(|link| link.url.len()).sum::<usize>();
                    part.links.extend(links);
                }
                Some(_) => {}
                None => return Err(Error::corrupt(self.log.name(), part.cursor, "not a record of a mailbox")),
            }
            part.cursor = group.next;
        }
        Ok(part)
    }

    /// Clamps a cursor to the waiting links; `None` gives the first one.
    fn checked(&self, cursor: Option<u64>) -> Result<u64> {
        let begin = self.place();
        match cursor.unwrap_or(begin) {
            cursor if cursor > self.log.end() => Err(Error::Cursor { shard: self.shard, cursor }),
            cursor => Ok(cursor.max(begin)),
        }
    }

    /// Drops the links before a place; durable on return. Returns the number dropped.
    pub(crate) fn drop_to(&mut self, cursor: u64) -> Result<u64> {
        let to = self.checked(Some(cursor))?;
        let count = self.walk_to(to)?.ok_or(Error::Cursor { shard: self.shard, cursor })?;
        if count > 0 {
            self.tell(&Record::Dropped { place: to, count })?;
            self.log.remove_before(self.place())?;
        }
        Ok(count)
    }

    /// Counts the links before a place; `None` if no batch begins there.
    fn walk_to(&self, to: u64) -> Result<Option<u64>> {
        let (mut at, mut count) = (self.place(), 0);
        while at < to {
            let Some(group) = self.log.read(at)? else { break };
            if let Some(Record::Links { links, .. }) = Record::decode(&group.record) {
                count += links.len() as u64;
            }
            at = group.next;
        }
        Ok((at == to).then_some(count))
    }

    /// Makes a crawl the owner, in a new epoch; durable on return.
    pub(crate) fn claim(&mut self, crawl: u128) -> Result<u64> {
        if let Some(owner) = self.state.owner.filter(|owner| *owner != crawl) {
            return Err(Error::Owned { shard: self.shard, owner });
        }
        self.tell(&Record::Owner { owner: Some(crawl), epoch: self.state.epoch + 1 })?;
        Ok(self.state.epoch)
    }

    /// Removes the owner and begins a new epoch; durable on return.
    pub(crate) fn free(&mut self) -> Result<()> {
        match self.state.owner {
            None => Ok(()),
            Some(_) => self.tell(&Record::Owner { owner: None, epoch: self.state.epoch + 1 }),
        }
    }

    /// Checks that `given` is the shard's epoch.
    pub(crate) fn check(&self, given: u64) -> Result<()> {
        match self.state.epoch {
            epoch if epoch == given => Ok(()),
            epoch => Err(Error::Fenced { shard: self.shard, epoch, given }),
        }
    }

    /// Sets whether the owner is idle; durable on return.
    pub(crate) fn set_idle(&mut self, is_idle: bool) -> Result<()> {
        match self.state.is_idle == is_idle {
            true => Ok(()),
            false => self.tell(&Record::Idle(is_idle)),
        }
    }
}
