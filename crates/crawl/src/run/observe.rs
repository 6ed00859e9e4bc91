//! What a crawl tells while it runs: events, visits, numbers. The library says nothing itself.

use std::path::PathBuf;
use std::time::Duration;

use frontier::Frontier;

use super::tally::Tally;
use crate::error::BoxError;
use crate::visit::Visit;

/// Why a crawl hands out no page for the sake of its fleet.
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
    /// The server of the mailboxes was not reached for the time of the lease.
    Unheard,
    /// The number of links that wait in the outbox.
    Full,
}

/// Something that people may want to know.
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
    /// Everything is open, and locked: the run begins.
    Begun,
    /// Other processes cannot ask the crawl anything.
    Deaf {
        /// What the system said.
        why: String,
    },
    /// A page was left to the crawl that has claimed it.
    Elsewhere {
        /// The page.
        url: String,
    },
    /// A page was handed over to the crawl that owns its host's shard.
    HandedOver {
        /// The page.
        url: String,
    },
    /// The crawl was asked to hand out no more pages.
    Paused,
    /// It was asked to go on.
    Resumed,
    /// It hands out no more pages, since little space is free on the disk.
    LowSpace {
        /// Free bytes.
        free_bytes: u64,
        /// Those that are to be.
        min_free_bytes: u64,
    },
    /// There is space again: it goes on.
    Space {
        /// Bytes that are to be free.
        min_free_bytes: u64,
    },
    /// A file of patterns has changed.
    Patterns {
        /// The file.
        file: PathBuf,
        /// How many it has; else what is wrong, and its patterns stay as they were.
        patterns: Result<usize, String>,
    },
    /// The file of hosts has changed.
    Hosts {
        /// The file.
        file: PathBuf,
        /// How many it has; else what is wrong, and the settings of hosts stay as they were.
        hosts: Result<usize, String>,
    },
    /// A start page redirects out of the scope, which is widened.
    Redirected {
        /// The start page.
        from: String,
        /// Where it leads to.
        to: String,
    },
    /// A shared seen set did not answer, and is asked again.
    AskedAgain {
        /// What it said, or the system.
        why: String,
        /// After this time.
        after: Duration,
    },
    /// A shared seen set has forgotten a request: its pages are fetched, whoever else has them.
    Forgotten {
        /// The request.
        request: String,
        /// Its pages.
        pages: usize,
    },
    /// Links could not be brought to or from their mailboxes, and are later.
    LinksLater {
        /// What the server said, or the system.
        why: String,
        /// After this time.
        after: Duration,
    },
    /// A shard that was free is this crawl's.
    ShardTaken {
        /// The shard.
        shard: u32,
    },
    /// A shard that was this crawl's before stays so, though it was not asked for.
    ShardKept {
        /// The shard.
        shard: u32,
    },
    /// A shard is another crawl's, or a later run's: what is queued of it is handed over.
    ShardLost {
        /// The shard.
        shard: u32,
    },
    /// No page is handed out, for the sake of the fleet; or pages are again.
    HeldUp {
        /// Why, if none is.
        why: Option<Pause>,
    },
    /// Pages that were refused are queued again, since the scope or the addresses are wider.
    TakenBack {
        /// How many.
        pages: u32,
    },
    /// A hook failed: the page is kept without what it would have said.
    HookFailed {
        /// The page.
        url: String,
        /// What the hook, or its panic, says.
        why: String,
    },
    /// The store takes no more pages, after a failed write.
    Poisoned {
        /// What it says.
        why: String,
    },
}

/// Who is told of a running crawl, from several threads. An error of a method ends the crawl, as
/// [`crate::Error::Observer`], but where it says otherwise.
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
    /// Something happened. Errors are ignored of [`Event::AskedAgain`], [`Event::Forgotten`],
    /// [`Event::LinksLater`] and [`Event::Poisoned`].
    ///
    /// # Errors
    /// The observer's own.
    fn event(&self, event: &Event) -> Result<(), BoxError> {
        let _ = event;
        Ok(())
    }

    /// A page was visited, with so many links that are new. It is not yet committed.
    ///
    /// # Errors
    /// The observer's own.
    fn visited(&self, visit: &Visit, new_links: u32) -> Result<(), BoxError> {
        let _ = (visit, new_links);
        Ok(())
    }

    /// All visits that were told are about to become durable: whatever is to be kept of them must
    /// be on its disk on return. After a crash a visit may be told again, and never none.
    ///
    /// # Errors
    /// The observer's own.
    fn committing(&self) -> Result<(), BoxError> {
        Ok(())
    }

    /// All visits that were told are durable.
    ///
    /// # Errors
    /// The observer's own.
    fn committed(&self) -> Result<(), BoxError> {
        Ok(())
    }

    /// The numbers, and how many pages are in flight: ten times a second at least.
    ///
    /// # Errors
    /// The observer's own.
    fn look(&self, tally: &Tally, frontier: &Frontier, in_flight: usize) -> Result<(), BoxError> {
        let _ = (tally, frontier, in_flight);
        Ok(())
    }
}

/// An observer that listens to nothing.
///
/// ```
/// use crawl::run::{Event, Nobody, Observer};
/// assert!(Nobody.event(&Event::Paused).is_ok() && Nobody.committed().is_ok());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Observer for Nobody {}
