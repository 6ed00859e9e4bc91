//! Owners of a store: absent and foreign stores, a second writer, a dropped handle, calls from
//! threads of a runtime.

use filemap::access::{PutRule, Scope};
use filemap::{Lookup, Page, PageRead, PageWrite};
use filemap_cloud::{CloudOptions, Error, Mode, open, open_bucket};

use crate::as_store::{locations, opened, options};
use filemap_cloud::Fault;

fn page(nth: usize) -> Page {
    Page::new(format!("http://a.example/{nth}"), 1_700_000_000_000, 200, format!("body {nth}"))
}

#[test]
fn an_absent_store_is_said_to_be_absent_and_made_once() {
    for location in locations("absent") {
        for mode in [Mode::Read, Mode::Write] {
            let absent = open_bucket(&location, mode, &options()).err().expect("absent");
            assert!(matches!(&absent, Error::NotAStore { .. }), "{absent}");
        }
        let exact = options().canonicalizer(std::sync::Arc::new(filemap::canonical::Exact));
        let made = open_bucket(&location, Mode::Fill, &exact).expect("made");
        made.put(&Page::new("HTTP://A.example", 1, 200, "a"), PutRule::Always).expect("stored");
        made.close().expect("closed");
        // The options of its creation stay in force.
        let again = opened(&location, Mode::Fill);
        assert_eq!(again.key(b"HTTP://A.example").expect("any bytes"), b"HTTP://A.example");
        assert!(again.contains(&Lookup::new("HTTP://A.example")).expect("readable"));
        again.close().expect("closed");
    }
}

#[test]
fn a_second_writer_has_all_that_was_synced_and_the_first_writes_no_more() {
    for location in locations("fenced") {
        let first = opened(&location, Mode::Fill);
        (0..50).for_each(|nth| assert!(first.put(&page(nth), PutRule::Always).is_ok()));
        first.sync().expect("synced");
        (50..60).for_each(|nth| assert!(first.put(&page(nth), PutRule::Always).is_ok()));
        let second = opened(&location, Mode::Write);
        assert_eq!(second.count(&Scope::new()).expect("counted"), 50);
        let error = first.sync().expect_err("fenced").to_string();
        assert!(error.contains("another writer has opened this store"), "{error}");
        assert!(first.put(&page(99), PutRule::Always).is_err() && first.close().is_err());
        second.put(&page(60), PutRule::Always).expect("stored");
        second.sync().expect("synced");
        second.close().expect("closed");
        let reader = opened(&location, Mode::Read);
        assert_eq!(reader.count(&Scope::new()).expect("counted"), 51);
        reader.close().expect("closed");
    }
}

#[test]
fn a_writer_that_asks_knows_that_it_has_lost_the_store() {
    for location in locations("asked") {
        let first = opened(&location, Mode::Fill);
        first.check_owner().expect("its own");
        let second = opened(&location, Mode::Write);
        assert!(!first.is_fenced(), "nobody has asked");
        let error = first.check_owner().expect_err("lost").to_string();
        assert!(error.contains("another writer has opened this store") && first.is_fenced(), "{error}");
        second.check_owner().expect("its own");
        assert!(!second.is_fenced());
        let reader = opened(&location, Mode::Read);
        reader.check_owner().expect("it owns nothing");
        second.close().expect("closed");
    }
}

