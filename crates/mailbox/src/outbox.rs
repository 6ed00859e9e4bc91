//! The outbox of a crawl: links of other shards, kept until their mailboxes acknowledge them.
//!
//! A record is a tag of one byte and fields, numbers in LEB128: 1 (the crawl's id, number of
//! shards, number of links so far for each) or 2 (shard, number of the first link, count, links).
//! A commit appends links of any shards, with one sync. Acknowledgements are not written: a file
//! is removed once all its links are acknowledged. After a restart the links left in the files are
//! sent again, and the mailboxes skip those that they have.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use filemap_io::files::{lock, new_id};
use filemap_io::system::create_dir;
use filemap_io::{Dir, Lock, OsDir, layout, varint};

use crate::error::{Error, Result};
use crate::link::Link;
use crate::log::Log;
use crate::names::{OUTBOX, OUTBOX_LOCK};

/// Maximum bytes of links in a group, and in a batch that is sent; but one link at least.
const GROUP_BYTES: usize = if cfg!(test) { 200 } else { 1 << 20 };

/// Links of one shard in a group, waiting to be acknowledged.
#[derive(Debug)]
struct Pending {
    place: u64,
    /// Bytes of the group on disk.
    bytes: u64,
    shard: u32,
    first: u64,
    count: u64,
    is_done: bool,
}

/// Links of one shard, to be posted together.
///
/// ```
/// use mailbox::{Link, Outbox};
///
/// # let folder = tempfile::tempdir()?;
/// let mut outbox = Outbox::open_or_create(folder.path().join("outbox"), 2)?;
/// outbox.add(1, Link { url: "http://example.com/".into(), depth: 3, is_seed: false });
/// outbox.commit()?;
/// let batch = outbox.next_batch(1, 1_000)?.expect("it waits");
/// assert_eq!((batch.first, batch.links.len()), (0, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The number of the first link among all links of the shard.
    pub first: u64,
    /// The links.
    pub links: Vec<Link>,
}

/// The outbox of a crawl.
///
/// ```
/// use mailbox::{Link, Outbox};
///
/// # let folder = tempfile::tempdir()?;
/// let mut outbox = Outbox::open_or_create(folder.path().join("outbox"), 2)?;
/// assert!(outbox.add(1, Link { url: "http://example.com/".into(), depth: 3, is_seed: false }));
/// outbox.commit()?;
/// assert_eq!(outbox.waiting(), 1);
/// // The mailbox of shard 1 has the first link.
/// outbox.acknowledge(1, 1)?;
/// assert_eq!(outbox.waiting(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Outbox {
    id: u128,
    log: Log,
    /// Number of links so far for each shard: also the number of its next one.
    next: Vec<u64>,
    pending: VecDeque<Pending>,
    /// Bytes and links of the groups that are not acknowledged.
    bytes: u64,
    waiting: u64,
    /// Links since the last commit, by shard, and about the bytes of memory that they take.
    new: Vec<Vec<Link>>,
    new_bytes: usize,
    /// While links are held back: the place up to which links may be sent.
    held: Option<u64>,
    _lock: Box<dyn Lock>,
}

impl Outbox {
    /// Opens the outbox in a folder, for a fleet of `shards` shards; creates it if missing.
    ///
    /// Reads the links that wait.
    ///
    /// # Errors
    /// `OtherShards`; `Corrupt`, `NewerFormat`, `Locked`, `Io`.
    pub fn open_or_create(folder: impl AsRef<Path>, shards: u32) -> Result<Outbox> {
        let folder = folder.as_ref();
        let name = folder.display().to_string();
        create_dir(folder).map_err(Error::io("create", &name))?;
        Outbox::open_in(Arc::new(OsDir::open(folder).map_err(Error::io("open", &name))?), shards)
    }

