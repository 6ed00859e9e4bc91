//! The column of bodies, in memory that later batches reuse.
//!
//! A batch has megabytes of bodies. Allocating fresh memory for each costs as much as copying the
//! bodies into it, since the kernel zeroes every page. So the memory of a dropped batch is reused.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use arrow_array::LargeBinaryArray;
use arrow_buffer::{Buffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::ArrowError;

/// Maximum number of batches whose memory is kept: the one that the reader of a table holds, and
/// the one being built.
const MOST_KEPT: usize = 2;
/// Memory above this size is not kept: mostly that of a batch with an unusually large body.
const MOST_BYTES: usize = 64 << 20;

/// Memory of dropped batches.
type Kept = Mutex<Vec<Vec<u8>>>;

/// The bodies of a batch; on drop their memory returns to `home`.
struct Lent {
    bodies: Vec<u8>,
    /// Dead after the table was dropped.
    home: Weak<Kept>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bodies
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(home) = self.home.upgrade() else { return };
        let mut kept = home.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MOST_KEPT && self.bodies.capacity() <= MOST_BYTES {
            self.bodies.clear();
            kept.push(std::mem::take(&mut self.bodies));
        }
    }
}

/// Builds the column, one batch at a time.
pub(super) struct Bodies {
    /// End of each body in the batch, after a zero.
    ends: Vec<i64>,
    nulls: NullBufferBuilder,
    bodies: Vec<u8>,
    kept: Arc<Kept>,
}

impl Bodies {
    pub fn new() -> Bodies {
        Bodies { ends: vec![0], nulls: NullBufferBuilder::new(0), bodies: Vec::new(), kept: Arc::default() }
    }

    /// Appends a row. Returns the length of the body.
    pub fn push(&mut self, body: Option<&[u8]>) -> usize {
        self.nulls.append(body.is_some());
        self.bodies.extend_from_slice(body.unwrap_or_default());
        self.ends.push(self.bodies.len() as i64);
        body.map_or(0, <[u8]>::len)
    }

    /// Returns the column, and begins a new one.
    pub fn finish(&mut self) -> Result<LargeBinaryArray, ArrowError> {
        let next = self.kept.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        let bodies = std::mem::replace(&mut self.bodies, next);
        let ends = std::mem::replace(&mut self.ends, vec![0]);
        let lent = Lent { bodies, home: Arc::downgrade(&self.kept) };
        let values = Buffer::from(bytes::Bytes::from_owner(lent));
        LargeBinaryArray::try_new(OffsetBuffer::new(ScalarBuffer::from(ends)), values, self.nulls.finish())
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Array as _;

    use super::*;

    #[test]
    fn memory_comes_back_and_no_batch_that_is_held_changes() {
        let mut bodies = Bodies::new();
        assert_eq!((bodies.push(Some(b"one")), bodies.push(None), bodies.push(Some(b""))), (3, 0, 0));
        let first = bodies.finish().unwrap();
        bodies.push(Some(b"two"));
        let second = bodies.finish().unwrap();
        let at = second.values().as_ptr();
        drop(second);
        let third = bodies.finish().unwrap();
        assert!(third.is_empty());
        bodies.push(Some(b"six"));
        let fourth = bodies.finish().unwrap();
        assert_eq!(fourth.values().as_ptr(), at);
        assert_eq!(
            (first.value(0), first.is_null(1), first.value(2), fourth.value(0)),
            (&b"one"[..], true, &b""[..], &b"six"[..])
        );
    }

    #[test]
    fn no_more_is_kept_than_two_batches() {
        let mut bodies = Bodies::new();
        let batches: Vec<_> = (0..5)
            .map(|_| {
                bodies.push(Some(b"body"));
                bodies.finish().unwrap()
            })
            .collect();
        drop(batches);
        assert_eq!(bodies.kept.lock().unwrap().len(), MOST_KEPT);
        bodies.kept.lock().unwrap().clear();
        bodies.push(Some(&vec![0; MOST_BYTES + 1]));
        drop(bodies.finish().unwrap());
        assert!(bodies.kept.lock().unwrap().is_empty());
        bodies.push(Some(b"body"));
        let last = bodies.finish().unwrap();
        drop(bodies);
        assert_eq!(last.value(0), b"body");
    }
}
