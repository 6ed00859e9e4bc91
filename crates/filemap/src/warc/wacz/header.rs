//! The headers of a zip file: of an entry, before its data and in the list, and the end of the
//! list.
//!
//! Invariant: parsing is total; sizes are parsed here, not trusted.

use std::io::{self, Read, Seek, SeekFrom};

/// Magic numbers of an entry's header before its data, in the list, and of the descriptor after
/// data without sizes.
pub(crate) const LOCAL: [u8; 4] = *b"PK\x03\x04";
pub(crate) const CENTRAL: [u8; 4] = *b"PK\x01\x02";
const DESCRIPTOR: [u8; 4] = *b"PK\x07\x08";
/// Magic number of the end of the list.
pub(crate) const END: [u8; 4] = *b"PK\x05\x06";
const END_64: [u8; 4] = *b"PK\x06\x06";
const LOCATOR_64: [u8; 4] = *b"PK\x06\x07";

/// Supported compression methods.
pub(crate) const STORED: u16 = 0;
pub(crate) const DEFLATED: u16 = 8;

/// Bytes of a local header without its name.
pub(crate) const LOCAL_BYTES: usize = 30;
const CENTRAL_BYTES: usize = 46;
/// In place of a number of 32 bits whose 64 bits are in an extra field.
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
    /// Offset of the header before the data, by the list.
    pub(crate) offset: u64,
    /// Length of the header itself.
    pub(crate) bytes: usize,
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

impl Header {
    /// The header at the start of `bytes`, of the list; `None` if there is none.
    pub(crate) fn of_list(bytes: &[u8]) -> Option<Header> {
        let fixed = bytes.get(..CENTRAL_BYTES).filter(|fixed| fixed.starts_with(&CENTRAL))?;
        let lengths = [usize::from(short(fixed, 28)?), usize::from(short(fixed, 30)?), usize::from(short(fixed, 32)?)];
        let bytes_in_all = CENTRAL_BYTES + lengths.iter().sum::<usize>();
        let rest = bytes.get(CENTRAL_BYTES..bytes_in_all)?;
        let (name, rest) = rest.split_at(lengths[0]);
        let mut header = Header {
            name: name.to_vec(),
            flags: short(fixed, 8)?,
            method: short(fixed, 10)?,
            crc: word(fixed, 16)?,
            packed_bytes: word(fixed, 20)?.into(),
            bytes_out: word(fixed, 24)?.into(),
            offset: word(fixed, 42)?.into(),
            bytes: bytes_in_all,
        };
        header.take_zip64(&rest[..lengths[1]]);
        Some(header)
    }

    /// Takes numbers of 64 bits from the extra fields after the name.
    fn take_zip64(&mut self, mut fields: &[u8]) {
        while let (Some(kind), Some(length)) = (short(fields, 0), short(fields, 2)) {
            let Some(value) = fields.get(4..4 + usize::from(length)) else { return };
            fields = &fields[4 + usize::from(length)..];
            if kind != 1 {
                continue;
            }
            let mut at = 0;
            for number in [&mut self.bytes_out, &mut self.packed_bytes, &mut self.offset] {
                if let (IS_64, Some(value)) = (*number, long(value, at)) {
                    *number = value;
                    at += 8;
                }
            }
        }
    }

    /// Whether it has the sizes: a writer that cannot seek puts them after the data.
    pub(crate) fn has_sizes(&self) -> bool {
        self.flags & 8 == 0
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.flags & 1 != 0
    }

    /// Corrects this header of the list by the one before the data: a method that does not fit the
    /// sizes, an encryption flag that only one of them has.
    pub(crate) fn settle(&mut self, local: &Header) {
        if self.method != local.method {
            let is_stored = self.packed_bytes == self.bytes_out;
            self.method = if is_stored { STORED } else { DEFLATED };
        }
        self.flags &= local.flags | !1;
    }

