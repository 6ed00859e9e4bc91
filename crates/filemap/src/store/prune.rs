//! Pruning: the engine drops old versions, and keeps the originals of revisits that stay.
//!
//! The engine knows which versions refer to the body of another version of their key. Only this
//! crate knows revisits, whose body may be under any key: one pass over the descriptions finds
//! them, and the originals of those that stay are passed to the engine as needed. Of stores that
//! are one, each keeps what revisits in any of them need.

use std::ops::ControlFlow;
use std::sync::Arc;

use filemap_core::Version;
use filemap_core::erase::KeyFilter;
use filemap_core::prune::{Needed, PruneProgress, PruneRule, Pruned, Spared};

use super::PageStore;
use super::revisit::Resolver;
use super::unresolved::FoundRevisit;
use crate::error::{Error, Result};
use crate::page::key;

/// Progress of [`PageStore::prune`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::ops::ControlFlow;
/// # use filemap::{Options, Page, PageStore};
/// use filemap::store::PruneStep;
/// use filemap_core::prune::PruneRule;
///
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// let mut rule = PruneRule::default();
/// rule.keep_versions = Some(1);
/// let pruned = store.prune(rule, &mut |step| {
///     if let PruneStep::Revisits(versions) = step {
///         println!("{versions} versions read");
///     }
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!(pruned.versions, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PruneStep {
    /// Versions read so far to find revisits.
    Revisits(u64),
    /// Progress of the engine.
    Pruning(PruneProgress),
}

/// The keys to prune; `None`: all.
pub(crate) type Keys = Option<KeyFilter>;
type Progress<'a> = &'a mut dyn FnMut(PruneStep) -> ControlFlow<()>;

impl PageStore {
    /// Drops the versions that a rule does not keep, as [`filemap_core::Store::prune`] does, but
    /// keeps the original of each revisit that stays: every version that stays reads as before.
    /// Finding the revisits takes a sequential pass over the value log, which decompresses no
    /// body, and 40 bytes of memory for each version that a revisit leads to.
    ///
    /// The original of a revisit that is put during the call may be dropped. A member of a store
    /// over several folders keeps the originals that revisits in the others need, as far as the
    /// rule keeps those: see [`ShardedStore::spared`](crate::sharded::ShardedStore::spared).
    ///
    /// # Errors
    ///
    /// Those of [`filemap_core::Store::prune`].
    pub fn prune(&self, rule: PruneRule, progress: Progress<'_>) -> Result<Pruned> {
        self.prune_urls(rule, None, progress)
    }

    /// As [`PageStore::prune`], for the pages whose canonical URL passes `filter`, with their
    /// variants and the records beside them. All other pages keep every version, and the originals
    /// that those need.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::ops::ControlFlow;
    /// # use filemap::{Options, Page, PageStore};
    /// use filemap::access::Scope;
    /// use filemap_core::prune::PruneRule;
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
    /// for url in ["http://news.example.com/", "http://example.org/"] {
    ///     store.put_page(&Page::new(url, 1_500_000_000_000, 200, "hello"))?;
    /// }
    /// let mut rule = PruneRule::default();
    /// rule.since_ms = Some(1_600_000_000_000);
    /// let news = Scope::new().domain("example.com").filter();
    /// let pruned = store.prune_where(rule, news, &mut |_| ControlFlow::Continue(()))?;
    /// assert_eq!((pruned.versions, store.contains("http://example.org/")?), (1, true));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`PageStore::prune`]; `InvalidOption` for `max_live_bytes`, which limits the whole
    /// store.
    pub fn prune_where(
        &self,
        rule: PruneRule,
        filter: impl Fn(&[u8]) -> bool + Send + Sync + 'static,
        progress: Progress<'_>,
    ) -> Result<Pruned> {
        self.prune_urls(rule, by_url(filter), progress)
    }

    fn prune_urls(&self, rule: PruneRule, keys: Keys, progress: Progress<'_>) -> Result<Pruned> {
        check(rule, &keys)?;
        // Fails before the pass, which takes long.
        if self.engine().is_read_only() {
            return Err(filemap_core::Error::ReadOnly.into());
        }
        let Some(spared) = self.spared(rule, keys, progress)? else {
            let mut stopped = Pruned::default();
            stopped.is_cancelled = true;
            stopped.live_bytes = self.engine().stats().live_bytes;
            return Ok(stopped);
        };
        Ok(self.engine().prune_with(rule, &spared, &mut |step| progress(PruneStep::Pruning(step)))?)
    }

    /// Counts the versions that [`PageStore::prune`] would drop. Changes nothing; any handle may
    /// call it.
    ///
    /// # Errors
    ///
    /// Those of [`filemap_core::Store::prune_plan`].
    pub fn prune_plan(&self, rule: PruneRule, progress: Progress<'_>) -> Result<Pruned> {
        self.plan_urls(rule, None, progress)
    }

    /// Counts the versions that [`PageStore::prune_where`] would drop.
    ///
    /// # Errors
    ///
    /// As [`PageStore::prune_plan`] and [`PageStore::prune_where`].
    pub fn prune_plan_where(
        &self,
        rule: PruneRule,
        filter: impl Fn(&[u8]) -> bool + Send + Sync + 'static,
        progress: Progress<'_>,
    ) -> Result<Pruned> {
        self.plan_urls(rule, by_url(filter), progress)
    }

    fn plan_urls(&self, rule: PruneRule, keys: Keys, progress: Progress<'_>) -> Result<Pruned> {
        check(rule, &keys)?;
        let Some(spared) = self.spared(rule, keys, progress)? else {
            return Err(filemap_core::Error::Cancelled.into());
        };
        Ok(self.engine().prune_plan_with(rule, &spared, &mut |step| progress(PruneStep::Pruning(step)))?)
    }

    /// The keys to prune, and the versions on the way from revisits that stay to their originals;
    /// `None` if cancelled.
    fn spared(&self, rule: PruneRule, keys: Keys, progress: Progress<'_>) -> Result<Option<Spared>> {
        let (stores, own) = self.together();
        let all = spared_of(&stores, rule, keys, progress)?;
        Ok(all.and_then(|all| all.into_iter().nth(own)))
    }

    /// Adds what the revisits of this store need, to the needs of the store that has it.
    fn add_needed(
        &self,
        (rule, keys): (PruneRule, &Keys),
        batch: Vec<FoundRevisit>,
        needs: &mut [Needed],
    ) -> Result<()> {
        let alone = self.alone();
        let (mut resolver, mut of_strays) = (Resolver::new(self), Resolver::new(&alone));
        // The versions of this key that the rule keeps; `None` if it drops none: the key is
        // damaged, or not pruned.
        let (mut key, mut kept, mut is_meant) = (Vec::new(), None, true);
        for (sought, version) in batch {
            if key != sought.own() {
                key = sought.own().to_vec();
                is_meant = keys.as_ref().is_none_or(|keys| keys(&key));
                kept = match is_meant {
                    true => readable(self.engine().kept_by(rule, &key).map_err(Error::from))?,
                    false => None,
                };
            }
            let stays = kept.as_ref().is_none_or(|kept| kept.contains(&version));
            if !stays {
                continue;
            }
            // A version that the rule does not cover always stays, however old it is.
            let by = if is_meant { version } else { Version { time_ms: i64::MAX, sequence: u64::MAX } };
            let is_stray = !self.is_home(sought.own());
            let resolver = if is_stray { &mut of_strays } else { &mut resolver };
            // An original that cannot be read has no body to keep.
            for (key, found) in readable(resolver.path(&sought))?.unwrap_or_default() {
                let number = if is_stray { self.own_number() } else { self.home_number(&key) };
                let Some(needed) = needs.get_mut(number) else { continue };
                let youngest = needed.entry(found.sequence).or_insert(by);
                *youngest = by.max(*youngest);
            }
        }
        Ok(())
    }
}

/// What each of these stores, which are one, has to spare: the keys to prune, and the versions on
/// the way from revisits that stay, in any of them, to their originals; `None` if cancelled.
pub(crate) fn spared_of(
    stores: &[PageStore],
    rule: PruneRule,
    keys: Keys,
    progress: Progress<'_>,
) -> Result<Option<Vec<Spared>>> {
    let (mut needs, mut before) = (vec![Needed::new(); stores.len()], 0_u64);
    for store in stores {
        let mut read = 0;
        let mut progress = |versions: u64| {
            read = versions;
            progress(PruneStep::Revisits(before + versions))
        };
        let mut add = |batch| store.add_needed((rule, &keys), batch, &mut needs);
        let whole = store.revisits_in_batches(&mut progress, &mut add);
        let whole = if stores.len() == 1 { whole } else { whole.map_err(|e| e.of_member(store.engine().path())) };
        if !whole? {
            return Ok(None);
        }
        before += read;
    }
    // Marks stay: one could otherwise be dropped while a variant that shares it is put.
    let keys = if rule.max_live_bytes.is_none() { keys.or_else(|| by_url(|_| true)) } else { keys };
    let of_store = |needed: Needed| {
        let mut spared = Spared::default();
        (spared.needed, spared.keys) = (Arc::new(needed), keys.clone());
        spared
    };
    Ok(Some(needs.into_iter().map(of_store).collect()))
}

/// The keys of the URLs that a filter accepts.
pub(crate) fn by_url(filter: impl Fn(&[u8]) -> bool + Send + Sync + 'static) -> Keys {
    Some(Arc::new(move |found: &[u8]| !key::is_own(found) && filter(key::url(found))))
}

/// Checks a rule before the pass over all versions, which takes long.
pub(crate) fn check(rule: PruneRule, keys: &Keys) -> Result<()> {
    let mut spared = Spared::default();
    spared.keys = keys.clone();
    Ok(spared.check(&rule)?)
}

/// The result of a read; `None` if it found damage.
fn readable<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Err(error) if error.is_damage() => Ok(None),
        read => read.map(Some),
    }
}
