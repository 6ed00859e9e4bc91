//! The change feed, line by line; and a replica that follows it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use filemap::access::PutRule;
use filemap::erase::{EraseOrder, EraseTarget};
use filemap::import::{ImportOptions, adopt, import};
use filemap::page::{RecordKind, Revisit, RevisitProfile};
use filemap::{Options, Page, PageRead as _, PageStore, PageWrite, Variant};
use filemap_http::server::ServerOptions;
use filemap_http::{ClientOptions, Following, Mismatch};
use serde_json::{Value, json};

use crate::served::{Answer, Served, of, served};

const TIME: i64 = 1_700_000_000_000;

fn page(url: &str, hours: i64, body: &str) -> Page {
    Page::new(url, TIME + hours * 3_600_000, 200, body)
}

fn lines(answer: &Answer) -> Vec<Value> {
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/x-ndjson")), "{answer:?}");
    let text = std::str::from_utf8(&answer.body).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The kind of change and the URL of each line.
fn told(answer: &Answer) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |line: &Value| text(if line["url"].is_string() { &line["url"] } else { &line["page"]["url"] });
    lines(answer).iter().map(|line| (text(&line["change"]), of(line))).collect()
}

fn last_cursor(answer: &Answer) -> String {
    lines(answer).last().expect("a line")["cursor"].as_str().expect("a cursor").to_owned()
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(what, url)| ((*what).to_owned(), (*url).to_owned())).collect()
}

#[test]
fn whoever_begins_gets_a_list_and_then_what_is_put_and_removed() {
    let server = served(&[page("http://a.example/1", 0, "one"), page("http://a.example/2", 0, "two")]);
    let client = server.client();
    client.sync().expect("synced");
    let first = server.get("/v1/changes", &[]);
    let all = [("put", "http://a.example/1"), ("put", "http://a.example/2"), ("listed", ""), ("end", "")];
    assert_eq!(told(&first), pairs(&all));
    assert_eq!(lines(&first)[0]["page"]["body_bytes"], 3, "a head, not the page");
    let place = last_cursor(&first);
    client.put(&page("http://a.example/3", 0, "three"), PutRule::Always).expect("stored");
    client.put(&page("http://a.example/1", 1, "one again"), PutRule::Always).expect("stored");
    client.remove(b"http://a.example/2", None).expect("removed");
    client.sync().expect("synced");
    let since = |place: &str, more: &str| server.get(&format!("/v1/changes?since={place}{more}"), &[]);
    let next =
        [("put", "http://a.example/3"), ("put", "http://a.example/1"), ("removed", "http://a.example/2"), ("end", "")];
    assert_eq!(told(&since(&place, "")), pairs(&next));
    // In parts, each continuing where the previous one ended.
    let mut at = place.clone();
    for (what, url) in &next[..3] {
        let part = since(&at, "&limit=1");
        assert_eq!(told(&part), pairs(&[(what, url), ("end", "")]));
        at = last_cursor(&part);
    }
    assert_eq!(told(&since(&at, "")), pairs(&[("end", "")]));
    // The listing in parts, too.
    let listed = server.get("/v1/changes?limit=1", &[]);
    assert_eq!(told(&listed), pairs(&[("put", "http://a.example/1"), ("end", "")]));
    let rest = told(&since(&last_cursor(&listed), ""));
    assert_eq!(rest[rest.len() - 3..], pairs(&[("put", "http://a.example/3"), ("listed", ""), ("end", "")]));
    let bodies = lines(&since(&place, "&pages=1"));
    assert_eq!((&bodies[0]["page"]["body"], &bodies[0]["page"]["kind"]), (&json!("three"), &json!("response")));
    assert_eq!(told(&server.get("/v1/changes?since=now", &[])), pairs(&[("end", "")]));
}

#[test]
fn a_place_that_is_not_known_any_more_is_gone_and_what_is_none_is_refused() {
    let server = served(&[page("http://a.example/1", 0, "one")]);
    let place = last_cursor(&server.get("/v1/changes?since=now", &[]));
    let parts: Vec<&str> = place.split('-').collect();
    let with = |nth: usize, text: &str| {
        let mut parts = parts.clone();
        parts[nth] = text;
        server.get(&format!("/v1/changes?since={}", parts.join("-")), &[]).problem()
    };
    let other = "0".repeat(32);
    for (nth, text, words) in
        [(0, &*other, "another store"), (1, "0123456789abcdef", "recovery"), (3, "1000000", "older state")]
    {
        let (status, said) = with(nth, text);
        assert!(status == 410 && said.contains(words) && said.contains("begin anew"), "{status} {said}");
    }
    for (nth, text) in [(0, "xyz"), (1, "1"), (2, "-1"), (3, ""), (3, "1~%%")] {
        let (status, said) = with(nth, text);
        assert_eq!(status, 400, "{nth} {text}: {said}");
    }
    for query in ["wait=301", "wait=-1", "limit=0", "pages=2", "cursor=1"] {
        assert_eq!(server.get(&format!("/v1/changes?{query}"), &[]).problem().0, 400, "{query}");
    }
}

