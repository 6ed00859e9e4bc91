//! `import --from`: the caches of Scrapy and requests-cache in tests/data/caches, intact, imported
//! twice, interrupted, damaged, and of kinds that are not supported.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::Bench;

const POST: &str = "ed67796e973d52626c42152d50616c7bc42255dd";

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/caches").join(name)
}

fn args<'a>(kind: &'a str, path: &'a Path) -> Vec<&'a str> {
    vec!["--from", kind, path.to_str().expect("text"), "--json"]
}

fn copy(from: &Path, to: &Path) {
    if !from.is_dir() {
        fs::copy(from, to).expect("copied");
        return;
    }
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry").path();
        copy(&entry, &to.join(entry.file_name().expect("a name")));
    }
}

/// The URLs, methods, statuses and bodies of a store, sorted.
fn pages(bench: &Bench) -> Vec<String> {
    let lines = bench.run("dump", &["--all-versions"]).ended(0);
    let mut pages: Vec<String> = lines
        .text()
        .lines()
        .map(|line| {
            let page: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let text = |name: &str| page[name].as_str().unwrap_or_default().to_owned();
            let body = text("body").chars().take(30).collect::<String>() + &text("body_base64");
            format!("{} {} {} {} {body}", text("url"), text("variant"), text("method"), page["status"])
        })
        .collect();
    pages.sort();
    pages
}

#[test]
fn every_storage_of_scrapy_is_read_and_a_second_time_adds_nothing() {
    let bench = Bench::new();
    let cache = data("scrapy");
    let done = bench.run("import", &args("scrapy-httpcache", &cache)).ended(0).json();
    let count = |line: &serde_json::Value, name: &str| line[name].as_u64().unwrap_or(u64::MAX);
    let counts = ["records", "stored", "variants", "decoded", "kept_as_received", "damaged", "unusable"];
    let expected = [20, 20, 20, 5, 5, 0, 0];
    assert_eq!(counts.map(|name| count(&done[0], name)), expected, "{}", done[0]);
    for spider in ["docs", "zipped", "dumb", "gnu", "lite"] {
        let named = format!("scrapy:{spider}:{POST}");
        let page = &bench.run("get", &["http://a.example/post", "--variant", &named, "--json"]).ended(0).json()[0];
        assert_eq!((&page["status"], &page["http_version"]), (&404.into(), &"HTTP/2".into()), "{page}");
        let from_files = matches!(spider, "docs" | "zipped");
        assert_eq!(page["method"].as_str(), from_files.then_some("POST"), "dbm has no method");
        assert_eq!(page["body_base64"], "AP8nIg==");
        let note = page["headers"].as_array().expect("headers").last().expect("one");
        let note: serde_json::Value = serde_json::from_str(note["value"].as_str().expect("text")).expect("JSON");
        assert_eq!(
            (&note["_class"], &note["flags"][0]),
            (&"scrapy.http.response.text.TextResponse".into(), &"a".into())
        );
        assert_eq!(page["time_ms"].as_i64(), note["time"].as_f64().map(|seconds| (seconds * 1000.0) as i64));
    }
    let before = pages(&bench);
    let again = bench.run("import", &args("scrapy-httpcache", &cache)).ended(0).json();
    assert_eq!((count(&again[0], "stored"), count(&again[0], "already_there")), (0, 20));
    assert_eq!(pages(&bench), before);
    bench.run::<&str>("verify", &[]).ended(0);
}

#[test]
fn bodies_are_decoded_and_headers_keep_order_and_repeats() {
    let bench = Bench::new();
    bench.run("import", &args("scrapy-httpcache", &data("scrapy"))).ended(0);
    let get = |url: &str| {
        let variants = bench.run("ls", &["--all-variants", "--prefix", url, "--json"]).ended(0).json();
        let of_url = variants.iter().filter(|line| line["url"] == url);
        let variant = of_url.filter_map(|line| line["variant"].as_str()).find(|text| text.contains(":zipped:"));
        bench.run("get", &[url, "--variant", variant.expect("listed"), "--json"]).ended(0).json().remove(0)
    };
    let fields = |page: &serde_json::Value| -> Vec<(String, String)> {
        let text = |field: &serde_json::Value, name: &str| field[name].as_str().unwrap_or_default().to_owned();
        let fields = page["headers"].as_array().expect("headers").iter();
        fields.map(|field| (text(field, "name"), text(field, "value"))).filter(|f| f.0 != "X-Crawler-Scrapy").collect()
    };
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let first = get("http://a.example/");
    let expected = [pair("Content-Type", "text/html"), pair("Set-Cookie", "a=1"), pair("Set-Cookie", "b=2")];
    assert_eq!(fields(&first), expected);
    let packed = get("http://a.example/gz?x=1");
    assert_eq!(packed["body"], first["body"]);
    let [coding, received, length] = &fields(&packed)[..] else { panic!("{packed}") };
    assert_eq!((coding, &*received.0), (&pair("X-Crawler-Content-Encoding", "gzip"), "X-Crawler-Content-Length"));
    assert_eq!(length, &pair("Content-Length", "266"));
    let bad = get("http://a.example/bad");
    assert_eq!((fields(&bad), &bad["body"]), (vec![pair("Content-Encoding", "gzip")], &"not gzip".into()));
}

