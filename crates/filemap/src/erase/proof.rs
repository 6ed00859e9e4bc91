//! Search after an erasure: looks for erased text in every file of the store, raw and
//! decompressed.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use filemap_core::erase::{Erasure, Search};

use crate::error::Result;
use crate::page::key;
use crate::store::PageStore;
use crate::store::rules::{Matcher, RuleSet};

/// Maximum number of erased keys whose text is searched for.
const CAPTURES: usize = 256;
/// Number of pieces of each body to search for, and bytes of a piece.
const PIECES: usize = 4;
const PIECE_BYTES: usize = 48;
/// Maximum number of mentions listed; further ones are only counted.
const LISTED: usize = 100;

/// A page that stays and contains erased text: it links to an erased page, or quotes it.
///
/// ```
/// use filemap::erase::{Mention, Proof};
///
/// fn print(proof: &Proof) {
///     for Mention { url, is_url, .. } in &proof.mentioned_in {
///         let what = if *is_url { "links to" } else { "quotes" };
///         println!("{} {what} an erased page", String::from_utf8_lossy(url));
///     }
/// }
/// print(&Proof::default());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mention {
    /// The canonical URL of the page.
    pub url: Vec<u8>,
    /// True if the text is an erased URL, false if it is a piece of a body.
    pub is_url: bool,
}

/// Result of the search after an erasure; see [`Erasing`](super::Erasing).
///
/// ```
/// let proof = filemap::erase::Proof::default();
/// assert!(proof.is_clean() && proof.strangers.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Proof {
    /// Number of files searched.
    pub files: u64,
    /// Number of bytes searched.
    pub bytes: u64,
    /// Number of records decompressed.
    pub records: u64,
    /// Number of texts searched for: URLs and pieces of bodies.
    pub texts: u64,
    /// Erased text found: file, offset, and a description.
    pub left: Vec<(String, u64, String)>,
    /// Number of captures that stay and contain erased text.
    pub mentions: u64,
    /// The first of these captures.
    pub mentioned_in: Vec<Mention>,
    /// Files in the folder that do not belong to the store: not searched.
    pub strangers: Vec<String>,
}

impl Proof {
    /// Returns whether no erased text was found.
    pub fn is_clean(&self) -> bool {
        self.left.is_empty()
    }
}

/// The texts to search for.
#[derive(Default)]
pub(super) struct Needles {
    urls: BTreeSet<Vec<u8>>,
    pieces: BTreeSet<Vec<u8>>,
}

impl Needles {
    pub(super) fn with(mut self, url: Option<Vec<u8>>) -> Needles {
        self.urls.extend(url.filter(|url| !url.is_empty()));
        self
    }
}

impl PageStore {
    /// Texts of some captures that an erasure will remove.
    pub(super) fn needles(&self, what: &Erasure) -> Result<Needles> {
        let mut needles = Needles::default();
        let is_meant = std::sync::Arc::clone(&what.keys);
        for found in self.engine().keys_where(move |key| is_meant(key)).take(CAPTURES) {
            let Ok(found) = found else { continue };
            let Ok(versions) = self.engine().versions_of(&found) else { continue };
            let goes = |version| (what.versions)(&found, version);
            // If a version stays, so does the URL.
            if versions.iter().all(|version| goes(*version)) {
                needles.urls.insert(key::url(&found).to_vec());
            }
            // An unreadable version has no text to search for.
            let read = |version| self.engine().get_version(&found, version).ok().flatten();
            let Some(value) = versions.into_iter().filter(|version| goes(*version)).find_map(read) else { continue };
            let body = value.body;
            for nth in 0..PIECES {
                let at = body.len() / (PIECES + 1) * (nth + 1);
                needles.pieces.extend(body.get(at..at + PIECE_BYTES).map(<[u8]>::to_vec));
            }
        }
        // Empty text is everywhere: that of a key which is not a page's.
        needles.urls.retain(|url| !url.is_empty());
        // A run of one byte proves nothing: it occurs everywhere.
        needles.pieces.retain(|piece| piece.iter().any(|b| *b != piece[0]));
        Ok(needles)
    }

    /// Searches every file.
    pub(super) fn prove(
        &self,
        what: &Erasure,
        set: &RuleSet,
        needles: &Needles,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Proof> {
        let texts: Vec<Vec<u8>> = needles.urls.iter().chain(&needles.pieces).cloned().collect();
        let urls = needles.urls.len();
        let of_all_times = set.matchers().all(Matcher::is_of_all_times);
        let mut proof = Proof { texts: texts.len() as u64, ..Proof::default() };
        let mut mention = |found: &[u8], text: usize| {
            proof.mentions += 1;
            if proof.mentioned_in.len() < LISTED {
                proof.mentioned_in.push(Mention { url: key::url(found).to_vec(), is_url: text < urls });
            }
        };
        let search = Search { texts: &texts, what, tombstones_too: of_all_times, mention: &mut mention, progress };
        let searched = self.engine().search(search)?;
        let left = searched.left.into_iter().map(|found| (found.file, found.offset, found.what)).collect();
        let (files, bytes, records) = (searched.files, searched.bytes, searched.records);
        Ok(Proof { files, bytes, records, left, strangers: searched.strangers, ..proof })
    }
}
