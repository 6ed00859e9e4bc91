//! The mailboxes of all shards in a folder, their owners, and whether the fleet has come to its
//! end.
//!
//! A fleet is at its end when no link waits in any mailbox and each owner is idle: it has nothing
//! to fetch, nothing to post, and has had dropped all that it took. That an owner was idle counts
//! no more once it has dropped links or was claimed again. So there is no moment at which all are
//! idle, no link waits, and somebody has work: whoever has taken links has not had them dropped
//! yet. An owner that is stuck is neither idle nor at work: mailboxes do not take what it has.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use filemap_io::files::{self, exists, lock, new_id};
use filemap_io::system::create_dir;
use filemap_io::{Access, Dir, Lock, OsDir, guard};

use crate::error::{Error, Result};
use crate::format::{fleet_note, read_fleet_note};
use crate::link::Link;
use crate::mailbox::{Mailbox, MailboxOptions, Part, Posted};
use crate::names::{MAILBOXES_LOCK, NEW_NOTE, NOTE};
use crate::state::State;

/// Shards of a fleet, at most.
const SHARDS_MAX: u32 = 4096;

/// What a crawl of a fleet does.
///
/// ```
/// use mailbox::{Activity, MailboxOptions, Mailboxes};
///
/// # let folder = tempfile::tempdir()?;
/// let boxes = Mailboxes::create(folder.path().join("links"), 1, MailboxOptions::new())?;
/// let epoch = boxes.claim(0, 7)?;
/// boxes.report(7, &[(0, epoch)], Activity::Working)?;
/// assert!(!boxes.standing().is_over);
/// boxes.report(7, &[(0, epoch)], Activity::Idle)?;
/// assert!(boxes.standing().is_over);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It has something to fetch, to post or to take.
    Working,
    /// It has something left, and can do nothing before mailboxes take its links.
    Stuck,
    /// It has nothing to do.
    Idle,
}

/// Who owns a shard.
///
/// ```
/// use mailbox::{MailboxOptions, Mailboxes};
///
/// # let folder = tempfile::tempdir()?;
/// let boxes = Mailboxes::create(folder.path().join("links"), 1, MailboxOptions::new())?;
/// boxes.claim(0, 7)?;
/// let owner = boxes.stats()[0].owner.expect("just claimed");
/// assert_eq!((owner.crawl, owner.is_idle), (7, false));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The crawl's id, which is that of its outbox.
    pub crawl: u128,
    /// When it was last heard of, before now; since the mailboxes were opened if it was not.
    pub heard: Duration,
    /// Whether it has nothing to do.
    pub is_idle: bool,
}

/// What is known of a shard.
///
/// ```
/// use mailbox::{Link, MailboxOptions, Mailboxes};
///
/// # let folder = tempfile::tempdir()?;
/// let boxes = Mailboxes::create(folder.path().join("links"), 1, MailboxOptions::new())?;
/// let link = Link { url: "http://example.com/".into(), depth: 3, is_seed: false };
/// boxes.post(0, 7, 0, &[link])?;
/// let stats = boxes.stats()[0];
/// assert_eq!((stats.waiting, stats.entered, stats.owner), (1, 1, None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardStats {
    /// Its number.
    pub shard: u32,
    /// Links that wait for its owner, and the bytes that they take.
    pub waiting: u64,
    /// Bytes that they take on disk.
    pub bytes: u64,
    /// Links that came in its whole life.
    pub entered: u64,
    /// Raised with each change of owner.
    pub epoch: u64,
    /// `None` if it is free.
    pub owner: Option<Owner>,
}

/// How a fleet gets on.
///
/// ```
/// use mailbox::{MailboxOptions, Mailboxes};
///
/// # let folder = tempfile::tempdir()?;
/// let boxes = Mailboxes::create(folder.path().join("links"), 2, MailboxOptions::new())?;
/// boxes.claim(1, 7)?;
/// let standing = boxes.standing();
/// assert_eq!((standing.free, standing.working), (vec![0], 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Whether it is at its end.
    pub is_over: bool,
    /// Links that wait in all mailboxes.
    pub waiting: u64,
    /// Number of crawls that have something to do, are not stuck, and were heard of within the
    /// lease.
    pub working: u32,
    /// Shards with something to do whose owners were not heard of.
    pub silent: Vec<u32>,
    /// Shards without an owner.
    pub free: Vec<u32>,
}

