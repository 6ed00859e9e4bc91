//! Failures of servers, folders and arguments: the crawler names each one, and nothing is lost.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::web::crawl::Bench;
use crate::web::{Reply, Request, Site, Web, sites};
use filemap::erase::{EraseOrder, EraseTarget};
use filemap::{Options, PageStore};
use serde_json::json;

const FAST: [&str; 3] = ["--rate=0", "--allow-private", "--json"];

fn with<'a>(web: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    FAST.iter().copied().chain([web]).chain(more.iter().copied()).collect()
}

/// A finished crawl of three pages.
fn crawled() -> (Bench, String) {
    let web = Web::new([("tree.test", sites::tree(3))]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    bench.run("run", &with(&resolve, &["--seed=http://tree.test/"])).ended(0);
    (bench, resolve)
}

#[test]
fn a_server_that_does_not_repeat_its_validators_is_asked_with_them_all_the_same() {
    let site: Site = Arc::new(|request: &Request| match request.fields.contains_key("if-modified-since") {
        true => Reply::Page(304, Vec::new(), Vec::new()),
        false => Reply::Page(
            200,
            vec![
                ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT".to_owned()),
                ("Content-Type", "text/html".to_owned()),
            ],
            b"<p>as ever".to_vec(),
        ),
    });
    let web = Web::new([("dated.test", site)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let arguments = ["--seed=http://dated.test/", "--recrawl=1s", "--forever", "--max-pages=3", "--no-robots"];
    let end = bench.run("run", &with(&resolve, &arguments)).ended(0).json();
    assert_eq!((&end["fetched"], &end["unchanged"]), (&json!(3), &json!(2)), "{end}");
    let conditional: Vec<bool> =
        web.asked().iter().map(|asked| asked.fields.contains_key("if-modified-since")).collect();
    assert_eq!(conditional, [false, true, true]);
}

#[test]
fn a_304_without_fields_changes_nothing_about_the_links_of_the_page() {
    let site: Site = Arc::new(|request: &Request| match request.fields.contains_key("if-modified-since") {
        true => Reply::Page(304, Vec::new(), Vec::new()),
        false => Reply::Page(
            200,
            vec![
                ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT".to_owned()),
                ("Content-Type", "text/html".to_owned()),
                ("X-Robots-Tag", "nofollow".to_owned()),
            ],
            b"<a href=/hidden>not to be followed</a>".to_vec(),
        ),
    });
    let web = Web::new([("quiet.test", site)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let arguments = ["--seed=http://quiet.test/", "--recrawl=1s", "--forever", "--max-pages=3", "--no-robots"];
    let end = bench.run("run", &with(&resolve, &arguments)).ended(0).json();
    assert_eq!((&end["unchanged"], &end["reasons"]), (&json!(2), &json!({ "nofollow": 3 })), "{end}");
    assert_eq!(web.counts().into_keys().collect::<Vec<_>>(), ["http://quiet.test/"]);
    assert_eq!(bench.pages()["http://quiet.test/"].headers.get("content-type"), Some(&b"text/html"[..]));
}

#[test]
fn a_page_that_is_missing_once_is_looked_for_again() {
    let site: Site = Arc::new(|request: &Request| match request.before {
        1 => Reply::missing(),
        before => Reply::html(format!("<p>visit {before}")),
    });
    let web = Web::new([("fickle.test", site)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let arguments = ["--seed=http://fickle.test/", "--recrawl=1s", "--forever", "--max-pages=2", "--no-robots"];
    let end = bench.run("run", &with(&resolve, &arguments)).ended(0).json();
    assert_eq!((&end["fetched"], &end["reasons"]), (&json!(2), &json!({ "client-status": 1 })), "{end}");
    let latest = &end["latest_failures"][0];
    assert_eq!((&latest["url"], &latest["reason"]), (&json!("http://fickle.test/"), &json!("client-status")), "{end}");
    // The part of the status that a server shows.
    let told = std::fs::read(bench.path("pages.fm.crawl/status.json")).expect("published");
    let told: serde_json::Value = serde_json::from_slice(&told).expect("JSON");
    assert_eq!((&told["hosts"][0]["host"], &told["is_running"]), (&json!("fickle.test"), &json!(false)), "{told}");
    assert_eq!(bench.pages()["http://fickle.test/"].body, b"<p>visit 2");
    // The two fetches of this run count in the next one.
    let end = bench.run("run", &with(&resolve, &["--max-pages=2"])).ended(0).json();
    assert_eq!((&end["fetched"], web.pages_asked()), (&json!(0), 3), "{end}");
}

#[test]
fn a_duplicate_that_is_fetched_again_is_unchanged() {
    let site: Site = Arc::new(|request: &Request| match request.path.as_str() {
        "/" => Reply::html("<a href=/copy>a copy</a><a href=/original>its original</a>"),
        _ => Reply::html("<p>the same"),
    });
    let web = Web::new([("twice.test", site)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let arguments = ["--seed=http://twice.test/", "--recrawl=1s", "--forever", "--max-pages=6", "--no-robots"];
    let end = bench.run("run", &with(&resolve, &arguments)).ended(0).json();
    assert_eq!((&end["fetched"], &end["unchanged"]), (&json!(6), &json!(3)), "{end}");
}

#[test]
fn output_that_nobody_reads_is_no_error_and_output_that_cannot_be_written_is() {
    let (bench, resolve) = crawled();
    let run = with(&resolve, &[]);
    for (verb, arguments) in [("status", &[][..]), ("why", &["http://tree.test/"]), ("run", &run)] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let ended = bench.command(verb, arguments).stdout(writer).output().expect("it starts");
        assert_eq!((ended.status.code(), ended.stderr.len()), (Some(0), 0), "{verb}");
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let ended = bench.command(verb, arguments).stdout(full).output().expect("it starts");
        let words = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.code() == Some(2) && words.contains("cannot write to standard output"), "{verb}: {words}");
    }
}

#[test]
fn arguments_that_make_no_sense_leave_nothing_behind() {
    let bench = Bench::new();
    let seed = "--seed=http://a.example/";
    for (arguments, words) in [
        (vec![seed, "--contact=me"], "give an address or a page"),
        (vec![seed, "--contact="], "give an address or a page"),
        (vec![seed, "--contact=me@a.example\nX: y"], "no control characters"),
        (vec![seed, "--user-agent=a\nb"], "no control characters"),
        (vec![seed, "--user-agent=crawler"], "--contact"),
        (vec![seed, "--user-agent=", "--allow-private"], "a user agent begins with a name"),
        (vec![seed, "--contact=me@a.example", "--rate", "-1"], "--rate"),
        (vec![seed, "--contact=me@a.example", "--ca=/dev/null"], "no certificate"),
        (vec!["--seed=ftp://a.example/", "--contact=me@a.example"], "only http and https"),
        (vec!["--seed=nonsense", "--contact=me@a.example"], "nonsense"),
    ] {
        let ran = bench.run("run", &arguments).ended(2);
        assert!(ran.words.contains(words), "{arguments:?}: {}", ran.words);
        assert!(!bench.store().exists() && !bench.path("pages.fm.crawl").exists(), "{arguments:?}");
    }
}

#[test]
fn a_crawl_whose_store_is_gone_does_not_take_an_empty_one_for_it() {
    let (bench, resolve) = crawled();
    fs::rename(bench.store(), bench.path("elsewhere.fm")).unwrap();
    let ran = bench.run("run", &with(&resolve, &[])).ended(2);
    assert!(ran.words.contains("bring the store back") && !bench.store().exists(), "{}", ran.words);
    fs::rename(bench.path("elsewhere.fm"), bench.store()).unwrap();
    let end = bench.run("run", &with(&resolve, &[])).ended(0).json();
    assert_eq!(end["fetched"], 0, "{end}");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn a_store_of_an_older_backup_is_told_from_the_one_that_the_crawl_knows() {
    let web = Web::new([("tree.test", sites::tree(9))]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    bench.run("run", &with(&resolve, &["--seed=http://tree.test/", "--max-pages=3"])).ended(0);
    let (old, old_crawl) = (bench.path("old.fm"), bench.path("old.crawl"));
    copy(&bench.store(), &old);
    fs::copy(bench.path("pages.fm.crawl/store-sequence"), &old_crawl).unwrap();
    bench.run("run", &with(&resolve, &[])).ended(0);
    for (verb, arguments) in [("status", &[][..]), ("why", &["http://tree.test/"])] {
        bench.run(verb, arguments).ended(0);
    }

    // The backup is restored; the crawl's folder stays as it is.
    fs::rename(bench.store(), bench.path("new.fm")).unwrap();
    copy(&old, &bench.store());
    let run = with(&resolve, &[]);
    for (verb, arguments) in [("run", &run[..]), ("status", &[]), ("why", &["http://tree.test/"])] {
        let ran = bench.run(verb, arguments).ended(3);
        let said = ["older copy", "pages.fm.crawl", "Bring the newer store back", "store-sequence"];
        assert!(said.iter().all(|words| ran.words.contains(words)), "{verb}: {}", ran.words);
        assert!(!ran.out.contains("nothing is left"), "{verb}: {}", ran.out);
    }
    // The note of the backup is fine, and so is a missing note: crawls by earlier versions
    // wrote none.
    let note = bench.path("pages.fm.crawl/store-sequence");
    let new = fs::read(&note).unwrap();
    fs::copy(&old_crawl, &note).unwrap();
    bench.run("status", &[]).ended(0);
    fs::remove_file(&note).unwrap();
    bench.run("status", &[]).ended(0);
    fs::write(&note, vec![0; new.len()]).unwrap();
    assert!(bench.run("status", &[]).ended(3).words.contains("store-sequence: no slot in it is valid"));

    fs::remove_dir_all(bench.store()).unwrap();
    fs::rename(bench.path("new.fm"), bench.store()).unwrap();
    fs::write(&note, new).unwrap();
    bench.run("run", &run).ended(0);
    assert_eq!(bench.pages().len(), 9);
}

#[test]
fn the_store_of_a_crawl_that_runs_is_as_far_as_its_note() {
    let web = Web::slow([("tree.test", sites::tree(200))], Duration::from_millis(20));
    let (bench, resolve) = (Bench::new(), web.resolve());
    let mut running = bench.start("run", &with(&resolve, &["--seed=http://tree.test/", "--forever"]));
    let (mut is_running, begun) = (0, Instant::now());
    while is_running <= 2 || web.pages_asked() < 200 {
        assert!(running.try_wait().unwrap().is_none() && begun.elapsed() < Duration::from_secs(300), "{is_running}");
        if bench.path("pages.fm.crawl/store-sequence").exists() {
            let status = bench.run("status", &["--json"]).ended(0).json();
            is_running += u64::from(status["is_running"] == json!(true));
        }
    }
    let sent = std::process::Command::new("kill").args(["-TERM", &running.id().to_string()]).status();
    assert!(sent.unwrap().success());
    Bench::finish(running).ended(143);
}

/// Adds an erasure rule, as `fm-tool erase` does.
fn erase(bench: &Bench, target: EraseTarget) {
    let store = PageStore::open_or_create(bench.store(), Options::new()).unwrap();
    let order = EraseOrder::new(target, "asked for");
    store.erase(&order, &mut |_| ControlFlow::Continue(())).unwrap();
    store.close().unwrap();
}

#[test]
fn a_page_that_an_erasure_refuses_is_counted_and_named_and_the_crawl_goes_on() {
    let web = Web::new([("tree.test", sites::tree(3))]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    erase(&bench, EraseTarget::Url(b"http://tree.test/p/1".to_vec()));
    // A robots.txt that may not be stored does not stop the crawl, either.
    erase(&bench, EraseTarget::Url(b"http://tree.test/robots.txt".to_vec()));
    let log = bench.path("log").display().to_string();
    let ran = bench.run("run", &with(&resolve, &["--seed=http://tree.test/", "--log", &log])).ended(3);
    assert!(ran.words.contains("1 page fetched and not stored") && ran.words.contains("erase"), "{}", ran.words);
    let end = ran.json();
    assert_eq!((&end["end"], &end["reasons"]), (&json!("complete"), &json!({ "unstorable": 1 })), "{end}");
    assert!(bench.pages().contains_key("http://tree.test/p/2") && !bench.pages().contains_key("http://tree.test/p/1"));
    let log = fs::read_to_string(&log).unwrap();
    let line = log.lines().find(|line| line.contains("\"failed\"")).unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("http://tree.test/p/1") && line.contains("unstorable") && line.contains("rule 1"), "{line}");

    // `why` explains it, and it is not fetched again.
    let why = bench.run("why", &["http://tree.test/p/1", "--json"]).ended(0).json();
    let state = (&why["frontier"]["status"], &why["frontier"]["last_failure"]);
    assert_eq!(state, (&json!("given up"), &json!("unstorable")), "{why}");
    let why = bench.run("why", &["http://tree.test/p/1"]).ended(0).out;
    assert!(why.contains("last error   unstorable: the store refuses it"), "{why}");
    assert!(bench.run("status", &[]).ended(0).out.contains("unstorable 1"));
    let asked = web.pages_asked();
    bench.run("run", &with(&resolve, &[])).ended(0);
    assert_eq!(web.pages_asked(), asked);
    // Each run tries a seed again, and gives it up again.
    let ran = bench.run("run", &with(&resolve, &["--seed=http://tree.test/p/1"])).ended(3);
    assert!(ran.words.contains("the seed http://tree.test/p/1 was given up: unstorable"), "{}", ran.words);
    let lost = &ran.json()["lost_seeds"];
    assert_eq!((lost.as_array().map(Vec::len), &lost[0]["url"]), (Some(1), &json!("http://tree.test/p/1")), "{lost}");
}

#[test]
fn a_damaged_seen_set_is_named_and_made_again_and_a_missing_frontier_is_not() {
    let (bench, resolve) = crawled();
    let seen = bench.path("pages.fm.crawl/seen");
    let mut bytes = fs::read(&seen).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::write(&seen, bytes).unwrap();
    for (verb, arguments) in [("run", with(&resolve, &[])), ("why", vec!["http://tree.test/"])] {
        let ran = bench.run(verb, &arguments).ended(3);
        assert!(ran.words.contains("pages.fm.crawl/seen") && ran.words.contains("Remove "), "{verb}: {}", ran.words);
    }
    // Only the first of its files is removed; the remaining ones do no harm.
    fs::remove_file(&seen).unwrap();
    bench.run("run", &with(&resolve, &[])).ended(0);
    assert!(bench.run("why", &["http://tree.test/p/2"]).ended(0).out.contains("seen         yes"));

    fs::remove_dir_all(bench.path("pages.fm.crawl/frontier")).unwrap();
    let ran = bench.run("run", &with(&resolve, &[])).ended(3);
    assert!(ran.words.contains("the frontier is missing") && ran.words.contains("--seed"), "{}", ran.words);
    fs::remove_dir_all(bench.path("pages.fm.crawl")).unwrap();
    bench.run("run", &with(&resolve, &["--seed=http://tree.test/"])).ended(0);
}
