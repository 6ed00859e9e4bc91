//! Start pages, pages that are named by their URLs, and pages that come into the scope.

use std::collections::HashSet;

use filemap::canonical::Canonicalizer;
use fm_cli::{Failure, words};
use frontier::{FailureKind, Frontier, PageBrief, PageStatus};

use crate::failure::of_frontier;
use crate::links::Link;
use crate::scope::Scope;
use crate::settings::Settings;

/// The start pages, with their canonical forms.
pub fn seeds(settings: &Settings, canonicalizer: &dyn Canonicalizer) -> Result<Vec<Link>, Failure> {
    let link = |seed: &String| {
        let link = Link::new(seed.as_bytes().to_vec(), canonicalizer);
        link.ok_or_else(|| Failure::Usage(format!("{seed}: it has no canonical form by the rules of the store")))
    };
    settings.starts().map(link).collect()
}

/// Queues pages again that were refused and are in scope: the scope may be wider than it was, or
/// the address allowed.
pub fn take_back(frontier: &mut Frontier, scope: &Scope) -> Result<(), Failure> {
    let is_refused =
        |page: &PageBrief<'_>| page.status == PageStatus::Gone && page.last_failure == Some(FailureKind::Refused);
    let mut pages = Vec::new();
    for page in frontier.list(is_refused) {
        let page = page.map_err(of_frontier)?;
        pages.extend(scope.contains(&page.url).then_some(page.page));
    }
    let count = frontier.retry(&pages).map_err(of_frontier)?;
    if count > 0 {
        words::complain(format_args!("{} that were refused are tried again", words::count(u64::from(count), "page")));
    }
    Ok(())
}

/// Pages by their links, each once.
pub fn links(urls: &[String], canonicalizer: &dyn Canonicalizer, url_bytes: usize) -> Result<Vec<Link>, Failure> {
    let link = |url: &String| Link::named(url, canonicalizer, url_bytes).map_err(Failure::Usage);
    let links: Vec<Link> = urls.iter().map(link).collect::<Result<_, _>>()?;
    let mut known = HashSet::new();
    Ok(links.into_iter().filter(|link| known.insert(link.key.clone())).collect())
}
