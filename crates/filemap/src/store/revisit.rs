//! Finds the body that a revisit refers to.
//!
//! A revisit is a version with its own headers and no body. Its original is searched for among
//! the versions of the URL that the revisit names, then of its own URL (for a variant, of the same
//! variant), in this order:
//!
//! 1. the version with the record id that it names (`WARC-Refers-To`);
//! 2. the version of the time that it names (`WARC-Refers-To-Date`);
//! 3. a version with the same payload digest: the newest that is not later than the revisit, else
//!    the oldest;
//! 4. if the server said "not modified": the newest version that is not later;
//! 5. the original of a revisit with the record id or time that it names.
//!
//! Next are the same two URLs with the other scheme of `http` and `https`, by record id and digest
//! only. A version whose digest contradicts the revisit's is never chosen by id or time. Digests
//! are compared as bytes, whatever their notation; digests of two algorithms cannot be compared.
//! So the last step computes digests of bodies of versions that have no digest, or one of another
//! algorithm: of the newest [`MAX_DIGESTED`] of each URL, up to [`MAX_DIGESTED_BYTES`].
//!
//! An unreadable version does not matter if another is the original. If it is the one named, or
//! may be the original, the revisit's body is lost: an error that names the version, and no other
//! version replaces it. A version that the handle's filter rejects (see `admit`) is not replaced
//! either, but without an error: the revisit then has no body.
//!
//! The resolved page has the original's body and the revisit's own status and headers, which are
//! adjusted to that body (`X-Crawler-*`, `Content-Length`). `Revisit::original` names the source
//! of the body. If no original is found, it stays `None`, and the body is the record's own: no
//! body is guessed. None of this is stored, so a revisit resolves as soon as its original is in
//! the store.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use filemap_core::{Value, Version};

use super::PageStore;
use super::admit::{Admits, MaybeOriginal};
use super::read::{shown_url, unreadable};
use crate::error::{Error, Result};
use crate::page::digest::Digest;
use crate::page::version::StoredVersion;
use crate::page::{Original, Page, RecordKind, RevisitProfile, key};

/// Longest chain of revisits of revisits that is followed.
const MAX_STEPS: usize = 8;
/// Maximum number of versions of one second that are compared by time; beyond it only the digest
/// finds a version.
const MAX_OF_ONE_SECOND: usize = 1024;
/// Maximum number of versions of a URL whose bodies are digested for a revisit that no other step
/// resolves.
const MAX_DIGESTED: usize = 32;
/// Maximum bytes of these bodies; the last body may exceed it.
const MAX_DIGESTED_BYTES: u64 = 64 << 20;
/// Maximum number of versions whose digests are kept in memory while many revisits are resolved.
const MAX_KNOWN_VERSIONS: usize = 200_000;

/// The references of a revisit to its original.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sought {
    /// The key of the URL that it names, if it is not its own.
    named: Option<Vec<u8>>,
    own: Vec<u8>,
    fetched_at_ms: i64,
    digest: Option<Digest>,
    refers_to_ms: Option<i64>,
    refers_to_id: Option<String>,
    is_not_modified: bool,
}

impl Sought {
    /// The key of the revisit itself.
    pub(crate) fn own(&self) -> &[u8] {
        &self.own
    }

    /// The key of the URL that it names, if that has another host: another store may have it.
    pub(crate) fn elsewhere(&self) -> Option<&[u8]> {
        let named = self.named.as_deref()?;
        (urlindex::host(key::url(named)) != urlindex::host(key::url(&self.own))).then_some(named)
    }

    /// Returns whether a version with only a known time may be the original.
    fn may_mean_any(&self) -> bool {
        self.digest.is_some() || self.refers_to_id.is_some()
    }

    /// Its approximate size in memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let id = self.refers_to_id.as_ref().map_or(0, String::len);
        256 + self.own.len() + self.named.as_ref().map_or(0, Vec::len) + id
    }
}