#[test]
fn a_shared_store_has_no_spiders_in_its_variants() {
    let bench = Bench::new();
    let cache = data("scrapy");
    let ran = bench.run("import", &[&args("scrapy-httpcache", &cache)[..], &["--shared"]].concat()).ended(0);
    // The table of `lite` is a copy of `dumb`: the same requests at the same times.
    assert_eq!((&ran.json()[0]["stored"], &ran.json()[0]["already_there"]), (&16.into(), &4.into()));
    bench.run("get", &["http://a.example/post", "--variant", &format!("scrapy::{POST}")]).ended(0);
    bench.run("import", &["--shared", "x.warc"]).ended(2);
}

#[test]
fn what_cannot_be_read_is_counted_named_and_left_out() {
    let bench = Bench::new();
    let cache = bench.path("cache");
    copy(&data("scrapy"), &cache);
    let entry = cache.join("docs/ed").join(POST);
    fs::write(entry.join("meta"), "__import__('os')").expect("written");
    fs::remove_file(cache.join("zipped/ed").join(POST).join("response_body")).expect("removed");
    let mut values = fs::read(cache.join("dumb.db.dat")).expect("read");
    values[..2].copy_from_slice(b"P1");
    fs::write(cache.join("dumb.db.dat"), values).expect("written");
    fs::write(cache.join("notes.txt"), "mine").expect("written");
    fs::write(cache.join("old.db"), [7; 4096]).expect("written");
    let done = bench.run("import", &args("scrapy-httpcache", &cache)).ended(3);
    let line = &done.json()[0];
    assert_eq!((&line["stored"], &line["damaged"], &line["ignored"]), (&17.into(), &3.into(), &1.into()), "{line}");
    let done = done
        .said(&format!("docs/ed/{POST}: meta: it is not a Python literal"))
        .said("response_body")
        .said("not plain data");
    done.said("notes.txt").said("old.db: it is of a kind of dbm that is not read").said("dbm.dumb");
    // The other entries are stored, and the same command imports repaired entries.
    fs::remove_file(cache.join("old.db")).expect("removed");
    copy(&data("scrapy"), &cache);
    assert_eq!(bench.run("import", &args("scrapy-httpcache", &cache)).ended(0).json()[0]["stored"], 3);
    let only = bench.path("only");
    fs::create_dir(&only).expect("made");
    fs::write(only.join("old.db"), [7; 4096]).expect("written");
    bench.run("import", &args("scrapy-httpcache", &only)).ended(2).said("NEW/old.db");
    bench.run("import", &args("scrapy-httpcache", &cache.join("docs"))).ended(2).said("one spider");
    bench.run("import", &args("scrapy-httpcache", &cache.join("notes.txt"))).ended(2).said("not a folder");
}

