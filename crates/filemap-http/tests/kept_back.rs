//! Access rules on every route: excluded captures are as if not stored, blocked ones are refused.
//! Every operation of the server's description is requested; a new one fails the test until its
//! request is added here.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use filemap::access::{PutRule, Scope};
use filemap::acl::AccessRules;
use filemap::{Options, Page, PageRead, PageStore, PageWrite, Variant};
use filemap_http::server::{ServerOptions, Tokens};
use filemap_http::{Client, ClientOptions, Following, Mismatch};
use serde_json::Value;

use crate::served::{self, Answer, Served};

const TIME: i64 = 1_700_000_000_000;
const DAY_MS: i64 = 86_400_000;
/// Stamp of the time `TIME`.
const STAMP: &str = "20231114221320";
/// In bodies and headers of withheld captures.
const SECRET: &str = "body-or-header-that-nobody-sees";
/// In the names of excluded pages; the twin is in names that are not stored.
const HIDDEN: &str = "unseen";
const TWIN: &str = "unseem";

const RULES: &str = "example,open)/unseen - {\"access\": \"exclude\"}\n\
    example,unseen - {\"access\": \"exclude\", \"reason\": \"a reason-that-nobody-sees\"}\n\
    example,blocked)/ - {\"access\": \"block\", \"reason\": \"at the owner's request\"}\n";

const BLOCKED: &str = "http://blocked.example/page";
const EXCLUDED: [&str; 2] = ["http://unseen.example/page", "http://open.example/unseen"];

fn rules(text: &str) -> AccessRules {
    let mut rules = AccessRules::new();
    rules.add("rules.aclj", text.as_bytes()).expect("rules");
    rules
}

fn secret(url: &str, time_ms: i64) -> Page {
    let mut page = Page::new(url, time_ms, 200, SECRET);
    page.headers.push("content-type", b"text/html");
    page.headers.push("x-own", SECRET.as_bytes());
    page
}

fn pages() -> Vec<Page> {
    let mut pages = vec![Page::new("http://open.example/", TIME, 200, "seen by all")];
    for url in EXCLUDED.iter().chain([&BLOCKED]) {
        pages.extend([secret(url, TIME - DAY_MS), secret(url, TIME)]);
        let mut answer = secret(url, TIME);
        answer.variant = Some(Variant::new("__wb_method=POST&a=1").expect("a variant"));
        pages.push(answer);
    }
    pages
}

fn options() -> ServerOptions {
    ServerOptions::new().writes().access(rules(RULES))
}

/// Routes about no page.
const OF_NO_PAGE: [&str; 14] = [
    "/",
    "/seen",
    "/style.css",
    "/charts.js",
    "/segments",
    "/v1/segments",
    "/dictionaries",
    "/v1/dictionaries",
    "/v1/hour",
    "/crawl",
    "/v1/crawl",
    "/metrics",
    "/healthz",
    "/readyz",
];

/// Subject of a request.
#[derive(Clone, Copy, PartialEq)]
enum About {
    /// A page named in its target or body: `{url}` in both.
    Page,
    /// Lists; those without `{url}` contain the blocked page.
    List,
    /// No page.
    Nothing,
    /// Puts and removals, to which rules do not apply.
    Writes,
}

