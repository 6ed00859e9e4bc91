//! Answers find their requests on import: what a POST brought never stands in the page's place,
//! whatever order the records of a file have.

use std::collections::BTreeSet;

use crate::samples::{Fresh, fresh, read, run};
use crate::stores::{assert_equal, dumped};
use filemap::dump::{DumpOptions, Format};
use filemap::import::{ImportOptions, ImportReport};
use filemap::page::{RecordKind, RevisitProfile};
use filemap::{Lookup, PageStore, Variant};

const URL: &str = "http://a.example/api?v=1";
const FORM: &str = "application/x-www-form-urlencoded";

/// The fields by which records say what belongs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    RequestNamesAnswer,
    AnswerNamesRequest,
    /// They stand beside each other, with the same URL and date.
    Nothing,
}

/// A record of this type, id and block.
fn record(kind: &str, id: &str, names: Option<&str>, second: usize, block: &str) -> String {
    let names = names.map_or(String::new(), |id| format!("WARC-Concurrent-To: <urn:{id}>\r\n"));
    let mime = match kind {
        "request" => "application/http;msgtype=request",
        "metadata" => "application/warc-fields",
        _ => "application/http;msgtype=response",
    };
    format!(
        "WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {URL}\r\nWARC-Date: 2020-01-01T00:00:{second:02}Z\r\n\
         WARC-Record-ID: <urn:{id}>\r\n{names}Content-Type: {mime}\r\nContent-Length: {}\r\n\r\n{block}\r\n\r\n",
        block.len()
    )
}

fn answer(text: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n{text}")
}

fn request(method: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} /api?v=1 HTTP/1.1\r\nHost: a.example\r\nContent-Type: {FORM}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// A request and its answer as two records.
fn pair(nth: usize, method: &str, body: &str, says: Says, request_first: bool) -> String {
    let (asked, answered) = (format!("q{nth}"), format!("a{nth}"));
    let names = |from: Says, id: &str| Some(id.to_owned()).filter(|_| says == from);
    let request =
        record("request", &asked, names(Says::RequestNamesAnswer, &answered).as_deref(), nth, &request(method, body));
    let text = answer(&format!("{method} {body}"));
    let answer = record("response", &answered, names(Says::AnswerNamesRequest, &asked).as_deref(), nth, &text);
    if request_first { request + &answer } else { answer + &request }
}

fn post(body: &str) -> Variant {
    Variant::of_request("POST", Some(FORM.as_bytes()), body.as_bytes()).expect("no GET")
}

fn body(store: &PageStore, variant: Option<&Variant>) -> Option<String> {
    let page = store.get(Lookup::new(URL).variant(variant)).expect("readable");
    page.map(|page| String::from_utf8(page.body).expect("text"))
}

#[track_caller]
fn imported(file: &str) -> (Fresh, ImportReport) {
    let to = fresh();
    let report = run(&to.store, file.as_bytes(), &ImportOptions::new());
    (to, report)
}

#[test]
fn a_get_and_two_posts_of_one_url_are_three_answers_in_any_order() {
    const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for says in [Says::RequestNamesAnswer, Says::AnswerNamesRequest, Says::Nothing] {
        for request_first in [false, true] {
            for order in ORDERS {
                let what = format!("{says:?}, request first: {request_first}, {order:?}");
                let of = |(nth, kind): (usize, &usize)| {
                    let (method, body) = [("GET", ""), ("POST", "q=1"), ("POST", "q=2")][*kind];
                    pair(nth, method, body, says, request_first)
                };
                let file: String = order.iter().enumerate().map(of).collect();
                let (to, report) = imported(&file);
                assert_eq!((report.damaged, report.unusable), (0, 0), "{what}: {:?}", report.problems);
                assert_eq!((report.stored, report.variants, report.ignored), (5, 2, 1), "{what}");
                assert_eq!(body(&to.store, None).as_deref(), Some("GET "), "{what}");
                assert_eq!(body(&to.store, Some(&post("q=1"))).as_deref(), Some("POST q=1"), "{what}");
                assert_eq!(body(&to.store, Some(&post("q=2"))).as_deref(), Some("POST q=2"), "{what}");
                assert_eq!(to.store.history(URL).expect("readable").len(), 1, "{what}");
                assert_eq!(to.store.urls().count(), 1, "{what}");
                let again = run(&to.store, file.as_bytes(), &ImportOptions::new());
                assert_eq!((again.stored, again.already_there), (0, 5), "{what}");
            }
        }
    }
}

