//! RocksDB with BlobDB.
//!
//! By its wiki: blob files for large values, with their own compression and garbage collection;
//! one cache for blocks and blobs; Bloom filters of 10 bits; index and filter blocks cached, those
//! of level 0 pinned; LZ4 for tables, zstd at the bottom; bulk loads in batches without the log,
//! flushed at the end. RocksDB compresses blobs on its background threads, when memtables are
//! flushed.

use std::path::Path;

use filemap_benches::drive::Outcome;
use filemap_benches::generate::Page;
use rocksdb::{
    BlockBasedOptions, BottommostLevelCompaction, Cache, CompactOptions, DB, DBCompressionType, Options,
    WaitForCompactOptions, WriteBatch, WriteOptions,
};

use super::{After, EVERYTHING, Engine, Facts, Kind, Purpose, Session, Settings};

const MIN_BLOB_BYTES: u64 = 512;
const BLOOM_BITS: f64 = 10.0;

pub static KIND: Kind = Kind {
    name: "rocksdb",
    version: || format!("{}, {}", super::locked("rocksdb"), super::locked("librocksdb-sys")),
    settings: |settings| {
        format!(
            "BlobDB from {MIN_BLOB_BYTES} bytes, blob garbage collection on; one LRU cache of {} MiB for blocks and blobs; Bloom \
             filters of 10 bits, index and filter blocks cached, those of level 0 pinned; tables LZ4, bottom level zstd; {} \
             background jobs; batches of 128 pages without the log in loads, flushed at the end; in use with the log, \
             synced for durable puts; compaction of everything with forced collection to give space back",
            settings.cache_bytes >> 20,
            jobs()
        )
    },
    compression: |settings| format!("zstd -{} by the engine in the background (blobs)", settings.level),
    open: |dir, settings, purpose| Ok(Box::new(Rocks::open(dir, settings, purpose)?)),
    batch: 128,
    can: EVERYTHING,
    is_index_file: Some(|path| path.ends_with(".sst")),
};

fn jobs() -> i32 {
    std::thread::available_parallelism().map_or(2, |cores| cores.get() as i32).max(2)
}

struct Rocks {
    database: DB,
    purpose: Purpose,
}

impl Rocks {
    fn open(dir: &Path, settings: &Settings, purpose: Purpose) -> Outcome<Rocks> {
        let cache = Cache::new_lru_cache(settings.cache_bytes as usize);
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&cache);
        table.set_bloom_filter(BLOOM_BITS, false);
        table.set_cache_index_and_filter_blocks(true);
        table.set_pin_l0_filter_and_index_blocks_in_cache(true);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&table);
        options.set_compression_type(DBCompressionType::Lz4);
        options.set_bottommost_compression_type(DBCompressionType::Zstd);
        options.set_enable_blob_files(true);
        options.set_min_blob_size(MIN_BLOB_BYTES);
        options.set_blob_compression_type(DBCompressionType::Zstd);
        options.set_enable_blob_gc(true);
        options.set_blob_cache(&cache);
        options.increase_parallelism(jobs());
        options.set_max_background_jobs(jobs());
        options.set_bytes_per_sync(1 << 20);
        Ok(Rocks { database: DB::open(&options, dir)?, purpose })
    }

    fn write_options(&self) -> WriteOptions {
        let mut options = WriteOptions::default();
        options.disable_wal(self.purpose == Purpose::Load);
        options.set_sync(self.purpose == Purpose::Durable);
        options
    }
}

impl Engine for Rocks {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(Lane { rocks: self, options: self.write_options() }))
    }

    fn sync(&self) -> Outcome<()> {
        if self.purpose == Purpose::Load { Ok(self.database.flush()?) } else { Ok(self.database.flush_wal(true)?) }
    }

    fn reclaim(&mut self, _after: After) -> Outcome<()> {
        self.database.flush()?;
        // Every blob file may be collected, not the oldest quarter alone.
        self.database.set_options(&[("blob_garbage_collection_age_cutoff", "1.0")])?;
        let mut options = CompactOptions::default();
        options.set_bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
        self.database.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &options);
        self.database.wait_for_compact(&WaitForCompactOptions::default())?;
        Ok(self.database.set_options(&[("blob_garbage_collection_age_cutoff", "0.25")])?)
    }

    fn facts(&self) -> Outcome<Facts> {
        let number = |name: &str| self.database.property_int_value(name);
        let all = number("rocksdb.live-blob-file-size")?;
        let garbage = number("rocksdb.live-blob-file-garbage-size")?.unwrap_or(0);
        Ok(Facts { live_bytes: all.map(|all| all.saturating_sub(garbage)), ..Facts::default() })
    }

    /// The tables: keys, locations of blobs, filters, and pages too short for blobs.
    fn index_bytes(&self) -> Outcome<Option<u64>> {
        Ok(self.database.property_int_value("rocksdb.live-sst-files-size")?)
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.database.flush()?;
        self.database.cancel_all_background_work(true);
        Ok(())
    }
}

struct Lane<'a> {
    rocks: &'a Rocks,
    options: WriteOptions,
}

impl Session for Lane<'_> {
    fn put_batch(&mut self, pages: &[Page]) -> Outcome<()> {
        if let [page] = pages {
            return Ok(self.rocks.database.put_opt(&page.url, &page.body, &self.options)?);
        }
        let mut batch = WriteBatch::default();
        for page in pages {
            batch.put(&page.url, &page.body);
        }
        Ok(self.rocks.database.write_opt(batch, &self.options)?)
    }

    fn get_into(&mut self, key: &[u8], body: &mut Vec<u8>) -> Outcome<bool> {
        let Some(value) = self.rocks.database.get_pinned(key)? else { return Ok(false) };
        body.clear();
        body.extend_from_slice(&value);
        Ok(true)
    }

    fn delete(&mut self, keys: &[&[u8]]) -> Outcome<()> {
        let mut batch = WriteBatch::default();
        for key in keys {
            batch.delete(key);
        }
        Ok(self.rocks.database.write_opt(batch, &self.options)?)
    }
}
