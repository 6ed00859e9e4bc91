//! The search after an erasure: every file of the store, as it lies and expanded, for what went.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use filemap_core::erase::{Erasure, Search};

use crate::error::Result;
use crate::page::key;
use crate::store::PageStore;
use crate::store::rules::{Matcher, RuleSet};

/// Captures whose text is searched for, at most.
const CAPTURES: usize = 256;
/// Pieces of each body, and bytes of a piece.
const PIECES: usize = 4;
const PIECE_BYTES: usize = 48;
/// Mentions listed; more are counted.
const LISTED: usize = 100;

/// A page that stays and that has text of what went: it links to it, or says the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// The canonical URL of the page.
    pub url: Vec<u8>,
    /// Whether what it has is a URL that went, and not a piece of a body.
    pub is_url: bool,
}

/// What the search has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Proof {
    /// Files that were searched.
    pub files: u64,
    /// Their bytes, as they lie.
    pub bytes: u64,
    /// Records that were expanded.
    pub records: u64,
    /// Texts that were searched for: URLs and pieces of bodies.
    pub texts: u64,
    /// Places that should not be: file, offset, and what is there.
    pub left: Vec<(String, u64, String)>,
    /// How many captures that stay have text of what went.
    pub mentions: u64,
    /// The first of them.
    pub mentioned_in: Vec<Mention>,
    /// Names in the folder that are none of the store's: not searched.
    pub strangers: Vec<String>,
}

impl Proof {
    /// Whether nothing was found that should not be there.
    pub fn is_clean(&self) -> bool {
        self.left.is_empty()
    }
}

/// What to search for.
#[derive(Default)]
pub(super) struct Needles {
    urls: BTreeSet<Vec<u8>>,
    pieces: BTreeSet<Vec<u8>>,
}

impl Needles {
    pub(super) fn with(mut self, url: Option<Vec<u8>>) -> Needles {
        self.urls.extend(url);
        self
    }
}

impl PageStore {
    /// Texts of some of what an erasure is about, as long as it is there.
    pub(super) fn needles(&self, what: &Erasure) -> Result<Needles> {
        let mut needles = Needles::default();
        let is_meant = std::sync::Arc::clone(&what.keys);
        for found in self.engine().keys_where(move |key| is_meant(key)).take(CAPTURES) {
            let Ok(found) = found else { continue };
            let Ok(versions) = self.engine().versions_of(&found) else { continue };
            let goes = |version| (what.versions)(&found, version);
            // Where something stays, so does the URL.
            if versions.iter().all(|version| goes(*version)) {
                needles.urls.insert(key::url(&found).to_vec());
            }
            // One that cannot be read has nothing to look for.
            let read = |version| self.engine().get_version(&found, version).ok().flatten();
            let Some(value) = versions.into_iter().filter(|version| goes(*version)).find_map(read) else { continue };
            let body = value.body;
            for nth in 0..PIECES {
                let at = body.len() / (PIECES + 1) * (nth + 1);
                needles.pieces.extend(body.get(at..at + PIECE_BYTES).map(<[u8]>::to_vec));
            }
        }
        // A filler of one byte is found everywhere, and says nothing.
        needles.pieces.retain(|piece| piece.iter().any(|b| *b != piece[0]));
        Ok(needles)
    }

    /// Searches every file.
    pub(super) fn prove(
        &self,
        what: &Erasure,
        set: &RuleSet,
        needles: &Needles,
        watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
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
        let search = Search { texts: &texts, what, removals_too: of_all_times, mention: &mut mention, progress: watch };
        let searched = self.engine().search(search)?;
        let left = searched.left.into_iter().map(|found| (found.file, found.offset, found.what)).collect();
        let (files, bytes, records) = (searched.files, searched.bytes, searched.records);
        Ok(Proof { files, bytes, records, left, strangers: searched.strangers, ..proof })
    }
}
