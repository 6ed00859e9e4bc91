//! A store over several folders, filled by `import` and `load`, and read by `dump` and `top`: as
//! one folder, also after a kill, on a full disk, and with revisits under other hosts.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::{self, Bench, PAGE_BYTES, PAGE_CRC, PAGE_URL, Ran, run, tool, warc};

const SAMPLES: [&str; 3] = ["example.warc.gz", "cc.warc.gz", "python-docs.warc.gz"];

/// The folders of a store, beside that of the bench, and its location.
fn folders(bench: &Bench, name: &str) -> ([PathBuf; 2], String) {
    let paths = [1, 2].map(|number| bench.path(&format!("{name}{number}.fm")));
    let location = format!("shards:{},{}", paths[0].display(), paths[1].display());
    (paths, location)
}

fn with(verb: &str, location: &str, args: &[&str]) -> Ran {
    run(tool().arg(verb).arg(location).args(args))
}

/// The samples as arguments.
fn samples() -> Vec<String> {
    SAMPLES.map(|name| warc(name).to_str().expect("text").to_owned()).to_vec()
}

fn import(location: &str, args: &[&str]) -> Ran {
    with("import", location, args)
}

/// A page of a host whose pages are in this folder of two.
fn page_of(member: u32) -> String {
    let mut urls = (0_u32..).map(|host| format!("http://host{host}.example/"));
    urls.find(|url| urlindex::shard(url, 2) == member).expect("hosts do not run out")
}

