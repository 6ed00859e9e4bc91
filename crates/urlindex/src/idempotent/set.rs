//! [`IdempotentSet`]: answers requests from set and journal.
//!
//! An answered URL is pending until its answer is durable; only then is it inserted into the set,
//! since the kernel may write the set's file first. Meanwhile other requests are answered that it
//! was seen.

use std::collections::HashSet;
use std::slice;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use filemap_io::{Latch, guard};

use super::options::RequestOptions;
use super::request::{AddRequest, Verdicts};
use crate::error::{Error, RequestRefusal, Result};
use crate::journal::{Failpoint, Journal, Keep, Record, planted};
use crate::request_id::RequestId;
use crate::seen::{SeenSet, Verdict};
use crate::stored::{KeySet, StoredSet};

/// Maximum lead of a client's clock over ours; `functions.lua` of urlindex-redis has the same.
const AHEAD_MS: u64 = 10 * 60 * 1_000;

/// A stored set whose requests may be sent again: each has an id, and gets the same answers again,
/// even after a crash before they reached its sender.
///
/// ```
/// use urlindex::idempotent::{IdempotentSet, RequestId, RequestOptions};
/// use urlindex::stored::{NewSet, StoredSet};
/// use urlindex::{Verdict, Whatwg};
///
/// # let folder = tempfile::tempdir()?;
/// let set = StoredSet::create(folder.path().join("seen"), NewSet::Trie, &Whatwg)?;
/// let set = IdempotentSet::new(set, RequestOptions::new())?;
/// let now_ms = std::time::SystemTime::UNIX_EPOCH.elapsed()?.as_millis() as u64;
/// let id = RequestId::new(now_ms, [7; 10]);
/// for _ in 0..2 {
///     let mut request = set.request(Some(id));
///     set.push(&mut request, Some(b"http://example.com/"));
///     let answers = set.answer(&[request]).remove(0)?;
///     set.commit()?; // The answers are durable.
///     assert_eq!(answers.iter().next(), Some(Some(Verdict::New)));
/// }
/// assert_eq!(set.contains(&[b"http://example.com/"])?, [Verdict::Seen]);
/// set.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct IdempotentSet {
    set: StoredSet,
    /// Identifies the sets that have such keys.
    keys_of: u64,
    options: RequestOptions,
    journal: Mutex<Journal>,
    /// Answered keys that the set does not have yet.
    pending: RwLock<KeySet>,
    poison: Latch,
}

impl IdempotentSet {
    /// Adds a journal to a set that is open for writing, in files beside it.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`crate::StorageError::Corrupt`];
    /// [`crate::StorageError::NewerFormat`]; [`crate::StorageError::Io`].
    pub fn new(set: StoredSet, options: RequestOptions) -> Result<IdempotentSet> {
        let keep = Keep { requests: options.keep_requests, ms: options.keep_ms };
        let journal = set.journal(keep)?;
        let (pending, keys_of) = (RwLock::new(KeySet::new(set.keys())), set.keys_of()?);
        Ok(IdempotentSet { set, keys_of, options, journal: Mutex::new(journal), pending, poison: Latch::default() })
    }

    /// The set itself, for reading: URLs inserted into it by other ways are counted twice. It
    /// lacks what was answered since the last [`IdempotentSet::commit`].
    pub fn set(&self) -> &StoredSet {
        &self.set
    }

    /// An empty request. Without an id, a request that is sent again finds its URLs seen.
    pub fn request(&self, id: Option<RequestId>) -> AddRequest {
        AddRequest::new(id, &self.set, self.keys_of)
    }

    /// Adds a canonical URL to a request for this set; `None`, an empty URL and one of more than
    /// 65,535 bytes are answered with `None`.
    pub fn push(&self, request: &mut AddRequest, url: Option<&[u8]>) {
        request.push(&self.set, url);
    }

    /// Answers requests in order; of equal URLs only the first is new. A request whose id was
    /// answered before gets the same answers. New URLs are seen from now on; like the answers they
    /// are durable after [`IdempotentSet::commit`].
    ///
    /// The more URLs together, the cheaper each. One caller at a time.
    ///
    /// # Errors
    /// Of one request: [`Error::Request`]; [`crate::StorageError::InvalidOption`] if it was made
    /// for another set. Of all: [`crate::StorageError::Full`] and [`crate::StorageError::Io`],
    /// after which the set has nothing of them; [`crate::StorageError::Corrupt`];
    /// [`crate::StorageError::Poisoned`].
    pub fn answer(&self, requests: &[AddRequest]) -> Vec<Result<Verdicts>> {
        let mut journal = guard(&self.journal);
        let now_ms = self.options.now();
        let mut answers = Vec::with_capacity(requests.len());
        while answers.len() < requests.len() {
            let rest = &requests[answers.len()..];
            let mut ids = HashSet::new();
            // A request with a repeated id is answered once the first is in the journal.
            let again = rest.iter().position(|request| request.id.is_some_and(|id| !ids.insert(id)));
            answers.extend(self.answer_distinct(&mut journal, &rest[..again.unwrap_or(rest.len())], now_ms));
        }
        answers
    }

