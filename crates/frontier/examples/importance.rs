//! Measures the in-memory core on cnr-2000: the distance from PageRank by visits, visits a second,
//! bytes a page.
//!
//! `cargo run --release -p frontier --example importance [WINDOW]`

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

use std::time::Instant;

use opic::Opic;

fn main() {
    let graph = web::Graph::cnr_2000();
    let truth = graph.page_rank(0.85);
    let pages = graph.pages();
    let window: f64 = std::env::args().nth(1).map_or(f64::INFINITY, |arg| arg.parse().expect("a window"));
    let mut opic = Opic::whole(pages, 0.15, window).expect("valid");
    println!("window {window}; L1 and pages of the first thousand by (H + C) / (G + 1), and midway");
    println!("visits a page     L1 top 1,000  midway top 1,000    turns M visits/s bytes a page");
    for round in 1..=20 {
        let began = Instant::now();
        web::run_whole(&graph, &mut opic, u64::from(pages));
        let seconds = began.elapsed().as_secs_f64();
        assert_eq!(opic.sum(), u128::from(opic.total()), "credit is conserved");
        let estimate: Vec<f64> = (0..pages).map(|page| opic.importance(page)).collect();
        let midway: Vec<f64> = (0..pages).map(|page| opic.importance_midway(page)).collect();
        let (quality, midway) = (web::compare(&estimate, &truth), web::compare(&midway, &truth));
        println!(
            "{round:13} {:6.4} {:9} {:7.4} {:9} {:8.2} {:10.2} {:12.1}",
            quality.l1,
            quality.top_1000,
            midway.l1,
            midway.top_1000,
            opic.turns(),
            f64::from(pages) / seconds / 1e6,
            opic.memory_bytes() as f64 / f64::from(pages)
        );
    }
}
