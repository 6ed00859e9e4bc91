//! Verbs with a server's address as the store: the answers are the same as for the store's folder.

use std::io::Write;
use std::process::{Command, Stdio};

use filemap::acl::AccessRules;
use filemap::{Options, PageStore};
use filemap_http::server::{SeenSets, Server, ServerOptions, Tokens};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::harness::{Bench, PAGE_URL, Ran, run, tool, warc};

const TOKEN: &str = "0123456789abcdef";

/// Serves the store of a bench; the server stops when this is dropped.
struct Served {
    location: String,
    runtime: Runtime,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<tokio::task::JoinHandle<filemap::Result<()>>>,
}

impl Served {
    fn new(bench: &Bench) -> Served {
        Served::with(bench, SeenSets::new().writes())
    }

    fn with(bench: &Bench, sets: SeenSets) -> Served {
        let tokens = Tokens::parse(&format!("admin {TOKEN}")).expect("tokens");
        Served::of(bench, ServerOptions::new().writes().tokens(tokens).seen(sets))
    }

    fn of(bench: &Bench, options: ServerOptions) -> Served {
        let store = PageStore::open(bench.store(), Options::new()).expect("opened");
        let server = Server::new(store, options);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let location = format!("http://{}", listener.local_addr().expect("an address"));
        let (stop, stopped) = oneshot::channel();
        let serving = runtime.spawn(server.serve(listener, None, async { drop(stopped.await) }));
        Served { location, runtime, stop: Some(stop), serving: Some(serving) }
    }

    fn run(&self, verb: &str, args: &[&str]) -> Ran {
        run(tool().arg(verb).arg(&self.location).args(args).env("FILEMAP_TOKEN", TOKEN))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(serving) = self.serving.take() {
            self.runtime.block_on(serving).expect("no panic").expect("closed");
        }
    }
}

#[test]
fn a_served_seen_set_answers_as_one_in_files_does() {
    let bench = Bench::with(&["python-docs.warc.gz"]);
    let (here, there) = (bench.path("here"), bench.path("there"));
    for set in [&here, &there] {
        run(tool().args(["seen", "create", "--kind", "disk", "--canonicalizer", "crawl"]).arg(set)).ended(0);
    }
    let list = bench.path("list");
    std::fs::write(&list, "http://a/?b=1&a=2\nhttp://a/?a=2&b=1#x\nnone\n\nhttp://b/\n").expect("written");
    let mut sets = SeenSets::new().writes();
    sets.add("pages", &there).expect("served");
    let server = Served::with(&bench, sets);
    let location = format!("{}/v1/seen/pages", server.location);
    let ask = |verb: &str, set: &std::ffi::OsStr, args: &[&str]| {
        run(tool().args(["seen", verb]).arg(set).arg(&list).args(args).env("FILEMAP_TOKEN", TOKEN))
    };
    let asked: [(&str, &[&str]); 5] = [
        ("check", &[]),
        ("add", &["--json"]),
        ("add", &["--new-only"]),
        ("check", &["--count"]),
        ("add", &["--canonicalizer", "crawl"]),
    ];
    for (verb, args) in asked {
        let (local, remote) = (ask(verb, here.as_os_str(), args), ask(verb, location.as_ref(), args));
        assert_eq!((remote.code, remote.text()), (local.code, local.text()), "{verb} {args:?}: {}", remote.words);
        assert_eq!(remote.code, 2, "one line is not a URL");
    }
    for (args, words) in [(&["--memory", "64MiB"][..], "--memory"), (&["--canonicalizer", "whatwg"], "rules `crawl`")] {
        let refused = ask("check", location.as_ref(), args).ended(2);
        assert!(refused.words.contains(words), "{}", refused.words);
    }
    let none = ask("check", format!("{}/v1/seen/none", server.location).as_ref(), &[]).ended(2);
    assert!(none.words.contains("there is no seen set `none`"), "{}", none.words);
}

