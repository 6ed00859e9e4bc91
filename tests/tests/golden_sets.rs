//! The golden seen sets and the golden frontier: files that an earlier build wrote, which every
//! later one must read as they were.

use std::path::{Path, PathBuf};

use frontier::{Fetched, Frontier, FrontierOptions, Next, PageId};
use tempfile::TempDir;
use urlindex::{DiskOptions, DiskUrlSet, SeenSet, SetKind, StoredSet, Verdict};

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
        assert!(blocks < 2_000, "{name}: {blocks} blocks were searched for 20,000 URLs that are not there");
    }
}

/// The steps by which the golden frontier was made.
fn crawl(frontier: &mut Frontier) {
    let url = |page: u64| format!("http://host-{}.example.com/a/path/of/usual/length/page-{page}.html", page % 5);
    let mut rng = fastrand::Rng::with_seed(1);
    let (mut made, mut now) = (5, 0);
    let seeds: Vec<String> = (0..made).map(url).collect();
    frontier.seed(&seeds, 0).unwrap();
    for _ in 0..60 {
        let Next::Fetch(assignment) = frontier.next(now).unwrap() else { panic!("nothing to fetch at {now}") };
        let mut links = Vec::new();
        for _ in 0..5 {
            links.push(url(rng.u64(..made)));
            links.push(url(made));
            made += 1;
        }
        let links: Vec<&str> = links.iter().map(String::as_str).collect();
        frontier.done(assignment.page, &Fetched { fetched_at_ms: now, links: &links, ..Fetched::default() }).unwrap();
        now += 1;
    }
    frontier.commit().unwrap();
}

#[test]
fn the_golden_frontier_is_the_one_that_the_same_crawl_makes_today() {
    let (_temp, folder) = copy_of("frontier");
    let temp = tempfile::tempdir().unwrap();
    let options = || FrontierOptions::new().delay_ms(0).connections(8).recrawl(None).virtual_visits(8);
    let mut made = Frontier::create(temp.path().join("frontier"), options()).unwrap();
    crawl(&mut made);
    let mut golden = Frontier::open(&folder, options()).unwrap();
    assert_eq!((golden.pages(), made.pages()), (305, 305));
    assert_eq!(golden.credit_units().unwrap(), made.credit_units().unwrap());
    let all = |frontier: &Frontier| -> Vec<String> {
        let pages = frontier.urls_from(PageId::new(0)).map(|url| url.unwrap().1);
        pages.map(|url| format!("{url} {:?}", frontier.page(&url).unwrap())).collect()
    };
    assert_eq!(all(&golden), all(&made));
    assert_eq!(all(&golden).len(), 305);
    // Both go on alike: the queues are the same.
    for now in 100..130 {
        let (a, b) = (golden.next(now).unwrap(), made.next(now).unwrap());
        assert_eq!(format!("{a:?}"), format!("{b:?}"));
    }
}
