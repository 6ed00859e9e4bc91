//! Measures the share of a crawl that an endless trap gets: cnr-2000 with a tree hung on one page,
//! 100 start pages, 200,000 fetches.
//!
//! First by chosen gates and several policies, in memory and through the frontier on disk; then
//! over random gates that a breadth-first crawl finds about as early as the first one, and over
//! gates drawn uniformly from all pages.
//!
//! `cargo run --release -p frontier --example trap DIR [POLICY]`, where DIR must not exist; with
//! the name of a policy, only many gates with that policy are measured.

#[path = "../src/credit.rs"]
#[allow(dead_code, reason = "the frontier uses the rest")]
mod credit;
#[path = "../src/grow.rs"]
#[allow(dead_code, reason = "the frontier uses the rest")]
mod grow;
#[path = "opic/mod.rs"]
#[allow(dead_code, reason = "other examples use the rest")]
mod opic;
#[path = "../src/place.rs"]
mod place;
#[path = "../src/shares.rs"]
#[allow(dead_code, reason = "the frontier uses the rest")]
mod shares;
#[path = "../src/slots.rs"]
mod slots;
#[path = "../src/trust.rs"]
#[allow(dead_code, reason = "the frontier uses the rest")]
mod trust;
#[path = "../tests/web/mod.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod web;

use std::path::Path;
use std::sync::Mutex;

use frontier::{Fetched, Frontier, FrontierOptions, Next, Recrawl, Rent};
use opic::Opic;
use web::{Crawled, Graph, HOST_PAGES, Trapped};

const FETCHES: u64 = 200_000;
const GATES: usize = 20;

/// Policy of a crawl.
struct Policy {
    name: &'static str,
    rent: Rent,
    refresh_share: f64,
    virtual_visits: u64,
    /// True if the trap's pages also link to each other.
    is_meshed: bool,
}

const fn policy(name: &'static str, rent: Rent, refresh_share: f64, virtual_visits: u64, is_meshed: bool) -> Policy {
    Policy { name, rent, refresh_share, virtual_visits, is_meshed }
}

const POLICIES: [Policy; 6] = [
    policy("once", Rent::Crawled, 0.0, 0, false),
    policy("once, 8 virtual, crawled", Rent::Crawled, 0.0, 8, false),
    policy("once, 8 virtual, endorsed", Rent::Endorsed, 0.0, 8, false),
    policy("once, 8 virtual, endorsed, meshed", Rent::Endorsed, 0.0, 8, true),
    policy("half refreshes, crawled", Rent::Crawled, 0.5, 0, false),
    policy("half refreshes, 8 virtual, endorsed", Rent::Endorsed, 0.5, 8, false),
];

fn crawl(graph: &Graph, gate: u32, fan_out: u32, seeds: &[u32], policy: &Policy) -> Crawled {
    let mut opic = Opic::new(0.10, policy.rent, f64::INFINITY, policy.refresh_share).expect("valid");
    let mut web = match policy.is_meshed {
        true => Trapped::meshed(graph, gate, fan_out),
        false => Trapped::new(graph, gate, fan_out),
    };
    let crawled = web::crawl(&mut web, &mut opic, seeds, FETCHES, policy.virtual_visits);
    assert_eq!(opic.sum(), u128::from(opic.total()), "credit is conserved");
    crawled
}

/// The same through the frontier: a thousand pages to a host; the trap's pages are on their gate's
/// host.
fn crawl_on_disk(path: &Path, web: &mut Trapped<'_>, seeds: &[u32], refresh_share: f64) -> Crawled {
    let trap = web.root();
    let gates = web.family(trap).0;
    let url = |page: u32| match page < trap {
        true => format!("http://h{}.example/{page}", page / HOST_PAGES),
        false => format!("http://h{gates}.example/calendar/{page}"),
    };
    let recrawl = (refresh_share > 0.0).then_some(Recrawl::new().first_ms(0).min_ms(0).max_ms(0));
    let options = FrontierOptions::new().delay_ms(0).refresh_share(refresh_share).recrawl(recrawl);
    let mut frontier = Frontier::create(path, options).expect("made");
    let seeds: Vec<String> = seeds.iter().map(|page| url(*page)).collect();
    frontier.seed(&seeds.iter().map(|seed| &seed[..]).collect::<Vec<&str>>(), 0).expect("seeded");
    let (mut crawled, mut links) = (Crawled::default(), Vec::new());
    while crawled.fetches < FETCHES {
        let now_ms = crawled.fetches as i64 * 2_000;
        let Next::Fetch(assignment) = frontier.next(now_ms).expect("answered") else { break };
        let page: u32 = assignment.url.rsplit('/').next().and_then(|page| page.parse().ok()).expect("a page");
        crawled.fetches += 1;
        crawled.in_trap += u64::from(page >= trap);
        crawled.distinct += u64::from(!assignment.is_refresh && page < trap);
        web.fetch(page, &mut links);
        let urls: Vec<String> = links.iter().map(|link| url(*link)).collect();
        let urls: Vec<&str> = urls.iter().map(|url| &url[..]).collect();
        let fetched = Fetched { fetched_at_ms: now_ms, links: &urls, ..Fetched::default() };
        frontier.done(assignment.page, &fetched).expect("told");
        if crawled.fetches.is_multiple_of(1_000) {
            frontier.commit().expect("committed");
        }
    }
    assert_eq!(frontier.credit_units().expect("read"), 1 << 62, "credit is conserved");
    crawled
}