    pub(crate) fn open_in(dir: Arc<dyn Dir>, shards: u32) -> Result<Outbox> {
        let (lock, file) = (lock(&*dir, OUTBOX_LOCK, OUTBOX_LOCK)?, dir.path().join(OUTBOX).display().to_string());
        let mut new = Vec::new();
        new.resize_with(shards as usize, Vec::new);
        if !Log::exists(&*dir, OUTBOX)? {
            let (id, next) = (u128::from_le_bytes(new_id(&*dir)?), vec![0; shards as usize]);
            let log = Log::create(dir, OUTBOX, &state(id, &next))?;
            return Ok(Outbox {
                id,
                log,
                next,
                pending: VecDeque::new(),
                bytes: 0,
                waiting: 0,
                new,
                new_bytes: 0,
                held: None,
                _lock: lock,
            });
        }
        let log = Log::open(dir, OUTBOX)?;
        let (mut at, mut found, mut pending) = (log.begin(), None, VecDeque::new());
        while let Some(group) = log.read(at)? {
            let damaged = || Error::corrupt(log.name(), at, "not a record of an outbox");
            match group.record.split_first() {
                Some((1, rest)) => found = Some(read_state(rest).ok_or_else(damaged)?),
                Some((2, rest)) => {
                    let (_, next) = found.as_mut().ok_or_else(damaged)?;
                    let (shard, first, links) = read_links(rest).ok_or_else(damaged)?;
                    let next = next.get_mut(shard as usize).filter(|next| **next == first).ok_or_else(damaged)?;
                    let count = links.len() as u64;
                    *next += count;
                    let bytes = group.next - at;
                    pending.push_back(Pending { place: at, bytes, shard, first, count, is_done: false });
                }
                _ => return Err(damaged()),
            }
            at = group.next;
        }
        let (id, next) = found.ok_or_else(|| Error::corrupt(log.name(), 0, "its beginning is missing"))?;
        if next.len() != shards as usize {
            return Err(Error::OtherShards { file, found: next.len() as u32, wanted: shards });
        }
        let bytes = pending.iter().map(|pending| pending.bytes).sum();
        let waiting = pending.iter().map(|pending| pending.count).sum();
        Ok(Outbox { id, log, next, pending, bytes, waiting, new, new_bytes: 0, held: None, _lock: lock })
    }

    /// The crawl's id: random, chosen when the outbox is created.
    pub fn id(&self) -> u128 {
        self.id
    }

    /// Adds a link to a shard, durable after [`Outbox::commit`]. Returns `false`, and adds
    /// nothing, if there is no such shard or no mailbox takes the link ([`Link::is_sound`]).
    pub fn add(&mut self, shard: u32, link: Link) -> bool {
        let Some(links) = self.new.get_mut(shard as usize).filter(|_| link.is_sound()) else { return false };
        self.new_bytes += memory_of(&link);
        links.push(link);
        true
    }

