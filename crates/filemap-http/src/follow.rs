//! Replication: polls the change feed of a server and applies it to a local store, the replica.

use std::thread::sleep;
use std::time::{Duration, Instant};

use filemap::replica::{Counts, Replica, Told, is_replica, note_place, noted_place};
use filemap::store::ChangesPlace;
use filemap::{Error, PageStore, Result};
use filemap_core::{Error as EngineError, StorageError};

use crate::client::{Client, ClientOptions, Said};
use crate::following::Following;

/// Time for which the server waits for changes before it answers.
const WAIT: Duration = Duration::from_secs(20);
/// Applied changes are synced, and the cursor saved, after this time or this many changes.
const NOTE_AFTER: Duration = Duration::from_secs(1);
const NOTE_CHANGES: u64 = 20_000;
/// Pause between two attempts: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(15));

/// Receives log lines for the operator.
type Log<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// Behaviour of [`follow`] when it would remove local pages that the server's store lacks: the
/// server has another store than before, or the local store has pages and was not a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// Fails with an error; removes nothing.
    Refuse,
    /// Makes the local store equal to the server's.
    BeginAnew,
}

/// Makes `store` equal to the store behind the server that `following` names, and keeps it so,
/// until `store` is closed. Blocks. The cursor reached is saved in the store's folder, so that a
/// later call continues from there. `log` gets lines for the operator.
///
/// Retries at least every 15 seconds if the server is unreachable, or if something temporarily
/// cannot be stored here. If the server no longer knows the changes since the cursor, it is asked
/// for a full listing: pages missing in that are removed here.
///
/// # Errors
///
/// [`Error::Remote`] if the server's store may not be followed: with [`Mismatch::Refuse`], it is
/// another one than before, or `store` has pages and was not a replica; it is `store` itself; it
/// has another canonicaliser. [`filemap_core::StorageError::Poisoned`]; [`Error::Cursor`] if the
/// saved cursor is invalid.
pub fn follow(
    store: &PageStore,
    following: &Following,
    options: &ClientOptions,
    mismatch: Mismatch,
    log: Log<'_>,
) -> Result<()> {
    // Records the end of replication, even by a panic.
    let ending = following.ending();
    let mut turns = Turns { store, following, options, mismatch, log, before: Counts::default() };
    let mut pause = PAUSES.0;
    loop {
        let (turned, has_got_on) = turns.turn();
        match turned {
            Ok(()) => {}
            Err(Trouble::Passing(Error::Engine(EngineError::Closed))) => {
                ending.is_wanted();
                return Ok(());
            }
            Err(Trouble::Final(error)) => {
                ending.because(&error);
                return Err(error);
            }
            Err(Trouble::Passing(error)) => {
                let words = error.to_string();
                if following.failed(&words) {
                    log(&format!("replication failed: {words}"));
                }
            }
        }
        if has_got_on {
            pause = PAUSES.0;
        }
        sleep(pause);
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// The reason why a turn ends.
enum Trouble {
    /// Temporary.
    Passing(Error),
    /// Permanent: a retry does not help.
    Final(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        match error {
            Error::Engine(EngineError::Storage(StorageError::Poisoned { .. }))
            | Error::Cursor { .. }
            | Error::Unsupported { .. } => Trouble::Final(error),
            _ => Trouble::Passing(error),
        }
    }
}

impl From<EngineError> for Trouble {
    fn from(error: EngineError) -> Trouble {
        Error::from(error).into()
    }
}

type Turned<T> = std::result::Result<T, Trouble>;

/// State shared by all turns.
struct Turns<'a> {
    store: &'a PageStore,
    following: &'a Following,
    options: &'a ClientOptions,
    mismatch: Mismatch,
    log: Log<'a>,
    /// Counts of earlier turns.
    before: Counts,
}

impl Turns<'_> {
    /// Follows until an error, or until the replica starts over. Also returns whether a cursor was
    /// saved.
    fn turn(&mut self) -> (Turned<()>, bool) {
        let mut turn = match self.begin() {
            Ok(turn) => turn,
            Err(error) => return (Err(error), false),
        };
        let heard = turn.ask();
        // Changes applied before the connection broke off are kept.
        let noted = turn.note();
        let (counts, has_noted) = (turn.counts(), turn.has_noted);
        self.before = counts;
        let turned = match (heard, noted) {
            (_, Err(Trouble::Final(error))) => Err(Trouble::Final(error)),
            (heard, noted) => heard.and(noted),
        };
        (turned, has_noted)
    }

    fn begin(&self) -> Turned<Turn<'_>> {
        let place = noted_place(self.store)?;
        if place.as_ref().is_some_and(|place| !place.is_listing()) {
            self.following.completed();
        }
        let client = Client::open(self.following.location(), self.options)?;
        self.check_rules(&client)?;
        let replica = Replica::new(self.store.clone(), place.as_ref())?;
        Ok(Turn {
            turns: self,
            client,
            replica,
            place,
            pending: None,
            noted: Instant::now(),
            since: 0,
            has_noted: false,
        })
    }

    /// Refuses a store with another canonicaliser.
    fn check_rules(&self, client: &Client) -> Turned<()> {
        let own = self.store.engine().canonicalizer();
        match client.rules() {
            Some(theirs) if theirs != (own.name.as_str(), own.version) => Err(self.refusal(&format!(
                "its canonicaliser is {} {}, that of this store {} {}: create this store with the same one",
                theirs.0, theirs.1, own.name, own.version
            ))),
            _ => Ok(()),
        }
    }

    fn refusal(&self, why: &str) -> Trouble {
        Trouble::Final(self.remote(format!("it cannot be followed: {why}")))
    }

    fn remote(&self, detail: String) -> Error {
        Error::Remote {
            location: self.following.location().to_owned(),
            detail,
            is_damage: false,
            is_of_one_page: false,
        }
    }

    /// Refuses to follow the store of `place` if it is this one, or if local pages would be lost.
    fn check_store(&self, place: &ChangesPlace, before: Option<[u8; 16]>) -> Turned<()> {
        let own = self.store.engine().changes_end()?.store_id();
        if place.store_id() == own {
            return Err(self.refusal("it is this very store, or one copied from it file by file"));
        }
        let why = match before {
            Some(id) if id != place.store_id() => "it has another store now than this one is a replica of",
            None if !is_replica(self.store)? && self.store.engine().keys().next().is_some() => {
                "this store has its own pages"
            }
            _ => return Ok(()),
        };
        if self.mismatch == Mismatch::BeginAnew {
            return Ok(());
        }
        Err(self.refusal(&format!("{why}; pages that the other store lacks would be removed here (--begin-anew)")))
    }
}