#[test]
fn an_export_of_answers_to_requests_has_their_keys_and_comes_back() {
    let posts: String =
        (0..3).map(|nth| pair(nth, ["GET", "POST", "PUT"][nth], "", Says::RequestNamesAnswer, nth == 1)).collect();
    let (from, _) = imported(&posts);
    let (files, _) = dumped(&from.store, &DumpOptions::new("x", &[Format::Warc, Format::Cdxj, Format::Jsonl]));
    let index = String::from_utf8(files.file("x.cdxj")).expect("text");
    let keys: BTreeSet<&str> = index.lines().filter_map(|line| line.split(' ').next()).collect();
    let expected = ["example,a)/api?__wb_method=post&v=1", "example,a)/api?__wb_method=put&v=1", "example,a)/api?v=1"];
    assert_eq!(keys.into_iter().collect::<Vec<_>>(), expected);
    let warc = files.file("x-00000.warc.gz");
    let back = fresh();
    assert_eq!(run(&back.store, &warc, &ImportOptions::new()).stored, 5);
    assert_equal(&back.store, &from.store);
    // Other readers find the request of each by WARC-Concurrent-To, which the second of both has.
    let (records, _) = read(&warc);
    let concurrent = |at: usize| records[at].header.text("WARC-Concurrent-To");
    let id = |at: usize| records[at].header.text("WARC-Record-ID");
    let types: Vec<&str> = records.iter().map(|record| record.header.record_type()).collect();
    assert_eq!(types, ["warcinfo", "response", "request", "response", "response", "request"]);
    assert_eq!([1, 2, 3, 4, 5].map(concurrent), [None, None, id(2), None, id(4)]);
}

#[test]
fn an_answer_without_a_request_and_one_to_a_get_are_the_page() {
    let alone = record("response", "a", None, 1, &answer("alone"));
    let odd = record("request", "q", Some("a"), 1, "no message at all");
    let ended = record("request", "q", Some("a"), 1, "GET /api?v=1 HTTP/1.0\r\nHost: a.example\r\n\r\n\r\n");
    let get = pair(1, "GET", "", Says::RequestNamesAnswer, false);
    for (file, unusable) in [(alone.clone(), 0), (get, 0), (alone.clone() + &odd, 1), (alone + &ended, 0)] {
        let (to, report) = imported(&file);
        assert_eq!((report.stored, report.variants, report.unusable), (1, 0, unusable));
        assert!(body(&to.store, None).is_some());
        assert!(!to.store.may_have_variants(URL).expect("readable"));
    }
}

#[test]
fn every_method_but_a_plain_get_makes_a_variant() {
    for (method, sent) in
        [("HEAD", ""), ("OPTIONS", ""), ("PUT", "x"), ("DELETE", ""), ("PATCH", "x"), ("GET", "x"), ("QUERY", "x")]
    {
        let (to, report) =
            imported(&(pair(1, "GET", "", Says::Nothing, false) + &pair(2, method, sent, Says::Nothing, false)));
        assert_eq!((report.stored, report.variants), (3, 1), "{method}");
        assert_eq!(body(&to.store, None).as_deref(), Some("GET "), "{method}");
        let variant = Variant::of_request(method, Some(FORM.as_bytes()), sent.as_bytes()).expect("a variant");
        assert_eq!(body(&to.store, Some(&variant)), Some(format!("{method} {sent}")));
        assert_eq!(variant.method(), Some(method));
    }
}

#[test]
fn the_request_of_a_variant_is_kept_and_that_of_a_page_where_asked_for() {
    let file =
        pair(1, "GET", "", Says::RequestNamesAnswer, true) + &pair(2, "POST", "q=1", Says::RequestNamesAnswer, false);
    for keep in [false, true] {
        let to = fresh();
        let options = ImportOptions::new();
        run(&to.store, file.as_bytes(), &if keep { options.keep(RecordKind::Request) } else { options });
        let beside = |variant: Option<&Variant>| {
            let found = to.store.history_beside(Lookup::new(URL).variant(variant), RecordKind::Request);
            found.expect("readable").collect::<Result<Vec<_>, _>>().expect("readable")
        };
        assert_eq!(beside(None).len(), usize::from(keep));
        let requests = beside(Some(&post("q=1")));
        assert_eq!((requests.len(), requests[0].page.method.as_deref()), (1, Some("POST")));
    }
}

