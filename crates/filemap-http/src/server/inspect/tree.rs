//! `/tree`: the pages of a host by path, one folder at a time.
//!
//! Invariant: a view reads a few keys per row, however many pages a folder has: the listing skips
//! to the end of a folder, and its pages are counted up to [`COUNTED`]. Pages excluded by access
//! rules are skipped one by one, as in every list, and are never counted.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use filemap::access::{Cursor, Scope};
use maud::{Markup, html};

use super::super::backend::Backend;
use super::super::shown::Shown;
use super::layout::{as_json, failed, number, of_url, text, view_of, warning};
use crate::query::{Query, encoded};
use crate::wire;

/// Rows per view.
const ROWS: usize = 100;
/// Maximum number of pages of a folder that are counted.
const COUNTED: usize = 1_000;
/// Maximum number of pages of a host that are read to find its schemes and ports.
const LOOKED_AT: usize = 10_000;

/// An entry of a folder.
#[derive(Debug, PartialEq, Eq)]
enum Entry {
    Page(Vec<u8>),
    /// A folder with its number of pages; true if there are more.
    Folder(Vec<u8>, usize, bool),
}

/// A part of a folder, and the start of the next one.
struct Part {
    entries: Vec<Entry>,
    next: Option<Cursor>,
}

/// The request.
enum Asked {
    Host(String),
    Folder(Vec<u8>, Option<Cursor>),
}

impl Asked {
    fn of(raw: Option<&str>) -> Result<Asked, String> {
        let query = Query::parse(raw, &["host", "prefix", "cursor"])?;
        let cursor = query.read("cursor", "a cursor from an earlier view", wire::read_cursor)?;
        match (query.text("host")?, query.bytes("prefix")) {
            (Some(host), None) if cursor.is_none() => Ok(Asked::Host(host.to_owned())),
            (None, Some(prefix)) if path_of(prefix).is_some() => Ok(Asked::Folder(prefix.to_vec(), cursor)),
            (None, Some(_)) => {
                Err("the parameter `prefix` must have a host and a path, such as http://example.com/".to_owned())
            }
            _ => Err("give `host`, or `prefix` and a `cursor` from an earlier view".to_owned()),
        }
    }
}

/// Offset of the path in a URL.
fn path_of(url: &[u8]) -> Option<usize> {
    let authority = url.windows(3).position(|three| three == b"://")? + 3;
    let path = url[authority..].iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).filter(|at| *at > 0)?;
    (url[authority + path] == b'/').then_some(authority + path)
}

/// The subfolder of `prefix` that contains a URL; `None` if the URL is directly in `prefix`.
fn folder_of<'u>(url: &'u [u8], prefix: &[u8]) -> Option<&'u [u8]> {
    let rest = url.get(prefix.len()..)?;
    let name = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#'))?;
    (rest[name] == b'/').then(|| &url[..=prefix.len() + name])
}

/// The entries of a folder after a cursor.
fn part_of(shown: &Shown, prefix: &[u8], after: Option<Cursor>) -> filemap::Result<Part> {
    let scope = Scope::new().prefix(prefix);
    let mut part = Part { entries: Vec::new(), next: None };
    let mut place = after;
    let mut listing = shown.list(&scope, place.as_ref())?;
    while let Some(listed) = listing.next().transpose()? {
        if part.entries.len() == ROWS {
            part.next = place;
            return Ok(part);
        }
        let Some(folder) = folder_of(&listed.url, prefix) else {
            place = listed.cursor;
            part.entries.push(Entry::Page(listed.url));
            continue;
        };
        let of_folder = Scope::new().prefix(folder);
        part.entries.push(counted(shown, folder)?);
        let last = shown.list(&of_folder.backwards(), None)?.next().transpose()?;
        place = last.map_or(listed.cursor, |last| last.cursor);
        listing = shown.list(&scope, place.as_ref())?;
    }
    Ok(part)
}

/// A folder with the number of its pages.
fn counted(shown: &Shown, folder: &[u8]) -> filemap::Result<Entry> {
    let pages = shown.list(&Scope::new().prefix(folder), None)?.take(COUNTED + 1);
    let pages = pages.collect::<filemap::Result<Vec<_>>>()?.len();
    Ok(Entry::Folder(folder.to_vec(), pages.min(COUNTED), pages > COUNTED))
}

/// The roots of a host, one per scheme and port; and whether all its pages were read for them.
fn roots_of(shown: &Shown, host: &str) -> filemap::Result<(Vec<Entry>, bool)> {
    let (mut roots, mut looked_at) = (BTreeSet::new(), 0);
    for listed in shown.list(&Scope::new().host(host), None)?.take(LOOKED_AT) {
        let url = listed?.url;
        if let Some(path) = path_of(&url) {
            roots.insert(url[..=path].to_vec());
        }
        looked_at += 1;
    }
    let entries = roots.iter().map(|root| counted(shown, root)).collect::<filemap::Result<_>>()?;
    Ok((entries, looked_at < LOOKED_AT))
}

