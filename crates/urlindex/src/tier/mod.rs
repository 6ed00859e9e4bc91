//! `TwoTierSet`: a filter in front of an exact set, never in place of it.
//!
//! What the filter calls new is new, without a read of the exact set; what it calls probable is asked of the exact set, whose
//! answer counts. So the filter's errors cost a read each, and never a URL.
//!
//! # The order of writes
//!
//! The exact set is the truth, and the filter follows from it: it holds fingerprints, not texts, and can be made anew at any time. So
//! `sync` makes that durable, and then, if it is worth it, *saves* the filter; the [`stamp`] says what a saved filter covers: every file of the
//! exact set with a number below the stamp's. For no crash to lose anything:
//!
//! 1. in memory a URL is told to the filter before it is added to the exact set, so the filter always holds all that the set does;
//! 2. to save, the number of the set's next file is read first; the stamp is marked with the random number of the save to come, so that a
//!    write that fails in the middle of a sector is not taken for rot; then the filter is written, with the save's number, and synced,
//!    then the stamp with both replaces the old one. A crash between leaves a filter that holds more than its stamp says, which is
//!    harmless;
//! 3. opening gives the filter what the exact set has in its log and in files from the stamp's number on, whatever a crash made of
//!    both, before the first answer;
//! 4. a filter is made anew if there is none or it is half written, and if the stamp does not vouch for just this filter and just this
//!    set: the stamp is another set's, or that of a snapshot which went its own way, or ahead of the set; or the filter bears another save's
//!    number, as a new one does, and an older copy that was brought back.
//!
//! Saving is worth it when as many bytes of runs would be read to bring the filter up to date as it has itself: so it costs no more than
//! the set's own merges, and opening after a crash reads no more of the runs than that and what was merged since the last `sync`.
//!
//! What was forgotten or has expired stays in the filter, which is an error of the filter like any other.

mod stamp;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use filemap_io::{Access, Dir};

use crate::bloom::growing::{GROWING_MAGIC, GrowingFilter};
use crate::bloom::{BLOOM_MAGIC, BloomFilter, BloomOptions};
use crate::disk::failpoint::{Mistake, planted};
use crate::disk::{DiskOptions, DiskUrlSet, Front};
use crate::error::{Error, Result};
use crate::files::{self, guard};
use crate::seen::{SeenSet, SeenStats, Verdict};
use stamp::Stamp;

/// Which filter stands in front of a [`TwoTierSet`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FrontFilter {
    /// A [`GrowingFilter`] with this rate: for a number of URLs that nobody knows. Saving writes all of it.
    Growing {
        /// The chance that a new URL is asked of the exact set all the same: 1e-9 to 0.1.
        rate: f64,
    },
    /// A [`BloomFilter`]: for a number of URLs that is known. Saving writes the parts that have changed.
    Bloom(BloomOptions),
}

/// A filter whose file says which save it is.
trait Saved: SeenSet {
    /// Writes its file, as the save of this number.
    fn save_as(&self, number: u64) -> Result<()>;

    /// The number of its last save; 0 if there was none.
    fn save_number(&self) -> u64;
}

impl Saved for BloomFilter {
    fn save_as(&self, number: u64) -> Result<()> {
        self.sync_as(Some(number))
    }

    fn save_number(&self) -> u64 {
        BloomFilter::save_number(self)
    }
}

impl Saved for GrowingFilter {
    fn save_as(&self, number: u64) -> Result<()> {
        self.sync_as(Some(number))
    }

    fn save_number(&self) -> u64 {
        GrowingFilter::save_number(self)
    }
}

impl FrontFilter {
    fn create(&self, dir: &Arc<dyn Dir>, name: &str) -> Result<Box<dyn Saved>> {
        Ok(match self {
            FrontFilter::Growing { rate } => Box::new(GrowingFilter::create(Arc::clone(dir), name, *rate, 0)?),
            FrontFilter::Bloom(options) => Box::new(BloomFilter::create(Arc::clone(dir), name, options.clone())?),
        })
    }
}

