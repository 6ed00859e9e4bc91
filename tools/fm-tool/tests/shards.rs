//! A store over several folders from a shell: pages, upkeep of each folder, what it refuses, and
//! that every other verb says what to do instead.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{Bench, PAGE_CRC, PAGE_URL, Ran, run, tool};

/// The effect of a verb on such a store.
enum Does {
    /// It works, and so finds that there is none.
    Works,
    /// It says what to do instead.
    Lacks(&'static str),
}
use Does::{Lacks, Works};

const ONE_STORE: &str = "run it on the path of each";

/// Every verb that has a store and makes none, with arguments that make sense; `@` stands for the
/// location, `%` for an absent folder.
const VERBS: [(&str, &[&str], Does); 39] = [
    ("import", &["@", "--in-place", "Cargo.toml"], Lacks("--in-place is for a store in one folder")),
    ("import", &["@", "--adopt"], Lacks(ONE_STORE)),
    ("get", &["@", "http://a.example/"], Works),
    ("rm", &["@", "http://a.example/"], Works),
    ("has", &["@", "http://a.example/"], Works),
    ("head", &["@", "http://a.example/"], Works),
    ("history", &["@", "http://a.example/"], Works),
    ("ls", &["@"], Works),
    ("count", &["@"], Works),
    ("top", &["@"], Works),
    ("stat", &["@"], Works),
    ("stat", &["@", "--watch"], Lacks("--watch is for a store in one folder")),
    ("stat", &["@", "--format", "openmetrics"], Lacks("openmetrics is for a store in one folder")),
    ("verify", &["@"], Works),
    ("repair", &["@", "--in-place", "--yes"], Works),
    ("repair", &["@", "%"], Lacks("repair each folder into a new one")),
    ("train", &["@"], Works),
    ("recompress", &["@", "--try"], Works),
    ("dump", &["@"], Works),
    ("segments", &["@"], Works),
    ("archives", &["@"], Lacks(ONE_STORE)),
    ("compact", &["@"], Works),
    ("compact", &["@", "--dry-run"], Works),
    ("prune", &["@", "--keep-versions", "1"], Works),
    ("prune", &["@", "--max-size", "1GB"], Lacks("--max-size is for a store in one folder")),
    ("erase", &["@", "--url", "http://a.example/", "--reason", "r"], Works),
    ("erase", &["@", "--lift", "1"], Lacks("--lift is for a store in one folder")),
    ("backup", &["@", "%"], Works),
    ("copy", &["@", "%"], Works),
    ("copy", &["@", "%", "--compact"], Lacks("--compact is for a copy of a folder")),
    ("copy", &["@", "@"], Lacks("a store is not copied to itself")),
    ("merge", &["@", "%"], Lacks("fm-tool copy FROM TO")),
    ("merge", &["%", "@"], Lacks("fm-tool copy FROM TO")),
    ("seen create", &["--kind", "trie", "@"], Lacks("no seen sets")),
    ("seen add", &["@", "Cargo.toml"], Lacks("no seen sets")),
    ("seen check", &["@", "Cargo.toml"], Lacks("no seen sets")),
    ("seen stat", &["@"], Lacks("no seen sets")),
    ("seen forget", &["@", "http://a.example/"], Lacks("no seen sets")),
    ("inspect", &["@"], Lacks("the folder that has it")),
];

/// The folders of a store beside the one of a bench, and their location.
fn folders(bench: &Bench, names: [&str; 2]) -> ([PathBuf; 2], String) {
    let paths = names.map(|name| bench.path(name));
    let location = format!("shards:{},{}", paths[0].display(), paths[1].display());
    (paths, location)
}

/// A store with pages of several hosts, copied into two folders.
fn copied() -> (Bench, [PathBuf; 2], String) {
    let bench = Bench::with(&["python-docs.warc.gz", "example.warc.gz"]);
    let (paths, location) = folders(&bench, ["a.fm", "b.fm"]);
    bench.run("copy", &[&location]).ended(0);
    (bench, paths, location)
}

fn with(verb: &str, location: &str, args: &[&str]) -> Ran {
    run(tool().arg(verb).arg(location).args(args))
}

fn lines(ran: &Ran) -> Vec<&str> {
    ran.text().lines().collect()
}

#[test]
fn every_verb_works_over_several_folders_or_says_what_to_do_instead() {
    let help = run(tool().arg("--help")).ended(0);
    let all = help.text().split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let all: Vec<&str> = all.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
    let others = ["put", "load", "completions", "man", "help"];
    for verb in all.into_iter().filter(|verb| !verb.is_empty() && !others.contains(verb)) {
        assert!(VERBS.iter().any(|(named, ..)| named.split(' ').next() == Some(verb)), "{verb} is not in the table");
    }
    let bench = Bench::new();
    let (_, location) = folders(&bench, ["a.fm", "b.fm"]);
    let absent = bench.path("absent");
    for (verb, args, does) in &VERBS {
        let args = args.iter().map(|arg| match *arg {
            "@" => location.as_str(),
            "%" => absent.to_str().unwrap(),
            arg => arg,
        });
        let ran = run(tool().args(verb.split(' ')).args(args)).ended(2);
        let words = match does {
            Lacks(words) => words,
            Works => "is not a FileMap store",
        };
        assert!(ran.words.contains(words), "{verb}: {}", ran.words);
    }
    assert_eq!(fs::read_dir(absent.parent().unwrap()).unwrap().count(), 0, "a verb made something");
}

#[test]
fn pages_are_read_put_and_removed_as_in_one_folder() {
    let (bench, paths, location) = copied();
    let lists: [&[&str]; 5] =
        [&[], &["--reverse"], &["--host", "docs.python.localhost"], &["--after", PAGE_URL], &["-0"]];
    for args in lists {
        assert_eq!(with("ls", &location, args).ended(0).out, bench.run("ls", args).ended(0).out, "{args:?}");
    }
    let both = [PAGE_URL, "http://example.com/"];
    assert_eq!(with("has", &location, &both).ended(0).text(), bench.run("has", &both).ended(0).text());
    with("head", &location, &both).ended(0);
    let versions = |ran: Ran| ran.ended(0).text().lines().count();
    assert_eq!(versions(with("history", &location, &[PAGE_URL])), versions(bench.run("history", &[PAGE_URL])));
    assert_eq!(crc32fast::hash(&with("get", &location, &[PAGE_URL]).ended(0).out), PAGE_CRC);
    assert_eq!(with("count", &location, &[]).ended(0).text(), bench.run::<&str>("count", &[]).ended(0).text());
    for path in &paths {
        let pages = run(tool().arg("count").arg(path)).ended(0);
        assert_ne!(pages.text(), "0\n", "each folder has pages");
    }
    with("put", &location, &["http://new.example/", "Cargo.toml"]).ended(0);
    with("has", &location, &["http://new.example/"]).ended(0);
    with("rm", &location, &["http://new.example/"]).ended(0);
    with("get", &location, &["http://new.example/"]).ended(1);
    with("get", &location, &["http://absent.example/"]).ended(1);

    let back = bench.path("back.fm");
    run(tool().arg("copy").arg(&location).arg(&back)).ended(0);
    assert_eq!(run(tool().arg("ls").arg(&back)).ended(0).out, bench.run::<&str>("ls", &[]).ended(0).out);
    let again = run(tool().args(["copy", "--json"]).arg(&location).arg(&back)).ended(0).json();
    assert_eq!((&again[0]["versions"], &again[0]["complete"]), (&Value::from(0), &Value::from(true)), "{again:?}");
}

#[test]
fn a_put_makes_the_folders_and_a_dump_is_of_each() {
    let bench = Bench::new();
    let (paths, location) = folders(&bench, ["a.fm", "b.fm"]);
    with("put", &location, &["http://example.com/", "Cargo.toml"]).ended(0);
    with("put", &location, &["http://a.example/", "Cargo.toml", "--exact-urls"]).ended(2).said("whatwg");
    with("put", &location, &["http://docs.python.localhost/", "Cargo.toml"]).ended(0);
    assert_eq!(lines(&with("ls", &location, &[]).ended(0)), ["http://example.com/", "http://docs.python.localhost/"]);
    for path in &paths {
        assert_eq!(lines(&run(tool().arg("dump").arg(path)).ended(0)).len(), 1, "one page, in one line");
    }
}

#[test]
fn upkeep_is_done_in_each_folder() {
    let (bench, paths, location) = copied();
    let before = with("ls", &location, &[]).ended(0).out;
    with("verify", &location, &[]).ended(0).said("2 folders are one store");
    with("verify", &location, &["--quick"]).ended(0);
    let stat = with("stat", &location, &["--json"]).ended(0).json();
    assert_eq!(stat.len(), 4, "{stat:?}");
    for (nth, path) in paths.iter().enumerate() {
        let path = path.to_str().unwrap();
        assert!(stat[2 * nth]["member"] == path && stat[2 * nth + 1]["path"] == path, "{stat:?}");
    }
    let stat = with("stat", &location, &["--format", "json"]).ended(0).json();
    let named: Vec<&Value> = stat.iter().map(|line| &line["path"]).collect();
    assert_eq!(named, paths.each_ref().map(|path| path.to_str().unwrap()), "a line for each folder, and no heading");
    with("segments", &location, &[]).ended(0);
    with("compact", &location, &["--dry-run"]).ended(0);
    with("compact", &location, &[]).ended(0);
    with("prune", &location, &["--keep-versions", "1"]).ended(0);
    with("train", &location, &["--list"]).ended(0);
    with("recompress", &location, &["--try"]).ended(0);
    assert_eq!(with("ls", &location, &[]).ended(0).out, before);

    with("erase", &location, &["--url", PAGE_URL, "--reason", "request 17"]).ended(0);
    with("get", &location, &[PAGE_URL]).ended(1);
    assert_eq!(lines(&with("erase", &location, &["--list", "--json"]).ended(0)).len(), 4, "a rule in each folder");
    let before = with("ls", &location, &[]).ended(0).out;

    let (_, backup) = folders(&bench, ["backup a.fm", "backup b.fm"]);
    let one = bench.path("one.fm");
    with("backup", &location, &[one.to_str().unwrap()]).ended(2).said("is as many");
    with("backup", &location, &[&backup]).ended(0);
    assert_eq!(with("ls", &backup, &[]).ended(0).out, before);
    let (_, next) = folders(&bench, ["next a.fm", "next b.fm"]);
    with("backup", &location, &[&next, "--base", &backup]).ended(0);
}

#[test]
fn a_reader_that_closes_the_pipe_keeps_no_folder_from_an_erasure() {
    let (_bench, paths, location) = copied();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut erase = tool();
    erase.args(["erase", "--json", &location, "--url", PAGE_URL, "--reason", "request 17"]).stdout(writer);
    assert_eq!(erase.status().unwrap().code(), Some(0));
    for path in &paths {
        let rules = run(tool().args(["erase", "--list", "--json"]).arg(path)).ended(0);
        assert_eq!(lines(&rules).len(), 1, "a rule in each folder");
    }
    with("get", &location, &[PAGE_URL]).ended(1);
}

#[test]
fn a_merge_adds_no_pages_of_others_to_a_folder_and_makes_no_second_one() {
    let (bench, paths, location) = copied();
    let before = with("ls", &location, &[]).ended(0).out;
    let merge = |to: &Path, from: &Path| run(tool().arg("merge").arg(to).arg(from));
    merge(&paths[0], &paths[1]).ended(2).said("member 1 of a store over 2 folders").said("fm-tool copy");
    merge(&paths[0], &bench.store()).ended(2).said("nothing was merged");
    assert_eq!(with("ls", &location, &[]).ended(0).out, before);
    // A copy of itself, as a restored backup, may be merged into it.
    let backup = bench.path("backup.fm");
    run(tool().arg("backup").arg(&paths[0]).arg(&backup)).ended(0);
    merge(&paths[0], &backup).ended(0);
    assert_eq!(with("ls", &location, &[]).ended(0).out, before);
    // Merged into a new store, they are one store in a folder.
    let one = bench.path("one.fm");
    run(tool().arg("merge").arg(&one).args(&paths)).ended(0);
    assert_eq!(run(tool().arg("ls").arg(&one)).ended(0).out, before);
    let location = format!("shards:{},{}", one.display(), paths[1].display());
    with("ls", &location, &[]).ended(2).said("is not a member of the store");
    // Nor does a repair make it one: it has pages of the other's hosts.
    with("repair", &location, &["--in-place", "--yes"]).ended(2).said("not proven");
}

/// Damages both copies of a superblock.
fn damage(store: &Path) {
    let path = store.join("SUPERBLOCK");
    let mut bytes = fs::read(&path).unwrap();
    [20, 4096 + 20].into_iter().for_each(|at| bytes[at] ^= 0xff);
    fs::write(&path, bytes).unwrap();
}

#[test]
fn a_damaged_folder_is_named_and_does_not_keep_upkeep_from_the_others() {
    let (_bench, paths, location) = copied();
    let before = with("ls", &location, &[]).ended(0).out;
    damage(&paths[0]);
    let path = paths[0].to_str().unwrap();
    with("get", &location, &[PAGE_URL]).ended(3).said(path).said("fm-tool repair");
    let verified = with("verify", &location, &[]).ended(3).said(path);
    assert!(verified.words.contains("no damage"), "the other is read: {}", verified.words);
    with("repair", &location, &["--in-place", "--yes"]).ended(3).said("superblock is lost");
    assert_eq!(with("ls", &location, &[]).ended(0).out, before, "the repaired folder is a member still");
    with("verify", &location, &[]).ended(0);
}

#[test]
fn a_reader_that_closes_the_pipe_hides_no_damage_and_no_stray() {
    let (_bench, paths, location) = copied();
    let code = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        tool().args(["verify", &location]).stdout(writer).status().unwrap().code()
    };
    assert_eq!(code(), Some(0));
    run(tool().arg("put").arg(&paths[1]).args([PAGE_URL, "Cargo.toml"])).ended(0);
    assert_eq!(code(), Some(3), "a page is in another folder");
    run(tool().arg("rm").arg(&paths[1]).arg(PAGE_URL)).ended(0);
    damage(&paths[0]);
    assert_eq!(code(), Some(3), "a folder is damaged");
}

