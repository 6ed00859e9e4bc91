//! One visit to one page, from robots.txt to the store.
//!
//! Visits run concurrently and touch neither frontier nor log: the result is returned as a
//! [`Visit`]. The page is put into the store before the result is sent, so that a commit, which
//! syncs the store first, never calls a missing page done.
//!
//! A redirect is a page with one link. The number of redirects in a row is in memory only: after a
//! restart it starts at 0, and the depth limit still ends the chain.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use filemap::{Page, PageHead, Put};
use fm_cli::times::now_ms;
use frontier::{Assignment, PageId};
use urlindex::ContentSeen;

use super::discovery::{self, Discovered};
use super::parts::Crawl;
use crate::failure::{Failure, Reason};
use crate::fetch::{Answer, Validators};
use crate::robots::cache;
use crate::{record, retry_after};

/// The result of a visit.
#[derive(Debug)]
pub struct Visit {
    /// The page.
    pub page: PageId,
    /// Its URL.
    pub url: String,
    /// Links from a seed.
    pub depth: u16,
    /// The result for the frontier.
    pub told: Told,
    /// The status of the answer.
    pub status: Option<u16>,
    /// Bytes of the body as received.
    pub wire_bytes: u64,
    /// Bytes of the body as stored.
    pub body_bytes: u64,
    /// The page that has the same body.
    pub duplicate_of: Option<String>,
    /// Limits that were met without failing the page, with how often.
    pub met: Vec<(Reason, u64)>,
    /// Links out of scope.
    pub out_of_scope: u64,
    /// Links of which a sitemap says when they changed, or how often they do. A place for hints of
    /// recrawls: the frontier takes none yet.
    pub hints: u64,
    /// Sitemaps that the host's robots.txt names, which nobody was told of before.
    pub sitemaps: Vec<String>,
    /// The crawl-delay of robots.txt.
    pub crawl_delay: Option<Duration>,
    /// How long to leave the host alone.
    pub hold: Option<Duration>,
    /// How long it took.
    pub took: Duration,
    /// This crawl stored the page but was stopped before the commit: it is fetched again, and has
    /// its version already.
    is_recorded: bool,
}

/// The result for the frontier.
#[derive(Debug)]
pub enum Told {
    /// The page was fetched.
    Fetched(Fetched),
    /// It was not fetched.
    Failed(Failure),
}

/// A fetched page.
#[derive(Debug, Default)]
pub struct Fetched {
    /// The time of the fetch.
    pub at_ms: i64,
    /// Its canonical links in scope.
    pub links: Vec<String>,
    /// Whether it has changed, if that is known.
    pub changed: Option<bool>,
    /// Whether its links are not followed, since another page with the same body has them.
    pub is_duplicate: bool,
}

/// Why a visit ends early.
enum Broken {
    /// The page fails.
    Page(Failure),
    /// The crawl fails: its store or its sets.
    Crawl(fm_cli::Failure),
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Broken {
        Broken::Page(failure)
    }
}

impl From<filemap::Error> for Broken {
    fn from(error: filemap::Error) -> Broken {
        match error.concerns_one_page() {
            true => Broken::Page(Failure::new(Reason::Unstorable, error.to_string())),
            false => Broken::Crawl(error.into()),
        }
    }
}

impl From<fm_cli::Failure> for Broken {
    fn from(failure: fm_cli::Failure) -> Broken {
        Broken::Crawl(failure)
    }
}

impl Visit {
    fn begin(assignment: &Assignment) -> Visit {
        Visit {
            page: assignment.page,
            url: assignment.url.clone(),
            depth: assignment.depth,
            told: Told::Fetched(Fetched::default()),
            status: None,
            wire_bytes: 0,
            body_bytes: 0,
            duplicate_of: None,
            met: Vec::new(),
            out_of_scope: 0,
            hints: 0,
            sitemaps: Vec::new(),
            crawl_delay: None,
            hold: None,
            took: Duration::ZERO,
            is_recorded: false,
        }
    }

    fn met(&mut self, reason: Reason, times: u64) {
        if times > 0 {
            self.met.push((reason, times));
        }
    }

    /// Counts what was discovered, and returns its links.
    fn take(&mut self, discovered: Discovered) -> Vec<String> {
        self.met.extend(discovered.met);
        self.out_of_scope += discovered.out_of_scope;
        self.hints += discovered.hints;
        discovered.links
    }
}

/// Visits a page.
///
/// # Errors
/// Those that end the crawl: of the store or a set.
pub async fn visit(crawl: &Crawl, assignment: Assignment) -> Result<Visit, fm_cli::Failure> {
    let begun = Instant::now();
    let mut visit = Visit::begin(&assignment);
    match attempt(crawl, &assignment, &mut visit).await {
        Ok(fetched) => visit.told = Told::Fetched(fetched),
        Err(Broken::Page(failure)) => {
            if failure.reason != Reason::Robots {
                keep_note(crawl, &record::failure(&visit.url, &failure, now_ms()))?;
            }
            visit.told = Told::Failed(failure);
        }
        Err(Broken::Crawl(failure)) => return Err(failure),
    }
    visit.took = begun.elapsed();
    Ok(visit)
}

