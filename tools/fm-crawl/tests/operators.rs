//! What operators give a crawl: lists of start pages, patterns, types.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use serde_json::json;

use crate::web::crawl::Bench;
use crate::web::{Web, sites};

const FAST: [&str; 3] = ["--rate=0", "--allow-private", "--json"];

fn with<'a>(web: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    FAST.iter().copied().chain([web]).chain(more.iter().copied()).collect()
}

#[test]
fn start_pages_come_from_lists_and_are_remembered() {
    let web = Web::new([("a.test", sites::tree(3)), ("b.test", sites::tree(4)), ("c.test", sites::tree(2))]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let list = bench.path("seeds.txt");
    fs::write(&list, "# two sites\nhttp://a.test/\n\nhttp://b.test/\nHTTP://A.test/\n").expect("written");
    let lists = format!("--seeds={}", list.display());
    bench.run("run", &with(&resolve, &[&lists, "--max-pages=1"])).ended(0);
    fs::remove_file(&list).expect("there");

    let mut child = bench.command("run", &["--rate=0", "--allow-private", &resolve, "--seeds=-"]);
    let mut child =
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    child.stdin.take().expect("piped").write_all(b"http://c.test/\nhttp://b.test/").expect("it reads");
    let ran = Bench::finish(child).ended(0);
    assert!(ran.words.contains("standard input: 2 start pages, 1 new"), "{}", ran.words);
    assert_eq!(bench.pages().len(), 3 + 4 + 2);

    let status = bench.run("status", &["--json"]).ended(0).json();
    assert_eq!((&status["seeds"], &status["listed_seeds"]), (&json!([]), &json!(3)), "{status}");
    assert!(bench.run("status", &[]).ended(0).out.contains("scope host of 3 seeds"));

    fs::remove_file(bench.path("pages.fm.crawl/seeds")).expect("there");
    let ran = bench.run("run", &with(&resolve, &[])).ended(3);
    assert!(ran.words.contains("pages.fm.crawl/seeds"), "{}", ran.words);
}

#[test]
fn bad_start_pages_are_all_named_before_anything_is_made() {
    let bench = Bench::new();
    let list = bench.path("seeds.txt");
    fs::write(&list, "http://a.test/\nnonsense\n# fine\nftp://a.test/\n").expect("written");
    let lists = format!("--seeds={}", list.display());
    let ran = bench.run("run", &["--allow-private", &lists, "--seed", "http://a.test/", "http://[/"]).ended(2);
    for words in ["seeds.txt:2: nonsense: ", "seeds.txt:4: ftp://a.test/: only http", "http://[/: ", "3 start pages"] {
        assert!(ran.words.contains(words), "{words}: {}", ran.words);
    }
    assert!(!bench.store().exists() && !bench.path("pages.fm.crawl").exists());
    fs::write(&list, "# nothing\n").expect("written");
    assert!(bench.run("run", &["--allow-private", &lists]).ended(2).words.contains("a crawl needs a start page"));
    assert!(bench.run("run", &["--allow-private", "--seeds=/absent"]).ended(2).words.contains("/absent"));
}
