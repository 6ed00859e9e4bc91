//! Rows of the index in order. A follower may find a table missing: merged and collected, or
//! replaced by a repair. Its scan then resumes after the last row in a freshly opened view; a
//! second miss is damage.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use slatedb::config::ScanOptions;
use slatedb::{Db, DbIterator, DbReadOps, ErrorKind, IterationOrder};

use super::view::{View, Views};
use super::{READ_AHEAD_BYTES, failed};
use crate::bucket::Bucket;
use crate::error::Result;

/// Rows in order.
pub(crate) struct Scan {
    rows: DbIterator,
    bucket: Bucket,
    wanted: Wanted,
    /// Keeps the view open while the scan runs.
    _view: Option<Arc<View>>,
    /// Set for a follower that has not switched to another view yet.
    views: Option<Arc<Views>>,
    last: Option<Bytes>,
}

/// The range to scan.
pub(super) struct Wanted {
    /// For the rows of one key: their prefix, for the Bloom filters.
    pub(super) prefix: Option<Vec<u8>>,
    pub(super) range: Range<Vec<u8>>,
    pub(super) is_backwards: bool,
}

impl Wanted {
    async fn rows_in(&self, index: &(impl DbReadOps + Sync)) -> std::result::Result<DbIterator, slatedb::Error> {
        let Wanted { prefix, range, is_backwards } = self;
        if let Some(prefix) = prefix {
            let behind = |row: &[u8]| row.get(prefix.len()..).unwrap_or_default().to_vec();
            let below = behind(&range.start)..behind(&range.end);
            let options = ScanOptions { cache_blocks: true, ..Default::default() };
            return index.scan_prefix_with_options(prefix, below, &options).await;
        }
        let order = if *is_backwards { IterationOrder::Descending } else { IterationOrder::Ascending };
        let options =
            ScanOptions { order, read_ahead_bytes: READ_AHEAD_BYTES, cache_blocks: true, ..Default::default() };
        index.scan_with_options(range.clone(), &options).await
    }

    /// Drops the part already returned. Returns false if nothing is left.
    fn go_on(&mut self, last: Option<&Bytes>) -> bool {
        match last {
            Some(last) if self.is_backwards => self.range.end = last.to_vec(),
            Some(last) => self.range.start = [last, &[0][..]].concat(),
            None => {}
        }
        self.range.start < self.range.end
    }
}

impl Scan {
    pub(super) async fn of_writer(bucket: &Bucket, db: &Db, wanted: Wanted) -> Result<Scan> {
        let rows = wanted.rows_in(db).await.map_err(|error| failed(bucket, "reading the index", &error))?;
        Ok(Scan { rows, bucket: bucket.clone(), wanted, _view: None, views: None, last: None })
    }

    pub(super) async fn of_reader(bucket: &Bucket, views: &Arc<Views>, wanted: Wanted) -> Result<Scan> {
        let (mut view, mut again) = (views.current().await?, Some(Arc::clone(views)));
        let mut rows = wanted.rows_in(&*view.reader).await;
        if rows.as_ref().is_err_and(is_gone) {
            views.renew_tables().await?;
            (view, again) = (views.current().await?, None);
            rows = wanted.rows_in(&*view.reader).await;
        }
        let rows = rows.map_err(|error| failed(bucket, "reading the index", &error))?;
        Ok(Scan { rows, bucket: bucket.clone(), wanted, _view: Some(view), views: again, last: None })
    }

    /// The next row.
    pub(crate) async fn next(&mut self) -> Result<Option<(Bytes, Bytes)>> {
        let mut row = self.rows.next().await;
        if row.as_ref().is_err_and(is_gone)
            && let Some(views) = self.views.take()
        {
            if !self.wanted.go_on(self.last.as_ref()) {
                return Ok(None);
            }
            views.renew_tables().await?;
            let wanted = Wanted { range: self.wanted.range.clone(), prefix: self.wanted.prefix.clone(), ..self.wanted };
            *self = Scan { views: None, ..Scan::of_reader(&self.bucket, &views, wanted).await? };
            row = self.rows.next().await;
        }
        let row = row.map_err(|error| failed(&self.bucket, "reading the index", &error))?;
        self.last = row.as_ref().map(|row| row.key.clone());
        Ok(row.map(|row| (row.key, row.value)))
    }
}

/// Returns whether a table was missing or invalid.
pub(super) fn is_gone(error: &slatedb::Error) -> bool {
    error.kind() == ErrorKind::Data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_goes_on_behind_its_last_row_in_both_directions() {
        let range = b"b".to_vec()..b"d".to_vec();
        for (is_backwards, left) in [(false, b"c\0".to_vec()..b"d".to_vec()), (true, b"b".to_vec()..b"c".to_vec())] {
            let mut wanted = Wanted { prefix: None, range: range.clone(), is_backwards };
            assert!(wanted.go_on(None) && wanted.range == range);
            assert!(wanted.go_on(Some(&Bytes::from_static(b"c"))) && wanted.range == left);
        }
        let mut wanted = Wanted { prefix: None, range, is_backwards: true };
        assert!(!wanted.go_on(Some(&Bytes::from_static(b"b"))), "nothing is before the first row");
    }
}
