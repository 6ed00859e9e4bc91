//! `fm-tool seen` as a crawler uses it: every kind of set created, filled, queried, merged,
//! exported and forgotten; refused input, with the exit codes; and that no answer is lost to
//! Ctrl-C or to a closed pipe.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::harness::{Bench, Ran, run, tool};
use serde_json::Value;

/// The kinds, with the arguments that each needs.
const KINDS: [(&str, &[&str]); 6] = [
    ("md5-bitmap", &["--bits", "27"]),
    ("bloom", &["--urls", "10000", "--rate", "1e-9"]),
    ("growing", &["--rate", "1e-9"]),
    ("trie", &[]),
    ("disk", &["--seed", "7"]),
    ("hash-bitmap", &["--functions", "bkdr,ap", "--slots", "134217689"]),
];

/// The answer of a set of this kind for a URL in it.
fn seen(kind: &str) -> &'static str {
    if ["trie", "disk"].contains(&kind) { "seen" } else { "probably-seen" }
}

fn command(verb: &str, path: &Path, args: &[&str]) -> Command {
    let mut command = tool();
    command.args(["seen", verb]).arg(path).args(args);
    command
}

fn seen_run(verb: &str, path: &Path, args: &[&str]) -> Ran {
    told(run(&mut command(verb, path, args)))
}

/// Fails the test if there was a backtrace.
fn told(ran: Ran) -> Ran {
    for trace in ["panicked", "RUST_BACKTRACE", "stack backtrace", "unwrap()"] {
        assert!(!ran.words.contains(trace), "{}", ran.words);
    }
    ran
}

/// Runs a verb with lines on standard input.
fn fed(verb: &str, path: &Path, args: &[&str], input: &[u8]) -> Ran {
    let mut command = command(verb, path, args);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("its input is a pipe");
    let input = input.to_vec();
    let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("it ends");
    feeder.join().expect("no panic");
    let words = String::from_utf8(output.stderr).expect("words are text");
    told(Ran { code: output.status.code().expect("not killed"), out: output.stdout, words })
}

/// Creates an empty set of a kind.
fn made(bench: &Bench, kind: &str) -> PathBuf {
    let path = bench.path(&format!("seen.{kind}"));
    let options = KINDS.iter().find(|(name, _)| *name == kind).expect("a kind").1;
    seen_run("create", &path, &[&["--kind", kind], options].concat()).ended(0).said(kind);
    path
}

fn urls(range: std::ops::Range<usize>) -> Vec<u8> {
    range.flat_map(|i| format!("http://host{}.example/page/{i}\n", i % 7).into_bytes()).collect()
}

fn lines(ran: &Ran) -> Vec<String> {
    String::from_utf8_lossy(&ran.out).lines().map(str::to_owned).collect()
}

fn stat(path: &Path) -> Value {
    seen_run("stat", path, &["--json"]).ended(0).json().remove(0)
}

#[test]
fn every_kind_tells_new_urls_from_those_that_it_has_and_remembers_them() {
    for (kind, _) in KINDS {
        let bench = Bench::new();
        let set = made(&bench, kind);
        let first = fed("add", &set, &[], b"http://a.example/\nhttp://b.example/\nHTTP://A.example:80/#x\n").ended(0);
        let again = format!("{}\tHTTP://A.example:80/#x", seen(kind));
        assert_eq!(lines(&first), ["new\thttp://a.example/", "new\thttp://b.example/", &again]);
        first.said("3 lines: 2 new, 1 ");
        let asked = fed("check", &set, &["-"], b"http://b.example/\nhttp://c.example/\nhttp://c.example/").ended(0);
        let known = format!("{}\thttp://b.example/", seen(kind));
        assert_eq!(lines(&asked), [&known, "new\thttp://c.example/", "new\thttp://c.example/"], "check adds nothing");
        let stat = stat(&set);
        assert_eq!((&stat["kind"], &stat["urls"], &stat["canonicalizer"]), (&kind.into(), &2.into(), &"whatwg".into()));
        assert!(stat["disk_bytes"].as_u64().unwrap() > 0 && stat["memory_bytes"].as_u64().unwrap() > 0);
        assert_eq!(stat["false_positive_rate"] == 0.0, kind == "trie");
        seen_run("stat", &set, &[]).ended(0);
    }
}

