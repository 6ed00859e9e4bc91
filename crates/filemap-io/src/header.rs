//! The header of the files of seen sets, runs and frontiers: magic, versions, and a CRC-32 in its
//! last four bytes.
//!
//! Invariant: magic and versions keep their offsets in all versions. The checksum is verified
//! first, so a flipped bit in the version is damage, not a newer format.

use crate::StorageError;
use crate::layout::Wire as _;

crate::layout! {
    /// First fields of every header: see [`Kind`].
    ///
    /// ```
    /// use filemap_io::header::Start;
    /// let mut header = [0; Start::BYTES];
    /// Start::MAGIC.put(&mut header, *b"NOTES001");
    /// Start::READ_VERSION.put(&mut header, 2);
    /// assert_eq!(header[..9], *b"NOTES001\x02");
    /// ```
    pub struct Start {
        0 MAGIC: [u8; 8] = "magic";
        8 READ_VERSION: u16 = "the version that a reader must know";
        10 WRITE_VERSION: u16 = "the version that a writer must know";
    }
}

const CRC_BYTES: usize = 4;

/// A kind of file.
///
/// ```
/// use filemap_io::header::{Kind, Start, seal};
/// const NOTES: Kind = Kind { magic: *b"NOTES001", version: 1, what: "file of notes" };
/// let mut header = [0; 64];
/// NOTES.begin(&mut header);
/// seal(&mut header);
/// assert!(NOTES.check("notes", &header).is_ok());
/// assert_eq!(Start::READ_VERSION.get(&header), 1);
/// header[40] ^= 1;
/// assert!(NOTES.check("notes", &header).is_err());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Magic: the first eight bytes.
    pub magic: [u8; 8],
    /// The version that this program reads and writes.
    pub version: u16,
    /// The kind in messages, such as `run of a set`.
    pub what: &'static str,
}

impl Kind {
    /// Writes the magic and the versions.
    pub fn begin(&self, header: &mut [u8]) {
        Start::MAGIC.put(header, self.magic);
        Start::READ_VERSION.put(header, self.version);
        Start::WRITE_VERSION.put(header, self.version);
    }

    /// Refuses a file with another magic.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`].
    pub fn check_magic(&self, name: &str, header: &[u8]) -> Result<(), StorageError> {
        match header.starts_with(&self.magic) {
            true => Ok(()),
            false => Err(StorageError::corrupt(name, 0, format_args!("this is not a {}", self.what))),
        }
    }

    /// Refuses a file of a newer format. Call it after the checksum over the version was verified.
    ///
    /// # Errors
    /// [`StorageError::NewerFormat`].
    pub fn check_version(&self, name: &str, header: &[u8]) -> Result<(), StorageError> {
        let found = Start::READ_VERSION.get(header);
        if found > self.version {
            return Err(StorageError::NewerFormat { file: name.to_owned(), found, supported: self.version });
        }
        Ok(())
    }

    /// Checks magic, checksum and version.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::NewerFormat`].
    pub fn check(&self, name: &str, header: &[u8]) -> Result<(), StorageError> {
        self.check_magic(name, header)?;
        if !is_sealed(header) {
            let at = header.len() - CRC_BYTES;
            return Err(StorageError::corrupt(name, at as u64, "header checksum mismatch"));
        }
        self.check_version(name, header)
    }
}

/// CRC-32 of the parts, concatenated.
#[inline]
pub fn crc32(parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

/// Writes the checksum of all bytes but the last four into the last four.
pub fn seal(header: &mut [u8]) {
    let (bytes, crc) = header.split_at_mut(header.len() - CRC_BYTES);
    crc32fast::hash(bytes).write(crc);
}

/// Returns whether the last four bytes are the checksum of the others.
pub fn is_sealed(header: &[u8]) -> bool {
    let (bytes, crc) = header.split_at(header.len() - CRC_BYTES);
    u32::read(crc) == crc32fast::hash(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind { magic: *b"FMTEST01", version: 2, what: "test" };

    fn header(version: u16) -> [u8; 32] {
        let mut bytes = [0; 32];
        Kind { version, ..KIND }.begin(&mut bytes);
        seal(&mut bytes);
        bytes
    }

    #[test]
    fn any_flipped_bit_of_a_header_is_damage() {
        assert!(KIND.check("f", &header(2)).is_ok() && KIND.check("f", &header(1)).is_ok());
        for at in 0..32 {
            let mut bytes = header(2);
            bytes[at] ^= 4;
            let error = KIND.check("f", &bytes).expect_err("damaged");
            assert!(error.is_corrupt(), "byte {at}: {error}");
        }
    }

    #[test]
    fn a_newer_version_is_told_from_damage() {
        let newer = KIND.check("f", &header(3));
        assert!(matches!(newer, Err(StorageError::NewerFormat { found: 3, supported: 2, .. })));
    }
}
