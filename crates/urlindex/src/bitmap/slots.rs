//! Slots of a URL in a bitmap: the head of its MD5, or one for each of some classic hash
//! functions.

use filemap_io::layout::get;
use md5::{Digest, Md5};

use crate::bloom::hash::{ap, bkdr, djb, djb0};
use crate::error::{Error, Result};

/// Range of n for an MD5 bitmap of 2^n slots.
pub(super) const BITS: std::ops::RangeInclusive<u32> = 16..=36;
/// The classic functions give 31 bits.
const HASHED_SLOTS_MAX: u64 = 1 << 31;
/// Bytes that other programs may leave after the last slot: `char bits[SLOTS / 8 + 1]`, or whole
/// words.
const SPARE_BYTES: u64 = 8;

/// Shape of a bitmap, as in its sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// 2^`bits` slots.
    Md5 {
        /// 16 to 36.
        bits: u32,
    },
    /// One slot for each hash function.
    Hashes {
        /// Bit set of the functions.
        functions: u8,
        /// Number of slots.
        slots: u64,
        /// Length of the file.
        file_bytes: u64,
    },
}

impl Shape {
    pub(super) fn file_bytes(self) -> u64 {
        match self {
            Shape::Md5 { bits } => 1 << (bits - 3),
            Shape::Hashes { file_bytes, .. } => file_bytes,
        }
    }

    pub(super) fn is_possible(self) -> bool {
        match self {
            Shape::Md5 { bits } => BITS.contains(&bits),
            Shape::Hashes { functions, slots, file_bytes } => {
                let needed = slots.div_ceil(8);
                (1..16).contains(&functions)
                    && (1..=HASHED_SLOTS_MAX).contains(&slots)
                    && (needed..=needed + SPARE_BYTES).contains(&file_bytes)
            }
        }
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Shape::Md5 { bits } => write!(f, "2^{bits} slots"),
            Shape::Hashes { functions, slots, .. } => {
                let chosen = SlotHash::ALL.into_iter().filter(|hash| functions & *hash as u8 != 0);
                let names: Vec<&str> = chosen.map(SlotHash::name).collect();
                write!(f, "{slots} slots of {}", names.join(", "))
            }
        }
    }
}

/// The choice of a URL's bits. Sealed: there are two kinds of bitmaps.
pub trait Slots: std::fmt::Debug + Send + Sync + Sized {
    /// The shape of a bitmap.
    fn shape(&self) -> Shape;
    /// The slots of a shape; `None` for the other kind.
    fn of(shape: Shape) -> Option<Self>;
    /// Bits of a URL, at most.
    fn probes(&self) -> usize;
    /// Number of slots.
    fn slots(&self) -> u64;
    /// Slot of the URL's bit number `probe`.
    fn slot(&self, url: &[u8], probe: usize) -> u64;
}

/// Slots by the head of a URL's MD5.
#[derive(Debug)]
pub struct Md5Slots {
    pub(super) bits: u32,
    mask: u64,
}

impl Md5Slots {
    /// # Errors
    /// `InvalidOption`.
    pub(super) fn new(bits: u32) -> Result<Md5Slots> {
        match BITS.contains(&bits) {
            true => Ok(Md5Slots { bits, mask: (1 << bits) - 1 }),
            false => Err(Error::option("bits", format!("{bits} is not 16 to 36"))),
        }
    }
}

impl Slots for Md5Slots {
    fn shape(&self) -> Shape {
        Shape::Md5 { bits: self.bits }
    }

    fn of(shape: Shape) -> Option<Md5Slots> {
        if let Shape::Md5 { bits } = shape { Md5Slots::new(bits).ok() } else { None }
    }

    #[inline]
    fn probes(&self) -> usize {
        1
    }

    #[inline]
    fn slots(&self) -> u64 {
        self.mask + 1
    }

