//! Seen sets over HTTP: creation, requests, repeated requests; refusals; many clients at once.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use filemap_http::server::{SeenSets, ServerOptions, Tokens};
use filemap_http::{Ack, Added, ClientOptions, Made, SeenClient};
use tempfile::TempDir;
use urlindex::idempotent::{RequestId, RequestOptions};
use urlindex::stored::{NewSet, StoredSet};
use urlindex::{SeenSet, Verdict, Whatwg};

use crate::served::{Answer, Served, with};

const NEW: Option<Verdict> = Some(Verdict::New);
const SEEN: Option<Verdict> = Some(Verdict::Seen);

/// A server that creates sets in a folder.
fn serving(folder: &Path) -> Served {
    with(ServerOptions::new().writes().seen(SeenSets::new().writes().folder(folder)), &[])
}

fn make(server: &Served, name: &str, wanted: &str) -> Answer {
    server.ask("PUT", &format!("/v1/seen/{name}"), &[], wanted.as_bytes())
}

fn add(server: &Served, id: &str, urls: &str) -> Answer {
    let id = format!("Idempotency-Key: {id}");
    server.ask("POST", "/v1/seen/pages/add", &[&id], urls.as_bytes())
}

fn words(answer: &Answer) -> Vec<String> {
    String::from_utf8_lossy(&answer.body).lines().map(str::to_owned).collect()
}

fn client(server: &Served, name: &str) -> SeenClient {
    SeenClient::open(&format!("http://{}/v1/seen/{name}", server.address), &ClientOptions::new()).expect("a set")
}

fn added(verdicts: &[Option<Verdict>]) -> Added {
    Added::Verdicts(verdicts.to_vec())
}

