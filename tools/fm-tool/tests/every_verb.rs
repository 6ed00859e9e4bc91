//! One table with the rules for every verb: a missing path is not created, a folder with other
//! files is left alone, damage gives its own exit code, a reader that closes the pipe is not an
//! error, and no verb ever ends with a backtrace.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::harness::{Bench, PAGE_URL, Ran, run, tool, warc};

/// The part of a store that a verb reads, where it may find damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    /// The requested page, with its body.
    Page,
    /// The head of the page.
    Head,
    /// The place of the page in the index.
    Index,
    /// All keys.
    Keys,
    /// Keys in order, or their number.
    Order,
    /// All values.
    Values,
    /// Everything except values.
    Structure,
    /// All values, and nothing else is needed.
    Log,
    /// Everything.
    All,
    /// The superblock.
    Store,
}

/// A verb with valid arguments; `@` stands for the store, `%` for a missing path next to it.
struct Row {
    verb: &'static str,
    args: &'static [&'static str],
    reads: Reads,
    /// True if it prints data.
    prints: bool,
}

const fn row(verb: &'static str, args: &'static [&'static str], reads: Reads, prints: bool) -> Row {
    Row { verb, args, reads, prints }
}

/// Every verb that has a store and does not create one.
const ROWS: [Row; 45] = [
    row("get", &["@", PAGE_URL], Reads::Page, true),
    row("get", &["@", PAGE_URL, "--json"], Reads::Page, true),
    row("get", &["@", PAGE_URL, PAGE_URL, "--response"], Reads::Page, true),
    row("has", &["@", PAGE_URL], Reads::Index, true),
    row("head", &["@", PAGE_URL], Reads::Head, true),
    row("head", &["@", PAGE_URL, "--json"], Reads::Head, true),
    row("history", &["@", PAGE_URL], Reads::Head, true),
    row("ls", &["@"], Reads::Order, true),
    row("ls", &["@", "--host", "docs.python.localhost", "--reverse"], Reads::Order, true),
    row("ls", &["@", "--long"], Reads::Values, true),
    row("ls", &["@", "--long", "--prefix", PAGE_URL], Reads::Head, true),
    row("count", &["@"], Reads::Order, true),
    row("count", &["@", "--domain", "localhost"], Reads::Order, true),
    row("count", &["@", "--versions", "--host", "docs.python.localhost"], Reads::Keys, true),
    row("top", &["@"], Reads::Values, true),
    row("top", &["@", "--largest"], Reads::Values, true),
    row("top", &["@", "--most-versions"], Reads::Keys, true),
    row("top", &["@", "--most-pages"], Reads::Order, true),
    row("stat", &["@"], Reads::Store, true),
    row("stat", &["@", "--format", "openmetrics"], Reads::Store, true),
    row("stat", &["@", "--watch", "0.01", "--times", "3"], Reads::Store, true),
    row("verify", &["@"], Reads::All, false),
    row("verify", &["@", "--json"], Reads::All, true),
    row("verify", &["@", "--quick"], Reads::Structure, false),
    row("dump", &["@"], Reads::Values, true),
    row("dump", &["@", "--newest"], Reads::Values, true),
    row("dump", &["@", "--host", "docs.python.localhost"], Reads::Values, true),
    row("archives", &["@"], Reads::Order, false),
    row("archives", &["@", "--check"], Reads::Values, false),
    row("train", &["@", "--list"], Reads::Store, false),
    row("recompress", &["@", "--try"], Reads::Store, true),
    row("segments", &["@"], Reads::Store, true),
    row("segments", &["@", "--json"], Reads::Store, true),
    row("compact", &["@", "--dry-run", "--json"], Reads::Store, true),
    row("compact", &["@"], Reads::Store, false),
    row("prune", &["@", "--keep-versions", "1", "--dry-run"], Reads::Keys, false),
    row("prune", &["@", "--older-than", "2000-01-01", "--max-size", "1TB"], Reads::Store, false),
    row("erase", &["@", "--prefix", PAGE_URL, "--reason", "r", "--dry-run", "--json"], Reads::Keys, true),
    row("backup", &["@", "%"], Reads::Store, false),
    row("copy", &["@", "%"], Reads::Store, false),
    row("copy", &["@", "%", "--compact"], Reads::Values, false),
    row("merge", &["%", "@"], Reads::Values, false),
    row("rm", &["@", PAGE_URL], Reads::Index, false),
    row("rm", &["@", "--host", "docs.python.localhost", "--yes"], Reads::Keys, false),
    // The last one, since verbs after it would find an intact store.
    row("repair", &["@", "--in-place", "--yes"], Reads::Log, false),
];

/// A kind of damage to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    /// A byte in the head of the page.
    ValueHead,
    /// A byte in its body.
    ValueBody,
    /// A byte in every leaf of the index.
    Leaves,
    /// A byte in both copies of the superblock.
    Superblock,
}

