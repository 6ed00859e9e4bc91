//! The sizes of all versions, from the index alone: no record is read.
//!
//! An old scan restarts at its next key, because tables of the index are collected after hours.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use filemap::access::{Scope, keys};
use filemap::store::VersionSize;
use futures_util::future::FutureExt;

use crate::core::Core;
use crate::error;
use crate::format::row;
use crate::parts::{Part, Parts};
use crate::rows::Rows;
use crate::store::CloudStore;

/// Number of versions read at once.
const ROWS_AT_ONCE: usize = 1_000;
/// The lifetime of one scan.
const SCAN_FOR: Duration = Duration::from_secs(600);

impl CloudStore {
    /// The size of every version of a scope's pages, of their variants and of the records beside
    /// them, newest first for each key, shard by shard. It may give others too: test them with
    /// [`Scope::filter`]. Reads the index once, and no page; an error ends it.
    ///
    /// ```
    /// use filemap::access::{PutRule, Scope};
    /// use filemap::{Page, PageWrite};
    /// use filemap_cloud::{CloudOptions, Mode, open_bucket};
    /// let store = open_bucket("mem://sizes", Mode::Fill, &CloudOptions::new())?;
    /// store.put(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"), PutRule::IfNew)?;
    /// let sizes: Vec<_> = store.sizes(&Scope::new()).collect::<Result<_, _>>()?;
    /// assert!(sizes.len() == 1 && sizes[0].body_bytes == 5 && sizes[0].is_newest);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sizes(&self, scope: &Scope) -> impl Iterator<Item = filemap::Result<VersionSize>> + use<> {
        let of_shard = |core: &Arc<Core>| {
            let ranges = keys::ranges_of_all(scope).iter().map(row::of_forms).collect();
            let sizes = Sizes { ranges, scan: None, form: Vec::new() };
            Parts::new(core, sizes, |core, sizes| step(core, sizes).boxed())
        };
        let all = self.cores().cores.iter().map(of_shard).collect::<Vec<_>>().into_iter().flatten();
        // Continuing with the next shard would hide what this one lacks.
        all.scan(false, |has_ended, found| {
            (!std::mem::replace(has_ended, *has_ended || found.is_err())).then_some(found)
        })
    }
}

/// The state of the pass.
struct Sizes {
    /// Ranges of rows still to scan; the first is that of the open scan, if any.
    ranges: VecDeque<Range<Vec<u8>>>,
    scan: Option<(Rows, Instant)>,
    /// The form of the key of the last version.
    form: Vec<u8>,
}

async fn step(core: Arc<Core>, mut sizes: Sizes) -> error::Result<Part<Sizes, VersionSize>> {
    let mut found = Vec::new();
    while found.len() < ROWS_AT_ONCE {
        let (rows, begun) = match &mut sizes.scan {
            Some(scan) => scan,
            None => {
                let Some(range) = sizes.ranges.front() else { break };
                let rows = core.rows(range.clone(), false).await?;
                sizes.scan.insert((rows, Instant::now()))
            }
        };
        let Some((form, version, of_version)) = rows.next(&core.bucket).await? else {
            sizes.ranges.pop_front();
            sizes.scan = None;
            continue;
        };
        let is_newest = form != sizes.form;
        if is_newest && begun.elapsed() > SCAN_FOR {
            sizes.ranges.iter_mut().take(1).for_each(|range| range.start = row::prefix(&form));
            sizes.scan = None;
            continue;
        }
        let key = keys::key_of_form(&form);
        let key = key.ok_or_else(|| core.bucket.damaged("the index", "a row does not decode"))?;
        found.push(Ok(VersionSize::new(&key, is_newest, version, (of_version.body_bytes, of_version.bytes))));
        sizes.form = form;
    }
    let is_end = sizes.ranges.is_empty();
    Ok(((!is_end).then_some(sizes), found))
}