fn sorted(ran: &Ran) -> Vec<String> {
    let mut lines: Vec<String> = ran.text().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn an_import_makes_the_folders_and_fills_them_as_one_and_a_second_adds_nothing() {
    let bench = Bench::new();
    let (samples, (paths, location)) = (samples(), folders(&bench, "of"));
    let args: Vec<&str> = ["--json"].into_iter().chain(samples.iter().map(String::as_str)).collect();
    let alone = bench.run("import", &args).ended(0).json();
    let ran = import(&location, &args).ended(0).json();
    let counts =
        |lines: &[Value], name: &str| -> Vec<Option<u64>> { lines.iter().map(|line| line[name].as_u64()).collect() };
    for name in ["records", "stored", "unchanged", "body_bytes", "revisits", "unresolved_revisits"] {
        assert_eq!(counts(&ran, name), counts(&alone, name), "{name}");
    }
    assert_eq!(with("ls", &location, &[]).ended(0).out, bench.run::<&str>("ls", &[]).ended(0).out);
    for path in &paths {
        assert_ne!(run(tool().arg("count").arg(path)).ended(0).text(), "0\n", "each folder has pages");
    }
    assert_eq!(crc32fast::hash(&with("get", &location, &[PAGE_URL]).ended(0).out), PAGE_CRC);
    let again = import(&location, &args).ended(0).json();
    assert!(counts(&again, "stored").iter().flatten().all(|stored| *stored == 0), "{again:?}");
    with("verify", &location, &[]).ended(0).said("2 folders are one store");
    let sample = samples[0].as_str();
    import(&location, &["--exact-urls", sample]).ended(2).said("whatwg");
    import(&location, &["--in-place", sample]).ended(2).said("--in-place is for a store in one folder");
    import(&location, &["--adopt"]).ended(2).said("run it on the path of each");
}

#[test]
fn a_store_that_must_exist_is_not_made_and_a_new_one_is_said() {
    let bench = Bench::new();
    let (paths, location) = folders(&bench, "of");
    let sample = &samples()[0];
    // A mount point without its disk.
    fs::create_dir(&paths[0]).expect("made");
    for args in [
        &["import", &location, "--must-exist", sample][..],
        &["put", &location, "--must-exist", PAGE_URL, "Cargo.toml"],
    ] {
        run(tool().args(args)).ended(2).said("is not a FileMap store");
    }
    bench.run("import", &["--must-exist", sample]).ended(2).said("is not a FileMap store");
    assert!(!paths[1].exists() && !bench.store().exists());
    import(&location, &[sample]).ended(0).said("a new store over 2 folders was made");
    let again = import(&location, &["--must-exist", sample]).ended(0);
    assert!(!again.words.contains("a new store"), "{}", again.words);
}

#[test]
fn an_import_that_stores_nothing_makes_no_folder() {
    let bench = Bench::new();
    let (paths, location) = folders(&bench, "of");
    let file = bench.path("bad.jsonl");
    fs::write(&file, "{}\n").expect("written");
    import(&location, &[file.to_str().expect("text")]).ended(3).said("was not made");
    assert!(paths.iter().all(|path| !path.exists()));
    // One of two folders is not the store.
    bench.run("put", &["http://a.example/", "Cargo.toml"]).ended(0);
    let location = format!("shards:{},{}", bench.store().display(), paths[0].display());
    import(&location, &[&samples()[0]]).ended(2).said("it has pages, and is not a member");
    assert!(!paths[0].exists());
}

#[test]
fn lines_of_a_dump_are_loaded_into_folders_and_dumped_from_them() {
    let bench = Bench::with(&SAMPLES);
    let (_, location) = folders(&bench, "of");
    let file = bench.path("pages.jsonl");
    bench.run("dump", &["-o", file.to_str().expect("text")]).ended(0);
    let versions = fs::read_to_string(&file).expect("text").lines().count();
    with("load", &location, &[file.to_str().expect("text")]).ended(0).said(&format!("{versions} versions stored"));
    with("load", &location, &[file.to_str().expect("text")]).ended(0).said(&format!("{versions} already there"));
    assert_eq!(sorted(&with("dump", &location, &[]).ended(0)), sorted(&bench.run::<&str>("dump", &[]).ended(0)));
    for args in [&["--newest"][..], &["--host", "docs.python.localhost"], &["--status", "200", "--prefix", "http:"]] {
        assert_eq!(sorted(&with("dump", &location, args).ended(0)), sorted(&bench.run("dump", args).ended(0)));
    }
    assert_eq!(with("dump", &location, &["--limit", "3"]).ended(0).text().lines().count(), 3);
    let load = Bench::new();
    let (_, into) = folders(&load, "of");
    with("load", &into, &[file.to_str().expect("text")]).ended(0);
    with("dump", &into, &["--format", "warc,cdxj", "-o", load.path("out").to_str().expect("text")]).ended(0);
    let made = load.path("out").join("pages-00000.warc.gz");
    load.run("import", &[&made]).ended(0);
    assert_eq!(load.run::<&str>("ls", &[]).ended(0).out, bench.run::<&str>("ls", &[]).ended(0).out);
    assert_eq!(load.run("get", &[PAGE_URL]).ended(0).out.len(), PAGE_BYTES);
    let table = load.path("pages.parquet");
    let args = ["--json", "--format", "parquet", "-o", table.to_str().expect("text")];
    let report = with("dump", &into, &args).ended(0).json();
    assert_eq!(report[0]["written"].as_u64(), Some(versions as u64), "{report:?}");
}

#[test]
fn the_heaviest_hosts_and_pages_are_those_of_all_folders() {
    let bench = Bench::with(&SAMPLES);
    let (_, location) = folders(&bench, "of");
    bench.run("copy", &[&location]).ended(0);
    for args in [&["--most-pages"][..], &["--most-versions", "--limit", "1000"], &["--most-pages", "--domain", "com"]] {
        assert_eq!(with("top", &location, args).ended(0).text(), bench.run("top", args).ended(0).text(), "{args:?}");
    }
    // What a version takes depends on the others in its folder.
    let sums = |ran: Ran| -> Vec<Value> {
        let mut lines = ran.ended(0).json();
        lines.iter_mut().for_each(|line| line["stored_bytes"] = Value::Null);
        lines
    };
    for args in [&["--json", "--sort", "bodies"][..], &["--json", "--largest", "--sort", "bodies"]] {
        assert_eq!(sums(with("top", &location, args)), sums(bench.run("top", args)), "{args:?}");
    }
}

#[test]
fn caches_of_other_programs_go_to_the_folder_of_their_key() {
    let bench = Bench::new();
    let (_, location) = folders(&bench, "of");
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/caches/requests-1.3-files");
    let cache = cache.to_str().expect("text");
    let args = ["--json", "--from", "requests-cache", cache];
    let alone = bench.run("import", &args).ended(0).json();
    let ran = import(&location, &args).ended(0).json();
    assert_eq!((&ran[0]["stored"], &ran[0]["variants"]), (&alone[0]["stored"], &alone[0]["variants"]));
    assert_eq!(import(&location, &args).ended(0).json()[0]["stored"], 0);
    assert_eq!(sorted(&with("dump", &location, &[]).ended(0)), sorted(&bench.run::<&str>("dump", &[]).ended(0)));
    with("verify", &location, &[]).ended(0);
}

fn record(kind: &str, url: &str, day: u32, fields: &str, body: &str) -> String {
    let block = format!("HTTP/1.1 200 OK\r\n\r\n{body}");
    format!(
        "WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nWARC-Date: 2020-01-{day:02}T00:00:00Z\r\n{fields}\
         Content-Type: application/http\r\nContent-Length: {}\r\n\r\n{block}\r\n\r\n",
        block.len()
    )
}

#[test]
fn a_revisit_whose_original_is_in_another_folder_counts_until_it_is_there_and_then_has_its_body() {
    let bench = Bench::new();
    let (_, location) = folders(&bench, "of");
    let (of, url) = (page_of(0), page_of(1));
    let fields = format!(
        "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest\r\n\
         WARC-Refers-To-Target-URI: {of}\r\nWARC-Refers-To-Date: 2020-01-01T00:00:00Z\r\n"
    );
    let (again, first) = (bench.path("again.warc"), bench.path("first.warc"));
    fs::write(&again, record("revisit", &url, 2, &fields, "")).expect("written");
    fs::write(&first, record("response", &of, 1, "", "here")).expect("written");

    import(&location, &[again.to_str().expect("text")]).ended(0).said("no body for 1 of 1 revisit").said(&url);
    let line = &with("verify", &location, &["--json"]).ended(0).json().pop().expect("a line");
    assert_eq!((&line["revisits"], &line["unresolved_revisits"]), (&1.into(), &1.into()));
    with("get", &location, &[&url, "--require-body"]).ended(1).said("no body");

    let ran = import(&location, &[first.to_str().expect("text")]).ended(0);
    assert!(!ran.words.contains("no body"), "{}", ran.words);
    let line = &import(&location, &["--json", again.to_str().expect("text")]).ended(0).json()[0];
    assert_eq!((&line["revisits"], &line["unresolved_revisits"]), (&1.into(), &0.into()));
    let ran = with("verify", &location, &[]).ended(0);
    assert!(!ran.words.contains("no body"), "{}", ran.words);
    for args in [&[url.as_str(), "--require-body"][..], &[url.as_str(), "--at", "2021"]] {
        assert_eq!(with("get", &location, args).ended(0).out, b"here", "{args:?}");
    }
    let newest = with("dump", &location, &["--newest"]).ended(0).json();
    assert!(newest.len() == 2 && newest.iter().all(|line| line["body"] == "here"), "{newest:?}");
}

#[test]
fn prunes_and_erasures_leave_a_revisit_the_body_of_an_original_in_another_folder() {
    let bench = Bench::new();
    let (_, location) = folders(&bench, "of");
    let (of, url) = (page_of(0), page_of(1));
    let fields = format!(
        "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest\r\n\
         WARC-Refers-To-Target-URI: {of}\r\nWARC-Refers-To-Date: 2020-01-01T00:00:00Z\r\n"
    );
    let file = bench.path("both.warc");
    fs::write(&file, record("response", &of, 1, "", "here") + &record("revisit", &url, 2, &fields, ""))
        .expect("written");
    import(&location, &[file.to_str().expect("text")]).ended(0);
    let body = || with("get", &location, &[&url, "--require-body"]).ended(0).out;

    let older = ["--older-than", "2020-01-02"];
    let planned = with("prune", &location, &[&older[..], &["--dry-run", "--json"]].concat()).ended(0).json();
    assert!(planned.iter().all(|line| line["versions"].as_u64().is_none_or(|versions| versions == 0)), "{planned:?}");
    with("prune", &location, &older).ended(0).said("0 versions");
    assert_eq!(body(), b"here");
    let erased = with("erase", &location, &["--url", &of, "--reason", "request 17"]).ended(0);
    erased.said("keep the body as their own");
    with("get", &location, &[&of]).ended(1);
    assert_eq!(body(), b"here");
    let line = &with("verify", &location, &["--json"]).ended(0).json().pop().expect("a line");
    assert_eq!(line["unresolved_revisits"], 0);
}

/// The number of pages in the WARC files below.
const PAGES: usize = 2000;

/// A WARC file with pages of seven hosts that hardly compress, or of this page's host alone.
fn write_warc(path: &Path, of: Option<&str>) -> String {
    let (mut warc, mut seed) = (String::new(), 0x9e37_79b9_7f4a_7c15_u64);
    for number in 0..PAGES {
        let mut body = String::new();
        for _ in 0..500 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let _ = write!(body, " {:x}", seed >> 8);
        }
        let url = match of {
            Some(page) => format!("{page}{number}"),
            None => format!("{}{number}", page_of(u32::from(number % 7 > 3))),
        };
        warc += &record("response", &url, 1, "", &body);
    }
    fs::write(path, &warc).expect("written");
    warc
}

