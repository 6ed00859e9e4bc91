//! A store under its rules of access: one page, its versions and variants.
//!
//! A rule is asked about the canonical URL of a page, under which the store has it; and where a
//! version is at hand whose URL was written otherwise, about that too: the stricter answer holds.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use filemap::acl::{Access, AccessRules, OfUrl, Ruling};
use filemap::dump::{index_key, warc_record};
use filemap::store::PageReader;
use filemap::{Error, Lookup, Page, PageHead, PageRead, PageStore, Result, Variant, Version};
use urlindex::canonical::url_of_surt;

use super::super::counters::KeptBack;
use super::super::refusal::Refusal;

/// A store as its rules of access show it. Without rules, all of it.
#[derive(Clone)]
pub(crate) struct Shown {
    pub(super) store: PageStore,
    pub(super) rules: Option<Arc<AccessRules>>,
    pub(super) kept_back: KeptBack,
}

/// What a look-up finds.
pub(crate) enum Found<T> {
    Here(T),
    /// It is there, and is not shown: why.
    Blocked(String),
    Absent,
}

impl<T> Found<T> {
    fn of(found: Option<T>) -> Found<T> {
        found.map_or(Found::Absent, Found::Here)
    }

    /// # Errors
    ///
    /// 451 for what is blocked.
    pub(crate) fn or_refused(self) -> std::result::Result<Option<T>, Refusal> {
        match self {
            Found::Here(found) => Ok(Some(found)),
            Found::Blocked(words) => Err(Refusal::blocked(words)),
            Found::Absent => Ok(None),
        }
    }
}

/// A version in a history.
pub(crate) struct Capture {
    pub(crate) head: PageHead,
    /// Why it is blocked, if it is: of its head only the version is to be told.
    pub(crate) blocked: Option<String>,
}

/// The rules about one page or variant.
pub(super) struct Judge {
    rules: Arc<AccessRules>,
    /// The canonical URL.
    pub(super) url: Vec<u8>,
    /// Its key in indexes, with the variant.
    key: Vec<u8>,
    now_ms: i64,
}

impl Judge {
    fn of_url(&self) -> OfUrl<'_> {
        self.rules.of_key(&self.key)
    }

    /// What is decided of a version of this time.
    pub(super) fn at(&self, time_ms: i64) -> Ruling<'_> {
        self.of_url().at(time_ms, self.now_ms)
    }

    /// What is decided of all versions, if that is the same.
    pub(super) fn whenever(&self) -> Option<Ruling<'_>> {
        self.of_url().whenever()
    }

    pub(super) fn always_excludes(&self) -> bool {
        self.whenever().is_some_and(|ruling| ruling.access == Access::Exclude)
    }

    /// What is decided of a version that is at hand.
    pub(super) fn of_page(&self, page: &Page, time_ms: i64) -> Ruling<'_> {
        let ruling = self.at(time_ms);
        if page.url == self.url {
            return ruling;
        }
        let own = self.rules.of_url(&page.url, page.variant.as_ref()).at(time_ms, self.now_ms);
        if own.access > ruling.access { own } else { ruling }
    }

    /// Why something is not shown, for its reader.
    fn words(&self, ruling: &Ruling<'_>) -> String {
        let url = String::from_utf8_lossy(&self.url);
        let what = if ruling.is_embargo() { "is under an embargo" } else { "is blocked by a rule of access" };
        match ruling.reason() {
            Some(reason) => format!("{url} {what}: {reason}"),
            None => format!("{url} {what}"),
        }
    }
}

impl Shown {
    pub(crate) fn new(store: PageStore, rules: Option<Arc<AccessRules>>, kept_back: KeptBack) -> Shown {
        Shown { store, rules, kept_back }
    }

    /// The same store for whoever no rule is about.
    pub(crate) fn without_rules(&self) -> Shown {
        Shown { rules: None, ..self.clone() }
    }

    /// The rules about a page or variant; `None` if there are none at all.
    pub(super) fn judge(&self, url: &[u8], variant: Option<&Variant>) -> Result<Option<Judge>> {
        let Some(rules) = &self.rules else { return Ok(None) };
        let url = self.store.key(url)?;
        let plain = url_of_surt(&url);
        let key = variant.map_or_else(|| index_key(&plain), |variant| index_key(&variant.index_url(&plain)));
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        Ok(Some(Judge { rules: Arc::clone(rules), url, key, now_ms }))
    }

