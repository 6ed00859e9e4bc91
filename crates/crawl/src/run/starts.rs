//! Start pages, pages that are named by their URLs, and pages that come into the scope.

use std::collections::HashSet;

use filemap::canonical::Canonicalizer;
use frontier::{FailureKind, Frontier, PageBrief, PageStatus};

use crate::error::Error;
use crate::links::Link;
use crate::settings::Settings;
use crate::settings::scope::Scope;

/// The start pages, with their canonical forms.
///
/// # Errors
/// One that has none.
pub fn seeds(settings: &Settings, canonicalizer: &dyn Canonicalizer) -> Result<Vec<Link>, Error> {
    let link = |seed: &String| {
        let link = Link::new(seed.as_bytes().to_vec(), canonicalizer);
        link.ok_or_else(|| Error::Usage(format!("{seed}: it has no canonical form by the rules of the store")))
    };
    settings.starts().map(link).collect()
}

/// Queues pages again that were refused and are in scope: the scope may be wider than it was, or
/// the address allowed. Returns how many.
///
/// # Errors
/// The frontier's.
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

/// Pages by their links, each once.
///
/// # Errors
/// A URL that cannot be fetched.
pub fn links(urls: &[String], canonicalizer: &dyn Canonicalizer, url_bytes: usize) -> Result<Vec<Link>, Error> {
    let link = |url: &String| Link::named(url, canonicalizer, url_bytes).map_err(Error::Usage);
    let links: Vec<Link> = urls.iter().map(link).collect::<Result<_, _>>()?;
    let mut known = HashSet::new();
    Ok(links.into_iter().filter(|link| known.insert(link.key.clone())).collect())
}
