//! Puts and removals. A check and the put that follows are atomic for others: both hold the lock
//! of the URL.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use filemap::access::{ListKind, PutRule, Removed, RemovedVersions, Scope, keys};
use filemap::canonical::url_of_key;
use filemap::page::RecordKind;
use filemap::{Page, Put, Result, Variant, Version};

use crate::core::{Core, Found};
use crate::draft::Draft;
use crate::error;
use crate::walk::Walk;
use crate::writer::Writer;

/// Number of keys of a removal fetched at once.
const KEYS_AT_ONCE: usize = 1_000;

/// Decides when two versions of the same URL, time and body count as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sameness {
    /// Equal descriptions, except for the record's id: another record of the same visit.
    Description,
    Everything,
}

pub(crate) fn writer(core: &Core) -> Result<&Writer> {
    Ok(core.writer.as_ref().ok_or_else(|| core.index.read_only())?)
}

/// Puts a page by a rule; `None` if the rule skips it.
pub(crate) fn put(core: &Arc<Core>, page: &Page, rule: PutRule) -> Result<Option<Put>> {
    put_with(core, page, &page.body, rule)
}

/// As [`put`], but with this body instead of the page's.
pub(crate) fn put_with(core: &Arc<Core>, page: &Page, body: &[u8], rule: PutRule) -> Result<Option<Put>> {
    let writer = writer(core)?;
    let canonical = core.canonical(&page.url)?;
    let draft = Draft::new(page, &canonical, body)?;
    let is_revisit = page.kind == RecordKind::Revisit;
    let (skips, may_refer) = match rule {
        PutRule::IfChanged => (None, true),
        PutRule::IfNew => (Some(Sameness::Description), !is_revisit),
        PutRule::Restore => (Some(Sameness::Everything), false),
        PutRule::RestoreUnchanged => (Some(Sameness::Everything), true),
        // `Always`, and rules that a later version may add.
        _ => (None, false),
    };
    if skips.is_none() && !may_refer {
        // No lookup is needed: the body is compressed before the URL is locked.
        let draft = draft.with_body(body, core.dictionaries.choose(&canonical));
        let _lock = writer.lock(&canonical);
        return Ok(Some(Put::Stored(writer.put(&draft)?)));
    }
    let _lock = writer.lock(&canonical);
    if let Some(sameness) = skips
        && is_held(core, page, &draft, sameness)?
    {
        return Ok(None);
    }
    if let Some(original) = if may_refer { equal_newest(core, &draft)? } else { None } {
        return Ok(Some(Put::Unchanged(writer.put(&draft.referring_to(original))?)));
    }
    Ok(Some(Put::Stored(writer.put(&draft.with_body(body, core.dictionaries.choose(&canonical)))?)))
}

/// The version that owns the newest version's body, if that equals the draft's body and is
/// readable. One `GET`: a reference to a lost body would be lost as well.
fn equal_newest(core: &Arc<Core>, draft: &Draft) -> Result<Option<Version>> {
    let (key, form, digest, body_bytes) = (draft.key.clone(), draft.form.clone(), draft.digest, draft.body_bytes);
    Ok(core.wait(move |core| async move {
        let newest = core.newest(&form, None).await?;
        let Some((version, row)) = newest.filter(|(_, row)| row.digest == digest && row.body_bytes == body_bytes)
        else {
            return Ok(None);
        };
        let original = row.original.unwrap_or(version);
        Ok(core.has_body(&key, original).await?.then_some(original))
    })?)
}

/// Returns whether the store already has this version.
fn is_held(core: &Arc<Core>, page: &Page, draft: &Draft, sameness: Sameness) -> Result<bool> {
    let (key, form, time_ms) = (draft.key.clone(), draft.form.clone(), draft.time_ms);
    let (digest, body_bytes) = (draft.digest, draft.body_bytes);
    let held = core.wait(|core| async move {
        let mut held = Vec::new();
        let mut rows = core.rows_of(&form, Some(time_ms)).await?;
        while let Some((_, version, row)) = rows.next(&core.bucket).await? {
            // Rows are in descending order of time: older ones need no check.
            if version.time_ms != time_ms {
                break;
            }
            if row.digest != digest || row.body_bytes != body_bytes {
                continue;
            }
            match core.page(&key, version, &row).await {
                // The body is damaged: putting it again repairs it.
                Err(error) if error.is_damage() => {}
                page => held.extend(page?.map(|page| Page { body: Vec::new(), ..page })),
            }
        }
        Ok(held)
    })?;
    let mut wanted = keys::description(page);
    if let Some(revisit) = &mut wanted.revisit {
        revisit.original = None;
    }
    Ok(held.into_iter().any(|mut stored| {
        if sameness == Sameness::Description {
            stored.record_id.clone_from(&wanted.record_id);
        }
        stored == wanted
    }))
}

/// Removes all versions of a URL, or of one of its variants.
pub(crate) fn remove(core: &Arc<Core>, url: &[u8], variant: Option<&Variant>) -> Result<bool> {
    let writer = writer(core)?;
    let canonical = core.canonical(url)?;
    let _lock = writer.lock(&canonical);
    let mut was_there = false;
    for key in keys_of(core, &canonical, variant)? {
        let is_meant = keys::is_of(ListKind::Pages, &key) || keys::is_of(ListKind::Variants, &key);
        was_there |= remove_key(core, writer, &key)? && is_meant;
    }
    Ok(was_there)
}

