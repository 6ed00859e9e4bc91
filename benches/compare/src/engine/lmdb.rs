//! LMDB through heed.
//!
//! By its documentation: many puts in one transaction; a map as large as the store may ever get;
//! no read-ahead once the file outgrows memory; keys of at most 511 bytes, so a longer key ends in
//! its hash. Freed pages are reused, so nothing is compacted after overwriting; after deleting,
//! `mdb_copy -c`.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use filemap_benches::drive::Outcome;
use filemap_benches::generate::Page;
use heed::types::Bytes;
use heed::{CommitOrAbort, CompactionOption, Database, Env, EnvFlags, EnvOpenOptions};
use xxhash_rust::xxh3::xxh3_128;

use super::{After, EVERYTHING, Engine, Facts, Kind, Purpose, Session, Settings, zstd_by_application};
use crate::engine::codec::{Codec, Frames};

const MAP_BYTES: usize = 256 << 30;
const KEY_BYTES_MAX: usize = 511;
const READERS: u32 = 512;

pub static KIND: Kind = Kind {
    name: "lmdb",
    version: || {
        let lmdb = heed::lmdb_version();
        format!("{}, LMDB {}.{}.{}", super::locked("heed"), lmdb.major, lmdb.minor, lmdb.patch)
    },
    settings: |_| {
        "map 256 GiB; NOSYNC but for durable puts, synced at the end of a load; no WRITEMAP; 512 pages a transaction in loads; \
         NORDAHEAD when the file is over half of memory; keys over 511 bytes end in a hash"
            .into()
    },
    compression: zstd_by_application,
    open: |dir, settings, purpose| Ok(Box::new(Lmdb::open(dir, settings, purpose)?)),
    batch: 512,
    can: EVERYTHING,
    is_index_file: None,
};

/// Open handles; absent while a compacted copy replaces the file.
struct Opened {
    env: Env,
    pages: Database<'static, Bytes, Bytes>,
}

struct Lmdb {
    dir: PathBuf,
    opened: Option<Opened>,
    settings: Settings,
    purpose: Purpose,
    stored_bytes: AtomicU64,
}

impl Lmdb {
    fn open(dir: &Path, settings: &Settings, purpose: Purpose) -> Outcome<Lmdb> {
        std::fs::create_dir_all(dir)?;
        let opened = Some(opened(dir, settings, purpose)?);
        Ok(Lmdb { dir: dir.into(), opened, settings: settings.clone(), purpose, stored_bytes: AtomicU64::new(0) })
    }

    fn env(&self) -> &Opened {
        self.opened.as_ref().expect("open but while its file is replaced")
    }
}

#[allow(unsafe_code)]
fn opened(dir: &Path, settings: &Settings, purpose: Purpose) -> Outcome<Opened> {
    let file_bytes = std::fs::metadata(dir.join("data.mdb")).map_or(0, |metadata| metadata.len());
    let mut flags = EnvFlags::empty();
    if purpose != Purpose::Durable {
        flags |= EnvFlags::NO_SYNC;
    }
    if file_bytes > settings.memory_bytes / 2 {
        flags |= EnvFlags::NO_READ_AHEAD;
    }
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES).max_readers(READERS);
    // SAFETY: the directory belongs to this run alone, so nobody changes the mapped file behind
    // LMDB's back; without syncs a power loss may cost the store, which a benchmark makes again.
    let env = unsafe { options.flags(flags).open(dir)? };
    let transaction = env.write_txn()?;
    let made = env.create_databases_and_commit(transaction, |opener, transaction| -> heed::Result<_> {
        Ok(CommitOrAbort::<_, ()>::Commit(opener.create_database::<Bytes, Bytes>(transaction, None)?))
    })?;
    let CommitOrAbort::Commit(pages) = made else { return Err("LMDB: the database was not made".into()) };
    Ok(Opened { env, pages })
}

/// A key that LMDB takes.
fn short(key: &[u8]) -> Cow<'_, [u8]> {
    if key.len() <= KEY_BYTES_MAX {
        return Cow::Borrowed(key);
    }
    let mut short = key[..KEY_BYTES_MAX - 16].to_vec();
    short.extend_from_slice(&xxh3_128(key).to_le_bytes());
    Cow::Owned(short)
}

impl Engine for Lmdb {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(Lane { lmdb: self, codec: Codec::new(self.settings.level)?, frames: Frames::default() }))
    }

    fn sync(&self) -> Outcome<()> {
        Ok(self.env().env.force_sync()?)
    }

    fn reclaim(&mut self, after: After) -> Outcome<()> {
        if after == After::Overwrite {
            return Ok(());
        }
        let copy = self.dir.join("compacted.mdb");
        let opened_before = self.opened.take().expect("open but while its file is replaced");
        opened_before.env.copy_to_path(&copy, CompactionOption::Enabled)?.sync_all()?;
        opened_before.env.prepare_for_closing().wait();
        std::fs::rename(&copy, self.dir.join("data.mdb"))?;
        self.opened = Some(opened(&self.dir, &self.settings, self.purpose)?);
        Ok(())
    }

    fn facts(&self) -> Outcome<Facts> {
        let stored = self.stored_bytes.load(Ordering::Relaxed);
        Ok(Facts { stored_bytes: Some(stored), ..Facts::default() })
    }

    /// Pages of up to half a leaf lie in the leaves; longer ones have their own pages.
    fn index_bytes(&self) -> Outcome<Option<u64>> {
        let opened = self.env();
        let transaction = opened.env.read_txn()?;
        let stat = opened.pages.stat(&transaction)?;
        Ok(Some((stat.branch_pages + stat.leaf_pages) as u64 * u64::from(stat.page_size)))
    }

    fn close(mut self: Box<Self>) -> Outcome<()> {
        self.sync()?;
        let opened = self.opened.take().expect("open but while its file is replaced");
        opened.env.prepare_for_closing().wait();
        Ok(())
    }
}

struct Lane<'a> {
    lmdb: &'a Lmdb,
    codec: Codec,
    frames: Frames,
}

impl Session for Lane<'_> {
    fn put_batch(&mut self, pages: &[Page]) -> Outcome<()> {
        self.frames.fill(&mut self.codec, pages)?;
        let opened = self.lmdb.env();
        let mut transaction = opened.env.write_txn()?;
        for (page, frame) in pages.iter().zip(self.frames.iter()) {
            opened.pages.put(&mut transaction, &short(&page.url), frame)?;
        }
        transaction.commit()?;
        self.lmdb.stored_bytes.fetch_add(self.codec.take_stored_bytes(), Ordering::Relaxed);
        Ok(())
    }

    fn get_into(&mut self, key: &[u8], body: &mut Vec<u8>) -> Outcome<bool> {
        let opened = self.lmdb.env();
        let transaction = opened.env.read_txn()?;
        match opened.pages.get(&transaction, &short(key))? {
            Some(frame) => self.codec.expand(frame, body).map(|()| true),
            None => Ok(false),
        }
    }

    fn delete(&mut self, keys: &[&[u8]]) -> Outcome<()> {
        let opened = self.lmdb.env();
        let mut transaction = opened.env.write_txn()?;
        for key in keys {
            opened.pages.delete(&mut transaction, &short(key))?;
        }
        Ok(transaction.commit()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_keys_are_shortened_and_stay_distinct() {
        let long = vec![b'a'; 2000];
        let mut other = long.clone();
        other[1999] = b'b';
        assert_eq!(short(&long[..511]).len(), 511);
        assert_eq!(short(&long).len(), 511);
        assert_ne!(short(&long), short(&other));
    }
}
