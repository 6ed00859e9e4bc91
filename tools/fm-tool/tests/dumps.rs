//! Dumps in every format: where they are written, which files are never overwritten, the rest of a
//! killed dump, and loading them again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::harness::{Bench, Ran, warc};
use serde_json::Value;

const SAMPLES: [&str; 4] = ["IAH-urls-wget.warc.gz", "example.warc.gz", "cc.warc.gz", "python-docs.warc.gz"];

/// A store with all pages of the samples.
fn bench() -> Bench {
    let bench = Bench::new();
    let keep = ["--keep", "request,metadata"].map(PathBuf::from);
    let args: Vec<PathBuf> = keep.into_iter().chain(SAMPLES.map(warc)).collect();
    bench.run("import", &args).ended(0);
    bench
}

/// Runs `dump STORE ARGS... -o FOLDER/out`.
fn dump(bench: &Bench, args: &[&str]) -> Ran {
    let out = bench.path("out");
    bench.run("dump", &[args, &["-o", out.to_str().unwrap()]].concat())
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The sorted lines of a dump; they are equal for equal stores.
fn lines(bench: &Bench, args: &[&str]) -> Vec<String> {
    let mut lines: Vec<String> = bench.run("dump", args).ended(0).text().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn every_form_in_one_pass_and_an_equal_store_from_each() {
    let from = bench();
    let said = dump(&from, &["--format", "warc,cdxj,jsonl,files", "--roll", "200kB"]).ended(0).words;
    assert!(said.contains("versions written to 7 files"), "{said}");
    let out = from.path("out");
    let expected = [
        "pages-00000.warc.gz",
        "pages-00001.warc.gz",
        "pages-00002.warc.gz",
        "pages-00003.warc.gz",
        "pages.cdxj",
        "pages.files",
        "pages.files.jsonl",
        "pages.jsonl",
    ];
    assert_eq!(names(&out), expected);
    let (by_warc, by_lines) = (Bench::new(), Bench::new());
    let files: Vec<PathBuf> = expected[..4].iter().map(|name| out.join(name)).collect();
    by_warc.run("import", &files).ended(0);
    by_lines.run("load", &[out.join("pages.jsonl")]).ended(0);
    let all = lines(&from, &[]);
    assert!(all.len() > 150);
    assert!(lines(&by_warc, &[]) == all && lines(&by_lines, &[]) == all);
    let again = by_lines.run("load", &["--json".as_ref(), out.join("pages.jsonl").as_os_str()]).ended(0).json();
    assert_eq!((&again[0]["stored"], &again[0]["already_there"]), (&Value::from(0), &Value::from(all.len())));
}

#[test]
fn a_dump_goes_through_a_pipe_into_another_store() {
    let (from, to) = (bench(), Bench::new());
    let text = from.run::<&str>("dump", &[]).ended(0).out;
    to.feed::<&str>("load", &[], &text).ended(0).said("standard input");
    assert!(lines(&to, &[]) == lines(&from, &[]));
    let archive = from.run("dump", &["--format", "warc", "-o", "-"]).ended(0).out;
    assert_eq!(archive[..3], [0x1f, 0x8b, 8], "gzip");
    let by_warc = Bench::new();
    by_warc.feed("import", &["-"], &archive).ended(0);
    assert!(lines(&by_warc, &[]) == lines(&from, &[]));
}

#[test]
fn import_knows_json_lines_by_their_content_and_load_prints_fewer_fields() {
    let from = bench();
    let text = [b"\n\n".to_vec(), from.run::<&str>("dump", &[]).ended(0).out].concat();
    let (by_file, by_pipe) = (Bench::new(), Bench::new());
    let file = by_file.path("pages");
    fs::write(&file, &text).unwrap();
    let imported = by_file.run("import", &["--json".as_ref(), file.as_os_str()]).ended(0).json();
    by_pipe.feed("import", &["-"], &text).ended(0).said("standard input");
    let all = lines(&from, &[]);
    assert!(lines(&by_file, &[]) == all && lines(&by_pipe, &[]) == all);
    let bad = by_pipe.feed("import", &["--json", "-"], b"\n{\"url\":\n").ended(3).said("offset 1: line 2: ");
    assert_eq!(bad.json()[0]["problems"][0]["line"], 2);
    let loaded = by_pipe.feed("load", &["--json"], &text).ended(0).json();
    let fields = |line: &Value| line.as_object().unwrap().len();
    assert!(loaded.len() == 1 && fields(&loaded[0]) == 12 && fields(&imported[0]) > 20);
    assert_eq!((&loaded[0]["already_there"], &loaded[0]["damaged"]), (&Value::from(all.len()), &Value::from(0)));
}

#[test]
fn filters_choose_and_several_must_all_be_met() {
    let bench = bench();
    let number = |args: &[&str]| lines(&bench, args).len();
    let pages = bench.run::<&str>("ls", &[]).ended(0).text().lines().count();
    assert_eq!(number(&["--newest"]), pages);
    assert_eq!(number(&["--newest", "--host", "docs.python.localhost"]), 54);
    assert_eq!(number(&["--newest", "--host", "localhost", "--subdomains"]), 54);
    assert_eq!(number(&["--host", "localhost"]), 0);
    let prefix = ["--prefix", "http://docs.python.localhost/3.11/howto/"];
    let listed = bench.run("ls", &prefix).ended(0).text().lines().count();
    assert!((1..54).contains(&listed));
    assert_eq!(number(&[&["--newest"], &prefix[..]].concat()), listed);
    assert_eq!(number(&["--host", "example.com", "--from", "2017-03-06T04:03:00Z", "--status", "2xx"]), 1);
    assert_eq!(number(&["--host", "example.com", "--to", "2017-03-06T04:03:00Z", "--status", "200"]), 1);
    assert_eq!(number(&["--host", "example.com", "--status", "404"]), 0);
    let images = number(&["--newest", "--mime", "image/*"]);
    assert!((1..pages).contains(&images));
    assert_eq!(
        number(&["--newest", "--mime", "image/*,text/html"]),
        images + number(&["--newest", "--mime", "text/html"])
    );
    assert_eq!(number(&["--limit", "3"]), 3);
    bench.run("dump", &["--status", "ok"]).ended(2).said("2xx");
    assert_eq!(
        number(&["--newest", "--mime", "image/*, text/html"]),
        number(&["--newest", "--mime", "text/html,image/*"])
    );
    for malformed in ["html", "text/", "/html", "text/html; charset=utf-8", "image/*,", "*/html"] {
        bench.run("dump", &["--mime", malformed]).ended(2).said("is not a media type; write text/html");
    }
    bench.run("dump", &["--subdomains"]).ended(2);
}

#[test]
fn nothing_is_written_over_unless_that_was_asked_for() {
    let bench = bench();
    let formats = ["--format", "warc,cdxj,files", "--newest"];
    dump(&bench, &formats).ended(0);
    let out = bench.path("out");
    let before = fs::read(out.join("pages-00000.warc.gz")).unwrap();
    fs::write(out.join("mine.txt"), "mine").unwrap();
    dump(&bench, &formats).ended(2).said("pages").said("--overwrite");
    dump(&bench, &[&formats[..], &["--name", "other"]].concat()).ended(0);
    let other = fs::read(out.join("other-00000.warc.gz")).unwrap();
    dump(&bench, &[&formats[..], &["--overwrite", "--limit", "1"]].concat()).ended(0);
    assert!(fs::read(out.join("pages-00000.warc.gz")).unwrap().len() < before.len());
    assert!(fs::read(out.join("other-00000.warc.gz")).unwrap() == other, "another dump's file stays");
    assert_eq!(fs::read(out.join("mine.txt")).unwrap(), b"mine");

    let file = bench.path("pages.jsonl");
    let to_file = |args: &[&str]| bench.run("dump", &[args, &["-o", file.to_str().unwrap()]].concat());
    to_file(&[]).ended(0);
    to_file(&[]).ended(2).said("--overwrite");
    to_file(&["--overwrite"]).ended(0);
}

#[test]
fn arguments_that_make_no_sense_make_nothing() {
    let bench = bench();
    for (args, words) in [
        (&["--format", "cdxj", "-o", "out"][..], "warc,cdxj"),
        (&["--format", "warc"], "-o"),
        (&["--format", "warc,jsonl", "-o", "-"], "folder"),
        (&["--roll", "0"], "size"),
    ] {
        bench.run("dump", args).ended(2).said(words);
    }
    let inside = bench.store();
    bench.run("dump", &["--format", "warc", "-o", inside.to_str().unwrap()]).ended(2).said("lies in a store");
    let below = bench.store().join("a/b/c");
    bench.run("dump", &["--format", "files", "-o", below.to_str().unwrap()]).ended(2).said("lies in a store");
    bench.run::<&str>("verify", &[]).ended(0);
}

#[test]
fn a_tree_of_files_holds_the_bodies_and_its_list_the_rest() {
    let bench = bench();
    dump(&bench, &["--format", "files", "--newest", "--host", "docs.python.localhost"]).ended(0);
    let out = bench.path("out");
    let list = fs::read_to_string(out.join("pages.files.jsonl")).unwrap();
    assert_eq!(list.lines().count(), 54);
    for line in list.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let Some(file) = line["file"].as_str() else { continue };
        let body = bench.run("get", &[line["url"].as_str().unwrap()]).ended(0).out;
        assert!(fs::read(out.join(file)).unwrap() == body, "{file}");
    }
    assert!(out.join("pages.files/docs.python.localhost/3.11/tutorial/index.html").is_file());
}

#[test]
fn what_plain_files_have_no_place_for_is_counted_and_said() {
    let bench = bench();
    let versions = lines(&bench, &[]).len() as u64;
    let ran = dump(&bench, &["--format", "files", "--json"]).ended(0).said("beside pages (requests");
    let report = &ran.json()[0];
    let listed = fs::read_to_string(bench.path("out").join("pages.files.jsonl")).unwrap().lines().count() as u64;
    assert_eq!(report["written"], listed);
    assert!(listed < versions && report["without_place"] == versions - listed, "{report}");
    let both = bench.path("both");
    let ran = bench.run("dump", &["--format", "jsonl,files", "--json", "-o", both.to_str().unwrap()]).ended(0);
    assert_eq!(
        (&ran.json()[0]["written"], &ran.json()[0]["without_place"]),
        (&versions.into(), &0.into()),
        "lines have a place"
    );
}

/// Sends a signal directly: running the `kill` program would take too long.
fn interrupt(child: &mut std::process::Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
}

/// Stops a dump in its middle, once the file `begun` is there. Returns its exit code and messages.
/// On a busy machine it may end before: then another is begun.
fn stopped(
    bench: &Bench,
    args: &[&str],
    out: &Path,
    begun: &Path,
    stop: &dyn Fn(&mut std::process::Child),
) -> (Option<i32>, String) {
    for _ in 0..20 {
        // Left by the one before.
        let _ = (fs::remove_dir_all(out), fs::remove_file(out), fs::remove_file(begun));
        let mut command = bench.command("dump");
        let mut child = command.args(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let is_at_work = loop {
            if child.try_wait().unwrap().is_some() {
                break false;
            }
            if begun.exists() {
                break true;
            }
            std::thread::yield_now();
        };
        if is_at_work {
            stop(&mut child);
        }
        let output = child.wait_with_output().unwrap();
        if !output.status.success() {
            return (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned());
        }
    }
    panic!("twenty dumps ended before they could be stopped");
}

/// A store that takes a while to dump.
fn large() -> Bench {
    let bench = Bench::new();
    let text: String = (0..4000u32)
        .map(|at| {
            let body: String = (0..200u32)
                .map(|word| format!("{:x} ", at.wrapping_mul(0x9e37_79b9) ^ word.wrapping_mul(77_777)))
                .collect();
            format!("{{\"url\":\"http://a/{at}\",\"time_ms\":1,\"status\":200,\"body\":\"{body}\"}}\n")
        })
        .collect();
    bench.feed::<&str>("load", &[], text.as_bytes()).ended(0);
    bench
}

#[test]
fn one_warc_file_is_what_its_name_says() {
    let bench = bench();
    let all = lines(&bench, &[]);
    for (name, magic) in
        [("a.b.warc.gz", &[0x1f, 0x8b, 8][..]), ("pages.warc.zst", &[0x28, 0xb5, 0x2f, 0xfd]), ("x.warc", b"WARC/1.1")]
    {
        let path = bench.path(name);
        let to = |args: &[&str]| {
            bench.run("dump", &[&["--format", "warc", "-o", path.to_str().unwrap()][..], args].concat())
        };
        to(&[]).ended(0).said("1 file");
        assert!(path.is_file(), "{name} is a file");
        let bytes = fs::read(&path).unwrap();
        assert!(bytes.starts_with(magic) || name.ends_with("zst") && bytes.starts_with(&[0x5d, 0x2a, 0x4d, 0x18]));
        if name == "x.warc" {
            let first = String::from_utf8_lossy(&bytes[..300]).into_owned();
            assert!(first.contains("WARC-Filename: x.warc\r\n"), "{first}");
        }
        let back = Bench::new();
        back.run("import", &[&path]).ended(0);
        assert!(lines(&back, &[]) == all, "{name}");
        to(&[]).ended(2).said("--overwrite");
        to(&["--overwrite", "--limit", "1"]).ended(0);
        assert!(fs::read(&path).unwrap().len() < bytes.len());
    }
    let file = bench.path("new.warc.gz");
    let file = file.to_str().unwrap();
    for args in [
        &["--format", "warc,cdxj"][..],
        &["--format", "warc", "--compression", "none"],
        &["--format", "warc", "--roll", "1MB"],
        &["--format", "warc", "--name", "other"],
    ] {
        bench.run("dump", &[args, &["-o", file]].concat()).ended(2).said("is one WARC file");
        assert!(!Path::new(file).exists());
    }
}

#[test]
fn a_wacz_file_is_written_whole_and_taken_in() {
    let bench = bench();
    let path = bench.path("crawl.wacz");
    let wacz =
        |args: &[&str]| bench.run("dump", &[&["--format", "wacz", "-o", path.to_str().unwrap()][..], args].concat());
    let report = wacz(&["--json", "--roll", "300kB"]).ended(0).json();
    assert_eq!(report[0]["files"], serde_json::json!(["crawl.wacz"]));
    assert!(path.is_file() && !bench.path("crawl.wacz.open").exists());
    let back = Bench::new();
    let report = back.run("import", &["--json".as_ref(), path.as_os_str()]).ended(0).json();
    assert_eq!(report[0]["damaged"], 0);
    assert!(lines(&back, &[]) == lines(&bench, &[]));
    wacz(&[]).ended(2).said("--overwrite");
    for args in [&["--compression", "zstd"][..], &["--format", "warc"]] {
        wacz(args).ended(2).said("WACZ");
    }
    bench.run("dump", &["--format", "wacz"]).ended(2).said("-o NAME.wacz");
    bench
        .run("dump", &["--format", "wacz", "-o", bench.store().join("x").to_str().unwrap()])
        .ended(2)
        .said("in a store");

    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 10]).unwrap();
    Bench::new().run("import", &[&path]).ended(3).said("the zip file is damaged");
}

