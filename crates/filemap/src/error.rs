//! The error type of the crate: what failed, where, and what to do about it.
//!
//! A page that does not exist is never an error (`Ok(None)`). Damage inside a WARC file is not one
//! either: it is a [`Problem`](crate::warc::Problem) of the import's report.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use filemap_core::Version;

use crate::date;
use crate::limits;
use crate::packing::Packing;

/// Errors of stores of pages.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use filemap::{Error, Options, Page, PageStore};
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// let error = store.put_page(&Page::new("no URL", 1_700_000_000_000, 200, "hello")).unwrap_err();
/// assert!(matches!(error, Error::Url { .. }) && error.concerns_one_page());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The engine failed; its message names the file, the offset and the remedy.
    #[error(transparent)]
    Engine(#[from] filemap_core::Error),
    /// One version of a page cannot be read; its others can.
    #[error(
        "{url}: the version of {} (sequence {}) cannot be read: {source}",
        date::format(version.time_ms),
        version.sequence
    )]
    Unreadable {
        /// The page's canonical URL; bytes that are not UTF-8 are replaced.
        url: String,
        /// Time and sequence of the version.
        version: Version,
        /// The error of reading it.
        source: Arc<Error>,
    },
    /// The page is a revisit, and its original is, or may be, a version that cannot be read.
    #[error("{url}: the version of {} has no body: it is a revisit, and its original is lost: {source}", date::format(*time_ms))]
    LostOriginal {
        /// The canonical URL of the revisit; bytes that are not UTF-8 are replaced.
        url: String,
        /// The revisit's time.
        time_ms: i64,
        /// The error that names the unreadable version.
        source: Arc<Error>,
    },
    /// The record of a page in place cannot be read: its file was moved, is missing, or has other
    /// content. The page's description can be read. Tell the store the file's new location
    /// ([`crate::PageStore::move_archive`]).
    #[error("the record in {archive} (offset {offset}): {what}")]
    InPlace {
        /// Last known location of the file.
        archive: String,
        /// Offset of the record in the file, in bytes.
        offset: u64,
        /// The reason.
        what: String,
    },
    /// The bytes are not a URL by the store's canonicaliser. Nothing was read or written.
    #[error("{url:?}: {source}")]
    Url {
        /// The URL; bytes that are not UTF-8 are replaced.
        url: String,
        /// The reason why it is invalid.
        source: urlindex::UrlError,
    },
    /// The store's keys were made by a canonicaliser that this program does not have.
    #[error(
        "{}: its keys were made by the canonicaliser {name} version {version}, which this program does not know: dump the \
         store with the program that wrote it, and load the dump into a new store",
        path.display()
    )]
    UnknownCanonicalizer {
        /// The store.
        path: PathBuf,
        /// The name in its superblock.
        name: String,
        /// The version in its superblock.
        version: u32,
    },
    /// The description of a stored page does not decode. The record passed the engine's checksum,
    /// so another program or a newer FileMap wrote it: use that to read the store.
    #[error("the page {key:?} of time {time_ms}: its description (meta) does not decode: {source}")]
    Meta {
        /// The page's key; bytes that are not UTF-8 are replaced.
        key: String,
        /// The version's time.
        time_ms: i64,
        /// The reason.
        source: MetaError,
    },
    /// A variant must have 1 to `Variant::MAX_BYTES` bytes. Use a digest of a longer one.
    #[error("a variant has 1 to {limit} bytes, this one has {len}; give a digest of it", limit = limits::VARIANT_BYTES)]
    Variant {
        /// The number of bytes given.
        len: usize,
    },
    /// The headers and the rest of the description are too large. Nothing was written.
    #[error("the headers take {bytes} bytes; a page may have {limit} bytes of them", limit = limits::DESCRIPTION_BYTES)]
    HeadersTooLarge {
        /// Their encoded size in bytes.
        bytes: u64,
    },
    /// The reader of a page's body, or of a WARC file, failed. Data before the failure is stored.
    #[error("reading {what} failed at offset {offset}: {source}")]
    Read {
        /// The name of the file, or a URL.
        what: String,
        /// Number of bytes read before the failure.
        offset: u64,
        /// The error of the system.
        source: io::Error,
    },
    /// The file to import is compressed in an unsupported format. Nothing of it was stored.
    #[error("{file} is compressed by {form}, which an import does not support: decompress it, for example as in `{} {file} | fm-tool import STORE -`", form.command())]
    Packed {
        /// The file.
        file: String,
        /// The format.
        form: Packing,
    },
    /// A page too large for memory could not be written to a temporary file. Free space there, or
    /// choose another folder.
    #[error("writing a large page to a temporary file in {} failed: {source}; free space there or choose another folder", dir.display())]
    Spool {
        /// The folder for temporary files.
        dir: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// An erase rule is invalid, or was written by a newer FileMap: it is unknown which puts it
    /// refuses.
    #[error("the erase rule {id} is invalid or unknown: {what}")]
    Rule {
        /// The rule's id; 0 for a new one.
        id: u32,
        /// The reason.
        what: String,
    },
    /// The store lacks a feature: see its [`Capabilities`](crate::access::Capabilities).
    #[error("this store has no {what}")]
    Unsupported {
        /// The feature.
        what: &'static str,
    },
    /// The cursor does not come from a listing of this kind. Nothing was listed.
    #[error("invalid cursor: {what}; list from the beginning")]
    Cursor {
        /// The reason.
        what: &'static str,
    },
    /// Some versions are missing from the table, or lack their body, because they cannot be read.
    /// All others are in it. Run `verify` to find all damage, or choose to count it.
    #[error(
        "{damaged} versions or parts of the log cannot be read and are left out, {bodiless} rows lack their body; first: {first}"
    )]
    LeftOut {
        /// Number of versions, parts of the log and missing files without a row.
        damaged: u64,
        /// Number of rows that lack their body.
        bodiless: u64,
        /// The first error.
        first: String,
    },
    /// Rows could not be converted into a table, or a table could not be written.
    #[error("making the table failed: {what}")]
    Table {
        /// The reason.
        what: String,
    },
    /// A member of a store over several folders failed: see [`crate::sharded`].
    #[error("{}: {source}", path.display())]
    Member {
        /// The member's folder.
        path: PathBuf,
        /// The failure there.
        source: Arc<Error>,
    },
    /// These folders are not one store over several folders, in their order. No page was read or
    /// written.
    #[error("{}: {what}", path.display())]
    NotMembers {
        /// The folder, or the location, that does not fit.
        path: PathBuf,
        /// The defect, and what to do.
        what: String,
    },
    /// A store on another machine refused a call, or did not answer.
    #[error("{location}: {detail}")]
    Remote {
        /// Address of the store.
        location: String,
        /// The reason, in the words of that store.
        detail: String,
        /// True if stored bytes are damaged there.
        is_damage: bool,
        /// True if it concerns only one page.
        is_of_one_page: bool,
    },
    /// The output of a dump could not be written. Files closed before are complete.
    #[error("writing the dump failed: {0}")]
    Write(#[source] io::Error),
}

