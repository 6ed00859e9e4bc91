//! The primitives of the meta layout: length-prefixed bytes, and a cursor over fields.
//!
//! A length is a [`varint`], in its shortest form only, so that one page has one encoding.
//! Decoding is total: it fails with a [`MetaError`], never with a panic, and allocates no more
//! than the bytes given.

use filemap_io::layout::Wire;
use filemap_io::varint;

use crate::error::MetaError;

/// Appends a varint length and the bytes.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    varint::put(out, bytes.len() as u64);
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

    pub(super) fn number<T: Wire>(&mut self, field: &'static str) -> Result<T, MetaError> {
        Ok(T::read(self.take(T::BYTES, field)?))
    }

    pub(super) fn byte(&mut self, field: &'static str) -> Result<u8, MetaError> {
        Ok(self.take(1, field)?[0])
    }

    pub(super) fn varint(&mut self, field: &'static str) -> Result<u64, MetaError> {
        let goes_on = |rest: &[u8]| rest.len() < 10 && rest.iter().all(|byte| byte & 0x80 != 0);
        varint::take(&mut self.rest).ok_or_else(|| match goes_on(self.rest) {
            true => MetaError::Short { field },
            false => MetaError::Invalid { field },
        })
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

    #[test]
    fn only_the_shortest_form_of_a_number_is_read() {
        assert_eq!(Cursor::new(&[0x80, 0x01]).varint("n").expect("128"), 128);
        assert!(Cursor::new(&[0x80, 0x00]).varint("n").is_err());
        assert!(Cursor::new(&[0xff; 11]).varint("n").is_err());
        assert!(Cursor::new(&[0x80]).varint("n").is_err());
    }

    #[test]
    fn a_number_that_is_cut_off_is_short() {
        for bytes in [&[][..], &[0x80], &[0xff; 9]] {
            assert_eq!(Cursor::new(bytes).varint("n"), Err(MetaError::Short { field: "n" }), "{bytes:?}");
        }
        assert_eq!(Cursor::new(&[0xff; 10]).varint("n"), Err(MetaError::Invalid { field: "n" }));
    }
}
