//! The file of a trie: its URLs in order, written as in a block, in frames that each have a checksum.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 8 | magic `FMTRIE01` |
//! | 8 | 2, 2 | the version that a reader, and a writer, must know |
//! | 12 | 4 | CRC-32 of the 12 bytes before |
//! | 16 | | frames |
//!
//! A frame is its length (4 bytes), the CRC-32 of its offset in the file (8 bytes), of that length and of its bytes, and its bytes:
//! entries, of which the first shares nothing. The last frame has a length of 0 and, in the place of entries, the number of URLs (8
//! bytes, under its checksum). All numbers are little-endian. The file is only ever replaced as a whole.

use crc32fast::Hasher;
use filemap_io::{Access, Dir, File};

use super::block::{self, Kind};
use super::tree::KEY_BYTES_MAX;
use crate::error::{Error, Result};
use crate::files;

pub(crate) const MAGIC: [u8; 8] = *b"FMTRIE01";
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 16;
const FRAME_HEADER_BYTES: usize = 8;
/// A frame is ended once it is longer.
const FRAME_BYTES: usize = 256 << 10;
const FRAME_BYTES_MAX: usize = FRAME_BYTES + KEY_BYTES_MAX + 16;

/// Writes URLs that come in order; how many they were.
pub(super) fn save(dir: &dyn Dir, name: &str, urls: impl Iterator<Item = Vec<u8>>) -> Result<u64> {
    let mut count = 0u64;
    files::replace(dir, name, |file, new| {
        let write = |bytes: &[u8], at: u64| file.write_at(bytes, at).map_err(Error::io("write", new));
        write(&header(), 0)?;
        let mut at = HEADER_BYTES as u64;
        let (mut entries, mut before) = (Vec::new(), Vec::new());
        for url in urls {
            let shared = if entries.is_empty() { 0 } else { block::common(&before, &url) };
            block::push(&mut entries, shared, &url[shared..], 0, Kind::Leaf);
            (before, count) = (url, count + 1);
            if entries.len() > FRAME_BYTES {
                at = write_frame(&write, at, &entries, entries.len())?;
                entries.clear();
            }
        }
        if !entries.is_empty() {
            at = write_frame(&write, at, &entries, entries.len())?;
        }
        write_frame(&write, at, &count.to_le_bytes(), 0).map(drop)
    })?;
    Ok(count)
}

fn write_frame(write: &impl Fn(&[u8], u64) -> Result<()>, at: u64, bytes: &[u8], len: usize) -> Result<u64> {
    let len = (len as u32).to_le_bytes();
    let frame = [&len[..], &frame_crc(at, len, bytes).to_le_bytes(), bytes].concat();
    write(&frame, at)?;
    Ok(at + frame.len() as u64)
}

/// Reads all URLs; `insert` says whether one is new.
pub(super) fn load(dir: &dyn Dir, name: &str, mut insert: impl FnMut(&[u8]) -> bool) -> Result<()> {
    let file = dir.open(name, Access::Read).map_err(Error::io("open", name))?;
    let mut start = [0; HEADER_BYTES];
    files::read_exact(&*file, name, &mut start, 0)?;
    check_header(&start, name)?;
    let (mut at, mut count) = (HEADER_BYTES as u64, 0u64);
    let mut before = Vec::new();
    loop {
        let (bytes, is_last) = read_frame(&*file, name, at)?;
        let next = at + (FRAME_HEADER_BYTES + bytes.len()) as u64;
        let corrupt = |what: &str| Err(Error::corrupt(name, at, what));
        if is_last {
            let len = file.len().map_err(Error::io("length", name))?;
            return match () {
                () if u64::from_le_bytes(files::array(&bytes, 0)) != count => {
                    corrupt("there are other URLs than it counts")
                }
                () if len != next => corrupt("bytes follow the last frame"),
                () => Ok(()),
            };
        }
        let (mut offset, mut key) = (0, Vec::new());
        while let Some(entry) = block::entry(&bytes, offset, Kind::Leaf) {
            if entry.shared > key.len() || (offset == 0 && entry.shared > 0) {
                return corrupt("a URL shares more than there is");
            }
            key.truncate(entry.shared);
            key.extend_from_slice(entry.rest);
            if key <= before || key.len() > KEY_BYTES_MAX || !insert(&key) {
                return corrupt("the URLs are not in order");
            }
            before.clone_from(&key);
            (offset, count) = (entry.end, count + 1);
        }
        if offset != bytes.len() {
            return corrupt("the frame does not end with a URL");
        }
        at = next;
    }
}

/// The bytes of the frame at `at`, and whether it is the last.
fn read_frame(file: &dyn File, name: &str, at: u64) -> Result<(Vec<u8>, bool)> {
    let mut start = [0; FRAME_HEADER_BYTES];
    files::read_exact(file, name, &mut start, at)?;
    let len: [u8; 4] = files::array(&start, 0);
    let entries = u32::from_le_bytes(len) as usize;
    if entries > FRAME_BYTES_MAX {
        return Err(Error::corrupt(name, at, "no frame is that long"));
    }
    let mut bytes = vec![0; if entries == 0 { 8 } else { entries }];
    files::read_exact(file, name, &mut bytes, at + FRAME_HEADER_BYTES as u64)?;
    if u32::from_le_bytes(files::array(&start, 4)) != frame_crc(at, len, &bytes) {
        return Err(Error::corrupt(name, at, "the frame's checksum is another"));
    }
    Ok((bytes, entries == 0))
}

fn frame_crc(at: u64, len: [u8; 4], bytes: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&at.to_le_bytes());
    hasher.update(&len);
    hasher.update(bytes);
    hasher.finalize()
}

fn header() -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    bytes[10..12].copy_from_slice(&VERSION.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..12]);
    bytes[12..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn check_header(bytes: &[u8; HEADER_BYTES], name: &str) -> Result<()> {
    if bytes[..8] != MAGIC {
        return Err(Error::corrupt(name, 0, "this is no URL trie"));
    }
    let found = u16::from_le_bytes(files::array(bytes, 8));
    if found > VERSION {
        return Err(Error::NewerFormat { file: name.to_owned(), found, supported: VERSION });
    }
    if u32::from_le_bytes(files::array(bytes, 12)) != crc32fast::hash(&bytes[..12]) {
        return Err(Error::corrupt(name, 12, "the header's checksum is another"));
    }
    Ok(())
}