/// Puts a note beside a page. Where a rule of an erasure refuses it, the failure is in the
/// frontier and the log only.
fn keep_note(crawl: &Crawl, note: &Page) -> Result<(), fm_cli::Failure> {
    match crawl.pages.put_page(note) {
        Err(error) if !error.concerns_one_page() => Err(error.into()),
        _ => Ok(()),
    }
}

async fn attempt(crawl: &Crawl, assignment: &Assignment, visit: &mut Visit) -> Result<Fetched, Broken> {
    let url = assignment.url.as_str();
    if assignment.depth > 0 && !crawl.scope.contains(url) && crawl.sitemaps.level(url).is_none() {
        return Err(Failure::from(Reason::Scope).into());
    }
    ask_robots(crawl, url, visit).await?;
    let known = crawl.pages.head(url)?;
    visit.is_recorded =
        !assignment.is_refresh && known.as_ref().is_some_and(|head| head.page.fetched_at_ms >= crawl.settings.begun_ms);
    let validators = match &known {
        Some(head) if !visit.is_recorded => record::validators(head),
        _ => Validators::default(),
    };
    let mut answer = crawl.fetcher.get(url, &validators, discovery::kind(crawl, url)).await?;
    let _places = std::mem::take(&mut answer.places);
    (visit.status, visit.wire_bytes, visit.body_bytes) =
        (Some(answer.status), answer.wire_bytes, answer.body.len() as u64);
    if let Some(cut) = answer.cut.as_ref().filter(|_| is_tried_again(crawl, assignment, &answer)) {
        return Err(cut.clone().into());
    }
    let cut = answer.cut.as_ref().map(|cut| cut.reason);
    let as_received = answer.as_received.then_some(Reason::KeptAsReceived);
    visit.met.extend(cut.into_iter().chain(as_received).map(|reason| (reason, 1)));
    take(crawl, url, answer, known.as_ref(), visit)
}

/// Whether a body that is not whole is worth another attempt, before what there is of it is kept.
fn is_tried_again(crawl: &Crawl, assignment: &Assignment, answer: &Answer) -> bool {
    let is_accident = answer.cut.as_ref().is_some_and(|cut| cut.reason != Reason::BodyLimit);
    let is_last = assignment.failed_attempts.saturating_add(1) >= crawl.settings.attempts;
    is_accident && !is_last && (200..300).contains(&answer.status)
}

/// Checks robots.txt, and waits if that took a request. Of a host in scope, its sitemaps come with
/// the visit the first time, whatever becomes of the page.
async fn ask_robots(crawl: &Crawl, url: &str, visit: &mut Visit) -> Result<(), Broken> {
    if !crawl.settings.obeys_robots {
        return Ok(());
    }
    let (origin, path) = cache::split(url);
    let (site, was_fetched) = crawl.robots.site(origin, &crawl.pages, &crawl.fetcher).await?;
    let robots = match &site.robots {
        Ok(robots) => robots,
        Err(failure) => {
            let retry_after_ms = Some(crawl.settings.retry.as_millis() as u64);
            return Err(Failure { retry_after_ms, ..failure.clone() }.into());
        }
    };
    let delay = robots.crawl_delay.map(|delay| delay.min(crawl.settings.limits.crawl_delay));
    visit.crawl_delay = delay;
    let are_wanted = crawl.settings.sitemaps && !robots.sitemaps.is_empty() && crawl.scope.contains(url);
    if are_wanted && !site.sitemaps_told.swap(true, Ordering::Relaxed) {
        let told = discovery::of_robots(crawl, &cache::url_of(origin), &robots.sitemaps)?;
        visit.sitemaps = visit.take(told);
        visit.met(Reason::SitemapLimit, robots.more_sitemaps);
    }
    if !robots.allows(path) {
        return Err(Failure::from(Reason::Robots).into());
    }
    if was_fetched {
        // The frontier does not count the request for robots.txt: wait a delay before this page,
        // and after it.
        let turn = Duration::from_millis(crawl.settings.delay_ms()).max(delay.unwrap_or_default());
        tokio::time::sleep(turn).await;
        visit.hold = Some(turn).filter(|turn| !turn.is_zero());
    }
    Ok(())
}

