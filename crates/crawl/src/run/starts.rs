//! Start pages, requested pages, and pages that come into scope.

use std::collections::HashSet;

use filemap::canonical::Canonicalizer;
use frontier::{FailureKind, Frontier, PageBrief, PageStatus};

use super::fleet::Fleet;
use crate::error::Error;
use crate::links::Link;
use crate::settings::Settings;
use crate::settings::scope::Scope;

/// Start pages with their canonical forms.
///
/// # Errors
/// A start page without a canonical form.
pub(super) fn starts<'s>(
    starts: impl Iterator<Item = &'s String>,
    canonicalizer: &dyn Canonicalizer,
) -> Result<Vec<Link>, Error> {
    let link = |start: &String| {
        let link = Link::new(start.as_bytes().to_vec(), canonicalizer);
        link.ok_or_else(|| Error::Usage(format!("{start}: it has no canonical form by the rules of the store")))
    };
    starts.map(link).collect()
}

/// This crawl's own start pages; the others are sent to their shards, durably. In a fleet the
/// redirect targets of start pages count as start pages.
///
/// # Errors
/// Errors of the outbox; a start page without a canonical form.
pub(super) fn share(
    fleet: Option<&mut Fleet>,
    settings: &mut Settings,
    canonicalizer: &dyn Canonicalizer,
) -> Result<Vec<Link>, Error> {
    let (Some(fleet), Some(mut ours)) = (fleet, settings.fleet.clone()) else {
        return starts(settings.starts(), canonicalizer);
    };
    let mut shared = fleet.share(starts(settings.seeds.iter(), canonicalizer)?, ours.sent_seeds.0)?;
    shared.extend(fleet.share(starts(settings.listed.iter(), canonicalizer)?, ours.sent_seeds.1)?);
    shared.extend(fleet.share(starts(settings.reached.iter(), canonicalizer)?, ours.sent_reached)?);
    fleet.commit()?;
    ours.sent_seeds = (settings.seeds.len(), settings.listed.len());
    ours.sent_reached = settings.reached.len();
    settings.fleet = Some(ours);
    Ok(shared)
}

/// Queues refused pages again that are now in scope: the scope or the allowed addresses may be
/// wider. Returns their number.
///
/// # Errors
/// Errors of the frontier.
pub fn take_back(frontier: &mut Frontier, scope: &Scope) -> Result<u32, Error> {
    let is_refused =
        |page: &PageBrief<'_>| page.status == PageStatus::Gone && page.last_failure == Some(FailureKind::Refused);
    let mut pages = Vec::new();
    for page in frontier.list(is_refused) {
        let page = page?;
        pages.extend(scope.contains(&page.url).then_some(page.page));
    }
    Ok(frontier.retry(&pages)?)
}

/// Queues pages again that were left to another crawl, and are now ours. Returns their number.
///
/// # Errors
/// Errors of the frontier.
pub(super) fn bring_back(frontier: &mut Frontier, is_ours: impl Fn(&str) -> bool) -> Result<u32, Error> {
    let was_left =
        |page: &PageBrief<'_>| page.status == PageStatus::Gone && page.last_failure == Some(FailureKind::Elsewhere);
    let mut pages = Vec::new();
    for page in frontier.list(was_left) {
        let page = page?;
        pages.extend(is_ours(&page.url).then_some(page.page));
    }
    Ok(frontier.retry(&pages)?)
}

/// Converts URLs to links, each page once.
///
/// # Errors
/// A URL that cannot be fetched.
pub fn links(urls: &[String], canonicalizer: &dyn Canonicalizer, url_bytes: usize) -> Result<Vec<Link>, Error> {
    let link = |url: &String| Link::named(url, canonicalizer, url_bytes).map_err(Error::Usage);
    let links: Vec<Link> = urls.iter().map(link).collect::<Result<_, _>>()?;
    let mut known = HashSet::new();
    Ok(links.into_iter().filter(|link| known.insert(link.key.clone())).collect())
}
