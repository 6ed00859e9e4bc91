//! A leaf page of address.idx: the slots of all keys whose hash starts with the leaf's prefix,
//! sorted by hash.
//!
//! A slot is two words. Its 40 hash bits follow the hash's first 7, which the directory always
//! resolves. Pages are immutable once a superblock names them.

use filemap_io::layout::{Wire, Zeros, get, is_reserved_zero};

use super::bits::Bits;
use super::location::{Location, SizeClass};
use super::{Flaw, PAGE_BYTES, all_zero, seeded_crc};

filemap_io::layout! {
    /// The head of a leaf.
    pub(crate) struct Layout {
        0 CRC: u32 = "CRC-32 of bytes 4..4096, seeded with store id and page number";
        4 KIND: u8 = "1 = leaf";
        5 DEPTH: u8 = "depth: length of the prefix in bits, 7 to 47";
        6 SLOTS: u16 = "number of slots, up to 254";
        8 EPOCH: u64 = "epoch of the superblock that first names the page";
        16 PREFIX: u64 = "prefix, in the low `depth` bits";
        24 RESERVED: Zeros<8> = "reserved, zero";
        .. "32", "16 each" = "slots";
    }
}

const HASH: Bits = Bits { word: 0, low: 24, bits: 40, text: "hash bits" };
const KEY_HIGH: Bits = Bits { word: 0, low: 0, bits: 24, text: "address of the key record, upper bits" };
const KEY_LOW: Bits = Bits { word: 1, low: 48, bits: 16, text: "address of the key record, lower bits" };
const LOCATION: Bits = Bits { word: 1, low: 8, bits: 40, text: "location of the value record" };
const SIZE: Bits = Bits { word: 1, low: 0, bits: 8, text: "size class" };

/// The fields of a slot, for docs/FORMAT.md.
#[cfg(test)]
pub(super) const SLOT_FIELDS: [Bits; 5] = [HASH, KEY_HIGH, KEY_LOW, LOCATION, SIZE];

/// Slots of a full leaf.
pub(crate) const CAPACITY: usize = (PAGE_BYTES - HEADER_BYTES) / SLOT_BYTES;
/// Hash bits that the directory always resolves; slots do not keep them.
pub(crate) const MIN_DEPTH: u8 = if cfg!(filemap_loom) { 1 } else { 7 };
/// Greatest depth of a leaf: no bits of its slots are left to split by.
pub(crate) const MAX_DEPTH: u8 = MIN_DEPTH + HASH_BITS;
pub(crate) const HEADER_BYTES: usize = Layout::BYTES;
const SLOT_BYTES: usize = 2 * u64::BYTES;
const HASH_BITS: u8 = HASH.bits as u8;
const KIND: u8 = 1;

/// Returns the 40 bits of a 64-bit hash that a slot keeps.
pub(crate) fn kept_bits(hash: u64) -> u64 {
    hash >> (64 - MAX_DEPTH) & ((1 << HASH_BITS) - 1)
}

/// One entry of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Hash bits, by [`kept_bits`].
    pub(crate) hash: u64,
    /// Address of the newest key record, in its 16-byte units.
    pub(crate) key: u64,
    pub(crate) location: Location,
    pub(crate) size: SizeClass,
}

impl Slot {
    pub(crate) fn pack(&self) -> [u64; 2] {
        let first = HASH.at(self.hash) | KEY_HIGH.at(self.key >> KEY_LOW.bits);
        let key_low = KEY_LOW.at(self.key & KEY_LOW.max());
        [first, key_low | LOCATION.at(self.location.pack()) | SIZE.at(u64::from(self.size.0))]
    }

    pub(crate) fn unpack(words: [u64; 2]) -> Slot {
        Slot {
            hash: HASH.get(&words),
            key: KEY_HIGH.get(&words) << KEY_LOW.bits | KEY_LOW.get(&words),
            location: Location::unpack(LOCATION.get(&words)),
            size: SizeClass(SIZE.get(&words) as u8),
        }
    }
}

/// Returns the hash bits of a slot's first word, the sort key of slots.
pub(crate) fn hash_of_word(word: u64) -> u64 {
    HASH.of(word)
}

/// A decoded leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub(crate) depth: u8,
    pub(crate) prefix: u64,
    pub(crate) epoch: u64,
    pub(crate) slots: Vec<Slot>,
}

/// Returns true if `slots`, sorted by hash, all have the `prefix` of a leaf.
pub(crate) fn has_prefix(slots: &[Slot], depth: u8, prefix: u64) -> bool {
    let told = depth - MIN_DEPTH;
    let bits = |slot: &Slot| slot.hash >> (HASH_BITS - told);
    let wanted = prefix & ((1 << told) - 1);
    [slots.first(), slots.last()].into_iter().flatten().all(|slot| bits(slot) == wanted)
}

