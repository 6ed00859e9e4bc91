//! The manifest of the files kept with a shard, and the index row that names it. A manifest is
//! lines of words, also readable by people. The row contains the manifest's digest, and the
//! manifest contains each piece's digest.
//!
//! ```text
//! filemap kept 1
//! file frontier/frontier.urls 5243000
//! piece 0000000a-00000001 4194304 00000000000000000000000000000000
//! ```

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_128;

use super::segment::SegmentId;

/// The first line.
const FORMAT: &str = "filemap kept 1";

/// A part of a file: an object with the part's bytes, compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) id: SegmentId,
    /// Its uncompressed length, and the digest of those bytes.
    pub(crate) bytes: u64,
    pub(crate) digest: u128,
}

/// The files of one point in time, each as consecutive pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) files: BTreeMap<String, Vec<Piece>>,
}

/// The length of a file made of these pieces.
pub(crate) fn length(pieces: &[Piece]) -> u64 {
    pieces.iter().fold(0, |sum: u64, piece| sum.saturating_add(piece.bytes))
}

/// Returns whether a name is valid: parts of letters, digits, `.`, `_` and `-`, none of which
/// leaves its folder.
pub(crate) fn is_name(name: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(is_sign) && part != "." && part != "..";
    name.split('/').all(is_part)
}

impl Manifest {
    pub(crate) fn encode(&self) -> String {
        let mut text = format!("{FORMAT}\n");
        for (name, pieces) in &self.files {
            text += &format!("file {name} {}\n", length(pieces));
            for Piece { id, bytes, digest } in pieces {
                text += &format!("piece {} {bytes} {digest:032x}\n", id.name());
            }
        }
        text
    }

    /// Decodes it; an error describes the problem.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Manifest, &'static str> {
        let text = std::str::from_utf8(bytes).map_err(|_| "it is not text")?;
        let mut lines = text.lines();
        if lines.next() != Some(FORMAT) {
            return Err("it has a format unknown to this program, which reads `filemap kept 1`");
        }
        let (mut manifest, mut lengths) = (Manifest::default(), BTreeMap::new());
        let mut last = None;
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["file", name, bytes] if is_name(name) => {
                    lengths.insert(name.to_owned(), bytes.parse::<u64>().map_err(|_| "a length is not a number")?);
                    manifest.files.insert(name.to_owned(), Vec::new());
                    last = Some(name.to_owned());
                }
                ["piece", id, bytes, digest] => {
                    let pieces = last.as_ref().and_then(|name| manifest.files.get_mut(name));
                    let piece = SegmentId::of_name(id).zip(bytes.parse().ok());
                    let piece = piece.zip(u128::from_str_radix(digest, 16).ok());
                    let ((id, bytes), digest) = piece.ok_or("a piece does not decode")?;
                    pieces.ok_or("a piece of no file")?.push(Piece { id, bytes, digest });
                }
                _ => return Err("it has a line unknown to this program"),
            }
        }
        let is_whole = manifest.files.iter().all(|(name, pieces)| lengths.get(name) == Some(&length(pieces)));
        if is_whole { Ok(manifest) } else { Err("the pieces of a file do not add up to its length") }
    }

    /// The piece objects that it names.
    pub(crate) fn objects(&self) -> impl Iterator<Item = SegmentId> {
        self.files.values().flatten().map(|piece| piece.id)
    }
}

filemap_io::layout! {
    /// The encoded value of the index row.
    struct NamedRow {
        0 EPOCH: u64 = "epoch of the manifest's object";
        8 NUMBER: u64 = "number of the object in the epoch";
        16 DIGEST: u128 = "XXH3-128 of the manifest";
    }
}

/// The index row: the manifest's object and digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) id: SegmentId,
    pub(crate) digest: u128,
}

impl Named {
    pub(crate) fn of(id: SegmentId, manifest: &[u8]) -> Named {
        Named { id, digest: xxh3_128(manifest) }
    }

    pub(crate) fn encode(self) -> Vec<u8> {
        let mut row = vec![0; NamedRow::BYTES];
        NamedRow::EPOCH.put(&mut row, self.id.epoch);
        NamedRow::NUMBER.put(&mut row, self.id.number);
        NamedRow::DIGEST.put(&mut row, self.digest);
        row
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Named> {
        let row = Some(bytes).filter(|row| row.len() == NamedRow::BYTES)?;
        let id = SegmentId { epoch: NamedRow::EPOCH.get(row), number: NamedRow::NUMBER.get(row) };
        Some(Named { id, digest: NamedRow::DIGEST.get(row) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_comes_back_and_what_is_not_whole_is_refused() {
        let id = |number| SegmentId { epoch: 10, number };
        let piece = |number, bytes| Piece { id: id(number), bytes, digest: u128::from(number) << 70 };
        let files = [("frontier/a.urls", vec![piece(1, 5), piece(3, 7)]), ("empty", vec![])];
        let manifest = Manifest { files: files.map(|(name, pieces)| (name.to_owned(), pieces)).into() };
        let text = manifest.encode();
        assert_eq!(Manifest::decode(text.as_bytes()), Ok(manifest.clone()));
        assert_eq!(manifest.objects().collect::<Vec<_>>(), [id(1), id(3)]);
        for wrong in [
            "",
            "filemap kept 2\n",
            "filemap kept 1\npiece 0000000a-00000001 5 00\n",
            &text.replace(" 12\n", " 13\n"),
            &text.replace("frontier/", "../"),
            &text.replace("0000000a-00000003", "a-3"),
        ] {
            assert!(Manifest::decode(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let named = Named::of(id(9), text.as_bytes());
        assert_eq!(Named::decode(&named.encode()), Some(named));
        assert_eq!(Named::decode(&named.encode()[..31]), None);
    }

    #[test]
    fn a_name_leads_out_of_no_folder() {
        assert!(is_name("frontier/frontier.7.journal") && is_name("a"));
        for wrong in ["", "/a", "a/", "a//b", "../a", "a/..", "a b", "a\n"] {
            assert!(!is_name(wrong), "{wrong}");
        }
    }
}
