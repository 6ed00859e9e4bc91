//! Verbs for many pages: counted, ranked, searched, printed and removed, by host, by prefix or by
//! a list.

use crate::harness::{Bench, PAGE_CRC, PAGE_URL, PAGES, warc};
use serde_json::{Value, json};

const HOST: &str = "docs.python.localhost";
const ARCHIVE: &str = "https://archive.org/";

/// A store with pages of several hosts, several versions, and records next to them.
fn several() -> Bench {
    let bench = Bench::new();
    let files = ["IAH-urls-wget.warc.gz", "python-docs.warc.gz", "cc.warc.gz"].map(warc);
    let keep = ["--keep", "request,metadata"].map(std::ffi::OsStr::new);
    let args: Vec<&std::ffi::OsStr> = keep.into_iter().chain(files.iter().map(|file| file.as_os_str())).collect();
    bench.run("import", &args).ended(0);
    bench
}

fn lines(bench: &Bench, verb: &str, args: &[&str]) -> Vec<String> {
    bench.run(verb, args).ended(0).text().lines().map(str::to_owned).collect()
}

#[test]
fn pages_and_versions_are_counted_as_they_are_listed() {
    let bench = several();
    for chosen in [&[][..], &["--host", HOST], &["--prefix", "http://archive.org/"], &["--host", "absent.example"]] {
        let listed = lines(&bench, "ls", chosen);
        assert_eq!(lines(&bench, "count", chosen), [listed.len().to_string()], "{chosen:?}");
        let of = |url: &String| lines(&bench, "history", &[url]).len();
        let versions: usize = listed.iter().map(of).sum();
        let counted = bench.run("count", &[chosen, &["--versions", "--json"]].concat()).ended(0).json();
        assert_eq!(counted, [json!({ "pages": listed.len(), "versions": versions })], "{chosen:?}");
    }
    assert_eq!(lines(&bench, "count", &["--host", HOST, "--prefix", PAGE_URL]), ["1"]);
}

#[test]
fn pages_are_listed_and_counted_from_a_time_on_and_up_to_a_number() {
    let bench = several();
    let rows = bench.run("ls", &["--long", "--json"]).ended(0).json();
    let time = |row: &Value| row["time"].as_str().unwrap().to_owned();
    let mut times: Vec<String> = rows.iter().map(time).collect();
    times.sort();
    let since = &times[times.len() / 2];
    let expected = times.iter().filter(|time| *time >= since).count();
    assert!(expected > 5 && expected < rows.len(), "{expected} of {}", rows.len());
    for extra in [&[][..], &["--host", HOST], &["--prefix", "http://"]] {
        let args = [extra, &["--since", since]].concat();
        let listed = lines(&bench, "ls", &args);
        assert_eq!(lines(&bench, "count", &args), [listed.len().to_string()], "{args:?}");
        assert_eq!(lines(&bench, "ls", &[&args[..], &["--long"]].concat()).len(), listed.len());
        assert_eq!(lines(&bench, "ls", &[&args[..], &["--limit", "2"]].concat()).len(), listed.len().min(2));
        if extra.is_empty() {
            assert_eq!(listed.len(), expected);
        }
    }
    assert_eq!(lines(&bench, "count", &["--limit", "7"]), ["7"]);
    assert_eq!(lines(&bench, "ls", &["--limit", "0"]), [""; 0]);
    assert_eq!(lines(&bench, "count", &["--since", "2999-01-01"]), ["0"]);
}

#[test]
fn a_version_is_printed_by_its_number() {
    let bench = several();
    let versions = bench.run("history", &[ARCHIVE, "--json"]).ended(0).json();
    assert!(versions.len() > 1);
    for version in &versions {
        let number = version["sequence"].to_string();
        let page = bench.run("get", &[ARCHIVE, "--version", &number, "--json"]).ended(0).json();
        assert_eq!(page[0]["time"], version["time"]);
        let body = bench.run("get", &[ARCHIVE, "--version", &number]).ended(0).out;
        assert_eq!(body.len() as u64, version["body_bytes"].as_u64().unwrap());
    }
    bench.run("get", &[ARCHIVE, "--version", "999999"]).ended(1).said("no version 999999");
    bench.run("get", &[ARCHIVE, "--version", "1", "--at", "2020"]).ended(2);
}

