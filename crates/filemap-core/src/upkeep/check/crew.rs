//! Decompresses records on helper threads beside the reading thread: decompression is most of the
//! work of a verification.
//!
//! The reading thread queues batches, which helpers take in any order. It processes batches that
//! no helper takes. Problems are collected per segment and sorted, so their order does not depend
//! on the threads. One other job can also be set aside for helpers.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::logs::values::dictionaries::Registry;
use crate::sync::primitive::Condvar;
use crate::sync::{Ranked, lock, rank};
use crate::upkeep::check::expand::{Flaw, expand};

/// Approximate record bytes in a batch.
const BATCH_BYTES: usize = 1 << 20;
/// Greatest number of queued batches.
const WAITING: usize = 8;

/// Records to decompress.
#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Offset in the file and range in `bytes` of each record.
    records: Vec<(u64, Range<usize>)>,
}

#[derive(Default)]
struct Work<'a> {
    waiting: VecDeque<Batch>,
    aside: Option<Box<dyn FnOnce() + Send + 'a>>,
    /// Batches and jobs in progress.
    taken: usize,
    /// Emptied batches for reuse.
    spare: Vec<Batch>,
    problems: Vec<(u64, Flaw)>,
    is_over: bool,
}

/// The queue that a reading thread shares with its helpers.
pub(crate) struct Crew<'a> {
    dictionaries: &'a Registry,
    work: Ranked<{ rank::CREW }, Work<'a>>,
    changed: Condvar,
}

/// A job set aside. Dropping it cancels the job.
pub(super) struct Aside<T> {
    is_unwanted: Arc<AtomicBool>,
    result: Arc<Ranked<{ rank::ASIDE }, Option<T>>>,
}

impl<T> Drop for Aside<T> {
    fn drop(&mut self) {
        self.is_unwanted.store(true, Ordering::Relaxed);
    }
}

/// The batch that the reading thread fills.
#[derive(Debug, Default)]
pub(super) struct Filling {
    batch: Batch,
    /// Buffer for decompressed records.
    expanded: Vec<u8>,
}

impl<'a> Crew<'a> {
    /// A crew for records that need these dictionaries.
    pub(crate) fn new(dictionaries: &'a Registry) -> Crew<'a> {
        Crew { dictionaries, work: Ranked::default(), changed: Condvar::default() }
    }

    /// Processes queued work until [`Crew::end`]. Run by helper threads.
    pub(crate) fn help(&self) {
        let mut expanded = Vec::new();
        let mut work = lock(&self.work);
        loop {
            if let Some(batch) = work.waiting.pop_front() {
                work.taken += 1;
                drop(work);
                self.expand(batch, &mut expanded);
                work = lock(&self.work);
            } else if let Some(aside) = work.aside.take() {
                work.taken += 1;
                drop(work);
                self.run(aside);
                work = lock(&self.work);
            } else if work.is_over {
                return;
            } else {
                work = work.wait(&self.changed);
            }
        }
    }

    /// Lets the helper threads end.
    pub(crate) fn end(&self) {
        lock(&self.work).is_over = true;
        self.changed.notify_all();
    }

    /// Queues a record.
    pub(super) fn add(&self, filling: &mut Filling, offset: u64, record: &[u8]) {
        let batch = &mut filling.batch;
        let start = batch.bytes.len();
        batch.bytes.extend_from_slice(record);
        batch.records.push((offset, start..start + record.len()));
        if batch.bytes.len() >= BATCH_BYTES {
            self.hand_over(filling);
        }
    }

    fn hand_over(&self, filling: &mut Filling) {
        let mut work = lock(&self.work);
        let empty = work.spare.pop().unwrap_or_default();
        let full = std::mem::replace(&mut filling.batch, empty);
        work.waiting.push_back(full);
        self.changed.notify_all();
        if work.waiting.len() > WAITING {
            drop(work);
            self.take_one(filling);
        }
    }

    /// Takes and decompresses one queued batch. Returns false if there was none.
    fn take_one(&self, filling: &mut Filling) -> bool {
        let mut work = lock(&self.work);
        let Some(batch) = work.waiting.pop_front() else { return false };
        work.taken += 1;
        drop(work);
        self.expand(batch, &mut filling.expanded);
        true
    }

    /// Waits until everything queued is done. Returns the flaws, sorted by offset.
    pub(super) fn finish(&self, filling: &mut Filling) -> Vec<(u64, Flaw)> {
        if !filling.batch.records.is_empty() {
            self.hand_over(filling);
        }
        while self.take_one(filling) {}
        let mut work = lock(&self.work);
        while work.taken > 0 || !work.waiting.is_empty() {
            work = work.wait(&self.changed);
        }
        let mut problems = std::mem::take(&mut work.problems);
        problems.sort_by_key(|p| p.0);
        problems
    }

    /// Sets a job aside for a helper, one at a time. The job is passed its cancellation check.
    pub(super) fn aside<T: Send + 'a>(&self, job: impl FnOnce(&dyn Fn() -> bool) -> T + Send + 'a) -> Aside<T> {
        let aside = Aside { is_unwanted: Arc::default(), result: Arc::new(Ranked::new(None)) };
        let (is_unwanted, result) = (Arc::clone(&aside.is_unwanted), Arc::clone(&aside.result));
        lock(&self.work).aside = Some(Box::new(move || {
            let done = job(&|| is_unwanted.load(Ordering::Relaxed));
            *lock(&result) = Some(done);
        }));
        self.changed.notify_all();
        aside
    }