#[test]
fn folders_that_are_not_the_store_are_refused_and_strays_are_found() {
    let (bench, paths, location) = copied();
    let [a, b] = paths.each_ref().map(|path| path.to_str().unwrap());
    let plain = bench.store();
    let plain = plain.to_str().unwrap();
    for (location, words) in [
        (format!("shards:{b},{a}"), "give the paths in their order"),
        (format!("shards:{a},{plain}"), "is not a member of the store"),
        (format!("shards:{a},{b},{plain}"), "2 folders, and 3 were given"),
        (format!("shards:{a},{a}.gone"), "mount its disk"),
        (format!("shards:{a}"), "two or more"),
        (format!("shards:{a},{a}"), "twice"),
    ] {
        for args in [&["ls"][..], &["count"], &["stat"], &["compact"]] {
            with(args[0], &location, &args[1..]).ended(2).said(words);
        }
        with("put", &location, &["http://a.example/", "Cargo.toml"]).ended(2).said(words);
    }
    assert!(!Path::new(&format!("{a}.gone")).exists());
    // Python's pages are in the first folder, by their host.
    with("verify", &location, &[]).ended(0);
    run(tool().arg("put").arg(b).args([PAGE_URL, "Cargo.toml"])).ended(0);
    with("verify", &location, &[]).ended(3).said("1 page in another folder");
    with("verify", &location, &["--quick"]).ended(0);
    run(tool().arg("rm").arg(b).arg(PAGE_URL)).ended(0);
    with("verify", &location, &[]).ended(0);
}
