//! Claims: of crawls that share a seen set only one fetches each page, because the set answers
//! `new` to only one.
//!
//! A page is claimed when it is about to be fetched. The frontier stores the claim durably before
//! the request, and keeps it until the page is fetched or has failed: after a restart the request
//! is repeated with the same id and gets the same answer. So a lost answer loses no page.
//!
//! Start pages are claimed too, but fetched whatever the answer: each crawl needs them to find
//! links. A page once fetched or failed here is ours.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use filemap_http::Added;
use frontier::{Assignment, Frontier, PageId};
use urlindex::Verdict;
use urlindex::idempotent::RequestId;

use super::observe::{Event, Observer};
use super::shared_set::SharedSet;
use crate::error::Error;
use crate::stop::Stop;

/// The wait before a failed request to the set is repeated: doubled each time, up to `PAUSE_MAX`.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
const LOOK_UP: Duration = Duration::from_millis(100);

/// The claims of pages: pending, requested and answered.
pub struct Claims {
    set: Option<Set>,
    ours: HashSet<PageId>,
    elsewhere: HashSet<PageId>,
    waiting: Vec<Assignment>,
    /// Pages in the current request.
    asked: usize,
}

/// The shared set, with the stop handle and the observer of its requests.
#[derive(Clone)]
struct Set {
    shared: Arc<SharedSet>,
    stop: Stop,
    observer: Arc<dyn Observer>,
}

/// The owner of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Fetch it.
    Ours,
    /// Another crawl has claimed it.
    Elsewhere,
    /// Unknown: to be claimed.
    Unknown,
}

/// Pages claimed in one request, in the order of their numbers.
pub struct Question {
    set: Set,
    pub id: RequestId,
    pub assignments: Vec<Assignment>,
}

/// The answer to a request.
pub struct Answer {
    pub assignments: Vec<Assignment>,
    /// For each page, whether it is ours; `None` if the run stops before an answer.
    pub ours: Option<Vec<bool>>,
}

impl Claims {
    /// Opens the claims at a set; repeats the requests of open claims. Blocks.
    ///
    /// # Errors
    /// Errors of the set and the frontier.
    pub fn open(
        set: Option<SharedSet>,
        frontier: &mut Frontier,
        (stop, observer): (&Stop, &Arc<dyn Observer>),
    ) -> Result<Claims, Error> {
        let of = |shared| Set { shared: Arc::new(shared), stop: stop.clone(), observer: Arc::clone(observer) };
        let mut claims =
            Claims { set: set.map(of), ours: HashSet::new(), elsewhere: HashSet::new(), waiting: Vec::new(), asked: 0 };
        let Some(set) = claims.set.clone() else { return Ok(claims) };
        for claim in frontier.claims()? {
            if stop.is_asked() {
                break;
            }
            let id = RequestId::from_u128(claim.id);
            let id = id.ok_or_else(|| Error::Damage("a claim's id is not a request id".to_owned()))?;
            let urls: Vec<&str> = claim.pages.iter().map(|(_, url)| url.as_str()).collect();
            let ours = match said(&set, id, &urls)? {
                Said::Ours(ours) => ours,
                // A clock error made the id: the set never had it.
                Said::Ahead(_) => {
                    frontier.end_claim(claim.id)?;
                    continue;
                }
                Said::Nothing(why) => return Err(Error::Broken(why)),
            };
            for ((page, _), is_ours) in claim.pages.iter().zip(ours) {
                claims.learn(*page, is_ours);
            }
        }
        Ok(claims)
    }

    fn learn(&mut self, page: PageId, is_ours: bool) {
        if is_ours {
            self.ours.insert(page)
        } else {
            self.elsewhere.insert(page)
        };
    }

    /// The owner of an assigned page.
    pub fn owner(&self, assignment: &Assignment) -> Owner {
        let is_known = assignment.is_refresh || assignment.failed_attempts > 0 || self.ours.contains(&assignment.page);
        if self.set.is_none() || is_known {
            return Owner::Ours;
        }
        match self.elsewhere.contains(&assignment.page) {
            true if assignment.is_seed => Owner::Ours,
            true => Owner::Elsewhere,
            false => Owner::Unknown,
        }
    }

