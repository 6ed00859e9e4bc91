//! WARC files in every form: plain, gzip and zstd, by member and whole, mixed, with dictionaries;
//! and bodies that are large, repeated, coded in every way, or not to be kept.

use crate::samples::{self, fresh, gz, page, plain, read, response, run, zst};
use std::io::{Read, Write};
use std::ops::ControlFlow;

use filemap::canonical::Exact;
use filemap::import::{ImportOptions, ImportReport, import};
use filemap::page::RecordKind;
use filemap::warc::ProblemKind;
use filemap::warc::Spool;
use filemap::{Options, PageStore};

/// The records of the plain sample, one by one.
fn records() -> Vec<Vec<u8>> {
    let all = plain("example.warc.gz");
    let starts: Vec<usize> = memchr::memmem::find_iter(&all, b"WARC/1.0\r\n").collect();
    let ends = starts.iter().copied().skip(1).chain([all.len()]);
    starts.iter().zip(ends).map(|(&from, to)| all[from..to].to_vec()).collect()
}

fn with_dictionary(dictionary: &[u8], frames: &[Vec<u8>]) -> Vec<u8> {
    let head = [&[0x5d, 0x2a, 0x4d, 0x18][..], &(dictionary.len() as u32).to_le_bytes(), dictionary].concat();
    [head, frames.concat()].concat()
}

#[test]
fn every_form_holds_the_same_records() {
    let records = records();
    let all = records.concat();
    let dictionary = zstd::dict::from_continuous(&all, &[all.len() / 2, all.len() - all.len() / 2], 2000)
        .unwrap_or_else(|_| all[..2000].to_vec());
    let packed = zst(&dictionary, b"");
    let framed: Vec<Vec<u8>> = records.iter().map(|record| zst(record, &dictionary)).collect();
    let forms: [(&str, Vec<u8>); 10] = [
        ("plain", all.clone()),
        ("gzip, a member a record", records.iter().flat_map(|record| gz(record)).collect()),
        ("gzip, one member", gz(&all)),
        ("gzip, members across records", all.chunks(1000).flat_map(gz).collect()),
        ("zstd, a frame a record", records.iter().flat_map(|record| zst(record, b"")).collect()),
        ("zstd, one frame", zst(&all, b"")),
        ("zstd, frames across records", all.chunks(1000).flat_map(|part| zst(part, b"")).collect()),
        ("zstd with a dictionary", with_dictionary(&dictionary, &framed)),
        ("zstd with a packed dictionary", with_dictionary(&packed, &framed)),
        ("bare LF", String::from_utf8_lossy(&records[1]).replace("\r\n", "\n").into_bytes()),
    ];
    let expected = samples::ids(&all);
    assert_eq!(expected.len(), 6);
    for (name, file) in &forms[..9] {
        let (found, problems) = read(file);
        assert_eq!(problems, [], "{name}");
        let ids: Vec<&str> = found.iter().filter_map(|record| record.header.text("WARC-Record-ID")).collect();
        assert_eq!(ids, expected, "{name}");
    }
}

#[test]
fn files_of_different_forms_can_be_concatenated() {
    let dictionary = plain("example.warc.gz")[..1500].to_vec();
    let parts: [Vec<u8>; 7] = [
        page("a", "1"),
        gz(&page("b", "2")),
        zst(&page("c", "3"), b""),
        with_dictionary(&dictionary, &[zst(&page("d", "4"), &dictionary)]),
        gz(&[page("e", "5"), page("f", "6")].concat()),
        with_dictionary(b"", &[zst(&page("g", "7"), b"")]),
        gz(b""),
    ];
    let (records, problems) = read(&parts.concat());
    assert_eq!((records.len(), problems.len()), (7, 0), "{problems:?}");
    let (records, problems) = read(&[parts[1].clone(), parts[0].clone()].concat());
    assert_eq!(records.len() + problems.len(), 2, "plain records behind compressed ones are found or told");
}

