//! Compresses bodies again while segments are rewritten: those that need a retired dictionary, and
//! on request all that a higher level or a newer dictionary makes shorter.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::core::Core;
use crate::dictionary::{Dictionary, unpack};
use crate::draft::Packed;
use crate::error::Result;
use crate::format::record::{Codec, DictionaryId, Kind};
use crate::format::row::Uses;
use crate::format::segment::{Placed, SegmentId};
use crate::format::{chunks, dictionary};

/// A value, or a description of the damage that hides it.
type Found<T> = std::result::Result<T, String>;

/// Which bodies to compress again.
pub(crate) struct Repack {
    /// Dictionaries that no record may need any more.
    retired: BTreeSet<DictionaryId>,
    /// The level at which other bodies are compressed again, if that makes them shorter.
    level: Option<i32>,
}

impl Repack {
    /// With a level all bodies, else only those that need a retired dictionary.
    pub(crate) fn new(core: &Core, level: Option<i32>) -> Repack {
        Repack { retired: core.dictionaries.retired(), level }
    }

    /// Returns whether all bodies are to be compressed again.
    pub(crate) fn is_of_all(&self) -> bool {
        self.level.is_some()
    }

    /// The segments with records that need a retired dictionary.
    pub(crate) fn needing(&self, core: &Arc<Core>) -> Result<Vec<SegmentId>> {
        if self.retired.is_empty() {
            return Ok(Vec::new());
        }
        let uses = core.wait(|core| async move { core.index.uses().await })?;
        let needs = |uses: &Uses| self.retired.iter().any(|id| uses.may_name(*id));
        Ok(uses.into_iter().filter(|(_, uses)| needs(uses)).map(|(id, _)| id).collect())
    }

    /// Of the live records of a segment, the new bodies by the number of the record.
    pub(crate) fn bodies(
        &self,
        core: &Arc<Core>,
        records: &[Placed<'_>],
        live: &[bool],
    ) -> Result<Found<HashMap<usize, Packed>>> {
        let mut repacked = HashMap::new();
        for (nth, (record, place, _)) in records.iter().enumerate() {
            let needed = record.dictionary();
            let is_retired = needed.is_some_and(|id| self.retired.contains(&id));
            let may_shrink = self.is_of_all() && record.kind == Kind::Page && record.codec != Codec::Chunks;
            if !live[nth] || !(is_retired || may_shrink) {
                continue;
            }
            let with = match needed.map(|id| there(core, id)).transpose()? {
                Some(Err(what)) => return Ok(Err(what)),
                Some(Ok(with)) => Some(with),
                None => None,
            };
            let body = match unpack(record, with.as_deref()) {
                Ok(body) => body,
                Err(what) => return Ok(Err(format!("{what} (offset {})", place.offset))),
            };
            let chosen = core.dictionaries.choose(record.key);
            let packed = Packed::at(&body, chosen, self.level.unwrap_or(chunks::LEVEL));
            if is_retired || packed.len() < record.payload.len() {
                repacked.insert(nth, packed);
            }
        }
        Ok(Ok(repacked))
    }
}

/// A dictionary, unless it is damaged or missing.
fn there(core: &Arc<Core>, id: DictionaryId) -> Result<Found<Arc<Dictionary>>> {
    let missing = || format!("{} that it needs is missing", core.bucket.named(&dictionary::object(id)));
    match core.wait(move |core| async move { core.dictionaries.get(id).await }) {
        Err(error) if error.is_damage() => Ok(Err(error.to_string())),
        found => Ok(found?.ok_or_else(missing)),
    }
}
