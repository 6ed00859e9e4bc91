//! One visit to one page, from robots.txt to the store.
//!
//! Visits run concurrently and touch neither frontier nor log: they return their result as a
//! [`Visit`]. The page is put into the store before the result is sent, so a commit, which syncs
//! the store first, never calls a missing page done.
//!
//! A redirect is a page with one link. The number of consecutive redirects is only in memory:
//! after a restart it begins at 0, and the depth limit still ends the chain.

mod ask;
pub mod barren;
mod discovery;
mod hops;
mod looked;
mod parts;
mod prints;
mod turn;

use std::time::{Duration, Instant};

use filemap::{Page, PageHead, Put};
use frontier::{Assignment, PageId};
use urlindex::ContentSeen;

use crate::clock::now_ms;
use crate::error::Error;
use crate::failure::{Failure, Reason};
use crate::fetch::{Answer, Kind, Validators, retry_after};
use crate::files::bodies::Holder;
use crate::hooks::Fields;
use crate::links::edges::Edge;
use crate::links::{Link, head, requisites};
use crate::record;
use crate::shard::Body;

use self::discovery::Discovered;
use self::looked::Looked;
pub use self::parts::{Crawl, token};

/// The result of a visit.
///
/// ```
/// use crawl::visit::Visit;
/// # use std::sync::{Arc, Mutex};
/// #[derive(Default)]
/// struct Statuses(Mutex<Vec<(String, Option<u16>)>>);
/// impl crawl::run::Observer for Statuses {
///     fn visited(&self, visit: &Visit, _new_links: u32) -> Result<(), crawl::BoxError> {
///         self.0.lock().unwrap().push((visit.url.clone(), visit.status));
///         Ok(())
///     }
/// }
/// # let (place, told) = (tempfile::tempdir()?, Arc::new(Statuses::default()));
/// # let empty = |_: &str| Ok(crawl::hooks::Response { status: 200, ..Default::default() });
/// # let builder = crawl::Crawler::builder(place.path().join("pages.fm"))?.ignore_robots();
/// # let builder = builder.seed("http://example.com/").contact("mailto:me@example.com");
/// # let builder = builder.fetch_by(Some(Arc::new(crawl::hooks::Blocking::new(1, empty))));
/// # builder.observer(told.clone()).build()?.run()?;
/// assert_eq!(*told.0.lock().unwrap(), [("http://example.com/".to_owned(), Some(200))]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Visit {
    /// The page.
    pub page: PageId,
    /// The URL requested last.
    pub url: String,
    /// The canonical URL, which identifies the page.
    pub key: String,
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
    /// Another page with the same body.
    pub duplicate_of: Option<String>,
    /// Limits exceeded without failing the page, with counts.
    pub met: Vec<(Reason, u64)>,
    /// Links out of scope.
    pub out_of_scope: u64,
    /// The distance of a requisite from its page; `None` for a page.
    pub requisite: Option<u8>,
    /// The redirect target of this start page.
    pub widens: Option<String>,
    /// Number of links with a sitemap's hint about changes, which the frontier receives.
    pub hints: u64,
    /// Sitemaps named by the host's robots.txt, not reported before.
    pub sitemaps: Vec<Link>,
    /// The host's own delay, by robots.txt or the file of hosts, once known.
    pub delay: Option<Option<Duration>>,
    /// The time to leave the host alone.
    pub hold: Option<Duration>,
    /// True if the visit ended before any request to its host, because other hosts have the turn
    /// at its address.
    pub asked_nobody: bool,
    /// All links of the page, followed or not ([`crate::Builder::edges`]).
    pub edges: Vec<Edge>,
    /// Errors of hooks.
    pub hooks_failed: Vec<String>,
    /// Duration of the visit.
    pub took: Duration,
    /// The fingerprint of its text.
    fingerprint: Option<u64>,
    /// This crawl stored the page but was stopped before the commit: it is fetched again, and its
    /// version exists already.
    is_recorded: bool,
    /// The sequence of that version, for a page that is fetched again.
    unsure: Option<u64>,
}

/// The result for the frontier.
///
/// ```
/// use crawl::visit::Told;
/// fn words(told: &Told) -> String {
///     match told {
///         Told::Fetched(fetched) => format!("{} links", fetched.links.len()),
///         Told::Failed(failure) => failure.to_string(),
///         Told::Later => "later".to_owned(),
///     }
/// }
/// assert_eq!(words(&Told::Failed(crawl::Reason::Robots.into())), "robots");
/// ```
#[derive(Debug)]
pub enum Told {
    /// The page was fetched.
    Fetched(Fetched),
    /// It was not fetched.
    Failed(Failure),
    /// Its robots.txt was just requested, or has set a delay: the page is fetched when its host
    /// has rested. A visit does not wait while it holds a connection.
    Later,
}

