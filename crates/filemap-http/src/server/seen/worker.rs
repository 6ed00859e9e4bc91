//! The thread of one set: answers requests of many clients together, and makes them durable with
//! one sync.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use urlindex::idempotent::{AddRequest, IdempotentSet, Verdicts};
use urlindex::{Error, Result};

/// Maximum number of URLs answered together, not counting those of the last request.
const TOGETHER: usize = 1 << 18;
/// Number of answered URLs, and time, after which a sync is made even if no request waits for it.
const PENDING: usize = 1 << 20;
const EVERY: Duration = Duration::from_secs(1);
/// Number of URLs of a request that is answered inline: cheaper than waking the thread.
const QUICK: usize = 16;
/// Attempts to answer inline, and pauses between two: some microseconds in all, in which another
/// request is answered, and less than waking the thread takes.
const ATTEMPTS: usize = 8;
const PAUSES: usize = 16;

/// Receives log lines for the operator.
type Log = Arc<dyn Fn(&str) + Send + Sync>;

type Reply = oneshot::Sender<Result<Verdicts>>;

/// A request's share of the memory for URLs.
pub(super) type Room = Option<OwnedSemaphorePermit>;

enum Job {
    Add {
        request: AddRequest,
        durable: bool,
        reply: Reply,
        room: Room,
    },
    /// There are changes to sync.
    Wake,
    Close,
}

/// One set, and its thread.
pub(crate) struct Worker {
    set: Arc<IdempotentSet>,
    jobs: Sender<Job>,
    /// True if the thread will check for changes to sync without being woken.
    looks_after: Arc<AtomicBool>,
    thread: JoinHandle<Result<()>>,
}

impl Worker {
    /// # Errors
    ///
    /// If the system cannot start a thread.
    pub(super) fn start(set: IdempotentSet, name: &str, log: Log) -> std::io::Result<Worker> {
        let set = Arc::new(set);
        let (jobs, todo) = channel();
        let looks_after = Arc::new(AtomicBool::new(false));
        let (of_thread, looks, name) = (Arc::clone(&set), Arc::clone(&looks_after), name.to_owned());
        let thread = Builder::new().name("seen".to_owned()).spawn(move || {
            let failed = |error: &Error| log(&format!("seen set `{name}`: {error}"));
            let answered = answer_all(&of_thread, &todo, &looks, &failed);
            answered.and_then(|()| close(of_thread)).inspect_err(failed)
        })?;
        Ok(Worker { set, jobs, looks_after, thread })
    }

    pub(crate) fn set(&self) -> &IdempotentSet {
        &self.set
    }

    /// Answers a request; with `durable`, after the sync of its answers.
    ///
    /// # Errors
    ///
    /// As [`IdempotentSet::answer`] and [`IdempotentSet::commit`]; `None` if the thread has ended.
    pub(super) async fn add(&self, mut request: AddRequest, durable: bool, room: Room) -> Option<Result<Verdicts>> {
        if self.thread.is_finished() {
            return None;
        }
        let attempts = if !durable && request.len() <= QUICK { ATTEMPTS } else { 0 };
        for _ in 0..attempts {
            match self.set.answer_now(request) {
                Ok(answer) => {
                    // Read first: writing it each time would take it from the other processors.
                    let looks = &self.looks_after;
                    let is_asleep = !looks.load(Ordering::SeqCst) && self.set.is_changed();
                    if is_asleep && !looks.swap(true, Ordering::SeqCst) {
                        self.jobs.send(Job::Wake).ok()?;
                    }
                    return Some(answer);
                }
                Err(back) => request = back,
            }
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
        }
        let (reply, answered) = oneshot::channel();
        self.jobs.send(Job::Add { request, durable, reply, room }).ok()?;
        answered.await.ok()
    }

    /// Answers all queued requests, and closes the set. Blocks.
    ///
    /// # Errors
    ///
    /// As [`IdempotentSet::close`].
    pub(super) fn close(self) -> Result<()> {
        let Worker { set, jobs, thread, .. } = self;
        // So that the thread holds the last handle.
        drop(set);
        let _ = jobs.send(Job::Close);
        // After a panic, which was printed, the durable answers are in the set's files.
        thread.join().unwrap_or(Ok(()))
    }
}

