//! Power losses at any moment, kills, and calls that fail.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};

use filemap_io::sim::{Failure as DiskFailure, Fault, Level, Loss};

use super::*;
use crate::failpoint::{Failpoint, plant};
use crate::marks::Status;

type Judged<T> = std::result::Result<T, String>;

/// The reported state: URLs in the order of discovery, pages done, pages given up.
#[derive(Clone, Debug, Default, PartialEq)]
struct Known {
    urls: Vec<String>,
    done: BTreeSet<String>,
    gone: BTreeSet<String>,
    /// Claimed pages that are not settled, with the claim of each.
    claimed: BTreeMap<String, u128>,
    /// All pages of each claim.
    claims: BTreeMap<u128, Vec<String>>,
    /// Outages of hosts.
    down: Vec<(String, Failing)>,
    /// A hash of the credit and the importance of all pages.
    credit: u64,
}

fn credit_of(frontier: &Frontier) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    for (page, importance) in frontier.by_importance(usize::MAX).expect("read") {
        let credit = frontier.state.table.peek(page.number()).expect("read").credit;
        (page.number(), importance.to_bits(), credit).hash(&mut hasher);
    }
    frontier.state.totals.waiting.hash(&mut hasher);
    hasher.finish()
}

fn down(frontier: &Frontier) -> Vec<(String, Failing)> {
    let hosts = &frontier.state.hosts;
    let down = |host| hosts.limits(host).down.map(|down| (hosts.name(host).to_owned(), down));
    (0..hosts.len()).filter_map(down).collect()
}

/// The reported states: the last committed one, and those after each call since.
#[derive(Clone, Debug, Default)]
struct Told {
    since: Vec<Known>,
}

fn small() -> FrontierOptions {
    // All pages may be in flight at once.
    let options = options().connections(1_000).journal_bytes_min(4096).memory_bytes(4096);
    options.host_failures_max(2).host_rest_ms(1_000, 8_000).host_down_ms(400_000)
}

impl Known {
    /// Checks that a frontier has this state.
    fn judge(&self, frontier: &Frontier) -> Judged<()> {
        let read: Result<Vec<(PageId, String)>> = frontier.urls_from(PageId::new(0)).collect();
        let urls: Vec<String> = read.map_err(|error| error.to_string())?.into_iter().map(|(_, url)| url).collect();
        if urls != self.urls {
            return Err(format!("{} URLs are there, {} were committed", urls.len(), self.urls.len()));
        }
        if !urls.is_empty() && credit_of(frontier) != self.credit {
            return Err(format!("the credit of {} pages has changed", urls.len()));
        }
        if down(frontier) != self.down {
            return Err(format!("hosts fail: {:?}, not {:?}", down(frontier), self.down));
        }
        let open: BTreeSet<u128> = self.claimed.values().copied().collect();
        let claims = frontier.claims().map_err(|error| error.to_string())?;
        let found: BTreeMap<u128, Vec<String>> =
            claims.into_iter().map(|claim| (claim.id, claim.pages.into_iter().map(|(_, url)| url).collect())).collect();
        let wanted: BTreeMap<u128, Vec<String>> =
            self.claims.iter().filter(|(id, _)| open.contains(id)).map(|(id, urls)| (*id, urls.clone())).collect();
        if found != wanted {
            return Err(format!("its claims are {found:?}, not {wanted:?}"));
        }
        for url in &urls {
            let state = frontier.page(url).map_err(|error| error.to_string())?;
            let status = state.map(|state| state.status);
            let is_right = match status {
                Some(PageStatus::Fetched) => self.done.contains(url),
                Some(PageStatus::Gone) => self.gone.contains(url),
                Some(PageStatus::Queued | PageStatus::Retrying) => !self.done.contains(url) && !self.gone.contains(url),
                _ => false,
            };
            if !is_right {
                return Err(format!("{url} is {status:?}, done {}", self.done.contains(url)));
            }
        }
        Ok(())
    }
}

impl Told {
    fn last(&self) -> Known {
        self.since.last().cloned().unwrap_or_default()
    }

    fn committed(&mut self) {
        self.since = vec![self.last()];
    }

