//! Target of an import: a local store, in one folder or several, one behind a server, which gets
//! archive files unchanged, or one in object storage, which takes JSON Lines.

use std::cell::OnceCell;
use std::io::{self, Read};
use std::path::Path;

use filemap::access::{Loading, PutRule};
use filemap::import::{ImportOptions, ImportProgress, ImportReport};
use filemap::store::{RevisitCount, Unresolved};
use filemap::{Error, Page, PageWrite, Put};
use filemap_http::{ArchiveForm, Client, Imported};
use fm_cli::{Failure, interrupt};

use super::in_place;
use super::json_lines;
use super::report::Brought;
use super::source::{Content, Head};
use crate::flags::Shared;
use crate::stores::bucket;
use crate::stores::filling::{Filled, ToFill};
use crate::stores::opening::{self, NewStore, server_to_fill};

/// What to do with files that only a local store takes.
const INSTEAD: &str =
    "import the file into a folder, and `fm-tool copy FOLDER LOCATION` brings its pages to object storage";

/// Most URLs kept of revisits without an original.
const MOST_URLS: usize = 10;

/// Target of pages.
pub enum Target<'a> {
    Here(ToFill<'a>),
    /// A server, and the revisits of the files sent so far.
    There(Box<Client>, RevisitCount),
    /// A store in object storage.
    Bucket(Box<dyn PageWrite>),
}

