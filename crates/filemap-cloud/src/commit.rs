//! Commits: upload a segment, then write its rows to the index in one batch; after that the
//! segment counts.
//!
//! While the index is written, a request checks whether a repair has begun: `index::generation`.
//!
//! Uploads run in parallel; commits run one after the other, in the order in which segments were
//! filled. The first failure ends all commits: later puts are not stored, and every waiting call
//! gets the error.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

use crate::bucket::Bucket;
use crate::due::Due;
use crate::error::{Error, Result};
use crate::failpoint::Fault;
use crate::format::segment::{FOOTER_BYTES, SegmentId, has_footer_of};
use crate::index::{Changes, Index};
use crate::pending::Pending;
use crate::progress::Progress;

/// The folder of segments.
pub(crate) const SEGMENTS: &str = "shard/seg";

/// The name of a segment's object.
pub(crate) fn object(id: SegmentId) -> String {
    format!("{SEGMENTS}/{}", id.name())
}

/// A complete segment and the index changes of its commit. Without bytes there is no object.
pub(crate) struct Sealed {
    pub(crate) id: SegmentId,
    /// Its position in the order of commits.
    pub(crate) nth: u64,
    pub(crate) bytes: Bytes,
    pub(crate) changes: Changes,
    /// Bytes of its records, as counted by [`Progress`].
    pub(crate) unsynced: usize,
}

/// Commits sealed segments.
pub(crate) struct Committer {
    pub(crate) bucket: Bucket,
    pub(crate) index: Arc<Index>,
    pub(crate) pending: Arc<Pending>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) due: Arc<Due>,
    pub(crate) segment_bytes: u64,
    /// Number of segments uploaded in parallel.
    pub(crate) uploads: usize,
    pub(crate) fault: Option<Fault>,
}

type Upload = (Sealed, JoinHandle<Result<()>>);

impl Committer {
    /// Runs until the last sender is dropped or a commit fails.
    pub(crate) async fn run(self, mut sealed: mpsc::UnboundedReceiver<Sealed>) {
        let work = AssertUnwindSafe(self.commit_all(&mut sealed)).catch_unwind();
        let failed = match work.await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            // Waiting callers get the error; a panic in the task ends no more than this.
            Err(_) => self.bucket.unavailable("a commit", 0, &"its task panicked"),
        };
        self.progress.fail(failed);
    }

    async fn commit_all(&self, sealed: &mut mpsc::UnboundedReceiver<Sealed>) -> Result<()> {
        let slots = Arc::new(Semaphore::new(self.uploads));
        let mut uploads: VecDeque<Upload> = VecDeque::new();
        let mut commits = 0;
        loop {
            while let Ok(next) = sealed.try_recv() {
                uploads.push_back(self.begin(next, &slots));
            }
            let Some((next, mut upload)) = uploads.pop_front() else {
                match sealed.recv().await {
                    Some(next) => uploads.push_back(self.begin(next, &slots)),
                    None => return Ok(()),
                }
                continue;
            };
            assert!(!Fault::CommitPanics.is_planted(self.fault), "the planted panic of a commit");
            if Fault::AcknowledgedBeforeCommit.is_planted(self.fault) {
                self.progress.committed(next.nth, 0);
            }
            if Fault::CommittedBeforeUpload.is_planted(self.fault) {
                self.index.commit(&next.changes, commits).await?;
            }
            // Segments sealed during that are uploaded in parallel.
            let uploaded = loop {
                tokio::select! {
                    uploaded = &mut upload => break uploaded,
                    Some(later) = sealed.recv() => uploads.push_back(self.begin(later, &slots)),
                }
            };
            uploaded.map_err(|error| self.bucket.unavailable("an upload", 0, &error))??;
            commits += 1;
            let commit = async {
                if Fault::CommittedBeforeUpload.is_planted(self.fault) {
                    return Ok(());
                }
                self.index.commit(&next.changes, commits).await
            };
            // Both before the acknowledgement: a segment that a repair has not seen is not safe.
            tokio::try_join!(commit, self.index.check_not_repaired())?;
            self.pending.committed(next.id.number, next.changes.rows.keys());
            self.progress.committed(next.nth, next.unsynced);
            if !next.bytes.is_empty() {
                self.due.committed(&next.changes, next.bytes.len() as u64, self.segment_bytes);
            }
        }
    }

    fn begin(&self, sealed: Sealed, slots: &Arc<Semaphore>) -> Upload {
        let (bucket, slots) = (self.bucket.clone(), Arc::clone(slots));
        let (id, bytes) = (sealed.id, sealed.bytes.clone());
        let upload = tokio::spawn(async move {
            // A closed semaphore would bound nothing; this one is never closed.
            let _slot = slots.acquire().await;
            if bytes.is_empty() {
                return Ok(());
            }
            upload(&bucket, id, bytes).await
        });
        (sealed, upload)
    }
}

/// Creates the object of a segment.
pub(crate) async fn upload(bucket: &Bucket, id: SegmentId, bytes: Bytes) -> Result<()> {
    let name = object(id);
    let mut attempts = 0;
    loop {
        if bucket.create(&name, bytes.clone()).await? {
            return Ok(());
        }
        // Nobody else has this epoch: the object is ours, and the answer to that attempt was lost.
        match bucket.tail(&name, FOOTER_BYTES as u64).await? {
            Some(tail) if has_footer_of(&tail, &bytes) => return Ok(()),
            Some(_) => {
                let what = format!("{} exists with other bytes: two writers had one epoch", bucket.named(&name));
                return Err(Error::StoreUnsuitable { location: bucket.location().to_owned(), what });
            }
            None => bucket.refused(&mut attempts, &name).await?,
        }
    }
}