    /// Checks what a crash left: the last commit or, if one is under way, that commit: after the
    /// last call, or within it.
    fn judge(&self, disk: &SimDisk) -> Judged<()> {
        let mut frontier = Frontier::open_in(disk.dir(), small()).map_err(|error| format!("does not open: {error}"))?;
        if frontier.credit_units().expect("read") != ALL_CREDIT {
            return Err("credit does not add up".into());
        }
        opening::judge_queues(&frontier)?;
        let pages = frontier.pages() as usize;
        let last = self.since.len().saturating_sub(2);
        let possible = self.since.iter().enumerate().filter(|(at, _)| *at == 0 || *at >= last);
        let same = possible.map(|(_, known)| known).filter(|known| known.urls.len() == pages);
        let judged: Vec<Judged<()>> = same.map(|known| known.judge(&frontier)).collect();
        if !judged.iter().any(|one| one.is_ok()) {
            return Err(format!("{pages} pages; {judged:?}; committed {}", self.since[0].urls.len()));
        }
        let names = disk.names();
        let runs: Vec<String> = frontier.state.index.names().collect();
        let others = names.iter().filter(|name| !runs.contains(name)).count();
        if others != 6 || names.len() != 6 + runs.len() {
            return Err(format!("files are left over: {names:?}"));
        }
        // The crawl continues: each page that is left is handed out once, and none that is done.
        let mut handed = BTreeSet::new();
        while let Next::Fetch(assignment) = frontier.next(1 << 40).map_err(|error| error.to_string())? {
            if !handed.insert(assignment.url.clone()) || self.since[0].done.contains(&assignment.url) {
                return Err(format!("{} is handed out again", assignment.url));
            }
        }
        let stats = frontier.stats();
        if handed.len() as u32 + stats.fetched + stats.gone != stats.pages {
            return Err(format!("{} were handed out: {stats:?}", handed.len()));
        }
        for url in handed.iter().take(3) {
            let page = state_of(&frontier, url).page;
            let fetched = Fetched { links: &["http://new.example/"], ..Fetched::default() };
            frontier.done(page, &fetched).map_err(|error| format!("takes no more: {error}"))?;
        }
        frontier.commit().map_err(|error| format!("does not commit: {error}"))
    }
}

fn page_of(frontier: &Frontier, url: &str) -> Option<u32> {
    let index = &frontier.state.index;
    let find = || index.find(index.fingerprint(url));
    // A failed read does no harm: try again.
    find().or_else(|_| find()).expect("read")
}

/// The pages that were given up.
fn gone(frontier: &Frontier, known: &Known) -> BTreeSet<String> {
    let is_gone = |url: &&String| {
        page_of(frontier, url)
            .is_some_and(|page| frontier.state.table.peek(page).expect("read").status() == Status::Gone)
    };
    known.urls.iter().filter(is_gone).cloned().collect()
}

/// Makes one call on a frontier, and updates what is known.
fn act(frontier: &mut Frontier, rng: &mut fastrand::Rng, known: &mut Known, now_ms: i64) -> Result<()> {
    let url = |rng: &mut fastrand::Rng| format!("http://h{}.example/{}", rng.u8(..5), rng.u32(..400));
    let enter = |known: &mut Known, url: &str| {
        if !known.urls.iter().any(|one| one == url) {
            known.urls.push(url.to_owned());
        }
    };
    if rng.u8(..30) == 0 || known.urls.is_empty() {
        let seed = url(rng);
        enter(known, &seed);
        known.gone.remove(&seed);
        frontier.seed(&[&seed], now_ms)?;
        return Ok(());
    }
    if rng.u8(..20) == 0 {
        let links: Vec<String> = (0..rng.u8(..5)).map(|_| url(rng)).collect();
        links.iter().for_each(|link| enter(known, link));
        return frontier.arrived(&links.iter().map(|link| &link[..]).collect::<Vec<_>>(), 2).map(drop);
    }
    if rng.u8(..20) == 0 {
        let pages: Vec<PageId> = known.gone.iter().filter_map(|url| page_of(frontier, url)).map(PageId::new).collect();
        frontier.retry(&pages)?;
        known.gone.clear();
        return Ok(());
    }
    let Next::Fetch(assignment) = frontier.next(now_ms)? else { return Ok(()) };
    if rng.u8(..4) == 0 {
        return claim(frontier, rng, known, assignment, now_ms);
    }
    let outcome = rng.u8(..10);
    if outcome > 1 {
        known.claimed.remove(&assignment.url);
    }
    match outcome {
        0 => {
            let remedy = [Remedy::Retry, Remedy::HostRests, Remedy::GiveUp][rng.usize(..3)];
            let failure = Failure { remedy, ..failure(FailureKind::Timeout) };
            let told = frontier.failed(assignment.page, &failure, now_ms);
            known.gone = gone(frontier, known);
            // Unfetched pages of a claim are still claimed.
            let claims = &frontier.state.claims;
            known.claimed.retain(|url, _| page_of(frontier, url).is_some_and(|page| claims.has(page)));
            told
        }
        1 => frontier.release(assignment.page),
        _ => {
            let links: Vec<String> = (0..rng.u8(..7)).map(|_| url(rng)).collect();
            links.iter().for_each(|link| enter(known, link));
            known.done.insert(assignment.url.clone());
            let links: Vec<&str> = links.iter().map(|link| &link[..]).collect();
            let fetched = Fetched { fetched_at_ms: now_ms, links: &links, ..Fetched::default() };
            frontier.done(assignment.page, &fetched).map(drop)
        }
    }
}