/// A fetched page.
///
/// ```
/// let fetched = crawl::visit::Fetched { changed: Some(false), ..Default::default() };
/// assert!(fetched.links.is_empty() && !fetched.is_duplicate && !fetched.is_barren);
/// ```
#[derive(Debug, Default)]
pub struct Fetched {
    /// The time of the fetch.
    pub at_ms: i64,
    /// Its links in scope.
    pub links: Vec<Link>,
    /// True if the page has changed; `None` if unknown.
    pub changed: Option<bool>,
    /// True if its links are not followed, because another page of its host has the same body.
    pub is_duplicate: bool,
    /// True if its links earn no credit, because it has hardly any text of its own.
    pub is_barren: bool,
}

/// Reason why a visit ends early.
enum Broken {
    /// The page is to be fetched later.
    Later,
    /// The page fails.
    Page(Failure),
    /// The crawl fails: its store or its sets.
    Crawl(Error),
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Broken {
        Broken::Page(failure)
    }
}

impl From<filemap::Error> for Broken {
    fn from(error: filemap::Error) -> Broken {
        // The crawl pauses, and requests the page again later.
        if matches!(error, filemap::Error::Engine(filemap_core::Error::NoSpace { .. })) {
            return Broken::Later;
        }
        match error.concerns_one_page() {
            true => Broken::Page(Failure::new(Reason::Unstorable, error.to_string())),
            false => Broken::Crawl(error.into()),
        }
    }
}

impl From<Error> for Broken {
    fn from(failure: Error) -> Broken {
        Broken::Crawl(failure)
    }
}

impl Visit {
    fn begin(assignment: &Assignment) -> Visit {
        Visit {
            page: assignment.page,
            url: requisites::bare(&assignment.url).to_owned(),
            key: assignment.key.clone(),
            depth: assignment.depth,
            told: Told::Fetched(Fetched::default()),
            status: None,
            wire_bytes: 0,
            body_bytes: 0,
            duplicate_of: None,
            met: Vec::new(),
            out_of_scope: 0,
            requisite: requisites::level(&assignment.url),
            widens: None,
            hints: 0,
            sitemaps: Vec::new(),
            delay: None,
            hold: None,
            asked_nobody: false,
            edges: Vec::new(),
            hooks_failed: Vec::new(),
            took: Duration::ZERO,
            fingerprint: None,
            is_recorded: false,
            unsure: None,
        }
    }

    fn met(&mut self, reason: Reason, times: u64) {
        if times > 0 {
            self.met.push((reason, times));
        }
    }

    /// Counts failures of hooks.
    fn hook_failures(&mut self, words: Vec<String>) {
        self.met(Reason::HookFailed, words.len() as u64);
        self.hooks_failed.extend(words);
    }

    /// Counts discoveries, and returns the links.
    fn take(&mut self, discovered: Discovered) -> Vec<Link> {
        self.met.extend(discovered.met);
        self.out_of_scope += discovered.out_of_scope;
        self.hints += discovered.hints;
        self.edges.extend(discovered.edges);
        self.fingerprint = discovered.fingerprint.or(self.fingerprint);
        self.hook_failures(discovered.hooks_failed);
        self.widens = discovered.widens.or(self.widens.take());
        discovered.links
    }
}

/// Visits a page.
///
/// # Errors
/// Errors that end the crawl: of the store or a set.
pub async fn visit(crawl: &Crawl, mut assignment: Assignment) -> Result<Visit, Error> {
    let begun = Instant::now();
    let mut visit = Visit::begin(&assignment);
    assignment.url.clone_from(&visit.url);
    let ended = match attempt(crawl, &assignment, &mut visit).await {
        Err(Broken::Page(failure)) if failure.reason != Reason::Robots => {
            // If its note is refused, only the frontier and the log have the failure.
            let noted = keep_note(crawl, &record::failure(&visit.url, &failure, now_ms()));
            noted.and(Err(Broken::Page(failure)))
        }
        ended => ended,
    };
    visit.told = match ended {
        Ok(fetched) => {
            visit.unsure.into_iter().for_each(|sequence| crawl.unsure.settle(sequence));
            Told::Fetched(fetched)
        }
        Err(Broken::Page(failure)) => Told::Failed(failure),
        Err(Broken::Later) => Told::Later,
        Err(Broken::Crawl(failure)) => return Err(failure),
    };
    visit.took = begun.elapsed();
    Ok(visit)
}

/// Puts a note beside a page; false if the store refuses it, for instance by an erasure rule.
fn keep_note(crawl: &Crawl, note: &Page) -> Result<bool, Broken> {
    match crawl.pages.put_page_if_changed(note) {
        Err(error) if !error.concerns_one_page() => Err(error.into()),
        kept => Ok(kept.is_ok()),
    }
}