#[test]
fn an_answer_waits_for_the_next_change() {
    let server = served(&[]);
    let place = last_cursor(&server.get("/v1/changes?since=now", &[]));
    let client = server.client();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| told(&server.get(&format!("/v1/changes?since={place}&wait=60&limit=1"), &[])));
        std::thread::sleep(Duration::from_millis(300));
        client.put(&page("http://a.example/1", 0, "one"), PutRule::Always).expect("stored");
        client.sync().expect("synced");
        let said = waiting.join().expect("answered");
        assert_eq!(said, pairs(&[("put", "http://a.example/1"), ("end", "")]));
    });
}

/// Lines of an event stream, up to one with this text.
fn until(reader: &mut impl BufRead, words: &str) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        let mut line = String::new();
        assert!(reader.read_line(&mut line).expect("more within two minutes") > 0, "{found:?}");
        found.push(line.trim_end().to_owned());
        if line.contains(words) {
            return found;
        }
    }
}

#[test]
fn events_are_sent_as_they_come_and_a_broken_stream_goes_on() {
    let server = served(&[page("http://a.example/1", 0, "one")]);
    let client = server.client();
    let open = |last: Option<&str>| {
        let mut stream = server.connect();
        let last = last.map_or(String::new(), |place| format!("Last-Event-ID: {place}\r\n"));
        let head =
            format!("GET /v1/changes HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\n{last}\r\n", server.address);
        stream.write_all(head.as_bytes()).expect("sent");
        BufReader::new(stream)
    };
    client.sync().expect("synced");
    let mut events = open(None);
    let listed = until(&mut events, "event: listed");
    assert!(listed.iter().any(|line| line.eq_ignore_ascii_case("content-type: text/event-stream")), "{listed:?}");
    assert!(listed.iter().any(|line| line.starts_with("data: ") && line.contains("http://a.example/1")), "{listed:?}");
    client.put(&page("http://a.example/2", 0, "two"), PutRule::Always).expect("stored");
    client.sync().expect("synced");
    let put = until(&mut events, "http://a.example/2");
    let place = put.iter().rev().find_map(|line| line.strip_prefix("id: ")).expect("a place").to_owned();
    drop(events);
    client.remove(b"http://a.example/2", None).expect("removed");
    client.sync().expect("synced");
    let rest = until(&mut open(Some(&place)), "event: removed");
    assert!(!rest.iter().any(|line| line.contains("event: put")), "{rest:?}");
}

/// All versions of a store, without fields of the store itself.
fn all(store: &PageStore) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for stored in store.stored_versions() {
        let stored = stored.expect("readable");
        let text = format!("{:?} {:?} {:?}", String::from_utf8_lossy(&stored.key), stored.page, stored.body_form());
        *found.entry(text).or_default() += 1;
    }
    found
}

/// A replica that follows a server until it is dropped.
struct Follower {
    store: PageStore,
    following: Arc<Following>,
    thread: Option<std::thread::JoinHandle<filemap::Result<()>>>,
}

impl Follower {
    fn of(server: &Served, store: PageStore) -> Follower {
        let following = Arc::new(Following::new(&format!("http://{}", server.address)));
        let (own, replica) = (Arc::clone(&following), store.clone());
        let work = move || filemap_http::follow(&replica, &own, &ClientOptions::new(), Mismatch::Refuse, &|_| {});
        Follower { store, following, thread: Some(std::thread::spawn(work)) }
    }

