//! Compares a store in object storage with a local store: the same calls on both must have the
//! same results. Before and after a sync, by the writer and by a reader.
//!
//! Runs in memory, and again in the bucket of `FILEMAP_S3` (`s3://bucket/prefix`) if that is set:
//! `ceph.sh` creates one.

use std::io::Read;
use std::ops::ControlFlow;

use filemap::access::{PutRule, Scope, Survives};
use filemap::page::{RecordKind, Revisit, RevisitProfile};
use filemap::{Error, Lookup, Options, Page, PageRead, PageStore, PageWrite, Put, Variant};
use filemap_cloud::{CloudOptions, CloudStore, Mode, open_bucket, repair};

const TIME: i64 = 1_700_000_000_000;

/// Locations of the stores of the test of this name.
pub fn locations(name: &str) -> Vec<String> {
    let mut locations = vec![format!("mem://{name}/pages")];
    if let Ok(s3) = std::env::var("FILEMAP_S3") {
        let unique = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_nanos();
        locations.push(format!("{s3}/{name}-{unique}"));
    }
    locations
}

pub fn options() -> CloudOptions {
    CloudOptions::new().segment_bytes(64 << 10)
}

pub fn opened(location: &str, mode: Mode) -> CloudStore {
    open_bucket(location, mode, &options()).unwrap_or_else(|error| panic!("{error}"))
}

pub fn pages() -> Vec<Page> {
    let mut pages = Vec::new();
    for (nth, host) in ["a.example", "b.a.example", "c.example"].into_iter().enumerate() {
        for path in 0..40 {
            let url = format!("http://{host}/page/{path}?q=%26&r=\u{fc}");
            let mut page = Page::new(url, TIME + nth as i64, 200, format!("body {path}").repeat(path));
            page.headers.push("Content-Type", "text/plain");
            page.headers.push("X-Odd", b"\xff\x01".to_vec());
            page.reason = b"Fine".to_vec();
            pages.push(page);
        }
    }
    for time_ms in [TIME, TIME + 1, TIME + 1000, TIME - 500, -5] {
        let mut page = Page::new("http://a.example/history", time_ms, 200, vec![0, 255, time_ms as u8]);
        page.ip = Some("::1".parse().expect("an address"));
        page.truncated = Some("length".to_owned());
        page.record_id = Some(format!("<urn:uuid:{time_ms}>"));
        pages.push(page);
    }
    let variant = Variant::of_request("POST", Some(b"text/plain"), b"a&b=\xff");
    pages.push(Page { variant: variant.clone(), ..Page::new("http://a.example/history", TIME, 201, "posted") });
    for bytes in [&b"alone"[..], b"\0\0", b"\0\xff\x01"] {
        let alone = Variant::new(bytes).ok();
        pages.push(Page { variant: alone, ..Page::new("http://c.example/only-variants", TIME, 200, "x") });
    }
    pages.push(Page { kind: RecordKind::Request, ..Page::new("http://a.example/history", TIME, 200, "GET") });
    pages.push(Page {
        kind: RecordKind::Metadata,
        variant,
        ..Page::new("http://a.example/history", TIME, 200, "note")
    });
    pages.push(Page { kind: RecordKind::Resource, status: None, ..Page::new("dns:a.example", TIME, 1, "127.0.0.1") });
    let mut large = Page::new("https://a.example:8443/large", TIME, 200, vec![7; 300_000]);
    (0..3000).for_each(|nth| large.headers.push("X-Many", format!("value {nth} of a header that is long")));
    pages.push(large);
    pages
}

fn scopes() -> Vec<Scope> {
    let scopes = [
        Scope::new(),
        Scope::new().host("a.example"),
        Scope::new().domain("A.example"),
        Scope::new().prefix("http://c.example/page/1"),
        Scope::new().prefix("http://c"),
        Scope::new().prefix("dns:"),
        Scope::new().host("nowhere.example"),
    ];
    let variants = scopes.clone().map(Scope::variants);
    let all = scopes.into_iter().chain(variants);
    all.flat_map(|scope| [scope.clone(), scope.backwards()]).collect()
}

