//! The limit: zstd at the same level, an append to one file, and a hash map in memory. No store
//! can do less.
//!
//! It keeps no key and no checksum, and forgets its index at close.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasherDefault, Hasher};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};

use filemap_benches::drive::Outcome;
use filemap_benches::generate::Page;
use xxhash_rust::xxh3::xxh3_64;

use super::{Can, EVERYTHING, Engine, Facts, Kind, Purpose, Session, Settings, zstd_by_application};
use crate::engine::codec::Codec;

pub static KIND: Kind = Kind {
    name: "limit",
    version: || "a bare loop of this package".into(),
    settings: |_| {
        "one file, appended to under a lock after compression outside it; map of 64-bit hashes (XXH3) in memory; put one by \
         one; a durable put is followed by fdatasync"
            .into()
    },
    compression: zstd_by_application,
    open: |dir, settings, purpose| Ok(Box::new(Limit::create(dir, settings, purpose)?)),
    batch: 1,
    can: Can { reopen: false, recover: false, delete: false, ..EVERYTHING },
    is_index_file: None,
};

/// The keys are hashes already.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64(bytes);
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

struct Place {
    offset: u64,
    bytes: u32,
}

struct Limit {
    file: File,
    tail: Mutex<u64>,
    places: RwLock<HashMap<u64, Place, BuildHasherDefault<AsIs>>>,
    level: i32,
    syncs: bool,
    stored_bytes: AtomicU64,
}

impl Limit {
    fn create(dir: &Path, settings: &Settings, purpose: Purpose) -> Outcome<Limit> {
        std::fs::create_dir_all(dir)?;
        let file = OpenOptions::new().read(true).append(true).create_new(true).open(dir.join("pages"))?;
        Ok(Limit {
            file,
            tail: Mutex::new(0),
            places: RwLock::default(),
            level: settings.level,
            syncs: purpose == Purpose::Durable,
            stored_bytes: AtomicU64::new(0),
        })
    }
}

impl Engine for Limit {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(Lane { limit: self, codec: Codec::new(self.level)?, frame: Vec::new() }))
    }

    fn sync(&self) -> Outcome<()> {
        Ok(self.file.sync_data()?)
    }

    fn facts(&self) -> Outcome<Facts> {
        let stored = self.stored_bytes.load(Ordering::Relaxed);
        Ok(Facts { stored_bytes: Some(stored), ..Facts::default() })
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.sync()
    }
}

struct Lane<'a> {
    limit: &'a Limit,
    codec: Codec,
    frame: Vec<u8>,
}

impl Session for Lane<'_> {
    fn put_batch(&mut self, pages: &[Page]) -> Outcome<()> {
        for page in pages {
            let frame = self.codec.compress(&page.body)?;
            let mut tail = self.limit.tail.lock().expect("no put panicked");
            (&self.limit.file).write_all(frame)?;
            let place = Place { offset: *tail, bytes: frame.len() as u32 };
            *tail += frame.len() as u64;
            drop(tail);
            self.limit.places.write().expect("no put panicked").insert(xxh3_64(&page.url), place);
            if self.limit.syncs {
                self.limit.file.sync_data()?;
            }
        }
        self.limit.stored_bytes.fetch_add(self.codec.take_stored_bytes(), Ordering::Relaxed);
        Ok(())
    }

    fn get_into(&mut self, key: &[u8], body: &mut Vec<u8>) -> Outcome<bool> {
        let (offset, bytes) = match self.limit.places.read().expect("no put panicked").get(&xxh3_64(key)) {
            Some(place) => (place.offset, place.bytes as usize),
            None => return Ok(false),
        };
        self.frame.resize(bytes, 0);
        self.limit.file.read_exact_at(&mut self.frame, offset)?;
        self.codec.expand(&self.frame, body)?;
        Ok(true)
    }

    fn delete(&mut self, keys: &[&[u8]]) -> Outcome<()> {
        let mut places = self.limit.places.write().expect("no put panicked");
        for key in keys {
            places.remove(&xxh3_64(key));
        }
        Ok(())
    }
}
