//! Copies all versions of all keys into another store: to drop garbage, change options, or merge
//! several stores.

use std::collections::{BTreeSet, HashMap};
use std::io::Read;
use std::ops::ControlFlow;

use xxhash_rust::xxh3::xxh3_128;

use crate::error::{Error, Result, StorageError, unless_cancelled};
use crate::format::value::Kind;
use crate::handle::spot::Spot;
use crate::logs::segments::FIRST_RECORD;
use crate::logs::values::append::Draft;
use crate::logs::values::read::{Body, Want};
use crate::logs::values::reader::Reader;
use crate::record::{Head, Record, Version};
use crate::store::{Pages, Store};

/// Totals of a copy.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// # use std::ops::ControlFlow;
/// # let to = filemap_core::Store::create(temp.path().join("b"), filemap_core::Options::new())?;
/// let copied = store.copy_to(&to, filemap_core::backup::CopyOptions::new(), &mut |_| ControlFlow::Continue(()))?;
/// assert_eq!(copied.versions, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Copied {
    /// Keys copied, in full or in part.
    pub keys: u64,
    /// Versions stored, including `unchanged`.
    pub versions: u64,
    /// Versions stored as a reference to the other store's newest version, which has the same
    /// body.
    pub unchanged: u64,
    /// Versions that the other store already had.
    pub already_there: u64,
    /// Versions refused by the other store's erasure rules.
    pub refused: u64,
    /// Bytes of bodies stored.
    pub body_bytes: u64,
    /// Damaged records skipped.
    pub damaged: u64,
}

/// Options of a copy.
///
/// ```
/// let anew = filemap_core::backup::CopyOptions::new().recompress();
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct CopyOptions {
    recompress: bool,
    skips: Option<Accepts>,
}

/// Accepts the keys that are not copied.
type Accepts = fn(&[u8]) -> bool;

impl CopyOptions {
    /// Copies bodies as they are stored.
    pub fn new() -> CopyOptions {
        CopyOptions::default()
    }

    /// Compresses every body again, at the other store's level.
    pub fn recompress(mut self) -> CopyOptions {
        self.recompress = true;
        self
    }

    /// Leaves out the keys that `skips` accepts, which no total counts: what is true of one store
    /// alone.
    ///
    /// ```
    /// use filemap_core::backup::CopyOptions;
    /// let options = CopyOptions::new().skip_keys(|key| key.starts_with(b"\0"));
    /// ```
    pub fn skip_keys(mut self, skips: fn(&[u8]) -> bool) -> CopyOptions {
        self.skips = Some(skips);
        self
    }
}

/// Progress of a copy.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// use std::ops::ControlFlow;
/// use filemap_core::backup::{CopyEvent, CopyOptions};
/// use filemap_core::{Options, Store};
/// let to = Store::create(temp.path().join("b"), Options::new())?;
/// store.copy_to(&to, CopyOptions::new(), &mut |event| {
///     if let CopyEvent::Damaged(error) = event {
///         println!("skipped: {error}");
///     }
///     ControlFlow::Continue(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum CopyEvent<'a> {
    /// A key is copied; the totals so far.
    Done(&'a Copied),
    /// Damage that was skipped.
    Damaged(&'a Error),
    /// A version of this key was refused by this rule of the other store's erasures, and skipped.
    Refused(&'a [u8], u32),
}

type CopyProgress<'a> = dyn FnMut(CopyEvent<'_>) -> ControlFlow<()> + 'a;

impl Store {
    /// Copies every live version of every key to another store, with its time and meta. Versions
    /// of a key are copied in the order in which they were put.
    ///
    /// - Versions that the other store has (same key, time, digest and meta) are skipped, so that
    ///   an interrupted copy can be resumed. They are read there first: an unreadable one is
    ///   copied again.
    /// - A version with the same body as the other store's newest one becomes a reference.
    /// - Keys come in the order of this store's log: a sequential read of it, and of the key log
    ///   for keys with several versions.
    /// - Pages are copied compressed, with their dictionaries, if the other store has none of its
    ///   own.
    /// - Versions put here meanwhile are not copied.
    /// - Damaged records and missing files are reported to `progress` and skipped. If the newest
    ///   version of a key is lost, its other versions are copied at the end.
    ///
    /// # Errors
    /// [`Error::Canonicalizer`] if the other store makes its keys by another rule;
    /// [`Error::Cancelled`]; those of [`Store::put`].
    pub fn copy_to(&self, to: &Store, options: CopyOptions, progress: &mut CopyProgress<'_>) -> Result<Copied> {
        let (stored, wanted) = (to.canonicalizer(), self.canonicalizer());
        if stored != wanted {
            return Err(Error::Canonicalizer { stored: stored.to_string(), wanted: wanted.to_string() });
        }
        let fresh = to.reading.log_end().1 == 1;
        let dictionaries = match options.recompress {
            true => BTreeSet::new(),
            false => to.upkeep()?.adopt_dictionaries(&self.reading)?,
        };
        let mut copy = Copy { from: self, to, options, fresh, dictionaries, sum: Copied::default(), absent: None };
        let mut pages = Pages::new(std::sync::Arc::clone(&self.reading), None, true);
        let before = pages.before();
        let met = |pages: &mut Pages, key: Vec<u8>, spot: &Spot| {
            Ok(pages.met(&key, spot, |_, now| Ok(*now))?.map(|now| (key, now)))
        };
        while let Some(found) = pages.advance(met) {
            let copied = found.and_then(|(key, now)| copy.key(&key, Some(now), before, progress));
            let flow = match copied {
                Ok(()) => progress(CopyEvent::Done(&copy.sum)),
                Err(e) if e.is_corrupt() => copy.pass_over(&e, progress),
                Err(e) => return Err(e),
            };
            unless_cancelled(flow)?;
        }
        if copy.sum.damaged > 0 {
            copy.hidden(&pages, before, progress)?;
        }
        Ok(copy.sum)
    }
}

/// Versions of a key in the other store, by time, digest and hash of the meta.
type There = HashMap<(i64, [u8; 16], u128), Version>;

fn print(head: &Head) -> (i64, [u8; 16], u128) {
    (head.version.time_ms, head.digest, xxh3_128(&head.meta))
}

struct Copy<'a> {
    from: &'a Store,
    to: &'a Store,
    options: CopyOptions,
    /// The other store was empty: this copy put everything in it.
    fresh: bool,
    /// Ids of dictionaries that both stores have.
    dictionaries: BTreeSet<u32>,
    sum: Copied,
    /// Names of missing files, set after the scan of the whole log. Their lost versions are
    /// reported one by one.
    absent: Option<BTreeSet<String>>,
}

