//! Records of what is put into a store, as it is put: for WARC files that grow with it.

use filemap_core::Version;

use super::files::record;
use super::form;
use crate::error::{Error, Result};
use crate::page::RecordKind;
use crate::store::{ChangesPlace, PageChange, PageChanges, PageStore, take_body};
use crate::warc::Compression;
use crate::warc::write::{Form, Packer, draft, warcinfo};

/// Bytes of records that are compressed together, on as many threads as there are cores.
const PART_BYTES: usize = 4 << 20;

/// Follows a store, and makes a WARC record of every version that is put, in their order: of
/// pages, and of what is kept beside them. Versions that are removed before they are reached are
/// passed over.
///
/// A revisit whose original was put before the following began is written as an answer with its
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
/// // Another process goes on.
/// let (place, from) = (follower.place().to_string(), follower.from());
/// let again = WarcFollower::resume(&store, &place.parse()?, from)?;
/// # drop(again);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct WarcFollower {
    store: PageStore,
    changes: PageChanges,
    from: u64,
}

/// Records that follow each other, each a gzip member.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct WarcPart {
    /// The members.
    pub bytes: Vec<u8>,
    /// How many they are.
    pub records: u64,
    /// Versions that cannot be read, and are left out; and originals that cannot, whose revisits
    /// have no body then.
    pub damaged: Vec<Error>,
}

impl WarcFollower {
    /// Follows a store from now on.
    ///
    /// # Errors
    ///
    /// Those of [`PageStore::changes`].
    pub fn begin(store: &PageStore) -> Result<WarcFollower> {
        let end = store.changes_end()?;
        let from = end.next_sequence();
        WarcFollower::resume(store, &end, from)
    }

    /// Goes on from a place; `from`: that of the follower that began ([`WarcFollower::from`]).
    ///
    /// # Errors
    ///
    /// [`filemap_core::Error::Outrun`] if the place is of another store, or the store is an older
    /// state; those of [`filemap_core::Store::puts`].
    pub fn resume(store: &PageStore, place: &ChangesPlace, from: u64) -> Result<WarcFollower> {
        Ok(WarcFollower { store: store.clone(), changes: store.puts_since(place)?, from })
    }

    /// The place after the last part.
    pub fn place(&self) -> &ChangesPlace {
        self.changes.place()
    }

    /// The sequence at which the following began: what was put before is in no record.
    pub fn from(&self) -> u64 {
        self.from
    }

    /// What a WARC file of this name begins with.
    ///
    /// # Errors
    ///
    /// [`Error::Write`] if it cannot be compressed.
    pub fn head(&self, name: &str, time_ms: i64) -> Result<Vec<u8>> {
        members(&[warcinfo(name, time_ms)])
    }

    /// The records of what has been put and synced since the last part, some MiB of them; `None`
    /// if there is nothing.
    ///
    /// # Errors
    ///
    /// Those of the store but for damage, which the part names.
    pub fn part(&mut self) -> Result<Option<WarcPart>> {
        let (mut part, mut records, mut bytes) = (WarcPart::default(), Vec::new(), 0);
        while bytes < PART_BYTES {
            let Some(change) = self.changes.next() else {
                if !self.changes.renew()? {
                    break;
                }
                continue;
            };
            let made = match change? {
                PageChange::Put { key, head, .. } => self.record(&key, head.version, &mut part),
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
