//! Events, visits and counts that a running crawl reports. The library itself prints nothing.

use std::path::PathBuf;
use std::time::Duration;

use frontier::Frontier;

use super::tally::Tally;
use crate::error::BoxError;
use crate::visit::Visit;

/// Reason why the fleet keeps a crawl from assigning pages.
///
/// ```
/// use crawl::run::{Event, Pause};
/// fn is_held_up(event: &Event) -> bool {
///     matches!(event, Event::HeldUp { why: Some(Pause::Unheard | Pause::Full) })
/// }
/// assert!(is_held_up(&Event::HeldUp { why: Some(Pause::Full) }));
/// assert!(!is_held_up(&Event::HeldUp { why: None }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// The mailboxes' server was unreachable for the time of the lease.
    Unheard,
    /// Too many links wait in the outbox.
    Full,
}

/// An event of interest to people.
///
/// ```
/// use crawl::run::Event;
/// fn words(event: &Event) -> Option<String> {
///     match event {
///         Event::LowSpace { free_bytes, .. } => Some(format!("{free_bytes} bytes are free")),
///         _ => None,
///     }
/// }
/// let event = Event::LowSpace { free_bytes: 7, min_free_bytes: 9 };
/// assert_eq!(words(&event).as_deref(), Some("7 bytes are free"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Everything is open and locked: the run begins.
    Begun,
    /// Other processes cannot reach the crawl.
    Deaf {
        /// The error of the system.
        why: String,
    },
    /// A page is left to the crawl that has claimed it.
    Elsewhere {
        /// The page.
        url: String,
    },
    /// A page is handed over to the crawl that owns its host's shard.
    HandedOver {
        /// The page.
        url: String,
    },
    /// The crawl was asked to assign no more pages.
    Paused,
    /// It was asked to resume.
    Resumed,
    /// It assigns no more pages, because disk space is low.
    LowSpace {
        /// Free bytes.
        free_bytes: u64,
        /// The floor of free bytes.
        min_free_bytes: u64,
    },
    /// There is space again: it resumes.
    Space {
        /// The floor of free bytes.
        min_free_bytes: u64,
    },
    /// A file of patterns has changed.
    Patterns {
        /// The file.
        file: PathBuf,
        /// The number of patterns; or an error, and the old patterns stay.
        patterns: Result<usize, String>,
    },
    /// The file of hosts has changed.
    Hosts {
        /// The file.
        file: PathBuf,
        /// The number of hosts; or an error, and the old settings stay.
        hosts: Result<usize, String>,
    },
    /// A start page redirects out of the scope, which is widened to the target.
    Redirected {
        /// The start page.
        from: String,
        /// The target of the redirect.
        to: String,
    },
    /// A shared seen set did not answer; the request is repeated.
    AskedAgain {
        /// The error of the set or the system.
        why: String,
        /// After this time.
        after: Duration,
    },
    /// A shared seen set has forgotten a request: its pages are fetched, even if others have them.
    Forgotten {
        /// The request.
        request: String,
        /// Its pages.
        pages: usize,
    },
    /// Links could not be sent or received, and are retried later.
    LinksLater {
        /// The error of the server or the system.
        why: String,
        /// After this time.
        after: Duration,
    },
    /// A shard is now this crawl's.
    ShardTaken {
        /// The shard.
        shard: u32,
    },
    /// All pages that may be fetched now have been handed out for ten seconds: only if the pages
    /// are in a shard of a remote store. There is room for the work of another shard.
    Starving,
    /// No shard can be taken now, and none is crawled: the process waits for one.
    NoShard {
        /// The time for which an owner must be silent before its shard is taken.
        lease: Duration,
    },
    /// A shard of an earlier run is still this crawl's, though not configured.
    ShardKept {
        /// The shard.
        shard: u32,
    },
    /// A shard now belongs to another crawl, or a later run: its queued pages are handed over.
    ShardLost {
        /// The shard.
        shard: u32,
    },
    /// The fleet keeps pages from being assigned, or no longer does.
    HeldUp {
        /// The reason; `None` if pages are assigned again.
        why: Option<Pause>,
    },
    /// Refused pages are queued again, because the scope or the allowed addresses are wider.
    TakenBack {
        /// Number of pages.
        pages: u32,
    },
    /// A hook failed: the page is stored without its reply.
    HookFailed {
        /// The page.
        url: String,
        /// The error of the hook, or its panic.
        why: String,
    },
    /// The store takes no more pages, after a failed write.
    Poisoned {
        /// The store's error.
        why: String,
    },
}

/// An observer of a running crawl, called from several threads. An error of a method ends the
/// crawl with [`crate::Error::Observer`], unless documented otherwise.
///
/// ```
/// use crawl::BoxError;
/// use crawl::run::{Event, Observer};
/// # use std::sync::Mutex;
/// #[derive(Default)]
/// struct Log(Mutex<Vec<Event>>);
/// impl Observer for Log {
///     fn event(&self, event: &Event) -> Result<(), BoxError> {
///         self.0.lock().unwrap().push(event.clone());
///         Ok(())
///     }
/// }
/// let log = Log::default();
/// log.event(&Event::Begun)?;
/// assert_eq!(*log.0.lock().unwrap(), [Event::Begun]);
/// # Ok::<(), BoxError>(())
/// ```
pub trait Observer: Send + Sync {
    /// An event happened. Errors are ignored for [`Event::AskedAgain`], [`Event::Forgotten`],
    /// [`Event::LinksLater`] and [`Event::Poisoned`].
    ///
    /// # Errors
    /// Errors of the observer.
    fn event(&self, event: &Event) -> Result<(), BoxError> {
        let _ = event;
        Ok(())
    }

    /// A page was visited, with this number of new links. It is not yet committed.
    ///
    /// # Errors
    /// Errors of the observer.
    fn visited(&self, visit: &Visit, new_links: u32) -> Result<(), BoxError> {
        let _ = (visit, new_links);
        Ok(())
    }

    /// All reported visits are about to become durable: the observer's own records of them must be
    /// on disk on return. After a crash a visit may be reported again, but none is missing.
    ///
    /// # Errors
    /// Errors of the observer.
    fn committing(&self) -> Result<(), BoxError> {
        Ok(())
    }

    /// All reported visits are durable.
    ///
    /// # Errors
    /// Errors of the observer.
    fn committed(&self) -> Result<(), BoxError> {
        Ok(())
    }

    /// The counts, and the number of pages in flight: at least ten times a second.
    ///
    /// # Errors
    /// Errors of the observer.
    fn look(&self, tally: &Tally, frontier: &Frontier, in_flight: usize) -> Result<(), BoxError> {
        let _ = (tally, frontier, in_flight);
        Ok(())
    }
}

/// An observer that ignores everything.
///
/// ```
/// use crawl::run::{Event, Nobody, Observer};
/// assert!(Nobody.event(&Event::Paused).is_ok() && Nobody.committed().is_ok());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Observer for Nobody {}
