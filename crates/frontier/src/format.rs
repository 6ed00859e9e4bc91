//! Bytes of a frontier's files: the fields of each record, declared once. docs/FRONTIER.md shows
//! the same tables, held equal by a test. Records of variable-length integers have their table in
//! [`crate::record`].
//!
//! Numbers are little-endian, reserved bytes zero.

pub(crate) mod body;

use filemap_io::header::{Kind, seal};
use filemap_io::layout::Zeros;
use filemap_io::{File, StorageError, files, layout};

/// State at the start of a journal. Versions 1 and 2 have all rows of pages, each behind its
/// fingerprint, and no runs; version 1 has no shapes of URLs. Version 3 has all rows, and runs.
/// Version 4 has no delivery. Version 5 has all timers.
pub(crate) const SNAPSHOT: Kind = Kind { version: 6, ..kind(*b"FMFSNAP1") };
/// Events since the snapshot.
/// Version 2 has parts of batches, hosts that fail and links with their own key.
pub(crate) const JOURNAL: Kind = Kind { version: 2, ..kind(*b"FMFJRNL1") };
/// Rows of pages.
pub(crate) const PAGES: Kind = kind(*b"FMFPAGE1");
/// URL texts.
pub(crate) const URLS: Kind = kind(*b"FMFURLS1");
/// Lists of links.
pub(crate) const LINKS: Kind = kind(*b"FMFLINK1");

const fn kind(magic: [u8; 8]) -> Kind {
    Kind { magic, version: 1, what: "such file of a frontier" }
}

/// Bytes of every file's header.
pub(crate) const HEADER_BYTES: usize = FileHeader::BYTES;

layout! {
    /// Header of every file.
    pub(crate) struct FileHeader {
        0 MAGIC: [u8; 8] = "magic";
        8 READ_VERSION: u16 = "the version that a reader must know";
        10 WRITE_VERSION: u16 = "the version that a writer must know";
        12 RESERVED_1: Zeros<4> = "reserved, zero";
        16 ID: [u8; 16] = "the frontier's id: random";
        32 NUMBER: u64 = "number: of a snapshot that of its journal";
        40 RESERVED_2: Zeros<468> = "reserved, zero";
        508 CRC: u32 = "CRC-32 of the bytes before";
    }
}

layout! {
    /// `frontier.pages`: a row; 170 of them and 16 zeros are a block.
    pub(crate) struct PageRecord {
        0 CREDIT: u64 = "credit";
        8 HISTORY: f32 = "history, a float";
        12 HOST: u32 = "host";
        16 DUE_S: u32 = "due in seconds, or 0";
        20 MARKS: u16 = "status (3 bits), seed (1), failed attempts (4), last failure (4), step of the recrawl's age (4)";
        22 STANDING: u8 = "standing: 1 if a page of good standing leads to it, 2 an endorsed one, 3 endorsed; 4 more if its own word was taken";
        23 SHAPE: u8 = "shape of the URL: a hash of 8 bits";
    }
}

layout! {
    /// `frontier.N.journal`: header of each batch.
    pub(crate) struct BatchHeader {
        0 CRC: u32 = "CRC-32 of the frontier's id, the journal's number, the batch's offset (8 bytes each) and bytes 4 to 24 + n";
        4 MAGIC: [u8; 4] = "magic `FMFB`; `FMFP` of a part of a commit";
        8 LEN: u64 = "n, the length of the records that follow; zeros up to the next multiple of 512";
        16 DURABLE: u64 = "the file's length that was durable before this batch was written";
    }
}

layout! {
    /// `frontier.urls`: header of each URL.
    pub(crate) struct UrlHeader {
        0 CRC: u32 = "CRC-32 of the frontier's id, the page's number (4 bytes) and all that follows";
        4 LEN: u16 = "n, the text's length: 1 to 65535; the text follows";
        6 DEPTH: u16 = "links from a seed";
    }
}

layout! {
    /// `frontier.N.links`: header of each block.
    pub(crate) struct BlockHeader {
        0 CRC: u32 = "CRC-32 of the frontier's id, the file's number, the block's offset (8 bytes each) and all that follows";
        4 LEN: u32 = "n, the length of the lists that follow";
    }
}

/// The header of a file.
pub(crate) fn header(kind: Kind, id: [u8; 16], number: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    kind.begin(&mut bytes);
    FileHeader::ID.put(&mut bytes, id);
    FileHeader::NUMBER.put(&mut bytes, number);
    seal(&mut bytes);
    bytes
}

/// Reads the id and number in a file's header.
///
/// # Errors
/// `Corrupt`, `NewerFormat`, `Io`.
pub(crate) fn read_header(file: &dyn File, name: &str, kind: Kind) -> Result<([u8; 16], u64), StorageError> {
    let mut bytes = [0; HEADER_BYTES];
    files::read_exact(file, name, &mut bytes, 0)?;
    kind.check(name, &bytes)?;
    let (id, number) = (FileHeader::ID.get(&bytes), FileHeader::NUMBER.get(&bytes));
    let found = Kind { version: FileHeader::READ_VERSION.get(&bytes), ..kind };
    if bytes != header(found, id, number) {
        return Err(StorageError::corrupt(name, 8, "impossible header"));
    }
    Ok((id, number))
}

/// The format version of a file whose header was checked.
///
/// # Errors
/// `Io`.
pub(crate) fn version(file: &dyn File, name: &str) -> Result<u16, StorageError> {
    let mut bytes = [0; HEADER_BYTES];
    files::read_exact(file, name, &mut bytes, 0)?;
    Ok(FileHeader::READ_VERSION.get(&bytes))
}

#[cfg(test)]
mod tests {
    use filemap_io::layout::markdown;

    use super::body;

    #[test]
    fn the_document_has_the_table_of_every_record_and_no_other() {
        let tables = [
            super::FileHeader::ROWS,
            body::BodyBlock::ROWS,
            body::SnapshotHead::ROWS,
            body::StatusCounts::ROWS,
            body::HostName::ROWS,
            body::HostTimes::ROWS,
            body::HostPages::ROWS,
            body::RowsBlock::ROWS,
            body::ShapeRecord::ROWS,
            body::QueueHead::ROWS,
            body::TimersLeftOut::ROWS,
            body::DeliveryRecord::ROWS,
            body::GiftRecord::ROWS,
            body::RoundRecord::ROWS,
            body::TakenRecord::ROWS,
            body::RunsHead::ROWS,
            body::RunRecord::ROWS,
            super::PageRecord::ROWS,
            crate::pairs::PairsBlock::ROWS,
            super::BatchHeader::ROWS,
            super::UrlHeader::ROWS,
            super::BlockHeader::ROWS,
        ];
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/FRONTIER.md");
        let document = std::fs::read_to_string(path).expect("docs/FRONTIER.md");
        let missing: Vec<String> =
            tables.iter().map(|rows| markdown(rows, &[])).filter(|table| !document.contains(table.as_str())).collect();
        assert!(missing.is_empty(), "docs/FRONTIER.md lacks:\n{}", missing.join("\n"));
        assert_eq!(document.matches("| offset | size |").count(), tables.len());
    }
}
