//! A dictionary file: the zstd dictionaries of bodies and of metas for one group of keys.
//!
//! The file is two equal copies, each a multiple of 512 bytes, so damage to one copy loses
//! nothing.

use filemap_io::layout::{Text, Zeros};

use super::header::{FileHeader, Kind};
use super::{Flaw, all_zero, seed, seeded_crc};

filemap_io::layout! {
    /// The head of one copy.
    pub(crate) struct Layout {
        0 HEADER: [u8; 64] = "file header; its ordinal is the dictionary's id";
        64 CRC: u32 = "CRC-32 of bytes 68..512, seeded with store id and id";
        68 BODY_BYTES: u32 = "length of the dictionary of bodies, 0 for none";
        72 BODY_CRC: u32 = "its CRC-32";
        76 META_BYTES: u32 = "length of the dictionary of metas, 0 for none";
        80 META_CRC: u32 = "its CRC-32";
        84 PAGES: u32 = "of how many pages samples were taken for both";
        88 BODY_PPM: u32 = "hold-out compression ratio of bodies, ppm";
        92 META_PPM: u32 = "hold-out compression ratio of metas, ppm";
        96 LEVEL: u16 = "zstd level of those trials";
        98 GROUP_BYTES: u16 = "length of the group's name, 0 for all keys";
        100 GROUP: Text<255> = "the group's name, zeros after it";
        355 RESERVED: Zeros<157> = "reserved, zero";
        .. "512", "" = "dictionary of bodies, dictionary of metas; then zeros to a multiple of 512";
    }
}

/// Offset of the dictionaries in a copy.
pub(crate) const CONTENT_AT: usize = Layout::BYTES;
/// Longest dictionary, in bytes.
pub(crate) const MAX_BYTES: usize = 16 << 20;
/// Longest name of a group, in bytes.
pub(crate) const MAX_GROUP_BYTES: usize = 255;
/// Greatest id: records store it in 32 bits.
pub(crate) const MAX_ID: u32 = u32::MAX - 1;
/// Longest dictionary file, in bytes.
pub(crate) const LONGEST_FILE: u64 = 2 * (2 * MAX_BYTES + 2 * CONTENT_AT) as u64;

const FACTS_AT: usize = Layout::CRC.at;
const GROUP_AT: usize = Layout::GROUP.at;

/// A dictionary's metadata: what it is for and how it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) id: u32,
    pub(crate) created_ms: i64,
    pub(crate) group: Vec<u8>,
    pub(crate) pages: u32,
    pub(crate) body_ppm: u32,
    pub(crate) meta_ppm: u32,
    pub(crate) level: u16,
    pub(crate) body_bytes: u32,
    pub(crate) meta_bytes: u32,
    body_crc: u32,
    meta_crc: u32,
}

/// Metadata of a new dictionary's training that do not follow from its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Making {
    pub(crate) created_ms: i64,
    pub(crate) group: Vec<u8>,
    pub(crate) pages: u32,
    pub(crate) body_ppm: u32,
    pub(crate) meta_ppm: u32,
    pub(crate) level: u16,
}

impl Facts {
    pub(crate) fn making(&self) -> Making {
        Making {
            created_ms: self.created_ms,
            group: self.group.clone(),
            pages: self.pages,
            body_ppm: self.body_ppm,
            meta_ppm: self.meta_ppm,
            level: self.level,
        }
    }

    /// Length of one copy in bytes.
    pub(crate) fn copy_bytes(&self) -> usize {
        (CONTENT_AT + self.body_bytes as usize + self.meta_bytes as usize).next_multiple_of(CONTENT_AT)
    }
}

/// Encodes the whole file of a new dictionary.
///
/// Panics if a dictionary is longer than [`MAX_BYTES`] or the name than [`MAX_GROUP_BYTES`].
pub(crate) fn encode(store_id: [u8; 16], id: u32, making: &Making, body: &[u8], meta: &[u8]) -> Vec<u8> {
    assert!(body.len() <= MAX_BYTES && meta.len() <= MAX_BYTES && making.group.len() <= MAX_GROUP_BYTES);
    let mut copy = vec![0; CONTENT_AT];
    Layout::HEADER
        .put(&mut copy, FileHeader::new(Kind::Dictionary, store_id, u64::from(id), making.created_ms).encode());
    Layout::BODY_BYTES.put(&mut copy, body.len() as u32);
    Layout::BODY_CRC.put(&mut copy, crc32fast::hash(body));
    Layout::META_BYTES.put(&mut copy, meta.len() as u32);
    Layout::META_CRC.put(&mut copy, crc32fast::hash(meta));
    Layout::PAGES.put(&mut copy, making.pages);
    Layout::BODY_PPM.put(&mut copy, making.body_ppm);
    Layout::META_PPM.put(&mut copy, making.meta_ppm);
    Layout::LEVEL.put(&mut copy, making.level);
    Layout::GROUP_BYTES.put(&mut copy, making.group.len() as u16);
    copy[GROUP_AT..][..making.group.len()].copy_from_slice(&making.group);
    let crc = seeded_crc(seed(&store_id, u64::from(id)), FACTS_AT as u64, &copy[Layout::CRC.end()..CONTENT_AT]);
    Layout::CRC.put(&mut copy, crc);
    copy.extend_from_slice(body);
    copy.extend_from_slice(meta);
    copy.resize(copy.len().next_multiple_of(CONTENT_AT), 0);
    copy.repeat(2)
}

