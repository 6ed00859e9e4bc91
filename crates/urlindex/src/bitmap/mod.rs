//! Bitmaps: a bit for each slot; a URL's slot is the head of its MD5, or one for each of some old
//! hash functions.
//!
//! By MD5: the lowest n bits of the digest as a little-endian number (n = 28: 32 MiB).
//!
//! The file holds the words in order, little-endian, and nothing else, so that other programs can
//! read it. It is mapped: an insert is in the file when it returns (a killed process loses
//! nothing), and durable after [`SeenSet::sync`](crate::SeenSet::sync). All else is in [`sidecar`].
//!
//! [`HashBitmap`] has a slot for each of its functions ([`slots`]): the Bloom filter that C programs
//! write, as bare bits that they go on reading.
//!
//! Invariants: bits are only ever set; a word is changed only after the sidecar says, durably,
//! that the file is open, so that the checksums of a closed file are never those of another state.
//! A URL of which a crash left only some of its bits is new, unless others have the rest.

mod kinds;
mod sidecar;
mod slots;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use filemap_io::layout::get;
use filemap_io::{Access, Advice, Dir, File, Latch, Lock, Map, StorageError, guard};
use md5::{Digest, Md5};

use crate::bloom::shape::standard_loss;
use crate::error::{Error, Result};
use crate::files::{self, beside, in_any_dir, place};
use crate::seen::{SeenSet, SeenStats, Verdict};
use sidecar::{Sidecar, State};
use slots::{HashSlots, Md5Slots, Shape, Slots};

pub use slots::SlotHash;

/// Whether the bitmap of this name, which has a sidecar, is a [`HashBitmap`].
///
/// # Errors
/// As [`Bitmap::open`].
pub(crate) fn is_hashed(dir: &dyn Dir, name: &str) -> Result<bool> {
    Ok(matches!(Sidecar::read(dir, name)?.shape, Shape::Hashes { .. }))
}

/// URLs of a batch whose words are fetched together: the processor waits for memory once, not for
/// each.
const FETCHED_TOGETHER: usize = 32;

/// Locks that concurrent inserts of several bits take turns on.
const TURNS: usize = 64;

/// The MD5 bitmap, on a mapped file. See the module for what it is; [`crate::BloomFilter`] errs
/// far less in the same space.
pub type Md5Bitmap = Bitmap<Md5Slots>;

/// A Bloom filter of some functions of old, on a mapped file of bare bits: the bit of a slot is
/// bit slot mod 8 of byte slot / 8.
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

/// A mapped file of bits, by one of the two ways to choose a URL's. See [`Md5Bitmap`] and
/// [`HashBitmap`].
#[derive(Debug)]
pub struct Bitmap<S> {
    slots: S,
    dir: Arc<dyn Dir>,
    name: String,
    sidecar: Sidecar,
    file: Arc<dyn File>,
    map: Arc<dyn Map>,
    ones: AtomicU64,
    /// Of them, those that were there when it was opened.
    ones_before: u64,
    /// Whether the sidecar says that the file is open.
    is_open: AtomicBool,
    opening: Mutex<()>,
    turns: [Mutex<()>; TURNS],
    poison: Latch,
    /// None: it is open to be read.
    lock: Option<Box<dyn Lock>>,
}

/// How often a bitmap is looked at again that another process changes while it is opened to be
/// read.
const LOOKS: u32 = 5;

