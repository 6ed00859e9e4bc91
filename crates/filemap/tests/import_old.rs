//! Files as they are found: ARC records, invalid dates, line ends with two carriage returns,
//! a last record that is clipped at each of its bytes, payload digests that do not hold, and forms
//! of compression that are not read.

use std::collections::BTreeMap;
use std::io::{Read, Write as _};
use std::ops::ControlFlow;

use crate::samples::{self, Fresh, fresh, gz, read, run, zst};
use filemap::date::DateRule;
use filemap::import::{ImportOptions, ImportReport};
use filemap::page::RecordKind;
use filemap::warc::{ProblemKind, Record};
use filemap::{Error, Page, PageStore, date};

const ARC_FIRST: &str = "filedesc://IA-1.arc 0.0.0.0 20060622190110 text/plain 76\n1 0 InternetArchive\n\
     URL IP-address Archive-date Content-type Archive-length\n";

fn arc_first(version: u32) -> String {
    let fields = match version {
        2 => "URL IP-address Archive-date Content-type Result-code Checksum Location Offset Filename Archive-length",
        _ => "URL IP-address Archive-date Content-type Archive-length",
    };
    let about = match version {
        // ARC 1.1 has metadata behind its version.
        11 => "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<arcmetadata>http://x/ 1.2.3.4 2006 a b\n</arcmetadata>\n",
        _ => "",
    };
    let versions = match version {
        2 => "2 0",
        11 => "1 1",
        _ => "1 0",
    };
    let block = format!("{versions} InternetArchive\n{fields}\n{about}");
    let rest = if version == 2 { "200 - - 0 IA-1.arc " } else { "" };
    format!("filedesc://IA-1.arc 0.0.0.0 20060622190110 text/plain {rest}{}\n{block}\n", block.len())
}

/// An ARC record of this version.
fn arc(version: u32, url: &str, date: &str, media_type: &str, block: &str) -> String {
    let rest = if version == 2 { "200 fac069150613fe55599cc7fa88aa089d - 209 IA-1.arc " } else { "" };
    format!("{url} 1.2.3.4 {date} {media_type} {rest}{}\n{block}\n", block.len())
}