    /// The canonical URL; only computed.
    pub(crate) fn key(&self, url: &[u8]) -> Result<Vec<u8>> {
        self.store.key(url)
    }

    /// What the store can do.
    pub(crate) fn capabilities(&self) -> filemap::access::Capabilities {
        self.store.capabilities()
    }

    /// A page with a reader of its body: one version, or the newest that the lookup means.
    pub(crate) fn open(&self, lookup: Lookup<'_>, version: Option<Version>) -> Result<Found<(Page, PageReader)>> {
        let find = |version: Option<Version>| match version {
            Some(version) => self.store.get_version_reader(lookup, version),
            None => self.store.get_reader(lookup),
        };
        self.found(lookup, version, find, |(page, reader)| (page, reader.version()))
    }

    /// A page without its body.
    pub(crate) fn head(&self, lookup: Lookup<'_>) -> Result<Found<PageHead>> {
        let find = |version: Option<Version>| {
            let Some(version) = version else { return self.store.head(lookup) };
            let is_it = |head: &Result<PageHead>| match head {
                Ok(head) => head.version == version,
                Err(Error::Unreadable { version: other, .. }) => *other == version,
                Err(_) => true,
            };
            self.store.history_iter(lookup.at(version.time_ms))?.find(is_it).transpose()
        };
        self.found(lookup, None, find, |head| (&head.page, head.version))
    }

    /// The version that was named, or the newest that is not excluded.
    fn found<T>(
        &self,
        lookup: Lookup<'_>,
        version: Option<Version>,
        find: impl Fn(Option<Version>) -> Result<Option<T>>,
        page_of: impl Fn(&T) -> (&Page, Version),
    ) -> Result<Found<T>> {
        let Some(judge) = self.judge(lookup.url, lookup.variant)? else { return find(version).map(Found::of) };
        if let Some(ruling) = judge.whenever().filter(|_| version.is_none()) {
            if ruling.access == Access::Exclude {
                self.kept_back.add(&ruling);
                return Ok(Found::Absent);
            }
            let Some(found) = find(None)? else { return Ok(Found::Absent) };
            let (page, version) = page_of(&found);
            let ruling = judge.of_page(page, version.time_ms);
            if ruling.access != Access::Exclude {
                return Ok(self.passed(&judge, &ruling, found));
            }
        }
        let versions = version.map_or_else(|| self.store.versions_of(lookup), |version| Ok(vec![version]))?;
        for version in versions {
            if self.excludes(&judge.at(version.time_ms)) {
                continue;
            }
            let Some(found) = find(Some(version))? else { continue };
            let ruling = judge.of_page(page_of(&found).0, version.time_ms);
            if !self.excludes(&ruling) {
                return Ok(self.passed(&judge, &ruling, found));
            }
        }
        Ok(Found::Absent)
    }

    /// What is not excluded.
    fn passed<T>(&self, judge: &Judge, ruling: &Ruling<'_>, found: T) -> Found<T> {
        if ruling.access == Access::Allow {
            return Found::Here(found);
        }
        self.kept_back.add(ruling);
        Found::Blocked(judge.words(ruling))
    }

    fn excludes(&self, ruling: &Ruling<'_>) -> bool {
        let excludes = ruling.access == Access::Exclude;
        if excludes {
            self.kept_back.add(ruling);
        }
        excludes
    }

    /// The versions of a page, newest first; one that cannot be read stands in its place.
    pub(crate) fn history(&self, lookup: Lookup<'_>) -> Result<impl Iterator<Item = Result<Capture>> + use<>> {
        let judge = self.judge(lookup.url, lookup.variant)?;
        let is_hidden = judge.as_ref().is_some_and(Judge::always_excludes);
        let heads = if is_hidden { None } else { Some(self.store.history_iter(lookup)?) };
        if let Some(ruling) = judge.as_ref().and_then(Judge::whenever).filter(|_| is_hidden) {
            self.kept_back.add(&ruling);
        }
        let shown = self.clone();
        Ok(heads.into_iter().flatten().filter_map(move |head| {
            let Some(judge) = &judge else { return Some(head.map(|head| Capture { head, blocked: None })) };
            match head {
                Ok(head) => {
                    let ruling = judge.of_page(&head.page, head.version.time_ms);
                    if shown.excludes(&ruling) {
                        return None;
                    }
                    let blocked = match shown.passed(judge, &ruling, ()) {
                        Found::Blocked(words) => Some(words),
                        _ => None,
                    };
                    Some(Ok(Capture { head, blocked }))
                }
                Err(Error::Unreadable { version, .. }) if shown.excludes(&judge.at(version.time_ms)) => None,
                Err(error) => Some(Err(error)),
            }
        }))
    }