    /// Adds a page to the next request.
    pub fn wait(&mut self, assignment: Assignment) {
        self.waiting.push(assignment);
    }

    /// The next request, unless one is in progress: pages that wait are batched.
    pub fn question(&mut self) -> Option<Question> {
        let set = self.set.as_ref().filter(|_| self.asked == 0 && !self.waiting.is_empty())?;
        let mut assignments = std::mem::take(&mut self.waiting);
        assignments.sort_by_key(|assignment| assignment.page);
        self.asked = assignments.len();
        Some(Question { set: set.clone(), id: RequestId::now(), assignments })
    }

    /// Records an answer.
    pub fn take(&mut self, answer: &Answer) {
        self.asked = 0;
        for (assignment, is_ours) in answer.assignments.iter().zip(answer.ours.iter().flatten()) {
            self.learn(assignment.page, *is_ours);
        }
    }

    /// The number of pages in the current request.
    pub fn asked(&self) -> usize {
        self.asked
    }

    /// Removes and returns the pages not yet requested.
    pub fn give_up(&mut self) -> Vec<Assignment> {
        std::mem::take(&mut self.waiting)
    }

    /// Ends the claim of a page that is fetched or has failed.
    pub fn settle(&mut self, page: PageId) {
        self.ours.remove(&page);
        self.elsewhere.remove(&page);
    }
}

impl Question {
    /// Asks until the set answers, or the run stops. Blocks.
    ///
    /// # Errors
    /// A permanent error of the set.
    pub fn ask(self) -> Result<Answer, Error> {
        let urls: Vec<&str> = self.assignments.iter().map(|assignment| assignment.key.as_str()).collect();
        let mut pause = PAUSE;
        let ours = loop {
            let why = match said(&self.set, self.id, &urls)? {
                Said::Ours(ours) => break Some(ours),
                Said::Ahead(why) | Said::Nothing(why) => why,
            };
            drop(self.set.observer.event(&Event::AskedAgain { why, after: pause }));
            if !rest(pause, &self.set.stop) {
                break None;
            }
            pause = (pause * 2).min(PAUSE_MAX);
        };
        Ok(Answer { assignments: self.assignments, ours })
    }
}

/// Sleeps; false if the run stops.
fn rest(pause: Duration, stop: &Stop) -> bool {
    (0..pause.as_millis() / LOOK_UP.as_millis()).all(|_| {
        std::thread::sleep(LOOK_UP);
        !stop.is_asked()
    })
}

/// A set's response.
enum Said {
    /// For each page, whether it is ours. Pages whose URLs the set rejects are ours, since no
    /// other crawl fetches them; if the set has forgotten the request, all pages are.
    Ours(Vec<bool>),
    /// The id's time is in the future.
    Ahead(String),
    /// The set is unreachable, or cannot answer now.
    Nothing(String),
}

/// Sends the request once.
///
/// # Errors
/// A permanent error of the set.
fn said(set: &Set, id: RequestId, urls: &[&str]) -> Result<Said, Error> {
    match set.shared.add(Some(id), urls) {
        Ok(Added::Verdicts(verdicts)) => {
            Ok(Said::Ours(verdicts.iter().map(|verdict| verdict.is_none_or(Verdict::is_new)).collect()))
        }
        Ok(Added::Forgotten) => {
            // In case they were never added.
            if let Err(why) = set.shared.add(None, urls) {
                return Ok(Said::Nothing(why));
            }
            drop(set.observer.event(&Event::Forgotten { request: id.to_string(), pages: urls.len() }));
            Ok(Said::Ours(vec![true; urls.len()]))
        }
        Ok(Added::Ahead(why)) => Ok(Said::Ahead(why)),
        Ok(Added::Refused(why)) => Err(Error::Broken(format!("the seen set refuses a claim: {why}"))),
        Err(why) => Ok(Said::Nothing(why)),
    }
}
