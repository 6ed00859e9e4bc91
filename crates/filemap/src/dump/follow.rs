//! WARC records of what is put into a store, while it is put: for WARC files that grow with the
//! store.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use filemap_core::Version;

use super::files::record;
use super::form;
use crate::error::{Error, Result};
use crate::page::RecordKind;
use crate::store::{ChangesPlace, PageChange, PageChanges, PageStore, take_body};
use crate::warc::Compression;
use crate::warc::write::{Form, Packer, draft, warcinfo};

/// Number of bytes of records that are compressed together, on one thread per core.
const PART_BYTES: usize = 4 << 20;

/// Follows a store, and makes a WARC record of every version that is put, in order: of pages, and
/// of the records beside them. Versions that are removed before they are reached are skipped.
///
/// A revisit whose original was put before the follower began is written as an answer with its
/// body, so that the records need no others. Memory is bounded by the largest page and some MiB.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use filemap::{Options, Page, PageStore};
/// use filemap::dump::WarcFollower;
///
/// # let dir = tempfile::tempdir()?;
/// let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// let mut follower = WarcFollower::begin(&store)?;
/// store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
/// store.sync()?;
/// let mut file = follower.head("crawl-00000.warc.gz", 1_700_000_000_000)?;
/// let part = follower.part()?.expect("just put");
/// file.extend(part.bytes);
/// assert_eq!((part.records, part.damaged.len()), (1, 0));
/// assert!(follower.part()?.is_none());
///
/// // Another process continues.
/// let place = follower.place().to_string();
/// let again = WarcFollower::resume(&store, &place.parse()?)?;
/// # drop(again);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct WarcFollower {
    store: PageStore,
    changes: PageChanges,
    from: u64,
    last: Option<(Vec<u8>, Version)>,
}

/// Position of a follower, as text that is stored beside the files.
///
/// ```
/// # use filemap::{Options, PageStore};
/// use filemap::dump::{WarcFollower, WarcPlace};
///
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// let place = WarcFollower::begin(&store)?.place();
/// assert_eq!(place.to_string().parse::<WarcPlace>()?, place);
/// assert!("nowhere".parse::<WarcPlace>().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarcPlace {
    /// The position in the store's history after the last record.
    changes: ChangesPlace,
    /// The sequence at which the follower began: what was put before is in no record.
    from: u64,
    /// Key and version of the last record.
    last: Option<(Vec<u8>, Version)>,
}

impl WarcPlace {
    /// The id of the store that was followed.
    pub fn store_id(&self) -> [u8; 16] {
        self.changes.store_id()
    }
}

impl fmt::Display for WarcPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.changes, self.from)?;
        let Some((key, Version { time_ms, sequence, .. })) = &self.last else { return Ok(()) };
        write!(f, " {time_ms} {sequence} {}", URL_SAFE_NO_PAD.encode(key))
    }
}

impl FromStr for WarcPlace {
    type Err = Error;

    /// # Errors
    ///
    /// [`Error::Cursor`] for any other text.
    fn from_str(text: &str) -> Result<WarcPlace> {
        let none = || Error::Cursor { what: "it is not the position of a WARC follower" };
        let number = |text: &str| text.parse::<u64>().map_err(|_| none());
        let parts: Vec<&str> = text.split(' ').collect();
        let (changes, from, last) = match parts[..] {
            [changes, from] => (changes, from, None),
            [changes, from, time_ms, sequence, key] => {
                let version = Version { time_ms: time_ms.parse().map_err(|_| none())?, sequence: number(sequence)? };
                (changes, from, Some((URL_SAFE_NO_PAD.decode(key).map_err(|_| none())?, version)))
            }
            _ => return Err(none()),
        };
        Ok(WarcPlace { changes: changes.parse()?, from: number(from)?, last })
    }
}

/// Consecutive records, each a gzip member.
///
/// ```
/// # use filemap::{Options, Page, PageStore};
/// use filemap::dump::WarcFollower;
///
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// let mut follower = WarcFollower::begin(&store)?;
/// store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
/// store.sync()?;
/// let part = follower.part()?.expect("just put");
/// assert!(part.records == 1 && part.bytes.starts_with(b"\x1f\x8b"), "one member of gzip");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct WarcPart {
    /// The members.
    pub bytes: Vec<u8>,
    /// Number of records.
    pub records: u64,
    /// Versions that cannot be read, and are left out; and unreadable originals, whose revisits
    /// then have no body.
    pub damaged: Vec<Error>,
}

