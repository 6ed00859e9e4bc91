//! Repair: the value log alone gives the store back. Every whole record of every segment that can be found is entered in a new
//! index, removals hide what was put before them wherever it lies, and what is damaged is covered, so that it is not taken
//! for anything later.
//!
//! Invariants: a source that is not repaired in place is only read. What is being repaired is no store before all of it is
//! durable: its superblock gets its name last. Nothing whole is ever written over.

pub(crate) mod dictionaries;
pub(crate) mod files;
mod known;
pub(crate) mod rebuild;
pub(crate) mod survey;

use std::path::Path;

use crate::options::Canonicalizer;
use crate::record::Version;

/// Where a repaired store is to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairTo<'a> {
    /// In a new or empty directory. The source is only read.
    New(&'a Path),
    /// Where it lies. Index, key log and superblock are removed and made again, and damaged bytes of the segments are covered:
    /// ask before doing so, and keep a copy if there is room for one.
    InPlace,
}

/// How far a repair has come.
#[derive(Clone, Debug)]
pub struct RepairProgress {
    /// The file being read.
    pub file: String,
    /// Bytes read so far, of all segments.
    pub done_bytes: u64,
    /// Bytes to read in all.
    pub total_bytes: u64,
    /// Places found so far at which something is lost.
    pub losses: u64,
}

/// Something that did not come back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The file's name in the source.
    pub file: String,
    /// Byte offset of what is lost.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// The key of the record that lay there, if that much of it is whole.
    pub key: Option<Vec<u8>>,
    /// Its version, likewise.
    pub version: Option<Version>,
    /// What is wrong.
    pub what: String,
}

/// A file that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// Its name in the source.
    pub file: String,
    /// Why.
    pub why: String,
}

/// What a repair found and did.
#[derive(Clone, Debug)]
pub struct RepairReport {
    /// Segments that were read.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whole records in them.
    pub records: u64,
    /// Whole removals among them.
    pub removals: u64,
    /// Keys that the repaired store has.
    pub keys: u64,
    /// What is lost, in the order in which it was found. A record that was replaced or removed long ago is counted too if it is
    /// damaged: nobody can tell any more.
    pub losses: Vec<Loss>,
    /// Versions whose chunks or body are not there, while later versions of their keys, or removals, are: nearly always what
    /// compaction has left of versions that were not kept. No loss.
    pub outdated: u64,
    /// Bytes after what the last superblock vouches for that are no whole record: a writer's last words. No loss.
    pub unfinished_bytes: u64,
    /// Files that were left out though they look like a store's.
    pub ignored: Vec<Ignored>,
    /// What nothing was left to tell, in words: which segments there were, whether those that are not there were given back by
    /// compaction or are lost, whether what was removed is known to be. No loss that is known, and none that can be ruled out.
    pub unwitnessed: Vec<String>,
    /// The rule by which keys are made, as the superblock or the caller had it.
    pub canonicalizer: Canonicalizer,
    /// Whether the superblock told that, not the caller.
    pub is_rule_known: bool,
}

impl RepairReport {
    /// Bytes that are lost.
    pub fn lost_bytes(&self) -> u64 {
        self.losses.iter().map(|l| l.bytes).sum()
    }

    /// Whether all came back that was found to be there.
    pub fn is_complete(&self) -> bool {
        self.losses.is_empty() && self.ignored.is_empty()
    }
}
