//! Client for a store behind a server: [`Client`] is a [`PageRead`] and a [`PageWrite`], as a
//! local store is.
//!
//! Layers: `call` (requests and errors), `paged` (lists in parts), `import` (archive files),
//! `seen` (seen sets), `links` (mailboxes), `archives` (pages left in archive files on other
//! servers), `many` (many pages in one request).

mod archives;
mod call;
mod changes;
mod import;
mod links;
mod many;
mod options;
mod paged;
mod seen;

use std::io::{self, BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::time::Duration;

use filemap::access::{
    Capabilities, Contents, Cursor, ListKind, Listed, PutRule, Removed, RemovedVersions, Results, Scope, Streamed,
    Survives,
};
use filemap::dump::jsonl;
use filemap::import::ImportOptions;
use filemap::{Error, Lookup, Page, PageHead, PageRead, PageWrite, Put, Result, Variant, Version};
use serde_json::{Map, Value};

use crate::query::encoded;
use crate::wire::{self, Done, History, Listing, PAGE_TYPE, Problem, Promises, Url};
pub use archives::AnyArchives;
use call::{Connection, Found};
pub use changes::{Line, Lines, Said};
pub use import::{ArchiveForm, Imported};
pub use links::{FleetNews, LinksClient, Mailed};
pub use options::ClientOptions;
pub use seen::{Ack, Added, Made, SeenClient};

/// Entries requested per part of a list.
const PART: usize = 1_000;

/// A store behind a server. Its calls block; it is `Send` and `Sync`, and keeps connections open.
///
/// Results are those of [`filemap::PageStore`], with these exceptions. Page headers over 64 MiB as
/// JSON are not supported. A list of over 100,000 URLs needs a store that keeps its keys in order.
/// `put` returns when the server has the page: it survives the end of the server process, but not
/// a power loss before [`PageWrite::sync`]. `close` does not close the store, which others use. A
/// failure of the server or of the network is [`Error::Remote`].
///
/// ```no_run
/// use filemap::PageRead;
/// use filemap_http::{Client, ClientOptions};
///
/// let store = Client::open("http://127.0.0.1:8640", &ClientOptions::new())?;
/// if let Some(page) = store.get(&"https://example.com/".into())? {
///     println!("{} bytes", page.body.len());
/// }
/// # Ok::<(), filemap::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    connection: Connection,
    promises: Promises,
}

/// A page without its body, and the body.
type Opened = (Page, Box<dyn Read + Send>);

impl Client {
    /// Returns whether a client can open `location`: it begins with `http://` or `https://`.
    ///
    /// ```
    /// assert!(filemap_http::Client::is_location("http://127.0.0.1:8640"));
    /// assert!(!filemap_http::Client::is_location("pages.fm"));
    /// ```
    pub fn is_location(location: &str) -> bool {
        ["http://", "https://"]
            .iter()
            .any(|scheme| location.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme)))
    }

    /// Opens the store of the server at `location`, such as `http://127.0.0.1:8640`. One request.
    ///
    /// # Errors
    ///
    /// [`Error::Remote`] if no FileMap server answers there, or it rejects the token. An address
    /// with a password is refused: a token in it would end up in logs.
    pub fn open(location: &str, options: &ClientOptions) -> Result<Client> {
        let connection = Connection::new(location, options)?;
        let promises = connection.json("/v1/stat")?.ok_or_else(|| connection.strange("there is no `/v1/stat`"))?;
        Ok(Client { connection, promises })
    }

    /// Returns whether the server accepts puts.
    pub fn writes(&self) -> bool {
        self.promises.writes
    }

    /// Name and version of the canonicaliser of the server's store, if the server reports them.
    pub fn rules(&self) -> Option<(&str, u32)> {
        Some((self.promises.canonicalizer.as_deref()?, self.promises.canonicalizer_version?))
    }

    /// Every figure of the server's store by its name, as [`filemap_core::Stats::fields`] names
    /// them; counters since the server opened it. One request.
    ///
    /// # Errors
    ///
    /// [`Error::Remote`].
    pub fn figures(&self) -> Result<Map<String, Value>> {
        let mut stat: Option<Value> = self.connection.json("/v1/stat?figures=1")?;
        match stat.as_mut().and_then(|stat| stat.get_mut("figures")).map(Value::take) {
            Some(Value::Object(figures)) => Ok(figures),
            _ => Err(self.connection.strange("it has no figures of a store")),
        }
    }

    fn page(&self, query: &str) -> Result<Option<Opened>> {
        let Some(found) = self.connection.get(&format!("/v1/page?{query}&format=page"))? else { return Ok(None) };
        let mut body = BufReader::with_capacity(64 << 10, found.body);
        let mut line = Vec::new();
        let failed = |error: io::Error| self.connection.broken(&error);
        (&mut body).take(wire::MAX_DESCRIPTION).read_until(b'\n', &mut line).map_err(failed)?;
        let page = jsonl::read_description(&line).map_err(|error| self.connection.strange(&error.to_string()))?;
        Ok(Some((page, Box::new(body))))
    }

    fn whole(&self, query: &str) -> Result<Option<Page>> {
        let Some((mut page, mut body)) = self.page(query)? else { return Ok(None) };
        body.read_to_end(&mut page.body).map_err(|error| self.connection.broken(&error))?;
        Ok(Some(page))
    }

    fn done(&self, found: Found) -> Result<Done> {
        self.connection.read_json(found)
    }

    fn put_of(&self, page: &Page, rule: PutRule, bytes: u64, body: &mut dyn Read) -> Result<Option<Put>> {
        let mut line = Vec::new();
        jsonl::write_description(page, &mut line)?;
        let of = of_page(&page.url, page.variant.as_ref());
        let path = format!("/v1/page?{of}&rule={}&durable=0", wire::rule(rule));
        let bytes = line.len() as u64 + bytes;
        // A read-only server closes the connection during the body, and its error is lost.
        let kind = (PAGE_TYPE, !self.promises.writes);
        let done = self.done(self.connection.put(&path, kind, bytes, &mut line.as_slice().chain(body))?)?;
        let version = || match (done.time_ms, done.sequence) {
            (Some(time_ms), Some(sequence)) => Ok(Version { time_ms, sequence }),
            _ => Err(self.connection.strange("a put without its version")),
        };
        match done.outcome.as_str() {
            "stored" => version().map(|version| Some(Put::Stored(version))),
            "unchanged" => version().map(|version| Some(Put::Unchanged(version))),
            "present" => Ok(None),
            other => Err(self.connection.strange(&format!("a put with the outcome `{other}`"))),
        }
    }
}