fn http(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nServer: old\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn get(store: &PageStore, url: &str) -> Page {
    store.get(url).expect("readable").unwrap_or_else(|| panic!("{url} is not there"))
}

fn import(file: &[u8]) -> (Fresh, ImportReport) {
    let fresh = fresh();
    let report = run(&fresh.store, file, &ImportOptions::new());
    (fresh, report)
}

#[test]
fn arc_files_of_every_version_are_read_plain_and_packed() {
    assert!(arc_first(10).starts_with(ARC_FIRST));
    for version in [10, 11, 2] {
        let records = [
            arc_first(version),
            arc(version, "http://a.example/", "20060622190111", "text/html", &http("<p>first\n\nhttp://no/ 1 2 3\n")),
            arc(version, "http://a.example/b c", "20060622190112", "text/html", &http("a space")),
            arc(version, "dns:a.example", "20060622190113", "text/dns", "20060622\na.example. 300 IN A 1.2.3.4\n"),
            arc(version, "http://b.example/", "20060622190114", "text/plain", "no HTTP at all"),
            arc(version, "https://c.example/", "200606221901", "text/html", &http("")),
        ];
        let whole = records.concat().into_bytes();
        let forms = [
            ("plain", whole.clone()),
            ("a member a record", records.iter().flat_map(|record| gz(record.as_bytes())).collect()),
            ("one member", gz(&whole)),
            ("zstd", zst(&whole, b"")),
            ("twice", [whole.clone(), whole.clone()].concat()),
            ("members twice", records.iter().chain(&records).flat_map(|record| gz(record.as_bytes())).collect()),
        ];
        for (form, file) in forms {
            let name = format!("version {version}, {form}");
            let (fresh, report) = import(&file);
            assert_eq!((report.damaged, report.unusable), (0, 0), "{name}: {report:?}");
            assert_eq!(report.stored, 5, "{name}");
            assert_eq!(report.ignored, if form.ends_with("twice") { 2 } else { 1 }, "{name}");
            let first = get(&fresh.store, "http://a.example/");
            assert_eq!(first.body, b"<p>first\n\nhttp://no/ 1 2 3\n", "{name}");
            assert_eq!((first.status, first.ip), (Some(200), "1.2.3.4".parse().ok()), "{name}");
            assert_eq!(date::format(first.fetched_at_ms), "2006-06-22T19:01:11Z", "{name}");
            assert_eq!(get(&fresh.store, "http://a.example/b%20c").body, b"a space", "{name}");
            let dns = get(&fresh.store, "dns:a.example");
            assert_eq!((dns.kind, dns.headers.get("Content-Type")), (RecordKind::Resource, Some(&b"text/dns"[..])));
            assert_eq!(get(&fresh.store, "http://b.example/").body, b"no HTTP at all", "{name}");
            // Twelve digits: to the minute.
            let minutes = get(&fresh.store, "https://c.example/");
            assert_eq!(date::format(minutes.fetched_at_ms), "2006-06-22T19:01:00Z", "{name}");
        }
    }
}

#[test]
fn damage_in_an_arc_file_costs_the_record_it_is_in() {
    let page = |name: &str| arc(10, &format!("http://{name}.example/"), "20060622190111", "text/html", &http(name));
    let (a, b, c) = (page("a"), page("b"), page("c"));
    let bad_length = b.replace(&format!("text/html {}\n", http("b").len()), "text/html -1\n");
    let long_length = b.replace(&format!("text/html {}\n", http("b").len()), "text/html 100000\n");
    let first = arc_first(10);
    for (what, middle) in [("bad", bad_length), ("long", long_length), ("garbage", "garbage\nand more\n".to_owned())] {
        let packed: Vec<u8> = [&first, &a, &middle, &c].into_iter().flat_map(|record| gz(record.as_bytes())).collect();
        for file in [[&first[..], &a, &middle, &c].concat().into_bytes(), packed] {
            let (fresh, report) = import(&file);
            let is_kept = what == "long";
            assert_eq!((report.stored, report.damaged), (2 + u64::from(is_kept), 1), "{what}: {report:?}");
            assert_eq!(get(&fresh.store, "http://c.example/").body, b"c", "{what}");
            assert_eq!(fresh.store.get("http://b.example/").expect("readable").is_some(), is_kept, "{what}");
        }
    }
}

fn block(record: &mut Record) -> Vec<u8> {
    let mut block = Vec::new();
    record.block().expect("in memory").read_to_end(&mut block).expect("in memory");
    block
}

#[test]
fn a_wrong_length_in_an_arc_file_costs_no_other_page_whatever_it_is() {
    for (version, text) in [(10, "the page\nof b\n\nand its end"), (2, "of b\n"), (11, "b")] {
        let body = |name: &str| format!("{name}: {text}");
        let page = |name: &str| {
            arc(version, &format!("http://{name}.example/"), "20060622190111", "text/html", &http(&body(name)))
        };
        let (first, a, b, c) = (arc_first(version), page("a"), page("b"), page("c"));
        let (length, all) = (http(&body("b")).len(), http(&body("b")) + "\n" + &c);
        // A line end too few leaves two behind the record, as some writers do.
        let is_told = |wrong: usize| wrong != length && !(text.ends_with('\n') && wrong + 1 == length);
        for wrong in (1..all.len() + 200).filter(|&wrong| is_told(wrong)) {
            let line = b.lines().next().expect("a line");
            let rest = line.rsplit_once(' ').expect("a length").0;
            let wronged = b.replacen(line, &format!("{rest} {wrong}"), 1);
            let packed = [&first, &a, &wronged, &c].into_iter().flat_map(|record| gz(record.as_bytes())).collect();
            let files = [("plain", [&first[..], &a, &wronged, &c].concat().into_bytes()), ("packed", packed)];
            for (form, file) in files {
                let what = format!("version {version}, {form}, {wrong} for {length}");
                let (mut records, problems) = read(&file);
                let urls: Vec<&str> =
                    records.iter().filter_map(|record| record.header.text("WARC-Target-URI")).collect();
                assert_eq!(
                    &urls[1..],
                    ["http://a.example/", "http://b.example/", "http://c.example/"],
                    "{what}: {problems:?}"
                );
                assert!(!problems.is_empty(), "{what}");
                let blocks: Vec<Vec<u8>> = records.iter_mut().map(block).collect();
                assert_eq!((&blocks[1], &blocks[3]), (&http(&body("a")).into(), &http(&body("c")).into()), "{what}");
                let is_truncated = |nth: usize| records[nth].header.text("WARC-Truncated").is_some();
                assert!(!is_truncated(1) && !is_truncated(3), "{what}");
                if form == "plain" {
                    assert_eq!(problems[0].place.offset, (first.len() + a.len()) as u64, "{what}: {problems:?}");
                }
                let whole = http(&body("b")).into_bytes();
                assert!(if wrong > length { blocks[2] == whole } else { whole.starts_with(&blocks[2]) }, "{what}");
            }
        }
        // At the end of the file.
        for more in [1, 2, 50, 5000] {
            let line = c.lines().next().expect("a line");
            let rest = line.rsplit_once(' ').expect("a length").0;
            let wronged = c.replacen(line, &format!("{rest} {}", length + more), 1);
            for file in [[&first[..], &a, &wronged].concat().into_bytes(), {
                [&first, &a, &wronged].into_iter().flat_map(|record| gz(record.as_bytes())).collect()
            }] {
                let (fresh, report) = import(&file);
                assert_eq!((report.stored, report.damaged), (2, 1), "{more}: {:?}", report.problems);
                let page = get(&fresh.store, "http://c.example/");
                assert_eq!(page.body, body("c").into_bytes());
                assert_eq!(page.truncated.is_some(), more > 1);
            }
        }
    }
}

#[test]
fn records_without_a_line_end_between_them_are_whole() {
    let page = |name: &str, text: &str| {
        let record = arc(10, &format!("http://{name}.example/"), "20060622190111", "text/html", text);
        record[..record.len() - 1].to_owned()
    };
    for texts in [["a", "b", "c"], ["a\n", "b\n", "c\n"]] {
        let records: Vec<String> = texts.iter().map(|text| page(text.trim_end(), text)).collect();
        let first = arc_first(10);
        let (fresh, report) = import(format!("{}{}", &first[..first.len() - 1], records.concat()).as_bytes());
        assert_eq!((report.stored, report.damaged), (3, 0), "{:?}", report.problems);
        for text in texts {
            let url = format!("http://{}.example/", text.trim_end());
            assert_eq!(get(&fresh.store, &url).body, text.as_bytes());
        }
    }
}

#[test]
fn a_date_of_letters_costs_no_arc_record() {
    for version in [10, 11, 2] {
        let page = |name: &str, date: &str| {
            let dated = http(name).replace("Server: old", "Date: Thu, 22 Jun 2006 20:00:00 GMT");
            let block = if name == "b" { dated } else { http(name) };
            arc(version, &format!("http://{name}.example/"), date, "text/html", &block)
        };
        let records = [
            arc_first(version).replacen("20060622190110", "abcdefghijklmn", 1),
            page("a", "20060622190111"),
            page("b", "abcdefghijklmn"),
            page("c", "2006O62219O112"),
            page("d", "2006"),
            page("e", "20060622190115"),
        ];
        let packed = records.iter().flat_map(|record| gz(record.as_bytes())).collect();
        let frames = records.iter().flat_map(|record| zst(record.as_bytes(), b"")).collect();
        for file in [records.concat().into_bytes(), packed, frames, gz(records.concat().as_bytes())] {
            let (fresh, report) = import(&file);
            assert_eq!((report.stored, report.losses()), (5, 0), "{:?}", report.problems);
            let time = |name: &str| date::format(get(&fresh.store, &format!("http://{name}.example/")).fetched_at_ms);
            assert_eq!(time("a"), "2006-06-22T19:01:11Z");
            assert_eq!(time("b"), "2006-06-22T20:00:00Z", "of its own headers");
            assert_eq!(time("e"), "2006-06-22T19:01:15Z");
            assert_eq!(get(&fresh.store, "http://c.example/").body, b"c");
            assert_eq!(report.mended_dates.values().sum::<u64>(), 2, "{:?}", report.mended_dates);
            assert!(
                report.warnings > 0 && report.problems.iter().any(|problem| problem.what.contains("abcdefghijklmn"))
            );
        }
    }
}

#[test]
fn a_clipped_last_record_keeps_what_is_there_at_every_byte() {
    let body = "the last page of the file, of which not all may be there\n".repeat(3);
    let warc = |url: &str, body: &str| {
        let block = http(body);
        format!(
            "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {url}\r\nWARC-Date: 2020-01-01T00:00:00Z\r\n\
             Content-Type: application/http\r\nContent-Length: {}\r\n\r\n{block}\r\n\r\n",
            block.len()
        )
    };
    let old = |url: &str, body: &str| arc(10, url, "20060622190111", "text/html", &http(body));
    let of_cut = |form: &str, cut: usize| format!("http://{form}.example/{cut:04}");
    let fresh = fresh();
    let there = |url: &str| fresh.store.get(url).expect("readable");
    let mut kept = 0;
    let first = |is_arc: bool| {
        if is_arc { [arc_first(10), old("http://a/", "whole")].concat() } else { warc("http://a/", "whole") }
    };
    let last = |is_arc: bool, url: &str| if is_arc { old(url, &body) } else { warc(url, &body) };
    for (form, is_arc) in [("warc", false), ("arc", true)] {
        let bytes = last(is_arc, &of_cut(form, 0)).len();
        for cut in 1..bytes {
            let url = of_cut(form, cut);
            let (first, last) = (first(is_arc), last(is_arc, &url));
            let head = last.find("\r\n\r\nthe last").expect("a body") + 4;
            let status = last.find("200 OK\r\n").expect("a status line") + 8;
            let file = [first.as_bytes(), &last.as_bytes()[..cut]].concat();
            let report = run(&fresh.store, &file, &ImportOptions::new());
            let what = format!("{form} cut at {cut}: {:?}", report.problems);
            assert_eq!(report.stored + report.already_there, 1 + u64::from(cut >= status), "{what}");
            if cut < status {
                assert!(there(&url).is_none() && report.damaged == 1, "{what}");
                continue;
            }
            let page = there(&url).expect(&what);
            let body_there = &last.as_bytes()[head.min(cut)..cut];
            let is_whole = body_there.len() >= body.len();
            assert_eq!(page.body, &body_there[..body_there.len().min(body.len())], "{what}");
            assert_eq!((page.status, page.truncated.is_some()), (Some(200), !is_whole), "{what}");
            assert_eq!(report.damaged, u64::from(!is_whole), "{what}");
        }
        for (packer, pack) in
            [("gz", gz as fn(&[u8]) -> Vec<u8>), ("stored", gz_stored), ("zst", |bytes| zst(bytes, b""))]
        {
            let whole = pack(first(is_arc).as_bytes());
            let bytes = pack(last(is_arc, &of_cut(&format!("{packer}.{form}"), 0)).as_bytes()).len();
            // Without its trailer the page is whole.
            for cut in 1..bytes - if packer == "zst" { 0 } else { 8 } {
                let url = of_cut(&format!("{packer}.{form}"), cut);
                let text = last(is_arc, &url);
                let packed = pack(text.as_bytes());
                let status = text.find("200 OK\r\n").expect("a status line") + 8;
                let file = [&whole, &packed[..cut]].concat();
                let report = run(&fresh.store, &file, &ImportOptions::new());
                let what = format!("{packer}.{form} cut at {cut}: {report:?}");
                assert_eq!((report.damaged, report.already_there), (1, 1), "{what}");
                let unpacked = unpacked(&packed[..cut]);
                assert_eq!(there(&url).is_some(), unpacked >= status, "{what}");
                let Some(page) = there(&url) else { continue };
                assert!(body.as_bytes().starts_with(&page.body), "{what}");
                assert!(page.truncated.is_some() || page.body.len() == body.len(), "{what}");
                kept += u64::from(!page.body.is_empty());
            }
        }
    }
    assert!(kept > 16, "{kept}");
    assert_eq!(get(&fresh.store, "http://a/").body, b"whole");
}

/// Bytes that a cut gzip member or zstd frame gives.
fn unpacked(packed: &[u8]) -> usize {
    let mut out = Vec::new();
    let _ = match packed.starts_with(&[0x1f]) {
        true => flate2::read::GzDecoder::new(packed).read_to_end(&mut out),
        false => zstd::Decoder::new(packed).and_then(|mut from| from.read_to_end(&mut out)),
    };
    out.len()
}

/// A member whose data is not compressed: what is packed inside lies bare.
fn gz_stored(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    out.write_all(bytes).expect("memory");
    out.finish().expect("memory")
}

#[test]
fn a_clipped_last_record_whose_body_is_packed_is_kept() {
    let body = gz(&(0..3000u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n";
    let block = [head.as_bytes(), &body].concat();
    let text = format!(
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://h/\r\nWARC-Date: 2020-01-01T00:00:00Z\r\n\
         Content-Type: application/http\r\nContent-Length: {}\r\n\r\n",
        block.len()
    );
    let record = gz_stored(&[text.as_bytes(), &block, b"\r\n\r\n"].concat());
    for missing in [9, 12, 40, body.len() / 2] {
        let file = [&gz(&samples::page("a", "whole")), &record[..record.len() - missing]].concat();
        let (fresh, report) = import(&file);
        assert_eq!((report.stored, report.damaged), (2, 1), "{missing} missing: {report:?}");
        assert!(fresh.store.get("http://h/").expect("readable").is_some_and(|page| !page.body.is_empty()));
    }
}

#[test]
fn damage_behind_a_cut_record_is_told_of_its_own() {
    let short = |name: &str| {
        let page = samples::page(name, &format!("{name} ").repeat(40));
        page[..page.len() - 30].to_vec()
    };
    // Its member is whole, so what follows is not part of it.
    let report = import(&[gz(&short("a")), vec![0; 4000]].concat()).1;
    assert_eq!((report.stored, report.damaged), (0, 2), "{:?}", report.problems);
    // It ends inside its member, and a record follows after all: nothing between is passed over.
    let whole = gz(&samples::page("a", &"a ".repeat(400)));
    let inner = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3][..], &[1, 3, 0, 252, 255, b'x', b'y', b'z'], &[0; 8]].concat();
    let file = [whole[..whole.len() - 20].to_vec(), inner, gz(&samples::page("c", "c"))].concat();
    let (fresh, report) = import(&file);
    assert!(report.damaged >= 1 && report.stored == 1, "{:?}", report.problems);
    get(&fresh.store, "http://example.com/c");
}

#[test]
fn a_record_that_is_cut_but_not_the_last_is_damage() {
    let page = |name: &str| samples::page(name, &format!("{name} ").repeat(40));
    let cut = |record: Vec<u8>| record[..record.len() - 30].to_vec();
    for file in [[cut(page("a")), page("b")].concat(), [gz(&cut(page("a"))), gz(&page("b"))].concat(), {
        let whole = gz(&page("a"));
        [whole[..whole.len() - 12].to_vec(), gz(&page("b"))].concat()
    }] {
        let (fresh, report) = import(&file);
        assert_eq!((report.stored, report.damaged), (1, 1), "{report:?}");
        assert!(fresh.store.get("http://example.com/a").expect("readable").is_none());
    }
}

#[test]
fn lines_may_end_with_two_carriage_returns() {
    let block = "HTTP/1.1 200 OK\r\r\nServer: old\r\r\n\r\r\nbody";
    let record = |name: &str| {
        format!(
            "WARC/1.0\r\r\nWARC-Type: response\r\r\nWARC-Target-URI: http://{name}.example/\r\r\n\
             WARC-Date: 2020-01-01T00:00:00Z\r\r\nContent-Type: application/http\r\r\nContent-Length: {}\r\r\n\r\r\n\
             {block}\r\r\n\r\r\n",
            block.len()
        )
        .into_bytes()
    };
    for file in [[record("a"), record("b")].concat(), [gz(&record("a")), gz(&record("b"))].concat()] {
        let (fresh, report) = import(&file);
        assert_eq!((report.stored, report.damaged), (2, 0), "{report:?}");
        for url in ["http://a.example/", "http://b.example/"] {
            let page = get(&fresh.store, url);
            assert_eq!((&page.body[..], page.headers.get("server")), (&b"body"[..], Some(&b"old"[..])));
        }
    }
}

/// A page with this line in the place of its date, and this header in its answer.
fn dated(name: &str, line: &str, header: &str) -> Vec<u8> {
    let block = format!("HTTP/1.1 200 OK\r\n{header}\r\n{name}");
    format!(
        "WARC/0.18\r\nWARC-Type: response\r\nWARC-Target-URI: http://{name}.example/\r\n{line}\
         Content-Type: application/http\r\nContent-Length: {}\r\n\r\n{block}\r\n\r\n",
        block.len()
    )
    .into_bytes()
}

#[test]
fn a_page_is_kept_whatever_its_date_by_a_rule_that_is_said_and_counted() {
    let date_header = "Date: Wed, 28 Jan 2009 17:05:56 GMT\r\n";
    let cases = [
        ("a", "", "", "1970-01-01T00:00:00Z", DateRule::None),
        ("b", "WARC-Date: soon\r\n", "", "1970-01-01T00:00:00Z", DateRule::None),
        ("c", "WARC-Date: 2008-10-294T05:21:46-0700\r\n", date_header, "2008-10-20T12:21:46Z", DateRule::DayOfYear),
        ("d", "WARC-Date: 2008/10/20 05:21\r\n", date_header, "2008-10-20T05:21:00Z", DateRule::Repaired),
        ("e", "WARC-Date: \r\n", date_header, "2009-01-28T17:05:56Z", DateRule::HttpDate),
        ("f", "WARC-Date: \u{e9}\r\n", "Date: never\r\n", "2008-10-20T05:21:00Z", DateRule::Neighbour),
        ("g", "WARC-Date: 2008-11-306T05:21:46-0700\r\n", "", "2008-11-01T12:21:46Z", DateRule::DayOfYear),
    ];
    let file: Vec<u8> = cases.iter().flat_map(|(name, line, header, ..)| dated(name, line, header)).collect();
    let (fresh, report) = import(&file);
    assert_eq!((report.stored, report.damaged, report.unusable), (7, 0, 0), "{report:?}");
    for (name, line, _, expected, _) in cases {
        let page = get(&fresh.store, &format!("http://{name}.example/"));
        assert_eq!((date::format(page.fetched_at_ms).as_str(), page.body), (expected, name.into()), "{line:?}");
    }
    let mut expected = BTreeMap::new();
    cases.iter().for_each(|(.., rule)| *expected.entry(*rule).or_insert(0) += 1);
    assert_eq!(report.mended_dates, expected);
    // Each rule is said once.
    assert_eq!((report.warnings, report.problems.len()), (5, 5));
    for problem in &report.problems {
        assert_eq!(problem.kind, ProblemKind::Warning);
        assert!(expected.keys().any(|rule| problem.what.contains(rule.name())), "{problem}");
    }
    let again = run(&fresh.store, &file, &ImportOptions::new());
    assert_eq!((again.stored, again.already_there), (0, 7));
}

#[test]
fn a_page_is_kept_though_its_date_is_before_or_after_all_years() {
    let (first, last) = ("0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z");
    let cases = [
        ("99999999999999", last),
        ("9999-99-99T99:99:99Z", last),
        ("9999-12-31T24:00:00Z", last),
        ("9999-12-31 23:59:59 -0800", last),
        ("0000-00-00T00:00:00+0100", first),
        ("99999999999999999999999999", last),
    ];
    for (text, expected) in cases {
        let (fresh, report) = import(&dated("a", &format!("WARC-Date: {text}\r\n"), ""));
        assert_eq!((report.stored, report.unusable), (1, 0), "{text}: {report:?}");
        assert_eq!(date::format(get(&fresh.store, "http://a.example/").fetched_at_ms), expected, "{text}");
        let old = arc(10, "http://b.example/", &text.replace(' ', ""), "text/html", &http("b"));
        let (fresh, report) = import([arc_first(10), old].concat().as_bytes());
        assert_eq!((report.stored, report.unusable), (1, 0), "{text}: {report:?}");
        get(&fresh.store, "http://b.example/");
    }
}

#[test]
fn payload_digests_are_checked_in_every_form_and_counted() {
    use sha1::Digest as _;
    let base16 = |bytes: &[u8]| sha1::Sha1::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let packed = gz(b"the body");
    let chunked = [format!("{:x}\r\n", packed.len()).as_bytes(), &packed, b"\r\n0\r\n\r\n"].concat();
    let right = ["the body".as_bytes(), &packed, &chunked].map(|payload| format!("sha1:{}", base16(payload)));
    let record = |name: &str, digest: Option<&str>| {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n";
        let digest = digest.map_or(String::new(), |digest| format!("WARC-Payload-Digest: {digest}\r\n"));
        let header = format!(
            "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://{name}.example/\r\n{digest}\
             WARC-Date: 2020-01-01T00:00:00Z\r\nContent-Length: {}\r\n\r\n",
            head.len() + chunked.len()
        );
        [header.as_bytes(), head.as_bytes(), &chunked, b"\r\n\r\n"].concat()
    };
    let digests = [
        Some(right[0].as_str()),
        Some(&right[1]),
        Some(&right[2]),
        None,
        Some("sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5"),
        Some("sha1:VGMT4NSHA2"),
        Some("-"),
        Some("xxh3:0011223344556677"),
    ];
    let file: Vec<u8> =
        digests.iter().enumerate().flat_map(|(at, digest)| record(&format!("p{at}"), *digest)).collect();
    let (fresh, report) = import(&file);
    assert_eq!((report.stored, report.damaged), (8, 0), "{report:?}");
    let digests = report.digests;
    assert_eq!((digests.absent, digests.wrong, digests.unreadable, digests.unchecked), (1, 1, 2, 1));
    for at in 0..8 {
        assert_eq!(get(&fresh.store, &format!("http://p{at}.example/")).body, b"the body");
    }
}

#[test]
fn what_is_compressed_in_another_form_is_named_with_what_to_do() {
    for (magic, name, command) in [
        (&b"\xfd7zXZ\0\0\x04"[..], "xz", "xz -dc test.warc |"),
        (b"BZh91AY&SY", "bzip2", "bzip2 -dc test.warc |"),
        (b"\x04\x22\x4d\x18\x64\x40", "LZ4", "lz4 -dc test.warc |"),
    ] {
        let fresh = fresh();
        let file = [magic, &[7; 1000]].concat();
        let error = filemap::import::import(&fresh.store, "test.warc", &file[..], &ImportOptions::new(), &mut |_| {
            ControlFlow::Continue(())
        });
        let error = error.expect_err("refused");
        assert!(matches!(error, Error::Packed { .. }), "{error}");
        assert!(error.to_string().contains(name) && error.to_string().contains(command), "{error}");
    }
}
