//! A store under its access rules: one page, its versions and variants.
//!
//! A rule is matched against the canonical URL, under which the store has the page, and, if the
//! version is known and has another spelling, against that too: the stricter ruling applies.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use filemap::acl::{Access, AccessRules, OfUrl, RuleKeys, Ruling};
use filemap::dump::warc_record_of;
use filemap::store::{MaybeOriginal, PageReader};
use filemap::{Error, Lookup, Page, PageHead, PageRead, PageStore, Result, Variant, Version};
use urlindex::canonical::url_of_surt;

use super::super::counters::KeptBack;
use super::super::refusal::Refusal;

/// A store seen through its access rules. Without rules, all of it.
#[derive(Clone)]
pub(crate) struct Shown {
    /// Gives its revisits no bodies of versions that are not allowed.
    pub(super) store: PageStore,
    unruled: PageStore,
    pub(super) rules: Option<Arc<AccessRules>>,
    /// True if the rules may exclude anything.
    pub(super) may_exclude: bool,
    pub(super) kept_back: KeptBack,
}

/// Result of a look-up.
pub(crate) enum Found<T> {
    Here(T),
    /// It exists, but is not shown, for this reason.
    Blocked(String),
    Absent,
}

impl<T> Found<T> {
    fn of(found: Option<T>) -> Found<T> {
        found.map_or(Found::Absent, Found::Here)
    }

    /// # Errors
    ///
    /// 451 if it is blocked.
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
    /// The reason, if it is blocked: then only the version of its head may be shown.
    pub(crate) blocked: Option<String>,
}

/// The rules for one page or variant.
pub(super) struct Judge {
    rules: Arc<AccessRules>,
    /// The canonical URL.
    pub(super) url: Vec<u8>,
    keys: RuleKeys,
    now_ms: i64,
}

impl Judge {
    fn new(rules: Arc<AccessRules>, url: Vec<u8>, variant: Option<&Variant>) -> Judge {
        let plain = url_of_surt(&url);
        let keys = RuleKeys::new(&plain, variant);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        Judge { rules, url, keys, now_ms }
    }

    fn of_url(&self) -> OfUrl<'_> {
        self.rules.of_keys(&self.keys)
    }

    /// The ruling on a version of this time.
    pub(super) fn at(&self, time_ms: i64) -> Ruling<'_> {
        self.of_url().at(time_ms, self.now_ms)
    }

    /// The ruling on all versions, if it is the same.
    pub(super) fn whenever(&self) -> Option<Ruling<'_>> {
        self.of_url().whenever()
    }

    pub(super) fn always_excludes(&self) -> bool {
        self.whenever().is_some_and(|ruling| ruling.access == Access::Exclude)
    }

    /// The ruling on a known version.
    pub(super) fn of_page(&self, page: &Page, time_ms: i64) -> Ruling<'_> {
        self.of_own(&page.url, page.variant.as_ref(), time_ms)
    }

    /// The ruling on a version that was put under this URL.
    fn of_own(&self, own_url: &[u8], variant: Option<&Variant>, time_ms: i64) -> Ruling<'_> {
        let ruling = self.at(time_ms);
        if own_url == self.url {
            return ruling;
        }
        let own = self.rules.of_url(own_url, variant).at(time_ms, self.now_ms);
        if own.access > ruling.access { own } else { ruling }
    }

    /// Message to the client: why something is not shown.
    fn words(&self, ruling: &Ruling<'_>) -> String {
        let url = String::from_utf8_lossy(&self.url);
        let what = if ruling.is_embargo() { "is under an embargo" } else { "is blocked by an access rule" };
        match ruling.reason() {
            Some(reason) => format!("{url} {what}: {reason}"),
            None => format!("{url} {what}"),
        }
    }
}

/// Returns whether revisits may show the body of a version.
fn gives_body(rules: &Arc<AccessRules>, version: &MaybeOriginal<'_>) -> bool {
    let judge = Judge::new(Arc::clone(rules), version.url.to_vec(), version.variant);
    let time_ms = version.version.time_ms;
    let ruling = match version.own_url {
        Some(own_url) => judge.of_own(own_url, version.variant, time_ms),
        None => judge.at(time_ms),
    };
    ruling.access == Access::Allow
}

impl Shown {
    pub(crate) fn new(unruled: PageStore, rules: Option<Arc<AccessRules>>, kept_back: KeptBack) -> Shown {
        let store = match rules.clone() {
            Some(rules) => unruled.with_originals(move |version| gives_body(&rules, version)),
            None => unruled.clone(),
        };
        let may_exclude = rules.as_ref().is_some_and(|rules| rules.may_exclude_within(b""));
        Shown { store, unruled, rules, may_exclude, kept_back }
    }

    /// The same store without access rules.
    pub(crate) fn without_rules(&self) -> Shown {
        Shown { store: self.unruled.clone(), rules: None, may_exclude: false, ..self.clone() }
    }

    /// The rules for a page or variant; `None` if the store has no rules.
    pub(super) fn judge(&self, url: &[u8], variant: Option<&Variant>) -> Result<Option<Judge>> {
        let Some(rules) = &self.rules else { return Ok(None) };
        Ok(Some(Judge::new(Arc::clone(rules), self.store.key(url)?, variant)))
    }