#[test]
fn what_is_beside_a_variant_and_what_repeats_it_goes_with_it() {
    let revisit = record("revisit", "r", Some("q9"), 9, "HTTP/1.1 200 OK\r\n\r\n").replacen(
        "Content-Type",
        "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest\r\n\
         WARC-Refers-To-Target-URI: http://a.example/api?v=1\r\nWARC-Refers-To-Date: 2020-01-01T00:00:02Z\r\nContent-Type",
        1,
    );
    let file = pair(1, "GET", "", Says::Nothing, false)
        + &pair(2, "POST", "q=1", Says::RequestNamesAnswer, false)
        + &record("metadata", "m", Some("a2"), 2, "note: x\r\n")
        + &revisit
        + &record("request", "q9", None, 9, &request("POST", "q=1"));
    let to = fresh();
    let report = run(&to.store, file.as_bytes(), &ImportOptions::new().keep(RecordKind::Metadata));
    assert_eq!((report.stored, report.variants), (6, 2), "{:?}", report.problems);
    let variant = post("q=1");
    assert_eq!(
        to.store.history_beside(Lookup::new(URL).variant(&variant), RecordKind::Metadata).expect("readable").count(),
        1
    );
    assert!(to.store.history_beside(URL, RecordKind::Metadata).expect("readable").next().is_none());
    let newest = to.store.get(Lookup::new(URL).variant(&variant)).expect("readable").expect("there");
    assert_eq!((newest.kind, &newest.body[..]), (RecordKind::Revisit, &b"POST q=1"[..]));
    let revisit = newest.revisit.expect("a revisit");
    assert_eq!(revisit.profile, RevisitProfile::IdenticalPayload);
    assert!(revisit.original.is_some_and(|original| filemap::canonical::url_of_key(&original.key) == URL.as_bytes()));
    let (files, _) = dumped(&to.store, &DumpOptions::new("x", &[Format::Warc]));
    let back = fresh();
    run(&back.store, &files.file("x-00000.warc.gz"), &ImportOptions::new());
    assert_equal(&back.store, &to.store);
}

/// Records of other URLs.
fn others(count: usize) -> String {
    let one = |nth: usize| {
        record("response", &format!("x{nth}"), None, nth % 60, &answer("x")).replace("/api", &format!("/{nth}"))
    };
    (0..count).map(one).collect()
}

#[test]
fn a_request_too_far_behind_its_answer_is_told_whichever_names_the_other() {
    for (says, count, is_late) in [
        (Says::RequestNamesAnswer, 10, false),
        (Says::RequestNamesAnswer, 300, true),
        (Says::AnswerNamesRequest, 10, false),
        (Says::AnswerNamesRequest, 300, true),
    ] {
        let names = |from: Says, id: &'static str| Some(id).filter(|_| says == from);
        let file = others(1)
            + &record("response", "a", names(Says::AnswerNamesRequest, "q"), 1, &answer("late"))
            + &others(count)
            + &record("request", "q", names(Says::RequestNamesAnswer, "a"), 1, &request("POST", "q=1"));
        let (to, report) = imported(&file);
        let late = u64::from(is_late);
        assert_eq!((report.stored, report.misplaced, report.unusable), (count as u64 + 2, late, 0), "{says:?}");
        assert_eq!((report.damaged, report.without_request), (0, 0), "{says:?}");
        assert_eq!(body(&to.store, None).is_some(), is_late);
        let [told] = &report.problems[..] else {
            assert!(!is_late && report.problems.is_empty(), "{says:?}: {:?}", report.problems);
            continue;
        };
        assert_eq!(told.place.offset as usize, file.find("WARC-Type: request").expect("there") - "WARC/1.0\r\n".len());
        let answer = format!("POST {URL}: the request stands too far behind its answer at offset {}", others(1).len());
        assert!(told.what.contains(&answer), "{}", told.what);
    }
}

#[test]
fn an_answer_whose_request_is_not_in_the_file_is_the_page_and_counted() {
    let alone = |nth: usize, names| record("response", &format!("a{nth}"), names, nth, &answer("alone"));
    let get = record("request", "g", None, 3, &request("GET", ""));
    for (file, without_request) in [
        (alone(1, Some("nothing")), 1),
        (alone(1, Some("nothing")) + &others(100) + &alone(2, Some("nor this")), 2),
        (alone(1, None), 0),
        (alone(3, Some("g")) + &others(100) + &get, 0),
        (get.clone() + &others(100) + &alone(3, Some("g")), 0),
    ] {
        let (to, report) = imported(&file);
        assert_eq!((report.without_request, report.misplaced), (without_request, 0), "{:?}", report.problems);
        assert!(report.problems.is_empty() && body(&to.store, None).is_some());
    }
}

#[test]
fn an_answer_of_any_size_waits_for_its_request() {
    let spool = || filemap::warc::Spool::default().memory_bytes(1 << 20);
    for says in [Says::RequestNamesAnswer, Says::AnswerNamesRequest, Says::Nothing] {
        let long = "x".repeat(9 << 20);
        let file = pair(1, "POST", "q=1", says, false).replace("POST q=1", &format!("POST {long}"));
        let old = answer("POST q=1").len();
        let file = file.replacen(
            &format!("Content-Length: {old}"),
            &format!("Content-Length: {}", old - "q=1".len() + long.len()),
            1,
        );
        for options in [ImportOptions::new(), ImportOptions::new().spool(spool())] {
            let to = fresh();
            let report = run(&to.store, file.as_bytes(), &options);
            assert_eq!((report.stored, report.variants), (2, 1), "{says:?}: {:?}", report.problems);
            assert!(report.problems.is_empty() && body(&to.store, None).is_none(), "{says:?}");
            assert_eq!(body(&to.store, Some(&post("q=1"))).map(|body| body.len()), Some(long.len() + 5), "{says:?}");
        }
    }
}

