//! Starting the server, refusing to start, and stopping.

use std::fs;
use std::io::{BufRead, BufReader};

use filemap::access::PutRule;
use filemap::{Options, Page, PageRead, PageStore, PageWrite};
use filemap_core::Event;
use filemap_http::{Ack, Added, Client, ClientOptions, SeenClient};
use urlindex::stored::{NewSet, StoredSet};
use urlindex::{Verdict, Whatwg};

use crate::program::{Program, command};

fn page() -> Page {
    Page::new("http://example.com/", 1_700_000_000_000, 200, "kept")
}

#[test]
fn it_makes_a_store_serves_it_and_closes_it_on_a_signal() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("pages.fm");
    for name in ["TERM", "INT"] {
        let server = Program::start(&path, &["--write"]);
        server.client().put(&page(), PutRule::Always).expect("stored");
        server.signal(name);
        let (status, words) = server.end();
        assert!(status.success() && words.is_empty(), "{name}: {status} {words}");
        let replays = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(u64::MAX));
        let counter = replays.clone();
        let options = Options::new().on_event(move |event| {
            if let Event::Recovered(report) = event {
                counter.store(report.replayed_records, std::sync::atomic::Ordering::Relaxed);
            }
        });
        let store = PageStore::open(&path, options).expect("opened");
        assert_eq!(replays.load(std::sync::atomic::Ordering::Relaxed), 0, "it was closed, not left to recovery");
        assert_eq!(store.get("http://example.com/").expect("readable"), Some(page()));
        store.close().expect("closed");
    }
}

#[test]
fn it_reads_beside_a_writer_and_sees_what_is_put() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("pages.fm");
    let store = PageStore::create(&path, Options::new()).expect("a store");
    let server = Program::start(&path, &[]);
    let client = server.client();
    assert!(!client.writes() && client.get(&"http://example.com/".into()).expect("readable").is_none());
    store.put_page(&page()).expect("stored");
    store.sync().expect("synced");
    let found = (0..1_200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        client.get(&"http://example.com/".into()).expect("readable") == Some(page())
    });
    assert!(found, "what was put is not seen");
    let refused = client.put(&page(), PutRule::Always).expect_err("read-only");
    assert!(refused.to_string().contains("--write"), "{refused}");
}

#[test]
fn sets_of_a_folder_are_served_again_and_one_that_cannot_be_is_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let (path, sets) = (dir.path().join("pages.fm"), dir.path().join("sets"));
    fs::create_dir(&sets).expect("made");
    let make =
        |name: &str| StoredSet::create(sets.join(name), NewSet::Trie, &Whatwg).expect("made").close().expect("closed");
    ["good", "Bad.name", "broken"].into_iter().for_each(make);
    fs::write(sets.join("broken"), "no set").expect("written");
    let arguments = ["--write", "--seen-dir", sets.to_str().expect("text"), "--seen-memory", "64MiB"];
    for round in [true, false] {
        let server = Program::start(&path, &arguments);
        let set =
            SeenClient::open(&format!("{}/v1/seen/good", server.location), &ClientOptions::new()).expect("served");
        let added = set.add(None, &["http://a/"], Ack::Durable).expect("answered");
        let verdict = if round { Verdict::New } else { Verdict::Seen };
        assert_eq!(added, Added::Verdicts(vec![Some(verdict)]));
        for name in ["Bad.name", "broken"] {
            let refused = SeenClient::open(&format!("{}/v1/seen/{name}", server.location), &ClientOptions::new());
            assert!(refused.expect_err("not served").to_string().contains("there is no seen set"));
        }
        server.signal("TERM");
        let (status, words) = server.end();
        assert!(status.success(), "{words}");
    }
    // The messages before it serves.
    let output = command(&path, &[&arguments[..], &["--listen", "256.0.0.1:1"]].concat()).output().expect("run");
    assert_eq!(output.status.code(), Some(2));
    let mut child = command(&path, &arguments).stderr(std::process::Stdio::piped()).spawn().expect("started");
    let mut said = String::new();
    let mut lines = BufReader::new(child.stderr.take().expect("piped"));
    while !said.contains("serving ") {
        assert!(lines.read_line(&mut said).expect("text") > 0, "{said}");
    }
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert!(said.contains("not served: `Bad.name`") && said.contains("not served: seen set `broken`"), "{said}");
}