fn now_ms() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_millis() as u64
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn a_set_is_made_once_and_keeps_its_kind_and_rules() {
    let folder = folder();
    let server = serving(folder.path());
    std::fs::write(folder.path().join("there"), "somebody's").expect("written");
    let wanted = r#"{"kind":"disk","rules":"crawl","capacity":1000}"#;
    let made = make(&server, "pages", wanted);
    assert_eq!((made.status, make(&server, "pages", wanted).status), (201, 200));
    assert_eq!((&made.json()["kind"], &made.json()["rules"]), (&"disk".into(), &"crawl".into()));
    for (name, other, status, said) in [
        ("pages", r#"{"kind":"trie","rules":"crawl"}"#, 409, "another kind"),
        ("pages", r#"{"kind":"disk"}"#, 409, "canonicaliser"),
        ("Pages", r#"{"kind":"disk"}"#, 400, "not a name"),
        ("a.b", r#"{"kind":"disk"}"#, 400, "not a name"),
        ("%2e%2e", r#"{"kind":"disk"}"#, 400, "not a name"),
        ("new", r#"{"kind":"cuckoo"}"#, 400, "`cuckoo`"),
        ("new", r#"{"kind":"bloom"}"#, 400, "capacity"),
        ("new", r#"{"kind":"trie","rate":0.1}"#, 400, "`rate`"),
        ("new", r#"{"kind":"growing","rate":0.9}"#, 400, "rate"),
        ("new", r#"{"kind":"disk","rules":"mine"}"#, 400, "`mine`"),
        ("new", r#"{"kind":"disk","size":1}"#, 400, "size"),
        ("new", "disk", 400, "JSON"),
        ("new", r#"{"kind":"bloom","capacity":40000000000}"#, 400, "--seen-memory"),
        ("new", r#"{"kind":"md5-bitmap","capacity":100000000000}"#, 400, "--seen-memory"),
        ("there", r#"{"kind":"trie"}"#, 409, "has files"),
    ] {
        let (found, words) = make(&server, name, other).problem();
        assert!(found == status && words.contains(said), "{name} {other}: {found} {words}");
    }
    for kind in ["bloom", "growing", "trie", "md5-bitmap"] {
        let capacity = if kind == "trie" || kind == "growing" { "" } else { r#","capacity":1000"# };
        assert_eq!(make(&server, kind, &format!(r#"{{"kind":"{kind}"{capacity}}}"#)).status, 201, "{kind}");
    }
    let all = server.get("/v1/seen", &[]).json();
    let names: Vec<&str> =
        all["sets"].as_array().expect("sets").iter().filter_map(|set| set["name"].as_str()).collect();
    assert_eq!(names, ["bloom", "growing", "md5-bitmap", "pages", "trie"]);
    assert_eq!(server.get("/v1/seen/none", &[]).status, 404);
    let view = String::from_utf8(server.get("/seen", &[]).body).expect("text");
    assert!(["md5-bitmap", "growing", "/v1/seen/pages", "crawl"].iter().all(|word| view.contains(word)), "{view}");
}

#[test]
fn each_line_has_its_word_and_a_request_sent_again_the_same_ones() {
    let folder = folder();
    let server = serving(folder.path());
    make(&server, "pages", r#"{"kind":"disk","rules":"crawl"}"#);
    let id = RequestId::now().to_string();
    let urls = "http://example.com/?b=2&a=1\nnot a url\n\nhttp://example.com/?a=1&b=2\r\nhttp://example.com/other";
    for id in [id.clone(), format!("\"{id}\"")] {
        let answer = add(&server, &id, urls);
        assert_eq!(
            (answer.status, words(&answer)),
            (200, ["new", "invalid", "invalid", "seen", "new"].map(str::to_owned).into())
        );
    }
    let other = RequestId::now().to_string();
    assert_eq!(words(&add(&server, &other, urls))[0], "seen");
    let checked = server.ask("POST", "/v1/seen/pages/check", &[], b"http://example.com/other#top\nhttp://none/\nx");
    assert_eq!(words(&checked), ["seen", "new", "invalid"]);
    let metrics = String::from_utf8(server.get("/metrics", &[]).body).expect("text");
    assert!(metrics.contains("filemap_seen_urls{set=\"pages\"} 2\n"), "{metrics}");
    assert!(metrics.contains("filemap_seen_kept_requests{set=\"pages\"} 2\n"), "{metrics}");
    let figures = server.get("/v1/seen/pages", &[]).json();
    assert_eq!((&figures["urls"], &figures["pending"], &figures["kept_requests"]), (&2.into(), &0.into(), &2.into()));

    let (status, said) = add(&server, &id, "http://example.com/").problem();
    assert!(status == 422 && said.contains("another request"), "{status} {said}");
    let old = RequestId::new(now_ms() - 25 * 3_600_000, [1; 10]).to_string();
    let (status, said) = add(&server, &old, "http://example.com/").problem();
    assert!(status == 409 && said.contains("may have been answered"), "{status} {said}");
    let ahead = RequestId::new(now_ms() + 3_600_000, [1; 10]).to_string();
    assert_eq!(add(&server, &ahead, "http://example.com/").status, 425);
    assert_eq!(add(&server, "7", "http://example.com/").status, 400);
    assert_eq!(server.ask("POST", "/v1/seen/pages/add", &["Content-Encoding: gzip"], b"x").status, 415);
    assert_eq!(server.ask("POST", "/v1/seen/none/add", &[], b"http://a/").status, 404);
    let empty = server.ask("POST", "/v1/seen/pages/add", &[], b"");
    assert_eq!((empty.status, empty.body.len()), (200, 0));
}

#[test]
fn what_was_answered_is_there_after_a_restart_and_the_answers_too() {
    let folder = folder();
    let (id, urls) = (RequestId::now(), ["http://a/", "http://b/", "x"]);
    for kind in ["disk", "trie", "growing"] {
        let mut server = serving(folder.path());
        make(&server, kind, &format!(r#"{{"kind":"{kind}"}}"#));
        let set = client(&server, kind);
        assert_eq!(set.add(Some(id), &urls, Ack::Durable).expect("added"), Added::Verdicts(vec![NEW, NEW, None]));
        assert_eq!(set.add(None, &["http://c/"], Ack::Accepted).expect("added"), Added::Verdicts(vec![NEW]));
        server.stop();
        let mut sets = SeenSets::new().writes();
        sets.add("again", &folder.path().join(kind)).expect("opened");
        let server = with(ServerOptions::new().writes().seen(sets), &[]);
        let set = client(&server, "again");
        assert_eq!(set.add(Some(id), &urls, Ack::Durable).expect("added"), Added::Verdicts(vec![NEW, NEW, None]));
        let checked = set.check(&["http://a/", "http://c/", "http://d/", "a\nb"]).expect("checked");
        let is_new: Vec<Option<bool>> = checked.iter().map(|one| one.map(Verdict::is_new)).collect();
        assert_eq!(is_new, [Some(false), Some(false), Some(true), None], "{kind}");
    }
}

#[test]
fn of_many_clients_with_the_same_urls_one_is_told_that_each_is_new() {
    let folder = folder();
    let server = serving(folder.path());
    make(&server, "pages", r#"{"kind":"disk"}"#);
    let told: Mutex<Vec<String>> = Mutex::default();
    std::thread::scope(|scope| {
        for writer in 0..8u64 {
            let (set, told) = (client(&server, "pages"), &told);
            scope.spawn(move || {
                for batch in 0..40 {
                    // Some wait for the device; some of the others are answered by the thread.
                    let count = if batch % 3 == 0 { 3 } else { 50 };
                    let urls: Vec<String> =
                        (0..count).map(|i| format!("http://h{}/{}", i % 5, (batch * 37 + i) % 400)).collect();
                    let ack = if (batch + writer) % 2 == 0 { Ack::Durable } else { Ack::Accepted };
                    let Added::Verdicts(verdicts) = set.add(Some(RequestId::now()), &urls, ack).expect("added") else {
                        panic!("forgotten")
                    };
                    let new = urls.into_iter().zip(verdicts).filter(|(_, verdict)| *verdict == NEW);
                    told.lock().expect("unpoisoned").extend(new.map(|(url, _)| url));
                }
            });
        }
    });
    let told = told.into_inner().expect("unpoisoned");
    let once: BTreeSet<&String> = told.iter().collect();
    assert_eq!(told.len(), once.len());
    // Nobody waits for the last URLs, but they are made durable.
    let begun = Instant::now();
    while server.get("/v1/seen/pages", &[]).json()["pending"] != 0 {
        assert!(begun.elapsed() < Duration::from_secs(120), "it is never made durable");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(server.get("/v1/seen/pages", &[]).json()["urls"], once.len());
}

#[test]
fn a_server_that_only_reads_answers_from_the_set_and_adds_nothing() {
    let folder = folder();
    let path = folder.path().join("seen");
    let writer = StoredSet::create(&path, NewSet::Trie, &Whatwg).expect("made");
    writer.insert(b"http://a/").expect("inserted");
    writer.sync().expect("synced");
    let mut sets = SeenSets::new().folder(folder.path());
    sets.add("pages", &path).expect("opened");
    let server = with(ServerOptions::new().seen(sets), &[]);
    assert_eq!(client(&server, "pages").check(&["http://a/", "http://b/"]).expect("checked"), [SEEN, NEW]);
    assert_eq!(add(&server, &RequestId::now().to_string(), "http://b/").status, 403);
    assert_eq!(make(&server, "new", r#"{"kind":"trie"}"#).status, 403);
    assert_eq!(server.get("/v1/seen/pages", &[]).json()["writes"], false);
}

#[test]
fn a_token_to_read_checks_and_one_to_write_adds() {
    let folder = folder();
    let tokens = Tokens::parse("read 0123456789abcdef\nwrite fedcba9876543210").expect("tokens");
    let sets = SeenSets::new().writes().folder(folder.path());
    let server = with(ServerOptions::new().writes().tokens(tokens).seen(sets), &[]);
    let [read, write] = ["0123456789abcdef", "fedcba9876543210"].map(|token| format!("Authorization: Bearer {token}"));
    let ask =
        |method: &str, path: &str, token: &str, body: &str| server.ask(method, path, &[token], body.as_bytes()).status;
    let wanted = r#"{"kind":"trie"}"#;
    assert_eq!(ask("PUT", "/v1/seen/pages", &read, wanted), 403);
    assert_eq!(ask("PUT", "/v1/seen/pages", &write, wanted), 201);
    assert_eq!(ask("POST", "/v1/seen/pages/add", &read, "http://a/"), 403);
    assert_eq!(ask("POST", "/v1/seen/pages/add", &write, "http://a/"), 200);
    assert_eq!(ask("POST", "/v1/seen/pages/check", &read, "http://a/"), 200);
    assert_eq!(server.ask("POST", "/v1/seen/pages/check", &[], b"http://a/").status, 401);
    let form = ["Content-Type: text/plain", "Origin: http://evil.example", &write];
    assert_eq!(server.ask("POST", "/v1/seen/pages/add", &form, b"http://a/").status, 403);
}

#[test]
fn an_id_is_forgotten_by_the_options_and_the_client_is_told() {
    let folder = folder();
    let requests = RequestOptions::new().keep_for(Duration::from_millis(1));
    let sets = SeenSets::new().writes().requests(requests).folder(folder.path());
    let server = with(ServerOptions::new().writes().seen(sets), &[]);
    make(&server, "pages", r#"{"kind":"trie"}"#);
    let set = client(&server, "pages");
    let id = RequestId::new(now_ms() - 1_000, [3; 10]);
    assert_eq!(set.add(Some(id), &["http://a/"], Ack::Durable).expect("answered"), Added::Forgotten);
    assert_eq!(set.check(&["http://a/"]).expect("checked"), [NEW]);
    let ahead = RequestId::new(now_ms() + 3_600_000, [3; 10]);
    let never = set.add(Some(ahead), &["http://a/"], Ack::Durable).expect("answered");
    assert!(matches!(&never, Added::Ahead(why) if why.contains("clock")), "{never:?}");
    assert!(set.writes() && set.rules() == ("whatwg", 1));
    // Text with a line end is not a URL, even alone.
    assert_eq!(set.check(&["a\nb"]).expect("checked"), [None]);
    assert_eq!(set.check(&[""; 0]).expect("checked"), []);
    let nowhere = SeenClient::open(&format!("http://{}/v1/stat", server.address), &ClientOptions::new());
    assert!(nowhere.expect_err("no set").to_string().contains("not an answer of a FileMap server"));
}

#[test]
fn a_client_makes_a_set_once_and_has_its_statistics() {
    let folder = folder();
    let server = serving(folder.path());
    let location = format!("http://{}/v1/seen/pages", server.address);
    let ask = |wanted: &str| SeenClient::create(&location, wanted, &ClientOptions::new()).expect("answered");
    let create = |wanted: &str| match ask(wanted) {
        Made::Set(set) => Ok(set),
        Made::Refused(why) => Err(why),
    };
    let absent = SeenClient::open(&location, &ClientOptions::new()).expect_err("no set").to_string();
    assert!(absent.contains("there is no seen set `pages`"), "{absent}");
    let set = create(r#"{"kind":"disk","rules":"exact"}"#).expect("made");
    assert_eq!(
        set.add(Some(RequestId::now()), &["a", "b", "a"], Ack::Accepted).expect("added"),
        added(&[NEW, NEW, SEEN])
    );
    // No URLs: earlier answers are made durable.
    assert_eq!(set.add(None, &[""; 0], Ack::Durable).expect("synced"), added(&[]));
    assert_eq!(server.get("/v1/seen/pages", &[]).json()["pending"], 0);
    let again = create(r#"{"kind":"disk","rules":"exact"}"#).expect("it is there");
    let stats = again.stats().expect("figures");
    assert!(stats.urls == 2 && stats.inserted == 2 && stats.disk_bytes > 0, "{stats:?}");
    let other = create(r#"{"kind":"trie"}"#).expect_err("another kind");
    assert!(other.contains("another kind"), "{other}");
}

#[test]
fn who_asks_for_a_set_that_another_request_makes_is_not_refused_for_good() {
    let folder = folder();
    let server = serving(folder.path());
    for number in 0..20 {
        let location = format!("http://{}/v1/seen/set{number}", server.address);
        let make = || loop {
            match SeenClient::create(&location, r#"{"kind":"disk"}"#, &ClientOptions::new()) {
                Ok(Made::Set(set)) => return set.writes(),
                Ok(Made::Refused(why)) => panic!("{why}"),
                Err(error) => assert!(error.to_string().contains("ask again"), "{error}"),
            }
        };
        std::thread::scope(|scope| {
            let makers: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
            assert!(makers.into_iter().all(|maker| maker.join().expect("no panic")));
        });
    }
}

#[test]
fn a_long_request_is_answered_in_parts_and_one_that_is_too_long_is_refused() {
    let folder = folder();
    let server = serving(folder.path());
    make(&server, "pages", r#"{"kind":"disk"}"#);
    let set = client(&server, "pages");
    let urls: Vec<String> = (0..50_000).map(|i| format!("http://h{}/{i}", i % 7)).collect();
    let added = set.add(Some(RequestId::now()), &urls, Ack::Durable).expect("added");
    assert_eq!(added, Added::Verdicts(vec![NEW; 50_000]));
    assert_eq!(set.check(&urls).expect("checked"), vec![SEEN; 50_000]);
    let (status, said) = server.ask("POST", "/v1/seen/pages/check", &[], &vec![b'\n'; 1_000_001]).problem();
    assert!(status == 413 && said.contains("1000001"), "{status} {said}");
}

#[test]
fn a_set_without_rules_or_with_a_bad_name_is_not_served() {
    let folder = folder();
    let path = folder.path().join("plain");
    drop(urlindex::DiskUrlSet::create(&path, urlindex::DiskOptions::new()).expect("made"));
    let refused = |name: &str, path: &Path| SeenSets::new().writes().add(name, path).expect_err("not served");
    assert!(refused("plain", &path).contains("--canonicalizer"));
    assert!(refused("Plain", &path).contains("not a name"));
    assert!(refused("none", &folder.path().join("none")).contains("none"));
    let trie = folder.path().join("trie");
    StoredSet::create(&trie, NewSet::Trie, &Whatwg).expect("made").close().expect("closed");
    let mut sets = SeenSets::new();
    sets.add("one", &trie).expect("served");
    assert!(sets.add("one", &trie).expect_err("taken").contains("two"));
}
