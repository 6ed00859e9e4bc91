//! Settings of single hosts, from a TOML file that is reloaded when it changes: pace, budget,
//! header fields, credentials, cookies, proxy.
//!
//! ```toml
//! [hosts."docs.example"]
//! rate = 20                          # requests a second, or: delay = 2.5, in seconds
//! pages = 10000
//! auth = "user:password"
//! headers = { Accept-Language = "de" }
//!
//! [hosts."*.example"]                # every host below it, but for the one above
//! cookies = true
//! cookie = "consent=yes"
//! proxy = "socks5://proxy.example"   # or "none"
//! ```
//!
//! If several entries match, only the most specific one applies. Credentials stay in the file:
//! neither the crawl's settings nor its log contain them.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{self, HeaderName, HeaderValue};
use serde::Deserialize;
use url::Host as Name;

use super::proxy::Proxy;
use crate::files::watched::{self, Watch};

/// The longest delay: a day.
const DELAY_MAX: f64 = 86_400.0;
/// Header fields that only the fetcher sets.
const OWN_FIELDS: [HeaderName; 13] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
    header::EXPECT,
    header::ACCEPT_ENCODING,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::RANGE,
    header::PROXY_AUTHORIZATION,
];

/// The settings of one host, where they differ from the crawl's.
///
/// ```
/// use crawl::fetch::hosts::HostSettings;
/// use hyper::header::{AUTHORIZATION, HeaderValue};
/// let password = (AUTHORIZATION, HeaderValue::from_static("Basic dXM6Y3JldA=="));
/// let settings = HostSettings { fields: vec![password], ..HostSettings::default() };
/// // It says no passwords.
/// let said = format!("{settings:?}");
/// assert!(said.contains("authorization") && !said.contains("Basic"));
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct HostSettings {
    /// Time between two requests.
    pub delay: Option<Duration>,
    /// The maximum number of its pages.
    pub pages: Option<u32>,
    /// Header fields of each request.
    pub fields: Vec<(HeaderName, HeaderValue)>,
    /// Cookies of each request, before the host's own.
    pub cookie: Option<HeaderValue>,
    /// True if its cookies are kept.
    pub cookies: Option<bool>,
    /// The proxy; `Some(None)` for none.
    pub proxy: Option<Option<Proxy>>,
}

/// Omits the values of fields, which may be credentials.
impl fmt::Debug for HostSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.fields.iter().map(|(name, _)| name.as_str()).collect();
        let HostSettings { delay, pages, cookies, proxy, .. } = self;
        write!(f, "HostSettings {{ {delay:?}, {pages:?}, {names:?}, {cookies:?}, {proxy:?} }}")
    }
}

/// The table of hosts with their own settings.
///
/// ```
/// use crawl::fetch::hosts::Hosts;
/// # let place = tempfile::tempdir()?;
/// # let path = place.path().join("hosts.toml");
/// std::fs::write(&path, "[hosts.\"*.example\"]\ndelay = 2.5\n")?;
/// let hosts = Hosts::open(Some(&path))?;
/// assert_eq!(hosts.delay("docs.example"), Some(std::time::Duration::from_millis(2500)));
/// assert!(hosts.of("example.com").is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Hosts {
    table: RwLock<Arc<Table>>,
    file: Option<Mutex<Watched>>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Table {
    exact: HashMap<String, Arc<HostSettings>>,
    /// Wildcard entries by their suffix, with its leading dot.
    below: HashMap<String, Arc<HostSettings>>,
}

#[derive(Debug)]
struct Watched {
    watch: Watch,
    /// The current error in it, if any.
    wrong: Option<String>,
}

/// A reload of the file of hosts.
///
/// ```
/// use crawl::fetch::hosts::{Change, Hosts};
/// # let place = tempfile::tempdir()?;
/// # let path = place.path().join("hosts.toml");
/// std::fs::write(&path, "[hosts.a]\nrate = 1\n")?;
/// let hosts = Hosts::open(Some(&path))?;
/// std::fs::write(&path, "[hosts.a]\nrate = 1\n[hosts.b]\nrate = 2\n")?;
/// // It is read again at the second look: nobody has touched it since the first.
/// let change = hosts.look().or_else(|| hosts.look());
/// assert_eq!(change, Some(Change { file: path, hosts: Ok(2) }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The file.
    pub file: PathBuf,
    /// The number of hosts, or the error; after an error the old settings stay.
    pub hosts: Result<usize, String>,
}

impl Hosts {
    /// Reads a file; without one no host has its own settings.
    ///
    /// # Errors
    /// An error message for the user that names the file and what is wrong in it.
    pub fn open(path: Option<&Path>) -> Result<Hosts, String> {
        let Some(path) = path else { return Ok(Hosts::default()) };
        let watch = Watch::new(path);
        let table = read(path)?;
        let file = Watched { watch, wrong: None };
        Ok(Hosts { table: RwLock::new(Arc::new(table)), file: Some(Mutex::new(file)) })
    }

