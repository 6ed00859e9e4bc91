//! A large body in chunks: a part of it can be read and checked alone, so that a reader holds a
//! few chunks in memory, whatever the length of the body.
//!
//! The payload is a table, and behind it the chunks in order. The table has the checksum and the
//! length of each chunk, and the record's head the checksum of the table. A chunk that compression
//! does not shrink enough is stored raw: it then has the length of its part of the body.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

/// The length of a chunk's part of the body; the last may be shorter. The table has no length of
/// its own, so another one needs another codec.
pub(crate) const PART_BYTES: u64 = 1 << 20;
/// Longer bodies are stored in chunks.
pub(crate) const WHOLE_BYTES: u64 = 4 << 20;

/// Zstandard level of bodies.
pub(crate) const LEVEL: i32 = 3;
/// Bytes that compression shrinks by less than 1/16 are stored raw.
const LEAST_GAIN: usize = 16;

filemap_io::layout! {
    /// The row of a chunk in the table.
    struct Entry {
        0 CHECKSUM: u64 = "XXH3 of the chunk as stored";
        8 STORED_BYTES: u32 = "its length as stored";
    }
}

/// The bytes compressed at a level, if that saves enough.
pub(crate) fn compressed(bytes: &[u8], level: i32) -> Option<Vec<u8>> {
    let packed = zstd::bulk::compress(bytes, level).ok();
    packed.filter(|packed| is_gain(packed.len(), bytes.len()))
}

/// Returns whether a compressed length saves enough.
pub(crate) fn is_gain(packed: usize, bytes: usize) -> bool {
    packed + bytes / LEAST_GAIN < bytes
}

/// The payload of a body.
pub(crate) fn pack(body: &[u8]) -> Vec<u8> {
    let parts = body.chunks(PART_BYTES as usize);
    let mut payload = vec![0; parts.len() * Entry::BYTES];
    for (nth, part) in parts.enumerate() {
        let begin = payload.len();
        match compressed(part, LEVEL) {
            Some(packed) => payload.extend_from_slice(&packed),
            None => payload.extend_from_slice(part),
        }
        let (checksum, bytes) = (xxh3_64(&payload[begin..]), (payload.len() - begin) as u32);
        let entry = &mut payload[nth * Entry::BYTES..(nth + 1) * Entry::BYTES];
        Entry::CHECKSUM.put(entry, checksum);
        Entry::STORED_BYTES.put(entry, bytes);
    }
    payload
}

/// The length of the table of a body of this length.
pub(crate) fn table_bytes(body_bytes: u64) -> u64 {
    body_bytes.div_ceil(PART_BYTES).saturating_mul(Entry::BYTES as u64)
}

/// The table at the front of a payload, or a payload that is shorter than its table.
pub(crate) fn table_of(payload: &[u8], body_bytes: u64) -> &[u8] {
    let bytes = usize::try_from(table_bytes(body_bytes)).unwrap_or(usize::MAX);
    payload.get(..bytes).unwrap_or(payload)
}

/// Returns whether the chunks of a payload are those of its table.
pub(crate) fn is_whole(payload: &[u8], body_bytes: u64) -> bool {
    let Some(table) = Table::decode(payload, body_bytes) else { return false };
    let is_chunk = |nth| table.stored(payload, nth).is_some_and(|stored| table.is_chunk(nth, stored));
    table.payload_bytes == payload.len() as u64 && (0..table.len()).all(is_chunk)
}

/// The body in a payload. An error describes the damage.
pub(crate) fn unpack(payload: &[u8], body_bytes: u64) -> Result<Vec<u8>, String> {
    let table = Table::decode(payload, body_bytes).ok_or("the table of a body does not decode")?;
    let mut body = Vec::new();
    for nth in 0..table.len() {
        let stored = table.stored(payload, nth).ok_or("a body ends inside a chunk")?;
        body.extend_from_slice(&table.unpack(nth, stored)?);
    }
    Ok(body)
}

/// A chunk in a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chunk {
    offset: u64,
    stored_bytes: u64,
    checksum: u64,
}

/// The chunks of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    chunks: Vec<Chunk>,
    payload_bytes: u64,
    body_bytes: u64,
}

impl Table {
    /// Decodes the table at the front of a payload; `None` if it is invalid or incomplete.
    pub(crate) fn decode(payload: &[u8], body_bytes: u64) -> Option<Table> {
        let table = payload.get(..usize::try_from(table_bytes(body_bytes)).ok()?)?;
        let (mut chunks, mut offset) = (Vec::with_capacity(table.len() / Entry::BYTES), table.len() as u64);
        for (entry, nth) in table.chunks_exact(Entry::BYTES).zip(0..) {
            let (stored_bytes, checksum) = (u64::from(Entry::STORED_BYTES.get(entry)), Entry::CHECKSUM.get(entry));
            if stored_bytes > part_bytes(body_bytes, nth) {
                return None;
            }
            chunks.push(Chunk { offset, stored_bytes, checksum });
            offset += stored_bytes;
        }
        Some(Table { chunks, payload_bytes: offset, body_bytes })
    }