    /// Waits until the replica equals `origin`.
    #[track_caller]
    fn is_equal_to(&self, origin: &PageStore) {
        let (begun, want) = (Instant::now(), all(origin));
        loop {
            let have = all(&self.store);
            if have == want && self.following.figures().is_complete {
                return;
            }
            if begun.elapsed() > Duration::from_secs(120) {
                let missing: Vec<_> = want.keys().filter(|key| have.get(*key) != want.get(*key)).collect();
                let surplus: Vec<_> = have.keys().filter(|key| want.get(*key) != have.get(*key)).collect();
                panic!("{:?}\nmissing {missing:?}\nsurplus {surplus:?}", self.following.figures());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ends when its store is closed, at the latest when the server sends something.
    fn end(mut self, server: &Served) {
        self.store.clone().close().expect("closed");
        let client = server.client();
        client.put(&page("http://end.example/", 0, "the last one"), PutRule::Always).expect("stored");
        client.sync().expect("synced");
        self.thread.take().expect("one").join().expect("no panic").expect("the end of its store is not an error");
    }
}

fn store(dir: &std::path::Path, name: &str) -> PageStore {
    PageStore::create(dir.join(name), Options::new()).expect("a store")
}

/// Pages of every kind: versions, an unchanged one, a variant, records beside, a revisit, a body
/// that the feed does not contain.
fn fill(store: &PageStore) {
    for nth in 0..50 {
        store.put_page(&page(&format!("http://a.example/{nth}"), nth, &"text ".repeat(nth as usize))).expect("stored");
    }
    store.put_page(&page("http://a.example/1", 90, "changed")).expect("stored");
    store.put_page_if_changed(&page("http://a.example/1", 91, "changed")).expect("stored");
    let post = Page { variant: Some(Variant::new("POST").expect("fits")), ..page("http://a.example/form", 1, "sent") };
    store.put_page(&post).expect("stored");
    let request = Page { kind: RecordKind::Request, ..page("http://a.example/1", 0, "GET / HTTP/1.1") };
    store.put_page(&request).expect("stored");
    let mut revisit = page("http://b.example/", 5, "");
    revisit.kind = RecordKind::Revisit;
    revisit.revisit = Some(Revisit {
        profile: RevisitProfile::IdenticalPayload,
        refers_to_url: Some(b"http://a.example/1".to_vec()),
        refers_to_ms: Some(TIME + 90 * 3_600_000),
        refers_to_id: None,
        original: None,
    });
    store.put_page(&revisit).expect("stored");
    let mut noise = fastrand_bytes(17 << 20);
    noise[0] = 0xff;
    store.put_page(&Page::new("http://large.example/", TIME, 200, noise)).expect("stored");
}

fn fastrand_bytes(count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    std::iter::repeat_with(|| next().to_le_bytes()).flatten().take(count).collect()
}

#[test]
fn a_replica_becomes_equal_and_stays_so() {
    let dir = tempfile::tempdir().expect("a folder");
    let origin = store(dir.path(), "origin");
    fill(&origin);
    let server = of(origin.clone(), ServerOptions::new().writes());
    let replica = Follower::of(&server, store(dir.path(), "replica"));
    origin.sync().expect("synced");
    replica.is_equal_to(&origin);
    origin.remove("http://a.example/1").expect("removed");
    origin.put_page(&page("http://a.example/1", 200, "back")).expect("stored");
    origin.remove("http://a.example/form").expect("removed");
    // The body of the second one is shared, too.
    let (third, second) = ("http://a.example/3", "http://a.example/2");
    origin.put_page(&page(third, 300, "later")).expect("stored");
    origin.put_page_if_changed(&page(second, 301, &"text ".repeat(2))).expect("stored");
    assert_eq!(origin.remove_at(third, TIME + 3 * 3_600_000).expect("removed").expect("there").versions, 1);
    assert_eq!(origin.remove_at(second, TIME + 2 * 3_600_000).expect("removed").expect("there").versions, 1);
    replica.is_equal_to(&origin);
    assert_eq!(replica.following.figures().counts.removed_versions, 2);
    for nth in 0..500 {
        origin.put_page(&page(&format!("http://c.example/{}", nth % 100), nth, &format!("{nth}"))).expect("stored");
    }
    origin.sync().expect("synced");
    replica.is_equal_to(&origin);
    origin.engine().compact().expect("compacted");
    let order = EraseOrder::new(EraseTarget::Host("c.example".into()), "asked for");
    origin.erase(&order, &mut |_| ControlFlow::Continue(())).expect("erased");
    replica.is_equal_to(&origin);
    assert!(replica.store.put_page(&page("http://c.example/7", 900, "again")).is_err(), "the rule holds here too");
    let path = replica.store.engine().path().to_owned();
    replica.end(&server);
    // Another process resumes.
    let again = Follower::of(&server, PageStore::open(&path, Options::new()).expect("opened"));
    origin.put_page(&page("http://d.example/", 1, "new")).expect("stored");
    origin.sync().expect("synced");
    again.is_equal_to(&origin);
    let counts = again.following.figures().counts;
    assert!(counts.put + counts.present < 10, "it did not begin anew: {counts:?}");
    again.end(&server);
}

/// A cursor in the history of a store before something was dropped from it.
fn of_another_life(origin: &PageStore) -> String {
    let now = origin.engine().changes_end().expect("open").to_string();
    let id = now.split('-').next().expect("an id");
    format!("{id}-{}-0-1", "0".repeat(15) + "1")
}

/// Makes a store a replica at this cursor.
fn note(replica: &PageStore, place: &str) {
    replica.sync().expect("synced");
    let own = replica.engine().changes_end().expect("open");
    std::fs::write(replica.engine().path().join("FOLLOWS"), format!("{own}\n{place}\n")).expect("written");
}

/// Bodies in files beside the store: small ones are in the feed, a large one is fetched.
#[test]
fn a_replica_of_pages_in_place_has_their_bodies() {
    let dir = tempfile::tempdir().expect("a folder");
    let origin = store(dir.path(), "origin");
    let record = |name: &str, body: &[u8]| {
        let head = format!(
            "WARC/1.1\r\nWARC-Type: resource\r\nWARC-Target-URI: http://a.example/{name}\r\n\
             WARC-Date: 2023-11-14T22:13:20Z\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), body, b"\r\n\r\n"].concat()
    };
    let large: Vec<u8> = (0..20u32 << 20).map(|at| (at % 251) as u8).collect();
    let file = [record("1", b"first"), record("2", b"second"), record("large", &large)].concat();
    let path = dir.path().join("a.warc");
    std::fs::write(&path, &file).expect("a file");
    let options = ImportOptions::new().in_place(path.to_str().expect("text"));
    let report = import(&origin, "a.warc", &file[..], &options, &mut |_| ControlFlow::Continue(())).expect("imported");
    assert_eq!(report.in_place, 3);
    origin.sync().expect("synced");

    let server = of(origin.clone(), ServerOptions::new().writes());
    let replica = Follower::of(&server, store(dir.path(), "replica"));
    replica.is_equal_to(&origin);
    assert!(replica.store.head("http://a.example/1").expect("readable").expect("there").page.in_place.is_none());
    assert_eq!(replica.following.figures().counts.put, 3);

    assert!(origin.remove("http://a.example/1").expect("removed"));
    replica.is_equal_to(&origin);
    let adopted = adopt(&origin, &mut |_| ControlFlow::Continue(())).expect("adopted");
    assert_eq!((adopted.pages, adopted.lost), (2, 0));
    origin.sync().expect("synced");
    replica.is_equal_to(&origin);
    // The same from the beginning.
    let other = Follower::of(&server, store(dir.path(), "other"));
    other.is_equal_to(&origin);
    let client = server.client();
    let found = client.get(&"http://a.example/large".into()).expect("readable").expect("there");
    assert!(found.body == large);
    replica.end(&server);
    other.end(&server);
}

/// The error with which following ends immediately.
fn refused(server: &Served, replica: &PageStore) -> (String, bool) {
    let following = Following::new(&format!("http://{}", server.address));
    let ended = filemap_http::follow(replica, &following, &ClientOptions::new(), Mismatch::Refuse, &|_| {});
    (ended.expect_err("refused").to_string(), following.figures().has_ended)
}

#[test]
fn a_store_that_is_no_replica_of_that_one_is_left_alone() {
    let dir = tempfile::tempdir().expect("a folder");
    let origin = store(dir.path(), "origin");
    fill(&origin);
    origin.sync().expect("synced");
    let server = of(origin.clone(), ServerOptions::new());
    let own = store(dir.path(), "own");
    own.put_page(&page("http://own.example/", 1, "only here")).expect("stored");
    let before = all(&own);
    let is_refused = |own: &PageStore, words: &str| {
        let (said, has_ended) = refused(&server, own);
        assert!(has_ended && said.contains(words), "{said}");
    };
    is_refused(&own, "its own pages");
    // A replica of another store; also one that is to start over.
    let mut other = of_another_life(&own);
    note(&own, &other);
    is_refused(&own, "another store now");
    other += "~";
    note(&own, &other);
    is_refused(&own, "another store now");
    note(&own, "no place");
    is_refused(&own, "not a place");
    assert_eq!(all(&own), before);
    let options = Options::new();
    let exact = PageStore::create_with(dir.path().join("exact"), Arc::new(filemap::canonical::Exact), options);
    is_refused(&exact.expect("a store"), "its canonicaliser is");
    is_refused(&origin, "this very store");
}

#[test]
fn a_replica_put_back_to_an_older_state_begins_anew() {
    let dir = tempfile::tempdir().expect("a folder");
    let origin = store(dir.path(), "origin");
    fill(&origin);
    origin.sync().expect("synced");
    let server = of(origin.clone(), ServerOptions::new().writes());
    let own = store(dir.path(), "own");
    // The cursor says that it has reached the end, but the end of that time no longer exists.
    let has_all = own.engine().changes_end().expect("open").to_string();
    let ahead = has_all.replace("-0-1", "-0-1000");
    let now = origin.engine().changes_end().expect("open");
    std::fs::write(own.engine().path().join("FOLLOWS"), format!("{ahead}\n{now}\n")).expect("written");
    let replica = Follower::of(&server, own);
    replica.is_equal_to(&origin);
    replica.end(&server);
}

#[test]
fn what_is_damaged_in_the_origin_stays_in_its_replica() {
    let dir = tempfile::tempdir().expect("a folder");
    let origin = store(dir.path(), "origin");
    for nth in 0..20 {
        origin.put_page(&page(&format!("http://a.example/{nth}"), 0, &"text ".repeat(200))).expect("stored");
    }
    let path = origin.engine().path().to_owned();
    let own = store(dir.path(), "own");
    for page in origin.versions() {
        own.put_page(&page.expect("readable")).expect("stored");
    }
    origin.close().expect("closed");
    // Damages the body of the tenth page.
    let mut bytes = std::fs::read(path.join("value0.dat")).expect("readable");
    let at = bytes.windows(18).position(|b| b == b"http://a.example/9").expect("there") + 60;
    bytes[at] ^= 0xff;
    std::fs::write(path.join("value0.dat"), bytes).expect("written");
    let origin = PageStore::open(&path, Options::new()).expect("opened");
    let server = of(origin.clone(), ServerOptions::new().writes());
    note(&own, &of_another_life(&origin));
    let before = all(&own);
    let replica = Follower::of(&server, own);
    let begun = Instant::now();
    while !(replica.following.figures().is_complete && replica.following.figures().begun_anew == 1) {
        assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", replica.following.figures());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(all(&replica.store), before, "what is damaged there is whole here");
    let counts = replica.following.figures().counts;
    assert!(counts.damaged > 0 && counts.removed == 0, "{counts:?}");
    replica.end(&server);
}

#[test]
fn an_erasure_that_a_replica_has_not_heard_of_is_carried_out_when_it_begins_anew() {
    let dir = tempfile::tempdir().expect("a folder");
    let (origin, own) = (store(dir.path(), "origin"), store(dir.path(), "own"));
    for store in [&origin, &own] {
        store.put_page(&page("http://secret.example/", 0, "a secret text")).expect("stored");
        store.put_page(&page("http://a.example/", 0, "open")).expect("stored");
    }
    let order = EraseOrder::new(EraseTarget::Host("secret.example".into()), "asked for");
    origin.erase(&order, &mut |_| ControlFlow::Continue(())).expect("erased");
    let server = of(origin.clone(), ServerOptions::new().writes());
    note(&own, &of_another_life(&origin));
    let replica = Follower::of(&server, own);
    replica.is_equal_to(&origin);
    let rules = replica.store.erase_rules().expect("rules");
    assert!(rules.len() == 1 && rules[0].state == filemap_core::erase::RuleState::InForce, "{rules:?}");
    replica.end(&server);
}

#[test]
fn a_replica_that_has_lost_the_thread_begins_anew_and_keeps_what_is_right() {
    let dir = tempfile::tempdir().expect("a folder");
    let origin = store(dir.path(), "origin");
    fill(&origin);
    origin.sync().expect("synced");
    let server = of(origin.clone(), ServerOptions::new().writes());
    let own = store(dir.path(), "replica");
    fill(&own);
    // Pages that only this store has: a page, a version, a variant, a record beside; and pages
    // that only the other has.
    own.put_page(&page("http://0.example/", 1, "only here")).expect("stored");
    own.put_page(&page("http://z.example/", 1, "only here")).expect("stored");
    own.put_page(&page("http://a.example/7", 77, "only here")).expect("stored");
    let post = Page { variant: Some(Variant::new("POST").expect("fits")), ..page("http://a.example/2", 1, "sent") };
    own.put_page(&post).expect("stored");
    own.put_page(&Page { kind: RecordKind::Request, ..page("http://a.example/3", 0, "GET") }).expect("stored");
    own.remove("http://a.example/9").expect("removed");
    note(&own, &of_another_life(&origin));
    let replica = Follower::of(&server, own);
    replica.is_equal_to(&origin);
    let figures = replica.following.figures();
    assert_eq!(figures.begun_anew, 1);
    assert!(figures.counts.present >= 48 && figures.counts.put <= 4, "what was right stays: {figures:?}");
    replica.end(&server);
}
