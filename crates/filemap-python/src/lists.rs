//! Lists of a store: URLs and their number, pages, heads.

use filemap::access::ListKind;
use pyo3::prelude::*;

use crate::argument::{Scope, Text};
use crate::errors;
use crate::iterate::{self, Heads, Pages, Times, Urls};
use crate::store::PageStore;
use crate::times;

fn list_kind(variants: bool) -> ListKind {
    if variants { ListKind::Variants } else { ListKind::Pages }
}

#[pymethods]
impl PageStore {
    /// The canonical URLs of all pages, or of those of a host, of a domain (a host and its
    /// subdomains), or with a prefix: in order, in either direction, from the page after `after`
    /// on.
    #[pyo3(signature = (*, host = None, prefix = None, domain = None, variants = false, reverse = false, after = None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords")]
    fn urls(
        &self,
        py: Python<'_>,
        host: Option<String>,
        prefix: Option<Text>,
        domain: Option<String>,
        variants: bool,
        reverse: bool,
        after: Option<Text>,
    ) -> PyResult<Urls> {
        let scope = Scope::new(host, prefix, domain)?;
        if variants && after.is_some() {
            return Err(errors::invalid("after names a page: variants are not listed from there"));
        }
        self.on(py, |store| iterate::urls(store, &scope, list_kind(variants), reverse, after.as_ref()))
    }

    /// The number of pages, or of variants, that `urls` lists for the same arguments.
    #[pyo3(signature = (*, host = None, prefix = None, domain = None, variants = false))]
    fn count(
        &self,
        py: Python<'_>,
        host: Option<String>,
        prefix: Option<Text>,
        domain: Option<String>,
        variants: bool,
    ) -> PyResult<u64> {
        let scope = Scope::new(host, prefix, domain)?.of_store(list_kind(variants), false);
        self.on(py, |store| Ok(store.pages().count(&scope)?))
    }

    /// Pages with their bodies, in the order of the log.
    #[pyo3(signature = (*, host = None, prefix = None, domain = None, since = None, until = None, all_versions = false, variants = false))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords")]
    fn pages(
        &self,
        host: Option<String>,
        prefix: Option<Text>,
        domain: Option<String>,
        since: Option<&Bound<'_, PyAny>>,
        until: Option<&Bound<'_, PyAny>>,
        all_versions: bool,
        variants: bool,
    ) -> PyResult<Pages> {
        let times = Times::new(since.map(times::from_python).transpose()?, until.map(times::from_python).transpose()?);
        let (store, scope) = (self.handle()?, Scope::new(host, prefix, domain)?);
        let kind = list_kind(variants);
        Ok(if all_versions {
            iterate::versions(&store, scope, times, kind)
        } else {
            iterate::pages(&store, scope, times, kind)
        })
    }

    /// Pages without their bodies, in the order of the log.
    #[pyo3(signature = (*, host = None, prefix = None, domain = None, since = None, until = None, variants = false))]
    fn heads(
        &self,
        host: Option<String>,
        prefix: Option<Text>,
        domain: Option<String>,
        since: Option<&Bound<'_, PyAny>>,
        until: Option<&Bound<'_, PyAny>>,
        variants: bool,
    ) -> PyResult<Heads> {
        let times = Times::new(since.map(times::from_python).transpose()?, until.map(times::from_python).transpose()?);
        Ok(iterate::heads(&self.handle()?, Scope::new(host, prefix, domain)?, times, list_kind(variants)))
    }
}
