//! A copy between stores: the versions of a key in the order in which they were put, whatever
//! compaction has done; damage costs what it covers, and is named.

use std::fs::OpenOptions;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;

use filemap::access::PutRule;
use filemap::copy::{CopyEvent, CopyReport, copy};
use filemap::store::StoredVersion;
use filemap::{Lookup, Options, Page, PageStore, PageWrite, Variant};
use filemap_core::compact::CompactionGoal;
use tempfile::TempDir;

use crate::stores;

const TIME: i64 = 1_700_000_000_000;

fn store(dir: &TempDir, name: &str) -> PageStore {
    PageStore::create(dir.path().join(name), Options::new().segment_bytes(1 << 20).large_value_bytes(256 << 10))
        .expect("a store")
}

/// A copy, with the reports of damage and refusals.
fn copied(from: &PageStore, to: &PageStore, at_once: usize) -> (CopyReport, Vec<String>) {
    let mut told = Vec::new();
    let report = copy(&mut from.stored_by_key(), to, at_once, &mut |event| {
        match event {
            CopyEvent::Damage(error) => told.push(error.to_string()),
            CopyEvent::Refused(page, error) => told.push(format!("{}: {error}", String::from_utf8_lossy(&page.url))),
            _ => {}
        }
        ControlFlow::Continue(())
    });
    (report.expect("copied"), told)
}

fn body(nth: u8) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(u64::from(nth));
    std::iter::repeat_with(|| random.u8(..)).take(100_000).collect()
}

#[test]
fn versions_of_one_time_keep_their_order_after_compaction() {
    let dir = tempfile::tempdir().expect("a folder");
    let from = store(&dir, "a.fm");
    let tie = |text: &str| Page::new("http://a.example/tie", TIME, 200, text);
    let filler = |nth: u8| Page::new(format!("http://filler.example/{nth}"), TIME, 200, body(nth));
    from.put_page(&tie("first")).expect("stored");
    (0..40).for_each(|nth| assert!(from.put_page(&filler(nth)).is_ok()));
    from.put_page(&tie("second")).expect("stored");
    for nth in 0..25 {
        assert!(from.remove(filler(nth).url).expect("removed"));
    }
    from.engine().checkpoint().expect("indexed");
    // In the background it may have come before.
    let compacted = from.engine().compact_with(CompactionGoal::NoGarbage, &mut |_| ControlFlow::Continue(()));
    compacted.expect("compacted");
    let bodies = |versions: &mut dyn Iterator<Item = filemap::Result<StoredVersion>>| -> Vec<String> {
        let pages = versions.map(|version| version.expect("whole").page);
        let ties = pages.filter(|page| page.url.ends_with(b"/tie"));
        ties.map(|page| String::from_utf8_lossy(&page.body).into_owned()).collect()
    };
    assert_eq!(bodies(&mut from.stored_versions()), ["second", "first"], "compaction has moved one behind the other");
    assert_eq!(bodies(&mut from.stored_by_key()), ["first", "second"]);
    for at_once in [1, 4] {
        let to = store(&dir, &format!("to{at_once}.fm"));
        let (report, told) = copied(&from, &to, at_once);
        assert_eq!((report.versions, told.len()), (17, 0));
        stores::assert_equal(&to, &from);
        assert_eq!(to.get("http://a.example/tie").expect("readable").expect("there").body, b"second");
    }
}

#[test]
fn damage_costs_what_it_covers_and_older_versions_come() {
    let dir = tempfile::tempdir().expect("a folder");
    let from = store(&dir, "a.fm");
    for version in 0..3 {
        for nth in 0..20 {
            let page = Page::new(format!("http://a.example/{nth}"), TIME + version, 200, format!("{nth} {version}"));
            from.put_page(&page).expect("stored");
        }
    }
    from.engine().checkpoint().expect("indexed");
    // The newest version of one page, and an older one of another.
    let places = [("http://a.example/3", 0), ("http://a.example/5", 1)].map(|(url, nth)| {
        let heads = from.engine().history(url.as_bytes()).expect("whole");
        heads[nth].place
    });
    let path = from.engine().path().to_owned();
    from.close().expect("closed");
    for place in places {
        let file = path.join(format!("value{}.dat", place.segment));
        let file = OpenOptions::new().write(true).open(file).expect("a segment");
        file.write_all_at(&[0xee; 16], place.offset).expect("written");
    }
    let from = PageStore::open_read_only(&path, Options::new()).expect("readable");
    let to = store(&dir, "b.fm");
    let (report, told) = copied(&from, &to, 1);
    assert_eq!((report.versions, report.damaged as usize), (58, told.len()), "{told:?}");
    assert!(report.damaged >= 2 && !report.is_complete());
    let times = |url: &str| -> Vec<i64> {
        to.versions_of(Lookup::new(url)).expect("readable").iter().map(|version| version.time_ms - TIME).collect()
    };
    assert_eq!((times("http://a.example/3"), times("http://a.example/5")), (vec![1, 0], vec![2, 0]));
    let (again, _) = copied(&from, &to, 1);
    assert_eq!((again.versions, again.already_there), (0, 58));
}

