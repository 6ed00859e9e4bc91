//! State of a replica: recorded by the code that follows another server, shown by the replica's
//! own server.

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use filemap::replica::Counts;

/// State of a replica.
///
/// ```
/// let following = filemap_http::Following::new("http://127.0.0.1:8640");
/// assert!(!following.figures().is_complete);
/// ```
#[derive(Debug)]
pub struct Following {
    location: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_complete: bool,
    heard: Option<Instant>,
    error: Option<String>,
    has_ended: bool,
    counts: Counts,
    begun_anew: u64,
}

/// Figures of a replica.
///
/// ```
/// let figures = filemap_http::Following::new("http://127.0.0.1:8640").figures();
/// assert_eq!((figures.location.as_str(), figures.up_to_date), ("http://127.0.0.1:8640", None));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FollowingFigures {
    /// The server that it follows.
    pub location: String,
    /// True if it was ever equal to the followed store; before that pages are missing.
    pub is_complete: bool,
    /// Time since it last had all changes; `None` if never in this process.
    pub up_to_date: Option<Duration>,
    /// Reason why replication fails, if it does.
    pub error: Option<String>,
    /// True if it has given up; `error` says why.
    pub has_ended: bool,
    /// Counts of applied changes.
    pub counts: Counts,
    /// Number of times that it lost its cursor in the history and started over.
    pub begun_anew: u64,
}

impl Following {
    /// A replica of the store behind the server at `location`.
    pub fn new(location: &str) -> Following {
        Following { location: location.to_owned(), state: Mutex::default() }
    }

    /// The server that it follows.
    pub fn location(&self) -> &str {
        &self.location
    }

    /// The current figures.
    pub fn figures(&self) -> FollowingFigures {
        self.with(|state| FollowingFigures {
            location: self.location.clone(),
            is_complete: state.is_complete,
            up_to_date: state.heard.map(|heard| heard.elapsed()),
            error: state.error.clone(),
            has_ended: state.has_ended,
            counts: state.counts,
            begun_anew: state.begun_anew,
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records the counts after a change was applied.
    pub(crate) fn applied(&self, counts: Counts) {
        self.with(|state| state.counts = counts);
    }

    /// Records that all changes have arrived. Returns true if replication was failing before.
    pub(crate) fn up_to_date(&self) -> bool {
        self.with(|state| {
            (state.is_complete, state.heard) = (true, Some(Instant::now()));
            state.error.take().is_some()
        })
    }

    /// Records that the initial listing is complete.
    pub(crate) fn completed(&self) {
        self.with(|state| state.is_complete = true);
    }

    /// Records progress: clears the error.
    pub(crate) fn gets_on(&self) {
        self.with(|state| state.error = None);
    }

    /// Records a failure. Returns true if the last attempt did not fail.
    pub(crate) fn failed(&self, error: &str) -> bool {
        self.with(|state| state.error.replace(error.to_owned()).as_deref() != Some(error))
    }

    /// A guard that records, when dropped, that replication has given up.
    pub(crate) fn ending(&self) -> Ending<'_> {
        Ending { following: self, why: RefCell::new(Some("it has panicked".to_owned())) }
    }

    pub(crate) fn began_anew(&self) {
        self.with(|state| {
            state.begun_anew += 1;
            state.is_complete = false;
        });
    }
}

/// Guard that records, when dropped, that replication has given up, unless it was meant to end.
pub(crate) struct Ending<'a> {
    following: &'a Following,
    why: RefCell<Option<String>>,
}

impl Ending<'_> {
    pub(crate) fn is_wanted(&self) {
        self.why.replace(None);
    }

    pub(crate) fn because(&self, error: &filemap::Error) {
        self.why.replace(Some(error.to_string()));
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if let Some(why) = self.why.take() {
            self.following.with(|state| (state.error, state.has_ended) = (Some(why), true));
        }
    }
}
