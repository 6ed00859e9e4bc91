//! File formats of mailboxes and outboxes: the fields of each record, declared once. docs/HTTP.md
//! explains their meaning.
//!
//! Numbers are little-endian, reserved bytes zero.

use filemap_io::header::{Kind, seal};
use filemap_io::layout::Zeros;
use filemap_io::{File, StorageError, files, layout};

/// A file of a log.
const LOG: Kind = Kind { magic: *b"FMMAIL01", version: 1, what: "file of a mailbox or an outbox" };
/// The note in a folder of mailboxes.
const FLEET: Kind = Kind { magic: *b"FMFLEET1", version: 1, what: "note of a folder of mailboxes" };

/// Bytes of every file's header, and the alignment of groups: no sector is written twice.
pub(crate) const SECTOR_BYTES: u64 = 512;
/// Magic of a group.
pub(crate) const GROUP_MAGIC: [u8; 4] = *b"FMMG";

layout! {
    /// Header of a file.
    pub(crate) struct FileHeader {
        0 MAGIC: [u8; 8] = "magic";
        8 READ_VERSION: u16 = "the version that a reader must know";
        10 WRITE_VERSION: u16 = "the version that a writer must know";
        12 SHARDS: u32 = "of the note of a folder: the number of shards; else zero";
        16 ID: [u8; 16] = "the log's or the fleet's id: random";
        32 BASE: u64 = "the place in the log of the file's first group";
        40 RESERVED: Zeros<468> = "reserved, zero";
        508 CRC: u32 = "CRC-32 of the bytes before";
    }
}

layout! {
    /// Header of a group: the record that one call appends.
    pub(crate) struct GroupHeader {
        0 CRC: u32 = "CRC-32 of the log's id, the group's place in the log and bytes 4 to 24 + n";
        4 MAGIC: [u8; 4] = "magic `FMMG`";
        8 LEN: u64 = "n, the length of the record that follows; zeros up to the next multiple of 512";
        16 DURABLE: u64 = "the log's length that was durable before this group was written";
    }
}

fn header(kind: Kind, shards: u32, id: [u8; 16], base: u64) -> [u8; FileHeader::BYTES] {
    let mut bytes = [0; FileHeader::BYTES];
    kind.begin(&mut bytes);
    FileHeader::SHARDS.put(&mut bytes, shards);
    FileHeader::ID.put(&mut bytes, id);
    FileHeader::BASE.put(&mut bytes, base);
    seal(&mut bytes);
    bytes
}

fn read(kind: Kind, file: &dyn File, name: &str) -> Result<[u8; FileHeader::BYTES], StorageError> {
    let mut bytes = [0; FileHeader::BYTES];
    files::read_exact(file, name, &mut bytes, 0)?;
    kind.check(name, &bytes)?;
    Ok(bytes)
}

/// Encodes the header of a log's file.
pub(crate) fn log_header(id: [u8; 16], base: u64) -> [u8; FileHeader::BYTES] {
    header(LOG, 0, id, base)
}

/// Reads the id in the header of a log's file that, by its name, begins at `base`.
///
/// # Errors
/// `Corrupt`, `NewerFormat`, `Io`.
pub(crate) fn read_log_header(file: &dyn File, name: &str, base: u64) -> Result<[u8; 16], StorageError> {
    let bytes = read(LOG, file, name)?;
    match FileHeader::BASE.get(&bytes) == base {
        true => Ok(FileHeader::ID.get(&bytes)),
        false => {
            Err(StorageError::corrupt(name, FileHeader::BASE.at as u64, "the header has the place of another file"))
        }
    }
}

/// Encodes the note of a folder of mailboxes.
pub(crate) fn fleet_note(shards: u32, id: [u8; 16]) -> [u8; FileHeader::BYTES] {
    header(FLEET, shards, id, 0)
}

/// Reads the number of shards in a folder's note.
///
/// # Errors
/// `Corrupt`, `NewerFormat`, `Io`.
pub(crate) fn read_fleet_note(file: &dyn File, name: &str) -> Result<u32, StorageError> {
    Ok(FileHeader::SHARDS.get(&read(FLEET, file, name)?))
}