/// Claims an unclaimed page and some others handed out with it, without fetching them.
fn claim(
    frontier: &mut Frontier,
    rng: &mut fastrand::Rng,
    known: &mut Known,
    first: Assignment,
    now_ms: i64,
) -> Result<()> {
    if frontier.state.claims.has(first.page.number()) {
        assert!(matches!(frontier.claim(rng.u128(..), &[first.page]), Err(Error::NotInFlight { .. })));
        return frontier.release(first.page);
    }
    let mut others = Vec::new();
    for _ in 0..rng.u8(..3) {
        if let Next::Fetch(other) = frontier.next(now_ms)? {
            others.push(other);
        }
    }
    let free = others.iter().filter(|other| !frontier.state.claims.has(other.page.number()));
    let mut pages: Vec<&Assignment> = std::iter::once(&first).chain(free).collect();
    let id = rng.u128(..);
    frontier.claim(id, &pages.iter().map(|assignment| assignment.page).collect::<Vec<_>>())?;
    pages.sort_by_key(|assignment| assignment.page);
    let urls: Vec<String> = pages.iter().map(|assignment| assignment.url.clone()).collect();
    known.claimed.extend(urls.iter().map(|url| (url.clone(), id)));
    known.claims.insert(id, urls);
    others.iter().chain([&first]).try_for_each(|handed| frontier.release(handed.page))
}

/// One life of a frontier, with crashes at many moments; returns the first violation.
fn live(seed: u64) -> Judged<u64> {
    let disk = SimDisk::new(seed);
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut frontier = Frontier::create_in(disk.dir(), small()).expect("made");
    let told = Arc::new(Mutex::new(Told { since: vec![Known::default()] }));
    let broken = Arc::new(Mutex::new((None, 0u64)));
    let (told_then, broken_then, mut chance) = (Arc::clone(&told), Arc::clone(&broken), rng.fork());
    disk.observe(Some(Box::new(move |snapshot| {
        let mut broken = broken_then.lock().expect("one thread");
        if broken.0.is_some() || chance.u8(..4) > 0 {
            return;
        }
        let level = if chance.bool() { Level::Adversarial } else { Level::Ordered };
        let (loss, number) = (Loss::ALL[chance.usize(..4)], chance.u64(..));
        let image = if chance.u8(..5) == 0 { snapshot.kill() } else { snapshot.crash(level, loss, number) };
        let judged = told_then.lock().expect("one thread").judge(&image);
        broken.1 += 1;
        broken.0 =
            judged.err().map(|what| format!("seed {seed}, call {}, {level:?} {loss:?}: {what}", snapshot.calls()));
    })));
    for step in 0..300i64 {
        let mut known = told.lock().expect("one thread").last();
        let was_closed = frontier.journal.is_closed();
        act(&mut frontier, &mut rng, &mut known, step * 10_000).expect("told");
        if was_closed && !frontier.journal.is_closed() {
            // The first page handed out after a clean close commits what was before.
            told.lock().expect("one thread").committed();
        }
        (known.credit, known.down) = (credit_of(&frontier), down(&frontier));
        told.lock().expect("one thread").since.push(known);
        if rng.u8(..6) == 0 {
            frontier.commit().expect("committed");
            told.lock().expect("one thread").committed();
        }
        if rng.u8(..60) == 0 {
            // Dropping the handle loses uncommitted events and pages in flight.
            frontier.commit().expect("committed");
            told.lock().expect("one thread").committed();
            if rng.bool() {
                frontier.close().expect("closed");
            } else {
                drop(frontier);
            }
            frontier = Frontier::open_in(disk.dir(), small()).map_err(|error| format!("seed {seed}: {error}"))?;
        }
    }
    disk.observe(None);
    drop(frontier);
    let (broken, images) = std::mem::take(&mut *broken.lock().expect("one thread"));
    broken.map_or(Ok(images), Err)
}