/// Replication over one connection.
struct Turn<'a> {
    turns: &'a Turns<'a>,
    client: Client,
    replica: Replica,
    place: Option<ChangesPlace>,
    /// Cursor after the last applied change, not saved yet.
    pending: Option<ChangesPlace>,
    noted: Instant,
    /// Changes applied since `noted`.
    since: u64,
    has_noted: bool,
}

impl Turn<'_> {
    fn counts(&self) -> Counts {
        let (now, mut sum) = (self.replica.counts(), self.turns.before);
        sum.put += now.put;
        sum.present += now.present;
        sum.removed += now.removed;
        sum.removed_versions += now.removed_versions;
        sum.refused += now.refused;
        sum.damaged += now.damaged;
        sum
    }

    /// Requests and applies changes until an error, or until the replica starts over.
    fn ask(&mut self) -> Turned<()> {
        let mut is_checked = false;
        loop {
            let since = self.pending.as_ref().or(self.place.as_ref()).map(ToString::to_string);
            let client = self.client.clone();
            for line in client.changes(since.as_deref(), WAIT)? {
                let line = line?;
                if let Said::Outrun(why) = line.said {
                    return self.begin_anew(&why);
                }
                let unread = |_| self.turns.remote(format!("invalid change cursor: {}", line.place));
                let place: ChangesPlace = line.place.parse().map_err(unread)?;
                if !is_checked {
                    self.turns.check_store(&place, self.place.as_ref().map(ChangesPlace::store_id))?;
                    is_checked = true;
                    if self.place.is_none() {
                        // From here on the store is a replica, however the run ends.
                        note_place(self.turns.store, &place.beginning())?;
                    }
                }
                let is_end = matches!(line.said, Said::End);
                match line.said {
                    Said::Told(told) => self.apply(&client, told)?,
                    Said::Damage(of, words) => {
                        (self.turns.log)(&format!("damaged in the followed store: {words}"));
                        self.apply(&client, Told::Damaged(of))?;
                    }
                    Said::End | Said::Outrun(_) => {}
                }
                self.pending = Some(place);
                if is_end || self.since >= NOTE_CHANGES || self.noted.elapsed() >= NOTE_AFTER {
                    self.note()?;
                }
                let is_complete = self.place.as_ref().is_some_and(|place| !place.is_listing());
                if is_end && is_complete && self.turns.following.up_to_date() {
                    (self.turns.log)("replication resumed");
                }
            }
        }
    }

    /// Saves the start of a full listing as the cursor to continue from.
    fn begin_anew(&mut self, why: &str) -> Turned<()> {
        self.pending = None;
        let now = self.client.changes(Some("now"), Duration::ZERO)?.next().transpose()?;
        let unread = || self.turns.remote("it does not report its cursor".to_owned());
        let place = now.and_then(|line| line.place.parse::<ChangesPlace>().ok()).ok_or_else(unread)?;
        self.turns.check_store(&place, self.place.as_ref().map(ChangesPlace::store_id))?;
        (self.turns.log)(&format!("this replica starts over: {why}"));
        self.turns.following.began_anew();
        note_place(self.turns.store, &place.beginning())?;
        Ok(())
    }

    fn apply(&mut self, client: &Client, told: Told) -> Turned<()> {
        self.replica.apply(told, &mut |page, version| client.body_of(page, version))?;
        self.since += 1;
        self.turns.following.applied(self.counts());
        for note in self.replica.take_notes() {
            (self.turns.log)(&note);
        }
        Ok(())
    }

    /// Syncs the applied changes and saves the cursor after them.
    fn note(&mut self) -> Turned<()> {
        (self.noted, self.since) = (Instant::now(), 0);
        let Some(place) = self.pending.take() else { return Ok(()) };
        if self.place.as_ref() != Some(&place) {
            self.turns.store.sync()?;
            note_place(self.turns.store, &place)?;
        }
        (self.place, self.has_noted) = (Some(place), true);
        self.turns.following.gets_on();
        Ok(())
    }
}