fn close(set: Arc<IdempotentSet>) -> Result<()> {
    match Arc::try_unwrap(set) {
        Ok(set) => set.close(),
        // A request is still running.
        Err(set) => set.commit(),
    }
}

/// Answers requests until the set is closed.
fn answer_all(
    set: &IdempotentSet,
    jobs: &Receiver<Job>,
    looks_after: &AtomicBool,
    failed: &dyn Fn(&Error),
) -> Result<()> {
    let mut commits = Commits { set, last: Instant::now(), has_failed: false };
    loop {
        let first = match commits.has_failed || is_idle(set, looks_after) {
            true => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => jobs.recv_timeout(EVERY.saturating_sub(commits.last.elapsed())),
        };
        // Before a round, which takes long if it is large.
        if commits.is_due() {
            let _ = commits.commit(failed);
        }
        let mut round = Round::default();
        let is_over = match first {
            Ok(job) => round.gather(job, jobs),
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => true,
        };
        let waiting = round.answer(set);
        if !waiting.is_empty() || commits.is_due() || is_over {
            let done = commits.commit(failed);
            for (reply, answer) in waiting {
                let _ = reply.send(done.clone().and(answer));
            }
        }
        if is_over {
            return Ok(());
        }
    }
}

/// Decides when to sync answers.
struct Commits<'a> {
    set: &'a IdempotentSet,
    last: Instant,
    /// A sync failed: the set accepts no more requests.
    has_failed: bool,
}

impl Commits<'_> {
    fn is_due(&self) -> bool {
        let is_time = self.last.elapsed() >= EVERY && self.set.is_changed();
        !self.has_failed && (is_time || self.set.pending() >= PENDING)
    }

    fn commit(&mut self, failed: &dyn Fn(&Error)) -> Result<()> {
        let done = self.set.commit();
        self.last = Instant::now();
        if let Err(error) = &done
            && !self.has_failed
        {
            self.has_failed = true;
            failed(error);
        }
        done
    }
}

/// Returns whether there is nothing to sync. A later change wakes the thread.
fn is_idle(set: &IdempotentSet, looks_after: &AtomicBool) -> bool {
    if set.is_changed() {
        return false;
    }
    looks_after.store(false, Ordering::SeqCst);
    let is_idle = !set.is_changed();
    if !is_idle {
        looks_after.store(true, Ordering::SeqCst);
    }
    is_idle
}

/// Requests answered together.
#[derive(Default)]
struct Round {
    requests: Vec<AddRequest>,
    replies: Vec<(Reply, bool)>,
    /// Held until the requests are answered.
    rooms: Vec<Room>,
}

impl Round {
    /// Takes this job and those queued after it. Returns whether to close the set.
    fn gather(&mut self, first: Job, jobs: &Receiver<Job>) -> bool {
        let (mut next, mut urls) = (Ok(first), 0);
        loop {
            match next {
                Ok(Job::Add { request, durable, reply, room }) => {
                    self.rooms.push(room);
                    urls += request.len();
                    self.requests.push(request);
                    self.replies.push((reply, durable));
                }
                Ok(Job::Wake) => {}
                Ok(Job::Close) | Err(TryRecvError::Disconnected) => return true,
                Err(TryRecvError::Empty) => return false,
            }
            if urls >= TOGETHER {
                return false;
            }
            next = jobs.try_recv();
        }
    }

    /// Replies to requests that do not wait for the device. Returns the others, whose answers are
    /// not durable yet.
    fn answer(self, set: &IdempotentSet) -> Vec<(Reply, Result<Verdicts>)> {
        let answers = set.answer(&self.requests);
        let mut waiting = Vec::new();
        for ((reply, durable), answer) in self.replies.into_iter().zip(answers) {
            if durable && answer.is_ok() {
                waiting.push((reply, answer));
            } else {
                // Fails if the client has disconnected: the request can be sent again.
                let _ = reply.send(answer);
            }
        }
        waiting
    }
}
