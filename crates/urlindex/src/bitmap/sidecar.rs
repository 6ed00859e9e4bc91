//! The sidecar of a bitmap: id, size, state and checksums, since the bitmap's own file is bare
//! bits.
//!
//! It is only ever replaced as a whole. While the state is *open*, inserts may change the words,
//! so there is nothing to check; once it is *closed*, they must match the checksums.

use filemap_io::header::crc32;
use filemap_io::{Access, Dir, File};

use super::slots::Shape;
use crate::error::{Error, Result};
use crate::files::beside::meta;
use crate::files::{self, replace_by};
use crate::format::{SIDECAR, SidecarHeader};

/// Bytes of the bitmap under one checksum: a segment of 2,048 words of 32 bits.
pub(super) const SEGMENT_BYTES: usize = 2048 * 4;
/// Bytes of the sidecar before the checksums.
pub(super) const FIXED_BYTES: usize = SidecarHeader::BYTES;

/// State of a bitmap: open bitmaps may be changing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Open = 1,
    Closed = 2,
}

#[derive(Clone, Debug)]
pub(super) struct Sidecar {
    pub(super) id: [u8; 16],
    pub(super) shape: Shape,
    pub(super) state: State,
    ones: u64,
    checksums: Vec<u32>,
}

impl Sidecar {
    pub(super) fn new(id: [u8; 16], shape: Shape, state: State) -> Sidecar {
        Sidecar { id, shape, state, ones: 0, checksums: Vec::new() }
    }

    /// The closed sidecar of this bitmap. Reads all its words.
    pub(super) fn closed(&self, ones: u64, file: &dyn File, name: &str) -> Result<Sidecar> {
        let mut checksums = Vec::new();
        each_segment(self.shape.file_bytes(), file, name, |_, segment| {
            checksums.push(crc32fast::hash(segment));
            Ok(())
        })?;
        Ok(Sidecar { state: State::Closed, ones, checksums, ..self.clone() })
    }

    /// Checks the words, and counts the ones.
    ///
    /// # Errors
    /// `Corrupt` with the offset of the first bad segment; `Io`.
    pub(super) fn check(&self, file: &dyn File, name: &str) -> Result<u64> {
        let mut ones = 0;
        each_segment(self.shape.file_bytes(), file, name, |number, segment| {
            if self.state == State::Closed && self.checksums[number] != crc32fast::hash(segment) {
                let what = "checksum mismatch in a segment of 8192 bytes";
                return Err(Error::corrupt(name, (number * SEGMENT_BYTES) as u64, what));
            }
            let (words, rest) = segment.as_chunks::<8>();
            ones += words.iter().map(|word| u64::from(u64::from_le_bytes(*word).count_ones())).sum::<u64>();
            ones += rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>();
            Ok(())
        })?;
        if self.state == State::Closed && ones != self.ones {
            return Err(Error::corrupt(&meta(name), 32, format!("{ones} bits are set, not {}", self.ones)));
        }
        Ok(ones)
    }

    pub(super) fn write(&self, dir: &dyn Dir, name: &str) -> Result<()> {
        replace_by(dir, &meta(name), &self.encode())
    }

