//! Input and arguments that are refused: the messages and exit codes; and that a refusal writes
//! nothing and loses nothing.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::harness::{self, Bench, PAGE_CRC, PAGE_URL, PAGES, run, tool, warc};

const READING_VERBS: [&str; 11] =
    ["get", "has", "head", "history", "ls", "count", "top", "stat", "verify", "dump", "rm"];

/// The arguments that a verb needs at least, after the store.
fn arguments(verb: &str) -> &'static [&'static str] {
    match verb {
        "get" | "has" | "head" | "history" | "rm" => &[PAGE_URL],
        _ => &[],
    }
}

fn entries(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn an_absent_store_is_an_error_and_is_never_made() {
    for verb in READING_VERBS {
        let bench = Bench::new();
        bench.run(verb, arguments(verb)).ended(2).said("pages.fm");
        assert!(!bench.store().exists(), "{verb} made the store");
    }
}

#[test]
fn a_folder_of_other_things_is_refused_and_left_as_it_was() {
    for verb in READING_VERBS.iter().chain(&["put", "import"]) {
        let bench = Bench::new();
        fs::create_dir(bench.store()).unwrap();
        fs::write(bench.store().join("letter.txt"), "dear").unwrap();
        let file = warc("example.warc.gz");
        let ran = match *verb {
            "put" => bench.feed(verb, &["http://example.com/"], b"body"),
            "import" => bench.run(verb, &[&file]),
            _ => bench.run(verb, arguments(verb)),
        };
        ran.ended(2).said("pages.fm");
        assert_eq!(entries(&bench.store()), ["letter.txt"], "{verb}");
    }
}

#[test]
fn a_file_in_the_stores_place_is_refused_and_left_as_it_was() {
    let bench = Bench::new();
    fs::write(bench.store(), "not a folder").unwrap();
    for verb in READING_VERBS {
        bench.run(verb, arguments(verb)).ended(2).said("pages.fm");
    }
    bench.run("import", &[warc("example.warc.gz")]).ended(2).said("pages.fm");
    assert_eq!(fs::read_to_string(bench.store()).unwrap(), "not a folder");
}

#[test]
fn a_second_writer_ends_with_4_and_readers_go_on() {
    let bench = Bench::with(&["python-docs.warc.gz"]);
    let writer = filemap::PageStore::open(bench.store(), filemap::Options::new()).unwrap();
    bench.feed("put", &[PAGE_URL], b"mine").ended(4).said(&std::process::id().to_string());
    bench.run("rm", &[PAGE_URL]).ended(4);
    bench.run("import", &[warc("example.warc.gz")]).ended(4);
    assert_eq!(crc32fast::hash(&bench.run("get", &[PAGE_URL]).ended(0).out), PAGE_CRC);
    bench.run::<&str>("verify", &[]).ended(0);
    writer.close().unwrap();
    bench.feed("put", &[PAGE_URL], b"mine").ended(0);
}

#[test]
fn bad_arguments_end_with_2_and_an_advice() {
    let bench = Bench::with(&["example.warc.gz"]);
    bench.run("get", &["http://example.com/", "--at", "yesterday"]).ended(2).said("2024-05-01T12:00:00Z");
    bench.run("get", &["http://example.com/", "--headers", "--response"]).ended(2).said("cannot be used with");
    bench.run::<&str>("get", &[]).ended(2).said("<URL>");
    bench.run::<&str>("fetch", &[]).ended(2).said("fetch");
    bench.run::<&str>("import", &[]).ended(2).said("<FILE>");
    bench.run("stat", &["--format", "xml"]).ended(2).said("openmetrics");
    bench.feed("put", &["http://example.com/", "-", "--header", "no colon"], b"").ended(2).said("Name: value");
    bench.run("put", &["http://example.com/", "absent.html"]).ended(2).said("absent.html");
    bench.feed("put", &["not a url"], b"x").ended(2).said("not a url");
}

#[test]
fn a_refused_put_makes_no_store() {
    let bench = Bench::new();
    bench.run("put", &["http://example.com/", "absent.html"]).ended(2);
    bench.feed("put", &["not a url"], b"x").ended(2);
    bench.run("import", &["absent.warc.gz"]).ended(2).said("absent.warc.gz");
    assert!(!bench.store().exists());
}

/// Runs the program in a shell that opens and closes its streams.
fn by_shell(script: &str, store: &Path) -> std::process::Output {
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", script]).env("TOOL", harness::program()).env("STORE", store).output().unwrap()
}

#[test]
fn a_put_of_an_input_that_is_closed_is_refused_and_one_that_is_empty_is_not() {
    let bench = Bench::new();
    let run = |script: &str| {
        let ended = by_shell(script, &bench.store());
        (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
    };
    for arguments in ["http://a/", "http://a/ -", "http://a/ /dev/null --method POST --data-file -"] {
        let (code, words) = run(&format!("\"$TOOL\" put \"$STORE\" {arguments} <&-"));
        assert!(code == Some(2) && words.contains("standard input is closed"), "{arguments}: {code:?} {words}");
        assert!(!bench.store().exists());
    }
    let file = bench.path("body");
    fs::write(&file, "x").unwrap();
    for script in [
        "\"$TOOL\" put \"$STORE\" http://a/ </dev/null".to_owned(),
        "printf '' | \"$TOOL\" put \"$STORE\" http://a/2".to_owned(),
        format!("\"$TOOL\" put \"$STORE\" http://b/ '{}' <&-", file.display()),
        format!("\"$TOOL\" put \"$STORE\" http://c/ <>'{}'", file.display()),
        "\"$TOOL\" put \"$STORE\" http://d/ </dev/null >&-".to_owned(),
    ] {
        assert_eq!(run(&script).0, Some(0), "{script}: {}", run(&script).1);
    }
    assert_eq!(bench.run("get", &["http://a/"]).ended(0).out, b"");
    assert_eq!(bench.run("get", &["http://c/"]).ended(0).out, b"x");
}

#[test]
fn a_url_over_the_limit_is_refused_and_nothing_is_written() {
    let bench = Bench::with(&["example.warc.gz"]);
    let before = bench.run::<&str>("ls", &[]).ended(0).out;
    let long = format!("http://example.com/{}", "a".repeat(70_000));
    bench.feed("put", &[&long], b"x").ended(2).said("65536");
    assert_eq!(bench.run::<&str>("ls", &[]).ended(0).out, before);
    let just = format!("http://example.com/{}", "a".repeat(60_000));
    bench.feed("put", &[&just], b"x").ended(0);
    assert_eq!(bench.run("get", &[&just]).ended(0).out, b"x");
}

#[test]
fn a_truncated_warc_gives_its_whole_records_and_ends_with_3() {
    let whole = fs::read(warc("python-docs.warc.gz")).unwrap();
    let bench = Bench::new();
    let cut = bench.path("cut.warc.gz");
    fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    let lines = bench.run("import", &["--json".as_ref(), cut.as_os_str()]).ended(3).said("cut.warc.gz").json();
    assert!(lines[0]["stored"].as_u64().unwrap() > 10, "{lines:?}");
    assert!(lines[0]["problems"][0]["offset"].as_u64().unwrap() > 0, "{lines:?}");
    assert_eq!(crc32fast::hash(&bench.run("get", &[PAGE_URL]).ended(0).out), PAGE_CRC);
    bench.run::<&str>("verify", &[]).ended(0);
}

#[test]
fn a_byte_flipped_in_a_warc_costs_that_record_only() {
    let mut bytes = fs::read(warc("python-docs.warc.gz")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    let bench = Bench::new();
    let flipped = bench.path("flipped.warc.gz");
    fs::write(&flipped, &bytes).unwrap();
    bench.run("import", &[&flipped]).ended(3).said("flipped.warc.gz");
    let urls = bench.run::<&str>("ls", &[]).ended(0).text().lines().count();
    assert!((PAGES - 2..=PAGES).contains(&urls), "{urls} of {PAGES} URLs");
}

#[test]
fn an_empty_file_and_one_that_is_no_warc_are_said_to_be_so() {
    let bench = Bench::new();
    let empty = bench.path("empty.warc");
    fs::write(&empty, "").unwrap();
    bench.run("import", &[&empty]).ended(3).said("empty.warc: offset 0:").said("0 pages");
    let letter = bench.path("letter.warc");
    fs::write(&letter, "Dear Sir or Madam,\nthis is not a WARC file.\n").unwrap();
    let good = warc("example.warc.gz");
    bench.run("import", &[&letter, &good]).ended(3).said("letter.warc");
    bench.run("get", &["http://example.com/"]).ended(0);
}

#[test]
fn damage_in_the_store_ends_with_3_and_names_file_and_offset() {
    let bench = Bench::with(&["python-docs.warc.gz"]);
    let segment = bench.store().join("value0.dat");
    let mut bytes = fs::read(&segment).unwrap();
    let items = run(tool().arg("inspect").arg(&segment).arg("--json")).ended(0).json();
    let item = items.iter().find(|item| item["fields"]["key"] == PAGE_URL).expect("the page's record");
    let offset = item["offset"].as_u64().unwrap() as usize;
    let stored = item["bytes"].as_u64().unwrap() as usize;
    bytes[offset + stored / 2] ^= 1;
    fs::write(&segment, bytes).unwrap();

    bench.run("get", &[PAGE_URL]).ended(3).said("value0.dat").said(&offset.to_string());
    let lines = bench.run("verify", &["--json"]).ended(3).json();
    let found = |line: &serde_json::Value| line["file"] == "value0.dat" && line["offset"] == offset;
    assert!(lines.iter().any(found), "{lines:?}");
    let others = bench.run("dump", &["--newest", "-o", "-"]).ended(3).said("value0.dat");
    run(tool().arg("inspect").arg(&segment)).ended(3);
    assert_eq!(others.text().lines().count(), PAGES - 1, "every other page is dumped");
}

#[test]
fn a_body_that_is_damaged_in_its_middle_ends_get_and_replaces_no_file() {
    let bench = Bench::new();
    let mut seed = 7_u64;
    let noise: Vec<u8> = (0..3 << 20)
        .map(|_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 56) as u8
        })
        .collect();
    let (big, small) = ("http://a/big", "http://a/small");
    for (url, body) in [(big, &noise[..]), (small, b"small")] {
        let file = bench.path("body");
        fs::write(&file, body).unwrap();
        bench.run("put", &[url.as_ref(), file.as_os_str()]).ended(0);
    }
    // In the second chunk of the body.
    let segment = bench.store().join("value0.dat");
    let mut bytes = fs::read(&segment).unwrap();
    let at = bytes.windows(64).position(|window| *window == noise[3 << 19..][..64]).expect("stored as it is");
    bytes[at] ^= 1;
    fs::write(&segment, bytes).unwrap();

    let out = bench.path("out");
    fs::write(&out, "from before").unwrap();
    bench.run("get", &[big.as_ref(), small.as_ref(), "-o".as_ref(), out.as_os_str()]).ended(3).said("value0.dat");
    assert_eq!(fs::read(&out).unwrap(), b"from before");
    let printed = bench.run("get", &[big, small]).ended(3).out;
    assert!(printed.len() < noise.len() && !printed.ends_with(b"small"), "{} bytes", printed.len());
    assert_eq!(bench.run("get", &[small]).ended(0).out, b"small");
}

#[test]
fn a_store_that_nobody_may_write_is_read_and_not_written() {
    let bench = Bench::with(&["example.warc.gz"]);
    let mut mode = fs::metadata(bench.store()).unwrap().permissions();
    let writable = mode.clone();
    mode.set_readonly(true);
    fs::set_permissions(bench.store(), mode).unwrap();
    let root = fs::write(bench.store().join("probe"), "").is_ok();
    if root {
        fs::remove_file(bench.store().join("probe")).unwrap();
    } else {
        bench.run("import", &[warc("cc.warc.gz")]).ended(2).said("pages.fm");
    }
    let got = bench.run("get", &["http://example.com/"]);
    fs::set_permissions(bench.store(), writable).unwrap();
    assert_eq!(got.ended(0).out.len(), 1270);
}

#[test]
fn a_store_cannot_be_made_below_a_file() {
    let bench = Bench::new();
    fs::write(bench.path("file"), "").unwrap();
    let store = bench.path("file").join("pages.fm");
    run(tool().arg("import").arg(&store).arg(warc("example.warc.gz"))).ended(2).said("pages.fm");
}

#[test]
fn urls_that_are_no_text_are_keys_of_exact_stores_and_clear_errors_elsewhere() {
    use std::os::unix::ffi::OsStrExt;
    let url = std::ffi::OsStr::from_bytes(b"http://example.com/\xff");
    let exact = Bench::new();
    exact.feed("put", &[url, "-".as_ref(), "--exact-urls".as_ref()], b"body").ended(0);
    assert_eq!(exact.run("get", &[url]).ended(0).out, b"body");
    assert_eq!(exact.run::<&str>("ls", &[]).ended(0).out, b"http://example.com/\xff\n");
    let listed = exact.run("ls", &["--json"]).ended(0).json();
    assert_eq!(listed[0]["url_base64"], "aHR0cDovL2V4YW1wbGUuY29tL/8=");

    let bench = Bench::with(&["example.warc.gz"]);
    let other = std::ffi::OsStr::from_bytes(b"\xff\xfe");
    bench.feed("put", &[other], b"x").ended(2);
    bench.run("get", &[other]).ended(2);
}

#[test]
fn a_full_device_under_the_output_is_an_error() {
    let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") else { return };
    let bench = Bench::with(&["python-docs.warc.gz"]);
    let status = bench.command("dump").stdout(full).stderr(std::process::Stdio::piped()).output().unwrap();
    assert_eq!(status.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&status.stderr).contains("cannot write to standard output"));
}

