//! Mapped bitmaps with a bit for each slot. A URL has one slot, the head of its MD5, or k slots,
//! one for each of k classic hash functions.
//!
//! The MD5 slot is the lowest n bits of the digest as a little-endian number (n = 28: 32 MiB).
//!
//! The file holds the words in order, little-endian, and nothing else, for other programs to read.
//! It is mapped: an insert is in the file when it returns (a killed process loses nothing), and
//! durable after [`SeenSet::sync`](crate::SeenSet::sync). All else is in [`sidecar`].
//!
//! [`HashBitmap`] has a slot for each of its functions ([`slots`]): the Bloom filter of existing C
//! programs, as bare bits that they can still read.
//!
//! Invariants: bits are only ever set; a word changes only after the sidecar says durably that the
//! file is open, so the checksums of a closed file are never stale. A URL with only some of its
//! bits after a crash is new, unless other URLs set the rest.

mod kinds;
mod sidecar;
mod slots;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use filemap_io::layout::get;
use filemap_io::{Access, Advice, Dir, File, Latch, Lock, Map, StorageError, guard};
use md5::{Digest, Md5};

use crate::bloom::shape::standard_loss;
use crate::error::{Error, Result};
use crate::files::{self, beside, by_path};
use crate::seen::{SeenSet, SeenStats, Verdict};
use sidecar::{Sidecar, State};
use slots::{HashSlots, Md5Slots, Shape, Slots};

pub use slots::SlotHash;

/// Returns whether a bitmap with a sidecar is a [`HashBitmap`].
///
/// # Errors
/// As [`Bitmap::open`].
pub(crate) fn is_hashed(dir: &dyn Dir, name: &str) -> Result<bool> {
    Ok(matches!(Sidecar::read(dir, name)?.shape, Shape::Hashes { .. }))
}

/// URLs of a batch whose words are fetched together, so that their cache misses overlap.
const FETCHED_TOGETHER: usize = 32;

/// Locks for concurrent inserts of several bits.
const TURNS: usize = 64;

/// The MD5 bitmap, on a mapped file: a bit for the head of each URL's MD5. [`crate::BloomFilter`]
/// errs far less in the same space.
///
/// ```
/// use urlindex::{Md5Bitmap, SeenSet};
///
/// # let folder = tempfile::tempdir().unwrap();
/// let bitmap = Md5Bitmap::create(folder.path().join("seen"), 16).unwrap();
/// assert!(bitmap.insert(b"http://example.com/").unwrap());
/// bitmap.close().unwrap();
/// ```
pub type Md5Bitmap = Bitmap<Md5Slots>;

/// A Bloom filter of classic hash functions, on a mapped file of bare bits: slot s is bit s mod 8
/// of byte s / 8.
///
/// ```
/// use urlindex::hash::SlotHash;
/// use urlindex::{HashBitmap, SeenSet};
///
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("seen");
/// let filter = HashBitmap::create(&path, &[SlotHash::Bkdr, SlotHash::Ap], 1 << 20).unwrap();
/// assert!(filter.insert(b"http://example.com/").unwrap());
/// ```
pub type HashBitmap = Bitmap<HashSlots>;

/// A mapped file of bits. See [`Md5Bitmap`] and [`HashBitmap`].
#[derive(Debug)]
pub struct Bitmap<S> {
    slots: S,
    dir: Arc<dyn Dir>,
    name: String,
    sidecar: Sidecar,
    file: Arc<dyn File>,
    map: Arc<dyn Map>,
    ones: AtomicU64,
    /// Bits set at the opening.
    ones_before: u64,
    /// True if the sidecar marks the file as open.
    is_open: AtomicBool,
    opening: Mutex<()>,
    turns: [Mutex<()>; TURNS],
    poison: Latch,
    /// `None`: read-only.
    lock: Option<Box<dyn Lock>>,
}

/// Attempts of a read-only opening while another process changes the bitmap.
const LOOKS: u32 = 5;