#[test]
fn large_bodies_pass_through_bounded_memory() {
    let text: Vec<u8> = (0..40_000_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut wire = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n".to_vec();
    for chunk in gz(&text).chunks(1 << 20) {
        write!(wire, "{:x}\r\n", chunk.len()).expect("memory");
        wire.extend_from_slice(chunk);
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(b"0\r\n\r\n");
    let fresh = fresh();
    let options = ImportOptions::new().spool(Spool::default().memory_bytes(1 << 20));
    let report = run(&fresh.store, &[gz(&response("big", &wire)), gz(&page("small", "s"))].concat(), &options);
    assert_eq!((report.stored, report.decoded, report.damaged), (2, 1, 0), "{report:?}");
    let (page, mut body) = fresh.store.get_reader("http://example.com/big").expect("readable").expect("there");
    assert_eq!(page.headers.get("Content-Length"), Some(&b"40000000"[..]));
    let mut out = Vec::new();
    body.read_to_end(&mut out).expect("readable");
    assert!(out == text);
    let again = run(&fresh.store, &gz(&response("big", &wire)), &options);
    assert_eq!((again.stored, again.already_there), (0, 1));
}

#[test]
fn a_bomb_is_kept_as_received() {
    let bomb = gz(&vec![0; 4 << 20]);
    let block = [b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", &bomb[..]].concat();
    let fresh = fresh();
    let report = run(&fresh.store, &response("bomb", &block), &ImportOptions::new().max_decoded_bytes(1 << 20));
    assert_eq!((report.stored, report.decoded, report.kept_as_received), (1, 0, 1));
    let page = fresh.store.get("http://example.com/bomb").expect("readable").expect("there");
    assert_eq!((page.body, page.headers.get("Content-Encoding")), (bomb, Some(&b"gzip"[..])));
}

#[test]
fn equal_bodies_are_stored_once_and_older_captures_hide_nothing() {
    let at = |date: &str, text: &str| {
        let record = String::from_utf8(page("p", text)).expect("text");
        record.replace("2020-01-01T00:00:00Z", date).into_bytes()
    };
    let file =
        [at("2021-01-01T00:00:00Z", "same"), at("2022-01-01T00:00:00Z", "same"), at("2019-01-01T00:00:00Z", "old")];
    let fresh = fresh();
    let report = run(&fresh.store, &file.concat(), &ImportOptions::new());
    assert_eq!((report.stored, report.unchanged), (3, 1));
    let heads = fresh.store.history("http://example.com/p").expect("readable");
    let years: Vec<String> =
        heads.iter().map(|head| filemap::date::format(head.page.fetched_at_ms)[..4].to_owned()).collect();
    assert_eq!(years, ["2022", "2021", "2019"]);
    assert_eq!(fresh.store.get("http://example.com/p").expect("readable").expect("there").body, b"same");
}

#[test]
fn records_that_cannot_be_kept_are_told_and_the_rest_imported() {
    let replace =
        |from: &str, to: &str| String::from_utf8(page("x", "text")).expect("text").replace(from, to).into_bytes();
    let long = format!("http://example.com/{}", "y".repeat(70_000));
    let latin = page("latin", "text");
    let at = memchr::memmem::find(&latin, b"latin").expect("there");
    let latin = [&latin[..at], b"\xe9", &latin[at + 1..]].concat();
    let file = [
        replace("http://example.com/x", "not a url"),
        replace("http://example.com/x", ""),
        replace("2020-01-01T00:00:00Z", "yesterday"),
        replace("http://example.com/x", &long),
        latin,
        page("good", "text"),
    ];
    let fresh = fresh();
    let report = run(&fresh.store, &file.concat(), &ImportOptions::new());
    assert_eq!((report.stored, report.unusable, report.damaged), (3, 3, 0), "{report:?}");
    assert!(fresh.store.contains("http://example.com/%E9atin").expect("readable"), "bytes stand as they are, escaped");
    let kinds: Vec<ProblemKind> = report.problems.iter().map(|problem| problem.kind).collect();
    let unusable = ProblemKind::Unusable;
    // An invalid date costs no page.
    assert_eq!(kinds, [unusable, unusable, ProblemKind::Warning, unusable]);
    let offsets: Vec<u64> = report.problems.iter().map(|problem| problem.place.offset).collect();
    let mut expected = vec![0u64];
    for record in &file[..3] {
        expected.push(expected[expected.len() - 1] + record.len() as u64);
    }
    assert_eq!(offsets, expected);
    let dir = tempfile::tempdir().expect("a folder");
    let exact =
        PageStore::create_with(dir.path().join("s"), std::sync::Arc::new(Exact), Options::new()).expect("a store");
    let report = run(&exact, &file.concat(), &ImportOptions::new());
    assert_eq!((report.stored, report.unusable), (4, 2), "exact keys take invalid URLs: {report:?}");
}

#[test]
fn headers_of_any_size_are_kept_whole() {
    let big = "c".repeat(200_000);
    let block = format!("HTTP/1.1 200 OK\r\nSet-Cookie: {big}\r\nX: \u{e9}\r\n\r\nbody");
    let fresh = fresh();
    let file = [response("big", block.as_bytes()), page("small", "s")].concat();
    assert_eq!(run(&fresh.store, &file, &ImportOptions::new()).stored, 2);
    let page = fresh.store.get("http://example.com/big").expect("readable").expect("there");
    assert_eq!((page.headers.get("Set-Cookie"), &page.body[..]), (Some(big.as_bytes()), &b"body"[..]));
    let head = fresh.store.head("http://example.com/big").expect("readable").expect("there");
    assert_eq!((head.body_bytes, head.page.headers), (4, page.headers));
    let (_, mut body) = fresh.store.get_reader("http://example.com/big").expect("readable").expect("there");
    let mut out = String::new();
    body.read_to_string(&mut out).expect("readable");
    assert_eq!(out, "body");
    assert_eq!(run(&fresh.store, &file, &ImportOptions::new()).already_there, 2);
}

#[test]
fn a_revisit_finds_its_original_by_url_and_date_or_by_digest() {
    let revisit = |name: &str, more: &str| {
        format!(
            "WARC/1.0\r\nWARC-Type: revisit\r\nWARC-Target-URI: http://example.com/{name}\r\n{more}\
             WARC-Date: 2021-01-01T00:00:00Z\r\nContent-Length: 33\r\n\r\n\
             HTTP/1.1 200 OK\r\nX: revisited\r\n\r\n\r\n\r\n"
        )
        .into_bytes()
    };
    let identical = "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest\r\n";
    let with_digest = |record: Vec<u8>, digest: &str| {
        let text = String::from_utf8(record).expect("text");
        text.replacen("WARC-Date", &format!("WARC-Payload-Digest: {digest}\r\nWARC-Date"), 1).into_bytes()
    };
    let other = "WARC-Refers-To-Target-URI: http://example.com/original\r\n";
    let dated = format!("{identical}{other}WARC-Refers-To-Date: 2020-01-01T00:00:00Z\r\n");
    let not_modified = "WARC-Profile: http://netpreserve.org/warc/1.0/revisit/server-not-modified\r\n";
    let file = [
        with_digest(page("original", "the original"), "sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5"),
        revisit("by-date", &dated),
        with_digest(revisit("by-digest", &format!("{identical}{other}")), "sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5"),
        with_digest(revisit("wrong-digest", &dated), "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"),
        page("own", "my own"),
        revisit("own", not_modified),
        revisit("lost", identical),
    ];
    let fresh = fresh();
    let report = run(&fresh.store, &file.concat(), &ImportOptions::new());
    assert_eq!((report.stored, report.damaged), (7, 0), "{report:?}");
    let body = |name: &str| {
        let page = fresh.store.get(&format!("http://example.com/{name}")).expect("readable").expect("there");
        assert_eq!((page.kind, page.headers.get("X")), (RecordKind::Revisit, Some(&b"revisited"[..])), "{name}");
        let is_found = page.revisit.expect("a revisit").original.is_some();
        (String::from_utf8(page.body).expect("text"), is_found)
    };
    assert_eq!(body("by-date"), ("the original".to_owned(), true));
    assert_eq!(body("by-digest"), ("the original".to_owned(), true));
    assert_eq!(body("own"), ("my own".to_owned(), true));
    assert_eq!(body("wrong-digest"), (String::new(), false));
    assert_eq!(body("lost"), (String::new(), false));
}

#[test]
fn progress_is_told_and_ends_with_the_whole_file() {
    let file: Vec<u8> = (0..1000).flat_map(|at| gz(&page(&at.to_string(), "text"))).collect();
    let fresh = fresh();
    let mut seen = Vec::new();
    let report: ImportReport = import(&fresh.store, "f", &file[..], &ImportOptions::new(), &mut |progress| {
        seen.push(progress);
        ControlFlow::Continue(())
    })
    .expect("fine");
    assert!(seen.len() >= 4 && seen.is_sorted_by_key(|progress| (progress.bytes_read, progress.pages)));
    let last = seen.last().expect("told");
    assert_eq!((last.bytes_read, last.records, last.pages), (file.len() as u64, 1000, 1000));
    assert_eq!(report.bytes_read, file.len() as u64);
}

#[test]
fn a_source_that_fails_is_an_error_and_keeps_what_came_before() {
    struct Failing(Vec<u8>, usize);
    impl Read for Failing {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            if self.1 == self.0.len() {
                return Err(std::io::Error::other("the disk is gone"));
            }
            let count = out.len().min(self.0.len() - self.1);
            out[..count].copy_from_slice(&self.0[self.1..self.1 + count]);
            self.1 += count;
            Ok(count)
        }
    }
    let fresh = fresh();
    let file = [gz(&page("a", "1")), gz(&page("b", "2"))].concat();
    let size = file.len();
    let error =
        import(&fresh.store, "f.warc.gz", Failing(file, 0), &ImportOptions::new(), &mut |_| ControlFlow::Continue(()))
            .expect_err("fails");
    let words = error.to_string();
    assert!(words.contains("f.warc.gz") && words.contains(&size.to_string()), "{words}");
    assert!(fresh.store.contains("http://example.com/a").expect("readable"));
}

/// A whole record of a type with these fields more.
fn record(fields: &str, block: &str) -> String {
    let about = "WARC-Target-URI: http://a/\r\nWARC-Date: 2020-01-01T00:00:00Z\r\n";
    format!("WARC/1.0\r\n{about}{fields}Content-Length: {}\r\n\r\n{block}\r\n\r\n", block.len())
}

#[test]
fn segments_of_a_record_and_types_that_are_not_known_are_counted_by_their_names() {
    let first = "WARC-Type: response\r\nWARC-Record-ID: <urn:first>\r\nWARC-Segment-Number: 1\r\n";
    let later = "WARC-Type: continuation\r\nWARC-Segment-Origin-ID: <urn:first>\r\nWARC-Segment-Number: 2\r\n";
    let answer = "HTTP/1.1 200 OK\r\n\r\nthe first half";
    let whole = format!("{first}WARC-Segment-Total-Length: {}\r\n", answer.len());
    let files = [
        (record(first, answer) + &record(later, ", the second"), (1, 2, 0)),
        (record(first, answer), (1, 1, 0)),
        (record(later, ", the second"), (0, 1, 0)),
        (record(&later.replace("continuation", "response"), ", the second"), (0, 1, 0)),
        (record("WARC-Type: Continuation\r\n", "of what?"), (0, 1, 0)),
        (record(&whole, answer), (1, 0, 0)),
        (record(&first.replace("Number: 1", "Number: 0"), answer), (1, 1, 0)),
        (record(&first.replace("Number: 1", "Number: x"), answer), (1, 1, 0)),
        (record("WARC-Type: screenshot\r\n", "a picture"), (0, 0, 1)),
        (record("", "no type"), (0, 0, 1)),
        (record("WARC-Type: warcinfo\r\n", "software: x"), (0, 0, 0)),
    ];
    for (file, (stored, segments, unusable)) in files {
        let to = fresh();
        let report = run(&to.store, file.as_bytes(), &ImportOptions::new());
        assert_eq!((report.stored, report.segments, report.unusable), (stored, segments, unusable), "{file}");
        assert_eq!(report.losses(), segments + unusable, "{file}");
        assert_eq!(report.ignored, u64::from(file.contains("warcinfo")), "{file}");
        let page = to.store.get("http://a/").unwrap();
        let is_cut = page.map(|page| (page.body, page.truncated.is_some()));
        assert_eq!(is_cut, (stored > 0).then(|| (b"the first half".to_vec(), segments > 0)), "{file}");
        let said: Vec<_> = report.problems.iter().map(|p| (p.kind, p.what.as_str())).collect();
        let is_named = |(kind, what): &(ProblemKind, &str)| match kind {
            ProblemKind::Segment => {
                what.contains("http://a/") || what.contains("<urn:first>") || what.contains("unknown")
            }
            _ => what.contains("screenshot") || what.contains("no type"),
        };
        assert!(said.len() as u64 == report.losses() && said.iter().all(is_named), "{said:?}");
    }
}
