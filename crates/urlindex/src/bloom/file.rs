//! The file of a Bloom filter: a header sector, then sectors of 504 bytes of bits, each under its
//! own checksum.
//!
//! The device writes a sector of 512 bytes whole or not at all, so sectors are written in place:
//! after a crash each is an old or a new one, and both hold only bits that were set. No sector
//! depends on another.

use std::sync::Arc;

use filemap_io::header::{crc32, seal};
use filemap_io::layout::get;
use filemap_io::{Access, Advice, Dir, File, StorageError};

use super::hash::HashFamily;
use super::options::Design;
use super::shape::{LINE_BITS, Layout, Shape};
use super::words::Words;
use crate::error::{Error, Result};
use crate::files;
use crate::format::{BLOOM, BloomHeader, BloomSector};

const SECTOR_BYTES: usize = BloomSector::BYTES;
const SECTOR_WORDS: usize = 63;
/// Sectors written together.
const PART_SECTORS: usize = 64;
/// Words of a part, which is dirty as a whole.
pub(super) const PART_WORDS: usize = PART_SECTORS * SECTOR_WORDS;
/// Attempts to read a file that another process may be writing.
const LOOKS: u32 = 5;

/// The open file of a filter.
#[derive(Debug)]
pub(super) struct BloomFile {
    name: String,
    file: Arc<dyn File>,
    id: [u8; 16],
    len: u64,
}

impl BloomFile {
    /// Creates the file of an empty filter, durably.
    pub(super) fn create(dir: &dyn Dir, name: &str, design: &Design, words: &Words) -> Result<BloomFile> {
        let id = files::new_id(dir)?;
        files::replace(dir, name, |file, new| {
            let write = |bytes: &[u8], at: u64| file.write_at(bytes, at).map_err(Error::io("write", new));
            write(&header(design, id, 0), 0)?;
            let parts = words.len().div_ceil(PART_WORDS);
            (0..parts).try_for_each(|part| write(&part_bytes(words, part, id), part_offset(part)))
        })?;
        let file = dir.open(name, Access::Write).map_err(Error::io("open", name))?;
        Ok(BloomFile { name: name.to_owned(), file, id, len: file_len(words.len()) })
    }

    /// Reads a whole filter: file, design, number of URLs, bits.
    pub(super) fn open(dir: &dyn Dir, name: &str) -> Result<(BloomFile, Design, u64, Words)> {
        let file = dir.open(name, Access::Write).map_err(Error::io("open", name))?;
        // After a failed sync the page cache may hold what the device does not: reread from the
        // device.
        file.sync().map_err(Error::io("sync", name))?;
        file.advise(Advice::DropCache, 0, 0);
        BloomFile::read(file, name)
    }

    /// [`BloomFile::open`] read-only beside a writer: reads again if a sector was half written.
    pub(super) fn open_read_only(dir: &dyn Dir, name: &str) -> Result<(BloomFile, Design, u64, Words)> {
        let file = dir.open(name, Access::Read).map_err(Error::io("open", name))?;
        for _ in 1..LOOKS {
            match BloomFile::read(Arc::clone(&file), name) {
                Err(Error::Storage(StorageError::Corrupt { .. })) => {}
                read => return read,
            }
        }
        BloomFile::read(file, name)
    }

    fn read(file: Arc<dyn File>, name: &str) -> Result<(BloomFile, Design, u64, Words)> {
        let mut sector = [0; SECTOR_BYTES];
        files::read_exact(&*file, name, &mut sector, 0)?;
        let (design, id, urls) = decode_header(&sector, name)?;
        let len = file.len().map_err(Error::io("length", name))?;
        let wanted = file_len((design.shape.bits / 64) as usize);
        if len != wanted {
            let what = format!("the file has {len} bytes, its header says {wanted}");
            return Err(Error::corrupt(name, len.min(wanted), what));
        }
        // The length is right, so the header cannot ask for more memory than the file has.
        let words = Words::new(design.shape.bits, PART_WORDS);
        let mut buf = vec![0; PART_SECTORS * SECTOR_BYTES];
        for part in 0..words.len().div_ceil(PART_WORDS) {
            let offset = part_offset(part);
            let bytes = &mut buf[..((len - offset) as usize).min(PART_SECTORS * SECTOR_BYTES)];
            files::read_exact(&*file, name, bytes, offset)?;
            for (number, sector) in bytes.as_chunks::<SECTOR_BYTES>().0.iter().enumerate() {
                take_sector(&words, part * PART_SECTORS + number, sector, id, name)?;
            }
        }
        Ok((BloomFile { name: name.to_owned(), file, id, len }, design, urls, words))
    }