#[test]
fn thousands_of_lines_are_answered_in_order_from_files_and_pipes() {
    for (kind, _) in KINDS {
        let bench = Bench::new();
        let set = made(&bench, kind);
        let file = bench.path("list");
        fs::write(&file, urls(0..5_000)).unwrap();
        let file = file.to_str().unwrap();
        let new = seen_run("add", &set, &[file, file, "--new-only"]).ended(0);
        assert_eq!(new.out, urls(0..5_000), "{kind}: each is new once");
        let counted = fed("check", &set, &["--count", file, "-"], &urls(4_000..6_000)).ended(0);
        let what = seen(kind).replace('-', " ");
        assert_eq!(counted.text(), format!("7000 lines: 1000 new, 6000 {what}\n"));
        let json = fed("check", &set, &["--count", "--json"], &urls(4_999..5_001)).ended(0).json();
        assert_eq!((&json[0]["lines"], &json[0]["new"]), (&2.into(), &1.into()));
        let quiet = fed("add", &set, &["--quiet"], &urls(5_000..6_000)).ended(0);
        assert!(quiet.out.lines().count() == 1_000 && quiet.words.is_empty(), "answers are not words");
        assert_eq!(stat(&set)["urls"], 6_000);
    }
}

#[test]
fn lines_of_every_sort_are_answered_or_told() {
    let bench = Bench::new();
    let set = made(&bench, "trie");
    let long = format!("http://long.example/{}", "a".repeat(65_515));
    let longer = format!("{long}a");
    let endless = "x".repeat(2_000_000);
    let wide = format!("http://wide.example/{}", "\u{e9}".repeat(20_000));
    let mut input = b"http://a.example/\r\n\r\n\nnonsense\nhttp://a.example/\xff\n \n".to_vec();
    for line in [&long, &longer, &endless, &wide] {
        input.extend(line.as_bytes());
        input.push(b'\n');
    }
    input.extend(b"http://z.example/");
    let ran = fed("add", &set, &[], &input).ended(2).said("65535").said("9 lines: 4 new, 5 invalid");
    let answers: Vec<&[u8]> = ran.out.split(|byte| *byte == b'\n').collect();
    let expected: [&[u8]; 4] =
        [b"new\thttp://a.example/", b"invalid\tnonsense", b"new\thttp://a.example/\xff", b"invalid\t "];
    assert_eq!(answers[..4], expected);
    assert_eq!(answers[4].len(), "new\t".len() + 65_535);
    assert_eq!((answers[5].len(), answers[6].len()), ("invalid\t".len() + 65_535, "invalid\t".len() + 65_535));
    assert!(answers[7].starts_with(b"invalid\thttp://wide.example/"), "its canonical form is too long");
    assert_eq!(answers[8..], [&b"new\thttp://z.example/"[..], b""]);

    let json = fed("check", &set, &["--json"], b"nonsense\nhttp://a.example/\xff\nhttp://z.example/\n").ended(2).json();
    assert_eq!((&json[0]["verdict"], json[0]["why"].is_string()), (&"invalid".into(), true));
    assert!(json[1]["url_base64"].is_string() && json[1]["verdict"] == "seen");
    assert_eq!(json[2], serde_json::json!({ "url": "http://z.example/", "verdict": "seen" }));

    let bad: Vec<u8> = (0..50).flat_map(|i| format!("nonsense {i}\n").into_bytes()).collect();
    let ran =
        fed("add", &set, &["--new-only"], &bad).ended(2).said("line 10:").said("40 more lines invalid, 50 in all");
    assert!(ran.out.is_empty() && !ran.words.contains("line 11:"), "{}", ran.words);
}

#[test]
fn a_set_keeps_to_its_canonicaliser() {
    let bench = Bench::new();
    let set = bench.path("seen");
    seen_run("create", &set, &["--kind", "trie", "--canonicalizer", "crawl,+www"]).ended(0);
    fed("add", &set, &["--quiet"], b"http://www.a.example/?utm_source=x\n").ended(0);
    assert_eq!(seen_run("export", &set, &[]).ended(0).text(), "http://a.example/\n");
    assert_eq!(stat(&set)["canonicalizer"], "crawl,+www");
    for verb in ["add", "check"] {
        fed(verb, &set, &["--canonicalizer", "whatwg"], b"http://b.example/\n").ended(2).said("crawl,+www");
        fed(verb, &set, &["--canonicalizer", "crawl,+www"], b"").ended(0);
        fed(verb, &set, &["--canonicalizer", "nonsense"], b"").ended(2).said("whatwg, crawl, surt");
    }
    let steps = seen_run("explain", Path::new("http://www.a.example/#x"), &["--set", set.to_str().unwrap(), "--json"]);
    let steps = steps.ended(0).json().remove(0);
    assert_eq!((&steps["canonicalizer"], &steps["key"]), (&"crawl,+www".into(), &"http://a.example/".into()));
    // Without seen.canon the command has to be given the rules.
    fs::remove_file(bench.path("seen.canon")).unwrap();
    fed("check", &set, &[], b"http://a.example/\n").ended(2).said("--canonicalizer");
    fed("check", &set, &["--canonicalizer", "exact"], b"http://a.example/\n").ended(0);
    assert!(stat(&set)["canonicalizer"].is_null());
    fed("add", &set, &["--canonicalizer", "exact"], b"\xff\xfe not a URL\n").ended(0);
    assert_eq!(stat(&set)["canonicalizer"], "exact", "it is remembered from then on");
}

