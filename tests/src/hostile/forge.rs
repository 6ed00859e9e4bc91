//! Checksums for forged bytes: makes a changed record, page or header pass, so that what lies behind the checksum is
//! reached.
//!
//! Written after docs/FORMAT.md, not with the engine's code: what the two disagree about is a bug in one of them.
//! Invariant: total over any bytes; lengths that reach past the end of a file are clipped to it.

/// The seed of a file's checksums: `number` is the segment's ordinal, [`KEYS`] or [`INDEX`].
pub fn seed(store_id: &[u8; 16], number: u64) -> u32 {
    let mut h = crc32fast::Hasher::new();
    h.update(store_id);
    h.update(&number.to_le_bytes());
    h.finalize()
}

/// What stands for the ordinal in the seed of key.dat.
pub const KEYS: u64 = u64::MAX;
/// What stands for the ordinal in the seed of address.idx.
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

/// Seals a page of address.idx.
pub fn page(file: &mut [u8], store_id: &[u8; 16], page: usize) {
    if let Some(b) = file.get_mut(page * PAGE..(page + 1) * PAGE) {
        let sum = crc(seed(store_id, INDEX), page as u64, &b[4..]);
        put(b, 0, &sum);
    }
}

/// Seals the key record at `at`.
pub fn key_record(file: &mut [u8], store_id: &[u8; 16], at: usize) {
    let key_bytes = u32_at(file, at + 4) as usize;
    let end = at.saturating_add(56).saturating_add(key_bytes).min(file.len());
    if at + 4 < end {
        let sum = crc(seed(store_id, KEYS), at as u64, &file[at + 4..end]);
        put(file, at, &sum);
    }
}

/// Where the payload of the value record at `at` starts and ends, by its own fields, clipped to the file.
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
