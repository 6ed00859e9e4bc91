//! Writes WARC files during a crawl, on a separate thread: once a second, the puts that the
//! store has synced since.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use filemap::PageStore;
use filemap::dump::WarcFollower;

use crate::error::Error;
use crate::files::warc::Series;

/// The interval of reading the store.
const EVERY: Duration = Duration::from_secs(1);

/// The error that ends a run whose WARC files failed; [`Warc::end`] gives the reason.
pub const STOPPED: &str = "WARC files cannot be written";

/// Counts of what was written to WARC files.
///
/// ```
/// use crawl::run::Written;
/// let written = Written { records: 7, ..Written::default() };
/// assert!(written.damaged == 0 && written.last_damage.is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Records of puts.
    pub records: u64,
    /// Unreadable versions, which are left out; and revisits without a body, because their
    /// originals are unreadable.
    pub damaged: u64,
    /// The damage of the last of them.
    pub last_damage: Option<String>,
}

/// A running WARC writer.
pub struct Warc {
    /// The thread, and the sender that ends it; `None` once ended.
    running: Option<(Thread, Sender<()>)>,
}

type Thread = JoinHandle<Result<Written, Error>>;

impl Warc {
    /// Begins to follow a store.
    ///
    /// # Errors
    /// As [`Series::open`]; a thread that cannot be started.
    pub fn begin(folder: &Path, store: &PageStore) -> Result<Warc, Error> {
        let (series, follower) = Series::open(folder, store)?;
        let (ends, ended) = channel();
        let thread = std::thread::Builder::new().name("warc".to_owned());
        let thread = thread.spawn(move || follow(series, follower, &ended));
        let thread = thread.map_err(|error| Error::Broken(format!("a thread cannot be started: {error}")))?;
        Ok(Warc { running: Some((thread, ends)) })
    }

    /// Checks that the thread is still running.
    ///
    /// # Errors
    /// The thread has stopped; [`Warc::end`] gives the reason.
    pub fn check(&self) -> Result<(), Error> {
        let has_ended = self.running.as_ref().is_none_or(|(thread, _)| thread.is_finished());
        if has_ended { Err(Error::Broken(STOPPED.to_owned())) } else { Ok(()) }
    }

    /// Writes the rest, and finishes the last file.
    ///
    /// # Errors
    /// The reason why it stopped early.
    pub fn end(mut self) -> Result<Written, Error> {
        self.join()
    }

    fn join(&mut self) -> Result<Written, Error> {
        let Some((thread, ends)) = self.running.take() else { return Ok(Written::default()) };
        drop(ends);
        let ended = thread.join();
        ended.unwrap_or_else(|_| Err(Error::Broken("the thread that writes WARC files has panicked".to_owned())))
    }
}

/// A failed run leaves no thread behind that would hold the store.
impl Drop for Warc {
    fn drop(&mut self) {
        drop(self.join());
    }
}

fn follow(mut series: Series, mut follower: WarcFollower, ended: &Receiver<()>) -> Result<Written, Error> {
    let mut written = Written::default();
    loop {
        let is_last = ended.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout);
        while let Some(part) = follower.part()? {
            series.add(&part, &follower)?;
            written.records += part.records;
            written.damaged += part.damaged.len() as u64;
            written.last_damage = part.damaged.last().map(ToString::to_string).or(written.last_damage);
        }
        if is_last {
            series.finish(&follower)?;
            return Ok(written);
        }
    }
}