/// Requests of an operation: targets, each with a body.
fn requests(method: &str, path: &str) -> (About, Vec<(String, String)>) {
    use About::{List, Nothing, Page, Writes};
    let query = |targets: &[&str]| targets.iter().map(|target| (format!("{path}?{target}"), String::new())).collect();
    let plain = || vec![(path.to_owned(), String::new())];
    let behind = |begin: &str| vec![(format!("{begin}{{url}}"), String::new())];
    let variant = "url={url}&variant=__wb_method%3DPOST%26a%3D1";
    match (method, path) {
        ("GET", "/v1/page") => {
            let at = format!("url={{url}}&at={STAMP}");
            (
                Page,
                query(&["url={url}", &at, "url={url}&format=page", variant, "url={url}&version=1700000000000.{seq}"]),
            )
        }
        ("GET", "/v1/head") => (Page, query(&["url={url}", &format!("url={{url}}&at={STAMP}"), variant])),
        ("GET", "/show" | "/rendered") => {
            (Page, query(&["url={url}", variant, "url={url}&version=1700000000000.{seq}"]))
        }
        ("POST", "/v1/pages/get") => (Page, vec![(path.to_owned(), "{url}\nhttp://open.example/\n".to_owned())]),
        ("GET", "/v1/history") => (List, query(&["url={url}", variant, "url={url}&limit=1"])),
        ("GET", "/captures") => {
            let parts = ["url={url}&year=2023", "url={url}&day=2023-11-14", "url={url}&before=1700000000000.{seq}"];
            (List, query(&["url={url}", variant, parts[0], parts[1], parts[2]]))
        }
        ("GET", "/compare") => {
            let version = "url={url}&b=1700000000000.{seq}";
            (Page, query(&["url={url}", version, "url={url}&a=1700000000000.{seq}"]))
        }
        ("GET", "/v1/key") => (List, query(&["url={url}"])),
        ("GET", "/timegate/{url}") => (List, behind("/timegate/")),
        ("GET", "/timemap/link/{url}") => (List, behind("/timemap/link/")),
        ("GET", "/timemap/json/{url}") => (List, behind("/timemap/json/")),
        ("GET", "/web/{capture}") => (Page, behind(&format!("/web/{STAMP}id_/"))),
        ("POST", "/web/{capture}") => (Page, vec![(format!("/web/{STAMP}id_/{{url}}"), "a=1".to_owned())]),
        ("GET", "/v1/urls" | "/v1/count") => {
            (List, query(&["", "kind=variants", "reverse=1", "prefix={url}", "domain=example", "host={host}"]))
        }
        ("GET", "/cdx") => {
            let of_site = "url={host}&matchType=host";
            let more = ["url={url}&output=json", "url={url}&sort=closest&closest=2023"];
            let all = ["url={url}", "url=example&matchType=domain", of_site, "url={url}*", more[0], more[1]];
            (List, query(&all))
        }
        ("GET", "/v1/changes") => (List, query(&["", "pages=1", "since=now"])),
        ("GET", "/tree") => (
            List,
            query(&["host={host}", "prefix={url}", "prefix={url}/", "prefix=http://{host}/", "host=open.example"]),
        ),
        ("GET", "/list") => (List, query(&["prefix=http://", "host={host}", "prefix={url}"])),
        ("GET", "/hosts") => (List, plain()),
        ("GET", "/v1/hosts") => (List, query(&["", "limit=1", "limit=2"])),
        ("GET", "/find") => (Nothing, query(&["q={url}"])),
        ("GET", path) if OF_NO_PAGE.contains(&path) => (Nothing, plain()),
        ("GET", "/v1/stat") => (Nothing, query(&["figures=1"])),
        // Seen sets hold fingerprints of URLs that were sent, not pages.
        ("GET", "/v1/openapi.json" | "/v1/seen" | "/v1/seen/{name}") => (Nothing, plain()),
        ("PUT", "/v1/seen/{name}") | ("POST", "/v1/seen/{name}/add" | "/v1/seen/{name}/check") => (Nothing, plain()),
        // A server without mailboxes. Clients that read links may write.
        (_, path) if path.starts_with("/v1/links") => (Nothing, plain()),
        ("PUT", "/v1/page") => (Writes, vec![(format!("{path}?url={{url}}"), SECRET.to_owned())]),
        ("POST", "/v1/pages") => (
            Writes,
            vec![(path.to_owned(), format!("{{\"url\":\"{{url}}\",\"time\":\"2024\",\"body\":\"{SECRET}\"}}\n"))],
        ),
        ("POST", "/v1/sync") => (Writes, plain()),
        ("DELETE", "/v1/page") => (Writes, query(&["url={url}"])),
        _ => panic!("{method} {path}: say here how it is asked, and see that it keeps the access rules"),
    }
}

/// Requests a page.
fn ask(server: &Served, method: &str, (target, body): &(String, String), url: &str, sequence: u64) -> Answer {
    let host = url.split('/').nth(2).expect("a host");
    let sequence = sequence.to_string();
    let fill = |text: &str| text.replace("{url}", url).replace("{host}", host).replace("{seq}", &sequence);
    let kind = match target.starts_with("/web/") {
        true => "Content-Type: application/x-www-form-urlencoded",
        false => "Content-Type: application/x-ndjson",
    };
    let body = fill(body);
    let headers: &[&str] = if body.is_empty() { &[] } else { &[kind] };
    server.ask(method, &fill(target), headers, body.as_bytes())
}

