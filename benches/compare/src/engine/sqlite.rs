//! SQLite.
//!
//! By its documentation: WAL; many puts in one transaction; pages of 8 KiB for blobs of this size
//! ("Internal Versus External BLOBs"); no WITHOUT ROWID, since rows are large ("The WITHOUT ROWID
//! Optimization"), so the key has its own index; reads through a memory map as far as it goes;
//! NORMAL in WAL, FULL where a commit must be durable. One writer at a time: threads share a
//! connection for puts and have one each for gets.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use filemap_benches::drive::Outcome;
use filemap_benches::generate::Page;
use rusqlite::{Connection, OptionalExtension, params};

use super::{
    After, EVERYTHING, Engine, FILE_BYTES_TO_ADD_UP, Facts, Kind, Purpose, Session, Settings, zstd_by_application,
};
use crate::engine::codec::{Codec, Frames};

/// Largest map that SQLite is compiled for.
const MAP_BYTES: u64 = 0x7fff_0000;

const PUT: &str = "INSERT INTO pages(url, body) VALUES(?1, ?2) ON CONFLICT(url) DO UPDATE SET body = excluded.body";
const GET: &str = "SELECT body FROM pages WHERE url = ?1";
const DELETE: &str = "DELETE FROM pages WHERE url = ?1";

pub static KIND: Kind = Kind {
    name: "sqlite",
    version: || format!("{}, SQLite {}", super::locked("rusqlite"), rusqlite::version()),
    settings: |settings| {
        format!(
            "WAL, synchronous NORMAL (FULL for durable puts), page_size 8192, mmap_size 2 GiB, cache {} MiB over its connections; \
             a table with a unique index of URLs; 512 pages a transaction in loads, a checkpoint at the end; VACUUM after \
             deleting",
            settings.cache_bytes >> 20
        )
    },
    compression: zstd_by_application,
    open: |dir, settings, purpose| Ok(Box::new(Sqlite::open(dir, settings, purpose)?)),
    batch: 512,
    can: EVERYTHING,
    is_index_file: None,
};

struct Sqlite {
    path: PathBuf,
    writer: Mutex<Connection>,
    level: i32,
    cache_kib: u64,
    synchronous: &'static str,
    stored_bytes: AtomicU64,
}

impl Sqlite {
    fn open(dir: &Path, settings: &Settings, purpose: Purpose) -> Outcome<Sqlite> {
        std::fs::create_dir_all(dir)?;
        let path = dir.join("pages.sqlite");
        let synchronous = if purpose == Purpose::Durable { "FULL" } else { "NORMAL" };
        let cache_kib = settings.cache_bytes / 1024 / (settings.threads as u64 + 1);
        let writer = connect(&path, cache_kib, synchronous)?;
        writer.execute_batch(
            "CREATE TABLE IF NOT EXISTS pages(id INTEGER PRIMARY KEY, url BLOB NOT NULL UNIQUE, body BLOB NOT NULL)",
        )?;
        let stored_bytes = AtomicU64::new(0);
        Ok(Sqlite { path, writer: Mutex::new(writer), level: settings.level, cache_kib, synchronous, stored_bytes })
    }

    fn checkpoint(&self, mode: &str) -> Outcome<()> {
        let writer = self.writer.lock().expect("no writer panicked");
        let busy: i64 = writer.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| row.get(0))?;
        if busy != 0 && mode == "TRUNCATE" {
            return Err("SQLite: the checkpoint found the database busy".into());
        }
        Ok(())
    }
}

fn connect(path: &Path, cache_kib: u64, synchronous: &str) -> Outcome<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(std::time::Duration::from_secs(60))?;
    connection.execute_batch(&format!(
        "PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; \
         PRAGMA cache_size = -{cache_kib}; PRAGMA mmap_size = {MAP_BYTES};"
    ))?;
    Ok(connection)
}

impl Engine for Sqlite {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        let reader = connect(&self.path, self.cache_kib, self.synchronous)?;
        Ok(Box::new(Lane { sqlite: self, reader, codec: Codec::new(self.level)?, frames: Frames::default() }))
    }

    /// In WAL with NORMAL a commit is durable once a checkpoint has synced the log.
    fn sync(&self) -> Outcome<()> {
        self.checkpoint("PASSIVE")
    }

    fn reclaim(&mut self, after: After) -> Outcome<()> {
        if after == After::Delete {
            self.writer.lock().expect("no writer panicked").execute_batch("VACUUM")?;
        }
        self.checkpoint("TRUNCATE")
    }

    fn facts(&self) -> Outcome<Facts> {
        let stored = self.stored_bytes.load(Ordering::Relaxed);
        Ok(Facts { stored_bytes: Some(stored), ..Facts::default() })
    }

    /// The index of URLs whole, and of the table what is above the leaves.
    fn index_bytes(&self) -> Outcome<Option<u64>> {
        if std::fs::metadata(&self.path)?.len() > FILE_BYTES_TO_ADD_UP {
            return Ok(None);
        }
        let sum = "SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE name <> 'pages' OR pagetype = 'internal'";
        let writer = self.writer.lock().expect("no writer panicked");
        Ok(Some(writer.query_row(sum, [], |row| row.get::<_, i64>(0))? as u64))
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.checkpoint("TRUNCATE")?;
        let writer = self.writer.into_inner().expect("no writer panicked");
        writer.close().map_err(|(_, error)| error.into())
    }
}

struct Lane<'a> {
    sqlite: &'a Sqlite,
    reader: Connection,
    codec: Codec,
    frames: Frames,
}

impl Session for Lane<'_> {
    fn put_batch(&mut self, pages: &[Page]) -> Outcome<()> {
        self.frames.fill(&mut self.codec, pages)?;
        let mut writer = self.sqlite.writer.lock().expect("no writer panicked");
        let transaction = writer.transaction()?;
        {
            let mut put = transaction.prepare_cached(PUT)?;
            for (page, frame) in pages.iter().zip(self.frames.iter()) {
                put.execute(params![page.url, frame])?;
            }
        }
        transaction.commit()?;
        drop(writer);
        self.sqlite.stored_bytes.fetch_add(self.codec.take_stored_bytes(), Ordering::Relaxed);
        Ok(())
    }

    fn get_into(&mut self, key: &[u8], body: &mut Vec<u8>) -> Outcome<bool> {
        let codec = &mut self.codec;
        let mut get = self.reader.prepare_cached(GET)?;
        let found = get.query_row([key], |row| Ok(row.get_ref(0)?.as_blob().map(|frame| codec.expand(frame, body))));
        match found.optional()? {
            Some(expanded) => expanded?.map(|()| true),
            None => Ok(false),
        }
    }

    fn delete(&mut self, keys: &[&[u8]]) -> Outcome<()> {
        let mut writer = self.sqlite.writer.lock().expect("no writer panicked");
        let transaction = writer.transaction()?;
        {
            let mut delete = transaction.prepare_cached(DELETE)?;
            for key in keys {
                delete.execute([key])?;
            }
        }
        Ok(transaction.commit()?)
    }
}
