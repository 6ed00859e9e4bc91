//! Decides whether a page may be requested now: by robots.txt, by its host's delay, and by the
//! turns at its address.

use std::sync::atomic::Ordering;
use std::time::Duration;

use frontier::Assignment;

use super::parts::Crawl;
use super::{Broken, Visit, discovery};
use crate::failure::{Failure, Reason};
use crate::links;
use crate::robots::cache;

/// Checks robots.txt. If that took a request, or set a delay unknown to the frontier, the page is
/// fetched later. The first visit to a host in scope also returns its sitemaps, whatever happens
/// to the page.
pub(super) async fn ask_robots(crawl: &Crawl, assignment: &Assignment, visit: &mut Visit) -> Result<(), Broken> {
    let url = assignment.url.as_str();
    let of_host = crawl.fetcher.hosts().delay(links::host(url));
    if !crawl.settings.obeys_robots {
        return wait_for(crawl, assignment, of_host, false, visit);
    }
    let (origin, path) = cache::split(&assignment.url);
    if crawl.fetcher.has_turns() && !crawl.robots.has(origin) && crawl.robots.recall(origin, &crawl.pages).is_none() {
        ask_address(crawl, url, visit).await?;
    }
    let (site, was_fetched) = crawl.robots.site(origin, &crawl.pages, &crawl.fetcher).await?;
    let robots = site.robots.as_ref().map_err(Failure::clone)?;
    let most = crawl.settings.limits.crawl_delay;
    visit.met(Reason::RobotsLimit, u64::from(was_fetched && robots.is_cut));
    visit.met(Reason::CrawlDelayLimit, u64::from(was_fetched && robots.crawl_delay > Some(most)));
    let own = of_host.unwrap_or(Duration::from_millis(crawl.settings.delay_ms()));
    let delay = robots.crawl_delay.map(|delay| delay.min(most).max(own)).or(of_host);
    visit.delay = Some(delay);
    let are_wanted = crawl.settings.sitemaps && !robots.sitemaps.is_empty() && crawl.scope.contains(url);
    if are_wanted && !site.sitemaps_told.swap(true, Ordering::Relaxed) {
        let told = discovery::of_robots(crawl, &cache::url_of(origin), &robots.sitemaps)?;
        visit.sitemaps = visit.take(told);
        visit.met(Reason::SitemapLimit, robots.more_sitemaps);
    }
    if !robots.allows(path) {
        return Err(Failure::from(Reason::Robots).into());
    }
    wait_for(crawl, assignment, delay, was_fetched, visit)
}

/// Postpones the page if its host's address must be left alone first.
pub(super) async fn ask_address(crawl: &Crawl, url: &str, visit: &mut Visit) -> Result<(), Broken> {
    match crawl.fetcher.turn(url).await {
        None => Ok(()),
        turn => {
            visit.hold = visit.hold.max(turn);
            visit.asked_nobody = true;
            Err(Broken::Later)
        }
    }
}

/// Postpones the page if its host must be left alone first: the request for robots.txt has just
/// begun, or the start of the last request is unknown.
fn wait_for(
    crawl: &Crawl,
    assignment: &Assignment,
    delay: Option<Duration>,
    was_fetched: bool,
    visit: &mut Visit,
) -> Result<(), Broken> {
    visit.delay = Some(delay);
    let is_news = delay.is_some_and(|delay| assignment.host_delay_ms != Some(delay.as_millis() as u64));
    let turn = delay.unwrap_or(Duration::from_millis(crawl.settings.delay_ms()));
    if (was_fetched || is_news) && !turn.is_zero() {
        visit.hold = Some(turn);
        return Err(Broken::Later);
    }
    Ok(())
}
