//! Pruning: drops the versions that a rule does not keep; all others stay readable.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use filemap::access::{Scope, keys};
use filemap::canonical::url_of_key;
use filemap::{Error, Result, Version};
use filemap_core::prune::{PruneRule, Pruned};

use crate::core::{Core, Found};
use crate::error;
use crate::format::row;
use crate::rows::Rows;
use crate::store::CloudStore;
use crate::write::{versions, writer};
use crate::writer::Writer;

/// Number of keys searched at once.
const KEYS_AT_ONCE: usize = 1_000;

impl CloudStore {
    /// Drops the versions of a scope's pages, of their variants and of the records beside them
    /// that a rule keeps neither by number nor by age, like the local store's prune. If a kept
    /// version refers to the body of another version of its key, that one is kept too. Unlike the
    /// local store, it does not keep the original of a WARC revisit of another URL: revisits are
    /// not examined. [`CloudStore::compact`] frees the bytes. Reads the index once, and no page.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for `max_live_bytes`, and for a rule that keeps no version;
    /// [`Error::Remote`] for a follower, and for the object storage: versions dropped
    /// before the error stay dropped.
    ///
    /// ```
    /// use filemap::access::{PutRule, Scope};
    /// use filemap::{Page, PageWrite};
    /// use filemap_cloud::{CloudOptions, Mode, open_bucket};
    /// use filemap_core::prune::PruneRule;
    /// let store = open_bucket("mem://pruned", Mode::Fill, &CloudOptions::new())?;
    /// for time_ms in 1..5 {
    ///     store.put(&Page::new("http://example.com/", time_ms, 200, "hello"), PutRule::IfChanged)?;
    /// }
    /// let rule = PruneRule { keep_versions: Some(1), ..PruneRule::default() };
    /// assert_eq!(store.prune(rule, &Scope::new())?.versions, 2, "the first holds the body of the last");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prune(&self, rule: PruneRule, scope: &Scope) -> Result<Pruned> {
        self.pruned(rule, scope, true)
    }

    /// Counts what [`CloudStore::prune`] would drop. Also works on a follower.
    ///
    /// # Errors
    ///
    /// As [`CloudStore::prune`].
    pub fn prune_plan(&self, rule: PruneRule, scope: &Scope) -> Result<Pruned> {
        self.pruned(rule, scope, false)
    }

    /// Prunes all shards.
    fn pruned(&self, rule: PruneRule, scope: &Scope, writes: bool) -> Result<Pruned> {
        let reports = self.each(|shard| {
            let writer = if writes { Some(writer(&shard.core)?) } else { None };
            pruned(&shard.core, rule, scope, writer)
        })?;
        Ok(reports.into_iter().fold(Pruned::default(), plus))
    }
}

/// Adds the counts of two shards.
fn plus(mut all: Pruned, one: Pruned) -> Pruned {
    all.keys += one.keys;
    all.versions += one.versions;
    all.bytes += one.bytes;
    all.live_bytes += one.live_bytes;
    all.hidden += one.hidden;
    all.is_cancelled |= one.is_cancelled;
    all
}

/// Prunes one shard. Without a writer it only counts.
fn pruned(core: &Arc<Core>, rule: PruneRule, scope: &Scope, writer: Option<&Writer>) -> Result<Pruned> {
    if rule.max_live_bytes.is_some() {
        return Err(Error::Unsupported { what: "prune to a number of bytes: prune by age or number" });
    }
    if rule.keep_versions == Some(0) {
        return Err(Error::Unsupported { what: "prune that keeps no version: remove the pages" });
    }
    let rows = core.wait(|core| async move { core.index.segments().await })?;
    let live = rows.values().fold(0, |sum: u64, bytes| sum.saturating_add(bytes.live()));
    let takes = scope.filter();
    let mut pruned = Pruned::default();
    let mut search = Search::new(rule, keys::ranges_of_all(scope));
    loop {
        let (rest, forms) = core.wait_for(search.step(Arc::clone(core)))?;
        search = rest;
        for form in &forms {
            let Some(key) = keys::key_of_form(form).filter(|key| takes(url_of_key(key))) else { continue };
            prune_key(core, writer, rule, &key, &mut pruned)?;
        }
        if forms.len() < KEYS_AT_ONCE {
            break;
        }
    }
    // The index shows the drops only after the next commit.
    pruned.live_bytes = live.saturating_sub(pruned.bytes);
    Ok(pruned)
}

/// Returns whether a rule by itself keeps the `nth` newest version of a key, as in the local
/// store.
fn keeps(rule: PruneRule, nth: u64, version: Version) -> bool {
    let keeps_all = rule.keep_versions.is_none() && rule.since_ms.is_none();
    keeps_all
        || rule.keep_versions.is_some_and(|keep| nth < u64::from(keep))
        || rule.since_ms.is_some_and(|since| version.time_ms >= since)
}

fn prune_key(
    core: &Arc<Core>,
    writer: Option<&Writer>,
    rule: PruneRule,
    key: &[u8],
    pruned: &mut Pruned,
) -> Result<()> {
    let _lock = writer.map(|writer| writer.lock(url_of_key(key)));
    let form = keys::form(key);
    let found = versions(core, &form)?;
    let kept: Vec<bool> = found.iter().zip(0..).map(|((version, _), nth)| keeps(rule, nth, *version)).collect();
    let holders: HashSet<Version> =
        found.iter().zip(&kept).filter_map(|((_, row), kept)| row.original.filter(|_| *kept)).collect();
    let mut kept = kept.into_iter();
    let (stays, goes): (Vec<Found>, Vec<Found>) =
        found.into_iter().partition(|(version, _)| kept.next().unwrap_or(true) || holders.contains(version));
    if goes.is_empty() {
        return Ok(());
    }
    if let Some(writer) = writer {
        writer.remove(key, &form, &goes, stays.is_empty())?;
    }
    pruned.keys += u64::from(stays.is_empty());
    pruned.versions += goes.len() as u64;
    pruned.bytes += goes.iter().map(|(_, row)| row.bytes).sum::<u64>();
    Ok(())
}

/// Searches for keys with versions to drop.
struct Search {
    rule: PruneRule,
    ranges: VecDeque<Range<Vec<u8>>>,
    rows: Option<Rows>,
    form: Vec<u8>,
    /// Number of versions of the key seen so far.
    seen: u64,
    is_found: bool,
}

impl Search {
    fn new(rule: PruneRule, forms: Vec<Range<Vec<u8>>>) -> Search {
        let ranges = forms.iter().map(row::of_forms).collect();
        Search { rule, ranges, rows: None, form: Vec::new(), seen: 0, is_found: false }
    }

    /// The next keys; fewer than requested only at the end.
    async fn step(mut self, core: Arc<Core>) -> error::Result<(Search, Vec<Vec<u8>>)> {
        let mut found = Vec::new();
        while found.len() < KEYS_AT_ONCE {
            let rows = match &mut self.rows {
                Some(rows) => rows,
                None => {
                    let Some(range) = self.ranges.pop_front() else { break };
                    self.rows.insert(core.rows(range, false).await?)
                }
            };
            let Some((form, version, _)) = rows.next(&core.bucket).await? else {
                self.rows = None;
                continue;
            };
            if form != self.form {
                (self.form, self.seen, self.is_found) = (form, 0, false);
            }
            if !self.is_found && !keeps(self.rule, self.seen, version) {
                self.is_found = true;
                found.push(self.form.clone());
            }
            self.seen += 1;
        }
        Ok((self, found))
    }
}
