//! Compression by the application, for engines without their own: zstd contexts that one thread
//! reuses.

use filemap_benches::drive::Outcome;
use filemap_benches::generate::Page;
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::{compress_bound, get_frame_content_size};

/// Longest page; a frame that claims more is damaged.
const BODY_BYTES_MAX: u64 = 1 << 30;

/// A thread's contexts and buffer.
pub struct Codec {
    compressor: Compressor<'static>,
    decompressor: Decompressor<'static>,
    frame: Vec<u8>,
    stored_bytes: u64,
}

impl Codec {
    /// Of a zstd level.
    pub fn new(level: i32) -> Outcome<Codec> {
        Ok(Codec {
            compressor: Compressor::new(level)?,
            decompressor: Decompressor::new()?,
            frame: Vec::new(),
            stored_bytes: 0,
        })
    }

    /// The frame of a body, until the next call.
    pub fn compress(&mut self, body: &[u8]) -> Outcome<&[u8]> {
        self.frame.clear();
        self.frame.reserve(compress_bound(body.len()));
        self.compressor.compress_to_buffer(body, &mut self.frame)?;
        self.stored_bytes += self.frame.len() as u64;
        Ok(&self.frame)
    }

    /// Expands a frame over whatever `out` held.
    pub fn expand(&mut self, frame: &[u8], out: &mut Vec<u8>) -> Outcome<()> {
        let bytes = match get_frame_content_size(frame) {
            Ok(Some(bytes)) if bytes <= BODY_BYTES_MAX => bytes as usize,
            _ => return Err("a stored frame does not say how long its page is: it is damaged".into()),
        };
        out.clear();
        out.reserve(bytes);
        self.decompressor.decompress_to_buffer(frame, out)?;
        Ok(())
    }

    /// Bytes of all frames made since the last call.
    pub fn take_stored_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.stored_bytes)
    }
}

/// The frames of a batch of pages, end to end: made before any lock is taken.
#[derive(Default)]
pub struct Frames {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Frames {
    /// Compresses pages over whatever was here.
    pub fn fill(&mut self, codec: &mut Codec, pages: &[Page]) -> Outcome<()> {
        self.bytes.clear();
        self.ends.clear();
        for page in pages {
            self.bytes.extend_from_slice(codec.compress(&page.body)?);
            self.ends.push(self.bytes.len());
        }
        Ok(())
    }

    /// The frames in the order of their pages.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).map(|i| &self.bytes[if i == 0 { 0 } else { self.ends[i - 1] }..self.ends[i]])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_a_batch_expand_to_their_pages() {
        let mut codec = Codec::new(3).unwrap();
        let page = |body: &[u8]| Page { body: body.to_vec(), ..Page::default() };
        let pages = [page(b""), page(&[7; 5000]), page(b"third")];
        let mut frames = Frames::default();
        frames.fill(&mut codec, &pages).unwrap();
        frames.fill(&mut codec, &pages).unwrap();
        let mut body = Vec::new();
        for (frame, page) in frames.iter().zip(&pages) {
            codec.expand(frame, &mut body).unwrap();
            assert_eq!(body, page.body);
        }
        assert_eq!(codec.take_stored_bytes(), 2 * frames.iter().map(|f| f.len() as u64).sum::<u64>());
        assert!(codec.expand(b"not a frame", &mut body).is_err());
    }
}
