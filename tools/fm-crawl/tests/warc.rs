//! WARC files that are written during a crawl.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use crate::web::crawl::Bench;
use crate::web::{Reply, Request, Site, Web};

/// A record other than a `warcinfo`.
#[derive(Debug)]
pub struct Record {
    /// The type of the record.
    pub kind: String,
    /// The target URL.
    pub url: String,
    /// The whole record as text.
    pub text: String,
}

/// The records of the complete files in a folder, in order.
pub fn records(folder: &Path) -> Vec<Record> {
    let mut paths: Vec<_> = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("read").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "gz"));
    paths.sort();
    paths.iter().flat_map(|path| in_file(path)).collect()
}

fn in_file(path: &Path) -> Vec<Record> {
    let (bytes, mut text) = (fs::read(path).expect("read"), Vec::new());
    flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_end(&mut text).expect("whole members");
    let text = String::from_utf8_lossy(&text).into_owned();
    let field = |record: &str, name: &str| {
        record.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned))
    };
    let of = |record: &str| Record {
        kind: field(record, "WARC-Type").expect("every record has a type"),
        url: field(record, "WARC-Target-URI").unwrap_or_default(),
        text: record.to_owned(),
    };
    let all: Vec<Record> = text.split("WARC/1.1\r\n").skip(1).map(of).collect();
    assert_eq!(all[0].kind, "warcinfo", "{}", path.display());
    all.into_iter().skip(1).collect()
}

#[test]
fn what_a_run_stores_is_in_the_files_and_refers_to_nothing_else() {
    let site: Site = std::sync::Arc::new(|request: &Request| match request.path.as_str() {
        "/" => Reply::html("<a href=/same>s</a><a href=/gone>g</a>"),
        "/same" => Reply::html("<p>the same"),
        "/more" => Reply::html("<a href=/more/same>s</a><a href=/more/other>o</a>"),
        "/more/same" => Reply::html("<p>the same"),
        "/more/other" => Reply::html("<p>another"),
        "/more/copy" => Reply::html("<p>another"),
        _ => Reply::missing(),
    });
    let web = Web::new([("a.test", site)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let start = ["--rate=0", "--allow-private", "--json", "--patience=1s", &resolve];
    let run = |more: &[&str]| bench.run("run", &[&start[..], more].concat()).ended(0);
    run(&["--seed=http://a.test/"]);
    let warc = bench.path("warc");
    let to = format!("--warc={}", warc.display());
    run(&["--seed=http://a.test/more", &to]);
    let files: Vec<Record> = records(&warc);
    let of =
        |url: &str| files.iter().find(|record| record.url.ends_with(url)).unwrap_or_else(|| panic!("{url}: {files:?}"));
    assert!(files.iter().all(|record| record.url.starts_with("http://a.test/more")), "{files:?}");
    // Its original is older than the WARC files.
    assert_eq!(of("/more/same").kind, "response");
    assert!(of("/more/same").text.contains("<p>the same"));
    // The original of this one is in the WARC files.
    run(&["--seed=http://a.test/more/copy", &to]);
    let files = records(&warc);
    let copy = files.iter().find(|record| record.url.ends_with("/more/copy")).expect("it is there");
    assert!(copy.kind == "revisit" && copy.text.contains("WARC-Refers-To-Target-URI: http://a.test/more/other"));
    let names: Vec<String> =
        fs::read_dir(&warc).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.contains(&"pages-00001.warc.gz".to_owned()) && !names.iter().any(|name| name.ends_with(".open")));
}