/// The filter as the exact set sees it.
#[derive(Debug)]
struct Filter {
    filter: Box<dyn Saved>,
    /// Tests that it answered.
    answered: AtomicU64,
}

/// What the filter takes of a fingerprint: all of it.
fn key(fingerprint: u128) -> [u8; 10] {
    files::array(&fingerprint.to_be_bytes(), 0)
}

impl Front for Filter {
    fn is_new(&self, fingerprint: u128) -> Result<bool> {
        let is_new = self.filter.contains(&key(fingerprint))?.is_new();
        self.answered.fetch_add(u64::from(is_new), Ordering::Relaxed);
        Ok(is_new)
    }

    fn insert(&self, fingerprint: u128) -> Result<()> {
        self.filter.insert(&key(fingerprint))
    }
}

/// A filter in front of a [`DiskUrlSet`]: new URLs are told without a read. See the module for the order of its writes.
///
/// It answers as the exact set does: `Seen` is certain as there, and there is no `ProbablySeen`. By itself the set makes filters of all its
/// runs, from the first test of one URL on, by reading them, as far as its memory goes. With this one, which is kept in a file and whose
/// memory and rate are chosen apart, it makes none of the oldest run, which has more URLs than all others together: so less is read
/// after opening, and new URLs are asked of one filter in place of one a run.
///
/// ```
/// use std::sync::Arc;
/// use filemap_io::OsDir;
/// use urlindex::{DiskOptions, FrontFilter, SeenSet, TwoTierSet, Verdict};
///
/// let folder = tempfile::tempdir().unwrap();
/// let dir = Arc::new(OsDir::open(folder.path()).unwrap());
/// let filter = FrontFilter::Growing { rate: 0.01 };
/// let set = TwoTierSet::create(dir, "seen", DiskOptions::new(), &filter).unwrap();
/// assert_eq!(set.check_and_insert(b"http://example.com/").unwrap(), Verdict::New);
/// assert_eq!(set.contains(b"http://example.com/").unwrap(), Verdict::Seen);
/// assert_eq!(set.contains(b"http://example.com/other").unwrap(), Verdict::New);
/// set.sync().unwrap();
/// ```
#[derive(Debug)]
pub struct TwoTierSet {
    set: DiskUrlSet,
    front: Arc<Filter>,
    dir: Arc<dyn Dir>,
    name: String,
    /// The number below which the saved filter covers the set's files.
    covers: Mutex<u64>,
}

impl TwoTierSet {
    /// An empty set in the new file `name`, its filter in `name.filter`, the stamp between them in `name.tier`.
    ///
    /// # Errors
    /// As [`DiskUrlSet::create`], and those of making the filter; [`Error::Io`], with [`std::io::ErrorKind::AlreadyExists`], if `name.filter` is
    /// there and is no filter.
    pub fn create(dir: Arc<dyn Dir>, name: &str, options: DiskOptions, filter: &FrontFilter) -> Result<TwoTierSet> {
        check_place(&*dir, &filter_name(name))?;
        let set = DiskUrlSet::create(Arc::clone(&dir), name, options)?;
        TwoTierSet::with(dir, name, set, filter)
    }

    /// Opens a set, and gives its filter what that has not got yet. A [`DiskUrlSet`] that has no filter gets one, as `filter` says; if there
    /// is one, `filter` is not looked at. To replace it by another, remove `name.filter` first.
    ///
    /// # Errors
    /// As [`DiskUrlSet::open`]. [`Error::Corrupt`] of the filter or the stamp too, with file and offset: the exact set is not hurt by that;
    /// remove the damaged file and open the set again, and the filter is made anew.
    pub fn open(dir: Arc<dyn Dir>, name: &str, options: DiskOptions, filter: &FrontFilter) -> Result<TwoTierSet> {
        let set = DiskUrlSet::open(Arc::clone(&dir), name, options)?;
        TwoTierSet::with(dir, name, set, filter)
    }

