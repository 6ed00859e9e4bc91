//! CandyStore.
//!
//! By its documentation: puts go to the operating system, and a background checkpoint makes them
//! durable; a durable put is followed by `checkpoint`. A value holds 64 KiB; a longer one goes
//! through the call for big values, with a short marker in its place. Compaction runs in the
//! background at a set throughput and cannot be waited for: reclaiming waits until the disk stops
//! shrinking.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use candystore::{CandyStore, Config, MAX_VALUE_LEN};
use filemap_benches::drive::Outcome;
use filemap_benches::generate::Page;

use super::{After, EVERYTHING, Engine, Facts, Kind, Purpose, Session, Settings, zstd_by_application};
use crate::engine::codec::Codec;
use crate::measure::usage::disk_bytes;

/// Marker of a value that is too long; no zstd frame is so short.
const BIG: &[u8] = b"big";
const COMPACTION_BYTES_PER_SECOND: usize = 256 << 20;
const QUIET: Duration = Duration::from_secs(2);

pub static KIND: Kind = Kind {
    name: "candystore",
    version: || super::locked("candystore"),
    settings: |_| {
        format!(
            "defaults (checkpoints in the background every 5 s or 128 KiB) but for compaction at {} MiB/s; pages over 64 KiB by \
             set_big; put one by one; checkpoint() at the end of a load and after durable puts; given back when the disk has \
             not shrunk for {} s",
            COMPACTION_BYTES_PER_SECOND >> 20,
            QUIET.as_secs()
        )
    },
    compression: zstd_by_application,
    open: |dir, settings, purpose| Ok(Box::new(Candy::open(dir, settings, purpose)?)),
    batch: 1,
    can: EVERYTHING,
    is_index_file: Some(|path| path == "index" || path == "rows"),
};

struct Candy {
    store: CandyStore,
    dir: PathBuf,
    level: i32,
    purpose: Purpose,
    stored_bytes: AtomicU64,
}

impl Candy {
    fn open(dir: &Path, settings: &Settings, purpose: Purpose) -> Outcome<Candy> {
        let config = Config { compaction_throughput_bytes_per_sec: COMPACTION_BYTES_PER_SECOND, ..Config::default() };
        let store = CandyStore::open(dir, config)?;
        Ok(Candy { store, dir: dir.into(), level: settings.level, purpose, stored_bytes: AtomicU64::new(0) })
    }
}

impl Engine for Candy {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(Lane { candy: self, codec: Codec::new(self.level)? }))
    }

    fn sync(&self) -> Outcome<()> {
        Ok(self.store.checkpoint()?)
    }

    fn reclaim(&mut self, _after: After) -> Outcome<()> {
        self.store.checkpoint()?;
        let mut before = disk_bytes(&self.dir)?;
        loop {
            std::thread::sleep(QUIET);
            let now = disk_bytes(&self.dir)?;
            if now >= before {
                break;
            }
            before = now;
        }
        self.store.shrink_to_fit_blocking(0.25)?;
        Ok(())
    }

    fn facts(&self) -> Outcome<Facts> {
        let stored = self.stored_bytes.load(Ordering::Relaxed);
        Ok(Facts { stored_bytes: Some(stored), ..Facts::default() })
    }

    fn index_bytes(&self) -> Outcome<Option<u64>> {
        let bytes = |name: &str| std::fs::metadata(self.dir.join(name)).map(|metadata| metadata.len());
        Ok(Some(bytes("index")? + bytes("rows")?))
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.sync()
    }
}

struct Lane<'a> {
    candy: &'a Candy,
    codec: Codec,
}

impl Session for Lane<'_> {
    fn put_batch(&mut self, pages: &[Page]) -> Outcome<()> {
        for page in pages {
            let frame = self.codec.compress(&page.body)?;
            if frame.len() <= MAX_VALUE_LEN {
                self.candy.store.set(&page.url, frame)?;
            } else {
                self.candy.store.set_big(&page.url, frame)?;
                self.candy.store.set(&page.url, BIG)?;
            }
            if self.candy.purpose == Purpose::Durable {
                self.candy.store.checkpoint()?;
            }
        }
        self.candy.stored_bytes.fetch_add(self.codec.take_stored_bytes(), Ordering::Relaxed);
        Ok(())
    }

    fn get_into(&mut self, key: &[u8], body: &mut Vec<u8>) -> Outcome<bool> {
        let Some(mut frame) = self.candy.store.get(key)? else { return Ok(false) };
        if frame == BIG {
            let Some(big) = self.candy.store.get_big(key)? else { return Ok(false) };
            frame = big;
        }
        self.codec.expand(&frame, body)?;
        Ok(true)
    }

    fn delete(&mut self, keys: &[&[u8]]) -> Outcome<()> {
        for key in keys {
            if self.candy.store.remove(key)?.is_some_and(|frame| frame == BIG) {
                self.candy.store.remove_big(*key)?;
            }
        }
        Ok(())
    }
}