/// The mailboxes of all shards of a fleet, in a folder. Calls may come from any thread; those of
/// one shard wait for each other.
///
/// ```
/// use mailbox::{Link, MailboxOptions, Mailboxes};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("links");
/// let boxes = Mailboxes::create(&path, 2, MailboxOptions::new())?;
/// let link = Link { url: "http://example.com/".into(), depth: 3, is_seed: false };
/// boxes.post(1, 7, 0, &[link.clone()])?;
/// drop(boxes);
/// let boxes = Mailboxes::open(&path, MailboxOptions::new())?.expect("just made");
/// assert_eq!(boxes.read(1, None, 1_000)?.links, [link]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Mailboxes {
    options: MailboxOptions,
    boxes: Vec<Mutex<Mailbox>>,
    /// Of each crawl that owns a shard.
    heard: Mutex<HashMap<u128, Heard>>,
    opened: Instant,
    _lock: Box<dyn Lock>,
}

/// What was last heard of a crawl.
#[derive(Clone, Copy, Debug)]
struct Heard {
    at: Instant,
    is_stuck: bool,
}

impl Mailboxes {
    /// Makes the mailboxes of so many shards in a folder, which is made if absent.
    ///
    /// # Errors
    /// `OtherShards` if it has some; `InvalidOption` of a number beyond 1 to 4,096; `Locked`,
    /// `Io`.
    pub fn create(folder: impl AsRef<Path>, shards: u32, options: MailboxOptions) -> Result<Mailboxes> {
        let folder = folder.as_ref();
        create_dir(folder).map_err(Error::io("create", &folder.display().to_string()))?;
        Mailboxes::create_in(dir(folder)?, shards, options)
    }

    /// The mailboxes in a folder; `None` if there are none.
    ///
    /// # Errors
    /// `Corrupt`, `NewerFormat`, `Locked`, `Io`.
    pub fn open(folder: impl AsRef<Path>, options: MailboxOptions) -> Result<Option<Mailboxes>> {
        match folder.as_ref().is_dir() {
            true => Mailboxes::open_in(dir(folder.as_ref())?, options),
            false => Ok(None),
        }
    }

    pub(crate) fn create_in(dir: Arc<dyn Dir>, shards: u32, options: MailboxOptions) -> Result<Mailboxes> {
        if !(1..=SHARDS_MAX).contains(&shards) {
            return Err(filemap_io::StorageError::option("shards", format!("1 to {SHARDS_MAX}")).into());
        }
        let lock = lock(&*dir, MAILBOXES_LOCK, MAILBOXES_LOCK)?;
        if exists(&*dir, NOTE)? {
            let found = noted(&*dir)?;
            return Err(Error::OtherShards { file: dir.path().display().to_string(), found, wanted: shards });
        }
        check_unused(&dir, &options)?;
        let make = |shard| Mailbox::create(Arc::clone(&dir), shard, options.clone()).map(Mutex::new);
        let boxes = (0..shards).map(make).collect::<Result<_>>()?;
        files::remove(&*dir, NEW_NOTE)?;
        let note = fleet_note(shards, new_id(&*dir)?);
        files::replace(&*dir, NOTE, NEW_NOTE, |file| files::write(file, NEW_NOTE, &note, 0))?;
        Ok(Mailboxes::with(options, boxes, lock))
    }

    pub(crate) fn open_in(dir: Arc<dyn Dir>, options: MailboxOptions) -> Result<Option<Mailboxes>> {
        let lock = lock(&*dir, MAILBOXES_LOCK, MAILBOXES_LOCK)?;
        if !exists(&*dir, NOTE)? {
            check_unused(&dir, &options)?;
            return Ok(None);
        }
        let shards = noted(&*dir)?;
        let open = |shard| Mailbox::open(Arc::clone(&dir), shard, options.clone()).map(Mutex::new);
        let boxes = (0..shards).map(open).collect::<Result<_>>()?;
        Ok(Some(Mailboxes::with(options, boxes, lock)))
    }

    fn with(options: MailboxOptions, boxes: Vec<Mutex<Mailbox>>, lock: Box<dyn Lock>) -> Mailboxes {
        let opened = Instant::now();
        let mailboxes = Mailboxes { options, boxes, heard: Mutex::default(), opened, _lock: lock };
        let heard = Heard { at: opened, is_stuck: false };
        mailboxes.owners().into_iter().for_each(|owner| mailboxes.note(owner, heard));
        mailboxes
    }

