//! The builder starts, stops, continues and refuses crawls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crawl::run::{End, Observer, Tally};
use crawl::{BoxError, Capture, Crawler, Error, Reply, Stop};
use frontier::Frontier;

use crate::site::{Site, crawl, store};

fn chain(pages: usize) -> Vec<(String, String)> {
    let name = |n: usize| if n == 0 { "/".to_owned() } else { format!("/{n}") };
    (0..pages).map(|n| (name(n), format!("page {n} <a href=/{}>", n + 1))).collect()
}

#[test]
fn a_crawl_that_is_stopped_goes_on_with_the_next_run_without_seeds() {
    let pages = chain(6);
    let pages: Vec<(&str, &str)> = pages.iter().map(|(path, body)| (path.as_str(), body.as_str())).collect();
    let site = Site::of(&pages);
    let folder = tempfile::tempdir().unwrap();
    let stop = Stop::new();
    let asks = stop.clone();
    let built = crawl(&folder, &site).stop(stop).on_page(move |capture: &Capture<'_>| {
        if capture.url.ends_with("/2") {
            asks.ask();
        }
        Ok(Reply::new())
    });
    let summary = built.build().unwrap().run().unwrap();
    assert_eq!((summary.end, summary.tally.fetched), (End::Interrupted, 3));
    let again = Crawler::builder(folder.path().join("pages.fm")).unwrap().allow_private();
    assert!(again.was_begun());
    let summary = again.build().unwrap().run().unwrap();
    assert_eq!((summary.end, summary.tally.fetched), (End::Complete, 3), "{:?}", summary.tally);
    assert!((0..6).all(|n| site.asked(pages[n].0) == 1));
    assert!(store(&folder).get(&site.url("/5")).unwrap().is_some());
}

#[test]
fn a_page_that_a_hook_does_not_take_is_neither_stored_nor_done() {
    let site = Site::of(&[("/", "<a href=/a>"), ("/a", "page a <a href=/b>"), ("/b", "x")]);
    let folder = tempfile::tempdir().unwrap();
    let stop = Stop::new();
    let asks = stop.clone();
    let look = move |capture: &Capture<'_>| {
        if !capture.url.ends_with("/a") {
            return Ok(Reply::new());
        }
        asks.ask();
        Ok(Reply::new().link("/other").field("x", "y").not_taken())
    };
    let summary = crawl(&folder, &site).stop(stop).on_page(look).build().unwrap().run().unwrap();
    assert_eq!((summary.end, summary.tally.fetched, summary.frontier.queued), (End::Interrupted, 1, 1));
    assert!(store(&folder).get(&site.url("/a")).unwrap().is_none());
    let again = Crawler::builder(folder.path().join("pages.fm")).unwrap().allow_private().build().unwrap();
    assert_eq!(again.run().unwrap().tally.fetched, 2);
    assert_eq!((site.asked("/a"), site.asked("/other")), (2, 0));
}

#[test]
fn a_builder_names_all_that_is_wrong_and_makes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pages.fm");
    let builder = Crawler::builder(&path).unwrap().seed("ftp://a/").seed("no url").include("(").rate(-1.0);
    let Err(Error::Usage(words)) = builder.build() else { panic!("it was built") };
    for part in ["ftp://a/: only http", "no url", "include (", "give a contact", "-1 is not a number"] {
        assert!(words.contains(part), "{part} is not in: {words}");
    }
    assert!(matches!(Crawler::builder(&path).unwrap().contact("a@b").build(), Err(Error::Usage(_))));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_store_over_several_folders_is_refused_by_name_and_nothing_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let location = format!("shards:{0}/a.fm,{0}/b.fm", folder.path().display());
    let refused = Crawler::builder(&location).err().expect("refused");
    assert!(matches!(&refused, Error::Usage(words) if words.contains("one folder")), "{refused}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_second_crawl_into_a_store_is_refused_as_locked() {
    let site = Site::of(&[("/", "x")]);
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_owned();
    let seed = site.url("/");
    let again = move |_: &Capture<'_>| -> Result<Reply, BoxError> {
        let builder = Crawler::builder(place.join("pages.fm"))?.seed(seed.clone()).allow_private();
        match builder.build()?.run() {
            Err(error) if error.is_locked() => Ok(Reply::new()),
            other => Err(format!("{other:?}").into()),
        }
    };
    let summary = crawl(&folder, &site).on_page(again).build().unwrap().run().unwrap();
    assert_eq!((summary.tally.fetched, summary.tally.hooks_failed()), (1, 0), "{:?}", summary.tally.json());
}