#[test]
fn requests_cache_is_read_with_its_redirects_and_forms() {
    let mut all = Vec::new();
    for name in ["requests-1.2-json.sqlite", "requests-1.3-pickle.sqlite", "requests-1.3-files"] {
        let bench = Bench::new();
        let line = &bench.run("import", &args("requests-cache", &data(name))).ended(0).json()[0];
        // The page that another was redirected to is in the cache twice; both may be the same
        // version.
        let sum = line["stored"].as_u64().zip(line["already_there"].as_u64()).map(|(stored, there)| stored + there);
        assert_eq!((&line["records"], sum, &line["variants"]), (&5.into(), Some(6), &1.into()), "{line}");
        let again = &bench.run("import", &args("requests-cache", &data(name))).ended(0).json()[0];
        assert_eq!((&again["stored"], &again["already_there"]), (&0.into(), &6.into()));
        let mut found = pages(&bench);
        found.dedup();
        all.push(found);
    }
    let ours = &all[0];
    assert!(all.iter().all(|pages| pages == ours), "{all:#?}");
    let starts =
        |text: &str| ours.iter().filter(|line| line.starts_with(&format!("http://127.0.0.1:18765/{text}"))).count();
    assert_eq!(starts("gz  GET 200 <p>gz</p>"), 1);
    assert_eq!(
        (starts("moved  GET 302 moved"), starts("json  GET 200 {\"a\": [1, 2.5, \"\\u00e9\"]}")),
        (1, 1),
        "{ours:#?}"
    );
    assert_eq!((starts("form __wb_method=POST&q=a b POST 200 posted q=a+b"), starts("other  GET 404 AAEC")), (1, 1));
}

#[test]
fn caches_that_are_none_are_refused() {
    let bench = Bench::new();
    let text = bench.path("text.sqlite");
    fs::write(&text, "no database").expect("written");
    bench.run("import", &args("requests-cache", &text)).ended(2).said("not a file of SQLite");
    bench.run("import", &args("requests-cache", &data("scrapy/lite.db"))).ended(2).said("no table responses");
    bench.run("import", &args("requests-cache", &bench.path("absent"))).ended(2);
    let files = data("requests-1.3-files");
    let shared = [&args("requests-cache", &files)[..], &["--shared"]].concat();
    bench.run("import", &shared).ended(2).said("--shared");
    assert!(!bench.store().exists());
    let folder = bench.path("files");
    fs::create_dir(&folder).expect("made");
    fs::write(folder.join("1.yaml"), "_content: x\n").expect("written");
    bench.run("import", &args("requests-cache", &folder)).ended(3).said("1.yaml: it is written by yaml");
}

#[test]
fn what_a_directory_of_dbm_dumb_has_lost_is_told() {
    let lines = fs::read_to_string(data("scrapy/dumb.db.dir")).expect("text");
    let cut = |lines: &str, number: usize| lines.split_inclusive('\n').take(number).collect::<String>();
    // There are eight keys, two for each entry.
    for (directory, stored, damaged, words) in [
        (String::new(), 0, 1, "with 4 responses and 4 times, have no name"),
        (cut(&lines, 6), 3, 1, "with 1 response and 1 time, have no name"),
        (cut(&lines, 7), 3, 2, "with 0 responses and 1 time, have no name"),
        (lines[..lines.len() - 3].to_owned(), 3, 3, "line 8 of the directory cannot be read"),
        (lines.clone(), 4, 0, ""),
    ] {
        let (bench, cache) = (Bench::new(), Bench::new());
        fs::create_dir(cache.store()).expect("made");
        fs::copy(data("scrapy/dumb.db.dat"), cache.store().join("dumb.db.dat")).expect("copied");
        fs::write(cache.store().join("dumb.db.dir"), &directory).expect("written");
        let order = args("scrapy-httpcache", &cache.store()).into_iter().map(str::to_owned).collect::<Vec<_>>();
        let ran = bench.run("import", &order).ended(if damaged > 0 { 3 } else { 0 }).said(words);
        let line = &ran.json()[0];
        assert_eq!((&line["stored"], &line["damaged"]), (&stored.into(), &damaged.into()), "{directory}{line}");
        // The previous directory has the missing keys.
        fs::write(cache.store().join("dumb.db.bak"), &lines).expect("written");
        let again = bench.run("import", &order);
        let said = again.words.contains(&format!("(.bak) has {} ", 4 - line["stored"].as_u64().expect("a number")));
        assert_eq!(said, stored < 4, "{}", again.words);
    }
}

