//! Measures URLs a second that a set on Redis takes, and their bytes of memory there.
//!
//!     cargo run --release -p urlindex-redis --example rate -- LOCATION [URLS [THREADS [BATCH]]]
//!
//! Creates the sets `rate-exact`, `rate-bitmap` and `rate-bloom`, which must not exist.

use std::time::Instant;

use urlindex::{SeenSet, Whatwg};
use urlindex_redis::{NewRedisSet, RedisOptions, RedisUrlSet};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let location = args.next().ok_or("give a location, such as redis://127.0.0.1:7600/rate")?;
    let mut number = |default: usize| args.next().map_or(Ok(default), |text| text.parse());
    let (urls, threads, batch) = (number(4_000_000)?, number(4)?, number(1_000)?);
    let kinds = [
        NewRedisSet::Exact { urls: urls as u64 },
        NewRedisSet::Bitmap { bits: 28 },
        NewRedisSet::Bloom { urls: urls as u64 },
    ];
    println!("{urls} URLs, {threads} threads, batches of {batch}");
    for kind in kinds {
        let before = memory(&location)?;
        let set = RedisUrlSet::create(&format!("{location}-{}", kind.name()), kind, &Whatwg, &RedisOptions::new())?;
        let new = run(&set, urls, threads, batch)?;
        let known = run(&set, urls, threads, batch)?;
        let bytes = (memory(&location)? - before) as f64 / urls as f64;
        println!("{:7} {new:9.0} new/s {known:9.0} known/s {bytes:6.2} bytes a URL, {} in it", kind.name(), set.len());
    }
    Ok(())
}

/// Adds URLs in batches from several threads, each with its own part; returns URLs a second.
fn run(set: &RedisUrlSet, urls: usize, threads: usize, batch: usize) -> Result<f64, Failure> {
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let part = |thread: usize| {
            scope.spawn(move || -> Result<(), Failure> {
                let mut verdicts = Vec::new();
                for from in (thread * batch..urls).step_by(threads * batch) {
                    let texts: Vec<String> = (from..(from + batch).min(urls)).map(url).collect();
                    let bytes: Vec<&[u8]> = texts.iter().map(|url| url.as_bytes()).collect();
                    set.check_and_insert_batch(&bytes, &mut verdicts)?;
                }
                Ok(())
            })
        };
        let parts: Vec<_> = (0..threads).map(part).collect();
        parts.into_iter().try_for_each(|part| part.join().map_err(|_| "a thread panicked")?)
    })?;
    Ok(urls as f64 / begun.elapsed().as_secs_f64())
}

fn url(nth: usize) -> String {
    format!("https://www.host{}.example.com/a/path/of/some/length/{nth}.html", nth % 9_973)
}

/// Bytes of memory of all masters.
fn memory(location: &str) -> Result<i64, Failure> {
    let servers = location.trim_start_matches("redis://").split('/').next().unwrap_or_default();
    let mut bytes = 0;
    for server in servers.split(',') {
        let mut connection = redis::Client::open(format!("redis://{server}/"))?.get_connection()?;
        let about: String = redis::cmd("INFO").query(&mut connection)?;
        let of = |name: &str| about.lines().find_map(|line| line.strip_prefix(name));
        if of("role:") == Some("master") {
            bytes += of("used_memory:").unwrap_or("0").parse::<i64>()?;
        }
    }
    Ok(bytes)
}