/// An answer without the parts that differ between any two.
fn said(answer: &Answer) -> String {
    let is_own = |line: &&str| !line.starts_with("date:") && !line.starts_with("content-length:");
    let head: Vec<&str> = answer.head().lines().filter(is_own).collect();
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    // `/v1/key` repeats the requested URL, in base 64.
    let body = match body.strip_prefix("{\"url\":").and_then(|rest| rest.split_once("\"cursor\":\"")) {
        Some((url, rest)) => format!("{url}{}", rest.split_once('"').map_or(rest, |(_, rest)| rest)),
        None => body,
    };
    format!("{}\n\n{body}", head.join("\n"))
}

/// Every operation of the description.
fn operations(server: &Served) -> Vec<(String, String)> {
    let document = server.get("/v1/openapi.json", &[]).json();
    let paths = document["paths"].as_object().expect("paths").clone();
    let of_path = |(path, operations): (String, Value)| {
        let methods: Vec<String> = operations.as_object().expect("operations").keys().cloned().collect();
        methods.into_iter().map(move |method| (method.to_uppercase(), path.clone()))
    };
    let found: Vec<_> = paths.into_iter().flat_map(of_path).collect();
    assert!(found.len() > 30, "{found:?}");
    found
}

fn sequence_of(store: &PageStore, url: &str) -> u64 {
    store.versions_of(url).expect("readable")[0].sequence
}

