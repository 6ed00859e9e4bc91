//! Reads the record of a page in place, and reports a record that does not fit its description.

use std::io::{self, Read};
use std::sync::{Arc, PoisonError};

use xxhash_rust::xxh3::Xxh3;

use super::super::read::unreadable;
use super::{Archive, Error, InPlace, Page, PageHead, PageStore, Result, key, unknown};
use crate::date;
use crate::http::body::BodyRules;
use crate::page::digest::Digest;
use crate::page::{RecordKind, meta};
use crate::spool::{Payload, Spool};
use crate::warc::capture::{Captured, capture};
use crate::warc::{Begins, Item, Reader, Record, dictionary_frame, zstd_begins};

impl PageStore {
    /// The page of a description in place, with its body.
    pub(crate) fn of_archive(&self, key: &[u8], described: Page, place: InPlace) -> Result<Page> {
        let (page, body) = self.of_archive_in_parts(key, described, place)?;
        Ok(Page { body: body.into_bytes()?, ..page })
    }

    /// As [`PageStore::of_archive`], but a large body stays on disk.
    pub(crate) fn of_archive_in_parts(&self, key: &[u8], described: Page, place: InPlace) -> Result<(Page, Payload)> {
        let archive = self.archive(place.archive)?.ok_or_else(|| unknown(Some(place)))?;
        let failed = |what: String| Error::InPlace { archive: archive.location.clone(), offset: place.offset, what };
        let mut found = self.record(&archive, place, &failed)?;
        if let Some(what) = self.mismatch(key, &described, &found) {
            return Err(failed(what));
        }
        self.admits_body(
            &Page { fetched_at_ms: described.fetched_at_ms, ..found.page.description() },
            &mut found.body,
        )?;
        // The digest by which a revisit and its original were described alike. Some indexes hold
        // the digest of an empty body for records that they could not read.
        let told =
            described.digest.filter(|digest| !Digest::parse(digest).is_some_and(|digest| digest.is_of_nothing()));
        let digest = told.or(found.page.digest);
        let kind =
            if described.kind.is_page() && !found.page.kind.is_page() { RecordKind::Resource } else { found.page.kind };
        let Page { url, variant, fetched_at_ms, .. } = described;
        Ok((Page { url, variant, fetched_at_ms, kind, digest, in_place: None, ..found.page }, found.body))
    }

    /// Implements [`super::super::PageChanges::measured`].
    pub(in crate::store) fn measured(&self, key: &[u8], head: &PageHead) -> Result<(Page, u64, [u8; 16])> {
        let (page, mut body) = self.whole_of_archive(key, head.clone())?;
        let digest = kept_digest(&page, key, &mut body)?;
        Ok((page, body.len(), digest))
    }

    /// Checks that no erase rule covers this body.
    ///
    /// # Errors
    ///
    /// [`filemap_core::Error::Refused`]; [`Error::Rule`] if a rule is unknown.
    pub(crate) fn admits_body(&self, page: &Page, body: &mut Payload) -> Result<()> {
        let rules = Arc::clone(&self.rule_set.read().unwrap_or_else(PoisonError::into_inner));
        rules.check()?;
        let mut hashers = rules.hashers();
        if hashers.is_empty() {
            return Ok(());
        }
        body.chunks(|bytes| {
            hashers.iter_mut().for_each(|(_, hasher)| hasher.update(bytes));
            Ok(())
        })?;
        match rules.judge(hashers, page.digest.as_deref(), page.fetched_at_ms) {
            Some(rule) => Err(filemap_core::Error::Refused { rule }.into()),
            None => Ok(()),
        }
    }

    /// The page and body of a version in place; errors name the version.
    pub(crate) fn whole_of_archive(&self, key: &[u8], head: PageHead) -> Result<(Page, Payload)> {
        let Some(place) = head.page.in_place else { return Err(unknown(None)) };
        let whole = self.of_archive_in_parts(key, head.page, place);
        whole.map_err(|error| unreadable(key, Some(head.version), error))
    }

