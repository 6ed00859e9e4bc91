//! Revisits of WARC files: found by every way to write a digest, under the other scheme, by URL
//! and time, by record id, through another revisit; and counted while their original is missing.

use crate::samples::{Fresh, fresh, run};
use base64::Engine as _;
use filemap::PageStore;
use filemap::import::ImportOptions;
use filemap::store::RevisitCount;
use std::ops::ControlFlow;

const BODY: &str = "the very same payload";

/// The digest of `BODY` written in this way: algorithm with or without a hyphen, upper case or
/// lower, in base 16, 32 or 64.
fn forms() -> Vec<String> {
    use md5::Digest as _;
    let digests: [(&str, Vec<u8>); 4] = [
        ("md5", md5::Md5::digest(BODY).to_vec()),
        ("sha1", sha1::Sha1::digest(BODY).to_vec()),
        ("sha256", sha2::Sha256::digest(BODY).to_vec()),
        ("sha512", sha2::Sha512::digest(BODY).to_vec()),
    ];
    let mut forms = Vec::new();
    for (name, bytes) in digests {
        let hyphened =
            format!("{}-{}", name.trim_end_matches(char::is_numeric), name.trim_start_matches(char::is_alphabetic));
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let base64 = base64::engine::general_purpose::STANDARD.encode(&bytes);
        for label in [name.to_owned(), hyphened.clone(), name.to_uppercase(), hyphened.to_uppercase()] {
            for value in
                [hex.clone(), hex.to_uppercase(), base32(&bytes), base32(&bytes).to_lowercase(), base64.clone()]
            {
                forms.push(format!("{label}:{value}"));
                forms.push(format!("{label}:{}", value.trim_end_matches('=')));
            }
        }
    }
    forms.sort();
    forms.dedup();
    forms
}

fn base32(bytes: &[u8]) -> String {
    let bit = |at: usize| bytes.get(at / 8).is_some_and(|byte| byte >> (7 - at % 8) & 1 == 1);
    let digits = (0..(8 * bytes.len()).div_ceil(5))
        .map(|at| (0..5).fold(0, |digit, n| digit * 2 + usize::from(bit(5 * at + n))));
    let text: String = digits.map(|digit| char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[digit])).collect();
    format!("{text:=<width$}", width = text.len().div_ceil(8) * 8)
}

/// A record of `url` on this day of 2020, with these fields.
fn record(kind: &str, url: &str, day: u32, fields: &str, block: &str) -> Vec<u8> {
    format!(
        "WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nWARC-Date: 2020-01-{day:02}T00:00:00Z\r\n{fields}\
         Content-Type: application/http;msgtype=response\r\nContent-Length: {}\r\n\r\n{block}\r\n\r\n",
        block.len()
    )
    .into_bytes()
}

fn original(url: &str, day: u32, fields: &str, body: &str) -> Vec<u8> {
    record("response", url, day, fields, &format!("HTTP/1.1 200 OK\r\nServer: first\r\n\r\n{body}"))
}

fn revisit(url: &str, day: u32, fields: &str) -> Vec<u8> {
    let profile = "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest\r\n";
    record("revisit", url, day, &format!("{profile}{fields}"), "HTTP/1.1 200 OK\r\nServer: again\r\n\r\n")
}

fn digest(text: &str) -> String {
    format!("WARC-Payload-Digest: {text}\r\n")
}

fn store_of(records: &[Vec<u8>]) -> (Fresh, RevisitCount) {
    let fresh = fresh();
    let mut report = run(&fresh.store, &records.concat(), &ImportOptions::new());
    assert_eq!((report.damaged, report.unusable), (0, 0), "{report:?}");
    let count = report.unresolved.count(&fresh.store).expect("readable");
    let verified =
        fresh.store.count_revisits(&mut |_| ControlFlow::Continue(())).expect("readable").expect("not broken off");
    assert_eq!((verified.revisits, verified.unresolved), (count.revisits, count.unresolved));
    (fresh, count)
}

fn body(store: &PageStore, url: &str) -> String {
    let page = store.get(url).expect("readable").expect("there");
    assert_eq!(page.headers.get("Server"), Some(&b"again"[..]), "the newest is the revisit");
    assert_eq!(page.lacks_body(), page.body.is_empty());
    String::from_utf8(page.body).expect("text")
}

