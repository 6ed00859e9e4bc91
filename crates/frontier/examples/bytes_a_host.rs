//! Measures the memory of hosts: the difference between as many pages, each on its own host or all
//! on one.
//!
//! `cargo run --release -p frontier --example bytes_a_host DIR [HOSTS]`

use std::path::Path;

use frontier::{Fetched, Frontier, FrontierOptions, Next};

/// Pages between two commits.
const COMMIT_EVERY: u64 = 10_000;

/// Resident memory of this process.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    4096 * statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or_default()
}

/// The frontier's memory and the process's: pages queued, fetched, and after an opening.
fn crawl(path: &Path, pages: u64, hosts: u64) -> [(u64, u64); 3] {
    let before = resident();
    let options = || FrontierOptions::new().memory_bytes(1 << 30).virtual_visits(0);
    let mut frontier = Frontier::create(path, options()).expect("made");
    for from in (0..pages).step_by(COMMIT_EVERY as usize) {
        let url = |page: u64| format!("http://www.site-{}.example/a/page-{page}.html", page % hosts);
        let seeds: Vec<String> = (from..pages.min(from + COMMIT_EVERY)).map(url).collect();
        frontier.seed(&seeds, 0).expect("seeded");
        frontier.commit().expect("committed");
    }
    let measured = |frontier: &Frontier| (frontier.memory_bytes(), resident().saturating_sub(before));
    let queued = measured(&frontier);
    let (mut now_ms, mut fetches) = (0, 0);
    while fetches < pages {
        match frontier.next(now_ms).expect("answered") {
            Next::Fetch(assignment) => {
                let fetched = Fetched { fetched_at_ms: now_ms, ..Fetched::default() };
                frontier.done(assignment.page, &fetched).expect("told");
                fetches += 1;
            }
            Next::Wait { until_ms } => now_ms = until_ms,
            other => panic!("{other:?}"),
        }
        if fetches.is_multiple_of(COMMIT_EVERY) {
            frontier.commit().expect("committed");
        }
    }
    let fetched = measured(&frontier);
    frontier.close().expect("closed");
    let frontier = Frontier::open(path, options()).expect("opened");
    [queued, fetched, measured(&frontier)]
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let dir = Path::new(args.get(1).expect("a directory"));
    let hosts: u64 = args.get(2).map_or(1_000_000, |hosts| hosts.parse().expect("a number"));
    // All pages on one host: in another process, so that leftovers of this one are not measured.
    if let Some("one") = args.get(3).map(String::as_str) {
        let one = crawl(&dir.join("one"), hosts, 1);
        return one.iter().for_each(|(counted, resident)| println!("{counted} {resident}"));
    }
    let program = std::env::current_exe().expect("known");
    let of_one = std::process::Command::new(program).args([&args[1], &hosts.to_string(), "one"]).output();
    let of_one = String::from_utf8(of_one.expect("run").stdout).expect("text");
    let of_one = of_one.lines().map(|line| {
        let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().expect("a number")).collect();
        (numbers[0], numbers[1])
    });
    let name_bytes = format!("www.site-{}.example", hosts / 2).len();
    println!("{hosts} hosts, names of some {name_bytes} bytes; bytes a host more than on one:");
    let of_many = crawl(&dir.join("many"), hosts, hosts);
    for ((what, many), one) in ["queued", "fetched", "opened"].iter().zip(of_many).zip(of_one) {
        let each = |many: u64, one: u64| (many as f64 - one as f64) / hosts as f64;
        println!("{what}: {:.1} counted, {:.1} resident", each(many.0, one.0), each(many.1, one.1));
    }
}
