//! The reader of a table: versions in the order of the log, as record batches.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use filemap_core::list::{Heads, Pages};
use filemap_core::{Head, Value};

use super::column::{Column, schema};
use super::going::Going;
use super::options::{OnDamage, Records, TableOptions};
use super::report::{TableReport, TableWatch};
use super::rows::{Columns, Row, received};
use crate::error::{Error, Result};
use crate::page::{Page, key};
use crate::store::{Found, PageStore, original_among};

/// The rows of a store as record batches: see [`PageStore::table`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use filemap::table::{Column, TableOptions};
/// use filemap::{Options, Page, PageStore};
///
/// let dir = tempfile::tempdir()?;
/// let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
/// for batch in store.table(&TableOptions::new().columns(&[Column::Url, Column::Body]))? {
///     assert_eq!(batch?.num_rows(), 1);
/// }
/// # Ok(())
/// # }
/// ```
pub struct PageTable {
    store: PageStore,
    /// The stores that are one with it, in their order, and its number among them.
    members: Vec<PageStore>,
    number: usize,
    options: TableOptions,
    schema: SchemaRef,
    columns: Columns,
    source: Source,
    /// True if every row needs the body.
    needs_body: bool,
    /// True if some rows need the body for the digest.
    needs_digest: bool,
    report: TableReport,
    watch: TableWatch,
    going: Option<Going>,
    /// Damage found since the last `take_errors`; `None` if it is not kept.
    errors: Option<Vec<Error>>,
    is_over: bool,
}

/// The source of the versions.
enum Source {
    Heads(Heads),
    Pages(Pages),
    /// Looked up by URL; the body is read if a column needs it.
    Urls(Found),
}

filemap_io::debug_fields!(PageTable: options);

impl Source {
    /// Adds the cancellation check; for versions looked up by URL the table itself checks.
    fn while_going(self, going: &Going) -> Source {
        let going = going.clone();
        match self {
            Source::Heads(heads) => Source::Heads(heads.while_going(move || going.next())),
            Source::Pages(pages) => Source::Pages(pages.while_going(move || going.next())),
            Source::Urls(found) => Source::Urls(found),
        }
    }
}

impl PageTable {
    pub(super) fn new(store: &PageStore, options: &TableOptions) -> Result<PageTable> {
        let has = |column: Column| options.columns.contains(&column);
        let schema: SchemaRef = Arc::new(schema(&options.columns));
        let needs_body = has(Column::Body) || has(Column::ContentMimeDetected);
        let source = match &options.urls {
            Some(_) if options.records != Records::Pages => {
                return Err(Error::Unsupported { what: "parts by URL of records other than pages" });
            }
            Some(part) => Source::Urls(store.found_of_urls(part, !options.all_versions)?.keeping_lost()),
            None => pass(store, options, needs_body, None)?,
        };
        Ok(PageTable {
            store: store.clone(),
            members: vec![store.clone()],
            number: 0,
            columns: Columns::new(&options.columns, Arc::clone(&schema)),
            schema,
            source,
            needs_body,
            needs_digest: has(Column::ContentDigest),
            options: options.clone(),
            report: TableReport::default(),
            watch: TableWatch::default(),
            going: None,
            errors: None,
            is_over: false,
        })
    }

    /// The report, which stays readable when the table is moved.
    pub fn watch(&self) -> TableWatch {
        self.watch.clone()
    }

