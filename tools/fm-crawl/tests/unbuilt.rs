//! A program that is built without object storage refuses it by name, and creates nothing.

use crate::web::crawl::Bench;

#[test]
fn a_bucket_is_refused_with_advice() {
    let bench = Bench::new();
    let refused = |location: &str, words: &str| {
        let store = format!("--store={location}");
        let ran = bench.run("run", &[&store, "--seed=http://a.test/", "--allow-private"]).ended(2);
        assert!(ran.words.contains(words) && !ran.words.contains("5e3c7e7"), "{}", ran.words);
    };
    refused("s3://bucket/pages", "--features cloud");
    refused("s3://key:5e3c7e7@bucket/pages", "no password");
    let many = ["--store=s3://bucket/pages", "--shards=1025", "--own=0", "--seed=http://a.test/"];
    let ran = bench.run("run", &many).ended(2);
    assert!(ran.words.contains("at most 1024 shards"), "{}", ran.words);
    let links = "--links=http://127.0.0.1:1/v1/links";
    let auto = ["--store=s3://bucket/pages", "--shards=4", "--own=auto", links, "--seed=http://a.test/"];
    let ran = bench.run("run", &[&auto[..], &["--allow-private"]].concat()).ended(2);
    assert!(ran.words.contains("--features cloud"), "{}", ran.words);
    assert!(!bench.path("pages.fm.crawl").exists());
}