    fn with(dir: Arc<dyn Dir>, name: &str, set: DiskUrlSet, wanted: &FrontFilter) -> Result<TwoTierSet> {
        let vouches =
            |stamp: &Stamp| (stamp.set, stamp.branch) == (set.id(), set.branch()) && stamp.covers <= set.next_number();
        let stamp = Stamp::read(&*dir, name).map_err(Error::derived)?.filter(vouches);
        let found = match &stamp {
            Some(stamp) => match open_filter(&dir, name).map_err(Error::derived) {
                Err(Error::Corrupt { .. }) if stamp.is_saving() => None,
                found => found?.filter(|found| stamp.is_of(found.save_number()) || planted(Mistake::AnyFilterTrusted)),
            },
            None => None,
        };
        let (filter, covers) = match (found, stamp) {
            (Some(filter), Some(stamp)) => (filter, stamp.covers),
            _ => (make_filter(&dir, name, wanted)?, 0),
        };
        let front = Arc::new(Filter { filter, answered: AtomicU64::new(0) });
        let first = if planted(Mistake::RunsNotTold) { u64::MAX } else { covers };
        for fingerprint in set.fingerprints_since(first)? {
            front.insert(fingerprint?.to_u128())?;
        }
        set.put_in_front(Arc::clone(&front) as Arc<dyn Front>);
        let set = TwoTierSet { set, front, dir, name: name.to_owned(), covers: Mutex::new(covers) };
        if covers == 0 || set.is_worth_saving() {
            set.save_filter()?;
        }
        Ok(set)
    }

    /// The exact set: all that it can do beside, such as to forget and to go through fingerprints, keeps the filter right.
    pub fn exact(&self) -> &DiskUrlSet {
        &self.set
    }

    /// The filter, for its figures. It holds fingerprints: URLs are not to be asked of it.
    pub fn filter_stats(&self) -> SeenStats {
        self.front.filter.stats()
    }

    /// How many tests were answered by the filter, since the set was opened.
    pub fn answered_by_filter(&self) -> u64 {
        self.front.answered.load(Ordering::Relaxed)
    }

    /// Saves the filter, so that a set that is opened after a crash need not read its runs for it. `sync` and closing do that when it is
    /// worth it.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Poisoned`], of the filter: the set takes no more URLs then.
    pub fn save_filter(&self) -> Result<()> {
        let mut covers = guard(&self.covers);
        // Before the filter is written: what is added meanwhile is in files from this number on.
        let (set, branch, next_number) = (self.set.id(), self.set.branch(), self.set.next_number());
        if next_number == *covers {
            return Ok(());
        }
        let stamp = Stamp { set, branch, covers: next_number, save: files::new_number(&*self.dir)?, saving: 0 };
        if !planted(Mistake::SavingNotMarked) {
            let before = Stamp { covers: *covers, save: self.front.filter.save_number(), saving: stamp.save, ..stamp };
            before.write(&*self.dir, &self.name)?;
        }
        if planted(Mistake::StampFirst) {
            stamp.write(&*self.dir, &self.name)?;
        }
        self.front.filter.save_as(stamp.save)?;
        stamp.write(&*self.dir, &self.name)?;
        *covers = stamp.covers;
        Ok(())
    }

    fn is_worth_saving(&self) -> bool {
        let covers = *guard(&self.covers);
        let behind = self.set.run_bytes_since(covers);
        behind > 0 && behind >= self.front.filter.memory_bytes()
    }
}

fn filter_name(name: &str) -> String {
    format!("{name}.filter")
}

