//! `Md5Bitmap`: one bit per slot, where a URL's slot is the head of its MD5. The oldest trick, as it is told.
//!
//! The slot of a URL is the first 32 bits of its MD5, little-endian, masked to 2^n (n = 28: 32 MiB). Of those bits,
//! numbered from 1 at the most significant, 5 to 16 are the *segment* (4,096), 17 to 27 the 32-bit *word* in it (2,048) and
//! 28 to 32 the bit of the word, which is no more than saying that slots lie in order. Above n = 32, 32 more bits of the
//! digest are used.
//!
//! The file holds the words in order, little-endian, and nothing else, so that other programs can read it and a bit stands
//! where they look for it. It is mapped: an insert is in the file when it returns (a killed process loses nothing), and
//! durable after [`SeenSet::sync`](crate::SeenSet::sync). What must be known beside it stands in [`sidecar`].
//!
//! Invariants: bits are only ever set; a word is changed only after the sidecar says, durably, that the file is open, so
//! that the checksums of a closed file are never those of another state. A bit is one URL's whole trace, so nothing can be
//! half-written.

mod sidecar;

pub(crate) use sidecar::SUFFIX as SIDECAR_SUFFIX;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use filemap_io::{Access, Advice, Dir, File, Lock, Map};
use md5::{Digest, Md5};

use crate::error::{Error, Result};
use crate::files::{self, Poison, guard};
use crate::seen::{SeenSet, SeenStats, Verdict};
use sidecar::{SEGMENT_BYTES, Sidecar, State};

/// URLs of a batch whose words are fetched together: the processor waits for memory once, not for each.
const FETCHED_TOGETHER: usize = 32;

/// The least and greatest n.
const BITS: std::ops::RangeInclusive<u32> = 16..=36;

/// The MD5 bitmap, on a mapped file. See the module for what it is; [`crate::BloomFilter`] errs far less in the same space.
#[derive(Debug)]
pub struct Md5Bitmap {
    dir: Arc<dyn Dir>,
    name: String,
    sidecar: Sidecar,
    file: Arc<dyn File>,
    map: Arc<dyn Map>,
    mask: u64,
    ones: AtomicU64,
    /// Of them, those that were there when it was opened.
    ones_before: u64,
    /// Whether the sidecar says that the file is open.
    is_open: AtomicBool,
    opening: Mutex<()>,
    poison: Poison,
    /// None: it is open to be read.
    lock: Option<Box<dyn Lock>>,
}

/// How often a bitmap is looked at again that another process changes while it is opened to be read.
const LOOKS: u32 = 5;

/// Where `url` has its bit in a bitmap of 2^`bits` slots.
///
/// ```
/// assert_eq!(urlindex::md5_slot(b"http://www.ouc.edu.cn/", 32), 1_073_542_761);
/// assert_eq!(urlindex::md5_slot(b"http://www.ouc.edu.cn/", 28), 268_236_393);
/// ```
pub fn md5_slot(url: &[u8], bits: u32) -> u64 {
    let digest = Md5::digest(url);
    u64::from_le_bytes(files::array(&digest, 0)) & (u64::MAX >> (64 - bits.clamp(1, 64)))
}

impl Md5Bitmap {
    /// The n of the original: 2^28 slots, 32 MiB.
    pub const DEFAULT_BITS: u32 = 28;

    /// Creates an empty bitmap of 2^`bits` slots in the new file `name`, whose space it takes at once.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] unless `bits` is 16 to 36; [`Error::Locked`]; [`Error::Io`], with
    /// [`std::io::ErrorKind::AlreadyExists`] if there is a file of that name.
    pub fn create(dir: Arc<dyn Dir>, name: &str, bits: u32) -> Result<Md5Bitmap> {
        if !BITS.contains(&bits) {
            return Err(Error::option("bits", format!("{bits} is not 16 to 36")));
        }
        let lock = files::lock(&*dir, name)?;
        if files::exists(&*dir, name)? {
            return Err(Error::io("create", name)(std::io::ErrorKind::AlreadyExists.into()));
        }
        let len = 1u64 << (bits - 3);
        files::check_space(&*dir, name, len)?;
        files::replace(&*dir, name, |file, new| {
            let zeros = vec![0; SEGMENT_BYTES.max(1 << 20).min(len as usize)];
            for at in (0..len).step_by(zeros.len()) {
                file.write_at(&zeros, at).map_err(Error::io("write", new))?;
            }
            Ok(())
        })?;
        let sidecar = Sidecar::new(files::new_id(&*dir)?, bits, State::Open);
        sidecar.write(&*dir, name)?;
        Md5Bitmap::with(dir, name, sidecar, Some(lock))
    }