#[test]
fn what_was_committed_is_there_and_nothing_done_comes_again_whenever_the_power_fails() {
    let mut images = 0;
    for seed in 0..30 {
        images += live(seed).unwrap_or_else(|what| panic!("{what}"));
    }
    assert!(images > 600, "{images}");
}

#[test]
fn planted_mistakes_are_found() {
    let mistakes = [
        Failpoint::JournalNotSynced,
        Failpoint::SnapshotNotSynced,
        Failpoint::UrlsNotSynced,
        Failpoint::LinksNotSynced,
        Failpoint::BlocksNotSynced,
        Failpoint::BlocksInPlace,
        Failpoint::RunsNotSynced,
        Failpoint::RunsRemovedFirst,
        Failpoint::JournalRemovedFirst,
        Failpoint::LinksNotTold,
        Failpoint::ClaimsDropped,
        Failpoint::RestsDropped,
        Failpoint::RoundDropped,
        Failpoint::PartCounts,
    ];
    for mistake in mistakes {
        plant(Some(mistake));
        let found = (100..140).find_map(|seed| live(seed).err());
        plant(None);
        assert!(found.is_some(), "{mistake:?} was not found");
    }
}

/// Pages are refetched over and over: the file of links is rewritten, and a crash at any moment of
/// it changes no unit of credit.
#[test]
fn lists_of_links_are_rewritten_and_every_crash_leaves_the_credit_that_was_there() {
    let recrawl = Recrawl::new().first_ms(0).min_ms(0).max_ms(0);
    let options = small().recrawl(Some(recrawl)).memory_bytes(1 << 20);
    let disk = SimDisk::new(7);
    let mut rng = fastrand::Rng::with_seed(7);
    let mut frontier = Frontier::create_in(disk.dir(), options.clone()).expect("made");
    let url = |page: u32| format!("http://h{}.example/{page}", page % 5);
    let seeds: Vec<String> = (0..40).map(url).collect();
    frontier.seed(&seeds.iter().map(|seed| &seed[..]).collect::<Vec<&str>>(), 0).expect("seeded");
    frontier.commit().expect("committed");
    let since = Arc::new(Mutex::new(vec![credit_of(&frontier)]));
    let (since_then, mut chance, mut files) = (Arc::clone(&since), rng.fork(), BTreeSet::new());
    let (judged, opened_with) = (Arc::new(Mutex::new(Ok(0))), options.clone());
    let judged_then = Arc::clone(&judged);
    disk.observe(Some(Box::new(move |snapshot| {
        let mut judged = judged_then.lock().expect("one thread");
        if judged.is_err() || chance.u8(..3) > 0 {
            return;
        }
        let image = snapshot.crash(Level::Adversarial, Loss::ALL[chance.usize(..4)], chance.u64(..));
        let since = since_then.lock().expect("one thread");
        *judged = match Frontier::open_in(image.dir(), opened_with.clone()) {
            Ok(frontier) if since.contains(&credit_of(&frontier)) && image.names().len() == 6 => {
                judged.clone().map(|n| n + 1)
            }
            Ok(_) => Err(format!("call {}: other credit, or {:?}", snapshot.calls(), image.names())),
            Err(error) => Err(format!("call {}: {error}", snapshot.calls())),
        };
    })));
    for step in 0..1_500i64 {
        let assignment = fetch(&mut frontier, step * 2_000);
        let links: Vec<String> = (0..rng.u8(..6)).map(|_| url(rng.u32(..60))).collect();
        let links: Vec<&str> = links.iter().map(|link| &link[..]).collect();
        done(&mut frontier, assignment.page, step * 2_000, &links);
        since.lock().expect("one thread").push(credit_of(&frontier));
        if step % 9 == 0 {
            frontier.commit().expect("committed");
            *since.lock().expect("one thread") = vec![credit_of(&frontier)];
            files.extend(disk.names().into_iter().filter(|name| name.ends_with(".links")));
        }
    }
    disk.observe(None);
    let images = judged.lock().expect("one thread").clone().unwrap_or_else(|what| panic!("{what}"));
    assert!(images > 100 && files.len() > 3, "{images} {files:?}");
}

