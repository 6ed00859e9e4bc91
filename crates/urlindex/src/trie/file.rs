//! The file of a trie: its URLs in order, each without the prefix shared with the one before, in
//! frames with checksums.
//!
//! The first frame has the number of URLs at which the trie trains its next table (8 bytes) and
//! its table of symbols, possibly empty: for each its length (1 byte) and its text. Frames of
//! entries follow: the length of the shared prefix (0 in a frame's first entry), the length of the
//! rest as encoded (each one byte, or 255 and four bytes), and the rest, in codes of the table if
//! there is one. The last frame has a length of 0 and, in the place of entries, the number of URLs
//! (8 bytes, under its checksum). The file is only ever replaced as a whole.

use filemap_io::header::{crc32, seal};
use filemap_io::layout::{get, push, take};
use filemap_io::{Access, Dir, File};

use super::key::common;
use super::symbols::{self, Learnt, Symbols};
use super::tree::KEY_BYTES_MAX;
use crate::error::{Error, Result};
use crate::files;
use crate::format::{TRIE, TrieFrame, TrieHeader};

const HEADER_BYTES: usize = TrieHeader::BYTES;
const FRAME_HEADER_BYTES: usize = TrieFrame::BYTES;
/// Length from which on a frame is ended.
const FRAME_BYTES: usize = 256 << 10;
/// Maximum length of a frame: each byte of its last URL takes up to two.
const FRAME_BYTES_MAX: usize = FRAME_BYTES + 2 * KEY_BYTES_MAX + 16;
const _: () = assert!(8 + symbols::CODES_MAX * (1 + symbols::SYMBOL_BYTES_MAX) <= FRAME_BYTES_MAX);
/// Marks a length over one byte.
const WIDE: u8 = 255;