    /// Calls `going` before each batch and every few versions, also while unselected versions are
    /// skipped. After a `Break` the table ends with [`filemap_core::Error::Cancelled`], and drops
    /// the rows of the unfinished batch.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::ops::ControlFlow;
    /// # use filemap::{Options, Page, PageStore};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
    /// store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
    /// let mut table = store.table(&Default::default())?.while_going(|| ControlFlow::Break(()));
    /// assert!(table.next().is_some_and(|batch| batch.is_err()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn while_going(self, going: impl FnMut() -> ControlFlow<()> + Send + 'static) -> PageTable {
        let going = Going::new(going);
        PageTable { source: self.source.while_going(&going), going: Some(going), ..self }
    }

    /// Appends the next version; returns false at the end.
    fn step(&mut self) -> Result<bool> {
        let next = match &mut self.source {
            Source::Heads(heads) => heads.next().map(|found| found.map(|l| (l.key, l.head, None))),
            Source::Pages(pages) => pages.next().map(|found| found.map(|(key, v)| (key, v.head, Some(v.body)))),
            Source::Urls(_) if self.going.as_ref().is_some_and(|going| going.next().is_break()) => {
                return Err(filemap_core::Error::Cancelled.into());
            }
            Source::Urls(found) => match found.next() {
                Some(found) => return self.look_up(found).map(|()| true),
                None => return self.pass_for_lost(),
            },
        };
        let Some(next) = next else { return Ok(false) };
        let (key, head, body) = next.map_err(Error::from)?;
        self.meet(&key, head, body)?;
        Ok(true)
    }

    fn meet(&mut self, key: &[u8], head: Head, body: Option<Vec<u8>>) -> Result<()> {
        self.report.seen += 1;
        self.report.seen_bytes += head.stored_bytes;
        self.take(key, head, body)
    }

    /// Adds a version of a part by URL, if it is selected.
    fn look_up(&mut self, found: Result<(Vec<u8>, Head)>) -> Result<()> {
        let (key, head) = found?;
        let selection = &self.options.selection;
        let is_chosen = selection.takes_key(key::url(&key), head.version.time_ms);
        let describes = |page: Page| selection.takes_description(&page);
        if !is_chosen || !self.store.describe_alone(&key, &head).is_none_or(describes) {
            return Ok(());
        }
        if !self.needs_body {
            return self.meet(&key, head, None);
        }
        match self.store.value_of(&key, head.version)? {
            Some(value) => self.meet(&key, value.head, Some(value.body)),
            // Removed meanwhile.
            None => Ok(()),
        }
    }

    /// Continues with the pages of a part by URL whose lookup found damage, by a pass over the
    /// value log: it does not read the key log, and names what it cannot read. Returns false if
    /// there are none.
    fn pass_for_lost(&mut self) -> Result<bool> {
        let (Source::Urls(found), Some(part)) = (&mut self.source, &self.options.urls) else { return Ok(false) };
        let lost = found.take_lost();
        if lost.is_empty() {
            return Ok(false);
        }
        let options = self.options.clone().split(Some(part.as_of().clone()));
        let source = pass(&self.store, &options, self.needs_body, Some(lost))?;
        self.source = self.going.iter().fold(source, Source::while_going);
        self.step()
    }

    fn take(&mut self, key: &[u8], head: Head, body: Option<Vec<u8>>) -> Result<()> {
        let (version, stored_bytes) = (head.version, head.stored_bytes);
        let mut body_bytes = self.store.body_bytes(key, &head)?;
        let has_body = body.is_some();
        let mut page = match body {
            Some(body) => self.store.stored(key, Value { head, body })?,
            None => self.store.describe(key, &head)?,
        };
        if !self.options.selection.takes_description(&page) {
            return Ok(());
        }
        let mut body = has_body.then(|| std::mem::take(&mut page.body));
        // The body of a page in place is not in the store.
        body_bytes = body.as_ref().map_or(body_bytes, |body| body.len() as u64);
        if self.needs_digest && body.is_none() && received(&page).is_none() {
            let value = self.store.value_of(key, version)?;
            body = value.map(|value| self.store.stored(key, value)).transpose()?.map(|page| page.body);
        }
        if let Some(own) = body.take() {
            body = self.whole(key, &page, own)?;
        }
        let row = Row { key, page: &page, version, stored_bytes, body_bytes, body: body.as_deref() };
        self.columns.push(&row).map_err(|error| Error::Table { what: error.to_string() })?;
        self.report.rows += 1;
        Ok(())
    }

    /// The body of a version, given its own body `own`; `None` if it is not in the store.
    fn whole(&mut self, key: &[u8], page: &Page, own: Vec<u8>) -> Result<Option<Vec<u8>>> {
        if page.revisit.is_none() {
            return Ok(Some(own));
        }
        match original_among(&self.members, self.number, key, page) {
            Ok(Some(original)) => Ok(Some(original.version.page.body)),
            Ok(None) => Ok((!own.is_empty() || page.is_of_no_bytes()).then_some(own)),
            Err(error) if error.is_damage() => {
                self.report.bodiless += 1;
                self.note(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn note(&mut self, error: Error) {
        self.report.note(&error);
        if let Some(errors) = &mut self.errors {
            errors.push(error);
        }
    }

    fn is_full(&self) -> bool {
        let options = &self.options;
        self.columns.bytes >= options.batch_bytes
            || self.columns.rows >= options.batch_rows
            || options.limit.is_some_and(|limit| self.report.rows >= limit)
    }

    /// Drops the unfinished batch.
    fn cancel(&mut self) {
        self.is_over = true;
        self.report.is_cancelled = true;
        self.report.rows -= self.columns.rows as u64;
        // These rows are not returned.
        let _ = self.columns.finish();
        self.watch.set(&self.report);
    }

    /// Fills the next batch; `None` after the last one.
    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        if !self.is_over && self.going.as_ref().is_some_and(|going| going.now().is_break()) {
            self.cancel();
            return Err(filemap_core::Error::Cancelled.into());
        }
        self.is_over |= self.options.limit.is_some_and(|limit| self.report.rows >= limit);
        while !self.is_over && !self.is_full() {
            match self.step() {
                Ok(is_more) => self.is_over = !is_more,
                Err(error) if error.is_damage() => {
                    self.report.damaged += 1;
                    self.note(error);
                }
                Err(error) => {
                    self.is_over = true;
                    if matches!(error, Error::Engine(filemap_core::Error::Cancelled)) {
                        self.cancel();
                    }
                    return Err(error);
                }
            }
        }
        self.watch.set(&self.report);
        let failed = |error: ArrowError| Error::Table { what: error.to_string() };
        (self.columns.rows > 0).then(|| self.columns.finish().map_err(failed)).transpose()
    }

    /// The error that ends the table; returned once.
    fn ending(&mut self) -> Option<Error> {
        let is_asked = std::mem::replace(&mut self.options.on_damage, OnDamage::Count) == OnDamage::Fail;
        if is_asked { self.report.error() } else { None }
    }

    /// The table of the store of this number among these, which are one: each may have originals
    /// of its revisits.
    #[cfg(feature = "parquet")]
    pub(super) fn among(self, members: &[PageStore], number: usize) -> PageTable {
        PageTable { members: members.to_vec(), number, ..self }
    }

    /// Keeps damage for [`PageTable::take_errors`].
    #[cfg(feature = "parquet")]
    pub(super) fn keeping_errors(self) -> PageTable {
        PageTable { errors: Some(Vec::new()), ..self }
    }

    /// Damage found since the last call.
    #[cfg(feature = "parquet")]
    pub(super) fn take_errors(&mut self) -> Vec<Error> {
        self.errors.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The next batch; after the last one, the error of damage.
    pub(super) fn next_batch(&mut self) -> Option<Result<RecordBatch>> {
        match self.batch() {
            Ok(Some(batch)) => Some(Ok(batch)),
            Ok(None) => self.ending().map(Err),
            Err(error) => {
                self.options.on_damage = OnDamage::Count;
                Some(Err(error))
            }
        }
    }
}

/// The only keys to read, if given.
type Keys = Option<HashSet<Vec<u8>>>;

/// A pass over the value log, or over a split of it.
fn pass(store: &PageStore, options: &TableOptions, needs_body: bool, keys: Keys) -> Result<Source> {
    Ok(match needs_body {
        true => Source::Pages(pages(store, options, keys)?),
        false => Source::Heads(heads(store, options, keys)?),
    })
}

/// The filter of versions by key and time.
fn chosen(options: &TableOptions, keys: Keys) -> impl Fn(&[u8], filemap_core::Version) -> bool + Send + 'static {
    let (records, selection) = (options.records, options.selection.clone());
    let is_meant = move |key: &[u8]| keys.as_ref().is_none_or(|keys| keys.contains(key)) && records.takes(key);
    move |key, version| is_meant(key) && selection.takes_key(key::url(key), version.time_ms)
}

fn heads(store: &PageStore, options: &TableOptions, keys: Keys) -> Result<Heads> {
    let engine = store.engine();
    let heads = match (&options.split, options.all_versions) {
        (None, false) => engine.heads(),
        (None, true) => engine.version_heads(),
        (Some(split), false) => engine.heads_in(split)?,
        (Some(split), true) => engine.version_heads_in(split)?,
    };
    Ok(heads.only(chosen(options, keys)))
}

fn pages(store: &PageStore, options: &TableOptions, keys: Keys) -> Result<Pages> {
    let engine = store.engine();
    let pages = match (&options.split, options.all_versions) {
        (None, false) => engine.pages(),
        (None, true) => engine.versions(),
        (Some(split), false) => engine.pages_in(split)?,
        (Some(split), true) => engine.versions_in(split)?,
    };
    let pages = pages.only(chosen(options, keys));
    if !options.selection.is_of_description() {
        return Ok(pages);
    }
    let (store, selection) = (store.clone(), options.selection.clone());
    // A version that cannot be judged here is judged, or fails, when its row is made.
    let takes = move |key: &[u8], head: &Head| {
        store.describe_alone(key, head).is_none_or(|page| selection.takes_description(&page))
    };
    Ok(pages.wanted(takes))
}

impl Iterator for PageTable {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().map(|batch| batch.map_err(|error| ArrowError::ExternalError(Box::new(error))))
    }
}

impl RecordBatchReader for PageTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
