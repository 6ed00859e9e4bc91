//! Creates bitmaps of both kinds, and adopts files of other programs.

use super::slots::{HashSlots, Md5Slots, SlotHash};
use super::{Bitmap, HashBitmap, Md5Bitmap};
use crate::error::{Error, Result};
use crate::files::by_path;

impl Bitmap<Md5Slots> {
    /// 2^28 slots, 32 MiB.
    pub const DEFAULT_BITS: u32 = 28;

    by_path! {
        /// Creates an empty bitmap of 2^`bits` slots in a new file of full size.
        ///
        /// # Errors
        /// [`crate::StorageError::InvalidOption`] unless `bits` is 16 to 36;
        /// [`crate::StorageError::Locked`]; [`crate::StorageError::Io`], with
        /// [`std::io::ErrorKind::AlreadyExists`] if the file exists.
        fn create, create_in(dir, name, bits: u32) -> Result<Md5Bitmap> {
            Bitmap::made(dir, name, Md5Slots::new(bits)?)
        }
    }

    by_path! {
        /// Adopts a file of words that another program made, or an interrupted
        /// [`Md5Bitmap::create`] left: writes its sidecar.
        ///
        /// # Errors
        /// [`Error::NotASet`] if its length is not a power of two from 8 KiB to 8 GiB;
        /// [`crate::StorageError::Io`], with [`std::io::ErrorKind::AlreadyExists`] if it has a
        /// sidecar; [`crate::StorageError::Locked`].
        fn adopt, adopt_in(dir, name) -> Result<Md5Bitmap> {
            Bitmap::taken_up(dir, name, |len| {
                let bits = len.checked_ilog2().unwrap_or(0) + 3;
                let slots = Md5Slots::new(bits).ok().filter(|_| len.is_power_of_two());
                slots.ok_or_else(|| {
                    let what =
                        format!("it has {len} bytes; a bitmap has a power of two from 8 KiB to 8 GiB");
                    Error::NotASet { file: name.to_owned(), what }
                })
            })
        }
    }

    /// n of a bitmap of 2^n slots.
    pub fn bits(&self) -> u32 {
        self.slots.bits
    }
}

impl Bitmap<HashSlots> {
    by_path! {
        /// Creates an empty filter of these functions with `slots` bits, 1 to 2^31, in a new file
        /// of full size.
        ///
        /// # Errors
        /// [`crate::StorageError::InvalidOption`]; [`crate::StorageError::Locked`];
        /// [`crate::StorageError::Io`], with [`std::io::ErrorKind::AlreadyExists`] if the file
        /// exists.
        fn create, create_in(dir, name, hashes: &[SlotHash], slots: u64) -> Result<HashBitmap> {
            Bitmap::made(dir, name, HashSlots::new(hashes, slots)?)
        }
    }

    by_path! {
        /// Adopts a file of bits that another program made with these functions: writes its
        /// sidecar, and changes none of its bits. `slots` defaults to the number of bits in the
        /// file.
        ///
        /// # Errors
        /// [`crate::StorageError::InvalidOption`] if its length does not fit;
        /// [`crate::StorageError::Io`], with [`std::io::ErrorKind::AlreadyExists`] if it has a
        /// sidecar; [`crate::StorageError::Locked`].
        fn adopt, adopt_in(dir, name, hashes: &[SlotHash], slots: Option<u64>) -> Result<HashBitmap> {
            Bitmap::taken_up(dir, name, |len| HashSlots::of_file(hashes, slots, len))
        }
    }

    /// The hash functions, one slot each.
    pub fn hashes(&self) -> &[SlotHash] {
        &self.slots.hashes
    }
}