#[test]
fn explain_shows_each_rule_that_changed_a_url() {
    let url = Path::new("HTTP://www.Example.com:80/a/../b?utm_source=x&b=1#top");
    let all = seen_run("explain", url, &[]).ended(0).text().to_owned();
    for words in ["whatwg ", "crawl ", "surt ", "default-port", "tracking", "http://(com,example,www,)/b?b=1"] {
        assert!(all.contains(words), "{words} in {all}");
    }
    let one = seen_run("explain", url, &["--canonicalizer", "crawl,+www,-tracking", "--json"]).ended(0).json();
    let rules: Vec<&str> =
        one[0]["steps"].as_array().unwrap().iter().map(|step| step["rule"].as_str().unwrap()).collect();
    assert_eq!(rules, ["whatwg", "default-port", "fragment", "www", "sorted-parameters"]);
    assert_eq!(one[0]["key"], "http://example.com/b?b=1&utm_source=x");
    // The option's former name.
    seen_run("explain", Path::new("http://example.com/"), &["--canonical", "crawl"]).ended(0);
    let bad = seen_run("explain", Path::new("nonsense"), &["--json"]).ended(2);
    assert!(bad.json().iter().all(|line| line["error"].is_string()));
    seen_run("explain", Path::new("nonsense"), &["--canonicalizer", "crawl"]).ended(2).said("nonsense");
    seen_run("explain", url, &["--canonicalizer", "crawl,+wwww"]).ended(2).said("there is no rule `wwww`");
}

#[test]
fn sets_take_up_others_where_that_is_possible_and_else_say_why_not() {
    for (nth, (kind, _)) in KINDS.iter().enumerate() {
        for (from_nth, (from_kind, _)) in KINDS.iter().enumerate() {
            let bench = Bench::new();
            let set = made(&bench, kind);
            let from = Bench::new();
            let other = made(&from, from_kind);
            fed("add", &set, &["-q"], &urls(0..600)).ended(0);
            fed("add", &other, &["-q"], &urls(400..1_000)).ended(0);
            let merged = seen_run("merge", &set, &[other.to_str().unwrap(), "--json"]);
            if from_nth == 3 || (nth == from_nth && nth != 2) {
                let line = merged.ended(0).json().remove(0);
                assert_eq!(line["urls"], 600);
                let all = fed("check", &set, &["--new-only"], &urls(0..1_001)).ended(0);
                assert_eq!(all.out, urls(1_000..1_001), "{kind} and {from_kind}");
            } else {
                merged.ended(2).said("Insert the URLs themselves");
                assert_eq!(stat(&set)["urls"], 600, "{kind} and {from_kind}");
            }
        }
    }
}

#[test]
fn a_merge_is_refused_as_a_whole_before_anything_is_changed() {
    let bench = Bench::new();
    let set = made(&bench, "md5-bitmap");
    let (good, wide, other) = (bench.path("good"), bench.path("wide"), bench.path("other"));
    seen_run("create", &good, &["--kind", "md5-bitmap", "--bits", "27"]).ended(0);
    fed("add", &good, &["-q"], &urls(0..10)).ended(0);
    seen_run("create", &wide, &["--kind", "md5-bitmap", "--bits", "28"]).ended(0);
    seen_run("create", &other, &["--kind", "trie", "--canonicalizer", "surt"]).ended(0);
    let good = good.to_str().unwrap();
    for (bad, words) in [(&wide, "2^28"), (&other, "surt"), (&bench.path("absent"), "absent")] {
        seen_run("merge", &set, &[good, bad.to_str().unwrap()]).ended(2).said(words);
        assert_eq!(stat(&set)["urls"], 0);
    }
    seen_run("merge", &set, &[good, good]).ended(0).said("10 of them added").said("0 of them added");
}

#[test]
fn only_a_trie_has_urls_to_export_and_others_say_what_they_have() {
    let bench = Bench::new();
    let set = made(&bench, "trie");
    fed("add", &set, &["-q"], &urls(0..2_000)).ended(0);
    let mut expected: Vec<String> = String::from_utf8(urls(0..2_000)).unwrap().lines().map(str::to_owned).collect();
    expected.sort_unstable();
    assert_eq!(lines(&seen_run("export", &set, &[]).ended(0)), expected);
    let some = seen_run("export", &set, &["--prefix", "http://host3.example/page/1", "--json"]).ended(0).json();
    let with_prefix = expected.iter().filter(|url| url.starts_with("http://host3.example/page/1")).count();
    assert!(some.len() == with_prefix && with_prefix > 10);
    seen_run("export", &made(&bench, "md5-bitmap"), &[]).ended(2).said("its words are the file itself");
    for kind in ["bloom", "growing", "disk"] {
        seen_run("export", &made(&bench, kind), &[]).ended(2).said("only a trie");
    }
    seen_run("export", &set, &["--fingerprints"]).ended(2).said("has texts and no fingerprints");
}