#[test]
fn a_parquet_file_has_a_row_for_each_version_and_is_written_whole() {
    let bench = bench();
    let path = bench.path("crawl.parquet");
    let to = |out: &Path, args: &[&str]| {
        bench.run("dump", &[&["--format", "parquet", "-o", out.to_str().unwrap()][..], args].concat())
    };
    let rows =
        |args: &[&str]| to(&path, &[&["--json", "--overwrite"], args].concat()).ended(0).json()[0]["written"].clone();
    assert_eq!(to(&path, &["--json"]).ended(0).json()[0]["files"], serde_json::json!(["crawl.parquet"]));
    let bytes = fs::read(&path).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1") && !bench.path("crawl.parquet.open").exists());
    to(&path, &[]).ended(2).said("--overwrite");
    for args in [&[][..], &["--newest"], &["--newest", "--host", "docs.python.localhost"], &["--status", "2xx"]] {
        assert_eq!(rows(args), lines(&bench, args).len(), "{args:?}");
    }
    assert_eq!(rows(&["--limit", "3"]), 3);
    let folder = bench.path("out");
    to(&folder, &[]).ended(0);
    assert_eq!(names(&folder), ["pages.parquet"]);
    to(&folder, &[]).ended(2).said("--overwrite");
    for args in [&["--compression", "zstd"][..], &["--roll", "1MB"], &["--format", "warc"]] {
        to(&bench.path("new.parquet"), args).ended(2).said("Parquet");
    }
    assert!(!bench.path("new.parquet").exists());
    bench.run("dump", &["--format", "parquet"]).ended(2).said("-o NAME.parquet");
    bench.run("dump", &["--format", "parquet", "-o", "-"]).ended(2).said("-o NAME.parquet");
    to(&bench.store().join("x.parquet"), &[]).ended(2).said("in a store");
}