    fn of<T>(&self, shard: u32, act: impl FnOnce(&mut Mailbox) -> Result<T>) -> Result<T> {
        let mailbox = self.boxes.get(shard as usize);
        let mailbox = mailbox.ok_or(Error::NoSuchShard { shard, shards: self.shards() })?;
        act(&mut guard(mailbox))
    }

    /// The number of shards.
    pub fn shards(&self) -> u32 {
        self.boxes.len() as u32
    }

    /// The lease of owners.
    pub fn lease(&self) -> Duration {
        self.options.lease
    }

    /// Enters links that a crawl has found, of which the first has this number among all that it
    /// has for the shard; those that are there are left out. Durable on return: one sync.
    ///
    /// # Errors
    /// `NoSuchShard`, `Gap`, `Full`, `TooManySenders`, with nothing entered; `Io`, `Poisoned`.
    pub fn post(&self, shard: u32, crawl: u128, first: u64, links: &[Link]) -> Result<Posted> {
        self.heard(crawl);
        self.of(shard, |mailbox| mailbox.post(crawl, first, links))
    }

    /// Links of a shard from a place on, whole batches, until there are so many, or 4 MiB of URLs;
    /// from the first one that waits if no place is given.
    ///
    /// # Errors
    /// `NoSuchShard`, `Cursor`; `Corrupt`, `Io`.
    pub fn read(&self, shard: u32, cursor: Option<u64>, links_max: usize) -> Result<Part> {
        self.of(shard, |mailbox| mailbox.read(cursor, links_max))
    }

    /// Drops a shard's links before a place, which its owner of this epoch has durably. Returns
    /// how many. One sync.
    ///
    /// # Errors
    /// `NoSuchShard`, `Fenced`, `Cursor`; `Corrupt`, `Io`, `Poisoned`.
    pub fn drop_to(&self, shard: u32, epoch: u64, cursor: u64) -> Result<u64> {
        self.of(shard, |mailbox| {
            mailbox.check(epoch)?;
            mailbox.drop_to(cursor)
        })
    }

    /// Makes a crawl the owner of a shard that is free or its own. Returns the new epoch. One
    /// sync.
    ///
    /// # Errors
    /// `NoSuchShard`; `Owned`; `Io`, `Poisoned`.
    pub fn claim(&self, shard: u32, crawl: u128) -> Result<u64> {
        let epoch = self.of(shard, |mailbox| mailbox.claim(crawl))?;
        self.note(crawl, Heard { at: Instant::now(), is_stuck: false });
        Ok(epoch)
    }

    /// Refuses whoever is not in a shard's epoch.
    ///
    /// # Errors
    /// `NoSuchShard`; `Fenced`.
    pub fn check(&self, shard: u32, epoch: u64) -> Result<()> {
        self.of(shard, |mailbox| mailbox.check(epoch))
    }

    /// Frees a shard whose owner is gone: it was not heard of within its lease. One sync.
    ///
    /// # Errors
    /// `NoSuchShard`; `Alive`; `Io`, `Poisoned`.
    pub fn free(&self, shard: u32) -> Result<()> {
        let lease = self.options.lease;
        let owner = self.of(shard, |mailbox| {
            let owner = mailbox.state.owner;
            let heard = owner.map(|owner| self.since_heard(owner));
            match heard.filter(|heard| *heard < lease) {
                Some(heard) => Err(Error::Alive { shard, seconds: heard.as_secs(), lease: lease.as_secs() }),
                None => mailbox.free().map(|()| owner),
            }
        })?;
        if let Some(owner) = owner.filter(|owner| !self.owners().contains(owner)) {
            guard(&self.heard).remove(&owner);
        }
        Ok(())
    }

