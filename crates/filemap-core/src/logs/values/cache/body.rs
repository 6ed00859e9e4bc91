//! A body in memory that may be the value cache's own, so that a reader of a cached page copies
//! nothing.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::Page;

/// A body in memory: owned, or shared with the value cache, which may drop its page meanwhile. It
/// dereferences to its bytes. With crate `bytes`, `Bytes::from_owner(body)` shares it further.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// let (head, body) = store.get_shared(b"http://a.example/")?.expect("it was put");
/// assert_eq!((&body[..], head.body_bytes), (&b"A page."[..], 7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct SharedBody {
    held: Holder,
    /// The part of the body that is shown.
    from: usize,
    to: usize,
}

enum Holder {
    Own(Vec<u8>),
    Cached(Arc<Page>),
}

impl Default for Holder {
    fn default() -> Holder {
        Holder::Own(Vec::new())
    }
}

impl SharedBody {
    pub(crate) fn of(page: &Arc<Page>) -> SharedBody {
        SharedBody { from: 0, to: page.body().len(), held: Holder::Cached(Arc::clone(page)) }
    }

    /// Leaves out the first bytes; all, if there are fewer.
    pub fn advance(&mut self, bytes: usize) {
        self.from = self.from.saturating_add(bytes).min(self.to);
    }

    /// Leaves out all but the first bytes.
    pub fn truncate(&mut self, bytes: usize) {
        self.to = self.from.saturating_add(bytes).min(self.to);
    }

    /// Returns whether the bytes are the value cache's.
    pub fn is_shared(&self) -> bool {
        matches!(self.held, Holder::Cached(_))
    }

    /// The bytes as a vector: copied if they are shared.
    pub fn into_vec(self) -> Vec<u8> {
        self.into_vec_in(Vec::new())
    }

    /// [`SharedBody::into_vec`]; a copy goes into `spare`, which is cleared.
    pub(crate) fn into_vec_in(self, mut spare: Vec<u8>) -> Vec<u8> {
        match self.held {
            Holder::Own(mut bytes) => {
                bytes.truncate(self.to);
                bytes.drain(..self.from.min(bytes.len()));
                bytes
            }
            Holder::Cached(_) => {
                spare.clear();
                spare.extend_from_slice(&self);
                spare
            }
        }
    }
}

impl From<Vec<u8>> for SharedBody {
    fn from(bytes: Vec<u8>) -> SharedBody {
        SharedBody { from: 0, to: bytes.len(), held: Holder::Own(bytes) }
    }
}

impl Deref for SharedBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let all: &[u8] = match &self.held {
            Holder::Own(bytes) => bytes,
            Holder::Cached(page) => page.body(),
        };
        all.get(self.from..self.to).unwrap_or_default()
    }
}

impl AsRef<[u8]> for SharedBody {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for SharedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedBody").field("bytes", &self.len()).field("is_shared", &self.is_shared()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_cut_at_both_ends_and_never_beyond() {
        let mut body = SharedBody::from(b"0123456789".to_vec());
        body.advance(2);
        body.truncate(5);
        assert_eq!(&body[..], b"23456");
        body.truncate(100);
        body.advance(1);
        assert_eq!(body.as_ref(), b"3456");
        assert!(!body.is_shared());
        assert_eq!(body.into_vec(), b"3456");
        let mut body = SharedBody::from(b"01".to_vec());
        body.advance(usize::MAX);
        assert!(body.is_empty() && SharedBody::default().is_empty());
        assert_eq!(body.into_vec(), b"");
    }
}