/// Returns the result of a sync by the first of two writers, after the second has written for a
/// while: a number of rounds.
fn late_sync(location: &str, fault: Option<Fault>, rounds: usize) -> filemap::Result<()> {
    let first = opened(location, Mode::Fill);
    first.put(&page(1), PutRule::Always).expect("stored");
    first.sync().expect("synced");
    let of_second = fault.iter().fold(options(), |options, fault| options.fault(*fault));
    let second = open_bucket(location, Mode::Write, &of_second).expect("taken over");
    for nth in 2..2 + rounds {
        second.put(&page(nth), PutRule::Always).expect("stored");
        second.sync().expect("synced");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    first.put(&page(1_000), PutRule::Always)?;
    let late = first.sync();
    drop(second);
    late
}

#[test]
fn a_fenced_writer_stays_fenced_but_if_fences_are_collected() {
    // On a busy machine the fence may be collected too late, or a late poll of the first, which
    // comes once after opening, may see the second.
    let late: Vec<_> = (0..6)
        .map(|nth| late_sync(&format!("mem://fences-collected-{nth}"), Some(Fault::FencesCollected), 4 << nth))
        .take_while(Result::is_err)
        .collect();
    assert!(late.len() < 6, "the control must lose a page, else this test proves nothing: {late:?}");
    assert!(late_sync("mem://fences-kept", None, 4 << late.len()).is_err());
}

#[test]
fn a_handle_that_is_dropped_has_lost_what_was_not_synced_and_nothing_else() {
    let first = opened("mem://dropped", Mode::Fill);
    first.put(&page(1), PutRule::Always).expect("stored");
    first.sync().expect("synced");
    first.put(&page(2), PutRule::Always).expect("stored");
    drop(first);
    let second = opened("mem://dropped", Mode::Write);
    assert!(second.contains(&Lookup::new(&page(1).url)).expect("readable"));
    assert!(!second.contains(&Lookup::new(&page(2).url)).expect("readable"));
    second.close().expect("closed");
}

#[test]
fn a_thread_of_a_runtime_may_call() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("threads");
    let found = runtime.block_on(async {
        let store = opened("mem://in-a-runtime", Mode::Fill);
        store.put(&page(1), PutRule::IfNew).expect("stored");
        store.sync().expect("synced");
        let found = store.get(&Lookup::new(&page(1).url)).expect("readable");
        store.close().expect("closed");
        found
    });
    assert_eq!(found, Some(page(1)));
}

#[test]
fn puts_of_many_threads_are_all_there_under_a_small_bound_of_memory() {
    for location in locations("threads") {
        let options = options().unsynced_bytes(100_000).uploads(2);
        let store = open_bucket(&location, Mode::Fill, &options).expect("made");
        let body: String = (0..4000).map(|_| fastrand::alphanumeric()).collect();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (store, body) = (&store, &body);
                scope.spawn(move || {
                    for nth in (0..200).filter(|nth| nth % 4 == thread) {
                        let page = Page { body: body.clone().into_bytes(), ..page(nth) };
                        store.put(&page, PutRule::IfChanged).expect("stored");
                    }
                    store.sync().expect("synced");
                });
            }
        });
        assert_eq!(store.count(&Scope::new()).expect("counted"), 200);
        store.close().expect("closed");
        let reader = opened(&location, Mode::Read);
        let bodies = reader.get_many(
            &(0..200).map(|nth| page(nth).url).collect::<Vec<_>>().iter().map(|url| &url[..]).collect::<Vec<_>>(),
        );
        assert!(
            bodies.expect("readable").iter().all(|page| page.as_ref().is_some_and(|page| page.body == body.as_bytes()))
        );
        reader.close().expect("closed");
    }
}

#[test]
fn every_location_gives_a_store() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("pages.fm");
    for location in [path.to_str().expect("text"), "mem://every-location"] {
        assert!(open(location, Mode::Read, &CloudOptions::new()).is_err(), "absent");
        let store = open(location, Mode::Fill, &CloudOptions::new()).expect("made");
        store.put(&page(1), PutRule::IfNew).expect("stored");
        store.close().expect("closed");
        let store = open(location, Mode::Read, &CloudOptions::new()).expect("there");
        assert_eq!(store.get(&Lookup::new(&page(1).url)).expect("readable"), Some(page(1)));
    }
    let nobody = open("http://127.0.0.1:9/", Mode::Read, &CloudOptions::new()).err().expect("nobody there");
    assert!(nobody.to_string().contains("127.0.0.1:9"), "{nobody}");
}
