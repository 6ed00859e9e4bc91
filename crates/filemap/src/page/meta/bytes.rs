//! The primitives of the meta layout: whole numbers of variable width, and length-prefixed bytes.
//!
//! A varint is little-endian base 128 (LEB128), seven bits a byte, in its shortest form only, so
//! that one page has one encoding. Reading is total: it ends in a [`MetaError`], never in a panic,
//! and allocates no more than there is.

use crate::error::MetaError;

/// Appends a varint.
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a varint length and the bytes.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads fields one after the other.
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: bytes }
    }

    pub(super) fn take(&mut self, count: usize, field: &'static str) -> Result<&'a [u8], MetaError> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            return Err(MetaError::Short { field });
        };
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], MetaError> {
        let taken = self.take(N, field)?;
        taken.try_into().map_err(|_| MetaError::Short { field })
    }

    pub(super) fn byte(&mut self, field: &'static str) -> Result<u8, MetaError> {
        Ok(self.take(1, field)?[0])
    }

    pub(super) fn varint(&mut self, field: &'static str) -> Result<u64, MetaError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(field)?;
            let bits = u64::from(byte & 0x7f);
            if (bits << shift) >> shift != bits || (byte == 0 && shift > 0) {
                return Err(MetaError::Invalid { field });
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(MetaError::Invalid { field })
    }

    pub(super) fn bytes(&mut self, field: &'static str) -> Result<&'a [u8], MetaError> {
        let count = self.varint(field)?;
        self.take(usize::try_from(count).map_err(|_| MetaError::Short { field })?, field)
    }

    pub(super) fn text(&mut self, field: &'static str) -> Result<String, MetaError> {
        let bytes = self.bytes(field)?;
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| MetaError::Invalid { field })
    }

    pub(super) fn end(&self) -> Result<(), MetaError> {
        if self.rest.is_empty() { Ok(()) } else { Err(MetaError::Trailing { bytes: self.rest.len() }) }
    }

    pub(super) fn remaining(&self) -> usize {
        self.rest.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_the_shortest_form_of_a_number_is_read() {
        assert_eq!(Cursor::new(&[0x80, 0x01]).varint("n").expect("128"), 128);
        assert!(Cursor::new(&[0x80, 0x00]).varint("n").is_err());
        assert!(Cursor::new(&[0xff; 11]).varint("n").is_err());
        assert!(Cursor::new(&[0x80]).varint("n").is_err());
    }

    proptest! {
        #[test]
        fn a_number_reads_back(value: u64) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            prop_assert_eq!(Cursor::new(&out).varint("n"), Ok(value));
        }
    }
}