    /// The number of chunks.
    pub(crate) fn len(&self) -> usize {
        self.chunks.len()
    }

    /// The length of the whole payload.
    pub(crate) fn payload_bytes(&self) -> u64 {
        self.payload_bytes
    }

    /// The range of a chunk in the payload; empty behind the last.
    pub(crate) fn range(&self, nth: usize) -> Range<u64> {
        let end = self.payload_bytes;
        self.chunks.get(nth).map_or(end..end, |chunk| chunk.offset..chunk.offset + chunk.stored_bytes)
    }

    /// A chunk as stored, in the whole payload.
    fn stored<'p>(&self, payload: &'p [u8], nth: usize) -> Option<&'p [u8]> {
        let Range { start, end } = self.range(nth);
        payload.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    }

    /// Returns whether these are the stored bytes of a chunk.
    fn is_chunk(&self, nth: usize, stored: &[u8]) -> bool {
        let is_it = |chunk: &Chunk| chunk.stored_bytes == stored.len() as u64 && chunk.checksum == xxh3_64(stored);
        self.chunks.get(nth).is_some_and(is_it)
    }

    /// A chunk's part of the body. An error describes the damage.
    pub(crate) fn unpack(&self, nth: usize, stored: &[u8]) -> Result<Vec<u8>, String> {
        if !self.is_chunk(nth, stored) {
            return Err(format!("checksum mismatch in chunk {nth} of a body"));
        }
        // At most a part: it fits into the memory's numbers.
        let bytes = part_bytes(self.body_bytes, nth as u64) as usize;
        if stored.len() == bytes {
            return Ok(stored.to_vec());
        }
        let part = zstd::bulk::decompress(stored, bytes);
        let part = part.map_err(|error| format!("chunk {nth} of a body does not decompress: {error}"))?;
        if part.len() == bytes { Ok(part) } else { Err(format!("length mismatch in chunk {nth} of a body")) }
    }
}

/// The length of a chunk's part of the body.
fn part_bytes(body_bytes: u64, nth: u64) -> u64 {
    body_bytes.saturating_sub(nth.saturating_mul(PART_BYTES)).min(PART_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two parts that compress, one that does not, and a rest.
    fn body() -> Vec<u8> {
        let mut state: u64 = 7;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        });
        let part = PART_BYTES as usize;
        let noise: Vec<u8> = noise.take(part).collect();
        [b"page ".repeat(2 * part / 5 + 1)[..2 * part].to_vec(), noise, b"the end".to_vec()].concat()
    }

    #[test]
    fn a_body_comes_back_whole_and_in_parts() {
        let body = body();
        let (payload, bytes) = (pack(&body), body.len() as u64);
        assert!(payload.len() < body.len() / 2 + body.len() / 8, "{} of {bytes}", payload.len());
        assert!(is_whole(&payload, bytes));
        assert_eq!(unpack(&payload, bytes).as_ref(), Ok(&body));
        let table = Table::decode(table_of(&payload, bytes), bytes).expect("whole");
        assert_eq!((table.len(), table.payload_bytes()), (4, payload.len() as u64));
        for (nth, part) in body.chunks(PART_BYTES as usize).enumerate() {
            let range = table.range(nth);
            let stored = &payload[range.start as usize..range.end as usize];
            assert_eq!(table.unpack(nth, stored).as_deref(), Ok(part));
            let other = if nth == 0 { 1 } else { 0 };
            assert!(table.unpack(other, stored).is_err(), "chunk {nth} is not another one");
        }
        assert!(table.range(4).is_empty());
    }

    #[test]
    fn a_changed_byte_a_cut_and_another_length_are_found() {
        let body = body();
        let (mut payload, bytes) = (pack(&body), body.len() as u64);
        let table = table_of(&payload, bytes).to_vec();
        for at in (table.len()..payload.len()).step_by(200_003) {
            payload[at] ^= 1;
            assert!(!is_whole(&payload, bytes) && unpack(&payload, bytes).is_err(), "changed at {at}");
            payload[at] ^= 1;
        }
        for end in [0, table.len() - 1, table.len(), payload.len() - 1] {
            assert!(!is_whole(&payload[..end], bytes), "cut at {end}");
        }
        assert!(!is_whole(&payload, bytes + PART_BYTES) && !is_whole(&payload, u64::MAX));
        // A chunk is never longer than its part.
        payload[8..12].copy_from_slice(&(PART_BYTES as u32 + 1).to_le_bytes());
        assert_eq!(Table::decode(&payload, bytes), None);
    }
}
