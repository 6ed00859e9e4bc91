//! The two traits of a store, reading and writing, and the lookup of a page.

use std::io::Read;
use std::ops::ControlFlow;

use filemap_core::{Put, Version};

use super::streamed;
use super::{
    Capabilities, Contents, Cursor, Fetched, Listed, Loading, PutRule, Removed, RemovedVersions, Results, Scope,
    Streamed,
};
use crate::error::{Error, Result};
use crate::page::Page;
use crate::page::variant::Variant;
use crate::page::version::PageHead;

/// Identifies a page: its URL, a variant of it, a time. A reference to a URL is a lookup of its
/// newest page.
///
/// ```
/// use filemap::{Lookup, Variant};
///
/// let page = Lookup::new("http://example.com/").at(1_700_000_000_000);
/// assert_eq!((page.url, page.variant, page.time_ms), (&b"http://example.com/"[..], None, Some(1_700_000_000_000)));
/// let session = Variant::new("session 7").unwrap();
/// assert_eq!(Lookup::new("http://example.com/").variant(&session).variant, Some(&session));
/// assert_eq!(Lookup::from("http://example.com/"), Lookup::new("http://example.com/"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lookup<'a> {
    /// The URL, canonical or not.
    pub url: &'a [u8],
    /// `None`: the page itself.
    pub variant: Option<&'a Variant>,
    /// The version that was newest at this time, in ms since 1970; `None`: the newest.
    pub time_ms: Option<i64>,
}

impl<'a> Lookup<'a> {
    /// The newest version of a page.
    pub fn new<U: AsRef<[u8]> + ?Sized>(url: &'a U) -> Lookup<'a> {
        Lookup { url: url.as_ref(), variant: None, time_ms: None }
    }

    /// Selects this variant.
    pub fn variant(mut self, variant: impl Into<Option<&'a Variant>>) -> Lookup<'a> {
        self.variant = variant.into();
        self
    }

    /// Selects the version that was newest at `time_ms`.
    pub fn at(mut self, time_ms: i64) -> Lookup<'a> {
        self.time_ms = Some(time_ms);
        self
    }
}

impl<'a, U: AsRef<[u8]> + ?Sized> From<&'a U> for Lookup<'a> {
    fn from(url: &'a U) -> Lookup<'a> {
        Lookup::new(url)
    }
}

/// A store of pages that can be read.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use filemap::access::PutRule;
/// use filemap::{Lookup, Options, Page, PageRead, PageStore, PageWrite};
///
/// fn copy(from: &dyn PageRead, to: &dyn PageWrite) -> filemap::Result<u64> {
///     let mut copied = 0;
///     for listed in from.list(&Default::default(), None)? {
///         if let Some(page) = from.get(&Lookup::new(&listed?.url))? {
///             to.put(&page, PutRule::IfNew)?;
///             copied += 1;
///         }
///     }
///     to.sync()?;
///     Ok(copied)
/// }
///
/// let dir = tempfile::tempdir()?;
/// let from = PageStore::create(dir.path().join("a.fm"), Options::new())?;
/// let to = PageStore::create(dir.path().join("b.fm"), Options::new())?;
/// from.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
/// assert_eq!(copy(&from, &to)?, 1);
/// assert!(to.contains("http://example.com/")?);
/// # Ok(())
/// # }
/// ```
pub trait PageRead: Send + Sync {
    /// The promises of this store.
    fn capabilities(&self) -> Capabilities;

