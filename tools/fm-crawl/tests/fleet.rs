//! Several crawls that share a seen set: one of them fetches each page, and none is lost to kills
//! or while the set is unreachable.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use filemap::{Options, PageStore};
use filemap_http::server::{SeenSets, Server, ServerOptions};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use urlindex::stored::{NewSet, StoredSet};
use urlindex::{DiskOptions, Whatwg};
use urlindex_redis::{NewRedisSet, RedisOptions, RedisUrlSet};

use crate::web::crawl::Bench;
use crate::web::{Reply, Request, Site, Web, sites};

const PAGES: usize = 600;
const KILLS: usize = 20;
const CONNECTIONS: usize = 4;
/// A crawl only finds links on pages that it has fetched, so the two start in two places.
const SEEDS: [&str; 2] = ["--seed=http://left.test/", "--seed=http://right.test/"];

/// A sender that stops a server, and the thread that then ends.
type Running = (oneshot::Sender<()>, JoinHandle<filemap::Result<()>>);

/// A server of a seen set; stopped when it is dropped.
struct Shared {
    folder: TempDir,
    address: SocketAddr,
    runtime: Runtime,
    running: Option<Running>,
}

impl Shared {
    fn new() -> Shared {
        let folder = tempfile::tempdir().expect("a folder");
        let set = StoredSet::create(folder.path().join("seen"), NewSet::Disk(DiskOptions::new()), &Whatwg);
        set.expect("made").close().expect("closed");
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
        let mut shared = Shared { folder, address: "127.0.0.1:0".parse().expect("an address"), runtime, running: None };
        shared.start();
        shared
    }

    fn of(store: PageStore, options: ServerOptions) -> Shared {
        let folder = tempfile::tempdir().expect("a folder");
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
        let mut shared = Shared { folder, address: "127.0.0.1:0".parse().expect("an address"), runtime, running: None };
        shared.serve(Server::new(store, options));
        shared
    }

    fn start(&mut self) {
        let path = self.folder.path().join("pages.fm");
        let store = PageStore::open_or_create(path, Options::new()).expect("a store");
        let mut sets = SeenSets::new().writes();
        sets.add("pages", &self.folder.path().join("seen")).expect("opened");
        self.serve(Server::new(store, ServerOptions::new().writes().seen(sets)));
    }

    fn serve(&mut self, server: Server) {
        // While it was stopped, a connection of another process may have been given the port.
        let begun = Instant::now();
        let listener = loop {
            match self.runtime.block_on(TcpListener::bind(self.address)) {
                Err(_) if begun.elapsed() < Duration::from_secs(60) => std::thread::sleep(Duration::from_millis(50)),
                bound => break bound.expect("the port"),
            }
        };
        self.address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel();
        let serving = self.runtime.spawn(server.serve(listener, None, async { drop(stopped.await) }));
        self.running = Some((stop, serving));
    }

    fn stop(&mut self) {
        if let Some((stop, serving)) = self.running.take() {
            drop(stop);
            self.runtime.block_on(serving).expect("no panic").expect("closed");
        }
    }

    fn argument(&self) -> String {
        format!("--seen=http://{}/v1/seen/pages", self.address)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.stop();
    }
}

fn command(bench: &Bench, resolve: &str, seen: &str) -> Command {
    command_from("--seed=http://tree.test/", bench, resolve, seen)
}

fn command_from(seed: &str, bench: &Bench, resolve: &str, seen: &str) -> Command {
    let (all, each) = (format!("--connections={CONNECTIONS}"), format!("--host-connections={CONNECTIONS}"));
    let arguments = [seed, "--rate=0", "--allow-private", "--json", resolve, &all, &each, seen];
    bench.command("run", &arguments)
}

fn start(bench: &Bench, resolve: &str, seen: &str) -> Child {
    begin(command(bench, resolve, seen))
}

fn begin(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// All pages that some crawl has, with the number of crawls that have each.
fn found(benches: &[Bench]) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for (url, page) in benches.iter().flat_map(Bench::pages) {
        assert!(!page.body.is_empty(), "{url}");
        *found.entry(url).or_default() += 1;
    }
    found
}

fn all_urls(host: &str) -> BTreeSet<String> {
    (1..PAGES).map(|number| format!("http://{host}/p/{number}")).chain([format!("http://{host}/")]).collect()
}