/// The part of a query that names a page.
fn of_page(url: &[u8], variant: Option<&Variant>) -> String {
    let variant = variant.map_or(String::new(), |variant| format!("&variant={}", encoded(variant.as_bytes())));
    format!("url={}{variant}", encoded(url))
}

fn of_lookup(lookup: &Lookup<'_>) -> String {
    let at = lookup.time_ms.map_or(String::new(), |at| match filemap::date::format(at) {
        // A year that does not have four digits.
        date if date.starts_with(['+', '-']) => format!("&at={at}"),
        date => format!("&at={date}"),
    });
    of_page(lookup.url, lookup.variant) + &at
}

impl Client {
    /// The change feed since a cursor: versions as they are stored, with bodies up to 16 MiB, and
    /// removals, in order; only changes that survive a power loss. `None`: the whole store first.
    /// The feed ends with [`Said::End`]. If there is nothing to send, the server first waits up to
    /// `wait`, at most 300 seconds.
    ///
    /// # Errors
    ///
    /// [`Error::Remote`], here and from the lines.
    pub fn changes(&self, since: Option<&str>, wait: Duration) -> Result<Lines> {
        Lines::ask(&self.connection, since, wait)
    }

    /// The body of a version that the change feed sent without it; `None` if it was removed since.
    ///
    /// # Errors
    ///
    /// [`Error::Remote`].
    pub fn body_of(&self, page: &Page, version: Version) -> Result<Option<Box<dyn Read + Send>>> {
        let of = of_page(&page.url, page.variant.as_ref());
        let found = self.page(&format!("{of}&version={}", wire::version(version)))?;
        Ok(found.map(|(_, body)| body))
    }
}

impl Client {
    /// Uploads a WARC, ARC or WACZ file for import; a WARC file is imported while it arrives.
    /// `file` is its name in the report. Records that the store already has add nothing, so a file
    /// can be sent again. Of `options`, only those apply that choose the records kept and their
    /// form.
    ///
    /// ```no_run
    /// use filemap::import::ImportOptions;
    /// use filemap_http::{ArchiveForm, Client, ClientOptions};
    ///
    /// let store = Client::open("http://127.0.0.1:8640", &ClientOptions::new())?;
    /// let mut file = std::fs::File::open("crawl.warc.gz")?;
    /// let sent = store.import("crawl.warc.gz", ArchiveForm::Warc, &mut file, &ImportOptions::new())?;
    /// println!("{} pages stored, {} problems", sent.report.stored, sent.report.losses());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Read`] if `source` fails; [`Error::Remote`] if the server refuses the whole file,
    /// or becomes unreachable before all of it was sent: how much it has stored is unknown.
    pub fn import(
        &self,
        file: &str,
        form: ArchiveForm,
        source: &mut dyn Read,
        options: &ImportOptions,
    ) -> Result<Imported> {
        import::send(&self.connection, file, form, source, options)
    }
}

