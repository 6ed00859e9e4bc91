//! A file of checksummed blocks, written and read in order: the snapshot's container.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 512 | header |
//! | 512 | 65536 each, the last one less | blocks |
//!
//! A block is a CRC-32 (of the frontier's id, the file's number, the block's number (8 bytes each)
//! and the rest of the block) and up to 65,532 bytes of contents.

use std::fmt::Display;

use filemap_io::header::{Kind, crc32};
use filemap_io::layout::get;
use filemap_io::{File, files};

use crate::error::{Error, Result};
use crate::format::{HEADER_BYTES, header, read_header};

const BLOCK_BYTES: usize = 64 << 10;
const CRC_BYTES: usize = 4;

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

    fn write(&mut self) -> Result<()> {
        let crc = checksum(&self.id, self.number, self.block, &self.buffer[CRC_BYTES..]);
        self.buffer[..CRC_BYTES].copy_from_slice(&crc.to_le_bytes());
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

    pub(crate) fn take_u64(&mut self) -> Result<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn read(&mut self) -> Result<()> {
        let start = offset(self.block);
        let bytes = self.len.saturating_sub(start).min(BLOCK_BYTES as u64) as usize;
        if bytes <= CRC_BYTES {
            return Err(Error::corrupt(self.name, self.len, "the file ends too early"));
        }
        self.buffer.resize(bytes, 0);
        files::read_exact(self.file, self.name, &mut self.buffer, start)?;
        let crc = get::<u32>(&self.buffer, 0);
        if crc != checksum(&self.id, self.number, self.block, &self.buffer[CRC_BYTES..]) {
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