async fn attempt(crawl: &Crawl, assignment: &Assignment, visit: &mut Visit) -> Result<Fetched, Broken> {
    let url = assignment.url.as_str();
    let is_requisite = visit.requisite.is_some() && crawl.settings.requisites;
    let is_ours = is_requisite || crawl.scope.contains(url) || crawl.sitemaps.level(url).is_some();
    if assignment.depth > 0 && !is_ours {
        return Err(Failure::from(Reason::Scope).into());
    }
    ask::is_refused(crawl, assignment, visit, url)?;
    turn::ask_robots(crawl, assignment, visit).await?;
    let known = crawl.pages.head(url)?;
    visit.unsure = known.as_ref().map(|head| head.version.sequence).filter(|sequence| crawl.unsure.has(*sequence));
    visit.is_recorded = match assignment.is_refresh {
        true => visit.unsure.is_some(),
        false => known.as_ref().is_some_and(|head| head.page.fetched_at_ms >= crawl.settings.begun_ms),
    };
    let validators = match &known {
        Some(head) if !visit.is_recorded => record::validators(head),
        _ => Validators::default(),
    };
    // A custom fetcher decides itself whom it asks.
    let is_own = crawl.hooks.fetch.is_some() && discovery::kind(crawl, url, visit.requisite) == Kind::Page;
    if !is_own {
        turn::ask_address(crawl, url, visit).await?;
    }
    let mut answer = ask::ask(crawl, assignment, &validators, visit).await?;
    let url = visit.url.clone();
    let _places = std::mem::take(&mut answer.places);
    (visit.status, visit.wire_bytes, visit.body_bytes) =
        (Some(answer.status), answer.wire_bytes, answer.body.len() as u64);
    if let Some(cut) = answer.cut.as_ref().filter(|_| ask::is_tried_again(crawl, assignment, &answer)) {
        return Err(cut.clone().into());
    }
    let cut = answer.cut.as_ref().map(|cut| cut.reason);
    let as_received = answer.as_received.then_some(Reason::KeptAsReceived);
    visit.met(Reason::CookieLimit, answer.cookies_dropped);
    let trailing = answer.has_trailing.then_some(Reason::TrailingBytes);
    visit.met.extend(cut.into_iter().chain(as_received).chain(trailing).map(|reason| (reason, 1)));
    let known = Known {
        page: known.as_ref(),
        is_start: crawl.scope.is_start(&assignment.url) || crawl.scope.is_start(&url),
        is_seed: assignment.is_seed,
    };
    take(crawl, &url, answer, known, visit)
}

/// State of a page known before its answer.
#[derive(Clone, Copy)]
struct Known<'a> {
    page: Option<&'a PageHead>,
    /// True for a start page, or a redirect target of one.
    is_start: bool,
    /// True if the page is a seed to the frontier; sitemaps are seeds too.
    is_seed: bool,
}

/// Handles an answer by its status, stores the page, and finds its links.
fn take(crawl: &Crawl, url: &str, answer: Answer, known: Known<'_>, visit: &mut Visit) -> Result<Fetched, Broken> {
    let status = answer.status;
    let at_ms = now_ms();
    match (status, known.page) {
        (408 | 425 | 429 | 503, _) => return Err(busy(crawl, &answer, visit).into()),
        (304, Some(before)) if !visit.is_recorded => {
            return not_modified(crawl, url, answer, before, known.is_start || known.is_seed, visit);
        }
        (304, _) => return Err(Failure::new(Reason::Protocol, "304 to a request without conditions").into()),
        (200..=399, _) => {}
        (400..=499, _) => {
            let page = record::page(url, answer, at_ms);
            barren::note_error(crawl, visit, &page);
            let is_there = known.page.is_some_and(|known| known.page.status == Some(status));
            if !(visit.is_recorded && is_there) {
                crawl.pages.put_page_if_changed(&page)?;
            }
            return Err(Failure::new(Reason::ClientStatus, status.to_string()).into());
        }
        _ => return Err(Failure::new(Reason::ServerStatus, status.to_string()).into()),
    }
    let location = head::location(&answer.headers).map(<[u8]>::to_vec).filter(|_| status >= 300);
    let mut page = record::page(url, answer, at_ms);
    let links = match location {
        Some(location) => redirect(crawl, url, &location, known.is_start, visit)?,
        // A 300 has a page of choices; another redirect without a target is shown by browsers.
        None => {
            visit.met(Reason::BadUrl, u64::from(status > 300));
            visit.take(discovery::of_page(crawl, url, &page, visit.requisite)?)
        }
    };
    let Looked { links, mut fields, stores, discovered } = match status {
        200..300 => looked::look(crawl, (url, &page), (visit.depth, visit.requisite), links)?,
        _ => Looked::only(links),
    };
    visit.take(discovered);
    let is_exempt = known.is_start || known.is_seed;
    if !stores {
        let is_barren = barren::judge(crawl, visit, is_exempt, &mut fields);
        return Ok(Fetched { at_ms, links, changed: None, is_duplicate: false, is_barren });
    }
    let stored = store(crawl, &mut page, known.page, visit)?;
    let is_duplicate = stored.is_duplicate && !is_exempt;
    let is_barren = barren::judge(crawl, visit, is_exempt || is_duplicate, &mut fields);
    if let Some(note) = record::fields(url, &fields, at_ms) {
        visit.met(Reason::NoteRefused, u64::from(!keep_note(crawl, &note)?));
    }
    let changed = known.page.filter(|_| !visit.is_recorded).and(stored.changed);
    Ok(Fetched { at_ms, links, changed, is_duplicate, is_barren })
}