/// Judges an answer by its status, stores the page, and finds its links.
fn take(
    crawl: &Crawl,
    url: &str,
    answer: Answer,
    known: Option<&PageHead>,
    visit: &mut Visit,
) -> Result<Fetched, Broken> {
    let status = answer.status;
    let at_ms = now_ms();
    match (status, known) {
        (408 | 425 | 429 | 503, _) => return Err(busy(crawl, &answer, visit).into()),
        (304, Some(known)) if !visit.is_recorded => return not_modified(crawl, url, answer, known, visit),
        (304, _) => return Err(Failure::new(Reason::Protocol, "304 to a request without conditions").into()),
        (200..=399, _) => {}
        (400..=499, _) => {
            let page = record::page(url, answer, at_ms);
            if !visit.is_recorded {
                crawl.pages.put_page_if_changed(&page)?;
            }
            return Err(Failure::new(Reason::ClientStatus, status.to_string()).into());
        }
        _ => return Err(Failure::new(Reason::ServerStatus, status.to_string()).into()),
    }
    let location = answer.headers.get("Location").map(<[u8]>::to_vec).filter(|_| status >= 300);
    let mut page = record::page(url, answer, at_ms);
    let stored = store(crawl, &mut page, visit)?;
    let changed = known.filter(|_| !visit.is_recorded).and(stored.changed);
    let links = match location {
        Some(location) => redirect(crawl, url, &location, visit)?,
        None if status < 300 && !stored.is_duplicate => visit.take(discovery::of_page(crawl, url, &page)?),
        None => Vec::new(),
    };
    Ok(Fetched { at_ms, links, changed, is_duplicate: stored.is_duplicate })
}

/// How a page was stored.
struct Stored {
    changed: Option<bool>,
    is_duplicate: bool,
}

/// Stores a page, or a reference to another page with the same body.
fn store(crawl: &Crawl, page: &mut Page, visit: &mut Visit) -> Result<Stored, Broken> {
    let digest = ContentSeen::digest(&page.body);
    let key = crawl.pages.key(&page.url)?;
    let is_tested = page.status == Some(200) && !page.body.is_empty();
    let _turn = is_tested.then(|| crawl.bodies.lock(&digest));
    let holder = match is_tested {
        true => crawl.bodies.holder(&digest, page.body.len() as u64, &crawl.pages)?,
        false => None,
    };
    if let Some(holder) = holder.filter(|holder| holder.key != key) {
        visit.duplicate_of = Some(String::from_utf8_lossy(&holder.key).into_owned());
        let is_same = crawl.pages.get(&page.url)?.is_some_and(|before| before.body == page.body);
        if !(visit.is_recorded && is_same) {
            crawl.pages.put_page(&record::duplicate(page, &holder.key, holder.fetched_at_ms))?;
        }
        return Ok(Stored { changed: Some(!is_same), is_duplicate: !crawl.settings.follow_duplicates });
    }
    let stored = crawl.pages.engine().head(&key).map_err(fm_cli::Failure::from)?;
    let has_it = |head: filemap_core::Head| head.digest == digest && head.body_bytes == page.body.len() as u64;
    let is_there = visit.is_recorded && stored.is_some_and(has_it);
    let changed = match is_there {
        true => None,
        false => Some(matches!(crawl.pages.put_page_if_changed(page)?, Put::Stored(_))),
    };
    if is_tested {
        crawl.bodies.note(&digest, &key, page.fetched_at_ms)?;
    }
    Ok(Stored { changed, is_duplicate: false })
}

/// An unchanged page: its links are those of the stored body.
fn not_modified(
    crawl: &Crawl,
    url: &str,
    answer: Answer,
    known: &PageHead,
    visit: &mut Visit,
) -> Result<Fetched, Broken> {
    let at_ms = now_ms();
    let page = record::page(url, answer, at_ms);
    crawl.pages.put_page(&record::not_modified(page, url, known))?;
    let before = crawl.pages.get(url)?;
    let is_duplicate = match &before {
        Some(before) if !crawl.settings.follow_duplicates => crawl.bodies.is_held_by_another(before, &crawl.pages)?,
        _ => false,
    };
    let links = match before.filter(|_| !is_duplicate) {
        Some(before) => visit.take(discovery::of_page(crawl, url, &before)?),
        None => Vec::new(),
    };
    Ok(Fetched { at_ms, links, changed: Some(false), is_duplicate })
}

/// The failure of a page whose host asks to come back later.
fn busy(crawl: &Crawl, answer: &Answer, visit: &mut Visit) -> Failure {
    let wanted = answer.headers.get("Retry-After").and_then(|value| retry_after::parse(value, now_ms()));
    let most = crawl.settings.limits.retry_after;
    if wanted.is_some_and(|wanted| wanted > most) {
        visit.met(Reason::RetryAfterLimit, 1);
    }
    let hold = wanted.map(|wanted| wanted.min(most));
    visit.hold = visit.hold.max(hold);
    let retry_after_ms = hold.map(|hold| hold.as_millis() as u64);
    Failure { retry_after_ms, ..Failure::new(Reason::Busy, answer.status.to_string()) }
}

/// The target of a redirect, unless there were too many.
fn redirect(crawl: &Crawl, url: &str, location: &[u8], visit: &mut Visit) -> Result<Vec<String>, Broken> {
    let hops = crawl.hops.taken(url) + 1;
    if hops > crawl.settings.limits.redirects {
        visit.met(Reason::RedirectLimit, 1);
        return Ok(Vec::new());
    }
    let targets = visit.take(discovery::of_redirect(crawl, url, location)?);
    targets.iter().for_each(|target| crawl.hops.note(target, hops));
    Ok(targets)
}
