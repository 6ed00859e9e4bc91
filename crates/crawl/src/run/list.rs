//! The pages of a crawl by their state, for `list`: in slices, so that a crawl that runs is held
//! up only for a moment, and a caller that reads slowly takes no memory of it.
//!
//! A list ends with the pages that were known when it began: it need not keep pace with a crawl
//! that discovers more meanwhile.

use std::ops::Range;

use frontier::{FailureKind, Frontier, PageBrief, PageState, PageStatus};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::Error;
use crate::failure::{kind_named, word};

/// The maximum number of pages that a slice examines, and of those that it returns.
const EXAMINED: u32 = 1 << 16;
const RETURNED: usize = 500;

/// The state of a page.
///
/// ```
/// use crawl::run::list::State;
/// assert_eq!(State::GivenUp.name(), "given-up");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// To be fetched; no attempt has failed.
    Queued,
    /// Handed out.
    InFlight,
    /// To be fetched again after the page or its host failed.
    Failed,
    /// Given up.
    GivenUp,
    /// Not to be fetched: by robots.txt, scope, a limit, another crawl.
    Excluded,
    /// Fetched.
    Fetched,
}

impl State {
    /// The state of a page.
    pub fn of(status: PageStatus, last_failure: Option<FailureKind>) -> State {
        match (status, last_failure) {
            (PageStatus::Queued | PageStatus::Due, None) => State::Queued,
            (PageStatus::Queued | PageStatus::Retrying, _) => State::Failed,
            (PageStatus::Due | PageStatus::Fetched, Some(_)) => State::Failed,
            (PageStatus::InFlight, _) => State::InFlight,
            (PageStatus::Gone, Some(kind)) if is_exclusion(kind) => State::Excluded,
            (PageStatus::Gone, _) => State::GivenUp,
            _ => State::Fetched,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            State::Queued => "queued",
            State::InFlight => "in-flight",
            State::Failed => "failed",
            State::GivenUp => "given-up",
            State::Excluded => "excluded",
            State::Fetched => "fetched",
        }
    }
}

fn is_exclusion(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::Robots | FailureKind::Refused | FailureKind::Limit | FailureKind::Elsewhere)
}

/// The pages to list.
///
/// ```
/// use crawl::run::list::{State, Wanted};
/// let wanted = Wanted { states: vec![State::GivenUp], ..Wanted::default() };
/// let text = r#"{"states":["given-up"],"host":null,"reason":null}"#;
/// assert_eq!(serde_json::from_str::<Wanted>(text)?, wanted);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Pages in these states; if empty, all that were not fetched.
    pub states: Vec<State>,
    /// Pages of this host only.
    pub host: Option<String>,
    /// Pages whose last failure has this name only.
    pub reason: Option<String>,
}

/// A slice of a list.
///
/// ```
/// use crawl::run::list::Slice;
/// let last: Slice = serde_json::from_str(r#"{"pages":[],"next":null}"#)?;
/// assert!(last.next.is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Its pages, in the order of their discovery.
    pub pages: Vec<Value>,
    /// The numbers of the pages that are left for the next slices; `None` after the last one.
    pub next: Option<Range<u32>>,
}

/// The slice of a list that begins with the first of these pages: `0..u32::MAX` for all.
///
/// # Errors
/// `Usage` for an unknown reason; errors of the frontier.
///
/// ```
/// use crawl::run::list::{Wanted, slice};
/// # let place = tempfile::tempdir()?;
/// # let path = place.path().join("frontier");
/// # let mut frontier = frontier::Frontier::create(&path, frontier::FrontierOptions::new())?;
/// frontier.seed(&["http://example.com/", "http://example.org/"], 0)?;
/// let wanted = Wanted { host: Some("example.org".to_owned()), ..Wanted::default() };
/// let found = slice(&frontier, 0..u32::MAX, &wanted)?;
/// assert_eq!((found.pages.len(), found.next), (1, None));
/// assert_eq!(found.pages[0]["url"], "http://example.org/");
/// assert_eq!(found.pages[0]["state"], "queued");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn slice(frontier: &Frontier, left: Range<u32>, wanted: &Wanted) -> Result<Slice, Error> {
    let reason = wanted.reason.as_deref().map(kind_named).transpose();
    let reason = reason.map_err(|words| Error::Usage(format!("reason: {words}")))?;
    let is_wanted = |page: &PageBrief<'_>| {
        let state = State::of(page.status, page.last_failure);
        let is_state = if wanted.states.is_empty() { state != State::Fetched } else { wanted.states.contains(&state) };
        let is_host = wanted.host.as_deref().is_none_or(|host| host == page.host);
        is_state && is_host && reason.is_none_or(|reason| page.last_failure == Some(reason))
    };
    let end = left.end.min(frontier.pages());
    let mut next = left.start.saturating_add(EXAMINED).min(end);
    let mut pages = Vec::new();
    for page in frontier.list_of(left.start..next, is_wanted) {
        let page = page?;
        pages.push(row(&page));
        if pages.len() == RETURNED {
            next = page.page.number() + 1;
            break;
        }
    }
    Ok(Slice { pages, next: (next < end).then_some(next..end) })
}

