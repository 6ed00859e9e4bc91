//! Which shards a process takes, by what real mailboxes say of their owners. The crawls do no more
//! than take a shard there, post, drop and report.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crawl::run::shards::{Appetite, Then, crawl_shards};
use crawl::run::{Event, Observer};
use crawl::settings::fleet::{FleetSettings, Own};
use crawl::{BoxError, Stop};
use filemap_http::{ClientOptions, LinksClient, Mailed};
use mailbox::{Activity, Link, MailboxOptions};

use super::Post;

/// Longer than a busy machine needs from a shard taken by name to the first that a process takes.
const LEASE: Duration = Duration::from_secs(8);

/// Counts the times that the process says that it waits.
#[derive(Default)]
struct Waits(Mutex<usize>);

impl Observer for Waits {
    fn event(&self, event: &Event) -> Result<(), BoxError> {
        *self.0.lock().unwrap() += usize::from(matches!(event, Event::NoShard { .. }));
        Ok(())
    }
}

struct Bench {
    /// Serves as long as the bench is there.
    _post: Post,
    client: LinksClient,
    fleet: FleetSettings,
}

impl Bench {
    fn new(shards: u32, own: Own) -> Bench {
        let post = Post::new(MailboxOptions::new().lease(LEASE), None);
        let location = format!("http://{}/v1/links", post.address);
        let client = LinksClient::open(&location, shards, &ClientOptions::new()).expect("mailboxes");
        Bench { client, fleet: FleetSettings::new(location, shards, own), _post: post }
    }

    /// The crawl that a bucket's shard has at the mailboxes.
    fn crawl_of(shard: u32) -> u128 {
        100 + u128::from(shard)
    }

    fn take(&self, shard: u32) -> u64 {
        match self.client.take(shard, Bench::crawl_of(shard)).expect("answered") {
            Mailed::Done(epoch) => epoch,
            refused => panic!("{refused:?}"),
        }
    }

    /// Drops the links of a shard, and reports that nothing is left there.
    fn finish(&self, shard: u32, epoch: u64) {
        let Mailed::Done(part) = self.client.read(shard, None, epoch).expect("answered") else { panic!("fenced") };
        self.client.drop_to(shard, part.cursor, epoch).expect("answered");
        let crawl = Bench::crawl_of(shard);
        self.client.report(crawl, &[(shard, epoch)], Activity::Idle).expect("answered");
    }

    /// The shards that a process crawls, in order, and how often it has said that it waits.
    fn process(&self, crawl: impl Fn(u32) -> Then + Sync) -> (Vec<u32>, usize) {
        let waits = Arc::new(Waits::default());
        let observer = Arc::clone(&waits) as Arc<dyn Observer>;
        let parts = (&Stop::new(), &observer, &Appetite::default());
        let ended = crawl_shards(&self.fleet, &ClientOptions::new(), parts, |shard| ((), crawl(shard)));
        let said = *waits.0.lock().unwrap();
        (ended.expect("crawled").into_iter().map(|(shard, ())| shard).collect(), said)
    }
}

#[test]
fn a_process_takes_all_shards_for_which_links_come() {
    let bench = Bench::new(4, Own::Auto);
    let is_first = AtomicBool::new(true);
    let (mut shards, _) = bench.process(|shard| {
        let epoch = bench.take(shard);
        if is_first.swap(false, Ordering::Relaxed) {
            for other in (0..4).filter(|other| *other != shard) {
                let link = Link { url: "http://a.test/".to_owned(), depth: 0, is_seed: true };
                bench.client.post(other, Bench::crawl_of(shard), 0, vec![link]).expect("answered");
            }
        }
        bench.finish(shard, epoch);
        Then::Leave
    });
    shards.sort_unstable();
    assert_eq!(shards, [0, 1, 2, 3]);
    let (standing, _) = bench.client.shards().expect("answered");
    assert!(standing.is_over, "{standing:?}");
}

#[test]
fn a_shard_whose_owner_is_silent_for_its_lease_is_taken_over() {
    let bench = Bench::new(2, Own::Auto);
    // Its process is killed right after.
    let killed = bench.take(0);
    let (shards, waits) = bench.process(|shard| {
        bench.finish(shard, bench.take(shard));
        Then::Leave
    });
    assert_eq!((shards, waits), (vec![1, 0], 1), "the free one first, then it waits for the other");
    let of_killed = bench.client.read(0, None, killed).expect("answered");
    assert!(matches!(of_killed, Mailed::Fenced(_)), "{of_killed:?}");
}

#[test]
fn a_process_that_has_fetched_enough_takes_no_more() {
    let bench = Bench::new(3, Own::Auto);
    let (shards, _) = bench.process(|shard| {
        bench.take(shard);
        Then::Stop
    });
    assert_eq!(shards.len(), 1);
}

#[test]
fn a_crawl_that_panics_ends_the_others_and_the_process() {
    let bench = Bench::new(3, Own::List([0, 2].into()));
    let (stop, appetite) = (Stop::new(), Appetite::default());
    let observer: Arc<dyn Observer> = Arc::new(Waits::default());
    let (has_begun, was_asked) = (AtomicBool::new(false), AtomicBool::new(false));
    let ended = crawl_shards(&bench.fleet, &ClientOptions::new(), (&stop, &observer, &appetite), |shard| {
        let begun = Instant::now();
        let waits = |is_over: &dyn Fn() -> bool| {
            while !is_over() && begun.elapsed() < Duration::from_secs(30) {
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        if shard == 0 {
            waits(&|| has_begun.load(Ordering::SeqCst));
            panic!("of the test");
        }
        has_begun.store(true, Ordering::SeqCst);
        waits(&|| stop.is_asked());
        was_asked.store(stop.is_asked(), Ordering::SeqCst);
        ((), Then::Leave)
    });
    let error = ended.expect_err("a crawl has panicked").to_string();
    assert!(error.contains("the crawl of shard 0 stopped unexpectedly"), "{error}");
    assert!(was_asked.load(Ordering::SeqCst), "the other crawl goes on");
}

#[test]
fn a_shard_that_was_lost_is_left_alone_for_a_lease() {
    let bench = Bench::new(1, Own::Auto);
    let began = Mutex::new(Vec::new());
    let (shards, _) = bench.process(|shard| {
        let nth = {
            let mut began = began.lock().unwrap();
            began.push(Instant::now());
            began.len()
        };
        if nth == 1 {
            // Another process takes it, and is killed before it has said so at the mailboxes.
            return Then::Lost;
        }
        bench.finish(shard, bench.take(shard));
        Then::Leave
    });
    assert_eq!(shards, [0, 0]);
    let began = began.lock().unwrap();
    assert!(began[1] - began[0] >= LEASE, "{:?}", began[1] - began[0]);
}

#[test]
fn listed_shards_are_crawled_together_and_a_stop_ends_them() {
    let bench = Bench::new(3, Own::List([0, 2].into()));
    let (stop, appetite) = (Stop::new(), Appetite::default());
    let observer: Arc<dyn Observer> = Arc::new(Waits::default());
    let running = Mutex::new(0);
    let ended = crawl_shards(&bench.fleet, &ClientOptions::new(), (&stop, &observer, &appetite), |shard| {
        *running.lock().unwrap() += 1;
        // Each waits for the other, and for the stop that the later one asks for.
        while !stop.is_asked() {
            if *running.lock().unwrap() == 2 {
                stop.ask();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        (shard, Then::Leave)
    });
    let mut shards: Vec<u32> = ended.expect("crawled").into_iter().map(|(shard, _)| shard).collect();
    shards.sort_unstable();
    assert_eq!(shards, [0, 2]);
}
