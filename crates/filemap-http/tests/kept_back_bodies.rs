//! Access rules and revisits: a shown revisit reveals no body of a withheld page.

use filemap::acl::AccessRules;
use filemap::page::{RecordKind, Revisit, RevisitProfile};
use filemap::{Page, Variant};
use filemap_http::server::ServerOptions;

use crate::served::{self, Answer, Served};

const TIME: i64 = 1_700_000_000_000;
const STAMP: &str = "20231114221320";
const DAY_MS: i64 = 86_400_000;
const SECRET: &str = "what-nobody-sees";
/// Digests of the bodies of originals.
const DIGEST: &str = "sha1:TWIXZXGDXTVIQXWE3HBA6CTDKDW72BWB";
const DIGEST_OF_SAME: &str = "sha1:XPFXY2HGCSSGF2TSBIKKAVXE6HY4E7WH";
const RULES: &str = "example,unseen)/ - {\"access\": \"exclude\"}\n\
    example,blocked)/ - {\"access\": \"block\"}\n\
    example,past)/ - {\"access\": \"exclude\", \"before\": \"20231101\"}\n";

fn serve(pages: &[Page]) -> Served {
    let mut rules = AccessRules::new();
    rules.add("rules.aclj", RULES.as_bytes()).expect("rules");
    served::with(ServerOptions::new().writes().access(rules), pages)
}

fn page(url: &str, time_ms: i64, body: &str) -> Page {
    let mut page = Page::new(url, time_ms, 200, body);
    page.headers.push("content-type", b"text/html");
    page
}

/// A revisit of a page, with its URL and time.
fn revisit(url: &str, time_ms: i64, of: &Page) -> Page {
    let mut revisit = page(url, time_ms, "");
    revisit.kind = RecordKind::Revisit;
    revisit.digest = of.digest.clone();
    revisit.revisit = Some(Revisit {
        profile: RevisitProfile::IdenticalPayload,
        refers_to_url: Some(of.url.clone()),
        refers_to_ms: Some(of.fetched_at_ms),
        refers_to_id: None,
        original: None,
    });
    revisit
}

/// Every answer with the body of a page.
fn bodies(server: &Served, url: &str) -> Vec<(String, Answer)> {
    let targets = [
        format!("/v1/page?url={url}"),
        format!("/v1/page?url={url}&format=page"),
        format!("/show?url={url}"),
        format!("/rendered?url={url}"),
        format!("/web/{STAMP}id_/{url}"),
        "/v1/changes?pages=1".to_owned(),
    ];
    let mut found: Vec<_> = targets.into_iter().map(|target| (target.clone(), server.get(&target, &[]))).collect();
    for accept in ["application/x-ndjson", "application/warc"] {
        let header = format!("Accept: {accept}");
        let answer = server.ask("POST", "/v1/pages/get", &[&header], format!("{url}\n").as_bytes());
        found.push((format!("/v1/pages/get as {accept}"), answer));
    }
    found
}

fn text(answer: &Answer) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

#[test]
fn a_revisit_shows_no_body_of_a_page_that_is_not_shown() {
    let url = "http://open.example/";
    let past = page("http://past.example/", TIME - 30 * DAY_MS, SECRET);
    for original in [
        page("http://unseen.example/", TIME - DAY_MS, SECRET),
        past,
        page("http://blocked.example/", TIME - DAY_MS, SECRET),
    ] {
        let name = String::from_utf8_lossy(&original.url).into_owned();
        let of_time = revisit(url, TIME, &original);
        let mut with_id = Page { record_id: Some("<urn:uuid:1>".to_owned()), ..original.clone() };
        let mut of_id = revisit(url, TIME, &with_id);
        if let Some(revisit) = &mut of_id.revisit {
            (revisit.refers_to_ms, revisit.refers_to_id) = (None, with_id.record_id.clone());
        }
        with_id.digest = Some(DIGEST.to_owned());
        let mut of_digest = revisit(url, TIME, &with_id);
        if let Some(revisit) = &mut of_digest.revisit {
            revisit.refers_to_ms = None;
        }
        // If the digest of an original is unknown, its body is digested.
        for (original, revisit) in
            [(&original, &of_time), (&with_id, &of_id), (&with_id, &of_digest), (&original, &of_digest)]
        {
            let server = serve(&[original.clone(), revisit.clone()]);
            for (target, answer) in bodies(&server, url) {
                assert!(!text(&answer).contains(SECRET), "{name} by {target}: {answer:?}");
            }
            // As for a revisit whose original is missing.
            let absent = serve(&[page("http://else.example/", TIME, ""), revisit.clone()]);
            for ((target, found), (_, absent)) in bodies(&server, url).into_iter().zip(bodies(&absent, url)) {
                if !target.contains("changes") && !target.contains("warc") {
                    assert_eq!((found.status, text(&found)), (absent.status, text(&absent)), "{name} by {target}");
                }
            }
        }
    }
}

