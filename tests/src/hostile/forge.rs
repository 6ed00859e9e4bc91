//! Checksums for forged bytes, so that a changed record, page or header is read past its checksum.
//!
//! Written after docs/FORMAT.md, not with the engine's code: a disagreement is a bug in one of
//! them. Invariant: total over any bytes; lengths that reach past the end of a file are clipped to
//! it.

use super::image::Image;

/// The seed of a file's checksums: `number` is the segment's ordinal, with [`KEYS`] or without, or
/// [`INDEX`].
pub fn seed(store_id: &[u8; 16], number: u64) -> u32 {
    let mut h = crc32fast::Hasher::new();
    h.update(store_id);
    h.update(&number.to_le_bytes());
    h.finalize()
}

/// Added to the ordinal in the seed of a segment of the key log.
pub const KEYS: u64 = 1 << 63;
/// Stands for the ordinal in the seed of address.idx.
pub const INDEX: u64 = u64::MAX - 1;
/// Bytes of a page of address.idx.
pub const PAGE: usize = 4096;

fn crc(seed: u32, place: u64, bytes: &[u8]) -> [u8; 4] {
    let mut h = crc32fast::Hasher::new_with_initial(seed);
    h.update(&place.to_le_bytes());
    h.update(bytes);
    h.finalize().to_le_bytes()
}

fn put(bytes: &mut [u8], at: usize, what: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + what.len()) {
        place.copy_from_slice(what);
    }
}

/// The 4 bytes at `at` as a number; 0 past the end.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// The 8 bytes at `at` as a number; 0 past the end.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// The store id in a file's header or a superblock.
pub fn store_id(file: &[u8]) -> [u8; 16] {
    file.get(16..32).and_then(|b| b.try_into().ok()).unwrap_or_default()
}

/// Seals the copy of the superblock at `at`.
pub fn superblock(file: &mut [u8], at: usize) {
    if let Some(sector) = file.get_mut(at..at + 512) {
        let sum = crc32fast::hash(&sector[12..]).to_le_bytes();
        put(sector, 8, &sum);
    }
}

/// Seals the header of a file.
pub fn header(file: &mut [u8]) {
    if let Some(b) = file.get_mut(..64) {
        let sum = crc32fast::hash(&b[12..]).to_le_bytes();
        put(b, 8, &sum);
    }
}

/// Seals one copy of a dictionary's file: its header, its facts, both dictionaries as far as they
/// are there.
pub fn dictionary(copy: &mut [u8], store_id: &[u8; 16]) {
    if copy.len() < 512 {
        return;
    }
    header(copy);
    let mut from = 512usize;
    for (length_at, sum_at) in [(68, 72), (76, 80)] {
        let to = from.saturating_add(u32_at(copy, length_at) as usize).min(copy.len());
        let sum = crc32fast::hash(&copy[from..to]).to_le_bytes();
        put(copy, sum_at, &sum);
        from = to;
    }
    let sum = crc(seed(store_id, u64_at(copy, 32)), 64, &copy[68..512]);
    put(copy, 64, &sum);
}

/// Seals a page of address.idx.
pub fn page(file: &mut [u8], store_id: &[u8; 16], page: usize) {
    if let Some(b) = file.get_mut(page * PAGE..(page + 1) * PAGE) {
        let sum = crc(seed(store_id, INDEX), page as u64, &b[4..]);
        put(b, 0, &sum);
    }
}

/// End of the key record at `at`, without its padding.
fn key_record_end(file: &[u8], at: usize) -> usize {
    let word = u32_at(file, at + 4) as usize;
    let fixed = if word >> 25 & 1 == 1 { 56 } else { 40 };
    at.saturating_add(fixed).saturating_add(word & 0xff_ffff).min(file.len())
}

/// Seals the key record at `at`, in segment 0 of the key log.
pub fn key_record(file: &mut [u8], store_id: &[u8; 16], at: usize) {
    let end = key_record_end(file, at);
    if at + 4 < end {
        let sum = crc(seed(store_id, KEYS), at as u64, &file[at + 4..end]);
        put(file, at, &sum);
    }
}

/// Start and end of the payload of the value record at `at`, by its own fields, clipped to the
/// file.
pub fn payload(file: &[u8], at: usize) -> std::ops::Range<usize> {
    let has_digest = matches!(file.get(at + 8), Some(1 | 2 | 5));
    let fixed = if has_digest { 72 } else { 56 };
    let parts = [fixed, u32_at(file, at + 52) as usize, u32_at(file, at + 48) as usize];
    let start = parts.iter().fold(at, |sum, part| sum.saturating_add(*part)).min(file.len());
    start..start.saturating_add(u32_at(file, at + 40) as usize).min(file.len())
}

/// Seals payload and head of the value record at `at`, in the segment of an ordinal.
pub fn value_record(file: &mut [u8], store_id: &[u8; 16], ordinal: u64, at: usize) {
    let payload = payload(file, at);
    let head_end = payload.start;
    if at + 56 > file.len() {
        return;
    }
    if file[at + 8] != 6 {
        let sum = crc32fast::hash(&file[payload]).to_le_bytes();
        put(file, at + 4, &sum);
    }
    let sum = crc(seed(store_id, ordinal), at as u64, &file[at + 4..head_end.max(at + 4)]);
    put(file, at, &sum);
}

