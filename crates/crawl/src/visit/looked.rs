//! Calls a crawl's hooks on a page before it is stored.

use std::collections::HashSet;

use filemap::Page;

use super::Broken;
use super::discovery::{self, Discovered};
use super::parts::Crawl;
use crate::hooks::fields;
use crate::hooks::{Capture, Fields};
use crate::links::{Link, requisites};

/// The outcome of the hooks for a page.
pub(super) struct Looked {
    /// Its links to follow.
    pub(super) links: Vec<Link>,
    /// The fields to store beside it.
    pub(super) fields: Fields,
    /// True if it is stored.
    pub(super) stores: bool,
    /// Data that the links of hooks have added, without those links.
    pub(super) discovered: Discovered,
}

impl Looked {
    /// The outcome for a page without hooks.
    pub(super) fn only(links: Vec<Link>) -> Looked {
        Looked { links, fields: Fields::new(), stores: true, discovered: Discovered::default() }
    }
}

/// Calls the hooks on a page: not on requisites, nor on named sitemaps.
///
/// # Errors
/// The store's error for a URL without a key; `Later` for a page that a hook rejects.
pub(super) fn look(
    crawl: &Crawl,
    (url, page): (&str, &Page),
    (depth, requisite): (u16, Option<u8>),
    mut links: Vec<Link>,
) -> Result<Looked, Broken> {
    let is_page = requisite.is_none() && crawl.sitemaps.level(url).is_none();
    if !is_page || crawl.hooks.on_page.is_empty() && crawl.fields.is_empty() {
        return Ok(Looked::only(links));
    }
    let found = fields::of(page, &crawl.fields);
    let key = String::from_utf8_lossy(&crawl.pages.key(&page.url)?).into_owned();
    let urls: Vec<String> =
        links.iter().filter(|link| !requisites::is_marked(link)).map(|link| link.url.clone()).collect();
    let capture = Capture { url, key: &key, depth, page, links: &urls, fields: &found };
    let (reply, failed) = crawl.hooks.look(&capture);
    if !reply.takes {
        return Err(Broken::Later);
    }
    let mut discovered = discovery::of_hook(crawl, url, reply.links);
    discovered.hooks_failed = failed;
    let known: HashSet<&String> = urls.iter().collect();
    links.extend(std::mem::take(&mut discovered.links).into_iter().filter(|link| !known.contains(&link.url)));
    if !reply.follows {
        links.clear();
    }
    Ok(Looked { links, fields: reply.fields, stores: reply.stores, discovered })
}