#[test]
fn output_is_not_written_over_a_stores_own_files() {
    let bench = Bench::new();
    bench.run("import", &[&warc("example.warc.gz")]).ended(0);
    for name in ["value0.dat", "key0.dat", "new.txt"] {
        let inside = bench.store().join(name);
        bench.run("dump", &["-o", inside.to_str().unwrap()]).ended(2).said("lies in a store");
    }
    bench.run("verify", &[] as &[&str]).ended(0);

    // A refusal does not remove anything, either.
    let files = |folder: &Path| -> BTreeMap<PathBuf, Vec<u8>> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    };
    let before = files(&bench.store());
    let link = bench.path("link");
    std::os::unix::fs::symlink(bench.store().join("value0.dat"), &link).unwrap();
    let inside = ["SUPERBLOCK", "LOCK", "value0.dat", "address.idx", "new.txt"].map(|name| bench.store().join(name));
    for output in inside.iter().chain([&link]) {
        let output = output.to_str().unwrap();
        bench.run("get", &["http://example.com/", "-o", output]).ended(2).said("lies in a store");
    }
    let folder = bench.store().join("sub");
    let folder = folder.to_str().unwrap();
    for verb in [&["backup", folder][..], &["copy", folder], &["copy", folder, "--compact"], &["repair", folder]] {
        bench.run(verb[0], &verb[1..]).ended(2).said("lies in a store");
    }
    // A bare name is a path in the user's current folder.
    for verb in [&["backup", "sub"][..], &["copy", "sub"], &["copy", "sub", "--compact"], &["repair", "sub"]] {
        let mut command = bench.command(verb[0]);
        run(command.args(&verb[1..]).current_dir(bench.store())).ended(2).said("lies in a store");
    }
    assert!(files(&bench.store()) == before && link.is_symlink());
}

