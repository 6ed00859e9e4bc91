//! The mailboxes of a server: those of one fleet, in a folder.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use axum::http::header::{HeaderValue, RETRY_AFTER};
use mailbox::{Error, MailboxOptions, Mailboxes};

use crate::server::refusal::Refusal;

/// Seconds after which to retry a full mailbox.
const FULL_AGAIN_S: u32 = 2;

/// Mailboxes served by a server: those in a folder, or those that the first crawl of a fleet
/// creates there.
///
/// ```
/// use filemap_http::server::{LinkBoxes, ServerOptions};
///
/// # let folder = tempfile::tempdir()?;
/// let boxes = LinkBoxes::open(folder.path(), mailbox::MailboxOptions::new())?;
/// let options = ServerOptions::new().writes().links(boxes);
/// # let _ = options;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LinkBoxes {
    folder: PathBuf,
    options: MailboxOptions,
    boxes: Mutex<Option<Arc<Mailboxes>>>,
}

impl LinkBoxes {
    /// Opens the mailboxes in a folder, which may have none yet.
    ///
    /// # Errors
    ///
    /// Those of opening them.
    pub fn open(folder: &Path, options: MailboxOptions) -> mailbox::Result<LinkBoxes> {
        let boxes = Mailboxes::open(folder, options.clone())?.map(Arc::new);
        Ok(LinkBoxes { folder: folder.to_owned(), options, boxes: Mutex::new(boxes) })
    }

    /// The mailboxes of `shards` shards, created if there are none; and whether they were created.
    /// Blocks.
    pub(super) fn of(&self, shards: u32) -> mailbox::Result<(Arc<Mailboxes>, bool)> {
        let mut boxes = self.boxes();
        if let Some(boxes) = &*boxes {
            let file = self.folder.display().to_string();
            return match boxes.shards() {
                found if found == shards => Ok((Arc::clone(boxes), false)),
                found => Err(Error::OtherShards { file, found, wanted: shards }),
            };
        }
        let made = Arc::new(Mailboxes::create(&self.folder, shards, self.options.clone())?);
        *boxes = Some(Arc::clone(&made));
        Ok((made, true))
    }

    fn boxes(&self) -> MutexGuard<'_, Option<Arc<Mailboxes>>> {
        self.boxes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The mailboxes, if there are any.
    pub(crate) fn get(&self) -> Option<Arc<Mailboxes>> {
        self.boxes().clone()
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        let words = error.to_string();
        match error {
            Error::Storage(error) => Refusal::of_storage(&error, words),
            Error::NoSuchShard { .. } => Refusal::new(StatusCode::NOT_FOUND, words),
            Error::Cursor { .. } => Refusal::bad(words),
            Error::Fenced { .. } => Refusal::new(StatusCode::PRECONDITION_FAILED, words),
            Error::Full { .. } => Refusal::new(StatusCode::SERVICE_UNAVAILABLE, words)
                .header(RETRY_AFTER, HeaderValue::from(FULL_AGAIN_S)),
            Error::TooManySenders { .. } => Refusal::new(StatusCode::INSUFFICIENT_STORAGE, words),
            _ => Refusal::new(StatusCode::CONFLICT, words),
        }
    }
}
