//! Compressed formats that an import recognises by their first bytes but does not read.

use std::fmt;

/// A compressed format that an import recognises but does not read.
///
/// ```
/// use filemap::warc::Packing;
/// assert_eq!((Packing::Xz.to_string(), Packing::Xz.command()), ("xz".to_owned(), "xz -dc"));
/// ```
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
    /// The format of a file that begins with these bytes.
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

    /// The command that decompresses it to standard output.
    pub fn command(self) -> &'static str {
        self.name_and_command().1
    }

    fn name_and_command(self) -> (&'static str, &'static str) {
        match self {
            Packing::Xz => ("xz", "xz -dc"),
            Packing::Bzip2 => ("bzip2", "bzip2 -dc"),
            Packing::Lz4 => ("LZ4", "lz4 -dc"),
            Packing::Lzip => ("lzip", "lzip -dc"),
            Packing::SevenZip => ("7-Zip", "7z x -so"),
            Packing::Compress => ("compress", "uncompress -c"),
        }
    }
}

impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name_and_command().0)
    }
}
