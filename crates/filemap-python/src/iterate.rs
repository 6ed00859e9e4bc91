//! Iterators over URLs, pages, heads, variants, and pages of many URLs. They stream: each step
//! releases the interpreter, and a long search for the next item checks for signals.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use filemap::access::ListKind;
use filemap::store::UrlPart;
use filemap::{Lookup, PageRead, PageStore, Variant};
use filemap_core::list::Split;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyIterator, PyString};

use crate::argument::{self, Scope, Text, text};
use crate::backing::{Backing, RemoteList};
use crate::errors::{self, Failure};
use crate::fork::OfProcess;
use crate::page::{Page, PageHead};
use crate::signals::{Looks, Watch};

/// Keys between two checks for signals, while none matches.
const KEYS_A_TICK: u32 = 1 << 15;

/// An item, or `None` in between: a chance to check for signals.
type Step<T> = Option<filemap::Result<T>>;

/// Boxed steps of an iteration over a store.
pub type Steps<T> = Box<dyn Iterator<Item = Step<T>> + Send>;

/// The state behind a Python iterator.
struct Stream<T>(Mutex<OfProcess<Option<Steps<T>>>>, Looks);

impl<T: Send> Stream<T> {
    fn new(steps: Steps<T>) -> Stream<T> {
        Stream(Mutex::new(OfProcess::new(Some(steps))), Looks::new())
    }

    /// The next item. The interpreter is released meanwhile, also while waiting for another thread
    /// that uses the iterator.
    fn next(&self, py: Python<'_>) -> PyResult<Option<T>> {
        self.1.look(py)?;
        py.detach(|| {
            let mut steps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(steps) = steps.get_mut()? else { return Ok(None) };
            let mut watch = None;
            loop {
                match steps.next() {
                    None => return Ok(None),
                    Some(Some(item)) => return Ok(Some(item.map_err(Failure::from)?)),
                    Some(None) => {
                        let watch = watch.get_or_insert_with(Watch::new);
                        if watch.tick(|_| Ok(())).is_break() {
                            return watch.take().map_or(Ok(None), Err);
                        }
                    }
                }
            }
        })
    }
}

/// An iterator over URLs.
#[pyclass(frozen, module = "filemap", name = "Urls")]
pub struct Urls(Stream<Vec<u8>>);

#[pymethods]
impl Urls {
    fn __iter__(slf: Py<Urls>) -> Py<Urls> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyString>>> {
        self.0.next(py)?.map(|url| text(py, &url)).transpose()
    }
}

/// An iterator over bytes: the variants of a URL.
#[pyclass(frozen, module = "filemap", name = "Bytes")]
pub struct Bytes(Stream<Vec<u8>>);

#[pymethods]
impl Bytes {
    fn __iter__(slf: Py<Bytes>) -> Py<Bytes> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        Ok(self.0.next(py)?.map(|bytes| PyBytes::new(py, &bytes)))
    }
}

/// An iterator over pages.
#[pyclass(frozen, module = "filemap", name = "Pages")]
pub struct Pages(Stream<filemap::Page>);

#[pymethods]
impl Pages {
    fn __iter__(slf: Py<Pages>) -> Py<Pages> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, Page>>> {
        self.0.next(py)?.map(|page| Page::of(py, page)).transpose()
    }
}

/// An iterator over versions without their bodies.
#[pyclass(frozen, module = "filemap", name = "Heads")]
pub struct Heads(Stream<filemap::PageHead>);

#[pymethods]
impl Heads {
    fn __iter__(slf: Py<Heads>) -> Py<Heads> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PageHead>>> {
        self.0.next(py)?.map(|head| PageHead::of(py, head)).transpose()
    }
}

/// Range of times to select.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub since_ms: i64,
    pub until_ms: i64,
}

impl Times {
    pub fn new(since_ms: Option<i64>, until_ms: Option<i64>) -> Times {
        Times { since_ms: since_ms.unwrap_or(i64::MIN), until_ms: until_ms.unwrap_or(i64::MAX) }
    }

