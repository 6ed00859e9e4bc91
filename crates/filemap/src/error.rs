//! The error type of the crate: what failed, where, and what to do about it.
//!
//! Absence is never an error (`Ok(None)`), and neither is damage inside a WARC file: that is a
//! [`Problem`](crate::warc::Problem) of the import's report.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use filemap_core::Version;

use crate::date;
use crate::limits;
use crate::packing::Packing;

/// What can fail between a page and its store.
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
        /// The page's canonical URL, with replacement characters for what is not text.
        url: String,
        /// Which version.
        version: Version,
        /// What is wrong.
        source: Arc<Error>,
    },
    /// The page is a revisit, and its original is, or may be, a version that cannot be read.
    #[error("{url}: the version of {} has no body, for it is a revisit of what is lost: {source}", date::format(*time_ms))]
    LostOriginal {
        /// The canonical URL of the revisit, with replacement characters for what is not text.
        url: String,
        /// The revisit's time.
        time_ms: i64,
        /// Which version cannot be read, and why.
        source: Arc<Error>,
    },
    /// The record that a page was left in cannot be read: its file was moved, or it is gone or
    /// another. The page's description can be read. Tell the store where the file is now
    /// ([`crate::PageStore::move_archive`]).
    #[error("its record was left in {archive} (offset {offset}): {what}")]
    InPlace {
        /// Where the file was last known to be.
        archive: String,
        /// Where in it the record began, in bytes.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// The bytes given are no URL by the store's canonicaliser. Nothing was read or written.
    #[error("{url:?}: {source}")]
    Url {
        /// The URL, with replacement characters for what is not text.
        url: String,
        /// What is wrong with it.
        source: urlindex::UrlError,
    },
    /// The store's keys were made by a canonicaliser that this build does not have.
    #[error(
        "{}: its keys were made by the canonicaliser {name} version {version}, which this build does not know: dump the \
         store with the build that wrote it, and load the dump into a new store",
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
    /// so another program or a newer build wrote it: read the store with that.
    #[error("the page {key:?} of time {time_ms}: its description (meta) does not decode: {source}")]
    Meta {
        /// The page's key, with replacement characters for what is not text.
        key: String,
        /// The version's time.
        time_ms: i64,
        /// What is wrong.
        source: MetaError,
    },
    /// A variant must have 1 to `Variant::MAX_BYTES` bytes. Give a digest of longer ones.
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
    /// The reader of a page's body, or of a WARC file, failed. What came before it is stored.
    #[error("reading {what} failed at offset {offset}: {source}")]
    Read {
        /// What was read: a file's name or a URL.
        what: String,
        /// Bytes read before the failure.
        offset: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// The file to import is compressed in a form that is not supported. Nothing of it was stored.
    #[error("{file} is compressed by {form}, which an import does not read: unpack it first, or on the way, as in `{} {file} | fm-tool import STORE -`", form.command())]
    Packed {
        /// The file.
        file: String,
        /// The form.
        form: Packing,
    },
    /// A page too large for memory could not be written to a temporary file. Free space there, or
    /// give another folder.
    #[error("setting a large page aside in {} failed: {source}; give another folder with room", dir.display())]
    Spool {
        /// The folder for temporary files.
        dir: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// An erase rule is invalid or of a newer build: what it refuses is unknown.
    #[error("the rule {id} of an erasure is not understood: {what}")]
    Rule {
        /// The rule's id; 0 for a new one.
        id: u32,
        /// What is wrong.
        what: String,
    },
    /// The store lacks a feature: see its [`Capabilities`](crate::access::Capabilities).
    #[error("this store has no {what}")]
    Unsupported {
        /// The feature.
        what: &'static str,
    },
    /// The cursor is none that a listing of this kind gave. Nothing was listed.
    #[error("this is no cursor of such a listing: {what}; list from the beginning")]
    Cursor {
        /// What is wrong with it.
        what: &'static str,
    },
    /// Some versions are not in the table that was read, or lack their body: they cannot be read.
    /// All others are. Run `verify` to find all damage, or take the count alone.
    #[error(
        "{damaged} versions or parts of the log cannot be read and are left out, {bodiless} rows lack their body; first: {first}"
    )]
    LeftOut {
        /// Versions, stretches of the log and absent files without a row.
        damaged: u64,
        /// Rows without the body that they had.
        bodiless: u64,
        /// The first error.
        first: String,
    },
    /// Rows could not be made into a table, or a table not be written.
    #[error("making the table failed: {what}")]
    Table {
        /// What failed.
        what: String,
    },
    /// A member of a store over several folders failed: see [`crate::sharded`].
    #[error("{}: {source}", path.display())]
    Member {
        /// The member's folder.
        path: PathBuf,
        /// What failed there.
        source: Arc<Error>,
    },
    /// These folders are not one store over several folders, in their order. No page was read or
    /// written.
    #[error("{}: {what}", path.display())]
    NotMembers {
        /// The folder, or the location, that does not fit.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        what: String,
    },
    /// A store on another machine refused, or did not answer.
    #[error("{location}: {detail}")]
    Remote {
        /// Where the store is.
        location: String,
        /// What failed, in its words.
        detail: String,
        /// Stored bytes are damaged there.
        is_damage: bool,
        /// It concerns one page only.
        is_of_one_page: bool,
    },
    /// The output of a dump could not be written. Files closed before are whole.
    #[error("writing the dump failed: {0}")]
    Write(#[source] io::Error),
}

/// Why a description of a page does not decode.
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
    /// A field holds what the layout does not allow.
    #[error("the field `{field}` holds no valid value")]
    Invalid {
        /// The field.
        field: &'static str,
    },
    /// Bytes follow the last field.
    #[error("{bytes} bytes follow the last field")]
    Trailing {
        /// Their number.
        bytes: usize,
    },
    /// The layout has another version. Read it with the build that wrote it, or a newer one.
    #[error("it has layout version {found}, this build reads up to {limit}", limit = limits::DESCRIPTION_VERSION)]
    Version {
        /// The version found.
        found: u8,
    },
}

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Whether stored bytes are damaged: this version is lost, others can still be read.
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

    /// Whether the error concerns this one page only (no URL, over a limit, or refused by a rule):
    /// others can still be put.
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
            | Error::Member { .. }
            | Error::NotMembers { .. } => self,
            error => of_member(Arc::new(error)),
        }
    }

    pub(crate) fn url(url: &[u8], source: urlindex::UrlError) -> Error {
        Error::Url { url: String::from_utf8_lossy(url).into_owned(), source }
    }
}