/// One life in which a call fails; returns whether the frontier was poisoned.
fn live_with_failure(at: u64, fault: Fault, forever: bool) -> Judged<bool> {
    let disk = SimDisk::new(at);
    let mut rng = fastrand::Rng::with_seed(at);
    let mut frontier = Frontier::create_in(disk.dir(), small()).expect("made");
    let mut told = Told { since: vec![Known::default()] };
    disk.fail(Some(DiskFailure { at: disk.calls() + at, fault, only_syncs: false, forever }));
    let mut is_poisoned = false;
    for step in 0..120i64 {
        let mut known = told.last();
        // A failed read does no harm.
        if act(&mut frontier, &mut rng, &mut known, step * 10_000).is_ok() {
            (known.credit, known.down) = (credit_of(&frontier), down(&frontier));
            told.since.push(known);
        }
        if step % 5 == 4 {
            match frontier.commit() {
                Ok(()) => told.committed(),
                Err(_) => {
                    is_poisoned = true;
                    break;
                }
            }
        }
    }
    if is_poisoned {
        assert!(matches!(frontier.next(0), Err(Error::Storage(StorageError::Poisoned { .. }))));
        assert!(matches!(frontier.seed(&["http://a.example/"], 0), Err(Error::Storage(StorageError::Poisoned { .. }))));
        assert!(matches!(frontier.commit(), Err(Error::Storage(StorageError::Poisoned { .. }))));
        assert!(frontier.stats().pages > 0 || told.last().urls.is_empty(), "it still answers");
    }
    disk.heal();
    drop(frontier);
    let what = |when: &str, judged: Judged<()>| judged.map_err(|what| format!("call {at} {fault:?}, {when}: {what}"));
    let crashed = disk.crash(Level::Adversarial, Loss::Everything, at);
    what("opened again", told.judge(&disk))?;
    what("after a crash", told.judge(&crashed))?;
    for number in 0..4 {
        let image = disk.crash(Level::Adversarial, Loss::Random, 4 * at + number);
        let opened = Frontier::open_in(image.dir(), small());
        what("after another crash", opened.map(drop).map_err(|error| error.to_string()))?;
    }
    Ok(is_poisoned)
}

#[test]
fn after_any_failed_call_nothing_committed_is_lost() {
    let mut poisoned = BTreeMap::new();
    for at in 1..160 {
        for (fault, forever) in [(Fault::Eio, false), (Fault::Enospc, true), (Fault::ShortWrite, false)] {
            let was = live_with_failure(at, fault, forever).unwrap_or_else(|what| panic!("{what}"));
            *poisoned.entry(format!("{fault:?}")).or_insert(0) += u32::from(was);
        }
    }
    assert!(poisoned.values().all(|count| *count > 5), "{poisoned:?}");
}

#[test]
fn a_creation_that_was_cut_short_is_begun_again() {
    let disk = SimDisk::new(1);
    let images = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&images);
    disk.observe(Some(Box::new(move |snapshot| {
        let mut taken = taken.lock().expect("one thread");
        taken.push(snapshot.kill());
        for loss in Loss::ALL {
            taken.push(snapshot.crash(Level::Adversarial, loss, snapshot.calls()));
        }
    })));
    drop(Frontier::create_in(disk.dir(), options()).expect("made"));
    disk.observe(None);
    let (mut made, mut opened) = (0, 0);
    for image in images.lock().expect("one thread").iter() {
        match Frontier::open_in(image.dir(), options()) {
            Ok(_) => opened += 1,
            Err(Error::Missing { .. }) => {
                made += 1;
                Frontier::create_in(image.dir(), options()).expect("made after all");
                Frontier::open_in(image.dir(), options()).expect("opened");
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(made > 10 && opened > 0, "{made} {opened}");
}