/// Counts the visits; with `ends`, it ends the crawl once a page is fetched.
struct Counting {
    visits: AtomicU32,
    ends: bool,
}

impl Observer for Counting {
    fn visited(&self, _: &crawl::visit::Visit, _: u32) -> Result<(), BoxError> {
        self.visits.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn look(&self, tally: &Tally, _: &Frontier, _: usize) -> Result<(), BoxError> {
        if self.ends && tally.fetched > 0 { Err("seen enough".into()) } else { Ok(()) }
    }
}

#[test]
fn an_observer_is_told_of_visits_and_may_end_the_crawl() {
    let site = Site::of(&[("/", "<a href=/a>"), ("/a", "x")]);
    for ends in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let counting = Arc::new(Counting { visits: AtomicU32::new(0), ends });
        let ended = crawl(&folder, &site).observer(Arc::<Counting>::clone(&counting)).build().unwrap().run();
        match ended {
            Ok(_) => assert_eq!((ends, counting.visits.load(Ordering::Relaxed)), (false, 2)),
            Err(error) => assert_eq!((ends, error.to_string().as_str()), (true, "seen enough")),
        }
    }
}

/// Ends the crawl instead of letting it commit its first visit, as a kill would.
#[derive(Default)]
struct NoCommit(AtomicU32);

impl Observer for NoCommit {
    fn visited(&self, _: &crawl::visit::Visit, _: u32) -> Result<(), BoxError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn committing(&self) -> Result<(), BoxError> {
        if self.0.load(Ordering::Relaxed) > 0 { Err("killed".into()) } else { Ok(()) }
    }
}

#[test]
fn what_a_hook_found_of_a_recrawled_page_is_found_again_if_its_commit_was_lost() {
    let site = Site::of(&[("/", "old"), ("/found", "x")]);
    let folder = tempfile::tempdir().unwrap();
    let look = |capture: &Capture<'_>| {
        let is_new = capture.page.body == b"new";
        Ok(if is_new { Reply::new().link("/found") } else { Reply::new() })
    };
    // Longer than a crawl takes on a busy machine: the page must not be due again before its end.
    let begin = || crawl(&folder, &site).on_page(look).recrawl(Some(std::time::Duration::from_secs(8)));
    let due = || std::thread::sleep(std::time::Duration::from_millis(9100));
    assert_eq!(begin().build().unwrap().run().unwrap().tally.fetched, 1);
    site.set("/", "new");
    due();
    let ended = begin().observer(Arc::new(NoCommit::default())).build().unwrap().run();
    assert_eq!(ended.unwrap_err().to_string(), "killed");
    assert_eq!(store(&folder).get(&site.url("/")).unwrap().unwrap().body, b"new", "it is stored");
    due();
    begin().build().unwrap().run().unwrap();
    assert!(site.asked("/found") > 0);
    assert_eq!(store(&folder).history(&site.url("/")).unwrap().len(), 2, "and not stored again");
}

#[test]
fn a_crawl_runs_within_async_code() {
    let site = Site::of(&[("/", "x")]);
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let summary = runtime.block_on(async { crawl(&folder, &site).build().unwrap().run_async().await }).unwrap();
    assert_eq!(summary.tally.fetched, 1);
    // A blocking call in async code is a bad idea, but it does not panic.
    let other = tempfile::tempdir().unwrap();
    let summary = runtime.block_on(async { crawl(&other, &site).build().unwrap().run() }).unwrap();
    assert_eq!(summary.tally.fetched, 1);
}