/// The slot of `url` in a bitmap of 2^`bits` slots.
///
/// ```
/// assert_eq!(urlindex::hash::md5_slot(b"http://www.ouc.edu.cn/", 32), 1_073_542_761);
/// assert_eq!(urlindex::hash::md5_slot(b"http://www.ouc.edu.cn/", 28), 268_236_393);
/// ```
pub fn md5_slot(url: impl AsRef<[u8]>, bits: u32) -> u64 {
    let digest = Md5::digest(url);
    get::<u64>(&digest, 0) & (u64::MAX >> (64 - bits.clamp(1, 64)))
}

impl<S: Slots> Bitmap<S> {
    fn made(dir: Arc<dyn Dir>, name: &str, slots: S) -> Result<Bitmap<S>> {
        let lock = files::lock(&*dir, name)?;
        files::check_absent(&*dir, name)?;
        let len = slots.shape().file_bytes();
        files::check_space(&*dir, name, len)?;
        files::replace(&*dir, name, |file, new| {
            let zeros = vec![0; (1 << 20).min(len as usize)];
            for at in (0..len).step_by(zeros.len()) {
                let piece = &zeros[..(len - at).min(zeros.len() as u64) as usize];
                file.write_at(piece, at).map_err(Error::io("write", new))?;
            }
            Ok(())
        })?;
        let sidecar = Sidecar::new(files::new_id(&*dir)?, slots.shape(), State::Open);
        sidecar.write(&*dir, name)?;
        Bitmap::with(dir, name, sidecar, Some(lock))
    }

    by_path! {
        /// Opens a bitmap. A closed one is read whole and checked against its checksums.
        ///
        /// # Errors
        /// [`StorageError::Corrupt`] with the first bad segment's offset;
        /// [`StorageError::NewerFormat`]; [`StorageError::Locked`]; [`StorageError::Io`].
        fn open, open_in(dir, name) -> Result<Bitmap<S>> {
            let lock = files::lock(&*dir, name)?;
            let sidecar = Sidecar::read(&*dir, name)?;
            Bitmap::with(dir, name, sidecar, Some(lock))
        }
    }

    by_path! {
        /// Opens a bitmap read-only, without its lock. Inserts of another process are seen at
        /// once, but not counted. Inserts here are refused with [`Error::ReadOnly`].
        ///
        /// # Errors
        /// [`StorageError::Corrupt`], [`StorageError::NewerFormat`] and [`StorageError::Io`] as
        /// [`Bitmap::open`].
        fn open_read_only, open_read_only_in(dir, name) -> Result<Bitmap<S>> {
            for _ in 1..LOOKS {
                let sidecar = Sidecar::read(&*dir, name)?;
                let was_closed = sidecar.state == State::Closed;
                match Bitmap::with(Arc::clone(&dir), name, sidecar, None) {
                    // A writer started or ended between the reads of the two files.
                    Err(Error::Storage(StorageError::Corrupt { .. })) if was_closed => {}
                    opened => return opened,
                }
            }
            let sidecar = Sidecar::read(&*dir, name)?;
            Bitmap::with(dir, name, sidecar, None)
        }
    }

    fn taken_up(dir: Arc<dyn Dir>, name: &str, slots: impl FnOnce(u64) -> Result<S>) -> Result<Bitmap<S>> {
        let lock = files::lock(&*dir, name)?;
        let file = dir.open(name, Access::Read).map_err(Error::io("open", name))?;
        let slots = slots(file.len().map_err(Error::io("length", name))?)?;
        files::check_absent(&*dir, &beside::meta(name))?;
        let sidecar = Sidecar::new(files::new_id(&*dir)?, slots.shape(), State::Open);
        sidecar.write(&*dir, name)?;
        Bitmap::with(dir, name, sidecar, Some(lock))
    }

