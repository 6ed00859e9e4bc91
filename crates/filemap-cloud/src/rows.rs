//! Rows of the index merged with pending rows, in order.

use std::cmp::Ordering;
use std::iter::Peekable;

use bytes::Bytes;
use filemap_core::Version;

use crate::bucket::Bucket;
use crate::error::Result;
use crate::format::row::{self, Row};
use crate::index::Scan;
use crate::pending::Overlay;

/// An ordered merge of index rows and pending rows.
pub(crate) struct Rows {
    overlay: Peekable<<Overlay as IntoIterator>::IntoIter>,
    scan: Scan,
    /// The scan's next row, read ahead.
    ahead: Option<(Bytes, Bytes)>,
    is_backwards: bool,
}

impl Rows {
    /// Merges an overlay and a scan. The overlay must be taken before the scan begins: a row that
    /// a commit moves in the meantime is then in one of them or in both.
    pub(crate) fn new(mut overlay: Overlay, scan: Scan, is_backwards: bool) -> Rows {
        if is_backwards {
            overlay.reverse();
        }
        Rows { overlay: overlay.into_iter().peekable(), scan, ahead: None, is_backwards }
    }

    /// The next version: the ordered form of its key, and its row.
    pub(crate) async fn next(&mut self, bucket: &Bucket) -> Result<Option<(Vec<u8>, Version, Row)>> {
        loop {
            if self.ahead.is_none() {
                self.ahead = self.scan.next().await?;
            }
            let order = match (self.overlay.peek(), &self.ahead) {
                (None, None) => return Ok(None),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((own, _)), Some((key, _))) => {
                    let order = own[..].cmp(key);
                    if self.is_backwards { order.reverse() } else { order }
                }
            };
            let strange = || bucket.damaged("the index", "a row does not decode");
            let (key, row) = if order == Ordering::Greater {
                let Some((key, value)) = self.ahead.take() else { continue };
                (key.to_vec(), Row::decode(&value).ok_or_else(strange)?)
            } else {
                if order == Ordering::Equal {
                    self.ahead = None;
                }
                match self.overlay.next() {
                    Some((key, Some(row))) => (key, row),
                    // Removed.
                    _ => continue,
                }
            };
            let (form, version) = row::parse(&key).ok_or_else(strange)?;
            return Ok(Some((form, version, row)));
        }
    }
}