#[test]
fn no_route_shows_what_is_kept_back() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = PageStore::create(dir.path().join("pages.fm"), Options::new()).expect("a store");
    for page in pages() {
        store.put_page(&page).expect("stored");
    }
    store.sync().expect("synced");
    let server = served::of(store.clone(), options());
    let (mut refused, mut alike) = (0, 0);
    for (method, path) in operations(&server) {
        let (about, asked) = requests(&method, &path);
        for request in asked.iter().filter(|_| about != About::Writes) {
            let is_named =
                [&request.0, &request.1].iter().any(|text| text.contains("{url}") || text.contains("{host}"));
            let methods = if method == "GET" { vec!["GET", "HEAD"] } else { vec![method.as_str()] };
            for method in methods {
                for excluded in EXCLUDED {
                    let sequence = sequence_of(&store, excluded);
                    let found = said(&ask(&server, method, request, excluded, sequence));
                    assert!(!found.contains("that-nobody-sees"), "{method} {request:?}: {found}");
                    if is_named {
                        let twin = excluded.replace(HIDDEN, TWIN);
                        let twin = said(&ask(&server, method, request, &twin, sequence)).replace(TWIN, HIDDEN);
                        assert!(found == twin, "{method} {request:?}\n{found}\n\nof what is not there:\n{twin}");
                        alike += 1;
                    } else {
                        assert!(!found.contains(HIDDEN), "{method} {request:?}: {found}");
                    }
                }
                let answer = ask(&server, method, request, BLOCKED, sequence_of(&store, BLOCKED));
                assert!(!said(&answer).contains(SECRET), "{method} {request:?}: {answer:?}");
                if about == About::Page && path != "/v1/pages/get" {
                    assert_eq!(answer.status, 451, "{method} {request:?}: {answer:?}");
                    let reason = String::from_utf8_lossy(&answer.body).into_owned();
                    assert!(method == "HEAD" || reason.contains("the owner"), "{request:?}: {reason}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 20 && alike > 80, "{refused} refused, {alike} alike");
}

#[test]
fn what_is_blocked_is_listed_and_counted() {
    let server = served::with(options(), &pages());
    let urls = server.get("/v1/urls", &[]).json();
    let urls: Vec<&str> = urls["urls"].as_array().expect("URLs").iter().filter_map(|row| row["url"].as_str()).collect();
    assert_eq!(urls, [BLOCKED, "http://open.example/"]);
    let count = |query: &str| server.get(&format!("/v1/count?{query}"), &[]).json()["count"].as_u64();
    assert_eq!((count(""), count("host=open.example"), count("host=unseen.example")), (Some(2), Some(1), Some(0)));
    assert_eq!((count("kind=variants"), count("domain=blocked.example")), (Some(1), Some(1)));
    let rows = server.get(&format!("/v1/history?url={BLOCKED}"), &[]).json();
    assert_eq!(rows["versions"].as_array().expect("versions").len(), 2);
    let row = &rows["versions"][0];
    let error = row["error"].as_str().expect("words");
    assert!(row["access"] == "block" && row["time_ms"] == TIME && error.contains("the owner"), "{row}");
    let cdx = String::from_utf8(server.get(&format!("/cdx?url={BLOCKED}"), &[]).body).expect("text");
    assert_eq!(cdx.lines().count(), 2, "{cdx}");
    for view in ["/captures?url=http://blocked.example/page", "/timemap/link/http://blocked.example/page"] {
        assert_eq!(server.get(view, &[]).status, 200, "{view}");
    }
    let client = server.client();
    let history: Vec<_> = client.history(&BLOCKED.into()).expect("answered").collect();
    assert!(history.iter().all(|row| row.as_ref().is_err_and(|error| !error.to_string().contains("damage"))));
    let error = client.get(&BLOCKED.into()).expect_err("refused");
    assert!(error.concerns_one_page() && !error.is_damage(), "{error}");
    assert_eq!(client.get(&EXCLUDED[0].into()).expect("answered"), None);
    assert_eq!(client.count(&Scope::new()).expect("answered"), 2);
    let lines = server.ask("POST", "/v1/pages/get", &[], format!("{BLOCKED}\n{}\n", EXCLUDED[0]).as_bytes());
    let lines: Vec<Value> =
        String::from_utf8_lossy(&lines.body).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(lines[0]["access"] == "block" && lines[1]["is_absent"] == true, "{lines:?}");
    let metrics = String::from_utf8(server.get("/metrics", &[]).body).expect("text");
    let name = "filemap_http_kept_back_total{access=\"block\",by=\"rule\"} ";
    let count = metrics.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok());
    assert!(count.is_some_and(|count| count > 2), "{metrics}");
}

#[test]
fn whoever_writes_puts_and_removes_what_is_not_shown() {
    let server = served::with(options(), &pages());
    for (method, path) in operations(&server) {
        let (about, asked) = requests(&method, &path);
        for request in asked.iter().filter(|_| about == About::Writes && method != "DELETE") {
            for url in EXCLUDED.iter().chain([&BLOCKED]) {
                let answer = ask(&server, &method, request, url, 0);
                assert!([200, 201].contains(&answer.status), "{method} {request:?}: {answer:?}");
            }
        }
    }
    let get = |url: &str| server.get(&format!("/v1/page?url={url}"), &[]).status;
    assert_eq!((get(EXCLUDED[0]), get(BLOCKED)), (404, 451));
    let client = server.client();
    assert!(client.remove(EXCLUDED[0].as_bytes(), None).expect("removed"));
    assert!(!client.remove(EXCLUDED[0].as_bytes(), None).expect("it is gone"));
    assert!(client.remove(BLOCKED.as_bytes(), None).expect("removed") && get(BLOCKED) == 404);
}

#[test]
fn a_spelling_that_means_an_excluded_page_finds_nothing() {
    let server = served::with(options(), &pages());
    for url in [
        "HTTP://Unseen.Example:80/page",
        "http:%5C%5Cunseen.example%5Cpage",
        "http://unseen.example/a/../page%23top",
        "http://uns%09een.example/page",
        "http://open.example/x/../unseen",
        "http://open.example/un%2573een",
    ] {
        assert_eq!(server.get(&format!("/v1/page?url={url}"), &[]).status, 404, "{url}");
    }
    assert_eq!(server.get("/v1/page?url=HTTP://Blocked.Example:80/./page", &[]).status, 451);
}

#[test]
fn an_embargo_hides_what_is_new_and_shows_what_is_old() {
    let now_ms = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_millis()).expect("ms");
    let mut embargo = rules("example,b)/ - {\"access\": \"allow_ignore_embargo\"}\n");
    embargo.configure("config", br#"{"embargo": {"newer": {"years": 1}}}"#).expect("an embargo");
    let page = |url: &str, time_ms, body: &str| Page::new(url, time_ms, 200, body);
    let pages = [
        page("http://a.example/", TIME, "old"),
        page("http://a.example/", now_ms - DAY_MS, SECRET),
        page("http://unseen.example/", now_ms - DAY_MS, SECRET),
        page("http://b.example/", now_ms - DAY_MS, "new"),
    ];
    let server = served::with(ServerOptions::new().access(embargo), &pages);
    assert_eq!(server.get("/v1/page?url=http://a.example/", &[]).body, b"old");
    assert_eq!(server.get("/v1/page?url=http://b.example/", &[]).body, b"new");
    assert_eq!(server.get("/v1/page?url=http://unseen.example/", &[]).status, 404);
    let head = server.get("/v1/head?url=http://a.example/", &[]).json();
    assert_eq!(head["time"].as_str().map(|time| &time[..10]), Some("2023-11-14"), "{head}");
    let history = server.get("/v1/history?url=http://a.example/", &[]).json();
    assert_eq!(history["versions"].as_array().map(Vec::len), Some(1));
    let gate = server.get("/timegate/http://a.example/", &[]);
    assert!(gate.header("location").is_some_and(|place| place.contains(STAMP)), "{gate:?}");
    let found: Vec<u8> = server.get("/v1/urls", &[]).body;
    let found = String::from_utf8_lossy(&found).into_owned();
    assert!(found.contains("a.example") && found.contains("b.example") && !found.contains(HIDDEN), "{found}");
    assert_eq!(server.get("/v1/count", &[]).json()["count"], 2);
    let warc = server.ask("POST", "/v1/pages/get", &["Accept: application/warc"], b"http://a.example/\n").body;
    let warc = String::from_utf8_lossy(&warc).into_owned();
    assert!(warc.contains("\r\nold") && !warc.contains(SECRET), "{warc}");
}

const READER: &str = "read-0123456789abcdef";
const ADMIN: &str = "admin-0123456789abcdef";

fn with_tokens() -> ServerOptions {
    let tokens = Tokens::parse(&format!("read {READER}\nadmin {ADMIN}")).expect("tokens");
    ServerOptions::new().writes().tokens(tokens)
}

fn changes(server: &Served, token: &str, query: &str) -> Answer {
    let header = format!("Authorization: Bearer {token}");
    server.get(&format!("/v1/changes?{query}"), &[&header])
}

fn last_cursor(answer: &Answer) -> String {
    let last = String::from_utf8_lossy(&answer.body).lines().last().expect("a line").to_owned();
    serde_json::from_str::<Value>(&last).expect("JSON")["cursor"].as_str().expect("a cursor").to_owned()
}

#[test]
fn changes_tell_what_is_allowed_and_an_admin_token_all() {
    let server = served::with(with_tokens().access(rules(RULES)), &pages());
    let text = |answer: &Answer| String::from_utf8_lossy(&answer.body).into_owned();
    let (reader, admin) = (changes(&server, READER, "pages=1"), changes(&server, ADMIN, "pages=1"));
    assert_eq!((text(&reader).matches(SECRET).count(), text(&reader).matches("\"put\"").count()), (0, 1));
    assert!(!text(&reader).contains(HIDDEN) && text(&reader).contains("\"is_whole\":true"), "{reader:?}");
    for url in EXCLUDED.iter().chain([&BLOCKED]) {
        assert!(text(&admin).contains(url), "{url}: {admin:?}");
    }
    // Neither continues from the other's cursor.
    for (token, place) in [(ADMIN, last_cursor(&reader)), (READER, last_cursor(&admin))] {
        let (status, detail) = changes(&server, token, &format!("since={place}")).problem();
        assert!(status == 410 && detail.contains("access rules"), "{status} {detail}");
    }
    let client = Client::open(&format!("http://{}", server.address), &ClientOptions::new().token(ADMIN));
    let client = client.expect("a server");
    for url in [EXCLUDED[0], BLOCKED, "http://open.example/"] {
        client.remove(url.as_bytes(), None).expect("removed");
    }
    client.sync().expect("synced");
    let rest = text(&changes(&server, READER, &format!("since={}", last_cursor(&reader))));
    assert!(rest.contains(BLOCKED) && rest.contains("open.example") && !rest.contains(HIDDEN), "{rest}");
    // Without tokens nobody has the `admin` right.
    let open = served::with(options(), &pages());
    assert!(!text(&open.get("/v1/changes?pages=1", &[])).contains(SECRET));
}

fn urls(store: &PageStore) -> BTreeSet<String> {
    let url = |url: filemap::Result<Vec<u8>>| String::from_utf8(url.expect("readable")).expect("text");
    store.urls().map(url).collect()
}

/// The page that the origin gets at the end of each replica.
const LAST: &str = "http://last.example/";

/// Follows until the replica has exactly these pages.
#[track_caller]
fn follows(server: &Served, token: &str, replica: &PageStore, expected: &[&str]) {
    let following = Arc::new(Following::new(&format!("http://{}", server.address)));
    let (own, store, options) = (Arc::clone(&following), replica.clone(), ClientOptions::new().token(token));
    let thread = std::thread::spawn(move || filemap_http::follow(&store, &own, &options, Mismatch::Refuse, &|_| {}));
    let (begun, expected) = (Instant::now(), expected.iter().map(|url| (*url).to_owned()).collect::<BTreeSet<_>>());
    while urls(replica) != expected || !following.figures().is_complete {
        assert!(begun.elapsed() < Duration::from_secs(120), "{:?} {:?}", urls(replica), following.figures());
        std::thread::sleep(Duration::from_millis(50));
    }
    replica.clone().close().expect("closed");
    // Ends at the latest when the server sends something.
    let client = Client::open(&format!("http://{}", server.address), &ClientOptions::new().token(ADMIN));
    let client = client.expect("a server");
    client.put(&Page::new(LAST, TIME, 200, "told last"), PutRule::Always).expect("stored");
    client.sync().expect("synced");
    thread.join().expect("no panic").expect("the end of its store is not an error");
}

#[test]
fn a_replica_has_what_its_token_is_told_and_begins_anew_under_other_rules() {
    let dir = tempfile::tempdir().expect("a folder");
    let origin = dir.path().join("origin");
    let store = PageStore::create(&origin, Options::new()).expect("a store");
    for page in pages() {
        store.put_page(&page).expect("stored");
    }
    // In the feed by its version only.
    let large = Page::new("http://unseen.example/large", TIME, 200, vec![7; (16 << 20) + 1]);
    store.put_page(&large).expect("stored");
    store.close().expect("closed");
    let serve = |text: &str| {
        let store = PageStore::open(&origin, Options::new()).expect("opened");
        served::of(store, with_tokens().access(rules(text)))
    };
    let replica = |name: &str| PageStore::open_or_create(dir.path().join(name), Options::new()).expect("opened");
    let mut server = serve(RULES);
    let all = ["http://open.example/", BLOCKED, EXCLUDED[0], EXCLUDED[1], "http://unseen.example/large"];
    follows(&server, ADMIN, &replica("all"), &all);
    assert_eq!(replica("all").get("http://unseen.example/large").expect("readable"), Some(large));
    follows(&server, READER, &replica("shown"), &["http://open.example/", LAST]);
    server.stop();
    let mut server = serve("example,open)/ - {\"access\": \"exclude\"}\n");
    follows(&server, READER, &replica("shown"), &[BLOCKED, EXCLUDED[0], "http://unseen.example/large", LAST]);
    server.stop();
}

/// Files under `folder` with their text.
fn sources(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            let text = std::fs::read_to_string(&path).expect("text");
            found.push((path, text));
        }
    }
}

#[test]
fn only_writes_and_figures_reach_the_store_past_the_rules() {
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/server");
    let mut found = Vec::new();
    sources(&server, &mut found);
    let of = |word: &str| -> Vec<String> {
        let has = found.iter().filter(|(_, text)| text.contains(word));
        let mut names: Vec<_> =
            has.map(|(path, _)| path.strip_prefix(&server).expect("under it").display().to_string()).collect();
        names.sort();
        names
    };
    let figures = ["figures.rs", "inspect/overview.rs", "inspect/space.rs"];
    let writes = ["many/add.rs", "many/told.rs", "pages/write.rs", "serve.rs"];
    assert_eq!(of(".whole"), [&["backend.rs"][..], &figures, &writes, &["space.rs"]].concat());
    assert_eq!(of("without_rules"), ["changes.rs", "pages/read.rs", "shown/store.rs"]);
    assert_eq!(of("get_reader("), ["pages/write.rs", "shown/store.rs"]);
}
