//! The objects of one store: reading, creating, listing and deleting below a prefix, with bounded
//! retries of what may pass.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};

use crate::error::{Error, Result};

/// The pause before the first retry; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The objects of one store.
#[derive(Clone)]
pub(crate) struct Bucket {
    objects: Arc<dyn ObjectStore>,
    root: Path,
    location: Arc<str>,
    retries: u32,
}

impl Bucket {
    pub(crate) fn new(objects: Arc<dyn ObjectStore>, root: Path, location: &str, retries: u32) -> Bucket {
        Bucket { objects, root, location: location.into(), retries }
    }

    pub(crate) fn objects(&self) -> &Arc<dyn ObjectStore> {
        &self.objects
    }

    pub(crate) fn location(&self) -> &str {
        &self.location
    }

    pub(crate) fn retries(&self) -> u32 {
        self.retries
    }

    /// The path of an object of the store.
    pub(crate) fn path(&self, name: &str) -> Path {
        name.split('/').fold(self.root.clone(), |path, part| path.join(part))
    }

    /// An object; `None` if it is not there.
    pub(crate) async fn get(&self, name: &str) -> Result<Option<Bytes>> {
        self.read(name, None).await
    }

    /// A part of an object; `None` if the object is not there.
    pub(crate) async fn range(&self, name: &str, range: Range<u64>) -> Result<Option<Bytes>> {
        self.read(name, Some(GetRange::Bounded(range))).await
    }

    /// The last bytes of an object; `None` if it is not there.
    pub(crate) async fn tail(&self, name: &str, bytes: u64) -> Result<Option<Bytes>> {
        self.read(name, Some(GetRange::Suffix(bytes))).await
    }

    async fn read(&self, name: &str, range: Option<GetRange>) -> Result<Option<Bytes>> {
        let path = self.path(name);
        let mut attempts = 0;
        loop {
            let options = GetOptions { range: range.clone(), ..GetOptions::default() };
            let bytes = match self.objects.get_opts(&path, options).await {
                Ok(found) => found.bytes().await,
                Err(error) => Err(error),
            };
            match bytes {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(object_store::Error::NotFound { .. }) => return Ok(None),
                Err(error) => self.pause(&mut attempts, &format!("reading {name}"), error).await?,
            }
        }
    }

    /// Creates an object. False if there is one: it may be of an attempt of this call whose answer
    /// was lost.
    pub(crate) async fn create(&self, name: &str, bytes: Bytes) -> Result<bool> {
        let path = self.path(name);
        let mut attempts = 0;
        loop {
            let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
            match self.objects.put_opts(&path, PutPayload::from(bytes.clone()), options).await {
                Ok(_) => return Ok(true),
                Err(object_store::Error::AlreadyExists { .. }) => return Ok(false),
                Err(error) => self.pause(&mut attempts, &format!("creating {name}"), error).await?,
            }
        }
    }

    /// Deletes an object; one that is not there too.
    pub(crate) async fn delete(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        let mut attempts = 0;
        loop {
            match self.objects.delete(&path).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => return Ok(()),
                Err(error) => self.pause(&mut attempts, &format!("deleting {name}"), error).await?,
            }
        }
    }

    /// The objects below a folder.
    pub(crate) async fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>> {
        let path = self.path(folder);
        let mut attempts = 0;
        loop {
            match self.objects.list(Some(&path)).try_collect().await {
                Ok(found) => return Ok(found),
                Err(error) => self.pause(&mut attempts, &format!("listing {folder}"), error).await?,
            }
        }
    }

    /// Waits before a retry; an error if it would be in vain or one too many.
    async fn pause(&self, attempts: &mut u32, operation: &str, error: object_store::Error) -> Result<()> {
        use object_store::Error as Of;
        let may_pass = matches!(error, Of::Generic { .. } | Of::JoinError { .. } | Of::Precondition { .. });
        if !may_pass || *attempts >= self.retries {
            return Err(self.unavailable(operation, *attempts, &error));
        }
        tokio::time::sleep(FIRST_PAUSE.saturating_mul(1 << (*attempts).min(16)).min(LONGEST_PAUSE)).await;
        *attempts += 1;
        Ok(())
    }

    pub(crate) fn unavailable(&self, operation: &str, retries: u32, error: &dyn std::fmt::Display) -> Error {
        let (location, operation) = (self.location.to_string(), operation.to_owned());
        Error::Unavailable { location, operation, retries, what: error.to_string() }
    }

    pub(crate) fn damaged(&self, object: &str, what: impl Into<String>) -> Error {
        Error::Damaged { location: self.location.to_string(), object: object.to_owned(), what: what.into() }
    }
}