impl Copy<'_> {
    /// Returns true if the damage was not reported before.
    fn is_news(&self, e: &Error) -> bool {
        let Some(absent) = &self.absent else { return true };
        matches!(e, Error::Storage(StorageError::Corrupt { file, .. }) if absent.contains(file))
    }

    fn pass_over(&mut self, e: &Error, progress: &mut CopyProgress<'_>) -> ControlFlow<()> {
        self.sum.damaged += 1;
        progress(CopyEvent::Damaged(e))
    }

    /// Copies the other versions of keys whose newest version the scan missed: it is damaged or
    /// missing.
    fn hidden(&mut self, met: &Pages, before: u64, progress: &mut CopyProgress<'_>) -> Result<()> {
        self.absent = Some(self.from.absent().into_iter().map(|a| a.file).collect());
        for key in self.from.keys() {
            let copied = key.and_then(|key| {
                let spots = self.from.reading.spots(&key)?;
                let newest = spots.iter().map(|s| s.version.sequence).find(|s| *s < before);
                if newest.is_none_or(|sequence| met.has_met(sequence)) {
                    return Ok(());
                }
                self.key(&key, None, before, progress)
            });
            match copied {
                Ok(()) => {}
                // Reported before.
                Err(e) if e.is_corrupt() => {}
                Err(e) => return Err(e),
            }
            unless_cancelled(progress(CopyEvent::Done(&self.sum)))?;
        }
        Ok(())
    }

    /// Copies all versions of a key in the order of their sequences. If the chain to them is
    /// damaged, copies the version that the scan found.
    fn key(&mut self, key: &[u8], met: Option<Spot>, before: u64, progress: &mut CopyProgress<'_>) -> Result<()> {
        if self.options.skips.is_some_and(|skips| skips(key)) {
            return Ok(());
        }
        let mut spots = match (self.from.reading.spots(key), met) {
            (Err(e), Some(met)) if e.is_corrupt() => {
                unless_cancelled(self.pass_over(&e, progress))?;
                vec![met]
            }
            (spots, _) => spots?,
        };
        if spots.iter().any(|s| s.version.sequence < before) {
            spots.retain(|s| s.version.sequence < before);
        }
        spots.sort_by_key(|s| s.version.sequence);
        self.sum.keys += u64::from(!spots.is_empty());
        let there = if self.fresh { There::new() } else { self.there(key)? };
        for spot in &spots {
            // Put once, also if a key segment was removed meanwhile.
            let mut put = None;
            let copied = self.from.reading.looking_again(|| match put {
                Some(sum) => Ok(sum),
                None => self.version(key, spot, &there).inspect(|sum| put = Some(*sum)),
            });
            match copied {
                Err(e) if e.is_corrupt() => {
                    if self.is_news(&e) {
                        unless_cancelled(self.pass_over(&e, progress))?;
                    }
                }
                Err(Error::Refused { rule }) => {
                    self.sum.refused += 1;
                    unless_cancelled(progress(CopyEvent::Refused(key, rule)))?;
                }
                copied => {
                    let sum = copied?;
                    self.sum.versions += sum.versions;
                    self.sum.unchanged += sum.unchanged;
                    self.sum.already_there += sum.already_there;
                    self.sum.body_bytes += sum.body_bytes;
                }
            }
        }
        Ok(())
    }

    /// The other store's versions of a key, without those damaged there: copying these repairs
    /// them.
    fn there(&self, key: &[u8]) -> Result<There> {
        let mut there = There::new();
        for head in self.to.history_iter(key) {
            match head {
                Err(e) if e.is_corrupt() => {}
                head => {
                    let head = head?;
                    // Newest first: a later copy was made because the one before it is unreadable.
                    there.entry(print(&head)).or_insert(head.version);
                }
            }
        }
        Ok(there)
    }

    /// Copies one version, wherever it lies by now. Skips it if it no longer exists.
    fn version(&self, key: &[u8], spot: &Spot, there: &There) -> Result<Copied> {
        match self.version_at(key, spot, there) {
            Err(e) if e.is_corrupt() => {
                let from = &self.from.reading;
                let all = from.all_spots(key, from.hash(key))?;
                let now = all.into_iter().find(|s| s.version == spot.version);
                now.map_or(Ok(Copied::default()), |now| self.version_at(key, &now, there))
            }
            copied => copied,
        }
    }

    fn version_at(&self, key: &[u8], spot: &Spot, there: &There) -> Result<Copied> {
        let from = &self.from.reading;
        let head = from.with_spot(key, spot, Want::Head, |raw| raw.head())?;
        let same = there.get(&print(&head));
        if same.map_or(Ok(false), |same| self.to.can_read(key, *same))? {
            return Ok(Copied { already_there: 1, ..Copied::default() });
        }
        let stored = Copied { versions: 1, body_bytes: head.body_bytes, ..Copied::default() };
        let record = Record { key, meta: &head.meta, body: &[], time_ms: head.version.time_ms };
        self.check_admission(key, spot, &record)?;
        // A version unreadable there is stored again with its body, not as a reference.
        let may_refer = same.is_none() && (spot.refers_to != 0 || !there.is_empty());
        if may_refer && self.to.put_reference(&record, head.digest, head.body_bytes)?.is_some() {
            return Ok(Copied { unchanged: 1, body_bytes: 0, ..stored });
        }
        if spot.refers_to == 0 && !spot.chunked && !self.options.recompress && self.take_over(key, spot)? {
            return Ok(stored);
        }
        let loaded = from.load(key, spot)?;
        match loaded.body {
            Some(Body::Whole(body)) => {
                self.to.writing()?.check_put(key, &head.meta, body.len() as u64)?;
                self.to.put_checked(&Record { body: &body, ..record }, Some(head.digest))?;
            }
            Some(chunks) => {
                let mut reader = Reader::new(std::sync::Arc::clone(from.values()), loaded.head, chunks)?;
                self.stream(&record, &mut reader)?;
            }
            None => return Err(Error::Closed),
        }
        Ok(stored)
    }

    /// # Errors
    /// `Refused` by the other store's rules.
    fn check_admission(&self, key: &[u8], spot: &Spot, record: &Record<'_>) -> Result<()> {
        match self.to.writing()?.admission() {
            Some(admission) if admission.wants_bodies() => {
                let value = self.from.reading.value_at(key, spot)?;
                self.to.check_admission(&Record { body: &value.body, ..*record })
            }
            _ => self.to.check_admission(record),
        }
    }

    /// Stores a page's compressed bytes as they are in the log. Returns true if that was possible.
    fn take_over(&self, key: &[u8], spot: &Spot) -> Result<bool> {
        let to = &self.to.reading;
        if spot.extent.bytes() + FIRST_RECORD > u64::from(to.birth().segment_bytes) {
            return Ok(false);
        }
        let draft = self.from.reading.with_spot(key, spot, Want::Whole, |raw| {
            let dictionary = raw.header.dictionary;
            let can_be_read = dictionary == 0 || self.dictionaries.contains(&dictionary);
            let is_page = raw.header.kind == Kind::Page && can_be_read;
            Ok(is_page.then(|| (Draft::again(raw.header, raw.bytes), raw.header.raw_bytes)))
        })?;
        let Some((draft, body_bytes)) = draft else { return Ok(false) };
        self.to.writing()?.check_put(key, &[], body_bytes)?;
        self.to.put_draft(draft, key, body_bytes)?;
        Ok(true)
    }

    fn stream(&self, record: &Record<'_>, body: &mut Reader) -> Result<()> {
        let mut writer = self.to.put_stream(record.key, record.meta, record.time_ms)?;
        let mut piece = vec![0; 256 << 10];
        loop {
            match body.read(&mut piece) {
                Ok(0) => return writer.finish().map(|_| ()),
                Ok(n) => writer.push(&piece[..n])?,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => {
                    return Err(match e.downcast::<Error>() {
                        Ok(e) => e,
                        Err(e) => Error::Source(std::sync::Arc::new(e)),
                    });
                }
            }
        }
    }
}