    /// The canonical URL; computed, not looked up.
    pub(crate) fn key(&self, url: &[u8]) -> Result<Vec<u8>> {
        self.store.key(url)
    }

    /// The capabilities of the store.
    pub(crate) fn capabilities(&self) -> filemap::access::Capabilities {
        self.store.capabilities()
    }

    /// A page with a reader of its body: one version, or the newest that the lookup allows.
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
        let mut found = self.found(lookup, None, find, |head| (&head.page, head.version))?;
        if let Found::Here(head) = &mut found {
            self.names_shown(lookup, head, &mut None)?;
        }
        Ok(found)
    }

    /// Clears the version with the same body from a head if that version is excluded. `shown`
    /// caches the sequences of the versions that are not excluded.
    fn names_shown(&self, lookup: Lookup<'_>, head: &mut PageHead, shown: &mut Option<HashSet<u64>>) -> Result<()> {
        let Some(sequence) = head.unchanged_since.filter(|_| self.may_exclude) else { return Ok(()) };
        if shown.is_none() {
            let lookup = Lookup::new(lookup.url).variant(lookup.variant);
            *shown = Some(self.captures(lookup)?.iter().map(|version| version.sequence).collect());
        }
        if !shown.as_ref().is_some_and(|shown| shown.contains(&sequence)) {
            head.unchanged_since = None;
        }
        Ok(())
    }

    /// The named version, or the newest that is not excluded.
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

    /// A capture, unless it is excluded.
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

    /// The versions of a page, newest first; an unreadable one keeps its place, as an error.
    pub(crate) fn history(&self, lookup: Lookup<'_>) -> Result<impl Iterator<Item = Result<Capture>> + use<>> {
        let judge = self.judge(lookup.url, lookup.variant)?;
        let is_hidden = judge.as_ref().is_some_and(Judge::always_excludes);
        let heads = if is_hidden { None } else { Some(self.store.history_iter(lookup)?) };
        if let Some(ruling) = judge.as_ref().and_then(Judge::whenever).filter(|_| is_hidden) {
            self.kept_back.add(&ruling);
        }
        let shown = self.clone();
        let (url, variant, mut sequences) = (lookup.url.to_vec(), lookup.variant.cloned(), None);
        Ok(heads.into_iter().flatten().filter_map(move |head| {
            let Some(judge) = &judge else { return Some(head.map(|head| Capture { head, blocked: None })) };
            match head {
                Ok(mut head) => {
                    let ruling = judge.of_page(&head.page, head.version.time_ms);
                    if shown.excludes(&ruling) {
                        return None;
                    }
                    let blocked = match shown.passed(judge, &ruling, ()) {
                        Found::Blocked(words) => Some(words),
                        _ => None,
                    };
                    let lookup = Lookup::new(&url).variant(variant.as_ref());
                    if let Err(error) = shown.names_shown(lookup, &mut head, &mut sequences) {
                        return Some(Err(error));
                    }
                    Some(Ok(Capture { head, blocked }))
                }
                Err(Error::Unreadable { version, .. }) if shown.excludes(&judge.at(version.time_ms)) => None,
                Err(error) => Some(Err(error)),
            }
        }))
    }

    /// Versions of a page, newest first, judged by its canonical URL.
    fn versions(&self, lookup: Lookup<'_>) -> Result<Vec<Version>> {
        let Some(judge) = self.judge(lookup.url, lookup.variant)? else { return self.store.versions_of(lookup) };
        if judge.whenever().is_some_and(|ruling| self.excludes(&ruling)) {
            return Ok(Vec::new());
        }
        let mut versions = self.store.versions_of(lookup)?;
        versions.retain(|version| !self.excludes(&judge.at(version.time_ms)));
        Ok(versions)
    }

    /// The captures of [`Shown::history`], newest first, including blocked ones. A rule may
    /// exclude a capture by the URL under which it was fetched: if rules exclude anything, each
    /// capture is read to check that.
    pub(crate) fn captures(&self, lookup: Lookup<'_>) -> Result<Vec<Version>> {
        let mut versions = self.versions(lookup)?;
        let judge = self.judge(lookup.url, lookup.variant)?.filter(|_| self.may_exclude);
        let Some(judge) = judge.filter(|_| !versions.is_empty()) else { return Ok(versions) };
        versions.clear();
        for head in self.store.history_iter(lookup)? {
            let (version, ruling) = match head {
                Ok(head) => (head.version, judge.of_page(&head.page, head.version.time_ms)),
                Err(Error::Unreadable { version, .. }) => (version, judge.at(version.time_ms)),
                Err(error) => return Err(error),
            };
            // Excluded captures are counted where they are listed.
            if ruling.access != Access::Exclude {
                versions.push(version);
            }
        }
        Ok(versions)
    }

    /// Returns whether a list includes a page or variant: some version of it is not excluded.
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

    /// Returns whether a URL may have variants that are listed.
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

    /// A version that [`Shown::open`] returned, as a WARC record.
    pub(crate) fn record(&self, lookup: Lookup<'_>, version: Version) -> Result<Option<Vec<u8>>> {
        match self.open(lookup, Some(version))? {
            Found::Here(_) => warc_record_of(&self.store, lookup, version),
            Found::Blocked(_) | Found::Absent => Ok(None),
        }
    }
}
