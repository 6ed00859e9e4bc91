//! The engines behind one face.
//!
//! Invariants:
//! - each is set up as its own documents advise for this use, and says how in [`Kind::settings`];
//! - where the application compresses, it does so on the calling thread before any lock is taken, with contexts that the
//!   thread keeps;
//! - a session belongs to one thread; an engine is shared by all.

#[cfg(feature = "candystore")]
mod candystore;
mod file_per_page;
mod filemap;
mod fjall;
mod limit;
mod lmdb;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod sqlite;
mod warc;

use std::path::Path;

use filemap_benches::drive::Outcome;
use filemap_benches::generate::Page;

use crate::pages::Probe;

/// What a store is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A bulk load into an empty store: nothing need be durable before [`Engine::sync`] at its end.
    Load,
    /// Gets and puts; the caller syncs every second.
    Use,
    /// Each put is on the device when it returns.
    Durable,
}

/// What every engine is told alike.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Memory for a cache of its own, if it has one.
    pub cache_bytes: u64,
    /// zstd level.
    pub level: i32,
    /// Threads that will put and get.
    pub threads: usize,
    /// Memory of the machine, or as much of it as the process may use.
    pub memory_bytes: u64,
}

/// A sort of engine.
pub struct Kind {
    /// As in the report's tables.
    pub name: &'static str,
    /// Its version, for the report.
    pub version: fn() -> String,
    /// How it is set up, for the report.
    pub settings: fn(&Settings) -> String,
    /// Who compresses, and how.
    pub compression: fn(&Settings) -> String,
    /// Opens a store, or makes one where none is.
    pub open: Open,
    /// Pages that a load puts at a time.
    pub batch: usize,
    /// What it can do.
    pub can: Can,
    /// Says of a file's path within the store whether it is index and no page; engines that keep both in the same files have
    /// none.
    pub is_index_file: Option<fn(&str) -> bool>,
}

/// Opens a store.
pub type Open = fn(&Path, &Settings, Purpose) -> Outcome<Opened>;
/// An open store of any engine.
pub type Opened = Box<dyn Engine>;
/// What is done with the answer to a probe.
pub type Each<'a> = dyn FnMut(&Probe, Option<&[u8]>) -> Outcome<()> + 'a;

/// What an engine can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Can {
    /// Opens what was closed.
    pub reopen: bool,
    /// Opens what was killed.
    pub recover: bool,
    /// Puts a key that is there, or single new ones.
    pub update: bool,
    /// Deletes, and gives space back.
    pub delete: bool,
    /// Reads ahead of gets.
    pub get_ahead: bool,
    /// No more pages than that.
    pub pages_max: u64,
}

/// Adding up an index that is spread over a file reads the file whole: not above this many bytes.
const FILE_BYTES_TO_ADD_UP: u64 = 4 << 30;

/// All of it but gets that read ahead, which most lack.
const EVERYTHING: Can =
    Can { reopen: true, recover: true, update: true, delete: true, get_ahead: false, pages_max: u64::MAX };

/// Why space is to be given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Pages were replaced by others.
    Overwrite,
    /// Pages were deleted for good.
    Delete,
}

/// What an engine knows of itself; `None` where it does not.
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
    /// A thread's way in.
    fn session(&self) -> Outcome<Box<dyn Session + '_>>;

    /// Makes everything durable that was put before.
    fn sync(&self) -> Outcome<()>;

    /// Gives back the space of what is dead, as the engine's users would.
    fn reclaim(&mut self, _after: After) -> Outcome<()> {
        Ok(())
    }

    /// What it knows of itself. Sessions add what they know when they end.
    fn facts(&self) -> Outcome<Facts>;

    /// What the index takes on disk: all that a get reads but the page itself. May read the whole store; `None` if it would take
    /// too long or is not known.
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

    /// Gets pages in order while those after each are being read, always `depth` at once. Only of engines that can.
    fn get_ahead(&mut self, _probes: &[Probe], _depth: usize, _each: &mut Each<'_>) -> Outcome<()> {
        Err("the engine has no such call".into())
    }

    /// Deletes pages together.
    fn delete(&mut self, keys: &[&[u8]]) -> Outcome<()>;
}

/// Every engine that is built in, in the order of the report's tables.
pub fn kinds() -> Vec<&'static Kind> {
    vec![
        &limit::KIND,
        &filemap::KIND,
        &filemap::PLAIN,
        &filemap::CACHED,
        &lmdb::KIND,
        &fjall::KIND,
        &redb::KIND,
        #[cfg(feature = "rocksdb")]
        &rocksdb::KIND,
        &sqlite::KIND,
        #[cfg(feature = "candystore")]
        &candystore::KIND,
        &file_per_page::KIND,
        &warc::KIND,
    ]
}

/// The engine of that name.
pub fn kind(name: &str) -> Outcome<&'static Kind> {
    let all = kinds();
    all.iter().copied().find(|kind| kind.name == name).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|kind| kind.name).collect();
        format!("no engine `{name}` is built in; there are {}", names.join(", ")).into()
    })
}

/// The version of a package in this program's lock file.
fn locked(package: &str) -> String {
    let name = format!("name = \"{package}\"");
    let mut lines = include_str!("../../Cargo.lock").lines().skip_while(|line| *line != name);
    let version = lines.nth(1).and_then(|line| line.split('"').nth(1));
    format!("{package} {}", version.unwrap_or("of unknown version"))
}

/// What application-side zstd is called in the report.
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

    #[test]
    fn engines_have_names_of_their_own() {
        let names: std::collections::HashSet<&str> = kinds().iter().map(|kind| kind.name).collect();
        assert_eq!(names.len(), kinds().len());
        assert!(kind("limit").is_ok());
        assert!(kind("none").err().is_some_and(|error| error.to_string().contains("lmdb")));
    }
}
