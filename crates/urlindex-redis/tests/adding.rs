//! Adding and looking up: every kind, on one server and on a cluster.

use std::collections::HashSet;

use urlindex::idempotent::{RequestId, RequestRefusal};
use urlindex::{SeenSet, Verdict, Whatwg};
use urlindex_redis::{Error, NewRedisSet, RedisOptions, RedisUrlSet};

use crate::servers::{Servers, are_here, cli, until};

const KINDS: [NewRedisSet; 3] =
    [NewRedisSet::Exact { urls: 100_000 }, NewRedisSet::Bitmap { bits: 28 }, NewRedisSet::Bloom { urls: 1_000_000 }];

fn urls(from: usize, to: usize) -> Vec<String> {
    (from..to).map(|nth| format!("http://host{}.example/page/{nth}", nth % 17)).collect()
}

fn added(set: &RedisUrlSet, urls: &[String]) -> Vec<Verdict> {
    let (bytes, mut verdicts): (Vec<&[u8]>, _) = (urls.iter().map(|url| url.as_bytes()).collect(), Vec::new());
    set.check_and_insert_batch(&bytes, &mut verdicts).expect("added");
    verdicts
}

fn new_of(verdicts: &[Verdict]) -> usize {
    verdicts.iter().filter(|verdict| verdict.is_new()).count()
}

fn each_kind_answers_as_a_set(servers: &Servers) {
    for kind in KINDS {
        let location = servers.location(kind.name());
        let set = RedisUrlSet::create(&location, kind, &Whatwg, &RedisOptions::new()).expect("created");
        let first = urls(0, 10_000);
        let new = new_of(&added(&set, &first));
        assert!(new >= 9_990, "{kind:?}: {new} of 10,000 are new");
        let seen = added(&set, &first);
        let word = if matches!(kind, NewRedisSet::Exact { .. }) { Verdict::Seen } else { Verdict::ProbablySeen };
        assert!(seen.iter().all(|verdict| *verdict == word), "{kind:?}");
        // Twice in one batch: new once.
        let twice = ["http://twice.example/".to_owned(), "http://twice.example/".to_owned()];
        assert_eq!(added(&set, &twice), [Verdict::New, word]);

        // Another handle sees all of them, and no others.
        let other = RedisUrlSet::open(&location, &RedisOptions::new()).expect("there");
        assert_eq!((other.kind(), other.rules(), other.len()), (kind, ("whatwg", 1), new as u64 + 1));
        assert_eq!(other.contains(b"http://twice.example/").expect("asked"), word);
        let mut verdicts = Vec::new();
        let absent = urls(20_000, 30_000);
        let absent: Vec<&[u8]> = absent.iter().map(|url| url.as_bytes()).collect();
        other.contains_batch(&absent, &mut verdicts).expect("asked");
        assert!(new_of(&verdicts) >= 9_990 && verdicts.len() == 10_000, "{kind:?}");
        assert_eq!(other.stats().inserted, 0);
        assert!(matches!(
            RedisUrlSet::create(&location, kind, &Whatwg, &RedisOptions::new()),
            Err(Error::Exists { .. })
        ));
    }
    let missing = RedisUrlSet::open(&servers.location("none"), &RedisOptions::new());
    assert!(matches!(missing, Err(Error::NoSet { .. })));
}

#[test]
fn each_kind_answers_as_a_set_on_one_server() {
    if are_here() {
        each_kind_answers_as_a_set(&Servers::one(&[]));
    }
}

#[test]
fn each_kind_answers_as_a_set_on_a_cluster_that_shares_its_keys() {
    if !are_here() {
        return;
    }
    let servers = Servers::cluster(0);
    each_kind_answers_as_a_set(&servers);
    let keys: Vec<f64> =
        servers.ports.iter().map(|port| cli(*port, &["DBSIZE"]).trim().parse().expect("a number")).collect();
    let mean = keys.iter().sum::<f64>() / 3.0;
    assert!(keys.iter().all(|keys| (keys / mean - 1.0).abs() < 0.2), "{keys:?}");
}

