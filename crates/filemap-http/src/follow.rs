//! Follows a server: asks what has changed, again and again, and makes a store of one's own equal.

use std::thread::sleep;
use std::time::{Duration, Instant};

use filemap::replica::{Counts, Replica, Told};
use filemap::store::ChangesPlace;
use filemap::{PageStore, Result};
use filemap_core::Error as EngineError;

use crate::client::{Client, ClientOptions, Said};
use crate::following::Following;

/// How long an answer waits for changes.
const WAIT: Duration = Duration::from_secs(20);
/// What was applied is made durable, and its place noted, after so long or so many changes.
const NOTE_AFTER: Duration = Duration::from_secs(1);
const NOTE_CHANGES: u64 = 20_000;
/// Times between two tries to reach the server: the second is the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(15));

/// Makes `store` equal to the store behind the server that `following` names, and keeps it so,
/// until the store is closed. Blocks. The place that it has come to is noted in a file beside the
/// store, so that it goes on from there; `log` gets a line for what the operator should know.
///
/// A server that is not reached is asked again, at least every 15 seconds. One that does not know
/// any more what has changed is asked for all that it has: what it does not list is removed here.
///
/// # Errors
///
/// Those of the store, but for its end; [`filemap::Error::Cursor`] if the noted place is none.
pub fn follow(
    store: &PageStore,
    following: &Following,
    options: &ClientOptions,
    log: &(dyn Fn(&str) + Send + Sync),
) -> Result<()> {
    let mut pause = PAUSES.0;
    let mut place = filemap::replica::noted_place(store)?;
    if place.as_ref().is_some_and(|place| !place.is_listing()) {
        following.completed();
    }
    let mut before = Counts::default();
    loop {
        let replica = Replica::new(store.clone(), place.as_ref())?;
        let mut turn = Turn {
            store,
            following,
            log,
            replica,
            before,
            place,
            pending: None,
            noted: Instant::now(),
            since: 0,
            has_heard: false,
        };
        let heard = turn.ask(options);
        // What was applied before it broke off stays.
        let noted = turn.note();
        if turn.has_heard {
            pause = PAUSES.0;
        }
        (before, place) = (turn.counts(), turn.place);
        match noted.and(heard) {
            Ok(()) | Err(filemap::Error::Engine(EngineError::Closed)) => return Ok(()),
            Err(error @ filemap::Error::Remote { .. }) => {
                let words = error.to_string();
                if following.failed(&words) {
                    log(&format!("this replica does not get on: {words}"));
                }
                sleep(pause);
                pause = (pause * 2).min(PAUSES.1);
            }
            Err(error) => {
                following.ended(&error.to_string());
                return Err(error);
            }
        }
    }
}

/// One connection's worth of following.
struct Turn<'a> {
    store: &'a PageStore,
    following: &'a Following,
    log: &'a (dyn Fn(&str) + Send + Sync),
    replica: Replica,
    /// What was done before.
    before: Counts,
    place: Option<ChangesPlace>,
    /// The place behind what was applied and not noted yet.
    pending: Option<ChangesPlace>,
    noted: Instant,
    /// Changes applied since.
    since: u64,
    /// The server has told something.
    has_heard: bool,
}

impl Turn<'_> {
    fn counts(&self) -> Counts {
        let now = self.replica.counts();
        let mut sum = self.before;
        sum.put += now.put;
        sum.present += now.present;
        sum.removed += now.removed;
        sum.refused += now.refused;
        sum
    }

    /// Asks and applies until the server has nothing to tell, or the answer ends otherwise.
    fn ask(&mut self, options: &ClientOptions) -> Result<()> {
        let client = Client::open(self.following.location(), options)?;
        loop {
            let since = self.pending.as_ref().or(self.place.as_ref()).map(ToString::to_string);
            for line in client.changes(since.as_deref(), WAIT)? {
                let line = line?;
                self.has_heard = true;
                match line.said {
                    Said::Told(told) => {
                        self.apply(&client, told)?;
                        self.pending = Some(line.place.parse()?);
                        if self.since >= NOTE_CHANGES || self.noted.elapsed() >= NOTE_AFTER {
                            self.note()?;
                        }
                    }
                    Said::Damage(words) => {
                        self.following.damaged();
                        (self.log)(&format!("damaged in the store that is followed, and missing here: {words}"));
                        self.pending = Some(line.place.parse()?);
                    }
                    Said::End => {
                        self.pending = Some(line.place.parse()?);
                        self.note()?;
                        if self.following.up_to_date() {
                            (self.log)("this replica gets on again");
                        }
                    }
                    Said::Outrun(why) => {
                        (self.log)(&format!("this replica begins anew: {why}"));
                        self.following.began_anew();
                        (self.place, self.pending) = (None, None);
                        self.before = self.counts();
                        self.replica = Replica::new(self.store.clone(), None)?;
                        break;
                    }
                }
            }
        }
    }

    fn apply(&mut self, client: &Client, told: Told) -> Result<()> {
        self.replica.apply(told, &mut |page, version| client.body_of(page, version))?;
        self.since += 1;
        self.following.applied(self.counts());
        Ok(())
    }

    /// Makes durable what was applied, and notes the place behind it.
    fn note(&mut self) -> Result<()> {
        (self.noted, self.since) = (Instant::now(), 0);
        let Some(place) = self.pending.take() else { return Ok(()) };
        if self.place.as_ref() != Some(&place) {
            self.store.sync()?;
            filemap::replica::note_place(self.store, &place)?;
        }
        self.place = Some(place);
        Ok(())
    }
}
