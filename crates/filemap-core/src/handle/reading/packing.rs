//! Compression of records: choice of dictionary and level; recompression with better ones.

use crate::error::{Error, Result};
use crate::format::location::Location;
use crate::format::names;
use crate::format::value::{Codec, Header, Kind};
use crate::handle::reading::Reading;
use crate::logs::values::dictionaries::Part;
use crate::logs::values::draft::Packing;
use crate::logs::values::read;

/// A recompressed record.
#[derive(Debug)]
pub(crate) struct Recompressed {
    /// The old header with new codecs, dictionary, lengths and payload checksum.
    pub(crate) header: Header,
    pub(crate) meta: Vec<u8>,
    pub(crate) payload: Vec<u8>,
}

impl Reading {
    /// Compression of a new record of a key.
    pub(crate) fn packing(&self, key: &[u8]) -> Packing {
        self.packing_at(key, self.options.compression_level)
    }

    fn packing_at(&self, key: &[u8], level: i32) -> Packing {
        if !self.options.makes_dictionaries() {
            return Packing::plain(level);
        }
        let registry = &self.values.dictionaries;
        let own = registry.choose(self.options.group(key));
        let packing = if own == 0 { Packing::plain(level) } else { Packing::with(level, own, registry) };
        // If there are too many groups for the memory, only the global dictionary may fit.
        match registry.choose(&[]) {
            global if global != own && global != 0 && !packing.has_body() => Packing::with(level, global, registry),
            _ => packing,
        }
    }

    /// Recompresses the meta and payload of a record at a level, with the key's best current
    /// dictionary. `None` if the record does not get shorter, in whole units. `parts` are meta and
    /// payload as stored.
    ///
    /// # Errors
    /// `Corrupt` if they cannot be expanded.
    pub(crate) fn recompress(
        &self,
        place: Location,
        key: &[u8],
        header: &Header,
        parts: (&[u8], &[u8]),
        level: i32,
    ) -> Result<Option<Recompressed>> {
        let new = self.repack(place, key, header, parts, level)?;
        Ok(new.filter(|new| new.header.total_bytes() < header.total_bytes()))
    }

    /// [`Reading::recompress`] even if the record gets longer; `None` for kinds of records with
    /// nothing to compress.
    ///
    /// # Errors
    /// Those of [`Reading::recompress`].
    pub(crate) fn repack(
        &self,
        place: Location,
        key: &[u8],
        header: &Header,
        (meta, payload): (&[u8], &[u8]),
        level: i32,
    ) -> Result<Option<Recompressed>> {
        if !matches!(header.kind, Kind::Page | Kind::Chunk | Kind::Reference | Kind::Chunked) {
            return Ok(None);
        }
        let packing = self.packing_at(key, level);
        let mut new =
            Recompressed { header: Header { dictionary: 0, ..*header }, meta: Vec::new(), payload: Vec::new() };
        let mut raw = Vec::new();
        let expand = |part, stored: &[u8], raw_bytes, out: &mut Vec<u8>| -> Result<()> {
            let flaw = |what| Error::corrupt(names::segment(place.segment), place.offset(), what);
            read::expand(&self.values.dictionaries, header, part, stored, raw_bytes, out)?.map_err(flaw)
        };
        expand(Part::Meta, meta, header.meta_raw_bytes as usize, &mut raw)?;
        new.header.meta_codec = packing.meta(&raw, &mut new.meta);
        if matches!(header.kind, Kind::Page | Kind::Chunk) {
            raw.clear();
            expand(Part::Body, payload, header.raw_bytes as usize, &mut raw)?;
            new.header.codec = packing.body(&raw, &mut new.payload);
        } else {
            new.payload.extend_from_slice(payload);
        }
        if new.header.codec == Codec::Dictionary || new.header.meta_codec == Codec::Dictionary {
            new.header.dictionary = packing.dictionary();
        }
        new.header.meta_bytes = new.meta.len() as u32;
        new.header.payload_bytes = new.payload.len() as u32;
        new.header.payload_crc = crc32fast::hash(&new.payload);
        Ok(Some(new))
    }
}

impl Recompressed {
    /// The whole record, without its sealed head.
    pub(crate) fn record(&self, key: &[u8]) -> Vec<u8> {
        let mut record = vec![0; self.header.key_at()];
        [key, &self.meta, &self.payload].iter().for_each(|part| record.extend_from_slice(part));
        record.resize(self.header.total_bytes() as usize, 0);
        record
    }
}
