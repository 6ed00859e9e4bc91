//! Ordinary web sites: real documentation, mirrors, pages that change, pages that ask not to be
//! fetched.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use filemap::{Options, PageStore};

use super::{Reply, Request, Site};

/// Pages by path.
pub type Pages = BTreeMap<String, Vec<u8>>;

/// The HTML pages of a part of the Python documentation, by path.
pub fn documentation() -> Pages {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/warc/python-docs.warc.gz");
    let folder = tempfile::tempdir().expect("a folder");
    let store = PageStore::create(folder.path().join("s"), Options::new()).expect("a store");
    let source = std::fs::File::open(file).expect("the file is there");
    let options = filemap::import::ImportOptions::default();
    filemap::import::import(&store, "python-docs", source, &options, &mut |_| std::ops::ControlFlow::Continue(()))
        .expect("the file is whole");
    let mut pages = Pages::new();
    for page in store.pages() {
        let page = page.expect("whole");
        let url = String::from_utf8(page.url.clone()).expect("text");
        if page.status == Some(200)
            && page.headers.get("Content-Type").is_some_and(|kind| kind.starts_with(b"text/html"))
        {
            let path = url.splitn(4, '/').nth(3).map(|path| format!("/{path}")).expect("a path");
            pages.insert(path, page.body);
        }
    }
    assert!(pages.len() > 5, "{} pages", pages.len());
    pages
}

/// A site with these pages; `/` links to all of them.
pub fn of(pages: Pages) -> Site {
    let index: String = pages.keys().map(|path| format!("<a href='{path}'>{path}</a>\n")).collect();
    Arc::new(move |request: &Request| {
        let path = request.path.split('?').next().unwrap_or_default();
        match pages.get(path) {
            Some(body) => Reply::html(body.clone()),
            None if path == "/" => Reply::html(index.clone()),
            None => Reply::missing(),
        }
    })
}

/// A tree of `pages` pages; each links to its children and to the page before.
pub fn tree(pages: usize) -> Site {
    Arc::new(move |request: &Request| {
        let Some(number) = tree_number(&request.path, pages) else { return Reply::missing() };
        Reply::html(tree_page(number, pages))
    })
}

fn tree_number(path: &str, pages: usize) -> Option<usize> {
    let number = if path == "/" { 0 } else { path.strip_prefix("/p/")?.parse().ok()? };
    (number < pages).then_some(number)
}

/// The body of a page of [`tree`].
pub fn tree_page(number: usize, pages: usize) -> String {
    let links = (1..=4).map(|child| number * 4 + child).chain([number.saturating_sub(1)]).filter(|to| *to < pages);
    let place = |to: usize| if to == 0 { "/".to_owned() } else { format!("/p/{to}") };
    let links: String = links.map(|to| format!("<p>and <a href='{}'>page {to}</a>", place(to))).collect();
    format!("<html><title>{number}</title>{links}{}", format!("<p>This is what page {number} says. ").repeat(40))
}

/// The same page under many URLs, and one that differs.
pub fn mirror() -> Site {
    Arc::new(|request: &Request| match request.path.as_str() {
        "/" => {
            Reply::html((0..20).map(|n| format!("<a href=/copy/{n}>x</a>")).collect::<String>() + "<a href=/own>y</a>")
        }
        "/own" => Reply::html("<p>of its own"),
        path if path.starts_with("/copy/") => Reply::html("<p>the same everywhere <a href=leads-nowhere-new>x</a>"),
        _ => Reply::missing(),
    })
}

/// Pages with validators: `/same` never changes, `/new` always does, `/dated` has a date.
pub fn validators() -> Site {
    let visits = AtomicUsize::new(0);
    Arc::new(move |request: &Request| {
        let html = ("Content-Type", "text/html".to_owned());
        let condition = |name: &str, value: &str| request.fields.get(name).is_some_and(|given| given == value);
        let dated = "Sun, 06 Nov 1994 08:49:37 GMT";
        match request.path.as_str() {
            "/" => Reply::html("<a href=/same>a</a><a href=/new>b</a><a href=/dated>c</a>"),
            "/same" if condition("if-none-match", "\"one\"") => {
                Reply::Page(304, vec![("ETag", "\"one\"".into())], vec![])
            }
            "/same" => Reply::Page(200, vec![html, ("ETag", "\"one\"".into())], b"<p>always the same".to_vec()),
            "/dated" if condition("if-modified-since", dated) => Reply::Page(304, vec![], vec![]),
            "/dated" => Reply::Page(200, vec![html, ("Last-Modified", dated.into())], b"<p>dated".to_vec()),
            "/new" => Reply::html(format!("<p>visit {}", visits.fetch_add(1, Ordering::Relaxed))),
            _ => Reply::missing(),
        }
    })
}

/// Five pages, and a robots.txt that wants a fifth of a second between requests.
pub fn unhurried() -> Site {
    let pages = tree(5);
    Arc::new(move |request: &Request| match request.path.as_str() {
        "/robots.txt" => Reply::text("User-agent: *\nCrawl-delay: 0.4\n"),
        _ => pages(request),
    })
}

/// A robots.txt that forbids a part and names a sitemap.
pub fn robots() -> Site {
    let sitemap = "<urlset><url><loc>http://robots.test/from-sitemap</loc></url><url><loc>http://elsewhere.test/</loc></url></urlset>";
    Arc::new(move |request: &Request| match request.path.as_str() {
        "/robots.txt" => Reply::text(
            "User-agent: *\nDisallow: /\n\nUser-agent: fm-crawl\nDisallow: /private\nAllow: /private/open\n\
             Sitemap: http://robots.test/map.xml\n",
        ),
        "/" => Reply::html(
            "<a href=/private/x>a</a><a href=/private/open>b</a><a href=/free>c</a><a rel=nofollow href=/n>d</a>",
        ),
        "/map.xml" => Reply::Page(200, vec![("Content-Type", "application/xml".into())], sitemap.into()),
        "/private/open" | "/free" | "/from-sitemap" | "/private/x" | "/n" => {
            Reply::html(format!("<p>{}", request.path))
        }
        _ => Reply::missing(),
    })
}
