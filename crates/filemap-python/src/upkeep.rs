//! Long calls on a store: compact, verify, prune, erase, back up. Each takes a callback `progress`
//! (called about ten times a second) and ends on Ctrl-C; completed work stays.

use std::path::PathBuf;

use filemap::erase::{EraseOrder, EraseTarget};
use filemap_core::backup::BackupOptions;
use filemap_core::check::VerifyOptions;
use filemap_core::compact::CompactionGoal;
use filemap_core::prune::PruneRule;
use pyo3::prelude::*;
use regex::bytes::Regex;

use crate::argument::{self, Scope, Text, number};
use crate::errors::{Failure, invalid};
use crate::page::now_ms;
use crate::report::{Absent, BackupReport, CompactReport, EraseReport, Problem, PruneReport, VerifyReport};
use crate::signals::Watch;
use crate::store::PageStore;
use crate::times;

/// An optional callback.
type Callback = Option<Py<PyAny>>;

/// Calls back with two numbers: work done, and work in total (0 if unknown).
fn tell(progress: &Callback, py: Python<'_>, done: u64, total: u64) -> PyResult<()> {
    match progress {
        Some(progress) => progress.bind(py).call1((done, total)).map(|_| ()),
        None => Ok(()),
    }
}

fn pattern(regex: &str) -> PyResult<Regex> {
    Regex::new(regex).map_err(|error| invalid(error.to_string()))
}

#[pymethods]
impl PageStore {
    /// Frees the bytes of removed and replaced versions.
    #[pyo3(signature = (*, progress = None))]
    fn compact(&self, py: Python<'_>, progress: Callback) -> PyResult<CompactReport> {
        let store = self.handle()?;
        let done = py.detach(|| {
            let mut watch = Watch::new();
            let done = store.engine().compact_with(CompactionGoal::NoGarbage, &mut |so_far| {
                watch.tick(|py| tell(&progress, py, so_far.read_bytes, 0))
            });
            watch.end(done.map_err(|error| Failure::from(error).into()))
        })?;
        Ok(done.into())
    }

    /// Compresses all pages again at a zstd level, 1 to 19, with the best current dictionaries.
    ///
    /// Segments that are already compressed so are skipped. Takes as long as compressing all pages
    /// on one core. Raises `ValueError` for another level.
    #[pyo3(signature = (level = 9, *, progress = None))]
    fn recompress(&self, py: Python<'_>, level: i32, progress: Callback) -> PyResult<CompactReport> {
        let store = self.handle()?;
        let done = py.detach(|| {
            let mut watch = Watch::new();
            let done = store
                .engine()
                .recompress_with(level, &mut |so_far| watch.tick(|py| tell(&progress, py, so_far.read_bytes, 0)));
            watch.end(done.map_err(|error| Failure::from(error).into()))
        })?;
        Ok(done.into())
    }

    /// Reads all files and reports all damage; `quick` reads only the structures that lead to
    /// pages.
    #[pyo3(signature = (*, quick = false, progress = None))]
    fn verify(&self, py: Python<'_>, quick: bool, progress: Callback) -> PyResult<VerifyReport> {
        let store = self.handle()?;
        let options = if quick { VerifyOptions::new().quick() } else { VerifyOptions::new() };
        let done = py.detach(|| {
            let mut watch = Watch::new();
            let done = store.engine().verify_with(&options, &mut |so_far| {
                watch.tick(|py| tell(&progress, py, so_far.done_bytes, so_far.total_bytes))
            });
            watch.end(done.map_err(|error| Failure::from(error).into()))
        })?;
        let problem = |found: filemap_core::check::Problem| {
            let keys =
                found.keys.iter().map(|key| String::from_utf8_lossy(filemap::canonical::url_of_key(key)).into_owned());
            let keys = keys.collect();
            Py::new(py, Problem { file: found.file, offset: found.offset, bytes: found.bytes, what: found.what, keys })
        };
        let absent = store.engine().absent().into_iter().filter(|absent| !absent.is_accepted);
        Ok(VerifyReport {
            complete: done.is_complete,
            files: done.files,
            bytes: done.bytes,
            value_records: done.value_records,
            key_records: done.key_records,
            index_pages: done.index_pages,
            indexed_keys: done.indexed_keys,
            problems: done.problems.into_iter().map(problem).collect::<PyResult<_>>()?,
            absent: absent.map(|absent| Py::new(py, Absent::from(absent))).collect::<PyResult<_>>()?,
        })
    }