    fn is_all(self) -> bool {
        (self.since_ms, self.until_ms) == (i64::MIN, i64::MAX)
    }

    fn takes(self, time_ms: i64) -> bool {
        (self.since_ms..=self.until_ms).contains(&time_ms)
    }
}

/// The canonical URLs of pages, or of variants (one for each), in a scope. In a store with ordered
/// keys they come in order, on request backwards, and from the page after `after` on.
///
/// # Errors
///
/// `after` is not a URL; the store has no order; errors of the store.
pub fn urls(
    store: &Backing,
    scope: &Scope,
    kind: ListKind,
    reverse: bool,
    after: Option<&Text>,
) -> Result<Urls, Failure> {
    let store = match store {
        Backing::Local(store) => store,
        Backing::Remote(client, _) => {
            let after = after.map(|url| client.cursor(url.as_ref())).transpose()?;
            let listed = RemoteList::new(client.clone(), scope.of_store(kind, reverse), after);
            return Ok(Urls(Stream::new(Box::new(listed.map(|listed| Some(listed.map(|listed| listed.url)))))));
        }
    };
    if !store.engine().has_key_order() && !reverse && after.is_none() {
        return Ok(match kind {
            ListKind::Pages => Urls(Stream::new(urls_of(store, scope.clone()))),
            ListKind::Variants => urls_of_variants(store, scope.clone()),
        });
    }
    let after = after.map(|url| store.cursor(url)).transpose()?;
    let mut listing = store.listing(&scope.of_store(kind, reverse), after.as_ref())?;
    let step = move || Some(listing.next_within(KEYS_A_TICK as usize)?.map(|listed| listed.map(|listed| listed.url)));
    Ok(Urls(Stream::new(Box::new(std::iter::from_fn(step)))))
}

/// The canonical URLs of the variants in a scope: one for each variant.
fn urls_of_variants(store: &PageStore, scope: Scope) -> Urls {
    let again = scope.clone();
    let passed = AtomicU32::new(0);
    let filter =
        move |url: &[u8]| scope.takes(url) || passed.fetch_add(1, Ordering::Relaxed).is_multiple_of(KEYS_A_TICK);
    Urls(Stream::new(Box::new(store.variants_where(filter).map(move |found| match found {
        Ok((url, _)) if !again.takes(&url) => None,
        found => Some(found.map(|(url, _)| url)),
    }))))
}

fn urls_of(store: &PageStore, scope: Scope) -> Steps<Vec<u8>> {
    let again = scope.clone();
    let passed = AtomicU32::new(0);
    // One unselected key in many is passed through, as a chance to check for signals.
    let filter =
        move |url: &[u8]| scope.takes(url) || passed.fetch_add(1, Ordering::Relaxed).is_multiple_of(KEYS_A_TICK);
    Box::new(store.urls_where(filter).map(move |url| match url {
        Ok(url) if !again.takes(&url) => None,
        url => Some(url),
    }))
}

/// The variants of a URL.
///
/// # Errors
///
/// Errors of the store.
pub fn variants(store: &Backing, url: &Text) -> Result<Bytes, Failure> {
    let store = match store {
        Backing::Local(store) => store,
        Backing::Remote(client, _) => {
            let found: Vec<_> = PageRead::variants(client, url.as_ref())?.collect();
            let bytes = |found: filemap::Result<Variant>| Some(found.map(|variant| variant.as_bytes().to_vec()));
            return Ok(Bytes(Stream::new(Box::new(found.into_iter().map(bytes)))));
        }
    };
    let found = store.variants(url)?;
    Ok(Bytes(Stream::new(Box::new(found.map(|found| Some(found.map(|found| found.1.as_bytes().to_vec())))))))
}

/// The newest heads of pages or variants in a scope and a range of times: a sequential read
/// without bodies.
pub fn heads(store: &PageStore, scope: Scope, times: Times, kind: ListKind) -> Heads {
    Heads(Stream::new(heads_of(store, scope, times, newest(store, kind))))
}

