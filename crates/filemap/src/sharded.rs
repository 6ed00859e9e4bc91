//! One store over several folders, each on its own disk, say.
//!
//! Each folder is a whole store, the *member* of a set. A page is in the member that the host of
//! its URL chooses ([`urlindex::shard`] of the canonical URL: the rule of a store in object
//! storage and of crawls that share their hosts), with all its versions, its variants and the
//! records beside them. A location names the members in their order:
//! `shards:/disk1/a.fm,/disk2/b.fm`.
//!
//! Number, order and identity of the members are fixed when the set is made: each has a note of
//! them, under a key of the store's own, so it comes along with every backup, copy of the files
//! and repair. Folders that are not one set, whole and in order, are refused.
//!
//! Invariant: a page is put only while every member has a durable note that the set is made. So
//! where one says so, all were there: a member that is missing is lost, and not still to be made.
//!
//! A revisit gets the body that a store in one folder would give it, wherever its original is:
//! handles of members know each other. One thing differs from a store in one folder: whoever opens
//! a member by itself may put pages there that belong into another. No call here finds or lists
//! them, though counts include them; [`ShardedStore::strays`] does. A member that is opened by
//! itself knows no other.
//!
//! Files are imported into it by [`ShardedStore::member_of`], and dumped from
//! [`ShardedStore::members`].

mod access;
mod location;
mod mending;
mod note;
mod opening;
mod pages;
mod revisits;
#[cfg(test)]
mod tests;
mod upkeep;

use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::thread::Builder;

use urlindex::Canonicalizer;

use crate::access::{Listed, PageRead, Results, Scope};
use crate::archives::Archives;
use crate::error::Result;
use crate::page::version::StoredVersion;
use crate::store::{PageStore, joined, number_of};

pub use location::{is_location, paths};
pub use note::{Membership, is_note};

/// A store over several folders: see [the module](crate::sharded). Cheap to clone; `Send` and
/// `Sync`.
///
/// All members are open in the same way, for reading or for writing. Memory, threads and open
/// files are those of a store for each. Errors name the folder of the member.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use filemap::access::PutRule;
/// use filemap::canonical::Whatwg;
/// use filemap::sharded::ShardedStore;
/// use filemap::{Options, Page, PageRead, PageWrite};
///
/// let dir = tempfile::tempdir()?;
/// let disks = [dir.path().join("a.fm"), dir.path().join("b.fm")];
/// let store = ShardedStore::open_or_create(&disks, Arc::new(Whatwg), Options::new())?;
/// store.put(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"), PutRule::IfNew)?;
/// store.put(&Page::new("http://example.org/", 1_700_000_000_000, 200, "hello"), PutRule::IfNew)?;
/// assert_eq!(store.list(&Default::default(), None)?.count(), 2);
/// store.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ShardedStore {
    /// In their order; at least one.
    members: Vec<PageStore>,
}

impl ShardedStore {
    /// The most members that a set may have.
    pub const MAX_MEMBERS: usize = 1024;