/// A tree in which each page links to the page with the same number on the other host.
fn crossed(other: &'static str) -> Site {
    Arc::new(move |request: &Request| {
        let number =
            if request.path == "/" { Some(0) } else { request.path.strip_prefix("/p/").and_then(|n| n.parse().ok()) };
        match number.filter(|number| *number < PAGES) {
            Some(number) => {
                let place = if number == 0 { String::new() } else { format!("p/{number}") };
                let link = format!("<a href='http://{other}/{place}'>there</a>");
                Reply::html(sites::tree_page(number, PAGES) + &link)
            }
            None => Reply::missing(),
        }
    })
}

/// A site that answers for a start page once two were requested: then both crawls have started.
fn together(site: Site, begun: &Arc<AtomicU32>) -> Site {
    let begun = Arc::clone(begun);
    Arc::new(move |request: &Request| {
        if request.path == "/" {
            begun.fetch_add(1, Ordering::Relaxed);
            let until = Instant::now() + Duration::from_secs(20);
            while begun.load(Ordering::Relaxed) < 2 && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        site(request)
    })
}

#[test]
fn of_two_crawls_each_page_is_fetched_by_one_but_for_start_pages() {
    let begun = Arc::default();
    let hosts = [("left.test", "right.test"), ("right.test", "left.test")]
        .map(|(host, other)| (host, together(crossed(other), &begun)));
    let (web, shared) = (Web::slow(hosts, Duration::from_millis(5)), Shared::new());
    let (benches, resolve, seen) = ([Bench::new(), Bench::new()], web.resolve(), shared.argument());
    let begin_at = |bench: &Bench, seed: &str| {
        let mut command = command_from(seed, bench, &resolve, &seen);
        command.arg("--scope=any");
        begin(command)
    };
    let children = [begin_at(&benches[0], SEEDS[0]), begin_at(&benches[1], SEEDS[1])];
    let ends = children.map(|child| Bench::finish(child).ended(0).json());
    let found = found(&benches);
    let wanted = all_urls("left.test").into_iter().chain(all_urls("right.test")).collect::<BTreeSet<_>>();
    assert_eq!(found.keys().cloned().collect::<BTreeSet<_>>(), wanted, "{ends:?}");
    let twice: Vec<&String> = found.iter().filter(|(_, times)| **times > 1).map(|(url, _)| url).collect();
    assert!(twice.iter().all(|url| SEEDS.iter().any(|seed| seed.ends_with(url.as_str()))), "{twice:?}");
    assert!(benches.iter().all(|bench| bench.pages().len() > 5), "both had work: {ends:?}");
    // `why` tells pages of the other crawl apart from failed ones.
    let mut others = wanted.iter().filter(|url| !benches[0].pages().contains_key(*url)).take(20);
    let is_told = others.any(|url| benches[0].run("why", &[url]).out.contains("the last: elsewhere"));
    assert!(is_told, "{ends:?}");
    // The address of the set is remembered, and a second run has nothing to do.
    assert_eq!(benches[0].run("run", &["--allow-private", &resolve, "--json"]).ended(0).json()["end"], "complete");
}

#[cfg(feature = "cloud")]
#[test]
fn a_crawl_into_a_bucket_shares_a_set_with_one_into_a_folder() {
    let Some(location) = crate::bucket::place("seen") else { return };
    let hosts = [("left.test", crossed("right.test")), ("right.test", crossed("left.test"))];
    let (web, shared) = (Web::slow(hosts, Duration::from_millis(20)), Shared::new());
    let (benches, resolve, seen) = ([Bench::new(), Bench::new()], web.resolve(), shared.argument());
    let store = format!("--store={location}");
    // A request to the set follows a commit in the bucket: many pages each.
    let usual = ["--scope=any", "--rate=0", "--allow-private", "--json", "--connections=64", "--host-connections=64"];
    let begin_at = |which: usize, more: &[&str]| {
        begin(benches[which].command("run", &[&usual[..], &[&*resolve, &*seen, SEEDS[which]], more].concat()))
    };
    let children = [begin_at(0, &[&store]), begin_at(1, &[])];
    let ends = children.map(|child| Bench::finish(child).ended(0).json());
    let in_bucket: BTreeSet<String> = crate::bucket::pages(&location).into_keys().collect();
    let in_folder: BTreeSet<String> = benches[1].pages().into_keys().collect();
    let wanted = all_urls("left.test").into_iter().chain(all_urls("right.test")).collect::<BTreeSet<_>>();
    assert_eq!(in_bucket.union(&in_folder).cloned().collect::<BTreeSet<_>>(), wanted, "{ends:?}");
    let twice: Vec<&String> = in_bucket.intersection(&in_folder).collect();
    assert!(twice.iter().all(|url| SEEDS.iter().any(|seed| seed.ends_with(url.as_str()))), "{twice:?}");
    assert!(!in_bucket.is_empty() && !in_folder.is_empty(), "both had work: {ends:?}");
}

#[test]
fn crawls_that_are_killed_lose_no_page_to_each_other() {
    let shared = Shared::new();
    lose_no_page_to_each_other(&shared.argument());
}

#[test]
fn crawls_that_are_killed_lose_no_page_to_each_other_by_a_set_on_redis() {
    let Some(redis) = Redis::start() else { return };
    let location = format!("redis://127.0.0.1:{}/pages", redis.port);
    let (new, options) = (NewRedisSet::Exact { urls: 100_000 }, RedisOptions::new());
    let set = RedisUrlSet::create(&location, new, &Whatwg, &options).expect("created");
    lose_no_page_to_each_other(&format!("--seen={location}"));
    assert_eq!(set.count().expect("counted"), 2 * PAGES as u64);
}

/// A `redis-server` on the loopback address, killed when this is dropped.
struct Redis {
    port: u16,
    server: Child,
    _folder: tempfile::TempDir,
}

impl Redis {
    /// Returns `None` if the program is missing; in CI that fails the test.
    fn start() -> Option<Redis> {
        let folder = tempfile::tempdir().expect("a folder");
        // Somebody else may take the port before the server does, which then ends.
        for _ in 0..20 {
            let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
            let port = free.expect("a port").port();
            let mut command = std::process::Command::new("redis-server");
            command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]);
            let Ok(mut server) = command.arg(folder.path()).stdout(Stdio::null()).spawn() else {
                assert!(std::env::var_os("CI").is_none(), "redis-server is needed");
                eprintln!("skipped: there is no redis-server");
                return None;
            };
            while server.try_wait().expect("ours").is_none() {
                if is_redis(port) {
                    return Some(Redis { port, server, _folder: folder });
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        panic!("redis-server does not start");
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        drop(self.server.kill());
        drop(self.server.wait());
    }
}

/// Returns whether a Redis is at this port.
fn is_redis(port: u16) -> bool {
    let ping = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(b"PING\r\n")?;
        let mut first = [0];
        stream.read_exact(&mut first)?;
        // PONG, or an error that asks for a password.
        Ok([b'+', b'-'].contains(&first[0]))
    };
    ping().unwrap_or(false)
}

fn lose_no_page_to_each_other(seen: &str) {
    let hosts = [("left.test", crossed("right.test")), ("right.test", crossed("left.test"))];
    let web = Web::slow(hosts, Duration::from_millis(2));
    let (benches, resolve) = ([Bench::new(), Bench::new()], web.resolve());
    let start = |which: usize| {
        let mut command = command_from(SEEDS[which], &benches[which], &resolve, seen);
        command.arg("--scope=any");
        begin(command)
    };
    let (mut children, mut hits) = ([start(0), start(1)], 0);
    for kill in 1..=KILLS {
        // Each round waits for more pages than the one before, so every kill hits a crawl at work.
        let is_over = |children: &mut [Child; 2]| children.iter_mut().all(|child| child.try_wait().unwrap().is_some());
        while web.pages_asked() < kill * 2 * PAGES / (KILLS + 2) && !is_over(&mut children) {
            std::thread::sleep(Duration::from_micros(200));
        }
        // The crawls take turns; one that has ended is skipped.
        let mut is_at_work = |which: usize| children[which].try_wait().unwrap().is_none();
        let which = if is_at_work(kill % 2) { kill % 2 } else { 1 - kill % 2 };
        hits += usize::from(is_at_work(which));
        let _ = children[which].kill();
        children[which].wait().unwrap();
        children[which] = start(which);
    }
    assert!(hits > KILLS * 3 / 4, "only {hits} kills met a crawl at work");
    children.into_iter().for_each(|child| drop(Bench::finish(child).ended(0)));
    let found = found(&benches);
    let wanted = all_urls("left.test").into_iter().chain(all_urls("right.test")).collect::<BTreeSet<_>>();
    assert_eq!(found.keys().cloned().collect::<BTreeSet<_>>(), wanted);
    let twice: Vec<&String> = found.iter().filter(|(_, times)| **times > 1).map(|(url, _)| url).collect();
    assert!(twice.iter().all(|url| SEEDS.iter().any(|seed| seed.ends_with(url.as_str()))), "{twice:?}");
}

#[test]
fn a_crawl_waits_for_a_set_that_is_away_and_does_not_begin_without_it() {
    // The set goes away when a quarter is fetched: on a busy machine that may take a while.
    let delay = Duration::from_millis(15);
    let (web, mut shared) = (Web::slow([("tree.test", sites::tree(PAGES))], delay), Shared::new());
    let (bench, resolve, seen) = (Bench::new(), web.resolve(), shared.argument());
    let mut child = start(&bench, &resolve, &seen);
    while web.pages_asked() < PAGES / 4 {
        assert!(child.try_wait().unwrap().is_none(), "it has not done all yet");
        std::thread::sleep(Duration::from_millis(1));
    }
    shared.stop();
    // Whoever is there instead hangs up, until the crawl has tried more than once.
    let absent = std::net::TcpListener::bind(shared.address).expect("the port");
    absent.set_nonblocking(true).expect("set");
    let (mut calls, begun) = (0, Instant::now());
    while calls < 3 {
        assert!(child.try_wait().unwrap().is_none() && begun.elapsed() < Duration::from_secs(120), "it waits");
        match absent.accept() {
            Ok(_) => calls += 1,
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    drop(absent);
    shared.start();
    let ran = Bench::finish(child).ended(0);
    assert!(ran.words.contains("asked again"), "{}", ran.words);
    assert_eq!(bench.pages().len(), PAGES);

    shared.stop();
    let ran = command(&bench, &resolve, &seen).output().expect("run");
    assert!(!ran.status.success() && String::from_utf8_lossy(&ran.stderr).contains("/v1/seen/pages"));
    let ran = command(&bench, &resolve, "--seen=http://127.0.0.1:1/pages").output().expect("run");
    assert_eq!(ran.status.code(), Some(2));
    Bench::finish(start(&bench, &resolve, "--seen=none")).ended(0);
}

#[test]
fn a_set_that_will_not_do_is_refused_at_the_beginning_and_nothing_is_kept() {
    let (web, shared) = (Web::new([("tree.test", sites::tree(PAGES))]), Shared::new());
    let (bench, resolve) = (Bench::new(), web.resolve());
    let refused = |seen: &str, words: &str| {
        let ran = command(&bench, &resolve, seen).output().expect("run");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(!ran.status.success() && said.contains(words), "{said}");
    };
    refused(&shared.argument().replace("pages", "none"), "there is no seen set `none`");
    refused("--seen=http://127.0.0.1:1/v1/seen/pages", "127.0.0.1:1");
    let path = shared.folder.path().join("other");
    let surt = StoredSet::create(&path, NewSet::Trie, &urlindex::CrawlRules::surt()).expect("made");
    surt.close().expect("closed");
    let store = PageStore::create(shared.folder.path().join("other.fm"), Options::new()).expect("a store");
    let mut sets = SeenSets::new();
    sets.add("other", &path).expect("opened");
    let mut reading = Shared::of(store, ServerOptions::new().seen(sets));
    refused(&reading.argument().replace("pages", "other"), "only reads");
    reading.stop();
    let store = PageStore::open(shared.folder.path().join("other.fm"), Options::new()).expect("a store");
    let mut sets = SeenSets::new().writes();
    sets.add("other", &path).expect("opened");
    let writing = Shared::of(store, ServerOptions::new().writes().seen(sets));
    refused(&writing.argument().replace("pages", "other"), "rules surt");
    // The crawl runs without the set, since its address was not kept.
    Bench::finish(start(&bench, &resolve, "--max-depth=1")).ended(0);
}
