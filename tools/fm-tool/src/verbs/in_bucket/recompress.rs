//! `recompress` of a bucket: compresses stored bodies again, with its present dictionaries.

use filemap_cloud::CollectReport;
use fm_cli::{Failure, Outcome, Output};

use super::{closed, compact, damaged, to_change};
use crate::flags::Shared;

/// Runs the verb.
pub fn run(location: &str, level: i32, shared: &Shared) -> Result<Outcome, Failure> {
    let store = to_change(location, shared)?;
    let mut out = Output::stdout(shared.flags);
    let done = store.recompress(level).map_err(Failure::from).and_then(|done| {
        let outcome = damaged(&done.damage, &mut out)?;
        compact::tell(&done, &CollectReport::default(), &mut out)?;
        Ok(outcome)
    });
    closed(&store, done, out)
}