    pub(super) fn read(dir: &dyn Dir, name: &str) -> Result<Sidecar> {
        let name = meta(name);
        let file = dir.open(&name, Access::Read).map_err(Error::io("open", &name))?;
        // The largest bitmap has 2^20 segments.
        let bytes = files::read_whole(&*file, &name, FIXED_BYTES as u64 + (4 << 20))?;
        Sidecar::decode(&bytes, &name)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; FIXED_BYTES];
        SIDECAR.begin(&mut bytes);
        match self.shape {
            Shape::Md5 { bits } => SidecarHeader::BITS.put(&mut bytes, bits as u8),
            Shape::Hashes { functions, slots, file_bytes } => {
                SidecarHeader::FUNCTIONS.put(&mut bytes, functions);
                SidecarHeader::SLOTS.put(&mut bytes, slots);
                SidecarHeader::FILE_BYTES.put(&mut bytes, file_bytes);
            }
        }
        SidecarHeader::STATE.put(&mut bytes, self.state as u8);
        SidecarHeader::ID.put(&mut bytes, self.id);
        SidecarHeader::ONES.put(&mut bytes, self.ones);
        bytes.extend(self.checksums.iter().flat_map(|sum| sum.to_le_bytes()));
        let crc = checksum(&bytes);
        SidecarHeader::CRC.put(&mut bytes, crc);
        bytes
    }

    fn decode(bytes: &[u8], name: &str) -> Result<Sidecar> {
        let corrupt = |at: usize, what: &str| Err(Error::corrupt(name, at as u64, what));
        if bytes.len() < FIXED_BYTES {
            return corrupt(bytes.len(), "the file ends in its header");
        }
        SIDECAR.check_magic(name, bytes)?;
        if SidecarHeader::CRC.get(bytes) != checksum(bytes) {
            return corrupt(SidecarHeader::CRC.at, "checksum mismatch");
        }
        SIDECAR.check_version(name, bytes)?;
        let shape = match u32::from(SidecarHeader::BITS.get(bytes)) {
            0 => Shape::Hashes {
                functions: SidecarHeader::FUNCTIONS.get(bytes),
                slots: SidecarHeader::SLOTS.get(bytes),
                file_bytes: SidecarHeader::FILE_BYTES.get(bytes),
            },
            bits => Shape::Md5 { bits },
        };
        if !shape.is_possible() {
            return corrupt(SidecarHeader::BITS.at, "impossible number of slots");
        }
        let state = match SidecarHeader::STATE.get(bytes) {
            1 => State::Open,
            2 => State::Closed,
            _ => return corrupt(SidecarHeader::STATE.at, "impossible state"),
        };
        let segments = if state == State::Closed { shape.file_bytes().div_ceil(SEGMENT_BYTES as u64) } else { 0 };
        let (checksums, rest) = bytes[FIXED_BYTES..].as_chunks::<4>();
        if checksums.len() as u64 != segments || !rest.is_empty() {
            return corrupt(bytes.len(), "the file's length does not fit its checksums");
        }
        Ok(Sidecar {
            id: SidecarHeader::ID.get(bytes),
            shape,
            state,
            ones: SidecarHeader::ONES.get(bytes),
            checksums: checksums.iter().map(|sum| u32::from_le_bytes(*sum)).collect(),
        })
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    crc32(&[&bytes[..SidecarHeader::CRC.at], &bytes[FIXED_BYTES..]])
}

fn each_segment(
    len: u64,
    file: &dyn File,
    name: &str,
    mut visit: impl FnMut(usize, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut buf = vec![0; len.min(1 << 20) as usize];
    for at in (0..len).step_by(buf.len()) {
        let piece = &mut buf[..(len - at).min(1 << 20) as usize];
        files::read_exact(file, name, piece, at)?;
        for (number, segment) in piece.chunks(SEGMENT_BYTES).enumerate() {
            visit((at / SEGMENT_BYTES as u64) as usize + number, segment)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use filemap_io::StorageError;

    #[test]
    fn a_sidecar_is_read_as_it_was_written_and_any_other_byte_is_damage() {
        let mut sidecar = Sidecar::new([7; 16], Shape::Md5 { bits: 17 }, State::Closed);
        (sidecar.ones, sidecar.checksums) = (5, vec![1, 2]);
        let bytes = sidecar.encode();
        assert_eq!(bytes.len(), 72);
        let read = Sidecar::decode(&bytes, "s").expect("whole");
        assert_eq!((read.id, read.shape, read.ones, read.checksums), ([7; 16], Shape::Md5 { bits: 17 }, 5, vec![1, 2]));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(
                matches!(Sidecar::decode(&damaged, "s"), Err(Error::Storage(StorageError::Corrupt { .. }))),
                "byte {at}"
            );
        }
        for len in 0..bytes.len() {
            assert!(
                matches!(Sidecar::decode(&bytes[..len], "s"), Err(Error::Storage(StorageError::Corrupt { .. }))),
                "{len} bytes"
            );
        }
    }
}