#[test]
fn what_the_other_store_does_not_take_is_named_and_the_rest_comes() {
    let dir = tempfile::tempdir().expect("a folder");
    let (from, to) = (store(&dir, "a.fm"), store(&dir, "b.fm"));
    let variant = Variant::new("session 7").expect("short");
    for url in ["http://a.example/kept", "http://secret.example/1", "http://secret.example/2"] {
        from.put_page(&Page::new(url, TIME, 200, "text")).expect("stored");
        let page = Page { variant: Some(variant.clone()), ..Page::new(url, TIME, 200, "of a session") };
        from.put_page(&page).expect("stored");
    }
    use filemap::erase::{EraseOrder, EraseTarget};
    let order = EraseOrder::new(EraseTarget::Host("secret.example".to_owned()), "request 17".to_owned());
    to.erase(&order, &mut |_| ControlFlow::Continue(())).expect("erased");
    let (report, told) = copied(&from, &to, 1);
    assert_eq!((report.versions, report.refused, report.is_complete()), (2, 4, false));
    assert!(told.iter().all(|words| words.starts_with("http://secret.example/")), "{told:?}");
    // No URL by the rules of the other store.
    let odd = StoredVersion::new(
        b"odd".to_vec(),
        Page::new("odd", TIME, 200, "x"),
        filemap::Version { time_ms: TIME, sequence: 1 },
        1,
    );
    let report = copy(&mut std::iter::once(Ok(odd)), &to, 1, &mut |_| ControlFlow::Continue(())).expect("copied");
    assert_eq!((report.versions, report.refused), (0, 1));
    to.put(&Page::new("http://a.example/later", TIME, 200, "x"), PutRule::IfNew).expect("it goes on");
}

#[test]
fn damage_that_hides_the_rest_of_a_source_ends_the_copy_and_that_of_a_version_does_not() {
    let dir = tempfile::tempdir().expect("a folder");
    let (from, to) = (store(&dir, "a.fm"), store(&dir, "b.fm"));
    for nth in 0..3 {
        from.put_page(&Page::new(format!("http://a.example/{nth}"), TIME, 200, "body")).expect("stored");
    }
    let of_index = |is_of_one_page| filemap::Error::Remote {
        location: "s3://b/p".to_owned(),
        detail: "the index: a row does not decode".to_owned(),
        is_damage: true,
        is_of_one_page,
    };
    let version = filemap_core::Version { time_ms: TIME, sequence: 9 };
    let of_version = |source: filemap::Error| filemap::Error::Unreadable {
        url: "http://a.example/".to_owned(),
        version,
        source: std::sync::Arc::new(source),
    };
    let mut told = 0;
    let mut run = |error: filemap::Error| {
        let mut first = Some(error);
        let mut versions = from.stored_by_key().take(2).chain(std::iter::from_fn(|| first.take().map(Err)));
        copy(&mut versions, &to, 1, &mut |event| {
            told += u64::from(matches!(event, CopyEvent::Damage(_)));
            ControlFlow::Continue(())
        })
    };
    let ended = run(of_index(false)).expect_err("the rest is unknown");
    assert!(ended.is_damage() && ended.to_string().contains("the index"), "{ended}");
    // What came before it is there.
    for error in [of_version(of_index(false)), of_index(true)] {
        let report = run(error).expect("one version is left out");
        assert_eq!((report.damaged, report.already_there), (1, 2));
    }
    assert_eq!(told, 2);
}

#[test]
fn versions_of_one_time_that_alternate_are_told_of() {
    let dir = tempfile::tempdir().expect("a folder");
    let (from, to) = (store(&dir, "a.fm"), store(&dir, "b.fm"));
    // The last two are equal, and follow each other.
    for (url, bodies) in [("http://a.example/", ["A", "B", "A"]), ("http://b.example/", ["A", "B", "B"])] {
        for body in bodies {
            from.put(&Page::new(url, TIME, 200, body), PutRule::Always).expect("stored");
        }
    }
    let mut told = Vec::new();
    let report = copy(&mut from.stored_by_key(), &to, 1, &mut |event| {
        if let CopyEvent::Repeated(page) = event {
            told.push(page.url.clone());
        }
        ControlFlow::Continue(())
    });
    let report = report.expect("copied");
    assert_eq!((report.versions, report.already_there, report.repeated), (4, 2, 1));
    assert!(!report.is_complete() && told == [b"http://a.example/"], "{told:?}");
}
