//! Many pages in one request, in and out: a line for each, whatever the outcome.

use filemap::dump::jsonl;
use filemap::{Page, PageRead};
use filemap_http::server::ServerOptions;
use serde_json::Value;

use crate::served::{Answer, served, with};

const TIME: i64 = 1_700_000_000_000;

fn pages(count: usize) -> Vec<Page> {
    let page = |nth| Page::new(format!("http://a.example/{nth}"), TIME, 200, vec![nth as u8; nth % 300 * 50]);
    (0..count).map(page).collect()
}

fn lines(answer: &Answer) -> Vec<Value> {
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/x-ndjson")), "{answer:?}");
    let text = std::str::from_utf8(&answer.body).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn lines_and_single_puts_of_the_same_pages_wait_for_each_other_and_not_for_ever() {
    // One call at a time: a call that held it and waited for a page's lock would stop everything.
    let server = with(ServerOptions::new().writes().max_calls(1), &[]);
    let mut sent = Vec::new();
    for page in pages(3_000) {
        jsonl::write(&page, &mut sent).expect("written");
    }
    let kind = ["Content-Type: application/x-ndjson"];
    std::thread::scope(|scope| {
        let uploads: Vec<_> =
            (0..2).map(|_| scope.spawn(|| lines(&server.ask("POST", "/v1/pages?durable=0", &kind, &sent)))).collect();
        for of in 0..4 {
            let server = &server;
            scope.spawn(move || {
                for nth in 0..100 {
                    let target = format!("/v1/page?url=http://a.example/{}&durable=0", nth * 4 + of);
                    assert_eq!(server.ask("PUT", &target, &[], b"single").status, 202);
                }
            });
        }
        for upload in uploads {
            let told = upload.join().expect("answered");
            assert_eq!((told.len(), told[3_000]["refused"].as_u64()), (3_001, Some(0)));
            let numbers: Vec<_> = told[..3_000].iter().filter_map(|line| line["line"].as_u64()).collect();
            assert_eq!(numbers, (1..=3_000).collect::<Vec<u64>>());
        }
    });
    assert_eq!(server.client().count(&filemap::access::Scope::new()).expect("counted"), 3_000);
}

#[test]
fn lines_are_put_and_each_is_answered() {
    let server = served(&[]);
    let client = server.client();
    let mut sent = Vec::new();
    for page in pages(2_000) {
        jsonl::write(&page, &mut sent).expect("written");
    }
    let kind = ["Content-Type: application/x-ndjson"];
    let stored = lines(&server.ask("POST", "/v1/pages", &kind, &sent));
    assert_eq!(stored.len(), 2_001);
    assert!(stored[..2_000].iter().enumerate().all(|(nth, line)| {
        line["line"].as_u64() == Some(nth as u64 + 1) && line["outcome"].as_str() == Some("stored")
    }));
    assert_eq!(
        stored[2_000],
        serde_json::json!({ "lines": 2000, "stored": 2000, "unchanged": 0, "refused": 0, "durable": true })
    );
    for page in pages(2_000).iter().step_by(97) {
        assert_eq!(client.get(&(&page.url).into()).expect("readable").as_ref(), Some(page));
    }
    let again = lines(&server.ask("POST", "/v1/pages", &kind, &sent));
    assert!(again[..2_000].iter().all(|line| line["outcome"].as_str() == Some("present")), "nothing is added twice");
    let mixed = b"{\"url\":\"http://a.example/new\",\"time_ms\":1,\"body\":\"x\"}\nnot JSON\n\n{\"url\":\"no url\",\"time_ms\":1,\"body\":\"x\"}\n";
    let mixed = lines(&server.ask("POST", "/v1/pages?durable=0", &kind, mixed));
    assert_eq!(mixed[0]["outcome"].as_str(), Some("stored"));
    assert!(
        mixed[1]["line"] == 2 && mixed[1]["error"].as_str().is_some_and(|words| words.contains("JSON")),
        "{mixed:?}"
    );
    assert!(
        mixed[2]["line"] == 4 && mixed[2]["error"].as_str().is_some_and(|words| words.contains("no url")),
        "{mixed:?}"
    );
    assert_eq!(
        mixed[3],
        serde_json::json!({ "lines": 4, "stored": 1, "unchanged": 0, "refused": 2, "durable": false })
    );
    let (status, words) = server.ask("POST", "/v1/pages", &["Content-Type: text/plain"], b"x").problem();
    assert!(status == 415 && words.contains("text/plain"), "{status} {words}");
}

#[test]
fn pages_come_as_a_warc_stream_that_another_store_takes() {
    let server = served(&pages(50));
    let wanted: String = (0..50).map(|nth| format!("http://a.example/{nth}\n")).collect();
    let wanted = wanted + "http://none.example/\nno url\n";
    let answer = server.ask("POST", "/v1/pages/get", &["Accept: application/warc"], wanted.as_bytes());
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/warc")));
    let text = String::from_utf8_lossy(&answer.body);
    assert!(text.contains("{\"url\":\"http://none.example/\",\"is_absent\":true}"), "{text}");
    assert_eq!(text.matches("WARC-Type: warcinfo").count(), 3, "what is not there has a record, too");
    let other = served(&[]);
    let told = lines(&other.ask("POST", "/v1/pages", &["Content-Type: application/warc"], &answer.body));
    let sums = told.last().expect("sums");
    assert_eq!((&sums["stored"], &sums["unusable"]), (&50.into(), &0.into()));
    assert!(told.iter().all(|line| line["problem"].is_null()), "{told:?}");
    for page in pages(50) {
        assert_eq!(other.client().get(&(&page.url).into()).expect("readable").as_ref(), Some(&page));
    }
}

#[test]
fn a_file_of_an_archive_is_imported_and_its_problems_are_told() {
    let server = served(&[]);
    let file = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/warc/python-docs.warc.gz"));
    let file = file.expect("the test data is there");
    let kind = ["Content-Type: application/warc"];
    let whole = lines(&server.ask("POST", "/v1/pages", &kind, &file));
    let report = whole.last().expect("a report");
    assert_eq!((report["stored"].as_u64(), report["damaged"].as_u64()), (Some(64), Some(0)), "{report}");
    let again = lines(&server.ask("POST", "/v1/pages", &kind, &file));
    assert_eq!(again.last().expect("a report")["stored"].as_u64(), Some(0));
    let mut damaged = file.clone();
    damaged[file.len() / 2] ^= 0xff;
    let told = lines(&served(&[]).ask("POST", "/v1/pages", &kind, &damaged));
    let report = told.last().expect("a report");
    let problem = told.iter().find(|line| line["problem"] == "damage").expect("a problem");
    assert!(report["damaged"].as_u64() > Some(0) && problem["offset"].is_u64(), "{told:?}");
}

#[test]
fn pages_are_fetched_in_the_order_of_their_urls() {
    let server = served(&pages(300));
    let mut urls: Vec<String> = (0..300).rev().map(|nth| format!("http://a.example/{nth}")).collect();
    urls.insert(7, "http://a.example/none".to_owned());
    urls.insert(9, "no url".to_owned());
    let found = lines(&server.ask("POST", "/v1/pages/get", &[], (urls.join("\r\n") + "\n\n").as_bytes()));
    assert_eq!(found.len(), urls.len());
    for (line, url) in found.iter().zip(&urls) {
        assert_eq!(line["url"].as_str(), Some(url.as_str()));
    }
    assert_eq!(found[7]["is_absent"].as_bool(), Some(true));
    assert!(found[9]["error"].as_str().is_some_and(|words| words.contains("no url")), "{}", found[9]);
    let page = jsonl::read(found[5].to_string().as_bytes()).expect("a page");
    assert_eq!(page, pages(300)[294]);
}
