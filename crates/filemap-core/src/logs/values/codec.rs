//! Compression: zstd, with or without a dictionary, on the caller's thread. Each thread keeps its
//! contexts.

use std::cell::RefCell;
use std::io::Cursor;

use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::{CDict, DDict};
use zstd::zstd_safe::{CCtx, DCtx, WriteBuf};

use crate::format::value::Codec;

/// Shorter inputs are stored raw: a frame's header would cost what compression saves.
const SHORTEST_BYTES: usize = 48;
/// The same limit with a dictionary, which pays earlier.
const SHORTEST_WITH_DICTIONARY_BYTES: usize = 24;
/// Inputs longer than this many times the dictionary gain nothing from it.
const LONGEST_IN_DICTIONARIES: usize = 6;

thread_local! {
    static COMPRESSOR: RefCell<Option<(i32, Compressor<'static>)>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    static COMPRESSOR_WITH: RefCell<Option<CCtx<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR_WITH: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

/// Appends `raw` to `out`, compressed at `level` if that is shorter (level 0: never). Returns the
/// codec used.
pub(crate) fn append(raw: &[u8], level: i32, out: &mut Vec<u8>) -> Codec {
    let start = out.len();
    if level != 0 && raw.len() >= SHORTEST_BYTES {
        out.reserve(zstd::zstd_safe::compress_bound(raw.len()));
        let mut cursor = Cursor::new(&mut *out);
        cursor.set_position(start as u64);
        let done = COMPRESSOR.with_borrow_mut(|slot| -> std::io::Result<usize> {
            let compressor = match slot {
                Some((l, c)) if *l == level => c,
                _ => &mut slot.insert((level, new_compressor(level)?)).1,
            };
            compressor.compress_to_buffer(raw, &mut cursor)
        });
        if done.is_ok_and(|n| n < raw.len()) {
            return Codec::Zstd;
        }
    }
    // Incompressible, short, or no memory for a context: raw always works.
    out.truncate(start);
    out.extend_from_slice(raw);
    Codec::Raw
}

/// Returns true if a dictionary of this length should be used for an input of this length.
pub(crate) fn is_for(dictionary_bytes: usize, raw_bytes: usize) -> bool {
    raw_bytes >= SHORTEST_WITH_DICTIONARY_BYTES && raw_bytes <= dictionary_bytes.saturating_mul(LONGEST_IN_DICTIONARIES)
}

/// Appends `raw` to `out`, compressed with a digested dictionary (at the level of the digest) if
/// that is shorter. Returns the codec used.
pub(crate) fn append_with(raw: &[u8], dictionary: &CDict<'_>, out: &mut Vec<u8>) -> Codec {
    let start = out.len();
    out.reserve(zstd::zstd_safe::compress_bound(raw.len()));
    let mut cursor = Cursor::new(&mut *out);
    cursor.set_position(start as u64);
    let done = COMPRESSOR_WITH.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = CCtx::try_create();
        }
        slot.as_mut().map(|context| context.compress_using_cdict(&mut cursor, raw, dictionary))
    });
    if done.is_some_and(|done| done.is_ok_and(|n| n < raw.len())) {
        return Codec::Dictionary;
    }
    out.truncate(start);
    out.extend_from_slice(raw);
    Codec::Raw
}

fn new_compressor(level: i32) -> std::io::Result<Compressor<'static>> {
    let mut compressor = Compressor::new(level)?;
    compressor.include_checksum(false)?;
    compressor.include_contentsize(false)?;
    Ok(compressor)
}

/// Appends the `raw_bytes` bytes that `stored` encodes to `out`. The caller has checked that
/// length against a limit: no more is allocated, whatever the frame says. `with` is the record's
/// dictionary, for the codec that needs one.
///
/// # Errors
/// The flaw, if `stored` does not decode to exactly that many bytes.
pub(crate) fn expand(
    codec: Codec,
    stored: &[u8],
    raw_bytes: usize,
    with: Option<&DDict<'_>>,
    out: &mut Vec<u8>,
) -> Result<(), &'static str> {
    if codec == Codec::Raw {
        if stored.len() != raw_bytes {
            return Err("length of raw bytes differs from the recorded one");
        }
        out.extend_from_slice(stored);
        return Ok(());
    }
    let start = out.len();
    out.try_reserve_exact(raw_bytes).map_err(|_| "no memory for the recorded length")?;
    let mut cursor = Cursor::new(&mut *out);
    cursor.set_position(start as u64);
    // The frame may fill all spare room; a frame that holds more than recorded fails the length
    // check.
    if expand_into(codec, stored, with, &mut cursor) == Some(raw_bytes) {
        return Ok(());
    }
    out.truncate(start);
    Err("payload does not decompress to its recorded length")
}

