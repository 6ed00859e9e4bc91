//! Compression: zstd, on the caller's thread, with contexts that each thread keeps.

use std::cell::RefCell;
use std::io::Cursor;

use zstd::bulk::{Compressor, Decompressor};

use crate::format::value::Codec;

/// Shorter inputs are stored raw: a frame's header would eat what it saves.
const SHORTEST_BYTES: usize = 48;

thread_local! {
    static COMPRESSOR: RefCell<Option<(i32, Compressor<'static>)>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Appends `raw` to `out`, compressed at `level` when that makes it shorter (level 0: never). Says which.
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
    // Incompressible, short, or no memory for a context: raw is always right.
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

/// Appends the `raw_bytes` that `stored` stands for to `out`. The caller has checked that length against a limit: no more is
/// ever allocated, whatever the frame says.
///
/// # Errors
/// What is wrong, when `stored` does not decode to exactly that many bytes.
pub(crate) fn expand(codec: Codec, stored: &[u8], raw_bytes: usize, out: &mut Vec<u8>) -> Result<(), &'static str> {
    if codec == Codec::Raw {
        if stored.len() != raw_bytes {
            return Err("raw bytes of another length than recorded");
        }
        out.extend_from_slice(stored);
        return Ok(());
    }
    let start = out.len();
    out.try_reserve_exact(raw_bytes).map_err(|_| "no memory for the recorded length")?;
    // The decoder may use all capacity that it is shown, so a separate buffer bounds it exactly when `out` has more.
    let mut piece = Vec::new();
    let whole = out.capacity() - start != raw_bytes;
    if whole {
        piece.try_reserve_exact(raw_bytes).map_err(|_| "no memory for the recorded length")?;
    }
    let done = DECOMPRESSOR.with_borrow_mut(|slot| -> std::io::Result<usize> {
        let decompressor = match slot {
            Some(d) => d,
            None => slot.insert(Decompressor::new()?),
        };
        if whole {
            return decompressor.decompress_to_buffer(stored, &mut piece);
        }
        let mut cursor = Cursor::new(&mut *out);
        cursor.set_position(start as u64);
        decompressor.decompress_to_buffer(stored, &mut cursor)
    });
    if done.is_ok_and(|n| n == raw_bytes) {
        out.extend_from_slice(&piece);
        return Ok(());
    }
    out.truncate(start);
    Err("payload does not decompress to its recorded length")
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
            expand(codec, &stored[6..], raw.len(), &mut out).unwrap();
            assert_eq!(out, [&before[..], raw].concat());
            let clean = out.clone();
            assert!(expand(codec, &stored[6..], raw.len() + 1, &mut out).is_err());
            if !raw.is_empty() {
                assert!(expand(codec, &stored[6..], raw.len() - 1, &mut out).is_err());
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
        assert!(expand(Codec::Zstd, &bomb, 1000, &mut out).is_err());
        assert!(out.capacity() <= 2000);
        assert!(expand(Codec::Zstd, b"not zstd at all", 1000, &mut out).is_err());
    }
}