#[test]
fn hosts_are_ranked_with_the_sums_of_their_pages_and_the_log_is_all_of_them() {
    let bench = several();
    let rows = bench.run("top", &["--json"]).ended(0).json();
    let (all, hosts) = rows.split_last().unwrap();
    let number = |row: &Value, name: &str| row[name].as_u64().unwrap();
    assert!(hosts.len() > 3 && hosts.is_sorted_by(|a, b| number(a, "stored_bytes") >= number(b, "stored_bytes")));
    assert_eq!(hosts[0]["host"], HOST);
    for host in hosts {
        let chosen = ["--host", host["host"].as_str().unwrap(), "--versions", "--json"];
        let counted = &bench.run("count", &chosen).ended(0).json()[0];
        assert_eq!((&host["pages"], &host["versions"]), (&counted["pages"], &counted["versions"]), "{host}");
    }
    for name in ["stored_bytes", "body_bytes"] {
        let sum: u64 = hosts.iter().map(|host| number(host, name)).sum();
        assert!(sum <= number(all, name) && sum > 0);
    }
    // Every record in the log belongs to a host: nothing was removed or replaced here.
    let stat = &bench.run("stat", &["--json"]).ended(0).json()[0];
    assert_eq!(number(all, "stored_bytes") + 64, number(stat, "value_bytes"), "but the segment's header");
    assert_eq!(number(all, "short_by"), 0);

    let by_pages = bench.run("top", &["--sort", "pages", "--limit", "2", "--json"]).ended(0).json();
    assert_eq!((by_pages.len(), number(&by_pages[0], "pages")), (3, 54));
    let text = lines(&bench, "top", &["--limit", "1"]);
    assert!(text[0].ends_with("host") && text[1].ends_with(HOST) && text[2].ends_with("(all)"), "{text:?}");
    // With too little memory for all hosts, the largest is still first, and a message says so.
    let few = bench.run("top", &["--exact-hosts", "2", "--limit", "1"]).ended(0).said("over 2 hosts");
    assert!(few.text().contains(HOST));
}

#[test]
fn the_largest_pages_and_those_of_most_versions_are_ranked() {
    let bench = several();
    let largest = bench.run("top", &["--largest", "--sort", "bodies", "--limit", "5", "--json"]).ended(0).json();
    let bytes = |row: &Value| row["body_bytes"].as_u64().unwrap();
    assert_eq!(largest.len(), 5);
    assert!(largest.is_sorted_by(|a, b| bytes(a) >= bytes(b)));
    for row in &largest {
        let head = &bench.run("head", &[row["url"].as_str().unwrap(), "--json"]).ended(0).json()[0];
        assert_eq!((&head["body_bytes"], &head["stored_bytes"]), (&row["body_bytes"], &row["stored_bytes"]));
    }
    let heads = bench.run("ls", &["--long", "--json"]).ended(0).json();
    assert_eq!(heads.iter().map(bytes).max(), Some(bytes(&largest[0])));
    bench.run("top", &["--largest", "--sort", "pages"]).ended(2).said("stored");

    for time in ["2020-01-01", "2021-01-01", "2022-01-01"] {
        bench.feed("put", &["http://often.example/", "-", "--time", time], time.as_bytes()).ended(0);
    }
    let often = bench.run("top", &["--most-versions", "--limit", "3", "--json"]).ended(0).json();
    assert_eq!(often[0], json!({ "url": "http://often.example/", "versions": 3 }));
    assert_eq!(often[1]["versions"], 2, "{often:?}");
    let text = lines(&bench, "top", &["--most-versions", "--host", "commoncrawl.org"]);
    assert_eq!(text, ["       1 version  http://commoncrawl.org/"]);
}

