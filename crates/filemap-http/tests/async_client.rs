//! The tokio client returns what the blocking one returns.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use filemap::access::{PutRule, Scope};
use filemap::{Error, Lookup, Page, PageWrite, Put, Variant};
use filemap_http::server::{SeenSets, ServerOptions};
use filemap_http::{Ack, Added, AsyncClient, AsyncSeenClient, Client, ClientOptions, Made, Said, SeenClient};
use urlindex::Verdict;
use urlindex::idempotent::RequestId;

use crate::served::{Served, served, with};

const TIME: i64 = 1_700_000_000_000;
const CALLS: u32 = 4;

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads").block_on(test)
}

fn location(server: &Served) -> String {
    format!("http://{}", server.address)
}

async fn opened(server: &Served) -> AsyncClient {
    AsyncClient::open(&location(server), &ClientOptions::new(), CALLS).await.expect("a server")
}

fn page(nth: usize) -> Page {
    let mut page = Page::new(format!("http://a.example/{nth}?q=%26&r=\u{fc}"), TIME, 200, vec![nth as u8; nth * 7]);
    page.headers.push("X-Odd", b"\xff\x01".to_vec());
    page
}

fn warc() -> Vec<u8> {
    let answer = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nsent";
    let head = "WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:1>\r\nWARC-Target-URI: http://w.example/\r\n\
        WARC-Date: 2024-05-01T12:00:00Z\r\nContent-Type: application/http; msgtype=response\r\n";
    format!("{head}Content-Length: {}\r\n\r\n{answer}\r\n\r\n", answer.len()).into_bytes()
}

/// Makes each call of a store, and returns its answers. Sequences and cursors are the server's
/// own.
async fn suite(store: &impl crate::calls::Calls) -> Vec<String> {
    let mut told = Vec::new();
    let mut say = |what: &dyn std::fmt::Debug| told.push(format!("{what:?}"));
    let many = store.put_many((0..25).map(page).collect(), PutRule::Always).await.expect("stored");
    say(&many.len());
    say(&store.put(page(3), PutRule::IfNew).await);
    let later = Page { fetched_at_ms: TIME + 1, ..page(3) };
    let put = store.put(later, PutRule::IfChanged).await.expect("stored");
    say(&matches!(put, Some(Put::Unchanged(_))));
    let variant = Variant::new("session").expect("fits");
    let of_variant = Page { variant: Some(variant.clone()), ..page(5) };
    say(&store.put(of_variant, PutRule::Always).await.expect("stored").is_some());
    let (url, none) = (page(3).url, b"http://a.example/none".to_vec());
    let lookup = Lookup::new(&url);
    for lookup in [lookup, lookup.at(TIME), Lookup::new(&none), Lookup::new(&page(5).url).variant(&variant)] {
        say(&store.get(&lookup).await.expect("readable"));
        say(&store.head(&lookup).await.expect("readable").map(|head| (head.page, head.body_bytes)));
        say(&store.contains(&lookup).await.expect("readable"));
    }
    let history = store.history(&lookup).await.expect("readable");
    say(&history.iter().map(|head| (head.version.time_ms, head.body_bytes)).collect::<Vec<_>>());
    let oldest = history[1].version;
    say(&store.get_version(&lookup, oldest).await.expect("readable"));
    say(&store.body_of(&page(3), oldest).await.expect("readable"));
    say(&store.import(warc()).await.expect("imported"));
    say(&store.get(&Lookup::new("http://w.example/")).await.expect("readable"));
    for scope in [Scope::new(), Scope::new().backwards(), Scope::new().host("a.example"), Scope::new().variants()] {
        say(&store.urls(&scope).await.expect("listed"));
        say(&store.count(&scope).await.expect("counted"));
    }
    say(&store.get_many(&[url.clone(), none.clone(), page(24).url, url.clone()]).await.expect("readable"));
    say(&store.get_many(&[]).await.expect("readable"));
    let error = store.get_many(&[url.clone(), b"".to_vec()]).await.expect_err("no URL");
    say(&error.concerns_one_page());
    store.sync().await.expect("synced");
    let changes = store.changes(None).await.expect("told");
    say(&changes.iter().filter(|line| matches!(line.said, Said::Told(_))).count());
    say(&changes.last().map(|line| line.said.clone()));
    say(&store.remove_at(&url, TIME + 1).await.expect("removed").map(|removed| removed.versions));
    say(&store.remove(&page(5).url, Some(&variant)).await.expect("removed"));
    say(&(store.remove(&url, None).await.expect("removed"), store.remove(&none, None).await.expect("looked for")));
    store.sync().await.expect("synced");
    let since = changes.last().map(|line| line.place.clone());
    say(&store.changes(since.as_deref()).await.expect("told").len());
    say(&store.get(&Lookup::new("no URL")).await.expect_err("no URL").concerns_one_page());
    told
}

