//! fjall with key-value separation.
//!
//! By its documentation: large values separated from keys (threshold 1 KiB); a cache of a fixed
//! size; puts go to the journal and the operating system, and `persist` makes them durable. It has
//! only LZ4, so the application compresses and blobs are stored uncompressed; blocks of keys keep
//! LZ4.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use filemap_benches::drive::Outcome;
use filemap_benches::generate::Page;
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode};

use super::{After, EVERYTHING, Engine, Facts, Kind, Purpose, Session, Settings, zstd_by_application};
use crate::engine::codec::{Codec, Frames};
use crate::measure::usage::disk_bytes;

pub static KIND: Kind = Kind {
    name: "fjall",
    version: || super::locked("fjall"),
    settings: |settings| {
        format!(
            "key-value separation from 1 KiB with defaults, blobs as they come; cache {} MiB; batches of 128 pages in loads, the \
             journal persisted (SyncAll) at the end; a durable put is followed by persist(SyncAll); space given back by a \
             major compaction",
            settings.cache_bytes >> 20
        )
    },
    compression: zstd_by_application,
    open: |dir, settings, purpose| Ok(Box::new(Fjall::open(dir, settings, purpose)?)),
    batch: 128,
    can: EVERYTHING,
    // Tables hold keys, locations of blobs, and pages under the threshold.
    is_index_file: Some(|path| path.contains("tables/")),
};

struct Fjall {
    database: Database,
    pages: Keyspace,
    level: i32,
    purpose: Purpose,
    stored_bytes: AtomicU64,
}

impl Fjall {
    fn open(dir: &Path, settings: &Settings, purpose: Purpose) -> Outcome<Fjall> {
        let database = Database::builder(dir).cache_size(settings.cache_bytes).open()?;
        let separated = KvSeparationOptions::default().compression(CompressionType::None);
        let options = || KeyspaceCreateOptions::default().with_kv_separation(Some(separated.clone()));
        let pages = database.keyspace("pages", options)?;
        Ok(Fjall { database, pages, level: settings.level, purpose, stored_bytes: AtomicU64::new(0) })
    }
}

impl Engine for Fjall {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(Lane { fjall: self, codec: Codec::new(self.level)?, frames: Frames::default() }))
    }

    fn sync(&self) -> Outcome<()> {
        Ok(self.database.persist(PersistMode::SyncAll)?)
    }

    fn reclaim(&mut self, _after: After) -> Outcome<()> {
        self.pages.rotate_memtable_and_wait()?;
        while self.database.active_compactions() > 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(self.pages.major_compact()?)
    }

    fn facts(&self) -> Outcome<Facts> {
        let stored = self.stored_bytes.load(Ordering::Relaxed);
        Ok(Facts { stored_bytes: Some(stored), ..Facts::default() })
    }

    /// The tables: keys, locations of blobs, filters, and pages too short for blobs.
    fn index_bytes(&self) -> Outcome<Option<u64>> {
        Ok(Some(disk_bytes(&self.pages.path().join("tables"))?))
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.sync()
    }
}

struct Lane<'a> {
    fjall: &'a Fjall,
    codec: Codec,
    frames: Frames,
}

impl Session for Lane<'_> {
    fn put_batch(&mut self, pages: &[Page]) -> Outcome<()> {
        let fjall = self.fjall;
        if let [page] = pages {
            fjall.pages.insert(&*page.url, self.codec.compress(&page.body)?)?;
        } else {
            self.frames.fill(&mut self.codec, pages)?;
            let mut batch = fjall.database.batch();
            for (page, frame) in pages.iter().zip(self.frames.iter()) {
                batch.insert(&fjall.pages, &*page.url, frame);
            }
            batch.commit()?;
        }
        if fjall.purpose == Purpose::Durable {
            fjall.database.persist(PersistMode::SyncAll)?;
        }
        fjall.stored_bytes.fetch_add(self.codec.take_stored_bytes(), Ordering::Relaxed);
        Ok(())
    }

    fn get_into(&mut self, key: &[u8], body: &mut Vec<u8>) -> Outcome<bool> {
        match self.fjall.pages.get(key)? {
            Some(frame) => self.codec.expand(&frame, body).map(|()| true),
            None => Ok(false),
        }
    }

    fn delete(&mut self, keys: &[&[u8]]) -> Outcome<()> {
        let mut batch = self.fjall.database.batch();
        for key in keys {
            batch.remove(&self.fjall.pages, *key);
        }
        Ok(batch.commit()?)
    }
}
