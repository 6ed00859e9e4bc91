//! Lost replies, lost masters, servers that refuse: no URL is called seen unless somebody was
//! given it.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use urlindex::idempotent::RequestId;
use urlindex::{SeenSet, Whatwg};
use urlindex_redis::{Error, NewRedisSet, RedisOptions, RedisUrlSet};

use crate::servers::{Proxy, Servers, are_here, cli, until};

const SET: NewRedisSet = NewRedisSet::Exact { urls: 100_000 };

fn url(nth: usize) -> String {
    format!("http://host{}.example/page/{nth}", nth % 17)
}

/// Asks for these URLs in batches, each until it is answered, and counts how often each was new.
fn take(set: &RedisUrlSet, numbers: impl Iterator<Item = usize>, given: &mut HashMap<usize, u32>) {
    let numbers: Vec<usize> = numbers.collect();
    for numbers in numbers.chunks(50) {
        let urls: Vec<String> = numbers.iter().map(|nth| url(*nth)).collect();
        let bytes: Vec<&[u8]> = urls.iter().map(|url| url.as_bytes()).collect();
        let mut verdicts = Vec::new();
        while let Err(error) = set.check_and_insert_batch(&bytes, &mut verdicts) {
            assert!(error.to_string().contains("ask again"), "{error}");
        }
        for (nth, verdict) in numbers.iter().zip(&verdicts) {
            *given.entry(*nth).or_default() += u32::from(verdict.is_new());
        }
    }
}

