//! The store over several folders as [`PageRead`] and [`PageWrite`]: calls of a URL go to the
//! member of its host, lists are merged, calls of the whole store go to every member. Members know
//! each other, so a revisit gets its body from whichever has it.

use std::collections::VecDeque;
use std::io::Read;
use std::ops::ControlFlow;

use filemap_core::{Put, Version};

use super::{ShardedStore, named, of_member};
use crate::access::{
    Capabilities, Contents, Cursor, Fetched, Listed, Loading, Lookup, PageRead, PageWrite, PutRule, Removed,
    RemovedVersions, Results, Scope, Streamed, heads_of_listed, merge,
};
use crate::error::{Error, Result};
use crate::page::Page;
use crate::page::variant::Variant;
use crate::page::version::PageHead;
use crate::store::PageStore;

/// Pages from which on the members are asked at the same time, each by a separate thread.
const MANY: usize = 32;
/// Pages that are in memory while they are read ahead, at most.
const AHEAD: usize = 64;

/// A URL, and its page.
type Found = (Vec<u8>, Result<Option<Page>>);

impl ShardedStore {
    fn of(&self, url: &[u8]) -> Result<&PageStore> {
        self.member_of(url)
    }

    /// Returns whether every member keeps its keys in order.
    fn is_in_order(&self) -> bool {
        self.members.iter().all(|member| member.engine().has_key_order())
    }

    /// Pages of some URLs, in their order.
    fn batch(&self, urls: Vec<Vec<u8>>, depth: usize) -> Vec<Found> {
        let mut of_members: Vec<Vec<(usize, Vec<u8>)>> = self.members.iter().map(|_| Vec::new()).collect();
        let mut pages = Vec::new();
        for (at, url) in urls.into_iter().enumerate() {
            match self.number_of(&url) {
                Ok(number) => of_members[number].push((at, url)),
                Err(error) => pages.push((at, (url, Err(error)))),
            }
        }
        for (member, of_member) in self.members.iter().zip(of_members) {
            let (places, urls): (Vec<usize>, Vec<Vec<u8>>) = of_member.into_iter().unzip();
            let read = member.get_ahead(urls, depth).map(|(url, page)| {
                let page = named(member, page);
                (url, page)
            });
            pages.extend(places.into_iter().zip(read));
        }
        pages.sort_unstable_by_key(|(at, _)| *at);
        pages.into_iter().map(|(_, page)| page).collect()
    }
}

impl PageRead for ShardedStore {
    /// Promises that all members make.
    fn capabilities(&self) -> Capabilities {
        let all = self.first().capabilities();
        self.members.iter().map(PageRead::capabilities).fold(all, |all, own| Capabilities {
            survives: all.survives.min(own.survives),
            has_history: all.has_history && own.has_history,
            lists_in_order: all.lists_in_order && own.lists_in_order,
            lists_from_cursor: all.lists_from_cursor && own.lists_from_cursor,
            has_upkeep: all.has_upkeep && own.has_upkeep,
        })
    }

    fn get(&self, lookup: &Lookup<'_>) -> Result<Option<Page>> {
        let member = self.of(lookup.url)?;
        named(member, PageRead::get(member, lookup))
    }

    fn get_version(&self, lookup: &Lookup<'_>, version: Version) -> Result<Option<Page>> {
        let member = self.of(lookup.url)?;
        named(member, PageRead::get_version(member, lookup, version))
    }

    fn get_reader<'s>(&'s self, lookup: &Lookup<'_>) -> Result<Option<Streamed<'s>>> {
        let member = self.of(lookup.url)?;
        named(member, PageRead::get_reader(member, lookup))
    }

    fn head(&self, lookup: &Lookup<'_>) -> Result<Option<PageHead>> {
        let member = self.of(lookup.url)?;
        named(member, PageRead::head(member, lookup))
    }

    fn contains(&self, lookup: &Lookup<'_>) -> Result<bool> {
        let member = self.of(lookup.url)?;
        named(member, PageRead::contains(member, lookup))
    }