type Found = Box<dyn Iterator<Item = filemap::Result<filemap::PageHead>> + Send>;

fn newest(store: &PageStore, kind: ListKind) -> Found {
    match kind {
        ListKind::Pages => Box::new(store.heads()),
        ListKind::Variants => Box::new(store.variant_heads()),
    }
}

fn heads_of(store: &PageStore, scope: Scope, times: Times, heads: Found) -> Steps<filemap::PageHead> {
    let of_store = store.clone();
    let takes = move |head: &filemap::PageHead| -> filemap::Result<bool> {
        if !times.takes(head.version.time_ms) {
            return Ok(false);
        }
        Ok(scope.is_all() || scope.takes(&of_store.key(&head.page.url)?))
    };
    Box::new(heads.map(move |head| {
        let wanted = head.as_ref().map_or(Ok(true), &takes);
        match wanted {
            Ok(true) => Some(head),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }))
}

/// The versions of a page, newest first.
///
/// # Errors
///
/// Errors of the store.
pub fn history(store: &Backing, lookup: Lookup<'_>) -> Result<Heads, Failure> {
    let store = match store {
        Backing::Local(store) => store,
        Backing::Remote(client, _) => {
            let heads: Vec<_> = client.history(&lookup)?.map(Some).collect();
            return Ok(Heads(Stream::new(Box::new(heads.into_iter()))));
        }
    };
    Ok(Heads(Stream::new(Box::new(store.history_iter(lookup)?.map(Some)))))
}

/// The newest pages in a scope and a range of times. Bodies of other pages are not decompressed.
pub fn pages(store: &PageStore, scope: Scope, times: Times, kind: ListKind) -> Pages {
    if scope.is_all() && times.is_all() && kind == ListKind::Pages {
        return Pages(Stream::new(Box::new(store.pages().map(Some))));
    }
    let heads = newest(store, kind);
    Pages(Stream::new(with_bodies(store, scope, times, heads)))
}

/// The newest pages of a split of the store, in a scope and a range of times.
///
/// # Errors
///
/// The bytes are not a split; the split is of another store.
pub fn pages_in(store: &PageStore, part: &[u8], scope: Scope, times: Times) -> Result<Pages, Failure> {
    if let Some(part) = UrlPart::from_bytes(part)? {
        let heads = Box::new(store.heads_of_urls(&part)?);
        return Ok(Pages(Stream::new(with_bodies(store, scope, times, heads))));
    }
    let part = Split::from_bytes(part)?;
    if scope.is_all() && times.is_all() {
        return Ok(Pages(Stream::new(Box::new(store.pages_in(&part)?.map(Some)))));
    }
    let heads = Box::new(store.heads_in(&part)?);
    Ok(Pages(Stream::new(with_bodies(store, scope, times, heads))))
}

fn with_bodies(store: &PageStore, scope: Scope, times: Times, heads: Found) -> Steps<filemap::Page> {
    let of_store = store.clone();
    Box::new(heads_of(store, scope, times, heads).map(move |head| match head? {
        Ok(head) => {
            let lookup = Lookup::new(&head.page.url).variant(head.page.variant.as_ref());
            of_store.get_version(lookup, head.version).transpose()
        }
        Err(error) => Some(Err(error)),
    }))
}

/// Every version of the pages in a scope and a range of times.
pub fn versions(store: &PageStore, scope: Scope, times: Times, kind: ListKind) -> Pages {
    Pages(Stream::new(Box::new(store.stored_versions().map(move |version| match version {
        Ok(version) => {
            let page = &version.page;
            let is_wanted = page.kind.is_page() && page.variant.is_some() == (kind == ListKind::Variants);
            let wanted = is_wanted && times.takes(page.fetched_at_ms) && scope.takes(version.canonical_url());
            wanted.then_some(Ok(version.page))
        }
        Err(error) => Some(Err(error)),
    }))))
}

/// The pages of many URLs, in their order, several read at once.
#[pyclass(frozen, module = "filemap", name = "Many")]
pub struct Many {
    store: OfProcess<Backing>,
    ahead: usize,
    source: Mutex<Source>,
    looks: Looks,
    /// The thread that holds `source`.
    asking: Mutex<Option<ThreadId>>,
    read: Mutex<VecDeque<filemap::Result<Option<filemap::Page>>>>,
}

/// Source of the URLs.
struct Source {
    urls: Py<PyIterator>,
    /// URLs taken from the iterator and not read yet.
    wanted: Vec<Text>,
    /// Exception of the iterator: raised after the pages of the URLs before it.
    failed: Option<PyErr>,
}

impl Source {
    /// Takes URLs until there are `number`.
    ///
    /// # Errors
    ///
    /// Ctrl-C and similar exceptions, which do not wait for pages: the URLs taken stay.
    fn take(&mut self, py: Python<'_>, number: usize) -> PyResult<()> {
        let mut urls = self.urls.bind(py).clone();
        while self.wanted.len() < number && self.failed.is_none() {
            match urls.next().map(|url| url.and_then(|url| url.extract())) {
                None => break,
                Some(Ok(url)) => self.wanted.push(url),
                Some(Err(error)) if error.is_instance_of::<PyException>(py) => self.failed = Some(error),
                Some(Err(error)) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Many {
    pub fn new(store: Backing, urls: &Bound<'_, PyAny>, ahead: usize) -> PyResult<Many> {
        let urls = argument::many(urls)?.unbind();
        let source = Mutex::new(Source { urls, wanted: Vec::new(), failed: None });
        let store = OfProcess::new(store);
        Ok(Many {
            store,
            ahead: ahead.max(1),
            source,
            looks: Looks::new(),
            asking: Mutex::default(),
            read: Mutex::default(),
        })
    }

    fn pop(&self) -> Option<filemap::Result<Option<filemap::Page>>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn asking(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next answer, or `None` at the end.
    fn answer(&self, py: Python<'_>) -> PyResult<Option<filemap::Result<Option<filemap::Page>>>> {
        let store = self.store.get()?;
        self.looks.look(py)?;
        if let Some(answer) = self.pop() {
            return Ok(Some(answer));
        }
        if *self.asking() == Some(thread::current().id()) {
            return Err(errors::invalid("the URLs of get_many ask for their own pages"));
        }
        // One thread asks and reads; others wait here for its answers. So no thread sees the end
        // while answers are still to come.
        let mut source = self.source.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        loop {
            // Another thread may have read answers meanwhile.
            if let Some(answer) = self.pop() {
                return Ok(Some(answer));
            }
            *self.asking() = Some(thread::current().id());
            let taken = source.take(py, self.ahead);
            *self.asking() = None;
            taken?;
            let wanted = std::mem::take(&mut source.wanted);
            if wanted.is_empty() {
                return source.failed.take().map_or(Ok(None), Err);
            }
            let found = py.detach(|| read_together(store, &wanted));
            self.read.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
        }
    }
}

#[pymethods]
impl Many {
    fn __iter__(slf: Py<Many>) -> Py<Many> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        match self.answer(py)? {
            None => Ok(None),
            Some(Err(error)) => Err(Failure::from(error).into()),
            Some(Ok(None)) => Ok(Some(py.None())),
            Some(Ok(Some(page))) => Ok(Some(Page::of(py, page)?.into_any().unbind())),
        }
    }
}

/// Reads pages together; after an error one by one, so that each URL gets its own error.
fn read_together(store: &Backing, urls: &[Text]) -> Vec<filemap::Result<Option<filemap::Page>>> {
    let one_by_one = || urls.iter().map(|url| store.pages().get(&Lookup::new(url))).collect();
    match store {
        Backing::Local(local) => {
            local.get_many(urls).map_or_else(|_| one_by_one(), |pages| pages.into_iter().map(Ok).collect())
        }
        Backing::Remote(..) => one_by_one(),
    }
}
