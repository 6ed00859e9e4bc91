//! Puts that are not in the index yet: their rows, and the segments with their records. This is
//! how a handle reads its own unsynced writes.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{PoisonError, RwLock};

use bytes::Bytes;

use crate::format::row::Row;

/// Rows in a range; `None` for a removed one.
pub(crate) type Overlay = Vec<(Vec<u8>, Option<Row>)>;

/// Rows that are not in the index yet, and their segments.
#[derive(Default)]
pub(crate) struct Pending {
    rows: RwLock<BTreeMap<Vec<u8>, Entry>>,
    /// Complete segments that are not in the index, by number.
    sealed: RwLock<HashMap<u64, Bytes>>,
}

struct Entry {
    row: Option<Row>,
    /// The segment whose commit moves the row into the index.
    segment: u64,
}

impl Pending {
    pub(crate) fn set(&self, key: Vec<u8>, row: Option<Row>, segment: u64) {
        self.rows.write().unwrap_or_else(PoisonError::into_inner).insert(key, Entry { row, segment });
    }

    pub(crate) fn seal(&self, segment: u64, bytes: Bytes) {
        self.sealed.write().unwrap_or_else(PoisonError::into_inner).insert(segment, bytes);
    }

    pub(crate) fn sealed(&self, segment: u64) -> Option<Bytes> {
        self.sealed.read().unwrap_or_else(PoisonError::into_inner).get(&segment).cloned()
    }

    /// A pending row; `None` means: look it up in the index.
    pub(crate) fn row(&self, key: &[u8]) -> Option<Option<Row>> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner).get(key).map(|entry| entry.row)
    }

    /// The rows in a range.
    pub(crate) fn range(&self, range: &Range<Vec<u8>>) -> Overlay {
        if range.start >= range.end {
            return Vec::new();
        }
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        rows.range(range.clone()).map(|(key, entry)| (key.clone(), entry.row)).collect()
    }

    /// Drops rows that a commit has moved into the index.
    pub(crate) fn committed<'k>(&self, segment: u64, keys: impl Iterator<Item = &'k Vec<u8>>) {
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        for key in keys {
            // A later put may have replaced the row.
            if rows.get(key).is_some_and(|entry| entry.segment == segment) {
                rows.remove(key);
            }
        }
        self.sealed.write().unwrap_or_else(PoisonError::into_inner).remove(&segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_forgets_its_own_rows_and_no_later_ones() {
        let pending = Pending::default();
        let (first, second) = (b"a".to_vec(), b"b".to_vec());
        pending.set(first.clone(), None, 1);
        pending.set(second.clone(), None, 1);
        pending.set(second.clone(), None, 2);
        pending.seal(1, Bytes::from_static(b"1"));
        assert_eq!(pending.range(&(b"a".to_vec()..b"c".to_vec())).len(), 2);
        pending.committed(1, [&first, &second].into_iter());
        assert_eq!((pending.row(&first), pending.row(&second)), (None, Some(None)));
        assert!(pending.sealed(1).is_none());
    }
}