#[test]
fn a_dump_that_is_interrupted_leaves_no_unfinished_file_that_looks_finished() {
    let bench = large();
    let out = bench.path("out");
    let args = ["--format", "warc,cdxj,jsonl,files", "--roll", "100kB", "-o", out.to_str().unwrap()];
    let (code, words) = stopped(&bench, &args, &out, &out.join("pages-00001.warc.gz"), &interrupt);
    assert_eq!(code, Some(130), "{words}");
    assert!(words.contains("not all") && words.contains(".open"), "{words}");
    let names = names(&out);
    for name in ["pages.jsonl", "pages.files.jsonl"] {
        assert!(!names.contains(&name.to_owned()) && names.contains(&format!("{name}.open")), "{names:?}");
    }
    assert!(!names.iter().any(|name| name.contains(".cdxj")), "an index of a part: {names:?}");
    let volumes: Vec<&String> = names.iter().filter(|name| name.contains(".warc.gz")).collect();
    let (last, whole) = volumes.split_last().unwrap();
    assert!(last.ends_with(".warc.gz.open") && whole.iter().all(|name| name.ends_with(".warc.gz")), "{names:?}");
    let back = Bench::new();
    back.run("import", &whole.iter().map(|name| out.join(name)).collect::<Vec<_>>()).ended(0);

    for (format, name) in [("wacz", "one.wacz"), ("jsonl", "one.jsonl"), ("parquet", "one.parquet")] {
        let (whole, open) = (bench.path(name), bench.path(&format!("{name}.open")));
        let args = ["--format", format, "-o", whole.to_str().unwrap()];
        let (code, words) = stopped(&bench, &args, &whole, &open, &interrupt);
        assert_eq!(code, Some(130), "{name}: {words}");
        assert!(open.exists() && !whole.exists(), "{name}");
    }
}

