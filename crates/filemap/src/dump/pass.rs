//! The one pass of a dump: every version that is selected goes to every form that is wanted.
//!
//! Decides what is a revisit: a version whose body is another's refers to it only if that one is
//! in the dump too, and goes out with the body otherwise, so that a part of a store is whole in
//! itself.

use std::io;

use xxhash_rust::xxh3::xxh3_128;

use super::cdxj::CdxjIndex;
use super::files::WarcFiles;
use super::options::{DumpOptions, Format};
use super::pages::PageList;
use super::sequences::Sequences;
use super::target::{OutputFile, Target};
use super::{jsonl, names};
use crate::date;
use crate::error::{Error, Result};
use crate::page::digest::sha1_of;
use crate::page::key;
use crate::page::version::StoredVersion;
use crate::page::{Page, RecordKind};
use crate::store::{PageStore, take_body};
use crate::warc::write::{Form, Reference, draft};

/// What happens while a dump runs.
#[derive(Debug)]
#[non_exhaustive]
pub enum DumpEvent<'a> {
    /// A version was looked at.
    Progress(&'a DumpReport),
    /// A version is damaged, and left out.
    Damage(&'a Error),
    /// A revisit was written without a body, since what it refers to cannot be read.
    NoBody(&'a Error),
}

/// What came of a dump, or has so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DumpReport {
    /// Versions read.
    pub seen: u64,
    /// What these take in the store, in bytes.
    pub seen_bytes: u64,
    /// Versions written.
    pub written: u64,
    /// Versions for which none of the forms has a place: requests, metadata and conversions in a
    /// dump of plain files alone.
    pub without_place: u64,
    /// Versions left out because they are damaged.
    pub damaged: u64,
    /// Versions written without their bodies: revisits of versions that cannot be read. (Of one
    /// that the store never had, nothing is lost.)
    pub bodiless: u64,
    /// Of the versions in WARC files: those whose headers are too large to come back the same from
    /// an import.
    pub inexact: u64,
    /// The files that were made and closed, without those of a tree.
    pub files: Vec<String>,
    /// Bytes of the WARC files.
    pub warc_bytes: u64,
    /// The time of the newest version written, in ms since 1970.
    pub newest_ms: Option<i64>,
    /// Whether it was stopped before its end: see [`DumpOptions::stop`].
    pub stopped: bool,
}

/// Writes what `options` select of `store` to `target`; `watch` gets progress and damage.
///
/// # Errors
///
/// [`Error::Write`] if `target` fails, and those of the store but for damage.
pub fn dump(
    store: &PageStore,
    options: &DumpOptions,
    target: &mut dyn Target,
    watch: &mut dyn FnMut(&DumpEvent<'_>),
) -> Result<DumpReport> {
    let mut pass = Pass::new(store, options, target)?;
    let versions = if options.newest_only { store.stored_newest() } else { store.stored_versions() };
    for version in versions {
        pass.report.stopped = options.is_stopped();
        if pass.report.stopped || options.limit.is_some_and(|limit| pass.report.written >= limit) {
            break;
        }
        match version.and_then(|version| pass.take(version)) {
            Ok(()) => {
                if let Some(error) = pass.lost.take() {
                    pass.report.bodiless += 1;
                    watch(&DumpEvent::NoBody(&error));
                }
                watch(&DumpEvent::Progress(&pass.report));
            }
            Err(error) if error.is_damage() => {
                pass.report.damaged += 1;
                watch(&DumpEvent::Damage(&error));
            }
            Err(error) => return Err(error),
        }
    }
    pass.finish()
}

/// A request or an answer that was written.
struct Last {
    /// Of the answer.
    key: Vec<u8>,
    time_ms: i64,
    is_request: bool,
    id: String,
}

impl Last {
    fn of(version: &StoredVersion, id: &str) -> Option<Last> {
        let page = &version.page;
        let is_request = page.kind == RecordKind::Request;
        let is_part = is_request || matches!(page.kind, RecordKind::Response | RecordKind::Revisit);
        let key = || key::key(version.canonical_url(), RecordKind::Response, page.variant.as_ref());
        is_part.then(|| Last { key: key(), time_ms: page.fetched_at_ms, is_request, id: id.to_owned() })
    }

    /// Whether it is the request of this answer, or the answer to this request: they came in
    /// together.
    fn belongs_to(&self, version: &StoredVersion) -> bool {
        let other = Last::of(version, "");
        other.is_some_and(|other| {
            other.key == self.key && other.time_ms == self.time_ms && other.is_request != self.is_request
        })
    }
}

struct Pass<'a> {
    store: &'a PageStore,
    options: &'a DumpOptions,
    target: &'a mut dyn Target,
    warc: Option<WarcFiles>,
    written: Sequences,
    /// The last record, where it is a request or an answer.
    last: Option<Last>,
    /// Why the version at hand has no body, if that is lost.
    lost: Option<Error>,
    lines: Option<(String, Box<dyn OutputFile>)>,
    list: Option<(String, Box<dyn OutputFile>)>,
    pages: Option<PageList>,
    report: DumpReport,
}

impl<'a> Pass<'a> {
    fn new(store: &'a PageStore, options: &'a DumpOptions, target: &'a mut dyn Target) -> Result<Pass<'a>> {
        let stem = &options.stem;
        let index = || CdxjIndex::new(format!("{stem}.cdxj"), options.spool.clone());
        let index = options.has(Format::Cdxj).then(index);
        let warc = || WarcFiles::new(stem, options.compression, options.roll_bytes, index);
        let warc = options.has(Format::Warc).then(warc);
        let mut file = |format: Format, name: String| -> Result<_> {
            let made = options.has(format).then(|| target.create(&name)).transpose();
            Ok(made.map_err(Error::Write)?.map(|file| (name, file)))
        };
        let lines = file(Format::Jsonl, format!("{stem}.jsonl"))?;
        let list = file(Format::Files, format!("{stem}.files.jsonl"))?;
        let pages = || PageList::new(format!("{stem}.pages.jsonl"), &options.spool);
        let pages = options.has(Format::Pages).then(pages);
        let (written, report) = (Sequences::default(), DumpReport::default());
        Ok(Pass { store, options, target, warc, written, last: None, lost: None, lines, list, pages, report })
    }

    fn take(&mut self, mut version: StoredVersion) -> Result<()> {
        self.lost = None;
        self.report.seen += 1;
        self.report.seen_bytes += version.stored_bytes;
        if !self.options.selection.takes(version.canonical_url(), &version.page) {
            return Ok(());
        }
        let is_part = self.options.is_part();
        let needs_original = self.warc.is_some() || self.list.is_some() || self.lines.is_some() && is_part;
        let (original, steps) = if needs_original { self.original(&version)? } else { None }.unzip();
        // What leads to it may be left out of a part.
        let is_led_to = !is_part || steps == Some(1);
        let is_in = is_led_to && original.as_ref().is_some_and(|original| self.will_hold(original));
        let form = self.form(&version, original.as_ref(), is_in)?;
        // What it refers to is not in the dump, or comes with another time: it goes out as an
        // answer of its own.
        let is_whole_record = original.is_some() && matches!(form, Form::Full);
        let is_whole_line = original.is_some() && is_part && (self.options.newest_only || !is_in);
        if !is_whole_record {
            self.put_record(&version, &form)?;
        }
        if !is_whole_line {
            self.put_line(&version)?;
        }
        if matches!(form, Form::Full) {
            self.written.insert(version.version.sequence);
        }
        let kind = original.as_ref().map_or(version.page.kind, |original| original.page.kind);
        if let Some(original) = original {
            take_body(&mut version.page, original);
        }
        self.put_file(&version)?;
        version.page.kind = kind;
        if is_whole_line {
            self.put_line(&version)?;
        }
        if is_whole_record {
            version.page.kind = RecordKind::Response;
            self.put_record(&version, &form)?;
        }
        if let Some(pages) = &mut self.pages {
            pages.add(&version.page, version.canonical_url())?;
        }
        let has_place = self.warc.is_some() || self.lines.is_some() || version.page.kind.is_page();
        *if has_place { &mut self.report.written } else { &mut self.report.without_place } += 1;
        self.report.newest_ms = self.report.newest_ms.max(Some(version.page.fetched_at_ms));
        Ok(())
    }

    /// The original of a revisit, and how many versions lead to it. If it cannot be read, the
    /// revisit goes out alone, and `lost` says why.
    fn original(&mut self, version: &StoredVersion) -> Result<Option<(StoredVersion, usize)>> {
        match self.store.original_and_steps(&version.key, &version.page) {
            Err(error) if error.is_damage() => {
                self.lost = Some(error).filter(|_| version.page.lacks_body());
                Ok(None)
            }
            original => original,
        }
    }

    /// How a version goes out in a WARC file; `is_in`: its original is in the dump.
    fn form(&self, version: &StoredVersion, original: Option<&StoredVersion>, is_in: bool) -> Result<Form> {
        if self.warc.is_none() {
            return Ok(Form::Full);
        }
        let page = &version.page;
        if page.kind == RecordKind::Revisit {
            let Some(original) = original else { return Ok(Form::Revisit(None)) };
            if !is_in {
                return Ok(Form::Full);
            }
            let payload = sha1_of(&[&original.page.body]);
            let sequence = original.version.sequence;
            return Ok(Form::Revisit(Some(Reference::to(&original.key, sequence, &original.page, payload))));
        }
        let is_answer = page.kind == RecordKind::Response && page.status.is_some() && !page.body.is_empty();
        let before = version.unchanged_since.filter(|&sequence| is_answer && self.written.contains(sequence));
        let Some(sequence) = before else { return Ok(Form::Full) };
        let found = match self.store.version_of_sequence(&version.key, sequence) {
            Err(error) if error.is_damage() => None,
            found => found?,
        };
        // A reference names the time of its original, which a date must be able to say.
        let found = found.filter(|original| date::has_four_digit_year(original.fetched_at_ms));
        let refer = |original: Page| {
            let payload = sha1_of(&[&page.body]);
            Form::Unchanged(Reference::to(&version.key, sequence, &original, payload))
        };
        Ok(found.map_or(Form::Full, refer))
    }

    /// Whether this version is in the dump: behind, or ahead.
    fn will_hold(&self, original: &StoredVersion) -> bool {
        let options = self.options;
        let is_ahead = || options.selection.takes(original.canonical_url(), &original.page) && options.limit.is_none();
        self.written.contains(original.version.sequence) || !options.newest_only && is_ahead()
    }

    fn put_record(&mut self, version: &StoredVersion, form: &Form) -> Result<()> {
        let Some(warc) = &mut self.warc else { return Ok(()) };
        let page = &version.page;
        let before = self.last.take();
        let concurrent = before.as_ref().filter(|last| last.belongs_to(version)).map(|last| last.id.as_str());
        let draft = draft(version, form, concurrent);
        // A pair is two records, not three.
        self.last = if concurrent.is_some() { None } else { Last::of(version, &draft.id) };
        self.report.inexact += u64::from(!draft.is_exact);
        warc.put(self.target, draft, &page.body, page.fetched_at_ms).map_err(Error::Write)
    }

    fn put_line(&mut self, version: &StoredVersion) -> Result<()> {
        let Some((_, lines)) = &mut self.lines else { return Ok(()) };
        if self.options.newest_only {
            return jsonl::write(&version.page, lines);
        }
        jsonl::write_stored(&version.page, version.unchanged_since.is_some(), lines)
    }

    /// Writes the body as a file, and a line that says whose it is. A page without a body is in
    /// the list only.
    fn put_file(&mut self, version: &StoredVersion) -> Result<()> {
        let Some((_, list)) = &mut self.list else { return Ok(()) };
        let page = &version.page;
        if !page.kind.is_page() {
            return Ok(());
        }
        if page.body.is_empty() {
            return jsonl::write_listed(page, None, list);
        }
        let identity =
            [&version.key[..], &version.version.time_ms.to_le_bytes(), &version.version.sequence.to_le_bytes()];
        let with_time = !self.options.newest_only;
        let names = names::names(version.canonical_url(), page, xxh3_128(&identity.concat()), with_time);
        // The places like URLs are those of pages.
        let usual = Some(names.usual).filter(|_| page.variant.is_none());
        for name in usual.into_iter().chain([names.apart]) {
            let path = format!("{}.files/{name}", self.options.stem);
            if self.target.place(&path, &page.body).map_err(Error::Write)? {
                return jsonl::write_listed(page, Some(&path), list);
            }
        }
        let what = format!("the places for {:?} are taken", String::from_utf8_lossy(&page.url));
        Err(Error::Write(io::Error::new(io::ErrorKind::AlreadyExists, what)))
    }

    fn finish(mut self) -> Result<DumpReport> {
        let whole = !self.report.stopped;
        if let Some(warc) = self.warc.take() {
            let (files, bytes) = warc.finish(self.target, whole).map_err(Error::Write)?;
            self.report.files.extend(files);
            self.report.warc_bytes = bytes;
        }
        let pages = self.pages.filter(|_| whole).map(|pages| pages.write(self.target)).transpose()?;
        for (name, mut file) in [self.lines, self.list, pages].into_iter().flatten() {
            if whole {
                file.close().map_err(Error::Write)?;
                self.report.files.push(name);
            } else {
                file.flush().map_err(Error::Write)?;
            }
        }
        Ok(self.report)
    }
}
