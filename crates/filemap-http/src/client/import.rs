//! Uploads an archive file to a server, which reports on each record.

use std::io::{self, BufRead, BufReader, Read};

use filemap::import::{ImportOptions, ImportReport};
use filemap::page::RecordKind;
use filemap::store::RevisitCount;
use filemap::{Error, Result};

use super::call::{Answered, Connection, Found};
use crate::wire::Problem;
use crate::wire::upload::{self, Sums};

/// The longest line, in bytes: URLs are bounded by the store.
const MAX_LINE: u64 = 16 << 20;

/// Format of an archive file.
///
/// ```
/// use filemap::import::is_zip;
/// use filemap_http::ArchiveForm;
///
/// let form_of = |begin: &[u8]| if is_zip(begin) { ArchiveForm::Wacz } else { ArchiveForm::Warc };
/// assert_eq!(form_of(b"PK\x03\x04"), ArchiveForm::Wacz);
/// assert_eq!(form_of(b"WARC/1.1\r\n"), ArchiveForm::Warc);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArchiveForm {
    /// WARC or ARC; plain, gzip or zstd.
    Warc,
    /// WACZ.
    Wacz,
}

/// Result of uploading an archive file.
///
/// ```
/// use filemap_http::Imported;
///
/// fn is_all_in(sent: &Imported) -> bool {
///     sent.failure.is_none() && sent.report.losses() == 0
/// }
/// let mut sent = Imported::default();
/// assert!(is_all_in(&sent));
/// sent.report.damaged = 1;
/// assert!(!is_all_in(&sent));
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Imported {
    /// The import report. If the response broke off, it counts only the lines received.
    /// `unresolved` is empty: see `revisits`.
    pub report: ImportReport,
    /// Counts of the revisits among its records, after this file; zero if the response broke off.
    pub revisits: RevisitCount,
    /// Reason why the import is incomplete. Everything that the report counts is stored; sending
    /// the same file again adds the rest.
    pub failure: Option<String>,
}

/// Uploads a file: see [`super::Client::import`].
pub(super) fn send(
    connection: &Connection,
    file: &str,
    form: ArchiveForm,
    source: &mut dyn Read,
    options: &ImportOptions,
) -> Result<Imported> {
    let kind = match form {
        ArchiveForm::Warc => "application/warc",
        ArchiveForm::Wacz => "application/wacz",
    };
    let mut source = Watched { source, read: 0, failure: None };
    let sent = connection.post_file(&format!("/v1/pages?{}", query(options)), kind, &mut source);
    if let Some(failure) = source.failure {
        return Err(Error::Read { what: file.to_owned(), offset: source.read, source: failure });
    }
    match sent.map_err(|error| cut(error, source.read))? {
        Answered::Found(found) => read_answer(connection, found, file),
        Answered::Refused(_, detail) => Err(connection.failed(Problem { detail, ..Problem::default() })),
    }
}

/// Appends the number of bytes read from the file to a connection's error.
fn cut(error: Error, sent: u64) -> Error {
    match error {
        Error::Remote { location, detail, is_damage, is_of_one_page } if sent > 0 => {
            let unknown = "how many records are stored is unknown, and sending the file again adds the rest";
            let detail = format!("{detail}; {sent} bytes of the file were read, {unknown}");
            Error::Remote { location, detail, is_damage, is_of_one_page }
        }
        error => error,
    }
}

fn read_answer(connection: &Connection, found: Found, file: &str) -> Result<Imported> {
    let mut answer = BufReader::with_capacity(64 << 10, found.body);
    let (mut imported, mut line) = (Imported::default(), Vec::new());
    loop {
        line.clear();
        if let Err(error) = (&mut answer).take(MAX_LINE).read_until(b'\n', &mut line) {
            return Ok(imported.broken(format!("the answer broke off: {error}")));
        }
        if !line.ends_with(b"\n") {
            return Ok(imported.broken("the answer broke off before its sums".to_owned()));
        }
        match upload::read_line(&line, file, &mut imported.report) {
            Some(upload::Answered::Record) => {}
            Some(upload::Answered::Failed(words)) => imported.failure = Some(words),
            Some(upload::Answered::Sums(sums)) => return Ok(imported.summed(*sums)),
            None => {
                let words = String::from_utf8_lossy(&line);
                return Err(connection.strange(&format!("the line `{}`", words.trim_end())));
            }
        }
    }
}

impl Imported {
    fn broken(self, words: String) -> Imported {
        Imported { failure: self.failure.or(Some(words)), ..self }
    }

    fn summed(self, sums: Sums) -> Imported {
        let Sums { mut report, revisits, is_whole } = sums;
        report.problems = self.report.problems;
        let ended = || (!is_whole).then(|| "the server ended the import before the file's end".to_owned());
        Imported { report, revisits, failure: self.failure.or_else(ended) }
    }
}

/// The import options as a query string.
fn query(options: &ImportOptions) -> String {
    let kinds = [RecordKind::Request, RecordKind::Metadata, RecordKind::Conversion];
    let kept: Vec<&str> = kinds.into_iter().filter(|kind| options.keeps(*kind)).map(RecordKind::name).collect();
    let keep = if kept.is_empty() { String::new() } else { format!("&keep={}", kept.join(",")) };
    format!("as_received={}{keep}", u8::from(options.is_as_received()))
}

/// A reader that keeps its own error, to distinguish it from the connection's.
struct Watched<'a> {
    source: &'a mut dyn Read,
    read: u64,
    failure: Option<io::Error>,
}

impl Read for Watched<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self.source.read(out) {
            Ok(read) => {
                self.read += read as u64;
                Ok(read)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                let told = io::Error::new(error.kind(), error.to_string());
                self.failure = Some(error);
                Err(told)
            }
        }
    }
}