#[test]
fn a_url_is_forgotten_where_that_is_possible() {
    for (kind, _) in KINDS {
        let bench = Bench::new();
        let set = made(&bench, kind);
        fed("add", &set, &["-q"], &urls(0..100)).ended(0);
        let gone = ["HTTP://host1.example:80/page/1", "http://host2.example/page/2"];
        let forgotten = seen_run("forget", &set, &gone);
        if ["md5-bitmap", "hash-bitmap", "growing"].contains(&kind) {
            forgotten.ended(2).said("other URLs may share");
            assert_eq!(fed("check", &set, &["-n"], &urls(0..100)).ended(0).out, b"", "{kind}");
            continue;
        }
        forgotten.ended(0).said("forgot 2 URLs");
        assert_eq!(fed("check", &set, &["-n"], &urls(0..100)).ended(0).out, urls(1..3), "{kind}");
        seen_run("forget", &set, &gone[1..]).ended(1).said("is not in");
        seen_run("forget", &set, &["nonsense"]).ended(2).said("nonsense");
        assert_eq!(fed("add", &set, &["-n"], &urls(0..100)).ended(0).out, urls(1..3), "{kind}: new once more");
        let json = seen_run("forget", &set, &["--json", "http://host2.example/page/2"]).ended(0).json();
        assert_eq!(json[0]["forgotten"], true);
    }
}

#[test]
fn words_of_another_program_are_taken_up() {
    let bench = Bench::new();
    let set = bench.path("words");
    fs::write(&set, vec![0_u8; 1 << 17]).unwrap();
    fed("add", &set, &[], b"http://a.example/\n").ended(2).said("--adopt");
    seen_run("create", &set, &["--kind", "trie", "--adopt"]).ended(2).said("--adopt");
    seen_run("create", &set, &["--kind", "md5-bitmap", "--adopt", "--canonicalizer", "exact"]).ended(0).said("2^20");
    // The bit is where other programs look for it.
    fed("add", &set, &["-q"], b"http://www.ouc.edu.cn/\n").ended(0);
    let words = fs::read(&set).unwrap();
    let slot = 1_073_542_761_usize % (1 << 20);
    assert_eq!(words[slot / 8], 1 << (slot % 8));
    assert_eq!(words.len(), 1 << 17);
    let odd = bench.path("odd");
    fs::write(&odd, vec![0_u8; 5_000]).unwrap();
    seen_run("create", &odd, &["--kind", "md5-bitmap", "--adopt"]).ended(2).said("5000 bytes");
}

#[test]
fn a_set_is_taken_up_as_what_it_is_or_not_at_all() {
    let bench = Bench::new();
    // A file with the length of a bitmap that is not one.
    let filter = bench.path("filter");
    seen_run("create", &filter, &["--kind", "bloom", "--urls", "4100"]).ended(0);
    assert_eq!(fs::metadata(&filter).unwrap().len(), 8192);
    fed("add", &filter, &[], &urls(0..5)).ended(0);
    seen_run("create", &filter, &["--kind", "md5-bitmap", "--adopt"]).ended(2).said("of the kind bloom");
    assert_eq!(fed("check", &filter, &["-n"], &urls(0..5)).ended(0).out, b"");

    // A bitmap that has lost its sidecar keeps its rules.
    let bitmap = bench.path("bitmap");
    seen_run("create", &bitmap, &["--kind", "md5-bitmap", "--bits", "16", "--canonicalizer", "crawl"]).ended(0);
    fed("add", &bitmap, &[], b"http://a.example/?utm_source=x\n").ended(0);
    fs::remove_file(bench.path("bitmap.meta")).unwrap();
    fed("check", &bitmap, &[], b"http://a.example/\n").ended(3).said("adopted");
    seen_run("create", &bitmap, &["--kind", "md5-bitmap", "--adopt"]).ended(2).said("`crawl`");
    seen_run("create", &bitmap, &["--kind", "md5-bitmap", "--adopt", "--canonicalizer", "crawl"]).ended(0);
    assert_eq!(fed("check", &bitmap, &["-n"], b"http://a.example/?utm_source=y\n").ended(0).out, b"");
}

