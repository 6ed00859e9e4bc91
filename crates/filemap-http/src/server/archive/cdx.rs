//! `/cdx`: the index of all captures, as an archive's CDX server returns it: lines of 11 fields,
//! of the fields that `fl` names, or JSON.
//!
//! Captures of one URL are sorted, so all are collected first. Those of a host, a domain or a
//! prefix are streamed in store order (hosts by reversed labels, then paths): first pages, then
//! captures of requests other than `GET`. An unreadable version has no line; the response then
//! breaks off at its end, and the log names the version.

use std::cmp::Reverse;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::IntoResponse;
use bytes::Bytes;
use filemap::access::{Listed, Scope};
use filemap::dump::index_key;
use filemap::page::RecordKind;
use filemap::{Error, Lookup, Page, PageHead, date};
use futures_util::stream::try_unfold;
use regex::bytes::{Regex, RegexBuilder};
use urlindex::canonical::url_of_surt;

use super::super::backend::Backend;
use super::super::pages::read;
use super::super::refusal::{Answer, Refusal};
use super::super::shown::{Capture, Shown, ShownListing};
use super::captures::{MOST, alike, first, last, named};
use crate::query::Query;

const PARAMETERS: [&str; 11] =
    ["url", "matchType", "from", "to", "closest", "sort", "limit", "filter", "fl", "output", "fields"];
/// The fields of a line, and the other names that tools use for them.
const FIELDS: [(&str, &str); 11] = [
    ("urlkey", "urlkey"),
    ("timestamp", "timestamp"),
    ("original", "url"),
    ("mimetype", "mime"),
    ("statuscode", "status"),
    ("digest", "digest"),
    ("redirect", "redirect"),
    ("robotflags", "robotflags"),
    ("length", "length"),
    ("offset", "offset"),
    ("filename", "filename"),
];
/// URLs per call of the store, and bytes of lines after which a call stops.
const URLS: usize = 256;
const PART: usize = 64 << 10;
/// Memory limit of a filter's expression, in bytes, and most filters of a request.
const MAX_EXPRESSION: usize = 1 << 20;
const MAX_FILTERS: usize = 8;

/// A capture's fields.
struct Row {
    time_ms: i64,
    fields: [Vec<u8>; FIELDS.len()],
}

impl Row {
    /// A blocked capture shows only its URL, in canonical form, and its time.
    fn of(shown: &Shown, found: &Capture) -> Result<Row, Error> {
        let mut row = Row::new(&found.head);
        if found.blocked.is_some() {
            let mut canonical = Page { variant: found.head.page.variant.clone(), ..Page::default() };
            canonical.url = url_of_surt(&shown.key(&found.head.page.url)?).into_owned();
            let [urlkey, original] = Row::names(&canonical);
            row.fields = [(); FIELDS.len()].map(|()| b"-".to_vec());
            (row.fields[0], row.fields[1], row.fields[2]) = (urlkey, date::stamp(row.time_ms).into_bytes(), original);
        }
        Ok(row)
    }

    /// The key in indexes, and the URL.
    fn names(page: &Page) -> [Vec<u8>; 2] {
        let url = read::escaped(&page.url).as_bytes().to_vec();
        let index_url = page.variant.as_ref().map_or(url.clone(), |variant| variant.index_url(&url));
        [index_key(&index_url), url]
    }

    fn new(head: &PageHead) -> Row {
        let page = &head.page;
        let [urlkey, url] = Row::names(page);
        let is_word = |text: &String| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        let mime = match page.kind {
            RecordKind::Revisit => "warc/revisit".to_owned(),
            _ => page.headers.mime().filter(is_word).unwrap_or("unk".to_owned()),
        };
        let digest = page.digest.as_deref().map(|digest| digest.strip_prefix("sha1:").unwrap_or(digest).to_owned());
        let none = || b"-".to_vec();
        Row {
            time_ms: page.fetched_at_ms,
            fields: [
                urlkey,
                date::stamp(page.fetched_at_ms).into_bytes(),
                url,
                mime.into_bytes(),
                page.status.map_or(none(), |status| status.to_string().into_bytes()),
                digest.filter(is_word).map_or(none(), String::into_bytes),
                none(),
                none(),
                head.stored_bytes.to_string().into_bytes(),
                none(),
                none(),
            ],
        }
    }
}

/// A condition on one field.
struct Filter {
    field: usize,
    expression: Regex,
    is_not: bool,
}