#[test]
fn a_revisit_shows_the_body_of_a_page_that_is_shown() {
    let url = "http://open.example/";
    let past = page("http://past.example/", TIME - DAY_MS, "<p>seen by all");
    for original in [page("http://other.example/", TIME - DAY_MS, "<p>seen by all"), past] {
        let server = serve(&[original.clone(), revisit(url, TIME, &original)]);
        for (target, answer) in bodies(&server, url) {
            assert!(text(&answer).contains("seen by all"), "{target}: {answer:?}");
        }
    }
}

#[test]
fn a_revisit_whose_original_is_not_shown_has_the_body_of_another_of_its_digest() {
    let url = "http://open.example/";
    let with_digest = |mut page: Page| {
        page.digest = Some(DIGEST_OF_SAME.to_owned());
        page
    };
    let hidden = with_digest(page("http://unseen.example/", TIME - DAY_MS, "<p>the same"));
    let other = with_digest(page(url, TIME - 2 * DAY_MS, "<p>the same"));
    let unlike = page(url, TIME - DAY_MS, "<p>unlike");
    let server = serve(&[hidden.clone(), other, unlike.clone(), revisit(url, TIME, &hidden)]);
    assert_eq!(server.get(&format!("/v1/page?url={url}"), &[]).body, b"<p>the same");
    // No other is used instead, though the server said that nothing had changed.
    let mut not_modified = revisit(url, TIME, &page("http://unseen.example/", TIME - DAY_MS, ""));
    if let Some(revisit) = &mut not_modified.revisit {
        revisit.profile = RevisitProfile::ServerNotModified;
    }
    let server = serve(&[page("http://unseen.example/", TIME - DAY_MS, SECRET), unlike, not_modified]);
    assert_eq!(server.get(&format!("/v1/page?url={url}"), &[]).status, 404);
}

#[test]
fn a_revisit_of_a_revisit_shows_no_body_of_a_page_that_is_not_shown() {
    let url = "http://open.example/";
    let original = page("http://unseen.example/", TIME - 2 * DAY_MS, SECRET);
    let middle = revisit("http://open.example/middle", TIME - DAY_MS, &original);
    let first = revisit(url, TIME, &middle);
    let server = serve(&[original, middle, first]);
    for (target, answer) in bodies(&server, url) {
        assert!(!text(&answer).contains(SECRET), "{target}: {answer:?}");
    }
    // Nor one reached through a revisit that is not shown.
    let original = page("http://other.example/", TIME - 2 * DAY_MS, SECRET);
    let middle = revisit("http://unseen.example/", TIME - DAY_MS, &original);
    let server = serve(&[original, middle.clone(), revisit(url, TIME, &middle)]);
    assert_eq!(server.get(&format!("/v1/page?url={url}"), &[]).status, 404);
}

#[test]
fn an_answer_to_a_form_shows_no_body_of_one_that_is_not_shown() {
    let variant = Some(Variant::new("__wb_method=POST&a=1").expect("a variant"));
    let of_form = |page: Page| Page { variant: variant.clone(), ..page };
    let original = of_form(page("http://unseen.example/", TIME - DAY_MS, SECRET));
    let server = serve(&[original.clone(), of_form(revisit("http://open.example/", TIME, &original))]);
    let answer = server.get("/v1/page?url=http://open.example/&variant=__wb_method%3DPOST%26a%3D1", &[]);
    assert_eq!(answer.status, 404, "{answer:?}");
}