/// A filter as C programs write it: k functions, each modulo the number of bits, into an array of
/// chars.
const WRITER: &str = r#"
#include <stdio.h>
#include <string.h>
#define SLOTS 1000003
static unsigned char bits[SLOTS / 8 + 1];
static unsigned bkdr(const char *s) { unsigned h = 0; while (*s) h = h * 13131 + *s++; return h & 0x7FFFFFFF; }
static unsigned ap(const char *s) {
    unsigned h = 0; int i;
    for (i = 0; *s; i++) h ^= (i & 1) == 0 ? (h << 7) ^ *s++ ^ (h >> 3) : ~((h << 11) ^ *s++ ^ (h >> 5));
    return h & 0x7FFFFFFF;
}
static unsigned djb(const char *s) { unsigned h = 5381; while (*s) h += (h << 5) + *s++; return h & 0x7FFFFFFF; }
static void set(unsigned h) { h %= SLOTS; bits[h / 8] |= 1 << (h % 8); }
int main(void) {
    char url[4096];
    while (fgets(url, sizeof url, stdin)) { url[strcspn(url, "\n")] = 0; set(bkdr(url)); set(ap(url)); set(djb(url)); }
    return fwrite(bits, 1, sizeof bits, stdout) != sizeof bits;
}
"#;

/// The bits of [`WRITER`]: by the C program itself, where there is a compiler, which must agree
/// with the functions here.
fn written_in_c(bench: &Bench, urls: &[u8]) -> Vec<u8> {
    let mut bits = vec![0u8; 1_000_003 / 8 + 1];
    for url in urls.split(|byte| *byte == b'\n').filter(|url| !url.is_empty()) {
        for value in [urlindex::hash::bkdr(url), urlindex::hash::ap(url), urlindex::hash::djb(url)] {
            let slot = value as usize % 1_000_003;
            bits[slot / 8] |= 1 << (slot % 8);
        }
    }
    let (source, program) = (bench.path("writer.c"), bench.path("writer"));
    fs::write(&source, WRITER).unwrap();
    let compiled = Command::new("cc").arg("-fsigned-char").arg("-o").arg(&program).arg(&source).status();
    if compiled.is_ok_and(|status| status.success()) {
        let list = bench.path("list");
        fs::write(&list, urls).unwrap();
        let output = Command::new(&program).stdin(fs::File::open(&list).unwrap()).output().unwrap();
        assert!(output.status.success() && output.stdout == bits, "C and Rust set other bits");
    }
    bits
}

#[test]
fn a_filter_that_a_c_program_wrote_is_taken_up_and_written_on_for_it() {
    let bench = Bench::new();
    let (mut all, fresh) = (urls(0..50), urls(50..60));
    all.extend(b"http://www.ouc.edu.cn/\n");
    let set = bench.path("theirs");
    let words = written_in_c(&bench, &all);
    fs::write(&set, &words).unwrap();
    fed("check", &set, &[], b"http://a.example/\n").ended(2).said("--adopt");
    let adopt = ["--kind", "hash-bitmap", "--adopt", "--functions", "bkdr,ap,djb", "--slots", "1000003"];
    seen_run("create", &set, &adopt).ended(0).said("3 functions");
    assert_eq!(fs::read(&set).unwrap(), words, "no bit was changed");
    assert_eq!(fed("check", &set, &["-n"], &all).ended(0).out, b"");
    assert_eq!(fed("add", &set, &["-n"], &fresh).ended(0).out, fresh);
    assert_eq!(fs::read(&set).unwrap(), written_in_c(&bench, &[all, fresh].concat()), "what the C program would have");
    let stat = &seen_run("stat", &set, &["--json"]).ended(0).json()[0];
    assert_eq!(
        (&stat["functions"], &stat["slots"], &stat["urls"]),
        (&"bkdr,ap,djb".into(), &1_000_003.into(), &61.into())
    );
    // A file of the wrong size is refused, and nothing is created.
    let other = bench.path("other");
    fs::write(&other, [0; 100]).unwrap();
    seen_run("create", &other, &adopt).ended(2).said("100 bytes");
    seen_run("create", &other, &["--kind", "hash-bitmap", "--adopt"]).ended(2).said("--functions");
    seen_run("create", &other, &["--kind", "hash-bitmap", "--functions", "sha"]).ended(2).said("bkdr");
    assert!(!bench.path("other.meta").exists());
}

#[test]
fn a_flipped_bit_of_a_sets_version_is_damage() {
    for (kind, _) in KINDS {
        let bench = Bench::new();
        let set = made(&bench, kind);
        let file = if kind.ends_with("bitmap") { bench.path(&format!("seen.{kind}.meta")) } else { set.clone() };
        let mut bytes = fs::read(&file).unwrap();
        bytes[8] ^= 0x40;
        fs::write(&file, &bytes).unwrap();
        seen_run("stat", &set, &[]).ended(3);
        fed("add", &set, &[], &urls(0..1)).ended(3);
    }
}