#[test]
fn the_same_calls_have_the_same_answers() {
    let (first, second) = (served(&[]), served(&[]));
    let blocking = first.client();
    // The blocking client is never called on a thread of a runtime.
    let told = at_once(suite(&blocking));
    let awaited = run(async {
        let client = opened(&second).await;
        let told = suite(&client).await;
        client.clone().close().await.expect("synced");
        assert!(matches!(
            client.get(&"http://a.example/".into()).await,
            Err(Error::Engine(filemap_core::Error::Closed))
        ));
        told
    });
    for (nth, (own, other)) in awaited.iter().zip(&told).enumerate() {
        assert_eq!(own, other, "answer {nth}");
    }
    assert_eq!(awaited.len(), told.len());
}

/// Runs a future that never waits.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(told) => told,
        std::task::Poll::Pending => panic!("a blocking call waits"),
    }
}

#[test]
fn many_callers_share_the_bound_and_all_are_answered() {
    let server = served(&(0..40).map(page).collect::<Vec<_>>());
    run(async {
        let client = opened(&server).await;
        let gets: Vec<_> = (0..200)
            .map(|nth| {
                let client = client.clone();
                tokio::spawn(async move { client.get(&Lookup::new(&page(nth % 40).url)).await.expect("readable") })
            })
            .collect();
        for (nth, get) in gets.into_iter().enumerate() {
            assert_eq!(get.await.expect("no panic"), Some(page(nth % 40)));
        }
    });
}

#[test]
fn a_put_whose_future_is_dropped_is_whole_or_not_there() {
    let server = served(&[]);
    run(async {
        let client = AsyncClient::new(server.client(), 1);
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let may_go = Arc::new(AtomicBool::new(false));
        let go = Arc::clone(&may_go);
        let of_task = client.clone();
        let put = tokio::spawn(async move {
            let put = move |client: &Client| {
                begun.send(()).expect("the test waits");
                while !go.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                PageWrite::put(client, &page(1), PutRule::Always)
            };
            of_task.call(put).await
        });
        has_begun.await.expect("it began");
        put.abort();
        assert!(put.await.expect_err("dropped").is_cancelled());
        // This one waits for the turn that the first still holds.
        let second = client.put(page(2), PutRule::Always);
        assert!(tokio::time::timeout(Duration::from_millis(10), second).await.is_err());
        may_go.store(true, Ordering::Release);
        // Sent again, it adds nothing.
        assert_eq!(client.put(page(1), PutRule::IfNew).await.expect("looked for"), None);
        assert!(!client.contains(&Lookup::new(&page(2).url)).await.expect("readable"));
        assert_eq!(client.history(&Lookup::new(&page(1).url), 9).await.expect("readable").len(), 1);
    });
}

