//! A dictionary: an immutable object with text that the bodies of a site, or of all pages, have in
//! common. Records that were compressed with it name it, so it is created before any of them.
//!
//! The name is that of a writer's epoch and a number, as of segments: no two dictionaries share
//! it.

use xxhash_rust::xxh3::xxh3_64;

use super::record::DictionaryId;
use super::segment::SegmentId;

/// The folder of dictionaries.
pub(crate) const FOLDER: &str = "shard/dict";
/// The longest dictionary.
pub(crate) const MAX_BYTES: usize = 1 << 20;

filemap_io::layout! {
    /// The header of a dictionary's object.
    struct Header {
        0 MAGIC: [u8; 8] = "`FMCLOUDD`";
        8 CHECKSUM: u64 = "XXH3 of all bytes that follow";
        16 EPOCH: u64 = "epoch of the writer that trained it";
        24 NUMBER: u64 = "its number in the epoch";
        32 CREATED_MS: u64 = "time of its training, ms since 1970";
        40 PAGES: u64 = "number of pages that it was trained for";
        48 BODY_PPM: u32 = "hold-out compression ratio of bodies, ppm";
        52 SITE_BYTES: u32 = "length of the site's name, 0 for all pages";
        .. "56", ".." = "the site's name, the dictionary";
    }
}

const MAGIC: [u8; 8] = *b"FMCLOUDD";

/// The object of a dictionary.
pub(crate) fn object(id: DictionaryId) -> String {
    format!("{FOLDER}/{}", SegmentId { epoch: id.epoch, number: id.number }.name())
}

/// Parses the name of an object in the folder.
pub(crate) fn of_name(name: &str) -> Option<DictionaryId> {
    SegmentId::of_name(name).map(|SegmentId { epoch, number }| DictionaryId { epoch, number })
}

/// What a dictionary was trained for, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The site (scheme and host); empty for all pages.
    pub(crate) site: Vec<u8>,
    pub(crate) created_ms: u64,
    pub(crate) pages: u64,
    pub(crate) body_ppm: u32,
}

impl Facts {
    /// The object of a dictionary with this content.
    pub(crate) fn encode(&self, id: DictionaryId, content: &[u8]) -> Vec<u8> {
        let mut out = vec![0; Header::BYTES];
        Header::MAGIC.put(&mut out, MAGIC);
        Header::EPOCH.put(&mut out, id.epoch);
        Header::NUMBER.put(&mut out, id.number);
        Header::CREATED_MS.put(&mut out, self.created_ms);
        Header::PAGES.put(&mut out, self.pages);
        Header::BODY_PPM.put(&mut out, self.body_ppm);
        Header::SITE_BYTES.put(&mut out, self.site.len() as u32);
        out.extend_from_slice(&self.site);
        out.extend_from_slice(content);
        let checksum = xxh3_64(&out[Header::CHECKSUM.end()..]);
        Header::CHECKSUM.put(&mut out, checksum);
        out
    }

    /// Decodes the object of this dictionary into facts and content. An error describes the
    /// damage.
    pub(crate) fn decode(bytes: &[u8], id: DictionaryId) -> Result<(Facts, &[u8]), &'static str> {
        if bytes.len() < Header::BYTES || Header::MAGIC.get(bytes) != MAGIC {
            return Err("it is not a dictionary of this format");
        }
        if xxh3_64(&bytes[Header::CHECKSUM.end()..]) != Header::CHECKSUM.get(bytes) {
            return Err("checksum mismatch in a dictionary");
        }
        if (DictionaryId { epoch: Header::EPOCH.get(bytes), number: Header::NUMBER.get(bytes) }) != id {
            return Err("it is a dictionary with another name");
        }
        let site_bytes = Header::SITE_BYTES.get(bytes) as usize;
        let split = bytes[Header::BYTES..].split_at_checked(site_bytes);
        let (site, content) = split.ok_or("a dictionary that ends inside the name of its site")?;
        if content.len() > MAX_BYTES {
            return Err("a dictionary that is longer than any may be");
        }
        let facts = Facts {
            site: site.to_vec(),
            created_ms: Header::CREATED_MS.get(bytes),
            pages: Header::PAGES.get(bytes),
            body_ppm: Header::BODY_PPM.get(bytes),
        };
        Ok((facts, content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dictionary_comes_back_and_every_changed_byte_and_cut_is_found() {
        let id = DictionaryId { epoch: 3, number: 9 };
        let facts = Facts { site: b"http://a.example".to_vec(), created_ms: 1 << 41, pages: 700, body_ppm: 120_000 };
        let mut bytes = facts.encode(id, b"the text of a site");
        assert_eq!(Facts::decode(&bytes, id), Ok((facts, &b"the text of a site"[..])));
        assert!(Facts::decode(&bytes, DictionaryId { number: 8, ..id }).is_err());
        for at in 0..bytes.len() {
            assert!(Facts::decode(&bytes[..at], id).is_err(), "cut at {at}");
            bytes[at] ^= 1;
            assert!(Facts::decode(&bytes, id).is_err(), "changed at {at}");
            bytes[at] ^= 1;
        }
        assert_eq!(object(id), "shard/dict/00000003-00000009");
        assert_eq!((of_name("00000003-00000009"), of_name("3-9")), (Some(id), None));
    }
}