    /// Opens a bitmap. One that was closed is checked against its checksums, which reads all of it.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the first bad segment's offset; [`Error::NewerFormat`]; [`Error::Locked`]; [`Error::Io`].
    pub fn open(dir: Arc<dyn Dir>, name: &str) -> Result<Md5Bitmap> {
        let lock = files::lock(&*dir, name)?;
        let sidecar = Sidecar::read(&*dir, name)?;
        Md5Bitmap::with(dir, name, sidecar, Some(lock))
    }

    /// Opens a bitmap to be read, without its lock: another process may be inserting, and what it inserts is seen here at once (but not
    /// counted). Inserts are refused with [`Error::ReadOnly`].
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::NewerFormat`] and [`Error::Io`] as [`Md5Bitmap::open`].
    pub fn open_read_only(dir: Arc<dyn Dir>, name: &str) -> Result<Md5Bitmap> {
        for _ in 1..LOOKS {
            let sidecar = Sidecar::read(&*dir, name)?;
            let was_closed = sidecar.state == State::Closed;
            match Md5Bitmap::with(Arc::clone(&dir), name, sidecar, None) {
                // A writer has begun between our looks at the two files, or ended.
                Err(Error::Corrupt { .. }) if was_closed => {}
                opened => return opened,
            }
        }
        let sidecar = Sidecar::read(&*dir, name)?;
        Md5Bitmap::with(dir, name, sidecar, None)
    }

    /// Takes up a file of words that another program made, or that a cut-short [`Md5Bitmap::create`] left: it gets a sidecar.
    ///
    /// # Errors
    /// [`Error::NotASet`] if its length is no power of two between 8 KiB and 8 GiB; [`Error::Io`], with
    /// [`std::io::ErrorKind::AlreadyExists`] if it has a sidecar; [`Error::Locked`].
    pub fn adopt(dir: Arc<dyn Dir>, name: &str) -> Result<Md5Bitmap> {
        let lock = files::lock(&*dir, name)?;
        let file = dir.open(name, Access::Read).map_err(Error::io("open", name))?;
        let len = file.len().map_err(Error::io("length", name))?;
        let bits = len.checked_ilog2().unwrap_or(0) + 3;
        if !len.is_power_of_two() || !BITS.contains(&bits) {
            let what = format!("it has {len} bytes, and a bitmap has a power of two of them between 8 KiB and 8 GiB");
            return Err(Error::NotASet { file: name.to_owned(), what });
        }
        if files::exists(&*dir, &sidecar::file_name(name))? {
            return Err(Error::io("create", &sidecar::file_name(name))(std::io::ErrorKind::AlreadyExists.into()));
        }
        let sidecar = Sidecar::new(files::new_id(&*dir)?, bits, State::Open);
        sidecar.write(&*dir, name)?;
        Md5Bitmap::with(dir, name, sidecar, Some(lock))
    }

    fn with(dir: Arc<dyn Dir>, name: &str, sidecar: Sidecar, lock: Option<Box<dyn Lock>>) -> Result<Md5Bitmap> {
        let access = if lock.is_some() { Access::Write } else { Access::Read };
        let file = dir.open(name, access).map_err(Error::io("open", name))?;
        let (len, wanted) = (file.len().map_err(Error::io("length", name))?, 1u64 << (sidecar.bits - 3));
        if len != wanted {
            let what = format!("the file has {len} bytes, a bitmap of 2^{} slots has {wanted}", sidecar.bits);
            return Err(Error::corrupt(name, len.min(wanted), what));
        }
        if sidecar.state == State::Open && lock.is_some() {
            // A sync that failed may have left bytes in the cache that the device does not have.
            file.sync().map_err(Error::io("sync", name))?;
            file.advise(Advice::DropCache, 0, 0);
        }
        let ones = sidecar.check(&*file, name)?;
        let map = match lock {
            Some(_) => file.map_writable(0, wanted as usize),
            None => file.map(0, wanted as usize),
        };
        let map = map.map_err(Error::io("map", name))?;
        Ok(Md5Bitmap {
            dir,
            name: name.to_owned(),
            mask: (wanted << 3) - 1,
            is_open: AtomicBool::new(sidecar.state == State::Open),
            sidecar,
            file,
            map,
            ones: AtomicU64::new(ones),
            ones_before: ones,
            opening: Mutex::new(()),
            poison: Poison::default(),
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
        self.poison.check()
    }

    /// Syncs, and notes the checksums of all segments, so that damage is found when the bitmap is opened again. A bitmap that is
    /// only dropped, or whose process is killed, loses nothing, but is not checked.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Poisoned`].
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

    /// The n of this bitmap: it has 2^n slots.
    pub fn bits(&self) -> u32 {
        self.sidecar.bits
    }

    /// The rate that theory gives this bitmap once `urls` URLs were inserted: 1 - e^(-urls / 2^n).
    pub fn theoretical_rate(&self, urls: u64) -> f64 {
        -(-(urls as f64) / (self.mask + 1) as f64).exp_m1()
    }

    /// Whether a URL has the same slot in `other`.
    ///
    /// # Errors
    /// `Unsupported`.
    pub(crate) fn check_alike(&self, other: &Md5Bitmap) -> Result<()> {
        if self.mask == other.mask {
            return Ok(());
        }
        let (theirs, ours) = (other.bits(), self.bits());
        let why = format!(
            "{} has 2^{theirs} slots and it has 2^{ours}: their bits mean other URLs. Insert the URLs themselves",
            other.name
        );
        Err(Error::Unsupported { file: self.name.clone(), op: "take that set up", why })
    }

    /// Sets every bit that `other` has: all its URLs are seen here from now on. How many bits were not set before.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if `other` has another number of slots; [`Error::ReadOnly`]; [`Error::Poisoned`]; [`Error::Io`].
    pub fn merge(&self, other: &Md5Bitmap) -> Result<u64> {
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

    /// The word and the bit in it. Words of 32 bits in order are, on a little-endian machine, words of 64 in order.
    #[inline]
    fn place(&self, url: &[u8]) -> (usize, u64) {
        let digest = Md5::digest(url);
        let slot = u64::from_le_bytes(files::array(&digest, 0)) & self.mask;
        ((slot >> 6) as usize, 1 << (slot & 63))
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

    /// The places of some URLs, whose words are on their way when it returns.
    fn fetch(&self, urls: &[&[u8]], places: &mut Vec<(usize, u64)>) -> u64 {
        places.clear();
        places.extend(urls.iter().map(|url| self.place(url)));
        let words = self.map.words();
        places.iter().fold(0, |all, place| all | words[place.0].load(Ordering::Relaxed))
    }

    /// Says in the sidecar that the file is open, before the first bit that is set since it was closed.
    #[cold]
    fn mark_open(&self) -> Result<()> {
        let _turn = guard(&self.opening);
        if self.is_open.load(Ordering::Acquire) {
            return Ok(());
        }
        let open = Sidecar::new(self.sidecar.id, self.sidecar.bits, State::Open);
        self.poison.guard(|| open.write(&*self.dir, &self.name))?;
        self.is_open.store(true, Ordering::Release);
        Ok(())
    }
}

impl SeenSet for Md5Bitmap {
    fn check_and_insert(&self, url: &[u8]) -> Result<Verdict> {
        self.check_writable()?;
        self.set(self.place(url))
    }

    fn check_and_insert_batch(&self, urls: &[&[u8]], verdicts: &mut Vec<Verdict>) -> Result<()> {
        self.check_writable()?;
        verdicts.clear();
        let mut places = Vec::with_capacity(FETCHED_TOGETHER);
        for urls in urls.chunks(FETCHED_TOGETHER) {
            std::hint::black_box(self.fetch(urls, &mut places));
            for place in &places {
                verdicts.push(self.set(*place)?);
            }
        }
        Ok(())
    }

    fn contains(&self, url: &[u8]) -> Result<Verdict> {
        let (word, bit) = self.place(url);
        let is_set = self.map.words()[word].load(Ordering::Acquire) & bit != 0;
        Ok(if is_set { Verdict::ProbablySeen } else { Verdict::New })
    }

    fn contains_batch(&self, urls: &[&[u8]], verdicts: &mut Vec<Verdict>) -> Result<()> {
        verdicts.clear();
        verdicts.reserve(urls.len());
        let words = self.map.words();
        let mut places = Vec::with_capacity(FETCHED_TOGETHER);
        for urls in urls.chunks(FETCHED_TOGETHER) {
            std::hint::black_box(self.fetch(urls, &mut places));
            verdicts.extend(places.iter().map(|(word, bit)| match words[*word].load(Ordering::Acquire) & bit {
                0 => Verdict::New,
                _ => Verdict::ProbablySeen,
            }));
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.ones.load(Ordering::Relaxed)
    }

    fn memory_bytes(&self) -> u64 {
        self.mask.div_ceil(8) + size_of::<Md5Bitmap>() as u64
    }

    fn disk_bytes(&self) -> u64 {
        self.mask.div_ceil(8) + sidecar::FIXED_BYTES as u64
    }

    fn false_positive_rate(&self) -> f64 {
        self.len() as f64 / (self.mask + 1) as f64
    }

    /// From the bits that are set: n URLs set m (1 - e^(-n/m)) of m.
    fn expected_loss(&self) -> f64 {
        let (slots, ones) = ((self.mask + 1) as f64, self.len() as f64);
        let urls = -slots * (-ones / slots).ln_1p();
        if urls.is_finite() { (urls - ones).max(0.0) } else { f64::INFINITY }
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
            inserted: self.len() - self.ones_before,
            memory_bytes: self.memory_bytes(),
            disk_bytes: self.disk_bytes(),
            false_positive_rate: self.false_positive_rate(),
            expected_loss: self.expected_loss(),
        }
    }
}

#[cfg(test)]
mod tests;
