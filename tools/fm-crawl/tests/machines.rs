//! Several machines: crawls that divide the hosts by shard and send each other the links that they
//! find. One of them fetches each page, and none is lost to kills, or while the mailbox server is
//! unreachable or full.

mod corners;
#[cfg(feature = "cloud")]
mod in_bucket;
mod others;
mod shards;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use filemap::{Options, PageStore};
use filemap_http::server::{LinkBoxes, Server, ServerOptions, Tokens};
use mailbox::MailboxOptions;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::web::crawl::Bench;
use crate::web::{Reply, Request, Site, Web, sites};

/// The number of kills, unless `FILEMAP_KILLS` sets another; and the pages of each host.
const KILLS: usize = 12;
const PAGES: usize = 40;
const CONNECTIONS: usize = 4;

/// A sender that stops a server, and the thread that then ends.
type Running = (oneshot::Sender<()>, JoinHandle<filemap::Result<()>>);

/// The mailbox server; stopped when this is dropped.
struct Post {
    folder: TempDir,
    address: SocketAddr,
    runtime: Runtime,
    running: Option<Running>,
    options: MailboxOptions,
    tokens: Option<Tokens>,
}

impl Post {
    fn new(options: MailboxOptions, tokens: Option<Tokens>) -> Post {
        let folder = tempfile::tempdir().expect("a folder");
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
        let address = "127.0.0.1:0".parse().expect("an address");
        let mut post = Post { folder, address, runtime, running: None, options, tokens };
        post.start();
        post
    }

    fn start(&mut self) {
        let store = PageStore::open_or_create(self.folder.path().join("pages.fm"), Options::new()).expect("a store");
        // The last requests to the previous server may hold them for a moment.
        let folder = self.folder.path().join("links");
        let boxes = loop {
            match LinkBoxes::open(&folder, self.options.clone()) {
                Err(mailbox::Error::Storage(mailbox::StorageError::Locked { .. })) => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                opened => break opened.expect("mailboxes"),
            }
        };
        let mut options = ServerOptions::new().writes().links(boxes);
        if let Some(tokens) = &self.tokens {
            options = options.tokens(tokens.clone());
        }
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
        let server = Server::new(store, options);
        let serving = self.runtime.spawn(server.serve(listener, None, async { drop(stopped.await) }));
        self.running = Some((stop, serving));
    }

    fn stop(&mut self) {
        if let Some((stop, serving)) = self.running.take() {
            drop(stop);
            self.runtime.block_on(serving).expect("no panic").expect("closed");
        }
    }
}

