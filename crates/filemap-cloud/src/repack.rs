//! Compresses bodies again while segments are rewritten: those that need a retired dictionary, and
//! on request all that a higher level or a newer dictionary makes shorter.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::core::Core;
use crate::dictionary::{Dictionary, unpack};
use crate::draft::Packed;
use crate::error::Result;
use crate::format::record::{Codec, DictionaryId, Kind};
use crate::format::row::{self, Uses};
use crate::format::segment::{Placed, SegmentId};
use crate::format::{chunks, dictionary};

/// A value, or a description of the damage that hides it.
type Found<T> = std::result::Result<T, String>;

/// Which bodies to compress again.
pub(crate) struct Repack {
    /// Dictionaries that no record may need any more.
    retired: BTreeSet<DictionaryId>,
    /// Those of them that cannot be read, with the reason: bodies that need one stay as they are,
    /// so that their segments can still be rewritten.
    lost: BTreeMap<DictionaryId, String>,
    /// The level at which other bodies are compressed again, if that makes them shorter.
    level: Option<i32>,
}

impl Repack {
    /// With a level all bodies, else only those that need a retired dictionary.
    pub(crate) fn new(core: &Core, level: Option<i32>) -> Repack {
        Repack { retired: core.dictionaries.retired(), lost: BTreeMap::new(), level }
    }

    /// Returns whether all bodies are to be compressed again.
    pub(crate) fn is_of_all(&self) -> bool {
        self.level.is_some()
    }

    /// Of the segments that count, those with records that need a retired dictionary which can be
    /// read. Notes the others.
    pub(crate) fn needing(
        &mut self,
        core: &Arc<Core>,
        counted: &BTreeMap<SegmentId, row::Bytes>,
    ) -> Result<Vec<SegmentId>> {
        if self.retired.is_empty() {
            return Ok(Vec::new());
        }
        let mut uses = core.wait(|core| async move { core.index.uses().await })?;
        uses.retain(|id, _| counted.contains_key(id));
        let named = uses.values().filter_map(|uses| match uses {
            Uses::Named(named) => Some(named),
            Uses::Any => None,
        });
        let named: BTreeSet<DictionaryId> = named.flatten().copied().collect();
        for id in named.intersection(&self.retired).copied() {
            if let Err(what) = there(core, id)? {
                self.lost.insert(id, what);
            }
        }
        let needs = |uses: &Uses| self.retired.iter().any(|id| !self.lost.contains_key(id) && uses.may_name(*id));
        Ok(uses.into_iter().filter(|(_, uses)| needs(uses)).map(|(id, _)| id).collect())
    }

    /// The retired dictionaries that segments need and that cannot be read, with the reason.
    pub(crate) fn damage(&self, core: &Core) -> impl Iterator<Item = String> {
        let name = move |id: &DictionaryId| core.bucket.named(&dictionary::object(*id));
        self.lost.iter().map(move |(id, what)| format!("{}: bodies that need it stay as they are: {what}", name(id)))
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
            let is_lost = needed.is_some_and(|id| self.lost.contains_key(&id));
            if !live[nth] || is_lost || !(is_retired || may_shrink) {
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
    let missing = || format!("{} is missing", core.bucket.named(&dictionary::object(id)));
    match core.wait(move |core| async move { core.dictionaries.get(id).await }) {
        Err(error) if error.is_damage() => Ok(Err(error.to_string())),
        found => Ok(found?.ok_or_else(missing)),
    }
}