/// The view.
pub(crate) async fn tree(State(backend): State<Arc<Backend>>, RawQuery(raw): RawQuery) -> Response {
    let found = async {
        let asked = Asked::of(raw.as_deref())?;
        let look = move |shown: &Shown| {
            let (part, is_whole) = match &asked {
                Asked::Host(host) => {
                    roots_of(shown, host).map(|(entries, is_whole)| (Part { entries, next: None }, is_whole))?
                }
                Asked::Folder(prefix, after) => (part_of(shown, prefix, after.clone())?, true),
            };
            Ok((asked, part, is_whole))
        };
        backend.call(look).await
    };
    let (asked, part, is_whole) = match found.await {
        Ok(found) => found,
        Err(refusal) => return failed(refusal),
    };
    let (title, prefix, of_list) = match &asked {
        Asked::Host(host) => (host.clone(), &[][..], format!("host={}", encoded(host.as_bytes()))),
        Asked::Folder(prefix, _) => (text(prefix), prefix.as_slice(), format!("prefix={}", encoded(prefix))),
    };
    let content = html! {
        (warning(backend.missed()))
        (way(prefix))
        @if !is_whole { p role="note" {
            "Schemes and ports of the first " (number(LOOKED_AT as u64)) " pages; others are not searched."
        } }
        @if part.entries.is_empty() { p { "No more pages." } } @else { (table(&part.entries, prefix)) }
        @if let Some(next) = &part.next {
            p { a href={ "/tree?" (of_list) "&cursor=" (wire::cursor(next)) } { "Next entries" } }
        }
        p { a href={ "/list?" (of_list) } { "All as a list" } }
        (as_json(&format!("/v1/urls?{of_list}")))
    };
    view_of(&title, &title, &content)
}

/// Breadcrumbs from the host to the folder above this one.
fn way(prefix: &[u8]) -> Markup {
    let Some(path) = path_of(prefix) else { return html! {} };
    let host = urlindex::host(prefix).map(text).unwrap_or_default();
    // The last folder is this one.
    let ends = (path..prefix.len().saturating_sub(1)).filter(|at| prefix[*at] == b'/');
    let mut begin = 0;
    html! {
        nav aria-label="Folders" class="way" {
            @if !host.is_empty() { a href={ "/tree?host=" (encoded(host.as_bytes())) } { (host) } }
            @for end in ends {
                @let name = &prefix[std::mem::replace(&mut begin, end + 1)..=end];
                " " a href={ "/tree?prefix=" (encoded(&prefix[..=end])) } { (text(name)) }
            }
        }
    }
}

fn table(entries: &[Entry], prefix: &[u8]) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Entries" {
            table {
                thead { tr { th scope="col" { "Entry" } th scope="col" class="n" { "Pages" } } }
                tbody {
                    @for entry in entries {
                        tr { @match entry {
                            Entry::Page(url) => {
                                td { a href={ "/captures?" (of_url(url)) } { (name(url, prefix)) } }
                                td {}
                            }
                            Entry::Folder(folder, pages, has_more) => {
                                td { a href={ "/tree?prefix=" (encoded(folder)) } { (name(folder, prefix)) } }
                                td class="n" { @if *has_more { "over " } (number(*pages as u64)) }
                            }
                        } }
                    }
                }
            }
        }
    }
}

/// Name of an entry within its folder.
fn name(url: &[u8], prefix: &[u8]) -> String {
    let rest = url.strip_prefix(prefix).filter(|rest| !rest.is_empty());
    text(rest.unwrap_or(url))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_ends_behind_the_next_slash_of_the_path() {
        for (url, folder) in [
            ("http://a.example/d/x", None),
            ("http://a.example/d/", None),
            ("http://a.example/d/e/", Some("http://a.example/d/e/")),
            ("http://a.example/d/e/f/g?h/i", Some("http://a.example/d/e/")),
            ("http://a.example/d/x?y=/z", None),
            ("http://a.example/d//x", Some("http://a.example/d//")),
            ("http://a.example/d/x#/y", None),
        ] {
            let found = folder_of(url.as_bytes(), b"http://a.example/d/");
            assert_eq!(found, folder.map(str::as_bytes), "{url}");
        }
        for (url, path) in [
            ("http://a.example/x", Some(16)),
            ("http://a.example:80/x/y", Some(19)),
            ("http://a.example", None),
            ("http:///x", None),
            ("http://a.example?x/y", None),
            ("dns:a.example", None),
            ("", None),
        ] {
            assert_eq!(path_of(url.as_bytes()), path, "{url}");
        }
    }

    #[test]
    fn the_way_leads_through_each_folder_above() {
        let shown = way(b"http://a.example/<d>/e/").into_string();
        let targets: Vec<&str> = shown.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(
            targets,
            [
                "/tree?host=a.example",
                "/tree?prefix=http%3A%2F%2Fa.example%2F",
                "/tree?prefix=http%3A%2F%2Fa.example%2F%3Cd%3E%2F"
            ]
        );
        assert!(shown.contains("&lt;d&gt;/</a>") && !shown.contains("<d>"), "{shown}");
    }
}