#[test]
fn what_crawls_drop_and_what_they_leave_alone_is_explained_by_rules() {
    let id = "4hqa0555fwsecu455xqckv45";
    let rows = [
        (format!("http://a/(S({id}))/x"), "http://a/x", "session-ids"),
        (format!("http://a/({id})/x"), "http://a/x", "session-ids"),
        (format!("http://a/(X(1)S({id}))/x"), "http://a/x", "session-ids"),
        ("http://a/?session_id=42".to_owned(), "http://a/?session_id=42", ""),
        ("http://a/?=42".to_owned(), "http://a/?=42", ""),
        ("http://a/?session_id=0123456789abcdef0123456789abcdef".to_owned(), "http://a/", "session-ids"),
    ];
    for (url, key, rule) in rows {
        let explained =
            &seen_run("explain", Path::new(&url), &["--canonicalizer", "crawl", "--json"]).ended(0).json()[0];
        assert_eq!(explained["key"], key, "{url}");
        let rules: Vec<&str> =
            explained["steps"].as_array().unwrap().iter().filter_map(|s| s["rule"].as_str()).collect();
        assert_eq!(rules, if rule.is_empty() { vec![] } else { vec![rule] }, "{url}");
    }
}

#[test]
fn bytes_that_are_no_utf8_are_urls_and_explain_says_how() {
    use std::os::unix::ffi::OsStrExt;
    let bench = Bench::new();
    let set = made(&bench, "trie");
    assert_eq!(
        fed("add", &set, &["--count"], b"http://a/\xe9?q=\xe9\nhttp://a/%E9?q=%E9\n").ended(0).text(),
        "2 lines: 1 new, 1 seen\n"
    );
    let link = Path::new(std::ffi::OsStr::from_bytes(b"http://a/\xe9?q=\xe9"));
    let bare = seen_run("explain", link, &["--canonicalizer", "crawl"]).ended(0);
    let bare = String::from_utf8_lossy(&bare.out);
    assert!(bare.contains("percent-bytes") && bare.contains("http://a/%E9?q=%E9"), "{bare}");
    let page = seen_run("explain", link, &["--canonicalizer", "crawl", "--encoding", "windows-1252"]).ended(0);
    let page = String::from_utf8_lossy(&page.out);
    assert!(page.contains("page-encoding") && page.contains("http://a/%C3%A9?q=%E9"), "{page}");
    let relative = Path::new(std::ffi::OsStr::from_bytes(b"\xe9?\xe9"));
    let based =
        seen_run("explain", relative, &["--encoding", "latin1", "--base", "http://a/b/", "--json"]).ended(0).json();
    assert!(based.iter().take(2).all(|line| line["key"] == "http://a/b/%C3%A9?%E9"), "{based:?}");
    seen_run("explain", link, &["--encoding", "klingon"]).ended(2).said("not an encoding");
}

/// All verbs on an existing set; `@` is the set.
const ROWS: [&[&str]; 9] = [
    &["add", "@", "/dev/null"],
    &["add", "@", "/dev/null", "--count", "--json"],
    &["check", "@", "/dev/null"],
    &["stat", "@"],
    &["stat", "@", "--json"],
    &["explain", "http://a.example/", "--set", "@"],
    &["merge", "@", "@"],
    &["export", "@"],
    &["forget", "@", "http://a.example/"],
];

fn row(row: &[&str], set: &Path) -> Ran {
    let argument = |arg: &&str| if *arg == "@" { set.as_os_str().to_owned() } else { OsString::from(arg) };
    told(run(tool().arg("seen").args(row.iter().map(argument))))
}

#[test]
fn no_verb_makes_an_absent_set_or_touches_what_is_none() {
    let bench = Bench::new();
    fs::create_dir(bench.path("empty")).unwrap();
    fs::write(bench.path("letter"), "dear").unwrap();
    fs::create_dir(bench.path("folder")).unwrap();
    for args in ROWS {
        for (path, words) in
            [("deep/in/seen", "is missing"), ("empty/seen", "is missing"), ("letter", "letter"), ("folder", "folder")]
        {
            let ran = row(args, &bench.path(path)).ended(2).said(words);
            assert!(ran.out.is_empty(), "{args:?} printed something");
        }
        assert_eq!(fs::read_dir(bench.path("empty")).unwrap().count(), 0, "{args:?} made something");
        assert_eq!(fs::read_dir(bench.path("folder")).unwrap().count(), 0, "{args:?} made something");
    }
    assert_eq!(fs::read_to_string(bench.path("letter")).unwrap(), "dear");
    assert_eq!(fs::read_dir(bench.path("")).unwrap().count(), 3);
}

