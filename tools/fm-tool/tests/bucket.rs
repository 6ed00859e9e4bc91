//! Verbs on a store in object storage: each works, or says what is missing and what to do instead.
//! The working ones run in the bucket of `FILEMAP_S3`, if that is set and the program has the
//! feature `cloud`; `crates/filemap-cloud/ceph.sh` creates one.

use crate::harness::{run, tool};

/// A location that every verb refuses before it sends a request.
const REFUSED: &str = "s3://key:5e3c7e7@bucket/pages";

/// The result of a verb on a bucket.
enum Does {
    Works,
    /// The verb is refused with a message that has this text.
    Lacks(&'static str),
}
use Does::{Lacks, Works};

/// Every verb that has a store, with valid arguments; `@` stands for the location, `%` for a
/// missing folder.
const VERBS: [(&str, &[&str], Does); 40] = [
    ("import", &["@", "Cargo.toml"], Works),
    ("load", &["@", "Cargo.toml"], Works),
    ("get", &["@", "http://a.example/"], Works),
    ("put", &["@", "http://a.example/", "Cargo.toml"], Works),
    ("rm", &["@", "http://a.example/"], Works),
    ("has", &["@", "http://a.example/"], Works),
    ("head", &["@", "http://a.example/"], Works),
    ("history", &["@", "http://a.example/"], Works),
    ("ls", &["@"], Works),
    ("count", &["@"], Works),
    ("top", &["@"], Works),
    ("stat", &["@"], Works),
    ("verify", &["@"], Works),
    ("repair", &["@", "--in-place", "--yes"], Works),
    ("train", &["@"], Works),
    ("train", &["@", "--list"], Works),
    ("recompress", &["@"], Works),
    ("dump", &["@"], Works),
    ("segments", &["@"], Works),
    ("segments", &["@", "--checkpoints"], Works),
    ("segments", &["@", "--checkpoints", "--remove", "copy"], Works),
    ("archives", &["@"], Lacks("all have their bodies")),
    ("compact", &["@"], Works),
    ("compact", &["@", "--dry-run"], Works),
    ("prune", &["@", "--keep-versions", "1"], Works),
    ("prune", &["@", "--keep-versions", "1", "--dry-run"], Works),
    ("erase", &["@", "--url", "http://a.example/", "--reason", "r"], Works),
    ("erase", &["@", "--host", "a.example", "--reason", "r", "--dry-run"], Works),
    ("backup", &["@", "%"], Lacks("fm-tool copy FROM TO")),
    ("backup", &["%", "@"], Lacks("fm-tool copy FROM TO")),
    ("copy", &["@", "%"], Works),
    ("copy", &["@", "%", "--checkpoint"], Works),
    ("merge", &["@", "%"], Lacks("fm-tool copy FROM TO")),
    ("merge", &["%", "@"], Lacks("fm-tool copy FROM TO")),
    ("seen create", &["--kind", "trie", "@"], Lacks("no seen sets")),
    ("seen add", &["@", "Cargo.toml"], Lacks("no seen sets")),
    ("seen check", &["@", "Cargo.toml"], Lacks("no seen sets")),
    ("seen stat", &["@"], Lacks("no seen sets")),
    ("seen forget", &["@", "http://a.example/"], Lacks("no seen sets")),
    ("inspect", &["@"], Lacks("fm-tool segments LOCATION")),
];

#[test]
fn every_verb_works_in_a_bucket_or_says_what_to_do_instead() {
    let help = run(tool().arg("--help")).ended(0);
    let all = help.text().split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let all: Vec<&str> = all.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
    for verb in all.into_iter().filter(|verb| !verb.is_empty() && !["completions", "man", "help"].contains(verb)) {
        assert!(VERBS.iter().any(|(named, ..)| named.split(' ').next() == Some(verb)), "{verb} is not in the table");
    }
    let folder = tempfile::tempdir().unwrap();
    for (verb, args, does) in &VERBS {
        let absent = folder.path().join("absent");
        let absent = absent.to_str().unwrap();
        let args = args.iter().map(|arg| match *arg {
            "@" => REFUSED,
            "%" => absent,
            arg => arg,
        });
        let ran = run(tool().args(verb.split(' ')).args(args)).ended(2);
        let words = match does {
            Lacks(words) => words,
            // The message tells whether the program can open a bucket.
            Works if ran.words.contains("--features cloud") => "built without object storage",
            Works => "a location has no user and no password",
        };
        assert!(ran.words.contains(words), "{verb}: {}", ran.words);
        assert!(!ran.words.contains("5e3c7e7") && ran.out.is_empty(), "{verb}: {}", ran.words);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "a verb made something");
}

/// Flags that mean something else in a bucket, or nothing, are refused by name.
#[cfg(feature = "cloud")]
#[test]
fn flags_that_mean_nothing_in_a_bucket_are_refused_by_name() {
    let erase = |flags: &[&'static str]| [&["erase", "@"], flags].concat();
    let order = ["--host", "a.example", "--reason", "r"];
    for args in [
        vec!["verify", "@", "--rate", "1MB/s"],
        vec!["verify", "@", "--anew"],
        vec!["compact", "@", "--rate", "1MB/s"],
        vec!["compact", "@", "--accept-loss"],
        vec!["get", "@", "http://a.example/", "--accept-loss"],
        vec!["ls", "@", "--accept-loss"],
        vec!["verify", "@", "--accept-loss"],
        vec!["segments", "@", "--accept-loss"],
        vec!["stat", "@", "--accept-loss"],
        vec!["copy", "@", "absent", "--accept-loss"],
        vec!["prune", "@", "--max-size", "1GB"],
        vec!["prune", "@", "--keep-versions", "1", "--regex", "x"],
        vec!["stat", "@", "--watch"],
        vec!["recompress", "@", "--try"],
        vec!["top", "@", "--most-pages"],
        vec!["top", "@", "--most-versions"],
        vec!["dump", "@", "--format", "parquet", "-o", "pages.parquet"],
        vec!["dump", "@", "--accept-loss"],
        vec!["repair", "@", "--in-place", "--yes", "--canonicalizer", "whatwg", "1"],
        vec!["copy", "@", "other", "--compact"],
        vec!["copy", "pages.fm", "@", "--compact", "--level", "3"],
        vec!["copy", "pages.fm", "@", "--checkpoint"],
        erase(&["--list"]),
        erase(&["--lift", "1"]),
        erase(&["--resume"]),
        erase(&["--rules-from", "pages.fm"]),
        erase(&["--regex", "x", "--reason", "r", "--yes"]),
        erase(&["--digest", "sha1:x", "--reason", "r"]),
        erase(&[&order[..], &["--hashed", "--yes"]].concat()),
        erase(&[&order[..], &["--from", "2020-01-01"]].concat()),
        erase(&[&order[..], &["--to", "2020-01-01"]].concat()),
    ] {
        // The refused flag is the last one, apart from its value and flags that others need.
        let named = args.iter().skip(2).filter(|arg| arg.starts_with("--"));
        let refused =
            run(tool().args(args.iter().map(|arg| if *arg == "@" { "s3://bucket/pages" } else { arg }))).ended(2);
        assert!(named.clone().any(|flag| refused.words.contains(flag)), "{args:?}: {}", refused.words);
        assert!(
            ["is for a", "needs a"].iter().any(|words| refused.words.contains(words)),
            "{args:?}: {}",
            refused.words
        );
    }
    run(tool().args(["repair", "s3://bucket/pages", "new.fm"])).ended(2).said("--in-place");
    run(tool().args(["repair", "s3://bucket/pages", "--in-place"])).ended(2).said("--yes");
    run(tool().args(["repair", "pages.fm", "--in-place", "--yes", "--uncommitted"])).ended(2).said("--uncommitted");
    run(tool().args(["erase", "s3://bucket/pages", "--host", "a.example", "--reason", "r"])).ended(2).said("--yes");
    for other in ["s3://bucket/pages", "s3://bucket/pages/", "S3://bucket/pages"] {
        run(tool().args(["copy", "s3://bucket/pages", other])).ended(2).said("itself");
    }
    let secret = run(tool().args(["copy", REFUSED, REFUSED])).ended(2);
    assert!(!secret.words.contains("5e3c7e7"), "{}", secret.words);
}

/// A folder has no checkpoints, and a cache has a folder.
#[test]
fn checkpoints_of_a_folder_and_a_cache_without_a_folder_are_refused() {
    run(tool().args(["copy", "pages.fm", "other.fm", "--checkpoint"]))
        .ended(2)
        .said("is for a copy from object storage");
    run(tool().args(["segments", "pages.fm", "--checkpoints"])).ended(2).said("is for a store in object storage");
    run(tool().args(["segments", "pages.fm", "--remove", "copy"])).ended(2).said("--checkpoints");
    if cfg!(feature = "cloud") {
        let verb = run(tool().args(["ls", "s3://bucket/pages"]).env("FILEMAP_CACHE_SIZE", "1GiB"));
        verb.ended(2).said("FILEMAP_CACHE_DIR, which is not set");
    }
}

#[test]
fn what_becomes_of_revisits_in_a_bucket_is_in_the_help() {
    for (verb, words) in [("prune", "a revisit of another URL"), ("erase", "Revisits of other URLs")] {
        let help = run(tool().args([verb, "--help"])).ended(0);
        let help = help.text().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains(words), "{verb}: {help}");
    }
}

/// An empty value would match everything.
#[cfg(feature = "cloud")]
#[test]
fn an_erasure_without_a_bound_or_a_reason_is_refused_before_anything_is_opened() {
    for args in [["--prefix", "", "r"], ["--host", " ", "r"], ["--url", "http://a.example/", " "]] {
        let [flag, value, reason] = args;
        for with in ["--yes", "--dry-run"] {
            let refused =
                run(tool().args(["erase", "s3://bucket/pages", flag, value, "--reason", reason, with])).ended(2);
            assert!(!refused.words.contains("AWS") && !refused.words.contains("failed after"), "{}", refused.words);
        }
    }
    run(tool().args(["erase", "s3://bucket/pages", "--prefix", "", "--reason", "r", "--yes"])).said("it is empty");
}
