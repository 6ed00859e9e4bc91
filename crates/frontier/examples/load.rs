//! Measures the frontier on disk: a crawl without a network. Every page has ten links, half of
//! them to known pages.
//!
//! `cargo run --release -p frontier --example load DIR [PAGES [HOSTS [once|again
//! [VIRTUAL_VISITS [MIB]]]]]`, with MIB of memory for pages.

use std::path::Path;
use std::time::{Duration, Instant};

use frontier::{Fetched, Frontier, FrontierOptions, Next, Recrawl};

/// Pages between two commits.
const COMMIT_EVERY: u64 = 1_000;

/// The longest call of each kind.
#[derive(Default)]
struct Longest {
    next: Duration,
    done: Duration,
    commit: Duration,
}

impl Longest {
    fn print(&self) {
        let [next, done, commit] = [self.next, self.done, self.commit].map(|one| one.as_secs_f64());
        println!("longest calls: next {next:.3} s, done {done:.3} s, commit {commit:.3} s");
    }
}

fn timed<T>(longest: &mut Duration, call: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = call();
    *longest = began.elapsed().max(*longest);
    done
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |at: usize, default: u64| args.get(at).map_or(default, |arg| arg.parse().expect("a number"));
    let path = Path::new(args.get(1).expect("a directory that is not there yet"));
    let (pages, hosts) = (number(2, 200_000), number(3, 1_000));
    let recrawl = (args.get(4).map(String::as_str) == Some("again")).then(|| Recrawl::new().first_ms(60_000));
    let virtual_visits = args.get(5).map_or(8, |arg| arg.parse().expect("a number"));
    let memory_bytes = number(6, 256) << 20;
    let options = FrontierOptions::new()
        .memory_bytes(memory_bytes)
        .delay_ms(0)
        .connections(8)
        .recrawl(recrawl)
        .virtual_visits(virtual_visits);
    let mut frontier = Frontier::create(path, options.clone()).expect("made");
    let url = |page: u64| format!("http://host-{}.example.com/a/path/of/usual/length/page-{page}.html", page % hosts);
    let mut rng = fastrand::Rng::with_seed(1);
    let mut made = hosts.min(pages);
    let seeds: Vec<String> = (0..made).map(url).collect();
    frontier.seed(&seeds.iter().map(|seed| &seed[..]).collect::<Vec<&str>>(), 0).expect("seeded");
    let (began, mut fetches, mut longest) = (Instant::now(), 0u64, Longest::default());
    while fetches < pages {
        let next = timed(&mut longest.next, || frontier.next(fetches as i64));
        let Next::Fetch(assignment) = next.expect("answered") else { break };
        let mut links = Vec::with_capacity(10);
        for _ in 0..5 {
            links.push(url(rng.u64(..made)));
            links.push(url(made));
            made += 1;
        }
        let links: Vec<&str> = links.iter().map(|link| &link[..]).collect();
        let fetched = Fetched { fetched_at_ms: fetches as i64, links: &links, ..Fetched::default() };
        timed(&mut longest.done, || frontier.done(assignment.page, &fetched)).expect("told");
        fetches += 1;
        if fetches.is_multiple_of(COMMIT_EVERY) {
            timed(&mut longest.commit, || frontier.commit()).expect("committed");
        }
    }
    frontier.commit().expect("committed");
    let seconds = began.elapsed().as_secs_f64();
    let stats = frontier.stats();
    let known = f64::from(stats.pages);
    println!(
        "{fetches} pages of {hosts} hosts in {seconds:.2} s: {:.0} pages/s, {:.0} links/s",
        fetches as f64 / seconds,
        10.0 * fetches as f64 / seconds
    );
    longest.print();
    println!(
        "known {}, memory {:.1} bytes a page, disk {:.1} bytes a page, journal {} bytes",
        stats.pages,
        stats.memory_bytes as f64 / known,
        stats.disk_bytes as f64 / known,
        stats.journal_bytes
    );
    assert_eq!(frontier.credit_units().expect("read"), 1 << 62);
    // As after a kill.
    drop(frontier);
    let began = Instant::now();
    let frontier = Frontier::open(path, options).expect("opened");
    println!(
        "opened in {:.2} s; memory {:.1} bytes a page",
        began.elapsed().as_secs_f64(),
        frontier.memory_bytes() as f64 / known
    );
    let began = Instant::now();
    let best = frontier.by_importance(1_000).expect("read");
    println!("the {} of the greatest importance in {:.3} s", best.len(), began.elapsed().as_secs_f64());
}