    /// Each member is asked once, many pages at the same time.
    fn get_many(&self, urls: &[&[u8]]) -> Result<Vec<Option<Page>>> {
        let numbers = urls.iter().map(|url| self.number_of(url)).collect::<Result<Vec<usize>>>()?;
        let places = |number: usize| (0..urls.len()).filter(|at| numbers[*at] == number).collect::<Vec<usize>>();
        let ask = |number: usize, member: &PageStore| {
            let own: Vec<&[u8]> = places(number).into_iter().map(|at| urls[at]).collect();
            if own.is_empty() { Ok(Vec::new()) } else { PageRead::get_many(member, &own) }
        };
        let answers: Vec<Result<Vec<Option<Page>>>> = match urls.len() < MANY {
            true => self.members.iter().enumerate().map(|(at, member)| named(member, ask(at, member))).collect(),
            false => self.at_once(ask),
        };
        let mut pages: Vec<Option<Page>> = urls.iter().map(|_| None).collect();
        for (number, answer) in answers.into_iter().enumerate() {
            for (at, page) in places(number).into_iter().zip(answer?) {
                pages[at] = page;
            }
        }
        Ok(pages)
    }

    /// As many pages are read at once, and held in memory, as `depth` says, at most 64.
    fn get_ahead<'s>(&'s self, urls: Box<dyn Iterator<Item = Vec<u8>> + 's>, depth: usize) -> Fetched<'s> {
        let (mut urls, mut read, depth) = (urls, VecDeque::new(), depth.clamp(1, AHEAD));
        Box::new(std::iter::from_fn(move || {
            if read.is_empty() {
                let next = urls.by_ref().take(depth).collect();
                read.extend(self.batch(next, depth));
            }
            read.pop_front()
        }))
    }

    fn history<'s>(&'s self, lookup: &Lookup<'_>) -> Result<Results<'s, PageHead>> {
        let member = self.of(lookup.url)?;
        of_member(member, PageRead::history(member, lookup))
    }

    fn versions(&self, lookup: &Lookup<'_>) -> Result<Vec<Version>> {
        let member = self.of(lookup.url)?;
        named(member, PageRead::versions(member, lookup))
    }

    fn variants<'s>(&'s self, url: &[u8]) -> Result<Results<'s, Variant>> {
        let member = self.of(url)?;
        of_member(member, PageRead::variants(member, url))
    }

    fn may_have_variants(&self, url: &[u8]) -> Result<bool> {
        let member = self.of(url)?;
        named(member, PageRead::may_have_variants(member, url))
    }

    fn key(&self, url: &[u8]) -> Result<Vec<u8>> {
        self.first().key(url)
    }

    /// One list in order, of the lists of all members; of a host that of its member. Damage in a
    /// member is an error before all else, and what can be read follows; after any other error
    /// nothing does. If a member keeps no order, one list after the other. What is in another
    /// member than that of its host is not listed, as it is not found.
    fn list<'s>(&'s self, scope: &Scope, after: Option<&Cursor>) -> Result<Results<'s, Listed>> {
        let list = |member: &'s PageStore| {
            let list = of_member(member, PageRead::list(member, scope, after));
            list.map(|list| at_home(list, move |listed: &Listed| member.is_home(&listed.url)))
        };
        let lists = self.asked(scope).iter().map(list).collect::<Result<Vec<_>>>()?;
        Ok(match self.is_in_order() {
            true => merge::listings(lists, scope.is_backwards, Error::is_damage),
            false => until_fatal(lists.into_iter().flatten()),
        })
    }

    fn cursor(&self, url: &[u8]) -> Result<Cursor> {
        // A member that keeps no order says so.
        let without = self.members.iter().find(|member| !member.engine().has_key_order());
        PageRead::cursor(without.unwrap_or(self.first()), url)
    }

    /// From the counters of the members. So it includes what [`ShardedStore::strays`] finds, which
    /// is neither listed nor found.
    fn count(&self, scope: &Scope) -> Result<u64> {
        self.asked(scope).iter().map(|member| named(member, PageRead::count(member, scope))).sum()
    }

    /// Of all pages one member after the other, each in the order of its log; else in the order of
    /// [`PageRead::list`].
    fn heads<'s>(&'s self, scope: &Scope) -> Result<Results<'s, PageHead>> {
        match self.asked(scope) {
            [member] => of_member(member, PageRead::heads(member, scope)),
            members if scope.is_all() && !scope.is_backwards => {
                let heads = |member: &'s PageStore| {
                    let is_at_home = move |head: &PageHead| {
                        let key = member.key(&head.page.url);
                        key.map_or(true, |key| member.is_home(&key))
                    };
                    of_member(member, PageRead::heads(member, scope)).map(|heads| at_home(heads, is_at_home))
                };
                let heads = members.iter().map(heads).collect::<Result<Vec<_>>>()?;
                Ok(until_fatal(heads.into_iter().flatten()))
            }
            _ => heads_of_listed(self, scope),
        }
    }

    fn contents(&self) -> Result<Contents> {
        let mut all = Contents { keys: Some(0), bytes: Some(0) };
        for member in &self.members {
            let own = named(member, PageRead::contents(member))?;
            let sum = |all: Option<u64>, own: Option<u64>| Some(all?.saturating_add(own?));
            (all.keys, all.bytes) = (sum(all.keys, own.keys), sum(all.bytes, own.bytes));
        }
        Ok(all)
    }
}