#[test]
fn has_answers_by_exit_code_and_by_name() {
    let bench = several();
    let found = bench.run("has", &[PAGE_URL]).ended(0);
    assert_eq!((found.text(), found.words.as_str()), (format!("{PAGE_URL}\n").as_str(), ""));
    let silent = bench.run("has", &[PAGE_URL, "-q"]).ended(0);
    assert!(silent.out.is_empty() && silent.words.is_empty());
    let absent = bench.run("has", &["http://absent.example/"]).ended(1);
    assert!(absent.out.is_empty() && absent.words.is_empty(), "{}", absent.words);

    let list =
        format!("HTTP://DOCS.python.localhost:80/3.11/tutorial/index.html#x\r\n\nhttp://absent.example/\n{ARCHIVE}\n");
    std::fs::write(bench.path("urls.txt"), &list).unwrap();
    let path = bench.path("urls.txt");
    let path = path.to_str().unwrap();
    let there = bench.run("has", &["--from", path]).ended(1);
    let first = list.lines().next().unwrap();
    assert_eq!(there.text().lines().collect::<Vec<_>>(), [first, ARCHIVE], "as they were given");
    let missing = bench.run("has", &["--from", path, "--missing"]).ended(1);
    assert_eq!(missing.text(), "http://absent.example/\n");
    let piped = bench.feed("has", &["--from", "-", "--json"], list.as_bytes()).ended(1).json();
    assert_eq!(piped[1], json!({ "url": "http://absent.example/", "is_there": false }));
    assert_eq!(piped.len(), 3);
    bench.feed("has", &[PAGE_URL, "--from", "-"], b"no url\n").ended(2).said("no url");
    bench.run("has", &["--from", "absent.txt"]).ended(2).said("absent.txt");
    bench.run("has", &["--from", bench.store().to_str().unwrap()]).ended(2).said("is a folder");
    bench.run::<&str>("has", &[]).ended(2).said("<URL>");
}

#[test]
fn what_ls_lists_all_other_verbs_take() {
    let bench = several();
    let listed = bench.run("ls", &["-0"]).ended(0).out;
    let found = bench.feed("has", &["--from", "-", "-0", "--json"], &listed).ended(0).json();
    assert!(found.len() > PAGES && found.iter().all(|line| line["is_there"] == true));
    let pages = bench.feed("get", &["--from", "-", "-0", "--json"], &listed).ended(0).json();
    assert_eq!(pages.len(), found.len());
    let heads = bench.feed("head", &["--from", "-", "-0", "--json"], &listed).ended(0).json();
    let long = bench.run("ls", &["--long", "--json"]).ended(0).json();
    let mut sorted = [heads, long].map(|heads| heads.iter().map(ToString::to_string).collect::<Vec<_>>());
    sorted.iter_mut().for_each(|heads| heads.sort());
    assert_eq!(sorted[0], sorted[1]);
}

#[test]
fn several_pages_are_printed_in_the_order_given_and_one_that_is_not_there_is_said() {
    let bench = several();
    let first = bench.run("get", &[PAGE_URL]).ended(0).out;
    let second = bench.run("get", &[ARCHIVE]).ended(0).out;
    let urls = [ARCHIVE, "http://absent.example/", PAGE_URL];
    let both = bench.run("get", &urls).ended(1).said("http://absent.example/ is not in");
    assert_eq!(both.out, [second, first].concat());
    let file = bench.path("bodies");
    bench.run("get", &[&urls[..], &["-o", file.to_str().unwrap()]].concat()).ended(1);
    assert_eq!(std::fs::read(&file).unwrap(), both.out);
    let heads = bench.run("head", &urls).ended(1).said("http://absent.example/ is not in");
    assert_eq!(heads.text().matches("\nfetched ").count(), 2);
    let lines = bench.run("get", &[&urls[..], &["--json"]].concat()).ended(1).json();
    assert_eq!(lines.len(), 2);
    assert_eq!(crc32fast::hash(lines[1]["body"].as_str().unwrap().as_bytes()), PAGE_CRC);
    bench.run("get", &["no url", PAGE_URL]).ended(2).said("no url");
}

#[test]
fn ls_long_tells_time_status_and_sizes() {
    let bench = several();
    let all = lines(&bench, "ls", &["--long"]);
    assert_eq!(all.len(), lines(&bench, "ls", &[]).len());
    let chosen = lines(&bench, "ls", &["-l", "--prefix", PAGE_URL]);
    let columns: Vec<&str> = chosen[0].split('\t').collect();
    assert_eq!((columns[1], columns[2], columns[4]), ("200", "32302", PAGE_URL));
    assert!(columns[0].ends_with('Z') && columns[3].parse::<u64>().unwrap() % 64 == 0, "{columns:?}");
    assert!(all.contains(&chosen[0]));
}