#[test]
fn an_import_into_folders_that_is_killed_goes_on_and_loses_nothing() {
    let bench = Bench::new();
    let (paths, location) = folders(&bench, "of");
    let file = bench.path("pages.warc");
    let warc = write_warc(&file, None);
    let mut before = 0;
    for quarters in 1..=3 {
        let mut command = tool();
        command.arg("import").arg(&location).arg("-").stdin(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("it starts");
        // Only a part: the import is killed while it waits for more.
        let part = &warc.as_bytes()[..warc.len() / 4 * quarters];
        child.stdin.as_mut().expect("a pipe").write_all(part).expect("it reads");
        let bytes = |path: &PathBuf| fs::metadata(path.join("value0.dat")).map_or(0, |about| about.len());
        while paths.iter().any(|path| bytes(path) < (quarters as u64) << 16) {
            assert!(child.try_wait().expect("a child").is_none(), "it waits for the rest of its input");
            std::thread::yield_now();
        }
        child.kill().expect("killed");
        child.wait().expect("ended");

        let urls = with("ls", &location, &[]).ended(0).text().lines().count();
        assert!(urls >= before && (1..PAGES).contains(&urls), "{urls} URLs after {before}");
        before = urls;
        with("verify", &location, &[]).ended(0);
    }
    let last = import(&location, &["--json", file.to_str().expect("text")]).ended(0).json();
    let added = last[0]["stored"].as_u64().expect("a number") as usize;
    assert_eq!(last[0]["already_there"].as_u64().expect("a number") as usize + added, PAGES, "{last:?}");
    assert_eq!(with("dump", &location, &[]).ended(0).text().lines().count(), PAGES, "nothing was stored twice");
}

#[test]
fn a_full_disk_of_one_folder_is_named_and_the_import_goes_on_when_it_has_room() {
    let bench = Bench::new();
    let file = bench.path("large.warc");
    write_warc(&file, Some(&page_of(1)));
    let folder = bench.path("disk");
    fs::create_dir_all(&folder).expect("made");
    // The second folder is on a disk that is too small.
    let script = "mount -t tmpfs -o size=64m none \"$D\" && mkdir \"$D/small\" || exit 77\n\
                  mount -t tmpfs -o size=4m none \"$D/small\" || exit 77\n\
                  S=\"shards:$D/a.fm,$D/small/b.fm\"\n\
                  \"$T\" import --min-free 0 \"$S\" \"$W\"; echo $?\n\"$T\" count \"$S\"\n\
                  mount -o remount,size=64m \"$D/small\" && \"$T\" import -q --min-free 0 \"$S\" \"$W\"; echo $?\n\
                  \"$T\" verify -q \"$S\"; echo $?\n\"$T\" count \"$S\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", script]).env("D", &folder);
    let Ok(output) = command.env("T", harness::program()).env("W", &file).output() else { return };
    let words = String::from_utf8(output.stderr).expect("words are text");
    if output.status.code() == Some(77) || words.contains("unshare") {
        return;
    }
    let text = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() == 5, "{text}\n{words}");
    let safe: usize = lines[1].parse().expect("a number");
    for said in ["disk/small (tmpfs) is full", "the same command continues", &*format!("{safe} pages of this run")] {
        assert!(words.contains(said), "{said:?} not said in: {words}");
    }
    assert!(safe > 50 && safe < PAGES, "{safe}: {words}");
    assert_eq!((lines[0], &lines[2..]), ("2", &["0", "0", &*PAGES.to_string()][..]), "{words}");
}