/// Asserts that both stores give the same for every call about one of these pages.
fn compare(cloud: &dyn PageRead, local: &dyn PageRead, pages: &[Page], step: &str) {
    let head = |store: &dyn PageRead, lookup: &Lookup<'_>| {
        store.head(lookup).expect("readable").map(|head| (head.page, head.body_bytes, head.unchanged_since.is_some()))
    };
    for page in pages {
        let now = Lookup::new(&page.url).variant(page.variant.as_ref());
        for lookup in [now, now.at(page.fetched_at_ms), now.at(TIME - 1), now.at(i64::MIN), now.at(i64::MAX)] {
            let found = local.get(&lookup).expect("readable");
            assert_eq!(cloud.get(&lookup).expect("readable"), found, "{step}: {lookup:?}");
            assert_eq!(cloud.contains(&lookup).expect("readable"), found.is_some());
            let streamed = cloud.get_reader(&lookup).expect("readable").map(|(mut page, mut body)| {
                body.read_to_end(&mut page.body).expect("readable");
                page
            });
            assert_eq!(streamed, found);
            assert_eq!(head(cloud, &lookup), head(local, &lookup));
            let history = |store: &dyn PageRead| -> Vec<_> {
                let heads = store.history(&lookup).expect("readable").map(|head| head.expect("whole"));
                heads
                    .map(|head| (head.page, head.version.time_ms, head.body_bytes, head.unchanged_since.is_some()))
                    .collect()
            };
            assert_eq!(history(cloud), history(local), "{step}: {lookup:?}");
        }
        for version in cloud.versions(&now).expect("readable") {
            let found = cloud.get_version(&now, version).expect("readable").expect("there");
            assert_eq!(found.fetched_at_ms, version.time_ms);
        }
        assert_eq!(cloud.key(&page.url).expect("a URL"), local.key(&page.url).expect("a URL"));
        let variants = |store: &dyn PageRead| {
            let mut found: Vec<_> =
                store.variants(&page.url).expect("readable").map(|found| found.expect("whole")).collect();
            found.sort();
            found
        };
        assert_eq!(variants(cloud), variants(local));
        assert_eq!(cloud.may_have_variants(&page.url).expect("readable"), !variants(local).is_empty());
    }
    for scope in scopes() {
        let entries = |store: &dyn PageRead| -> Vec<_> {
            store.list(&scope, None).expect("listed").map(|entry| entry.expect("readable")).collect()
        };
        let listed = entries(local);
        assert_eq!(entries(cloud), listed, "{step}: {scope:?}, with their cursors");
        assert_eq!(cloud.count(&scope).expect("counted"), listed.len() as u64);
        let heads: Vec<_> = cloud.heads(&scope).expect("listed").map(|head| head.expect("whole").page).collect();
        let expected = listed.iter().map(|entry| {
            let lookup = Lookup::new(&entry.url).variant(entry.variant.as_ref());
            local.head(&lookup).expect("readable").expect("listed").page
        });
        assert_eq!(heads, expected.collect::<Vec<_>>(), "{step}: {scope:?}");
        for entry in listed.iter().step_by(41) {
            let rest = |store: &dyn PageRead| store.list(&scope, entry.cursor.as_ref()).expect("listed").count();
            assert_eq!(rest(cloud), rest(local), "{step}: {scope:?} after {entry:?}");
        }
    }
    let urls: Vec<&[u8]> = pages.iter().map(|page| &page.url[..]).chain([&b"http://absent.example/"[..]]).collect();
    assert_eq!(cloud.get_many(&urls).expect("readable"), local.get_many(&urls).expect("readable"));
    let ahead = cloud.get_ahead(Box::new(urls.iter().map(|url| url.to_vec())), 7);
    let ahead: Vec<_> = ahead.map(|(_, page)| page.expect("readable")).collect();
    assert_eq!(ahead, local.get_many(&urls).expect("readable"));
    let place = cloud.cursor(b"http://a.example/page/5").expect("a place");
    assert_eq!(place, local.cursor(b"http://a.example/page/5").expect("a place"));
}

