//! Request and result of a listing: scope, entries, cursors.

use crate::page::variant::Variant;

/// The pages or variants that a listing returns.
///
/// ```
/// use filemap::access::Scope;
///
/// let scope = Scope::new().host("Example.com").prefix("http:").variants();
/// assert!(scope.filter()(b"http://example.com/") && !scope.filter()(b"http://other.example/"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scope {
    /// Only those of this host, in any spelling.
    pub host: Option<String>,
    /// Only those of this host and of its subdomains, in any spelling.
    pub domain: Option<String>,
    /// Only those whose canonical URL begins with these bytes.
    pub prefix: Vec<u8>,
    /// Pages or variants.
    pub kind: ListKind,
    /// Lists from the last to the first. An error in a store that lists in no order.
    pub is_backwards: bool,
}

/// Kind of the entries of a listing.
///
/// ```
/// use filemap::access::{ListKind, Scope};
///
/// assert_eq!(Scope::new().kind, ListKind::Pages);
/// assert_eq!(Scope::new().variants().kind, ListKind::Variants);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListKind {
    /// Pages.
    #[default]
    Pages,
    /// Variants: answers to requests other than a plain `GET`.
    Variants,
}

impl Scope {
    /// All pages.
    pub fn new() -> Scope {
        Scope::default()
    }

    /// Only those of this host, in any spelling (`Example.com`, `bücher.example`).
    pub fn host(self, host: impl AsRef<str>) -> Scope {
        Scope { host: Some(host.as_ref().to_owned()), ..self }
    }

    /// Only those of this host and of its subdomains, in any spelling.
    pub fn domain(self, domain: impl Into<String>) -> Scope {
        Scope { domain: Some(domain.into()), ..self }
    }

    /// Only those whose canonical URL begins with these bytes.
    pub fn prefix(self, prefix: impl Into<Vec<u8>>) -> Scope {
        Scope { prefix: prefix.into(), ..self }
    }

    /// The variants instead of the pages.
    pub fn variants(self) -> Scope {
        Scope { kind: ListKind::Variants, ..self }
    }

    /// Lists from the last to the first: a cursor continues with the entries before it.
    pub fn backwards(self) -> Scope {
        Scope { is_backwards: true, ..self }
    }

    /// Returns whether neither host nor domain nor prefix is set.
    pub fn is_all(&self) -> bool {
        self.host.is_none() && self.domain.is_none() && self.prefix.is_empty()
    }

    /// A test of whether a canonical URL is in the scope.
    pub fn filter(&self) -> impl Fn(&[u8]) -> bool + Send + Sync + use<> {
        let canonical = |host: &String| urlindex::canonical::canonical_host(host).unwrap_or_else(|| host.clone());
        let host = self.host.as_ref().map(canonical);
        let domain = self.domain.as_ref().map(canonical);
        let prefix = self.prefix.clone();
        move |url| {
            let is_of = |host: &String| urlindex::host(url) == Some(host.as_bytes());
            let is_in = |domain: &String| urlindex::host(url).is_some_and(|host| is_within(host, domain.as_bytes()));
            url.starts_with(&prefix) && host.as_ref().is_none_or(is_of) && domain.as_ref().is_none_or(is_in)
        }
    }
}

/// Returns whether a host is the domain itself or one of its subdomains; both are canonical.
fn is_within(host: &[u8], domain: &[u8]) -> bool {
    host.strip_suffix(domain).is_some_and(|before| before.is_empty() || before.ends_with(b"."))
}

/// A position in a listing, to continue from. It is opaque. It can be stored and sent, and used
/// with another scope and in the other direction, if that lists the same kind.
///
/// ```
/// use filemap::access::{Cursor, Listed};
/// let listed = Listed::new(b"http://example.com/".to_vec(), None, Some(Cursor(vec![1, 2])));
/// assert_eq!(listed.cursor, Some(Cursor(vec![1, 2])));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub Vec<u8>);

/// An entry of a listing.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use filemap::{Options, Page, PageRead, PageStore};
///
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
/// let listed = store.list(&Default::default(), None)?.next().expect("a page")?;
/// assert_eq!(listed.url, b"http://example.com/");
/// assert!(store.list(&Default::default(), listed.cursor.as_ref())?.next().is_none(), "it was the last");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// The canonical URL.
    pub url: Vec<u8>,
    /// The variant; `None` for a page.
    pub variant: Option<Variant>,
    /// Position after it, to continue from; `None` if the store has no cursors.
    pub cursor: Option<Cursor>,
}

impl Listed {
    /// A page or variant, and the position after it.
    pub fn new(url: Vec<u8>, variant: Option<Variant>, cursor: Option<Cursor>) -> Listed {
        Listed { url, variant, cursor }
    }
}