fn main() {
    let path = std::env::args().nth(1).expect("a directory that is not there yet");
    let wanted = std::env::args().nth(2);
    let graph = Graph::cnr_2000();
    let rank = graph.page_rank(0.85);
    let order = graph.by_rank(&rank);
    let seeds = graph.spread(100);
    if wanted.is_none() {
        chosen_gates(&path, &graph, &rank, &order, &seeds);
    }
    let is_wanted = |policy: &&Policy| wanted.as_ref().is_none_or(|wanted| policy.name == wanted);
    for policy in POLICIES.iter().filter(is_wanted) {
        many_gates(&graph, &web::any_gates(&graph, 2 * GATES), &seeds, "gates drawn from all pages", policy);
        many_gates(&graph, &order[..GATES], &seeds, "greatest hubs", policy);
        many_gates(&graph, &early_gates(&graph, &seeds), &seeds, "gates that breadth-first meets early", policy);
    }
}

/// Chosen gates by all policies.
fn chosen_gates(path: &str, graph: &Graph, rank: &[f64], order: &[u32], seeds: &[u32]) {
    for fan_out in [10, 100] {
        for (name, refresh_share) in [("once", 0.0), ("half refreshes", 0.5)] {
            let path = format!("{path}-{fan_out}-{refresh_share}");
            let mut web = Trapped::new(graph, order[1_306], fan_out);
            let crawled = crawl_on_disk(Path::new(&path), &mut web, seeds, refresh_share);
            println!("#1306, {fan_out}, on disk, {name}: {:.3}% {crawled:?}", 100.0 * crawled.wasted());
        }
    }
    print!("gate by PageRank, fan-out, breadth-first");
    POLICIES.iter().for_each(|policy| print!(" | {}", policy.name));
    println!();
    for place in [1_306, 0, 10, 100, 300, 1_000, 10_000] {
        for fan_out in [10, 100] {
            let gate = order[place];
            let blind = web::crawl_breadth_first(&mut Trapped::new(graph, gate, fan_out), seeds, FETCHES);
            print!("#{place}, {fan_out}, {:.2}%", 100.0 * blind.wasted());
            for policy in &POLICIES {
                let crawled = crawl(graph, gate, fan_out, seeds, policy);
                let (wasted, covered) = (100.0 * crawled.wasted(), crawled.covered(rank));
                print!(" | {wasted:.3}% of {}k, {covered:.3}", crawled.distinct / 1000);
            }
            println!();
        }
    }
}

/// Gates at the end of random walks from start pages, of which a breadth-first crawl wastes 15 to
/// 30% at a fan-out of 10 and 45 to 65% at 100.
fn early_gates(graph: &Graph, seeds: &[u32]) -> Vec<u32> {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut gates = std::collections::BTreeSet::new();
    while gates.len() < GATES {
        let mut gate = seeds[rng.usize(..seeds.len())];
        for _ in 0..rng.usize(1..5) {
            let links = graph.links(gate);
            gate = if links.is_empty() { gate } else { links[rng.usize(..links.len())] };
        }
        let wasted =
            |fan_out| web::crawl_breadth_first(&mut Trapped::new(graph, gate, fan_out), seeds, FETCHES).wasted();
        if !gates.contains(&gate) && (0.15..0.30).contains(&wasted(10)) && (0.45..0.65).contains(&wasted(100)) {
            gates.insert(gate);
        }
    }
    gates.into_iter().collect()
}

fn many_gates(graph: &Graph, gates: &[u32], seeds: &[u32], what: &str, policy: &Policy) {
    for fan_out in [10, 100] {
        let (next, crawls) = (Mutex::new(gates.iter()), Mutex::new(Vec::new()));
        let work = || {
            while let Some(gate) = { next.lock().expect("no panic").next() } {
                let crawled = crawl(graph, *gate, fan_out, seeds, policy);
                crawls.lock().expect("no panic").push((crawled.wasted(), crawled.distinct));
            }
        };
        std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
        let mut crawls = crawls.into_inner().expect("no panic");
        crawls.sort_by(|one, other| one.0.total_cmp(&other.0));
        let within = crawls.iter().filter(|(wasted, _)| *wasted <= 0.001).count();
        let (median, worst) = (100.0 * crawls[crawls.len() / 2].0, 100.0 * crawls[crawls.len() - 1].0);
        let fewest = crawls.iter().map(|(_, distinct)| *distinct).min().unwrap_or(0);
        println!(
            "{} {what}, {fan_out}, {}: {within} within 0.1%, median {median:.3}%, worst {worst:.3}%, \
                 at least {fewest} distinct pages",
            gates.len(),
            policy.name
        );
    }
}