    /// Writes the dirty parts and makes them durable.
    pub(super) fn sync(&self, design: &Design, urls: u64, words: &Words) -> Result<()> {
        let dirty = words.take_dirty();
        if dirty.is_empty() {
            return Ok(());
        }
        for part in dirty {
            self.write(&part_bytes(words, part, self.id), part_offset(part))?;
        }
        self.write(&header(design, self.id, urls), 0)?;
        self.file.sync().map_err(Error::io("sync", &self.name))
    }

    fn write(&self, bytes: &[u8], at: u64) -> Result<()> {
        self.file.write_at(bytes, at).map_err(Error::io("write", &self.name))
    }

    pub(super) fn id(&self) -> [u8; 16] {
        self.id
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }
}

fn file_len(words: usize) -> u64 {
    ((1 + words.div_ceil(SECTOR_WORDS)) * SECTOR_BYTES) as u64
}

fn part_offset(part: usize) -> u64 {
    ((1 + part * PART_SECTORS) * SECTOR_BYTES) as u64
}

fn header(design: &Design, id: [u8; 16], urls: u64) -> [u8; SECTOR_BYTES] {
    let mut bytes = [0; SECTOR_BYTES];
    BLOOM.begin(&mut bytes);
    BloomHeader::LAYOUT.put(&mut bytes, u8::from(design.shape.layout == Layout::Blocked));
    BloomHeader::FAMILY.put(&mut bytes, design.family as u8);
    BloomHeader::PROBES.put(&mut bytes, design.shape.probes as u16);
    BloomHeader::ID.put(&mut bytes, id);
    BloomHeader::BITS.put(&mut bytes, design.shape.bits);
    BloomHeader::SEED.put(&mut bytes, design.seed);
    BloomHeader::CAPACITY.put(&mut bytes, design.capacity);
    BloomHeader::URLS.put(&mut bytes, urls);
    seal(&mut bytes);
    bytes
}

fn decode_header(bytes: &[u8; SECTOR_BYTES], name: &str) -> Result<(Design, [u8; 16], u64)> {
    BLOOM.check(name, bytes)?;
    let code = BloomHeader::LAYOUT.get(bytes);
    let layout = if code == 1 { Layout::Blocked } else { Layout::Standard };
    let family = HashFamily::ALL.into_iter().find(|family| *family as u8 == BloomHeader::FAMILY.get(bytes));
    let (bits, probes) = (BloomHeader::BITS.get(bytes), u32::from(BloomHeader::PROBES.get(bytes)));
    let forged = |what: &str| Error::corrupt(name, BloomHeader::LAYOUT.at as u64, what);
    let shape = Shape::new(layout, bits, probes).map_err(|_| forged("impossible shape"))?;
    let family = family.ok_or_else(|| forged("impossible hash family"))?;
    let design =
        Design { shape, family, seed: BloomHeader::SEED.get(bytes), capacity: BloomHeader::CAPACITY.get(bytes) };
    design.check().map_err(|_| forged("impossible shape for this hash family"))?;
    if bits % LINE_BITS != 0 || code > 1 {
        return Err(forged("impossible shape"));
    }
    Ok((design, BloomHeader::ID.get(bytes), BloomHeader::URLS.get(bytes)))
}

fn part_bytes(words: &Words, part: usize, id: [u8; 16]) -> Vec<u8> {
    let first = part * PART_SECTORS;
    let sectors = (words.len() - first * SECTOR_WORDS).div_ceil(SECTOR_WORDS).min(PART_SECTORS);
    let mut bytes = Vec::with_capacity(sectors * SECTOR_BYTES);
    for number in first..first + sectors {
        let start = bytes.len();
        for at in number * SECTOR_WORDS..(number + 1) * SECTOR_WORDS {
            let word = if at < words.len() { words.load(at) } else { 0 };
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.resize(start + SECTOR_BYTES, 0);
        let crc = sector_crc(&bytes[start..start + BloomSector::CRC.at], number, id);
        BloomSector::CRC.put(&mut bytes[start..], crc);
    }
    bytes
}

fn take_sector(words: &Words, number: usize, sector: &[u8; SECTOR_BYTES], id: [u8; 16], name: &str) -> Result<()> {
    let crc = BloomSector::CRC;
    if crc.get(sector) != sector_crc(&sector[..crc.at], number, id) {
        let offset = ((1 + number) * SECTOR_BYTES) as u64;
        return Err(Error::corrupt(name, offset, "sector checksum mismatch"));
    }
    let first = number * SECTOR_WORDS;
    for i in 0..SECTOR_WORDS.min(words.len() - first) {
        words.store(first + i, get(sector, 8 * i));
    }
    Ok(())
}

fn sector_crc(bytes: &[u8], number: usize, id: [u8; 16]) -> u32 {
    crc32(&[&id, &(number as u64).to_le_bytes(), bytes])
}