/// Expands a frame into the room of `out`. Returns the number of bytes.
fn expand_into<W: WriteBuf + ?Sized>(
    codec: Codec,
    stored: &[u8],
    with: Option<&DDict<'_>>,
    out: &mut W,
) -> Option<usize> {
    if codec == Codec::Dictionary {
        let with = with?;
        return DECOMPRESSOR_WITH.with_borrow_mut(|slot| {
            if slot.is_none() {
                *slot = DCtx::try_create();
            }
            slot.as_mut()?.decompress_using_ddict(out, stored, with).ok()
        });
    }
    DECOMPRESSOR.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = Decompressor::new().ok();
        }
        slot.as_mut()?.decompress_to_buffer(stored, out).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(raw: &[u8], level: i32) -> Codec {
        let mut stored = b"before".to_vec();
        let codec = append(raw, level, &mut stored);
        assert!(stored.starts_with(b"before") && stored.len() <= 6 + raw.len());
        for mut out in [Vec::new(), Vec::with_capacity(2 * raw.len() + 100), b"x".to_vec()] {
            let before = out.clone();
            expand(codec, &stored[6..], raw.len(), None, &mut out).unwrap();
            assert_eq!(out, [&before[..], raw].concat());
            let clean = out.clone();
            assert!(expand(codec, &stored[6..], raw.len() + 1, None, &mut out).is_err());
            if !raw.is_empty() {
                assert!(expand(codec, &stored[6..], raw.len() - 1, None, &mut out).is_err());
            }
            assert_eq!(out, clean, "a failure leaves nothing behind");
        }
        codec
    }

    #[test]
    fn pages_come_back_and_what_does_not_shrink_is_stored_raw() {
        assert_eq!(round_trip(&b"<html><body>".repeat(300), 3), Codec::Zstd);
        assert_eq!(round_trip(&b"<html><body>".repeat(300), 0), Codec::Raw);
        let noise: Vec<u8> = (0..3000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        round_trip(&noise, 3);
        assert_eq!(round_trip(b"", 3), Codec::Raw);
        assert_eq!(round_trip(b"short", 19), Codec::Raw);
    }

    #[test]
    fn a_bomb_does_not_expand_past_the_recorded_length() {
        let mut bomb = Vec::new();
        append(&vec![0; 32 << 20], 3, &mut bomb);
        assert!(bomb.len() < 8192);
        let mut out = Vec::new();
        assert!(expand(Codec::Zstd, &bomb, 1000, None, &mut out).is_err());
        assert!(out.capacity() <= 2000);
        assert!(expand(Codec::Zstd, b"not zstd at all", 1000, None, &mut out).is_err());
    }

    #[test]
    fn pages_come_back_through_their_dictionary_and_through_no_other() {
        let page =
            |i: u32| format!("<html><head><title>{i}</title></head><body class=site>number {i}</body>").into_bytes();
        let content = (0..50).flat_map(page).collect::<Vec<_>>();
        let (compress, expander) = (CDict::create(&content, 3), DDict::create(&content));
        let other = DDict::create(&b"something else entirely ".repeat(100));
        let mut stored = b"before".to_vec();
        assert_eq!(append_with(&page(77), &compress, &mut stored), Codec::Dictionary);
        assert!(stored.len() - 6 < page(77).len() / 2);
        let mut out = Vec::new();
        let raw_bytes = page(77).len();
        expand(Codec::Dictionary, &stored[6..], raw_bytes, Some(&expander), &mut out).unwrap();
        assert_eq!(out, page(77));
        out.clear();
        assert!(expand(Codec::Dictionary, &stored[6..], raw_bytes, None, &mut out).is_err());
        assert!(expand(Codec::Dictionary, &stored[6..], raw_bytes - 1, Some(&expander), &mut out).is_err());
        let wrong = expand(Codec::Dictionary, &stored[6..], raw_bytes, Some(&other), &mut out);
        assert!(wrong.is_err() || out != page(77), "zstd cannot know, but the bytes differ");
    }

    #[test]
    fn a_bomb_does_not_expand_past_the_recorded_length_through_a_dictionary() {
        let content = vec![0; 4096];
        let mut bomb = Vec::new();
        append_with(&vec![0; 32 << 20], &CDict::create(&content, 3), &mut bomb);
        assert!(bomb.len() < 8192);
        let mut out = Vec::new();
        assert!(expand(Codec::Dictionary, &bomb, 1000, Some(&DDict::create(&content)), &mut out).is_err());
        assert!(out.capacity() <= 2000);
    }
}
