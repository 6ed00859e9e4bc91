//! Revisits that stay while what they have their body from goes: they get one of their own.

use filemap_core::{Erasure, Version};

use super::{EraseProgress, Watch};
use crate::error::Result;
use crate::page::Page;
use crate::store::{Loader, PageStore, Resolver, Sought, take_body};

/// Revisits are looked at together, so that the versions of a URL are read once for many: so many bytes of them.
const BATCH_BYTES: usize = 48 << 20;
/// So many bytes of bodies are put before the revisits go that had none.
const PUT_BYTES: u64 = 64 << 20;
/// So many versions are looked at between two looks at whether to go on.
const VERSIONS_AT_ONCE: u64 = 1024;

/// Revisits that are looked at, or that have a body of their own now.
type Batch = Vec<(Sought, Version)>;

impl PageStore {
    /// Puts every revisit that stays and has its body from what goes again, as a page with that body; how many. The revisit
    /// goes after that, before anything else does: interrupted, it is done again, and puts nothing twice. A body that a rule
    /// refuses goes all the same, and so does what damage keeps from being read. With `dry`, they are only counted.
    pub(super) fn detach_revisits(&self, what: &Erasure, dry: bool, watch: Watch<'_>) -> Result<u64> {
        let (mut batch, mut bytes, mut seen, mut detached) = (Batch::new(), 0, 0, 0);
        let mut go_on = || {
            seen += 1;
            seen % VERSIONS_AT_ONCE != 1 || watch(EraseProgress::Detaching(seen - 1)).is_continue()
        };
        let whole = self.each_revisit(&mut go_on, &mut |key, head| {
            if (what.versions)(&key, head.version) {
                return Ok(());
            }
            let Some(sought) = self.sought(&key, &head.page) else { return Ok(()) };
            bytes += sought.bytes();
            batch.push((sought, head.version));
            if bytes > BATCH_BYTES {
                bytes = 0;
                detached += self.detach(std::mem::take(&mut batch), what, dry)?;
            }
            Ok(())
        })?;
        if !whole {
            return Err(filemap_core::Error::Stopped.into());
        }
        Ok(detached + self.detach(batch, what, dry)?)
    }

    fn detach(&self, mut batch: Batch, what: &Erasure, dry: bool) -> Result<u64> {
        // The newest of a key first: those before it can refer to its body then.
        batch.sort_unstable_by(|a, b| b.cmp(a));
        let (mut resolver, mut loader) = (Resolver::new(self), Loader::default());
        let (mut replaced, mut bytes, mut detached) = (Batch::new(), 0, 0);
        let mut whole: Option<(Vec<u8>, bool)> = None;
        for (sought, version) in batch {
            let path = match resolver.path(&sought) {
                Err(error) if error.is_damage() => continue,
                path => path?,
            };
            if !path.iter().any(|(key, version)| (what.versions)(key, *version)) {
                continue;
            }
            detached += 1;
            let Some(original) = path.last().filter(|_| !dry) else { continue };
            if whole.as_ref().is_none_or(|(key, _)| key != sought.own()) {
                let versions = self.engine().versions_of(sought.own()).unwrap_or_default();
                let goes = versions.iter().any(|version| (what.versions)(sought.own(), *version));
                whole = Some((sought.own().to_vec(), !goes));
            }
            // A body that may go is not referred to: it would have to be given anew.
            let may_refer = whole.as_ref().is_some_and(|(_, whole)| *whole);
            match self.put_with_body(&mut loader, (sought.own(), version), original, may_refer) {
                Ok(Some(put)) => bytes += put,
                Err(error) if !error.is_damage() && error.refused_by().is_none() => return Err(error),
                _ => {
                    detached -= 1;
                    continue;
                }
            }
            replaced.push((sought, version));
            if bytes > PUT_BYTES {
                bytes = 0;
                self.drop_replaced(std::mem::take(&mut replaced))?;
            }
        }
        self.drop_replaced(replaced)?;
        Ok(detached)
    }

    /// Puts a revisit again with the body of its original, of so many bytes; `None` if one of them is gone.
    fn put_with_body(
        &self,
        loader: &mut Loader,
        (key, version): (&[u8], Version),
        original: &(Vec<u8>, Version),
        may_refer: bool,
    ) -> Result<Option<u64>> {
        let Some(value) = self.value_of(key, version)? else { return Ok(None) };
        let mut page = self.stored(key, value)?;
        let Some(value) = self.value_of(&original.0, original.1)? else { return Ok(None) };
        let original = self.stored_version(original.0.clone(), value)?;
        let (kind, truncated) = (original.page.kind, original.page.truncated.clone());
        take_body(&mut page, original);
        // What it was stays with it: others may have their body through it, and none by chance.
        let page = Page { kind, truncated: page.truncated.or(truncated), ..page };
        loader.put_stored_if_new(self, &page, may_refer)?;
        Ok(Some(page.body.len() as u64))
    }

    fn drop_replaced(&self, replaced: Batch) -> Result<()> {
        if replaced.is_empty() {
            return Ok(());
        }
        self.engine().drop_versions(replaced.iter().map(|(sought, version)| (sought.own(), *version)))?;
        Ok(())
    }
}