#[test]
fn answers_are_those_of_the_local_store_before_and_after_a_sync_and_to_a_reader() {
    for location in locations("answers") {
        let dir = tempfile::tempdir().expect("a folder");
        let local = PageStore::create(dir.path().join("a"), Options::new()).expect("a store");
        let cloud = opened(&location, Mode::Fill);
        let pages = pages();
        for page in &pages {
            for target in [&cloud as &dyn PageWrite, &local] {
                assert!(matches!(target.put(page, PutRule::Always).expect("stored"), Some(Put::Stored(_))));
            }
        }
        compare(&cloud, &local, &pages, "before a sync");
        cloud.sync().expect("synced");
        compare(&cloud, &local, &pages, "after a sync");
        let reader = opened(&location, Mode::Read);
        compare(&reader, &local, &pages, "a reader");
        assert!(matches!(reader.put(&pages[0], PutRule::Always), Err(Error::Remote { .. })));
        assert!(reader.sync().is_err() && reader.remove(b"http://a.example/", None).is_err());
        reader.close().expect("closed");
        cloud.close().expect("closed");
        cloud.close().expect("closed before");
        assert!(cloud.put(&pages[0], PutRule::Always).is_err() && cloud.sync().is_err());
        let again = opened(&location, Mode::Write);
        compare(&again, &local, &pages, "opened again");
        let can = again.capabilities();
        assert!(can.has_history && can.lists_in_order && can.lists_from_cursor && !can.has_upkeep);
        assert_eq!(can.survives, Survives::Sync);
        assert!(again.contents().expect("told").bytes > Some(100_000));
        again.close().expect("closed");
    }
}

#[test]
fn changes_are_those_of_the_local_store() {
    for location in locations("changes") {
        let dir = tempfile::tempdir().expect("a folder");
        let local = PageStore::create(dir.path().join("a"), Options::new()).expect("a store");
        let cloud = opened(&location, Mode::Fill);
        let pages = pages();
        for (step, syncs) in [(0, true), (1, false), (2, true)] {
            for page in &pages {
                for target in [&cloud as &dyn PageWrite, &local] {
                    target.put(page, PutRule::IfNew).expect("stored");
                }
            }
            if syncs {
                cloud.sync().expect("synced");
            }
            let told: Vec<String> = [&cloud as &dyn PageWrite, &local].map(|target| change(target, step)).into();
            assert_eq!(told[0], told[1]);
            compare(&cloud, &local, &pages, "changed");
        }
        cloud.close().expect("closed");
        let again = opened(&location, Mode::Read);
        compare(&again, &local, &pages, "changed, and opened again");
        let verified = again.verify().expect("read");
        assert_eq!((verified.damage, verified.orphans), (Vec::<String>::new(), 0));
        again.close().expect("closed");
        // What was removed stays removed when only the segments are left.
        let repaired = repair(&location, &options()).expect("repaired");
        assert_eq!((repaired.damage, repaired.uncommitted), (Vec::<String>::new(), 0));
        assert_eq!(repaired.versions, verified.versions);
        let again = opened(&location, Mode::Write);
        compare(&again, &local, &pages, "repaired");
        assert_eq!(again.verify().expect("read").damage, [""; 0]);
        again.close().expect("closed");
    }
}