#[test]
fn a_server_answers_as_the_folder_of_its_store_does() {
    let bench = Bench::with(&["python-docs.warc.gz"]);
    let reading: [(&str, &[&str]); 12] = [
        ("get", &[PAGE_URL]),
        ("get", &["--json", PAGE_URL]),
        ("get", &["--at", "2000", PAGE_URL]),
        ("get", &["http://docs.python.localhost/none"]),
        ("head", &[PAGE_URL]),
        ("has", &[PAGE_URL, "http://docs.python.localhost/none"]),
        ("history", &[PAGE_URL]),
        ("ls", &[]),
        ("ls", &["--long", "--limit", "3", "--host", "docs.python.localhost"]),
        ("ls", &["--reverse", "--limit", "5"]),
        ("count", &[]),
        ("count", &["--versions", "--prefix", "http://docs.python.localhost/3.11/l"]),
    ];
    let local: Vec<Ran> = reading.iter().map(|(verb, args)| bench.run(verb, args)).collect();
    let server = Served::new(&bench);
    for ((verb, args), local) in reading.iter().zip(local) {
        let remote = server.run(verb, args);
        assert_eq!(remote.code, local.code, "{verb} {args:?}: {} / {}", remote.words, local.words);
        assert!(remote.out == local.out, "{verb} {args:?}: {} / {}", remote.text(), local.text());
    }
    let new = "http://docs.python.localhost/new";
    let put = ["--status", "404", "--header", "X-A: b", new, "/dev/null"];
    server.run("put", &put).ended(0);
    server.run("get", &["--headers", new]).ended(0);
    assert!(server.run("head", &[new]).ended(0).text().contains("X-A: b"));
    server.run("rm", &[new]).ended(0);
    server.run("get", &[new]).ended(1);
    server.run("rm", &["--prefix", "http://docs.python.localhost/3.11/tutorial/c", "--yes"]).ended(0);
    drop(server);
    bench.run("get", &[PAGE_URL]).ended(0);
    bench.run("get", &[new]).ended(1);
    assert_eq!(bench.run("ls", &["--prefix", "http://docs.python.localhost/3.11/tutorial/c"]).text(), "");
}

#[test]
fn the_figures_of_a_server_are_those_of_its_store() {
    let bench = Bench::with(&["python-docs.warc.gz"]);
    let local = bench.run("stat", &["--json"]).ended(0).json().pop().expect("a line");
    let server = Served::new(&bench);
    server.run("get", &[PAGE_URL]).ended(0);
    let ran = server.run("stat", &["--json"]).ended(0);
    let remote = ran.json().pop().expect("a line");
    assert_eq!(remote["path"], server.location.as_str());
    for name in ["canonicalizer", "indexed_keys"] {
        assert!(!local[name].is_null() && remote[name] == local[name], "{name}: {remote}");
    }
    let names = |line: &serde_json::Value| line.as_object().expect("figures").keys().cloned().collect::<Vec<_>>();
    assert_eq!((names(&remote), ran.words.as_str()), (names(&local), ""), "nothing is left out");
    assert!(remote["gets"].as_u64() >= Some(1), "counted by the server: {remote}");
    let text = server.run("stat", &[]).ended(0).text().to_owned();
    assert!(text.lines().any(|line| line.starts_with("gets ")), "{text}");
    let metrics = server.run("stat", &["--format", "openmetrics"]).ended(0);
    assert!(metrics.text().contains("filemap_gets_total ") && metrics.text().ends_with("# EOF\n"));
    server.run("stat", &["--watch", "1", "--times", "1"]).ended(2).said("--watch needs a local store");
}

#[test]
fn what_a_server_cannot_do_is_said_and_makes_nothing() {
    let bench = Bench::with(&["python-docs.warc.gz"]);
    let server = Served::new(&bench);
    for verb in ["verify", "compact", "segments", "train", "repair", "dump", "top"] {
        let folder = bench.path(verb);
        std::fs::create_dir(&folder).expect("a folder");
        let mut command = tool();
        command.arg(verb).arg(&server.location).current_dir(&folder);
        if verb == "repair" {
            command.arg("new.fm");
        }
        run(&mut command).ended(2).said("works on the files of a store");
        assert_eq!(std::fs::read_dir(&folder).expect("readable").count(), 0, "{verb} made something");
    }
    let without = run(tool().arg("get").arg(&server.location).arg(PAGE_URL)).ended(2);
    assert!(without.words.contains("requires a token"), "{}", without.words);
    let location = server.location.clone();
    drop(server);
    let gone = run(tool().arg("get").arg(&location).arg(PAGE_URL).env("FILEMAP_TOKEN", TOKEN)).ended(2);
    assert!(gone.words.contains(&location), "{}", gone.words);
}

/// A bench with an empty store.
fn empty() -> Bench {
    let bench = Bench::new();
    PageStore::create(bench.store(), Options::new()).expect("a store").close().expect("closed");
    bench
}