#[test]
fn no_output_goes_through_a_symbolic_link() {
    let bench = Bench::new();
    bench.run("import", &[&warc("example.warc.gz")]).ended(0);
    let (victim, folder) = (bench.path("victim"), bench.path("folder"));
    fs::write(&victim, "precious").unwrap();
    fs::create_dir(&folder).unwrap();
    let links = ["to_file", "to_nowhere", "to_null", "to_folder"].map(|name| bench.path(name));
    let ends = [victim.clone(), bench.path("absent"), "/dev/null".into(), folder.clone()];
    links.iter().zip(&ends).for_each(|(link, end)| std::os::unix::fs::symlink(end, link).unwrap());
    let url = "http://example.com/";
    for link in links.iter().map(|link| link.to_str().unwrap()) {
        bench.run("get", &[url, "-o", link]).ended(2).said("symbolic link");
        bench.run("dump", &["-o", link, "--overwrite"]).ended(2).said("symbolic link");
        bench.run("dump", &["-o", link, "--format", "warc"]).ended(2);
        bench.run("backup", &[link]).ended(2).said("symbolic link");
        bench.run("copy", &[link]).ended(2).said("symbolic link");
        bench.run("copy", &[link, "--compact"]).ended(2).said("symbolic link");
        bench.run("repair", &[link]).ended(2).said("symbolic link");
        run(tool().args(["man", link])).ended(2).said("symbolic link");
    }
    // The link is not followed in the place where a dump starts, either.
    std::os::unix::fs::symlink(&victim, bench.path("dump.jsonl.open")).unwrap();
    bench.run("dump", &["-o", bench.path("dump.jsonl").to_str().unwrap(), "--overwrite"]).ended(0);
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    assert!(!bench.path("absent").exists() && fs::read_dir(&folder).unwrap().next().is_none());
    assert!(links.iter().all(|link| link.is_symlink()));
    // Links that belong to the system are not refused.
    let page = bench.run("get", &[url]).ended(0).out;
    for own in ["/dev/stdout", "/proc/self/fd/1", "/dev/fd/1"] {
        assert_eq!(bench.run("get", &[url, "-o", own]).ended(0).out, page, "{own}");
    }
}

