//! The headers of a zip file: local header, central directory header, end of central directory.
//!
//! Invariant: parsing is total; sizes are parsed here, not trusted.

use std::io::{self, Read, Seek, SeekFrom};

use filemap_io::layout;
use filemap_io::layout::try_get;

/// Magic numbers of a local header, of a central directory header, and of the descriptor after
/// data without sizes.
pub(crate) const LOCAL: [u8; 4] = *b"PK\x03\x04";
pub(crate) const CENTRAL: [u8; 4] = *b"PK\x01\x02";
const DESCRIPTOR: [u8; 4] = *b"PK\x07\x08";
/// Magic number of the end of central directory record.
pub(crate) const END: [u8; 4] = *b"PK\x05\x06";
const END_64: [u8; 4] = *b"PK\x06\x06";
const LOCATOR_64: [u8; 4] = *b"PK\x06\x07";

/// Supported compression methods.
pub(crate) const STORED: u16 = 0;
pub(crate) const DEFLATED: u16 = 8;

layout! {
    /// Local header of an entry, before its data. The name and the extra fields follow.
    struct LocalHeader {
        0 MAGIC: [u8; 4] = "magic";
        4 NEEDED: u16 = "the version that a reader must know";
        6 FLAGS: u16 = "flags";
        8 METHOD: u16 = "compression method";
        10 CHANGED: u32 = "time and date of the last change";
        14 CRC: u32 = "CRC-32 of the data";
        18 PACKED_BYTES: u32 = "packed size";
        22 BYTES_OUT: u32 = "size";
        26 NAME_BYTES: u16 = "length of the name";
        28 EXTRA_BYTES: u16 = "length of the extra fields";
    }
}

layout! {
    /// Header of an entry in the central directory. The name, the extra fields and a comment
    /// follow.
    struct CentralHeader {
        0 MAGIC: [u8; 4] = "magic";
        4 MADE_BY: u16 = "the version of the writer";
        6 NEEDED: u16 = "the version that a reader must know";
        8 FLAGS: u16 = "flags";
        10 METHOD: u16 = "compression method";
        12 CHANGED: u32 = "time and date of the last change";
        16 CRC: u32 = "CRC-32 of the data";
        20 PACKED_BYTES: u32 = "packed size";
        24 BYTES_OUT: u32 = "size";
        28 NAME_BYTES: u16 = "length of the name";
        30 EXTRA_BYTES: u16 = "length of the extra fields";
        32 COMMENT_BYTES: u16 = "length of the comment";
        34 DISK: u16 = "the disk on which the data begins";
        36 INTERNAL: u16 = "attributes of the data";
        38 EXTERNAL: u32 = "attributes of the file";
        42 OFFSET: u32 = "offset of the header before the data";
    }
}

layout! {
    /// Beginning of an extra field.
    struct ExtraField {
        0 KIND: u16 = "kind; 1: numbers of 64 bits";
        2 LENGTH: u16 = "length of what follows";
    }
}

layout! {
    /// End of central directory record. A comment follows.
    struct EndRecord {
        0 MAGIC: [u8; 4] = "magic";
        4 DISKS: u32 = "the number of this disk, and of that with the list";
        8 ENTRIES_HERE: u16 = "entries on this disk";
        10 ENTRIES: u16 = "entries";
        12 LIST_BYTES: u32 = "length of the list";
        16 LIST_OFFSET: u32 = "offset of the list";
        20 COMMENT_BYTES: u16 = "length of the comment";
    }
}

layout! {
    /// Zip64 end of central directory record: with numbers of 64 bits.
    struct EndRecord64 {
        0 MAGIC: [u8; 4] = "magic";
        4 REST_BYTES: u64 = "length of what follows";
        12 VERSIONS: u32 = "the versions of the writer, and that a reader must know";
        16 DISKS: u64 = "the number of this disk, and of that with the list";
        24 ENTRIES_HERE: u64 = "entries on this disk";
        32 ENTRIES: u64 = "entries";
        40 LIST_BYTES: u64 = "length of the list";
        48 LIST_OFFSET: u64 = "offset of the list";
    }
}

layout! {
    /// Zip64 end of central directory locator.
    struct Locator64 {
        0 MAGIC: [u8; 4] = "magic";
        4 DISK: u32 = "the disk";
        8 OFFSET: u64 = "its offset";
        16 DISKS: u32 = "number of disks";
    }
}

/// Bytes of a local header without its name.
pub(crate) const LOCAL_BYTES: usize = LocalHeader::BYTES;
/// Stands in a 32-bit field whose 64-bit value is in an extra field.
const IS_64: u64 = 0xffff_ffff;