#[test]
fn a_copy_to_a_server_and_back_has_every_version_and_is_repeated_for_nothing() {
    let here = Bench::with(&["python-docs.warc.gz"]);
    here.run("import", &[warc("IAH-urls-wget.warc.gz").into_os_string(), "--keep=request,metadata".into()]).ended(0);
    for (time, variant) in [("2020-01-01", None), ("2021-01-01", None), ("2021-01-01", Some("--variant=a session"))] {
        let args = ["--time", time, "--status", "404", "--header", "X-A: b", "http://v.example/#top", "-"];
        here.feed("put", &args.into_iter().chain(variant).collect::<Vec<_>>(), b"some").ended(0);
    }
    let there = empty();
    let back = here.path("back.fm");
    let server = Served::new(&there);
    let copied = |from: &std::ffi::OsStr, to: &std::ffi::OsStr| {
        let copy = run(tool().arg("copy").arg(from).arg(to).arg("--json").env("FILEMAP_TOKEN", TOKEN)).ended(0);
        let line = copy.json().pop().expect("a line");
        assert_eq!(line["complete"], true);
        (line["versions"].as_u64().expect("a number"), line["already_there"].as_u64().expect("a number"))
    };
    let (folder, location) = (here.store(), std::ffi::OsString::from(&server.location));
    let (versions, before) = copied(folder.as_os_str(), &location);
    assert!(versions > 60 && before == 0, "{versions}");
    assert_eq!(copied(folder.as_os_str(), &location), (0, versions));
    assert_eq!(copied(&location, back.as_os_str()), (versions, 0));
    assert_eq!(copied(&location, back.as_os_str()), (0, versions));
    let lines = |store: &std::path::Path| {
        let dump = run(tool().arg("dump").arg(store)).ended(0);
        let mut lines: Vec<String> = dump.text().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert!(lines(&back) == lines(&folder));
    run(tool().arg("copy").arg(&folder).arg(&location).args(["--compact"])).ended(2).said("--compact is for a copy");
    let down = run(tool().arg("copy").arg(&location).arg(&back).env("FILEMAP_TOKEN", TOKEN)).ended(0);
    down.said("what its token may see");
    let secret = server.location.replace("http://", "http://user:5e3c7e7@");
    for args in [["copy", &secret, &secret], ["erase", &secret, "--list"]] {
        let refused = run(tool().args(args)).ended(2);
        assert!(!refused.words.contains("5e3c7e7"), "{}", refused.words);
    }
}

#[test]
fn a_copy_from_a_server_with_access_rules_has_what_they_allow() {
    let bench = Bench::with(&["python-docs.warc.gz"]);
    let mut rules = AccessRules::new();
    let blocked = b"localhost,python,docs)/3.11/tutorial - {\"access\": \"block\"}\n";
    rules.add("rules.aclj", blocked).expect("rules");
    let server = Served::of(&bench, ServerOptions::new().access(rules));
    let copy = bench.path("copy.fm");
    run(tool().arg("copy").arg(&server.location).arg(&copy)).ended(0);
    drop(server);
    let urls = |store: &std::path::Path| {
        let dump = run(tool().arg("dump").arg(store)).ended(0);
        dump.json().iter().map(|line| line["url"].as_str().expect("a URL").to_owned()).collect::<Vec<_>>()
    };
    let (mut all, mut allowed) = (urls(&bench.store()), urls(&copy));
    let before = all.len();
    all.retain(|url| !url.starts_with("http://docs.python.localhost/3.11/tutorial"));
    all.sort_unstable();
    allowed.sort_unstable();
    assert!(!all.is_empty() && all.len() < before && allowed == all, "{allowed:?}");
}

/// The output of an import, without its duration.
fn brought(ran: &Ran) -> Vec<serde_json::Value> {
    let mut lines = ran.json();
    for fields in lines.iter_mut().filter_map(serde_json::Value::as_object_mut) {
        fields.remove("seconds");
    }
    lines
}

#[test]
fn a_file_sent_to_a_server_is_told_of_as_one_imported_here() {
    let here = empty();
    let there = empty();
    let mut damaged = std::fs::read(warc("python-docs.warc.gz")).expect("the sample");
    let at = damaged.len() / 3;
    damaged[at] ^= 0x55;
    let cut = here.path("damaged.warc.gz");
    std::fs::write(&cut, &damaged[..damaged.len() - 100]).expect("written");
    let list = |bench: &Bench| bench.run("ls", &["--long", "--json"]).ended(0).out;
    let files = [cut, warc("example.warc"), warc("IAH-urls-wget.warc.gz"), warc("python-docs.warc.gz")];
    let files: Vec<&str> = files.iter().map(|file| file.to_str().expect("text")).collect();
    let server = Served::new(&there);
    for (code, args) in [
        (3, &[&["--json", "--quiet"][..], &files].concat()),
        (0, &vec!["--json", "--quiet", files[1]]),
        (0, &vec!["--json", "--quiet", "--keep", "request,metadata", "--as-received", files[2]]),
    ] {
        let (local, remote) = (here.run("import", args), server.run("import", args));
        assert_eq!((local.code, remote.code), (code, code), "{args:?}: {} / {}", local.words, remote.words);
        assert_eq!(brought(&remote), brought(&local), "{args:?}");
        assert_eq!(remote.words, local.words, "{args:?}");
    }
    drop(server);
    assert!(list(&there) == list(&here), "both stores list the same");
}

#[test]
fn every_form_goes_to_a_server_and_adds_nothing_twice() {
    let from = Bench::with(&["python-docs.warc.gz"]);
    let lines = from.path("pages.jsonl");
    std::fs::write(&lines, from.run::<&str>("dump", &[]).ended(0).out).expect("written");
    let wacz = from.path("crawl.wacz");
    from.run("dump", &["--format", "wacz", "-o", wacz.to_str().expect("text")]).ended(0);
    let packed = warc("python-docs.warc.gz");
    for file in [&lines, &wacz, &packed] {
        let there = empty();
        let server = Served::new(&there);
        let file = file.to_str().expect("text");
        let first = server.run("import", &["--json", file]).ended(0).json();
        assert!(first[0]["stored"].as_u64() >= Some(56), "{file}: {first:?}");
        let again = server.run("import", &["--json", file]).ended(0).json();
        assert_eq!(again[0]["stored"].as_u64(), Some(0), "{file}");
        drop(server);
        assert_eq!(there.run::<&str>("ls", &[]).ended(0).out, from.run::<&str>("ls", &[]).ended(0).out, "{file}");
    }
}

#[test]
fn what_a_server_does_not_take_in_is_said_with_the_exit_code() {
    let there = empty();
    let server = Served::new(&there);
    let file = warc("example.warc");
    let file = file.to_str().expect("text");
    run(tool().arg("import").arg(&server.location).arg(file)).ended(2).said("token");
    let packed = there.path("a.warc.xz");
    std::fs::write(&packed, [&b"\xfd7zXZ\0\0\x04"[..], &[7; 100]].concat()).expect("written");
    let ran = server.run("import", &[packed.to_str().expect("text")]).ended(2);
    ran.said("compressed by xz").said("the server has not all of it");
    server.run("import", &["--exact-urls", file]).ended(2).said("a local store");
    server.run("import", &["--from", "scrapy-httpcache", "."]).ended(2).said("--from needs a local store");
    assert_eq!(server.run("count", &[]).ended(0).text().trim(), "0");
    let location = server.location.clone();
    drop(server);
    let gone = run(tool().arg("import").arg(&location).arg(file).env("FILEMAP_TOKEN", TOKEN)).ended(2);
    assert!(gone.words.contains(&location), "{}", gone.words);
}

#[test]
fn an_upload_that_is_interrupted_goes_on_when_it_is_sent_again() {
    let there = empty();
    let server = Served::new(&there);
    let record = |nth: usize| {
        format!(
            "WARC/1.1\r\nWARC-Type: resource\r\nWARC-Target-URI: http://a.example/{nth}\r\n\
             WARC-Date: 2023-11-14T22:13:20Z\r\nContent-Length: 5000\r\n\r\n{nth:05000}\r\n\r\n"
        )
    };
    let warc: String = (0..2000).map(record).collect();
    let mut command = tool();
    command.arg("import").arg(&server.location).arg("-").env("FILEMAP_TOKEN", TOKEN);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    pipe.write_all(&warc.as_bytes()[..warc.len() - 100]).expect("taken");
    while server.run("count", &[]).ended(0).text().trim() == "0" {
        assert!(child.try_wait().expect("known").is_none(), "it waits for the rest of its input");
    }
    let signal = Command::new("kill").arg("-INT").arg(child.id().to_string()).status();
    assert!(signal.expect("there is a kill").success());
    let ran = child.wait_with_output().expect("it ends");
    drop(pipe);
    let words = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(130), "{words}");
    assert!(words.contains("interrupted: ") && words.contains("continues from there"), "{words}");
    assert!(!words.contains("damage"), "{words}");
    let file = there.path("pages.warc");
    std::fs::write(&file, &warc).expect("written");
    let again = server.run("import", &["--json", file.to_str().expect("text")]).ended(0).json();
    let of = |name: &str| again[0][name].as_u64().expect("a number");
    assert!(of("already_there") > 0 && of("already_there") + of("stored") == 2000, "{again:?}");
    assert_eq!(server.run("count", &[]).ended(0).text().trim(), "2000");
}