    /// Reads the record at a place.
    fn record(&self, archive: &Archive, place: InPlace, failed: &dyn Fn(String) -> Error) -> Result<Found> {
        let unread = |source: io::Error| match is_passing(&source) {
            true => Error::Read { what: archive.location.clone(), offset: place.offset, source },
            false => failed(why(&source)),
        };
        let source = self.source(archive, place).map_err(unread)?;
        let mut reader = Reader::new(source, archive.location.clone(), Spool::default())?;
        let read = |error| match error {
            Error::Read { source, .. } => unread(source),
            error => error,
        };
        let record = match reader.next_item().map_err(read)? {
            Some(Item::Record(Record { problem: Some(problem), .. }) | Item::Problem(problem)) => {
                return Err(failed(problem.what));
            }
            Some(Item::Record(record)) => record,
            None => return Err(failed("no record begins there".to_owned())),
        };
        let Some(kind) = record.header.kind() else {
            return Err(failed(format!("a record of type {:?} is there", record.header.record_type())));
        };
        let digest = record.header.text("WARC-Payload-Digest").and_then(Digest::parse);
        let captured = match capture(record, kind, &BodyRules::decoded())? {
            Captured::Page(captured) => captured.for_any_reader(),
            Captured::Unusable(what) => return Err(failed(what.to_owned())),
        };
        if captured.digests.wrong > 0 {
            let what = "the body does not match its record's digest; an import of the file would take it";
            return Err(failed(what.to_owned()));
        }
        Ok(Found { page: captured.page, body: captured.body, digest })
    }

    /// The bytes of a record; a zstd frame is preceded by the dictionary of the file.
    fn source(&self, archive: &Archive, place: InPlace) -> io::Result<Box<dyn Read + Send>> {
        let length = Some(place.length).filter(|&length| length > 0);
        let mut record = self.archives.open(&archive.location, place.offset, length)?;
        let mut magic = Vec::new();
        if record.by_ref().take(4).read_to_end(&mut magic)? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends before it"));
        }
        let dictionary = match zstd_begins(&magic) == Begins::Frame && place.offset > 0 {
            true => dictionary_frame(&mut *self.archives.open(&archive.location, 0, None)?)?,
            false => Vec::new(),
        };
        Ok(Box::new(io::Cursor::new(dictionary).chain(io::Cursor::new(magic)).chain(record)))
    }

    /// Describes how the record differs from its description: another URL, another digest or, if
    /// digests cannot be compared, another second. An index may describe any record but a request
    /// as a response.
    fn mismatch(&self, key: &[u8], described: &Page, found: &Found) -> Option<String> {
        let Found { page, .. } = found;
        let (was, is) = (described.kind, page.kind);
        let is_revisit = |kind: RecordKind| kind == RecordKind::Revisit;
        let fits = was == is || was.is_page() && is != RecordKind::Request && is_revisit(was) == is_revisit(is);
        if !fits {
            return Some(format!("a {} is there, not a {}", is.name(), was.name()));
        }
        if self.key(&page.url).ok().as_deref() != Some(key::url(key)) {
            let url = String::from_utf8_lossy(&page.url).into_owned();
            return Some(format!("the record of another page is there: {url}"));
        }
        let second = |page: &Page| page.fetched_at_ms.div_euclid(1000);
        let of_page = |page: &Page| page.digest.as_deref().and_then(Digest::parse);
        let wanted = of_page(described).filter(|wanted| !wanted.is_of_nothing());
        let own = [of_page(page), found.digest.clone()].into_iter().flatten();
        let mut own = own.filter(|own| wanted.as_ref().is_some_and(|wanted| own.is_comparable(wanted))).peekable();
        let is_it = match own.peek() {
            Some(_) => own.any(|own| Some(own) == wanted),
            None => second(described) == second(page),
        };
        (!is_it).then(|| format!("another visit is there: of {}", date::format(page.fetched_at_ms)))
    }
}

/// Digest of a page's body as a store keeps it: preceded by a part of the description, if that is
/// large.
pub(crate) fn kept_digest(page: &Page, key: &[u8], body: &mut Payload) -> Result<[u8; 16]> {
    let mut hasher = Xxh3::new();
    hasher.update(&meta::encode(page, key::url(key))?.spill);
    body.chunks(|bytes| {
        hasher.update(bytes);
        Ok(())
    })?;
    Ok(hasher.digest128().to_be_bytes())
}

/// A record of an archive.
struct Found {
    page: Page,
    body: Payload,
    /// The payload digest in its header.
    digest: Option<Digest>,
}

/// Returns whether an error comes from the way to another machine and may not recur: it does not
/// show that the record is missing.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionAborted
            | Kind::ConnectionRefused
            | Kind::ConnectionReset
            | Kind::HostUnreachable
            | Kind::Interrupted
            | Kind::NetworkDown
            | Kind::NetworkUnreachable
            | Kind::ResourceBusy
            | Kind::StaleNetworkFileHandle
            | Kind::TimedOut
    )
}

fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "the file is missing".to_owned(),
        _ => error.to_string(),
    }
}