    /// The first difference between the header before the data and this one of the list.
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
        Some(format!("its own header says another {what} than the list: {own}, not {list}"))
    }

    /// The length of the descriptor after the data of an entry without sizes, if these bytes are
    /// it.
    pub(crate) fn descriptor_bytes(&self, bytes: &[u8]) -> u64 {
        let from = if bytes.starts_with(&DESCRIPTOR) { 4 } else { 0 };
        if self.has_sizes() || word(bytes, from) != Some(self.crc) {
            return 0;
        }
        let is_64 = long(bytes, from + 4) == Some(self.packed_bytes) && long(bytes, from + 12) == Some(self.bytes_out);
        let of = |at: usize| word(bytes, at).map(u64::from);
        let is_32 = of(from + 4) == Some(self.packed_bytes & IS_64) && of(from + 8) == Some(self.bytes_out & IS_64);
        match (is_32, is_64) {
            (true, false) => from as u64 + 12,
            (_, true) => from as u64 + 20,
            (false, false) => 0,
        }
    }

    /// Takes the sizes from these bytes after the data, if they are a descriptor for that length.
    pub(crate) fn take_descriptor(&mut self, bytes: &[u8], packed_bytes: u64) -> bool {
        let is_it = bytes.starts_with(&DESCRIPTOR) && word(bytes, 8).map(u64::from) == Some(packed_bytes & IS_64);
        if let (true, Some(crc), Some(bytes_out)) = (is_it, word(bytes, 4), word(bytes, 12)) {
            (self.crc, self.packed_bytes, self.bytes_out) = (crc, packed_bytes, bytes_out.into());
        }
        is_it
    }
}

/// The header of an entry before its data, here; `None` if there is none.
pub(crate) fn local_header<R: Read + Seek>(source: &mut R, offset: u64) -> io::Result<Option<Header>> {
    let fixed = piece(source, offset, LOCAL_BYTES)?;
    let lengths = short(&fixed, 26).zip(short(&fixed, 28)).filter(|_| fixed.starts_with(&LOCAL));
    let Some((name, fields)) = lengths.map(|(name, fields)| (usize::from(name), usize::from(fields))) else {
        return Ok(None);
    };
    let rest = piece(source, offset + LOCAL_BYTES as u64, name + fields)?;
    if rest.len() < name + fields {
        return Ok(None);
    }
    let parsed = || {
        Some(Header {
            name: rest[..name].to_vec(),
            flags: short(&fixed, 6)?,
            method: short(&fixed, 8)?,
            crc: word(&fixed, 14)?,
            packed_bytes: word(&fixed, 18)?.into(),
            bytes_out: word(&fixed, 22)?.into(),
            offset,
            bytes: LOCAL_BYTES + name + fields,
        })
    };
    let Some(mut header) = parsed() else { return Ok(None) };
    header.take_zip64(&rest[name..]);
    Ok(Some(header))
}

/// The end of a list.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) entries: u64,
    pub(crate) list_bytes: u64,
    pub(crate) list_offset: u64,
    /// With its comment.
    pub(crate) bytes: u64,
}

impl End {
    /// The end at the start of `bytes`; `None` if there is none.
    pub(crate) fn parse(bytes: &[u8]) -> Option<End> {
        bytes.starts_with(&END).then_some(())?;
        Some(End {
            entries: short(bytes, 10)?.into(),
            list_bytes: word(bytes, 12)?.into(),
            list_offset: word(bytes, 16)?.into(),
            bytes: 22 + u64::from(short(bytes, 20)?),
        })
    }

    /// Takes the numbers of 64 bits of this end at offset `at`, if there are any. Returns their
    /// offset.
    pub(crate) fn take_zip64<R: Read + Seek>(&mut self, source: &mut R, at: u64) -> io::Result<Option<u64>> {
        let Some(locator_at) = at.checked_sub(20) else { return Ok(None) };
        let locator = piece(source, locator_at, 20)?;
        let Some(place) = long(&locator, 8).filter(|_| locator.starts_with(&LOCATOR_64)) else { return Ok(None) };
        // Bytes before the zip file shift the place.
        for place in [place, locator_at.saturating_sub(56)] {
            let found = piece(source, place, 56)?;
            let numbers = long(&found, 32).zip(long(&found, 40)).zip(long(&found, 48));
            if let Some(((entries, bytes), offset)) =
                numbers.filter(|_| found.starts_with(&END_64) && place < locator_at)
            {
                (self.entries, self.list_bytes, self.list_offset) = (entries, bytes, offset);
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