impl WarcFollower {
    /// Follows a store from now on.
    ///
    /// # Errors
    ///
    /// Those of [`PageStore::changes`].
    pub fn begin(store: &PageStore) -> Result<WarcFollower> {
        let changes = store.changes_end()?;
        WarcFollower::resume(store, &WarcPlace { from: changes.next_sequence(), changes, last: None })
    }

    /// Resumes at a position. This also works after a recovery has dropped what was not durable,
    /// and in a copy of the store, if it still has the version of the last record, or nothing was
    /// written.
    ///
    /// # Errors
    ///
    /// [`filemap_core::Error::Outrun`] if the position is of another store or of another history
    /// of it: the store is an older state, or was one; those of [`PageStore::changes`].
    pub fn resume(store: &PageStore, place: &WarcPlace) -> Result<WarcFollower> {
        let WarcPlace { changes, from, last } = place;
        let has_last = |(key, version): &(Vec<u8>, Version)| -> Result<bool> {
            Ok(store.engine().versions_of(key)?.contains(version))
        };
        let changes = match store.changes(Some(changes)) {
            Err(Error::Engine(filemap_core::Error::Outrun { why })) => {
                let is_ours = changes.store_id() == store.changes_end()?.store_id();
                if !(is_ours && last.as_ref().map_or(Ok(true), has_last)?) {
                    return Err(filemap_core::Error::Outrun { why }.into());
                }
                store.puts_since(changes)?
            }
            changes => changes?,
        };
        // Positions are those of one store: originals of others do not count.
        Ok(WarcFollower { store: store.alone(), changes, from: *from, last: last.clone() })
    }

    /// The position after the last part; after an error, resume at the one before.
    pub fn place(&self) -> WarcPlace {
        WarcPlace { changes: self.changes.place().clone(), from: self.from, last: self.last.clone() }
    }

    /// The beginning of a WARC file of this name.
    ///
    /// # Errors
    ///
    /// [`Error::Write`] if compression fails.
    pub fn head(&self, name: &str, time_ms: i64) -> Result<Vec<u8>> {
        members(&[warcinfo(name, time_ms)])
    }

    /// The records of what has been put and synced since the last part, some MiB of them; `None`
    /// if there is nothing new.
    ///
    /// # Errors
    ///
    /// Those of the store except damage, which the part lists.
    pub fn part(&mut self) -> Result<Option<WarcPart>> {
        let (mut part, mut records, mut bytes, mut is_renewed) = (WarcPart::default(), Vec::new(), 0, false);
        while bytes < PART_BYTES {
            let Some(change) = self.changes.next() else {
                // The next versions may wait for a sync.
                if is_renewed || !self.changes.renew()? {
                    break;
                }
                is_renewed = true;
                continue;
            };
            is_renewed = false;
            let made = match change? {
                PageChange::Put { key, head, .. } => {
                    let made = self.record(&key, head.version, &mut part);
                    if matches!(made, Ok(Some(_))) {
                        self.last = Some((key, head.version));
                    }
                    made
                }
                PageChange::Damaged { error, .. } => Err(error),
                _ => Ok(None),
            };
            match made {
                Ok(None) => {}
                Ok(Some(record)) => {
                    bytes += record.len();
                    records.push(record);
                }
                Err(error) if error.is_damage() => part.damaged.push(error),
                Err(error) => return Err(error),
            }
        }
        part.records = records.len() as u64;
        part.bytes = members(&records)?;
        Ok(Some(part).filter(|part| part.records > 0 || !part.damaged.is_empty()))
    }

    fn record(&self, key: &[u8], version: Version, part: &mut WarcPart) -> Result<Option<Vec<u8>>> {
        let Some(mut version) = self.changes.stored(key, version)? else { return Ok(None) };
        let original = match self.store.original_and_steps(&version.key, &version.page) {
            Err(error) if error.is_damage() => {
                part.damaged.extend(Some(error).filter(|_| version.page.lacks_body()));
                None
            }
            original => original?.map(|(original, _)| original),
        };
        let has = |sequence: u64| sequence >= self.from;
        let known = original.as_ref().map(|original| (original, has(original.version.sequence)));
        let form = form::of(&self.store, &version, known, has)?;
        if let Some(original) = original.filter(|_| matches!(form, Form::Full)) {
            take_body(&mut version.page, original);
            version.page.kind = RecordKind::Response;
        }
        Ok(Some(record(&draft(&version, &form, None), &version.page.body)))
    }
}

fn members(records: &[Vec<u8>]) -> Result<Vec<u8>> {
    let members = Packer::new(Compression::Gzip).members(records.iter().map(Vec::as_slice).collect());
    Ok(members.map_err(Error::Write)?.concat())
}
