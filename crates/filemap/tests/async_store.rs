//! `AsyncPageStore` on a tokio runtime: bounded, dropped futures, close.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use filemap::access::PutRule;
use filemap::async_store::AsyncPageStore;
use filemap::{Error, Lookup, Options, Page, PageStore, Variant};

fn run<T>(test: impl AsyncFnOnce(AsyncPageStore) -> T) -> T {
    let dir = tempfile::tempdir().expect("a folder");
    let store = PageStore::create(dir.path().join("s"), Options::new()).expect("a store");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async { test(AsyncPageStore::new(store, 2)).await })
}

fn page(nth: i64) -> Page {
    Page::new(format!("http://example.com/{nth}"), nth, 200, "hello")
}

fn is_closed<T: std::fmt::Debug>(result: filemap::Result<T>) -> bool {
    matches!(result, Err(Error::Engine(filemap_core::Error::Closed)))
}

#[test]
fn pages_go_in_and_out() {
    run(async |store| {
        assert!(store.put(page(1), PutRule::IfNew).await.expect("stored").is_some());
        assert!(store.put(page(1), PutRule::IfNew).await.expect("there").is_none());
        let variant = Variant::new("v").expect("fits");
        let of_variant = Page { variant: Some(variant.clone()), ..page(1) };
        store.put(of_variant, PutRule::Always).await.expect("stored");
        let lookup = Lookup::new("http://example.com/1");
        assert_eq!(store.get(&lookup).await.expect("read").map(|page| page.body), Some(b"hello".to_vec()));
        assert!(store.head(&lookup.variant(&variant)).await.expect("read").is_some());
        assert!(!store.contains(&lookup.at(0)).await.expect("read"));
        assert!(store.remove("http://example.com/1", Some(&variant)).await.expect("removed"));
        assert!(store.contains(&lookup).await.expect("read"));
        store.sync().await.expect("synced");
        store.clone().close().await.expect("closed");
        assert!(is_closed(store.get(&lookup).await) && is_closed(store.close().await));
    });
}

#[test]
fn no_more_calls_than_allowed_are_under_way() {
    run(async |store| {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let calls: Vec<_> = (0..20)
            .map(|_| {
                let (store, now, most) = (store.clone(), Arc::clone(&now), Arc::clone(&most));
                tokio::spawn(async move {
                    let call = move |_: &PageStore| {
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        // On a busy machine the second may begin late.
                        let until = Instant::now() + Duration::from_secs(5);
                        while most.load(Ordering::SeqCst) < 2 && Instant::now() < until {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                        std::thread::sleep(Duration::from_millis(2));
                        now.fetch_sub(1, Ordering::SeqCst);
                        Ok(())
                    };
                    store.call(call).await
                })
            })
            .collect();
        for call in calls {
            call.await.expect("no panic").expect("no error");
        }
        assert_eq!(most.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn a_put_that_began_is_done_though_its_future_is_dropped_and_close_waits_for_it() {
    run(async |store| {
        let (begun, has_begun) = channel();
        let (go, may_go) = channel::<()>();
        let may_go = Mutex::new(may_go);
        let mut put = Box::pin(store.call(move |store| {
            begun.send(()).expect("the test waits");
            may_go.lock().expect("one user").recv().expect("the test sends");
            store.put_page(&page(7))
        }));
        std::future::poll_fn(|context| {
            assert!(put.as_mut().poll(context).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        tokio::task::spawn_blocking(move || has_begun.recv()).await.expect("no panic").expect("it began");
        drop(put);
        let path = store.call(|store| Ok(store.engine().path().to_owned())).await.expect("a path");
        let close = tokio::spawn(store.close());
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!close.is_finished(), "a put is under way");
        go.send(()).expect("it waits");
        close.await.expect("no panic").expect("closed");
        let store = PageStore::open(path, Options::new()).expect("a store");
        assert!(store.contains("http://example.com/7").expect("read"));
    });
}

#[test]
fn a_future_dropped_before_its_turn_has_done_nothing() {
    run(async |store| {
        let (go, may_go) = channel::<()>();
        let may_go = Arc::new(Mutex::new(may_go));
        let begun = Arc::new(AtomicUsize::new(0));
        let busy: Vec<_> = (0..2)
            .map(|_| {
                let (store, may_go, begun) = (store.clone(), Arc::clone(&may_go), Arc::clone(&begun));
                tokio::spawn(async move {
                    let wait = move |_: &PageStore| {
                        begun.fetch_add(1, Ordering::SeqCst);
                        may_go.lock().expect("no panic").recv().expect("the test sends");
                        Ok(())
                    };
                    store.call(wait).await
                })
            })
            .collect();
        while begun.load(Ordering::SeqCst) < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let waiting = tokio::time::timeout(Duration::from_millis(20), store.put(page(3), PutRule::Always));
        assert!(waiting.await.is_err(), "both turns are taken");
        (0..2).for_each(|_| go.send(()).expect("they wait"));
        for call in busy {
            call.await.expect("no panic").expect("no error");
        }
        assert!(!store.contains(&Lookup::new("http://example.com/3")).await.expect("read"));
    });
}

#[test]
fn a_panic_of_a_call_is_the_callers_and_frees_its_turn() {
    run(async |store| {
        for _ in 0..5 {
            let store = store.clone();
            let call = tokio::spawn(async move { store.call::<()>(|_| std::panic::resume_unwind(Box::new(1))).await });
            assert!(call.await.is_err());
        }
        store.put(page(1), PutRule::Always).await.expect("there is a turn");
    });
}