    /// A version of a page with its body; `None` if the store does not have it.
    ///
    /// # Errors
    ///
    /// [`Error::Url`]; those of the store.
    fn get(&self, lookup: &Lookup<'_>) -> Result<Option<Page>>;

    /// One of the versions that [`PageRead::versions`] returns. The lookup's time is not used.
    ///
    /// # Errors
    ///
    /// As [`PageRead::get`].
    fn get_version(&self, lookup: &Lookup<'_>, version: Version) -> Result<Option<Page>>;

    /// As [`PageRead::get`], with the body as a stream, in bounded memory where the store can.
    ///
    /// # Errors
    ///
    /// As [`PageRead::get`].
    fn get_reader<'s>(&'s self, lookup: &Lookup<'_>) -> Result<Option<Streamed<'s>>> {
        Ok(self.get(lookup)?.map(streamed))
    }

    /// As [`PageRead::get`], without the body.
    ///
    /// # Errors
    ///
    /// As [`PageRead::get`].
    fn head(&self, lookup: &Lookup<'_>) -> Result<Option<PageHead>>;

    /// Returns whether the store has the version.
    ///
    /// # Errors
    ///
    /// As [`PageRead::get`].
    fn contains(&self, lookup: &Lookup<'_>) -> Result<bool> {
        self.head(lookup).map(|head| head.is_some())
    }

    /// The newest versions of several pages, in their order.
    ///
    /// # Errors
    ///
    /// As [`PageRead::get`], for the first that fails.
    fn get_many(&self, urls: &[&[u8]]) -> Result<Vec<Option<Page>>> {
        urls.iter().map(|url| self.get(&Lookup::new(url))).collect()
    }

    /// The newest versions of pages, one for each URL of the iterator. Reads `depth` of them at
    /// once where the store can.
    fn get_ahead<'s>(&'s self, urls: Box<dyn Iterator<Item = Vec<u8>> + 's>, depth: usize) -> Fetched<'s> {
        let _ = depth;
        Box::new(urls.map(|url| {
            let page = self.get(&Lookup::new(&url));
            (url, page)
        }))
    }

    /// The versions of a page or variant, newest first; with a time, those up to it. A damaged
    /// version is an error in its position, and the others follow.
    ///
    /// # Errors
    ///
    /// As [`PageRead::get`].
    fn history<'s>(&'s self, lookup: &Lookup<'_>) -> Result<Results<'s, PageHead>>;

    /// As [`PageRead::history`], but only times and sequences; includes unreadable versions.
    ///
    /// # Errors
    ///
    /// As [`PageRead::get`].
    fn versions(&self, lookup: &Lookup<'_>) -> Result<Vec<Version>> {
        let version = |head| match head {
            Ok(PageHead { version, .. }) | Err(Error::Unreadable { version, .. }) => Ok(version),
            Err(error) => Err(error),
        };
        self.history(lookup)?.map(version).collect()
    }

    /// The variants of a URL, in no promised order.
    ///
    /// # Errors
    ///
    /// As [`PageRead::get`]; those of [`PageRead::list`].
    fn variants<'s>(&'s self, url: &[u8]) -> Result<Results<'s, Variant>> {
        let key = self.key(url)?;
        let listed = self.list(&Scope::new().prefix(key.clone()).variants(), None)?;
        let of_url = move |listed: Listed| listed.variant.filter(|_| listed.url == key);
        Ok(Box::new(listed.filter_map(move |listed| listed.map(&of_url).transpose())))
    }

    /// Returns whether a URL may have variants: false if it never had one. Faster than listing
    /// them.
    ///
    /// # Errors
    ///
    /// As [`PageRead::variants`].
    fn may_have_variants(&self, url: &[u8]) -> Result<bool> {
        Ok(self.variants(url)?.next().transpose()?.is_some())
    }

    /// The canonical form of a URL: the key of its page.
    ///
    /// # Errors
    ///
    /// [`Error::Url`].
    fn key(&self, url: &[u8]) -> Result<Vec<u8>>;

    /// The pages or variants in `scope`; after `after`, if the store supports cursors.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for a cursor, or backwards, if the store lists in no order;
    /// [`Error::Cursor`] for bytes that are not a cursor; those of the store.
    fn list<'s>(&'s self, scope: &Scope, after: Option<&Cursor>) -> Result<Results<'s, Listed>>;

    /// The position after the page of a URL, whether the store has it or not: [`PageRead::list`]
    /// continues after it.
    ///
    /// # Errors
    ///
    /// [`Error::Url`]; [`Error::Unsupported`] if the store lists in no order.
    fn cursor(&self, url: &[u8]) -> Result<Cursor> {
        let _ = url;
        Err(Error::Unsupported { what: "cursors" })
    }

    /// The number of pages or variants in `scope`: the length of [`PageRead::list`].
    ///
    /// # Errors
    ///
    /// Those of [`PageRead::list`] and of its entries: a number is returned only if it is
    /// complete.
    fn count(&self, scope: &Scope) -> Result<u64> {
        self.list(scope, None)?.try_fold(0, |number, listed| listed.map(|_| number + 1))
    }

