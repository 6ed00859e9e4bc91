//! The golden seen sets and the golden frontier: files that an earlier build wrote, which every
//! later one must read as they were.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use frontier::{Fetched, Frontier, FrontierOptions, Next, PageId, PageState, PageStatus};
use tempfile::TempDir;
use urlindex::stored::{SetKind, StoredSet};
use urlindex::{DiskOptions, DiskUrlSet, SeenSet, Verdict};

/// A copy of one golden folder, which may be written to.
fn copy_of(folder: &str) -> (TempDir, PathBuf) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/golden").join(folder);
    let temp = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(golden).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, temp.path().join(path.file_name().unwrap())).unwrap();
    }
    let path = temp.path().to_owned();
    (temp, path)
}

#[test]
fn golden_sets_of_every_kind_know_the_urls_that_were_put_into_them() {
    let (_temp, folder) = copy_of("sets");
    let urls = std::fs::read_to_string(folder.join("urls.txt")).unwrap();
    let urls: Vec<&str> = urls.lines().collect();
    assert_eq!(urls.len(), 200);
    let kinds = [
        ("seen.md5", SetKind::Md5Bitmap, 200, false),
        ("seen.hash", SetKind::HashBitmap, 200, false),
        ("seen.bloom", SetKind::Bloom, 200, true),
        ("seen.growing", SetKind::Growing, 200, false),
        ("seen.trie", SetKind::Trie, 199, true),
        // Of the time before runs had filters, and since.
        ("seen.disk", SetKind::Disk, 8_199, true),
        ("seen.filters", SetKind::Disk, 8_199, true),
    ];
    for read_only in [true, false] {
        for (name, kind, count, has_forgotten) in kinds {
            let path = folder.join(name);
            let set = if read_only { StoredSet::open_read_only(&path) } else { StoredSet::open(&path) }.unwrap();
            assert_eq!((set.kind(), set.canonicalizer().unwrap().unwrap().name()), (kind, "whatwg"));
            let seen = set.any().seen();
            assert_eq!(seen.len(), count, "{name}");
            for (i, url) in urls.iter().enumerate() {
                let is_new = seen.contains(url.as_bytes()).unwrap() == Verdict::New;
                assert_eq!(is_new, has_forgotten && i == 1, "{name}: {url}");
            }
            let other = |i: u32| format!("http://other-{i}.example/").into_bytes();
            let strangers = (0..1_000).filter(|&i| !seen.contains(&other(i)).unwrap().is_new()).count();
            assert!(strangers < 10, "{name}: {strangers} of 1000 that never were put in");
            if kind == SetKind::Disk {
                let more = |i: u32| format!("http://more-{i}.example/").into_bytes();
                assert!((2_000..10_000).all(|i| !seen.contains(&more(i)).unwrap().is_new()));
            }
            if !read_only {
                assert!(seen.insert(b"http://a-new-one.example/").unwrap(), "{name}");
                set.close().unwrap();
                let again = StoredSet::open(&path).unwrap();
                assert!(!again.any().seen().contains(b"http://a-new-one.example/").unwrap().is_new(), "{name}");
            }
        }
    }
}

/// Runs with filters and without are merged into one that has them.
#[test]
fn golden_sets_on_disk_take_in_more_and_merge_their_runs() {
    let (_temp, folder) = copy_of("sets");
    let url = |kind: &str, i: u32| format!("http://{kind}-{i}.example/").into_bytes();
    for name in ["seen.disk", "seen.filters"] {
        let set = DiskUrlSet::open(folder.join(name), DiskOptions::new().memory_bytes(64 << 10)).unwrap();
        for i in 0..20_000 {
            assert!(set.insert(&url("later", i)).unwrap(), "{name}: {i}");
        }
        assert_eq!(set.len(), 28_199, "{name}");
        assert!((0..20_000).all(|i| !set.contains(&url("later", i)).unwrap().is_new()), "{name}");
        assert!((2_000..10_000).all(|i| !set.contains(&url("more", i)).unwrap().is_new()), "{name}");
        let before = set.disk_stats().block_reads;
        assert!((0..20_000).all(|i| set.contains(&url("never", i)).unwrap().is_new()), "{name}");
        let blocks = set.disk_stats().block_reads - before;
        assert!(blocks < 2_000, "{name}: {blocks} blocks were searched for 20,000 missing URLs");
    }
}

/// Fetches of five links each, by which the golden frontiers were made.
struct Crawl {
    rng: fastrand::Rng,
    made: u64,
    now: i64,
}