fn arguments(row: &Row, store: &Path) -> Vec<OsString> {
    let argument = |arg: &&str| match *arg {
        "@" => store.as_os_str().to_owned(),
        "%" => store.with_extension("other").into_os_string(),
        _ => OsString::from(arg),
    };
    std::iter::once(OsString::from(row.verb)).chain(row.args.iter().map(argument)).collect()
}

fn ran(row: &Row, store: &Path) -> Ran {
    let ran = run(tool().args(arguments(row, store)));
    let told = format!("{} {:?}", row.verb, row.args);
    for trace in ["panicked", "RUST_BACKTRACE", "stack backtrace", "unwrap()"] {
        assert!(!ran.words.contains(trace), "{told}: {}", ran.words);
    }
    assert!([0, 1, 2, 3, 4].contains(&ran.code), "{told} ended with {}: {}", ran.code, ran.words);
    ran
}

#[test]
fn the_table_has_every_verb() {
    let help = run(tool().arg("--help")).ended(0);
    let all = help.text().split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let all: Vec<&str> = all.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
    assert!(all.len() > 12, "{all:?}");
    // Verbs that create a store, have none (`seen` has a table in seen.rs), or describe the
    // program.
    let others = ["import", "load", "put", "seen", "inspect", "completions", "man", "help"];
    for verb in all.into_iter().filter(|verb| !verb.is_empty() && !others.contains(verb)) {
        assert!(ROWS.iter().any(|row| row.verb == verb), "{verb} is not in the table");
    }
}

#[test]
fn no_verb_makes_an_absent_store() {
    for row in &ROWS {
        let bench = Bench::new();
        let path = bench.path("deep/in/pages.fm");
        let ran = ran(row, &path).ended(2).said("pages.fm");
        assert!(ran.out.is_empty(), "{} printed something", row.verb);
        assert!(!bench.path("deep").exists(), "{} made something", row.verb);
        // Opening for reading leaves nothing behind, not even a lock.
        fs::create_dir(bench.path("empty")).unwrap();
        self::ran(row, &bench.path("empty")).ended(2).said("empty");
        assert_eq!(fs::read_dir(bench.path("empty")).unwrap().count(), 0, "{} made something", row.verb);
    }
}

#[test]
fn no_verb_touches_a_folder_that_is_no_store() {
    let bench = Bench::new();
    let other = bench.path("letters");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("SUPERBLOCK"), "SQLite format 3\0 and so on").unwrap();
    fs::write(other.join("value0.dat"), "dear").unwrap();
    for row in &ROWS {
        let ran = ran(row, &other).ended(2).said("letters");
        assert!(ran.out.is_empty(), "{} printed something", row.verb);
    }
    assert_eq!(fs::read_dir(&other).unwrap().count(), 2);
    assert_eq!(fs::read(other.join("value0.dat")).unwrap(), b"dear");
}

/// The offsets and lengths of the items in a file that match `is`.
fn items(file: &Path, is: impl Fn(&serde_json::Value) -> bool) -> Vec<(usize, usize)> {
    let items = run(tool().arg("inspect").arg(file).arg("--json")).ended(0).json();
    let number = |item: &serde_json::Value, name: &str| item[name].as_u64().unwrap() as usize;
    items.iter().filter(|item| is(item)).map(|item| (number(item, "offset"), number(item, "bytes"))).collect()
}

fn flip(file: &Path, offsets: impl IntoIterator<Item = usize>) {
    let mut bytes = fs::read(file).unwrap();
    offsets.into_iter().for_each(|offset| bytes[offset] ^= 0x10);
    fs::write(file, bytes).unwrap();
}

fn damage(store: &Path, damage: Damage) {
    match damage {
        Damage::ValueHead | Damage::ValueBody => {
            let segment = store.join("value0.dat");
            let records = items(&segment, |item| item["fields"]["key"] == PAGE_URL && item["kind"] == "page record");
            assert!(!records.is_empty());
            // The key follows the fixed part; the last quarter is always body.
            let at = |(offset, bytes): &(usize, usize)| {
                if damage == Damage::ValueHead { offset + 40 } else { offset + bytes * 3 / 4 }
            };
            flip(&segment, records.iter().map(at));
        }
        Damage::Leaves => {
            let index = store.join("address.idx");
            let leaves = items(&index, |item| item["kind"] == "leaf");
            flip(&index, leaves.iter().map(|(offset, _)| offset + 20));
        }
        Damage::Superblock => flip(&store.join("SUPERBLOCK"), [20, 4096 + 20]),
    }
}

