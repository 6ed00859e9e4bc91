//! The stamp: which files of which exact set the saved filter in front of it covers, and which save of the filter that is.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 8 | magic `FMTIER01` |
//! | 8 | 2, 2 | the version that a reader, and a writer, must know |
//! | 12 | 4 | 0 |
//! | 16 | 16, 8 | the exact set's id; its branch |
//! | 40 | 8 | the filter holds all that was in the set when this was the number of its next file |
//! | 48 | 8 | the number of the filter's save: random, and in its file too |
//! | 56 | 8 | if it is being saved, the number of the save to come: the file may bear either, and damage to it is no rot; 0 otherwise |
//! | 64 | 4 | CRC-32 of the 64 bytes before |
//!
//! All numbers are little-endian. It is replaced as a whole: before the filter is written, with the number of the save to come, and after it
//! is durable. Of a filter that bears another number, such as an older copy that was brought back, it says nothing.

use filemap_io::{Access, Dir};

use crate::error::{Error, Result};
use crate::files::{self, array};

const MAGIC: [u8; 8] = *b"FMTIER01";
const VERSION: u16 = 1;
const CRC_AT: usize = 64;
/// Bytes of the file.
pub(super) const BYTES: usize = CRC_AT + 4;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Which exact set.
    pub(super) set: [u8; 16],
    /// And which of those with this id.
    pub(super) branch: u64,
    /// All files with lower numbers are covered.
    pub(super) covers: u64,
    /// Which filter it is about.
    pub(super) save: u64,
    /// The next one's number, if the filter may be half written; otherwise 0.
    pub(super) saving: u64,
}

impl Stamp {
    /// Whether it is about the filter that bears this number.
    pub(super) fn is_of(&self, save: u64) -> bool {
        save == self.save || (self.is_saving() && save == self.saving)
    }

    /// Whether damage to the filter may be what a failed write left.
    pub(super) fn is_saving(&self) -> bool {
        self.saving != 0
    }
}

fn file_name(name: &str) -> String {
    format!("{name}.tier")
}

impl Stamp {
    /// Replaces the stamp of the set `name`.
    pub(super) fn write(&self, dir: &dyn Dir, name: &str) -> Result<()> {
        let bytes = self.encode();
        files::replace(dir, &file_name(name), |file, new| file.write_at(&bytes, 0).map_err(Error::io("write", new)))
    }

    /// The stamp of the set `name`, if there is one.
    pub(super) fn read(dir: &dyn Dir, name: &str) -> Result<Option<Stamp>> {
        let name = file_name(name);
        if !files::exists(dir, &name)? {
            return Ok(None);
        }
        let file = dir.open(&name, Access::Read).map_err(Error::io("open", &name))?;
        let mut bytes = [0; BYTES];
        files::read_exact(&*file, &name, &mut bytes, 0)?;
        if file.len().map_err(Error::io("length", &name))? != BYTES as u64 {
            return Err(Error::corrupt(&name, BYTES as u64, "no stamp is that long"));
        }
        Stamp::decode(&bytes, &name).map(Some)
    }

    fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[10..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.set);
        for (i, number) in [self.branch, self.covers, self.save, self.saving].into_iter().enumerate() {
            bytes[32 + 8 * i..40 + 8 * i].copy_from_slice(&number.to_le_bytes());
        }
        let crc = crc32fast::hash(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; BYTES], name: &str) -> Result<Stamp> {
        if bytes[..8] != MAGIC {
            return Err(Error::corrupt(name, 0, "this is no stamp of a filter in front of a set"));
        }
        if u32::from_le_bytes(array(bytes, CRC_AT)) != crc32fast::hash(&bytes[..CRC_AT]) {
            return Err(Error::corrupt(name, CRC_AT as u64, "the stamp's checksum is another"));
        }
        files::check_version(name, bytes, VERSION)?;
        let number = |at: usize| u64::from_le_bytes(array(bytes, at));
        Ok(Stamp {
            set: array(bytes, 16),
            branch: number(32),
            covers: number(40),
            save: number(48),
            saving: number(56),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_68_bytes_any_of_which_matters() {
        let stamp = Stamp { set: *b"0123456789abcdef", branch: 7, covers: 0x0102_0304, save: 8, saving: 9 };
        let bytes = stamp.encode();
        assert_eq!(bytes[..16], *b"FMTIER01\x01\0\x01\0\0\0\0\0");
        assert_eq!(bytes[40..48], [4, 3, 2, 1, 0, 0, 0, 0]);
        assert!(stamp.is_of(8) && stamp.is_of(9) && !stamp.is_of(0) && !Stamp { saving: 0, ..stamp }.is_of(0));
        assert_eq!(Stamp::decode(&bytes, "s").expect("whole"), stamp);
        for at in 0..BYTES {
            let mut damaged = bytes;
            damaged[at] ^= 0x10;
            let error = Stamp::decode(&damaged, "s").expect_err("damaged");
            assert!(matches!(error, Error::Corrupt { .. }), "byte {at}: {error}");
        }
    }
}