impl<'a> Target<'a> {
    /// Opens the store if it exists; one in object storage is made. A server's store must exist.
    /// Only a local store accepts a cache.
    pub fn open(path: &'a Path, new: &'a NewStore, is_cache: bool, shared: &'a Shared) -> Result<Target<'a>, Failure> {
        if bucket::is_bucket(path) {
            if is_cache {
                return Err(Failure::Usage(format!("--from needs a local store: {INSTEAD}")));
            }
            return Ok(Target::Bucket(opening::to_fill(path, new, shared)?));
        }
        Ok(match server_to_fill(path, new, shared)? {
            Some(_) if is_cache => {
                let words = "--from needs a local store: import the cache into one, and send what `fm-tool dump` \
                             writes of it";
                return Err(Failure::Usage(words.to_owned()));
            }
            Some(client) => Target::There(Box::new(client), RevisitCount::default()),
            None => Target::Here(ToFill::open(path, new, shared)?),
        })
    }

    pub fn is_server(&self) -> bool {
        matches!(self, Target::There(..))
    }

    /// The local store, if it exists.
    pub fn store(&self) -> Option<&Filled> {
        match self {
            Target::Here(stores) => stores.filled(),
            Target::There(..) | Target::Bucket(_) => None,
        }
    }

    /// Number of pages and other records put here so far.
    pub fn puts(&self) -> u64 {
        match self {
            Target::Here(stores) => stores.puts(),
            Target::There(..) | Target::Bucket(_) => 0,
        }
    }

    /// The folder of the last page put here.
    pub fn last_folder(&self) -> Option<&Path> {
        match self {
            Target::Here(stores) => Some(stores.last_folder()),
            Target::There(..) | Target::Bucket(_) => None,
        }
    }

    /// Imports JSON Lines; `progress` gets bytes read and versions stored.
    pub fn json_lines(
        &mut self,
        name: &str,
        source: impl Read,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Brought, Failure> {
        match self {
            Target::Here(stores) => {
                let filled = OnceCell::new();
                let mut into = Into { stores, filled: &filled, load: None };
                json_lines::import(&mut |page, rule| into.put(page, rule), name, source, progress)
            }
            Target::There(client, _) => {
                json_lines::import(&mut |page, rule| client.put(page, rule), name, source, progress)
            }
            Target::Bucket(store) => {
                json_lines::import(&mut |page, rule| store.put(page, rule), name, source, progress)
            }
        }
    }

    /// Imports an archive file; `progress` gets bytes read and versions stored (none for a
    /// server's store).
    pub fn archive(
        &mut self,
        (name, content): (&str, Content),
        source: Head,
        options: &ImportOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Brought, Failure> {
        let stores = match self {
            Target::Here(stores) => stores,
            Target::Bucket(_) => {
                return Err(Failure::Usage(format!("{name}: object storage takes JSON Lines: {INSTEAD}")));
            }
            Target::There(client, revisits) => {
                let brought = send(client, (name, content), source, options, progress)?;
                if let Some(of_file) = &brought.revisits {
                    add(revisits, of_file);
                }
                return Ok(brought);
            }
        };
        let mut store_for = |url: &[u8]| stores.store_for(url);
        let progress = &mut |at: ImportProgress| {
            progress(at.bytes_read, at.pages);
            interrupt::go_on()
        };
        let report = match content {
            Content::Wacz => {
                filemap::import::import_wacz_into(&mut store_for, name, source.into_file(), options, progress)?
            }
            _ => filemap::import::import_into(&mut store_for, name, source, options, progress)?,
        };
        Ok(report.into())
    }

    /// Imports the captures that an index lists into a local store.
    pub fn index(
        &mut self,
        (name, path): (&str, &Path),
        source: impl Read + Send,
        archive: Option<&str>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Brought, Failure> {
        let Target::Here(stores) = self else {
            return Err(Failure::Usage("--in-place needs a store on this machine".to_owned()));
        };
        let mut store = |url: &[u8]| stores.store_for(url);
        in_place::index(&mut store, (name, path), source, archive, progress)
    }

    /// Adds the report of a file to the sums. The revisits in them take bounded memory.
    pub fn add_up(&self, total: &mut ImportReport, report: ImportReport) -> Result<(), Failure> {
        total.add(report);
        match self.store() {
            Some(store) => Ok(total.unresolved.keep_bounded_in(&mut |url| store.of(url))?),
            None => Ok(()),
        }
    }

    /// The imported revisits, and those without an original. A server counts after each file, so
    /// an original in a later file counts as missing.
    pub fn revisits(&self, mut unresolved: Unresolved) -> Result<Option<RevisitCount>, Failure> {
        match self {
            Target::Here(stores) => {
                let count = |store: &Filled| unresolved.count_in(&mut |url| store.of(url));
                Ok(stores.filled().map(count).transpose()?)
            }
            Target::There(_, revisits) => Ok(Some(revisits.clone())),
            // It looks for no originals.
            Target::Bucket(_) => Ok(None),
        }
    }

    /// Closes the store, or reports that none was made; a server's pages are already durable.
    pub fn close(self) -> Result<(), Failure> {
        match self {
            Target::Here(stores) => stores.close(),
            Target::There(client, _) => Ok(client.close()?),
            Target::Bucket(store) => Ok(store.close()?),
        }
    }
}

fn add(revisits: &mut RevisitCount, more: &RevisitCount) {
    revisits.revisits += more.revisits;
    revisits.unresolved += more.unresolved;
    let room = MOST_URLS.saturating_sub(revisits.urls.len());
    revisits.urls.extend(more.urls.iter().take(room).cloned());
}

fn send(
    client: &Client,
    (name, content): (&str, Content),
    source: Head,
    options: &ImportOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Brought, Failure> {
    let form = if content == Content::Wacz { ArchiveForm::Wacz } else { ArchiveForm::Warc };
    match client.import(name, form, &mut Sent { source, read: 0, progress }, options) {
        Ok(Imported { report, revisits, failure, .. }) => {
            let mut brought = Brought::from(report);
            (brought.revisits, brought.failure) = (Some(revisits), failure);
            Ok(brought)
        }
        Err(Error::Read { .. }) if interrupt::asked() => {
            let mut brought = Brought::default();
            brought.report.is_cancelled = true;
            Ok(brought)
        }
        Err(error) => Err(error.into()),
    }
}

/// An upload in progress. Once the work must stop, reading fails: the server must not take the end
/// of input for the end of the file.
struct Sent<'a> {
    source: Head,
    read: u64,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl Read for Sent<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(out)?;
        if interrupt::asked() {
            return Err(io::Error::other("interrupted"));
        }
        self.read += read as u64;
        (self.progress)(self.read, 0);
        Ok(read)
    }
}

/// The target store, made when the first page arrives.
struct Into<'a, 's> {
    stores: &'a mut ToFill<'s>,
    filled: &'a OnceCell<Filled>,
    load: Option<Loading<'a>>,
}

impl Into<'_, '_> {
    fn put(&mut self, page: &Page, rule: PutRule) -> filemap::Result<Option<Put>> {
        if self.load.is_none() {
            let filled = self.stores.filled_for(&page.url)?.clone();
            self.load = Some(self.filled.get_or_init(|| filled).pages().load());
        }
        let put = self.load.as_mut().map_or(Ok(None), |load| load(page, rule));
        if put.is_err() {
            // The failure may be that of a disk, which is named by the folder of the last page.
            let _ = self.stores.store_for(&page.url);
        }
        put
    }
}
