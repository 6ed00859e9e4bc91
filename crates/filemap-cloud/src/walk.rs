//! A walk over the keys of ranges, in either direction: each key once, with one version. Used by
//! listings, counts and removals.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::core::{Core, Found};
use crate::error::Result;
use crate::format::row;
use crate::rows::Rows;

/// An ordered iterator of keys, each with one version.
pub(crate) struct Walk {
    core: Arc<Core>,
    /// Row ranges still to walk.
    ranges: VecDeque<Range<Vec<u8>>>,
    rows: Option<Rows>,
    last: Vec<u8>,
    is_backwards: bool,
}

impl Walk {
    /// Walks keys whose ordered forms are in `forms`, from after `after` in this direction.
    pub(crate) fn new(core: &Arc<Core>, forms: Vec<Range<Vec<u8>>>, after: Option<&[u8]>, is_backwards: bool) -> Walk {
        let rest = |range: Range<Vec<u8>>| match after {
            None => range,
            Some(form) if is_backwards => range.start..range.end.min(row::prefix(form)),
            Some(form) => range.start.max(row::behind(form))..range.end,
        };
        let ranges = forms.iter().map(|range| rest(row::of_forms(range)));
        let mut ranges: VecDeque<_> = ranges.filter(|range| range.start < range.end).collect();
        if is_backwards {
            ranges.make_contiguous().reverse();
        }
        Walk { core: Arc::clone(core), ranges, rows: None, last: Vec::new(), is_backwards }
    }

    /// The next keys, at most `keys`; fewer only at the end. Forwards, the version is the key's
    /// newest; backwards, its oldest.
    pub(crate) async fn step(&mut self, keys: usize) -> Result<Vec<(Vec<u8>, Found)>> {
        let mut found = Vec::new();
        while found.len() < keys {
            let rows = match &mut self.rows {
                Some(rows) => rows,
                None => {
                    let Some(range) = self.ranges.pop_front() else { break };
                    self.rows.insert(self.core.rows(range, self.is_backwards).await?)
                }
            };
            match rows.next(&self.core.bucket).await? {
                Some((form, version, row)) if form != self.last => {
                    self.last.clone_from(&form);
                    found.push((form, (version, row)));
                }
                Some(_) => {}
                None => self.rows = None,
            }
        }
        Ok(found)
    }
}
