//! A dump as one WACZ file (Web Archive Collection Zipped 1.1.1): a zip file with WARC files,
//! their index and the list of their pages, and a description with the SHA-256 of each.
//!
//! WARC files are stored uncompressed, so that players can read a record by its offset; the index
//! and the list are deflated. The bytes do not depend on the clock: `created` is the time of the
//! newest version.

use std::cell::RefCell;
use std::io::{self, Seek, Write};
use std::rc::Rc;

use serde::Serialize;
use sha2::{Digest, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::pass::DumpReport;
use super::target::{OutputFile, Target};
use crate::date;
use crate::names;
use crate::page::digest::hex;

/// The version of the format.
const VERSION: &str = "1.1.1";

/// Makes one WACZ file from a dump in the formats [`Format::Warc`](super::Format::Warc),
/// [`Format::Cdxj`](super::Format::Cdxj) and [`Format::Pages`](super::Format::Pages).
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::io::Cursor;
/// # use std::ops::ControlFlow;
/// # use filemap::{Options, PageStore};
/// use filemap::dump::{DumpOptions, Format, Wacz, dump};
///
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// let options = DumpOptions::new("crawl", &[Format::Warc, Format::Cdxj, Format::Pages]);
/// let mut wacz = Wacz::new(Cursor::new(Vec::new()));
/// let report = dump(&store, &options, &mut wacz, &mut |_| ControlFlow::Continue(()))?;
/// let file = wacz.finish(&report)?.into_inner();
/// assert!(filemap::import::is_zip(&file));
/// # Ok(())
/// # }
/// ```
pub struct Wacz<W: Write + Seek>(Rc<RefCell<Inside<W>>>);

struct Inside<W: Write + Seek> {
    zip: ZipWriter<W>,
    entries: Vec<Resource>,
    /// The hash of the last entry, while it is written.
    digest: Option<Sha256>,
}

/// A file in a WACZ, as its description lists it.
#[derive(Serialize)]
struct Resource {
    name: String,
    path: String,
    hash: String,
    bytes: u64,
}

#[derive(Serialize)]
struct Package<'a> {
    profile: &'static str,
    wacz_version: &'static str,
    software: String,
    created: String,
    resources: &'a [Resource],
}

#[derive(Serialize)]
struct PackageDigest<'a> {
    path: &'a str,
    hash: String,
}

impl<W: Write + Seek + 'static> Wacz<W> {
    /// A WACZ file, written to `out`.
    pub fn new(out: W) -> Wacz<W> {
        Wacz(Rc::new(RefCell::new(Inside { zip: ZipWriter::new(out), entries: Vec::new(), digest: None })))
    }

    /// Writes the description and the central directory of the zip file; `report` is that of the
    /// dump. Returns the writer.
    ///
    /// # Errors
    ///
    /// Those of the system; the file is then incomplete.
    pub fn finish(self, report: &DumpReport) -> io::Result<W> {
        let mut inside = match Rc::try_unwrap(self.0) {
            Ok(inside) => inside.into_inner(),
            Err(_) => return Err(io::Error::other("a file of the dump is still open")),
        };
        inside.end();
        let time_ms = date::nearest_with_four_digit_year(report.newest_ms.unwrap_or(0));
        let package = Package {
            profile: "data-package",
            wacz_version: VERSION,
            software: format!("FileMap/{}", env!("CARGO_PKG_VERSION")),
            created: date::format(time_ms - time_ms.rem_euclid(1000)),
            resources: &inside.entries,
        };
        let package = serde_json::to_vec_pretty(&package)?;
        let hash = hash(&Sha256::digest(&package));
        let digest = serde_json::to_vec_pretty(&PackageDigest { path: names::PACKAGE, hash })?;
        for (path, content) in [(names::PACKAGE, package), (names::PACKAGE_DIGEST, digest)] {
            inside.start(path)?;
            inside.zip.write_all(&content)?;
        }
        Ok(inside.zip.finish()?)
    }
}

impl<W: Write + Seek> Inside<W> {
    fn start(&mut self, path: &str) -> io::Result<()> {
        let method = if names::is_in_archive(path) { CompressionMethod::Stored } else { CompressionMethod::Deflated };
        // A file may grow beyond 4 GiB.
        let options = SimpleFileOptions::default().compression_method(method).large_file(true).unix_permissions(0o644);
        Ok(self.zip.start_file(path, options)?)
    }

    fn end(&mut self) {
        if let (Some(digest), Some(entry)) = (self.digest.take(), self.entries.last_mut()) {
            entry.hash = hash(&digest.finalize());
        }
    }
}

fn hash(digest: &[u8]) -> String {
    format!("sha256:{}", hex(digest))
}

impl<W: Write + Seek + 'static> Target for Wacz<W> {
    fn create(&mut self, name: &str) -> io::Result<Box<dyn OutputFile>> {
        let Some(path) = names::in_wacz(name) else {
            return Err(io::Error::other(format!("a WACZ file cannot contain {name}")));
        };
        let mut inside = self.0.borrow_mut();
        inside.end();
        inside.start(&path)?;
        // Names of resources must be lower case; those of a dump stay distinct.
        let name = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
        inside.entries.push(Resource { name, path, hash: String::new(), bytes: 0 });
        inside.digest = Some(Sha256::new());
        let nth = inside.entries.len();
        Ok(Box::new(EntryFile { inside: Rc::clone(&self.0), nth }))
    }

    fn place(&mut self, _path: &str, _content: &[u8]) -> io::Result<bool> {
        Err(io::Error::other("a WACZ file cannot contain a tree of files"))
    }
}

/// A file in a WACZ, until the next one is created.
struct EntryFile<W: Write + Seek> {
    inside: Rc<RefCell<Inside<W>>>,
    /// Number of files up to and including this one.
    nth: usize,
}

impl<W: Write + Seek> Write for EntryFile<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let inside = &mut *self.inside.borrow_mut();
        let count = inside.entries.len();
        let (Some(digest), Some(entry)) = (&mut inside.digest, inside.entries.last_mut().filter(|_| count == self.nth))
        else {
            return Err(io::Error::other("the file in the WACZ has ended"));
        };
        let written = inside.zip.write(bytes)?;
        digest.update(&bytes[..written]);
        entry.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inside.borrow_mut().zip.flush()
    }
}

impl<W: Write + Seek> OutputFile for EntryFile<W> {
    fn close(self: Box<Self>) -> io::Result<()> {
        let mut inside = self.inside.borrow_mut();
        if inside.entries.len() == self.nth {
            inside.end();
        }
        Ok(())
    }
}