#[test]
fn of_lost_replies_no_url_is_lost_and_none_given_twice() {
    if !are_here() {
        return;
    }
    let servers = Servers::one(&[]);
    let proxy = Proxy::before(servers.ports[0]);
    let location = format!("redis://127.0.0.1:{}/lossy", proxy.port);
    // Without patience each lost reply fails the call, and the next call has to settle it.
    let options = RedisOptions::new().patience(Duration::ZERO).connections(1);
    RedisUrlSet::create(&location, SET, &Whatwg, &options).expect("created");
    let sets: Vec<RedisUrlSet> = (0..4).map(|_| RedisUrlSet::open(&location, &options).expect("there")).collect();
    proxy.one_in.store(10, Ordering::Relaxed);
    let given: Vec<HashMap<usize, u32>> = std::thread::scope(|scope| {
        let threads: Vec<_> = sets
            .iter()
            .enumerate()
            .map(|(nth, set)| {
                scope.spawn(move || {
                    let mut given = HashMap::new();
                    // Each shares half of its URLs with its neighbour.
                    take(set, nth * 3_000..nth * 3_000 + 6_000, &mut given);
                    given
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    proxy.one_in.store(0, Ordering::Relaxed);
    let lost = proxy.swallowed.load(Ordering::Relaxed);
    assert!(lost > 20, "{lost} replies were lost");
    for nth in 0..15_000 {
        let times: u32 = given.iter().filter_map(|given| given.get(&nth)).sum();
        assert_eq!(times, 1, "{} was given {times} times; {lost} replies were lost", url(nth));
    }
}

#[test]
fn without_ids_the_same_losses_lose_urls() {
    // Control of the test above: a retry by plain SADD is answered `known`.
    if !are_here() {
        return;
    }
    let servers = Servers::one(&[]);
    let proxy = Proxy::before(servers.ports[0]);
    let mut told = 0;
    proxy.one_in.store(4, Ordering::Relaxed);
    for nth in 0..30 {
        let add = || {
            let client = redis::Client::open(format!("redis://127.0.0.1:{}/", proxy.port))?;
            let mut connection = client.get_connection()?;
            redis::cmd("SADD").arg("plain").arg(nth).query::<i64>(&mut connection)
        };
        let answer = (0..100).find_map(|_| add().ok()).expect("answered at last");
        told += answer;
    }
    assert!(told < 30, "no reply of a SADD was lost: the proxy does nothing");
}

#[test]
fn a_request_noted_before_it_is_sent_is_answered_by_another_process() {
    if !are_here() {
        return;
    }
    let servers = Servers::one(&[]);
    let proxy = Proxy::before(servers.ports[0]);
    let lossy = format!("redis://127.0.0.1:{}/noted", proxy.port);
    let options = RedisOptions::new().patience(Duration::ZERO);
    RedisUrlSet::create(&lossy, SET, &Whatwg, &options).expect("created");
    let urls: Vec<String> = (0..100).map(url).collect();
    let mut lost = 0;
    for _ in 0..20 {
        let (set, id) = (RedisUrlSet::open(&lossy, &options).expect("there"), RequestId::now());
        proxy.one_in.store(2, Ordering::Relaxed);
        let batch: Vec<String> = urls.iter().map(|url| format!("{url}?{id}")).collect();
        let first = set.add(1, id, &batch);
        proxy.one_in.store(0, Ordering::Relaxed);
        lost += usize::from(first.is_err());
        let again = RedisUrlSet::open(&servers.location("noted"), &options).expect("there").add(1, id, &batch);
        assert!(again.expect("answered").iter().all(|verdict| verdict.is_new()));
    }
    assert!(lost > 0, "no reply was lost");
}

/// The port of a master of the cluster.
fn a_master(servers: &Servers) -> u16 {
    let is_master = |port: &&u16| cli(**port, &["ROLE"]).starts_with("master");
    *servers.ports.iter().find(is_master).expect("there are masters")
}

#[test]
fn a_killed_master_loses_no_url_that_replicas_had() {
    if !are_here() {
        return;
    }
    let mut servers = Servers::cluster(1);
    let location = servers.location("failover");
    let options = RedisOptions::new().replicas(1).patience(Duration::from_secs(60));
    let set = RedisUrlSet::create(&location, SET, &Whatwg, &options).expect("created");
    let mut given = HashMap::new();
    take(&set, 0..5_000, &mut given);
    let killed = a_master(&servers);
    std::thread::scope(|scope| {
        let given = &mut given;
        // A lone master has no replica to wait for: continue without.
        let rest = RedisUrlSet::open(&location, &RedisOptions::new().patience(Duration::from_secs(60))).expect("there");
        let adds = scope.spawn(move || take(&rest, 5_000..20_000, given));
        std::thread::sleep(Duration::from_millis(100));
        servers.kill(killed);
        adds.join().expect("no panic");
    });
    // URLs that a replica had acknowledged are seen; those added during the failover may be given
    // out once more.
    let mut again = HashMap::new();
    let rest = RedisUrlSet::open(&location, &RedisOptions::new()).expect("there");
    take(&rest, 0..20_000, &mut again);
    assert!((0..5_000).all(|nth| again[&nth] == 0), "a URL that a replica had is new again");
    let (lost, twice) =
        ((0..20_000).filter(|nth| given[nth] == 0).count(), (0..20_000).filter(|nth| again[nth] > 0).count());
    assert_eq!(lost, 0, "URLs that nobody was given");
    println!("{twice} of 15,000 URLs were given twice");
}

#[test]
fn servers_that_would_drop_urls_or_do_not_answer_are_named() {
    if !are_here() {
        return;
    }
    let servers =
        Servers::one(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru", "--requirepass", "secret"]);
    let options = RedisOptions::new().patience(Duration::ZERO);
    let open = |options: &RedisOptions| RedisUrlSet::create(&servers.location("x"), SET, &Whatwg, options);
    let refused = open(&options).expect_err("no password");
    assert!(matches!(refused, Error::Refused { .. }), "{refused:?}");
    let unsuitable = open(&options.clone().password("secret")).expect_err("it evicts");
    assert!(matches!(&unsuitable, Error::Unsuitable { why, .. } if why.contains("allkeys-lru")), "{unsuitable:?}");
    let away = RedisUrlSet::open("redis://127.0.0.1:1/x", &options).expect_err("nobody is there");
    assert!(matches!(away, Error::Unreachable { .. }), "{away:?}");
}

#[test]
fn a_full_server_refuses_and_loses_nothing() {
    if !are_here() {
        return;
    }
    let servers = Servers::one(&["--appendonly", "no"]);
    let location = servers.location("full");
    let set = RedisUrlSet::create(&location, SET, &Whatwg, &RedisOptions::new()).expect("created");
    let port = servers.ports[0];
    let memory = |limit: &str| assert!(cli(port, &["CONFIG", "SET", "maxmemory", limit]).contains("OK"));
    let first: Vec<String> = (0..2_000).map(url).collect();
    let first: Vec<&[u8]> = first.iter().map(|url| url.as_bytes()).collect();
    memory("1mb");
    let mut verdicts = Vec::new();
    let full = set.check_and_insert_batch(&first, &mut verdicts).expect_err("it is full").to_string();
    assert!(full.contains("OOM") || full.contains("maxmemory"), "{full}");
    memory("0");
    set.check_and_insert_batch(&first, &mut verdicts).expect("added");
    assert!(verdicts.iter().all(|verdict| verdict.is_new()), "a URL that was refused is called seen");
    until("counted", || set.count().expect("counted") == 2_000);
}