#[test]
fn many_large_answers_wait_together_and_equal_bodies_are_stored_once() {
    let big = |nth: usize| {
        let text = answer(&"x".repeat(1 << 20));
        record("response", &format!("a{nth}"), None, nth, &text)
    };
    let asked =
        |nth: usize| record("request", &format!("q{nth}"), Some(&format!("a{nth}")), nth, &request("POST", "q=1"));
    let file = (0..30).map(big).collect::<String>() + &(0..30).map(asked).collect::<String>();
    let (to, report) = imported(&file);
    assert_eq!((report.stored, report.variants, report.unchanged), (60, 30, 29 + 29), "{:?}", report.problems);
    assert!(body(&to.store, None).is_none());
}

#[test]
fn a_request_that_cannot_be_kept_is_told_for_its_answer_is_taken_for_the_page() {
    let request = record("request", "q", Some("a"), 1, &request("POST", "q=1"));
    let file = record("response", "a", None, 1, &answer("x"))
        + &request.replacen(&format!("WARC-Target-URI: {URL}\r\n"), "", 1);
    let (to, report) = imported(&file);
    assert_eq!((report.stored, report.unusable), (1, 1));
    assert!(body(&to.store, None).is_some() && report.problems[0].what.contains("WARC-Target-URI"));
}

#[test]
fn large_bodies_are_told_apart_and_their_keys_are_short() {
    let long = |last: char| format!("q={}{last}", "x".repeat(3 << 20));
    let file = pair(1, "POST", &long('1'), Says::Nothing, true) + &pair(2, "POST", &long('2'), Says::Nothing, false);
    let (to, report) = imported(&file);
    assert_eq!((report.stored, report.variants), (4, 2));
    for last in ['1', '2'] {
        let variant = post(&long(last));
        assert!(variant.as_bytes().len() < 100);
        assert!(body(&to.store, Some(&variant)).is_some_and(|body| body.ends_with(last)));
    }
    // A small bound on memory makes no other variant of it.
    let again = fresh();
    let spool = filemap::warc::Spool::default().memory_bytes(1000);
    run(&again.store, file.as_bytes(), &ImportOptions::new().spool(spool));
    assert_equal(&again.store, &to.store);
}

#[test]
fn any_token_is_a_method_and_its_answer_is_not_the_page() {
    for method in ["M-SEARCH", "x-fetch", "X.Y_1", "PO+ST"] {
        for (says, request_first) in [(Says::Nothing, false), (Says::RequestNamesAnswer, true)] {
            let (to, report) = imported(&pair(0, method, "", says, request_first));
            assert_eq!((report.stored, report.variants, report.losses()), (2, 1, 0), "{method}: {:?}", report.problems);
            assert_eq!(body(&to.store, None), None, "{method}");
            let variant = Variant::of_request(method, Some(FORM.as_bytes()), b"").expect("no GET");
            assert_eq!(body(&to.store, Some(&variant)), Some(format!("{method} ")), "{method}");
        }
    }
}

#[test]
fn a_request_that_cannot_be_read_is_named_with_what_its_answer_became() {
    for head in ["P(ST /api HTTP/1.1", "\u{fc} /api HTTP/1.1", " /api HTTP/1.1", "POST", "post /api", "\0\x01", ""] {
        let head = format!("{head}\r\nContent-Length: 3\r\n\r\nq=1");
        for names in [None, Some("a")] {
            let file = record("response", "a", None, 1, &answer("posted")) + &record("request", "q", names, 1, &head);
            let (to, report) = imported(&file);
            assert_eq!((report.stored, report.unusable, report.variants), (1, 1, 0), "{head:?}: {:?}", report.problems);
            let what = &report.problems[0].what;
            assert!(what.contains(URL) && what.contains("unreadable request head"), "{what}");
            assert!(report.problems[0].place.offset > 0, "the request's");
            assert_eq!(body(&to.store, None).as_deref(), Some("posted"));
        }
        // The request is not a request of the answer that names it, either.
        let file = record("response", "a", Some("q"), 1, &answer("posted")) + &record("request", "q", None, 1, &head);
        let (_, report) = imported(&file);
        assert_eq!((report.unusable, report.without_request), (1, 1), "{head:?}");
        let to = fresh();
        let report = run(&to.store, file.as_bytes(), &ImportOptions::new().keep(RecordKind::Request));
        assert_eq!((report.stored, report.unusable), (2, 1), "kept where requests are asked for");
    }
}