/// Encodes a leaf for page number `page`.
///
/// Panics if the slots do not fit, are not sorted by hash, or lack the prefix.
pub(crate) fn encode(seed: u32, page: u32, depth: u8, prefix: u64, epoch: u64, slots: &[Slot]) -> [u8; PAGE_BYTES] {
    assert!(slots.len() <= CAPACITY);
    assert!(slots.is_sorted_by_key(|s| s.hash) && has_prefix(slots, depth, prefix), "slots of another leaf");
    let mut b = [0; PAGE_BYTES];
    Layout::KIND.put(&mut b, KIND);
    Layout::DEPTH.put(&mut b, depth);
    Layout::SLOTS.put(&mut b, slots.len() as u16);
    Layout::EPOCH.put(&mut b, epoch);
    Layout::PREFIX.put(&mut b, prefix);
    for (slot, out) in slots.iter().zip(b[HEADER_BYTES..].chunks_exact_mut(SLOT_BYTES)) {
        for (word, out) in slot.pack().into_iter().zip(out.chunks_exact_mut(u64::BYTES)) {
            word.write(out);
        }
    }
    let crc = seeded_crc(seed, u64::from(page), &b[Layout::CRC.end()..]);
    Layout::CRC.put(&mut b, crc);
    b
}

/// Iterates over the hash bits of all slots of an encoded leaf.
pub(crate) fn hashes(b: &[u8; PAGE_BYTES]) -> impl Iterator<Item = u64> + '_ {
    let count = usize::from(Layout::SLOTS.get(b));
    b[HEADER_BYTES..].chunks_exact(SLOT_BYTES).take(count).map(|slot| hash_of_word(u64::read(slot)))
}

/// Decodes and verifies a leaf read from page number `page`.
pub(crate) fn decode(seed: u32, page: u32, b: &[u8]) -> Result<Leaf, Flaw> {
    if b.len() != PAGE_BYTES {
        return Err("leaf page is cut off");
    }
    if seeded_crc(seed, u64::from(page), &b[Layout::CRC.end()..]) != Layout::CRC.get(b) {
        return Err("leaf page checksum mismatch");
    }
    let (depth, count) = (Layout::DEPTH.get(b), usize::from(Layout::SLOTS.get(b)));
    if Layout::KIND.get(b) != KIND {
        return Err("not a leaf page");
    }
    if !(MIN_DEPTH..=MAX_DEPTH).contains(&depth) || count > CAPACITY {
        return Err("leaf page header is out of range");
    }
    let used = HEADER_BYTES + count * SLOT_BYTES;
    if !is_reserved_zero(Layout::ROWS, b) || !all_zero(&b[used..]) {
        return Err("reserved bytes of a leaf page are not zero");
    }
    let slots: Vec<Slot> = b[HEADER_BYTES..used]
        .chunks_exact(SLOT_BYTES)
        .map(|s| Slot::unpack([0, 1].map(|word| get(s, word * u64::BYTES))))
        .collect();
    if !slots.is_sorted_by_key(|s| s.hash) {
        return Err("slots of a leaf page are not in order");
    }
    let prefix = Layout::PREFIX.get(b);
    if prefix >> depth != 0 {
        return Err("the prefix of a leaf page is longer than its depth");
    }
    if !has_prefix(&slots, depth, prefix) {
        return Err("slots of a leaf page belong to another leaf");
    }
    Ok(Leaf { depth, prefix, epoch: Layout::EPOCH.get(b), slots })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(n: u64) -> Vec<Slot> {
        (0..n)
            .map(|i| Slot {
                hash: 28 << 35 | (i * 100_000_000),
                key: (1 << 40) - 1 - i,
                location: Location::new(i as u16, 64 * i),
                size: SizeClass(i as u8),
            })
            .collect()
    }

    #[test]
    fn leaves_come_back_full_and_empty() {
        for n in [0, 1, 254] {
            let page = encode(5, 9, 12, 0xabc, 3, &slots(n));
            let leaf = decode(5, 9, &page).unwrap();
            assert_eq!(leaf, Leaf { depth: 12, prefix: 0xabc, epoch: 3, slots: slots(n) });
        }
    }

    #[test]
    fn a_changed_byte_another_place_and_another_store_are_noticed() {
        let page = encode(5, 9, 12, 0xabc, 3, &slots(10));
        assert!(decode(5, 8, &page).is_err());
        assert!(decode(6, 9, &page).is_err());
        for at in 0..PAGE_BYTES {
            let mut bad = page;
            bad[at] ^= 4;
            assert!(decode(5, 9, &bad).is_err(), "byte {at}");
        }
    }

    #[test]
    fn slots_of_another_leaf_are_noticed() {
        let mut page = encode(5, 9, 12, 0xabc, 3, &slots(10));
        Layout::PREFIX.put(&mut page, 0xabd);
        let crc = seeded_crc(5, 9, &page[Layout::CRC.end()..]);
        Layout::CRC.put(&mut page, crc);
        assert_eq!(decode(5, 9, &page), Err("slots of a leaf page belong to another leaf"));
    }

    #[test]
    fn the_kept_bits_follow_the_first_seven() {
        assert_eq!(kept_bits(u64::MAX), (1 << 40) - 1);
        assert_eq!(kept_bits(0xfe00_0000_0001_ffff), 0);
        assert_eq!(kept_bits(1 << 56), 1 << 39);
        assert_eq!(kept_bits(1 << 17), 1);
    }
}