impl Filter {
    /// `[!]field:expression`; the expression matches the whole field, as on the Wayback Machine's
    /// server.
    fn parse(text: &str) -> Result<Filter, String> {
        let (text, is_not) = text.strip_prefix('!').map_or((text, false), |text| (text, true));
        let (name, expression) = text.split_once(':').ok_or("a `filter` is `[!]field:expression`")?;
        let whole = RegexBuilder::new(&format!("^(?:{expression})$")).size_limit(MAX_EXPRESSION).build();
        let expression = whole.map_err(|error| format!("the expression of `filter` is invalid: {error}"))?;
        Ok(Filter { field: field(name)?, expression, is_not })
    }
}

fn field(name: &str) -> Result<usize, String> {
    let found = FIELDS.iter().position(|(own, other)| name == *own || name == *other);
    found.ok_or_else(|| {
        let names: Vec<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
        format!("unknown field `{name}`; known are {}", names.join(", "))
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Sort {
    Oldest,
    Newest,
    Closest(i64),
    /// No time was given: the newest is closest to now.
    ClosestToNothing,
}

/// The request.
struct Asked {
    from_ms: i64,
    to_ms: i64,
    filters: Vec<Filter>,
    fields: Vec<usize>,
    is_json: bool,
    sort: Sort,
    /// From the end, if negative.
    limit: Option<i64>,
}

impl Asked {
    fn of(query: &Query) -> Result<Asked, String> {
        let stamp = "14 digits, or the first 4, 6, 8, 10 or 12";
        let closest = query.bytes("closest").filter(|stamp| !stamp.is_empty()).is_some();
        let closest = if closest { query.read("closest", stamp, first)? } else { None };
        let sort = match (query.text("sort")?, closest) {
            (Some("reverse"), _) => Sort::Newest,
            (Some("closest"), Some(time_ms)) => Sort::Closest(time_ms),
            (Some("closest"), None) => Sort::ClosestToNothing,
            (None | Some("default" | ""), _) => Sort::Oldest,
            (Some(other), _) => return Err(format!("the parameter `sort` is reverse or closest, not `{other}`")),
        };
        let names = query.text("fl")?.or(query.text("fields")?);
        let fields = names.map(|names| names.split(',').map(field).collect()).transpose()?;
        let is_json = query.read("output", "`json` or `text`", |output| match output {
            "json" => Some(true),
            "text" | "cdx" => Some(false),
            _ => None,
        })?;
        let filters = query.texts("filter")?;
        if filters.len() > MAX_FILTERS {
            return Err(format!("a request has at most {MAX_FILTERS} parameters `filter`, this one {}", filters.len()));
        }
        Ok(Asked {
            from_ms: query.read("from", stamp, first)?.unwrap_or(i64::MIN),
            to_ms: query.read("to", stamp, last)?.unwrap_or(i64::MAX),
            filters: filters.into_iter().map(Filter::parse).collect::<Result<_, _>>()?,
            fields: fields.unwrap_or_else(|| (0..FIELDS.len()).collect()),
            is_json: is_json.unwrap_or(false),
            sort,
            limit: query.read("limit", "a number, negative for the last ones", |text| text.parse().ok())?,
        })
    }

    fn takes(&self, row: &Row) -> bool {
        let fits = |filter: &Filter| filter.expression.is_match(&row.fields[filter.field]) != filter.is_not;
        (self.from_ms..=self.to_ms).contains(&row.time_ms) && self.filters.iter().all(fits)
    }

    fn line(&self, row: &Row, is_first: bool, out: &mut Vec<u8>) {
        let fields = self.fields.iter().map(|field| row.fields[*field].as_slice());
        if !self.is_json {
            let line: Vec<&[u8]> = fields.collect();
            out.extend_from_slice(&line.join(&b' '));
            out.push(b'\n');
            return;
        }
        if is_first {
            self.header(out);
        }
        let texts: Vec<_> = fields.map(String::from_utf8_lossy).collect();
        out.extend_from_slice(b",\n");
        out.extend_from_slice(&serde_json::to_vec(&texts).unwrap_or_default());
    }

    fn header(&self, out: &mut Vec<u8>) {
        let names: Vec<&str> = self.fields.iter().map(|field| FIELDS[*field].0).collect();
        out.push(b'[');
        out.extend_from_slice(&serde_json::to_vec(&names).unwrap_or_default());
    }

    /// Writes the end of the response, after the last line.
    fn end(&self, is_empty: bool, out: &mut Vec<u8>) {
        match (self.is_json, is_empty) {
            (true, true) => out.extend_from_slice(b"[]\n"),
            (true, false) => out.extend_from_slice(b"]\n"),
            (false, _) => {}
        }
    }
}

/// `GET /cdx`.
pub(crate) async fn cdx(State(backend): State<Arc<Backend>>, RawQuery(raw): RawQuery) -> Answer {
    let query = Query::parse_repeating(raw.as_deref(), &PARAMETERS, "filter")?;
    let asked = Asked::of(&query)?;
    let url = query.needed("url")?.to_vec();
    let kind = if asked.is_json { "application/json" } else { "text/plain; charset=utf-8" };
    let kind = [(CONTENT_TYPE, HeaderValue::from_static(kind))];
    let matching = query.text("matchType")?.filter(|matching| !matching.is_empty());
    let (url, matching) = match (url.strip_suffix(b"*"), url.strip_prefix(b"*."), matching) {
        (Some(prefix), _, None | Some("exact" | "prefix")) => (prefix.to_vec(), "prefix"),
        (_, Some(domain), None | Some("exact" | "domain")) => (domain.to_vec(), "domain"),
        (_, _, matching) => (url, matching.unwrap_or("exact")),
    };
    let scopes = match matching {
        "exact" => {
            let (lines, lost) = backend.call(move |shown| of_url(shown, &url, &asked)).await?;
            let missed = backend.missed();
            if let Some(missed) = missed.as_ref().filter(|_| lines.is_empty() || lines == b"[]\n") {
                return Err(Refusal::damage(missed));
            }
            let mut answer = (kind, lines).into_response();
            if let Some(missed) = missed {
                answer.headers_mut().insert("filemap-incomplete", read::escaped(missed.as_bytes()));
            }
            if let Some((count, first)) = lost {
                backend.log(&format!("an answer of /cdx lacks {count}, which cannot be read; the first: {first}"));
                answer.headers_mut().insert("filemap-left-out", HeaderValue::from(count));
            }
            return Ok(answer);
        }
        "prefix" => {
            let find = move |shown: &Shown| {
                let keys = alike(&url).into_iter().enumerate().filter_map(|(nth, url)| match shown.key(&url) {
                    Err(error) if nth > 0 && error.concerns_one_page() => None,
                    key => Some(key.map(|key| Scope::new().prefix(key))),
                });
                Ok(keys.collect::<filemap::Result<Vec<_>>>()?)
            };
            backend.call(find).await?
        }
        "host" => {
            let host = host(&url);
            let bare = host.strip_prefix("www.").unwrap_or(&host);
            vec![Scope::new().host(bare), Scope::new().host(format!("www.{bare}"))]
        }
        "domain" => vec![Scope::new().domain(host(&url))],
        other => return Err(Refusal::bad(format!("`matchType` is exact, prefix, host or domain, not `{other}`"))),
    };
    // pywb uses `sort=closest` without a time to search similar URLs.
    let is_unsorted = asked.sort == Sort::Oldest || asked.sort == Sort::ClosestToNothing;
    if !is_unsorted || asked.limit.is_some_and(|limit| limit < 0) {
        return Err(Refusal::bad("`sort` and a negative `limit` are for one URL: `matchType=exact`"));
    }
    Ok((kind, streamed(&backend, scopes, asked).await?).into_response())
}

/// The host in a URL, or the text that was given instead of one.
fn host(url: &[u8]) -> String {
    let own = alike(url).swap_remove(0);
    let text = String::from_utf8_lossy(&own);
    let rest = text.split_once("://").map_or(&*text, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => format!("[{address}]"),
        None => host.split(':').next().unwrap_or_default().to_owned(),
    }
}

/// Number of unreadable versions, and the first error.
type Lost = Option<(u64, Error)>;

/// The captures of one URL, sorted; and the number of unreadable ones, with the first error.
fn of_url(shown: &Shown, url: &[u8], asked: &Asked) -> Result<(Vec<u8>, Lost), Refusal> {
    let mut rows = Vec::new();
    let mut lost = None;
    for (nth, url) in alike(url).iter().enumerate() {
        let heads = named(shown, url).and_then(|named| named.map(|named| shown.history(named.lookup())).transpose());
        let heads = match heads {
            // `www.127.0.0.1` is not a URL, `127.0.0.1` is.
            Err(error) if nth > 0 && error.concerns_one_page() => continue,
            heads => heads?,
        };
        for head in heads.into_iter().flatten() {
            match head {
                Ok(found) => rows.extend(Some(Row::of(shown, &found)?).filter(|row| asked.takes(row))),
                Err(error) => lost.get_or_insert((0, error)).0 += 1,
            }
            if rows.len() > MOST {
                let words = format!("the URL has more than {MOST} such captures: narrow them by `from` and `to`");
                return Err(Refusal::bad(words));
            }
        }
    }
    // Newest first: each URL's captures already are, and the sort is stable.
    rows.sort_by_key(|row| Reverse(row.time_ms));
    match asked.sort {
        Sort::Newest | Sort::ClosestToNothing => {}
        Sort::Oldest => rows.reverse(),
        Sort::Closest(time_ms) => rows.sort_by_key(|row| row.time_ms.abs_diff(time_ms)),
    }
    if let Some(limit) = asked.limit {
        let most = usize::try_from(limit.unsigned_abs()).unwrap_or(usize::MAX).min(rows.len());
        match limit {
            ..0 => drop(rows.drain(..rows.len() - most)),
            0.. => rows.truncate(most),
        }
    }
    let mut out = Vec::new();
    for (nth, row) in rows.iter().enumerate() {
        asked.line(row, nth == 0, &mut out);
    }
    asked.end(rows.is_empty(), &mut out);
    Ok((out, lost))
}

/// State of a streamed response.
struct Rest {
    asked: Asked,
    listings: Vec<ShownListing>,
    lines: u64,
    /// The error of the first unreadable version.
    lost: Option<Error>,
    is_done: bool,
}

/// Streams the captures of many URLs.
async fn streamed(backend: &Arc<Backend>, scopes: Vec<Scope>, asked: Asked) -> Result<Body, Refusal> {
    let open = move |shown: &Shown| {
        let pages = scopes.iter().map(|scope| shown.list(scope, None));
        let variants = scopes.iter().map(|scope| shown.list(&scope.clone().variants(), None));
        let mut listings: Vec<ShownListing> = pages.chain(variants).collect::<filemap::Result<_>>()?;
        // The last listing is taken first.
        listings.reverse();
        Ok(listings)
    };
    let listings = backend.call(open).await?;
    let rest = Rest { asked, listings, lines: 0, lost: None, is_done: false };
    let backend = Arc::clone(backend);
    Ok(Body::from_stream(try_unfold(rest, move |rest| {
        let backend = Arc::clone(&backend);
        async move {
            let mut rest = rest;
            loop {
                match backend.call(move |shown| Ok(part(shown, rest)?)).await {
                    Ok(None) if backend.missed().is_some() => {
                        let missed = backend.missed().unwrap_or_default();
                        backend.log(&format!("an answer of /cdx is cut at its end: {missed}"));
                        return Err(std::io::Error::other(missed));
                    }
                    // None of these URLs match: continue, but let others have the thread.
                    Ok(Some((lines, left))) if lines.is_empty() && !left.is_done && !backend.is_stopping() => {
                        rest = left
                    }
                    Ok(part) => return Ok(part),
                    Err(error) => {
                        backend.log(&format!("an answer of /cdx is cut: {}", error.detail()));
                        return Err(std::io::Error::other(error.detail()));
                    }
                }
            }
        }
    })))
}

/// The next part of a response, which may be empty; `None` after the last.
fn part(shown: &Shown, mut rest: Rest) -> Result<Option<(Bytes, Rest)>, Error> {
    if rest.is_done {
        return rest.lost.map_or(Ok(None), Err);
    }
    let mut out = Vec::new();
    for _ in 0..URLS {
        let has_room = rest.asked.limit.is_none_or(|limit| rest.lines < limit.unsigned_abs());
        let next = if has_room { rest.next() } else { None };
        let Some(listed) = next else {
            // Left out after an error, so that the response is not even valid JSON.
            if rest.lost.is_none() {
                rest.asked.end(rest.lines == 0, &mut out);
            }
            rest.is_done = true;
            break;
        };
        rest.add(shown, &listed?, &mut out)?;
        if out.len() >= PART {
            break;
        }
    }
    Ok(Some((out.into(), rest)))
}

impl Rest {
    fn next(&mut self) -> Option<filemap::Result<Listed>> {
        loop {
            if let Some(listed) = self.listings.last_mut()?.next() {
                return Some(listed);
            }
            self.listings.pop();
        }
    }

    /// Appends the captures of one URL, oldest first.
    fn add(&mut self, shown: &Shown, listed: &Listed, out: &mut Vec<u8>) -> Result<(), Error> {
        let mut rows = Vec::new();
        for head in shown.history(Lookup::new(&listed.url).variant(listed.variant.as_ref()))? {
            match head {
                Ok(found) => rows.extend(Some(Row::of(shown, &found)?).filter(|row| self.asked.takes(row))),
                Err(error) => drop(self.lost.get_or_insert(error)),
            }
            if rows.len() > MOST {
                return Err(Error::Unsupported {
                    what: "answer with this many captures of one URL: request that URL alone",
                });
            }
        }
        for row in rows.iter().rev() {
            if self.asked.limit.is_some_and(|limit| self.lines >= limit.unsigned_abs()) {
                break;
            }
            self.asked.line(row, self.lines == 0, out);
            self.lines += 1;
        }
        Ok(())
    }
}