/// A page of a list.
fn row(page: &PageState) -> Value {
    let rests = page.host_failing.filter(|_| page.status != PageStatus::Gone);
    let next_ms = page.due_ms.into_iter().chain(rests.map(|rests| rests.until_ms)).max().filter(|ms| *ms > 0);
    json!({
        "url": page.url, "canonical": page.key, "host": page.host,
        "state": State::of(page.status, page.last_failure).name(), "why": page.last_failure.map(word),
        "next": next_ms.map(filemap::date::format),
        "host_silent_since": rests.map(|rests| filemap::date::format(rests.since_ms)),
        "failed_attempts": page.failed_attempts, "depth": page.depth, "is_seed": page.is_seed,
    })
}

#[cfg(test)]
mod tests {
    use frontier::{Failure, FrontierOptions, Next, Remedy};

    use super::*;

    fn all(frontier: &Frontier, wanted: &Wanted) -> (Vec<String>, usize) {
        let (mut urls, mut slices, mut next) = (Vec::new(), 0, Some(0..u32::MAX));
        while let Some(left) = next {
            let found = slice(frontier, left, wanted).unwrap();
            urls.extend(found.pages.iter().map(|page| page["url"].as_str().unwrap().to_owned()));
            (slices, next) = (slices + 1, found.next);
        }
        (urls, slices)
    }

    #[test]
    fn slices_have_every_page_once_however_few_are_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let mut frontier = Frontier::create(folder.path().join("frontier"), FrontierOptions::new()).unwrap();
        assert_eq!(all(&frontier, &Wanted::default()), (Vec::new(), 1));
        let pages = EXAMINED as usize + 700;
        let urls: Vec<String> = (0..pages).map(|n| format!("http://h{}.example/{n}", n % 7)).collect();
        frontier.seed(&urls, 0).unwrap();
        let (listed, slices) = all(&frontier, &Wanted::default());
        assert!(listed == urls && slices == pages.div_ceil(RETURNED), "{} in {slices}", listed.len());
        let one = Wanted { host: Some("h3.example".to_owned()), ..Wanted::default() };
        assert_eq!(all(&frontier, &one).0.len(), urls.iter().filter(|url| url.contains("h3.")).count());
        let none = Wanted { states: vec![State::Fetched, State::InFlight], ..Wanted::default() };
        assert_eq!(all(&frontier, &none), (Vec::new(), 2));
        let beyond = slice(&frontier, u32::MAX - 1..u32::MAX, &Wanted::default());
        assert!(matches!(beyond, Ok(Slice { next: None, .. })));
    }

    #[test]
    fn a_list_ends_with_the_pages_that_were_known_when_it_began() {
        let folder = tempfile::tempdir().unwrap();
        let mut frontier = Frontier::create(folder.path().join("frontier"), FrontierOptions::new()).unwrap();
        let urls: Vec<String> = (0..2000).map(|n| format!("http://h{}.example/{n}", n % 7)).collect();
        frontier.seed(&urls[..600], 0).unwrap();
        let first = slice(&frontier, 0..u32::MAX, &Wanted::default()).unwrap();
        assert_eq!((first.pages.len(), first.next.clone()), (RETURNED, Some(500..600)));
        frontier.seed(&urls, 0).unwrap();
        let second = slice(&frontier, first.next.unwrap(), &Wanted::default()).unwrap();
        assert_eq!((second.pages.len(), second.next), (100, None));
    }

    #[test]
    fn pages_are_told_apart_by_state_and_reason() {
        let folder = tempfile::tempdir().unwrap();
        let mut frontier = Frontier::create(folder.path().join("frontier"), FrontierOptions::new()).unwrap();
        frontier.seed(&["http://a.example/", "http://b.example/", "http://c.example/"], 0).unwrap();
        let failure = Failure { kind: FailureKind::Robots, retry_after_ms: None, remedy: Remedy::GiveUp };
        let Next::Fetch(first) = frontier.next(0).unwrap() else { panic!("three wait") };
        frontier.failed(first.page, &failure, 0).unwrap();
        let Next::Fetch(second) = frontier.next(0).unwrap() else { panic!("two wait") };
        let of = |states: &[State], reason: Option<&str>| {
            all(&frontier, &Wanted { states: states.to_vec(), host: None, reason: reason.map(str::to_owned) }).0
        };
        assert_eq!(of(&[State::Excluded], None), std::slice::from_ref(&first.url));
        assert_eq!(of(&[State::InFlight], None), [second.url]);
        assert_eq!((of(&[State::Queued], None).len(), of(&[], None).len()), (1, 3));
        assert_eq!(of(&[], Some("robots")), [first.url]);
        let unknown = Wanted { reason: Some("nonsense".to_owned()), ..Wanted::default() };
        assert!(matches!(slice(&frontier, 0..1, &unknown), Err(Error::Usage(words)) if words.contains("robots")));
    }
}
