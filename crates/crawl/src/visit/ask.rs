//! Requests a page: by the crawl's fetcher or a custom one, and again at another spelling of its
//! URL if a redirect leads there.

use std::collections::HashSet;
use std::time::Duration;

use frontier::Assignment;

use super::discovery;
use super::parts::Crawl;
use super::{Broken, Visit};
use crate::failure::{Failure, Reason};
use crate::fetch::{Answer, Kind, Validators};
use crate::hooks;
use crate::links::head;
use crate::robots::cache;

/// Attempts at a page whose body breaks off, before the partial body is stored.
const ATTEMPTS_AT_A_BODY: u8 = 3;

/// Fails if a pattern of the crawl refuses the page.
pub(super) fn is_refused(crawl: &Crawl, assignment: &Assignment, visit: &Visit, url: &str) -> Result<(), Failure> {
    let refusal = match visit.requisite {
        Some(_) => crawl.refusal_of_requisite(url),
        None => crawl.refusal(url, assignment.is_seed),
    };
    refusal.map_or(Ok(()), Err)
}

/// Requests a page. A redirect to another spelling of its URL is followed at once: both are one
/// page to the frontier, which would not request it again.
pub(super) async fn ask(
    crawl: &Crawl,
    assignment: &Assignment,
    validators: &Validators,
    visit: &mut Visit,
) -> Result<Answer, Broken> {
    let mut asked = HashSet::from([visit.url.clone()]);
    loop {
        let answer = get(crawl, &visit.url, validators, discovery::kind(crawl, &visit.url, visit.requisite)).await?;
        let location = head::location(&answer.headers).filter(|_| (300..400).contains(&answer.status));
        let target = location.and_then(|location| discovery::target(crawl, &visit.url, location));
        let Some(target) = target.filter(|target| target.key == assignment.key) else { return Ok(answer) };
        if asked.len() > usize::from(crawl.settings.limits.redirects) || !asked.insert(target.url.clone()) {
            visit.met(Reason::RedirectLimit, 1);
            return Ok(answer);
        }
        is_refused(crawl, assignment, visit, &target.url)?;
        let (origin, path) = cache::split(&target.url);
        if crawl.settings.obeys_robots {
            let (site, _) = crawl.robots.site(origin, &crawl.pages, &crawl.fetcher).await?;
            if !site.robots.as_ref().map_err(Failure::clone)?.allows(path) {
                return Err(Failure::from(Reason::Robots).into());
            }
        }
        if let Some(level) = crawl.sitemaps.level(&visit.url) {
            crawl.sitemaps.name(std::iter::once(target.url.as_str()), level)?;
        }
        // The frontier does not know of this extra request.
        let turn = visit.delay.flatten().unwrap_or(Duration::from_millis(crawl.settings.delay_ms()));
        visit.hold = Some(visit.hold.unwrap_or_default() + turn).filter(|hold| !hold.is_zero());
        visit.url = target.url;
    }
}

/// Requests a URL; for a page uses the custom fetcher, if there is one.
async fn get(crawl: &Crawl, url: &str, validators: &Validators, kind: Kind) -> Result<Answer, Failure> {
    let limits = &crawl.settings.limits;
    match &crawl.hooks.fetch {
        Some(own) if kind == Kind::Page => {
            let answer = hooks::get(own, url, limits.total, limits.body_bytes).await?;
            crawl.fetcher.check_type(answer.status, answer.headers.get("Content-Type"))?;
            Ok(answer)
        }
        _ => crawl.fetcher.get(url, validators, kind).await,
    }
}

/// Returns whether an incomplete body deserves another attempt, before the partial one is stored.
pub(super) fn is_tried_again(crawl: &Crawl, assignment: &Assignment, answer: &Answer) -> bool {
    let is_accident = answer.cut.as_ref().is_some_and(|cut| cut.reason != Reason::BodyLimit);
    let most = crawl.settings.attempts.min(ATTEMPTS_AT_A_BODY);
    let is_last = assignment.failed_attempts.saturating_add(1) >= most;
    is_accident && !is_last && (200..300).contains(&answer.status)
}