#[test]
fn every_label_encoding_and_case_of_a_digest_finds_the_original() {
    let forms = forms();
    assert!(forms.len() > 100, "{}", forms.len());
    let algorithm = |form: &str| form.split(':').next().map(|label| label.replace('-', "").to_lowercase());
    let mut records = Vec::new();
    for (at, form) in forms.iter().enumerate() {
        // Beside another body of the same URL, so that nothing but the digest finds it.
        let same = forms.iter().filter(|other| algorithm(other) == algorithm(form)).nth(at % 7).expect("there");
        let url = format!("http://a.example/{at}");
        records.push(original(&url, 1, &digest(same), BODY));
        records.push(original(&url, 2, &digest("sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5"), "another"));
        records.push(revisit(&url, 3, &digest(form)));
    }
    let (fresh, count) = store_of(&records);
    assert_eq!((count.revisits, count.unresolved), (forms.len() as u64, 0), "{:?}", count.urls);
    for (at, form) in forms.iter().enumerate() {
        assert_eq!(body(&fresh.store, &format!("http://a.example/{at}")), BODY, "{form}");
    }
}

#[test]
fn a_revisit_finds_its_original_under_the_other_scheme_by_digest_only() {
    let own = digest(&forms()[0]);
    let (fresh, count) = store_of(&[
        original("http://a.example/x?q=1", 1, &own, BODY),
        revisit("https://a.example/x?q=1", 2, &own),
        original("https://b.example/", 1, &own, BODY),
        revisit("http://b.example/", 2, &own),
        original("http://c.example/", 1, "", BODY),
        revisit("https://c.example/", 2, "WARC-Refers-To-Date: 2020-01-01T00:00:00Z\r\n"),
        original("http://d.example/other", 1, &own, BODY),
        revisit("https://d.example/", 2, &own),
    ]);
    assert_eq!(body(&fresh.store, "https://a.example/x?q=1"), BODY);
    assert_eq!(body(&fresh.store, "http://b.example/"), BODY);
    assert_eq!(body(&fresh.store, "https://c.example/"), "");
    assert_eq!(body(&fresh.store, "https://d.example/"), "");
    assert_eq!((count.revisits, count.unresolved), (4, 2));
    assert_eq!(count.urls, [b"https://c.example/".to_vec(), b"https://d.example/".to_vec()]);
}

#[test]
fn a_revisit_finds_its_original_as_the_standard_names_it() {
    let refers = |url: &str, day: u32| {
        format!("WARC-Refers-To-Target-URI: {url}\r\nWARC-Refers-To-Date: 2020-01-{day:02}T00:00:00Z\r\n")
    };
    let forms = forms();
    let (md5, sha1) = (digest(&forms[0]), digest("sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5"));
    let id = "WARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-00000000000f>\r\n";
    let (fresh, count) = store_of(&[
        original("http://a.example/", 1, "", BODY),
        original("http://a.example/", 2, "", "another"),
        revisit("http://b.example/", 3, &refers("http://A.example:80", 1)),
        // Digests of two algorithms say nothing of each other.
        original("http://c.example/", 1, &md5, BODY),
        revisit("http://c.example/", 3, &format!("{sha1}{}", refers("http://c.example/", 1))),
        // By the record's id.
        original("http://d.example/", 1, id, BODY),
        original("http://d.example/", 2, "", "another"),
        revisit("http://d.example/", 3, &id.replace("WARC-Record-ID", "WARC-Refers-To")),
        // Of a revisit.
        revisit("http://e.example/", 4, &refers("http://b.example/", 3)),
        // Of itself: read to an end.
        revisit("http://f.example/", 4, &refers("http://f.example/", 4)),
    ]);
    for host in ["b", "c", "d", "e"] {
        assert_eq!(body(&fresh.store, &format!("http://{host}.example/")), BODY, "{host}");
    }
    assert_eq!(body(&fresh.store, "http://f.example/"), "");
    assert_eq!((count.revisits, count.unresolved), (5, 1));
}

#[test]
fn what_stays_unresolved_is_counted_and_resolves_when_the_original_comes() {
    let own = digest(&forms()[0]);
    let fresh = fresh();
    let first = run(&fresh.store, &revisit("https://a.example/", 2, &own), &ImportOptions::new());
    assert_eq!(first.unresolved.clone().count(&fresh.store).expect("readable").unresolved, 1);
    assert!(fresh.store.get("https://a.example/").expect("readable").expect("there").lacks_body());
    let again = run(&fresh.store, &revisit("https://a.example/", 2, &own), &ImportOptions::new());
    assert_eq!(again.already_there, 1);
    assert_eq!(again.unresolved.clone().count(&fresh.store).expect("readable").unresolved, 1, "said again");
    let second = run(&fresh.store, &original("http://a.example/", 1, &own, BODY), &ImportOptions::new());
    let mut all = first;
    all.add(second);
    assert_eq!(all.unresolved.count(&fresh.store).expect("readable").unresolved, 0);
    assert_eq!(body(&fresh.store, "https://a.example/"), BODY);
}

