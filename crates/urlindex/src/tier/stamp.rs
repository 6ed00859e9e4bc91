//! The stamp: which files of an exact set the saved filter in front of it covers.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 8 | magic `FMTIER01` |
//! | 8 | 2, 2 | the version that a reader, and a writer, must know |
//! | 12 | 4 | 1 if the filter is being saved: damage to it is what a failed write left, and no rot; 0 otherwise |
//! | 16 | 16 | the exact set's id |
//! | 32 | 8 | the filter holds all that was in the set when this was the number of its next file |
//! | 40 | 4 | CRC-32 of the 40 bytes before |
//!
//! All numbers are little-endian. It is replaced as a whole: before the filter is written, with the mark, and after it is durable.

use filemap_io::{Access, Dir};

use crate::error::{Error, Result};
use crate::files::{self, array};

const MAGIC: [u8; 8] = *b"FMTIER01";
const VERSION: u16 = 1;
const CRC_AT: usize = 40;
/// Bytes of the file.
pub(super) const BYTES: usize = CRC_AT + 4;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Which exact set.
    pub(super) set: [u8; 16],
    /// All files with lower numbers are covered.
    pub(super) covers: u64,
    /// Whether the filter may be half written.
    pub(super) is_saving: bool,
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

    /// Removes the stamp of the set `name`, durably.
    pub(super) fn remove(dir: &dyn Dir, name: &str) -> Result<()> {
        files::remove(dir, &file_name(name))?;
        dir.sync().map_err(Error::io("sync of the directory", name))
    }

    fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[10..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12] = u8::from(self.is_saving);
        bytes[16..32].copy_from_slice(&self.set);
        bytes[32..40].copy_from_slice(&self.covers.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; BYTES], name: &str) -> Result<Stamp> {
        if bytes[..8] != MAGIC {
            return Err(Error::corrupt(name, 0, "this is no stamp of a filter in front of a set"));
        }
        let found = u16::from_le_bytes(array(bytes, 8));
        if found > VERSION {
            return Err(Error::NewerFormat { file: name.to_owned(), found, supported: VERSION });
        }
        if u32::from_le_bytes(array(bytes, CRC_AT)) != crc32fast::hash(&bytes[..CRC_AT]) {
            return Err(Error::corrupt(name, CRC_AT as u64, "the stamp's checksum is another"));
        }
        let (set, covers) = (array(bytes, 16), u64::from_le_bytes(array(bytes, 32)));
        Ok(Stamp { set, covers, is_saving: bytes[12] == 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_44_bytes_any_of_which_matters() {
        let stamp = Stamp { set: *b"0123456789abcdef", covers: 0x0102_0304, is_saving: true };
        let bytes = stamp.encode();
        assert_eq!(bytes[..16], *b"FMTIER01\x01\0\x01\0\x01\0\0\0");
        assert_eq!(bytes[32..40], [4, 3, 2, 1, 0, 0, 0, 0]);
        assert_eq!(Stamp::decode(&bytes, "s").expect("whole"), stamp);
        for at in 0..BYTES {
            let mut damaged = bytes;
            damaged[at] ^= 0x10;
            let error = Stamp::decode(&damaged, "s").expect_err("damaged");
            assert!(matches!(error, Error::Corrupt { .. } | Error::NewerFormat { .. }), "byte {at}: {error}");
        }
    }
}
