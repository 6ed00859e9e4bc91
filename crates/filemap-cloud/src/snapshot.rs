//! Checkpoints for the callers of a store: take one as a handle of its own, list them, remove
//! them.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use crate::compact::ms_since_1970;
use crate::core::Core;
use crate::dictionaries::Dictionaries;
use crate::error::{Error, Result};
use crate::format::manifest::is_name;
use crate::hold::Hold;
use crate::index::Index;
use crate::pins;
use crate::shard::Shard;
use crate::store::CloudStore;

/// The shortest lifetime of a checkpoint.
const SHORTEST: Duration = Duration::from_secs(1);
/// Between the name of a checkpoint and the random part that makes its object's name unique.
const SEPARATOR: char = '.';

/// A checkpoint in one shard of a store: see [`CloudStore::checkpoint`].
///
/// ```
/// use std::time::Duration;
/// use filemap::PageWrite;
/// use filemap_cloud::{CloudOptions, Mode, open_bucket};
/// let store = open_bucket("mem://listed", Mode::Fill, &CloudOptions::new())?;
/// let held = store.checkpoint("backup", Duration::from_secs(3600))?;
/// let listed = store.checkpoints()?;
/// assert_eq!((listed[0].name.as_str(), listed[0].shard, listed[0].is_live), ("backup", 0, true));
/// held.close()?;
/// assert!(store.checkpoints()?.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloudCheckpoint {
    /// The name that the caller gave it.
    pub name: String,
    /// The shard.
    pub shard: u32,
    /// The time of its last refresh, in ms since 1970, by the object storage's clock.
    pub refreshed_ms: u64,
    /// It expires when it was not refreshed for this time.
    pub lifetime: Duration,
    /// True if it has not expired.
    pub is_live: bool,
}

impl CloudStore {
    /// Takes a checkpoint: a read-only handle whose content stays as it was, each shard at one
    /// moment of this call, with everything synced before it. However long a scan of the handle
    /// takes, no page that it names is deleted, by a compaction or an erasure either, until the
    /// handle is closed.
    ///
    /// It is refreshed while the process lives, and expires `lifetime` (1 s to 7 days) after the
    /// last refresh. `name` says for whom it is; several may have the same name. Needs the rights
    /// of a writer, but takes the store from none. Files kept with a shard may go on without it.
    ///
    /// Keep it as short as the scan: the space of segments rewritten since is not freed before,
    /// and an erasure is not complete.
    ///
    /// # Errors
    ///
    /// [`Error::Location`] for a name or a lifetime that is not valid; those of the object
    /// storage. Reads of the handle fail with [`Error::Expired`] if it has expired and an object
    /// is gone.
    ///
    /// ```
    /// use std::time::Duration;
    /// use filemap::access::{PutRule, Scope};
    /// use filemap::{Page, PageRead, PageWrite};
    /// use filemap_cloud::{CloudOptions, Mode, open_bucket};
    /// let store = open_bucket("mem://held", Mode::Fill, &CloudOptions::new())?;
    /// let page = Page::new("http://example.com/", 1_700_000_000_000, 200, "hello");
    /// store.put(&page, PutRule::IfNew)?;
    /// store.sync()?;
    /// let held = store.checkpoint("export", Duration::from_secs(3600))?;
    /// store.remove(b"http://example.com/", None)?;
    /// store.sync()?;
    /// assert_eq!((held.count(&Scope::new())?, store.count(&Scope::new())?), (1, 0));
    /// held.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn checkpoint(&self, name: &str, lifetime: Duration) -> filemap::Result<CloudStore> {
        let shards = self.each(|shard| held(&shard.core, name, lifetime))?;
        Ok(CloudStore::over(shards, self.shards()))
    }

    /// The checkpoints of the handle's shards, expired ones too: the next compaction deletes
    /// those.
    ///
    /// # Errors
    ///
    /// Errors of the object storage.
    pub fn checkpoints(&self) -> filemap::Result<Vec<CloudCheckpoint>> {
        let of_shards = self.each(|shard| {
            let number = shard.core.bucket.shard();
            let found = shard.core.wait(|core| async move { pins::found(&core.bucket).await })?;
            let now = SystemTime::now();
            Ok::<_, Error>(found.into_iter().map(move |found| CloudCheckpoint {
                name: given(&found.name).to_owned(),
                shard: number,
                refreshed_ms: ms_since_1970(found.since),
                lifetime: found.checkpoint.lifetime,
                is_live: found.is_live(now),
            }))
        })?;
        Ok(of_shards.into_iter().flatten().collect())
    }

    /// Removes the checkpoints of a name in the handle's shards, and returns their number. A scan
    /// that has one fails as soon as it misses an object.
    ///
    /// # Errors
    ///
    /// Errors of the object storage.
    ///
    /// ```
    /// use std::time::Duration;
    /// use filemap_cloud::{CloudOptions, Mode, open_bucket};
    /// let store = open_bucket("mem://removed-checkpoint", Mode::Fill, &CloudOptions::new())?;
    /// let held = store.checkpoint("export", Duration::from_secs(3600))?;
    /// assert_eq!(store.remove_checkpoints("export")?, 1);
    /// assert_eq!(store.remove_checkpoints("export")?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remove_checkpoints(&self, name: &str) -> filemap::Result<u64> {
        let removed = self.each(|shard| {
            let name = name.to_owned();
            shard.core.wait(move |core| async move {
                let mut removed: u64 = 0;
                for found in pins::found(&core.bucket).await? {
                    if given(&found.name) == name {
                        core.bucket.delete(&pins::object(&found.name)).await?;
                        Index::release_held(&core.bucket, &found.name).await?;
                        removed += 1;
                    }
                }
                Ok(removed)
            })
        })?;
        Ok(removed.into_iter().sum())
    }
}

/// The name that a caller gave to a checkpoint with this object.
fn given(object: &str) -> &str {
    object.rsplit_once(SEPARATOR).map_or(object, |(name, _)| name)
}

/// A shard at the moment of a checkpoint.
fn held(core: &Arc<Core>, name: &str, lifetime: Duration) -> Result<Shard> {
    let wrong = |what: String| Error::Location { location: core.bucket.location().to_owned(), what };
    if !is_name(name) || name.contains('/') {
        return Err(wrong(format!("{name:?} is no name of a checkpoint: use letters, digits, `.`, `_` and `-`")));
    }
    if !(SHORTEST..=pins::LONGEST).contains(&lifetime) {
        return Err(wrong(format!("a checkpoint has a lifetime of 1 s to 7 days, not {lifetime:?}")));
    }
    let object = format!("{name}{SEPARATOR}{}", core.bucket.token()?);
    let (index, hold) =
        core.wait(move |core| async move { Hold::take(&core.bucket, &core.options, object, lifetime).await })?;
    let held = Core {
        bucket: core.bucket.clone(),
        index: Arc::new(index),
        canonicalizer: Arc::clone(&core.canonicalizer),
        runtime: core.runtime.clone(),
        options: core.options.clone(),
        dictionaries: Dictionaries::new(core.bucket.clone(), core.options.dictionary_bytes),
        writer: None,
    };
    Ok(Shard {
        core: Arc::new(held),
        commits: Mutex::default(),
        upkeep: Mutex::default(),
        closed: Mutex::default(),
        keeping: Mutex::default(),
        hold: Mutex::new(Some(hold)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_given_back_without_the_random_part() {
        assert_eq!([given("a.b-1.00ff"), given("copy.00ff"), given("strange")], ["a.b-1", "copy", "strange"]);
    }
}