#[test]
fn a_value_that_was_replaced_is_no_loss() {
    let (bench, cache) = (Bench::new(), Bench::new());
    fs::create_dir(cache.store()).expect("made");
    let mut values = fs::read(data("scrapy/dumb.db.dat")).expect("read");
    let lines = fs::read_to_string(data("scrapy/dumb.db.dir")).expect("text");
    let first = lines.lines().next().expect("a line");
    let (key, place) = first.split_once("_data', (0, ").expect("the first response, at byte 0");
    let bytes: usize = place.trim_end_matches(')').parse().expect("a number");
    let (older, at) = (values[..bytes].to_vec(), values.len().next_multiple_of(512));
    values.resize(at, 0);
    values.extend(older);
    fs::write(cache.store().join("dumb.db.dat"), values).expect("written");
    let directory = lines.replace(first, &format!("{key}_data', ({at}, {bytes})"));
    fs::write(cache.store().join("dumb.db.dir"), directory).expect("written");
    let ran = bench.run("import", &args("scrapy-httpcache", &cache.store())).ended(0).said("what was replaced since");
    assert_eq!(ran.json()[0]["stored"], 4);
}

/// Creates a FIFO.
fn fifo(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo runs");
    assert!(made.success());
}

#[test]
fn a_pipe_in_a_cache_is_named_and_not_waited_for() {
    let bench = Bench::new();
    let cache = bench.path("cache");
    copy(&data("scrapy"), &cache);
    let entry = cache.join("docs/ed").join(POST);
    for name in ["notes", "pipe.db", "dumb.db.bak", "a.db.dat", "lite.db-journal"] {
        fifo(&cache.join(name));
    }
    fs::write(cache.join("a.db.dir"), "").expect("written");
    fs::remove_file(entry.join("response_body")).expect("removed");
    fifo(&entry.join("response_body"));
    std::os::unix::net::UnixListener::bind(cache.join("docs/ed/socket")).expect("a socket");
    let ran = bench.run("import", &args("scrapy-httpcache", &cache)).ended(3);
    let line = &ran.json()[0];
    // Four of 20 entries are in the table next to the journal.
    assert_eq!((&line["stored"], &line["damaged"], &line["ignored"]), (&15.into(), &4.into(), &2.into()), "{line}");
    let said =
        ["pipe.db: it is not a regular file", "a.db.dat: it is not", "response_body cannot", "lite.db-journal is not"];
    assert!(said.iter().all(|words| ran.words.contains(words)), "{}", ran.words);

    let files = bench.path("files");
    copy(&data("requests-1.3-files"), &files);
    fifo(&files.join("0.json"));
    let ran = bench.run("import", &args("requests-cache", &files)).ended(3).said("0.json: it is not a regular file");
    assert_eq!((&ran.json()[0]["records"], &ran.json()[0]["damaged"]), (&6.into(), &1.into()));
    bench.run("import", &args("requests-cache", &cache.join("notes"))).ended(2).said("not a regular file");
    let table = bench.path("table.sqlite");
    copy(&data("requests-1.3-pickle.sqlite"), &table);
    fifo(&bench.path("table.sqlite-wal"));
    bench.run("import", &args("requests-cache", &table)).ended(2).said("table.sqlite-wal is not a regular file");
}

#[test]
fn a_folder_without_an_entry_is_no_empty_cache() {
    let bench = Bench::new();
    let folder = bench.path("folder");
    fs::create_dir_all(folder.join("src/deep")).expect("made");
    for kind in ["scrapy-httpcache", "requests-cache"] {
        bench.run("import", &args(kind, &folder)).ended(2).said("nothing in it is an entry of");
    }
    fs::write(folder.join("notes.txt"), "mine").expect("written");
    let ran = bench.run("import", &args("scrapy-httpcache", &folder)).ended(2).said("notes.txt").said("HTTPCACHE_DIR");
    assert_eq!((&ran.json()[0]["ignored"], ran.json()[0]["not_read"].as_array().map(Vec::len)), (&2.into(), Some(1)));
    assert!(!bench.store().exists());
    // A spider that has cached nothing yet, and a cache that was truncated before its first byte.
    for name in ["new.db.dat", "new.db.dir"] {
        fs::write(folder.join(name), "").expect("written");
    }
    bench.run("import", &args("scrapy-httpcache", &folder)).ended(0);
    fs::write(folder.join("cut.db"), "").expect("written");
    bench.run("import", &args("scrapy-httpcache", &folder)).ended(3).said("cut.db: the file is empty");
    let files = bench.path("files");
    fs::create_dir(&files).expect("made");
    fs::write(files.join("redirects.sqlite"), "").expect("written");
    bench.run("import", &args("requests-cache", &files)).ended(0);
    fs::write(files.join("1.json"), "").expect("written");
    bench.run("import", &args("requests-cache", &files)).ended(3).said("1.json: it is empty");
}