#[test]
fn a_line_is_not_lost_with_a_dropped_future() {
    let server = served(&[]);
    run(async {
        let client = opened(&server).await;
        let mut lines = client.changes(Some("now"), Duration::ZERO).await.expect("told");
        let place = lines.next().await.expect("a line").expect("readable").place;
        assert!(lines.next().await.is_none(), "the end was reported");
        let mut lines = client.changes(Some(&place), Duration::from_secs(60)).await.expect("told");
        assert!(tokio::time::timeout(Duration::from_millis(20), lines.next()).await.is_err(), "nothing has changed");
        client.put_many((0..5).map(page).collect(), PutRule::Always).await.expect("stored");
        client.sync().await.expect("synced");
        let mut urls = Vec::new();
        for _ in 0..5 {
            let line = lines.next().await.expect("a line").expect("readable");
            let Said::Told(filemap::replica::Told::Put { page, .. }) = line.said else { panic!("{line:?}") };
            urls.push(page.url);
        }
        assert_eq!(urls, (0..5).map(|nth| page(nth).url).collect::<Vec<_>>());
    });
}

/// With one call at a time, a line that nobody waits for any more, and that still waits for its
/// turn, must not keep others from theirs.
#[test]
fn a_line_that_nobody_waits_for_holds_nobody_up() {
    let server = served(&[]);
    run(async {
        let client = AsyncClient::open(&location(&server), &ClientOptions::new(), 1).await.expect("opened");
        let mut lines = client.changes(Some("now"), Duration::ZERO).await.expect("told");
        lines.next().await.expect("a line").expect("readable");
        // It holds the only turn until it is released.
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let (go, waits) = std::sync::mpsc::channel();
        let holder = client.clone();
        let held = tokio::spawn(async move {
            let held = holder.call(move |_| {
                begun.send(()).expect("awaited");
                waits.recv().expect("told to go");
                Ok(())
            });
            held.await
        });
        has_begun.await.expect("it begins");
        assert!(tokio::time::timeout(Duration::from_millis(50), lines.next()).await.is_err(), "it waits for its turn");
        let putter = client.clone();
        let put = tokio::spawn(async move { putter.put(page(1), PutRule::Always).await });
        go.send(()).expect("it waits");
        held.await.expect("it ends").expect("it is held");
        let put = tokio::time::timeout(Duration::from_secs(60), put).await.expect("it has its turn");
        put.expect("it ends").expect("stored");
        drop(lines);
        tokio::time::timeout(Duration::from_secs(60), client.close()).await.expect("it ends").expect("closed");
    });
}

#[test]
fn a_seen_set_answers_both_alike() {
    let dir = tempfile::tempdir().expect("a folder");
    let sets = SeenSets::new().writes().folder(dir.path());
    let server = with(ServerOptions::new().writes().seen(sets), &[]);
    let options = ClientOptions::new();
    run(async {
        let place = format!("{}/v1/seen/pages", location(&server));
        let made =
            AsyncSeenClient::create(&place, r#"{"kind":"disk","rules":"whatwg"}"#, &options).await.expect("made");
        let Made::Set(set) = made else { panic!("{made:?}") };
        let set = AsyncSeenClient::new(set, CALLS);
        assert!(set.writes());
        let id = RequestId::now();
        let urls = vec!["http://a.example/", "no URL", "http://b.example/"];
        let first = set.add(Some(id), urls.clone(), Ack::Durable).await.expect("added");
        assert_eq!(first, Added::Verdicts(vec![Some(Verdict::New), None, Some(Verdict::New)]));
        assert_eq!(set.add(Some(id), urls.clone(), Ack::Durable).await.expect("told again"), first);
        let checked = set.check(urls.clone()).await.expect("told");
        let (again, rules) = tokio::task::spawn_blocking(move || {
            let set = SeenClient::open(&place, &ClientOptions::new()).expect("a set");
            (set.check(&urls).expect("told"), set.rules().0.to_owned())
        })
        .await
        .expect("no panic");
        assert_eq!((checked, set.rules().0), (again, rules.as_str()));
        assert_eq!(set.stats().await.expect("told").inserted, 2);
    });
}
