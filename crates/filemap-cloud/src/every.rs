//! Every version of every key, grouped by key: the input of a copy into another store.
//!
//! Rows come in index order, and several records are read in parallel. An old scan restarts after
//! its last key, because tables of the index are collected after hours.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use filemap::access::{Scope, keys};
use filemap::store::StoredVersion;
use filemap::{Error, Version};
use futures_util::future::{FutureExt, join_all};

use crate::core::{Core, Found, shown};
use crate::error;
use crate::format::row::{self, Row};
use crate::parts::{Part, Parts};
use crate::read::Sought;
use crate::rows::Rows;
use crate::store::CloudStore;

/// Number of records read in parallel.
const RECORDS_AT_ONCE: usize = 32;
/// Bytes of bodies in flight from which no further record is added.
const BYTES_AT_ONCE: u64 = 16 << 20;
/// The lifetime of one scan.
const SCAN_FOR: Duration = Duration::from_secs(600);

impl CloudStore {
    /// Every version of every page, of its variants and of the records beside them. Versions of
    /// one key are consecutive, in the order of their puts. An unreadable version yields
    /// [`Error::Unreadable`] in its position, and the rest follows; any other error, including
    /// damage of the index, ends the iterator. Concurrent puts and removals may or may not be
    /// included.
    ///
    /// Costs one `GET` for a version, two for a reference. Holds 16 MiB of bodies and one page in
    /// memory, and some 100 bytes for each version of a key.
    ///
    /// ```
    /// use filemap::access::PutRule;
    /// use filemap::{Page, PageWrite};
    /// use filemap_cloud::{CloudOptions, Mode, open_bucket};
    /// let store = open_bucket("mem://every", Mode::Fill, &CloudOptions::new())?;
    /// store.put(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"), PutRule::IfNew)?;
    /// let versions: Vec<_> = store.stored_by_key().collect::<Result<_, _>>()?;
    /// assert_eq!(versions[0].page.body, b"hello");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stored_by_key(&self) -> impl Iterator<Item = filemap::Result<StoredVersion>> + use<> {
        self.stored_of(&Scope::new())
    }

    /// As [`CloudStore::stored_by_key`], of the pages of a scope with what is beside them; it may
    /// give others too: test them with [`Scope::filter`].
    ///
    /// ```
    /// use filemap::access::Scope;
    /// use filemap_cloud::{CloudOptions, Mode, open_bucket};
    /// let store = open_bucket("mem://stored-of", Mode::Fill, &CloudOptions::new())?;
    /// assert_eq!(store.stored_of(&Scope::new().host("example.com")).count(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stored_of(&self, scope: &Scope) -> impl Iterator<Item = filemap::Result<StoredVersion>> + use<> {
        let of_shard = |core: &Arc<Core>| {
            let ranges = keys::ranges_of_all(scope).iter().map(row::of_forms).collect();
            let every = Every { ranges, scan: None, ready: VecDeque::new() };
            Parts::new(core, every, |core, every| step(core, every).boxed())
        };
        let all = self.cores().cores.iter().map(of_shard).collect::<Vec<_>>().into_iter().flatten();
        // Continuing with the next shard would hide what this one lacks.
        all.scan(false, |has_ended, found| {
            let is_of_one = matches!(&found, Ok(_) | Err(Error::Unreadable { .. }));
            (!std::mem::replace(has_ended, *has_ended || !is_of_one)).then_some(found)
        })
    }
}

/// A key, a version of it, and its row.
type OfKey = (Arc<[u8]>, Version, Row);

/// The state of the pass.
struct Every {
    /// Ranges of rows still to scan; the first is that of the open scan, if any.
    ranges: VecDeque<Range<Vec<u8>>>,
    scan: Option<Scan>,
    /// Versions of the key just scanned, oldest put first.
    ready: VecDeque<OfKey>,
}

struct Scan {
    rows: Rows,
    begun: Instant,
    /// The first row of the following key.
    ahead: Option<(Vec<u8>, Found)>,
}

impl Every {
    /// Reads the rows of the next key. Returns false at the end.
    async fn advance(&mut self, core: &Core) -> error::Result<bool> {
        while let Some(range) = self.ranges.front_mut() {
            let scan = match &mut self.scan {
                Some(scan) => scan,
                None => {
                    let rows = core.rows(range.clone(), false).await?;
                    self.scan.insert(Scan { rows, begun: Instant::now(), ahead: None })
                }
            };
            let Some((form, found)) = scan.of_key(core).await? else {
                self.ranges.pop_front();
                self.scan = None;
                continue;
            };
            range.start = row::behind(&form);
            if scan.begun.elapsed() > SCAN_FOR {
                self.scan = None;
            }
            let key: Arc<[u8]> = keys::key_of_form(&form).ok_or_else(|| strange(core))?.into();
            self.ready.extend(found.into_iter().map(|(version, row)| (Arc::clone(&key), version, row)));
            return Ok(true);
        }
        Ok(false)
    }
}

impl Scan {
    /// The versions of the next key, oldest put first.
    async fn of_key(&mut self, core: &Core) -> error::Result<Option<(Vec<u8>, Vec<Found>)>> {
        let next = match self.ahead.take() {
            Some(ahead) => Some(ahead),
            None => self.next(core).await?,
        };
        let Some((form, first)) = next else { return Ok(None) };
        let mut found = vec![first];
        while let Some((of, version)) = self.next(core).await? {
            if of != form {
                self.ahead = Some((of, version));
                break;
            }
            found.push(version);
        }
        found.sort_unstable_by_key(|(version, _)| version.sequence);
        Ok(Some((form, found)))
    }

    async fn next(&mut self, core: &Core) -> error::Result<Option<(Vec<u8>, Found)>> {
        Ok(self.rows.next(&core.bucket).await?.map(|(form, version, row)| (form, (version, row))))
    }
}

fn strange(core: &Core) -> error::Error {
    core.bucket.damaged("the index", "a row does not decode")
}

async fn step(core: Arc<Core>, mut every: Every) -> error::Result<Part<Every, StoredVersion>> {
    let (mut now, mut bytes, mut is_end) = (Vec::new(), 0, false);
    while now.len() < RECORDS_AT_ONCE && bytes < BYTES_AT_ONCE {
        match every.ready.pop_front() {
            Some(found) => {
                bytes += found.2.body_bytes;
                now.push(found);
            }
            None => {
                is_end = !every.advance(&core).await?;
                if is_end {
                    break;
                }
            }
        }
    }
    let read = join_all(now.iter().map(|(key, version, row)| version_of(&core, key, *version, row))).await;
    let items = read.into_iter().collect::<error::Result<Vec<_>>>()?;
    Ok(((!is_end).then_some(every), items.into_iter().flatten().collect()))
}

/// Reads a version; `None` if it was removed in the meantime.
async fn version_of(
    core: &Core,
    key: &[u8],
    version: Version,
    row: &Row,
) -> error::Result<Option<filemap::Result<StoredVersion>>> {
    let page = match core.page(key, version, row).await {
        // Its record moved, or was removed.
        Ok(None) => core.page_sought(&Sought::version(key, version)).await,
        page => page,
    };
    match page {
        Ok(page) => Ok(page.map(|page| {
            let stored = StoredVersion::new(key.to_vec(), page, version, row.bytes);
            Ok(stored.unchanged_since(row.original.map(|original| original.sequence)))
        })),
        Err(error) if error.is_damage() => {
            let (url, source) = (shown(key), Arc::new(error.into()));
            Ok(Some(Err(Error::Unreadable { url, version, source })))
        }
        Err(error) => Err(error),
    }
}