#[test]
fn a_dump_that_is_killed_leaves_whole_files_and_one_that_says_it_is_not() {
    let bench = large();
    let out = bench.path("out");
    let args = ["--format", "warc", "--roll", "100kB", "-o", out.to_str().unwrap()];
    // Killed when the second file is complete: most of the dump is still missing.
    let (code, words) = stopped(&bench, &args, &out, &out.join("pages-00001.warc.gz"), &|child| child.kill().unwrap());
    assert_eq!(code, None, "{words}");
    let names = names(&out);
    let open: Vec<&String> = names.iter().filter(|name| name.ends_with(".open")).collect();
    assert!((1..=2).contains(&open.len()) && names.len() >= 3, "{names:?}");
    let to = Bench::new();
    let whole: Vec<PathBuf> = names.iter().filter(|name| !name.ends_with(".open")).map(|name| out.join(name)).collect();
    to.run("import", &whole).ended(0);
    bench.run("dump", &args).ended(2).said("--overwrite");
    bench.run("dump", &[&args[..], &["--overwrite"]].concat()).ended(0);
    assert!(
        !fs::read_dir(&out).unwrap().any(|entry| entry.unwrap().path().extension().is_some_and(|end| end == "open"))
    );
}

#[test]
fn a_bad_line_is_said_with_its_number_and_costs_itself_only() {
    let bench = Bench::new();
    let good = |url: &str| format!("{{\"url\":\"{url}\",\"time_ms\":1,\"body\":\"x\"}}\n");
    let text =
        [good("http://a/"), "\n".to_owned(), "{\"url\":\n".to_owned(), good("no url"), good("http://b/")].concat();
    let ran = bench.feed("load", &["-", "--json"], text.as_bytes()).ended(3);
    let ran = ran.said("standard input: line 3 (offset ").said("standard input: line 4 (offset ");
    let report = &ran.json()[0];
    assert_eq!((&report["stored"], &report["damaged"], &report["unusable"]), (&2.into(), &1.into(), &1.into()));
    assert_eq!(report["problems"][0]["line"], 3);
    assert_eq!(bench.run::<&str>("ls", &[]).ended(0).text().lines().count(), 2);
}