#[test]
fn of_concurrent_callers_one_is_told_that_a_url_is_new() {
    if !are_here() {
        return;
    }
    let servers = Servers::cluster(0);
    let location = servers.location("shared");
    let options = RedisOptions::new().connections(2);
    RedisUrlSet::create(&location, KINDS[0], &Whatwg, &options).expect("created");
    let urls = urls(0, 4_000);
    let told: Vec<Vec<Verdict>> = std::thread::scope(|scope| {
        // Four handles, three threads each.
        let threads: Vec<_> = (0..4)
            .flat_map(|_| {
                let set = std::sync::Arc::new(RedisUrlSet::open(&location, &options).expect("there"));
                (0..3).map(move |_| std::sync::Arc::clone(&set))
            })
            .map(|set| {
                let urls = &urls;
                scope.spawn(move || urls.chunks(100).flat_map(|urls| added(&set, urls)).collect::<Vec<_>>())
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    for nth in 0..urls.len() {
        assert_eq!(told.iter().filter(|verdicts| verdicts[nth].is_new()).count(), 1, "{}", urls[nth]);
    }
}

#[test]
fn a_request_that_is_sent_again_is_answered_as_it_was() {
    if !are_here() {
        return;
    }
    let servers = Servers::one(&[]);
    let location = servers.location("again");
    let options = RedisOptions::new().keep_requests(3);
    let set = RedisUrlSet::create(&location, KINDS[0], &Whatwg, &options).expect("created");
    let (owner, first) = (7, RequestId::now());
    let verdicts = set.add(owner, first, &urls(0, 100)).expect("added");
    assert_eq!(new_of(&verdicts), 100);
    // By another handle, as after a restart.
    let set = RedisUrlSet::open(&location, &options).expect("there");
    assert_eq!(set.add(owner, first, &urls(0, 100)).expect("asked again"), verdicts);
    // Another owner has its own requests, and the same URLs.
    assert_eq!(new_of(&set.add(8, first, &urls(0, 100)).expect("added")), 0);
    let reused = set.add(owner, first, &urls(0, 99));
    assert!(matches!(reused, Err(Error::Request { refusal: RequestRefusal::Reused, .. })), "{reused:?}");
    // An older request is still found after later ones were answered.
    for nth in 1..=2 {
        let verdicts = set.add(owner, RequestId::now(), &urls(nth * 1_000, nth * 1_000 + 100)).expect("added");
        assert_eq!(new_of(&verdicts), 100);
    }
    assert_eq!(set.add(owner, first, &urls(0, 100)).expect("asked again"), verdicts);
    for nth in 3..=5 {
        set.add(owner, RequestId::now(), &urls(nth * 1_000, nth * 1_000 + 500)).expect("added");
    }
    let forgotten = set.add(owner, first, &urls(0, 100));
    assert!(matches!(forgotten, Err(Error::Request { refusal: RequestRefusal::Forgotten, .. })), "{forgotten:?}");
    assert_eq!(new_of(&set.add(owner, RequestId::now(), &urls(0, 100)).expect("asked")), 0);

    let days = |days: u64| RequestId::new(RequestId::now().time_ms() + 10 * 86_400_000 - days * 86_400_000, [3; 10]);
    let ahead = set.add(owner, days(0), &urls(0, 1));
    assert!(matches!(ahead, Err(Error::Request { refusal: RequestRefusal::Ahead, .. })), "{ahead:?}");
    // A clock may be ten minutes ahead, as for a set in files behind a server.
    let minutes = |minutes: u64| RequestId::new(RequestId::now().time_ms() + minutes * 60_000, [3; 10]);
    let early = minutes(9);
    assert_eq!(new_of(&set.add(10, early, &urls(20_000, 20_100)).expect("answered")), 100);
    assert_eq!(new_of(&set.add(10, early, &urls(20_000, 20_100)).expect("asked again")), 100);
    let ahead = set.add(10, minutes(11), &urls(0, 1));
    assert!(matches!(ahead, Err(Error::Request { refusal: RequestRefusal::Ahead, .. })), "{ahead:?}");
    let old = set.add(9, days(12), &urls(0, 1));
    assert!(matches!(old, Err(Error::Request { refusal: RequestRefusal::Forgotten, .. })), "{old:?}");
}

#[test]
fn requests_of_one_millisecond_are_all_answered() {
    if !are_here() {
        return;
    }
    let servers = Servers::one(&[]);
    let options = RedisOptions::new().keep_requests(1);
    let set = RedisUrlSet::create(&servers.location("ms"), KINDS[0], &Whatwg, &options).expect("created");
    let now = RequestId::now().time_ms();
    for nth in 0..20 {
        // All of one group: each replaces the one before.
        let url = [format!("http://a.example/{nth}")];
        let id = RequestId::new(now, [0, 0, 0, 0, 0, 0, 0, 0, 0, nth]);
        assert_eq!(set.add(1, id, &url).expect("answered"), [Verdict::New]);
        assert_eq!(set.add(1, id, &url).expect("answered"), [Verdict::New]);
    }
}

#[test]
fn the_rights_that_the_page_names_are_enough() {
    if !are_here() {
        return;
    }
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/SEEN.md")).expect("there");
    let rights = page.split("the commands\n`").nth(1).and_then(|rest| rest.split('`').next()).expect("they are named");
    let servers = Servers::cluster(1);
    for port in &servers.ports {
        let rules = rights.split_whitespace().map(|right| format!("+{right}"));
        let rules: Vec<String> = rules.chain(["on", ">secret", "~fm:*"].map(str::to_owned)).collect();
        let words: Vec<&str> =
            ["ACL", "SETUSER", "crawler"].into_iter().chain(rules.iter().map(String::as_str)).collect();
        assert!(cli(*port, &words).contains("OK"), "{}", cli(*port, &words));
    }
    let location = servers.location("rights").replace("redis://", "redis://crawler@") + "?replicas=1";
    let options = RedisOptions::new().password("secret");
    for kind in KINDS {
        let location = location.replace("rights", kind.name());
        let set = RedisUrlSet::create(&location, kind, &Whatwg, &options).expect("created");
        assert!(set.insert(b"http://a.example/").expect("added"));
        assert!(!set.contains(b"http://a.example/").expect("asked").is_new());
    }
}

#[test]
fn each_url_of_an_exact_set_takes_nine_bytes() {
    if !are_here() {
        return;
    }
    let servers = Servers::one(&["--appendonly", "no"]);
    let location = servers.location("bytes");
    let used = || -> f64 {
        let about = cli(servers.ports[0], &["INFO", "memory"]);
        let line = about.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("there");
        line.trim().parse().expect("a number")
    };
    let set = RedisUrlSet::create(&location, NewRedisSet::Exact { urls: 1_000_000 }, &Whatwg, &RedisOptions::new())
        .expect("created");
    let before = used();
    let urls = urls(0, 1_000_000);
    let unique: HashSet<&String> = urls.iter().collect();
    assert_eq!(new_of(&added(&set, &urls)), unique.len());
    drop(set);
    // The buffers of its connections are freed some time later.
    let bytes = || (used() - before) / unique.len() as f64;
    until(&format!("{} bytes a URL, fewer than 9.5", bytes()), || bytes() < 9.5);
    println!("{:.2} bytes a URL", bytes());
}