impl Crawl {
    fn url(page: u64) -> String {
        format!("http://host-{}.example.com/a/path/of/usual/length/page-{page}.html", page % 5)
    }

    fn begin(frontier: &mut Frontier) -> Crawl {
        let seeds: Vec<String> = (0..5).map(Crawl::url).collect();
        frontier.seed(&seeds, 0).unwrap();
        Crawl { rng: fastrand::Rng::with_seed(1), made: 5, now: 0 }
    }

    fn fetch(&mut self, frontier: &mut Frontier, pages: usize) {
        for _ in 0..pages {
            let now = self.now;
            let Next::Fetch(assignment) = frontier.next(now).unwrap() else { panic!("nothing to fetch at {now}") };
            let mut links = Vec::new();
            for _ in 0..5 {
                links.push(Crawl::url(self.rng.u64(..self.made)));
                links.push(Crawl::url(self.made));
                self.made += 1;
            }
            let links: Vec<&str> = links.iter().map(String::as_str).collect();
            frontier
                .done(assignment.page, &Fetched { fetched_at_ms: now, links: &links, ..Fetched::default() })
                .unwrap();
            self.now += 1;
        }
        frontier.commit().unwrap();
    }
}

fn options() -> FrontierOptions {
    FrontierOptions::new().delay_ms(0).connections(8).recrawl(None).virtual_visits(8).journal_bytes_min(4096)
}

fn all_pages(frontier: &Frontier) -> Vec<PageState> {
    let urls = frontier.urls_from(PageId::new(0)).map(|url| url.unwrap().1);
    urls.map(|url| frontier.page(&url).unwrap().unwrap()).collect()
}

/// It was written before credit moved in rounds: pages have other credit since, and so another
/// order. All else is as it was.
#[test]
fn a_golden_frontier_of_before_the_rounds_has_its_pages_and_goes_on() {
    let (_temp, folder) = copy_of("frontier");
    let mut golden = Frontier::open(&folder, options()).unwrap();
    assert_eq!(golden.pages(), 305);
    let pages = all_pages(&golden);
    let made: HashSet<String> = (0..305).map(Crawl::url).collect();
    assert_eq!(pages.iter().map(|page| page.url.clone()).collect::<HashSet<_>>(), made);
    assert_eq!(pages.iter().filter(|page| page.status == PageStatus::Fetched).count(), 60);
    let credit: f64 = pages.iter().map(|page| page.credit).sum();
    let importance: f64 = pages.iter().map(|page| page.importance).sum();
    // The rest is on its way to pages.
    assert!((0.95..=1.0).contains(&credit) && (importance - 1.0).abs() < 0.01, "{credit} {importance}");
    let mut fetched: HashSet<PageId> =
        pages.iter().filter(|page| page.status == PageStatus::Fetched).map(|page| page.page).collect();
    let mut now = 100;
    while let Next::Fetch(assignment) = golden.next(now).unwrap() {
        assert!(fetched.insert(assignment.page), "{} is fetched twice", assignment.url);
        golden.done(assignment.page, &Fetched { fetched_at_ms: now, ..Fetched::default() }).unwrap();
        now += 1;
    }
    assert_eq!(fetched.len(), 305);
}

/// Its snapshot was written amid the crawl, and its journal has the rest.
#[test]
fn the_golden_frontier_is_the_one_that_the_same_crawl_makes_today() {
    let (_temp, folder) = copy_of("frontier-rounds");
    let temp = tempfile::tempdir().unwrap();
    let mut made = Frontier::create(temp.path().join("frontier"), options()).unwrap();
    let mut crawl = Crawl::begin(&mut made);
    for pages in [20, 20, 20, 5] {
        crawl.fetch(&mut made, pages);
    }
    let mut golden = Frontier::open(&folder, options()).unwrap();
    assert_eq!((golden.pages(), made.pages()), (330, 330));
    assert_eq!(golden.credit_units().unwrap(), made.credit_units().unwrap());
    let (a, b) = (all_pages(&golden), all_pages(&made));
    assert_eq!(format!("{a:#?}"), format!("{b:#?}"));
    assert_eq!(a.len(), 330);
    // Both continue alike: the queues are the same.
    for now in 100..130 {
        let (a, b) = (golden.next(now).unwrap(), made.next(now).unwrap());
        assert_eq!(format!("{a:?}"), format!("{b:?}"));
    }
}