impl PageWrite for ShardedStore {
    fn put(&self, page: &Page, rule: PutRule) -> Result<Option<Put>> {
        let member = self.of(&page.url)?;
        named(member, PageWrite::put(member, page, rule))
    }

    fn load(&self) -> Loading<'_> {
        let mut loads: Vec<Loading<'_>> = self.members.iter().map(PageWrite::load).collect();
        Box::new(move |page: &Page, rule| {
            let number = self.number_of(&page.url)?;
            let load = &mut loads[number];
            named(&self.members[number], load(page, rule))
        })
    }

    fn put_reader(&self, page: &Page, body: &mut dyn Read) -> Result<Version> {
        let member = self.of(&page.url)?;
        named(member, PageWrite::put_reader(member, page, body))
    }

    fn remove(&self, url: &[u8], variant: Option<&Variant>) -> Result<bool> {
        let member = self.of(url)?;
        named(member, PageWrite::remove(member, url, variant))
    }

    fn remove_at(&self, url: &[u8], variant: Option<&Variant>, time_ms: i64) -> Result<Option<RemovedVersions>> {
        let member = self.of(url)?;
        named(member, PageWrite::remove_at(member, url, variant, time_ms))
    }

    /// One member after the other. If one fails, pages are removed from the others all the same;
    /// the first failure is returned at the end.
    fn remove_all(&self, scope: &Scope, each: &mut dyn FnMut(Result<Removed<'_>>) -> ControlFlow<()>) -> Result<u64> {
        let (mut pages, mut goes_on) = (Ok(0), true);
        for member in self.asked(scope) {
            let removed = PageWrite::remove_all(member, scope, &mut |removed| {
                let told = each(named(member, removed));
                goes_on = told.is_continue();
                told
            });
            let removed = named(member, removed);
            pages = pages.and_then(|pages: u64| removed.map(|removed| pages + removed));
            if !goes_on {
                break;
            }
        }
        pages
    }

    /// All members at the same time. If one fails, the others are synced all the same.
    fn sync(&self) -> Result<()> {
        self.at_once(|_, member| PageWrite::sync(member)).into_iter().collect()
    }

    /// All members at the same time. If one fails, the others are closed all the same.
    fn close(&self) -> Result<()> {
        self.at_once(|_, member| PageWrite::close(member)).into_iter().collect()
    }
}

/// The items of a member's list that belong into it, and its errors.
fn at_home<'s, T: 's>(list: Results<'s, T>, is_at_home: impl Fn(&T) -> bool + Send + 's) -> Results<'s, T> {
    Box::new(list.filter(move |item| item.as_ref().map_or(true, &is_at_home)))
}

/// The items up to the first error that is not damage: what follows would hide what is missing.
pub(super) fn until_fatal<'s, T: 's>(items: impl Iterator<Item = Result<T>> + Send + 's) -> Results<'s, T> {
    let (mut items, mut is_over) = (items, false);
    Box::new(std::iter::from_fn(move || {
        let item = if is_over { None } else { items.next() };
        is_over = item.as_ref().is_some_and(|item| item.as_ref().is_err_and(|error| !error.is_damage()));
        item
    }))
}