    fn with(dir: Arc<dyn Dir>, name: &str, sidecar: Sidecar, lock: Option<Box<dyn Lock>>) -> Result<Bitmap<S>> {
        let Some(slots) = S::of(sidecar.shape) else {
            let what = "its sidecar is that of the other kind of bitmap".to_owned();
            return Err(Error::NotASet { file: name.to_owned(), what });
        };
        let access = if lock.is_some() { Access::Write } else { Access::Read };
        let file = dir.open(name, access).map_err(Error::io("open", name))?;
        let (len, wanted) = (file.len().map_err(Error::io("length", name))?, sidecar.shape.file_bytes());
        if len != wanted {
            let what = format!("the file has {len} bytes, a bitmap of {} slots has {wanted}", slots.slots());
            return Err(Error::corrupt(name, len.min(wanted), what));
        }
        if sidecar.state == State::Open && lock.is_some() {
            // After a failed sync the page cache may hold what the device does not.
            file.sync().map_err(Error::io("sync", name))?;
            file.advise(Advice::DropCache, 0, 0);
        }
        let ones = sidecar.check(&*file, name)?;
        // The last word may reach past the end of the file, within its last page; no slot is
        // there.
        let mapped = wanted.next_multiple_of(8) as usize;
        let map = match lock {
            Some(_) => file.map_writable(0, mapped),
            None => file.map(0, mapped),
        };
        let map = map.map_err(Error::io("map", name))?;
        Ok(Bitmap {
            slots,
            dir,
            name: name.to_owned(),
            is_open: AtomicBool::new(sidecar.state == State::Open),
            sidecar,
            file,
            map,
            ones: AtomicU64::new(ones),
            ones_before: ones,
            opening: Mutex::new(()),
            turns: std::array::from_fn(|_| Mutex::new(())),
            poison: Latch::default(),
            lock,
        })
    }

    /// # Errors
    /// `ReadOnly`; `Poisoned`.
    #[inline]
    fn check_writable(&self) -> Result<()> {
        if self.lock.is_none() {
            return Err(Error::ReadOnly { file: self.name.clone() });
        }
        Ok(self.poison.check()?)
    }

    /// Syncs, and records the checksums of all segments, so that damage is found at the next
    /// opening. A bitmap that is only dropped, or whose process is killed, loses nothing, but is
    /// not checked.
    ///
    /// # Errors
    /// [`StorageError::Io`]; [`StorageError::Poisoned`].
    pub fn close(self) -> Result<()> {
        if self.lock.is_none() {
            return Ok(());
        }
        self.sync()?;
        if !self.is_open.load(Ordering::Acquire) {
            return Ok(());
        }
        self.poison.guard(|| {
            let closed = self.sidecar.closed(self.ones.load(Ordering::Acquire), &*self.file, &self.name)?;
            closed.write(&*self.dir, &self.name)
        })
    }

    /// Number of slots.
    pub fn slots(&self) -> u64 {
        self.slots.slots()
    }

    /// The theoretical rate with `urls` URLs of k bits each: (1 - e^(-k urls / slots))^k.
    pub fn theoretical_rate(&self, urls: u64) -> f64 {
        let k = self.slots.probes() as f64;
        (-(-k * urls as f64 / self.slots() as f64).exp_m1()).powf(k)
    }

    /// Estimated number of URLs that set `ones` bits.
    fn urls_of(&self, ones: u64) -> f64 {
        let (slots, k) = (self.slots() as f64, self.slots.probes() as f64);
        -slots / k * (-(ones as f64) / slots).ln_1p()
    }

    /// Number of URLs counted for `ones` set bits: exact with one bit per URL (inserts that set a
    /// bit), else estimated.
    fn count_of(&self, ones: u64) -> u64 {
        if self.slots.probes() == 1 { ones } else { self.urls_of(ones.min(self.slots() - 1)).round() as u64 }
    }

