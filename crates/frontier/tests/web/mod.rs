//! A real web graph, its PageRank, and the same graph with an endless trap hung on one page, for
//! measuring quality.
//!
//! The graph is LAW's cnr-2000 (tests/data/README.md). Links of a page are sorted and distinct.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::Read;
use std::path::Path;

use crate::opic::Opic;

/// Number of pages of a host.
pub const HOST_PAGES: u32 = 1_000;

/// A graph by pages, each with its links.
pub struct Graph {
    starts: Vec<u32>,
    links: Vec<u32>,
}

impl Graph {
    /// Reads cnr-2000.
    pub fn cnr_2000() -> Graph {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/graph/cnr-2000.adj.gz");
        let file = std::fs::File::open(path).expect("the graph is in tests/data");
        let mut text = String::new();
        flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("it is text");
        let (mut starts, mut links) = (vec![0], Vec::new());
        for line in text.lines() {
            let mut at = 0;
            for gap in line.split_ascii_whitespace() {
                at += gap.parse::<u32>().expect("gaps are numbers");
                links.push(at);
            }
            starts.push(links.len() as u32);
        }
        Graph { starts, links }
    }

    pub fn pages(&self) -> u32 {
        self.starts.len() as u32 - 1
    }

    pub fn links(&self, page: u32) -> &[u32] {
        &self.links[self.starts[page as usize] as usize..self.starts[page as usize + 1] as usize]
    }

    /// PageRank by iteration, until it changes by less than 1e-12. Pages without links give equal
    /// parts to all pages.
    pub fn page_rank(&self, damping: f64) -> Vec<f64> {
        let pages = self.pages() as usize;
        let mut rank = vec![1.0 / pages as f64; pages];
        loop {
            let mut next = vec![0.0; pages];
            let mut to_all = 0.0;
            for (page, rank) in rank.iter().enumerate() {
                let links = self.links(page as u32);
                let given = if links.is_empty() { 0.0 } else { damping * rank };
                to_all += rank - given;
                links.iter().for_each(|link| next[*link as usize] += given / links.len() as f64);
            }
            next.iter_mut().for_each(|rank| *rank += to_all / pages as f64);
            let change: f64 = rank.iter().zip(&next).map(|(a, b)| (a - b).abs()).sum();
            rank = next;
            if change < 1e-12 {
                return rank;
            }
        }
    }
}

/// Comparison of an estimate with the truth.
#[derive(Debug)]
pub struct Quality {
    /// Sum of all absolute differences.
    pub l1: f64,
    /// Number of the truth's first thousand pages that are among the estimate's.
    pub top_1000: usize,
}

/// Compares two importances.
pub fn compare(estimate: &[f64], truth: &[f64]) -> Quality {
    let l1 = estimate.iter().zip(truth).map(|(a, b)| (a - b).abs()).sum();
    let top = |values: &[f64]| {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
        order.truncate(1_000);
        HashSet::<usize>::from_iter(order)
    };
    Quality { l1, top_1000: top(estimate).intersection(&top(truth)).count() }
}

/// Visits pages of a graph that is known as a whole.
pub fn run_whole(graph: &Graph, opic: &mut Opic, visits: u64) {
    for _ in 0..visits {
        let (page, _) = opic.best().expect("some page has credit");
        opic.visited(page, graph.links(page)).expect("it is there");
    }
}

/// The graph with an endless tree hung on one of its pages: each page of the tree has `fan_out`
/// children.
pub struct Trapped<'a> {
    graph: &'a Graph,
    gate: u32,
    fan_out: u32,
    /// Number of pages of the tree found so far; the first has the number `graph.pages()`.
    grown: u32,
    /// The first child of each page of the tree that was fetched.
    children: HashMap<u32, u32>,
    /// True if its pages also link to their neighbours, their parent and the root, as those of a
    /// calendar do.
    is_meshed: bool,
    /// The parent of each page of the tree; itself for the root.
    parents: Vec<u32>,
}

impl<'a> Trapped<'a> {
    pub fn new(graph: &'a Graph, gate: u32, fan_out: u32) -> Trapped<'a> {
        let parents = vec![graph.pages()];
        Trapped { graph, gate, fan_out, grown: 1, children: HashMap::new(), is_meshed: false, parents }
    }

    /// The same, but each page of the tree also links to its neighbours, its parent and the root,
    /// as the pages of a calendar do.
    pub fn meshed(graph: &'a Graph, gate: u32, fan_out: u32) -> Trapped<'a> {
        Trapped { is_meshed: true, ..Trapped::new(graph, gate, fan_out) }
    }

    /// Host and shape of a page. The graph's pages are in the order of their URLs, which are not
    /// in the data: each thousand in a row counts as a host. The tree has its gate's host, and its
    /// own shape, as a calendar has.
    pub fn family(&self, page: u32) -> (u32, u8) {
        match self.is_trap(page) {
            true => (self.gate / HOST_PAGES, 1),
            false => (page / HOST_PAGES, 0),
        }
    }

    /// The first page of the tree; all with a higher number are in the tree too.
    pub fn root(&self) -> u32 {
        self.graph.pages()
    }

    pub fn is_trap(&self, page: u32) -> bool {
        page >= self.root()
    }

    /// Fetches a page: replaces `links` by its links.
    pub fn fetch(&mut self, page: u32, links: &mut Vec<u32>) {
        links.clear();
        let root = self.root();
        if self.is_trap(page) {
            let next = root + self.grown;
            let first = *self.children.entry(page).or_insert(next);
            if first == next {
                self.grown += self.fan_out;
                self.parents.resize(self.grown as usize, page);
            }
            links.extend(first..first + self.fan_out);
            if self.is_meshed && page > root {
                let parent = self.parents[(page - root) as usize];
                let neighbours = [page - 1, page + 1].into_iter();
                let beside = |other: &u32| *other > root && self.parents.get((other - root) as usize) == Some(&parent);
                links.extend(neighbours.filter(beside).chain([parent, root]));
                links.sort_unstable();
                links.dedup();
            }
            return;
        }
        links.extend(self.graph.links(page));
        if page == self.gate {
            links.push(root);
        }
    }
}

/// Result of a crawl.
#[derive(Clone, Default)]
pub struct Crawled {
    pub fetches: u64,
    pub in_trap: u64,
    /// Pages of the graph that were fetched at least once.
    pub distinct: u64,
    /// Those pages, if recorded.
    pub pages: Vec<u32>,
}

impl std::fmt::Debug for Crawled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} fetches, {} in the trap, {} distinct pages", self.fetches, self.in_trap, self.distinct)
    }
}

