//! Fields, and programs that process pages, set on the command line.

use filemap::page::RecordKind;
use filemap::{Options, PageStore};

use crate::web::crawl::Bench;
use crate::web::{Web, sites};

/// The fields next to a page.
fn fields(bench: &Bench, url: &str) -> String {
    let store = PageStore::open_read_only(bench.store(), Options::new()).expect("a store");
    let note = store.get_beside(url, RecordKind::Metadata).expect("read");
    note.map(|note| String::from_utf8_lossy(&note.body).into_owned()).unwrap_or_default()
}

#[test]
fn fields_are_kept_and_remembered_until_they_are_none() {
    let web = Web::new([("a.test", sites::tree(3))]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let bad = bench.run("run", &["--allow-private", "--fields=lang,title", "--seed=http://a.test/"]).ended(2);
    assert!(bad.words.contains("`title` is not a field"), "{}", bad.words);
    let fast = ["--rate=0", "--allow-private", &resolve];
    let with = |more: &[&'static str]| fast.iter().copied().chain(more.iter().copied()).collect::<Vec<_>>();
    bench.run("run", &with(&["--seed=http://a.test/", "--fields=charset,simhash64", "--max-pages=1"])).ended(0);
    let kept = fields(&bench, "http://a.test/");
    assert!(kept.contains("charset: utf-8\r\n") && kept.contains("simhash64: ") && !kept.contains("lang"), "{kept}");
    bench.run("run", &with(&["--max-pages=2"])).ended(0);
    bench.run("run", &with(&["--fields=none"])).ended(0);
    let pages = bench.pages();
    let with_fields = pages.keys().filter(|url| !fields(&bench, url).is_empty()).count();
    assert_eq!((pages.len(), with_fields), (3, 2));
}

#[test]
fn a_program_that_answers_adds_to_pages_and_one_that_dies_ends_with_5_and_loses_none() {
    let web = Web::new([("a.test", sites::tree(3))]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let start = ["--rate=0", "--allow-private", &resolve, "--seed=http://a.test/"];
    let answers = r#"--exec=while read -r line; do echo '{"fields": {"seen": "yes"}}'; done"#;
    let ran = bench.run("run", &[&start[..], &[answers, "--exec-jobs=2"]].concat()).ended(0);
    assert!(!ran.words.contains("hook"), "{}", ran.words);
    assert_eq!((bench.pages().len(), fields(&bench, "http://a.test/").as_str()), (3, "seen: yes\r\n"));

    let bench = Bench::new();
    let log = format!("--log={}", bench.path("log").display());
    let ran = bench.run("run", &[&start[..], &["--exec=exit 1", &log]].concat()).ended(5);
    assert!(ran.words.contains("3 pages stored without the answer of --exec"), "{}", ran.words);
    assert!(ran.out.contains("hook-failed 3"), "{}", ran.out);
    assert_eq!(bench.pages().len(), 3);
    let log = std::fs::read_to_string(bench.path("log")).expect("a log");
    assert_eq!(log.matches(r#""event":"hook-failed""#).count(), 3, "{log}");
    // A run without the program works as well.
    bench.run("run", &["--allow-private", &resolve]).ended(0);
}
