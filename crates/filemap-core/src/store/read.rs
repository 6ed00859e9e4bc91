//! Gets: the newest version or that of a given time, whole, a range of its body, or its head only.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result, StorageError};
use crate::format::names;
use crate::handle::reading::Loaded;
use crate::logs::values::cache::SharedBody;
use crate::logs::values::read::{Body, Want};
use crate::logs::values::reader::Reader;
use crate::record::{Head, Place, Value, Version};
use crate::store::Store;

impl Store {
    /// The newest version of a key. On a cold cache this reads one index page and one record of
    /// the value log.
    ///
    /// # Errors
    /// `Corrupt` if the bytes on disk are damaged: never a wrong page. `Io`.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.reading.looking_again(|| {
            let mut body = Vec::new();
            let Some(loaded) = self.reading.newest(key, &mut body)? else { return Ok(None) };
            self.reading.value(loaded, body).map(Some)
        })
    }

    /// [`Store::get`] into the caller's buffer, which is cleared and reused.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn get_into(&self, key: &[u8], body: &mut Vec<u8>) -> Result<Option<Head>> {
        self.reading.looking_again(|| {
            body.clear();
            let Some(loaded) = self.reading.newest(key, body)? else { return Ok(None) };
            let value = self.reading.value(loaded, std::mem::take(body))?;
            *body = value.body;
            Ok(Some(value.head))
        })
    }

    /// [`Store::get`] without a copy: the body of a cached page is the value cache's own memory.
    /// A body that is not cached is the caller's alone.
    ///
    /// # Errors
    /// As [`Store::get`].
    ///
    /// ```
    /// # use filemap_core::{Options, Record, Store};
    /// # let temp = tempfile::tempdir()?;
    /// # let store = Store::create(temp.path().join("pages"), Options::new())?;
    /// store.put(&Record::new(b"http://a.example/", b"A page."))?;
    /// let (head, body) = store.get_shared(b"http://a.example/")?.expect("it was put");
    /// println!("{} bytes, stored in {}", body.len(), head.stored_bytes);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_shared(&self, key: &[u8]) -> Result<Option<(Head, SharedBody)>> {
        self.reading.looking_again(|| {
            let Some(loaded) = self.reading.newest(key, &mut Vec::new())? else { return Ok(None) };
            let body = loaded.body.map(|body| body.whole(self.reading.values(), Vec::new())).transpose()?;
            Ok(Some((loaded.head, body.unwrap_or_default())))
        })
    }

    /// The version with the greatest time not after `time_ms`.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn get_at(&self, key: &[u8], time_ms: i64) -> Result<Option<Value>> {
        self.value_where(key, |version| version.time_ms <= time_ms)
    }

    /// One version of a key, as listed by [`Store::history`].
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn get_version(&self, key: &[u8], version: Version) -> Result<Option<Value>> {
        self.value_where(key, |found| found == version)
    }

    /// Returns true if a version exists and is fully readable, with its chunks or the body it
    /// refers to. Reads and decompresses all of it, in bounded memory.
    ///
    /// # Errors
    /// As [`Store::get`], but damage returns `false`.
    pub fn can_read(&self, key: &[u8], version: Version) -> Result<bool> {
        let read = self.reading.looking_again(|| {
            let Some(spot) = self.reading.spots(key)?.into_iter().find(|s| s.version == version) else {
                return Ok(false);
            };
            let loaded = self.reading.load(key, &spot)?;
            let Some(chunks @ Body::Chunks(..)) = loaded.body else { return Ok(true) };
            let mut reader = Reader::new(Arc::clone(self.reading.values()), loaded.head, chunks)?;
            match io::copy(&mut reader, &mut io::sink()) {
                Ok(_) => Ok(true),
                Err(e) => Err(e.downcast::<Error>().unwrap_or_else(|e| Error::Source(Arc::new(e)))),
            }
        });
        match read {
            Err(e) if e.is_corrupt() => Ok(false),
            read => read,
        }
    }

    /// The newest version that `is_wanted` accepts.
    fn value_where(&self, key: &[u8], is_wanted: impl Fn(Version) -> bool) -> Result<Option<Value>> {
        let found = self.reading.looking_again(|| {
            let spot = self.reading.spots(key)?.into_iter().find(|s| is_wanted(s.version));
            spot.map(|s| self.reading.value(self.reading.load(key, &s)?, Vec::new())).transpose()
        });
        or_newest(found, || self.get(key), |value| is_wanted(value.head.version))
    }

    /// A range of the newest version's body, clipped to its length. Reads only the chunks in the
    /// range of a large body.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn get_range(&self, key: &[u8], range: Range<u64>) -> Result<Option<Vec<u8>>> {
        self.reading.looking_again(|| {
            let Some(loaded) = self.reading.newest(key, &mut Vec::new())? else { return Ok(None) };
            let mut out = Vec::new();
            self.reading.body(&loaded)?.range(self.reading.values(), range.clone(), &mut out)?;
            Ok(Some(out))
        })
    }

    /// The newest version as a reader, in bounded memory.
    ///
    /// # Errors
    /// As [`Store::get`]; damage further on is returned when reached.
    pub fn get_reader(&self, key: &[u8]) -> Result<Option<Reader>> {
        self.reading.looking_again(|| {
            let Some(loaded) = self.reading.newest(key, &mut Vec::new())? else { return Ok(None) };
            self.reader(key, loaded).map(Some)
        })
    }

    /// [`Store::get_reader`] of the version with the greatest time not after `time_ms`.
    ///
    /// # Errors
    /// As [`Store::get_reader`].
    pub fn get_reader_at(&self, key: &[u8], time_ms: i64) -> Result<Option<Reader>> {
        self.reader_where(key, |version| version.time_ms <= time_ms)
    }

    /// [`Store::get_reader`] of one version, as listed by [`Store::history`].
    ///
    /// # Errors
    /// As [`Store::get_reader`].
    pub fn get_version_reader(&self, key: &[u8], version: Version) -> Result<Option<Reader>> {
        self.reader_where(key, |found| found == version)
    }

    /// A reader of the newest version that `is_wanted` accepts.
    fn reader_where(&self, key: &[u8], is_wanted: impl Fn(Version) -> bool) -> Result<Option<Reader>> {
        let found = self.reading.looking_again(|| {
            let spot = self.reading.spots(key)?.into_iter().find(|s| is_wanted(s.version));
            spot.map(|s| self.reader(key, self.reading.load(key, &s)?)).transpose()
        });
        or_newest(found, || self.get_reader(key), |reader| is_wanted(reader.head().version))
    }

    fn reader(&self, key: &[u8], mut loaded: Loaded) -> Result<Reader> {
        let body = match loaded.body.take() {
            Some(body) => body,
            None => self.reading.body_of(key, &loaded.head, Want::Cached, &mut Vec::new())?,
        };
        Reader::new(Arc::clone(self.reading.values()), loaded.head, body)
    }

    /// The newest version without its body, which is not read.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn head(&self, key: &[u8]) -> Result<Option<Head>> {
        self.reading.check_open()?;
        let head = self.reading.looking_again(|| self.reading.with_newest(key, Want::Head, |raw| raw.head()))?;
        self.reading.counted(head)
    }

    /// [`Store::head`] of the version with the greatest time not after `time_ms`.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn head_at(&self, key: &[u8], time_ms: i64) -> Result<Option<Head>> {
        let found = self.reading.looking_again(|| {
            let spot = self.reading.spots(key)?.into_iter().find(|s| s.version.time_ms <= time_ms);
            spot.map(|s| self.reading.with_spot(key, &s, Want::Head, |raw| raw.head())).transpose()
        });
        or_newest(found, || self.head(key), |head| head.version.time_ms <= time_ms)
    }

    /// All versions of a key, newest first. Reads one key record and one head for each.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn history(&self, key: &[u8]) -> Result<Vec<Head>> {
        self.reading.looking_again(|| {
            let spots = self.reading.spots(key)?;
            spots.iter().map(|s| self.reading.with_spot(key, s, Want::Head, |raw| raw.head())).collect()
        })
    }

    /// The versions of a key, newest first. Reads one key record for each, and no values.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn versions_of(&self, key: &[u8]) -> Result<Vec<Version>> {
        Ok(self.reading.spots(key)?.into_iter().map(|s| s.version).collect())
    }

    /// Returns true if a key has a version. Reads no value.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        self.reading.check_open()?;
        self.reading.follow_if_due();
        let hash = self.reading.hash(key);
        let (best, floor) = self.reading.in_memtables(key, hash);
        let found = if best.is_some() {
            true
        } else if floor > 0 {
            false
        } else {
            self.reading.indexed(key, hash)?.is_some()
        };
        Ok(self.reading.counted(found.then_some(()))?.is_some())
    }

    /// Location of the newest version of a key, from memory and one index page alone. Unconfirmed:
    /// for a missing key it returns some location about once in a million times.
    ///
    /// # Errors
    /// `Corrupt` if the index page is damaged.
    pub fn locate(&self, key: &[u8]) -> Result<Option<Place>> {
        let hash = self.reading.hash(key);
        let (best, floor) = self.reading.in_memtables(key, hash);
        let location = match best {
            Some(entry) => Some(entry.extent.location),
            None if floor > 0 => None,
            None => self.reading.looking_again(|| self.reading.candidates(hash))?.iter().next().map(|s| s.location),
        };
        Ok(location.map(|l| Place { segment: l.segment, offset: l.offset() }))
    }
}

/// The version found. If a damaged key record hides it, tries the newest version, which is found
/// without key records.
fn or_newest<T>(
    found: Result<Option<T>>,
    newest: impl FnOnce() -> Result<Option<T>>,
    is_wanted: impl FnOnce(&T) -> bool,
) -> Result<Option<T>> {
    let is_key_record = |e: &Error| matches!(e, Error::Storage(StorageError::Corrupt { file, .. }) if names::parse_keys(file).is_some());
    match found {
        Err(e) if is_key_record(&e) => {
            newest().ok().flatten().filter(is_wanted).map_or(Err(e), |newest| Ok(Some(newest)))
        }
        found => found,
    }
}
