//! Detaches revisits: a revisit that stays when its original is erased gets its own body.

use std::ops::ControlFlow;
use std::sync::Arc;

use filemap_core::erase::{Erasure, Rule, RuleState};

use crate::erase::{ByDigest, EraseOrder, EraseProgress, Progress, erasure_of};
use crate::error::{Error, Result};
use crate::page::version::BodyForm;
use crate::store::rules::RuleSet;
use crate::store::{FoundRevisit, Loader, PageStore, Resolver};

/// Bytes of bodies put before the replaced revisits are dropped.
const PUT_BYTES: u64 = 64 << 20;

/// Before an erasure in each member of a store over several folders: puts each revisit that stays
/// but loses its original, in whichever member that is, again as a page with that body. Returns
/// their number. Concerns the rule of `order`, those of `adopted` that hold, and the unfinished
/// ones of all members; makes none of them. A body that goes by its digest is given to no revisit,
/// as in a store in one folder. Takes a pass over the value log of each member.
///
/// # Errors
///
/// As [`PageStore::erase`], with the path of the member.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::ops::ControlFlow;
/// # use std::sync::Arc;
/// # use filemap::canonical::Whatwg;
/// # use filemap::{Options, sharded::ShardedStore};
/// use filemap::erase::{EraseOrder, EraseTarget, detach_among};
///
/// # let dir = tempfile::tempdir()?;
/// # let disks = [dir.path().join("a.fm"), dir.path().join("b.fm")];
/// let store = ShardedStore::open_or_create(&disks, Arc::new(Whatwg), Options::new())?;
/// let order = EraseOrder::new(EraseTarget::Host("example.com".to_owned()), "asked for");
/// detach_among(store.members(), Some(&order), &[], &mut |_| ControlFlow::Continue(()))?;
/// for member in store.members() {
///     assert!(member.erase(&order, &mut |_| ControlFlow::Continue(()))?.is_complete());
/// }
/// # Ok(())
/// # }
/// ```
pub fn detach_among(
    members: &[PageStore],
    order: Option<&EraseOrder>,
    adopted: &[Rule],
    progress: &mut dyn FnMut(EraseProgress) -> ControlFlow<()>,
) -> Result<u64> {
    let mut rules: Vec<Rule> = adopted.iter().filter(|rule| rule.holds()).cloned().collect();
    if let (Some(order), Some(first)) = (order, members.first()) {
        let (what, reason) = (first.what(order, &first.engine().rules()?)?, order.reason.clone());
        rules.push(Rule { id: 0, state: RuleState::Unfinished, made_ms: 0, changed_ms: 0, reason, what });
    }
    for member in members {
        let own = member.engine().rules().map_err(|error| named(member, error.into()))?;
        rules.extend(own.into_iter().filter(|rule| rule.state == RuleState::Unfinished));
    }
    let set = Arc::new(RuleSet::of(&rules)?);
    // No rule is made yet that would refuse the bodies of digests.
    let (erasure, mut detached) = (erasure_of(&set, ByDigest::new()), 0);
    for member in members.iter().filter(|_| !set.is_empty()) {
        detached += member.detach_revisits(&erasure, false, progress).map_err(|error| named(member, error))?;
    }
    Ok(detached)
}

/// The error with the folder of its member; a cancellation is of none.
fn named(member: &PageStore, error: Error) -> Error {
    match error {
        Error::Engine(filemap_core::Error::Cancelled) => error,
        error => error.of_member(member.engine().path()),
    }
}

impl PageStore {
    /// Before anything is erased, puts each revisit that stays but loses its original again, as a
    /// page with that body, and then drops the revisit. Repeated after an interruption, it puts
    /// nothing twice. Returns the number of revisits. A revisit gets no body that a rule refuses
    /// or that cannot be read. With `dry` they are only counted; the count is an upper bound,
    /// since a revisit may get its body through another.
    pub(super) fn detach_revisits(&self, what: &Erasure, dry: bool, progress: Progress<'_>) -> Result<u64> {
        let mut detached = 0;
        let whole =
            self.revisits_in_batches(&mut |versions| progress(EraseProgress::Detaching(versions)), &mut |batch| {
                detached += self.detach(batch, what, dry)?;
                Ok(())
            })?;
        if whole { Ok(detached) } else { Err(filemap_core::Error::Cancelled.into()) }
    }

