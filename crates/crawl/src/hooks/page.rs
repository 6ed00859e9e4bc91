//! The input and output of a page hook.

use std::collections::BTreeMap;

use filemap::Page;

use crate::error::BoxError;

/// Named values stored beside a page. A value is one line of text.
///
/// ```
/// let fields = crawl::hooks::Fields::from([("lang".to_owned(), "de".to_owned())]);
/// let note = crawl::record::fields("http://example.com/", &fields, 7).expect("there is one");
/// assert_eq!(crawl::record::fields_in(&note), fields);
/// ```
pub type Fields = BTreeMap<String, String>;

/// A fetched page that is not stored yet.
///
/// ```
/// use crawl::Capture;
/// use crawl::hooks::Fields;
/// fn is_start(capture: &Capture<'_>) -> bool {
///     capture.depth == 0 && capture.page.status == Some(200)
/// }
/// let (url, fields) = ("http://example.com/", Fields::new());
/// let page = filemap::Page::new(url, 0, 200, "<p>hello");
/// let capture = Capture { url, key: url, depth: 0, page: &page, links: &[], fields: &fields };
/// assert!(is_start(&capture));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Capture<'a> {
    /// The requested URL.
    pub url: &'a str,
    /// Its canonical form, the key in the store.
    pub key: &'a str,
    /// The number of links from a start page.
    pub depth: u16,
    /// Time, status, header fields, decoded body.
    pub page: &'a Page,
    /// The URLs of its links that the crawl will follow.
    pub links: &'a [String],
    /// The fields found so far.
    pub fields: &'a Fields,
}

/// A hook's reply about a page.
///
/// ```
/// let reply = crawl::Reply::new().link("/next").field("title", "Home");
/// assert!(reply.stores && reply.follows);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// More links of the page, also relative ones. They are followed if in scope.
    pub links: Vec<String>,
    /// Values to keep beside the page.
    pub fields: Fields,
    /// True if the page is stored.
    pub stores: bool,
    /// True if its links are followed.
    pub follows: bool,
    /// True if the page is accepted; otherwise it counts as not fetched, and is fetched again.
    pub takes: bool,
}

impl Default for Reply {
    fn default() -> Reply {
        Reply { links: Vec::new(), fields: Fields::new(), stores: true, follows: true, takes: true }
    }
}

impl Reply {
    /// A reply that changes nothing.
    pub fn new() -> Reply {
        Reply::default()
    }

    /// Adds a link.
    #[must_use]
    pub fn link(mut self, url: impl Into<String>) -> Reply {
        self.links.push(url.into());
        self
    }

    /// Adds a value. Line ends and other control characters become blanks. A name must be ASCII
    /// without blanks and colons; another name is dropped, and counted as `hook-failed`.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, value: impl Into<String>) -> Reply {
        self.fields.insert(name.into(), value.into());
        self
    }

    /// Does not store the page.
    #[must_use]
    pub fn not_stored(self) -> Reply {
        Reply { stores: false, ..self }
    }

    /// Does not follow its links.
    #[must_use]
    pub fn not_followed(self) -> Reply {
        Reply { follows: false, ..self }
    }

    /// Rejects the page: it stays queued. For a hook that stops the crawl ([`crate::Stop`]): in a
    /// running crawl the page would be fetched again at once.
    #[must_use]
    pub fn not_taken(self) -> Reply {
        Reply { takes: false, ..self }
    }

    /// Merges another hook's reply about the page.
    pub(super) fn add(&mut self, other: Reply) {
        self.links.extend(other.links);
        self.fields.extend(other.fields);
        self.stores &= other.stores;
        self.follows &= other.follows;
        self.takes &= other.takes;
    }
}

/// A callback for each page before it is stored. Matching closures implement it.
///
/// ```
/// use crawl::hooks::Fields;
/// use crawl::{BoxError, Capture, OnPage, Reply};
/// fn long_ones(capture: &Capture<'_>) -> Result<Reply, BoxError> {
///     let is_short = capture.page.body.len() < 100;
///     Ok(if is_short { Reply::new().not_stored() } else { Reply::new() })
/// }
/// # let (url, fields) = ("http://example.com/", Fields::new());
/// # let page = filemap::Page::new(url, 0, 200, "<p>short");
/// # let capture = Capture { url, key: url, depth: 0, page: &page, links: &[], fields: &fields };
/// assert!(!long_ones.on_page(&capture)?.stores);
/// # Ok::<(), BoxError>(())
/// ```
pub trait OnPage: Send + Sync {
    /// Decides what happens to a page. May block.
    ///
    /// # Errors
    /// The hook's own: the page is stored without its reply.
    fn on_page(&self, capture: &Capture<'_>) -> Result<Reply, BoxError>;
}

impl<F: Fn(&Capture<'_>) -> Result<Reply, BoxError> + Send + Sync> OnPage for F {
    fn on_page(&self, capture: &Capture<'_>) -> Result<Reply, BoxError> {
        self(capture)
    }
}

/// Replaces the crawl's link extraction. Matching closures implement it.
///
/// ```
/// use crawl::{BoxError, Parse};
/// fn lines(_url: &str, page: &filemap::Page) -> Result<Option<Vec<String>>, BoxError> {
///     let text = std::str::from_utf8(&page.body)?;
///     Ok(Some(text.lines().map(str::to_owned).collect()))
/// }
/// let list = filemap::Page::new("http://example.com/list", 0, 200, "/a\n/b\n");
/// assert_eq!(lines.links("http://example.com/list", &list)?.unwrap(), ["/a", "/b"]);
/// # Ok::<(), BoxError>(())
/// ```
pub trait Parse: Send + Sync {
    /// The links of a page at a URL, also relative ones; `None` leaves it to the crawl.
    ///
    /// # Errors
    /// The hook's own: the crawl then finds the page's links itself.
    fn links(&self, url: &str, page: &Page) -> Result<Option<Vec<String>>, BoxError>;
}

impl<F: Fn(&str, &Page) -> Result<Option<Vec<String>>, BoxError> + Send + Sync> Parse for F {
    fn links(&self, url: &str, page: &Page) -> Result<Option<Vec<String>>, BoxError> {
        self(url, page)
    }
}
