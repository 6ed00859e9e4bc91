//! Measures how much of a crawl an endless trap gets: cnr-2000 with a tree hung on one page, 100 start pages, 200,000 fetches.
//!
//! `cargo run --release -p frontier --example trap`

#[path = "../tests/web/mod.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod web;

use frontier::{Opic, Rent};

const FETCHES: u64 = 200_000;

fn main() {
    let graph = web::Graph::cnr_2000();
    let order = graph.by_rank(&graph.page_rank(0.85));
    let seeds = graph.spread(100);
    let policies = [
        ("half, crawled", Rent::Crawled, 0.5),
        ("half, all known", Rent::Known, 0.5),
        ("4/5, crawled", Rent::Crawled, 0.8),
        ("9/10, crawled", Rent::Crawled, 0.9),
        ("none, crawled", Rent::Crawled, 0.0),
    ];
    print!("gate by PageRank, fan-out, breadth-first; refreshes and rent:");
    policies.iter().for_each(|(name, ..)| print!(" | {name}"));
    println!();
    for place in [1_306, 0, 10, 100, 300, 1_000, 10_000, 67_785, 77_207] {
        for fan_out in [10, 100] {
            let gate = order[place];
            let blind = web::crawl_breadth_first(&mut web::Trapped::new(&graph, gate, fan_out), &seeds, FETCHES);
            print!("#{place}, {fan_out}, {:.2}%", 100.0 * blind.wasted());
            for (_, rent, refresh_share) in policies {
                let mut opic = Opic::new(0.10, rent, f64::INFINITY, refresh_share).expect("valid");
                let crawled = web::crawl(&mut web::Trapped::new(&graph, gate, fan_out), &mut opic, &seeds, FETCHES);
                assert_eq!(opic.sum(), u128::from(opic.total()), "credit is conserved");
                print!(" | {:.3}% of {}k", 100.0 * crawled.wasted(), crawled.distinct / 1000);
            }
            println!();
        }
    }
}