    /// Drops old versions: keeps `keep_versions` of each page, and those younger than
    /// `older_than`; then drops the oldest until `max_bytes` are left. `host`, `domain`, `prefix`
    /// and `regex` select the pages; all others keep every version.
    #[pyo3(signature = (*, keep_versions = None, older_than = None, max_bytes = None, host = None, domain = None, prefix = None, regex = None, dry_run = false, progress = None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords")]
    fn prune(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = number)] keep_versions: Option<u32>,
        older_than: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = number)] max_bytes: Option<u64>,
        host: Option<String>,
        domain: Option<String>,
        prefix: Option<Text>,
        regex: Option<String>,
        dry_run: bool,
        progress: Callback,
    ) -> PyResult<PruneReport> {
        let age_ms = older_than.map(times::age_ms).transpose()?;
        let since_ms = age_ms.map(|age_ms| now_ms().saturating_sub(age_ms));
        let rule = PruneRule { keep_versions, since_ms, max_live_bytes: max_bytes };
        if rule == PruneRule::default() {
            return Err(invalid("prune needs keep_versions, older_than or max_bytes"));
        }
        let (scope, regex) = (Scope::new(host, prefix, domain)?, regex.map(|regex| pattern(&regex)).transpose()?);
        let is_all = scope.is_all() && regex.is_none();
        let filter = (!is_all)
            .then_some(move |url: &[u8]| scope.takes(url) && regex.as_ref().is_none_or(|regex| regex.is_match(url)));
        let store = self.handle()?;
        let done = py.detach(|| {
            let mut watch = Watch::new();
            let mut steps = 0;
            let mut step = |_| {
                steps += 1;
                watch.tick(|py| tell(&progress, py, steps, 0))
            };
            let done = match (filter, dry_run) {
                (None, true) => store.prune_plan(rule, &mut step),
                (None, false) => store.prune(rule, &mut step),
                (Some(filter), true) => store.prune_plan_where(rule, filter, &mut step),
                (Some(filter), false) => store.prune_where(rule, filter, &mut step),
            };
            watch.end(done.map_err(|error| Failure::from(error).into()))
        })?;
        Ok(PruneReport {
            urls: done.keys,
            versions: done.versions,
            bytes: done.bytes,
            live_bytes: done.live_bytes,
            hidden: done.hidden,
        })
    }

    /// Erases pages permanently, selected by one of `url`, `host`, `prefix`, `regex` and `digest`.
    /// A rule prevents their return.
    #[pyo3(signature = (*, reason, url = None, host = None, prefix = None, regex = None, digest = None, since = None, until = None, progress = None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords")]
    fn erase(
        &self,
        py: Python<'_>,
        reason: String,
        url: Option<Text>,
        host: Option<String>,
        prefix: Option<Text>,
        regex: Option<String>,
        digest: Option<String>,
        since: Option<&Bound<'_, PyAny>>,
        until: Option<&Bound<'_, PyAny>>,
        progress: Callback,
    ) -> PyResult<EraseReport> {
        let bytes = |text: Text| text.as_ref().to_vec();
        let targets = [
            url.map(|url| EraseTarget::Url(bytes(url))),
            host.map(argument::host).transpose()?.map(EraseTarget::Host),
            prefix.map(argument::prefix).transpose()?.map(|prefix| EraseTarget::Prefix(bytes(prefix))),
            regex.map(EraseTarget::Regex),
            digest.map(EraseTarget::Digest),
        ];
        let mut targets = targets.into_iter().flatten();
        let (Some(target), None) = (targets.next(), targets.next()) else {
            return Err(invalid("erase needs exactly one of url, host, prefix, regex and digest"));
        };
        let mut order = EraseOrder::new(target, &reason);
        order.from_ms = since.map(times::from_python).transpose()?;
        order.to_ms = until.map(times::from_python).transpose()?;
        let store = self.handle()?;
        let done = py.detach(|| {
            let mut watch = Watch::new();
            let mut steps = 0;
            let done = store.erase(&order, &mut |_| {
                steps += 1;
                watch.tick(|py| tell(&progress, py, steps, 0))
            });
            watch.end(done.map_err(|error| Failure::from(error).into()))
        })?;
        let complete = done.is_complete();
        let proof = done.proof.unwrap_or_default();
        let found = proof.left.iter().map(|(file, offset, what)| format!("{file}, offset {offset}: {what}"));
        Ok(EraseReport {
            complete,
            rules: done.rules,
            versions: done.erased.versions,
            urls: done.erased.keys,
            segments: done.erased.segments,
            left: done.erased.left.iter().cloned().chain(found).collect(),
            unreadable_keys: done.erased.unreadable_keys,
            mentions: proof.mentions,
            shared_files: done.shared_files,
            archives: done.archives.into_iter().map(|(file, _)| file).collect(),
            strangers: proof.strangers,
        })
    }

    /// Makes a backup in a new folder: an independent store. `base` is an earlier backup to share
    /// files with; `copy_all` shares none.
    #[pyo3(signature = (path, *, base = None, copy_all = false, progress = None))]
    fn backup(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = argument::path)] path: PathBuf,
        base: Option<PathBuf>,
        copy_all: bool,
        progress: Callback,
    ) -> PyResult<BackupReport> {
        let mut options = BackupOptions::new();
        if let Some(base) = base {
            options = options.base(base);
        }
        if copy_all {
            options = options.copy_all();
        }
        let store = self.handle()?;
        let done = py.detach(|| {
            let mut watch = Watch::new();
            let done = store.engine().backup(&path, &options, &mut |so_far| {
                watch.tick(|py| tell(&progress, py, so_far.done_bytes, so_far.total_bytes))
            });
            watch.end(done.map_err(|error| Failure::from(error).into()))
        })?;
        Ok(BackupReport {
            files: done.files,
            bytes: done.bytes,
            linked_bytes: done.linked_bytes,
            reused_bytes: done.reused_bytes,
            copied_bytes: done.copied_bytes,
        })
    }
}
