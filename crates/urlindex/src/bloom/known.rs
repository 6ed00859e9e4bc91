//! Known false positives of a Bloom filter: an exact list in the file `NAME.known` beside it.
//!
//! A filter cannot remove a URL, but a short list can overrule it. The file is only ever replaced
//! as a whole; without a file the list is empty.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use filemap_io::header::seal;
use filemap_io::{Access, Dir, StorageError, guard, layout};

use super::file::BloomFile;
use crate::error::{Error, Result};
use crate::files::{self, beside};
use crate::format::{KNOWN, KnownHeader};

/// Maximum length. A longer list calls for another filter.
const URLS_MAX: usize = 1 << 16;
const URL_BYTES_MAX: usize = u16::MAX as usize;
const HEADER_BYTES: usize = KnownHeader::BYTES;
const CRC_BYTES: usize = 4;

/// The list of known false positives.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Length of the list, so that an empty list (most filters) needs no lock.
    count: AtomicU64,
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    urls: BTreeSet<Box<[u8]>>,
    is_changed: bool,
    file_bytes: u64,
}

impl Known {
    pub(super) fn note(&self, url: &[u8]) -> Result<()> {
        if url.len() > URL_BYTES_MAX {
            return Err(Error::UrlLength { len: url.len(), max: URL_BYTES_MAX });
        }
        let mut list = guard(&self.list);
        if list.urls.len() >= URLS_MAX {
            let what = format!("it has {URLS_MAX} URLs; make a filter with a lower rate");
            return Err(StorageError::full("the list of known false positives", what).into());
        }
        list.is_changed |= list.urls.insert(url.into());
        self.count.store(list.urls.len() as u64, Ordering::Release);
        Ok(())
    }

    pub(super) fn has(&self, url: &[u8]) -> bool {
        self.count.load(Ordering::Acquire) > 0 && guard(&self.list).urls.contains(url)
    }

    pub(super) fn len(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// All URLs on the list.
    pub(super) fn urls(&self) -> Vec<Box<[u8]>> {
        guard(&self.list).urls.iter().cloned().collect()
    }

    /// Removes a URL; returns true to one caller only.
    pub(super) fn take(&self, url: &[u8]) -> bool {
        if self.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut list = guard(&self.list);
        let was_there = list.urls.remove(url);
        list.is_changed |= was_there;
        self.count.store(list.urls.len() as u64, Ordering::Release);
        was_there
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        guard(&self.list).urls.iter().map(|url| url.len() as u64 + 32).sum()
    }

    pub(super) fn disk_bytes(&self) -> u64 {
        guard(&self.list).file_bytes
    }

    /// Writes the list durably, if it has changed.
    pub(super) fn write(&self, dir: &dyn Dir, filter: &BloomFile) -> Result<()> {
        let (bytes, name) = {
            let mut list = guard(&self.list);
            if !list.is_changed {
                return Ok(());
            }
            list.is_changed = false;
            let bytes = encode(&list.urls, filter.id());
            list.file_bytes = bytes.len() as u64;
            (bytes, beside::known(filter.name()))
        };
        files::replace_by(dir, &name, &bytes)
    }

    /// Reads the list of the filter `name`.
    pub(super) fn read(dir: &dyn Dir, name: &str, id: [u8; 16]) -> Result<Known> {
        let name = beside::known(name);
        let file = match dir.open(&name, Access::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Known::default()),
            Err(error) => return Err(Error::io("open", &name)(error)),
        };
        let longest = HEADER_BYTES + URLS_MAX * (2 + URL_BYTES_MAX) + CRC_BYTES;
        let bytes = files::read_whole(&*file, &name, longest as u64)?;
        let urls = decode(&bytes, &name, id)?;
        let (count, file_bytes) = (AtomicU64::new(urls.len() as u64), bytes.len() as u64);
        Ok(Known { count, list: Mutex::new(List { urls, is_changed: false, file_bytes }) })
    }
}

fn encode(urls: &BTreeSet<Box<[u8]>>, id: [u8; 16]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    KnownHeader::MAGIC.put(&mut bytes, KNOWN.magic);
    KnownHeader::READ_VERSION.put(&mut bytes, KNOWN.version);
    KnownHeader::ID.put(&mut bytes, id);
    KnownHeader::URLS.put(&mut bytes, urls.len() as u64);
    for url in urls {
        layout::push(&mut bytes, url.len() as u16);
        bytes.extend_from_slice(url);
    }
    bytes.extend_from_slice(&[0; CRC_BYTES]);
    seal(&mut bytes);
    bytes
}

fn decode(bytes: &[u8], name: &str, id: [u8; 16]) -> Result<BTreeSet<Box<[u8]>>> {
    let corrupt = |at: usize, what: &str| Err(Error::corrupt(name, at as u64, what));
    if bytes.len() < HEADER_BYTES + CRC_BYTES {
        return corrupt(bytes.len(), "the file ends in its header");
    }
    KNOWN.check(name, bytes)?;
    let held = &bytes[..bytes.len() - CRC_BYTES];
    if KnownHeader::ID.get(held) != id {
        return corrupt(KnownHeader::ID.at, "the list belongs to another filter");
    }
    let mut urls = BTreeSet::new();
    let mut rest = &held[HEADER_BYTES..];
    while let Some(len) = layout::try_get::<u16>(rest, 0) {
        let Some((url, after)) = rest[size_of::<u16>()..].split_at_checked(usize::from(len)) else {
            return corrupt(held.len() - rest.len(), "a URL reaches past the end");
        };
        urls.insert(url.into());
        rest = after;
    }
    if !rest.is_empty() || urls.len() as u64 != KnownHeader::URLS.get(held) {
        return corrupt(KnownHeader::URLS.at, "wrong count of URLs");
    }
    Ok(urls)
}