    fn detach(&self, batch: Vec<FoundRevisit>, what: &Erasure, dry: bool) -> Result<u64> {
        let (alone, mut loader) = (self.alone(), Loader::default());
        let (mut resolver, mut of_strays) = (Resolver::new(self), Resolver::new(&alone));
        let (mut replaced, mut bytes, mut detached) = (Vec::new(), 0, 0);
        // The last key, and the form of a body stored under it.
        let mut last: Option<(Vec<u8>, BodyForm)> = None;
        // The newest version of a key first: earlier ones can then refer to its body.
        for (sought, version) in batch.into_iter().rev() {
            if (what.versions)(sought.own(), version) {
                continue;
            }
            let (store, resolver) = match self.is_home(sought.own()) {
                true => (self, &mut resolver),
                false => (&alone, &mut of_strays),
            };
            let path = match resolver.path(&sought) {
                Err(error) if error.is_damage() => continue,
                path => path?,
            };
            if !path.iter().any(|(key, version)| (what.versions)(key, *version)) {
                continue;
            }
            detached += 1;
            let Some(original) = path.last().filter(|_| !dry) else { continue };
            let form = match &last {
                Some((key, form)) if key == sought.own() => *form,
                _ => {
                    let versions = self.engine().versions_of(sought.own()).unwrap_or_default();
                    // A reference to a body that is erased would have to be replaced again.
                    let goes = versions.iter().any(|version| (what.versions)(sought.own(), *version));
                    let form = if goes { BodyForm::Whole } else { BodyForm::Reference };
                    last = Some((sought.own().to_vec(), form));
                    form
                }
            };
            match store.put_with_body(&mut loader, (sought.own(), version), original, form) {
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

    fn drop_replaced(&self, replaced: Vec<FoundRevisit>) -> Result<()> {
        if replaced.is_empty() {
            return Ok(());
        }
        self.engine().drop_versions(replaced.iter().map(|(sought, version)| (sought.own(), *version)))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use filemap_core::Options;

    use super::*;
    use crate::erase::EraseTarget;
    use crate::page::{Page, RecordKind, Revisit, RevisitProfile};

    #[test]
    fn what_a_crash_left_between_the_copy_and_the_drop_is_there_once_after_the_erasure_is_done_again() {
        let dir = tempfile::tempdir().expect("a folder");
        let store = PageStore::create(dir.path().join("a.fm"), Options::new()).expect("a store");
        let (gone, stays) = ("http://a.example/", "http://b.example/");
        let original = store.put_page(&Page::new(gone, 1000, 200, "the body")).expect("stored");
        let revisit = Revisit {
            profile: RevisitProfile::IdenticalPayload,
            refers_to_url: Some(gone.into()),
            refers_to_ms: Some(1000),
            refers_to_id: None,
            original: None,
        };
        let page = Page { kind: RecordKind::Revisit, revisit: Some(revisit), ..Page::new(stays, 2000, 200, "") };
        let version = store.put_page(&page).expect("stored");
        let (key, original) = (store.key(stays).expect("a URL"), (store.key(gone).expect("a URL"), original));
        let put = store
            .put_with_body(&mut Loader::default(), (&key, version), &original, BodyForm::Reference)
            .expect("stored");
        assert_eq!((put, store.history(stays).expect("whole").len()), (Some(8), 2));

        let target = EraseTarget::Url(gone.into());
        let order = EraseOrder::new(target, "r");
        let done = store.erase(&order, &mut |_| ControlFlow::Continue(())).expect("erased");
        assert!(done.is_complete() && done.erased.promoted == 1, "{done:?}");
        assert_eq!(store.history(stays).expect("whole").len(), 1);
        assert_eq!(store.get(stays).expect("whole").expect("there").body, b"the body");
        assert_eq!(store.get(gone).expect("whole"), None);
    }
}