#[test]
fn a_file_is_replaced_by_a_whole_page_or_not_at_all() {
    let bench = Bench::new();
    bench.run("import", &[&warc("example.warc.gz")]).ended(0);
    let file = bench.path("page");
    let output = file.to_str().unwrap();
    fs::write(&file, "precious").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
    bench.run("get", &["http://absent.example/", "-o", output]).ended(1);
    assert_eq!(fs::read(&file).unwrap(), b"precious");
    bench.run("get", &["http://example.com/", "-o", output]).ended(0);
    let page = bench.run("get", &["http://example.com/"]).ended(0).out;
    assert_eq!((fs::read(&file).unwrap(), fs::metadata(&file).unwrap().permissions().mode() & 0o777), (page, 0o640));
    bench.run("get", &["http://example.com/", "-o", "/dev/null"]).ended(0);
    bench.run("get", &["http://example.com/", "-o", "/dev/full"]).ended(2);

    // Damages every record of the values somewhere.
    fs::write(&file, "precious").unwrap();
    let values = bench.store().join("value0.dat");
    let mut bytes = fs::read(&values).unwrap();
    bytes[512..].iter_mut().step_by(64).for_each(|byte| *byte ^= 0xff);
    fs::write(&values, bytes).unwrap();
    bench.run("get", &["http://example.com/", "-o", output]).ended(3);
    assert_eq!(fs::read(&file).unwrap(), b"precious");
    assert_eq!(
        fs::read_dir(file.parent().unwrap()).unwrap().count(),
        2,
        "no half file is left beside it and the store"
    );
}

#[test]
fn a_host_that_is_no_name_is_an_error_and_not_an_empty_answer() {
    let bench = Bench::new();
    bench.run("import", &[&warc("example.warc.gz")]).ended(0);
    for verb in ["ls", "dump"] {
        bench.run(verb, &["--host", "http://example.com/"]).ended(2).said("is not a host; write its name alone");
        assert!(!bench.run(verb, &["--host", "example.com"]).ended(0).out.is_empty());
    }
}