    /// The members, in their order: for upkeep, which each has for itself. They know each other,
    /// so that a revisit finds its body here too.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::sync::Arc;
    /// # use filemap::canonical::Whatwg;
    /// # use filemap::{Options, sharded::ShardedStore};
    /// # let dir = tempfile::tempdir()?;
    /// # let disks = [dir.path().join("a.fm"), dir.path().join("b.fm")];
    /// let store = ShardedStore::open_or_create(&disks, Arc::new(Whatwg), Options::new())?;
    /// for member in store.members() {
    ///     member.engine().checkpoint()?;
    /// }
    /// assert_eq!(store.members().len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn members(&self) -> &[PageStore] {
        &self.members
    }

    /// Makes the keys of this store of URLs.
    pub fn canonicalizer(&self) -> &Arc<dyn Canonicalizer> {
        self.first().canonicalizer()
    }

    /// The member that has the pages of a URL, and its variants.
    ///
    /// # Errors
    ///
    /// [`Error::Url`](crate::Error::Url).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::ops::ControlFlow;
    /// use std::sync::Arc;
    ///
    /// use filemap::canonical::Whatwg;
    /// use filemap::import::{ImportOptions, ImportProgress, import_into};
    /// use filemap::{Options, sharded::ShardedStore};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let disks = [dir.path().join("a.fm"), dir.path().join("b.fm")];
    /// let store = ShardedStore::open_or_create(&disks, Arc::new(Whatwg), Options::new())?;
    /// let file = b"WARC/1.1\r\nWARC-Type: resource\r\nWARC-Target-URI: http://example.com/a.txt\r\n\
    ///     WARC-Date: 2023-11-14T22:13:20Z\r\nContent-Length: 5\r\n\r\nhello\r\n\r\n";
    /// let mut stores = |url: &[u8]| store.member_of(url).cloned();
    /// let go_on = &mut |_: ImportProgress| ControlFlow::Continue(());
    /// let report = import_into(&mut stores, "a.warc", &file[..], &ImportOptions::new(), go_on)?;
    /// assert_eq!((report.stored, store.count_pages()?), (1, 1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn member_of(&self, url: impl AsRef<[u8]>) -> Result<&PageStore> {
        Ok(&self.members[self.number_of(url.as_ref())?])
    }

    /// A handle of the same store that reads pages in place through `archives`: see
    /// [`PageStore::with_archives`].
    pub fn with_archives(&self, archives: &Arc<dyn Archives>) -> ShardedStore {
        let with = |member: &PageStore| member.with_archives(Arc::clone(archives));
        ShardedStore::joining(&self.members.iter().map(with).collect::<Vec<_>>())
    }

    /// Every live version, one member after the other: see [`PageStore::stored_by_key`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::sync::Arc;
    /// # use filemap::access::PutRule;
    /// # use filemap::canonical::Whatwg;
    /// # use filemap::{Options, Page, PageWrite, sharded::ShardedStore};
    /// # let dir = tempfile::tempdir()?;
    /// # let disks = [dir.path().join("a.fm"), dir.path().join("b.fm")];
    /// let store = ShardedStore::open_or_create(&disks, Arc::new(Whatwg), Options::new())?;
    /// let page = Page::new("http://example.com/", 1_700_000_000_000, 200, "hello");
    /// store.put(&page, PutRule::Always)?;
    /// let versions = store.stored_by_key().collect::<Result<Vec<_>, _>>()?;
    /// assert_eq!(versions[0].page.body, b"hello");
    /// # Ok(())
    /// # }
    /// ```
    pub fn stored_by_key(&self) -> impl Iterator<Item = Result<StoredVersion>> + use<> {
        self.members.clone().into_iter().flat_map(|member| {
            let versions = member.stored_by_key();
            versions.map(move |version| named(&member, version))
        })
    }

    /// Pages and variants that are in another member than that of their host, with the folder of
    /// the one that has them: put there past this store. Only counts include them. To mend it,
    /// copy that member into the set ([`crate::copy`]), and remove them from it.
    ///
    /// # Errors
    ///
    /// As [`PageRead::list`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::sync::Arc;
    /// # use filemap::canonical::Whatwg;
    /// # use filemap::{Options, Page, sharded::ShardedStore};
    /// # let dir = tempfile::tempdir()?;
    /// # let disks = [dir.path().join("a.fm"), dir.path().join("b.fm")];
    /// let store = ShardedStore::open_or_create(&disks, Arc::new(Whatwg), Options::new())?;
    /// let page = Page::new("http://example.com/", 1_700_000_000_000, 200, "hello");
    /// for member in store.members() {
    ///     member.put_page(&page)?;
    /// }
    /// assert_eq!(store.strays()?.count(), 1, "one of the two is where it belongs");
    /// # Ok(())
    /// # }
    /// ```
    pub fn strays(&self) -> Result<Results<'_, (&Path, Listed)>> {
        let mut lists = Vec::new();
        for (number, member) in self.members.iter().enumerate() {
            for scope in [Scope::new(), Scope::new().variants()] {
                let list = of_member(member, PageRead::list(member, &scope, None))?;
                let is_stray = move |listed: &Listed| self.number(&listed.url) != number;
                lists.push(list.filter_map(move |listed| match listed {
                    Ok(listed) => is_stray(&listed).then(|| Ok((member.engine().path(), listed))),
                    Err(error) => Some(Err(error)),
                }));
            }
        }
        Ok(access::until_fatal(lists.into_iter().flatten()))
    }

    /// The store over these members, which know each other from now on.
    fn joining(members: &[PageStore]) -> ShardedStore {
        ShardedStore { members: joined(members) }
    }

    fn first(&self) -> &PageStore {
        &self.members[0]
    }

    /// The number of the member of a URL.
    fn number_of(&self, url: &[u8]) -> Result<usize> {
        Ok(self.number(&self.first().key(url)?))
    }

    /// The number of the member of a canonical URL.
    fn number(&self, canonical_url: &[u8]) -> usize {
        number_of(canonical_url, self.members.len())
    }

    /// The members that may have pages of a scope: of a host one.
    fn asked(&self, scope: &Scope) -> &[PageStore] {
        let Some(host) = &scope.host else { return &self.members };
        // An invalid host has no URLs, so every member gives the same: nothing.
        let host = urlindex::canonical::canonical_host(host).unwrap_or_else(|| host.clone());
        let number = self.number(format!("http://{host}/").as_bytes());
        &self.members[number..=number]
    }

    /// Calls every member, each on a separate thread; the answers in their order. A member for
    /// which the system refuses a thread is called by this one.
    fn at_once<T: Send>(&self, call: impl Fn(usize, &PageStore) -> Result<T> + Sync) -> Vec<Result<T>> {
        let call = &call;
        std::thread::scope(|scope| {
            let call = |(number, member)| {
                let answer = move || named(member, call(number, member));
                Builder::new().spawn_scoped(scope, answer).map_err(|_| answer())
            };
            let calls: Vec<_> = self.members.iter().enumerate().map(call).collect();
            let answers = calls.into_iter().map(|call| match call {
                Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                Err(answered) => answered,
            });
            answers.collect()
        })
    }
}

/// The answer of a member; an error names its folder.
fn named<T>(member: &PageStore, answer: Result<T>) -> Result<T> {
    answer.map_err(|error| error.of_member(member.engine().path()))
}

/// The list of a member; its errors name its folder.
fn of_member<'s, T: 's>(member: &'s PageStore, list: Result<Results<'s, T>>) -> Result<Results<'s, T>> {
    Ok(Box::new(named(member, list)?.map(move |item| named(member, item))))
}
