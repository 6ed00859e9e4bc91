//! redb.
//!
//! By its documentation: many puts in one transaction; commits of `Durability::None`, with a
//! durable one at the end of a load and every second in use, since only those free pages.
//! Freed pages are reused, so nothing is compacted after overwriting; after deleting, `compact`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use filemap_benches::drive::Outcome;
use filemap_benches::generate::Page;
use redb::{Database, Durability, ReadableDatabase, ReadableTableMetadata, TableDefinition};

use super::{
    After, EVERYTHING, Engine, FILE_BYTES_TO_ADD_UP, Facts, Kind, Purpose, Session, Settings, zstd_by_application,
};
use crate::engine::codec::{Codec, Frames};

const PAGES: TableDefinition<&[u8], &[u8]> = TableDefinition::new("pages");
const PAGE_BYTES: u64 = 4096;

pub static KIND: Kind = Kind {
    name: "redb",
    version: || super::locked("redb"),
    settings: |settings| {
        format!(
            "cache {} MiB; Durability::None in loads of 512 pages a transaction, one durable commit at the end; in use a durable \
             commit every second; Immediate for durable puts; compact() after deleting",
            settings.cache_bytes >> 20
        )
    },
    compression: zstd_by_application,
    open: |dir, settings, purpose| Ok(Box::new(Redb::open(dir, settings, purpose)?)),
    batch: 512,
    can: EVERYTHING,
    is_index_file: None,
};

struct Redb {
    path: PathBuf,
    database: Database,
    level: i32,
    durability: Durability,
    stored_bytes: AtomicU64,
}

impl Redb {
    fn open(dir: &Path, settings: &Settings, purpose: Purpose) -> Outcome<Redb> {
        std::fs::create_dir_all(dir)?;
        let cache_bytes = settings.cache_bytes as usize;
        let path = dir.join("pages.redb");
        let database = Database::builder().set_cache_size(cache_bytes).create(&path)?;
        let durability = if purpose == Purpose::Durable { Durability::Immediate } else { Durability::None };
        Ok(Redb { path, database, level: settings.level, durability, stored_bytes: AtomicU64::new(0) })
    }

    fn write(&self, durability: Durability, work: impl FnOnce(&redb::WriteTransaction) -> Outcome<()>) -> Outcome<()> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(durability)?;
        work(&transaction)?;
        Ok(transaction.commit()?)
    }
}

impl Engine for Redb {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(Lane { redb: self, codec: Codec::new(self.level)?, frames: Frames::default() }))
    }

    fn sync(&self) -> Outcome<()> {
        self.write(Durability::Immediate, |_| Ok(()))
    }

    fn reclaim(&mut self, after: After) -> Outcome<()> {
        if after == After::Delete {
            self.sync()?;
            self.database.compact()?;
        }
        Ok(())
    }

    fn facts(&self) -> Outcome<Facts> {
        let stored = self.stored_bytes.load(Ordering::Relaxed);
        Ok(Facts { stored_bytes: Some(stored), ..Facts::default() })
    }

    /// The tree's pages hold the values too, so the index is what is not a value: the branches and
    /// the keys.
    fn index_bytes(&self) -> Outcome<Option<u64>> {
        if std::fs::metadata(&self.path)?.len() > FILE_BYTES_TO_ADD_UP {
            return Ok(None);
        }
        let stats = self.database.begin_read()?.open_table(PAGES)?.stats()?;
        Ok(Some(stats.metadata_bytes() + PAGE_BYTES * stats.branch_pages()))
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.sync()
    }
}

struct Lane<'a> {
    redb: &'a Redb,
    codec: Codec,
    frames: Frames,
}

impl Session for Lane<'_> {
    fn put_batch(&mut self, pages: &[Page]) -> Outcome<()> {
        self.frames.fill(&mut self.codec, pages)?;
        let redb = self.redb;
        redb.write(redb.durability, |transaction| {
            let mut table = transaction.open_table(PAGES)?;
            for (page, frame) in pages.iter().zip(self.frames.iter()) {
                table.insert(page.url.as_slice(), frame)?;
            }
            Ok(())
        })?;
        redb.stored_bytes.fetch_add(self.codec.take_stored_bytes(), Ordering::Relaxed);
        Ok(())
    }

    fn get_into(&mut self, key: &[u8], body: &mut Vec<u8>) -> Outcome<bool> {
        let table = self.redb.database.begin_read()?.open_table(PAGES)?;
        match table.get(key)? {
            Some(frame) => self.codec.expand(frame.value(), body).map(|()| true),
            None => Ok(false),
        }
    }

    fn delete(&mut self, keys: &[&[u8]]) -> Outcome<()> {
        self.redb.write(self.redb.durability, |transaction| {
            let mut table = transaction.open_table(PAGES)?;
            for key in keys {
                table.remove(*key)?;
            }
            Ok(())
        })
    }
}