/// The reason why a description of a page does not decode.
///
/// ```
/// use filemap::page::meta::{self, MetaError};
/// assert_eq!(meta::spill_bytes(&[9]), Err(MetaError::Version { found: 9 }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetaError {
    /// The description ends inside a field.
    #[error("it ends inside the field `{field}`")]
    Short {
        /// The field.
        field: &'static str,
    },
    /// A field holds an invalid value.
    #[error("the field `{field}` holds no valid value")]
    Invalid {
        /// The field.
        field: &'static str,
    },
    /// Bytes follow the last field.
    #[error("{bytes} bytes follow the last field")]
    Trailing {
        /// Number of these bytes.
        bytes: usize,
    },
    /// The layout has another version. Read it with the program that wrote it, or a newer one.
    #[error("it has layout version {found}, this program reads up to {limit}", limit = limits::DESCRIPTION_VERSION)]
    Version {
        /// The version found.
        found: u8,
    },
}

/// A result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns whether stored bytes are damaged: this version is lost, others can still be read.
    pub fn is_damage(&self) -> bool {
        match self {
            Error::Engine(engine) => engine.is_corrupt(),
            Error::Meta { .. } | Error::InPlace { .. } | Error::LeftOut { .. } => true,
            Error::Remote { is_damage, .. } => *is_damage,
            Error::Unreadable { source, .. } => source.is_damage() || source.refused_by().is_some(),
            Error::LostOriginal { source, .. } | Error::Member { source, .. } => source.is_damage(),
            _ => false,
        }
    }

    /// Returns whether the error concerns only this page (invalid URL, over a limit, or refused by
    /// a rule): others can still be put.
    pub fn concerns_one_page(&self) -> bool {
        use filemap_core::Error as Engine;
        match self {
            Error::Url { .. } | Error::Variant { .. } | Error::HeadersTooLarge { .. } => true,
            Error::Remote { is_of_one_page, .. } => *is_of_one_page,
            Error::Member { source, .. } => source.concerns_one_page(),
            Error::Engine(engine) => {
                matches!(
                    engine,
                    Engine::KeyLength { .. }
                        | Engine::MetaTooLarge { .. }
                        | Engine::ValueTooLarge { .. }
                        | Engine::Refused { .. }
                )
            }
            _ => false,
        }
    }

    /// The error with the folder of the member that it came from. One that is about what the
    /// caller gave, and the same in every member, stays as it is.
    pub(crate) fn of_member(self, path: &Path) -> Error {
        if self.names_member() {
            return self;
        }
        let of_member = |source: Arc<Error>| Error::Member { path: path.to_owned(), source };
        match self {
            Error::Unreadable { url, version, source } => {
                Error::Unreadable { url, version, source: Arc::new(of_member(source)) }
            }
            Error::LostOriginal { url, time_ms, source } => {
                Error::LostOriginal { url, time_ms, source: Arc::new(of_member(source)) }
            }
            Error::Url { .. }
            | Error::Variant { .. }
            | Error::HeadersTooLarge { .. }
            | Error::Cursor { .. }
            | Error::Unsupported { .. }
            | Error::Write(_)
            | Error::NotMembers { .. } => self,
            error => of_member(Arc::new(error)),
        }
    }

    /// Returns whether the error names the member that it came from.
    fn names_member(&self) -> bool {
        match self {
            Error::Member { .. } => true,
            Error::Unreadable { source, .. } | Error::LostOriginal { source, .. } => source.names_member(),
            _ => false,
        }
    }

    pub(crate) fn url(url: &[u8], source: urlindex::UrlError) -> Error {
        Error::Url { url: String::from_utf8_lossy(url).into_owned(), source }
    }
}