impl Post {
    /// Frees a shard, as an administrator does when its owner has been silent for the lease time.
    fn free(&mut self, shard: u32, lease: Duration) {
        self.stop();
        // The last requests may hold them for a moment.
        let folder = self.folder.path().join("links");
        let boxes = loop {
            match mailbox::Mailboxes::open(&folder, self.options.clone()) {
                Err(mailbox::Error::Storage(mailbox::StorageError::Locked { .. })) => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                opened => break opened.expect("opened").expect("there"),
            }
        };
        std::thread::sleep(lease + Duration::from_millis(100));
        boxes.free(shard).expect("silent");
        drop(boxes);
        self.start();
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Hosts, `each` of them in every shard.
fn hosts(shards: u32, each: usize) -> Vec<&'static str> {
    let mut found: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for number in 0.. {
        let host = format!("h{number}.test");
        let of_shard = found.entry(urlindex::shard(format!("http://{host}/").as_bytes(), shards)).or_default();
        if of_shard.len() < each {
            of_shard.push(host);
        }
        if found.len() == shards as usize && found.values().all(|hosts| hosts.len() == each) {
            break;
        }
    }
    // In turns, so that neighbouring hosts are in different shards.
    let by_shard: Vec<Vec<String>> = found.into_values().collect();
    (0..each).flat_map(|nth| by_shard.iter().map(move |hosts| hosts[nth].clone())).map(|host| &*host.leak()).collect()
}

/// A tree in which each page links to the page with the same number on all hosts in `to`.
fn leading(to: Vec<&'static str>) -> Site {
    Arc::new(move |request: &Request| {
        let number =
            if request.path == "/" { Some(0) } else { request.path.strip_prefix("/p/").and_then(|n| n.parse().ok()) };
        let Some(number) = number.filter(|number| *number < PAGES) else { return Reply::missing() };
        let place = if number == 0 { String::new() } else { format!("p/{number}") };
        let links: String = to.iter().map(|host| format!("<a href='http://{host}/{place}'>there</a>")).collect();
        Reply::html(sites::tree_page(number, PAGES) + &links)
    })
}

/// Hosts that each link to the next `to` hosts.
fn ring(hosts: &[&'static str], to: usize) -> Vec<(&'static str, Site)> {
    let next = |at: usize| (1..=to).map(|step| hosts[(at + step) % hosts.len()]).collect();
    hosts.iter().enumerate().map(|(at, host)| (*host, leading(next(at)))).collect()
}

fn all_urls(hosts: &[&str]) -> BTreeSet<String> {
    let of = |host: &&str| {
        let root = format!("http://{host}/");
        (1..PAGES).map(|number| format!("{root}p/{number}")).chain([root.clone()]).collect::<Vec<_>>()
    };
    hosts.iter().flat_map(of).collect()
}

/// A fleet on this machine.
struct Fleet {
    web: Web,
    hosts: Vec<&'static str>,
    shards: u32,
    benches: Vec<Bench>,
}

impl Fleet {
    fn new(web: Web, hosts: Vec<&'static str>, shards: u32, crawls: usize) -> Fleet {
        Fleet { web, hosts, shards, benches: (0..crawls).map(|_| Bench::new()).collect() }
    }

    fn start(&self, post: &Post, which: usize, more: &[&str]) -> Child {
        let (all, each) = (format!("--connections={CONNECTIONS}"), format!("--host-connections={CONNECTIONS}"));
        let (links, shards) =
            (format!("--links=http://{}/v1/links", post.address), format!("--shards={}", self.shards));
        let (seed, resolve) = (format!("--seed=http://{}/", self.hosts[0]), self.web.resolve());
        let mut arguments = vec!["--scope=any", "--allow-private", "--json", &*resolve, &seed, &all, &links, &shards];
        arguments.extend(more);
        for usual in ["--rate=0", "--patience=30s", &each] {
            let name = usual.split('=').next().expect("a name");
            if !more.iter().any(|given| given.starts_with(name)) {
                arguments.push(usual);
            }
        }
        let mut command = self.benches[which].command("run", &arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
    }

    fn start_all(&self, post: &Post) -> Vec<Child> {
        (0..self.benches.len()).map(|which| self.start(post, which, &[])).collect()
    }

    /// Checks that all pages are there, each in one crawl, and that at most this many were fetched
    /// again.
    #[track_caller]
    fn check(&self, again_max: usize) {
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        for bench in &self.benches {
            for (url, page) in bench.pages() {
                assert!(!page.body.is_empty(), "{url}");
                *found.entry(url).or_default() += 1;
            }
        }
        let missing: Vec<_> = all_urls(&self.hosts).into_iter().filter(|url| !found.contains_key(url)).collect();
        assert!(missing.is_empty(), "{} are missing, {:?}", missing.len(), missing.first());
        assert_eq!(found.len(), all_urls(&self.hosts).len());
        let twice: Vec<_> = found.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "at two crawls: {twice:?}");
        let counts = self.web.counts();
        let pages = counts.iter().filter(|(url, _)| !url.ends_with("/robots.txt"));
        let again: usize = pages.map(|(_, times)| times - 1).sum();
        assert!(again <= again_max, "{again} were fetched again, {again_max} may");
    }
}

fn finish(children: Vec<Child>) {
    for child in children {
        let ran = Bench::finish(child).ended(0);
        assert_eq!(ran.json()["end"], "complete", "{}", ran.words);
    }
}

#[test]
fn of_four_crawls_each_fetches_the_pages_of_its_shards() {
    let hosts = hosts(4, 2);
    let web = Web::slow(ring(&hosts, 1), Duration::from_millis(2));
    let (fleet, post) = (Fleet::new(web, hosts, 4, 4), Post::new(MailboxOptions::new(), None));
    finish(fleet.start_all(&post));
    fleet.check(0);
    for bench in &fleet.benches {
        let shards: BTreeSet<u32> = bench.pages().keys().map(|url| urlindex::shard(url.as_bytes(), 4)).collect();
        assert_eq!(shards.len(), 1, "each took one");
    }
    // The remembered settings are enough to continue, and there is nothing to do.
    let resolve = fleet.web.resolve();
    let again = |which: usize| fleet.benches[which].start("run", &["--allow-private", "--json", &resolve]);
    finish((0..4).map(again).collect());
    fleet.check(0);
}

/// Time between two requests to a host; and how much shorter the time of several may look, since a
/// busy machine may notice the first of them late.
const DELAY: Duration = Duration::from_millis(500);
const LATE: Duration = Duration::from_millis(400);

#[test]
fn crawls_that_are_killed_lose_no_page_fetch_little_twice_and_stay_polite() {
    let kills = std::env::var("FILEMAP_KILLS").map_or(KILLS, |kills| kills.parse().expect("a number"));
    let hosts = hosts(4, 2);
    let web = Web::new(ring(&hosts, 2));
    let (fleet, post) = (Fleet::new(web, hosts, 4, 4), Post::new(MailboxOptions::new(), None));
    let rate = format!("--rate={}", 1000 / DELAY.as_millis());
    let start = |which: usize| fleet.start(&post, which, &[&rate, "--host-connections=1"]);
    let mut children: Vec<Child> = (0..4).map(start).collect();
    let (all, mut hits) = (all_urls(&fleet.hosts).len(), 0);
    for kill in 1..=kills {
        let is_over = |children: &mut Vec<Child>| children.iter_mut().all(|child| child.try_wait().unwrap().is_some());
        while fleet.web.pages_asked() < kill * all / (kills + 2) && !is_over(&mut children) {
            std::thread::sleep(Duration::from_micros(200));
        }
        let which = kill % 4;
        hits += usize::from(children[which].try_wait().unwrap().is_none());
        let _ = children[which].kill();
        children[which].wait().unwrap();
        children[which] = start(which);
    }
    assert!(hits > kills * 3 / 4, "only {hits} kills met a crawl at work");
    finish(children);
    fleet.check(kills * 2 * CONNECTIONS);
    for host in &fleet.hosts {
        let root = format!("http://{host}/");
        let asked = fleet.web.asked();
        let times: Vec<_> = asked
            .iter()
            .filter(|asked| asked.url.starts_with(&root) && !asked.url.ends_with("/robots.txt"))
            .map(|asked| asked.at)
            .collect();
        // Five in a row: one that is noticed late does not count much.
        for five in times.windows(5) {
            let took = five[4] - five[0];
            assert!(took + LATE >= DELAY * 4, "{host}: five requests within {took:?}");
        }
    }
}

/// The number of pages for which sites answer, and of those asked for.
struct Gate {
    open: AtomicUsize,
    asked: AtomicUsize,
}

impl Gate {
    /// A site whose answer to a page beyond those that are open waits, but for less than a crawl
    /// does.
    fn before(self: &Arc<Gate>, site: Site) -> Site {
        let gate = Arc::clone(self);
        Arc::new(move |request: &Request| {
            if request.path != "/robots.txt" {
                let nth = gate.asked.fetch_add(1, Ordering::SeqCst);
                let until = Instant::now() + Duration::from_secs(25);
                while nth >= gate.open.load(Ordering::SeqCst) && Instant::now() < until {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            site(request)
        })
    }
}

#[test]
fn while_the_server_is_away_the_crawls_go_on_and_then_send_what_they_have() {
    let hosts = hosts(2, 2);
    // The crawls must not have all pages before the server was away three times.
    let gate = Arc::new(Gate { open: AtomicUsize::new(PAGES / 3), asked: AtomicUsize::new(0) });
    let sites = ring(&hosts, 1).into_iter().map(|(host, site)| (host, gate.before(site)));
    let web = Web::slow(sites, Duration::from_millis(10));
    let (fleet, mut post) = (Fleet::new(web, hosts, 2, 2), Post::new(MailboxOptions::new(), None));
    let mut children = fleet.start_all(&post);
    for _ in 0..3 {
        let before = gate.open.load(Ordering::SeqCst);
        while fleet.web.pages_asked() < before {
            assert!(children.iter_mut().all(|child| child.try_wait().unwrap().is_none()), "they are not over");
            std::thread::sleep(Duration::from_millis(1));
        }
        post.stop();
        gate.open.store(before + PAGES / 3, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(300));
        assert!(children.iter_mut().all(|child| child.try_wait().unwrap().is_none()), "they wait");
        post.start();
    }
    gate.open.store(usize::MAX, Ordering::SeqCst);
    finish(children);
    fleet.check(0);
    // No crawl starts without the server.
    post.stop();
    let ran = Bench::finish(fleet.start(&post, 0, &[]));
    assert!(ran.code != 0 && ran.words.contains("/v1/links"), "{}", ran.words);
}

#[test]
fn full_mailboxes_hold_senders_up_and_lose_nothing() {
    let hosts = hosts(2, 2);
    let web = Web::new(ring(&hosts, 3));
    let options = MailboxOptions::new().max_bytes(1_000);
    let (fleet, post) = (Fleet::new(web, hosts, 2, 2), Post::new(options, None));
    finish(fleet.start_all(&post));
    fleet.check(0);
}

#[test]
fn a_page_whose_links_are_in_five_shards_leads_to_all() {
    let hosts = hosts(5, 1);
    let web = Web::new(ring(&hosts, 5));
    let (fleet, post) = (Fleet::new(web, hosts, 5, 2), Post::new(MailboxOptions::new(), None));
    let children = vec![fleet.start(&post, 0, &["--own=0,2,4"]), fleet.start(&post, 1, &["--own=1,3"])];
    finish(children);
    fleet.check(0);
    let why = fleet.benches[0].run("why", &[&format!("http://{}/p/1", fleet.hosts[1])]).out;
    assert!(why.contains("shard        1 of 5"), "{why}");
}

#[test]
fn what_does_not_fit_together_is_refused_with_words() {
    let tokens = Tokens::parse("read reader-reader-reader\nwrite writer-writer-writer").expect("tokens");
    let hosts = hosts(2, 1);
    let web = Web::new(ring(&hosts, 1));
    let (mut fleet, post) = (Fleet::new(web, hosts, 2, 2), Post::new(MailboxOptions::new(), Some(tokens)));
    let refused = |fleet: &Fleet, which: usize, token: &str, more: &[&str], words: &str| {
        let mut arguments = vec!["--scope=any", "--allow-private", "--json", "--rate=0"];
        let (links, resolve) = (format!("--links=http://{}/v1/links", post.address), fleet.web.resolve());
        let (seed, shards) = (format!("--seed=http://{}/", fleet.hosts[0]), format!("--shards={}", fleet.shards));
        arguments.extend([&*links, &resolve, &seed, &shards]);
        arguments.extend(more);
        let mut command = fleet.benches[which].command("run", &arguments);
        let output = command.env("FILEMAP_TOKEN", token).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(words), "{:?}: {said}", output.status);
    };
    refused(&fleet, 0, "", &[], "token");
    refused(&fleet, 0, "reader-reader-reader", &[], "token of `write`");
    refused(&fleet, 0, "writer-writer-writer", &["--own=2"], "there are 2 shards");
    // One crawl takes both shards, and waits for no other.
    let mut command = fleet.benches[0].command("run", &[]);
    let arguments = ["--scope=any", "--allow-private", "--json", "--rate=0", "--own=0,1", "--shards=2"];
    command.args(arguments).arg(format!("--links=http://{}/v1/links", post.address)).arg(fleet.web.resolve());
    command.arg(format!("--seed=http://{}/", fleet.hosts[0])).env("FILEMAP_TOKEN", "writer-writer-writer");
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    refused(&fleet, 1, "writer-writer-writer", &["--own=1"], "owned by the crawl");
    refused(&fleet, 1, "writer-writer-writer", &[], "has an owner");
    fleet.shards = 3;
    refused(&fleet, 1, "writer-writer-writer", &[], "for 2 shards, not 3");
    refused(&fleet, 0, "writer-writer-writer", &[], "for 2 shards, not 3");
}

#[test]
fn a_fleet_without_an_owner_of_a_shard_ends_and_says_so() {
    let hosts = hosts(2, 1);
    let web = Web::new(ring(&hosts, 1));
    // A visit may not outlive the lease: a busy machine must not need that long for one.
    let options = MailboxOptions::new().lease(Duration::from_secs(10));
    let (fleet, post) = (Fleet::new(web, hosts, 2, 2), Post::new(options, None));
    let ran = Bench::finish(fleet.start(&post, 0, &["--own=0", "--patience=1s"])).ended(5);
    assert!(ran.words.contains("shard 1 has no owner"), "{}", ran.words);
    assert_eq!(fleet.benches[0].pages().len(), PAGES);
    // The owner of the shard starts, and the first crawl only has to take the links that it sends.
    finish(vec![fleet.start(&post, 1, &["--own=1"]), fleet.start(&post, 0, &["--own=0"])]);
    fleet.check(0);
}

#[test]
fn a_shard_that_was_freed_is_taken_over_and_its_owner_hands_over_what_it_had() {
    let hosts = hosts(2, 1);
    let web = Web::slow(ring(&hosts, 1), Duration::from_millis(10));
    let lease = Duration::from_secs(4);
    let options = MailboxOptions::new().lease(lease);
    let (fleet, mut post) = (Fleet::new(web, hosts, 2, 2), Post::new(options, None));
    let mut child = fleet.start(&post, 0, &["--own=0,1"]);
    while fleet.web.pages_asked() < PAGES / 2 {
        assert!(child.try_wait().unwrap().is_none(), "it has not done all yet");
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    post.free(1, lease);
    let second = fleet.start(&post, 1, &["--own=1"]);
    let first = fleet.start(&post, 0, &["--own=0"]);
    finish(vec![first, second]);
    // The second may have fetched pages of the shard again that the first had fetched.
    let found: BTreeSet<String> = fleet.benches.iter().flat_map(Bench::pages).map(|(url, _)| url).collect();
    assert_eq!(found, all_urls(&fleet.hosts));
    let of_second = fleet.benches[1].pages();
    assert!(of_second.keys().all(|url| urlindex::shard(url.as_bytes(), 2) == 1) && !of_second.is_empty());
}