impl PageRead for Client {
    fn capabilities(&self) -> Capabilities {
        let survives = if self.promises.survives == "put" { Survives::Put } else { Survives::Sync };
        let mut capabilities = Capabilities::new(survives);
        capabilities.has_history = self.promises.has_history;
        capabilities.lists_in_order = self.promises.lists_in_order;
        capabilities.lists_from_cursor = self.promises.lists_from_cursor;
        capabilities
    }

    fn get(&self, lookup: &Lookup<'_>) -> Result<Option<Page>> {
        self.whole(&of_lookup(lookup))
    }

    fn get_version(&self, lookup: &Lookup<'_>, version: Version) -> Result<Option<Page>> {
        self.whole(&format!("{}&version={}", of_page(lookup.url, lookup.variant), wire::version(version)))
    }

    fn get_reader<'s>(&'s self, lookup: &Lookup<'_>) -> Result<Option<Streamed<'s>>> {
        Ok(self.page(&of_lookup(lookup))?.map(|(page, body)| (page, body as Box<dyn Read + 's>)))
    }

    /// Sends one request per 1,000 URLs.
    fn get_many(&self, urls: &[&[u8]]) -> Result<Vec<Option<Page>>> {
        let mut pages = Vec::with_capacity(urls.len());
        for urls in urls.chunks(PART) {
            pages.extend(many::get(&self.connection, urls, |url| self.get(&Lookup::new(url)))?);
        }
        Ok(pages)
    }

    fn head(&self, lookup: &Lookup<'_>) -> Result<Option<PageHead>> {
        let Some(found) = self.connection.json::<Value>(&format!("/v1/head?{}", of_lookup(lookup)))? else {
            return Ok(None);
        };
        jsonl::read_head(found).map(Some).ok_or_else(|| self.connection.strange("an invalid head"))
    }

    fn history<'s>(&'s self, lookup: &Lookup<'_>) -> Result<Results<'s, PageHead>> {
        let path = format!("/v1/history?{}&limit={PART}", of_lookup(lookup));
        let url = lookup.url.to_vec();
        Ok(Box::new(paged::Paged::new(move |after: Option<String>| {
            let path = after.map_or(path.clone(), |after| format!("{path}&after={after}"));
            let part: Option<History> = self.connection.json(&path)?;
            let part = part.unwrap_or(History { versions: Vec::new(), after: None });
            Ok((part.versions.into_iter().map(|row| self.row(&url, row)).collect(), part.after))
        })))
    }

    fn may_have_variants(&self, url: &[u8]) -> Result<bool> {
        let found: Value = self.key_of(url)?;
        Ok(found["may_have_variants"].as_bool().unwrap_or(true))
    }

    fn key(&self, url: &[u8]) -> Result<Vec<u8>> {
        let found = serde_json::from_value::<Url>(self.key_of(url)?).ok().and_then(Url::bytes);
        found.ok_or_else(|| self.connection.strange("an invalid key"))
    }

    fn cursor(&self, url: &[u8]) -> Result<Cursor> {
        let found = self.key_of(url)?;
        let cursor = found["cursor"].as_str().and_then(wire::read_cursor);
        cursor.ok_or(Error::Unsupported { what: "cursors" })
    }

    fn list<'s>(&'s self, scope: &Scope, after: Option<&Cursor>) -> Result<Results<'s, Listed>> {
        let path = format!("/v1/urls?cursors=1&limit={PART}{}", paged::of_scope(scope));
        let mut first = after.map(wire::cursor);
        Ok(Box::new(paged::Paged::new(move |next: Option<String>| {
            let cursor = next.or_else(|| first.take());
            let path = cursor.map_or(path.clone(), |cursor| format!("{path}&cursor={cursor}"));
            let part: Listing =
                self.connection.json(&path)?.ok_or_else(|| self.connection.strange("there is no `/v1/urls`"))?;
            let listed = |entry: wire::Entry| entry.listed().ok_or_else(|| self.connection.strange("an invalid URL"));
            let mut entries: Vec<Result<Listed>> = part.urls.into_iter().map(listed).collect();
            if let Some(detail) = part.incomplete.filter(|_| part.cursor.is_none()) {
                entries.push(Err(self.connection.failed(Problem { detail, is_damage: true, ..Problem::default() })));
            }
            Ok((entries, part.cursor))
        })))
    }

    fn count(&self, scope: &Scope) -> Result<u64> {
        let found: Option<Value> = self.connection.json(&format!("/v1/count?{}", &paged::of_scope(scope)))?;
        found.and_then(|found| found["count"].as_u64()).ok_or_else(|| self.connection.strange("no count"))
    }

    fn contents(&self) -> Result<Contents> {
        let promises: Option<Promises> = self.connection.json("/v1/stat")?;
        let promises = promises.ok_or_else(|| self.connection.strange("there is no `/v1/stat`"))?;
        let mut contents = Contents::default();
        (contents.keys, contents.bytes) = (promises.keys, promises.bytes);
        Ok(contents)
    }
}

impl Client {
    fn key_of(&self, url: &[u8]) -> Result<Value> {
        let found = self.connection.json(&format!("/v1/key?url={}", encoded(url)))?;
        found.ok_or_else(|| self.connection.strange("there is no `/v1/key`"))
    }