#[test]
fn each_url_without_an_original_is_named_once() {
    let named = "WARC-Refers-To-Target-URI: http://z.example/\r\n";
    let (_, count) = store_of(&[
        revisit("http://a.example/", 1, ""),
        revisit("http://b.example/", 1, ""),
        revisit("http://a.example/", 2, named),
    ]);
    assert_eq!((count.revisits, count.unresolved), (3, 3));
    assert_eq!(count.urls, [b"http://a.example/".to_vec(), b"http://b.example/".to_vec()]);
}

#[test]
fn a_revisit_finds_its_original_by_its_body_where_digests_cannot_be_compared() {
    let of = |algorithm: &str| digest(forms().iter().find(|form| form.starts_with(algorithm)).expect("there"));
    let mut records = Vec::new();
    for (host, own) in [("a", String::new()), ("b", of("md5")), ("c", of("sha512"))] {
        records.push(original(&format!("http://{host}.example/"), 1, &own, BODY));
        records.push(original(&format!("http://{host}.example/"), 2, "", "another"));
        records.push(revisit(&format!("https://{host}.example/"), 3, &of("sha256")));
    }
    records.push(original("http://d.example/", 1, "", "not it"));
    records.push(revisit("http://d.example/", 2, &of("sha1")));
    let (fresh, count) = store_of(&records);
    for host in ["a", "b", "c"] {
        assert_eq!(body(&fresh.store, &format!("https://{host}.example/")), BODY, "{host}");
    }
    assert_eq!((count.revisits, count.unresolved), (4, 1), "{:?}", count.urls);
    // The original is there already, and its repetition has a digest that the store does not keep.
    let fresh = fresh_with(&[original("http://a.example/", 1, &of("sha1"), BODY)]);
    let more = [original("http://a.example/", 1, &of("sha256"), BODY), revisit("http://a.example/", 2, &of("sha256"))];
    let mut report = run(&fresh.store, &more.concat(), &ImportOptions::new());
    assert_eq!((report.already_there, report.stored), (1, 1));
    assert_eq!(report.unresolved.count(&fresh.store).expect("readable").unresolved, 0);
}

fn fresh_with(records: &[Vec<u8>]) -> Fresh {
    let fresh = fresh();
    run(&fresh.store, &records.concat(), &ImportOptions::new());
    fresh
}

#[test]
fn a_revisit_of_an_empty_payload_lacks_nothing() {
    for empty in ["sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ", "MD5:D41D8CD98F00B204E9800998ECF8427E"] {
        let (fresh, count) = store_of(&[revisit("http://a.example/", 1, &digest(empty))]);
        assert_eq!((count.revisits, count.unresolved), (1, 0));
        assert!(!fresh.store.get("http://a.example/").expect("readable").expect("there").lacks_body());
    }
}

#[test]
fn many_revisits_of_one_url_take_linear_time() {
    let time = |number: u32| {
        let mut records =
            vec![original("http://a.example/", 1, &digest("sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5"), BODY)];
        for at in 0..number {
            let value = format!("sha1:{at:040x}");
            records.push(original(&format!("http://b.example/{at}"), 1, "", "x"));
            let named = "WARC-Refers-To-Target-URI: http://a.example/\r\n";
            records.push(revisit(&format!("http://c.example/{at}"), 2, &format!("{named}{}", digest(&value))));
        }
        let fresh = fresh();
        let mut report = run(&fresh.store, &records.concat(), &ImportOptions::new());
        let started = std::time::Instant::now();
        let count = report.unresolved.count(&fresh.store).expect("readable");
        assert_eq!(count.unresolved, u64::from(number));
        started.elapsed()
    };
    time(100);
    // On a busy machine one of the two may take long for no reason of its own.
    let took: Vec<_> = (0..6)
        .map(|_| (time(1000), time(4000)))
        .take_while(|(one, four)| *four >= *one * 12 + std::time::Duration::from_millis(200))
        .collect();
    assert!(took.len() < 6, "{took:?}");
}
