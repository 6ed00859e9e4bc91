//! The mailboxes of all shards in a folder, their owners, and the test whether the fleet is done.
//!
//! A fleet is done when no link waits in any mailbox and every owner is idle. An owner is idle if
//! it has nothing to fetch, nothing to post, and has dropped all links that it took. Its idle mark
//! is cleared when it drops links or claims again. So no crawl can have work while all are idle
//! and no link waits: a crawl that has taken links has not dropped them yet. A stuck owner is
//! neither idle nor working: mailboxes do not take the links that it has.

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

/// Activity of a crawl of a fleet.
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
    /// It has work left, and can do nothing until mailboxes take its links.
    Stuck,
    /// It has nothing to do.
    Idle,
}

/// The owner of a shard.
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
    /// The crawl's id, the same as its outbox's.
    pub crawl: u128,
    /// Time since it was last heard from, or since the mailboxes were opened if it never was.
    pub heard: Duration,
    /// True if it has nothing to do.
    pub is_idle: bool,
}

/// The state of a shard.
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
    /// Number of links that wait for its owner.
    pub waiting: u64,
    /// Bytes on disk of the waiting links.
    pub bytes: u64,
    /// Links entered since the mailbox was created.
    pub entered: u64,
    /// Its epoch, raised with each change of owner.
    pub epoch: u64,
    /// Its owner; `None` if it is free.
    pub owner: Option<Owner>,
}

/// The state of a fleet.
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
    /// True if the fleet is done.
    pub is_over: bool,
    /// Number of links that wait in all mailboxes.
    pub waiting: u64,
    /// Number of crawls that have work, are not stuck, and were heard from within the lease.
    pub working: u32,
    /// Shards with work whose owners were not heard from within the lease.
    pub silent: Vec<u32>,
    /// Shards without an owner.
    pub free: Vec<u32>,
}

/// The mailboxes of all shards of a fleet, in a folder. Any thread may call; calls on one shard
/// run one at a time.
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
    /// The last report of each crawl that owns a shard.
    heard: Mutex<HashMap<u128, Heard>>,
    opened: Instant,
    _lock: Box<dyn Lock>,
}

/// The last report of a crawl.
#[derive(Clone, Copy, Debug)]
struct Heard {
    at: Instant,
    is_stuck: bool,
}

impl Mailboxes {
    /// Creates mailboxes for `shards` shards in a folder, which is created if missing.
    ///
    /// # Errors
    /// `OtherShards` if the folder has mailboxes; `InvalidOption` unless `shards` is 1 to 4,096;
    /// `Locked`, `Io`.
    pub fn create(folder: impl AsRef<Path>, shards: u32, options: MailboxOptions) -> Result<Mailboxes> {
        let folder = folder.as_ref();
        create_dir(folder).map_err(Error::io("create", &folder.display().to_string()))?;
        Mailboxes::create_in(dir(folder)?, shards, options)
    }

    /// Opens the mailboxes in a folder; `None` if there are none.
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
            return Err(filemap_io::StorageError::option("shards", format!("must be 1 to {SHARDS_MAX}")).into());
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

    /// Enters links that a crawl has found; `first` numbers the first one among all its links for
    /// the shard. Skips those already entered. Durable on return: one sync.
    ///
    /// # Errors
    /// `NoSuchShard`, `Gap`, `Full`, `TooManySenders`: nothing entered; `Io`, `Poisoned`.
    pub fn post(&self, shard: u32, crawl: u128, first: u64, links: &[Link]) -> Result<Posted> {
        self.heard(crawl);
        self.of(shard, |mailbox| mailbox.post(crawl, first, links))
    }

    /// Reads links of a shard from `cursor` on, or from the first waiting one if it is `None`:
    /// whole batches, until there are `links_max` links or 4 MiB of URLs.
    ///
    /// # Errors
    /// `NoSuchShard`, `Cursor`; `Corrupt`, `Io`.
    pub fn read(&self, shard: u32, cursor: Option<u64>, links_max: usize) -> Result<Part> {
        self.of(shard, |mailbox| mailbox.read(cursor, links_max))
    }

    /// Drops a shard's links before `cursor`; its owner, in this epoch, must have made them
    /// durable. Returns the number dropped. One sync.
    ///
    /// # Errors
    /// `NoSuchShard`, `Fenced`, `Cursor`; `Corrupt`, `Io`, `Poisoned`.
    pub fn drop_to(&self, shard: u32, epoch: u64, cursor: u64) -> Result<u64> {
        self.of(shard, |mailbox| {
            mailbox.check(epoch)?;
            mailbox.drop_to(cursor)
        })
    }

    /// Makes a crawl the owner of a shard that is free or already its own. Returns the new epoch.
    /// One sync.
    ///
    /// # Errors
    /// `NoSuchShard`; `Owned`; `Io`, `Poisoned`.
    pub fn claim(&self, shard: u32, crawl: u128) -> Result<u64> {
        let epoch = self.of(shard, |mailbox| mailbox.claim(crawl))?;
        self.note(crawl, Heard { at: Instant::now(), is_stuck: false });
        Ok(epoch)
    }

    /// Checks that `epoch` is the shard's current epoch.
    ///
    /// # Errors
    /// `NoSuchShard`; `Fenced`.
    pub fn check(&self, shard: u32, epoch: u64) -> Result<()> {
        self.of(shard, |mailbox| mailbox.check(epoch))
    }

    /// Frees a shard whose owner was not heard from within its lease. One sync.
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

    /// Records that a crawl is alive, and its activity in the shards that it owns in these epochs.
    /// Returns the shards in which it is fenced. One sync for each shard whose idle mark changes.
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

    /// Records that a crawl is alive. A crawl that owns no shard is not remembered.
    fn heard(&self, crawl: u128) {
        if let Some(heard) = guard(&self.heard).get_mut(&crawl) {
            heard.at = Instant::now();
        }
    }

    /// Records the last report of an owner.
    fn note(&self, owner: u128, heard: Heard) {
        guard(&self.heard).insert(owner, heard);
    }

    /// Number of crawls remembered.
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

    /// The state of each shard.
    pub fn stats(&self) -> Vec<ShardStats> {
        // Lock all of them, for a consistent view.
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

    /// The state of the fleet at one moment.
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

/// Reads the number of shards from the folder's note.
fn noted(dir: &dyn Dir) -> Result<u32> {
    let file = dir.open(NOTE, Access::Read).map_err(Error::io("open", NOTE))?;
    Ok(read_fleet_note(&*file, NOTE)?)
}

/// Refuses a folder whose note is missing but whose mailboxes have links or owners: they must not
/// be overwritten. The mailboxes of an interrupted creation have neither.
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