/// The versions of one key that may be originals.
#[derive(Default)]
struct Originals {
    /// Versions with their own body, oldest first.
    whole: Vec<Candidate>,
    /// Versions that are revisits themselves, oldest first.
    revisits: Vec<Candidate>,
    /// Versions of `whole` by digest, oldest first.
    by_digest: HashMap<Digest, Vec<Version>>,
    /// By record id: true for a revisit, and the index in its list.
    by_id: HashMap<String, (bool, usize)>,
    /// Unreadable versions of `whole`, with their errors; only their time is known.
    lost: BTreeMap<Version, Arc<Error>>,
    /// Versions that the handle's filter rejects.
    hidden: BTreeSet<Version>,
    /// Computed digests of bodies, in an algorithm that a revisit uses and the versions do not.
    /// The key is the digest of an empty body in that algorithm.
    digested: HashMap<Digest, Digests>,
}

/// Versions with the digests of their bodies.
type Digests = Vec<(Version, Digest)>;

struct Candidate {
    version: Version,
    digest: Option<Digest>,
}

impl Candidate {
    /// Returns whether its digest allows it to be the original.
    fn agrees(&self, sought: &Sought) -> bool {
        match (&self.digest, &sought.digest) {
            (Some(own), Some(wanted)) => own == wanted || !own.is_comparable(wanted),
            _ => true,
        }
    }
}

impl PageStore {
    /// Gives `page` the body of its original, if it is a revisit with its original in the store.
    pub(super) fn resolve(&self, own_key: &[u8], page: &mut Page) -> Result<()> {
        if let Some((original, _)) = self.original_and_steps(own_key, page)? {
            take_body(page, original);
        }
        Ok(())
    }

    /// The original of `page`, if it is a revisit with its original in the store, and the length
    /// of the path to it.
    pub(crate) fn original_and_steps(&self, own_key: &[u8], page: &Page) -> Result<Option<(StoredVersion, usize)>> {
        let Some(sought) = self.sought(own_key, page) else { return Ok(None) };
        let lost = |error: Error| match error {
            error if error.is_damage() => {
                let (url, time_ms) = (shown_url(own_key), page.fetched_at_ms);
                Error::LostOriginal { url, time_ms, source: Arc::new(error) }
            }
            error => error,
        };
        self.resolving(own_key).original_of(&sought).map_err(lost)
    }

    /// The original of a revisit with these references, and the length of the path to it.
    fn original_of(&self, sought: &Sought) -> Result<Option<(StoredVersion, usize)>> {
        let mut path = Resolver::new(self).path(sought)?;
        let steps = path.len();
        let Some((key, version)) = path.pop() else { return Ok(None) };
        let original = self.version_at_home(&key, version)?;
        Ok(original.map(|original| (original, steps)))
    }

    pub(crate) fn value_of(&self, key: &[u8], version: Version) -> Result<Option<Value>> {
        self.engine().get_version(key, version).map_err(|error| unreadable(key, Some(version), error.into()))
    }

    /// The references of `page` to its original, if it is a revisit.
    pub(crate) fn sought(&self, own_key: &[u8], page: &Page) -> Option<Sought> {
        let revisit = page.revisit.as_ref().filter(|_| page.kind == RecordKind::Revisit)?;
        let variant = key::variant(own_key);
        let of_variant = |url: &[u8]| self.key_of(url, RecordKind::Response, variant.as_ref()).ok();
        let named = revisit.refers_to_url.as_deref().and_then(of_variant);
        Some(Sought {
            named: named.filter(|key| key != own_key),
            own: own_key.to_vec(),
            fetched_at_ms: page.fetched_at_ms,
            digest: page.digest.as_deref().and_then(Digest::parse),
            refers_to_ms: revisit.refers_to_ms,
            refers_to_id: revisit.refers_to_id.clone(),
            is_not_modified: revisit.profile == RevisitProfile::ServerNotModified,
        })
    }

