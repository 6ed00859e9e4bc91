//! Creates bitmaps of both kinds, and adopts files of other programs.

use std::path::Path;
use std::sync::Arc;

use filemap_io::Dir;

use super::slots::{HashSlots, Md5Slots, SlotHash};
use super::{Bitmap, HashBitmap, Md5Bitmap};
use crate::error::{Error, Result};
use crate::files::{in_any_dir, place};

impl Bitmap<Md5Slots> {
    /// The n of the original: 2^28 slots, 32 MiB.
    pub const DEFAULT_BITS: u32 = 28;

    /// Creates an empty bitmap of 2^`bits` slots in a new file, whose space it takes at once.
    ///
    /// # Errors
    /// [`crate::StorageError::InvalidOption`] unless `bits` is 16 to 36;
    /// [`crate::StorageError::Locked`]; [`crate::StorageError::Io`], with
    /// [`std::io::ErrorKind::AlreadyExists`] if there is a file of that name.
    pub fn create(path: impl AsRef<Path>, bits: u32) -> Result<Md5Bitmap> {
        let (dir, name) = place(path.as_ref())?;
        Md5Bitmap::create_in(dir, &name, bits)
    }

    in_any_dir! {
        /// As [`Md5Bitmap::create`], in any directory.
        ///
        /// # Errors
        /// As there.
        fn create_in(dir: Arc<dyn Dir>, name: &str, bits: u32) -> Result<Md5Bitmap> {
            Bitmap::made(dir, name, Md5Slots::new(bits)?)
        }
    }

    /// Takes up a file of words that another program made, or that a cut-short
    /// [`Md5Bitmap::create`] left: it gets a sidecar.
    ///
    /// # Errors
    /// [`Error::NotASet`] if its length is no power of two between 8 KiB and 8 GiB;
    /// [`crate::StorageError::Io`], with [`std::io::ErrorKind::AlreadyExists`] if it has a
    /// sidecar; [`crate::StorageError::Locked`].
    pub fn adopt(path: impl AsRef<Path>) -> Result<Md5Bitmap> {
        let (dir, name) = place(path.as_ref())?;
        Md5Bitmap::adopt_in(dir, &name)
    }

    in_any_dir! {
        /// As [`Md5Bitmap::adopt`], in any directory.
        ///
        /// # Errors
        /// As there.
        fn adopt_in(dir: Arc<dyn Dir>, name: &str) -> Result<Md5Bitmap> {
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
    }

    /// The n of this bitmap: it has 2^n slots.
    pub fn bits(&self) -> u32 {
        self.slots.bits
    }
}

impl Bitmap<HashSlots> {
    /// Creates an empty filter of these functions in a new file, whose space it takes at once:
    /// `slots` bits, 1 to 2^31.
    ///
    /// # Errors
    /// [`crate::StorageError::InvalidOption`]; [`crate::StorageError::Locked`];
    /// [`crate::StorageError::Io`], with [`std::io::ErrorKind::AlreadyExists`] if there is a file
    /// of that name.
    pub fn create(path: impl AsRef<Path>, hashes: &[SlotHash], slots: u64) -> Result<HashBitmap> {
        let (dir, name) = place(path.as_ref())?;
        HashBitmap::create_in(dir, &name, hashes, slots)
    }

    in_any_dir! {
        /// As [`HashBitmap::create`], in any directory.
        ///
        /// # Errors
        /// As there.
        fn create_in(dir: Arc<dyn Dir>, name: &str, hashes: &[SlotHash], slots: u64) -> Result<HashBitmap> {
            Bitmap::made(dir, name, HashSlots::new(hashes, slots)?)
        }
    }

    /// Takes up a file of bits that another program made with these functions: it gets a sidecar,
    /// and none of its bits is changed. It has `slots` slots, or else as many as its bytes have
    /// bits.
    ///
    /// # Errors
    /// [`crate::StorageError::InvalidOption`] if its length does not fit;
    /// [`crate::StorageError::Io`], with [`std::io::ErrorKind::AlreadyExists`] if it has a
    /// sidecar; [`crate::StorageError::Locked`].
    pub fn adopt(path: impl AsRef<Path>, hashes: &[SlotHash], slots: Option<u64>) -> Result<HashBitmap> {
        let (dir, name) = place(path.as_ref())?;
        HashBitmap::adopt_in(dir, &name, hashes, slots)
    }

    in_any_dir! {
        /// As [`HashBitmap::adopt`], in any directory.
        ///
        /// # Errors
        /// As there.
        fn adopt_in(dir: Arc<dyn Dir>, name: &str, hashes: &[SlotHash], slots: Option<u64>) -> Result<HashBitmap> {
            Bitmap::taken_up(dir, name, |len| HashSlots::of_file(hashes, slots, len))
        }
    }

    /// The functions, each of which gives a URL one slot.
    pub fn hashes(&self) -> &[SlotHash] {
        &self.slots.hashes
    }
}