#[test]
fn it_shows_what_the_rules_of_its_files_allow() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("pages.fm");
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).expect("written");
        path.to_str().expect("text").to_owned()
    };
    let one = file(
        "one.aclj",
        "com,example)/b - {\"access\": \"block\"}\ncom,example)/c - {\"access\": \"block\", \"user\": \"staff\"}\n\
         com,example)/d/ - {\"access\": \"block\"}\n",
    );
    let two = file("two.aclj", "com,example)/ - {\"access\": \"allow\"}\n");
    let config = file("config.json", "{\"default_access\": \"exclude\"}");
    let server = Program::start(&path, &["--write", "--access", &one, "--access", &two, "--access-config", &config]);
    let client = server.client();
    for url in ["http://example.com/", "http://example.com/b", "http://example.org/"] {
        client.put(&Page::new(url, 1_700_000_000_000, 200, "kept"), PutRule::Always).expect("stored");
    }
    let get = |url: &str| client.get(&url.into()).map(|page| page.is_some());
    assert!(get("http://example.com/").expect("shown") && !get("http://example.org/").expect("not there"));
    assert!(get("http://example.com/b").expect_err("blocked").to_string().contains("blocked by an access rule"));
    server.signal("TERM");
    let (status, words) = server.end();
    assert!(status.success(), "{words}");
    // The messages before it serves: rules for users, and rules that pywb would miss.
    let mut child = command(&path, &["--access", &one]).stderr(std::process::Stdio::piped()).spawn().expect("started");
    let mut said = String::new();
    let mut lines = BufReader::new(child.stderr.take().expect("piped"));
    while !said.contains("serving ") {
        assert!(lines.read_line(&mut said).expect("text") > 0, "{said}");
    }
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert!(said.contains("1 access rule with a `user`") && said.contains("one.aclj:2: not in pywb's order"), "{said}");
    assert!(said.contains("one.aclj:3: the rule is about what is below `com,example)/d/`"), "{said}");
}

#[test]
fn it_says_what_it_cannot_start_with() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("pages.fm");
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).expect("written");
        path.to_str().expect("text").to_owned()
    };
    let (bad, none) = (file("bad", "root 0123456789abcdef"), file("none", "no PEM"));
    let deny = "com,b)/ - {\"access\": \"block\"}\ncom,a)/ - {\"access\": \"deny\"}\n";
    let (rules, config) = (file("rules.aclj", deny), file("config.json", "{\"embargo\": {}}"));
    let held = PageStore::create(dir.path().join("held"), Options::new()).expect("a store");
    for (store, arguments, code, words) in [
        (&path, vec![], 2, "not a FileMap store"),
        (&path, vec!["--write", "--listen", "0.0.0.0:0"], 2, "--token-file"),
        (&path, vec!["--write", "--token-file", &bad], 2, "`root`"),
        (&path, vec!["--write", "--token-file", "/no/such/file"], 2, "/no/such/file"),
        (&path, vec!["--write", "--tls-cert", &none, "--tls-key", &none], 2, "PEM"),
        (&path, vec!["--write", "--tls-cert", &none], 2, "--tls-key"),
        (&path, vec!["--write", "--access", &rules], 2, "rules.aclj:2: access is allow, block, exclude"),
        (&path, vec!["--write", "--access", "/no/such/file"], 2, "/no/such/file"),
        (&path, vec!["--write", "--access-config", &config], 2, "config.json: `embargo` has no"),
        (&dir.path().join("held"), vec!["--write"], 4, "read-only"),
    ] {
        let output = command(store, &arguments).output().expect("run");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
    assert!(!path.exists(), "no store was made");
    held.close().expect("closed");
}

#[test]
fn it_serves_https_to_whoever_has_a_token() {
    let dir = tempfile::tempdir().expect("a folder");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let (certificate, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    fs::write(&certificate, made.cert.pem()).expect("written");
    fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    let tokens = dir.path().join("tokens");
    fs::write(&tokens, "write 0123456789abcdef\n").expect("written");
    let [certificate_path, key, tokens] = [&certificate, &key, &tokens].map(|path| path.to_str().expect("text"));
    let arguments = ["--write", "--tls-cert", certificate_path, "--tls-key", key, "--token-file", tokens];
    let server = Program::start(&dir.path().join("pages.fm"), &arguments);
    let location = server.location.replace("127.0.0.1", "localhost");
    assert!(location.starts_with("https://"), "{location}");
    let trusting = ClientOptions::new().authorities(fs::read(&certificate).expect("readable"));
    let client = Client::open(&location, &trusting.clone().token("0123456789abcdef")).expect("let in");
    client.put(&page(), PutRule::Always).expect("stored");
    assert_eq!(client.get(&"http://example.com/".into()).expect("readable"), Some(page()));
    let refused = Client::open(&location, &trusting).expect_err("no token");
    assert!(refused.to_string().contains("token"), "{refused}");
    let refused = Client::open(&location, &ClientOptions::new().token("0123456789abcdef")).expect_err("not trusted");
    assert!(refused.to_string().contains("ertificate"), "{refused}");
}