    /// Times of the versions of a page, newest first; blocked ones are among them.
    pub(crate) fn versions(&self, lookup: Lookup<'_>) -> Result<Vec<Version>> {
        let Some(judge) = self.judge(lookup.url, lookup.variant)? else { return self.store.versions_of(lookup) };
        if judge.whenever().is_some_and(|ruling| self.excludes(&ruling)) {
            return Ok(Vec::new());
        }
        let mut versions = self.store.versions_of(lookup)?;
        versions.retain(|version| !self.excludes(&judge.at(version.time_ms)));
        Ok(versions)
    }

    /// Times of the captures that [`Shown::history`] has. Rules may exclude one by the URL that it
    /// was fetched by: with rules that exclude anything each is read for that.
    pub(crate) fn captures(&self, lookup: Lookup<'_>) -> Result<Vec<Version>> {
        let mut versions = self.versions(lookup)?;
        let judge = self.judge(lookup.url, lookup.variant)?.filter(|judge| judge.rules.may_exclude_within(b""));
        let Some(judge) = judge.filter(|_| !versions.is_empty()) else { return Ok(versions) };
        versions.clear();
        for head in self.store.history_iter(lookup)? {
            let (version, ruling) = match head {
                Ok(head) => (head.version, judge.of_page(&head.page, head.version.time_ms)),
                Err(Error::Unreadable { version, .. }) => (version, judge.at(version.time_ms)),
                Err(error) => return Err(error),
            };
            // What they exclude is counted where it is listed.
            if ruling.access != Access::Exclude {
                versions.push(version);
            }
        }
        Ok(versions)
    }

    /// Whether a list has a page or variant: some version of it is not excluded.
    pub(super) fn lists(&self, url: &[u8], variant: Option<&Variant>) -> Result<bool> {
        let Some(judge) = self.judge(url, variant)? else { return Ok(true) };
        if let Some(ruling) = judge.whenever() {
            return Ok(!self.excludes(&ruling));
        }
        let versions = self.store.versions_of(Lookup::new(url).variant(variant))?;
        let is_listed = versions.iter().any(|version| judge.at(version.time_ms).access != Access::Exclude);
        if let Some(first) = versions.first().filter(|_| !is_listed) {
            self.kept_back.add(&judge.at(first.time_ms));
        }
        Ok(is_listed)
    }

    /// Whether a URL may have variants that are listed.
    pub(crate) fn may_have_variants(&self, url: &[u8]) -> Result<bool> {
        if self.rules.is_none() {
            return self.store.may_have_variants(url);
        }
        self.variants(url)?.next().transpose().map(|found| found.is_some())
    }

    /// The variants of a URL.
    pub(crate) fn variants(&self, url: &[u8]) -> Result<impl Iterator<Item = Result<Variant>> + use<>> {
        let shown = self.clone();
        Ok(self.store.variants(url)?.filter_map(move |found| {
            let (url, variant) = match found {
                Ok(found) => found,
                Err(error) => return Some(Err(error)),
            };
            match shown.lists(&url, Some(&variant)) {
                Ok(true) => Some(Ok(variant)),
                Ok(false) => None,
                Err(error) => Some(Err(error)),
            }
        }))
    }

    /// A version that [`Shown::open`] has given, as a record of a WARC file.
    pub(crate) fn record(&self, lookup: Lookup<'_>, version: Version) -> Result<Option<Vec<u8>>> {
        match self.open(lookup, Some(version))? {
            // Rules know times and no sequences: of versions of one time all are shown, or none.
            Found::Here(_) => warc_record(&self.store, lookup.at(version.time_ms)),
            Found::Blocked(_) | Found::Absent => Ok(None),
        }
    }
}