#[test]
fn a_body_that_was_damaged_in_a_dump_is_named_and_not_loaded() {
    let from = Bench::new();
    for (url, body) in [("http://a/", "the first"), ("http://b/", "the second"), ("http://c/", "the third")] {
        from.feed("put", &[url, "-", "--time", "2020"], body.as_bytes()).ended(0);
    }
    let dump = from.run::<&str>("dump", &[]).ended(0).text().replace("the second", "the sexond");
    let bench = Bench::new();
    let file = bench.path("pages.jsonl");
    fs::write(&file, &dump).unwrap();
    let ran = bench.run("load", &[file.to_str().unwrap(), "--json"]).ended(3);
    let ran = ran.said("pages.jsonl: line 2 (offset ").said("http://b/: the body is damaged");
    let report = &ran.json()[0];
    assert_eq!((&report["stored"], &report["damaged"], &report["unusable"]), (&2.into(), &1.into(), &0.into()));
    let listed = bench.run::<&str>("ls", &[]).ended(0);
    let mut listed: Vec<&str> = listed.text().lines().collect();
    listed.sort_unstable();
    assert_eq!(listed, ["http://a/", "http://c/"]);
    // A dump by an earlier version has no such notes, and still loads.
    let unnoted: String = dump.lines().map(|line| without_note(line) + "\n").collect();
    let bench = Bench::new();
    bench.feed("load", &["-"], unnoted.as_bytes()).ended(0);
    assert_eq!(bench.run::<&str>("ls", &[]).ended(0).text().lines().count(), 3);
}