    /// The settings of a host, if it has any. The name is written as in URLs.
    pub fn of(&self, host: &str) -> Option<Arc<HostSettings>> {
        let table = self.table();
        if let Some(exact) = table.exact.get(host) {
            return Some(Arc::clone(exact));
        }
        let mut below = host.match_indices('.').filter_map(|(at, _)| table.below.get(&host[at..]));
        below.next().cloned()
    }

    /// The delay of a host, if it has one of its own.
    pub fn delay(&self, host: &str) -> Option<Duration> {
        self.of(host)?.delay
    }

    /// Returns whether any host has its own budget.
    pub fn has_budgets(&self) -> bool {
        let table = self.table();
        table.exact.values().chain(table.below.values()).any(|host| host.pages.is_some())
    }

    /// Reloads the file if it has changed. An error is reported once.
    pub fn look(&self) -> Option<Change> {
        let mut file = self.file.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        if !file.watch.is_due() {
            return None;
        }
        let hosts = match read(file.watch.path()) {
            Ok(table) if file.wrong.is_none() && table == *self.table() => return None,
            Ok(table) => {
                let count = table.exact.len() + table.below.len();
                *self.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
                file.wrong = None;
                Ok(count)
            }
            Err(wrong) if file.wrong.as_ref() == Some(&wrong) => return None,
            Err(wrong) => {
                file.wrong = Some(wrong.clone());
                Err(wrong)
            }
        };
        Some(Change { file: file.watch.path().to_owned(), hosts })
    }

    fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The schema of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    hosts: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    rate: Option<f64>,
    delay: Option<f64>,
    pages: Option<u32>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    auth: Option<String>,
    cookie: Option<String>,
    cookies: Option<bool>,
    proxy: Option<String>,
}

fn read(path: &Path) -> Result<Table, String> {
    let named = |wrong: String| format!("{}: {wrong}", path.display());
    let text = watched::text(path).map_err(|error| named(error.to_string()))?;
    parse(&text).map_err(named)
}

/// # Errors
/// An error message that names the line or the host. It contains no value from the file.
fn parse(text: &str) -> Result<Table, String> {
    let written: Written = toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        // A syntax error's message contains no text of the file; its display does.
        line.map_or_else(|| error.message().to_owned(), |line| format!("line {line}: {}", error.message()))
    })?;
    let mut table = Table::default();
    for (name, entry) in written.hosts {
        let wrong = |wrong: String| format!("hosts.\"{name}\": {wrong}");
        let settings = Arc::new(entry.checked().map_err(wrong)?);
        let (base, is_below) = name.strip_prefix("*.").map_or((&*name, false), |base| (base, true));
        let host = Name::parse(base).map_err(|error| wrong(format!("it is not a host name: {error}")))?.to_string();
        let before = match is_below {
            true => table.below.insert(format!(".{host}"), settings),
            false => table.exact.insert(host, settings),
        };
        if before.is_some() {
            return Err(wrong("another entry has the same host".to_owned()));
        }
    }
    Ok(table)
}

impl Entry {
    fn checked(self) -> Result<HostSettings, String> {
        let delay = match (self.rate, self.delay) {
            (Some(_), Some(_)) => return Err("give rate or delay".to_owned()),
            (Some(0.0), None) => Some(0.0),
            (Some(rate), None) => Some(1.0 / rate),
            (None, delay) => delay,
        };
        if delay.is_some_and(|delay| !(0.0..=DELAY_MAX).contains(&delay)) {
            return Err("a rate is requests a second (0: no limit), a delay seconds, up to a day".to_owned());
        }
        let mut fields = Vec::new();
        for (name, value) in &self.headers {
            fields.push(field(name, value)?);
        }
        if let Some(auth) = &self.auth {
            if !auth.contains(':') {
                return Err("auth is USER:PASSWORD".to_owned());
            }
            fields.push(field("Authorization", &format!("Basic {}", STANDARD.encode(auth)))?);
        }
        Ok(HostSettings {
            delay: delay.map(Duration::from_secs_f64),
            pages: self.pages,
            fields,
            cookie: self.cookie.map(|cookie| field("Cookie", &cookie)).transpose()?.map(|(_, value)| value),
            cookies: self.cookies,
            proxy: match self.proxy.as_deref() {
                Some("none") => Some(None),
                Some(proxy) => Some(Some(Proxy::parse(proxy)?)),
                None => None,
            },
        })
    }
}