    /// As [`Outbox::add`], and commits once the added links take this many bytes of memory: so a
    /// caller that commits seldom holds no more than that.
    ///
    /// # Errors
    /// As [`Outbox::commit`].
    ///
    /// ```
    /// use mailbox::{Link, Outbox};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let mut outbox = Outbox::open_or_create(folder.path().join("outbox"), 2)?;
    /// let link = || Link { url: "http://example.com/".into(), depth: 3, is_seed: false };
    /// outbox.add_within(1, link(), 80)?;
    /// assert_eq!((outbox.waiting(), outbox.bytes()), (1, 0));
    /// outbox.add_within(1, link(), 80)?;
    /// assert!(outbox.waiting() == 2 && outbox.bytes() > 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_within(&mut self, shard: u32, link: Link, memory: usize) -> Result<bool> {
        let is_added = self.add(shard, link);
        if self.new_bytes >= memory {
            self.commit()?;
        }
        Ok(is_added)
    }

    /// Makes all added links durable: one sync, if there are any.
    ///
    /// # Errors
    /// `Io`: if the disk was full nothing is lost, and the call may be repeated; `Poisoned`.
    pub fn commit(&mut self) -> Result<()> {
        if self.new.iter().all(Vec::is_empty) {
            return Ok(());
        }
        if self.log.is_full() {
            self.log.begin_file(&state(self.id, &self.next))?;
        }
        for shard in 0..self.new.len() {
            let links = std::mem::take(&mut self.new[shard]);
            let mut rest = &links[..];
            while !rest.is_empty() {
                let (part, behind) = rest.split_at(part(rest));
                if let Err(error) = self.append(shard, part) {
                    // Links not appended, of later shards too, wait for the next commit.
                    self.new[shard].extend_from_slice(rest);
                    self.new_bytes = self.new.iter().flatten().map(memory_of).sum();
                    return Err(error);
                }
                rest = behind;
            }
        }
        self.new_bytes = 0;
        self.log.sync()
    }

    /// Holds back links committed from now on: [`Outbox::next_batch`] returns them only after
    /// [`Outbox::release`]. For an outbox whose commits count once a copy of it has them.
    pub fn hold(&mut self) {
        self.held = Some(self.log.end());
    }

    /// Lets all committed links be sent.
    pub fn release(&mut self) {
        if self.held.is_some() {
            self.hold();
        }
    }

    fn append(&mut self, shard: usize, links: &[Link]) -> Result<()> {
        let (first, count) = (self.next[shard], links.len() as u64);
        let mut record = vec![2];
        [shard as u64, first, count].iter().for_each(|field| varint::put(&mut record, *field));
        links.iter().for_each(|link| link.encode(&mut record));
        let place = self.log.append(&record)?;
        let bytes = self.log.end() - place;
        self.next[shard] += count;
        self.bytes += bytes;
        self.waiting += count;
        self.pending.push_back(Pending { place, bytes, shard: shard as u32, first, count, is_done: false });
        Ok(())
    }

    /// The first unacknowledged links to a shard: at most `links_max`, or those of one group;
    /// `None` if there are none. Links that are not durable, since [`Outbox::commit`] was not
    /// called since or failed half way, are not among them: a number once sent is never given to
    /// another link.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub fn next_batch(&self, shard: u32, links_max: usize) -> Result<Option<Batch>> {
        let mut batch: Option<Batch> = None;
        let mut bytes = 0;
        // A commit that failed half way has appended groups that it has not synced.
        let safe = self.log.durable();
        let is_next = |pending: &&Pending| {
            let is_held = pending.place >= safe || self.held.is_some_and(|end| pending.place >= end);
            pending.shard == shard && !pending.is_done && !is_held
        };
        for pending in self.pending.iter().filter(is_next) {
            let group = self.log.read(pending.place)?;
            let links = group.as_ref().and_then(|group| read_links(group.record.get(1..)?));
            let mine = links.filter(|(of, first, _)| *of == shard && *first == pending.first);
            let Some((_, first, links)) = mine else {
                return Err(Error::corrupt(self.log.name(), pending.place, "not a record of an outbox"));
            };
            bytes += links.iter().map(|link| link.url.len()).sum::<usize>();
            match &mut batch {
                Some(batch) => batch.links.extend(links),
                None => batch = Some(Batch { first, links }),
            }
            if bytes >= GROUP_BYTES || batch.as_ref().is_some_and(|batch| batch.links.len() >= links_max) {
                break;
            }
        }
        Ok(batch)
    }

    /// Records that a shard's mailbox has the first `next` links. Removes files with no others.
    ///
    /// # Errors
    /// `Gap` if the mailbox has more links than this outbox ever had: it is an older copy;
    /// `NoSuchShard`; `Io`.
    pub fn acknowledge(&mut self, shard: u32, next: u64) -> Result<()> {
        let shards = self.next.len() as u32;
        let all = self.next.get(shard as usize).copied().ok_or(Error::NoSuchShard { shard, shards })?;
        if next > all {
            return Err(Error::Gap { shard, next, first: all });
        }
        let is_new = |pending: &&mut Pending| pending.shard == shard && !pending.is_done;
        for pending in self.pending.iter_mut().filter(is_new).filter(|pending| pending.first + pending.count <= next) {
            pending.is_done = true;
            self.bytes -= pending.bytes;
            self.waiting -= pending.count;
        }
        while self.pending.front().is_some_and(|pending| pending.is_done) {
            self.pending.pop_front();
        }
        let place = self.pending.front().map_or(self.log.end(), |pending| pending.place);
        self.log.remove_before(place)
    }

    /// Number of links that no mailbox has acknowledged.
    pub fn waiting(&self) -> u64 {
        self.waiting + self.new.iter().map(|links| links.len() as u64).sum::<u64>()
    }

    /// Bytes on disk of these links. The files may take more: one is removed only when all links
    /// in it and in all files before it are acknowledged.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// About the bytes of memory of a link.
fn memory_of(link: &Link) -> usize {
    size_of::<Link>() + link.url.len()
}

/// Number of links that fit into a group.
fn part(links: &[Link]) -> usize {
    let mut bytes = 0;
    let is_room = |link: &&Link| {
        bytes += link.url.len();
        bytes <= GROUP_BYTES
    };
    links.iter().take_while(is_room).count().max(1)
}

fn state(id: u128, next: &[u64]) -> Vec<u8> {
    let mut to = vec![1];
    layout::push(&mut to, id);
    varint::put(&mut to, next.len() as u64);
    next.iter().for_each(|next| varint::put(&mut to, *next));
    to
}

fn read_state(bytes: &[u8]) -> Option<(u128, Vec<u64>)> {
    let mut rest = bytes;
    let id = layout::take(&mut rest)?;
    let count = varint::take(&mut rest)?;
    let next = (0..count).map(|_| varint::take(&mut rest)).collect::<Option<Vec<u64>>>()?;
    rest.is_empty().then_some((id, next))
}

/// Decodes the shard, the number of the first link, and the links.
fn read_links(mut bytes: &[u8]) -> Option<(u32, u64, Vec<Link>)> {
    let shard = u32::try_from(varint::take(&mut bytes)?).ok()?;
    let (first, count) = (varint::take(&mut bytes)?, varint::take(&mut bytes)?);
    let links = (0..count).map(|_| Link::decode(&mut bytes)).collect::<Option<Vec<Link>>>()?;
    bytes.is_empty().then_some((shard, first, links))
}
