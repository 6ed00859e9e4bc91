//! How the two kinds of bitmaps are made, and taken up of other programs' files.

use std::sync::Arc;

use filemap_io::Dir;

use super::slots::{HashSlots, Md5Slots, SlotHash};
use super::{Bitmap, HashBitmap, Md5Bitmap};
use crate::error::{Error, Result};

impl Bitmap<Md5Slots> {
    /// The n of the original: 2^28 slots, 32 MiB.
    pub const DEFAULT_BITS: u32 = 28;

    /// Creates an empty bitmap of 2^`bits` slots in the new file `name`, whose space it takes at once.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] unless `bits` is 16 to 36; [`Error::Locked`]; [`Error::Io`], with
    /// [`std::io::ErrorKind::AlreadyExists`] if there is a file of that name.
    pub fn create(dir: Arc<dyn Dir>, name: &str, bits: u32) -> Result<Md5Bitmap> {
        Bitmap::made(dir, name, Md5Slots::new(bits)?)
    }

    /// Takes up a file of words that another program made, or that a cut-short [`Md5Bitmap::create`] left: it gets a sidecar.
    ///
    /// # Errors
    /// [`Error::NotASet`] if its length is no power of two between 8 KiB and 8 GiB; [`Error::Io`], with
    /// [`std::io::ErrorKind::AlreadyExists`] if it has a sidecar; [`Error::Locked`].
    pub fn adopt(dir: Arc<dyn Dir>, name: &str) -> Result<Md5Bitmap> {
        Bitmap::taken_up(dir, name, |len| {
            let bits = len.checked_ilog2().unwrap_or(0) + 3;
            let slots = Md5Slots::new(bits).ok().filter(|_| len.is_power_of_two());
            slots.ok_or_else(|| {
                let what =
                    format!("it has {len} bytes, and a bitmap has a power of two of them between 8 KiB and 8 GiB");
                Error::NotASet { file: name.to_owned(), what }
            })
        })
    }

    /// The n of this bitmap: it has 2^n slots.
    pub fn bits(&self) -> u32 {
        self.slots.bits
    }
}

impl Bitmap<HashSlots> {
    /// Creates an empty filter of these functions in the new file `name`, whose space it takes at once: `slots` bits, 1 to 2^31.
    ///
    /// # Errors
    /// [`Error::InvalidOption`]; [`Error::Locked`]; [`Error::Io`], with [`std::io::ErrorKind::AlreadyExists`] if there is a file of that
    /// name.
    pub fn create(dir: Arc<dyn Dir>, name: &str, hashes: &[SlotHash], slots: u64) -> Result<HashBitmap> {
        Bitmap::made(dir, name, HashSlots::new(hashes, slots)?)
    }

    /// Takes up a file of bits that another program made with these functions: it gets a sidecar, and none of its bits is changed. It has
    /// `slots` slots, or else as many as its bytes have bits.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if its length does not fit; [`Error::Io`], with [`std::io::ErrorKind::AlreadyExists`] if it has a sidecar;
    /// [`Error::Locked`].
    pub fn adopt(dir: Arc<dyn Dir>, name: &str, hashes: &[SlotHash], slots: Option<u64>) -> Result<HashBitmap> {
        Bitmap::taken_up(dir, name, |len| HashSlots::of_file(hashes, slots, len))
    }

    /// The functions, each of which gives a URL one slot.
    pub fn hashes(&self) -> &[SlotHash] {
        &self.slots.hashes
    }
}
