//! What browsers take is taken: heads that are not by the book, other encodings, directives for
//! others; and a body that does not come whole is asked for again.

use std::sync::Arc;
use std::time::Duration;

use crate::web::crawl::Bench;
use crate::web::{Reply, Request, Site, Web};

const FAST: [&str; 5] = ["--rate=0", "--allow-private", "--json", "--attempts=2", "--retry=50ms"];

fn with<'a>(web: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    FAST.iter().copied().chain([web]).chain(more.iter().copied()).collect()
}

#[test]
fn half_a_line_of_the_log_is_ended_before_the_next() {
    let site: Site = Arc::new(|_: &Request| Reply::html("<p>x"));
    let web = Web::slow([("log.test", site)], Duration::ZERO);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let path = bench.path("log.jsonl");
    std::fs::write(&path, "{\"whole\":1}\n{\"half").unwrap();
    let log = format!("--log={}", path.display());
    bench.run("run", &with(&resolve, &["--seed=http://log.test/", &log])).ended(0);
    bench.run("run", &with(&resolve, &[&log])).ended(0);
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..2], ["{\"whole\":1}", "{\"half"]);
    let parsed = lines.iter().filter(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()).count();
    assert_eq!((parsed, lines.iter().any(|line| line.is_empty())), (lines.len() - 1, false), "{text}");
    // No file, no last byte.
    bench.run("run", &with(&resolve, &["--log=/dev/null"])).ended(0);
}