    fn originals(&self, key: &[u8], admits: &Admits) -> Result<Originals> {
        let mut originals = Originals::default();
        let mut heads: Vec<_> = self.each_head(key.to_vec()).collect();
        let variant = key::variant(key);
        let passes = |own_url: Option<&[u8]>, version: Version| {
            let (url, variant) = (key::url(key), variant.as_ref());
            admits.passes(&MaybeOriginal { url, own_url, variant, version })
        };
        while let Some((version, head)) = heads.pop() {
            match (version, head.and_then(|head| Ok((self.describe(key, &head)?, head.version)))) {
                (_, Ok((page, version))) => {
                    if !passes(Some(&page.url), version) {
                        originals.hidden.insert(version);
                    }
                    let digest = page.digest.as_deref().and_then(Digest::parse);
                    // A detached revisit is found only as the revisit that it was.
                    originals.push(version, digest, page.record_id, page.revisit.is_some());
                }
                (Some(version), Err(error)) if error.is_damage() && passes(None, version) => {
                    originals.push_lost(version, error);
                }
                (Some(version), Err(error)) if error.is_damage() => {
                    originals.hidden.insert(version);
                    originals.push(version, None, None, false);
                }
                (_, Err(error)) => return Err(error),
            }
        }
        Ok(originals)
    }
}