#[test]
fn nothing_is_made_over_what_is_there_and_options_must_fit() {
    let bench = Bench::new();
    for (kind, options) in KINDS {
        let set = made(&bench, kind);
        fed("add", &set, &["-q"], &urls(0..5)).ended(0);
        seen_run("create", &set, &[&["--kind", kind], options].concat()).ended(2).said("exists already");
        assert_eq!(stat(&set)["urls"], 5);
    }
    let set = bench.path("other");
    let rows: [(&[&str], &str); 14] = [
        (&[], "--kind"),
        (&["--kind", "bloom"], "--urls"),
        (&["--kind", "bloom", "--urls", "0"], "--urls"),
        (&["--kind", "bloom", "--urls", "9", "--rate", "2"], "rate"),
        (&["--kind", "bloom", "--urls", "9", "--family", "djb", "--layout", "blocked"], "family"),
        (&["--kind", "bloom", "--urls", "9", "--bits-per-url", "16"], "--probes"),
        (&["--kind", "md5-bitmap", "--bits", "37"], "16 to 36"),
        (&["--kind", "md5-bitmap", "--rate", "0.1"], "--rate"),
        (&["--kind", "trie", "--urls", "5"], "--urls"),
        (&["--kind", "trie", "--seed", "5"], "--seed"),
        (&["--kind", "trie", "--max-age", "5d"], "--max-age"),
        (&["--kind", "disk", "--rate", "0.1"], "--rate"),
        (&["--kind", "disk", "--max-age", "5"], "90d"),
        (&["--kind", "disk", "--fingerprint-bits", "72"], "80 or 64"),
    ];
    for (args, words) in rows {
        seen_run("create", &set, args).ended(2).said(words);
        assert!(!set.exists(), "{args:?}");
    }
    seen_run("create", &bench.path("deep/in/seen"), &["--kind", "trie"]).ended(2).said("cannot make");
    seen_run("create", &set, &["--kind", "md5-bitmap", "--adopt"]).ended(2).said("cannot make");
    assert!(!bench.path("deep").exists());
    let classic = ["--kind", "bloom", "--urls", "1000", "--bits-per-url", "16", "--probes", "8", "--layout", "classic"];
    let made = seen_run("create", &set, &[&classic[..], &["--family", "bkdr", "--json"]].concat()).ended(0).json();
    let shape = ["probes", "layout", "family"].map(|name| made[0][name].to_string());
    assert_eq!(shape, ["8", "\"standard\"", "\"bkdr\""]);
}

#[test]
fn a_damaged_set_ends_every_verb_with_3_and_the_place() {
    for (kind, _) in KINDS {
        let whole = Bench::new();
        let set = made(&whole, kind);
        fed("add", &set, &["-q"], &urls(0..2_000)).ended(0);
        let mut bytes = fs::read(&set).unwrap();
        let at = bytes.len() / 2 + 1;
        bytes[at] ^= 0x10;
        fs::write(&set, &bytes).unwrap();
        for args in ROWS {
            let ran = row(args, &set).ended(3).said("is damaged at offset").said(set.to_str().unwrap());
            assert!(ran.out.is_empty());
        }
        fs::write(&set, &bytes[..at]).unwrap();
        ROWS.iter().for_each(|args| drop(row(args, &set).ended(3)));
    }
}

#[test]
fn a_second_writer_ends_with_4_and_readers_go_on() {
    for (kind, _) in KINDS {
        let bench = Bench::new();
        let set = made(&bench, kind);
        fed("add", &set, &["-q"], &urls(0..100)).ended(0);
        let writer = urlindex::stored::StoredSet::open(&set).unwrap();
        for args in ROWS {
            let changes = ["add", "merge", "forget"].contains(&args[0]);
            let can = changes || args[0] != "export" || kind == "trie";
            let expected = if changes {
                4
            } else if can {
                0
            } else {
                2
            };
            let ran = row(args, &set).ended(expected);
            assert!(!changes || ran.words.contains(&std::process::id().to_string()), "{}", ran.words);
        }
        assert!(fed("check", &set, &["-n"], &urls(0..100)).ended(0).out.is_empty(), "{kind}");
        writer.close().unwrap();
        row(ROWS[0], &set).ended(0);
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_enough_to_ask() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    for (kind, _) in KINDS {
        let folder = bench.path(kind);
        fs::create_dir(&folder).unwrap();
        let set = folder.join("seen");
        let options = KINDS.iter().find(|(name, _)| *name == kind).unwrap().1;
        seen_run("create", &set, &[&["--kind", kind], options].concat()).ended(0);
        fed("add", &set, &["-q"], &urls(0..100)).ended(0);
        fs::remove_file(folder.join("seen.lock")).unwrap();
        let mode = |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o500);
        // The root user may write anywhere.
        let can_write = fs::write(folder.join("probe"), "").is_ok();
        assert_eq!(fed("check", &set, &["-n"], &urls(50..101)).ended(0).out, urls(100..101), "{kind}");
        assert!(!folder.join("seen.lock").exists(), "asking takes no lock");
        if !can_write {
            fed("add", &set, &["-q"], &urls(0..200)).ended(2);
            seen_run("create", &folder.join("other"), &["--kind", "trie"]).ended(2);
        }
        mode(0o700);
    }
}

