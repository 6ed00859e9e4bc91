//! Crawls with their pages and their state in the bucket of `FILEMAP_S3` (see
//! `crates/filemap-cloud/ceph.sh`): killed, continued elsewhere, taken over.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use filemap::access::Scope;
use filemap::{Lookup, PageRead as _};
use filemap_cloud::{CloudOptions, CloudStore, Mode, open_bucket};

use crate::web::crawl::Bench;
use crate::web::{Reply, Request, Site, Web, sites};

const KILLS: usize = 4;
const PAGES: usize = 400;
const CONNECTIONS: usize = 4;

/// A location for a store that no other test uses; `None` without a bucket.
pub fn place(name: &str) -> Option<String> {
    let Ok(s3) = std::env::var("FILEMAP_S3") else {
        eprintln!("skipped: FILEMAP_S3 names no bucket");
        return None;
    };
    let unique = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
    Some(format!("{s3}/{name}-{unique}"))
}

pub fn start(bench: &Bench, location: &str, web: &Web, more: &[&str]) -> Child {
    let (store, resolve) = (format!("--store={location}"), web.resolve());
    let (all, of_host) = (format!("--connections={CONNECTIONS}"), format!("--host-connections={CONNECTIONS}"));
    let arguments = ["--rate=0", "--allow-private", "--json", &store, &resolve, &all, &of_host];
    let mut command = bench.command("run", &[&arguments, more].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

fn wait_until(what: &str, mut child: Option<&mut Child>, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        let ended = child.as_mut().and_then(|child| child.try_wait().expect("asked"));
        assert!(ended.is_none() && begun.elapsed() < Duration::from_secs(300), "{what}: {ended:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn reader(location: &str) -> CloudStore {
    open_bucket(location, Mode::Read, &CloudOptions::new()).expect("a store")
}

/// The pages in a bucket without robots.txt, and the number of versions of each.
pub fn pages(location: &str) -> BTreeMap<String, (Vec<u8>, usize)> {
    let (store, mut pages) = (reader(location), BTreeMap::new());
    for listed in store.list(&Scope::new(), None).expect("listed") {
        let url = listed.expect("whole").url;
        let page = store.get(&Lookup::new(&url)).expect("whole").expect("it is listed");
        let versions = store.versions(&Lookup::new(&url)).expect("whole").len();
        let url = String::from_utf8(url).expect("text");
        if !url.ends_with("/robots.txt") {
            pages.insert(url, (page.body, versions));
        }
    }
    pages
}

fn is_whole(location: &str) {
    let pages = pages(location);
    assert_eq!(pages.len(), PAGES);
    for number in 0..PAGES {
        let url = if number == 0 { "http://tree.test/".to_owned() } else { format!("http://tree.test/p/{number}") };
        let (body, versions) = &pages[&url];
        assert_eq!((body.as_slice(), *versions), (sites::tree_page(number, PAGES).as_bytes(), 1), "{url}");
    }
}

#[test]
fn a_crawl_killed_on_one_machine_goes_on_with_the_next() {
    let Some(location) = place("killed") else { return };
    let web = Web::slow([("tree.test", sites::tree(PAGES))], Duration::from_millis(5));
    let mut again_at_most = 0;
    for kill in 1..=KILLS {
        // Another machine: an empty folder, and no start page.
        let bench = Bench::new();
        let seed: &[&str] = if kill == 1 { &["--seed=http://tree.test/", "--commit-every=300ms"] } else { &[] };
        let before = web.pages_asked();
        let mut child = start(&bench, &location, &web, seed);
        wait_until("it goes on", Some(&mut child), || web.pages_asked() >= before + PAGES / (KILLS + 2));
        let noted = reader(&location).kept().expect("it has committed");
        assert!(noted.iter().any(|(name, _)| name.starts_with("frontier/frontier.")), "{noted:?}");
        child.kill().expect("killed");
        child.wait().expect("ended");
        again_at_most += PAGES / (KILLS + 2) + 2 * CONNECTIONS + 100;
    }
    let bench = Bench::new();
    let end = Bench::finish(start(&bench, &location, &web, &[])).ended(0).json();
    assert_eq!(end["end"], "complete", "{end}");
    is_whole(&location);
    let again: usize =
        web.counts().iter().filter(|(url, _)| !url.ends_with("/robots.txt")).map(|(_, times)| times - 1).sum();
    eprintln!("{again} pages fetched again of {PAGES} in {KILLS} kills");
    assert!(again <= again_at_most, "{again} pages were fetched again");
    // Nothing is left to do, neither here nor on one more machine.
    let before = web.pages_asked();
    Bench::finish(start(&Bench::new(), &location, &web, &[])).ended(0);
    assert_eq!(web.pages_asked(), before);
}

#[test]
fn an_owner_that_loses_its_shard_ends_and_says_so() {
    let Some(location) = place("taken") else { return };
    // The second must have the shard before the first has all pages.
    let web = Web::slow([("tree.test", sites::tree(PAGES))], Duration::from_millis(60));
    let benches = [Bench::new(), Bench::new()];
    let seed = ["--seed=http://tree.test/", "--commit-every=300ms"];
    let mut first = start(&benches[0], &location, &web, &seed);
    wait_until("it begins", Some(&mut first), || web.pages_asked() > PAGES / 8);
    let second = start(&benches[1], &location, &web, &[]);
    let by = format!("process {}, since", second.id());
    let ran = Bench::finish(first).ended(5);
    assert!(ran.words.contains("another owner has taken it") && ran.words.contains(&by), "{}", ran.words);
    Bench::finish(second).ended(0);
    is_whole(&location);
}

#[test]
fn what_does_not_go_with_a_bucket_is_refused_by_name() {
    let Some(location) = place("refused") else { return };
    let web = Web::new([("tree.test", sites::tree(5))]);
    let bench = Bench::new();
    let refused = |arguments: &[&str], words: &str| {
        let ran = Bench::finish(start(&bench, &location, &web, arguments)).ended(2);
        assert!(ran.words.contains(words), "{}", ran.words);
    };
    let warc = format!("--warc={}", bench.path("warc").display());
    refused(&["--seed=http://tree.test/", &warc], "--warc");
    refused(&["--seed=http://tree.test/", "--own=0,1"], "there are 1 shards");
    refused(&["--seed=http://tree.test/", "--own=0", "--shards=1025"], "at most 1024 shards");
    Bench::finish(start(&bench, &location, &web, &["--seed=http://tree.test/"])).ended(0);
    let added = bench.run("add", &["http://tree.test/x"]).ended(2);
    assert!(added.words.contains("`fm-crawl run --seed`") && added.words.contains("s3://"), "{}", added.words);
    let to = bench.path("copy.fm").display().to_string();
    assert!(bench.run("backup", &[&to]).ended(2).words.contains("s3://"));
    assert!(bench.run("status", &[]).ended(0).out.contains("5 fetched"));
    // A folder that belongs to another crawl is refused, too.
    let local = Bench::new();
    let resolve = web.resolve();
    local.run("run", &["--rate=0", "--allow-private", &resolve, "--seed=http://tree.test/"]).ended(0);
    let ran = Bench::finish(start(&local, &location, &web, &[])).ended(2);
    assert!(ran.words.contains("belongs to a crawl into another store"), "{}", ran.words);
    assert!(Path::new(&local.store()).exists() && local.pages().len() == 5);
}

#[test]
fn why_and_retry_work_on_the_machine_of_the_last_run() {
    let Some(location) = place("asked") else { return };
    let is_broken = Arc::new(AtomicBool::new(true));
    let broken = Arc::clone(&is_broken);
    let site: Site = Arc::new(move |request: &Request| match (&*request.path, broken.load(Ordering::Relaxed)) {
        ("/bad", true) => Reply::Page(500, Vec::new(), Vec::new()),
        ("/", _) => Reply::html("<a href=/bad>it</a>"),
        ("/bad", false) => Reply::html("it is back"),
        _ => Reply::missing(),
    });
    let (web, bench) = (Web::new([("a.test", site)]), Bench::new());
    Bench::finish(start(&bench, &location, &web, &["--seed=http://a.test/", "--attempts=1"])).ended(5);
    let why = bench.run("why", &["http://a.test/bad"]).ended(0);
    assert!(why.out.contains("given up") && why.words.contains("the last run on this machine"), "{}", why.out);
    assert!(bench.run("why", &["http://a.test/"]).ended(0).out.contains("status 200"), "it is in the bucket");
    bench.run("why", &["http://a.test/never"]).ended(1);
    is_broken.store(false, Ordering::Relaxed);
    assert!(bench.run("retry", &[]).ended(0).out.contains("1 page queued again"));
    // Another machine sees it: it is in the bucket.
    let again = Bench::finish(start(&Bench::new(), &location, &web, &[])).ended(0);
    assert_eq!(again.json()["fetched"], 1, "{}", again.out);
    assert_eq!(pages(&location)["http://a.test/bad"].0, b"it is back");
}
