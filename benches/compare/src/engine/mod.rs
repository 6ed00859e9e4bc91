//! The interface of all engines; below it one file an engine, and the registry.
//!
//! Invariants:
//! - each engine is set up as its own documentation advises for this use, and says how in
//!   [`Kind::settings`];
//! - where the application compresses, the calling thread does so before it takes any lock, with
//!   contexts it keeps;
//! - a session belongs to one thread; all threads share the engine.

#[cfg(feature = "candystore")]
mod candystore;
pub mod codec;
mod file_per_page;
mod filemap;
mod fjall;
mod limit;
mod lmdb;
mod redb;
pub mod registry;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod sqlite;
mod warc;

use std::path::Path;

use filemap_benches::drive::Outcome;
use filemap_benches::generate::Page;

use crate::pages::Probe;

/// The purpose for which a store is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A bulk load into an empty store: nothing need be durable before [`Engine::sync`] at its
    /// end.
    Load,
    /// Gets and puts; the caller syncs every second.
    Use,
    /// Each put is on the device when it returns.
    Durable,
}

/// Settings that all engines share.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Memory for its own cache, if it has one.
    pub cache_bytes: u64,
    /// zstd level.
    pub level: i32,
    /// Threads that will put and get.
    pub threads: usize,
    /// Memory of the machine, or as much of it as the process may use.
    pub memory_bytes: u64,
}

/// An engine: its name, settings, abilities, and how to open it.
pub struct Kind {
    /// Name in the report.
    pub name: &'static str,
    /// Its version, for the report.
    pub version: fn() -> String,
    /// Its settings, for the report.
    pub settings: fn(&Settings) -> String,
    /// The compressor and its settings.
    pub compression: fn(&Settings) -> String,
    /// Opens a store, or makes one where none is.
    pub open: Open,
    /// Pages that a load puts at a time.
    pub batch: usize,
    /// Its capabilities.
    pub can: Can,
    /// True if a file of the store holds index and no pages. `None` for engines that keep both in
    /// the same files.
    pub is_index_file: Option<fn(&str) -> bool>,
}

/// Opens a store.
pub type Open = fn(&Path, &Settings, Purpose) -> Outcome<Opened>;
/// An open store of any engine.
pub type Opened = Box<dyn Engine>;
/// Callback with the answer to a probe.
pub type Each<'a> = dyn FnMut(&Probe, Option<&[u8]>) -> Outcome<()> + 'a;

/// Capabilities of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Can {
    /// A closed store can be opened again.
    pub reopen: bool,
    /// A store survives kill -9.
    pub recover: bool,
    /// Overwrites keys, and puts single new ones.
    pub update: bool,
    /// Deletes, and reclaims the space.
    pub delete: bool,
    /// Reads ahead: [`Session::get_ahead`].
    pub get_ahead: bool,
    /// Most pages that it is given.
    pub pages_max: u64,
}

/// To sum up an index that is spread over a file, the whole file is read: not above this size.
const FILE_BYTES_TO_ADD_UP: u64 = 4 << 30;

/// Everything except `get_ahead`, which most engines lack.
const EVERYTHING: Can =
    Can { reopen: true, recover: true, update: true, delete: true, get_ahead: false, pages_max: u64::MAX };

/// The cause of a reclaim of space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Pages were replaced by others.
    Overwrite,
    /// Pages were deleted.
    Delete,
}

/// An engine's own statistics; `None` where it has none.
#[derive(Debug, Clone, Copy, Default)]
pub struct Facts {
    /// Bytes of bodies as stored by all puts since it was opened.
    pub stored_bytes: Option<u64>,
    /// Bytes of what lives.
    pub live_bytes: Option<u64>,
    /// Length of the value log.
    pub value_log_bytes: Option<u64>,
}

/// An open store.
pub trait Engine: Send + Sync {
    /// A session for the calling thread.
    fn session(&self) -> Outcome<Box<dyn Session + '_>>;

    /// Makes everything durable that was put before.
    fn sync(&self) -> Outcome<()>;

    /// Reclaims dead space, the way users of this engine do.
    fn reclaim(&mut self, _after: After) -> Outcome<()> {
        Ok(())
    }

    /// Its own statistics. A session adds its part when it ends.
    fn facts(&self) -> Outcome<Facts>;

    /// Size of the index on disk: all that a get reads except the page. May read the whole store;
    /// `None` if that takes too long or is unknown.
    fn index_bytes(&self) -> Outcome<Option<u64>> {
        Ok(None)
    }

    /// Closes it, durably.
    fn close(self: Box<Self>) -> Outcome<()>;
}

/// One thread's puts and gets.
pub trait Session {
    /// Puts pages together.
    fn put_batch(&mut self, pages: &[Page]) -> Outcome<()>;

    /// Puts one page.
    fn put(&mut self, page: &Page) -> Outcome<()> {
        self.put_batch(std::slice::from_ref(page))
    }

    /// A page's body over whatever `body` held; `false` if there is none.
    fn get_into(&mut self, key: &[u8], body: &mut Vec<u8>) -> Outcome<bool>;

    /// Gets pages in order while those after each are being read, always `depth` at once. Only of
    /// engines that can.
    fn get_ahead(&mut self, _probes: &[Probe], _depth: usize, _each: &mut Each<'_>) -> Outcome<()> {
        Err("the engine has no such call".into())
    }

    /// Deletes pages together.
    fn delete(&mut self, keys: &[&[u8]]) -> Outcome<()>;
}

/// The version of a package in this program's lock file.
fn locked(package: &str) -> String {
    let name = format!("name = \"{package}\"");
    let mut lines = include_str!("../../Cargo.lock").lines().skip_while(|line| *line != name);
    let version = lines.nth(1).and_then(|line| line.split('"').nth(1));
    format!("{package} {}", version.unwrap_or("of unknown version"))
}

/// The report's words for zstd by the application.
fn zstd_by_application(settings: &Settings) -> String {
    format!("zstd -{} by the application", settings.level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_lock_file() {
        assert!(locked("heed").starts_with("heed 0."), "{}", locked("heed"));
        assert!(locked("no such package").ends_with("unknown version"));
    }
}