    /// Returns the job's result: waits for a helper that runs it, or runs it now. `None` if it
    /// panicked.
    pub(super) fn result<T>(&self, aside: Aside<T>) -> Option<T> {
        let mut work = lock(&self.work);
        if let Some(waiting) = work.aside.take() {
            work.taken += 1;
            drop(work);
            self.run(waiting);
            work = lock(&self.work);
        }
        while work.taken > 0 {
            work = work.wait(&self.changed);
        }
        drop(work);
        lock(&aside.result).take()
    }

    fn run(&self, aside: Box<dyn FnOnce() + Send + 'a>) {
        let _taken = Taken { crew: self, batch: Batch::default(), problems: Vec::new() };
        aside();
    }

    /// Decompresses the records of a batch.
    fn expand(&self, batch: Batch, expanded: &mut Vec<u8>) {
        let mut taken = Taken { crew: self, batch, problems: Vec::new() };
        for (offset, range) in &taken.batch.records {
            if let Err(flaw) = expand(self.dictionaries, &taken.batch.bytes[range.clone()], expanded) {
                taken.problems.push((*offset, flaw));
            }
        }
    }
}

impl Work<'_> {
    fn done(&mut self, mut batch: Batch, problems: Vec<(u64, Flaw)>) {
        self.taken -= 1;
        self.problems.extend(problems);
        batch.bytes.clear();
        batch.records.clear();
        self.spare.push(batch);
    }
}

/// A batch or job in progress. Dropping it reports it as done, even on a panic, so that no thread
/// waits for ever.
struct Taken<'c, 'a> {
    crew: &'c Crew<'a>,
    batch: Batch,
    problems: Vec<(u64, Flaw)>,
}

impl Drop for Taken<'_, '_> {
    fn drop(&mut self) {
        let (batch, problems) = (std::mem::take(&mut self.batch), std::mem::take(&mut self.problems));
        lock(&self.crew.work).done(batch, problems);
        self.crew.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Adds invalid records, each of which is a problem, and returns their offsets.
    fn all(crew: &Crew<'_>, records: u64) -> Vec<u64> {
        let mut filling = Filling::default();
        (0..records).for_each(|n| crew.add(&mut filling, 64 * n, &[0; 5000]));
        crew.finish(&mut filling).into_iter().map(|p| p.0).collect()
    }

    #[test]
    fn all_that_is_handed_over_is_done_with_helpers_and_without() {
        let expected: Vec<u64> = (0..3000).map(|n| 64 * n).collect();
        let temp = tempfile::tempdir().unwrap();
        let dir = Arc::new(filemap_io::OsDir::open(temp.path()).unwrap());
        let none = Registry::open(dir, [0; 16], filemap_io::Access::Read).unwrap();
        let crew = Crew::new(&none);
        assert_eq!(all(&crew, 3000), expected);
        std::thread::scope(|scope| {
            let helpers: Vec<_> = (0..3).map(|_| scope.spawn(|| crew.help())).collect();
            for _ in 0..3 {
                assert_eq!(all(&crew, 3000), expected);
            }
            crew.end();
            helpers.into_iter().for_each(|h| h.join().unwrap());
        });
    }
}