    /// The newest versions of the pages or variants in `scope`.
    ///
    /// # Errors
    ///
    /// Those of [`PageRead::list`].
    fn heads<'s>(&'s self, scope: &Scope) -> Result<Results<'s, PageHead>> {
        heads_of_listed(self, scope)
    }

    /// The size of the store.
    ///
    /// # Errors
    ///
    /// Those of the store.
    fn contents(&self) -> Result<Contents>;
}

/// The heads of a listing, in order.
pub(crate) fn heads_of_listed<'s, S: PageRead + ?Sized>(store: &'s S, scope: &Scope) -> Result<Results<'s, PageHead>> {
    let head = move |listed: Result<Listed>| match listed {
        // `None`: removed since it was listed.
        Ok(listed) => store.head(&Lookup::new(&listed.url).variant(listed.variant.as_ref())).transpose(),
        Err(error) => Some(Err(error)),
    };
    Ok(Box::new(store.list(scope, None)?.filter_map(head)))
}

/// A store of pages that can be read and written.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use filemap::access::PutRule;
/// use filemap::{Options, Page, PageStore, PageWrite};
///
/// let dir = tempfile::tempdir()?;
/// let store: Box<dyn PageWrite> = Box::new(PageStore::create(dir.path().join("a.fm"), Options::new())?);
/// let page = Page::new("http://example.com/", 1_700_000_000_000, 200, "hello");
/// assert!(store.put(&page, PutRule::IfNew)?.is_some());
/// assert!(store.put(&page, PutRule::IfNew)?.is_none());
/// assert!(store.remove(b"http://example.com/", None)?);
/// store.close()?;
/// # Ok(())
/// # }
/// ```
pub trait PageWrite: PageRead {
    /// Puts a page. Returns the outcome; `None` if the rule skipped a page already stored.
    ///
    /// # Errors
    ///
    /// [`Error::Url`]; those of the store. Nothing was written.
    fn put(&self, page: &Page, rule: PutRule) -> Result<Option<Put>>;

    /// Puts pages in order. This is not a transaction: an error leaves those before it in the
    /// store.
    ///
    /// # Errors
    ///
    /// As [`PageWrite::put`], for the first that fails.
    fn put_many(&self, pages: &[Page], rule: PutRule) -> Result<Vec<Option<Put>>> {
        let mut load = self.load();
        pages.iter().map(|page| load(page, rule)).collect()
    }

    /// As [`PageWrite::put`] for one page after the other. Takes linear time over all of them
    /// where the store can, however many versions one URL has.
    fn load(&self) -> Loading<'_> {
        Box::new(|page, rule| self.put(page, rule))
    }

    /// Puts a page as a separate version, with the body from `body` instead of `page.body`, in
    /// bounded memory where the store can.
    ///
    /// # Errors
    ///
    /// As [`PageWrite::put`]; [`Error::Read`] if `body` fails.
    fn put_reader(&self, page: &Page, body: &mut dyn Read) -> Result<Version>;

    /// Removes a page with all versions and variants; with a variant, only that variant. Returns
    /// true if the store had it.
    ///
    /// # Errors
    ///
    /// As [`PageWrite::put`].
    fn remove(&self, url: &[u8], variant: Option<&Variant>) -> Result<bool>;

    /// Removes the versions of a page, or of a variant, that were fetched at exactly this time, in
    /// ms since 1970, and the records beside them. Returns `None` if there is no such version.
    /// Revisits of the same page keep their bodies; revisits of other URLs are not searched.
    ///
    /// # Errors
    ///
    /// As [`PageWrite::put`].
    fn remove_at(&self, url: &[u8], variant: Option<&Variant>, time_ms: i64) -> Result<Option<RemovedVersions>>;

    /// Removes every page in `scope` with all its versions, its variants and the records beside
    /// it. `each` gets every removal and all damage found, and may cancel the work. Returns the
    /// number of pages removed.
    ///
    /// # Errors
    ///
    /// As [`PageWrite::put`]: everything that `each` got before is removed.
    fn remove_all(&self, scope: &Scope, each: &mut dyn FnMut(Result<Removed<'_>>) -> ControlFlow<()>) -> Result<u64>;

    /// Makes all earlier puts durable.
    ///
    /// # Errors
    ///
    /// Those of the store.
    fn sync(&self) -> Result<()>;

    /// Closes the store and makes puts durable; later calls fail. A second call returns the result
    /// of the first.
    ///
    /// # Errors
    ///
    /// Those of the store.
    fn close(&self) -> Result<()>;
}