/// With what a file begins; `None` if there is none.
fn magic(dir: &dyn Dir, name: &str) -> Result<Option<[u8; 8]>> {
    if !files::exists(dir, name)? {
        return Ok(None);
    }
    let mut magic = [0; 8];
    let file = dir.open(name, Access::Read).map_err(Error::io("open", name))?;
    file.read_at(&mut magic, 0).map_err(Error::io("read", name))?;
    Ok(Some(magic))
}

/// # Errors
/// `Io`, if there is a file that is no filter.
fn check_place(dir: &dyn Dir, name: &str) -> Result<()> {
    match magic(dir, name)? {
        None | Some(BLOOM_MAGIC | GROWING_MAGIC) => Ok(()),
        Some(_) => Err(Error::io("create", name)(std::io::ErrorKind::AlreadyExists.into())),
    }
}

/// The saved filter, of whatever kind; `None` if there is none.
fn open_filter(dir: &Arc<dyn Dir>, name: &str) -> Result<Option<Box<dyn Saved>>> {
    let name = filter_name(name);
    let Some(magic) = magic(&**dir, &name)? else { return Ok(None) };
    Ok(Some(match magic {
        BLOOM_MAGIC => Box::new(BloomFilter::open(Arc::clone(dir), &name)?),
        GROWING_MAGIC => Box::new(GrowingFilter::open(Arc::clone(dir), &name)?),
        _ => return Err(Error::corrupt(&name, 0, "this is no filter")),
    }))
}

/// An empty filter. It is no save's, so no stamp vouches for it but one that covers nothing.
fn make_filter(dir: &Arc<dyn Dir>, name: &str, wanted: &FrontFilter) -> Result<Box<dyn Saved>> {
    let name = filter_name(name);
    check_place(&**dir, &name)?;
    files::remove(&**dir, &name)?;
    wanted.create(dir, &name)
}

impl SeenSet for TwoTierSet {
    fn check_and_insert(&self, url: &[u8]) -> Result<Verdict> {
        self.set.check_and_insert(url)
    }

    /// New URLs are told without the exact set's lock.
    fn contains(&self, url: &[u8]) -> Result<Verdict> {
        let fingerprint = self.set.fingerprint(url).to_u128();
        if self.front.is_new(fingerprint)? {
            return Ok(Verdict::New);
        }
        self.set.contains_fingerprint(fingerprint)
    }

    /// As [`DiskUrlSet::check_and_insert_all`]: there are no verdicts after an error.
    fn check_and_insert_batch(&self, urls: &[&[u8]], verdicts: &mut Vec<Verdict>) -> Result<()> {
        self.set.check_and_insert_batch(urls, verdicts)
    }

    fn contains_batch(&self, urls: &[&[u8]], verdicts: &mut Vec<Verdict>) -> Result<()> {
        self.set.contains_batch(urls, verdicts)
    }

    fn len(&self) -> u64 {
        self.set.len()
    }

    /// Of both.
    fn memory_bytes(&self) -> u64 {
        self.set.memory_bytes() + self.front.filter.memory_bytes()
    }

    /// Of both.
    fn disk_bytes(&self) -> u64 {
        self.set.disk_bytes() + self.front.filter.disk_bytes() + stamp::BYTES as u64
    }

    /// Of the exact set: the filter's errors are asked of it.
    fn false_positive_rate(&self) -> f64 {
        self.set.false_positive_rate()
    }

    fn expected_loss(&self) -> f64 {
        self.set.expected_loss()
    }

    /// Makes the exact set durable, and saves the filter if that is worth it.
    fn sync(&self) -> Result<()> {
        self.set.sync()?;
        if self.is_worth_saving() { self.save_filter() } else { Ok(()) }
    }

    fn stats(&self) -> SeenStats {
        SeenStats { memory_bytes: self.memory_bytes(), disk_bytes: self.disk_bytes(), ..self.set.stats() }
    }
}

impl Drop for TwoTierSet {
    /// Saves the filter, if it can: the set is opened the faster then.
    fn drop(&mut self) {
        let _ = self.save_filter();
    }
}

#[cfg(test)]
mod tests;
