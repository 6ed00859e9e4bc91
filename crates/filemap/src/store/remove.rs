//! Removes single versions of a page, with the records beside them. A revisit of the same page
//! that has its body from such a version gets that body as its own.

use filemap_core::{Error as EngineError, Head, Record, Version};

use super::{Loader, PageStore, Resolver, take_body};
use crate::access::RemovedVersions;
use crate::access::interface::Lookup;
use crate::error::{Error, Result};
use crate::page::version::BodyForm;
use crate::page::{Page, RecordKind, key};

impl PageStore {
    /// Removes all versions of a page that were fetched at exactly this time, in ms since 1970,
    /// and the records beside them; `None` if there is none. Of `lookup` only URL and variant
    /// count. Durable when it returns.
    ///
    /// A revisit of the same page (of the same variant) that has its body from such a version is
    /// put again with that body. Revisits of other URLs are not searched: they no longer resolve.
    /// Costs two checkpoints for each version and record removed, and for each such revisit. After
    /// an interruption, a repeated call continues.
    ///
    /// # Errors
    ///
    /// [`Error::Url`](crate::Error::Url), and those of
    /// [`filemap_core::Store::remove_version`].
    pub fn remove_at<'l>(&self, lookup: impl Into<Lookup<'l>>, time_ms: i64) -> Result<Option<RemovedVersions>> {
        self.remove_those(&lookup.into(), &|version| version.time_ms == time_ms)
    }

    /// As [`PageStore::remove_at`], for one version. Records beside it are removed if no version
    /// of its time is left.
    ///
    /// # Errors
    ///
    /// As [`PageStore::remove_at`].
    pub fn remove_version<'l>(
        &self,
        lookup: impl Into<Lookup<'l>>,
        version: Version,
    ) -> Result<Option<RemovedVersions>> {
        self.remove_those(&lookup.into(), &|other| other == version)
    }

    fn remove_those(&self, lookup: &Lookup<'_>, is_meant: &dyn Fn(Version) -> bool) -> Result<Option<RemovedVersions>> {
        let canonical = self.key(lookup.url)?;
        let own = key::key(&canonical, RecordKind::Response, lookup.variant);
        if own.len() > Record::MAX_KEY_BYTES {
            return Err(EngineError::KeyLength { len: own.len() }.into());
        }
        let all = self.engine().versions_of(&own)?;
        let goes: Vec<Version> = all.iter().copied().filter(|version| is_meant(*version)).collect();
        if goes.is_empty() {
            return Ok(None);
        }
        let mut removed = RemovedVersions::default();
        self.part_revisits(&own, &goes, &mut removed)?;
        let stays = |time_ms| all.iter().any(|other| other.time_ms == time_ms && !goes.contains(other));
        // The versions last: an interrupted removal leaves them, and a repeated one finds the
        // rest.
        for kind in RecordKind::ALL.into_iter().filter(|kind| !kind.is_page()) {
            let beside = key::key(&canonical, kind, lookup.variant);
            if beside.len() > Record::MAX_KEY_BYTES {
                continue;
            }
            for record in self.engine().versions_of(&beside)? {
                if !stays(record.time_ms) && goes.iter().any(|version| version.time_ms == record.time_ms) {
                    removed.beside += u64::from(self.engine().remove_version(&beside, record)?);
                }
            }
        }
        // References first: they have the greater sequence. If an original went first, its
        // reference would be put again.
        let mut goes = goes;
        goes.sort_unstable_by_key(|version| std::cmp::Reverse(version.sequence));
        for version in goes {
            removed.versions += u64::from(self.engine().remove_version(&own, version)?);
        }
        Ok(Some(removed))
    }

    /// Revisits that have their bodies from versions to be removed are put again with these
    /// bodies.
    fn part_revisits(&self, own: &[u8], goes: &[Version], removed: &mut RemovedVersions) -> Result<()> {
        let store = self.resolving(own);
        let (mut resolver, mut loader, mut replaced) = (Resolver::new(&store), Loader::default(), Vec::new());
        // A damaged version is not readable, with or without a body.
        let is_read = |head: &Result<Head>| !head.as_ref().is_err_and(Error::is_damage);
        let heads: Vec<Head> =
            self.each_head(own.to_vec()).map(|(_, head)| head).filter(is_read).collect::<Result<_>>()?;
        for head in heads.iter().filter(|head| !goes.contains(&head.version)) {
            let Some(sought) = self.sought(own, &self.describe(own, head)?) else { continue };
            let path = match resolver.path(&sought) {
                // It had no body before: its original is damaged.
                Err(error) if error.is_damage() => continue,
                path => path?,
            };
            let is_parted = path.iter().any(|(key, version)| key == own && goes.contains(version));
            let Some(original) = path.last().filter(|_| is_parted) else { continue };
            match store.put_with_body(&mut loader, (own, head.version), original, BodyForm::Whole) {
                Ok(Some(_)) => replaced.push(head.version),
                Ok(None) => {}
                Err(error) if error.is_damage() || error.refused_by().is_some() => removed.without_body += 1,
                Err(error) => return Err(error),
            }
        }
        replaced.sort_unstable_by_key(|version| std::cmp::Reverse(version.sequence));
        for version in replaced {
            removed.parted += u64::from(self.engine().remove_version(own, version)?);
        }
        Ok(())
    }

    /// Puts a revisit again with the body of its original. Returns the length of the body; `None`
    /// if one of the two was removed.
    pub(crate) fn put_with_body(
        &self,
        loader: &mut Loader,
        (key, version): (&[u8], Version),
        original: &(Vec<u8>, Version),
        form: BodyForm,
    ) -> Result<Option<u64>> {
        let Some(value) = self.value_of(key, version)? else { return Ok(None) };
        let mut page = self.stored(key, value)?;
        let Some(original) = self.version_at_home(&original.0, original.1)? else { return Ok(None) };
        let (kind, truncated) = (original.page.kind, original.page.truncated.clone());
        take_body(&mut page, original);
        // It still says that it was a revisit: others may get their body through it.
        let page = Page { kind, truncated: page.truncated.or(truncated), ..page };
        loader.put_stored_if_new(self, &page, form)?;
        Ok(Some(page.body.len() as u64))
    }
}
