//! Compressed forms that are known by their first bytes and not read: an import says what to do
//! instead.

use std::fmt;

/// A form of compression that an import does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packing {
    /// xz
    Xz,
    /// bzip2
    Bzip2,
    /// LZ4 frames
    Lz4,
    /// lzip
    Lzip,
    /// 7-Zip
    SevenZip,
    /// Unix compress
    Compress,
}

impl Packing {
    /// The form of a file that begins with these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Option<Packing> {
        match bytes {
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Packing::Xz),
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..] => Some(Packing::Bzip2),
            [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, 0x38, 0x50, 0x90, ..] => Some(Packing::Bzip2),
            [0x04, 0x22, 0x4d, 0x18, ..] => Some(Packing::Lz4),
            [b'L', b'Z', b'I', b'P', 1, ..] => Some(Packing::Lzip),
            [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => Some(Packing::SevenZip),
            [0x1f, 0x9d, 0x80..=0x90, ..] => Some(Packing::Compress),
            _ => None,
        }
    }

    /// The program that unpacks it to standard output.
    pub fn command(self) -> &'static str {
        match self {
            Packing::Xz => "xz -dc",
            Packing::Bzip2 => "bzip2 -dc",
            Packing::Lz4 => "lz4 -dc",
            Packing::Lzip => "lzip -dc",
            Packing::SevenZip => "7z x -so",
            Packing::Compress => "uncompress -c",
        }
    }
}

impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Packing::Xz => "xz",
            Packing::Bzip2 => "bzip2",
            Packing::Lz4 => "LZ4",
            Packing::Lzip => "lzip",
            Packing::SevenZip => "7-Zip",
            Packing::Compress => "compress",
        })
    }
}