/// Decodes the first 512 bytes of a copy. The caller checks the header's versions.
pub(crate) fn decode_facts(b: &[u8], store_id: &[u8; 16]) -> Result<(FileHeader, Facts), Flaw> {
    let header = FileHeader::decode(b)?;
    if header.kind != Kind::Dictionary {
        return Err("it is a file of another kind");
    }
    if header.store_id != *store_id {
        return Err("it belongs to another store");
    }
    if b.len() < CONTENT_AT {
        return Err("copy is cut off");
    }
    let id = u32::try_from(header.ordinal).ok().filter(|id| (1..=MAX_ID).contains(id)).ok_or("id is out of range")?;
    if seeded_crc(seed(store_id, header.ordinal), FACTS_AT as u64, &b[Layout::CRC.end()..CONTENT_AT])
        != Layout::CRC.get(b)
    {
        return Err("checksum mismatch in the metadata");
    }
    let group_bytes = usize::from(Layout::GROUP_BYTES.get(b));
    if group_bytes > MAX_GROUP_BYTES || !all_zero(&b[GROUP_AT + group_bytes..CONTENT_AT]) {
        return Err("bytes after the group's name are not zero");
    }
    let facts = Facts {
        id,
        created_ms: header.created_ms,
        group: b[GROUP_AT..GROUP_AT + group_bytes].to_vec(),
        pages: Layout::PAGES.get(b),
        body_ppm: Layout::BODY_PPM.get(b),
        meta_ppm: Layout::META_PPM.get(b),
        level: Layout::LEVEL.get(b),
        body_bytes: Layout::BODY_BYTES.get(b),
        meta_bytes: Layout::META_BYTES.get(b),
        body_crc: Layout::BODY_CRC.get(b),
        meta_crc: Layout::META_CRC.get(b),
    };
    if facts.body_bytes as usize > MAX_BYTES || facts.meta_bytes as usize > MAX_BYTES {
        return Err("dictionary length is out of range");
    }
    Ok((header, facts))
}

/// Returns the body and meta dictionaries of a whole copy with decoded `facts`.
pub(crate) fn decode_content<'b>(facts: &Facts, copy: &'b [u8]) -> Result<(&'b [u8], &'b [u8]), Flaw> {
    if copy.len() != facts.copy_bytes() {
        return Err("a copy's length differs from the recorded one");
    }
    let (body, rest) = copy[CONTENT_AT..].split_at(facts.body_bytes as usize);
    let (meta, padding) = rest.split_at(facts.meta_bytes as usize);
    if crc32fast::hash(body) != facts.body_crc || crc32fast::hash(meta) != facts.meta_crc {
        return Err("checksum mismatch in a dictionary");
    }
    if !all_zero(padding) {
        return Err("padding is not zero");
    }
    Ok((body, meta))
}

/// Converts parts per million to a ratio.
pub(crate) fn ratio(ppm: u32) -> f64 {
    f64::from(ppm) / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> (Making, Vec<u8>) {
        let making = Making {
            created_ms: 7,
            group: b"example.com".to_vec(),
            pages: 300,
            body_ppm: 120_000,
            meta_ppm: 250_000,
            level: 3,
        };
        let bytes = encode([3; 16], 9, &making, &[1; 700], &[2; 90]);
        (making, bytes)
    }

    type Whole = (Facts, Vec<u8>, Vec<u8>);

    fn whole(copy: &[u8]) -> Result<Whole, Flaw> {
        let (_, facts) = decode_facts(copy, &[3; 16])?;
        let (body, meta) = decode_content(&facts, copy)?;
        let (body, meta) = (body.to_vec(), meta.to_vec());
        Ok((facts, body, meta))
    }

    #[test]
    fn both_copies_come_back_and_any_changed_byte_is_noticed_in_its_own() {
        let (making, bytes) = example();
        let (first, second) = bytes.split_at(bytes.len() / 2);
        assert_eq!(first, second);
        let (facts, body, meta) = whole(first).unwrap();
        assert_eq!((facts.id, facts.pages, facts.body_ppm, facts.meta_ppm), (9, 300, 120_000, 250_000));
        assert_eq!((facts.group, facts.level, facts.created_ms), (making.group, 3, 7));
        assert_eq!((body, meta), (vec![1; 700], vec![2; 90]));
        for at in 0..first.len() {
            let mut bad = first.to_vec();
            bad[at] ^= 1;
            assert!(whole(&bad).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_dictionary_of_another_store_is_not_taken() {
        let (_, bytes) = example();
        assert_eq!(decode_facts(&bytes, &[4; 16]).unwrap_err(), "it belongs to another store");
    }

    proptest::proptest! {
        #[test]
        fn decoding_any_bytes_neither_panics_nor_accepts(bytes in proptest::collection::vec(0u8.., 0..1200)) {
            proptest::prop_assert!(decode_facts(&bytes, &[0; 16]).is_err());
            let (_, good) = example();
            let (_, facts) = decode_facts(&good, &[3; 16]).unwrap();
            proptest::prop_assert!(decode_content(&facts, &bytes).is_err());
        }

        #[test]
        fn facts_with_changed_bytes_are_refused(at in 0usize..512, byte in 1u8..) {
            let (_, mut bytes) = example();
            bytes[at] ^= byte;
            proptest::prop_assert!(decode_facts(&bytes, &[3; 16]).is_err());
        }
    }
}
