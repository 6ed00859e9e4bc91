//! A handle's state of the files kept with its shard: the current manifest, and the objects of
//! earlier ones that must be deleted.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use filemap_io::File;

use crate::format::manifest::{Manifest, Named};
use crate::format::segment::SegmentId;

/// The folder of manifests and of the pieces of kept files.
pub(crate) const FOLDER: &str = "shard/crawl";

/// The object name of a piece or a manifest.
pub(crate) fn object(id: SegmentId) -> String {
    format!("{FOLDER}/{}", id.name())
}

/// Change of a file since its last kept version.
///
/// ```
/// use filemap_cloud::{Change, CloudOptions, KeptFile, Mode, open_bucket};
/// # use filemap_io::{Access, Dir, OsDir};
/// # let folder = tempfile::tempdir()?;
/// # let file = OsDir::open(folder.path())?.open("queue", Access::Create)?;
/// let store = open_bucket("mem://changed", Mode::Fill, &CloudOptions::new())?;
/// let keep = |change| store.sync_with(&[KeptFile { name: "queue", file: &*file, change }]);
/// file.write_at(b"http://example.com/\n", 0)?;
/// keep(Change::Replaced)?;
/// file.write_at(b"http://example.org/\n", 20)?;
/// keep(Change::Appended)?;
/// assert_eq!(store.kept()?, [("queue".to_owned(), 40)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Unchanged: it is not read.
    Same,
    /// Appended to: the old bytes are unchanged.
    Appended,
    /// Changed in any way: it is read, and changed pieces are uploaded.
    Replaced,
}

/// A file kept with a shard: see [`CloudStore::sync_with`](crate::CloudStore::sync_with).
///
/// ```
/// use filemap_cloud::{Change, CloudOptions, KeptFile, Mode, open_bucket};
/// # use filemap_io::{Access, Dir, OsDir};
/// # let folder = tempfile::tempdir()?;
/// # let file = OsDir::open(folder.path())?.open("queue", Access::Create)?;
/// file.write_at(b"http://example.com/", 0)?;
/// let store = open_bucket("mem://kept-file", Mode::Fill, &CloudOptions::new())?;
/// store.sync_with(&[KeptFile { name: "queue", file: &*file, change: Change::Replaced }])?;
/// let mut read = Vec::new();
/// store.read_kept("queue", &mut |bytes| {
///     read.extend_from_slice(bytes);
///     Ok(())
/// })?;
/// assert_eq!(read, b"http://example.com/");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KeptFile<'a> {
    /// Its name: letters, digits, `.`, `_`, `-`, with `/` between folders.
    pub name: &'a str,
    /// Its bytes, which must not change while it is read.
    pub file: &'a dyn File,
    /// The change since this handle last kept the file. A file that the handle has not kept yet is
    /// compared completely.
    pub change: Change,
}

/// The kept files of a shard, and the objects to delete.
#[derive(Default)]
pub(crate) struct Keeping {
    /// The current manifest; `None` before it was looked up.
    pub(crate) known: Option<Option<(Named, Manifest)>>,
    /// Files kept by this handle: only for these the caller's [`Change`] is trusted.
    pub(crate) own: BTreeSet<String>,
    pub(crate) last_number: u64,
    /// Objects of replaced manifests, with the time of their replacement.
    pub(crate) stale: Vec<(Instant, SegmentId)>,
    /// True if the objects of earlier owners were swept.
    pub(crate) has_swept: bool,
}

impl Keeping {
    /// The current manifest.
    pub(crate) fn manifest(&self) -> Option<&Manifest> {
        self.known.as_ref()?.as_ref().map(|(_, manifest)| manifest)
    }

    /// Makes another manifest the current one.
    pub(crate) fn replace(&mut self, named: Named, manifest: Manifest) {
        let stays: BTreeSet<SegmentId> = manifest.objects().chain([named.id]).collect();
        self.own = manifest.files.keys().cloned().collect();
        let before = self.known.replace(Some((named, manifest))).flatten();
        let names = before.iter().flat_map(|(named, manifest)| manifest.objects().chain([named.id]));
        let gone: BTreeSet<SegmentId> = names.filter(|id| !stays.contains(id)).collect();
        self.stale.extend(gone.into_iter().map(|id| (Instant::now(), id)));
    }

    /// Removes and returns the objects whose grace is over.
    pub(crate) fn take_old(&mut self, grace: Duration) -> Vec<(Instant, SegmentId)> {
        let (old, young) = self.stale.drain(..).partition(|(since, _)| since.elapsed() >= grace);
        self.stale = young;
        old
    }
}