#[test]
fn each_line_is_answered_before_the_next_is_waited_for() {
    for (kind, _) in KINDS {
        let bench = Bench::new();
        let set = made(&bench, kind);
        let mut child = command("add", &set, &["--sync-every", "1"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let (mut ask, mut answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        for verdict in ["new", seen(kind)] {
            ask.write_all(b"http://a.example/\n").unwrap();
            let mut answer = String::new();
            answers.read_line(&mut answer).unwrap();
            assert_eq!(answer, format!("{verdict}\thttp://a.example/\n"));
            // The URL is durable, so anyone who opens the set now finds it.
            let other = fed("check", &set, &[], b"http://a.example/\n").ended(0);
            assert_eq!(other.text(), format!("{}\thttp://a.example/\n", seen(kind)));
        }
        drop(ask);
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn what_was_answered_before_ctrl_c_is_there_and_half_a_line_is_not() {
    for (kind, _) in KINDS {
        for (signal, code) in [("INT", 130), ("TERM", 143)] {
            let bench = Bench::new();
            let set = made(&bench, kind);
            let mut child = command("add", &set, &[])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("it starts");
            let (mut ask, mut answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
            ask.write_all(&[&urls(0..3_000)[..], b"http://half"].concat()).unwrap();
            for i in 0..3_000 {
                let mut answer = String::new();
                answers.read_line(&mut answer).unwrap();
                assert!(answer.starts_with("new\t"), "{i}: {answer}");
            }
            let sent = Command::new("kill").arg(format!("-{signal}")).arg(child.id().to_string()).status();
            assert!(sent.unwrap().success());
            let mut words = String::new();
            child.stderr.take().unwrap().read_to_string(&mut words).unwrap();
            assert_eq!(child.wait().unwrap().code(), Some(code), "{words}");
            assert!(words.contains("interrupted: 3000 lines: 3000 new"), "{words}");
            drop(ask);
            assert!(fed("check", &set, &["-n"], &urls(0..3_000)).ended(0).out.is_empty(), "{kind}");
            assert_eq!(stat(&set)["urls"], 3_000);
        }
    }
}

#[test]
fn a_killed_add_loses_nothing_of_a_bitmap_and_of_the_others_only_what_was_not_synced() {
    for (kind, _) in KINDS {
        let bench = Bench::new();
        let set = made(&bench, kind);
        let mut child = command("add", &set, &["--sync-every", "500"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let (mut ask, answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        ask.write_all(&urls(0..3_000)).unwrap();
        assert!(answers.lines().take(3_000).all(|answer| answer.unwrap().starts_with("new\t")));
        child.kill().unwrap();
        child.wait().unwrap();
        let lost = lines(&fed("check", &set, &["-n"], &urls(0..3_000)).ended(0)).len();
        assert!(lost < if kind == "md5-bitmap" { 1 } else { 500 }, "{kind}: {lost}");
        fed("add", &set, &["-q"], &urls(0..3_000)).ended(0);
        assert_eq!(stat(&set)["urls"], 3_000, "{kind}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error_and_stops_the_adding() {
    let bench = Bench::new();
    let set = made(&bench, "trie");
    let list = bench.path("list");
    fs::write(&list, urls(0..200_000)).unwrap();
    for verb in ["check", "add", "export"] {
        let mut command = command(verb, &set, &[]);
        if verb != "export" {
            command.arg(&list);
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut [0; 10]).unwrap();
        drop(out);
        let mut words = String::new();
        child.stderr.take().unwrap().read_to_string(&mut words).unwrap();
        assert_eq!((child.wait().unwrap().code(), words.as_str()), (Some(0), ""), "{verb}");
    }
    let added = stat(&set)["urls"].as_u64().unwrap();
    assert!((1..200_000).contains(&added), "what was answered is there, the rest is not: {added}");
}

#[test]
fn a_list_that_is_missing_stops_everything_before_anything_is_added() {
    let bench = Bench::new();
    let set = made(&bench, "trie");
    let (list, absent, folder) = (bench.path("list"), bench.path("absent"), bench.path(""));
    fs::write(&list, urls(0..10)).unwrap();
    let [list, absent, folder] = [&list, &absent, &folder].map(|path| path.to_str().unwrap());
    seen_run("add", &set, &[list, absent]).ended(2).said("absent");
    seen_run("add", &set, &[list, folder]).ended(2).said("is a folder");
    assert_eq!(stat(&set)["urls"], 0);
}