/// Resolves revisits of a store, or of those that are one with it. Keeps the versions that it has
/// read of each key, so that many revisits of few URLs take linear time.
pub(crate) struct Resolver<'a> {
    store: &'a PageStore,
    known: HashMap<Vec<u8>, Originals>,
    known_versions: usize,
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(store: &'a PageStore) -> Resolver<'a> {
        Resolver { store, known: HashMap::new(), known_versions: 0 }
    }

    /// The key and version of the original.
    pub(super) fn find(&mut self, sought: &Sought) -> Result<Option<(Vec<u8>, Version)>> {
        Ok(self.path(sought)?.pop())
    }

    /// The path of versions to the original, which is the last; empty if there is none.
    pub(crate) fn path(&mut self, sought: &Sought) -> Result<Vec<(Vec<u8>, Version)>> {
        let mut sought = sought.clone();
        let mut path = Vec::new();
        while path.len() < MAX_STEPS {
            match self.step(&sought)? {
                Step::Original(key, version) => {
                    path.push((key, version));
                    return Ok(path);
                }
                Step::Nothing => break,
                Step::Revisit(key, version) => {
                    let Some(found) = self.store.version_at_home(&key, version)? else { break };
                    let next = self.store.sought(&key, &found.page);
                    path.push((key, version));
                    let Some(next) = next else { return Ok(path) };
                    let digest = next.digest.or(sought.digest);
                    sought = Sought { digest, ..next };
                }
            }
        }
        Ok(Vec::new())
    }

    fn step(&mut self, sought: &Sought) -> Result<Step> {
        let store = self.store;
        let keys = || sought.named.iter().chain([&sought.own]);
        // The named version, if it is unreadable or hidden; and an unreadable version that may be
        // the original.
        let (mut lost, mut is_hidden, mut maybe) = (None, false, None);
        for key in keys() {
            let originals = self.originals(key)?;
            maybe = maybe.or_else(|| originals.newest_lost(store, key));
            // If the named version is lost, only an id or digest identifies another.
            let is_gone = lost.is_some() || is_hidden;
            let chosen = if is_gone { originals.of_id_or_digest(sought) } else { originals.choose(sought) };
            if let Some(version) = chosen {
                lost = originals.lost_of(store, key, version);
                is_hidden = originals.hidden.contains(&version);
                if lost.is_none() && !is_hidden {
                    return Ok(Step::Original(key.clone(), version));
                }
                continue;
            }
            let is_meant = !is_gone && sought.named.as_ref().is_none_or(|named| named == key);
            if let Some(version) = originals.named_revisit(sought, is_meant) {
                if !originals.hidden.contains(&version) {
                    return Ok(Step::Revisit(key.clone(), version));
                }
                is_hidden = true;
            }
        }
        for key in keys().filter_map(|key| other_scheme(key)) {
            let originals = self.originals(&key)?;
            maybe = maybe.or_else(|| originals.newest_lost(store, &key));
            let found = originals.of_id_or_digest(sought);
            if let Some(version) = found.filter(|version| !originals.hidden.contains(version)) {
                return Ok(Step::Original(key, version));
            }
        }
        if lost.is_none() {
            let others = keys().filter_map(|key| other_scheme(key));
            for key in keys().cloned().chain(others) {
                if let Some(version) = self.of_body(&key, sought)? {
                    return Ok(Step::Original(key, version));
                }
            }
        }
        let lost = lost.or(maybe.filter(|_| sought.may_mean_any()));
        lost.map_or(Ok(Step::Nothing), Err)
    }

    /// The version whose body has the digest of the revisit, among versions with no comparable
    /// their own digest.
    fn of_body(&mut self, key: &[u8], sought: &Sought) -> Result<Option<Version>> {
        let Some((wanted, of_nothing)) = sought.digest.as_ref().and_then(|digest| Some((digest, digest.of(b"")?)))
        else {
            return Ok(None);
        };
        let find = |digested: &[(Version, Digest)]| {
            digested.iter().find(|(_, digest)| digest == wanted).map(|(version, _)| *version)
        };
        if let Some(digested) = self.originals(key)?.digested.get(&of_nothing) {
            return Ok(find(digested));
        }
        let (digested, unread) = self.digested(key, wanted)?;
        let found = find(&digested);
        match (found, unread) {
            // The unreadable version may be the original.
            (None, Some(error)) => return Err(error),
            (_, Some(_)) => {}
            (_, None) => {
                if let Some(originals) = self.known.get_mut(key) {
                    originals.digested.insert(of_nothing, digested);
                }
            }
        }
        Ok(found)
    }

    /// Digests, in the algorithm of `wanted`, of the bodies of versions whose own digest cannot be
    /// compared with it, newest first; and the error of an unreadable one.
    fn digested(&mut self, key: &[u8], wanted: &Digest) -> Result<(Digests, Option<Error>)> {
        let store = self.store;
        let originals = self.originals(key)?;
        let untold = originals.whole.iter().rev().filter(|candidate| {
            !candidate.digest.as_ref().is_some_and(|digest| digest.is_comparable(wanted))
                && originals.is_usable(&candidate.version)
        });
        let (mut digested, mut unread, mut bytes) = (Vec::new(), None, 0);
        for candidate in untold.take(MAX_DIGESTED) {
            if bytes > MAX_DIGESTED_BYTES {
                break;
            }
            let version = candidate.version;
            match store.version_at_home(key, version) {
                Ok(found) => {
                    bytes += found.as_ref().map_or(0, |found| found.page.body.len() as u64);
                    let digest = found.and_then(|found| wanted.of(&found.page.body));
                    digested.extend(digest.map(|digest| (version, digest)));
                }
                Err(error) if error.is_damage() => unread = unread.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        Ok((digested, unread))
    }

    fn originals(&mut self, key: &[u8]) -> Result<&Originals> {
        if !self.known.contains_key(key) {
            let store = self.store;
            let originals = store.home(key).originals(key, &store.admits);
            let originals = originals.map_err(|error| store.of_home(key, error))?;
            let versions = 1 + originals.whole.len() + originals.revisits.len();
            if self.known_versions + versions > MAX_KNOWN_VERSIONS {
                self.known.clear();
                self.known_versions = 0;
            }
            self.known_versions += versions;
            self.known.insert(key.to_vec(), originals);
        }
        Ok(&self.known[key])
    }
}

/// The result of one step of the search.
enum Step {
    Original(Vec<u8>, Version),
    /// The named version is a revisit itself.
    Revisit(Vec<u8>, Version),
    Nothing,
}

impl Originals {
    /// Adds a version, later than all before it.
    fn push(&mut self, version: Version, digest: Option<Digest>, id: Option<String>, is_revisit: bool) {
        let list = if is_revisit { &mut self.revisits } else { &mut self.whole };
        if let Some(id) = id {
            self.by_id.insert(id, (is_revisit, list.len()));
        }
        if let Some(digest) = digest.as_ref().filter(|_| !is_revisit && !self.hidden.contains(&version)) {
            self.by_digest.entry(digest.clone()).or_default().push(version);
        }
        list.push(Candidate { version, digest });
    }

    /// The error of a version of this key, if it cannot be read; `store` is the one that asks.
    fn lost_of(&self, store: &PageStore, key: &[u8], version: Version) -> Option<Error> {
        let source = Arc::clone(self.lost.get(&version)?);
        Some(store.of_home(key, Error::Unreadable { url: shown_url(key), version, source }))
    }

    /// As [`Originals::lost_of`], of the newest version that cannot be read.
    fn newest_lost(&self, store: &PageStore, key: &[u8]) -> Option<Error> {
        self.lost.keys().next_back().and_then(|version| self.lost_of(store, key, *version))
    }

    /// As [`Originals::push`], for an unreadable version.
    fn push_lost(&mut self, version: Version, error: Error) {
        self.whole.push(Candidate { version, digest: None });
        let why = if let Error::Unreadable { source, .. } = error { source } else { Arc::new(error) };
        self.lost.insert(version, why);
    }

    /// Returns whether a version can be read and passes the handle's filter.
    fn is_usable(&self, version: &Version) -> bool {
        !self.lost.contains_key(version) && !self.hidden.contains(version)
    }

    fn choose(&self, sought: &Sought) -> Option<Version> {
        let by_id = self.of_id(sought, false);
        let named = by_id.or_else(|| named_time(&self.whole, sought));
        let usable = named.filter(|version| self.is_usable(version));
        usable.or_else(|| self.of_digest(sought)).or(named).or_else(|| self.before(sought))
    }

    fn of_id_or_digest(&self, sought: &Sought) -> Option<Version> {
        self.of_id(sought, false).or_else(|| self.of_digest(sought))
    }

    fn of_id(&self, sought: &Sought, is_revisit: bool) -> Option<Version> {
        let &(found, at) = self.by_id.get(sought.refers_to_id.as_ref()?)?;
        let candidate = if is_revisit { &self.revisits } else { &self.whole }.get(at)?;
        (found == is_revisit && candidate.agrees(sought)).then_some(candidate.version)
    }

    /// The newest version with the same digest that is not later than the revisit, else the
    /// oldest.
    fn of_digest(&self, sought: &Sought) -> Option<Version> {
        let versions = self.by_digest.get(sought.digest.as_ref()?)?;
        let later = versions.partition_point(|version| version.time_ms <= sought.fetched_at_ms);
        versions.get(later.saturating_sub(1)).copied()
    }

    /// For "not modified": the newest version that is not later.
    fn before(&self, sought: &Sought) -> Option<Version> {
        let later = self.whole.partition_point(|candidate| candidate.version.time_ms <= sought.fetched_at_ms);
        self.whole[..later].last().filter(|_| sought.is_not_modified).map(|candidate| candidate.version)
    }

    /// The revisit named as the original; by its time only if `is_meant`: its URL is the one
    /// named.
    fn named_revisit(&self, sought: &Sought, is_meant: bool) -> Option<Version> {
        self.of_id(sought, true).or_else(|| named_time(&self.revisits, sought).filter(|_| is_meant))
    }
}

/// The candidate nearest to the named time, less than a second away: dates in archives may lack
/// the milliseconds.
fn named_time(candidates: &[Candidate], sought: &Sought) -> Option<Version> {
    let time_ms = sought.refers_to_ms?;
    let from = candidates.partition_point(|candidate| candidate.version.time_ms <= time_ms.saturating_sub(1000));
    let distance = |candidate: &Candidate| candidate.version.time_ms.abs_diff(time_ms);
    let near = candidates[from..].iter().take(MAX_OF_ONE_SECOND).take_while(|candidate| distance(candidate) < 1000);
    let agreeing = near.filter(|candidate| candidate.agrees(sought));
    let nearest = agreeing.min_by_key(|candidate| (distance(candidate), Reverse(candidate.version)));
    nearest.map(|candidate| candidate.version)
}

/// The same URL with the other scheme of http and https.
fn other_scheme(key: &[u8]) -> Option<Vec<u8>> {
    if let Some(rest) = key.strip_prefix(b"https://") {
        return Some([b"http://", rest].concat());
    }
    key.strip_prefix(b"http://").map(|rest| [b"https://", rest].concat())
}

/// Gives a revisit the body of `original`, and adjusts its headers to it.
pub(crate) fn take_body(page: &mut Page, original: StoredVersion) {
    page.headers.align(&original.page.headers, original.page.body.len() as u64);
    page.body = original.page.body;
    if let Some(revisit) = &mut page.revisit {
        revisit.original = Some(Original { key: original.key, fetched_at_ms: original.version.time_ms });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A digest of real length that differs by its first letter; `None` for empty text.
    fn digest(text: &str) -> Option<Digest> {
        let letter = text.to_uppercase();
        (!text.is_empty()).then(|| Digest::parse(&format!("sha1:{}", letter.repeat(32))).expect("a digest"))
    }

    fn run(candidates: &[(i64, &str)], wanted: &str, time: Option<i64>, is_not_modified: bool) -> Option<i64> {
        let mut originals = Originals::default();
        for &(time_ms, text) in candidates {
            originals.push(Version { time_ms, sequence: time_ms as u64 }, digest(text), None, false);
        }
        originals.choose(&sought(wanted, time, is_not_modified)).map(|version| version.time_ms)
    }

    fn sought(wanted: &str, time: Option<i64>, is_not_modified: bool) -> Sought {
        Sought {
            named: None,
            own: b"http://a/".to_vec(),
            fetched_at_ms: 50_000,
            digest: digest(wanted),
            refers_to_ms: time,
            refers_to_id: None,
            is_not_modified,
        }
    }

    #[test]
    fn the_named_time_comes_first_unless_digests_differ() {
        let all = [(10_000, "a"), (20_500, "a"), (30_000, "b")];
        assert_eq!(run(&all, "a", Some(10_000), false), Some(10_000));
        assert_eq!(run(&all, "a", Some(20_000), false), Some(20_500));
        assert_eq!(run(&all, "a", Some(30_000), false), Some(20_500));
        assert_eq!(run(&all, "", Some(30_000), false), Some(30_000));
    }

    #[test]
    fn the_digest_comes_next_and_the_newest_not_later_is_taken() {
        let all = [(10_000, "a"), (20_000, "a"), (60_000, "a"), (70_000, "c")];
        assert_eq!(run(&all, "a", None, false), Some(20_000));
        assert_eq!(run(&all, "c", None, false), Some(70_000));
        assert_eq!(run(&all, "x", None, false), None);
    }

    #[test]
    fn only_not_modified_takes_the_version_before_it() {
        let all = [(10_000, ""), (20_000, ""), (60_000, "")];
        assert_eq!(run(&all, "", None, true), Some(20_000));
        assert_eq!(run(&all, "", None, false), None);
    }

    #[test]
    fn what_is_named_and_lost_is_chosen_unless_another_has_the_digest() {
        let mut originals = Originals::default();
        let version = |time_ms: i64| Version { time_ms, sequence: time_ms as u64 };
        originals.push(version(10_000), digest("a"), None, false);
        originals.push_lost(version(20_000), Error::Engine(filemap_core::Error::Closed));
        for (wanted, time, is_not_modified, expected) in [
            ("a", Some(20_000), false, Some(10_000)),
            ("b", Some(20_000), false, Some(20_000)),
            ("", Some(20_000), true, Some(20_000)),
            ("", None, true, Some(20_000)),
            ("b", Some(10_000), false, None),
        ] {
            let chosen = originals.choose(&sought(wanted, time, is_not_modified)).map(|version| version.time_ms);
            assert_eq!(chosen, expected, "{wanted} {time:?}");
        }
    }

    #[test]
    fn http_and_https_are_each_others_other_scheme() {
        assert_eq!(other_scheme(b"http://a/b").as_deref(), Some(&b"https://a/b"[..]));
        assert_eq!(other_scheme(b"https://a/b").as_deref(), Some(&b"http://a/b"[..]));
        assert_eq!(other_scheme(b"ftp://a/b"), None);
    }
}