    /// [`IdempotentSet::answer`] of one request, if it can be answered at once, with no lock to
    /// wait for and no file to begin; otherwise returns the request. Blocks of a set on disk may
    /// be read in any case.
    ///
    /// # Errors
    /// As there.
    pub fn answer_now(&self, request: AddRequest) -> std::result::Result<Result<Verdicts>, AddRequest> {
        let Ok(mut journal) = self.journal.try_lock() else { return Err(request) };
        if !journal.is_open() || !self.set.is_free() {
            return Err(request);
        }
        Ok(self.answer_distinct(&mut journal, slice::from_ref(&request), self.options.now()).remove(0))
    }

    /// Answers requests with distinct ids.
    fn answer_distinct(&self, journal: &mut Journal, requests: &[AddRequest], now_ms: u64) -> Vec<Result<Verdicts>> {
        let kept = |request: &AddRequest| {
            self.poison.check()?;
            if request.keys_of != self.keys_of {
                return Err(Error::option("request", "made for another set"));
            }
            self.kept(journal, request, now_ms)
        };
        let answers: Vec<Option<Result<Verdicts>>> = requests.iter().map(|request| kept(request).transpose()).collect();
        let new = requests.iter().zip(&answers).filter(|(_, answer)| answer.is_none()).map(|(request, _)| request);
        let new: Vec<&AddRequest> = new.collect();
        let mut done = match new.is_empty() {
            true => Ok(Vec::new().into_iter()),
            false => self.take(journal, &new, now_ms).map(Vec::into_iter),
        };
        let answer = |answer: Option<Result<Verdicts>>| match (answer, &mut done) {
            (Some(answer), _) => answer,
            (None, Err(error)) => Err(error.clone()),
            (None, Ok(verdicts)) => Ok(verdicts.next().unwrap_or_default()),
        };
        answers.into_iter().map(answer).collect()
    }

    /// The kept answers to a request; `None` if it is new.
    fn kept(&self, journal: &Journal, request: &AddRequest, now_ms: u64) -> Result<Option<Verdicts>> {
        let Some(id) = request.id else { return Ok(None) };
        let refuse = |refusal| Err(Error::Request { id, refusal });
        match journal.find(id.to_u128())? {
            Some(kept) if kept.digest != request.digest() => refuse(RequestRefusal::Reused),
            Some(kept) => Ok(Some(Verdicts { packed: kept.verdicts, len: kept.urls })),
            None if id.time_ms() > now_ms.saturating_add(AHEAD_MS) => refuse(RequestRefusal::Ahead),
            None if id.time_ms() <= journal.floor_ms() => refuse(RequestRefusal::Forgotten),
            None if id.time_ms().saturating_add(self.options.keep_ms) <= now_ms => refuse(RequestRefusal::Forgotten),
            None => Ok(None),
        }
    }

    /// Answers new requests, and appends the answers to the journal.
    fn take(&self, journal: &mut Journal, requests: &[&AddRequest], now_ms: u64) -> Result<Vec<Verdicts>> {
        let mut keys = self.set.keys();
        requests.iter().for_each(|request| keys.extend(&request.keys));
        // The caller holds the journal: no key moves from the pending ones into the set meanwhile.
        let mut of_keys = self.set.find_keys(&keys)?;
        let mut pending = self.pending_mut();
        let before = pending.len();
        for (place, verdict) in of_keys.iter_mut().enumerate() {
            if verdict.is_new() && !pending.add(&keys, place) {
                *verdict = Verdict::Seen;
            }
        }
        let (mut answers, mut records, mut at) = (Vec::new(), Vec::new(), 0);
        // A request without an id that adds nothing leaves nothing to keep. But without a file to
        // append to, it is one that begins it: `answer_now` does not.
        let keeps_all = !journal.is_open();
        for request in requests {
            let mine = &of_keys[at..at + request.keys.len()];
            let verdicts = request.verdicts(mine.iter().copied());
            let mut bytes = Vec::new();
            let new = mine.iter().enumerate().filter(|(_, verdict)| verdict.is_new());
            new.for_each(|(place, _)| request.keys.write(place, &mut bytes));
            if keeps_all || request.id.is_some() || mine.iter().any(|verdict| verdict.is_new()) {
                records.push(Record {
                    id: request.id.map_or(0, RequestId::to_u128),
                    digest: request.digest(),
                    at_ms: now_ms,
                    urls: verdicts.len,
                    verdicts: verdicts.packed.clone(),
                    keys: bytes,
                });
            }
            answers.push(verdicts);
            at += request.keys.len();
        }
        let noted = self.set.make_room_for(pending.keys(), before).and_then(|()| self.note(journal, &records, now_ms));
        if let Err(error) = noted {
            pending.truncate(before);
            return Err(error);
        }
        drop(pending);
        if planted(Failpoint::SetBeforeAnswers) {
            self.set.insert_keys(&keys)?;
            self.set.sync()?;
        }
        Ok(answers)
    }