#[test]
fn one_version_is_removed_by_its_time_and_no_other() {
    let bench = several();
    let times = |count: usize| {
        let versions = bench.run("history", &[ARCHIVE, "--json"]).ended(0).json();
        assert_eq!(versions.len(), count, "{versions:?}");
        versions.iter().map(|version| version["time"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let before = bench.run("history", &[ARCHIVE, "--json"]).ended(0).json().len();
    let all = times(before);
    assert!(before > 1 && all[0] != all[1], "{all:?}");
    bench.run("rm", &[ARCHIVE, "--at", "1999-01-01"]).ended(1).said("of exactly 1999-01-01T00:00:00Z is not in");
    bench.run("rm", &["--host", "archive.org", "--at", &all[1], "--yes"]).ended(2).said("--at");
    bench.run("rm", &[ARCHIVE, "--at", &all[1]]).ended(0).said(&format!("removed {ARCHIVE} of {}", all[1]));
    let left: Vec<String> = all.iter().filter(|time| **time != all[1]).cloned().collect();
    assert_eq!(times(left.len()), left);
    bench.run::<&str>("verify", &[]).ended(0);
}

#[test]
fn a_host_is_removed_whole_with_what_stands_beside_its_pages_and_nothing_else() {
    let bench = several();
    let others: Vec<String> = lines(&bench, "ls", &[]).into_iter().filter(|url| !url.contains(HOST)).collect();
    // The test cannot answer a question.
    bench.run("rm", &["--host", HOST]).ended(2).said("--yes");
    bench.run("rm", &[PAGE_URL, "--host", HOST, "--yes"]).ended(2).said("not both");
    bench.run("rm", &["--host", "absent.example", "--yes"]).ended(1).said("no pages of absent.example");
    assert_eq!(lines(&bench, "count", &["--host", HOST]), ["54"]);

    bench.run("rm", &["--host", HOST, "--yes"]).ended(0).said("removed 54 pages of docs.python.localhost");
    let sorted = |mut urls: Vec<String>| {
        urls.sort();
        urls
    };
    assert_eq!(sorted(lines(&bench, "ls", &[])), sorted(others));
    let left = bench.run("dump", &["--all-versions"]).ended(0).json();
    let is_of_host = |line: &Value| line["url"].as_str().unwrap().contains(HOST);
    assert!(!left.iter().any(is_of_host), "requests and metadata are removed with their pages");
    let archive = bench.run("rm", &["--prefix", "http://archive.org/images/", "-y", "--json"]).ended(0).json();
    assert!(archive.len() > 2 && archive.iter().all(|line| line["removed"] == true), "{archive:?}");
    bench.run("get", &[ARCHIVE]).ended(0);
    bench.run::<&str>("verify", &[]).ended(0);
}

#[test]
fn a_list_of_pages_is_removed_and_those_that_are_not_there_are_said() {
    let bench = several();
    let before = lines(&bench, "ls", &[]).len();
    let list = format!("{ARCHIVE}\nhttp://absent.example/\n{PAGE_URL}\n");
    let removed = bench.feed("rm", &["--from", "-", "-q"], list.as_bytes()).ended(1);
    assert_eq!(removed.words, format!("fm-tool: http://absent.example/ is not in {}\n", bench.store().display()));
    assert_eq!(lines(&bench, "ls", &[]).len(), before - 2);
}

#[test]
fn a_hundred_thousand_pages_are_removed_in_one_go() {
    let bench = Bench::new();
    let dump = bench.path("pages.jsonl");
    let line = |number: u32| {
        let host = if number < 100_000 { "many.example" } else { "few.example" };
        format!("{{\"url\":\"http://{host}/{number}\",\"time_ms\":1,\"body\":\"{number}\"}}\n")
    };
    std::fs::write(&dump, (0..100_100).map(line).collect::<String>()).unwrap();
    bench.run("import", &[&dump]).ended(0);
    bench.run("rm", &["--host", "many.example", "--yes"]).ended(0).said("removed 100000 pages of many.example");
    assert_eq!(lines(&bench, "count", &[]), ["100"]);
    assert_eq!(lines(&bench, "count", &["--host", "few.example", "--versions"]), ["100"]);
}
