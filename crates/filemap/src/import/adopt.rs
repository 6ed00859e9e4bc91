//! Adoption: pages in place get their bodies into the store.
//!
//! Each record is read from its file and put with its body, at its time; when a batch of them is
//! durable, the descriptions in place are dropped. So a crash leaves both at worst, and the same
//! adoption goes on from there.

use std::ops::ControlFlow;

use filemap_core::Version;

use super::warc::put_page;
use crate::error::{Error, Result};
use crate::page::key;
use crate::page::version::BodyForm;
use crate::store::{Known, PageStore};
use crate::warc::capture::Capture;

/// Versions, and bytes of their bodies, after which descriptions are dropped.
const BATCH_VERSIONS: usize = 8192;
const BATCH_BYTES: u64 = 256 << 20;

/// Result of [`adopt`].
///
/// ```
/// let adopted = filemap::import::Adopted::default();
/// assert_eq!(adopted.pages + adopted.lost, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Adopted {
    /// Versions that are in the store now.
    pub pages: u64,
    /// Bytes of their bodies, before compression.
    pub body_bytes: u64,
    /// Versions that cannot be: their record is not there, or is another, or a limit or rule
    /// refuses it. They stay as they are.
    pub lost: u64,
    /// The callback ended it: what was adopted stays, and the same adoption does the rest.
    pub stopped: bool,
}

/// What was found on the way.
///
/// ```
/// fn shown(step: &filemap::import::AdoptStep<'_>) -> String {
///     match step {
///         filemap::import::AdoptStep::Page(url) => String::from_utf8_lossy(url).into_owned(),
///         filemap::import::AdoptStep::Lost(error) => error.to_string(),
///     }
/// }
/// ```
#[derive(Debug)]
pub enum AdoptStep<'a> {
    /// A page of this canonical URL was copied, or is whole.
    Page(&'a [u8]),
    /// A page cannot be read or stored.
    Lost(&'a Error),
}

/// Copies the bodies of all pages in place into the store. `each` is told of every version, and
/// ends the work with `Break`. A pass over the value log, and a read of each record.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::ops::ControlFlow;
/// # use filemap::import::{ImportOptions, ImportProgress, adopt, import};
/// # use filemap::{Options, PageStore};
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// let path = dir.path().join("a.warc");
/// let file = b"WARC/1.1\r\nWARC-Type: resource\r\nWARC-Target-URI: http://example.com/a.txt\r\n\
///     WARC-Date: 2023-11-14T22:13:20Z\r\nContent-Length: 5\r\n\r\nhello\r\n\r\n";
/// std::fs::write(&path, file)?;
/// let options = ImportOptions::new().in_place(path.to_string_lossy());
/// let report = import(&store, "a.warc", &file[..], &options, &mut |_| ControlFlow::Continue(()))?;
/// assert_eq!(report.in_place, 1);
/// let adopted = adopt(&store, &mut |_| ControlFlow::Continue(()))?;
/// assert_eq!((adopted.pages, adopted.lost), (1, 0));
/// std::fs::remove_file(&path)?;
/// assert_eq!(store.get("http://example.com/a.txt")?.map(|page| page.body), Some(b"hello".to_vec()));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Those of the store.
pub fn adopt(store: &PageStore, each: &mut dyn FnMut(AdoptStep<'_>) -> ControlFlow<()>) -> Result<Adopted> {
    let (mut adopted, mut known, mut copied) = (Adopted::default(), Known::default(), Copied::default());
    for found in store.heads_in_place() {
        let put = found.and_then(|(key, head)| {
            let version = head.version;
            let (page, body) = store.whole_of_archive(&key, head)?;
            let bytes = body.len();
            // One of no bytes would refer to the version in place, which has none in the store.
            let form = if bytes == 0 { BodyForm::Whole } else { BodyForm::if_changed(&page) };
            put_page(store, &mut known, &mut Capture { page, body, ..Capture::default() }, form)?;
            Ok((key, version, bytes))
        });
        let told = match put {
            Ok((key, version, bytes)) => {
                adopted.pages += 1;
                adopted.body_bytes += bytes;
                let told = each(AdoptStep::Page(key::url(&key)));
                copied.bytes += bytes;
                copied.versions.push((key, version));
                told
            }
            Err(error) if error.is_damage() || error.concerns_one_page() => {
                adopted.lost += 1;
                each(AdoptStep::Lost(&error))
            }
            Err(error) => return Err(error),
        };
        adopted.stopped = told.is_break();
        if adopted.stopped || copied.versions.len() >= BATCH_VERSIONS || copied.bytes >= BATCH_BYTES {
            copied.settle(store)?;
        }
        if adopted.stopped {
            return Ok(adopted);
        }
    }
    copied.settle(store)?;
    Ok(adopted)
}

/// Versions in place of which the store has the bodies.
#[derive(Default)]
struct Copied {
    versions: Vec<(Vec<u8>, Version)>,
    bytes: u64,
}

impl Copied {
    /// Drops them, once the bodies are durable.
    fn settle(&mut self, store: &PageStore) -> Result<()> {
        if self.versions.is_empty() {
            return Ok(());
        }
        store.sync()?;
        store.engine().drop_versions(self.versions.iter().map(|(key, version)| (key.as_slice(), *version)))?;
        *self = Copied::default();
        Ok(())
    }
}