/// The keys under a URL; with a variant, its own key and those beside it.
fn keys_of(core: &Arc<Core>, canonical_url: &[u8], variant: Option<&Variant>) -> Result<Vec<Vec<u8>>> {
    if variant.is_some() {
        let of_kind = |kind| keys::key(canonical_url, kind, variant);
        let beside = RecordKind::ALL.into_iter().filter(|kind| !kind.is_page()).map(of_kind);
        return Ok(beside.chain([of_kind(RecordKind::Response)]).collect());
    }
    let mut walk = Walk::new(core, keys::ranges_of_url(canonical_url), None, false);
    let found = core.wait_for(async move { walk.step(usize::MAX).await })?;
    Ok(found.iter().filter_map(|(form, _)| keys::key_of_form(form)).collect())
}

/// Removes all versions of a key. The caller holds the lock of its URL.
fn remove_key(core: &Arc<Core>, writer: &Writer, key: &[u8]) -> Result<bool> {
    let form = keys::form(key);
    let found = versions(core, &form)?;
    if !found.is_empty() {
        writer.remove(key, &form, &found, true)?;
    }
    Ok(!found.is_empty())
}

pub(crate) fn versions(core: &Arc<Core>, form: &[u8]) -> Result<Vec<Found>> {
    let form = form.to_vec();
    Ok(core.wait(|core| async move { core.versions(&form, None).await })?)
}

/// Removes all pages in a scope.
pub(crate) fn remove_all(
    core: &Arc<Core>,
    scope: &Scope,
    each: &mut dyn FnMut(Result<Removed<'_>>) -> ControlFlow<()>,
) -> Result<u64> {
    let writer = writer(core)?;
    let takes = scope.filter();
    let mut walk = Walk::new(core, keys::ranges_of_all(scope), None, false);
    let mut pages = 0;
    loop {
        let (rest, found) = core.wait_for(async move {
            let found = walk.step(KEYS_AT_ONCE).await?;
            Ok::<_, error::Error>((walk, found))
        })?;
        walk = rest;
        for (form, _) in &found {
            let Some(key) = keys::key_of_form(form).filter(|key| takes(url_of_key(key))) else { continue };
            let url = url_of_key(&key);
            let was_there = {
                let _lock = writer.lock(url);
                remove_key(core, writer, &key)?
            };
            if !was_there {
                continue;
            }
            let removed = if keys::is_of(ListKind::Pages, &key) {
                pages += 1;
                Removed::page(url)
            } else if keys::is_of(ListKind::Variants, &key) {
                Removed::variant(url)
            } else {
                Removed::beside(url)
            };
            // No lock is held, so the callback may call the store.
            if each(Ok(removed)).is_break() {
                return Ok(pages);
            }
        }
        if found.len() < KEYS_AT_ONCE {
            return Ok(pages);
        }
    }
}

/// Removes the versions of exactly one time.
pub(crate) fn remove_at(
    core: &Arc<Core>,
    url: &[u8],
    variant: Option<&Variant>,
    time_ms: i64,
) -> Result<Option<RemovedVersions>> {
    let writer = writer(core)?;
    let canonical = core.canonical(url)?;
    let _lock = writer.lock(&canonical);
    let key = keys::key(&canonical, RecordKind::Response, variant);
    let form = keys::form(&key);
    let (goes, stays): (Vec<Found>, Vec<Found>) =
        versions(core, &form)?.into_iter().partition(|(version, _)| version.time_ms == time_ms);
    if goes.is_empty() {
        return Ok(None);
    }
    part(core, writer, &key, &goes, &stays)?;
    let mut removed = RemovedVersions::default();
    for kind in RecordKind::ALL.into_iter().filter(|kind| !kind.is_page()) {
        let key = keys::key(&canonical, kind, variant);
        let form = keys::form(&key);
        let of_time = |(version, _): &Found| version.time_ms == time_ms;
        let found: Vec<Found> = versions(core, &form)?.into_iter().filter(of_time).collect();
        removed.beside += found.len() as u64;
        if !found.is_empty() {
            writer.remove(&key, &form, &found, false)?;
        }
    }
    // Removed last: after an interruption a repeated removal still finds the rest.
    writer.remove(&key, &form, &goes, false)?;
    removed.versions = goes.len() as u64;
    Ok(Some(removed))
}

/// Puts versions again whose body belongs to a version that is removed: the first with the body,
/// the others as references to it.
fn part(core: &Arc<Core>, writer: &Writer, key: &[u8], goes: &[Found], stays: &[Found]) -> Result<()> {
    let goes = |original: &Version| goes.iter().any(|(version, _)| version == original);
    let (mut bodies, mut replaced) = (HashMap::new(), Vec::new());
    for (version, row) in stays {
        let Some(original) = row.original.filter(goes) else { continue };
        let (sought, version, row) = (key.to_vec(), *version, *row);
        let page =
            core.wait(|core| async move { core.page(&sought, version, &row).await?.ok_or_else(|| core.gone(&row)) })?;
        let draft = Draft::new(&page, url_of_key(key), &page.body)?;
        match bodies.get(&original) {
            Some(whole) => writer.put(&draft.referring_to(*whole))?,
            None => {
                let draft = draft.with_body(&page.body, core.dictionaries.choose(key));
                *bodies.entry(original).or_insert(writer.put(&draft)?)
            }
        };
        replaced.push((version, row));
    }
    if !replaced.is_empty() {
        writer.remove(key, &keys::form(key), &replaced, false)?;
    }
    Ok(())
}