    /// Checks that a URL has the same slots in `other`.
    ///
    /// # Errors
    /// `Unsupported`.
    pub(crate) fn check_alike(&self, other: &Bitmap<S>) -> Result<()> {
        if self.slots.shape() == other.slots.shape() {
            return Ok(());
        }
        let (theirs, ours) = (other.slots.shape(), self.slots.shape());
        let why = format!(
            "{} has {theirs}, this set has {ours}: their bits mean different URLs. Insert the URLs themselves",
            other.name
        );
        Err(Error::Unsupported { file: self.name.clone(), op: "merge that set", why })
    }

    /// Sets every bit that is set in `other`, so all its URLs are seen here. Returns how many bits
    /// were new.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if `other` has another number of slots; [`Error::ReadOnly`];
    /// [`StorageError::Poisoned`]; [`StorageError::Io`].
    pub fn merge(&self, other: &Bitmap<S>) -> Result<u64> {
        self.check_writable()?;
        self.check_alike(other)?;
        let mut added = 0;
        for (word, theirs) in self.map.words().iter().zip(other.map.words()) {
            let missing = theirs.load(Ordering::Acquire) & !word.load(Ordering::Relaxed);
            if missing == 0 {
                continue;
            }
            if !self.is_open.load(Ordering::Acquire) {
                self.mark_open()?;
            }
            let before = word.fetch_or(missing, Ordering::AcqRel);
            added += u64::from((missing & !before).count_ones());
        }
        self.ones.fetch_add(added, Ordering::Relaxed);
        Ok(added)
    }

    /// Word and bit mask of a URL's slot number `probe`. On a little-endian machine, words of 32
    /// bits in order are words of 64 bits in order.
    #[inline]
    fn place(&self, url: &[u8], probe: usize) -> (usize, u64) {
        let slot = self.slots.slot(url, probe);
        ((slot >> 6) as usize, 1 << (slot & 63))
    }

    #[inline]
    fn is_set(&self, (word, bit): (usize, u64)) -> bool {
        self.map.words()[word].load(Ordering::Acquire) & bit != 0
    }

    /// Sets all bits of a URL; `New` if any was unset. Inserts of several bits take turns, so that
    /// only one sets the last bit.
    #[inline]
    fn set_all(&self, places: &[(usize, u64)]) -> Result<Verdict> {
        let &[place] = places else {
            if places.iter().all(|place| self.is_set(*place)) {
                return Ok(Verdict::ProbablySeen);
            }
            let _turn = guard(&self.turns[places[0].0 % TURNS]);
            let mut verdict = Verdict::ProbablySeen;
            for place in places {
                if self.set(*place)?.is_new() {
                    verdict = Verdict::New;
                }
            }
            return Ok(verdict);
        };
        self.set(place)
    }

    /// Sets a bit; `New` if it was unset.
    #[inline]
    fn set(&self, (word, bit): (usize, u64)) -> Result<Verdict> {
        let word = &self.map.words()[word];
        // Read first: a store would take the cache line and dirty the page.
        if word.load(Ordering::Relaxed) & bit != 0 {
            return Ok(Verdict::ProbablySeen);
        }
        if !self.is_open.load(Ordering::Acquire) {
            self.mark_open()?;
        }
        if word.fetch_or(bit, Ordering::AcqRel) & bit != 0 {
            return Ok(Verdict::ProbablySeen);
        }
        self.ones.fetch_add(1, Ordering::Relaxed);
        Ok(Verdict::New)
    }

    /// Collects the places of some URLs, in order, and starts fetching their words.
    fn fetch(&self, urls: &[&[u8]], places: &mut Vec<(usize, u64)>) -> u64 {
        places.clear();
        let probes = self.slots.probes();
        places.extend(
            urls.iter().flat_map(|url| (0..probes).map(move |probe| (url, probe))).map(|(url, p)| self.place(url, p)),
        );
        let words = self.map.words();
        places.iter().fold(0, |all, place| all | words[place.0].load(Ordering::Relaxed))
    }