    /// Parses a version of a history.
    fn row(&self, url: &[u8], row: Value) -> Result<PageHead> {
        let Some(error) = row["error"].as_str() else {
            return jsonl::read_head(row).ok_or_else(|| self.connection.strange("an invalid version"));
        };
        let (detail, is_blocked) = (error.to_owned(), row["access"] == "block");
        let problem = Problem { detail, is_damage: !is_blocked, is_of_one_page: is_blocked, ..Problem::default() };
        let source = std::sync::Arc::new(self.connection.failed(problem));
        match (row["time_ms"].as_i64(), row["sequence"].as_u64()) {
            (Some(time_ms), Some(sequence)) => Err(Error::Unreadable {
                url: String::from_utf8_lossy(url).into_owned(),
                version: Version { time_ms, sequence },
                source,
            }),
            _ => Err(self.connection.strange("an invalid version")),
        }
    }
}

impl PageWrite for Client {
    fn put(&self, page: &Page, rule: PutRule) -> Result<Option<Put>> {
        self.put_of(page, rule, page.body.len() as u64, &mut page.body.as_slice())
    }

    /// Reads the body into memory first: a request must state its length.
    fn put_reader(&self, page: &Page, body: &mut dyn Read) -> Result<Version> {
        let mut bytes = Vec::new();
        let offset = |bytes: &Vec<u8>| bytes.len() as u64;
        if let Err(source) = body.read_to_end(&mut bytes) {
            let what = String::from_utf8_lossy(&page.url).into_owned();
            return Err(Error::Read { what, offset: offset(&bytes), source });
        }
        let put = self.put_of(page, PutRule::Always, offset(&bytes), &mut bytes.as_slice())?;
        put.map(|put| put.version()).ok_or_else(|| self.connection.strange("a put without its version"))
    }

    fn remove(&self, url: &[u8], variant: Option<&Variant>) -> Result<bool> {
        let path = format!("/v1/page?{}&durable=0", of_page(url, variant));
        let Some(found) = self.connection.delete(&path)? else { return Ok(false) };
        self.done(found).map(|_| true)
    }

    fn remove_at(&self, url: &[u8], variant: Option<&Variant>, time_ms: i64) -> Result<Option<RemovedVersions>> {
        let path = format!("/v1/page?{}", of_lookup(&Lookup::new(url).variant(variant).at(time_ms)));
        let Some(found) = self.connection.delete(&path)? else { return Ok(None) };
        let done = self.done(found)?;
        let mut removed = RemovedVersions::default();
        let figures = [
            (&mut removed.versions, done.versions),
            (&mut removed.beside, done.beside),
            (&mut removed.parted, done.parted),
            (&mut removed.without_body, done.without_body),
        ];
        for (figure, told) in figures {
            // An older server removes all versions and reports no number.
            *figure = told.ok_or_else(|| self.connection.strange("a removal that names no versions"))?;
        }
        Ok(Some(removed))
    }

    /// Sends one request for each variant and each page.
    fn remove_all(&self, scope: &Scope, each: &mut dyn FnMut(Result<Removed<'_>>) -> ControlFlow<()>) -> Result<u64> {
        let mut removed = 0;
        let mut pages = scope.clone();
        pages.kind = ListKind::Pages;
        // Variants separately first: a URL may have no page.
        for scope in [pages.clone().variants(), pages] {
            for listed in self.list(&scope, None)? {
                let gone = listed.and_then(|listed| {
                    let is_gone = self.remove(&listed.url, listed.variant.as_ref())?;
                    Ok(is_gone.then_some(listed))
                });
                let flow = match gone {
                    Ok(None) => continue,
                    Ok(Some(listed)) => {
                        let is_variant = listed.variant.is_some();
                        removed += u64::from(!is_variant);
                        each(Ok(if is_variant { Removed::variant(&listed.url) } else { Removed::page(&listed.url) }))
                    }
                    Err(error) if error.is_damage() || error.concerns_one_page() => each(Err(error)),
                    Err(error) => return Err(error),
                };
                if flow.is_break() {
                    return Ok(removed);
                }
            }
        }
        Ok(removed)
    }

    fn sync(&self) -> Result<()> {
        self.done(self.connection.post("/v1/sync")?).map(|_| ())
    }

    /// Makes earlier puts durable; the store stays open on the server.
    fn close(&self) -> Result<()> {
        if self.promises.writes { self.sync() } else { Ok(()) }
    }
}