fn without_note(line: &str) -> String {
    let mut page: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
    assert_eq!(page.remove("body_xxh3").and_then(|digits| digits.as_str().map(str::len)), Some(16));
    serde_json::Value::Object(page).to_string()
}

#[test]
fn a_line_that_leaves_out_the_body_or_says_two_times_or_what_no_page_has_is_refused() {
    let page = |fields: &str| format!("{{\"url\":\"http://a/\"{fields}}}\n");
    for (fields, why) in [
        (",\"time_ms\":1000", "lacks the field `body`"),
        (",\"time_ms\":1000,\"body\":null", "lacks the field `body`"),
        (",\"body\":\"x\"", "lacks the field `time`"),
        (",\"time\":\"yesterday\",\"body\":\"x\"", "field `time`"),
        (",\"time\":\"yesterday\",\"time_ms\":1000,\"body\":\"x\"", "field `time`"),
        (",\"time\":\"1970-01-01T00:00:02Z\",\"time_ms\":1000,\"body\":\"x\"", "not the same time"),
        (",\"time_ms\":1000,\"body\":\"x\",\"body_base64\":\"eA==\"", "field `body`"),
        (",\"time_ms\":1000,\"body\":\"x\",\"staus\":404", "unknown field `staus`"),
        (",\"time_ms\":1000,\"body\":\"x\",\"headers\":[{\"name\":\"A\",\"vale\":\"b\"}]", "unknown field `vale`"),
    ] {
        let bench = Bench::new();
        bench.feed("load", &["-"], page(fields).as_bytes()).ended(3).said("line 1").said(why);
    }
    let bench = Bench::new();
    for fields in [
        ",\"time\":\"1970-01-01T00:00:01Z\",\"time_ms\":1234,\"body\":\"\"",
        ",\"time\":\"1970-01-01T01:00:02.345+01:00\",\"time_ms\":2345,\"body\":\"x\"",
        ",\"time\":\"1970-01-01T00:00:03Z\",\"body_base64\":\"eA==\"",
    ] {
        bench.feed("load", &["-"], page(fields).as_bytes()).ended(0);
    }
    assert_eq!(lines(&bench, &[]).len(), 3);
}

#[test]
fn a_dump_to_a_folder_reports_itself_as_json() {
    let bench = bench();
    let report = dump(&bench, &["--format", "warc,cdxj", "--json"]).ended(0).json();
    assert_eq!(report[0]["files"], serde_json::json!(["pages-00000.warc.gz", "pages.cdxj"]));
    let bytes = fs::metadata(bench.path("out").join("pages-00000.warc.gz")).unwrap().len();
    assert_eq!(report[0]["warc_bytes"], bytes);
}