/// Returns whether a verb that reads this part must find the damage.
fn meets(reads: Reads, damage: Damage) -> bool {
    match damage {
        // A repair restores everything, but nothing is left that lists what else there was.
        Damage::Superblock => true,
        Damage::Leaves => !matches!(reads, Reads::Store | Reads::Log | Reads::Order),
        Damage::ValueHead => matches!(reads, Reads::Page | Reads::Head | Reads::Values | Reads::Log | Reads::All),
        Damage::ValueBody => matches!(reads, Reads::Page | Reads::Values | Reads::Log | Reads::All),
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn damage_gives_every_verb_that_meets_it_the_code_3() {
    let whole = Bench::with(&["python-docs.warc.gz"]);
    for kind in [Damage::ValueHead, Damage::ValueBody, Damage::Leaves, Damage::Superblock] {
        let bench = Bench::new();
        let damaged = bench.path("damaged");
        copy(&whole.store(), &damaged);
        damage(&damaged, kind);
        for (nth, row) in ROWS.iter().enumerate() {
            // Removal repairs or changes the store, so each verb gets its own copy.
            let store = bench.path(&format!("store{nth}"));
            copy(&damaged, &store);
            let ran = ran(row, &store);
            let told = format!("{} {:?} with damage in {kind:?}: {}", row.verb, row.args, ran.words);
            // A page can be removed even if its record or its leaf is damaged.
            let may_mend = row.verb == "rm" && kind != Damage::Superblock;
            if may_mend {
                assert!([0, 1, 3].contains(&ran.code), "{} {told}", ran.code);
            } else {
                assert_eq!(ran.code == 3, meets(row.reads, kind), "{} {told}", ran.code);
            }
            if ran.code == 3 && !["verify", "repair"].contains(&row.verb) {
                // A prune only counts the damage, and refers to verify.
                let is_told = ran.words.contains("offset") || ran.words.contains("`fm-tool verify` says where");
                assert!(is_told, "{told}");
            }
            assert_eq!(run(tool().arg("verify").arg(&damaged)).code, 3, "verify sees {kind:?}");
        }
    }
}

#[test]
fn a_damaged_golden_store_is_told_with_3_and_no_verb_ends_with_a_trace() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/golden/v1");
    for file in ["value0.dat", "key0.dat", "address.idx"] {
        let length = fs::metadata(golden.join(file)).unwrap().len() as usize;
        for offset in (64..length).step_by(length / 7) {
            let bench = Bench::new();
            let store = bench.store();
            copy(&golden, &store);
            // The keys come from the engine's own tests; here they are read as exact URLs.
            let superblock = store.join("SUPERBLOCK");
            let mut bytes = fs::read(&superblock).unwrap();
            for copy in [0, 4096] {
                let copy = &mut bytes[copy..copy + 512];
                copy[48..53].copy_from_slice(b"exact");
                let crc = crc32fast::hash(&copy[12..]);
                copy[8..12].copy_from_slice(&crc.to_le_bytes());
            }
            fs::write(&superblock, bytes).unwrap();
            flip(&store.join(file), [offset]);
            for (nth, row) in ROWS.iter().enumerate() {
                // Some verbs change the store, or create another one next to it.
                let own = bench.path(&format!("store{nth}"));
                copy(&store, &own);
                let ran = ran(row, &own);
                assert!(ran.code != 4, "{}: {}", row.verb, ran.words);
                // The metadata does not describe pages; verbs that read it must say so in a
                // message.
                let is_told = ran.words.lines().any(|line| line.starts_with("fm-tool: "));
                let is_told = ran.code <= 1 || is_told || ["verify", "repair"].contains(&row.verb);
                assert!(is_told, "{} ended with {}: {}", row.verb, ran.code, ran.words);
            }
        }
    }
}

#[test]
fn a_reader_that_closes_the_pipe_at_once_ends_every_verb_quietly() {
    let whole = Bench::with(&["python-docs.warc.gz"]);
    let segment = whole.store().join("value0.dat");
    let set = whole.path("seen.trie");
    run(tool().args(["seen", "create", "--kind", "trie"]).arg(&set)).ended(0);
    let of_set = |verb: &str| vec!["seen".into(), verb.into(), set.clone().into_os_string()];
    let list = whole.path("list");
    fs::write(&list, "http://a.example/\n").unwrap();
    let with_list = |verb: &str| [of_set(verb), vec![list.clone().into_os_string()]].concat();
    let others: [Vec<OsString>; 7] = [
        with_list("add"),
        with_list("check"),
        of_set("stat"),
        vec!["seen".into(), "explain".into(), "http://a.example/".into()],
        vec!["inspect".into(), segment.into_os_string()],
        vec!["completions".into(), "zsh".into()],
        vec!["man".into()],
    ];
    let rows = ROWS.iter().filter(|row| row.prints).map(|row| arguments(row, &whole.store()));
    for args in rows.chain(others) {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut child = tool().args(&args).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let mut words = String::new();
        child.stderr.take().unwrap().read_to_string(&mut words).unwrap();
        assert_eq!((child.wait().unwrap().code(), words.as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn pages_and_completions_are_made_without_a_store() {
    let bench = Bench::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = run(tool().args(["completions", shell])).ended(0);
        assert!(script.text().contains("most-versions") && script.text().contains("sync-every"), "{shell}");
    }
    run(tool().args(["completions", "csh"])).ended(2).said("csh");
    let folder = bench.path("man/man1");
    run(tool().arg("man").arg(&folder)).ended(0).said("pages written");
    let mut names: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    assert!(names.iter().any(|name| name.ends_with("fm-tool.1")), "{names:?}");
    for row in &ROWS {
        let page = fs::read_to_string(folder.join(format!("fm-tool-{}.1", row.verb))).unwrap();
        assert!(page.contains(".TH fm-tool-") && page.contains("Example"), "{}", row.verb);
    }
    for verb in ["create", "add", "check", "stat", "explain", "merge", "export", "forget"] {
        let page = fs::read_to_string(folder.join(format!("fm-tool-seen-{verb}.1"))).unwrap();
        assert!(page.contains("Example") && page.contains(&format!(" seen {verb} ")), "{verb}");
    }
    let all = run(tool().arg("man")).ended(0);
    assert_eq!(all.text().matches("\n.TH ").count(), names.len());
}

#[test]
fn importing_and_putting_into_a_closed_pipe_store_all_the_same() {
    let bench = Bench::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut import = bench.command("import");
    let status = import.arg(warc("example.warc.gz")).arg("--json").stdout(writer).status().unwrap();
    assert_eq!(status.code(), Some(0));
    bench.run("get", &["http://example.com/"]).ended(0);
    bench.run::<&str>("verify", &[]).ended(0);
}

#[test]
fn a_closed_pipe_does_not_hide_that_a_line_of_an_import_is_no_page() {
    let bench = Bench::with(&["example.warc.gz"]);
    let mut lines = bench.run::<&str>("dump", &[]).ended(0).out;
    lines.extend_from_slice(b"no page\n");
    let file = bench.path("lines.jsonl");
    fs::write(&file, lines).unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = bench.command("import").arg(&file).arg("--json").stdout(writer).status().unwrap();
    assert_eq!(status.code(), Some(3));
}

#[test]
fn a_closed_pipe_keeps_no_page_from_being_removed() {
    let bench = Bench::new();
    // More lines than the output's buffer has room for.
    let urls: Vec<String> = (0..200).map(|n| format!("http://a.example/{n}{}", "x".repeat(1000))).collect();
    let removes = |bench: &Bench, args: &[&str], input: &[u8]| {
        let store = filemap::PageStore::open_or_create(bench.store(), filemap::Options::new()).unwrap();
        for url in &urls {
            store.put_page(&filemap::Page::new(url.as_str(), 1_700_000_000_000, 200, "body")).unwrap();
        }
        store.close().unwrap();
        let (list, (reader, writer)) = (bench.path("urls"), std::io::pipe().unwrap());
        drop(reader);
        fs::write(&list, input).unwrap();
        let mut rm = bench.command("rm");
        let status = rm.args(args).arg("--json").stdin(fs::File::open(&list).unwrap()).stdout(writer).status().unwrap();
        assert_eq!(status.code(), Some(0), "{args:?}");
        assert_eq!(bench.run::<&str>("count", &[]).ended(0).text().trim(), "0", "{args:?}");
    };
    removes(&bench, &["--host", "a.example", "--yes"], b"");
    removes(&bench, &["--from", "-"], urls.join("\n").as_bytes());
}
