//! Numbers of pages by host.
//!
//! In a store that keeps its keys in order the pages of a host are adjacent. A host with few pages
//! is counted page by page. For larger hosts the number comes from the summaries of ordered runs,
//! and the pages are skipped.

use std::ops::ControlFlow;

use filemap_core::list::{Direction, KeyRange};

use super::PageStore;
use crate::access::keys::{Span, spans};
use crate::access::{ListKind, Scope};
use crate::error::Result;
use crate::page::{key, order};

/// Pages of a host that are read before the rest are skipped: skipping costs about as much as
/// reading a few hundred keys.
const LOOKED_AT: u64 = 256;

type Each<'e> = dyn FnMut(&[u8], u64) -> ControlFlow<()> + 'e;

/// Adjacent pages of one host.
struct Run {
    host: Vec<u8>,
    pages: u64,
}

impl PageStore {
    /// Calls `each` with every host of the pages in `scope` and its number of pages; with an empty
    /// host for URLs without one. `Break` cancels the work.
    ///
    /// A host may come several times, each with a part of its pages: add them up. In a store that
    /// keeps its keys in order these are hosts with pages whose URLs are not `http` or `https`, or
    /// have a user; in other stores, any host. Scopes of variants count variants. Reads keys
    /// alone, and only a few of a host with many pages, unless the scope has a prefix.
    ///
    /// # Errors
    ///
    /// As [`PageStore::count`]: the numbers that `each` got before are right.
    ///
    /// ```
    /// # use std::collections::BTreeMap;
    /// # use std::ops::ControlFlow;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use filemap::access::Scope;
    /// # use filemap::{Options, Page, PageStore};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
    /// store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
    /// store.put_page(&Page::new("ftp://example.com/", 1_700_000_000_000, 200, "hello"))?;
    /// let mut pages = BTreeMap::new();
    /// store.pages_by_host(&Scope::new(), &mut |host, number| {
    ///     *pages.entry(host.to_vec()).or_insert(0) += number;
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!(pages, BTreeMap::from([(b"example.com".to_vec(), 2)]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn pages_by_host(&self, scope: &Scope, each: &mut Each<'_>) -> Result<()> {
        if self.engine().has_key_order() {
            for span in spans(scope) {
                if self.hosts_of(span, scope, each)?.is_break() {
                    break;
                }
            }
            return Ok(());
        }
        let forwards = Scope { is_backwards: false, ..scope.clone() };
        let mut run: Option<Run> = None;
        for listed in self.listing(&forwards, None)? {
            if add(&mut run, &listed?.url, each).is_break() {
                return Ok(());
            }
        }
        let _ = end(&mut run, each);
        Ok(())
    }

    fn hosts_of(&self, span: Span, scope: &Scope, each: &mut Each<'_>) -> Result<ControlFlow<()>> {
        let takes = scope.filter();
        // Only the forms of pages show where a host ends.
        let may_skip = span.is_exact && scope.kind == ListKind::Pages;
        let mut run: Option<Run> = None;
        let mut keys = self.engine().keys_in(span.range.clone().into(), Direction::Forward)?;
        while let Some(key) = keys.next() {
            let key = key?;
            let url = key::url(&key);
            if !takes(url) {
                continue;
            }
            if add(&mut run, url, each).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            let of_host = order::of_same_host(keys.form()).filter(|_| may_skip);
            let Some((run, of_host)) = run.as_mut().zip(of_host).filter(|(run, _)| run.pages == LOOKED_AT) else {
                continue;
            };
            let (last, end) = (keys.form().to_vec(), of_host.end.clone());
            run.pages += self.engine().count_in(&KeyRange::from(of_host).after(&last))?;
            let rest = KeyRange { from: end, ..span.range.clone().into() };
            keys = self.engine().keys_in(rest, Direction::Forward)?;
        }
        Ok(end(&mut run, each))
    }
}

/// Adds a page to the run; if its host differs, ends the run and begins another.
fn add(run: &mut Option<Run>, url: &[u8], each: &mut Each<'_>) -> ControlFlow<()> {
    let host = urlindex::host(url).unwrap_or_default();
    if let Some(run) = run.as_mut().filter(|run| run.host == host) {
        run.pages += 1;
        return ControlFlow::Continue(());
    }
    let flow = end(run, each);
    *run = Some(Run { host: host.to_vec(), pages: 1 });
    flow
}

fn end(run: &mut Option<Run>, each: &mut Each<'_>) -> ControlFlow<()> {
    run.take().map_or(ControlFlow::Continue(()), |run| each(&run.host, run.pages))
}