/// Makes changes of every kind. Returns the result of each call, as text.
fn change(target: &dyn PageWrite, step: i64) -> String {
    let mut told = Vec::new();
    let url = "http://a.example/history";
    let page = Page::new(url, TIME + 5000 + step, 200, "new");
    let said = |put: Option<Put>| put.map(|put| (matches!(put, Put::Stored(_)), put.version().time_ms));
    for (page, rule) in [
        (page.clone(), PutRule::IfNew),
        (page.clone(), PutRule::IfNew),
        (Page { record_id: Some("<urn:another>".to_owned()), ..page.clone() }, PutRule::IfNew),
        (Page { record_id: Some("<urn:another>".to_owned()), ..page.clone() }, PutRule::Restore),
        (Page { record_id: Some("<urn:another>".to_owned()), ..page.clone() }, PutRule::RestoreUnchanged),
        (Page { fetched_at_ms: TIME + 6000 + step, ..page.clone() }, PutRule::IfChanged),
        (Page { fetched_at_ms: TIME + 6001 + step, ..page.clone() }, PutRule::IfChanged),
        (Page { fetched_at_ms: TIME + 6002 + step, ..page.clone() }, PutRule::RestoreUnchanged),
        (Page { fetched_at_ms: TIME + 6003 + step, ..page.clone() }, PutRule::Always),
        (Page::new(url, TIME + 6004 + step, 304, ""), PutRule::IfChanged),
        (Page::new(url, TIME + 6005 + step, 304, ""), PutRule::IfChanged),
    ] {
        told.push(format!("{rule:?} {:?}", said(target.put(&page, rule).expect("stored"))));
    }
    let large = Page::new("http://a.example/large", TIME, 200, "");
    let version = target.put_reader(&large, &mut std::io::repeat(b'x').take(3_000_000)).expect("stored");
    told.push(version.time_ms.to_string());
    // Removes versions that later ones refer to; the bodies must stay.
    for time_ms in [TIME + 5000 + step, TIME, TIME, 5] {
        let removed = target.remove_at(url.as_bytes(), None, time_ms).expect("removed");
        told.push(format!("{removed:?}"));
    }
    let variant = Variant::of_request("POST", Some(b"text/plain"), b"a&b=\xff");
    for _ in 0..2 {
        told.push(target.remove(url.as_bytes(), variant.as_ref()).expect("removed").to_string());
        told.push(target.remove(b"http://c.example/only-variants", None).expect("removed").to_string());
        told.push(target.remove(b"http://b.a.example/page/3?q=%26&r=\xc3\xbc", None).expect("removed").to_string());
    }
    let mut removed = Vec::new();
    let number = target.remove_all(&Scope::new().host("c.example"), &mut |one| {
        let one = one.expect("undamaged");
        removed.push((one.url.to_vec(), one.is_page, one.is_variant));
        ControlFlow::Continue(())
    });
    told.push(format!("{} {removed:?}", number.expect("removed")));
    let stops = target.remove_all(&Scope::new().prefix("http://a.example/page/1"), &mut |_| ControlFlow::Break(()));
    told.push(stops.expect("removed").to_string());
    told.join("\n")
}

#[test]
fn a_revisit_is_given_as_it_was_put() {
    let cloud = opened("mem://revisits", Mode::Fill);
    let profile = RevisitProfile::ServerNotModified;
    let revisit =
        Revisit { profile, refers_to_url: None, refers_to_ms: Some(TIME), refers_to_id: None, original: None };
    let again = Page::new("http://a.example/", TIME + 1, 304, "");
    let again = Page { kind: RecordKind::Revisit, revisit: Some(revisit), ..again };
    cloud.put(&Page::new("http://a.example/", TIME, 200, "hello"), PutRule::Always).expect("stored");
    assert!(matches!(cloud.put(&again, PutRule::IfNew), Ok(Some(Put::Stored(_)))));
    assert!(matches!(cloud.put(&again, PutRule::IfNew), Ok(None)));
    let found = cloud.get(&"http://a.example/".into()).expect("readable").expect("there");
    assert!(found.lacks_body());
    assert_eq!(found, again);
    cloud.close().expect("closed");
}

#[test]
fn what_concerns_one_page_is_said_so_and_nothing_is_written() {
    let cloud = opened("mem://one-page", Mode::Fill);
    let long = format!("http://a.example/{}", "x".repeat(70_000));
    for page in [Page::new("no URL", TIME, 200, ""), Page::new(long, TIME, 200, "")] {
        let error = cloud.put(&page, PutRule::IfNew).expect_err("refused");
        assert!(error.concerns_one_page(), "{error}");
    }
    assert_eq!(cloud.count(&Scope::new()).expect("counted"), 0);
    let cut = cloud.list(&Scope::new(), Some(&filemap::access::Cursor(vec![9])));
    assert!(matches!(cut.err(), Some(Error::Cursor { .. })));
    cloud.close().expect("closed");
}