impl Crawled {
    /// The fraction of all PageRank that was fetched.
    pub fn covered(&self, rank: &[f64]) -> f64 {
        self.pages.iter().map(|page| rank[*page as usize]).sum()
    }

    pub fn wasted(&self) -> f64 {
        self.in_trap as f64 / self.fetches as f64
    }
}

/// Gates drawn uniformly from all pages with links.
pub fn any_gates(graph: &Graph, count: usize) -> Vec<u32> {
    let mut rng = fastrand::Rng::with_seed(2_000);
    let pages = std::iter::repeat_with(|| rng.u32(..graph.pages()));
    pages.filter(|page| !graph.links(*page).is_empty()).take(count).collect()
}

impl Graph {
    /// Start pages: `count` of them, evenly spread over the page numbers.
    pub fn spread(&self, count: u32) -> Vec<u32> {
        (0..count).map(|i| i * (self.pages() / count)).collect()
    }

    /// Pages in the order of a rank, the greatest first.
    pub fn by_rank(&self, rank: &[f64]) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.pages()).collect();
        order.sort_by(|a, b| rank[*b as usize].total_cmp(&rank[*a as usize]));
        order
    }
}

/// Crawls by credit, with this many virtual visits a fetch, as the frontier does, but in memory.
pub fn crawl(web: &mut Trapped<'_>, opic: &mut Opic, seeds: &[u32], fetches: u64, virtual_visits: u64) -> Crawled {
    // The crawl's number of each page of the web, and the reverse.
    let mut number_of: Vec<u32> = Vec::new();
    let mut page_of: Vec<u32> = Vec::new();
    let mut enter = |web: &Trapped<'_>, opic: &mut Opic, page_of: &mut Vec<u32>, page: u32| {
        number_of.resize(number_of.len().max(page as usize + 1), u32::MAX);
        if number_of[page as usize] == u32::MAX {
            number_of[page as usize] = opic.add(web.family(page));
            page_of.push(page);
        }
        number_of[page as usize]
    };
    let seeds: Vec<u32> = seeds.iter().map(|page| enter(web, opic, &mut page_of, *page)).collect();
    opic.seed(&seeds).expect("they were added");
    let (mut crawled, mut links) = (Crawled::default(), Vec::new());
    let (mut kept, mut at) = (Vec::<(u32, Box<[u32]>)>::new(), 0);
    while crawled.fetches < fetches {
        let Some((number, is_refresh)) = opic.best() else { break };
        let page = page_of[number as usize];
        crawled.fetches += 1;
        crawled.in_trap += u64::from(web.is_trap(page));
        if !is_refresh && !web.is_trap(page) {
            crawled.distinct += 1;
            crawled.pages.push(page);
        }
        web.fetch(page, &mut links);
        links.iter_mut().for_each(|link| *link = enter(web, opic, &mut page_of, *link));
        opic.visited(number, &links).expect("they were added");
        if virtual_visits == 0 {
            continue;
        }
        kept.push((number, links[..].into()));
        let least = opic.total() / 10 * 3 / kept.len() as u64;
        let mut visits = 0;
        for _ in 0..8 * virtual_visits {
            let (page, links) = &kept[at];
            at = (at + 1) % kept.len();
            if opic.credit(*page) >= least && visits < virtual_visits {
                opic.revisited(*page, links).expect("they were added");
                visits += 1;
            }
        }
    }
    crawled
}

/// Crawls in the order of discovery.
pub fn crawl_breadth_first(web: &mut Trapped<'_>, seeds: &[u32], fetches: u64) -> Crawled {
    let mut queue: VecDeque<u32> = seeds.iter().copied().collect();
    let mut known: HashSet<u32> = seeds.iter().copied().collect();
    let (mut crawled, mut links) = (Crawled::default(), Vec::new());
    while crawled.fetches < fetches {
        let Some(page) = queue.pop_front() else { break };
        crawled.fetches += 1;
        crawled.in_trap += u64::from(web.is_trap(page));
        crawled.distinct += u64::from(!web.is_trap(page));
        web.fetch(page, &mut links);
        queue.extend(links.iter().filter(|link| known.insert(**link)));
    }
    crawled
}