    #[inline]
    fn slot(&self, url: &[u8], _: usize) -> u64 {
        let digest = Md5::digest(url);
        get::<u64>(&digest, 0) & self.mask
    }
}

filemap_io::named_enum! {
    /// A classic hash function, whose value modulo the number of slots is one slot of a URL.
    ///
    /// ```
    /// use urlindex::HashBitmap;
    /// use urlindex::hash::SlotHash;
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// let path = folder.path().join("seen");
    /// let filter = HashBitmap::create(&path, &[SlotHash::Djb], 1 << 20).unwrap();
    /// assert_eq!(filter.hashes(), [SlotHash::Djb]);
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    #[non_exhaustive]
    pub enum SlotHash {
        /// BKDR with factor 13131.
        Bkdr = 1 => "bkdr",
        /// Arash Partow's.
        Ap = 2 => "ap",
        /// Bernstein's, from 5381.
        Djb = 4 => "djb",
        /// Bernstein's, from 0, as in some programs.
        Djb0 = 8 => "djb0",
    }
}

impl SlotHash {
    /// The function of this name.
    pub fn named(name: &str) -> Option<SlotHash> {
        SlotHash::ALL.into_iter().find(|hash| hash.name() == name)
    }

    fn of(self, url: &[u8]) -> u32 {
        match self {
            SlotHash::Bkdr => bkdr(url),
            SlotHash::Ap => ap(url),
            SlotHash::Djb => djb(url),
            SlotHash::Djb0 => djb0(url),
        }
    }
}

/// Slots by several functions.
#[derive(Debug)]
pub struct HashSlots {
    pub(super) hashes: Vec<SlotHash>,
    slots: u64,
    file_bytes: u64,
}

impl HashSlots {
    /// # Errors
    /// `InvalidOption`.
    pub(super) fn new(hashes: &[SlotHash], slots: u64) -> Result<HashSlots> {
        let functions = hashes.iter().fold(0, |all, hash| all | *hash as u8);
        let shape = Shape::Hashes { functions, slots, file_bytes: slots.div_ceil(8) };
        if functions.count_ones() as usize != hashes.len() || hashes.is_empty() {
            return Err(Error::option("functions", "give one or more, each once"));
        }
        HashSlots::of(shape).ok_or_else(|| Error::option("slots", format!("{slots} is not 1 to 2^31")))
    }

    /// # Errors
    /// `InvalidOption` if the file's length does not fit the number of slots.
    pub(super) fn of_file(hashes: &[SlotHash], slots: Option<u64>, file_bytes: u64) -> Result<HashSlots> {
        let slots = slots.unwrap_or(file_bytes.saturating_mul(8));
        let hashed = HashSlots::new(hashes, slots)?;
        let hashed = HashSlots { file_bytes, ..hashed };
        match hashed.shape().is_possible() {
            true => Ok(hashed),
            false => Err(Error::option(
                "slots",
                format!("the file has {file_bytes} bytes; {slots} slots take {}, or up to 8 more", slots.div_ceil(8)),
            )),
        }
    }
}

impl Slots for HashSlots {
    fn shape(&self) -> Shape {
        let functions = self.hashes.iter().fold(0, |all, hash| all | *hash as u8);
        Shape::Hashes { functions, slots: self.slots, file_bytes: self.file_bytes }
    }

    fn of(shape: Shape) -> Option<HashSlots> {
        let Shape::Hashes { functions, slots, file_bytes } = shape else { return None };
        let hashes = SlotHash::ALL.into_iter().filter(|hash| functions & *hash as u8 != 0).collect();
        shape.is_possible().then_some(HashSlots { hashes, slots, file_bytes })
    }

    fn probes(&self) -> usize {
        self.hashes.len()
    }

    fn slots(&self) -> u64 {
        self.slots
    }

    fn slot(&self, url: &[u8], probe: usize) -> u64 {
        u64::from(self.hashes[probe].of(url)) % self.slots
    }
}
