//! Verbs with the address of a server for a store: the same answers as with the store's folder.

use filemap::{Options, PageStore};
use filemap_http::server::{SeenSets, Server, ServerOptions, Tokens};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::harness::{Bench, PAGE_URL, Ran, run, tool};

const TOKEN: &str = "0123456789abcdef";

/// Serves the store of a bench; stops when it is dropped.
struct Served {
    location: String,
    runtime: Runtime,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<tokio::task::JoinHandle<filemap::Result<()>>>,
}

impl Served {
    fn new(bench: &Bench) -> Served {
        Served::with(bench, SeenSets::new(true))
    }

    fn with(bench: &Bench, sets: SeenSets) -> Served {
        let store = PageStore::open(bench.store(), Options::new()).expect("opened");
        let tokens = Tokens::parse(&format!("admin {TOKEN}")).expect("tokens");
        let server = Server::new(store, ServerOptions::new().writes(true).tokens(tokens).seen(sets));
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
        run(tool().args(["seen", "create", "--kind", "disk", "--canonical", "crawl"]).arg(set)).ended(0);
    }
    let list = bench.path("list");
    std::fs::write(&list, "http://a/?b=1&a=2\nhttp://a/?a=2&b=1#x\nnone\n\nhttp://b/\n").expect("written");
    let mut sets = SeenSets::new(true);
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
        ("add", &["--canonical", "crawl"]),
    ];
    for (verb, args) in asked {
        let (local, remote) = (ask(verb, here.as_os_str(), args), ask(verb, location.as_ref(), args));
        assert_eq!((remote.code, remote.text()), (local.code, local.text()), "{verb} {args:?}: {}", remote.words);
        assert_eq!(remote.code, 2, "one line is no URL");
    }
    for (args, words) in [(&["--memory", "64MiB"][..], "--memory"), (&["--canonical", "whatwg"], "rules `crawl`")] {
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
fn what_a_server_cannot_do_is_said_and_makes_nothing() {
    let bench = Bench::with(&["python-docs.warc.gz"]);
    let server = Served::new(&bench);
    for verb in ["verify", "stat", "compact", "segments", "import", "train", "repair", "dump", "top"] {
        let args: &[&str] = if verb == "import" { &["-"] } else { &[] };
        let folder = bench.path(verb);
        std::fs::create_dir(&folder).expect("a folder");
        let mut command = tool();
        command.arg(verb).arg(&server.location).args(args).current_dir(&folder);
        if verb == "repair" {
            command.arg("new.fm");
        }
        run(&mut command).ended(2).said("works on the files of a store");
        assert_eq!(std::fs::read_dir(&folder).expect("readable").count(), 0, "{verb} made something");
    }
    let without = run(tool().arg("get").arg(&server.location).arg(PAGE_URL)).ended(2);
    assert!(without.words.contains("asks for a token"), "{}", without.words);
    let location = server.location.clone();
    drop(server);
    let gone = run(tool().arg("get").arg(&location).arg(PAGE_URL).env("FILEMAP_TOKEN", TOKEN)).ended(2);
    assert!(gone.words.contains(&location), "{}", gone.words);
}
