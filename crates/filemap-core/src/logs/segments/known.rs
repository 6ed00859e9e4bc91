//! The readers' list of segments: immutable, replaced as a whole.

use std::sync::Arc;

use crate::logs::segments::Segment;

/// The known segments in order of ordinal, with an index by number.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) list: Arc<Vec<Arc<Segment>>>,
    /// By number: index in the list plus one, 0 for none.
    at: Vec<u32>,
}

impl Known {
    pub(super) fn new(mut list: Vec<Arc<Segment>>) -> Known {
        list.sort_by_key(|s| s.ordinal);
        let mut at = vec![0; list.iter().map(|s| usize::from(s.id) + 1).max().unwrap_or(0)];
        for (i, segment) in list.iter().enumerate() {
            at[usize::from(segment.id)] = i as u32 + 1;
        }
        Known { list: Arc::new(list), at }
    }

    pub(super) fn get(&self, id: u16) -> Option<&Arc<Segment>> {
        let at = *self.at.get(usize::from(id))?;
        self.list.get((at as usize).wrapping_sub(1))
    }
}
