//! The store that an import fills: in one folder, or in several. It is made with the first page,
//! so that bad input makes none.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use filemap::sharded::ShardedStore;
use filemap::{PageStore, PageWrite};
use fm_cli::{Failure, words};
use urlindex::Canonicalizer;

use crate::flags::Shared;
use crate::stores::opening::{self, NewStore};
use crate::stores::{bucket, shards};

/// An open store to fill.
#[derive(Clone)]
pub enum Filled {
    Folder(PageStore),
    Shards(ShardedStore),
}

impl Filled {
    /// The store of the pages of a URL.
    pub fn of(&self, url: &[u8]) -> filemap::Result<PageStore> {
        match self {
            Filled::Folder(store) => Ok(store.clone()),
            Filled::Shards(store) => store.member_of(url).cloned(),
        }
    }

    /// The stores, one for each folder.
    fn members(&self) -> &[PageStore] {
        match self {
            Filled::Folder(store) => std::slice::from_ref(store),
            Filled::Shards(store) => store.members(),
        }
    }

    /// All of it, for pages of any URL.
    pub fn pages(&self) -> &dyn PageWrite {
        match self {
            Filled::Folder(store) => store,
            Filled::Shards(store) => store,
        }
    }

    /// Number of records put by this process.
    fn puts(&self) -> u64 {
        self.members().iter().map(|member| member.engine().stats().puts).sum()
    }

    fn canonicalizer(&self) -> &Arc<dyn Canonicalizer> {
        match self {
            Filled::Folder(store) => store.canonicalizer(),
            Filled::Shards(store) => store.canonicalizer(),
        }
    }
}

/// A store to fill, which may not be there yet.
pub struct ToFill<'a> {
    path: &'a Path,
    /// The folders of a store over several.
    folders: Option<Vec<PathBuf>>,
    new: &'a NewStore,
    shared: &'a Shared,
    filled: Option<Filled>,
    /// Records put before the first page: those that make a store over several folders.
    before: u64,
    /// The folder of the last page, in a store over several.
    last: Option<PathBuf>,
}

impl<'a> ToFill<'a> {
    /// Opens the store if it exists.
    pub fn open(path: &'a Path, new: &'a NewStore, shared: &'a Shared) -> Result<Self, Failure> {
        bucket::refuse(path)?;
        let folders = shards::members(path)?;
        // Opens, or refuses, anything but empty folders at once.
        let filled = match &folders {
            None if !new.must_exist() && is_empty(path) => None,
            None => Some(Filled::Folder(opening::local_to_fill(path, new, shared)?)),
            Some(folders) if !new.must_exist() && folders.iter().all(|folder| is_empty(folder)) => None,
            Some(_) => opening::shards_to_fill_by(path, new, shared)?.map(Filled::Shards),
        };
        let before = filled.as_ref().map_or(0, Filled::puts);
        Ok(Self { path, folders, new, shared, filled, before, last: None })
    }

    /// The store, for a page of this URL; made if missing.
    pub fn filled_for(&mut self, url: &[u8]) -> filemap::Result<&Filled> {
        let filled = match self.filled.take() {
            Some(filled) => filled,
            None => {
                let made = self.make(url)?;
                self.before = made.puts();
                made
            }
        };
        Ok(&*self.filled.insert(filled))
    }

    /// The store of the pages of this URL, as [`ToFill::filled_for`].
    pub fn store_for(&mut self, url: &[u8]) -> filemap::Result<PageStore> {
        let store = self.filled_for(url)?.of(url)?;
        if self.folders.is_some() && self.last.as_deref() != Some(store.engine().path()) {
            self.last = Some(store.engine().path().to_owned());
        }
        Ok(store)
    }

    fn make(&self, url: &[u8]) -> filemap::Result<Filled> {
        if let Err(source) = self.new.canonicalizer().canonicalize(url) {
            return Err(filemap::Error::Url { url: String::from_utf8_lossy(url).into_owned(), source });
        }
        Ok(match &self.folders {
            None => Filled::Folder(opening::fill(self.path, self.new, self.shared)?),
            Some(folders) => Filled::Shards(opening::fill_shards(folders, self.new, self.shared)?),
        })
    }

    /// Number of pages and other records put so far.
    pub fn puts(&self) -> u64 {
        self.filled.as_ref().map_or(0, |filled| filled.puts() - self.before)
    }

    /// The store, if it exists yet.
    pub fn filled(&self) -> Option<&Filled> {
        self.filled.as_ref()
    }

    /// The canonicaliser of the store, or of the one that would be made.
    pub fn canonicalizer(&self) -> Arc<dyn Canonicalizer> {
        self.filled.as_ref().map_or_else(|| self.new.canonicalizer(), |filled| Arc::clone(filled.canonicalizer()))
    }

    /// The folder that the last page is, or was to be, in.
    pub fn last_folder(&self) -> &Path {
        self.last.as_deref().unwrap_or(self.path)
    }

    /// Closes the store, or reports that none was made.
    pub fn close(self) -> Result<(), Failure> {
        match self.filled {
            Some(filled) => filled.pages().close()?,
            None => words::complain(format_args!("nothing to import: {} was not made", self.path.display())),
        }
        Ok(())
    }
}

/// Returns whether there is nothing at a path, or an empty folder.
fn is_empty(path: &Path) -> bool {
    match std::fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}