    fn note(&self, journal: &mut Journal, records: &[Record], now_ms: u64) -> Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        journal.append(records, now_ms).inspect_err(|_| {
            // The contents of the file are known only if this succeeds.
            let _ = self.poison.note(journal.cut_back());
        })
    }

    /// Number of answered URLs that the set does not have yet.
    pub fn pending(&self) -> usize {
        self.pending_ref().len()
    }

    /// Returns whether some answers are not durable yet. Waits while others answer or commit.
    pub fn is_changed(&self) -> bool {
        guard(&self.journal).is_changed() || self.pending() > 0
    }

    /// Number of requests whose answers are kept.
    pub fn kept_requests(&self) -> u64 {
        guard(&self.journal).len()
    }

    /// Makes all answers durable, and inserts the new URLs into the set. Syncs one file; now and
    /// then the set too.
    ///
    /// # Errors
    /// [`crate::StorageError::Io`] and others of the set; it takes no more requests until it is
    /// opened again.
    pub fn commit(&self) -> Result<()> {
        let mut journal = guard(&self.journal);
        self.poison.guard(|| self.commit_to(&mut journal))
    }

    fn commit_to(&self, journal: &mut Journal) -> Result<()> {
        journal.sync()?;
        {
            let pending = self.pending_ref();
            if pending.len() > 0 {
                self.set.insert_new_keys(pending.keys())?;
            }
        }
        self.pending_mut().clear();
        if planted(Failpoint::AnswersNotSynced) {
            self.set.sync()?;
        }
        let now_ms = self.options.now();
        if journal.is_full(now_ms) {
            if !planted(Failpoint::StrippedFirst) {
                self.set.sync()?;
            }
            journal.begin_file(now_ms)?;
        }
        Ok(())
    }

    /// Returns for each of these canonical URLs whether it was added. Inserts nothing.
    ///
    /// # Errors
    /// As [`SeenSet::contains`]; [`Error::UrlLength`].
    pub fn contains(&self, urls: &[impl AsRef<[u8]>]) -> Result<Vec<Verdict>> {
        let mut keys = self.set.keys();
        for url in urls {
            let url = url.as_ref();
            if !self.set.push_key(&mut keys, url) {
                return Err(Error::UrlLength { len: url.len(), max: usize::from(u16::MAX) });
            }
        }
        // Pending keys first: a key is inserted into the set before it stops being pending.
        let pending: Vec<bool> = {
            let pending = self.pending_ref();
            (0..keys.len()).map(|place| pending.has(&keys, place)).collect()
        };
        let verdicts = self.set.find_keys(&keys)?.into_iter().zip(pending);
        Ok(verdicts.map(|(verdict, is_pending)| if is_pending { Verdict::Seen } else { verdict }).collect())
    }

    /// Commits, and closes the set.
    ///
    /// # Errors
    /// As [`IdempotentSet::commit`].
    pub fn close(self) -> Result<()> {
        self.commit()?;
        self.set.sync()?;
        guard(&self.journal).strip_newest()?;
        self.set.close()
    }

    #[cfg(test)]
    pub(super) fn full_at(&self, bytes: u64) {
        guard(&self.journal).full_at(bytes);
    }

    fn pending_ref(&self) -> RwLockReadGuard<'_, KeySet> {
        self.pending.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn pending_mut(&self) -> RwLockWriteGuard<'_, KeySet> {
        self.pending.write().unwrap_or_else(PoisonError::into_inner)
    }
}
