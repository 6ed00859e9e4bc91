//! The bare loop: compress with zstd and append to one file. The baseline of every load.
//!
//! It keeps no key, checksum or index. A thread syncs as often as the store's does.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use zstd::bulk::Compressor;
use zstd::zstd_safe::compress_bound;

use crate::drive::{Outcome, Sink};
use crate::generate::Page;

/// The sync policy of the bare loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncEvery {
    /// Only at the end.
    Never,
    /// From a separate thread.
    Interval(Duration),
    /// After each page, before the put returns.
    Put,
}

/// One file that pages are appended to.
#[derive(Debug)]
pub struct BareLoop {
    file: Mutex<File>,
    level: i32,
    sync: SyncEvery,
    bytes: AtomicU64,
    stop: Arc<AtomicBool>,
    syncer: Option<JoinHandle<()>>,
}

/// A thread's compressor and its output.
pub struct Lane {
    compressor: Compressor<'static>,
    compressed: Vec<u8>,
}

impl BareLoop {
    /// Creates the file, or empties it.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(path: &Path, level: i32, sync: SyncEvery) -> Outcome<BareLoop> {
        let file = File::create(path)?;
        let stop = Arc::new(AtomicBool::new(false));
        let syncer = match sync {
            SyncEvery::Interval(interval) => {
                let (file, stop) = (file.try_clone()?, Arc::clone(&stop));
                Some(std::thread::spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        std::thread::park_timeout(interval);
                        file.sync_data().expect("the bare loop has no answer to a failed sync");
                    }
                }))
            }
            SyncEvery::Never | SyncEvery::Put => None,
        };
        Ok(BareLoop { file: Mutex::new(file), level, sync, bytes: AtomicU64::new(0), stop, syncer })
    }

    /// Makes everything durable, and says how many bytes that is.
    ///
    /// # Errors
    /// If the sync fails.
    pub fn finish(mut self) -> Outcome<u64> {
        self.stop_syncer();
        self.file.lock().expect("no put panicked").sync_data()?;
        Ok(self.bytes.load(Ordering::Relaxed))
    }

    fn stop_syncer(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(syncer) = self.syncer.take() {
            syncer.thread().unpark();
            let _ = syncer.join();
        }
    }
}

impl Drop for BareLoop {
    fn drop(&mut self) {
        self.stop_syncer();
    }
}

impl Sink for BareLoop {
    type Lane = Lane;

    fn lane(&self) -> Outcome<Lane> {
        Ok(Lane { compressor: Compressor::new(self.level)?, compressed: Vec::new() })
    }

    fn put(&self, lane: &mut Lane, page: &Page) -> Outcome<()> {
        lane.compressed.clear();
        lane.compressed.reserve(compress_bound(page.body.len()));
        let len = lane.compressor.compress_to_buffer(&page.body, &mut lane.compressed)?;
        let mut file = self.file.lock().expect("no put panicked");
        file.write_all(&lane.compressed)?;
        drop(file);
        self.bytes.fetch_add(len as u64, Ordering::Relaxed);
        if self.sync == SyncEvery::Put {
            self.file.lock().expect("no put panicked").sync_data()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::{Plan, drive};
    use crate::source::Source;

    #[test]
    fn the_file_holds_every_page_compressed() {
        let path = std::env::temp_dir().join(format!("filemap-bare-{}", std::process::id()));
        let source = Source::open(None, 1).unwrap();
        let plan = Plan { pages: 0..200, threads: 2, mark_every: 100, explain: false };
        let bare = BareLoop::create(&path, 3, SyncEvery::Interval(Duration::from_millis(5))).unwrap();
        let driven = drive(&source, &bare, &plan).unwrap();
        let bytes = bare.finish().unwrap();
        let stored = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(stored.len() as u64, bytes);
        // Frames stand end to end, so one stream decoder reads them all.
        assert_eq!(zstd::stream::decode_all(&stored[..]).unwrap().len() as u64, driven.body_bytes);
    }
}
