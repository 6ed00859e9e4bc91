//! Claims: crawls that share a seen set fetch each page once; the set answers `new` to one of
//! them.
//!
//! A page is asked for when it is about to be fetched. The frontier has the claim, durably, before
//! the set is asked, and until the page is fetched or has failed: after a restart it is asked
//! again with the same id, and is answered as it was. So a lost answer loses no page.
//!
//! Start pages are asked for too, and are fetched whatever the answer: each crawl needs them to
//! find links. What was fetched, or has failed, once is ours.

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

/// The wait before a set that failed is asked again: doubled for each further time, up to the
/// other.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
const LOOK_UP: Duration = Duration::from_millis(100);

/// What is known of pages that were asked for, and pages that are to be.
pub struct Claims {
    set: Option<Set>,
    ours: HashSet<PageId>,
    elsewhere: HashSet<PageId>,
    waiting: Vec<Assignment>,
    /// Pages of the question that is out.
    asked: usize,
}

/// The set, and whom its answers concern.
#[derive(Clone)]
struct Set {
    shared: Arc<SharedSet>,
    stop: Stop,
    observer: Arc<dyn Observer>,
}

/// Whose a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Fetch it.
    Ours,
    /// Another crawl has claimed it.
    Elsewhere,
    /// It is to be asked for.
    Unknown,
}

/// Pages that are asked for together, in the order of their numbers.
pub struct Question {
    set: Set,
    pub id: RequestId,
    pub assignments: Vec<Assignment>,
}

/// What became of a question.
pub struct Answer {
    pub assignments: Vec<Assignment>,
    /// Which of them are ours; `None` if the run is to stop before there was an answer.
    pub ours: Option<Vec<bool>>,
}

impl Claims {
    /// Claims at a set; pages of open claims are asked for again. Blocks.
    ///
    /// # Errors
    /// The set's, and the frontier's.
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
            let id = id.ok_or_else(|| Error::Damage("a claim's id is none of a request".to_owned()))?;
            let urls: Vec<&str> = claim.pages.iter().map(|(_, url)| url.as_str()).collect();
            let ours = match said(&set, id, &urls)? {
                Said::Ours(ours) => ours,
                // Made by a clock that was wrong: the set never had it.
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

    /// Whose a page is that was handed out.
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

    /// Has a page asked for with the next question.
    pub fn wait(&mut self, assignment: Assignment) {
        self.waiting.push(assignment);
    }

    /// The next question, unless one is out: what waits meanwhile goes together.
    pub fn question(&mut self) -> Option<Question> {
        let set = self.set.as_ref().filter(|_| self.asked == 0 && !self.waiting.is_empty())?;
        let mut assignments = std::mem::take(&mut self.waiting);
        assignments.sort_by_key(|assignment| assignment.page);
        self.asked = assignments.len();
        Some(Question { set: set.clone(), id: RequestId::now(), assignments })
    }

    /// Notes an answer.
    pub fn take(&mut self, answer: &Answer) {
        self.asked = 0;
        for (assignment, is_ours) in answer.assignments.iter().zip(answer.ours.iter().flatten()) {
            self.learn(assignment.page, *is_ours);
        }
    }

    /// Number of pages of the question that is out.
    pub fn asked(&self) -> usize {
        self.asked
    }

    /// Pages that were not asked for, and are not going to be.
    pub fn give_up(&mut self) -> Vec<Assignment> {
        std::mem::take(&mut self.waiting)
    }

    /// A page is fetched or has failed.
    pub fn settle(&mut self, page: PageId) {
        self.ours.remove(&page);
        self.elsewhere.remove(&page);
    }
}

impl Question {
    /// Asks until there is an answer, or the run is to stop. Blocks.
    ///
    /// # Errors
    /// What the set will never answer otherwise.
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

/// Sleeps; false if the run is to stop.
fn rest(pause: Duration, stop: &Stop) -> bool {
    (0..pause.as_millis() / LOOK_UP.as_millis()).all(|_| {
        std::thread::sleep(LOOK_UP);
        !stop.is_asked()
    })
}

/// What a set says.
enum Said {
    /// Which pages are ours: also those that it takes for no URLs, for nobody else fetches them;
    /// all, if it has forgotten what it said.
    Ours(Vec<bool>),
    /// The id is of a time to come.
    Ahead(String),
    /// It cannot be reached, or cannot answer now.
    Nothing(String),
}

/// Asks once.
///
/// # Errors
/// What the set will never answer otherwise.
fn said(set: &Set, id: RequestId, urls: &[&str]) -> Result<Said, Error> {
    match set.shared.add(Some(id), urls) {
        Ok(Added::Verdicts(verdicts)) => {
            Ok(Said::Ours(verdicts.iter().map(|verdict| verdict.is_none_or(Verdict::is_new)).collect()))
        }
        Ok(Added::Forgotten) => {
            // In case that they never were added.
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
