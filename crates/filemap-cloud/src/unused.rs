//! Deletes dictionaries that no segment needs: those replaced by newer ones, and those retired by
//! an erasure.
//!
//! A dictionary stays while a segment names it, rewritten ones included until their objects are
//! deleted: so also while a checkpoint needs one of these. It stays while a segment that no index
//! names may name it, as a repair may find that this was committed. Those that this handle has
//! trained stay until it is closed, unless it has retired them; those of fenced writers stay for
//! the grace, as their segments.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};

use filemap::access::Scope;

use crate::commit::SEGMENTS;
use crate::core::Core;
use crate::deletion;
use crate::dictionaries::Dictionaries;
use crate::dictionary::Dictionary;
use crate::error::Result;
use crate::failpoint::Fault;
use crate::format::dictionary::object;
use crate::format::record::DictionaryId;
use crate::format::segment::SegmentId;

/// Deletes the dictionaries of one shard that nothing needs; of retired ones also young ones.
/// Returns how many were deleted.
pub(crate) fn deleted(core: &Arc<Core>, grace: Duration) -> Result<u64> {
    let writer = core.writer.as_ref().ok_or_else(|| core.index.read_only())?;
    // A rewrite moves names from one segment to another.
    let _alone = writer.compacting.lock().unwrap_or_else(PoisonError::into_inner);
    let (used, retired) = core.dictionaries.used_and_retired();
    if retired.is_empty() {
        // After a failed commit the rows in memory may not be durable.
        writer.progress.check()?;
    } else {
        // Records that were appended before a retirement may name these: the index has to know it.
        writer.sync()?;
    }
    let (own, fault) = (writer.epoch, writer.fault);
    let oldest = SystemTime::now().checked_sub(grace).unwrap_or(SystemTime::UNIX_EPOCH);
    core.wait(move |core| async move {
        let listed = Dictionaries::listed(&core.bucket).await?;
        if listed.is_empty() {
            return Ok(0);
        }
        let orphans = last_orphan(&core, own).await?;
        let uses = core.index.uses().await?;
        let is_blind = Fault::DictionariesCollected.is_planted(fault);
        let mut unused = Vec::new();
        for (id, found) in listed {
            let is_needed = uses.values().any(|uses| uses.may_name(id)) || used.contains(&id);
            // One of this handle's own may have been stored just now, to be used from here on.
            let is_fresh = id.epoch >= own || SystemTime::from(found.last_modified) > oldest;
            let is_kept = is_needed || (is_fresh && !retired.contains(&id));
            if (is_kept && !is_blind) || orphans.is_some_and(|epoch| epoch >= id.epoch) {
                continue;
            }
            unused.push(object(id));
        }
        deletion::delete(&core, &unused).await?;
        Ok(unused.len() as u64)
    })
}

/// The latest epoch of a segment that no index names, of an earlier writer than this one: it may
/// name any dictionary of that epoch or an earlier one.
async fn last_orphan(core: &Core, own: u64) -> Result<Option<u64>> {
    let (rows, rewritten) = (core.index.segments().await?, core.index.rewritten().await?);
    let found = core.bucket.list(SEGMENTS).await?;
    let ids = found.iter().filter_map(|found| SegmentId::of_name(found.location.filename()?));
    let orphans = ids.filter(|id| id.epoch < own && !rows.contains_key(id) && !rewritten.contains_key(id));
    Ok(orphans.map(|id| id.epoch).max())
}

/// Stores nothing more with the dictionaries of one shard that may hold text of these sites, or of
/// all pages. Returns them.
pub(crate) fn retire(core: &Arc<Core>, may_hold: impl Fn(&[u8]) -> bool) -> Result<BTreeSet<DictionaryId>> {
    let writer = core.writer.as_ref().ok_or_else(|| core.index.read_only())?;
    let _turn = core.dictionaries.turn();
    let found = core.wait(|core| async move {
        // One that somebody has deleted is in memory alone: nothing more may be stored with it.
        let owned = core.dictionaries.owned();
        let mut found: BTreeMap<DictionaryId, Option<Arc<Dictionary>>> =
            owned.into_iter().map(|own| (own.id, Some(own))).collect();
        for (id, _) in Dictionaries::listed(&core.bucket).await? {
            match core.dictionaries.get(id).await {
                // What cannot be read may hold anything.
                Err(error) if error.is_damage() => _ = found.insert(id, None),
                dictionary => found.extend(dictionary?.map(|dictionary| (id, Some(dictionary)))),
            }
        }
        Ok(found)
    })?;
    let is_meant = |site: &[u8]| site.is_empty() || may_hold(site);
    let meant = found
        .into_iter()
        .filter(|(_, dictionary)| dictionary.as_ref().is_none_or(|dictionary| is_meant(&dictionary.facts.site)));
    let ids: BTreeSet<DictionaryId> = meant.map(|(id, _)| id).collect();
    writer.between_puts(|| core.dictionaries.retire(&ids));
    Ok(ids)
}

/// The objects of those of these dictionaries that still exist.
pub(crate) fn left(core: &Arc<Core>, ids: BTreeSet<DictionaryId>) -> Result<Vec<String>> {
    core.wait(move |core| async move {
        let listed = Dictionaries::listed(&core.bucket).await?.into_iter().map(|(id, _)| id);
        Ok(listed.filter(|id| ids.contains(id)).map(|id| core.bucket.named(&object(id))).collect())
    })
}

/// Returns whether pages of a site may be in a scope.
pub(crate) fn may_be_of(scope: &Scope, site: &[u8]) -> bool {
    let url = [site, b"/"].concat();
    let may_begin = scope.prefix.starts_with(site) || site.starts_with(&scope.prefix);
    let of_host = scope.clone().prefix(Vec::new());
    may_begin && (urlindex::host(&url).is_none() || of_host.filter()(&url))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_of_a_scope_if_any_page_of_it_may_be() {
        let sites = [&b"http://a.example"[..], b"https://a.example:8443", b"http://b.a.example", b"http://c.example"];
        let of = |scope: Scope| sites.map(|site| may_be_of(&scope, site));
        assert_eq!(of(Scope::new().host("A.example")), [true, true, false, false]);
        assert_eq!(of(Scope::new().domain("a.example")), [true, true, true, false]);
        assert_eq!(of(Scope::new().prefix("http://a.example/x")), [true, false, false, false]);
        assert_eq!(of(Scope::new().prefix("http")), [true, true, true, true]);
        assert_eq!(of(Scope::new().host("a.example").prefix("https:")), [false, true, false, false]);
        assert_eq!(filemap::access::keys::site(b"http://a.example/x"), sites[0]);
    }
}
