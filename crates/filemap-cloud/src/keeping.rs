//! A handle's state of the files kept with its shard: the current manifest, and the objects of
//! earlier ones that must be deleted.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::format::manifest::{Manifest, Named};
use crate::format::segment::SegmentId;

/// The folder of manifests and of the pieces of kept files.
pub(crate) const FOLDER: &str = "shard/crawl";

/// The object name of a piece or a manifest.
pub(crate) fn object(id: SegmentId) -> String {
    format!("{FOLDER}/{}", id.name())
}

/// The kept files of a shard, and the objects to delete.
#[derive(Default)]
pub(crate) struct Keeping {
    /// The current manifest; `None` before it was looked up.
    pub(crate) known: Option<Option<(Named, Manifest)>>,
    /// Files kept by this handle: only for these a caller's word on a change is trusted.
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
