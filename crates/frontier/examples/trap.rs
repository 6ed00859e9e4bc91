//! Measures how much of a crawl an endless trap gets: cnr-2000 with a tree hung on one page, 100 start pages, 200,000 fetches.
//!
//! First by chosen gates and several policies, in memory and through the frontier on disk; then over random gates that breadth-first
//! meets about as early as the first one.
//!
//! `cargo run --release -p frontier --example trap DIR`, where DIR is not there yet.

#[path = "../tests/web/mod.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod web;

use std::path::Path;

use frontier::{Fetched, Frontier, FrontierOptions, Next, Opic, Recrawl, Rent};
use web::{Crawled, Graph, Trapped};

const FETCHES: u64 = 200_000;
const POLICIES: [(&str, Rent, f64); 5] = [
    ("half, crawled", Rent::Crawled, 0.5),
    ("half, all known", Rent::Known, 0.5),
    ("4/5, crawled", Rent::Crawled, 0.8),
    ("9/10, crawled", Rent::Crawled, 0.9),
    ("none, crawled", Rent::Crawled, 0.0),
];

fn crawl(graph: &Graph, gate: u32, fan_out: u32, seeds: &[u32], (rent, refresh_share): (Rent, f64)) -> Crawled {
    let mut opic = Opic::new(0.10, rent, f64::INFINITY, refresh_share).expect("valid");
    let crawled = web::crawl(&mut Trapped::new(graph, gate, fan_out), &mut opic, seeds, FETCHES);
    assert_eq!(opic.sum(), u128::from(opic.total()), "credit is conserved");
    crawled
}

/// The same through the frontier: a thousand pages to a host, and one host for the trap.
fn crawl_on_disk(path: &Path, web: &mut Trapped<'_>, seeds: &[u32]) -> Crawled {
    let trap = web.root();
    let url = |page: u32| match page < trap {
        true => format!("http://h{}.example/{page}", page / 1_000),
        false => format!("http://trap.example/{page}"),
    };
    let recrawl = Some(Recrawl { first_ms: 0, min_ms: 0, max_ms: 0 });
    let options = FrontierOptions::new().delay_ms(0).refresh_share(0.5).recrawl(recrawl);
    let mut frontier = Frontier::create(path, options).expect("made");
    let seeds: Vec<String> = seeds.iter().map(|page| url(*page)).collect();
    frontier.seed(&seeds.iter().map(|seed| &seed[..]).collect::<Vec<&str>>(), 0).expect("seeded");
    let (mut crawled, mut links) = (Crawled::default(), Vec::new());
    while crawled.fetches < FETCHES {
        let now_ms = crawled.fetches * 2_000;
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
    assert_eq!(frontier.credit_units(), 1 << 62, "credit is conserved");
    crawled
}

fn main() {
    let path = std::env::args().nth(1).expect("a directory that is not there yet");
    let graph = Graph::cnr_2000();
    let order = graph.by_rank(&graph.page_rank(0.85));
    let seeds = graph.spread(100);
    print!("gate by PageRank, fan-out, breadth-first; refreshes and rent:");
    POLICIES.iter().for_each(|(name, ..)| print!(" | {name}"));
    println!();
    for place in [1_306, 0, 10, 100, 300, 1_000, 10_000] {
        for fan_out in [10, 100] {
            let gate = order[place];
            let blind = web::crawl_breadth_first(&mut Trapped::new(&graph, gate, fan_out), &seeds, FETCHES);
            print!("#{place}, {fan_out}, {:.2}%", 100.0 * blind.wasted());
            for (_, rent, share) in POLICIES {
                let crawled = crawl(&graph, gate, fan_out, &seeds, (rent, share));
                print!(" | {:.3}% of {}k", 100.0 * crawled.wasted(), crawled.distinct / 1000);
            }
            println!();
        }
    }
    for fan_out in [10, 100] {
        let path = format!("{path}-{fan_out}");
        let crawled = crawl_on_disk(Path::new(&path), &mut Trapped::new(&graph, order[1_306], fan_out), &seeds);
        println!("#1306, {fan_out}, through the frontier on disk, half: {:.3}% {crawled:?}", 100.0 * crawled.wasted());
    }
    random_gates(&graph, &seeds);
}

/// Gates at the end of random walks from start pages, of which breadth-first wastes 15 to 30% at a fan-out of 10 and 45 to 65% at 100.
fn random_gates(graph: &Graph, seeds: &[u32]) {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut gates = std::collections::BTreeSet::new();
    for _ in 0..2_000 {
        let mut gate = seeds[rng.usize(..seeds.len())];
        for _ in 0..rng.usize(1..5) {
            let links = graph.links(gate);
            gate = if links.is_empty() { gate } else { links[rng.usize(..links.len())] };
        }
        let wasted =
            |fan_out| web::crawl_breadth_first(&mut Trapped::new(graph, gate, fan_out), seeds, FETCHES).wasted();
        if gates.len() < 40
            && !gates.contains(&gate)
            && (0.15..0.30).contains(&wasted(10))
            && (0.45..0.65).contains(&wasted(100))
        {
            gates.insert(gate);
        }
    }
    for (name, rent, share) in POLICIES {
        for fan_out in [10, 100] {
            let mut wasted: Vec<f64> =
                gates.iter().map(|gate| crawl(graph, *gate, fan_out, seeds, (rent, share)).wasted()).collect();
            wasted.sort_by(f64::total_cmp);
            let within = wasted.iter().filter(|wasted| **wasted <= 0.001).count();
            let (median, worst) = (100.0 * wasted[wasted.len() / 2], 100.0 * wasted[wasted.len() - 1]);
            println!(
                "{} random gates, {fan_out}, {name}: {within} within 0.1%, median {median:.3}%, worst {worst:.3}%",
                gates.len()
            );
        }
    }
}