/// One header of an entry.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub(crate) name: Vec<u8>,
    pub(crate) method: u16,
    flags: u16,
    pub(crate) crc: u32,
    pub(crate) packed_bytes: u64,
    pub(crate) bytes_out: u64,
    /// Offset of the local header, by the central directory.
    pub(crate) offset: u64,
    /// Length of the header itself.
    pub(crate) bytes: usize,
}

impl Header {
    /// Parses the central directory header at the start of `bytes`; `None` if there is none.
    pub(crate) fn of_list(bytes: &[u8]) -> Option<Header> {
        let fixed = bytes.get(..CentralHeader::BYTES).filter(|fixed| fixed.starts_with(&CENTRAL))?;
        let lengths = [CentralHeader::NAME_BYTES, CentralHeader::EXTRA_BYTES, CentralHeader::COMMENT_BYTES];
        let lengths = lengths.map(|length| usize::from(length.get(fixed)));
        let bytes_in_all = CentralHeader::BYTES + lengths.iter().sum::<usize>();
        let rest = bytes.get(CentralHeader::BYTES..bytes_in_all)?;
        let (name, rest) = rest.split_at(lengths[0]);
        let mut header = Header {
            name: name.to_vec(),
            flags: CentralHeader::FLAGS.get(fixed),
            method: CentralHeader::METHOD.get(fixed),
            crc: CentralHeader::CRC.get(fixed),
            packed_bytes: CentralHeader::PACKED_BYTES.get(fixed).into(),
            bytes_out: CentralHeader::BYTES_OUT.get(fixed).into(),
            offset: CentralHeader::OFFSET.get(fixed).into(),
            bytes: bytes_in_all,
        };
        header.take_zip64(&rest[..lengths[1]]);
        Some(header)
    }

    /// Takes 64-bit numbers from the extra fields after the name.
    fn take_zip64(&mut self, mut fields: &[u8]) {
        while let Some(head) = fields.get(..ExtraField::BYTES) {
            let end = ExtraField::BYTES + usize::from(ExtraField::LENGTH.get(head));
            let Some(value) = fields.get(ExtraField::BYTES..end) else { return };
            fields = &fields[end..];
            if ExtraField::KIND.get(head) != 1 {
                continue;
            }
            let mut at = 0;
            for number in [&mut self.bytes_out, &mut self.packed_bytes, &mut self.offset] {
                if let (IS_64, Some(value)) = (*number, try_get::<u64>(value, at)) {
                    *number = value;
                    at += 8;
                }
            }
        }
    }

    /// Returns whether the header has the sizes: a writer that cannot seek puts them after the
    /// data.
    pub(crate) fn has_sizes(&self) -> bool {
        self.flags & 8 == 0
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.flags & 1 != 0
    }

    /// Corrects this central directory header by the local one: a method that does not fit the
    /// sizes, an encryption flag that only one of them has.
    pub(crate) fn settle(&mut self, local: &Header) {
        if self.method != local.method {
            let is_stored = self.packed_bytes == self.bytes_out;
            self.method = if is_stored { STORED } else { DEFLATED };
        }
        self.flags &= local.flags | !1;
    }

    /// Describes the first difference between the local header and this one of the central
    /// directory.
    pub(crate) fn differs(&self, local: &Header) -> Option<String> {
        let shown = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        if self.name != local.name {
            return Some(format!("its own header calls it {:?}", shown(&local.name)));
        }
        let numbers = [
            ("method", self.method.into(), local.method.into()),
            ("flags", (self.flags & 9).into(), (local.flags & 9).into()),
            ("checksum", self.crc.into(), local.crc.into()),
            ("packed size", self.packed_bytes, local.packed_bytes),
            ("size", self.bytes_out, local.bytes_out),
        ];
        let is_told = |what: &str| local.has_sizes() || matches!(what, "method" | "flags");
        let differ = |&(what, list, own): &(&str, u64, u64)| is_told(what) && list != own;
        let (what, list, own) = numbers.into_iter().find(differ)?;
        Some(format!("{what} mismatch: {own} in its local header, {list} in the central directory"))
    }

    /// The length of the descriptor after the data of an entry without sizes; 0 if these bytes are
    /// not one.
    pub(crate) fn descriptor_bytes(&self, bytes: &[u8]) -> u64 {
        let from = if bytes.starts_with(&DESCRIPTOR) { 4 } else { 0 };
        if self.has_sizes() || try_get::<u32>(bytes, from) != Some(self.crc) {
            return 0;
        }
        let long = |at: usize| try_get::<u64>(bytes, at);
        let is_64 = long(from + 4) == Some(self.packed_bytes) && long(from + 12) == Some(self.bytes_out);
        let of = |at: usize| try_get::<u32>(bytes, at).map(u64::from);
        let is_32 = of(from + 4) == Some(self.packed_bytes & IS_64) && of(from + 8) == Some(self.bytes_out & IS_64);
        match (is_32, is_64) {
            (true, false) => from as u64 + 12,
            (_, true) => from as u64 + 20,
            (false, false) => 0,
        }
    }

