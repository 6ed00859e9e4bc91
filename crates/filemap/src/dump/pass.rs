//! The pass of a dump: every selected version goes to every format. It scans the value log, or
//! looks up the versions of few pages; of several stores that are one, one after the other.
//!
//! Decides which versions become revisits: a version refers to the body of another only if that is
//! in the dump too; otherwise it is written with the body, so that a partial dump is
//! self-contained.

use std::io;
use std::ops::ControlFlow;

use filemap_core::list::Sequences;
use xxhash_rust::xxh3::xxh3_128;

use super::cdxj::CdxjIndex;
use super::files::WarcFiles;
use super::newest::Newest;
use super::options::{DumpOptions, Format};
use super::pages::PageList;
use super::target::{OutputFile, Target};
use super::{form, jsonl, tree};
use crate::error::{Error, Result};
use crate::names;
use crate::page::version::StoredVersion;
use crate::page::{RecordKind, key};
use crate::store::{Origin, PageStore, joined, original_among, take_body};
use crate::warc::write::{Form, draft};

/// An event of a dump.
///
/// ```
/// use std::ops::ControlFlow;
///
/// use filemap::dump::DumpEvent;
///
/// // Stops at the first damaged version.
/// fn watch(event: DumpEvent<'_>) -> ControlFlow<()> {
///     match event {
///         DumpEvent::Progress(report) => println!("{} versions written", report.written),
///         DumpEvent::Damage(error) => {
///             eprintln!("{error}");
///             return ControlFlow::Break(());
///         }
///         _ => {}
///     }
///     ControlFlow::Continue(())
/// }
/// assert!(watch(DumpEvent::Progress(&Default::default())).is_continue());
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum DumpEvent<'a> {
    /// A version was read.
    Progress(&'a DumpReport),
    /// A version is damaged, and left out.
    Damage(&'a Error),
    /// A revisit was written without a body, because its original cannot be read.
    NoBody(&'a Error),
}

/// Result of a dump, or its state so far.
///
/// ```
/// let report = filemap::dump::DumpReport::default();
/// assert!(!report.is_cancelled && report.damaged == 0 && report.files.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DumpReport {
    /// Number of versions read.
    pub seen: u64,
    /// Their bytes in the value log.
    pub seen_bytes: u64,
    /// Number of versions written.
    pub written: u64,
    /// Number of versions that no format can hold: requests, metadata and conversions in a dump of
    /// plain files only.
    pub without_place: u64,
    /// Number of damaged versions, which were left out.
    pub damaged: u64,
    /// Number of revisits written without a body, because their original cannot be read. Revisits
    /// whose original the store never had are not counted.
    pub bodiless: u64,
    /// Number of versions in WARC files whose headers are too large for an import to restore them
    /// exactly.
    pub inexact: u64,
    /// The files that were created and closed, without those of a tree.
    pub files: Vec<String>,
    /// Bytes of the WARC files.
    pub warc_bytes: u64,
    /// The time of the newest version written.
    pub newest_ms: Option<i64>,
    /// The progress callback cancelled the dump: full files are whole, the last ones are not
    /// closed, and there is no index.
    pub is_cancelled: bool,
}

/// Writes the versions of `store` that `options` select to `target`. `progress` gets an event for
/// every version; `Break` cancels the dump before the next one.
///
/// # Errors
///
/// [`Error::Write`] if `target` fails, and those of the store except damage.
pub fn dump(
    store: &PageStore,
    options: &DumpOptions,
    target: &mut dyn Target,
    progress: &mut dyn FnMut(DumpEvent<'_>) -> ControlFlow<()>,
) -> Result<DumpReport> {
    dump_members(std::slice::from_ref(store), options, target, progress)
}

/// As [`dump()`], of a store over several folders, given its members in their order: each in turn,
/// into the same files. A limit is one for all. A revisit refers to its original, or has its body,
/// also if that is in another member. Errors name the folder.
///
/// # Errors
///
/// As [`dump()`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::ops::ControlFlow;
/// use std::sync::Arc;
///
/// use filemap::canonical::Whatwg;
/// use filemap::dump::{DumpOptions, Format, Wacz, dump_members};
/// use filemap::{Options, Page, sharded::ShardedStore};
///
/// # let dir = tempfile::tempdir()?;
/// # let disks = [dir.path().join("a.fm"), dir.path().join("b.fm")];
/// let store = ShardedStore::open_or_create(&disks, Arc::new(Whatwg), Options::new())?;
/// for url in ["http://example.com/", "http://example.org/"] {
///     store.put_page(&Page::new(url, 1_700_000_000_000, 200, "hello"))?;
/// }
/// let options = DumpOptions::new("pages", &[Format::Warc, Format::Cdxj, Format::Pages]);
/// let mut wacz = Wacz::new(std::io::Cursor::new(Vec::new()));
/// let report = dump_members(store.members(), &options, &mut wacz, &mut |_| ControlFlow::Continue(()))?;
/// assert_eq!(report.written, 2);
/// # Ok(())
/// # }
/// ```
pub fn dump_members(
    stores: &[PageStore],
    options: &DumpOptions,
    target: &mut dyn Target,
    progress: &mut dyn FnMut(DumpEvent<'_>) -> ControlFlow<()>,
) -> Result<DumpReport> {
    let stores = &joined(stores)[..];
    let pass = Pass::new(stores, options, target)?;
    let mut versions = stores.iter().enumerate().flat_map(|(number, store)| {
        let versions = chosen(store, options).unwrap_or_else(|error| Box::new(std::iter::once(Err(error))) as Versions);
        versions.map(move |version| (number, version))
    });
    let named = |number: usize, error: Error| match stores.len() {
        1 => error,
        _ => error.of_member(stores[number].engine().path()),
    };
    pass.all(&mut versions, &named, progress)
}

/// As [`dump()`], of versions that come key by key, those of one key in the order of their puts,
/// as a store on another machine gives them. A revisit of another URL has no original among them:
/// it is written without its body. With [`DumpOptions::newest_only`], if the newest version of a
/// key cannot be read, the damage is reported, and the one before it is written.
///
/// # Errors
///
/// As [`dump()`]; an error of `versions` that does not concern one of them alone.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::ops::ControlFlow;
///
/// use filemap::dump::{DumpOptions, Format, Wacz, dump_versions};
/// use filemap::{Options, Page, PageStore};
///
/// # let dir = tempfile::tempdir()?;
/// let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
/// let options = DumpOptions::new("pages", &[Format::Warc, Format::Cdxj, Format::Pages]);
/// let mut wacz = Wacz::new(std::io::Cursor::new(Vec::new()));
/// let mut versions = store.stored_by_key();
/// let report = dump_versions(&mut versions, &options, &mut wacz, &mut |_| ControlFlow::Continue(()))?;
/// assert_eq!(report.written, 1);
/// # Ok(())
/// # }
/// ```
pub fn dump_versions(
    versions: &mut dyn Iterator<Item = Result<StoredVersion>>,
    options: &DumpOptions,
    target: &mut dyn Target,
    progress: &mut dyn FnMut(DumpEvent<'_>) -> ControlFlow<()>,
) -> Result<DumpReport> {
    let pass = Pass::new(&[], options, target)?;
    let named = |_: usize, error: Error| error;
    if options.newest_only {
        let mut newest = Newest::of(versions);
        return pass.all(&mut newest.by_ref().map(|version| (0, version)), &named, progress);
    }
    pass.all(&mut versions.map(|version| (0, version)), &named, progress)
}

/// Returns whether an error is about one version, and the rest follows. On another machine the
/// damage may be in an index that leads to the rest: such an error says so.
fn is_of_one(error: &Error) -> bool {
    match error {
        Error::Remote { is_of_one_page, .. } => *is_of_one_page,
        error => error.is_damage(),
    }
}

type Versions = Box<dyn Iterator<Item = Result<StoredVersion>>>;

/// The versions to select from.
fn chosen(store: &PageStore, options: &DumpOptions) -> Result<Versions> {
    match store.looked_up(&options.selection.scope(), options.newest_only) {
        Ok(Some(versions)) => return Ok(versions),
        // The order of keys is damaged: the log has everything that it leads to.
        Err(error) if !error.is_damage() => return Err(error),
        _ => {}
    }
    Ok(if options.newest_only { Box::new(store.stored_newest()) } else { Box::new(store.stored_versions()) })
}

/// The request or answer that was written last.
struct Last {
    /// The key of the answer.
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

    /// Returns whether it and this version are a request and its answer.
    fn belongs_to(&self, version: &StoredVersion) -> bool {
        let other = Last::of(version, "");
        other.is_some_and(|other| {
            other.key == self.key && other.time_ms == self.time_ms && other.is_request != self.is_request
        })
    }
}

struct Pass<'a> {
    /// None, if the versions come key by key from elsewhere.
    stores: &'a [PageStore],
    of_key: form::OfKey,
    options: &'a DumpOptions,
    target: &'a mut dyn Target,
    warc: Option<WarcFiles>,
    /// Of each store.
    written: Vec<Sequences>,
    /// The last record, if it is a request or an answer.
    last: Option<Last>,
    /// Reason why the current version has no body, if that is lost.
    lost: Option<Error>,
    lines: Option<(String, Box<dyn OutputFile>)>,
    list: Option<(String, Box<dyn OutputFile>)>,
    pages: Option<PageList>,
    report: DumpReport,
}

impl<'a> Pass<'a> {
    fn new(stores: &'a [PageStore], options: &'a DumpOptions, target: &'a mut dyn Target) -> Result<Pass<'a>> {
        let stem = &options.stem;
        let index = || CdxjIndex::new(names::index(stem), options.spool.clone());
        let index = options.has(Format::Cdxj).then(index);
        let warc = || WarcFiles::new(stem, options.compression, options.roll_bytes, index);
        let warc = options.has(Format::Warc).then(warc);
        let mut file = |format: Format, name: String| -> Result<_> {
            let made = options.has(format).then(|| target.create(&name)).transpose();
            Ok(made.map_err(Error::Write)?.map(|file| (name, file)))
        };
        let lines = file(Format::Jsonl, names::lines(stem))?;
        let list = file(Format::Files, names::file_list(stem))?;
        let pages = || PageList::new(names::page_list(stem), &options.spool);
        let pages = options.has(Format::Pages).then(pages);
        let written = stores.iter().map(|_| Sequences::default()).collect();
        let (of_key, report) = (form::OfKey::default(), DumpReport::default());
        Ok(Pass { stores, of_key, options, target, warc, written, last: None, lost: None, lines, list, pages, report })
    }

    /// Takes versions, each of the store of this number, until all are written.
    fn all(
        mut self,
        versions: &mut dyn Iterator<Item = (usize, Result<StoredVersion>)>,
        named: &dyn Fn(usize, Error) -> Error,
        progress: &mut dyn FnMut(DumpEvent<'_>) -> ControlFlow<()>,
    ) -> Result<DumpReport> {
        let mut flow = ControlFlow::Continue(());
        for (number, version) in versions {
            self.report.is_cancelled = flow.is_break();
            if self.report.is_cancelled || self.options.limit.is_some_and(|limit| self.report.written >= limit) {
                break;
            }
            let taken = version.and_then(|version| self.take(number, version));
            flow = match taken.map_err(|error| named(number, error)) {
                Ok(()) => {
                    let lost = self.lost.take().map(|error| named(number, error));
                    self.report.bodiless += u64::from(lost.is_some());
                    let flow = lost.map_or(flow, |error| progress(DumpEvent::NoBody(&error)));
                    if flow.is_break() { flow } else { progress(DumpEvent::Progress(&self.report)) }
                }
                Err(error) if is_of_one(&error) => {
                    self.report.damaged += 1;
                    progress(DumpEvent::Damage(&error))
                }
                Err(error) => return Err(error),
            };
        }
        self.finish()
    }

    /// Takes a version of the store of this number.
    fn take(&mut self, number: usize, mut version: StoredVersion) -> Result<()> {
        self.lost = None;
        self.report.seen += 1;
        self.report.seen_bytes += version.stored_bytes;
        if !self.options.selection.takes(version.canonical_url(), &version.page) {
            return Ok(());
        }
        let is_part = self.options.is_part();
        let is_asked = self.warc.is_some() || self.list.is_some() || self.lines.is_some() && is_part;
        let needs_original = is_asked && !self.stores.is_empty();
        let origin = if needs_original { self.original(number, &version)? } else { None };
        // A partial dump may lack the revisits between this one and its original.
        let is_held = |origin: &Origin| (!is_part || origin.steps == 1) && self.will_hold(origin);
        let is_in = origin.as_ref().is_some_and(is_held);
        let original = origin.map(|origin| origin.version);
        let form = match (&self.warc, self.stores.get(number)) {
            (Some(_), Some(store)) => {
                let known = original.as_ref().map(|original| (original, is_in));
                form::of(store, &version, known, |sequence| self.written[number].contains(sequence))?
            }
            (Some(_), None) => self.of_key.form(&version),
            (None, _) => Form::Full,
        };
        // A revisit whose original is not in the dump is written as an answer.
        let is_whole_record = original.is_some() && matches!(form, Form::Full);
        let is_whole_line = original.is_some() && is_part && (self.options.newest_only || !is_in);
        if !is_whole_record {
            self.put_record(&version, &form)?;
        }
        if !is_whole_line {
            self.put_line(&version)?;
        }
        if matches!(form, Form::Full) {
            match self.written.get_mut(number) {
                Some(written) => written.insert(version.version.sequence),
                None => self.of_key.note(&version),
            }
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

    /// The original of a revisit in the store of this number. If it cannot be read, the revisit is
    /// written alone, and `lost` holds the reason.
    fn original(&mut self, number: usize, version: &StoredVersion) -> Result<Option<Origin>> {
        match original_among(self.stores, number, &version.key, &version.page) {
            Err(error) if error.is_damage() => {
                self.lost = Some(error).filter(|_| version.page.lacks_body());
                Ok(None)
            }
            original => original,
        }
    }

    /// Returns whether this version has been written, or will be.
    fn will_hold(&self, origin: &Origin) -> bool {
        let (options, original) = (self.options, &origin.version);
        let is_ahead = || options.selection.takes(original.canonical_url(), &original.page) && options.limit.is_none();
        self.written[origin.store].contains(original.version.sequence) || !options.newest_only && is_ahead()
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
        jsonl::write_stored(&version.page, version.body_form(), lines)
    }

    /// Writes the body as a file, and its line in the list. A page without a body has only the
    /// line.
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
        let found = tree::names(version.canonical_url(), page, xxh3_128(&identity.concat()), with_time);
        // Only pages get names like their URLs.
        let usual = Some(found.usual).filter(|_| page.variant.is_none());
        for name in usual.into_iter().chain([found.apart]) {
            let path = names::plain_file(&self.options.stem, &name);
            if self.target.place(&path, &page.body).map_err(Error::Write)? {
                return jsonl::write_listed(page, Some(&path), list);
            }
        }
        let what = format!("both file names for {:?} are taken", String::from_utf8_lossy(&page.url));
        Err(Error::Write(io::Error::new(io::ErrorKind::AlreadyExists, what)))
    }

    fn finish(mut self) -> Result<DumpReport> {
        let whole = !self.report.is_cancelled;
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
