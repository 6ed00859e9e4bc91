//! Verbs for a store in object storage: upkeep and statistics.
//!
//! Opening a store to change it takes it over from its writer. These verbs do not listen to
//! Ctrl-C: each may be killed at any moment, and run again.

pub mod compact;
pub mod erase;
pub mod prune;
pub mod recompress;
pub mod repair;
pub mod segments;
pub mod stat;
pub mod train;
pub mod verify;

use std::time::Duration;

use filemap::PageWrite;
use filemap_cloud::CloudStore;
use fm_cli::{Failure, Outcome, Output};
use serde_json::json;

use crate::flags::Shared;
use crate::stores::bucket::{self, For};

/// Time that unneeded objects stay, in words and as a duration: the default of an open store.
const GRACE: (&str, Duration) = ("an hour", Duration::from_secs(3600));

const NO_LOSS: &str = "`repair` tells what is lost";

fn to_read(location: &str, shared: &Shared) -> Result<CloudStore, Failure> {
    bucket::refuse_flags(location, &[("--accept-loss", shared.accept_loss, NO_LOSS)])?;
    bucket::opened(location, For::Reading, bucket::options()?)
}

fn to_change(location: &str, shared: &Shared) -> Result<CloudStore, Failure> {
    bucket::refuse_flags(location, &[("--accept-loss", shared.accept_loss, NO_LOSS)])?;
    // The verb compacts itself, because its report does not cover background compaction.
    bucket::opened(location, For::Changing, bucket::options()?.space_bound(None))
}

/// Closes a store, and returns the outcome of the work on it.
fn closed(store: &CloudStore, done: Result<Outcome, Failure>, out: Output) -> Result<Outcome, Failure> {
    let outcome = Outcome::closed(done, store.close())?;
    out.end(outcome)
}

/// Prints places of damage, and returns the outcome.
fn damaged(damage: &[String], out: &mut Output) -> Result<Outcome, Failure> {
    for told in damage {
        let (object, what) = told.split_once(": ").unwrap_or(("", told));
        match out.is_json() {
            true => out.json(&json!({ "object": object, "what": what }))?,
            false => out.line(fm_cli::plain(told.as_bytes()))?,
        }
    }
    Ok(if damage.is_empty() { Outcome::Done } else { Outcome::Damaged })
}