/// Where `url` has its bit in a bitmap of 2^`bits` slots.
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
        if files::exists(&*dir, name)? {
            return Err(Error::io("create", name)(std::io::ErrorKind::AlreadyExists.into()));
        }
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

    /// Opens a bitmap. One that was closed is checked against its checksums, which reads all of
    /// it.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`] with the first bad segment's offset;
    /// [`StorageError::NewerFormat`]; [`StorageError::Locked`]; [`StorageError::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<Bitmap<S>> {
        let (dir, name) = place(path.as_ref())?;
        Bitmap::open_in(dir, &name)
    }

    in_any_dir! {
        /// As [`Bitmap::open`], in any directory.
        ///
        /// # Errors
        /// As there.
        fn open_in(dir: Arc<dyn Dir>, name: &str) -> Result<Bitmap<S>> {
            let lock = files::lock(&*dir, name)?;
            let sidecar = Sidecar::read(&*dir, name)?;
            Bitmap::with(dir, name, sidecar, Some(lock))
        }
    }

    /// Opens a bitmap to be read, without its lock: another process may be inserting, and what it
    /// inserts is seen here at once (but not counted). Inserts are refused with
    /// [`Error::ReadOnly`].
    ///
    /// # Errors
    /// [`StorageError::Corrupt`], [`StorageError::NewerFormat`] and [`StorageError::Io`] as
    /// [`Bitmap::open`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Bitmap<S>> {
        let (dir, name) = place(path.as_ref())?;
        Bitmap::open_read_only_in(dir, &name)
    }

    in_any_dir! {
        /// As [`Bitmap::open_read_only`], in any directory.
        ///
        /// # Errors
        /// As there.
        fn open_read_only_in(dir: Arc<dyn Dir>, name: &str) -> Result<Bitmap<S>> {
            for _ in 1..LOOKS {
                let sidecar = Sidecar::read(&*dir, name)?;
                let was_closed = sidecar.state == State::Closed;
                match Bitmap::with(Arc::clone(&dir), name, sidecar, None) {
                    // A writer has begun between our looks at the two files, or ended.
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
        if files::exists(&*dir, &beside::meta(name))? {
            return Err(Error::io("create", &beside::meta(name))(std::io::ErrorKind::AlreadyExists.into()));
        }
        let sidecar = Sidecar::new(files::new_id(&*dir)?, slots.shape(), State::Open);
        sidecar.write(&*dir, name)?;
        Bitmap::with(dir, name, sidecar, Some(lock))
    }

    fn with(dir: Arc<dyn Dir>, name: &str, sidecar: Sidecar, lock: Option<Box<dyn Lock>>) -> Result<Bitmap<S>> {
        let Some(slots) = S::of(sidecar.shape) else {
            let what = "its sidecar is that of a bitmap with other slots".to_owned();
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
            // A sync that failed may have left bytes in the cache that the device does not have.
            file.sync().map_err(Error::io("sync", name))?;
            file.advise(Advice::DropCache, 0, 0);
        }
        let ones = sidecar.check(&*file, name)?;
        // The last word may reach past the file's end, in its last page; no slot is there.
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

    /// Syncs, and notes the checksums of all segments, so that damage is found when the bitmap is
    /// opened again. A bitmap that is only dropped, or whose process is killed, loses nothing, but
    /// is not checked.
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

    /// How many slots there are.
    pub fn slots(&self) -> u64 {
        self.slots.slots()
    }

    /// The rate that theory gives this bitmap once `urls` URLs were inserted: (1 - e^(-k urls /
    /// slots))^k, where each has k bits.
    pub fn theoretical_rate(&self, urls: u64) -> f64 {
        let k = self.slots.probes() as f64;
        (-(-k * urls as f64 / self.slots() as f64).exp_m1()).powf(k)
    }

    /// About how many URLs have set so many bits.
    fn urls_of(&self, ones: u64) -> f64 {
        let (slots, k) = (self.slots() as f64, self.slots.probes() as f64);
        -slots / k * (-(ones as f64) / slots).ln_1p()
    }

    /// How many URLs these bits count as: of one bit each, those that set one.
    fn count_of(&self, ones: u64) -> u64 {
        if self.slots.probes() == 1 { ones } else { self.urls_of(ones.min(self.slots() - 1)).round() as u64 }
    }

    /// Whether a URL has the same slot in `other`.
    ///
    /// # Errors
    /// `Unsupported`.
    pub(crate) fn check_alike(&self, other: &Bitmap<S>) -> Result<()> {
        if self.slots.shape() == other.slots.shape() {
            return Ok(());
        }
        let (theirs, ours) = (other.slots.shape(), self.slots.shape());
        let why = format!(
            "{} has {theirs} and it has {ours}: their bits mean other URLs. Insert the URLs themselves",
            other.name
        );
        Err(Error::Unsupported { file: self.name.clone(), op: "take that set up", why })
    }

    /// Sets every bit that `other` has: all its URLs are seen here from now on. How many bits were
    /// not set before.
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

    /// The word of a URL's bit, and the bit in it. Words of 32 bits in order are, on a
    /// little-endian machine, words of 64 in order.
    #[inline]
    fn place(&self, url: &[u8], probe: usize) -> (usize, u64) {
        let slot = self.slots.slot(url, probe);
        ((slot >> 6) as usize, 1 << (slot & 63))
    }

    #[inline]
    fn is_set(&self, (word, bit): (usize, u64)) -> bool {
        self.map.words()[word].load(Ordering::Acquire) & bit != 0
    }

    /// Sets the bits of a URL, and says whether all were set. Of several bits an insert takes its
    /// turn, so that one alone sets the last of them.
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

    /// Sets a bit, and says whether it was set.
    #[inline]
    fn set(&self, (word, bit): (usize, u64)) -> Result<Verdict> {
        let word = &self.map.words()[word];
        // Looked at first: a store would take the cache line, and dirty the page.
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

    /// The places of some URLs, those of each together, whose words are on their way when it
    /// returns.
    fn fetch(&self, urls: &[&[u8]], places: &mut Vec<(usize, u64)>) -> u64 {
        places.clear();
        let probes = self.slots.probes();
        places.extend(
            urls.iter().flat_map(|url| (0..probes).map(move |probe| (url, probe))).map(|(url, p)| self.place(url, p)),
        );
        let words = self.map.words();
        places.iter().fold(0, |all, place| all | words[place.0].load(Ordering::Relaxed))
    }

    /// Says in the sidecar that the file is open, before the first bit that is set since it was
    /// closed.
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

    /// Of several bits a URL it is estimated from the bits that are set.
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

    /// From the bits that are set: n URLs of one bit set m (1 - e^(-n/m)) of m.
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
        SeenStats {
            urls: self.len(),
            inserted: self.len().saturating_sub(self.count_of(self.ones_before)),
            memory_bytes: self.memory_bytes(),
            disk_bytes: self.disk_bytes(),
            false_positive_rate: self.false_positive_rate(),
            expected_loss: self.expected_loss(),
        }
    }
}

#[cfg(test)]
mod tests;