/// Writes sorted URLs; returns their number.
pub(super) fn save(dir: &dyn Dir, name: &str, learnt: &Learnt, urls: impl Iterator<Item = Vec<u8>>) -> Result<u64> {
    let mut count = 0u64;
    files::replace(dir, name, |file, new| {
        let write = |bytes: &[u8], at: u64| file.write_at(bytes, at).map_err(Error::io("write", new));
        write(&header(), 0)?;
        let table = learnt.bytes();
        let mut at = write_frame(&write, HEADER_BYTES as u64, &table, table.len())?;
        let (mut entries, mut edge, mut before) = (Vec::new(), Vec::new(), Vec::new());
        for url in urls {
            let shared = if entries.is_empty() { 0 } else { common(&before, &url) };
            edge.clear();
            match &learnt.symbols {
                Some(symbols) => symbols.encode(&url[shared..], &mut edge),
                None => edge.extend_from_slice(&url[shared..]),
            }
            push_length(&mut entries, shared);
            push_length(&mut entries, edge.len());
            entries.extend_from_slice(&edge);
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

/// Appends a length: a byte, or 255 and four.
fn push_length(bytes: &mut Vec<u8>, length: usize) {
    match u8::try_from(length).ok().filter(|length| *length != WIDE) {
        Some(length) => bytes.push(length),
        None => {
            bytes.push(WIDE);
            push(bytes, length as u32);
        }
    }
}

/// Takes a length off the bytes.
fn length(bytes: &mut &[u8]) -> Option<usize> {
    let (&byte, rest) = bytes.split_first()?;
    *bytes = rest;
    if byte != WIDE {
        return Some(usize::from(byte));
    }
    Some(take::<u32>(bytes)? as usize)
}

/// Takes an entry off the bytes and turns the previous key into its key. `None` if the bytes are
/// not an entry.
fn take_entry(bytes: &mut &[u8], key: &mut Vec<u8>, symbols: Option<&Symbols>) -> Option<()> {
    let shared = length(bytes)?;
    let len = length(bytes)?;
    let (edge, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    if shared > key.len() {
        return None;
    }
    key.truncate(shared);
    match symbols {
        Some(symbols) => symbols.try_decode(edge, key),
        None => {
            key.extend_from_slice(edge);
            Some(())
        }
    }
}

fn write_frame(write: &impl Fn(&[u8], u64) -> Result<()>, at: u64, bytes: &[u8], len: usize) -> Result<u64> {
    let mut frame = vec![0; FRAME_HEADER_BYTES];
    TrieFrame::LEN.put(&mut frame, len as u32);
    let crc = frame_crc(at, get(&frame, TrieFrame::LEN.at), bytes);
    TrieFrame::CRC.put(&mut frame, crc);
    frame.extend_from_slice(bytes);
    write(&frame, at)?;
    Ok(at + frame.len() as u64)
}

/// Reads a file: passes its beginning to `begin`, and all URLs to `insert`, which returns whether
/// a URL is new.
pub(super) fn load<T>(
    dir: &dyn Dir,
    name: &str,
    begin: impl FnOnce(&Learnt) -> T,
    mut insert: impl FnMut(&mut T, &[u8]) -> bool,
) -> Result<T> {
    let file = dir.open(name, Access::Read).map_err(Error::io("open", name))?;
    let mut start = [0; HEADER_BYTES];
    files::read_exact(&*file, name, &mut start, 0)?;
    TRIE.check(name, &start)?;
    let (mut at, mut count) = (HEADER_BYTES as u64, 0u64);
    let (table, _) = read_frame(&*file, name, at)?;
    let learnt = Learnt::of(&table).ok_or_else(|| Error::corrupt(name, at, "not a table of symbols"))?;
    at += (FRAME_HEADER_BYTES + table.len()) as u64;
    let mut loaded = begin(&learnt);
    let mut before = Vec::new();
    loop {
        let (bytes, is_last) = read_frame(&*file, name, at)?;
        let next = at + (FRAME_HEADER_BYTES + bytes.len()) as u64;
        let corrupt = |what: &str| Err(Error::corrupt(name, at, what));
        if is_last {
            let len = file.len().map_err(Error::io("length", name))?;
            return match () {
                () if get::<u64>(&bytes, 0) != count => corrupt("wrong count of URLs"),
                () if len != next => corrupt("bytes follow the last frame"),
                () => Ok(loaded),
            };
        }
        let (mut rest, mut key) = (bytes.as_slice(), Vec::new());
        while !rest.is_empty() {
            if take_entry(&mut rest, &mut key, learnt.symbols.as_deref()).is_none() {
                return corrupt("not entries of URLs");
            }
            if key <= before || key.len() > KEY_BYTES_MAX || !insert(&mut loaded, &key) {
                return corrupt("the URLs are not in order");
            }
            before.clone_from(&key);
            count += 1;
        }
        at = next;
    }
}

/// Bytes of the frame at `at`, and whether it is the last.
fn read_frame(file: &dyn File, name: &str, at: u64) -> Result<(Vec<u8>, bool)> {
    let mut start = [0; FRAME_HEADER_BYTES];
    files::read_exact(file, name, &mut start, at)?;
    let len: [u8; 4] = get(&start, TrieFrame::LEN.at);
    let entries = TrieFrame::LEN.get(&start) as usize;
    if entries > FRAME_BYTES_MAX {
        return Err(Error::corrupt(name, at, "the frame is too long"));
    }
    let mut bytes = vec![0; if entries == 0 { 8 } else { entries }];
    files::read_exact(file, name, &mut bytes, at + FRAME_HEADER_BYTES as u64)?;
    if TrieFrame::CRC.get(&start) != frame_crc(at, len, &bytes) {
        return Err(Error::corrupt(name, at, "frame checksum mismatch"));
    }
    Ok((bytes, entries == 0))
}

fn frame_crc(at: u64, len: [u8; 4], bytes: &[u8]) -> u32 {
    crc32(&[&at.to_le_bytes(), &len, bytes])
}

fn header() -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    TRIE.begin(&mut bytes);
    seal(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trie::symbols::Symbol;
    use filemap_io::StorageError;
    use filemap_io::sim::SimDisk;
    use std::sync::Arc;

    /// A file with these frames, whatever they hold.
    fn file_of(frames: &[&[u8]]) -> Vec<u8> {
        let mut bytes = header().to_vec();
        for frame in frames {
            let (at, len) = (bytes.len() as u64, (frame.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&len);
            bytes.extend_from_slice(&frame_crc(at, len, frame).to_le_bytes());
            bytes.extend_from_slice(frame);
        }
        bytes
    }

    #[test]
    fn frames_whose_checksums_are_right_but_which_no_trie_wrote_are_corrupt() {
        let disk = SimDisk::new(1);
        let words = (0..=255).map(Symbol::byte).chain(Symbol::of(b"http://"));
        let symbols = Symbols::new(&words.collect::<Vec<_>>()).expect("a table");
        let table = Learnt { symbols: Some(Arc::new(symbols)), train_at: 9 }.bytes();
        let raw = 9u64.to_le_bytes();
        let mut rng = fastrand::Rng::with_seed(3);
        let load = |frames: &[&[u8]]| {
            disk.set_bytes("trie", &file_of(frames));
            load(&*disk.dir(), "trie", |_| (), |(), _| true)
        };
        for round in 0..3_000 {
            let frame: Vec<u8> =
                (0..rng.usize(1..30)).map(|_| if rng.bool() { rng.u8(..9) } else { rng.u8(..) }).collect();
            let first: &[u8] = if round % 2 == 0 { &table } else { &raw };
            // The last frame is missing in every case.
            assert!(matches!(load(&[first, &frame]), Err(Error::Storage(StorageError::Corrupt { .. }))), "{frame:?}");
            assert!(matches!(load(&[&frame]), Err(Error::Storage(StorageError::Corrupt { .. }))), "{frame:?}");
            let torn = &table[..rng.usize(9..table.len())];
            assert!(matches!(load(&[torn, &frame]), Err(Error::Storage(StorageError::Corrupt { .. }))));
        }
    }
}
