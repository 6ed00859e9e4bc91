//! Begins visits. With a shared seen set, pages are claimed first.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use frontier::{Assignment, PageId};
use serde_json::json;

use super::{Coordinator, Message};
use crate::clock::now_ms;
use crate::error::Error;
use crate::failure::{Failure, Reason};
use crate::run::claims::{Answer, Owner};
use crate::run::fleet::Fleet;
use crate::run::observe::Event;
use crate::visit::{self, Crawl};

impl Coordinator<'_> {
    /// Requests claims for the waiting pages, once the last request is answered. The claims are
    /// durable before.
    pub(super) fn ask(&mut self) -> Result<(), Error> {
        let Some(question) = self.state.claims.question() else { return Ok(()) };
        let pages: Vec<PageId> = question.assignments.iter().map(|assignment| assignment.page).collect();
        self.state.frontier.claim(question.id.to_u128(), &pages)?;
        self.commit()?;
        let tell = self.tell.clone();
        let asking = self.runtime.spawn_blocking(move || question.ask());
        self.runtime.spawn(async move {
            let broken = |error| Error::Broken(format!("a claim ended unexpectedly: {error}; please report it"));
            // After the end of the run nobody listens: the next run asks again.
            let _ = tell.send(asking.await.unwrap_or_else(|error| Err(broken(error))).map(Message::Answered));
        });
        Ok(())
    }

    /// Begins the visits of pages that are ours.
    pub(super) fn answered(&mut self, answer: Answer) -> Result<(), Error> {
        self.state.claims.take(&answer);
        if answer.ours.is_none() || self.stop.is_asked() {
            return self.put_back(answer.assignments);
        }
        if self.held_up.is_some() {
            answer.assignments.iter().for_each(|assignment| self.await_again(assignment.page));
            return self.put_back(answer.assignments);
        }
        self.in_flight -= answer.assignments.len();
        for assignment in answer.assignments {
            let page = assignment.page;
            // Another page of the host may have begun meanwhile: this one is then assigned again.
            let is_left = self.state.claims.owner(&assignment) == Owner::Elsewhere;
            if is_left || self.state.frontier.begins(page, now_ms())? {
                self.begin(assignment)?;
            } else {
                self.state.frontier.release(page)?;
                self.await_again(page);
            }
        }
        Ok(())
    }

    /// Returns pages to the frontier whose claims were not requested or not answered.
    pub(super) fn put_back(&mut self, assignments: Vec<Assignment>) -> Result<(), Error> {
        self.in_flight -= assignments.len();
        assignments.iter().try_for_each(|handed| self.state.frontier.release(handed.page).map_err(Error::from))
    }

    pub(super) fn begin(&mut self, assignment: Assignment) -> Result<(), Error> {
        if self.is_handed_over(&assignment)? {
            return Ok(());
        }
        let owner = self.state.claims.owner(&assignment);
        if owner == Owner::Elsewhere {
            return self.leave(&assignment, Reason::Elsewhere);
        }
        self.in_flight += 1;
        // Pages that will not be fetched here are not claimed, so others may fetch them.
        let is_wanted = |crawl: &Crawl| {
            crawl.scope.contains(&assignment.url) && crawl.refusal(&assignment.url, assignment.is_seed).is_none()
        };
        if owner == Owner::Unknown && is_wanted(&self.crawl) {
            self.state.claims.wait(assignment);
            return Ok(());
        }
        let (crawl, tell) = (Arc::clone(&self.crawl), self.tell.clone());
        let (url, page) = (assignment.url.clone(), assignment.page);
        let silence = self.state.fleet.as_ref().map(Fleet::silence);
        let visit =
            async move { visit::visit(&crawl, assignment).await.map(|visit| Message::Visited(Box::new(visit))) };
        let visit = self.runtime.spawn(async move {
            match silence {
                // When the lease has expired, the host may belong to another crawl.
                Some(silence) => {
                    let (mut visit, mut silence) = (pin!(visit), pin!(silence));
                    let told = poll_fn(|context| match visit.as_mut().poll(context) {
                        Poll::Ready(told) => Poll::Ready(told),
                        Poll::Pending => silence.as_mut().poll(context).map(|()| Ok(Message::Dropped(page))),
                    });
                    told.await
                }
                None => visit.await,
            }
        });
        self.runtime.spawn(async move {
            let broken =
                |error| Error::Broken(format!("the visit to {url} ended unexpectedly: {error}; please report it"));
            // After the end of the run nobody listens: the next run fetches the page again.
            let _ = tell.send(visit.await.unwrap_or_else(|error| Err(broken(error))));
        });
        Ok(())
    }

    /// Handles a dropped visit: the page is fetched again.
    pub(super) fn dropped(&mut self, page: PageId) -> Result<(), Error> {
        self.in_flight -= 1;
        self.state.frontier.release(page)?;
        self.await_again(page);
        Ok(())
    }

    /// Leaves a page to another crawl: the one that has claimed it, or owns its shard.
    pub(super) fn leave(&mut self, assignment: &Assignment, reason: Reason) -> Result<(), Error> {
        self.tally.add(reason, 1);
        let url = assignment.url.clone();
        self.say(&match reason {
            Reason::HandedOver => Event::HandedOver { url },
            _ => Event::Elsewhere { url },
        })?;
        self.tell_awaited(
            assignment.page,
            || json!({ "event": "failed", "url": assignment.url, "reason": reason.name() }),
        );
        self.tell_failure(assignment.page, &Failure::from(reason))
    }
}