/// Returns whether an image holds, where it differs from another, a record with the right
/// checksum: a fuzzer that compares long enough finds the numbers that it is compared with.
pub fn is_forged(image: &Image, original: &Image) -> bool {
    let id = original.0.get("SUPERBLOCK").map_or([0; 16], |f| store_id(f));
    image.0.iter().any(|(name, bytes)| {
        let old = original.0.get(name).map_or(&[][..], Vec::as_slice);
        let differs = |at: usize, end: usize| at < end && bytes.get(at..end) != old.get(at..end);
        let is_sealed = |at: usize, end: usize, seal: &dyn Fn(&mut [u8])| {
            let mut copy = bytes.clone();
            seal(&mut copy);
            differs(at, end.min(bytes.len())) && copy == *bytes
        };
        match name.as_str() {
            "SUPERBLOCK" => [0, PAGE].iter().any(|&at| is_sealed(at, at + 512, &|f| superblock(f, at))),
            "address.idx" => (0..bytes.len() / PAGE).any(|nth| {
                let (at, end) = (nth * PAGE, (nth + 1) * PAGE);
                if nth == 0 { is_sealed(0, 64, &|f| header(f)) } else { is_sealed(at, end, &|f| page(f, &id, nth)) }
            }),
            "key0.dat" => {
                let units = (64..bytes.len()).step_by(16);
                let end = |at: usize| key_record_end(bytes, at);
                is_sealed(0, 64, &|f| header(f))
                    || units
                        .into_iter()
                        .any(|at| differs(at, end(at)) && is_sealed(at, end(at), &|f| key_record(f, &id, at)))
            }
            _ => {
                let units = (64..bytes.len()).step_by(64);
                is_sealed(0, 64, &|f| header(f))
                    || units.into_iter().any(|at| {
                        let end = payload(bytes, at).end;
                        differs(at, end) && is_sealed(at, end, &|f| value_record(f, &id, 0, at))
                    })
            }
        }
    })
}

/// A value record to be forged: every field as it is to stand on disk.
#[derive(Clone, Debug)]
pub struct Value {
    /// 1 page, 2 reference, 3 tombstone, 4 chunk, 5 chunked, 6 filler.
    pub kind: u8,
    /// 0 raw, 1 zstd.
    pub codec: u8,
    /// The same of the meta.
    pub meta_codec: u8,
    /// Its sequence.
    pub sequence: u64,
    /// Its time.
    pub time_ms: i64,
    /// Stated length of the body.
    pub raw_bytes: u64,
    /// Stated length of the meta.
    pub meta_raw_bytes: u32,
    /// Its key.
    pub key: Vec<u8>,
    /// Its meta, as stored.
    pub meta: Vec<u8>,
    /// Its payload, as stored.
    pub payload: Vec<u8>,
    /// Stated digest of the body.
    pub digest: [u8; 16],
}

impl Value {
    /// A record that is right as far as it goes: raw, its lengths true.
    pub fn new(kind: u8, sequence: u64, time_ms: i64, key: &str, payload: &[u8]) -> Value {
        Value {
            kind,
            codec: 0,
            meta_codec: 0,
            sequence,
            time_ms,
            raw_bytes: payload.len() as u64,
            meta_raw_bytes: 0,
            key: key.as_bytes().to_vec(),
            meta: Vec::new(),
            payload: payload.to_vec(),
            digest: [0; 16],
        }
    }

    /// Appends the record to a segment, sealed; its offset.
    pub fn append(&self, file: &mut Vec<u8>, store_id: &[u8; 16], ordinal: u64) -> usize {
        file.resize(file.len().next_multiple_of(64), 0);
        let at = file.len();
        file.extend_from_slice(&[0; 8]);
        file.extend_from_slice(&[self.kind, self.codec, self.meta_codec, 0, 0, 0, 0, 0]);
        file.extend_from_slice(&self.sequence.to_le_bytes());
        file.extend_from_slice(&self.time_ms.to_le_bytes());
        file.extend_from_slice(&self.raw_bytes.to_le_bytes());
        let lengths = [self.payload.len(), self.meta_raw_bytes as usize, self.meta.len(), self.key.len()];
        lengths.iter().for_each(|len| file.extend_from_slice(&(*len as u32).to_le_bytes()));
        if matches!(self.kind, 1 | 2 | 5) {
            file.extend_from_slice(&self.digest);
        }
        [&self.key, &self.meta, &self.payload].iter().for_each(|part| file.extend_from_slice(part));
        file.resize(file.len().next_multiple_of(64), 0);
        value_record(file, store_id, ordinal, at);
        at
    }
}

/// An entry of a list of chunks.
pub fn chunk_entry(offset: usize, raw_bytes: u32, units: u32) -> Vec<u8> {
    let place = (offset as u64 / 64).to_le_bytes();
    [&place[..], &raw_bytes.to_le_bytes(), &units.to_le_bytes()].concat()
}
