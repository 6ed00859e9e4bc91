//! Asks for a page: by the crawl's fetcher or the caller's own, at the spelling of its URL where
//! it is.

use std::collections::HashSet;
use std::time::Duration;

use frontier::Assignment;

use super::discovery;
use super::parts::Crawl;
use super::{Broken, Visit};
use crate::failure::{Failure, Reason};
use crate::fetch::{Answer, Kind, Validators};
use crate::hooks;
use crate::robots::cache;

/// Attempts at a page whose body breaks off, before what there is of it is stored.
const ATTEMPTS_AT_A_BODY: u8 = 3;

/// Fails if a pattern of the crawl refuses a page.
pub(super) fn is_refused(crawl: &Crawl, assignment: &Assignment, visit: &Visit, url: &str) -> Result<(), Failure> {
    let refusal = match visit.requisite {
        Some(_) => crawl.refusal_of_requisite(url),
        None => crawl.refusal(url, assignment.is_seed),
    };
    refusal.map_or(Ok(()), Err)
}

/// Asks for a page. Where it is at another spelling of its URL, by a redirect, it is asked for
/// there at once: both are one page to the frontier, which would not ask for it again.
pub(super) async fn ask(
    crawl: &Crawl,
    assignment: &Assignment,
    validators: &Validators,
    visit: &mut Visit,
) -> Result<Answer, Broken> {
    let mut asked = HashSet::from([visit.url.clone()]);
    loop {
        let answer = get(crawl, &visit.url, validators, discovery::kind(crawl, &visit.url, visit.requisite)).await?;
        let location = answer.headers.get("Location").filter(|_| (300..400).contains(&answer.status));
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
        // One more request than the frontier knows of.
        let turn = visit.delay.flatten().unwrap_or(Duration::from_millis(crawl.settings.delay_ms()));
        visit.hold = Some(visit.hold.unwrap_or_default() + turn).filter(|hold| !hold.is_zero());
        visit.url = target.url;
    }
}

/// Asks for a URL: by the caller's own fetcher, if that is a page and there is one.
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

/// Whether a body that is not whole is worth another attempt, before what there is of it is kept.
pub(super) fn is_tried_again(crawl: &Crawl, assignment: &Assignment, answer: &Answer) -> bool {
    let is_accident = answer.cut.as_ref().is_some_and(|cut| cut.reason != Reason::BodyLimit);
    let most = crawl.settings.attempts.min(ATTEMPTS_AT_A_BODY);
    let is_last = assignment.failed_attempts.saturating_add(1) >= most;
    is_accident && !is_last && (200..300).contains(&answer.status)
}
