//! Requests per second with several in flight: with the blocking client, one per thread, and with
//! the tokio client, one per task.
//!
//! ```text
//! cargo run --release -p filemap-http --example in_flight -- http://127.0.0.1:8640 32 5
//! ```
//!
//! It requests pages that the server has, for the given number of seconds in each of three rounds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use filemap::access::Scope;
use filemap::{Lookup, PageRead};
use filemap_http::{AsyncClient, Client, ClientOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |default: &str| arguments.next().unwrap_or_else(|| default.to_owned());
    let location = argument("http://127.0.0.1:8640");
    let (in_flight, seconds): (u32, u64) = (argument("32").parse()?, argument("5").parse()?);
    let time = Duration::from_secs(seconds);
    let client = Client::open(&location, &ClientOptions::new())?;
    let listed = client.list(&Scope::new(), None)?.take(20_000);
    let urls = listed.map(|listed| listed.map(|listed| listed.url)).collect::<filemap::Result<Vec<_>>>()?;
    if urls.is_empty() {
        return Err("the server has no pages".into());
    }
    let urls = Arc::new(urls);
    for _ in 0..3 {
        println!("blocking {:.0} requests/s", blocking(&client, &urls, in_flight, time)?);
        println!("awaited  {:.0} requests/s", awaited(&client, &urls, in_flight, time)?);
    }
    Ok(())
}

/// The page that a caller requests next.
fn next(urls: &[Vec<u8>], asked: &AtomicU64) -> usize {
    (asked.fetch_add(1, Ordering::Relaxed).wrapping_mul(7_919) % urls.len() as u64) as usize
}

fn blocking(client: &Client, urls: &Arc<Vec<Vec<u8>>>, in_flight: u32, time: Duration) -> filemap::Result<f64> {
    let (asked, begun) = (AtomicU64::new(0), Instant::now());
    let failure = RwLock::new(None);
    std::thread::scope(|scope| {
        for _ in 0..in_flight {
            scope.spawn(|| {
                while begun.elapsed() < time {
                    if let Err(error) = client.get(&Lookup::new(&urls[next(urls, &asked)])) {
                        *failure.write().unwrap_or_else(PoisonError::into_inner) = Some(error);
                        return;
                    }
                }
            });
        }
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(asked.into_inner() as f64 / begun.elapsed().as_secs_f64()),
    }
}

fn awaited(
    client: &Client,
    urls: &Arc<Vec<Vec<u8>>>,
    in_flight: u32,
    time: Duration,
) -> Result<f64, Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let client = AsyncClient::new(client.clone(), in_flight);
        let (asked, begun) = (Arc::new(AtomicU64::new(0)), Instant::now());
        let mut tasks = Vec::new();
        for _ in 0..in_flight {
            let (client, urls, asked) = (client.clone(), Arc::clone(urls), Arc::clone(&asked));
            tasks.push(tokio::spawn(async move {
                while begun.elapsed() < time {
                    client.get(&Lookup::new(&urls[next(&urls, &asked)])).await?;
                }
                filemap::Result::Ok(())
            }));
        }
        for task in tasks {
            task.await??;
        }
        Ok(asked.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64())
    })
}