/// The outcome of storing a page.
struct Stored {
    changed: Option<bool>,
    is_duplicate: bool,
}

/// Returns whether links are skipped because another page of the same host has the body: a body
/// served under ever longer paths would lead on without end. On another host the same links lead
/// to other pages; a page that refreshes leads where its own head says.
fn is_repeated(crawl: &Crawl, (key, page): (&[u8], &Page), holder: &Holder) -> bool {
    let is_of_body = head::refresh(&page.headers).is_none();
    !crawl.settings.follow_duplicates && site(key) == site(&holder.key) && is_of_body
}

/// The host of a canonical URL, also in SURT form.
fn site(key: &[u8]) -> &[u8] {
    urlindex::host(key).unwrap_or_else(|| key.split(|byte| *byte == b')').next().unwrap_or_default())
}

/// Stores a page, or a reference to another page with the same body.
fn store(crawl: &Crawl, page: &mut Page, known: Option<&PageHead>, visit: &mut Visit) -> Result<Stored, Broken> {
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
        return Ok(Stored { changed: Some(!is_same), is_duplicate: is_repeated(crawl, (&key, page), &holder) });
    }
    let stored = crawl.pages.body(&key)?;
    let has_it = |body: Body| body.digest == digest && body.bytes == page.body.len() as u64;
    let is_same_status = known.is_some_and(|known| known.page.status == page.status);
    let is_there = visit.is_recorded && is_same_status && stored.is_some_and(has_it);
    let changed = match is_there {
        true => None,
        false => Some(matches!(crawl.pages.put_page_if_changed(page)?, Put::Stored(_))),
    };
    if is_tested {
        crawl.bodies.note(&digest, &key, page.fetched_at_ms)?;
    }
    Ok(Stored { changed, is_duplicate: false })
}

/// Handles an unchanged page: its links are those of the stored body.
fn not_modified(
    crawl: &Crawl,
    url: &str,
    answer: Answer,
    known: &PageHead,
    is_start: bool,
    visit: &mut Visit,
) -> Result<Fetched, Broken> {
    let at_ms = now_ms();
    let page = record::page(url, answer, at_ms);
    crawl.pages.put_page(&record::not_modified(page, url, known))?;
    let before = crawl.pages.get(url)?;
    let holder = before.as_ref().map(|before| crawl.bodies.other_holder(before, &crawl.pages)).transpose()?.flatten();
    let key = crawl.pages.key(url)?;
    let both = before.as_ref().zip(holder);
    let is_duplicate = !is_start && both.is_some_and(|(page, holder)| is_repeated(crawl, (&key, page), &holder));
    let links = match before {
        Some(before) => visit.take(discovery::of_page(crawl, url, &before, visit.requisite)?),
        None => Vec::new(),
    };
    let is_barren = barren::judge(crawl, visit, is_start || is_duplicate, &mut Fields::new());
    Ok(Fetched { at_ms, links, changed: Some(false), is_duplicate, is_barren })
}

/// The failure of a page whose host asks for a later retry.
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

/// The target of a redirect, unless there were too many in a row.
fn redirect(crawl: &Crawl, url: &str, location: &[u8], is_start: bool, visit: &mut Visit) -> Result<Vec<Link>, Broken> {
    let hops = crawl.hops.taken(url) + 1;
    if hops > crawl.settings.limits.redirects {
        visit.met(Reason::RedirectLimit, 1);
        return Ok(Vec::new());
    }
    let targets = visit.take(discovery::of_redirect(crawl, url, location, is_start, visit.requisite)?);
    targets.iter().for_each(|target| crawl.hops.note(requisites::bare(&target.url), hops));
    Ok(targets)
}