    /// Takes the sizes from these bytes after the data, if they are a descriptor for that length.
    pub(crate) fn take_descriptor(&mut self, bytes: &[u8], packed_bytes: u64) -> bool {
        let word = |at: usize| try_get::<u32>(bytes, at);
        let is_it = bytes.starts_with(&DESCRIPTOR) && word(8).map(u64::from) == Some(packed_bytes & IS_64);
        if let (true, Some(crc), Some(bytes_out)) = (is_it, word(4), word(12)) {
            (self.crc, self.packed_bytes, self.bytes_out) = (crc, packed_bytes, bytes_out.into());
        }
        is_it
    }
}

/// The local header at this offset; `None` if there is none.
pub(crate) fn local_header<R: Read + Seek>(source: &mut R, offset: u64) -> io::Result<Option<Header>> {
    let fixed = piece(source, offset, LOCAL_BYTES)?;
    if fixed.len() < LOCAL_BYTES || !fixed.starts_with(&LOCAL) {
        return Ok(None);
    }
    let lengths = [LocalHeader::NAME_BYTES, LocalHeader::EXTRA_BYTES];
    let [name, fields] = lengths.map(|length| usize::from(length.get(&fixed)));
    let rest = piece(source, offset + LOCAL_BYTES as u64, name + fields)?;
    if rest.len() < name + fields {
        return Ok(None);
    }
    let mut header = Header {
        name: rest[..name].to_vec(),
        flags: LocalHeader::FLAGS.get(&fixed),
        method: LocalHeader::METHOD.get(&fixed),
        crc: LocalHeader::CRC.get(&fixed),
        packed_bytes: LocalHeader::PACKED_BYTES.get(&fixed).into(),
        bytes_out: LocalHeader::BYTES_OUT.get(&fixed).into(),
        offset,
        bytes: LOCAL_BYTES + name + fields,
    };
    header.take_zip64(&rest[name..]);
    Ok(Some(header))
}

/// End of a central directory.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) entries: u64,
    pub(crate) list_bytes: u64,
    pub(crate) list_offset: u64,
    /// Length of the record with its comment, in bytes.
    pub(crate) bytes: u64,
}

impl End {
    /// Parses the end record at the start of `bytes`; `None` if there is none.
    pub(crate) fn parse(bytes: &[u8]) -> Option<End> {
        let end = bytes.get(..EndRecord::BYTES).filter(|end| end.starts_with(&END))?;
        Some(End {
            entries: EndRecord::ENTRIES.get(end).into(),
            list_bytes: EndRecord::LIST_BYTES.get(end).into(),
            list_offset: EndRecord::LIST_OFFSET.get(end).into(),
            bytes: EndRecord::BYTES as u64 + u64::from(EndRecord::COMMENT_BYTES.get(end)),
        })
    }

    /// Takes the 64-bit numbers that belong to the end record at offset `at`, if there are any.
    /// Returns their offset.
    pub(crate) fn take_zip64<R: Read + Seek>(&mut self, source: &mut R, at: u64) -> io::Result<Option<u64>> {
        let Some(locator_at) = at.checked_sub(Locator64::BYTES as u64) else { return Ok(None) };
        let locator = piece(source, locator_at, Locator64::BYTES)?;
        if locator.len() < Locator64::BYTES || !locator.starts_with(&LOCATOR_64) {
            return Ok(None);
        }
        // Bytes before the zip file shift the offset.
        for place in [Locator64::OFFSET.get(&locator), locator_at.saturating_sub(EndRecord64::BYTES as u64)] {
            let found = piece(source, place, EndRecord64::BYTES)?;
            if found.len() == EndRecord64::BYTES && found.starts_with(&END_64) && place < locator_at {
                self.entries = EndRecord64::ENTRIES.get(&found);
                self.list_bytes = EndRecord64::LIST_BYTES.get(&found);
                self.list_offset = EndRecord64::LIST_OFFSET.get(&found);
                return Ok(Some(place));
            }
        }
        Ok(None)
    }
}

/// Up to `count` bytes from `from` on.
pub(crate) fn piece<R: Read + Seek>(source: &mut R, from: u64, count: usize) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    if i64::try_from(from).is_ok() {
        source.seek(SeekFrom::Start(from))?;
        source.take(count as u64).read_to_end(&mut out)?;
    }
    Ok(out)
}