fn field(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
    let known =
        HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("{name} is not the name of a header field"))?;
    if OWN_FIELDS.contains(&known) {
        return Err(format!("{name} is set by the crawler"));
    }
    let mut value = HeaderValue::from_str(value).map_err(|_| format!("{name}: not the value of a header field"))?;
    value.set_sensitive(true);
    Ok((known, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
[hosts."Docs.Example"]
rate = 20
pages = 7
auth = "us:cret"
headers = { Accept-Language = "de", X-Key = "k" }

[hosts."*.example"]
delay = 2.5
cookie = "a=1"
cookies = true
proxy = "socks5://p.test"

[hosts."*.b.example"]
proxy = "none"
rate = 0
"#;

    fn of(text: &str) -> Hosts {
        Hosts { table: RwLock::new(Arc::new(parse(text).expect("valid"))), file: None }
    }

    #[test]
    fn of_several_entries_the_most_exact_one_counts_alone() {
        let hosts = of(FILE);
        let docs = hosts.of("docs.example").expect("it has its own");
        assert_eq!((docs.delay, docs.pages), (Some(Duration::from_millis(50)), Some(7)));
        let names: Vec<&str> = docs.fields.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["accept-language", "x-key", "authorization"]);
        assert_eq!(docs.fields[2].1, "Basic dXM6Y3JldA==");
        assert_eq!((docs.cookies, &docs.proxy), (None, &None), "nothing of the wider entry");
        let other = hosts.of("x.a.example").expect("it is below");
        assert_eq!((other.delay, other.cookies), (Some(Duration::from_millis(2_500)), Some(true)));
        assert!(matches!(&other.proxy, Some(Some(proxy)) if proxy.host == "p.test"));
        let direct = hosts.of("x.b.example").expect("it is below");
        assert_eq!((direct.delay, &direct.proxy), (Some(Duration::ZERO), &Some(None)));
        assert!(hosts.of("example").is_none() && hosts.of("notexample").is_none() && hosts.has_budgets());
        let said = format!("{hosts:?}");
        assert!(!said.contains("cret") && !said.contains("dXM6"), "{said}");
    }

    #[test]
    fn what_is_wrong_is_named_by_line_or_host_without_credentials() {
        for (text, wanted) in [
            ("[hosts.a]\nrat = 1\n", "line 2"),
            ("[hosts.a]\nauth = \"u:cret\"\nrate = \"x\"\n", "line 3"),
            ("[hosts.a]\nrate = 1\ndelay = 1\n", "rate or delay"),
            ("[hosts.a]\nrate = -1\n", "rate"),
            ("[hosts.a]\ndelay = 1e9\n", "delay"),
            ("[hosts.a]\nheaders = { Host = \"b\" }\n", "Host"),
            ("[hosts.a]\nheaders = { \"a b\" = \"b\" }\n", "a b"),
            ("[hosts.a]\nauth = \"cret\"\n", "USER:PASSWORD"),
            ("[hosts.a]\ncookie = \"a\\ncret\"\n", "Cookie"),
            ("[hosts.a]\nproxy = \"ftp://cret\"\n", "proxy"),
            ("[hosts.\"a b\"]\nrate = 1\n", "a b"),
            ("[hosts.a]\nrate = 1\n[hosts.A]\nrate = 2\n", "same host"),
            ("rate = 1\n", "rate"),
        ] {
            let wrong = parse(text).expect_err(text);
            assert!(wrong.contains(wanted) && !wrong.contains("cret"), "{text}: {wrong}");
        }
    }

    #[test]
    fn a_file_that_changes_is_read_again_and_a_bad_one_changes_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("hosts.toml");
        std::fs::write(&path, "[hosts.a]\nrate = 1\n").expect("written");
        let hosts = Hosts::open(Some(&path)).expect("valid");
        // A change is loaded at the second look.
        let look = || hosts.look().or_else(|| hosts.look());
        assert_eq!((hosts.delay("a"), look()), (Some(Duration::from_secs(1)), None));
        std::fs::write(&path, "[hosts.a]\nrate = 2\n[hosts.b]\nrate = 2\n").expect("written");
        assert_eq!(look(), Some(Change { file: path.clone(), hosts: Ok(2) }));
        assert_eq!((hosts.delay("b"), look()), (Some(Duration::from_millis(500)), None));
        std::fs::write(&path, "[hosts.a]\nrate =\n").expect("written");
        assert!(matches!(look(), Some(Change { hosts: Err(wrong), .. }) if wrong.contains("line 2")));
        assert_eq!((look(), hosts.delay("b")), (None, Some(Duration::from_millis(500))));
        std::fs::write(&path, "[hosts.a]\nrate = 2\n[hosts.b]\nrate = 2\n").expect("written");
        assert_eq!(look().map(|change| change.hosts), Some(Ok(2)), "the next look reports success");
        assert!(Hosts::open(Some(&folder.path().join("none"))).is_err());
    }
}
