//! Sorts a page's links into known, new, and refused by depth, budget or length.

use std::collections::{HashMap, HashSet};

use crate::error::Result;
use crate::hosts::Hosts;
use crate::link::{key_of, url_of};
use crate::options::FrontierOptions;
use crate::outcome::Done;
use crate::state::State;
use crate::texts::URL_BYTES_MAX;

/// Counts of refused links, the known pages and the new URLs.
type Sorted<'a> = (Done, Vec<u32>, Vec<&'a str>);

/// Returns counts of refused links, the known pages and the new URLs.
///
/// # Errors
/// `Corrupt`, `Io`.
pub(crate) fn sort_links<'a>(
    state: &mut State,
    options: &FrontierOptions,
    page: u32,
    depth: u16,
    links: &[&'a str],
) -> Result<Sorted<'a>> {
    let (mut done, mut known, mut new) = (Done::default(), Vec::new(), Vec::new());
    let (mut seen, mut of_host) = (HashSet::new(), HashMap::new());
    for link in links {
        let fingerprint = state.index.fingerprint(key_of(link));
        if let Some(found) = state.index.meet(fingerprint)? {
            known.push(found);
            continue;
        }
        if !seen.insert(fingerprint) {
            continue;
        }
        if key_of(link).is_empty() || link.len() > URL_BYTES_MAX {
            done.over_length += 1;
            continue;
        }
        if depth > options.depth_max {
            done.over_depth += 1;
            continue;
        }
        if options.pages_per_host_max < u32::MAX {
            let name = Hosts::name_of(url_of(link));
            let before = || state.hosts.find(name).map_or(0, |host| state.hosts.pages(host));
            let count: &mut u32 = of_host.entry(name).or_insert_with(before);
            if *count >= options.pages_per_host_max {
                done.over_host_budget += 1;
                continue;
            }
            *count += 1;
        }
        new.push(*link);
    }
    known.sort_unstable();
    known.dedup();
    known.retain(|link| *link != page);
    Ok((done, known, new))
}