    /// Marks the file as open in the sidecar, before the first bit is set after a close.
    #[cold]
    fn mark_open(&self) -> Result<()> {
        let _turn = guard(&self.opening);
        if self.is_open.load(Ordering::Acquire) {
            return Ok(());
        }
        let open = Sidecar::new(self.sidecar.id, self.sidecar.shape, State::Open);
        self.poison.guard(|| open.write(&*self.dir, &self.name))?;
        self.is_open.store(true, Ordering::Release);
        Ok(())
    }
}

impl<S: Slots> SeenSet for Bitmap<S> {
    fn check_and_insert(&self, url: &[u8]) -> Result<Verdict> {
        self.check_writable()?;
        if self.slots.probes() == 1 {
            return self.set(self.place(url, 0));
        }
        let mut places = Vec::with_capacity(self.slots.probes());
        self.fetch(&[url], &mut places);
        self.set_all(&places)
    }

    fn check_and_insert_batch(&self, urls: &[&[u8]], verdicts: &mut Vec<Verdict>) -> Result<()> {
        self.check_writable()?;
        verdicts.clear();
        let mut places = Vec::with_capacity(FETCHED_TOGETHER);
        for urls in urls.chunks(FETCHED_TOGETHER) {
            std::hint::black_box(self.fetch(urls, &mut places));
            for places in places.chunks(self.slots.probes()) {
                verdicts.push(self.set_all(places)?);
            }
        }
        Ok(())
    }

    fn contains(&self, url: &[u8]) -> Result<Verdict> {
        let is_there = (0..self.slots.probes()).all(|probe| self.is_set(self.place(url, probe)));
        Ok(if is_there { Verdict::ProbablySeen } else { Verdict::New })
    }

    fn contains_batch(&self, urls: &[&[u8]], verdicts: &mut Vec<Verdict>) -> Result<()> {
        verdicts.clear();
        verdicts.reserve(urls.len());
        let mut places = Vec::with_capacity(FETCHED_TOGETHER);
        for urls in urls.chunks(FETCHED_TOGETHER) {
            std::hint::black_box(self.fetch(urls, &mut places));
            let is_there = |places: &[(usize, u64)]| places.iter().all(|place| self.is_set(*place));
            let verdict = |there: bool| if there { Verdict::ProbablySeen } else { Verdict::New };
            verdicts.extend(places.chunks(self.slots.probes()).map(|places| verdict(is_there(places))));
        }
        Ok(())
    }

    /// Estimated from the set bits if a URL has several.
    fn len(&self) -> u64 {
        self.count_of(self.ones.load(Ordering::Relaxed))
    }

    fn memory_bytes(&self) -> u64 {
        self.sidecar.shape.file_bytes() + size_of::<Bitmap<S>>() as u64
    }

    fn disk_bytes(&self) -> u64 {
        self.sidecar.shape.file_bytes() + sidecar::FIXED_BYTES as u64
    }

    fn false_positive_rate(&self) -> f64 {
        let share = self.ones.load(Ordering::Relaxed) as f64 / self.slots() as f64;
        share.powi(self.slots.probes() as i32)
    }

    /// Estimated from the number of bits set: n URLs set m (1 - e^(-n/m)) of m bits.
    fn expected_loss(&self) -> f64 {
        let ones = self.ones.load(Ordering::Relaxed);
        let (urls, probes) = (self.urls_of(ones), self.slots.probes());
        match urls.is_finite() {
            true if probes == 1 => (urls - ones as f64).max(0.0),
            true => standard_loss(self.slots(), probes as u32, urls),
            false => f64::INFINITY,
        }
    }

    fn sync(&self) -> Result<()> {
        if self.lock.is_none() {
            return Ok(());
        }
        self.poison.guard(|| self.file.sync().map_err(Error::io("sync", &self.name)))
    }

    fn stats(&self) -> SeenStats {
        SeenStats::of(self, self.len().saturating_sub(self.count_of(self.ones_before)))
    }
}

#[cfg(test)]
mod tests;
