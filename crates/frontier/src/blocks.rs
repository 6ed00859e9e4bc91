//! A file of checksummed blocks, written and read in order: the snapshot's container.
//!
//! A header of 512 bytes is followed by blocks of 65536 bytes, the last one shorter: each is a
//! [`BodyBlock`] and up to 65,532 bytes of contents.

use std::fmt::Display;

use filemap_io::header::{Kind, crc32};
use filemap_io::layout::Wire;
use filemap_io::{File, files};

use crate::error::{Error, Result};
use crate::format::body::BodyBlock;
use crate::format::{HEADER_BYTES, header, read_header};

const BLOCK_BYTES: usize = 64 << 10;
const CRC_BYTES: usize = BodyBlock::BYTES;
/// Bytes of the widest number.
const NUMBER_BYTES_MAX: usize = 16;

fn checksum(id: &[u8; 16], number: u64, block: u64, bytes: &[u8]) -> u32 {
    crc32(&[id, &number.to_le_bytes(), &block.to_le_bytes(), bytes])
}

fn offset(block: u64) -> u64 {
    HEADER_BYTES as u64 + block * BLOCK_BYTES as u64
}

/// Writes blocks.
pub(crate) struct BlockWriter<'a> {
    file: &'a dyn File,
    name: &'a str,
    id: [u8; 16],
    number: u64,
    block: u64,
    buffer: Vec<u8>,
}

impl<'a> BlockWriter<'a> {
    /// Writes the header; blocks follow.
    pub(crate) fn new(file: &'a dyn File, name: &'a str, kind: Kind, id: [u8; 16], number: u64) -> Result<Self> {
        files::write(file, name, &header(kind, id, number), 0)?;
        Ok(BlockWriter { file, name, id, number, block: 0, buffer: vec![0; CRC_BYTES] })
    }

    pub(crate) fn put(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.buffer.len()));
            self.buffer.extend_from_slice(now);
            bytes = later;
            if self.buffer.len() == BLOCK_BYTES {
                self.write()?;
            }
        }
        Ok(())
    }

    pub(crate) fn put_number<T: Wire>(&mut self, number: T) -> Result<()> {
        let mut bytes = [0; NUMBER_BYTES_MAX];
        number.write(&mut bytes);
        self.put(&bytes[..T::BYTES])
    }

    /// Writes a list of numbers, preceded by its length.
    pub(crate) fn put_list<T: Wire>(&mut self, mut numbers: impl ExactSizeIterator<Item = T>) -> Result<()> {
        self.put_number(numbers.len() as u64)?;
        numbers.try_for_each(|number| self.put_number(number))
    }

    fn write(&mut self) -> Result<()> {
        let crc = checksum(&self.id, self.number, self.block, &self.buffer[CRC_BYTES..]);
        BodyBlock::CRC.put(&mut self.buffer, crc);
        self.file.write_at(&self.buffer, offset(self.block)).map_err(Error::io("write", self.name))?;
        self.block += 1;
        self.buffer.truncate(CRC_BYTES);
        Ok(())
    }

    /// Writes the last block; returns the file's length.
    pub(crate) fn finish(mut self) -> Result<u64> {
        let rest = self.buffer.len();
        if rest == CRC_BYTES {
            return Ok(offset(self.block));
        }
        self.write()?;
        Ok(offset(self.block - 1) + rest as u64)
    }
}

/// Reads blocks.
pub(crate) struct BlockReader<'a> {
    file: &'a dyn File,
    name: &'a str,
    id: [u8; 16],
    number: u64,
    len: u64,
    /// Number of the next block.
    block: u64,
    buffer: Vec<u8>,
    at: usize,
}

impl<'a> BlockReader<'a> {
    /// Reads the header.
    pub(crate) fn new(file: &'a dyn File, name: &'a str, kind: Kind) -> Result<Self> {
        let (id, number) = read_header(file, name, kind)?;
        let len = file.len().map_err(Error::io("length", name))?;
        Ok(BlockReader { file, name, id, number, len, block: 0, buffer: Vec::new(), at: 0 })
    }

    pub(crate) fn id(&self) -> [u8; 16] {
        self.id
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Fills a buffer with the next bytes.
    pub(crate) fn take_into(&mut self, mut to: &mut [u8]) -> Result<()> {
        while !to.is_empty() {
            if self.at == self.buffer.len() {
                self.read()?;
            }
            let count = to.len().min(self.buffer.len() - self.at);
            let (now, later) = to.split_at_mut(count);
            now.copy_from_slice(&self.buffer[self.at..self.at + count]);
            self.at += count;
            to = later;
        }
        Ok(())
    }

    /// The next `N` bytes.
    pub(crate) fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.take_into(&mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn take_number<T: Wire>(&mut self) -> Result<T> {
        let mut bytes = [0; NUMBER_BYTES_MAX];
        self.take_into(&mut bytes[..T::BYTES])?;
        Ok(T::read(&bytes))
    }

    /// Reads the number of elements of the list that follows.
    pub(crate) fn take_count(&mut self) -> Result<u64> {
        self.take_number()
    }

    fn read(&mut self) -> Result<()> {
        let start = offset(self.block);
        let bytes = self.len.saturating_sub(start).min(BLOCK_BYTES as u64) as usize;
        if bytes <= CRC_BYTES {
            return Err(Error::corrupt(self.name, self.len, "the file ends too early"));
        }
        self.buffer.resize(bytes, 0);
        files::read_exact(self.file, self.name, &mut self.buffer, start)?;
        if BodyBlock::CRC.get(&self.buffer) != checksum(&self.id, self.number, self.block, &self.buffer[CRC_BYTES..]) {
            return Err(Error::corrupt(self.name, start, "block checksum mismatch"));
        }
        (self.block, self.at) = (self.block + 1, CRC_BYTES);
        Ok(())
    }

    /// An error at the offset read last.
    pub(crate) fn bad(&self, what: impl Display) -> Error {
        Error::corrupt(self.name, offset(self.block.saturating_sub(1)) + self.at as u64, what)
    }

    /// Refuses trailing bytes.
    pub(crate) fn finish(self) -> Result<()> {
        if self.at < self.buffer.len() || offset(self.block) < self.len {
            return Err(self.bad("bytes follow the last block"));
        }
        Ok(())
    }
}