    /// Notes that a crawl was heard of, and what it does in the shards that it owns in these
    /// epochs. Returns those in which it is fenced. A sync for each shard in which it becomes
    /// idle, or is no longer.
    ///
    /// # Errors
    /// `NoSuchShard`; `Io`, `Poisoned`.
    pub fn report(&self, crawl: u128, epochs: &[(u32, u64)], does: Activity) -> Result<Vec<u32>> {
        let mut fenced = Vec::new();
        for (shard, epoch) in epochs {
            self.of(*shard, |mailbox| match mailbox.check(*epoch) {
                Ok(()) => mailbox.set_idle(does == Activity::Idle),
                Err(_) => {
                    fenced.push(*shard);
                    Ok(())
                }
            })?;
        }
        if fenced.len() < epochs.len() {
            self.note(crawl, Heard { at: Instant::now(), is_stuck: does == Activity::Stuck });
        }
        Ok(fenced)
    }

    /// A crawl is heard of. One that owns nothing is not remembered.
    fn heard(&self, crawl: u128) {
        if let Some(heard) = guard(&self.heard).get_mut(&crawl) {
            heard.at = Instant::now();
        }
    }

    /// An owner is heard of.
    fn note(&self, owner: u128, heard: Heard) {
        guard(&self.heard).insert(owner, heard);
    }

    /// How many crawls are remembered.
    #[cfg(test)]
    pub(crate) fn remembered(&self) -> usize {
        guard(&self.heard).len()
    }

    fn since_heard(&self, crawl: u128) -> Duration {
        guard(&self.heard).get(&crawl).map_or(self.opened, |heard| heard.at).elapsed()
    }

    fn is_stuck(&self, crawl: u128) -> bool {
        guard(&self.heard).get(&crawl).is_some_and(|heard| heard.is_stuck)
    }

    /// The owners of all shards.
    fn owners(&self) -> BTreeSet<u128> {
        self.boxes.iter().filter_map(|mailbox| guard(mailbox).state.owner).collect()
    }

    /// What is known of each shard.
    pub fn stats(&self) -> Vec<ShardStats> {
        // All at one moment.
        let held: Vec<MutexGuard<'_, Mailbox>> = self.boxes.iter().map(guard).collect();
        let stats = |mailbox: &MutexGuard<'_, Mailbox>| ShardStats {
            shard: mailbox.shard(),
            waiting: mailbox.state.waiting(),
            bytes: mailbox.bytes(),
            entered: mailbox.state.entered,
            epoch: mailbox.state.epoch,
            owner: mailbox.state.owner.map(|crawl| Owner {
                crawl,
                heard: self.since_heard(crawl),
                is_idle: mailbox.state.is_idle,
            }),
        };
        held.iter().map(stats).collect()
    }

    /// How the fleet gets on, as it is at one moment.
    pub fn standing(&self) -> Standing {
        let (mut standing, mut working) = (Standing { is_over: true, ..Standing::default() }, BTreeSet::new());
        for shard in self.stats() {
            standing.waiting += shard.waiting;
            let Some(owner) = shard.owner else {
                standing.free.push(shard.shard);
                standing.is_over &= shard.waiting == 0;
                continue;
            };
            if shard.waiting == 0 && owner.is_idle {
                continue;
            }
            standing.is_over = false;
            match owner.heard < self.options.lease {
                true if shard.waiting == 0 && self.is_stuck(owner.crawl) => {}
                true => drop(working.insert(owner.crawl)),
                false => standing.silent.push(shard.shard),
            }
        }
        standing.working = working.len() as u32;
        standing
    }
}

fn dir(folder: &Path) -> Result<Arc<dyn Dir>> {
    Ok(Arc::new(OsDir::open(folder).map_err(Error::io("open", &folder.display().to_string()))?))
}

/// The number of shards of a folder.
fn noted(dir: &dyn Dir) -> Result<u32> {
    let file = dir.open(NOTE, Access::Read).map_err(Error::io("open", NOTE))?;
    Ok(read_fleet_note(&*file, NOTE)?)
}

/// Refuses a folder whose note is lost: its mailboxes have links or owners, and nothing is made
/// over them. Those that an interrupted creation left have none.
fn check_unused(dir: &Arc<dyn Dir>, options: &MailboxOptions) -> Result<()> {
    for shard in 0..SHARDS_MAX {
        if !Mailbox::exists(&**dir, shard)? {
            break;
        }
        if Mailbox::open(Arc::clone(dir), shard, options.clone())?.state != State::default() {
            return Err(Error::corrupt(
                NOTE,
                0,
                "the file is missing, and there are mailboxes: restore it from a copy",
            ));
        }
    }
    Ok(())
}
