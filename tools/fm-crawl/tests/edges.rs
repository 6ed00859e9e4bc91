//! The edges of a crawl: every link of every page, as lines and in Parquet files, also when the
//! crawl is killed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use arrow_array::Array as _;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

use crate::web::crawl::Bench;
use crate::web::{Reply, Request, Site, Web, sites};

/// Edges in order, by the page and the time of its fetch.
type Edges = BTreeMap<(String, i64), Vec<[String; 4]>>;

fn lines(path: &Path) -> Edges {
    let mut edges = Edges::new();
    for line in std::fs::read_to_string(path).expect("edges").lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let text = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
        let from = (text("from"), line["time_ms"].as_i64().expect("a time"));
        edges.entry(from).or_default().push(["to", "element", "rel", "text"].map(text));
    }
    edges
}

fn parquet(path: &Path) -> Edges {
    let mut edges = Edges::new();
    let file = std::fs::File::open(path).expect("a file");
    for batch in ParquetRecordBatchReaderBuilder::try_new(file).expect("Parquet").build().expect("Parquet") {
        let batch = batch.expect("whole");
        let column = |name: &str| batch.column_by_name(name).expect("a column").as_string::<i32>().clone();
        let time = batch.column_by_name("time").expect("a column").as_primitive::<TimestampMillisecondType>();
        let (from, rel) = (column("from"), column("rel"));
        for row in 0..batch.num_rows() {
            let text = |name: &str| column(name).value(row).to_owned();
            let rel = if rel.is_valid(row) { rel.value(row).to_owned() } else { "-".to_owned() };
            let edge = [text("to"), text("element"), rel, text("text")];
            edges.entry((from.value(row).to_owned(), time.value(row))).or_default().push(edge);
        }
    }
    edges
}

fn small() -> Site {
    Arc::new(|request: &Request| match request.path.as_str() {
        "/" => Reply::html(
            "<a href='/b?utm_source=x'>the <i>page</i> b</a> <a rel=nofollow href=http://other.test/>ad</a>\
             <a href=/moved>moved</a><a href=#top>top</a>",
        ),
        "/b" | "/b?utm_source=x" => Reply::html("<meta name=robots content=nofollow><a href=/>home</a>"),
        "/moved" => Reply::to("/b"),
        _ => Reply::missing(),
    })
}

#[test]
fn every_link_is_there_followed_or_not_and_both_forms_say_the_same() {
    let mut both = Vec::new();
    for name in ["edges.ndjson", "edges.parquet"] {
        let web = Web::new([("a.test", small())]);
        let (bench, resolve) = (Bench::new(), web.resolve());
        let edges = format!("--edges={}", bench.path(name).display());
        bench.run("run", &["--seed=http://a.test/", "--rate=0", "--allow-private", &resolve, &edges]).ended(0);
        let found = match name {
            "edges.ndjson" => lines(&bench.path(name)),
            _ => parquet(&bench.path("edges-1.parquet")),
        };
        both.push(found.into_iter().map(|((from, _), edges)| (from, edges)).collect::<BTreeMap<_, _>>());
    }
    let edge = |edge: [&str; 4]| edge.map(str::to_owned);
    let wanted = BTreeMap::from([
        (
            "http://a.test/".to_owned(),
            vec![
                edge(["http://a.test/b", "a", "-", "the page b"]),
                edge(["http://other.test/", "a", "nofollow", "ad"]),
                edge(["http://a.test/moved", "a", "-", "moved"]),
            ],
        ),
        ("http://a.test/b".to_owned(), vec![edge(["http://a.test/", "a", "-", "home"])]),
        ("http://a.test/moved".to_owned(), vec![edge(["http://a.test/b", "redirect", "-", ""])]),
    ]);
    assert_eq!(both[0], wanted);
    assert_eq!(both[1], wanted);
}

#[test]
fn no_edge_is_lost_by_kills_and_half_a_line_is_cut_off() {
    const PAGES: usize = 400;
    let web = Web::new([("tree.test", sites::tree(PAGES))]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let path = bench.path("edges");
    let edges = format!("--edges={}", path.display());
    let arguments = ["--seed=http://tree.test/", "--rate=0", "--allow-private", &resolve, "--connections=4", &edges];
    for kill in 1..=6 {
        let mut child = bench.command("run", &arguments).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        while web.pages_asked() < kill * PAGES / 8 {
            assert!(child.try_wait().unwrap().is_none(), "it has not done all yet");
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // A kill in the middle of a write leaves the file like this.
        let mut text = std::fs::read(&path).unwrap_or_default();
        text.extend_from_slice(b"{\"time_ms\":17,\"from\":\"http://tree");
        std::fs::write(&path, text).unwrap();
    }
    bench.run("run", &arguments).ended(0);
    let found = lines(&path);
    let pages: BTreeSet<&str> = found.keys().map(|(from, _)| from.as_str()).collect();
    assert_eq!(pages.len(), PAGES);
    for ((from, _), edges) in &found {
        let number = from.rsplit('/').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        let links = sites::tree_page(number, PAGES).matches("<a ").count();
        // A page that was in flight at a kill may be there again, with another time.
        assert_eq!(edges.len(), links, "{from}");
    }
}

#[test]
fn a_place_in_a_store_and_a_file_of_something_else_are_refused() {
    let web = Web::new([("a.test", small())]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    std::fs::write(bench.path("picture"), "no edges").unwrap();
    let run =
        |edges: String| bench.run("run", &["--seed=http://a.test/", "--rate=0", "--allow-private", &resolve, &edges]);
    let ran = run(format!("--edges={}", bench.path("picture").display())).ended(2);
    assert!(ran.words.contains("does not end like a file of edges"), "{}", ran.words);
    let ran = run(format!("--edges={}", bench.store().join("edges").display())).ended(2);
    assert!(ran.words.contains("lies in a store"), "{}", ran.words);
    assert_eq!(web.pages_asked(), 0);
}
